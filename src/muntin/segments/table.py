"""The states of one key over a run of slices, as a table; and a segment, which is its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.errors import IncompatibleSummary
from muntin.segments.columns import Ragged, States, between, frozen, starts_of, take
from muntin.segments.kernels.lists import renumber
from muntin.segments.keys import Keys, no_keys
from muntin.summaries.key_columns import decoded

if TYPE_CHECKING:
    from muntin.segments.algebra import Algebra


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows (slice, key) -> events, state; ordered by slice, then by hash of the key.

    Attributes
    ----------
    keys : Keys
        The different keys; each occurs.
    slices : int64[s], ascending
        Slices that have rows.
    starts : int64[s + 1]
        Where the rows of each slice begin; the last is the number of rows.
    key : int64[rows]
        Number of each row's key, ascending within a slice; `len(keys)` is the rest of the keys,
        beyond a limit.
    events : int64[rows], above 0
    states : mapping of name -> column
        See `Algebra.columns`.
    items : Keys, optional
        The different items that a column of the states names by number.
    """

    keys: Keys
    slices: np.ndarray
    starts: np.ndarray
    key: np.ndarray
    events: np.ndarray
    states: States
    items: Keys | None = None

    def __len__(self) -> int:
        return len(self.key)

    @property
    def by(self) -> tuple[str, ...]:
        return self.keys.names

    @property
    def dictionaries(self) -> tuple[Keys, ...]:
        """The keys, and the items where there are any."""
        return (self.keys,) if self.items is None else (self.keys, self.items)

    def name(self, algebra: Algebra) -> tuple[str, ...]:
        """The key columns, or those of the items where these stand for keys."""
        if algebra.keys_are_items and self.items is not None:
            return self.items.names
        return self.by

    @property
    def slice_of_row(self) -> np.ndarray:
        """int64[rows]"""
        return np.repeat(self.slices, np.diff(self.starts))

    @property
    def nbytes(self) -> int:
        """Bytes of memory of states and numbers, without the keys."""
        there = (column for column in self.states.values() if column is not None)
        own = self.key.nbytes + self.events.nbytes + self.slices.nbytes + self.starts.nbytes
        return own + sum(column.nbytes for column in there)

    def at(self, first: int, last: int) -> Table:
        """The rows of slices number first ... last - 1 of `slices`; keys that are left go."""
        if first == 0 and last == len(self.slices):
            return self
        low, high = int(self.starts[first]), int(self.starts[last])
        part = replace(
            self,
            slices=self.slices[first:last],
            starts=frozen(self.starts[first : last + 1] - low),
            key=self.key[low:high],
            events=self.events[low:high],
            states={name: between(column, low, high) for name, column in self.states.items()},
        )
        return part.with_used_keys()

    def rows_at(self, rows: np.ndarray) -> Table:
        """The rows of ascending numbers, in their slices, and all keys."""
        place = np.searchsorted(self.starts, rows, side="right") - 1
        sizes = np.bincount(place, minlength=len(self.slices))
        kept = np.flatnonzero(sizes)
        return self._moved(rows, frozen(self.slices[kept]), starts_of(sizes[kept]))

    def repeated(self, places: np.ndarray, labels: np.ndarray) -> Table:
        """The rows of slices at places of `slices`, slice by slice, in slices of new numbers."""
        sizes = np.diff(self.starts)[places]
        starts = starts_of(sizes)
        rows = np.arange(starts[-1]) + np.repeat(self.starts[places] - starts[:-1], sizes)
        return self._moved(rows, labels, starts)

    def _moved(self, rows: np.ndarray, slices: np.ndarray, starts: np.ndarray) -> Table:
        return replace(
            self,
            slices=slices,
            starts=starts,
            key=frozen(self.key[rows]),
            events=frozen(self.events[rows]),
            states={name: take(column, rows) for name, column in self.states.items()},
        )

    def with_used_keys(self) -> Table:
        """Without keys and items that no row names."""
        keys, key = _used(self.keys, self.key)
        if self.items is None:
            return replace(self, keys=keys, key=key)
        column = self.states["item"]
        if not isinstance(column, Ragged):
            return replace(self, keys=keys, key=key, items=no_keys(self.items.names))
        items, numbers = _used(self.items, column.items)
        states = {**self.states, "item": Ragged(column.starts, numbers)}
        return replace(self, keys=keys, key=key, states=states, items=items)

    def key_arrays(self) -> list[pa.Array]:
        """The key columns of all rows; null in the row of the rest."""
        key = self.key
        rest = key >= len(self.keys)
        at = pa.array(key, mask=rest) if rest.any() else pa.array(key)
        return [decoded(column.take(at)) for column in self.keys.columns]

    def is_rest(self) -> np.ndarray:
        """bool[rows]: rows of the events of all keys beyond the limit."""
        return self.key >= len(self.keys)


def _used(keys: Keys, numbers: np.ndarray) -> tuple[Keys, np.ndarray]:
    """The keys that numbers name (`len(keys)` names none), and their new numbers."""
    if not keys.names:
        return keys, numbers
    used, new = np.empty(len(keys) + 1, np.int64), np.empty(len(numbers), np.int64)
    found = renumber(frozen(numbers), used, new)
    if found == len(keys):
        return keys, numbers
    return keys.take(used[:found].copy()), frozen(new)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The states of one summary over a run of slices.

    Attributes
    ----------
    algebra : Algebra
        The kind and its parameters.
    slices, events : int64[s]
        Slices that have events, ascending, and how many they have: also those that a key which
        was added later does not hold.
    tables : tuple of Table
        One for each key: a vector matrix has several, the other kinds one.
    limit : int, optional
        Keys kept a slice.
    shard : int
        Which keys it has, as `shards` numbers them; 0: all.
    """

    algebra: Algebra
    slices: np.ndarray
    events: np.ndarray
    tables: tuple[Table, ...]
    limit: int | None = None
    shard: int = 0

    @property
    def count(self) -> int:
        return int(self.events.sum())

    @property
    def rows(self) -> int:
        return sum(len(table) for table in self.tables)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about."""
        return sum(table.nbytes for table in self.tables)

    def table(self, by: Sequence[str] = ()) -> Table | None:
        """The table of a key, or None."""
        named = ((table, table.name(self.algebra)) for table in self.tables)
        return next((table for table, name in named if name == tuple(by)), None)

    def only(self, by: Sequence[str]) -> Segment | None:
        """With the table of one key alone, if there is one."""
        table = self.table(by)
        return None if table is None else replace(self, tables=(table,))

    def between(self, first: int, last: int) -> Segment:
        """The slices first ... last - 1."""
        low, high = np.searchsorted(self.slices, (first, last)).tolist()
        tables = []
        for table in self.tables:
            ends = np.searchsorted(table.slices, (first, last)).tolist()
            tables.append(table.at(*ends))
        return replace(
            self,
            slices=self.slices[low:high],
            events=self.events[low:high],
            tables=tuple(table for table in tables if len(table)),
        )


def check_same(one: Any, other: Any) -> None:
    """IncompatibleSummary where two segments cannot be of one summary."""
    if one.algebra.kind != other.algebra.kind:
        raise IncompatibleSummary(
            f"a segment of {one.algebra.kind} cannot join one of {other.algebra.kind}"
        )
    if one.limit != other.limit:
        raise IncompatibleSummary(f"limit {one.limit} cannot join limit {other.limit}")
