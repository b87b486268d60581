"""The columns that states are made of, one row a state.

A column is fixed (int64, float64 or uint8 [rows]), ragged (a list a row), or None, which stands
for zeros or empty lists: what is never there costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.segments.kernels.lists import lay_out
from muntin.summaries.kernels.copying import append_lists


@dataclass(frozen=True, slots=True)
class Shape:
    """What a column of states holds.

    Parameters
    ----------
    dtype : "int64", "float64" or "uint8"
        Of a value.
    ragged : bool
        A list a row.
    keys : bool
        int64 that are keys of doubles (`order_keys`): they compress as doubles.
    required : bool
        Never None, not even where all are zeros.
    """

    dtype: str = "int64"
    ragged: bool = False
    keys: bool = False
    required: bool = False

    @property
    def doubles(self) -> bool:
        return self.keys or self.dtype == "float64"

    @property
    def streams(self) -> int:
        """In the bytes of a segment."""
        if not self.ragged:
            return 1
        return 2 if self.dtype == "uint8" else 3


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """A list a row: row i holds items[starts[i]:starts[i + 1]]; starts[0] is 0."""

    starts: np.ndarray
    items: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.items.nbytes

    @property
    def sizes(self) -> np.ndarray:
        """Items of each row: int64[rows]."""
        return self.starts[1:] - self.starts[:-1]


Column = np.ndarray | Ragged | None
States = Mapping[str, Column]
NOTHING = np.empty(0, np.int64)
NOTHING.setflags(write=False)


def frozen(array: np.ndarray) -> np.ndarray:
    """The same memory, read-only and contiguous: what kernels read, and nobody changes."""
    flags = array.flags
    if not flags.writeable and flags.c_contiguous:
        return array
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def room(*sizes: int) -> tuple[np.ndarray, ...]:
    """Memory for so many int64 each; pages that are not used cost nothing."""
    return tuple(np.empty(size, np.int64) for size in sizes)


def starts_of(sizes: np.ndarray) -> np.ndarray:
    """Where lists of these sizes begin, and the end: int64[rows + 1]."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return frozen(starts)


def laid_out(sizes: np.ndarray, most: int, least: int = 0) -> np.ndarray | None:
    """`starts_of`; None where a list has less than `least`, or all have more than `most`."""
    starts = np.empty(len(sizes) + 1, np.int64)
    return frozen(starts) if lay_out(sizes, least, most, starts) else None


def ragged(sizes: np.ndarray, items: np.ndarray) -> Ragged | None:
    """Lists of these sizes; None where all are empty."""
    return Ragged(starts_of(sizes), frozen(items)) if len(items) else None


def present(column: np.ndarray) -> np.ndarray | None:
    """The column, or None where it is all zeros."""
    return frozen(column) if column.any() else None


def lists(column: Column, rows: int, dtype: Any = np.int64) -> Ragged:
    """A ragged column that is there, whatever was given."""
    if isinstance(column, Ragged):
        return column
    return Ragged(frozen(np.zeros(rows + 1, np.int64)), frozen(np.empty(0, dtype)))


def numbers(column: Column, none: np.ndarray = NOTHING) -> np.ndarray:
    """A fixed column, or what stands for none: kernels take an empty one for zeros."""
    return column if isinstance(column, np.ndarray) else none


def take(column: Column, rows: np.ndarray) -> Column:
    """The rows of these numbers, in their order."""
    if column is None:
        return None
    if isinstance(column, np.ndarray):
        return frozen(column[rows])
    starts = starts_of(column.sizes[rows])
    items = np.empty(int(starts[-1]), column.items.dtype)
    append_lists(column.starts, column.items, frozen(rows), items, 0)
    return trimmed(starts, items)


def trimmed(starts: np.ndarray, items: np.ndarray) -> Column:
    """A column of lists without the space that was not used."""
    used = int(starts[-1])
    if 2 * used < len(items):
        items = items[:used].copy()
    return Ragged(frozen(starts), frozen(items[:used])) if used else None


def taken(states: States, rows: np.ndarray, of: int) -> States:
    """The states of these rows, ascending, of so many."""
    if len(rows) == of:
        return states
    return {name: take(column, rows) for name, column in states.items()}


def between(column: Column, first: int, last: int) -> Column:
    """Rows first ... last - 1, without copying."""
    if column is None:
        return None
    if isinstance(column, np.ndarray):
        return column[first:last]
    low, high = int(column.starts[first]), int(column.starts[last])
    if low == high:
        return None
    starts = column.starts[first : last + 1]
    return Ragged(starts if low == 0 else frozen(starts - low), column.items[low:high])


def concat(columns: Sequence[Column], rows: Sequence[int]) -> Column:
    """One column of several; `rows` of each."""
    there = [column for column in columns if column is not None]
    if not there:
        return None
    if isinstance(there[0], np.ndarray):
        pairs = zip(columns, rows, strict=True)
        zeros = there[0].dtype
        return frozen(np.concatenate([numbers(c, np.zeros(n, zeros)) for c, n in pairs]))
    dtype = there[0].items.dtype
    parts = [lists(column, size, dtype) for column, size in zip(columns, rows, strict=True)]
    sizes = np.concatenate([part.sizes for part in parts])
    return Ragged(starts_of(sizes), frozen(np.concatenate([part.items for part in parts])))
