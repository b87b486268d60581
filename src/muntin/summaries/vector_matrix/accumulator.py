"""Sums of many events by hash tables, as long as keys and types stay what they are.

An event touches a cache line a key. What has come together becomes a segment of one slice.

Every event of driver "a" is in one row of (driver, car) whose driver is "a": so the shorter key's
rows are not kept, but added up from the combination's, which are fewer than the events, once
somebody asks (J. Gray et al., "Data Cube", 1997: sums of the smallest parent).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa

from muntin.segments.algebra import Algebra
from muntin.segments.building import totals
from muntin.segments.columns import Column, frozen, present
from muntin.segments.keys import ordered
from muntin.segments.sums import Sums
from muntin.segments.table import Segment, Table
from muntin.summaries import key_columns
from muntin.summaries.aligned import aligned_zeros
from muntin.summaries.indexes import IntegerIndex
from muntin.summaries.indicators import INT64_MAX, SumType
from muntin.summaries.kernels.vector_sums import add_vectors, gather_columns
from muntin.summaries.key_columns import KeyColumn, KeyValues
from muntin.summaries.vector_matrix.batches import EventColumns
from muntin.summaries.vector_matrix.names import Key

_LINE_CELLS = 8  # a cache line of 64 bytes


class CellLayout:
    """Which cells of a row hold what: count, integer sums, then pairs of floats."""

    __slots__ = ("cells", "integers", "last", "width")

    def __init__(self, kinds: Sequence[SumType | None]) -> None:
        floats = kinds.count("float64")
        self.integers = 1 + len(kinds) - floats
        self.last = self.integers + 2 * floats
        integer, pair = count(1), count(self.integers, 2)
        self.cells = [next(pair if kind == "float64" else integer) for kind in kinds]
        """Cell of each indicator; a float's low part stands in the next."""
        # rows do not straddle cache lines more often than they must
        lines = -(-self.last // _LINE_CELLS)
        self.width = _LINE_CELLS * lines if lines > 1 else 1 << (self.last - 1).bit_length()


CHUNK_EVENTS = 1 << 14  # vectors of a chunk stay in the caches while all keys add them
_FLOAT_SAFE_MAX = 1e300  # below, no step of a sum can overflow


class Numbering:
    """From key values to row numbers: columns on their own, and combinations as pairs of numbers.

    A combination (a, b, c) is the pair ((a, b), c): the number of (a, b) beside the number of c.
    Columns, and the beginnings of combinations, are shared by all keys that use them, so that each
    is looked up once a batch.
    """

    __slots__ = ("columns", "pairs")

    def __init__(self, keys: Iterable[Key]) -> None:
        self.columns: dict[str, KeyColumn] = {}
        self.pairs: dict[Key, IntegerIndex] = {}
        for key in keys:
            for name in key:
                if name not in self.columns:
                    self.columns[name] = KeyColumn(name)
            for size in range(2, len(key) + 1):
                if key[:size] not in self.pairs:
                    self.pairs[key[:size]] = IntegerIndex()

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self.columns.values()) + sum(
            p.nbytes for p in self.pairs.values()
        )

    def rows(self, key: Key) -> int:
        """Rows that a matrix of this key must have."""
        return len(self.columns[key[0]]) if len(key) == 1 else len(self.pairs[key])

    def number(self, values: Mapping[str, KeyValues], events: int) -> dict[Key, np.ndarray]:
        """Row numbers, int32[events], of each column and combination."""
        numbered = np.empty((len(self.columns) + len(self.pairs), events), np.int32)
        outs = iter(numbered)  # one allocation: the system hands out a large one in large pages
        numbers: dict[Key, np.ndarray] = {
            (name,): column.number(values[name], next(outs))
            for name, column in self.columns.items()
        }
        for prefix, index in self.pairs.items():  # a beginning stands before what it begins
            left, right = numbers[prefix[:-1]], numbers[prefix[-1:]]
            numbers[prefix] = index.number_pairs(left, right, next(outs))
        return numbers

    def rows_within(self, whole: Key, part: Key) -> np.ndarray:
        """For each row of a combination, the row (int32) of its beginning, or of one of its
        columns."""
        found = np.arange(0)
        for size in range(len(whole), len(part), -1):
            known = self.pairs[whole[:size]].known
            packed = known[: self.rows(whole)] if size == len(whole) else known[found]
            if part == whole[size - 1 : size]:
                return (packed & 0xFFFFFFFF).astype(np.int32)
            found = packed >> 32
        return found.astype(np.int32)

    def parts(self, key: Key, rows: np.ndarray) -> list[np.ndarray]:
        """The numbers of the key's columns in these rows, one array a column."""
        found: list[np.ndarray] = []
        for size in range(len(key), 1, -1):
            packed = self.pairs[key[:size]].known[rows]
            found.append(packed & 0xFFFFFFFF)
            rows = packed >> 32
        return [rows, *reversed(found)]


