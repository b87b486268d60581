"""Which windows of a summary close as panes are sealed: one follower a kind of window.

A follower takes all panes that were sealed since its last step at once, in chunks of a bounded
number of events. It only reads what was committed: after a crash it goes on from its stored state.

A window closes where all of it is stored (`Reach.whole`). Retention keeps what the windows that are
still open read (`open_starts`); a window that was declared later, and begins before what is stored,
does not close.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from muntin.kinds import WindowSpec
from muntin.ledger.base import View
from muntin.ledger.records import ClosedWindow
from muntin.ledger.slices import Slices
from muntin.reading.extent import Layout
from muntin.reading.moment import window_at
from muntin.reading.pieces import Merged, Pieces
from muntin.segments.building import merge, relabelled
from muntin.segments.table import Segment
from muntin.windows.floating import Boundary, FloatingWindow, Reason, close_windows
from muntin.windows.grid import first_open, starts_of_windows

LIMIT_FACTOR = 8  # how far slow_down may lengthen a window, unless the spec says
EVENTS_AT_ONCE = 4 << 20  # of panes that are read together


@dataclass(frozen=True, slots=True)
class Closed:
    """A window that closes, with what it holds."""

    window: ClosedWindow
    merged: Merged | None
    """None: not all of it is stored any more."""


class Follower(ABC):
    """Closes the windows of one summary; each kind of window has its own."""

    def __init__(self, layout: Layout, stored: Mapping[str, Any] | None) -> None:
        self._layout = layout
        self._next: int | None = stored["next"] if stored else None
        """Everything that ends at or before this was taken."""

    @abstractmethod
    def step(self, pieces: Pieces, sealed_until: int) -> Iterator[Closed]: ...

    @abstractmethod
    def end(self, pieces: Pieces) -> Iterator[Closed]:
        """The windows that are open where the source has ended: they end with what was taken.

        They stay open: where more comes after all, they close again as ever.
        """

    @abstractmethod
    def open_starts(self, before: int) -> Sequence[int]:
        """Starts of the windows that have not closed, before a time, ascending."""

    @abstractmethod
    def state(self) -> Mapping[str, Any]: ...

    @abstractmethod
    def open_window(self) -> tuple[int, int] | None: ...

    @abstractmethod
    def missed(self, pieces: Pieces, panes: np.ndarray) -> Iterator[Closed]:
        """Windows that never closed, and would have if these sealed panes had had events then."""

    def open_fill(self) -> Mapping[str, int]:
        return {}

    def next_pane(self) -> int | None:
        return self._next

    def forget(self) -> None:  # noqa: B027
        """Panes that were taken have changed: read them again when needed."""


def follow(layout: Layout, window: WindowSpec, stored: Mapping[str, Any] | None) -> Follower:
    """The follower of a summary's windows, at its stored state."""
    if window.kind == "floating":
        return FloatingFollower(layout, window, stored)
    return GridFollower(layout, window, stored)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What the open window holds so far."""

    segment: Segment
    """In one slice."""
    fill: Mapping[str, int]
    events: int
    late: int
    until: int
    """End of the last pane."""


class FloatingFollower(Follower):
    def __init__(self, layout: Layout, spec: WindowSpec, stored: Mapping[str, Any] | None) -> None:
        super().__init__(layout, stored)
        self.window = FloatingWindow(
            spec.length, spec.limit or spec.length * LIMIT_FACTOR, layout.spec.window_capacity
        )
        if stored:
            kept = stored.get("window") or {"start": None, "overflowed": False, "factor": 1}
            self.window = replace(
                self.window,
                start=kept["start"],
                overflowed=kept["overflowed"],
                factor=kept["factor"],
            )
        self._contents: _Contents | None = None

    def state(self) -> Mapping[str, Any]:
        window = asdict(self.window)
        return {
            "window": {name: window[name] for name in ("start", "overflowed", "factor")},
            "next": self._next,
        }

    def open_window(self) -> tuple[int, int] | None:
        if self.window.start is None or self.window.end is None:
            return None
        return self.window.start, self.window.end

    def open_fill(self) -> Mapping[str, int]:
        return {} if self._contents is None else self._contents.fill

    def forget(self) -> None:
        self._contents = None

    def missed(self, pieces: Pieces, panes: np.ndarray) -> Iterator[Closed]:
        if self._next is None:
            return
        until = self._next if self.window.start is None else self.window.start
        for start, end in list(gaps_between(pieces.view, self._layout.name, panes, until)):
            yield from self._closed_in(pieces, start, end)

    def _closed_in(self, pieces: Pieces, start: int, end: int) -> Iterator[Closed]:
        """The windows of a gap: as ever, but the last ends where the gap does at the latest.

        It says `late` where it did not reach its own end.
        """
        gap = copy.copy(self)
        gap.window, gap._contents = replace(self.window, start=None, overflowed=False), None
        panes = pieces.slices(self._layout, self._layout.pane, start, end)
        for first, until in chunks(panes, start, end, self._layout.pane):
            yield from gap._take(pieces, panes.between(first, until), first, until)
        yield from gap._as_it_is(end, "late")

    def _as_it_is(self, end: int, reason: Reason) -> Iterator[Closed]:
        """The open window with what it holds."""
        contents, window = self._contents, self.window
        if contents is not None and window.start is not None:
            boundary = Boundary(window.start, end, reason, window.overflowed)
            yield _closed(self._layout, boundary, contents.segment, contents.events, contents.late)

    def step(self, pieces: Pieces, sealed_until: int) -> Iterator[Closed]:
        pane = self._layout.pane
        first = self._next
        if first is None:
            bounds = pieces.bounds(self._layout)
            if bounds is None:
                return
            first = bounds[0]
        if self.window.start is None:
            first = max(first, _horizon(pieces, self._layout) or first)
        panes = pieces.slices(self._layout, pane, first, sealed_until)
        for start, end in chunks(panes, first, sealed_until, pane):
            self._restore(pieces, start)
            yield from self._take(pieces, panes.between(start, end), start, end)
            self._next = end
        self._next = max(sealed_until, self._next or sealed_until)

    def _restore(self, pieces: Pieces, until: int) -> None:
        """Read again what the open window had before a restart or a late event."""
        start = self.window.start
        if self._contents is not None or start is None:
            return
        reach = pieces.extent(self._layout).reach(start, until)
        merged = pieces.merged_runs(self._layout, reach)
        if merged.segment is None or not reach.whole:
            # retention keeps what is open; if it is gone all the same, a new window begins here
            self.window = replace(self.window, start=None, overflowed=False)
            return
        ends = [
            int(starts[-1]) + length
            for length, *run in reach.runs
            if len(starts := pieces.slices(self._layout, length, *run).starts)
        ]
        self._contents = self._contents_of(merged.segment, merged.events, merged.late, ends[-1])

    def _contents_of(self, segment: Segment, events: int, late: int, until: int) -> _Contents:
        return _Contents(segment, self._layout.spec.fill(segment), events, late, until)

    def _take(self, pieces: Pieces, panes: Slices, start: int, end: int) -> Iterator[Closed]:
        """Take the panes of one chunk; what is left is kept for the next."""
        pane, contents = self._layout.pane, self._contents
        parts = pieces.segments(self._layout, pane, start, end)
        starts, ends = panes.starts, panes.starts + pane
        counts = np.stack([panes.events, panes.late])
        if contents is not None:
            assert self.window.start is not None  # noqa: S101 (only open windows hold panes)
            before = relabelled(contents.segment, np.array([start // pane - 1]))
            parts = [before, *parts]
            starts = np.concatenate(([self.window.start], starts))
            ends = np.concatenate(([contents.until], ends))
            counts = np.concatenate(([[contents.events], [contents.late]], counts), axis=1)
        if not parts:
            return
        whole = merge(parts)
        runs, self.window, first = close_windows(self.window, whole, starts, ends, end)
        labels = np.zeros(len(starts), np.int64)
        for number, (_, begin, last) in enumerate(runs):
            labels[begin:last] = number
        labels[first:] = len(runs)
        windows = relabelled(whole, labels)
        self._contents = None
        for number, (boundary, begin, last) in enumerate(runs):
            events, late = counts[:, begin:last].sum(axis=1).tolist()
            yield _closed(self._layout, boundary, windows.between(number, number + 1), events, late)
        if self.window.start is not None:
            events, late = counts[:, first:].sum(axis=1).tolist()
            left = windows.between(len(runs), len(runs) + 1)
            self._contents = self._contents_of(left, events, late, int(ends[-1]))

    def end(self, pieces: Pieces) -> Iterator[Closed]:
        if self._next is not None:
            self._restore(pieces, self._next)
            yield from self._as_it_is(self._next, "end")

    def open_starts(self, before: int) -> Sequence[int]:
        start = self._next if self.window.start is None else self.window.start
        return [] if start is None or start >= before else [start]


class GridFollower(Follower):
    """Tumbling and sliding windows: their panes are merged when they close."""

    def __init__(self, layout: Layout, spec: WindowSpec, stored: Mapping[str, Any] | None) -> None:
        super().__init__(layout, stored)
        self._length = spec.length
        self._every = spec.every or spec.length
        same = stored is not None and stored.get("grid") == self._grid
        self._since: int | None = stored["since"] if stored and same else self._next
        """Windows that ended before this were of another length: they are not looked for."""

    def state(self) -> Mapping[str, Any]:
        return {"next": self._next, "grid": self._grid, "since": self._since}

    @property
    def _grid(self) -> list[int]:
        return [self._length, self._every]

    def open_window(self) -> tuple[int, int] | None:
        if self._next is None:
            return None
        start = first_open(self._next, self._length, self._every)
        return start, start + self._length

    def missed(self, pieces: Pieces, panes: np.ndarray) -> Iterator[Closed]:
        if self._next is None:
            return
        starts = starts_of_windows(panes, self._length, self._every)
        ends = starts + self._length
        due = starts[(ends <= self._next) & (ends > (self._since or 0))]
        new = [at for at in due.tolist() if not window_at(pieces.view, self._layout.name, at)]
        yield from self._one_by_one(pieces, new)

    def step(self, pieces: Pieces, sealed_until: int) -> Iterator[Closed]:
        bounds = pieces.bounds(self._layout)
        if bounds is None:
            return
        # the first events may be ahead of the watermark, and earlier ones come in time after them
        after = self._next if self._next is not None else min(bounds[0], sealed_until)
        due, panes = self._due(pieces, after, sealed_until)
        due = due[due + self._length <= sealed_until]
        for start, closed in self._closings(pieces, due, panes):
            self._next = start + self._length
            yield closed
        self._next = max(sealed_until, after)

    def end(self, pieces: Pieces) -> Iterator[Closed]:
        if self._next is None:
            return
        due, _ = self._due(pieces, self._next, self._next)
        yield from self._one_by_one(pieces, due.tolist(), self._next)

    def open_starts(self, before: int) -> Sequence[int]:
        if self._next is None:
            return []
        return range(first_open(self._next, self._length, self._every), before, self._every)

    def _due(self, pieces: Pieces, after: int, until: int) -> tuple[np.ndarray, Slices]:
        """Starts of the windows that end after a time and hold events of before `until`; the panes.

        Where panes are gone, rollups tell.
        """
        layout, length, every = self._layout, self._length, self._every
        first = after - length
        whole = min(max(first, _horizon(pieces, layout) or first), until)
        panes = pieces.slices(layout, layout.pane, whole, until)
        due = [starts_of_windows(panes.starts, length, every)]
        for level, *run in pieces.extent(layout).rollups.tiles(first, whole):
            if level is not None:
                starts = pieces.slices(layout, level, *run).starts
                due.append(starts_of_windows(starts, length, every, level))
        starts = np.unique(np.concatenate(due))
        return starts[starts + length > after], panes

    def _closings(
        self, pieces: Pieces, due: np.ndarray, panes: Slices
    ) -> Iterator[tuple[int, Closed]]:
        """Windows that do not overlap, and lie in panes: all of a chunk in one merge."""
        length, pane = self._length, self._layout.pane
        horizon = _horizon(pieces, self._layout)
        cut = len(due) if self._every < length else 0
        if horizon is not None and self._every == length:
            cut = int(np.searchsorted(due, horizon))
        for closed in self._one_by_one(pieces, due[:cut].tolist()):
            yield closed.window.start, closed
        due = due[cut:]
        if not len(due):
            return
        whole = panes.between(int(due[0]), int(due[-1]) + length).at_length(length)
        for start, end in chunks(whole, int(due[0]), int(due[-1]) + length, length):
            parts = pieces.segments(self._layout, pane, start, end)
            windows = merge(parts, length // pane)
            for number in windows.slices.tolist():
                at = number * length
                inside = whole.between(at, at + 1)
                boundary = Boundary(at, at + length, "full", False)
                segment = windows.between(number, number + 1)
                yield at, _closed(self._layout, boundary, segment, inside.count, inside.late_count)

    def _one_by_one(
        self, pieces: Pieces, due: Sequence[int], until: int | None = None
    ) -> Iterator[Closed]:
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
                yield _closed(self._layout, boundary, merged.segment, merged.events, merged.late)


def _horizon(pieces: Pieces, layout: Layout) -> int | None:
    """Retention has dropped the panes before this."""
    return pieces.extent(layout).dropped


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


def _closed(layout: Layout, boundary: Boundary, segment: Segment, events: int, late: int) -> Closed:
    window = ClosedWindow(
        summary=layout.name,
        start=boundary.start,
        end=boundary.end,
        reason=boundary.reason,
        revision=0,
        overflowed=boundary.overflowed,
        events=events,
        late=late,
        fill=layout.spec.fill(segment),
        closed_at=0,
    )
    return Closed(window, Merged(segment, events, late, None))
