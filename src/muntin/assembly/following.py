"""Which windows of a summary close as panes are sealed: one follower a kind of window.

A follower takes all panes that were sealed since its last step at once, in chunks of a bounded
number of events. It only reads what was committed: after a crash it goes on from its stored state.

A window closes where all of it is stored (`Reach.whole`). Retention keeps what the windows that are
still open read (`open_starts`); a window that was declared later, and begins before what is stored,
does not close.
"""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from muntin.kinds import WindowSpec
from muntin.ledger.base import View
from muntin.ledger.records import ClosedWindow
from muntin.ledger.rules import INT64_MIN
from muntin.ledger.slices import Slices
from muntin.reading.extent import Layout
from muntin.reading.pieces import Merged, Pieces
from muntin.segments.building import merge, relabelled
from muntin.segments.columns import starts_of
from muntin.select.catalog import ClosingWindows
from muntin.sets import as_set
from muntin.windows.floating import Boundary, FloatingWindow, Reason, close_windows
from muntin.windows.grid import first_open, starts_of_windows, tiles_of_runs

LIMIT_FACTOR = 8  # how far slow_down may lengthen a window, unless the spec says
EVENTS_AT_ONCE = 4 << 20  # of panes that are read together
ALONE, TOGETHER = 20, 100  # what it takes to merge a window, or several together, in slices
TOGETHER_MAX = 64  # windows that are merged at once


@dataclass(frozen=True, slots=True)
class ClosingWindow:
    """A window that closes, with what it holds."""

    window: ClosedWindow
    merged: Merged | None  # None: not all of it is stored any more


class _Follower:
    def __init__(self, layout: Layout, stored: Mapping[str, Any] | None) -> None:
        self._layout = layout
        self.next: int | None = stored["next"] if stored else None
        """Everything that ends at or before this was taken."""
        self._contents: Merged | None = None  # what a floating window that is open holds so far

    def open_fill(self) -> Mapping[str, int]:
        contents = self._contents and self._contents.segment
        return {} if contents is None else self._layout.spec.fill(contents)

    def forget(self) -> None:
        """Panes that were taken have changed: read them again when needed."""
        self._contents = None


