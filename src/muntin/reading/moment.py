"""A ledger at one moment as SELECT reads it: names, windows, merged summaries, trends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import Any

from muntin.errors import LedgerError, SelectError, UnknownName, did_you_mean, how_many
from muntin.kinds import PeriodicSpec
from muntin.ledger.base import View
from muntin.ledger.records import ClosedWindow
from muntin.reading import absences, history
from muntin.reading.extent import Extent, Layout, Reach
from muntin.reading.liveness import Hearing
from muntin.reading.overtaken import overtaken, unrevised
from muntin.reading.pieces import Merged, Pieces, SegmentCache, memory_of_entry
from muntin.reading.sequences import check_whole_stream, followed
from muntin.reading.snapshot import Known, Snapshot
from muntin.reading.stored_results import Counted, is_of, read_result
from muntin.select.catalog import (
    OPEN,
    WHOLE,
    ForClause,
    KeyNames,
    LoadedTable,
    LoadedWindow,
    Note,
    Part,
    QueryInfo,
    SummaryInfo,
    Uncounted,
)
from muntin.select.result import Result
from muntin.times import duration_text, instant_text
from muntin.windows.grid import first_open

TimeSpan = tuple[int, int]
EVER = 1 << 62


@dataclass(eq=False, repr=False)
class LedgerMoment:
    """Reads of one version of a ledger. What it merges, the snapshot of that version remembers."""

    view: View
    snapshot: Snapshot
    _cache: SegmentCache
    _hearing: Hearing
    _now_us: int
    at_hand: tuple[str, ForClause, Merged] | None = None
    """A summary and its window that closes, which is not in the ledger yet."""

    def __post_init__(self) -> None:
        self._pieces = Pieces(self.view, self._cache)
        self._status = cache(self.view.status)

    def summaries(self) -> Mapping[str, SummaryInfo]:
        return self.snapshot.summaries

    def queries(self) -> Mapping[str, QueryInfo]:
        return self.snapshot.queries

    def span_of(self, summary: str) -> TimeSpan | None:
        known, layout = self._find(summary)
        if isinstance(layout.spec, PeriodicSpec):
            return self._followed(known, summary, layout.spec, layout.pane, OPEN).stored
        return self._pieces.extent(layout).bounds

    def whole(self, summary: str, window: ForClause) -> bool:
        """Whether retention has dropped nothing of a window."""
        known, layout = self._find(summary)
        extent = self._pieces.extent(layout)
        if window.kind == "all" or not extent.since:
            return not extent.since
        span = self._span(known, layout, window, extent.bounds)
        return span is not None and extent.reach(*span).whole

    def counted(self, summary: str, window: ForClause) -> Counted | None:
        """Which panes a clause of a standing query means, and the events they hold; None where
        there are none."""
        known, layout = self._find(summary)
        span = self._span(known, layout, window, self._pieces.extent(layout).bounds)
        if span is None:
            return None
        start, end = span if window.kind != "all" else (0, span[1])
        return summary, start, end, self._pieces.events(layout, start, end)

    def load(self, summary: str, window: ForClause, keys: KeyNames | None = None) -> LoadedWindow:
        known, layout = self._find(summary)
        if self.at_hand is not None and (summary, window) == self.at_hand[:2]:
            return self._closing(known, layout, window, self.at_hand[2], keys)
        name = ("load", summary, window, keys)
        found = self.snapshot.once(
            name,
            lambda: self._load(known, layout, window, keys),
            # the cache has the others
            lambda made: 0 if layout.spec.sequential else memory_of_entry(made.summary),
        )
        like = None if layout.spec.sequential else partial(self._pieces.examples, layout, keys)
        # time passes while the version stays, and what is read later is read of this moment
        return replace(found, stale=self.stale(known), like=like)

    def trend(self, query: str, window: ForClause | None) -> LoadedTable:
        for known in self.snapshot.pipelines.values():
            if query in known.pipeline.queries:
                said = partial(overtaken, self._pieces, known, query)
                read = partial(history.trend, cache=self._cache, overtaken=said)
                found = self._history("trend", query, window, known, read)
                if known.pipeline.queries[query].on == "window" or found.table.num_rows:
                    return found
                said = (
                    f"{query}: it runs on update, so that no window has a result: ask it as it is"
                )
                return replace(found, notes=(*found.notes, Note("nothing", query, said)))
        raise UnknownName(f"no standing query {query!r} in this ledger")

    def windows(self, summary: str, window: ForClause | None) -> LoadedTable:
        known, layout = self._find(summary)
        found = self._history("windows", summary, window, known, history.windows)
        bounds: dict[str, Any] = {}
        notes = unrevised(self._pieces, layout, found)
        lacking = absences.of_windows(self._pieces, known, layout, found.covered)
        if lacking:
            bounds = {"uncounted": {summary: lacking}}
            said = (
                f"was not there all the time: its windows lack at most {how_many(lacking, 'event')}"
            )
            notes = (*notes, Note("uncounted", summary, f"{summary}: {said}"))
        exact = found.exact and not notes
        if layout.spec.window is None and not found.table.num_rows:
            said = f"{summary}: it has no windows that close: give it `window`"
            notes = (*notes, Note("nothing", summary, said))
        return replace(found, exact=exact, bounds=bounds, notes=(*found.notes, *notes))

    def stored(self, query: str, window: ClosedWindow) -> Result | None:
        """A standing query's result on a closed window: of its revision, else the newest; None
        where it did not run on it. Raises SelectError: the statement failed on that window."""
        points = self.view.trend(query, start=window.start, end=window.start + 1, revisions=True)
        points = [point for point in points if is_of(point, window)]
        known = self.pipeline_of(window.summary)
        if not points or known is None:
            return None
        same = [point for point in points if point.revision == window.revision]
        point = (same or points)[-1]
        return read_result(point, known.info.watermark, stale=self.stale(known))

    def _history(
        self,
        what: str,
        name: str,
        window: ForClause | None,
        known: Known,
        read: Callable[..., LoadedTable],
    ) -> LoadedTable:
        found = self.snapshot.once(
            (what, name, window),
            lambda: read(self.view, name, window, known.info),
            lambda made: made.table.nbytes,
        )
        return replace(found, stale=self.stale(known))

    def stale(self, known: Known) -> bool:
        """Whether a pipeline has not been heard of for too long, or its ledger cannot be."""
        said = self._status(known.info.name)  # not of the snapshot: it makes no new version
        alive = self._hearing.of(known.info, said, known.pipeline.trigger, self._now_us)
        return alive.stale or self.view.behind()

    def pipeline_of(self, summary: str) -> Known | None:
        """The pipeline that has a summary."""
        for known in self.snapshot.pipelines.values():
            if summary in known.pipeline.summaries:
                return known
        return None

    def _find(self, summary: str) -> tuple[Known, Layout]:
        known = self.pipeline_of(summary)
        if known is None:
            each = [known.pipeline.summaries for known in self.snapshot.pipelines.values()]
            hint = did_you_mean(str(summary), chain.from_iterable(each))
            raise UnknownName(f"no summary {summary!r} in this ledger; {hint}")
        pipeline = known.pipeline
        spec: Any = pipeline.summaries[summary]
        return known, Layout(summary, spec, pipeline.pane, pipeline.rungs)

    def _load(
        self, known: Known, layout: Layout, window: ForClause, keys: KeyNames | None
    ) -> LoadedWindow:
        if isinstance(layout.spec, PeriodicSpec):
            return self._followed(known, layout.name, layout.spec, layout.pane, window)
        extent = self._pieces.extent(layout)
        closed = self._closed(layout, window)
        if closed is not None:
            asked = closed.start, closed.end
        else:
            asked = self._span(known, layout, window, extent.bounds)
        every = window.every_us
        reach = Reach((), None, whole=True)
        if asked is not None:
            reach = extent.reach(*asked, every or 0)
        notes = check_stored(layout.name, window, closed, asked, reach, extent)
        merged = self._pieces.merged_runs(layout, reach, keys, every)
        _check_there(known, layout.name, window, closed, reach, extent, merged)
        covered = asked if closed is not None or window.whole else reach.covered
        covered = covered if reach.runs else None
        # also of what was asked for and is not stored: the summary may not have been there
        meant = asked if reach.whole else covered
        if asked is None or (window.kind == "all" and reach.whole):
            meant = (extent.since if asked else 0, window.end_us or EVER)
        uncounted = self._uncounted(known, layout, merged, reach, meant, keys)
        return loaded(
            known, layout, merged,
            covered=covered,
            stored=extent.bounds,
            revision=closed.revision if closed is not None else 0,
            notes=notes,
            uncounted=uncounted,
        )  # fmt: skip

    def _closing(
        self, known: Known, layout: Layout, window: ForClause, merged: Merged, keys: KeyNames | None
    ) -> LoadedWindow:
        """What is at hand. Nobody asks for it again: no table of it is kept."""
        span = window.start_us or 0, window.end_us or 0
        reach = self._pieces.extent(layout).reach(*span)
        return loaded(
            known, layout, replace(merged, token=None),
            covered=span,
            stored=span,
            revision=0,
            notes=(),
            uncounted=self._uncounted(known, layout, merged, reach, span, keys),
        )  # fmt: skip

    def _uncounted(
        self,
        known: Known,
        layout: Layout,
        merged: Merged,
        reach: Reach,
        span: TimeSpan | None,
        keys: KeyNames | None,
    ) -> dict[Part, Uncounted]:
        """What a summary, its keys and indicators have not counted of a span, and since when they
        have counted all."""
        lacking = {} if merged.segment is None else layout.spec.lacking(merged.segment, keys)
        since = self._pieces.counted_since(layout, reach, keys) if lacking else {}
        found: dict[Part, Uncounted] = {
            part: Uncounted(int(events.sum()), merged.events, since.get(part))
            for part, events in lacking.items()
        }
        whole = absences.of_panes(self._pieces, known, layout, span, merged.events)
        return found if whole is None else found | {WHOLE: whole}

    def _followed(
        self, known: Known, name: str, spec: PeriodicSpec, pane: int, window: ForClause
    ) -> LoadedWindow:
        check_whole_stream(name, window)
        read = followed(self.view, name, known.generation, self._cache)
        lacking = absences.of_whole_stream(known, name, pane)
        covered = None
        if read.span is not None:
            covered = (read.span[0] // pane * pane, (read.span[1] // pane + 1) * pane)
        return LoadedWindow(
            summary=read.summary,
            covered=covered,
            stored=covered,
            watermark=known.info.watermark,
            revision=0,
            late=read.late,
            stale=False,
            exact=False,
            proven=False,
            bounds=spec.bounds_of(read.states),
            uncounted={} if lacking is None else {WHOLE: lacking},
            notes=() if covered else (Note("nothing", name, f"{name} holds nothing yet"),),
            token=read.token,
            like=None,
            among=None,
        )

    def _span(
        self, known: Known, layout: Layout, window: ForClause, bounds: TimeSpan | None
    ) -> TimeSpan | None:
        """The run of panes that a clause means; None where there is nothing at all."""
        if bounds is None:
            return None
        pane, (first, newest) = layout.pane, bounds
        away = absences.absence(known.info.spec, layout.name)
        if away is not None:  # what came before it joined, or came back, may be newer
            newest = max(newest, away.since(pane))
            bounds = first, newest
        if window.end_us is not None:
            newest = -(-window.end_us // pane) * pane
        if window.kind == "last":
            return newest - -(-(window.length_us or pane) // pane) * pane, newest
        if window.kind in ("all", "range"):
            return (first if window.start_us is None else window.start_us // pane * pane), newest
        return self._open_span(known, layout, bounds)

    def _open_span(self, known: Known, layout: Layout, bounds: TimeSpan) -> TimeSpan:
        """From the start of the window that closes next to the newest pane."""
        state = (self.view.assembler(known.info.name) or {}).get(layout.name)
        window = layout.spec.window
        if window is None or state is None:
            return bounds
        start = bounds[0] if state["next"] is None else state["next"]
        if window.kind == "floating":
            opened = (state.get("window") or {}).get("start")  # none of another kind of window
            start = start if opened is None else opened
        else:
            start = first_open(start, window.length, window.every or window.length)
        return start, bounds[1]

    def _closed(self, layout: Layout, window: ForClause) -> ClosedWindow | None:
        """The closed window that a clause means, where it means one."""
        if window.kind not in ("window", "newest_window"):
            return None
        if window.kind == "newest_window":
            found = self.view.windows(layout.name, limit=1, newest_first=True)
            if found:
                return found[0]
            if layout.spec.window is None:
                message = f"{layout.name} has no windows that close"
                remedy = "give it one in the pipeline file, or ask FOR LAST '15 minutes' or FOR ALL"
            else:
                message = f"no closed window of {layout.name} is stored"
                remedy = "FOR OPEN reads the one that is open"
            raise SelectError(message, code="no_window", remedy=remedy)
        at = window.start_us or 0
        found = window_at(self.view, layout.name, at)
        if found is not None:
            return found
        before = self.view.windows(layout.name, end=at, limit=1, newest_first=True)
        after = self.view.windows(layout.name, start=at, limit=1)
        remedy = "FOR '<start>' TO '<end>' needs no window"
        if before or after:
            which = "window before it" if before else "first one"
            remedy = f"the {which} starts at {instant_text((before or after)[0].start)}"
        raise SelectError(
            f"no closed window of {layout.name} starts at {instant_text(at)}",
            code="no_window",
            remedy=remedy,
        )


def _check_there(
    known: Known, name: str, window: ForClause, closed: ClosedWindow | None,
    reach: Reach, extent: Extent, merged: Merged,
) -> None:  # fmt: skip
    """LedgerError where fewer events are there than were stored: somebody has deleted rows."""
    stored = 0  # is not known of other windows
    if closed is not None and reach.whole:
        stored = closed.events
    elif replace(window, every_us=None) == ForClause("all") and extent.dropped is None:
        stored = 0 if absences.absence(known.info.spec, name) else known.info.counted
    if merged.events < stored:
        raise LedgerError(
            f"{name}: {stored - merged.events:,} of {stored:,} events are not in the ledger any "
            "more: rows of it were deleted; restore it from a backup, or run the pipeline again "
            "over its source"
        )


def window_at(view: View, summary: str, start: int) -> ClosedWindow | None:
    """The closed window that starts then, in its newest revision."""
    found = view.windows(summary, start=start, end=start + 1, limit=1)
    return found[0] if found else None


def check_stored(
    name: str,
    window: ForClause,
    closed: ClosedWindow | None,
    asked: TimeSpan | None,
    reach: Reach,
    extent: Extent,
) -> tuple[Note, ...]:
    """What to say where not all is stored of what was asked for. Raises SelectError: nothing is
    left of it, or a part of what is only right as a whole is not."""
    if asked is None:
        return (_nothing(name, None, extent),)
    gone = f"{name}: retention has dropped panes before {instant_text(extent.dropped)}"
    if reach.whole:
        if reach.covered is None:
            return (_nothing(name, asked, extent),)
        if window.kind == "all" and window.end_us is not None and extent.since:
            return (Note("retention", name, f"{gone}: what this trend reads begins later"),)
        return ()
    shown = f"{instant_text(asked[0])} to {instant_text(asked[1])}"
    longer = _longer_step(window, asked, reach, extent)
    if closed is not None or window.whole or reach.covered is None:
        wider = extent.around(*asked)
        remedy = "nothing of it is stored any more"
        if wider is not None:
            remedy = "a rollup holds FOR '{}' TO '{}'".format(*map(instant_text, wider[1:]))
            if (window.every_us or 0) % wider[0]:
                remedy += f" EVERY '{duration_text(wider[0])}'"
        elif extent.bounds is not None:
            remedy = "what is stored is {} to {}".format(*map(instant_text, extent.bounds))
        raise SelectError(
            f"{gone}, and so does not hold {shown} whole", code="dropped", remedy=longer or remedy
        )
    read = " to ".join(str(instant_text(at)) for at in reach.covered)
    said = f"{gone}: of {shown}, only {read} was read" + (longer and f"; {longer}")
    return (Note("retention", name, said),)


def _longer_step(window: ForClause, asked: TimeSpan, reach: Reach, extent: Extent) -> str:
    """The step that reads more: rollups hold what panes were, and cannot be taken apart."""
    read = 0 if reach.covered is None else reach.covered[1] - reach.covered[0]
    for length in sorted(extent.rollups.covered) if window.every_us is not None else ():
        wider = extent.reach(*asked, length).covered
        if wider is not None and wider[1] - wider[0] > read:
            return f"rollups hold more: write EVERY '{duration_text(length)}'"
    return ""


def _nothing(name: str, asked: TimeSpan | None, extent: Extent) -> Note:
    said = f"{name} holds nothing yet"
    if extent.bounds is not None:
        where = "there"
        if asked is not None:
            where = f"from {instant_text(asked[0])} to {instant_text(asked[1])}"
        there = " to ".join(str(instant_text(at)) for at in extent.bounds)
        said = f"{name} holds nothing {where}: what it holds is {there}"
    elif extent.dropped is not None:
        before = instant_text(extent.dropped)
        said = f"{name} holds nothing any more: retention has dropped panes before {before}"
    return Note("nothing", name, said)


def loaded(
    known: Known,
    layout: Layout,
    merged: Merged,
    *,
    covered: TimeSpan | None,
    stored: TimeSpan | None,
    revision: int,
    notes: tuple[Note, ...],
    uncounted: Mapping[Part, Uncounted],
) -> LoadedWindow:
    """What was merged, with what must be said about it; a run without events is no summary."""
    spec, segment = layout.spec, merged.segment
    return LoadedWindow(
        summary=segment,
        covered=covered,
        stored=stored,
        watermark=known.info.watermark,
        revision=revision,
        late=merged.late,
        stale=False,
        exact=spec.is_exact,
        proven=segment is not None and spec.proven(segment),
        bounds={} if segment is None else spec.bounds(segment),
        uncounted=uncounted,
        notes=notes,
        token=merged.token,
        like=None,
        among=merged.among,
    )
