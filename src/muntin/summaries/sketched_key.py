"""One key of the sketched matrix: Count-Min cells of sums, and the heaviest values of the key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary
from muntin.summaries import key_columns
from muntin.summaries.kernels import sketched_matrix as kernels
from muntin.summaries.reading import Body, block, exact_sum
from muntin.summaries.space_saving import SpaceSaving

CELL_BYTES = (2, 4, 8)  # sizes in which integer sums are written
FLOAT_TOLERANCE = 1e-6  # of a row's sum, which float rounding moves by less


class SketchedKey:
    """Sums by key value.

    Attributes
    ----------
    names : tuple of str
        The key's columns.
    cells : int64[depth, width, lanes]
        Lane 0 counts events; float lanes hold the bits of float64.
    heavy : SpaceSaving
        Of the keys' hashes.
    values : list of arrays
        The key columns of `heavy.kept()`.
    """

    def __init__(
        self, names: tuple[str, ...], width: int, depth: int, lanes: int, track: int, seed: int
    ) -> None:
        self.names = names
        self.cells = np.zeros((depth, width, lanes), np.int64)
        self.heavy = SpaceSaving(track, seed)
        self.values: list[pa.Array] = [pa.nulls(0) for _ in names]

    @property
    def floats(self) -> np.ndarray:
        """The cells as float64."""
        return self.cells.view(np.float64)

    @property
    def nbytes(self) -> int:
        kept = sum(column.nbytes for column in self.values)
        return self.cells.nbytes + self.heavy.nbytes + kept

    def add(
        self,
        columns: Sequence[pa.Array],
        kinds: Sequence[str | None],
        hashes: np.ndarray,
        vectors: np.ndarray,
        is_float: np.ndarray,
    ) -> None:
        """Add events: key columns, their folded hashes, and vectors int64[events, lanes]."""
        before = self.heavy.kept()
        items = pa.array(hashes)
        self.heavy.update(items)
        after = self.heavy.kept()
        if not after.equals(before):
            rows = np.full(len(after), -1, np.int64)
            positions = self.heavy.positions(items)
            there = np.flatnonzero(positions >= 0)
            rows[positions[there]] = there
            self._realign(before, after, columns, kinds, rows)
        kernels.add_vectors(
            self.cells, self.floats, hashes, vectors, vectors.view(np.float64), is_float
        )

    def merge(self, other: Self, kinds: Sequence[str | None], is_float: np.ndarray) -> None:
        before, theirs = self.heavy.kept(), other.heavy.kept()
        self.heavy.merge(other.heavy)
        after = self.heavy.kept()
        rows = np.full(len(after), -1, np.int64)
        positions = self.heavy.positions(theirs)
        there = np.flatnonzero(positions >= 0)
        rows[positions[there]] = there
        self._realign(before, after, other.values, kinds, rows)
        integers = ~is_float
        self.cells[:, :, integers] += other.cells[:, :, integers]
        self.floats[:, :, is_float] += other.floats[:, :, is_float]

    def _realign(
        self,
        before: pa.Array,
        after: pa.Array,
        columns: Sequence[pa.Array],
        kinds: Sequence[str | None],
        rows: np.ndarray,
    ) -> None:
        """Make `values` those of `after`: kept from before, or from these rows of columns."""
        known = np.full(len(after), -1, np.int64)
        positions = self.heavy.positions(before) if len(before) else np.empty(0, np.int64)
        stayed = np.flatnonzero(positions >= 0)
        known[positions[stayed]] = stayed
        new = np.flatnonzero(known < 0)
        known[new] = len(before) + np.arange(len(new))
        fresh = pa.array(rows[new])
        for at, (name, kind) in enumerate(zip(self.names, kinds, strict=True)):
            old = key_columns.canonical(name, self.values[at], kind)
            more = key_columns.canonical(name, columns[at].take(fresh), kind)
            self.values[at] = pa.concat_arrays([old, more]).take(pa.array(known))

    def estimate(self, hashes: np.ndarray, is_float: np.ndarray) -> np.ndarray:
        """Upper bound of each lane of each item: int64[items, lanes], float lanes as bits."""
        out = np.empty((len(hashes), self.cells.shape[2]), np.int64)
        kernels.estimate_vectors(
            self.cells, self.floats, hashes, is_float, out, out.view(np.float64)
        )
        return out

    def to_floats(self, lane: int) -> None:
        """Turn a lane's integers into floats."""
        self.floats[:, :, lane] = self.cells[:, :, lane].astype(np.float64)

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.names, twin.values = self.names, list(self.values)
        twin.cells, twin.heavy = self.cells.copy(), self.heavy.copy()
        return twin

    def to_bytes(self, is_float: np.ndarray) -> bytes:
        """Lane by lane the bytes a cell takes and the cells; then the heavy keys and values."""
        pieces = []
        for lane, floating in enumerate(is_float):
            cells = self.cells[:, :, lane]
            size = 8 if floating else _fewest_bytes(int(cells.max()))
            pieces += [bytes([size]), cells.astype(f"<u{size}").tobytes()]
        pieces += [block(self.heavy.to_bytes()), key_columns.encode(self.values)]
        return b"".join(pieces)

    def read(
        self,
        body: Body,
        is_float: np.ndarray,
        totals: Sequence[int | float],
        kinds: Sequence[str | None],
        seed: int,
    ) -> None:
        """Take over what `to_bytes` wrote; CorruptSummary."""
        depth, width, _ = self.cells.shape
        for lane, floating in enumerate(is_float):
            size = int(body.array("u1", 1)[0])
            if size not in CELL_BYTES or (floating and size != 8):
                raise CorruptSummary(f"sketched_matrix: cells of {size} bytes")
            cells = body.array(f"<u{size}", depth * width).astype(np.int64).reshape(depth, width)
            self.cells[:, :, lane] = cells
            if floating:
                _check_floats(cells.view(np.float64), float(totals[lane]))
            else:
                _check_integers(cells, int(totals[lane]), size)
        heavy = SpaceSaving.from_bytes(bytes(body.block()))
        mine = self.heavy.parameters
        if heavy.parameters != mine or {heavy.total, heavy.count} != {totals[0]}:
            raise CorruptSummary("sketched_matrix: the heavy keys belong to another sketch")
        self.heavy = heavy
        kept = heavy.kept()
        self.values = key_columns.decode("sketched_matrix", body, kinds, len(kept))
        if len(kept) and kept.type != pa.uint64():
            raise CorruptSummary("sketched_matrix: heavy keys are no hashes")
        named = zip(self.names, self.values, strict=True)
        hashes = key_columns.fold([key_columns.hashes_of(*column, seed) for column in named])
        if (hashes != kept.to_numpy(zero_copy_only=False)).any():
            raise CorruptSummary("sketched_matrix: values of heavy keys contradict their hashes")


def _fewest_bytes(largest: int) -> int:
    return next(size for size in CELL_BYTES if largest < 1 << (8 * size))


def _check_integers(cells: np.ndarray, total: int, size: int) -> None:
    if int(cells.min()) < 0 or size != _fewest_bytes(int(cells.max())):
        raise CorruptSummary("sketched_matrix: cells are not written in the fewest bytes")
    sums = [exact_sum(row) for row in cells]
    if any(row != total for row in sums):
        raise CorruptSummary(f"sketched_matrix: rows sum to {sums}, not to {total}")


def _check_floats(cells: np.ndarray, total: float) -> None:
    if not np.isfinite(cells).all() or np.signbit(cells).any():
        raise CorruptSummary("sketched_matrix: a float sum is negative or not finite")
    with np.errstate(over="ignore"):
        sums = cells.sum(axis=1)
    if not np.allclose(sums, total, rtol=FLOAT_TOLERANCE, atol=0):
        raise CorruptSummary(f"sketched_matrix: rows sum to {sums}, not to {total}")