class Accumulator:
    """Events summed by key."""

    __slots__ = (
        "_bounds", "_derived", "_layout", "_tables", "algebra", "count", "keys", "nulls",
        "numbering",
    )  # fmt: skip

    def __init__(self, keys: Sequence[Key], algebra: Sums) -> None:
        self.keys = tuple(keys)
        self.algebra = algebra
        self.numbering = Numbering(keys)
        self._layout = CellLayout([kind for _, kind in algebra.indicators])
        leading = [key for key in keys if not any(_holds(parent, key) for parent in keys)]
        self._tables = {key: KeyTable(self._layout) for key in leading}
        self._derived: dict[Key, KeyTable] = {}
        self.count = 0
        self.nulls = [0] * len(algebra.indicators)
        self._bounds: list[int | float] = [0] * len(algebra.indicators)

    @property
    def nbytes(self) -> int:
        tables = (*self._tables.values(), *self._derived.values())
        return self.numbering.nbytes + sum(table.matrix.nbytes for table in tables)

    def fits(self, batches: Sequence[EventColumns]) -> bool:
        """Whether no sum can leave its type, whatever keys the events have."""
        return all(
            bound < (_FLOAT_SAFE_MAX if kind == "float64" else INT64_MAX)
            for bound, (_, kind) in zip(
                self._widened(batches), self.algebra.indicators, strict=True
            )
        )

    def _widened(self, batches: Sequence[EventColumns]) -> list[int | float]:
        return [
            bound + sum(batch.values[at].largest * batch.events for batch in batches)
            for at, bound in enumerate(self._bounds)
        ]

    def add(self, batches: Sequence[EventColumns]) -> None:
        """Add events that fit. Where this raises, nothing was added, and nothing must be."""
        numbers = [self.numbering.number(batch.keys, batch.events) for batch in batches]
        self._bounds = self._widened(batches)
        self._derived = {}
        for key, table in self._tables.items():
            table.reserve(self.numbering.rows(key))
        for batch, rows in zip(batches, numbers, strict=True):
            self._add(batch, rows)
            self.count += batch.events
            self.nulls = [
                nulls + column.nulls for nulls, column in zip(self.nulls, batch.values, strict=True)
            ]

    def _add(self, batch: EventColumns, rows: Mapping[Key, np.ndarray]) -> None:
        size = min(batch.events, CHUNK_EVENTS)
        buffer = np.zeros((size, self._layout.width), np.int64)
        buffer[:, 0] = 1  # the count
        for begin in range(0, batch.events, CHUNK_EVENTS):
            vectors = buffer[: batch.events - begin]
            end = begin + len(vectors)
            for cell, column in zip(self._layout.cells, batch.values, strict=True):
                if column.numbers is not None:
                    out = vectors.view(np.float64) if column.type == "float64" else vectors
                    out[:, cell] = column.numbers[begin:end]
            for key, table in self._tables.items():
                table.add(rows[key][begin:end], vectors)

    def tables(self) -> dict[Key, KeyTable]:
        """Each key's rows."""
        if not self._derived:
            found = dict(self._tables)
            for key in sorted(set(self.keys) - set(found), key=len, reverse=True):
                parents = [parent for parent in found if _holds(parent, key)]
                parent = min(parents, key=self.numbering.rows)
                self._derived[key] = found[key] = table = KeyTable(self._layout)
                table.reserve(self.numbering.rows(key))
                vectors = found[parent].matrix[: self.numbering.rows(parent)]
                table.add(self.numbering.rows_within(parent, key), vectors)
        return {key: self._tables.get(key) or self._derived[key] for key in self.keys}

    def segment(self) -> Segment:
        """All events so far as slice 0: a table for each key, that of the empty key first."""
        values = {name: column.values() for name, column in self.numbering.columns.items()}
        hashes = {name: key_columns.hashes_of(array) for name, array in values.items()}
        tables = [
            self._table(key, table, values, hashes)
            for key, table in self.tables().items()
            if table.live
        ]
        if not tables:
            return nothing(self.algebra)
        whole = totals(self.algebra, min(tables, key=len))
        states = dict(whole.states)
        for (name, _), nulls in zip(self.algebra.indicators, self.nulls, strict=True):
            states[f"{name}.nulls"] = present(np.array([nulls]))
        whole = replace(whole, states=states)
        return Segment(self.algebra, whole.slices, whole.events, (whole, *tables))

    def _table(
        self,
        key: Key,
        table: KeyTable,
        values: Mapping[str, pa.Array],
        hashes: Mapping[str, np.ndarray],
    ) -> Table:
        rows = np.flatnonzero(table.matrix[:, 0])  # those that are there
        at = self.numbering.parts(key, rows)
        keys, order = ordered(key, [values[n] for n in key], at, [hashes[n] for n in key])
        cells = table.gather(rows[order])
        states: dict[str, Column] = {}
        for (name, kind), cell in zip(self.algebra.indicators, self._layout.cells, strict=True):
            states |= {f"{name}.nulls": None, f"{name}.unseen": None}
            if kind == "float64":
                high, low = cells[cell : cell + 2].view(np.float64)
                states |= {f"{name}.sum": frozen(high), f"{name}.low": present(low)}
            elif kind is not None:
                states |= {f"{name}.sum": frozen(cells[cell]), f"{name}.beyond": None}
        zero, starts = frozen(np.zeros(1, np.int64)), frozen(np.array([0, len(keys)]))
        return Table(keys, zero, starts, frozen(np.arange(len(keys))), frozen(cells[0]), states)


