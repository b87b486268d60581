"""From key values to row numbers: columns on their own, and combinations as pairs of numbers.

A combination (a, b, c) is the pair ((a, b), c): the number of (a, b) beside the number of c.
Columns, and the beginnings of combinations, are shared by all keys that use them, so that each is
looked up once a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from muntin.summaries.kernels.hash_table import fold_hashes
from muntin.summaries.vector_matrix.indexes import IntegerIndex
from muntin.summaries.vector_matrix.key_column import KeyColumn
from muntin.summaries.vector_matrix.key_values import KeyValues
from muntin.summaries.vector_matrix.names import Key

Numbers = dict[Key, np.ndarray]


class Numbering:
    """The indexes of some keys."""

    __slots__ = ("columns", "pairs")

    def __init__(self, keys: Iterable[Key]) -> None:
        self.columns: dict[str, KeyColumn] = {}
        self.pairs: dict[Key, IntegerIndex] = {}
        for key in keys:
            self.add(key)

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self.columns.values()) + sum(
            p.nbytes for p in self.pairs.values()
        )

    def copy(self) -> Numbering:
        new = Numbering(())
        new.columns = {name: column.copy() for name, column in self.columns.items()}
        new.pairs = {prefix: index.copy() for prefix, index in self.pairs.items()}
        return new

    def add(self, key: Key) -> None:
        for name in key:
            if name not in self.columns:
                self.columns[name] = KeyColumn(name)
        for size in range(2, len(key) + 1):
            if key[:size] not in self.pairs:
                self.pairs[key[:size]] = IntegerIndex()

    def keep(self, keys: Iterable[Key]) -> None:
        """Drop the indexes that none of these keys uses."""
        needed = Numbering(keys)
        self.columns = {n: c for n, c in self.columns.items() if n in needed.columns}
        self.pairs = {p: i for p, i in self.pairs.items() if p in needed.pairs}

    def rows(self, key: Key) -> int:
        """Rows that a matrix of this key must have."""
        return len(self.columns[key[0]]) if len(key) == 1 else len(self.pairs[key])

    def reserve(self, other: Numbering) -> None:
        """Make room for as much as another holds, so that adopting it grows nothing twice."""
        for name, column in other.columns.items():
            if name in self.columns:
                self.columns[name].reserve(len(column))
        for prefix, index in other.pairs.items():
            if prefix in self.pairs:
                self.pairs[prefix].reserve(len(index))

    def reserve_key(self, key: Key, rows: int) -> None:
        """Make room for so many values of a key."""
        if len(key) == 1:
            self.columns[key[0]].reserve(rows)
        else:
            self.pairs[key].reserve(rows)

    def number_rows(self, key: Key, parts: Sequence[KeyValues], insert: bool = True) -> np.ndarray:
        """Row numbers of one key from the values of its columns; unknown ones as `adopt`."""
        numbers = self.columns[key[0]].number(parts[0], 0, parts[0].length, insert)
        for at in range(1, len(key)):
            right = self.columns[key[at]].number(parts[at], 0, parts[at].length, insert)
            numbers = self.pairs[key[: at + 1]].number_pairs(numbers, right, insert)
        return numbers

    def number(self, values: Mapping[str, KeyValues], events: int) -> Numbers:
        """Row numbers, int32[events], of each column and combination."""
        room = np.empty((len(self.columns) + len(self.pairs), events), np.int32)
        outs = iter(room)  # one allocation: the system hands out a large one in large pages
        numbers: Numbers = {
            (name,): column.number(values[name], 0, events, out=next(outs))
            for name, column in self.columns.items()
        }
        for prefix, index in self.pairs.items():  # a beginning stands before what it begins
            left, right = numbers[prefix[:-1]], numbers[prefix[-1:]]
            numbers[prefix] = index.number_pairs(left, right, True, next(outs))
        return numbers

    def adopt(self, other: Numbering, insert: bool = True) -> Numbers:
        """The number here of each number there, for what both have; -1 where there is none."""
        numbers: Numbers = {
            (name,): self.columns[name].adopt(column, insert)
            for name, column in other.columns.items()
            if name in self.columns
        }
        for prefix, index in other.pairs.items():
            if prefix not in self.pairs:
                continue
            packed = index.known[: len(index)]
            left = numbers[prefix[:-1]][packed >> 32]
            right = numbers[prefix[-1:]][packed & 0xFFFFFFFF]
            numbers[prefix] = self.pairs[prefix].number_pairs(left, right, insert)
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

    def parts(self, key: Key, rows: np.ndarray) -> list[tuple[KeyColumn, np.ndarray]]:
        """The key's columns, each with its numbers in these rows."""
        found: list[tuple[KeyColumn, np.ndarray]] = []
        for size in range(len(key), 1, -1):
            packed = self.pairs[key[:size]].known[rows]
            found.append((self.columns[key[size - 1]], packed & 0xFFFFFFFF))
            rows = packed >> 32
        found.append((self.columns[key[0]], rows))
        return found[::-1]


def hashes_of(parts: list[tuple[KeyColumn, np.ndarray]]) -> np.ndarray:
    """Hash of each row's key, which orders the rows in bytes: uint64[rows]."""
    return folded([column.hashes_of(numbers) for column, numbers in parts])


def folded(hashes: Sequence[np.ndarray]) -> np.ndarray:
    """Hash of a combination from those of its columns, in the memory of the first."""
    for of_part in hashes[1:]:
        fold_hashes(hashes[0], of_part)
    return hashes[0]
