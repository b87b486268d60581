"""Keys of one or more columns, numbered in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries import key_columns
from muntin.summaries.reading import Body

COLUMNS_MAX = 16
KEY_BYTES = 200  # a key's share of the dictionary, about
RawKey = tuple[str | int | None, ...]


class KeyIndex:
    """Key -> number. A raw key is a tuple of text, numbers and None: dates in days, times in us.

    Attributes
    ----------
    names : tuple of str
        The key columns.
    kinds : list of str or None
        Their kinds, names of `key_columns.TYPES`; None while a column held nothing but nulls.
    """

    def __init__(self, names: tuple[str, ...], kinds: Sequence[str | None] | None = None) -> None:
        self.names = names
        self.kinds: list[str | None] = list(kinds or [None] * len(names))
        self._numbers: dict[RawKey, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[RawKey]:
        return iter(self._numbers)

    @property
    def nbytes(self) -> int:
        return KEY_BYTES * len(self)

    def get(self, key: RawKey) -> int | None:
        return self._numbers.get(key)

    def add(self, key: RawKey) -> int:
        """Number of a key that was not there."""
        number = self._numbers[key] = len(self)
        return number

    def canonical(self, columns: Sequence[pa.Array]) -> tuple[list[pa.Array], list[str | None]]:
        """Columns in their one type, and the kinds; BadArgument where they were others before."""
        kinds: list[str | None] = []
        for name, column, before in zip(self.names, columns, self.kinds, strict=True):
            kind = key_columns.kind_of(name, column)
            if kind and before and kind != before:
                raise BadArgument(f"key column {name!r} is {kind}, but was {before} before")
            kinds.append(kind or before)
        found = [
            key_columns.canonical(name, column, kind)
            for name, column, kind in zip(self.names, columns, kinds, strict=True)
        ]
        return found, kinds

    def number_of(self, key: Any) -> int | None:
        """Number of a key as users give it: a value, or a tuple of values; None: unknown."""
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != len(self.names):
            raise BadArgument(f"key {key!r}: give a value for each of {', '.join(self.names)}")
        given = [key_columns.column_of(n, [p]) for n, p in zip(self.names, parts, strict=True)]
        return self.get(next(raw_keys(self.canonical(given)[0])))

    def common_kinds(self, other: Self) -> list[str | None]:
        """Kinds of the columns of both; IncompatibleSummary."""
        kinds: list[str | None] = []
        for name, mine, theirs in zip(self.names, self.kinds, other.kinds, strict=True):
            if mine and theirs and mine != theirs:
                raise IncompatibleSummary(f"key column {name!r} is {mine} here, {theirs} there")
            kinds.append(mine or theirs)
        return kinds

    def columns(self) -> list[pa.Array]:
        """The keys in the order of their numbers, a column each."""
        columns = []
        for at, kind in enumerate(self.kinds):
            values = [key[at] for key in self]
            if kind is None:
                columns.append(pa.nulls(len(values)))
            elif kind == "date32":
                columns.append(pa.array(values, pa.int32()).cast(pa.date32()))
            else:
                plain = pa.array(values, pa.large_string() if kind == "string" else pa.int64())
                columns.append(plain.cast(key_columns.TYPES[kind]))
        return columns

    def copy(self) -> Self:
        twin = type(self)(self.names, self.kinds)
        twin._numbers = dict(self._numbers)
        return twin

    @classmethod
    def read(cls, owner: str, names: Sequence[str], kinds: Any, size: int, body: Body) -> Self:
        """The index whose `columns` were encoded; CorruptSummary."""
        if not are_names(names) or not _are_kinds(kinds, len(names)):
            raise CorruptSummary(f"{owner}: names or types of the key columns are impossible")
        index = cls(tuple(names), kinds)
        columns = key_columns.decode(owner, body, kinds, size)
        index._numbers = {key: at for at, key in enumerate(raw_keys(columns))}
        if len(index) != size:
            raise CorruptSummary(f"{owner}: a key stands twice")
        return index


def are_names(names: Sequence[Any]) -> bool:
    return (
        0 < len(names) <= COLUMNS_MAX
        and all(isinstance(name, str) and name for name in names)
        and len(set(names)) == len(names)
    )


def raw_keys(columns: Sequence[pa.Array]) -> Iterator[RawKey]:
    """Keys of columns in their kinds' types, one a row."""
    return zip(*(_plain(column).to_pylist() for column in columns), strict=True)


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    return column


def _are_kinds(kinds: Any, size: int) -> bool:
    return (
        isinstance(kinds, list)
        and len(kinds) == size
        and all(kind is None or (type(kind) is str and kind in key_columns.TYPES) for kind in kinds)
    )


def group(slots: np.ndarray, slots_max: int) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """Rows ordered by slot, rows of one slot in their order, and (slot, start, end) of each run."""
    if slots_max < 1 << 16:  # NumPy sorts 16-bit numbers by radix, ten times faster
        order = np.argsort(slots.astype(np.uint16), kind="stable")
    else:
        order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    ends = np.append(starts[1:], len(slots))
    runs = zip(ordered[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)
    return order, list(runs)
