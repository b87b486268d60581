"""Which slices of a summary are rolled up or dropped, and what follows from it. Pure.

A slice of length L starts on a multiple of L. Lengths nest: of any two, one divides the other, so
that a shorter slice lies in exactly one longer slice. The invariant that all rules here serve:

    the pieces of a length hold every event of what that length covers, at every moment.

A late event therefore comes with its pane and, in the same batch, once for each length that covers
it. Nothing has to be marked as wrong and made again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muntin.errors import BadArgument
from muntin.ledger.records import Made
from muntin.ledger.rules import INT64_MAX, whole
from muntin.ledger.slices import NOTHING, Slices, added_up, check_slices

Tile = tuple[int | None, int, int]
"""(length, from, to): which pieces hold a part of time; the length is None where none do."""


@dataclass(slots=True)
class Rollups:
    """The rollups of one summary."""

    pane_us: int
    covered: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Length -> (start, until)."""
    dropped: dict[int, int] = field(default_factory=dict)
    """Length -> horizon: retention has dropped the slices before it (also of the panes)."""

    def tiles(self, start: int, end: int, below: int | None = None, step: int = 0) -> list[Tile]:
        """The fewest runs of slices that hold [start, end), from lengths under `below`. `start`,
        `end`: microseconds, multiples of the pane. `below`: only lengths under this; None: all.
        `step`: only lengths that divide it, as all do 0."""
        lengths = [n for n in sorted(self.covered, reverse=True) if below is None or n < below]
        return list(self._tiles(start, end, [n for n in lengths if step % n == 0]))

    def _tiles(self, start: int, end: int, lengths: Sequence[int]) -> list[Tile]:
        if start >= end:
            return []
        if not lengths:
            kept_from = min(max(start, self.dropped.get(self.pane_us, start)), end)
            tiles: list[Tile] = [(None, start, kept_from), (self.pane_us, kept_from, end)]
            return [tile for tile in tiles if tile[1] < tile[2]]
        length, shorter = lengths[0], lengths[1:]
        covers_from, covers_until = self.covered[length]
        first = -(-max(start, covers_from) // length) * length
        last = min(end, covers_until) // length * length
        if first >= last:
            return self._tiles(start, end, shorter)
        return [
            *self._tiles(start, first, shorter),
            (length, first, last),
            *self._tiles(last, end, shorter),
        ]

    def check_range(self, length: int, start: int, until: int) -> None:
        """Refuse rollups that fit neither the pane, nor the others, nor what is covered."""
        if length <= self.pane_us:
            raise BadArgument(
                f"a rollup of {length} us must be longer than the pane, {self.pane_us} us"
            )
        if start % length or until % length or start >= until:
            raise BadArgument(
                f"rollups of {length} us cannot reach from {start} to {until}: both must be "
                "multiples of the length, and the first below the second"
            )
        for other in (self.pane_us, *self.covered):
            if length % other and other % length:
                raise BadArgument(
                    f"rollups of {length} us do not nest with those of {other} us: one must be a "
                    "multiple of the other; drop the others first, or choose another length"
                )
        reach = self.covered.get(length)
        if reach is not None and start != reach[1] and until != reach[0]:
            raise BadArgument(
                f"rollups of {length} us reach from {reach[0]} to {reach[1]}; those from {start} "
                f"to {until} must begin where these end, or end where they begin"
            )

    def sources(self, length: int, start: int, until: int) -> list[tuple[int, int, int]]:
        """(length, from, to) of what rollups are made from. Raises BadArgument: retention has
        dropped a part, or only longer rollups hold it, which cannot be taken apart: what would be
        made were no whole slices."""
        tiles = self.tiles(start, until, below=length)
        for level, _, end in tiles:
            if level is None:
                raise BadArgument(
                    f"rollups of {length} us from {start} to {until} would lack what retention has "
                    f"dropped: begin them at {-(-end // length) * length} or later"
                )
        return [(level, begin, end) for level, begin, end in tiles if level is not None]

    def read_by(self, starts: Iterable[int], until: int) -> dict[int, int]:
        """Length -> start of the first slice that windows read which start there and end later.

        `starts`: multiples of the pane, ascending.
        `until`: where what is stored ends.
        """
        first: dict[int, int] = {}
        lengths = self.pane_us, *self.covered
        for start in starts:
            # of no length does this window, or a later one, read a slice before what is found
            if all(first.get(n, until - n + 1) <= -(-start // n) * n for n in lengths):
                break
            for length, begin, _ in self.tiles(start, until):
                if length is not None:
                    first[length] = min(begin, first.get(length, begin))
        return first

    def cover(self, length: int, start: int, until: int) -> None:
        """Note that the slices from `start` to `until` are rolled up."""
        first, last = self.covered.get(length, (start, until))
        self.covered[length] = (min(first, start), max(last, until))

    def due(self, panes: Slices) -> dict[int, Slices]:
        """Length -> what of these panes its rollups must receive as well."""
        found = {length: panes.between(*reach) for length, reach in self.covered.items()}
        return {length: part.at_length(length) for length, part in found.items() if len(part)}

    def cut(self, length: int, before: int, end: int) -> int:
        """Where `drop_before` has to stop: slices of `length` that start before it may go. `end` is
        that of the last piece stored; no horizon lies beyond what is known."""
        if length in self.covered:
            known = self.covered[length][1]
        else:
            known = max([end, *(until for _, until in self.covered.values())])
        cut = min(before, known)
        cut -= cut % length
        longer = sorted(other for other in self.covered if other > length)
        if not longer or (before == INT64_MAX and length != self.pane_us):
            return cut  # rollups are given up whole: nobody adds to what would be left of them
        # the next longer ones are made from these, and all others from those
        stop = min(self.covered[longer[0]][1], cut - cut % longer[0])
        if length == self.pane_us or self.dropped.get(self.pane_us, stop) > stop:
            cut = min(cut, stop)  # the panes do not hold what lies after the stop
        if length == self.pane_us:  # nor may they go where a longer one finds nothing else
            left = Rollups(self.pane_us, self.covered, {self.pane_us: cut})
            for other in longer:
                until = self.covered[other][1]
                if any(tile[0] is None for tile in left.tiles(until, cut, below=other)):
                    cut = min(cut, until)
        return cut

    def drop(self, length: int, cut: int) -> None:
        """Note that the slices of `length` before `cut` are gone."""
        self.dropped[length] = max(self.dropped.get(length, cut), cut)
        reach = self.covered.get(length)
        if reach is None:
            return
        if cut >= reach[1]:
            del self.covered[length]
            return
        self.covered[length] = (max(reach[0], cut), reach[1])


def check_sums(what: str, given: Slices, stored: Slices) -> None:
    """Refuse what would lose or invent events, or move them to another slice."""
    if given == stored:
        return
    both = added_up([given, Slices(stored.starts, -stored.events, -stored.late)])
    wrong = (both.events != 0) | (both.late != 0)
    at = int(both.starts[wrong.argmax()])
    found, meant = (
        (part.between(at, at + 1).count, part.between(at, at + 1).late_count)
        for part in (given, stored)
    )
    raise BadArgument(
        f"{what} would hold {found[0]} events of the slice {at}, {found[1]} of them late; the "
        f"pieces it is made from hold {meant[0]}, {meant[1]} late: sum them up"
    )


def check_made(what: str, made: Sequence[Made], length: int) -> Slices:
    """What pieces to be stored hold together."""
    for piece in made:
        check_slices(what, piece.slices, length)
        whole(piece.shard, "shard", least=0)
    return added_up([piece.slices for piece in made])


def check_received(
    summary: str, rollups: Rollups, panes: Slices, given: Mapping[int, Sequence[Slices]]
) -> None:
    """Refuse a batch whose rollups do not receive just what its panes hold of their range."""
    due = rollups.due(panes)
    for length in due.keys() | given.keys():
        if length not in rollups.covered:
            raise BadArgument(
                f'no rollups of "{summary}" have {length} us: a batch adds to panes, and to the '
                "rollups that cover them"
            )
        meant, found = due.get(length, NOTHING), added_up(given.get(length, ()))
        what = f'what the batch adds to the rollups of "{summary}" of {length} us'
        check_sums(what, found, meant)
