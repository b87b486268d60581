"""Compaction, rollups and retention: keeps the ledger small and long windows cheap.

Runs in the pipeline's own process, under the writer's epoch: rollups and retention between batches,
compaction beside them, in a thread of its own. All of it may be interrupted: what is left is done
next time.

Small pieces are merged with others of about their size, as a log-structured merge tree does, so
that a day of one-second batches is tens of pieces. Where retention drops slices, pieces end where
its blocks do, so that a horizon cuts few of them.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from muntin.assembly.cutting import Cutting
from muntin.assembly.following import chunks
from muntin.errors import BadArgument, SpecError
from muntin.ledger.base import Ledger, Writer
from muntin.ledger.files import GARBAGE_AGE_US
from muntin.ledger.records import Made, Piece
from muntin.ledger.slices import Slices, added_up
from muntin.reading.extent import Layout, Run
from muntin.reading.pieces import Pieces, SegmentCache, pieces_of
from muntin.segments.building import merge
from muntin.segments.codec import CUT_BYTES
from muntin.segments.shards import is_first, lowest
from muntin.segments.table import Segment
from muntin.spec import FORMER, Pipeline
from muntin.times import duration_text, now_us

TIME_US_MAX = 2**63 - 1
_LOG = logging.getLogger("muntin.assembly")
PIECES_OF_A_SIZE_MAX = 8  # then those of a tier are merged into one
TIERS_BYTES = (1 << 14, 1 << 17, 1 << 20)
WHOLE_BYTES = 4 << 20  # a piece of this size is merged no more
TOGETHER_BYTES_MAX = 256 << 20  # as they are stored; in memory some ten times that
SHRINK = 4  # rollups are made where they take so many times less memory than what is below
KEYS_ASKED = 1 << 10  # of a slice, whether its rollup pays
SWEEP_SECONDS = 1800.0
BLOCKS_OF_RETENTION = 8  # a piece is cut at the blocks that a horizon passes through


class Maintenance:
    """Housekeeping of one pipeline's part of a ledger."""

    def __init__(
        self,
        pipeline: Pipeline,
        ledger: Ledger,
        writer: Writer,
        layouts: Mapping[str, Layout],
        cuttings: Mapping[str, Cutting],
        cache: SegmentCache,
        open_starts: Callable[[str, int], Sequence[int]],
        open_from: Callable[[], tuple[Mapping[str, int], Mapping[str, int]]],
    ) -> None:
        """`open_starts`: starts of the windows of a summary that have not closed, before a time;
        `open_from`: the first of them, of each summary and of each query on its windows."""
        self._pipeline = pipeline
        self._ledger = ledger
        self._writer = writer
        self._layouts = layouts
        self._cuttings = cuttings
        self._cache = cache
        self._whole: dict[tuple[str, int], frozenset[int]] = {}
        """Pieces of a summary and a length that are small only because they compress well."""
        self._compactor = ThreadPoolExecutor(1, thread_name_prefix="muntin-compaction")
        self._compacting: Future[None] | None = None
        self._lean: dict[tuple[str, int], tuple[int, int]] = {}
        """Rollups that do not pay yet -> up to where that was looked into, and the most events."""
        self._batches = 0  # that have come since it began to compact what is there
        self.keeping = threading.Lock()
        """Held while windows close, which may take longer than shared ledgers keep the payloads of
        pieces that were merged: none is replaced then."""
        self._closed = False
        self._open_starts = open_starts
        self._open_from = open_from
        self._folder = next((each.folder for each in cuttings.values() if each.folder), None)
        if self._folder is None:
            with suppress(SpecError):  # files of summaries that have no shards any more
                self._folder = ledger.payload_folder(pipeline.name, pipeline.payloads)
        self._swept_at: float | None = None
        self._said: set[str] = set()
        for layout in layouts.values():
            for reach in ledger.coverage(layout.name):
                if reach.length not in layout.rungs:  # nobody would keep these rollups right
                    writer.drop_before(layout.name, reach.length, TIME_US_MAX)

    def run(self, watermark: int | None) -> None:
        """Roll up what is sealed, drop what is past its horizon, begin to merge small pieces.

        Merging goes on while the next batches are planned and read, which leaves cores idle. It
        changes no answer, and the ledger refuses it where a piece has gone meanwhile.
        """
        self._batches += 1
        if self._batches > PIECES_OF_A_SIZE_MAX:  # as many again have come, and it is behind
            self._wait()
        if watermark is not None:
            for layout in self._layouts.values():
                self._roll_up(layout, watermark)
                self._retain(layout, watermark)
        if self._swept_at is None or time.monotonic() - self._swept_at > SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            self.sweep()
            if watermark is not None:
                self._retain_former(watermark)
        history = self._pipeline.retention.history
        if history is not None and watermark is not None:
            self._writer.drop_history_before(watermark - history, *self._open_from())
        if self._compacting is None or self._compacting.done():
            self._wait()
            self._batches = 0
            self._compacting = self._compactor.submit(self._compact)

    def _wait(self) -> None:
        """Until what began to be merged is, or has failed: then so does the batch at hand."""
        compacting, self._compacting = self._compacting, None
        if compacting is not None:
            compacting.result()

    def close(self) -> None:
        """End, but for the pieces at hand: who goes on merges the others."""
        self._closed = True
        self._compactor.shutdown()

    def finish(self, watermark: int | None) -> None:
        """All that there is to do, and slices that lie in several pieces brought together."""
        self.run(watermark)
        self._wait()
        for layout in self._layouts.values():
            for length in (layout.pane, *layout.rungs):
                with pieces_of(self._ledger, self._cache) as now:
                    pieces = now.of_length(layout, length)
                for group in _overlapping(pieces):
                    with pieces_of(self._ledger, self._cache) as now:
                        segments = now.read(group)
                    self._replace(layout, length, group, segments)

    def sweep(self, age_us: int = GARBAGE_AGE_US) -> int:
        """Delete payload files that nobody names, and did not for this long; how many."""
        if self._folder is None:
            return 0
        self._wait()  # its files are named then: where the machine has slept, they are old already
        return self._writer.sweep(self._folder, now_us() - age_us)

    def _compact(self) -> None:
        for layout in self._layouts.values():
            for length in (layout.pane, *layout.rungs):
                self._compact_those(layout, length)

    def _compact_those(self, layout: Layout, length: int) -> None:
        while not self._closed:
            with pieces_of(self._ledger, self._cache) as now:
                there = now.of_length(layout, length)
                whole = self._whole.get((layout.name, length), frozenset())
                small = [p for p in there if p.id not in whole]
                group = _crowded(small, self._block(length))
                segments = now.read(group) if _pays(now, group) else []
            if not group:
                break
            if segments:
                self._replace(layout, length, group, segments)
            else:
                kept = whole & {piece.id for piece in there}
                self._whole[layout.name, length] = kept | {piece.id for piece in group}

    def _replace(
        self, layout: Layout, length: int, pieces: Sequence[Piece], segments: Sequence[Segment]
    ) -> None:
        """Pieces, and what they hold -> as few as their size and retention allow."""
        counts = added_up([piece.slices for piece in pieces])
        blocks = _blocks(merge(segments), length, self._block(length))
        made = [one for block in blocks for one in self._made(layout, block, counts, length)]
        with self.keeping:
            self._writer.compact(pieces, made)

    def _made(
        self, layout: Layout, segment: Segment, counts: Slices, length: int
    ) -> Iterator[Made]:
        """The pieces of what was merged, of which `counts` has the events of each slice."""
        cutting = self._cuttings[layout.name]
        for part in cutting.pieces(segment):
            starts = part.slices * length
            inside = counts.at(starts)
            if not is_first(part.shard):
                inside = Slices(inside.starts, part.events, part.events)  # the first tells them
            yield Made(inside, cutting.payload(part), part.shard)

    def _block(self, length: int) -> int | None:
        """Microseconds of a block that retention passes through; None: nothing is dropped."""
        horizon = self._kept(length)
        if horizon is None:
            return None
        return max(horizon // BLOCKS_OF_RETENTION // length, 1) * length

    def _roll_up(self, layout: Layout, watermark: int) -> None:
        for length in layout.rungs:
            with pieces_of(self._ledger, self._cache) as now:
                span = _due(now, layout, length, watermark, watermark - self._until_dropped())
                if span is None or not self._pay_off(now, layout, length, *span):
                    continue
                rollups = now.extent(layout).rollups
                below = _below(now, layout, length, rollups.sources(length, *span))
            for start, end in chunks(below, *span, length):
                with pieces_of(self._ledger, self._cache) as now:
                    sources = now.extent(layout).rollups.sources(length, start, end)
                    sizes = _sizes(now, layout, sources)
                    if (largest := max(sizes.values(), default=0)) > TOGETHER_BYTES_MAX:
                        why = f"{largest:,} bytes are more than {TOGETHER_BYTES_MAX:,}, which one "
                        why += "piece is merged from at most: give it (more) `shards:`"
                        self._not_made(layout, length, why)
                        return
                    try:
                        made = [  # shard by shard, so that the memory of one is enough
                            one
                            for shard in sorted(sizes)
                            for one in self._made_rollups(now, layout, length, sources, shard)
                        ]
                    except BadArgument as too_large:
                        self._not_made(layout, length, str(too_large))
                        return
                self._writer.roll_up(layout.name, length, start, end, made)

    def _pay_off(self, now: Pieces, layout: Layout, length: int, start: int, until: int) -> bool:
        """Whether rollups are there already, or would take a quarter of what they are made of.

        Where most keys or items of a slice come once in it, rollups take as much room as the panes,
        and an answer from them as long. At a quarter, where slices are alike, all rungs together
        take a third of the panes' memory at most, and an answer reads at most four times what it
        would with each rung. The slice with the most events tells, of the largest shard, and then
        a new one that is busier. Where panes are dropped, rollups are what is left.
        """
        rollups = now.extent(layout).rollups
        if length in rollups.covered or self._pipeline.retention.panes is not None:
            return True
        looked_at, most = self._lean.get((layout.name, length), (start, 0))
        new = _below(now, layout, length, rollups.sources(length, looked_at, until))
        if new.events.max(initial=0) > most:
            at = new.events.argmax()
            busiest, most = int(new.starts[at]), int(new.events[at])
            sources = rollups.sources(length, busiest, busiest + length)
            size, shard = max((n, shard) for shard, n in _sizes(now, layout, sources).items())
            if size > TOGETHER_BYTES_MAX:
                return True  # which says that they cannot be made
            parts = [
                (found, length // level)
                for level, first, last in sources
                if (found := now.segments(layout, level, first, last, shard=shard))
            ]
            if shrinks(*memory_rolled_up(parts)):
                return True
        self._lean[layout.name, length] = until, most
        return False

    def _not_made(self, layout: Layout, length: int, why: str) -> None:
        """A rollup could not be stored: then panes stand, and answers are made of them."""
        if layout.name not in self._said:
            self._said.add(layout.name)
            _LOG.warning(
                "summaries.%s: rollups of %s are not made: %s",
                layout.name, duration_text(length), why,
            )  # fmt: skip

    def _made_rollups(
        self, now: Pieces, layout: Layout, length: int, sources: Sequence[Run], shard: int
    ) -> Iterator[Made]:
        parts = [
            merge(found, length // level)
            for level, first, last in sources
            if (found := now.segments(layout, level, first, last, shard=shard))
        ]
        return self._made(layout, merge(parts), _below(now, layout, length, sources, shard), length)

    def _retain(self, layout: Layout, watermark: int) -> None:
        """Drop slices past their horizon, but for what open windows read. The ledger keeps what no
        longer rollup stands for."""
        lengths = (layout.pane, *layout.rungs)
        horizons = {n: kept for n in lengths if (kept := self._kept(n)) is not None}
        if not horizons:
            return
        read: dict[int, int] = {}
        starts = self._open_starts(layout.name, watermark - min(horizons.values()))
        if starts:
            with pieces_of(self._ledger, self._cache) as now:
                read = now.extent(layout).rollups.read_by(starts, watermark)
        for length, horizon in horizons.items():
            if length == layout.pane and self._awaits_rollups(layout):
                continue
            before = watermark - horizon
            self._writer.drop_before(layout.name, length, min(before, read.get(length, before)))

    def _awaits_rollups(self, layout: Layout) -> bool:
        """Whether panes are to be kept on in rollups, of which none is made yet: where these are
        longer than panes are kept, none ever would be. Once there are some, the ledger waits."""
        if not layout.rungs or self._until_dropped() < TIME_US_MAX:
            return False
        return all(r.length != layout.rungs[0] for r in self._ledger.coverage(layout.name))

    def _retain_former(self, watermark: int) -> None:
        """The same for summaries that were taken out of the pipeline, which may come back and go
        on with a window that has not ended."""
        info = self._ledger.pipeline(self._pipeline.name)
        former = info.spec.get(FORMER, {}) if info is not None else {}
        for name, spec in former.items():
            window = spec.get("window") or {}
            open_for = window.get("limit") or window.get("length") or 0
            longer = [reach.length for reach in self._ledger.coverage(name)]
            for length in (*sorted(longer, reverse=True), self._pipeline.pane):
                horizon = self._kept(length)
                if horizon is not None:
                    self._writer.drop_before(name, length, watermark - max(horizon, open_for))

    def _until_dropped(self) -> int:
        """How old rollups get, where panes stay as long; else they are what is left of panes."""
        keep = self._pipeline.retention
        kept = keep.rollups or TIME_US_MAX
        return kept if kept <= (keep.panes or TIME_US_MAX) else TIME_US_MAX

    def _kept(self, length: int) -> int | None:
        """For how long slices of a length are kept, microseconds; None: for ever."""
        keep = self._pipeline.retention
        return keep.panes if length == self._pipeline.pane else keep.rollups


def shrinks(memory: float, rolled_up: float) -> bool:
    """Whether it is worth it to roll up so many bytes to so many."""
    return SHRINK * rolled_up <= memory


def memory_rolled_up(parts: Sequence[tuple[Sequence[Segment], int]]) -> tuple[float, float]:
    """Bytes of memory of what a slice is made of, and of the slice, about. Of a table of many keys,
    those with the lowest hashes stand for all: a thousand tell enough. `parts`: (segments, how many
    of their slices make one) of each length."""
    memory = rolled_up = 0.0
    for by in {t.name(s.algebra) for found, _ in parts for s in found for t in s.tables}:
        of_key = [([one for s in found if (one := s.only(by))], step) for found, step in parts]
        of_key = [(found, step) for found, step in of_key if found]
        most = max((s.tables[0].keys for found, _ in of_key for s in found), key=len)
        share = 1.0
        if len(most) > KEYS_ASKED:
            share = len(most) / KEYS_ASKED
            of_key = [
                ([lowest(s, most.hashes[KEYS_ASKED - 1]) for s in found], step)
                for found, step in of_key
            ]
        merged = [(merge(found), step) for found, step in of_key]
        memory += share * sum(one.nbytes for one, _ in merged)
        rolled_up += share * merge([merge([one], step) for one, step in merged]).nbytes
    return memory, rolled_up


def _below(
    now: Pieces, layout: Layout, length: int, sources: Sequence[Run], shard: int | None = None
) -> Slices:
    """Which slices of a length hold events, by what they are to be made of."""
    return added_up([now.slices(layout, *run, shard).at_length(length) for run in sources])


def _due(now: Pieces, layout: Layout, length: int, until: int, gone: int) -> tuple[int, int] | None:
    """What is to be rolled up next: after the rollups that are there, up to what is sealed; not
    what ends at `gone` or before, which would be dropped at once."""
    extent = now.extent(layout)
    reach = extent.rollups.covered.get(length)
    until -= until % length
    if until <= gone or extent.bounds is None:
        return None
    if reach is not None:
        return (reach[1], until) if reach[1] < until else None
    # all time that is kept, so that they receive late events however old these are
    start = max(gone // length * length, 0)
    # a slice of which retention has dropped a part would be taken for whole
    for level, _, end in extent.rollups.tiles(start, until, below=length):
        if level is None:
            start = -(-end // length) * length
    return (start, until) if start < until else None


def _sizes(now: Pieces, layout: Layout, sources: Sequence[Run]) -> dict[int, int]:
    """Bytes of the pieces that rollups are made of, as they are stored, of each shard."""
    sizes: dict[int, int] = {}
    for source in sources:
        for piece in now.overlapping(layout, *source):
            sizes[piece.shard] = sizes.get(piece.shard, 0) + piece.nbytes
    return sizes


def _blocks(whole: Segment, length: int, block: int | None) -> Iterator[Segment]:
    """A segment cut where retention will pass through."""
    if block is None:
        yield whole
        return
    size = block // length
    for number in np.unique(whole.slices // size).tolist():
        yield whole.between(number * size, (number + 1) * size)


def _crowded(pieces: Sequence[Piece], block: int | None) -> list[Piece]:
    """Pieces of one block, and of about one size, that are too many; else none. Those that lie in
    several blocks are brought together first, and cut."""
    groups: dict[tuple[int, int | None, int], list[Piece]] = {}
    for piece in pieces:
        if piece.nbytes >= WHOLE_BYTES:
            continue
        first, last = (piece.start // block, (piece.until - 1) // block) if block else (0, 0)
        tier = sum(piece.nbytes > size for size in TIERS_BYTES)
        name = (piece.shard, first if first == last else None, tier)
        groups.setdefault(name, []).append(piece)
        if len(groups[name]) > PIECES_OF_A_SIZE_MAX:
            return groups[name]
    return []


def _pays(now: Pieces, pieces: Sequence[Piece]) -> bool:
    """Would merging leave at most half as many pieces?

    Those that hold other slices each stay as large as they are, and are cut again by what they
    take in memory: one of them is opened to know how much that is.
    """
    if not pieces or _overlapping(pieces):
        return True
    (segment,) = now.read(pieces[:1])
    memory = sum(piece.nbytes for piece in pieces) * segment.nbytes // pieces[0].nbytes
    return 2 * -(-memory // CUT_BYTES) <= len(pieces)


def _overlapping(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Groups of pieces of one shard, of two and more, whose slices reach into each other's. Those
    that are too large together stay apart: they are added up when they are read."""
    groups: list[list[Piece]] = []
    reach, shard = 0, -1
    for piece in sorted(pieces, key=lambda piece: (piece.shard, piece.start)):
        if piece.shard != shard or piece.start >= reach:
            groups.append([])
            reach, shard = piece.until, piece.shard
        groups[-1].append(piece)
        reach = max(reach, piece.until)
    return [
        group
        for group in groups
        if len(group) > 1 and sum(piece.nbytes for piece in group) <= TOGETHER_BYTES_MAX
    ]
