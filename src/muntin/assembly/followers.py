"""Which windows of a summary close as panes are sealed: one follower a kind of window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from muntin.assembly.late import floating_in, gaps_between, missing_of_grid
from muntin.errors import MuntinError
from muntin.kinds import WindowSpec
from muntin.ledger.base import Ledger
from muntin.ledger.records import ClosedWindow
from muntin.reading.panes import Layout, Merged, Panes
from muntin.windows.floating import Boundary, FloatingWindow
from muntin.windows.grid import windows_of

LIMIT_FACTOR = 8  # how far slow_down may lengthen a window, unless the spec says


@dataclass(frozen=True, slots=True)
class Closed:
    """A window that closes, with what it holds."""

    window: ClosedWindow
    merged: Merged


class Follower(Protocol):
    """Closes the windows of one summary; each kind of window has its own."""

    def step(self, sealed_until: int) -> Iterator[Closed]: ...
    def state(self) -> Mapping[str, Any]: ...
    def open_window(self) -> tuple[int, int] | None: ...
    def open_fill(self) -> Mapping[str, int]: ...
    def next_pane(self) -> int | None: ...
    def forget(self) -> None:
        """Panes that were folded have changed: fold them again when needed."""
        ...

    def missed(self, ledger: Ledger, panes: Sequence[int]) -> Iterator[Closed]:
        """Windows that never closed, and would have if these sealed panes had held events then."""
        ...


def follow(
    layout: Layout, window: WindowSpec, panes: Panes, stored: Mapping[str, Any] | None
) -> Follower:
    """The follower of a summary's windows, at its stored state."""
    if window.kind == "floating":
        return FloatingFollower(layout, window, panes, stored)
    return GridFollower(layout, window, panes, stored)


class FloatingFollower:
    def __init__(
        self, layout: Layout, spec: WindowSpec, panes: Panes, stored: Mapping[str, Any] | None
    ) -> None:
        self._layout = layout
        self._panes = panes
        self.window = FloatingWindow(
            spec.length,
            spec.limit or spec.length * LIMIT_FACTOR,
            layout.spec.window_capacity,
        )
        self._next: int | None = None
        if stored:
            kept = stored.get("window") or {"start": None, "overflowed": False, "factor": 1}
            self.window = replace(
                self.window,
                start=kept["start"],
                overflowed=kept["overflowed"],
                factor=kept["factor"],
            )
            self._next = stored["next"]
        self._held: Merged | None = None  # panes of the open window that were folded so far
        self._owned = False  # may that be changed?

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
        return {} if self._held is None else fill_of(self._layout, self._held)

    def next_pane(self) -> int | None:
        return self._next

    def forget(self) -> None:
        self._held = None

    def missed(self, ledger: Ledger, panes: Sequence[int]) -> Iterator[Closed]:
        if self._next is None:
            return
        until = self._next if self.window.start is None else self.window.start
        for gap in list(gaps_between(self._layout, ledger, panes, until)):
            for boundary in floating_in(self._layout, self._panes, self.window, gap):
                merged = self._panes.window(self._layout, boundary.start, boundary.end)
                yield _closed(self._layout, boundary, merged)

    def step(self, sealed_until: int) -> Iterator[Closed]:
        first = self._next
        if first is None:
            bounds = self._panes.bounds(self._layout)
            if bounds is None:
                return
            first = bounds[0]
        self._restore(first)
        for pane, merged in self._panes.each_pane(self._layout, first, sealed_until):
            self.window, boundary = self.window.close_by(pane)
            if boundary:
                yield self._closed(boundary)
            if self._held is not None:
                rows = self._fill_after(self._held, merged)
                self.window, boundary = self.window.close_before(pane, rows)
                if boundary:
                    yield self._closed(boundary)
            self._fold(merged)
            rows = fill_of(self._layout, self._held) if self._held else {}
            self.window = self.window.take(pane, rows)
            self._next = pane + self._layout.pane
        self._next = max(sealed_until, self._next or sealed_until)
        self.window, boundary = self.window.close_by(sealed_until)
        if boundary:
            yield self._closed(boundary)

    def _restore(self, until: int) -> None:
        """Fold again what the open window held before a restart or a late event."""
        if self._held is not None or self.window.start is None:
            return
        for _, merged in self._panes.each_pane(self._layout, self.window.start, until):
            self._fold(merged)

    def _fold(self, merged: Merged) -> None:
        held = self._held
        if held is None:
            self._held, self._owned = merged, False
            return
        events, late = held.events + merged.events, held.late + merged.late
        problem = held.problem or merged.problem
        if problem is None:
            try:
                summary = held.summary if self._owned else held.summary.copy()  # a pane's is shared
                self._layout.spec.merge_into(summary, merged.summary)
            except MuntinError as found:
                problem = found
            else:
                self._held, self._owned = Merged(summary, events, late, None), True
                return
        self._held = Merged(None, events, late, None, problem=problem)

    def _fill_after(self, held: Merged, merged: Merged) -> Mapping[str, int]:
        """Of a window that has a capacity; what does not merge fills nothing."""
        if self.window.capacity is None or held.problem or merged.problem:
            return {}
        try:
            return self._layout.spec.fill_after(held.summary, merged.summary)
        except MuntinError:
            return {}

    def _closed(self, boundary: Boundary) -> Closed:
        held = self._held
        assert held is not None  # noqa: S101 (a window that has a start has folded a pane)
        self._held = None
        return _closed(self._layout, boundary, held)


