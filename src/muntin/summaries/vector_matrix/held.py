"""Rows without indexes: what was read from bytes, or grouped from one batch, until it changes.

Most summaries of panes are written, or read to be merged into another, and nothing else: their
hash tables would be made for nothing. Held rows are never changed, so that copies share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from muntin.summaries.vector_matrix.indexes import NO_BITS
from muntin.summaries.vector_matrix.indicators import Layout
from muntin.summaries.vector_matrix.key_values import KeyKind, KeyValues
from muntin.summaries.vector_matrix.names import Key
from muntin.summaries.vector_matrix.rows import KeyRows


class Held:
    """The rows of each key, made when they are asked for."""

    __slots__ = ("_made", "_make", "covered", "nbytes", "sizes")

    def __init__(
        self,
        sizes: Sequence[int],
        covered: Sequence[int],
        nbytes: int,
        make: Callable[[int], KeyRows],
    ) -> None:
        self.sizes = sizes
        """Rows of each key."""
        self.covered = covered
        """Events that they hold."""
        self.nbytes = nbytes
        self._make = make
        self._made: dict[int, KeyRows] = {}

    def rows(self, at: int) -> KeyRows:
        """The rows of key `at`."""
        if at not in self._made:
            self._made[at] = self._make(at)
        return self._made[at]


def no_rows(keys: Sequence[Key], kinds: Mapping[str, KeyKind | None], layout: Layout) -> Held:
    """What a new summary holds."""
    kinds = dict(kinds)

    def make(at: int) -> KeyRows:
        parts = [KeyValues(kinds[name], 0, NO_BITS) for name in keys[at]]
        return KeyRows(parts, np.empty((layout.last, 0), np.int64), None)

    nothing = [0] * len(keys)
    return Held(nothing, nothing, 0, make)


def vectors_of(rows: KeyRows, width: int) -> np.ndarray:
    """The rows as a matrix has them, one vector a row: int64[rows, width]."""
    vectors = np.zeros((len(rows), width), np.int64)
    vectors[:, : len(rows.cells)] = rows.cells.T
    return vectors
