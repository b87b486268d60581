"""Sets of numbers as ascending arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def as_set(numbers: Int64s) -> Int64s:
    """The different ones of int64[n], ascending.

    `np.unique` hashes them since NumPy 2.3: times, which are multiples of a pane's length, fall
    into few of its buckets then, and take a hundred times as long as to be sorted.
    """
    found = np.sort(numbers, kind="stable")  # mostly runs that ascend
    first = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=first[1:])
    return found[first]