class FloatingFollower(_Follower):
    def __init__(self, layout: Layout, spec: WindowSpec, stored: Mapping[str, Any] | None) -> None:
        super().__init__(layout, stored)
        self.window = FloatingWindow(
            spec.length, spec.limit or spec.length * LIMIT_FACTOR, layout.spec.window_capacity
        )
        if stored and stored.get("window"):
            self.window = replace(self.window, **stored["window"]).within_limit()
        self._until = 0  # end of the last pane of what the open window holds

    def state(self) -> Mapping[str, Any]:
        window = asdict(self.window)
        return {
            "window": {name: window[name] for name in ("start", "overflowed", "factor", "most")},
            "next": self.next,
        }

    def open_window(self) -> tuple[int, int] | None:
        if self.window.start is None or self.window.end is None:
            return None
        return self.window.start, self.window.end

    def missed(self, pieces: Pieces, panes: np.ndarray) -> Iterator[ClosingWindow]:
        """Windows that never closed, and would have if these sealed panes had had events then."""
        if self.next is None:
            return
        until = self.next if self.window.start is None else self.window.start
        whole = pieces.extent(self._layout).dropped or 0  # before, there may be late events alone
        panes = panes[panes >= whole]
        for start, end in list(gaps_between(pieces.view, self._layout.name, panes, until)):
            yield from self._closed_in(pieces, start, end)

    def _closed_in(self, pieces: Pieces, start: int, end: int) -> Iterator[ClosingWindow]:
        """The windows of a gap: as ever, but the last ends where the gap does at the latest. It
        says `late` where it did not reach its own end."""
        gap = copy.copy(self)
        gap.window, gap._contents = self.window.closed(), None
        panes = pieces.slices(self._layout, self._layout.pane, start, end)
        for first, until in chunks(panes, start, end, self._layout.pane):
            yield from gap._take(pieces, panes.between(first, until), first, until)
        yield from gap._as_it_is(end, "late")

    def _as_it_is(self, end: int, reason: Reason) -> Iterator[ClosingWindow]:
        """The open window with what it holds."""
        window = self.window
        if self._contents is not None and window.start is not None:
            boundary = Boundary(window.start, end, reason, window.overflowed)
            yield _closed(self._layout, boundary, self._contents)

    def step(self, pieces: Pieces, sealed_until: int) -> Iterator[ClosingWindow]:
        pane = self._layout.pane
        first = self.next
        if first is None:
            bounds = pieces.extent(self._layout).bounds
            if bounds is None:
                return
            first = bounds[0]
        dropped = pieces.extent(self._layout).dropped
        if dropped is not None and dropped > first:  # nobody followed, and so kept what is open
            self.window, self._contents = self.window.closed(), None
            first = dropped
        panes = pieces.slices(self._layout, pane, first, sealed_until)
        for start, end in chunks(panes, first, sealed_until, pane):
            self._restore(pieces, start)
            yield from self._take(pieces, panes.between(start, end), start, end)
            self.next = end
        self.next = max(sealed_until, self.next or sealed_until)

    def _restore(self, pieces: Pieces, until: int) -> None:
        """Read again what the open window had before a restart or a late event."""
        start = self.window.start
        if self._contents is not None or start is None:
            return
        reach = pieces.extent(self._layout).reach(start, until)
        merged = pieces.merged_runs(self._layout, reach)
        if merged.segment is None or not reach.whole:
            # retention keeps what is open; if it is gone all the same, a new window begins here
            self.window = self.window.closed()
            return
        pane = self._layout.pane
        panes = pane, max(start, pieces.extent(self._layout).dropped or start), until
        ends = (  # the panes that are left, or rollups: these may end later
            int(starts[-1]) + length
            for length, *run in (panes, *reversed(reach.runs))
            if len(starts := pieces.slices(self._layout, length, *run).starts)
        )
        self._contents, self._until = merged, next(ends)

    def _take(self, pieces: Pieces, panes: Slices, start: int, end: int) -> Iterator[ClosingWindow]:
        """Take the panes of one chunk; what is left is kept for the next."""
        pane, contents = self._layout.pane, self._contents
        parts = pieces.segments(self._layout, pane, start, end)
        starts, ends = panes.starts, panes.starts + pane
        counts = np.stack([panes.events, panes.late])
        if contents is not None and contents.segment is not None and self.window.start is not None:
            before = relabelled(contents.segment, np.array([start // pane - 1]))
            parts = [before, *parts]
            starts = np.concatenate(([self.window.start], starts))
            ends = np.concatenate(([self._until], ends))
            counts = np.concatenate(([[contents.events], [contents.late]], counts), axis=1)
        if not parts:
            return
        whole = merge(parts)
        runs, left, first = close_windows(self.window, whole, starts, ends, end)
        labels = np.zeros(len(starts), np.int64)
        for number, (_, begin, last) in enumerate(runs):
            labels[begin:last] = number
        labels[first:] = len(runs)
        windows = relabelled(whole, labels)
        self._contents = None
        for number, (boundary, begin, last) in enumerate(runs):
            events, late = counts[:, begin:last].sum(axis=1).tolist()
            segment = windows.between(number, number + 1)
            self.window, self.next = self.window.closed(), boundary.end  # what is stored with it
            yield _closed(self._layout, boundary, Merged(segment, events, late, None))
        self.window = left
        if left.start is not None:
            events, late = counts[:, first:].sum(axis=1).tolist()
            segment = windows.between(len(runs), len(runs) + 1)
            self._contents, self._until = Merged(segment, events, late, None), int(ends[-1])

    def end(self, pieces: Pieces) -> Iterator[ClosingWindow]:
        if self.next is not None:
            self._restore(pieces, self.next)
            yield from self._as_it_is(self.next, "end")

    def open_starts(self, before: int) -> Sequence[int]:
        start = self.next if self.window.start is None else self.window.start
        return [] if start is None or start >= before else [start]


class GridFollower(_Follower):
    """Tumbling and sliding windows: their panes are merged when they close."""

    def __init__(
        self,
        layout: Layout,
        spec: WindowSpec,
        stored: Mapping[str, Any] | None,
        history_dropped: int,
    ) -> None:
        super().__init__(layout, stored)
        self._length = spec.length
        self._every = spec.every or spec.length
        self._grid = [self._length, self._every]
        same = stored is not None and stored.get("grid") == self._grid
        self._since: int | None = stored["since"] if stored and same else self.next
        """Windows that ended before this were of another length: they are not looked for."""
        self._begin: int = stored.get("begin", INT64_MIN) if stored and same else history_dropped
        """Nor are those that start before this: one of another length may have started there, and
        is dropped, so that nobody knows which revision this would be."""

    def state(self) -> Mapping[str, Any]:
        state = {"next": self.next, "grid": self._grid, "since": self._since}
        return state if self._begin == INT64_MIN else state | {"begin": self._begin}

    def open_window(self) -> tuple[int, int] | None:
        if self.next is None:
            return None
        start = self._first_open(self.next)
        return start, start + self._length

    def _first_open(self, after: int) -> int:
        begin = -(-self._begin // self._every) * self._every
        return max(first_open(after, self._length, self._every), begin)

    def missed(self, pieces: Pieces, panes: np.ndarray) -> Iterator[ClosingWindow]:
        if self.next is None:
            return
        starts = starts_of_windows(panes, self._length, self._every)
        ends = starts + self._length
        since = INT64_MIN if self._since is None else self._since
        mine = (starts >= self._begin) & (ends > since)
        due = starts[mine & (ends <= self.next)].tolist()
        closed = pieces.view.are_closed(self._layout.name, due)
        new = [at for at, is_closed in zip(due, closed, strict=True) if not is_closed]
        yield from self._one_by_one(pieces, new)

    def step(self, pieces: Pieces, sealed_until: int) -> Iterator[ClosingWindow]:
        bounds = pieces.extent(self._layout).bounds
        if bounds is None:
            return
        # the first events may be ahead of the watermark, and earlier ones come in time after them
        after = self.next if self.next is not None else min(bounds[0], sealed_until)
        due, panes = self._due(pieces, after, sealed_until)
        due = due[due + self._length <= sealed_until]
        for closed in self._closings(pieces, due, panes):
            self.next = closed.window.end
            yield closed
        self.next = max(sealed_until, after)

    def end(self, pieces: Pieces) -> Iterator[ClosingWindow]:
        """The windows that are open where the source has ended: they end with what was taken. They
        stay open: where more comes after all, they close again as ever."""
        if self.next is None:
            return
        due, _ = self._due(pieces, self.next, self.next)
        yield from self._one_by_one(pieces, due.tolist(), self.next)

    def open_starts(self, before: int) -> Sequence[int]:
        """Starts of the windows that have not closed, before a time, ascending."""
        if self.next is None:
            return []
        return range(self._first_open(self.next), before, self._every)

    def _due(self, pieces: Pieces, after: int, until: int) -> tuple[np.ndarray, Slices]:
        """Starts of the windows that end after a time and hold events of before `until`; the panes.
        Where panes are gone, rollups tell."""
        layout, length, every = self._layout, self._length, self._every
        first = after - length
        whole = min(max(first, pieces.extent(layout).dropped or first), until)
        panes = pieces.slices(layout, layout.pane, whole, until)
        due = [starts_of_windows(panes.starts, length, every)]
        for level, *run in pieces.extent(layout).rollups.tiles(first, whole):
            if level is not None:
                starts = pieces.slices(layout, level, *run).starts
                due.append(starts_of_windows(starts, length, every, level))
        starts = as_set(np.concatenate(due))
        return starts[(starts >= self._begin) & (starts + length > after)], panes

    def _closings(self, pieces: Pieces, due: np.ndarray, panes: Slices) -> Iterator[ClosingWindow]:
        """Some together, where that takes fewer merges, and retention has dropped nothing."""
        extent, length = pieces.extent(self._layout), self._length
        ends = np.searchsorted(panes.starts, due + length)
        chunk = starts_of(panes.events)[ends] // EVENTS_AT_ONCE
        chunk[due < (extent.dropped or 0)] = -1
        for some in np.split(due, np.flatnonzero(np.diff(chunk)) + 1) if len(due) else ():
            first, last = int(some[0]), int(some[-1])
            runs = extent.reach(last, last + length).runs
            alone = len(some) * (ALONE + sum((until - at) // each for each, at, until in runs))
            together = TOGETHER + len(panes.between(first, last + length))
            if first < (extent.dropped or 0) or alone <= together:
                yield from self._one_by_one(pieces, some.tolist())
            else:
                yield from self._together(pieces, some, panes)

    def _together(self, pieces: Pieces, due: np.ndarray, panes: Slices) -> Iterator[ClosingWindow]:
        """Windows that overlap share the runs of panes that they are merged from."""
        length, pane = self._length, self._layout.pane
        unit = math.gcd(length, self._every)
        parts = pieces.segments(self._layout, pane, int(due[0]), int(due[-1]) + length)
        window, level, number = tiles_of_runs(due // unit, (due + length) // unit)
        levels = [merge(parts, unit // pane)]
        for _ in range(int(level.max())):
            levels.append(merge(levels[-1:], 2))
        tiles = merge([relabelled(s, s.slices << 6 | n) for n, s in enumerate(levels)])
        wanted = number << 6 | level
        at = np.searchsorted(tiles.slices, wanted)
        there = np.append(tiles.slices, -1)[at] == wanted  # the others hold no events
        window, at = window[there], at[there]
        for first in range(0, len(due), TOGETHER_MAX):
            some = np.flatnonzero((window >= first) & (window < first + TOGETHER_MAX))
            windows = ClosingWindows(relabelled(tiles, window[some], at[some]), {})
            for number in windows.segment.slices.tolist():
                start = int(due[number])
                inside = panes.between(start, start + length)
                segment = windows.segment.between(number, number + 1)
                counted = inside.count, inside.late_count
                merged = Merged(segment, *counted, None, (windows, number))
                boundary = Boundary(start, start + length, "full", False)
                yield _closed(self._layout, boundary, merged)

    def _one_by_one(
        self, pieces: Pieces, due: Sequence[int], until: int | None = None
    ) -> Iterator[ClosingWindow]:
        """Windows that may overlap, and of which retention may have dropped a part."""
        extent = pieces.extent(self._layout)
        for start in due:
            end = start + self._length
            boundary = Boundary(start, end, "full", False)
            if until is not None:
                boundary = Boundary(start, min(until, end), "end", False)
            reach = extent.reach(start, boundary.end)
            merged = pieces.merged_runs(self._layout, reach)
            if reach.whole and merged.segment is not None:
                yield _closed(self._layout, boundary, merged)


Follower = FloatingFollower | GridFollower


def follow(
    layout: Layout, window: WindowSpec, stored: Mapping[str, Any] | None, history_dropped: int
) -> Follower:
    """`history_dropped`: what ended at this or before may have closed, and is not stored."""
    if window.kind == "floating":
        return FloatingFollower(layout, window, stored)
    return GridFollower(layout, window, stored, history_dropped)


def open_from(state: Mapping[str, Any]) -> int | None:
    """Where the windows begin that have not closed, as the state of who follows them tells."""
    if state["next"] is None:
        return None
    if "grid" in state:
        return first_open(state["next"], *state["grid"])
    start = state["window"]["start"]
    return state["next"] if start is None else start


def gaps_between(
    view: View, summary: str, panes: np.ndarray, until: int
) -> Iterator[tuple[int, int]]:
    """From the first of these panes that no window holds to the next window, or `until`.

    The rule: each event of a sealed pane lies in exactly one floating window, and in all windows
    of a grid that hold its pane, also where it came late. A late event in a window that has closed
    makes a revision of it; where there is none, a window closes now, with revision 0.
    """
    reached = None
    for pane in sorted(panes.tolist()):
        if pane >= until or (reached is not None and pane < reached):
            continue
        before = view.windows(summary, end=pane + 1, limit=1, newest_first=True)
        if before and before[0].end > pane:
            reached = before[0].end
            continue
        after = view.windows(summary, start=pane + 1, end=until, limit=1)
        reached = min(after[0].start, until) if after else until
        yield pane, reached


def chunks(slices: Slices, start: int, end: int, length: int) -> Iterator[tuple[int, int]]:
    """Runs of slices that tile [start, end), of some `EVENTS_AT_ONCE` events each."""
    share = np.cumsum(slices.events) // EVENTS_AT_ONCE
    for at in np.flatnonzero(np.diff(share)).tolist():
        until = int(slices.starts[at]) + length
        yield start, until
        start = until
    if start < end:
        yield start, end


def _closed(layout: Layout, boundary: Boundary, merged: Merged) -> ClosingWindow:
    assert merged.segment is not None  # noqa: S101 (a window that closes holds events)
    window = ClosedWindow(
        summary=layout.name,
        start=boundary.start,
        end=boundary.end,
        reason=boundary.reason,
        revision=0,
        overflowed=boundary.overflowed,
        events=merged.events,
        late=merged.late,
        fill=layout.spec.fill(merged.segment),
        closed_at=0,
    )
    return ClosingWindow(window, merged)
