"""Late events that no closed window holds: the windows that they bring about.

The rule: each event of a sealed pane lies in exactly one floating window, and in all windows of a
grid that hold its pane, also where it came late. A late event in a window that has closed makes a
revision of it. Where there is none (nothing was there to close, or it lies between two floating
windows) a window closes now, with revision 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from muntin.ledger.base import Ledger
from muntin.reading.panes import Layout, Panes
from muntin.windows.floating import Boundary, FloatingWindow
from muntin.windows.grid import windows_of

Span = tuple[int, int]


def missing_of_grid(
    layout: Layout, ledger: Ledger, panes: Sequence[int], length: int, every: int, until: int
) -> list[Span]:
    """Windows of a grid that hold one of these panes, ended before `until`, and never closed."""
    due = {span for pane in panes for span in windows_of(pane, length, every) if span[1] <= until}
    return sorted(
        (start, end)
        for start, end in due
        if not ledger.windows(layout.name, start=start, end=start + 1, limit=1)
    )


def gaps_between(
    layout: Layout, ledger: Ledger, panes: Sequence[int], until: int
) -> Iterator[Span]:
    """From the first of these panes that no window holds to the next window, or `until`."""
    reached = None
    for pane in sorted(panes):
        if pane >= until or (reached is not None and pane < reached):
            continue
        before = ledger.windows(layout.name, end=pane + 1, limit=1, newest_first=True)
        if before and before[0].end > pane:
            reached = before[0].end
            continue
        after = ledger.windows(layout.name, start=pane + 1, end=until, limit=1)
        reached = min(after[0].start, until) if after else until
        yield pane, reached


def floating_in(layout: Layout, panes: Panes, window: FloatingWindow, gap: Span) -> list[Boundary]:
    """The floating windows of a gap: as ever, but the last ends where the gap does at the latest.

    It says `late` where it did not reach its own end.
    """
    window = replace(window, start=None, overflowed=False)
    found: list[Boundary] = []
    for pane in panes.starts(layout, *gap):
        window, boundary = window.close_by(pane)
        if boundary:
            found.append(boundary)
        rows = {} if window.capacity is None else _rows(layout, panes, window.start, pane)
        window, boundary = window.close_before(pane, rows)
        if boundary:
            found.append(boundary)
            rows = _rows(layout, panes, None, pane)
        window = window.take(pane, rows)
    if window.start is not None and window.end is not None:
        full = window.end <= gap[1]
        end = window.end if full else gap[1]
        found.append(Boundary(window.start, end, "full" if full else "late", window.overflowed))
    return found


def _rows(layout: Layout, panes: Panes, start: int | None, pane: int) -> dict[str, int]:
    """Rows per key of the open window with a pane."""
    merged = panes.window(layout, pane if start is None else start, pane + layout.pane)
    return {} if merged.problem is not None else layout.spec.fill(merged.summary)
