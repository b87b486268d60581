"""The matrix of one key: a row of sums for each of its values."""

from __future__ import annotations

import numpy as np

from muntin.arrow import read_only
from muntin.errors import IncompatibleSummary, SummaryOverflow
from muntin.summaries.kernels.vector_sums import (
    add_columns,
    add_vectors,
    add_vectors_checked,
    gather_columns,
    magnitude_bits,
    subtract_vectors,
)
from muntin.summaries.vector_matrix.indicators import Layout, relaid
from muntin.summaries.vector_matrix.names import Key, shown
from muntin.summaries.vector_matrix.rooms import zeros

_ROWS_MIN = 64


def line_aligned(rows: int, width: int) -> np.ndarray:
    """Zeros, int64[rows, width], that begin at a cache line."""
    return zeros(rows * width, np.int64).reshape(rows, width)


class KeyTable:
    """Rows by number; a row whose count is 0 is not there."""

    __slots__ = ("covered", "floats", "key", "layout", "live", "matrix", "valid")

    def __init__(self, key: Key, layout: Layout, rows: int = 0) -> None:
        self.key = key
        self.layout = layout
        self.live = 0
        """Rows that are there."""
        self.covered = 0
        """Events that the rows hold."""
        self.valid: np.ndarray | None = None
        """bool[rows, indicators]: some event of the row had the indicator. None: all have all."""
        self._hold(line_aligned(max(rows, _ROWS_MIN), layout.width))

    def _hold(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        self.floats = matrix.view(np.float64)

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + (self.valid.nbytes if self.valid is not None else 0)

    def copy(self) -> KeyTable:
        new = KeyTable.__new__(KeyTable)
        new.key, new.layout, new.live, new.covered = self.key, self.layout, self.live, self.covered
        new.valid = self.valid.copy() if self.valid is not None else None
        matrix = line_aligned(*self.matrix.shape)
        matrix[:] = self.matrix
        new._hold(matrix)
        return new

    def reserve(self, rows: int) -> None:
        if rows <= len(self.matrix):
            return
        old, room = self.matrix, 1 << (rows - 1).bit_length()
        new = line_aligned(room, self.layout.width)
        new[: len(old)] = old
        self._hold(new)
        if self.valid is not None:
            valid = np.zeros((room, self.valid.shape[1]), bool)
            valid[: len(old)] = self.valid
            self.valid = valid

    def add(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Add vector i to row i; the caller knows that nothing overflows."""
        self.live += add_vectors(
            self.matrix, self.floats, rows, vectors, vectors.view(np.float64),
            self.layout.integers, self.layout.last,
        )  # fmt: skip

    def add_columns(self, rows: np.ndarray, cells: np.ndarray) -> None:
        """As `add`, of vectors that stand as columns: int64[cells, n], none with a count of 0."""
        self.live += add_columns(
            self.matrix, self.floats, rows, cells, cells.view(np.float64),
            self.layout.integers, self.layout.last,
        )  # fmt: skip

    def add_checked(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """As `add`, but raises where a sum overflows; the rows may then hold anything."""
        woken, cell = add_vectors_checked(
            self.matrix, self.floats, rows, vectors, vectors.view(np.float64),
            self.layout.integers, self.layout.last,
        )  # fmt: skip
        if cell >= 0:
            raise SummaryOverflow(self._overflow(cell))
        self.live += woken

    def subtract(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Take vector i from row i; raises where it is no part, and rows may then hold anything."""
        asleep, cell = subtract_vectors(
            self.matrix, self.floats, rows, vectors, vectors.view(np.float64),
            self.layout.integers, self.layout.last,
        )  # fmt: skip
        if cell == 0:
            raise IncompatibleSummary(
                f"cannot subtract: of key {shown(self.key)}, the other holds events "
                "that this summary does not"
            )
        if cell > 0:
            raise IncompatibleSummary(
                f"cannot subtract: key {shown(self.key)}, indicator {self._named(cell)!r}: "
                "the other's sums are no part of this summary's"
            )
        self.live -= asleep

    def _named(self, cell: int) -> str:
        return self.layout.names[self.layout.cells.index(cell)]

    def _overflow(self, cell: int) -> str:
        if cell == 0:
            return f"key {shown(self.key)}: a count is beyond int64"
        kind = "float64" if cell >= self.layout.integers else "int64"
        remedy = (
            "declare the indicator as float64, or use a smaller unit"
            if kind == "int64"
            else "use a smaller unit"
        )
        return (
            f"key {shown(self.key)}, indicator {self._named(cell)!r}: a sum is beyond {kind}; "
            f"nothing was added. {remedy[0].upper()}{remedy[1:]}"
        )

    def relay(self, layout: Layout) -> None:
        """Take another layout; sums of indicators that stay are kept."""
        if layout == self.layout:
            return
        rows, old = len(self.matrix), self.layout
        if self.valid is not None:
            valid = np.zeros((rows, len(layout.names)), bool)
            for at, name in enumerate(layout.names):
                if name in old.names:
                    valid[:, at] = self.valid[:, old.names.index(name)]
            self.valid = valid
        matrix = line_aligned(rows, layout.width)
        if self.live:
            matrix[:] = relaid(self.matrix, old, layout)
        self.layout = layout
        self._hold(matrix)

    def track_validity(self, complete: list[bool]) -> None:
        """From now on each row knows which indicators it has; so far it had the complete ones."""
        if self.valid is None:
            self.valid = np.zeros((len(self.matrix), len(complete)), bool)
            self.valid[self.matrix[:, 0] > 0] = complete

    def live_rows(self) -> np.ndarray:
        """Numbers of the rows that are there."""
        return np.flatnonzero(self.matrix[:, 0])

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """Cells of the rows, as columns: int64[cells, n]."""
        out = np.empty((self.layout.last, len(rows)), np.int64)
        gather_columns(self.matrix, rows, out)
        return out

    def largest(self, at: int, rows: int) -> int | float:
        """Bound of the magnitude of indicator `at` over the first rows."""
        cell = self.layout.cells[at]
        if self.layout.types[at] == "float64":
            return float(np.abs(self.floats[:rows, cell]).max(initial=0.0))
        return int(magnitude_bits(read_only(self.matrix[:rows, cell].copy()))) + 1
