"""Which slices of a summary are rolled up, dirty or dropped, and what follows from it. Pure.

A slice of length L starts on a multiple of L. Lengths nest: of any two, one divides the other, so
that a shorter slice lies in exactly one longer slice. The invariant that all rules here serve:

    a rolled-up slice that is not dirty holds every event of its range that is not gone for good;
    one that is dirty can be made again from what is below it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muntin.errors import BadArgument
from muntin.ledger.records import Coverage, Piece
from muntin.ledger.rules import INT64_MAX, whole


@dataclass(slots=True)
class Rollups:
    """The rollups of one summary."""

    pane_us: int
    covered: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Length -> (start, until): every slice in between is rolled up, unless dirty."""
    dirty: dict[int, set[int]] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)
    """Length -> horizon: retention has dropped the slices before it (also of the panes)."""

    def copy(self) -> Rollups:
        return Rollups(
            self.pane_us,
            dict(self.covered),
            {length: set(starts) for length, starts in self.dirty.items()},
            dict(self.dropped),
        )

    def coverage(self) -> list[Coverage]:
        return [
            Coverage(length, start, until, frozenset(self.dirty.get(length, ())))
            for length, (start, until) in sorted(self.covered.items())
        ]

    def covers(self, length: int, start: int) -> bool:
        """Is the slice rolled up, dirty or not?"""
        reach = self.covered.get(length)
        return reach is not None and reach[0] <= start < reach[1]

    def clean(self, length: int, start: int) -> bool:
        return self.covers(length, start) and start not in self.dirty.get(length, ())

    def receivers(self, pane: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """(length, start) of the slices that a partial is added to, and of those it makes dirty.

        It is added to its pane, and the rollups that hold the pane become dirty. Where retention
        has dropped what a rollup was made from, the rollup cannot be made again: there the
        partial becomes one more piece of the rollup, which so stays right.
        """
        added, spoiled = [], []
        if pane >= self.dropped.get(self.pane_us, pane):
            added.append((self.pane_us, pane))
        for length in sorted(self.covered):
            start = pane - pane % length
            if self.covers(length, start):
                again = all(level is not None for level, _, _ in self._below(length, start))
                (spoiled if again else added).append((length, start))
        return added or [(self.pane_us, pane)], spoiled

    def check_slice(self, length: int, start: int) -> None:
        """Refuse a rollup whose slice does not fit to the pane, the others or the coverage."""
        whole(length, "length", least=1)
        whole(start, "start", most=INT64_MAX - length)
        if length <= self.pane_us:
            raise BadArgument(
                f"a rollup of {length} us must be longer than the pane, {self.pane_us} us"
            )
        if start % length:
            raise BadArgument(f"start {start} is not a multiple of the rollup's {length} us")
        for other in (self.pane_us, *self.covered):
            if length % other and other % length:
                raise BadArgument(
                    f"rollups of {length} us do not nest with those of {other} us: one must be a "
                    "multiple of the other; drop the others first, or choose another length"
                )
        reach = self.covered.get(length)
        if reach is not None and not reach[0] - length <= start <= reach[1]:
            raise BadArgument(
                f"rollups of {length} us reach from {reach[0]} to {reach[1]}; a slice at {start} "
                "would leave a gap"
            )

    def cover(self, length: int, start: int) -> None:
        """Note that a slice is rolled up and clean."""
        first, until = self.covered.get(length, (start, start))
        self.covered[length] = (min(first, start), max(until, start + length))
        self.dirty.get(length, set()).discard(start)

    def gap_before(self, length: int, until: int) -> tuple[int, int] | None:
        """From where the coverage ends to `until`; None where it reaches that far, or nowhere."""
        if until % length:
            raise BadArgument(f"until {until} is not a multiple of the rollup's {length} us")
        reach = self.covered.get(length)
        return None if reach is None or until <= reach[1] else (reach[1], until)

    def extend(self, length: int, until: int) -> None:
        """Note that the slices up to `until` hold nothing, and so are rolled up."""
        self.covered[length] = (self.covered[length][0], until)

    def _below(self, length: int, start: int) -> Iterator[tuple[int | None, int, int]]:
        """(level, from, to): which shorter rollups hold the part of a slice whose panes are gone.

        The level is None where none does.
        """
        at, end = start, min(start + length, self.dropped.get(self.pane_us, start))
        shorter = [level for level in sorted(self.covered) if level < length]
        while at < end:
            level = next((one for one in shorter if at % one == 0 and self.covers(one, at)), None)
            begins = [self.covered[one][0] for one in shorter]
            until = min([end, *(begin for begin in begins if begin > at)])
            if level is not None:
                until = min(until, self.covered[level][1])
            yield level, at, until
            at = until

    def levels(self, length: int, start: int) -> list[tuple[int, int, int]]:
        """(level, from, to): where pieces shorter than a slice make up all that it holds.

        The panes, wherever they are; and where they were dropped, the shortest rollups. What
        nothing holds any more counts as empty.

        Raises
        ------
        BadArgument
            Only a rollup that is not shorter holds a part: it cannot be taken apart.
        """
        found = [(self.pane_us, start, start + length)]
        for level, begin, end in self._below(length, start):
            if level is not None:
                found.append((level, begin, end))
            elif any(first < end and until > begin for first, until in self.covered.values()):
                raise BadArgument(
                    f"retention has dropped the panes from {begin} to {end}, and only longer "
                    f"rollups hold them: begin the rollups of {length} us at "
                    f"{self.dropped[self.pane_us]} or later"
                )
        return found

    def to_compare(
        self, length: int, start: int, seen: Iterable[tuple[int, int]]
    ) -> list[tuple[int, int, int]]:
        """(level, from, to) of the pieces that `holds_all` has to know.

        Of a rollup, only the slices that were seen, (level, start): where others of its length
        are dirty, what is below them was merged instead.
        """
        used = sorted({at for at in seen if at[0] != self.pane_us})
        return self.levels(length, start) + [(level, at, at + level) for level, at in used]

    def cut(self, length: int, before: int, end: int) -> int:
        """Where `drop_before` has to stop: slices of `length` that start before it may go.

        `end` is that of the last piece stored; no horizon lies beyond what is known.
        """
        if length in self.covered:
            known = self.covered[length][1]
        else:
            known = max([end, *(until for _, until in self.covered.values())])
        cut = min(before, known)
        cut -= cut % length
        longer = sorted(other for other in self.covered if other > length)
        stops = [min(self.dirty[other]) for other in longer if self.dirty.get(other)]
        if longer:  # the next longer ones are made from these, and all others from those
            until = self.covered[longer[0]][1]
            stops.append(min(until, cut - cut % longer[0]))
        for stop in stops:
            if length == self.pane_us or self.dropped.get(self.pane_us, stop) > stop:
                cut = min(cut, stop)  # the panes do not hold what lies after the stop
        return cut

    def drop(self, length: int, cut: int) -> None:
        """Note that the slices of `length` before `cut` are gone."""
        self.dropped[length] = max(self.dropped.get(length, cut), cut)
        reach = self.covered.get(length)
        if reach is None:
            return
        if cut >= reach[1]:
            del self.covered[length]
            self.dirty.pop(length, None)
            return
        self.covered[length] = (max(reach[0], cut), reach[1])
        self.dirty[length] = {start for start in self.dirty.get(length, ()) if start >= cut}


def check_replaced(replaced: Sequence[Piece]) -> tuple[set[int], int, int]:
    """Ids, length and start of the pieces to compact, which must be of one slice."""
    slices = {(piece.summary, piece.length, piece.start) for piece in replaced}
    ids = {piece.id for piece in replaced}
    if len(slices) != 1 or len(ids) != len(replaced):
        raise BadArgument(
            f"{len(replaced)} pieces to compact have {len(ids)} ids and lie in {len(slices)} "
            "slices; they must be different pieces of one slice"
        )
    ((_, length, start),) = slices
    return ids, length, start


def check_sums(what: str, given: tuple[int, int], stored: tuple[int, int]) -> None:
    """Refuse what would lose or invent events."""
    if given != stored:
        raise BadArgument(
            f"{what} would hold {given[0]} events, {given[1]} of them late; the pieces it is made "
            f"from hold {stored[0]}, {stored[1]} late: sum them up"
        )


def sums_of(made: tuple[int, int, bytes] | None) -> tuple[int, int]:
    """Events and late events of a rollup; none where it is None."""
    if made is None:
        return 0, 0
    return whole(made[0], "events", least=0), whole(made[1], "late", least=0)


def pieces_made(
    made: tuple[int, int, bytes] | None, more: Sequence[tuple[int, int, bytes]]
) -> list[tuple[int, int, bytes]]:
    """All pieces of a rollup."""
    if made is None and more:
        raise BadArgument("a rollup of no events has no further pieces")
    return [] if made is None else [made, *more]


def holds_all(
    rollups: Rollups,
    length: int,
    seen: Sequence[tuple[int, int, int]],
    stored: Iterable[tuple[int, int, int]],
) -> bool:
    """Do the pieces `seen` make up all that a slice holds?

    Parameters
    ----------
    seen
        (id, length, start) of each piece that was merged and is still there.
    stored
        The same of each piece that is there now in the parts that `to_compare` names.
    """
    ids = {identifier for identifier, _, _ in seen}
    slices: dict[int, set[int]] = {}
    for _, level, start in seen:
        if level >= length or (level != rollups.pane_us and not rollups.clean(level, start)):
            return False
        slices.setdefault(level, set()).add(start)
    return all(
        identifier in ids or _in_longer(level, start, slices) for identifier, level, start in stored
    )


def _in_longer(level: int, start: int, slices: Mapping[int, Collection[int]]) -> bool:
    return any(
        longer > level and start - start % longer in starts for longer, starts in slices.items()
    )
