"""Which rows of a long column can be among the first of an order."""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import kernel

LOOK_ROWS = 32
"""Of so many rows at once most are below what is found already: they are passed without a branch
for each, which the processor would guess wrongly where a part of the rows is kept."""


@kernel()
def top_rows(order, keep, most):
    """Rows that are kept and whose value is at least that of the `most`-th largest of them.

    Parameters
    ----------
    order : int64[n]
    keep : bool[n]
    most : int64
        At least 1. Rows that are equal to the last are there too, so there may be more.

    Returns
    -------
    int64[...]
        In the order of the column.
    """
    heap = np.empty(most, np.int64)  # the smallest of the largest at its root
    found = np.empty(len(order), np.int64)  # of which only what is written to takes memory
    size = count = 0
    for start in range(0, len(order), LOOK_ROWS):
        end = min(start + LOOK_ROWS, len(order))
        if size == most:
            large = 0
            for row in range(start, end):
                large += order[row] >= heap[0]
            if not large:
                continue
        for row in range(start, end):
            value = order[row]
            if not keep[row] or (size == most and value < heap[0]):
                continue
            found[count] = row
            count += 1
            if size < most:
                size += 1
                _rise(heap, size - 1, value)
            elif value > heap[0]:
                _sink(heap, value)
    among = 0
    for at in range(count):  # what was among the largest then, and may not be now
        if size < most or order[found[at]] >= heap[0]:
            found[among] = found[at]
            among += 1
    return found[:among].copy()


@kernel()
def _rise(heap, at, value):
    """Put a value at the end of a heap of `at`."""
    while at and heap[(at - 1) >> 1] > value:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = value


@kernel()
def _sink(heap, value):
    """Put a value in the place of the smallest."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
