"""The matrix of one key: a row of sums for each of its values."""

from __future__ import annotations

import numpy as np

from muntin.summaries.aligned import aligned_zeros
from muntin.summaries.kernels.vector_sums import add_vectors, gather_columns
from muntin.summaries.vector_matrix.layout import Layout

_ROWS_MIN = 64


class KeyTable:
    """Rows by number; a row whose count is 0 is not there."""

    __slots__ = ("layout", "live", "matrix")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.live = 0
        """Rows that are there."""
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

    def live_rows(self) -> np.ndarray:
        """Numbers of the rows that are there."""
        return np.flatnonzero(self.matrix[:, 0])

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """Cells of the rows, as columns: int64[cells, n]."""
        out = np.empty((self.layout.last, len(rows)), np.int64)
        gather_columns(self.matrix, rows, out)
        return out
