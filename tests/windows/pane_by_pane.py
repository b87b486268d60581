"""The rule of floating windows, one pane after another: what one pass over all must give."""

from __future__ import annotations

from dataclasses import replace

from muntin.windows.floating import Boundary, FloatingWindow


def close_by(window: FloatingWindow, sealed_until: int) -> tuple[FloatingWindow, Boundary | None]:
    """Close the open window if time up to `sealed_until` is sealed and that is past its end."""
    if window.start is None or window.end is None or window.end > sealed_until:
        return window, None
    boundary = Boundary(window.start, window.end, "full", window.overflowed)
    return replace(window, start=None, overflowed=False), boundary


def close_before(
    window: FloatingWindow, pane: int, rows_after: dict
) -> tuple[FloatingWindow, Boundary | None]:
    """Close the open window if the pane would take it past its capacity: to `rows_after`."""
    if window.start is None or not too_many(window, rows_after):
        return window, None
    boundary = Boundary(window.start, pane, "capacity", window.overflowed)
    return replace(window, start=None, overflowed=False), boundary


def take(window: FloatingWindow, pane: int, rows: dict) -> FloatingWindow:
    """Take a pane that holds events; `rows` per key are those of the window with the pane."""
    start = pane if window.start is None else window.start
    return replace(window, start=start, overflowed=window.overflowed or too_many(window, rows))


def too_many(window: FloatingWindow, rows: dict) -> bool:
    most = window.rows_max
    return most is not None and any(number > most for number in rows.values())
