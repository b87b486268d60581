"""Rollups: which stored slices cover a window with the fewest merges.

Lengths form a ladder, each a multiple of the one before, e.g. 10 s, 1 min, 10 min, 1 h, 1 d: a
window of any length is then a few slices of each rung.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from muntin.errors import BadArgument
from muntin.times import duration_text

SECOND = 1_000_000
_RUNGS = tuple(
    seconds * SECOND
    for seconds in (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400)
)


def ladder(pane: int) -> tuple[int, ...]:
    """Default lengths of rollups above a pane: steps of 4 to 10, ending at 28 days."""
    rungs: list[int] = []
    below = pane
    for rung in _RUNGS:
        if rung % below == 0 and rung // below >= 4:
            rungs.append(rung)
            below = rung
    return tuple(rungs)


def checked_ladder(pane: int, rungs: Sequence[int]) -> tuple[int, ...]:
    """Rungs in order, each a proper multiple of the one below, the pane first."""
    for below, above in pairwise((pane, *rungs)):
        if above <= below or above % below:
            raise BadArgument(
                f"rollups: {duration_text(above)} is not a multiple of {duration_text(below)}, the "
                "length before it: each must be, the first of the pane"
            )
    return tuple(rungs)
