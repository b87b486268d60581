"""Whether the places that say how many events there were agree: pipeline, panes, rollups, windows.

A copy of two moments may lack whole rows, and none of those that are there is damaged.
"""

from collections.abc import Iterator

import numpy as np

from muntin.errors import how_many
from muntin.ledger.base import Ledger
from muntin.reading.absences import absence, all_layouts
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces, SegmentCache, pieces_of
from muntin.reading.snapshot import Known, Snapshot
from muntin.times import duration_text, instant_text

_EVER = 1 << 62
_WINDOWS_READ = 10_000


def disagreements(ledger: Ledger) -> list[str]:
    """What is missing of each summary, a sentence for each place that tells of it."""
    with pieces_of(ledger, SegmentCache(0)) as pieces:
        return [
            f"{layout.name}: {said}; restore the ledger from a backup, or run the pipeline again "
            "over its source"
            for known in Snapshot.read(pieces.view, None).pipelines.values()
            for layout in all_layouts(known.pipeline, known.info.spec)
            for said in _of_summary(pieces, known, layout)
        ]


def _of_summary(pieces: Pieces, known: Known, layout: Layout) -> Iterator[str]:
    panes = pieces.slices(layout, layout.pane, 0, _EVER)
    dropped, counted = pieces.view.horizon(layout.name, layout.pane), known.info.counted
    if dropped is None and not absence(known.info.spec, layout.name) and panes.count != counted:
        held = how_many(panes.count, "event")
        yield f"its panes hold {held}, and the pipeline has counted {counted:,}"
    whole = dropped or 0  # before it there may be panes again, of late events alone
    for reach in pieces.view.coverage(layout.name):
        first = -(-max(reach.start, whole) // reach.length) * reach.length
        rolled = pieces.slices(layout, reach.length, first, reach.until)
        below = panes.between(first, max(first, reach.until)).at_length(reach.length)
        starts = np.union1d(rolled.starts, below.starts)
        counts = np.stack([each.counts(starts, starts + 1) for each in (rolled, below)], axis=1)
        odd = np.flatnonzero(counts[:, 0] != counts[:, 1])
        if len(odd):
            at, (above, under) = instant_text(int(starts[odd[0]])), counts[odd[0]]
            yield (
                f"of {duration_text(reach.length)} from {at} its rollup holds "
                f"{how_many(int(above), 'event')}, and its panes {under:,}"
            )
    after = None
    while found := pieces.view.windows(layout.name, start=after, limit=_WINDOWS_READ):
        after = found[-1].start + 1
        times = np.array([(window.start, window.end) for window in found])
        for window, there in zip(found, panes.counts(*times.T).tolist(), strict=True):
            if there < window.events and window.start >= whole:
                yield (
                    f"the window from {instant_text(window.start)} closed with "
                    f"{how_many(window.events, 'event')}, and its panes hold {there:,}"
                )
                return
