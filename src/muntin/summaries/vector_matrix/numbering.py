"""From key values to row numbers: columns on their own, and combinations as pairs of numbers.

A combination (a, b, c) is the pair ((a, b), c): the number of (a, b) beside the number of c.
Columns, and the beginnings of combinations, are shared by all keys that use them, so that each is
looked up once a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from muntin.summaries.indexes import IntegerIndex
from muntin.summaries.key_columns import KeyColumn, KeyValues
from muntin.summaries.vector_matrix.names import Key

Numbers = dict[Key, np.ndarray]


class Numbering:
    """The indexes of some keys."""

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

    def number(self, values: Mapping[str, KeyValues], events: int) -> Numbers:
        """Row numbers, int32[events], of each column and combination."""
        numbered = np.empty((len(self.columns) + len(self.pairs), events), np.int32)
        outs = iter(numbered)  # one allocation: the system hands out a large one in large pages
        numbers: Numbers = {
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
