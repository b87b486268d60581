"""What a batch adds to the ledger: what workers sent, as pieces, and what rollups receive."""

from collections.abc import Iterator, Mapping, Sequence

from muntin.assembly.cutting import Cutting
from muntin.ledger.records import Partial
from muntin.ledger.slices import Slices
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces
from muntin.segments.building import meeting, merge
from muntin.segments.codec import decode, read_index
from muntin.segments.table import Segment

MERGED_BYTES_MAX = 64 << 20  # more is stored as it travelled, and merged when there is time
SMALL_BYTES = 1 << 18  # neighbours that are less than this together become one piece
Covered = Mapping[int, tuple[int, int]]  # length -> (start, until): what rollups cover


def partials_of(
    now: Pieces, layout: Layout, cutting: Cutting, payloads: Sequence[bytes]
) -> list[Partial]:
    """The partials of one summary.

    What tasks sent of other times each, as they do where rows come in order of time, is stored as
    it travelled: to open and to merge it would take the driver longer than all else.

    `now`: what the ledger holds before the batch.
    `payloads`: segments in slices of the pane, as workers sent them.
    """
    covered = now.extent(layout).rollups.covered
    read = [(read_index(payload), payload) for payload in payloads]
    found: list[Partial] = []
    groups = [read]  # what is cut by shard is cut as a whole, when it is large
    if cutting.shards == 1:
        groups = meeting(read, lambda one: one[0].slices, lambda one: len(one[1]), SMALL_BYTES)
    for group in groups:
        if len(group) > 1 and sum(len(payload) for _, payload in group) <= MERGED_BYTES_MAX:
            whole = merge([decode(payload) for _, payload in group])
            found += partials_of_segment(cutting, layout.pane, covered, whole)
            continue
        for index, payload in group:
            slices = Slices.of(index.slices * layout.pane, index.events)
            found.append(Partial(layout.name, slices, payload))
            if any(len(slices.between(*reach)) for reach in covered.values()):
                found += _received(cutting, layout.pane, covered, decode(payload), slices)
    return found


def partials_of_segment(
    cutting: Cutting, pane: int, covered: Covered, segment: Segment
) -> Iterator[Partial]:
    """The partials of what was merged: on the driver, or of one shard on an executor."""
    for part in cutting.pieces(segment):
        slices = Slices.of(part.slices * pane, part.events)
        yield Partial(cutting.summary, slices, cutting.payload(part), shard=part.shard)
        yield from _received(cutting, pane, covered, part, slices)


def _received(
    cutting: Cutting, pane: int, covered: Covered, segment: Segment, slices: Slices
) -> Iterator[Partial]:
    """What comes to the rollups that cover slices already."""
    for length, (start, until) in sorted(covered.items()):
        if len(slices.between(start, until)):
            inside = segment.between(start // pane, until // pane)
            late = merge([inside], length // pane)
            yield Partial(
                cutting.summary, Slices.of(late.slices * length, late.events),
                cutting.payload(late), length, late.shard,
            )  # fmt: skip
