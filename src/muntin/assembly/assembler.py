"""Follows sealed panes, closes windows, and runs the standing queries of each.

One assembler a pipeline, in the pipeline's own process, under the writer's epoch. It only reads
what was committed, so that after a crash it goes on from its stored state and closes the same
windows again.
"""

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from muntin.assembly.following import ClosingWindow, FloatingFollower, Follower, follow, open_from
from muntin.assembly.standing import StandingQueries
from muntin.errors import LedgerError
from muntin.kinds import SegmentSpec
from muntin.ledger.base import Ledger, Writer
from muntin.ledger.records import ClosedWindow, TrendPoint
from muntin.ledger.rules import INT64_MIN
from muntin.ledger.slices import NOTHING, SLICES_MAX, Slices, added_up
from muntin.reading.extent import Layout
from muntin.reading.moment import LedgerMoment, window_at
from muntin.reading.pieces import Pieces, SegmentCache, pieces_of
from muntin.reading.stored_results import is_of, outdated
from muntin.select.catalog import ForClause
from muntin.sets import Int64s, as_set
from muntin.spec import Pipeline
from muntin.times import now_us

WINDOWS_AT_ONCE = 64  # written in one transaction
WINDOWS_READ = 1000  # at once
OWED_BITS = 14  # of how many panes are owed one by one
OWED_BYTES_MAX = 24 * SLICES_MAX


