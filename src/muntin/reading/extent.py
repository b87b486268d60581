"""What a ledger still has of a summary: whole slices only, whatever retention has dropped."""

from dataclasses import dataclass

from muntin.kinds import SegmentSpec
from muntin.ledger.base import View
from muntin.ledger.rollups import Rollups

Run = tuple[int, int, int]  # length of slices, start of the first, end of the last


@dataclass(frozen=True, slots=True)
class Layout:
    """How one summary lies in the ledger."""

    name: str
    spec: SegmentSpec
    pane: int
    rungs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """What is stored of a run of panes that was asked for."""

    runs: tuple[Run, ...]
    """The slices to read. They lie together, without a gap."""
    covered: tuple[int, int] | None
    """What was asked for as far as it lies between the first and the last event that are stored."""
    whole: bool
    """Nothing of what was asked for has been dropped.

    Only such windows close, or get a revision that holds all: what is stored of them is said to be
    all of it.
    """


class Extent:
    """What is stored of one summary, at one moment.

    A pane is whole from the horizon of retention on: before it there may be panes again, of late
    events alone. A rollup is whole where rollups of its length cover it. `rollups`: what those of
    the lengths that the pipeline names cover, and what was dropped. `bounds`: start of the first
    and end of the last slice that is whole; None where there is nothing. `dropped`: retention has
    dropped the panes before this.
    """

    def __init__(self, view: View, layout: Layout) -> None:
        self._lengths = (layout.pane, *layout.rungs)
        self.rollups = Rollups(layout.pane)
        for reach in view.coverage(layout.name):
            if reach.length in layout.rungs:
                self.rollups.covered[reach.length] = (reach.start, reach.until)
        self.dropped = view.horizon(layout.name, layout.pane)
        if self.dropped is not None:
            self.rollups.dropped[layout.pane] = self.dropped
        self.bounds = self._bounds(view, layout)

    @property
    def since(self) -> int:
        """Nothing is gone from here on, since rollups hold what panes were; 0: of all time."""
        if self.dropped is None:
            return 0
        return min([self.dropped, *(start for start, _ in self.rollups.covered.values())])

    def reach(self, start: int, end: int, step: int = 0) -> Reach:
        """The whole slices of [start, end), multiples of the pane. Where what is left of it lies
        apart, the longest part that lies together. `step`: of slices that lie in steps of so long a
        grid whole; 0: of all."""
        if self.bounds is None:
            return Reach((), None, whole=self.dropped is None)
        # outside of what is stored there is nothing: an ad hoc range of a century costs nothing
        first = self.bounds[0]
        known = first if self.dropped is None else min(first, self.since)
        begin, until = max(start, known), min(end, self.bounds[1])
        runs = _longest(self.rollups, begin, until, step)
        if not runs:
            empty = begin >= until  # beyond the newest event, or before the first
            return Reach((), None, whole=empty and (self.dropped is None or start >= known))
        read = runs[0][1], runs[-1][2]
        whole = read == (begin, until) and (self.dropped is None or start >= known)
        covered = max(read[0], first), read[1]
        return Reach(tuple(runs), covered if covered[0] < covered[1] else None, whole)

    def around(self, start: int, end: int) -> Run | None:
        """The shortest stored slices around all of [start, end); None where there are none."""
        for length in self._lengths:
            wider = start // length * length, -(-end // length) * length
            reach = self.reach(*wider)
            if reach.whole and reach.runs:
                return length, *wider
        return None

    def _bounds(self, view: View, layout: Layout) -> tuple[int, int] | None:
        found = []
        panes = view.bounds(layout.name, layout.pane)
        if panes is not None:
            first = panes[0] if self.dropped is None else max(panes[0], self.dropped)
            found.append((first, panes[1]))
        if self.dropped is not None:  # the rollups that stand for panes begin earlier
            for length, rolled in self.rollups.covered.items():
                stored = view.bounds(layout.name, length)
                if stored is not None:
                    found.append((max(stored[0], rolled[0]), min(stored[1], rolled[1])))
        whole = [(first, last) for first, last in found if first < last]
        if not whole:
            return None
        return min(first for first, _ in whole), max(last for _, last in whole)


def _longest(rollups: Rollups, start: int, end: int, step: int) -> list[Run]:
    """The longest part of what is stored of [start, end) that lies together."""
    parts: list[list[Run]] = [[]]
    for length, first, until in rollups.tiles(start, end, step=step):
        if length is None:
            parts.append([])
        else:
            parts[-1].append((length, first, until))
    return max(parts, key=lambda runs: runs[-1][2] - runs[0][1] if runs else 0)