class GridFollower:
    """Tumbling and sliding windows."""

    def __init__(
        self, layout: Layout, spec: WindowSpec, panes: Panes, stored: Mapping[str, Any] | None
    ) -> None:
        self._layout = layout
        self._panes = panes
        self._length = spec.length
        self._every = spec.every or spec.length
        self._next: int | None = stored["next"] if stored else None
        """Everything that ends at or before this is closed."""
        grid, since = (stored or {}).get("grid"), (stored or {}).get("since")
        self._since: int | None = since if grid in (None, self._grid) else self._next
        """Windows that ended before this were of another length: they are not looked for."""
        self._last: tuple[tuple[int, int], Merged] | None = None
        """The window that closed last, where the next one overlaps it."""

    def state(self) -> Mapping[str, Any]:
        return {"next": self._next, "grid": self._grid, "since": self._since}

    @property
    def _grid(self) -> list[int]:
        return [self._length, self._every]

    def open_window(self) -> tuple[int, int] | None:
        if self._next is None:
            return None
        start = (self._next - self._length) // self._every * self._every + self._every
        return start, start + self._length

    def open_fill(self) -> Mapping[str, int]:
        return {}  # its panes are merged when it closes

    def next_pane(self) -> int | None:
        return self._next

    def forget(self) -> None:
        self._last = None

    def missed(self, ledger: Ledger, panes: Sequence[int]) -> Iterator[Closed]:
        if self._next is None:
            return
        grid = (self._length, self._every)
        for start, end in missing_of_grid(self._layout, ledger, panes, *grid, self._next):
            if self._since is None or end > self._since:
                merged = self._panes.window(self._layout, start, end)
                yield _closed(self._layout, Boundary(start, end, "full", False), merged)

    def step(self, sealed_until: int) -> Iterator[Closed]:
        """Slides over the panes: those that enter are merged in, those that leave subtracted."""
        bounds = self._panes.bounds(self._layout)
        if bounds is None:
            return
        # the first events may be ahead of the watermark, and earlier ones come in time after them
        after = self._next if self._next is not None else min(bounds[0], sealed_until)
        due = {
            start: end
            for pane in self._panes.starts(self._layout, after - self._length, sealed_until)
            for start, end in windows_of(pane, self._length, self._every)
            if after < end <= sealed_until
        }
        for start in sorted(due):
            merged = self._merged(start, due[start])
            self._next = due[start]
            yield _closed(self._layout, Boundary(start, due[start], "full", False), merged)
        self._next = max(sealed_until, after)

    def _merged(self, start: int, end: int) -> Merged:
        merged = None
        if self._last is not None:
            span, before = self._last
            if span[0] <= start < span[1] <= end:
                merged = self._panes.slid(self._layout, before, span, start, end)
        if merged is None:
            merged = self._panes.window(self._layout, start, end)
        slides = (
            self._every < self._length
            and merged.problem is None
            and self._layout.spec.can_subtract(merged.summary)
        )
        self._last = ((start, end), merged) if slides else None
        return merged


def fill_of(layout: Layout, merged: Merged) -> dict[str, int]:
    """How full a window is; nothing is known of one whose panes do not merge."""
    return {} if merged.problem is not None else layout.spec.fill(merged.summary)


def _closed(layout: Layout, boundary: Boundary, merged: Merged) -> Closed:
    window = ClosedWindow(
        summary=layout.name,
        start=boundary.start,
        end=boundary.end,
        reason=boundary.reason,
        revision=0,
        overflowed=boundary.overflowed,
        events=merged.events,
        late=merged.late,
        fill=fill_of(layout, merged),
        closed_at=0,
    )
    return Closed(window, merged)
