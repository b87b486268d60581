"""Compaction, rollups and retention: keeps the ledger small and long windows cheap.

Runs between batches in the pipeline's own process, a bounded amount each time, so that it never
holds up the stream for long. All of it may be interrupted: what is left is done next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from muntin.assembly.together import Part, put_together
from muntin.ledger.base import Ledger, Writer
from muntin.ledger.records import Coverage
from muntin.reading.panes import Layout, Panes
from muntin.spec import Pipeline

SLICES_AT_ONCE = 2_000  # compacted or rolled up in one call, before the stream goes on
TIME_US_MAX = 2**63 - 1
PIECES_OPEN_MAX = 16  # a pane that is still open is compacted when it has more


class Maintenance:
    """Housekeeping of one pipeline's part of a ledger."""

    def __init__(
        self,
        pipeline: Pipeline,
        ledger: Ledger,
        writer: Writer,
        layouts: Mapping[str, Layout],
        panes: Panes,
    ) -> None:
        self._pipeline = pipeline
        self._ledger = ledger
        self._writer = writer
        self._layouts = layouts
        self._panes = panes
        self._left: dict[tuple[str, int, int], int] = {}  # slices that stay in so many pieces
        for layout in layouts.values():
            self._give_up_rungs(layout)

    def run(self, watermark: int | None, budget: int = SLICES_AT_ONCE) -> bool:
        """Do up to `budget` slices of work per summary; True where more is left."""
        if watermark is None:
            return False
        sealed_until = watermark // self._pipeline.pane * self._pipeline.pane
        more = False
        for layout in self._layouts.values():
            more |= self._compact(layout, sealed_until, budget)
            more |= self._roll_up(layout, sealed_until, budget)
            self._retain(layout, watermark)
        history = self._pipeline.retention.history
        if history is not None:
            self._writer.drop_history_before(watermark - history)
        return more

    def finish(self, watermark: int | None) -> None:
        """All that there is to do for sealed panes."""
        while self.run(watermark):
            pass

    def compact_open(self, watermark: int | None, newest: int | None) -> None:
        """Compact panes that are still open but already in many pieces."""
        if newest is None:
            return
        pane = self._pipeline.pane
        first = 0 if watermark is None else watermark // pane * pane
        for layout in self._layouts.values():
            for start, _, number in self._ledger.spans(layout.name, pane, first, newest + 1):
                if number > max(PIECES_OPEN_MAX, 2 * self._left.get((layout.name, pane, start), 0)):
                    self._compact_slice(layout, pane, start)

    def _give_up_rungs(self, layout: Layout) -> None:
        """Drop rollups of lengths that the spec no longer names: nobody would keep them right."""
        for reach in self._ledger.coverage(layout.name):
            if reach.length not in layout.rungs:
                self._writer.drop_before(layout.name, reach.length, TIME_US_MAX)

    def _compact(self, layout: Layout, sealed_until: int, budget: int) -> bool:
        """One piece a slice. A rollup has several where late events met dropped panes."""
        more = False
        for length in (layout.pane, *layout.rungs):
            crowded = self._ledger.crowded(layout.name, length, sealed_until, limit=budget)
            for start in crowded:
                self._compact_slice(layout, length, start)
            more |= len(crowded) == budget
        return more

    def _compact_slice(self, layout: Layout, length: int, start: int) -> None:
        pieces = self._ledger.pieces(layout.name, length, start, start + length)
        if not pieces:
            return
        for made in put_together(layout, [Part.of(piece) for piece in pieces]):
            ids = set(made.ids)
            self._writer.compact([piece for piece in pieces if piece.id in ids], made.payload)
        left = self._ledger.pieces(layout.name, length, start, start + length)
        if len(left) > 1:  # they do not merge, or would be too large: answers merge them, or say so
            self._left[layout.name, length, start] = len(left)
            self._writer.leave(left)

    def _roll_up(self, layout: Layout, sealed_until: int, budget: int) -> bool:
        below = layout.pane
        done = 0
        for length in layout.rungs:
            for start in self._due(layout, length, below, sealed_until):
                if done >= budget:
                    return True
                done += 1
                self._extend(layout, length, start)
                if not self._roll_up_slice(layout, length, below, start):
                    return False  # those after it would leave a gap: all of them next time
            self._extend(layout, length, sealed_until // length * length)
            below = length
        return False

    def _due(self, layout: Layout, length: int, below: int, sealed_until: int) -> Iterator[int]:
        """Starts of slices that hold events and have no rollup yet, or a wrong one."""
        reach = self._coverage(layout, length)
        yield from sorted(reach.dirty if reach else ())
        bounds = self._ledger.bounds(layout.name, below)
        if bounds is None:
            return
        first = reach.until if reach else bounds[0] // length * length
        last = sealed_until // length * length
        spans = self._ledger.spans(layout.name, below, first, last)
        for start, _ in groupby(spans, key=lambda span: span[0] // length * length):
            yield start

    def _roll_up_slice(self, layout: Layout, length: int, below: int, start: int) -> bool:
        """Make one rollup; False where the ledger holds other pieces than were read.

        A compacted pane holds the same events in another piece: what is in memory of it is right
        to answer from, but the ledger wants to know the pieces that it has now.
        """
        for fresh in (False, True):
            parts: list[Part] = []
            for held in self._panes.each_slice(layout, below, start, start + length, fresh=fresh):
                if held.problem is None:
                    parts.append(Part(held.events, held.late, held.ids, None, held.summary))
                else:  # its pieces do not merge: each of them goes into the rollup by itself
                    found = self._ledger.pieces(layout.name, below, held.start, held.start + below)
                    parts += [Part.of(piece) for piece in found if piece.id in held.ids]
            seen = [identifier for part in parts for identifier in part.ids]
            made = [(m.events, m.late, m.payload) for m in put_together(layout, parts)]
            first = made[0] if made else None
            if self._writer.roll_up(layout.name, length, start, first, seen, more=made[1:]):
                return True
        return False

    def _extend(self, layout: Layout, length: int, until: int) -> None:
        """Slices before `until` that were not rolled up hold no events: one step over them all."""
        reach = self._coverage(layout, length)
        if reach is not None and reach.until < until:
            self._writer.extend_coverage(layout.name, length, until)

    def _coverage(self, layout: Layout, length: int) -> Coverage | None:
        return next((c for c in self._ledger.coverage(layout.name) if c.length == length), None)

    def _retain(self, layout: Layout, watermark: int) -> None:
        """Drop slices past their horizon; the ledger keeps what no longer rollup stands for."""
        keep = self._pipeline.retention
        for length in (layout.pane, *layout.rungs):
            horizon = keep.panes if length == layout.pane else keep.rollups
            if horizon is not None:
                self._writer.drop_before(layout.name, length, watermark - horizon)
