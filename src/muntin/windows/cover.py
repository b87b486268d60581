"""Rollups: which stored slices cover a window with the fewest merges.

Lengths form a ladder, each a multiple of the one before, e.g. 10 s, 1 min, 10 min, 1 h, 1 d: a
window of any length is then a few slices of each rung.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
                f"rollup {duration_text(above)} is not a multiple of {duration_text(below)}"
            )
    return tuple(rungs)


Run = tuple[int, int, int]
"""Length of a slice, start of the first, end of the last."""


def cover(
    start: int,
    end: int,
    lengths: Sequence[int],
    usable: Callable[[int, int], bool],
    panes_from: int | None = None,
) -> Iterator[Run]:
    """Runs of slices that tile what is held of [start, end), in order, longest slices first.

    What neither a usable rollup nor a pane holds is left out: compare the runs' ends.

    Parameters
    ----------
    start, end : int
        Multiples of lengths[0].
    lengths : sequence of int
        Pane, then the rungs of the ladder.
    usable : callable
        usable(length, slice start) tells whether that rollup may be used; never asked for panes.
    panes_from : int, optional
        Panes before this were dropped; default: all are there.
    """

    def tile(start: int, end: int, level: int) -> Iterator[Run]:
        if level == 0 and panes_from is not None:
            start = max(start, panes_from)
        if start >= end:
            return
        if level == 0:
            yield lengths[0], start, end
            return
        length = lengths[level]
        at = -(-start // length) * length
        loose = start  # from here on nothing is covered yet
        run = None
        while at + length <= end:
            if usable(length, at):
                if run is None:
                    yield from tile(loose, at, level - 1)
                    run = at
                loose = at + length
            elif run is not None:
                yield length, run, at
                run = None
            at += length
        if run is not None:
            yield length, run, loose
        yield from tile(loose, end, level - 1)

    yield from tile(start, end, len(lengths) - 1)


def longest(runs: Sequence[Run]) -> list[Run]:
    """Of the runs, those that lie together without a gap and reach furthest; else the newest."""
    together: list[list[Run]] = []
    for run in runs:
        if together and together[-1][-1][2] == run[1]:
            together[-1].append(run)
        else:
            together.append([run])
    return max(reversed(together), key=lambda found: found[-1][2] - found[0][1], default=[])