class Assembler:
    """Closes windows as panes are sealed."""

    def __init__(
        self,
        pipeline: Pipeline,
        ledger: Ledger,
        writer: Writer,
        queries: StandingQueries,
        cache: SegmentCache,
    ) -> None:
        self._pipeline = pipeline
        self._ledger = ledger
        self._writer = writer
        self._standing = queries
        self._queries = {
            name: [
                query
                for query, of in queries.follows.items()
                if of == name and pipeline.queries[query].on == "window"
            ]
            for name in pipeline.summaries
        }
        self._cache = cache
        stored = ledger.assembler(pipeline.name) or {}
        self._history_dropped = {
            n: state["history_dropped"] for n, state in stored.items() if "history_dropped" in state
        }
        """Up to when history has been dropped, even if it is kept longer now: what closed before
        would be a first revision again."""
        self._followers: dict[str, Follower] = {}
        self.layouts: dict[str, Layout] = {}
        for name, spec in pipeline.summaries.items():
            if not isinstance(spec, SegmentSpec):
                continue  # it lies in no panes
            layout = Layout(name, spec, pipeline.pane, pipeline.rungs)
            self.layouts[name] = layout
            if spec.window is not None:
                dropped = self._history_dropped.get(name, INT64_MIN)
                self._followers[name] = follow(layout, spec.window, stored.get(name), dropped)
        self._owed = {
            name: _from_text(state["owed"], f"{ledger.url}: {pipeline.name}, summaries.{name}")
            for name, state in stored.items()
            if "owed" in state
        }
        """Late events that are committed, and that no revision tells of yet."""
        self._away = {
            name: {what: state[what] for what in state if what != "owed"}
            for name, state in stored.items()
            if name not in self._followers
        }
        """Where those were that are not followed now: they may come back."""
        self._reached: dict[str, int] = {}  # standing query -> start of its newest result
        self._longest: dict[str, int] = {}
        """Of the windows that have closed, whatever the spec said when they began."""
        self._check_all = True
        self._ahead = False  # followers are beyond what is stored, for good where storing it failed
        self._answers: dict[int, Mapping[str, Any]] = {}
        """To clients' commands that were obeyed, until they are stored with what came of them."""

    def step(self, watermark: int | None, came: Mapping[str, Slices]) -> list[ClosedWindow]:
        """Close what the watermark seals, revise what late events changed; the windows written.

        `watermark`: microseconds; None before the first event.
        `came`: summary -> the panes that events reached since the last step, and how many of them.
        """
        if watermark is None:
            return []
        self._ahead = True
        sealed_until = watermark // self._pipeline.pane * self._pipeline.pane
        self._note_history(watermark)
        written = []
        came = self._with_owed(came)
        with pieces_of(self._ledger, self._cache) as now:
            self._owed = self._owing(now, came)
            for name, follower in self._followers.items():
                passed = follower.next
                late = NOTHING
                if passed is not None and name in came:
                    late = came[name].between(0, passed)
                if len(late):
                    follower.forget()
                if len(late) or self._check_all:
                    panes = self._kept_panes(now, name, late.starts)
                    written += self._revise(now, name, late, panes)
                written += self._write_each(name, follower.step(now, sealed_until))
                self._store([], [])
        if self._history_dropped:  # also of those that nobody follows
            self._store([], [])
        self._check_all = self._ahead = False
        return written

    def keep_history_in_mind(self, watermark: int | None) -> None:
        """Store up to when history may be dropped now, where no step does so before it is."""
        if watermark is not None:
            self._note_history(watermark)
            self._store([], [])

    def _note_history(self, watermark: int) -> None:
        history = self._pipeline.retention.history
        if history is not None:
            before = (watermark - history) // self._pipeline.pane * self._pipeline.pane
            for name in (*self._followers, *self._away):
                known = self._history_dropped.get(name, INT64_MIN)
                self._history_dropped[name] = max(before, known)

    def owing(self, now: Pieces, came: Mapping[str, Slices]) -> Mapping[str, Any] | None:
        """The state to store with a batch that brings late events which nothing else would tell of.

        Where retention has dropped a part of a window, what is stored of it does not show that more
        came; nor does a window where they came before it, to what a standing query reads as well.
        Should this process end before it has written the revision, the next one must know; so must
        who follows again where nobody does now. None where nothing is owed that is not stored.
        """
        owed = self._owing(now, self._with_owed(came))
        if not owed or self._states(owed) == self._stored:
            return None
        self._stored = None  # what is stored is not what was
        return self._states(owed)

    def _with_owed(self, came: Mapping[str, Slices]) -> Mapping[str, Slices]:
        return {
            name: added_up([came.get(name, NOTHING), self._owed.get(name, NOTHING)])
            for name in {*came, *self._owed}
        }

    def _owing(self, now: Pieces, came: Mapping[str, Slices]) -> dict[str, Slices]:
        owed: dict[str, Slices] = {}
        # Before those that are not followed now come back, retention may drop what shows it.
        reached = {name: state["next"] for name, state in self._away.items()}
        for name, follower in self._followers.items():
            if self._clauses(name) or now.extent(self.layouts[name]).rollups.dropped:
                reached[name] = follower.next
        for name, passed in reached.items():
            if passed is not None:
                late = came.get(name, NOTHING).between(0, passed)
                before = self._owed.get(name, NOTHING)
                if len(late).bit_length() > max(len(before).bit_length(), OWED_BITS):
                    late = self._folded(name, late)
                if len(late):
                    owed[name] = late
        return owed

    def _folded(self, name: str, late: Slices) -> Slices:
        """The same to each closed window in fewer slices: where nobody follows, all that come late
        are owed, and there may be millions of panes.

        Between two ends of windows the first has all events. The last stays, as one of none: what
        a standing query reads ends where a window does, and may begin between the two.
        """
        pages = self._closed(name, None, int(late.starts[-1]) + 1)
        spans = [(window.start, window.end) for windows in pages for window in windows]
        edges = as_set(np.array(spans, np.int64).ravel())
        cells = np.searchsorted(edges, late.starts, side="right")
        first = np.flatnonzero(np.diff(cells, prepend=-1))
        last = late.starts[np.append(first[1:], len(cells)) - 1]
        events, came = (np.add.reduceat(each, first) for each in (late.events, late.late))
        whole, none = Slices(late.starts[first], events, came), np.zeros_like(last)
        return added_up([whole, Slices(last, none, none)])

    def end(self, newest: int, watermark: int | None) -> list[ClosedWindow]:
        """The source has ended: all its panes are passed, and what is open closes with them.
        `newest` is the time of the newest event, microseconds."""
        pane = self._pipeline.pane
        # what closes now holds what is owed: a run without a batch has not told of it yet
        written = self.step(watermark, {})
        with pieces_of(self._ledger, self._cache) as now:
            for name, follower in self._followers.items():
                written += self._write_each(name, follower.step(now, newest // pane * pane + pane))
                written += self._write_each(name, follower.end(now))
                self._store([], [])
        return written

    def open_starts(self, name: str, before: int) -> Sequence[int]:
        """Starts of the windows of a summary that have not closed, before a time, ascending."""
        follower = self._followers.get(name)
        return [] if follower is None else follower.open_starts(before)

    def open_from(self) -> tuple[dict[str, int], dict[str, int]]:
        """Where the windows begin that have not closed, of each summary, also of one that may come
        back; and the same of each standing query on them.

        The end of a source may have closed them as they were: as long as they are open, this is
        no history yet.
        """
        states = self._away | {name: each.state() for name, each in self._followers.items()}
        begin = {n: at for n, state in states.items() if (at := open_from(state)) is not None}
        of = {q: begin[n] for n in begin for q in self._queries.get(n, ())}
        return begin, of

    def _kept_panes(self, now: Pieces, name: str, late: Int64s) -> Int64s:
        """The late panes, at the start all others as well, whose windows history still holds."""
        end = self._followers[name].next
        if self._check_all and end is not None:
            layout = self.layouts[name]
            dropped = now.extent(layout).dropped
            since = INT64_MIN if dropped is None else dropped
            there = now.slices(layout, layout.pane, since, end).starts
            late = as_set(np.concatenate((there, late)))
        return late[late >= self._history_dropped.get(name, INT64_MIN)]

    def _write_each(self, name: str, closings: Iterator[ClosingWindow]) -> list[ClosedWindow]:
        """Write windows as they close, some at once. One that the end of a source had closed is the
        next revision; as it was, it is none."""
        written: list[ClosedWindow] = []
        pending: list[ClosingWindow] = []
        newest = self._ledger.windows(name, limit=1, newest_first=True)
        for closed in closings:
            window = closed.window
            if newest and window.start <= newest[0].start:
                before = window_at(self._ledger, name, window.start)
                if before is not None:
                    again = replace(window, revision=before.revision, closed_at=before.closed_at)
                    if again == before:  # it tells no more than what is stored
                        continue
                    window = replace(window, revision=before.revision + 1)
            pending.append(replace(closed, window=window))
            if len(pending) >= WINDOWS_AT_ONCE:
                written += self._write(pending)
                pending = []
        return written + self._write(pending) if pending else written

    def command(
        self, action: str, summary: str | None, asked: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Obey `slow_down` or `resume`; tells what was done.

        `asked`: the ledger's commands that ask for it. They are answered in the transaction that
        stores what was done; where it fails, by the next one, whatever came of the first.
        """
        if self._ahead:
            raise LedgerError("the last closed windows could not be stored: ask after a restart")
        names = [summary] if summary else list(self._followers or self._pipeline.summaries)
        answers, changed = {}, []
        for name in names:
            follower = self._followers.get(name)
            if not isinstance(follower, FloatingFollower):
                answers[name] = {"done": False, "why": "its windows do not float"}
                continue
            before = follower.window
            after = before.slow_down() if action == "slow_down" else before.resume()
            follower.window = after
            changed.append((follower, before))
            answers[name] = {"done": after != before, "length_us": after.length_now}
            if after == before:
                why = "not slowed down" if action == "resume" else "at its limit already"
                answers[name]["why"] = why
        self._answers |= dict.fromkeys(asked, answers)
        try:
            self._store([], [])
        except BaseException:
            if not asked:  # as if nobody had asked; but a store may have taken it
                self._stored = None
                for follower, before in changed:
                    follower.window = before
            raise
        return answers

    def store_answers(self) -> None:
        """Those that could not be stored when their commands were obeyed."""
        if self._answers:
            self._store([], [])

    def open_windows(self) -> dict[str, dict[str, Any]]:
        """Where the open windows stand: start, end, and how full their sealed panes make them."""
        shown = {}
        for name, follower in self._followers.items():
            opened = follower.open_window()
            if opened is not None:
                start, end = opened
                shown[name] = {"start": start, "end": end, "fill": follower.open_fill()}
        return shown

    def _revise(self, now: Pieces, name: str, late: Slices, panes: Int64s) -> list[ClosedWindow]:
        """Publish again the closed windows that late events have changed, and close those that had
        nothing to hold before; what was owed is not any more, in the same transaction."""
        owed = self._owed.pop(name, NOTHING)
        missed = self._followers[name].missed(now, panes)
        try:
            return self._write(chain(self._revisions(now, name, late), missed))
        except BaseException:
            self._owed[name] = owed
            raise

    def _revisions(self, now: Pieces, name: str, late: Slices) -> Iterator[ClosingWindow]:
        """Those whose panes hold more events than when they closed, or whose standing queries read
        panes before them that do.

        Where retention has dropped a part of one, its revision says what it lacks.
        """
        layout = self.layouts[name]
        clauses = self._clauses(name)
        at = last = None
        if not self._check_all:
            at = int(late.starts[0]) - self._longest.get(name, 0)
            if all(clause.kind == "last" for clause in clauses):
                after = max((clause.length_us or 0 for clause in clauses), default=0)
                last = int(late.starts[-1]) + layout.pane + after
        for windows in self._closed(name, at, last):
            hold_more = [False] * len(windows)
            if self._check_all:
                self._note_lengths(windows)
                hold_more = _may_hold_more(now, layout, windows)
            for window, holds_more in zip(windows, hold_more, strict=True):
                came = late.between(window.start, window.end)
                read = any(len(_read(clause, window.end, late, layout.pane)) for clause in clauses)
                if holds_more or len(came) or read:
                    closed = self._revised(now, layout, window, came, read)
                    if closed is not None:
                        yield closed

    def _closed(
        self, name: str, at: int | None, end: int | None
    ) -> Iterator[Sequence[ClosedWindow]]:
        """The closed windows that start from one time on, before another; some at once."""
        while windows := self._ledger.windows(name, start=at, end=end, limit=WINDOWS_READ):
            yield windows
            if len(windows) < WINDOWS_READ:
                break
            at = windows[-1].start + 1

    def _clauses(self, name: str) -> set[ForClause]:
        """With which standing queries on a summary's windows read other panes as well."""
        return {
            clause for query in self._queries[name] for _, clause in self._standing.clauses[query]
        }

    def _revised(
        self, now: Pieces, layout: Layout, window: ClosedWindow, came: Slices, read: bool
    ) -> ClosingWindow | None:
        """The next revision of a window, if it has changed, or what its standing queries read."""
        reach = now.extent(layout).reach(window.start, window.end)
        after = replace(window, revision=window.revision + 1)
        if not reach.whole:
            if not len(came) and not read:
                return None
            events, late = window.events + came.count, window.late + came.late_count
            return ClosingWindow(replace(after, events=events, late=late), None)
        if now.events(layout, window.start, window.end) <= window.events and not read:
            return None
        merged = now.merged_runs(layout, reach)
        assert merged.segment is not None  # noqa: S101 (it has as many events, or more)
        fill = layout.spec.fill(merged.segment)
        return ClosingWindow(
            replace(after, events=merged.events, late=merged.late, fill=fill), merged
        )

    def _write(self, closed: Iterable[ClosingWindow]) -> list[ClosedWindow]:
        """All in one transaction; what each holds is needed one at a time."""
        windows: list[ClosedWindow] = []
        trends: list[TrendPoint] = []
        with self._standing.moment() as moment:
            for each in closed:
                window = replace(each.window, closed_at=now_us())
                windows.append(window)
                for query in self._queries[window.summary]:
                    result = self._result(query, each, moment)
                    if result is not None:
                        span = window.start, window.end
                        revision = self._next_revision(query, window)
                        trends.append(TrendPoint(query, *span, revision, result))
        self._store(windows, trends)
        self._note_lengths(windows)
        return windows

    def _note_lengths(self, windows: Iterable[ClosedWindow]) -> None:
        for window in windows:
            length = window.end - window.start
            self._longest[window.summary] = max(length, self._longest.get(window.summary, 0))

    def _result(self, query: str, closed: ClosingWindow, moment: LedgerMoment) -> bytes | None:
        """A standing query's result on a window; where what it reads is gone, that of before."""
        window, before = closed.window, None
        clauses = self._standing.clauses[query]
        if closed.merged is None or (
            window.revision
            and not all(moment.whole(name, clause.before(window.end)) for name, clause in clauses)
        ):
            before = self._ledger.trend(query, start=window.start, end=window.start + 1)
        if before and is_of(before[-1], window):
            return outdated(before[-1].result, window.summary)
        if closed.merged is None:
            return None
        layout, span = self.layouts[window.summary], (window.start, window.end)
        return self._standing.run(query, moment, layout, *span, closed.merged)

    def _next_revision(self, query: str, window: ClosedWindow) -> int:
        """The window's, but where the query ran on the windows of another summary before: one of
        these may have started at this time, and been revised more often."""
        if query not in self._reached:
            marks = self._ledger.trend_marks(query, limit=1)
            self._reached[query] = marks[0][0] if marks else INT64_MIN
        if window.start > self._reached[query]:
            self._reached[query] = window.start
            return window.revision
        known = self._ledger.trend_marks(query, start=window.start, end=window.start + 1, limit=1)
        return max([window.revision, *(newest + 1 for _, _, newest, _ in known)])

    def _store(self, windows: Sequence[ClosedWindow], trends: Sequence[TrendPoint]) -> None:
        states = self._states(self._owed)
        if windows or trends or self._answers or states != self._stored:
            self._writer.close_windows(windows, trends, states, self._answers)
            self._stored, self._answers = states, {}

    def _states(self, owed: Mapping[str, Slices]) -> dict[str, Any]:
        states = {name: dict(follower.state()) for name, follower in self._followers.items()}
        states = {**self._away, **states}
        for name in states.keys() & self._history_dropped.keys():
            states[name] = {**states[name], "history_dropped": self._history_dropped[name]}
        for name, late in owed.items():
            states[name] = {**states[name], "owed": _as_text(late)}
        return states

    _stored: Mapping[str, Any] | None = None


def _as_text(slices: Slices) -> str:
    """Slices for JSON: of those of millions of panes some megabytes."""
    return base64.b64encode(zlib.compress(slices.to_bytes(), level=1)).decode("ascii")


def _from_text(text: str, of: str) -> Slices:
    inflating = zlib.decompressobj()
    try:
        data = inflating.decompress(base64.b64decode(text), OWED_BYTES_MAX)
        if inflating.eof:
            return Slices.from_bytes(data)
        why = f"it is cut, or has more than {OWED_BYTES_MAX:,} bytes"
    except (ValueError, zlib.error) as problem:
        why = str(problem)
    raise LedgerError(
        f"{of}: what is owed to late events is damaged ({why}); restore the ledger from a backup, "
        "or run the pipeline again over its source"
    )


def _may_hold_more(now: Pieces, layout: Layout, windows: Sequence[ClosedWindow]) -> list[bool]:
    """Whether closed windows hold more than when they closed; True where panes do not tell."""
    spans = [(window.start, window.end, window.events) for window in windows]
    starts, ends, events = np.array(spans, np.int64).T
    first, last = int(starts.min()), int(ends.max())
    known = now.extent(layout).rollups.dropped.get(layout.pane, first)
    panes = now.slices(layout, layout.pane, max(first, known), last)
    return ((starts < known) | (panes.counts(starts, ends) > events)).tolist()


def _read(clause: ForClause, end: int, came: Slices, pane: int) -> Slices:
    """Of the panes that events came to, those that a clause reads on the window that ends then."""
    asked = clause.before(end)
    first = end - asked.length_us if asked.length_us is not None else asked.start_us or 0
    return came.between(first // pane * pane, asked.end_us or end)
