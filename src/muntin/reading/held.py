"""What a ledger still holds of a summary: whole slices only, whatever retention has dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.kinds import SummarySpec
from muntin.kinds.marked import marked_with
from muntin.ledger.base import View
from muntin.windows.cover import Run, cover, longest


@dataclass(frozen=True, slots=True)
class Layout:
    """How one summary lies in the ledger."""

    name: str
    spec: SummarySpec
    pane: int
    rungs: tuple[int, ...]

    def read(self, payload: bytes) -> Any:
        """The summary of a stored payload.

        Raises
        ------
        MuntinError
            A worker could not make one, and marked the slice; or the bytes are damaged.
        """
        problem = marked_with(payload)
        if problem is not None:
            raise problem
        return self.spec.read(payload)


@dataclass(frozen=True, slots=True)
class Reach:
    """What is held of a run of panes that was asked for."""

    runs: tuple[Run, ...]
    """The slices to read. They lie together, without a gap."""
    covered: tuple[int, int] | None
    """What was asked for as far as it lies between the first and the last event that are held."""
    whole: bool
    """Nothing of what was asked for has been dropped."""


class Held:
    """What is held of one summary, at one moment.

    A pane is whole from the horizon of retention on: before it there may be panes again, of late
    events alone. A rollup is whole where it was made and not spoiled by late events since.

    Attributes
    ----------
    bounds : (int, int) or None
        Start of the first and end of the last slice that is whole; None where there is nothing.
    dropped : int or None
        Retention has dropped the panes before this.
    """

    def __init__(self, view: View, layout: Layout) -> None:
        self._lengths = (layout.pane, *layout.rungs)
        rolled = {reach.length: reach for reach in view.coverage(layout.name)}
        self._rolled = {length: rolled[length] for length in layout.rungs if length in rolled}
        self.dropped = view.horizon(layout.name, layout.pane)
        self.bounds = self._bounds(view, layout)

    def reach(self, start: int, end: int) -> Reach:
        """The whole slices of [start, end), multiples of the pane.

        Where what is left of it lies apart, the longest part that lies together.
        """
        if self.bounds is None:
            return Reach((), None, whole=self.dropped is None)
        # outside of what is stored there is nothing: an ad hoc range of a century costs nothing
        first = self.bounds[0]
        known = first
        if self.dropped is not None:
            starts = [reach.start for reach in self._rolled.values()]
            known = min(first, self.dropped, *starts)
        begin, until = max(start, known), min(end, self.bounds[1])
        lengths, usable = self._lengths, self._usable
        runs = longest(list(cover(begin, until, lengths, usable, self.dropped)))
        if not runs:
            empty = begin >= until  # beyond the newest event, or before the first
            return Reach((), None, whole=empty and (self.dropped is None or start >= known))
        read = runs[0][1], runs[-1][2]
        whole = read == (begin, until) and (self.dropped is None or start >= known)
        covered = max(read[0], first), read[1]
        return Reach(tuple(runs), covered if covered[0] < covered[1] else None, whole)

    def around(self, start: int, end: int) -> tuple[int, int] | None:
        """The shortest slices around [start, end) that are all held; None where there are none."""
        for length in self._lengths:
            wider = start // length * length, -(-end // length) * length
            reach = self.reach(*wider)
            if reach.whole and reach.runs:
                return wider
        return None

    def _usable(self, length: int, at: int) -> bool:
        rolled = self._rolled.get(length)
        return (
            rolled is not None
            and rolled.start <= at
            and at + length <= rolled.until
            and at not in rolled.dirty
        )

    def _bounds(self, view: View, layout: Layout) -> tuple[int, int] | None:
        found = []
        panes = view.bounds(layout.name, layout.pane)
        if panes is not None:
            first = panes[0] if self.dropped is None else max(panes[0], self.dropped)
            found.append((first, panes[1]))
        if self.dropped is not None:  # the rollups that stand for panes begin earlier
            for length, rolled in self._rolled.items():
                stored = view.bounds(layout.name, length)
                if stored is not None:
                    found.append((max(stored[0], rolled.start), min(stored[1], rolled.until)))
        held = [(first, last) for first, last in found if first < last]
        if not held:
            return None
        return min(first for first, _ in held), max(last for _, last in held)
