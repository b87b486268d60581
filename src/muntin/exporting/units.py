"""What is to go out: closed windows and sealed panes that a table does not have yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from muntin.errors import BadArgument
from muntin.exporting.rows import Spans, Unit
from muntin.ledger.base import Ledger
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces, SegmentCache
from muntin.segments.building import merge
from muntin.times import instant_text

COMMIT_BYTES = 64 << 20
"""Of segments in memory, about, whose rows are committed together."""
PANES_READ = 256
"""At once, however little they hold."""
WINDOWS_READ = 1_000

Done = Mapping[tuple[int, int], tuple[int, int]]
"""Start and revision of what a table has already; its end and its events."""


@dataclass(slots=True)
class Exported:
    """What an export did."""

    units: int = 0
    """Windows or panes, each revision of them."""
    rows: int = 0
    commits: int = 0
    waiting: int = 0
    """Windows to which late events came: they go out once their next revision is stored."""
    dropped: int = 0
    """Windows of which retention has dropped panes before they went out."""


def windows(ledger: Ledger, layout: Layout, done: Done, said: Exported) -> Iterator[list[Unit]]:
    """Closed windows in their newest revision, oldest first; one list is one commit."""
    after = None
    while True:
        group, size = [], 0
        with ledger.snapshot() as view:
            pieces = Pieces(view, SegmentCache(0))
            found = view.windows(layout.name, start=after, limit=WINDOWS_READ)
            for window in found:
                after = window.start + 1
                if _is_there(done, window.start, window.revision, window.end, window.events):
                    continue
                reach = pieces.extent(layout).reach(window.start, window.end)
                merged = pieces.merged_runs(layout, reach)
                if not reach.whole:
                    said.dropped += 1
                elif merged.events != window.events:
                    said.waiting += 1
                elif merged.segment is not None:
                    row = (window.start, window.end, window.revision, window.events, window.late)
                    spans = Spans(*(np.array([value]) for value in row))
                    group.append(Unit(merged.segment, spans))
                    size += merged.segment.nbytes
                if size > COMMIT_BYTES:
                    break
        if group:
            yield group
        if not found:
            return


def panes(ledger: Ledger, layout: Layout, sealed: int | None, done: Done) -> Iterator[list[Unit]]:
    """Panes that end at `sealed` or before, oldest first, and again those that got late events."""
    with ledger.snapshot() as view:
        bounds = view.bounds(layout.name, layout.pane)
        if bounds is None or sealed is None:
            return
        starts = _panes(Pieces(view, SegmentCache(0)), layout, bounds[0], sealed, done).start
    group: list[Unit] = []
    while len(starts):
        start = int(starts[0])
        end = min(start + PANES_READ * layout.pane, sealed)
        starts = starts[np.searchsorted(starts, end) :]
        with ledger.snapshot() as view:
            pieces = Pieces(view, SegmentCache(0))
            spans = _panes(pieces, layout, start, end, done)
            if len(spans):  # retention may have come before us
                whole = merge(pieces.segments(layout, layout.pane, start, end))
                group.append(Unit(whole.at(spans.start // layout.pane), spans))
        if group and (not len(starts) or sum(u.segment.nbytes for u in group) > COMMIT_BYTES):
            yield group
            group = []


def _panes(pieces: Pieces, layout: Layout, start: int, end: int, done: Done) -> Spans:
    """Those of [start, end) that are not out yet; `end` is the end of a pane."""
    start = max(start, pieces.extent(layout).dropped or start)  # before, late events at most
    there = pieces.slices(layout, layout.pane, start, end - layout.pane + 1)
    spans = Spans(there.starts, there.starts + layout.pane, there.late, there.events, there.late)
    columns = (spans.start, spans.revision, spans.end, spans.events)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    new = np.array([not _is_there(done, *row) for row in rows], bool)
    return spans.at(np.flatnonzero(new))


def _is_there(done: Done, start: int, revision: int, end: int, events: int) -> bool:
    """Whether it is out already.

    Raises
    ------
    BadArgument
        With other events, or another end: the table holds what another run has counted.
    """
    found = done.get((start, revision))
    if found is None:
        return False
    there, counted = found
    if found != (end, events):
        raise BadArgument(
            f"what starts at {instant_text(start)} is in the table until {instant_text(there)} "
            f"with {counted:,} events, and in the ledger until {instant_text(end)} with "
            f"{events:,}: the pipeline was reset, or it is another one's table; export into "
            "another place"
        )
    return True
