"""Segments of any run of panes, read from a ledger through its rollups, and merged."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.cache import Cache
from muntin.errors import LedgerError, SelectError
from muntin.ledger.base import Ledger, View
from muntin.ledger.records import Piece
from muntin.ledger.slices import Slices, added_up
from muntin.reading.extent import Extent, Layout, Reach
from muntin.segments.building import WHOLE, merge
from muntin.segments.codec import decode
from muntin.segments.keys import memory_of
from muntin.segments.table import Segment
from muntin.select.catalog import ClosingWindows, KeyNames, Part

CACHE_BYTES = 256 << 20
BY_STEPS_BYTES_MAX = 256 << 20  # of states in memory
ENTRY_BYTES = 3 << 10  # that objects take beside what they hold, for an entry and for each table
PIECE_BYTES, SLICE_BYTES = 1 << 9, 24  # of what says which slices a piece has
KEPT_SECONDS = 600.0
_EXAMPLES_MAX = 16  # pieces


@dataclass(frozen=True, slots=True)
class Merged:
    """A summary of a run of panes."""

    segment: Segment | None
    """Of one slice, or of one for each step that holds events; None where nothing is stored."""
    events: int
    late: int
    token: Hashable
    """Equal tokens, equal content."""
    among: tuple[ClosingWindows, int] | None = None
    """The windows that it closes with, and which of them it is."""


class SegmentCache(Cache[Any]):
    """Decoded pieces, merged windows, and which slices pieces have."""

    def __init__(self, bytes_max: int = CACHE_BYTES, kept_seconds: float = KEPT_SECONDS) -> None:
        super().__init__(bytes_max, kept_seconds)


def memory_of_entry(segment: Segment | None) -> int:
    """Bytes, about: keys and items too, and the objects that hold small arrays."""
    if segment is None:
        return ENTRY_BYTES
    known = [keys for table in segment.tables for keys in table.dictionaries]
    return segment.nbytes + ENTRY_BYTES * (1 + len(segment.tables)) + memory_of(known)


class Pieces:
    """Reads the pieces that one view of a ledger shows; use it while that view is open. `view`: a
    snapshot of a ledger: what is answered from several reads at once needs one. `cache`: what was
    decoded and merged, shared by all views."""

    def __init__(self, view: View, cache: SegmentCache) -> None:
        self.view = view
        self._cache = cache
        self._pieces: dict[tuple[str, int], list[Piece]] = {}
        self._extents: dict[str, Extent] = {}

    @cached_property
    def _ledger(self) -> int:
        """Which ledger the view is of: another in the same place uses the same numbers again."""
        return self.view.generation()

    def extent(self, layout: Layout) -> Extent:
        """What there is to read of a summary."""
        if layout.name not in self._extents:
            self._extents[layout.name] = Extent(self.view, layout)
        return self._extents[layout.name]

    def of_length(self, layout: Layout, length: int) -> list[Piece]:
        """All pieces of slices of one length."""
        name = (layout.name, length)
        if name not in self._pieces:
            read = ("pieces", self._ledger, *name)
            made = self._pieces[name] = self.view.pieces(*name, known=self._cache.get(read) or {})
            nbytes = sum(PIECE_BYTES + SLICE_BYTES * len(piece.slices) for piece in made)
            self._cache.put(read, {piece.id: piece for piece in made}, nbytes)
        return self._pieces[name]

    def overlapping(self, layout: Layout, length: int, start: int, end: int) -> list[Piece]:
        """The pieces that hold slices which start in [start, end)."""
        found = self.of_length(layout, length)
        around = [piece for piece in found if piece.start < end and piece.until > start]
        return [piece for piece in around if len(piece.slices.between(start, end))]

    def slices(
        self, layout: Layout, length: int, start: int, end: int, shard: int | None = None
    ) -> Slices:
        """Which slices of one length in [start, end) hold events, and how many."""
        found = _of_shard(self.overlapping(layout, length, start, end), shard)
        return added_up([piece.slices.between(start, end) for piece in found])

    def segments(
        self,
        layout: Layout,
        length: int,
        start: int,
        end: int,
        keys: KeyNames | None = None,
        shard: int | None = None,
    ) -> list[Segment]:
        """The slices of one length that start in [start, end), piece by piece."""
        read = self.read(_of_shard(self.overlapping(layout, length, start, end), shard), keys)
        return [segment.between(start // length, -(-end // length)) for segment in read]

    def read(self, pieces: Sequence[Piece], keys: KeyNames | None = None) -> list[Segment]:
        """What pieces hold, decoded: all tables, or those of `keys`."""
        names = [("piece", self._ledger, piece.id, keys) for piece in pieces]
        found: list[Any] = [self._cache.get(name) for name in names]
        missing = [p.id for p, segment in zip(pieces, found, strict=True) if segment is None]
        payloads = self.view.payloads(missing) if missing else {}
        if lost := [number for number in missing if number not in payloads]:
            raise LedgerError(
                f"the payload of piece {lost[0]} is missing: where it was merged or dropped more "
                "than a minute ago, ask again; else restore the ledger from a backup"
            )
        for at, (piece, name) in enumerate(zip(pieces, names, strict=True)):
            if found[at] is None:
                segment = found[at] = decode(payloads[piece.id], keys)
                self._cache.put(name, segment, memory_of_entry(segment))
        return found

    def events(self, layout: Layout, start: int, end: int) -> int:
        """Events of what is stored of [start, end), without merging it."""
        runs = self.extent(layout).reach(start, end).runs
        return sum(self.slices(layout, *run).count for run in runs)

    def merged_runs(
        self, layout: Layout, reach: Reach, keys: KeyNames | None = None, every: int | None = None
    ) -> Merged:
        """The summary of exactly the slices of a reach: of all, or of each step of `every`, which
        they lie in whole. Raises SelectError: too much for the memory that one statement may take.
        """
        there = [(*run, self.overlapping(layout, *run)) for run in reach.runs]
        token = (
            "merged", self._ledger, layout.name, keys, every,
            tuple((length, first, until, tuple(piece.id for piece in pieces))
                  for length, first, until, pieces in there),
        )  # fmt: skip
        found = self._cache.get(token)
        if found is not None:
            return found
        parts: list[Segment] = []
        events = late = 0
        for length, first, until, pieces in there:
            of_run: list[Segment] = []
            for piece, segment in zip(pieces, self.read(pieces, keys), strict=True):
                inside = piece.slices.between(first, until)
                events += inside.count
                late += inside.late_count
                of_run.append(segment.between(first // length, until // length))
            if every is not None and of_run:
                of_run = [merge(of_run, every // length)]
                _check_size(layout, [*parts, *of_run])
            parts += of_run
        whole = merge(parts, WHOLE if every is None else 1) if parts else None
        result = Merged(whole, events, late, token)
        self._cache.put(token, result, memory_of_entry(whole))
        return result

    def counted_since(
        self, layout: Layout, reach: Reach, keys: KeyNames | None = None
    ) -> dict[Part, int]:
        """Key or indicator -> from where on it has counted all events of the slices. Of those that
        lack some, and not of one that lacks some of the newest slice."""
        since: dict[Part, int] = {}
        newest = None
        for length, first, until in reach.runs:
            parts = self.segments(layout, length, first, until, keys)
            if not parts:
                continue
            whole = merge(parts)
            newest = int(whole.slices[-1] + 1) * length
            for part, events in layout.spec.lacking(whole, keys).items():
                since[part] = int(whole.slices[np.flatnonzero(events)[-1]] + 1) * length
        return {part: at for part, at in since.items() if at != newest}

    def examples(self, layout: Layout, keys: KeyNames | None = None) -> Iterator[Segment]:
        """What is stored, the newest first, each as one slice: it tells what types answers have.

        The newest slice, then some pieces: a key that joined later is not in all of them. Where
        nothing is stored, one event without any value.
        """
        lengths = (layout.pane, *layout.rungs)
        for length in lengths:
            bounds = self.view.bounds(layout.name, length)
            if bounds is not None:
                parts = self.segments(layout, length, bounds[1] - length, bounds[1], keys)
                yield merge(parts)
                break
        else:
            batch = pa.record_batch({name: pa.nulls(1) for name in layout.spec.columns()})
            yield layout.spec.segment(batch, np.zeros(1, np.int64))
        pieces = chain.from_iterable(reversed(self.of_length(layout, each)) for each in lengths)
        for piece in islice(pieces, _EXAMPLES_MAX):
            (segment,) = self.read([piece], keys)
            if segment.tables:  # else its shard has no rows, and tells how many events there are
                yield merge([segment], WHOLE)


def _check_size(layout: Layout, parts: Sequence[Segment]) -> None:
    if sum(part.nbytes for part in parts) > BY_STEPS_BYTES_MAX:
        said = f"{layout.name} by steps takes more than {BY_STEPS_BYTES_MAX >> 20} MiB"
        raise SelectError(said, code="limit", remedy="ask for a shorter window, or longer steps")


def _of_shard(pieces: list[Piece], shard: int | None) -> list[Piece]:
    return pieces if shard is None else [piece for piece in pieces if piece.shard == shard]


@contextmanager
def pieces_of(ledger: Ledger, cache: SegmentCache) -> Iterator[Pieces]:
    """The pieces that a ledger holds now."""
    with ledger.snapshot() as view:
        yield Pieces(view, cache)