def _holds(parent: Key, key: Key) -> bool:
    """Whether a key is the beginning of a longer one, or one of its columns."""
    return len(key) < len(parent) and (
        key == parent[: len(key)] or (len(key) == 1 and key[0] in parent)
    )


_ROWS_MIN = 64


class KeyTable:
    """Rows by number; a row whose count is 0 is not there."""

    __slots__ = ("layout", "live", "matrix")

    def __init__(self, layout: CellLayout) -> None:
        self.layout = layout
        self.live = 0  # rows that are there
        self.matrix = self._zeros(_ROWS_MIN)

    def _zeros(self, rows: int) -> np.ndarray:
        """Zeros, int64[rows, width], that begin at a cache line."""
        return aligned_zeros(rows * self.layout.width, np.int64).reshape(rows, self.layout.width)

    def reserve(self, rows: int) -> None:
        if rows > len(self.matrix):
            old, self.matrix = self.matrix, self._zeros(1 << (rows - 1).bit_length())
            self.matrix[: len(old)] = old

    def add(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Add vector i to row i; the caller knows that nothing overflows."""
        self.live += add_vectors(
            self.matrix, self.matrix.view(np.float64), rows, vectors, vectors.view(np.float64),
            self.layout.integers, self.layout.last,
        )  # fmt: skip

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """Cells of the rows, as columns: int64[cells, n]."""
        out = np.empty((self.layout.last, len(rows)), np.int64)
        gather_columns(self.matrix, rows, out)
        return out


def nothing(algebra: Algebra) -> Segment:
    """A segment without events."""
    none = frozen(np.empty(0, np.int64))
    return Segment(algebra, none, none, ())
