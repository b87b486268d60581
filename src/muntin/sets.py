"""Sets of numbers as ascending arrays."""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def as_set(numbers: Int64s) -> Int64s:
    """The different ones of int64[n], ascending.

    `np.unique` hashes them since NumPy 2.3: times, which are multiples of a pane's length, fall
    into few of its buckets then, and take a hundred times as long as to be sorted.
    """
    found = np.sort(numbers, kind="stable")  # mostly runs that ascend
    return found[_firsts(found)]


def sums_of_set(numbers: Int64s, *columns: Int64s) -> tuple[Int64s, ...]:
    """The different ones of int64[n], ascending, and the sum of each int64[n] column over each."""
    if (numbers[1:] < numbers[:-1]).any():
        order = np.argsort(numbers, kind="stable")
        numbers, columns = numbers[order], tuple(column[order] for column in columns)
    starts = np.flatnonzero(_firsts(numbers))
    if not len(starts):
        return numbers, *columns
    return numbers[starts], *(np.add.reduceat(column, starts) for column in columns)


def _firsts(ascending: Int64s) -> npt.NDArray[np.bool_]:
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return first
