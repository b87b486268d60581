"""What a batch adds to the ledger: what workers sent, as pieces, and what rollups receive."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.ledger.records import Partial
from muntin.ledger.slices import Slices
from muntin.reading.held import Layout
from muntin.reading.pieces import Pieces
from muntin.segments.building import merge
from muntin.segments.codec import cut, decode, encode, read_index
from muntin.segments.table import Segment

MERGED_BYTES_MAX = 64 << 20  # more is stored as it travelled, and merged when there is time


def partials_of(now: Pieces, layout: Layout, payloads: Sequence[bytes]) -> list[Partial]:
    """The partials of one summary.

    Parameters
    ----------
    now : Pieces
        What the ledger holds before the batch.
    payloads : sequence of bytes
        Segments in slices of the pane, as workers sent them.
    """
    covered = now.held(layout).rollups.covered
    if sum(map(len, payloads)) <= MERGED_BYTES_MAX and len(payloads) > 1:
        whole = merge([decode(payload) for payload in payloads])
        payloads = [encode(part) for part in cut(whole)]
    found = []
    for payload in payloads:
        index = read_index(payload)
        slices = Slices.of(index.slices * layout.pane, index.events)
        found.append(Partial(layout.name, slices, payload))
        late = {length: reach for length, reach in covered.items() if len(slices.between(*reach))}
        if late:
            segment = decode(payload)
            found += [_received(layout, segment, length, *late[length]) for length in sorted(late)]
    return found


def _received(layout: Layout, segment: Segment, length: int, start: int, until: int) -> Partial:
    """What comes to the rollups of one length, which reach from `start` to `until`."""
    pane = layout.pane
    late = merge([segment.between(start // pane, until // pane)], length // pane)
    return Partial(layout.name, Slices.of(late.slices * length, late.events), encode(late), length)
