"""Floating windows: they close when they are full in time, or before they would overflow.

The boundaries are a pure function of the sealed panes, in event-time order, and of what clients
asked for (`slow_down`, `resume`):

- a window starts at T, the start of its first pane that holds events;
- it closes at T + W with reason "full";
- it closes before a pane that would take any key past `capacity` rows, with reason "capacity";
- a single pane with more rows than that is a window that says `overflowed`: nothing is lost;
- then T is the start of the next pane that holds events.

`slow_down` doubles W, up to a limit, and the capacity with it; it holds until `resume`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from muntin.errors import BadArgument
from muntin.segments.table import Segment
from muntin.windows import kernels as kernels

_ROWS_MAX = 1 << 62  # no window has as many; kernels add to it in int64

Reason = Literal["full", "capacity", "late", "end"]
"""Why a window closed; the dashboard has a name and a colour for each."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """A window that has just closed."""

    start: int
    end: int
    reason: Reason
    overflowed: bool


@dataclass(frozen=True, slots=True)
class FloatingWindow:
    """State between panes; immutable, so that a step that fails leaves it as it was."""

    length: int
    """W0, microseconds, a multiple of the pane."""
    limit: int
    """What `slow_down` may lengthen W to."""
    capacity: int | None
    """Rows per key that a window may hold."""
    start: int | None = None
    """T; None while no window is open."""
    overflowed: bool = False
    factor: int = 1
    """W = length * factor: 1, or a power of two after `slow_down`."""
    most: int = 1
    """The largest factor since the open window began: by this it may hold what it holds."""

    def __post_init__(self) -> None:
        if self.limit < self.length:
            raise BadArgument(f"limit {self.limit} us is below the length {self.length} us")

    @property
    def length_now(self) -> int:
        """W."""
        return self.length * self.factor

    @property
    def end(self) -> int | None:
        """Where the open window closes if it does not overflow before."""
        return None if self.start is None else self.start + self.length_now

    @property
    def rows_max(self) -> int | None:
        """Rows per key that the open window may hold."""
        return None if self.capacity is None else min(self.capacity * self.factor, _ROWS_MAX)

    def slow_down(self) -> FloatingWindow:
        """Double W and the capacity, up to the limit."""
        return replace(self, factor=self.factor * 2) if self.length_now * 2 <= self.limit else self

    def within_limit(self) -> FloatingWindow:
        """No longer than the limit, which a changed spec may have lowered."""
        factor = self.factor
        while factor > 1 and self.length * factor > self.limit:
            factor //= 2
        return self._by(factor)

    def _by(self, factor: int) -> FloatingWindow:
        return replace(self, factor=factor, most=max(self.most, self.factor))

    def resume(self) -> FloatingWindow:
        """Back to W0. An open window that is longer already closes with the next sealed pane."""
        return self._by(1)

    def closed(self) -> FloatingWindow:
        """None is open."""
        return replace(self, start=None, overflowed=False, most=1)


ClosingRun = tuple[Boundary, int, int]
"""A window that closes: it holds the panes from one number to another of those that were given."""


def close_windows(
    window: FloatingWindow, panes: Segment, starts: np.ndarray, ends: np.ndarray, sealed_until: int
) -> tuple[list[ClosingRun], FloatingWindow, int]:
    """The windows that close as one pane after another is taken, in one pass over all; then the
    window that is left, and the pane from which it holds all.

    `panes`: slices in order of time. Where a window is open, its first slice is all that the window
    holds so far; `starts` and `ends` have of it where the window starts, and the end of the last
    pane that it holds. `sealed_until`: no pane before this comes any more.
    """
    tables = panes.tables
    rows = np.zeros((len(tables), len(panes.slices) + 1), np.int64)
    keys_from = np.zeros(len(tables) + 1, np.int64)
    at = 0
    for number, table in enumerate(tables):
        sizes = np.zeros(len(panes.slices), np.int64)
        sizes[np.searchsorted(panes.slices, table.slices)] = np.diff(table.starts)
        rows[number] = at + np.concatenate(([0], np.cumsum(sizes)))
        keys_from[number + 1] = keys_from[number] + len(table.keys) + 1  # and the rest of the keys
        at += len(table)
    keys = np.concatenate([table.key for table in tables]) if tables else np.empty(0, np.int64)
    closed = np.zeros((len(starts) + 1, 6), np.int64)
    state = np.zeros(4, np.int64)
    opened = window.start is not None
    if window.start is not None:
        state[:2] = window.start, int(window.overflowed)
    widest = replace(window, factor=max(window.most, window.factor))
    capacity, held = (-1 if w.rows_max is None else w.rows_max for w in (window, widest))
    number = kernels.close_floating(
        starts, ends, rows, keys, keys_from, int(opened), window.length_now, capacity,
        held, sealed_until, closed, state,
    )  # fmt: skip
    why: tuple[Reason, ...] = "full", "capacity"  # as the kernel numbers them
    runs = [
        (Boundary(start, end, why[reason], bool(overflowed)), first, last)
        for start, end, reason, overflowed, first, last in closed[:number].tolist()
    ]
    is_open, start, overflowed, first = state.tolist()
    left = window if is_open and start == window.start else window.closed()
    if is_open:
        left = replace(left, start=start, overflowed=bool(overflowed))
    return runs, left, first
