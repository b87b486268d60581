"""Lists in a row: list i is items[starts[i]:starts[i + 1]]."""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.sorting import sort_keys

NOT_THERE, FALLS, IN_NO_ROW = 1, 2, 3
"""What `problem_of_numbers` finds."""


@kernel()
def gather_lists(starts, items, rows, out_starts, out):
    """The lists of `rows`, in their order; `out_starts` is filled already."""
    for i in range(rows.shape[0]):
        at = starts[rows[i]]
        to = out_starts[i]
        for j in range(out_starts[i + 1] - to):
            out[to + j] = items[at + j]


@kernel()
def keep_present(order, bounds, missing, kept, kept_bounds, absent):
    """The events of each group that are not missing, and how many are.

    order, bounds : int64[n], int64[groups + 1]
    missing : bool[n]
    kept, kept_bounds, absent : int64[n], int64[groups + 1], int64[groups]
    """
    filled = 0
    kept_bounds[0] = 0
    for g in range(bounds.shape[0] - 1):
        for i in range(bounds[g], bounds[g + 1]):
            if not missing[order[i]]:
                kept[filled] = order[i]
                filled += 1
        kept_bounds[g + 1] = filled
        absent[g] = bounds[g + 1] - bounds[g] - (filled - kept_bounds[g])
    return filled


@kernel()
def sum_counts(counts, order, bounds, out):
    """`out[g]` = sum of the counts of group g."""
    for g in range(bounds.shape[0] - 1):
        total = 0
        for i in range(bounds[g], bounds[g + 1]):
            total += counts[order[i]]
        out[g] = total


@kernel()
def problem_of_numbers(numbers, starts, size, all_used):
    """0, or what is wrong with numbers of 0 ... size, `size` being none.

    starts : int64
        Where lists begin, in which numbers must ascend.
    all_used : bool
        Whether each number below `size` must occur.
    """
    used = np.zeros(size + 1, np.uint8)
    for i in range(numbers.shape[0]):
        if numbers[i] < 0 or numbers[i] > size:
            return NOT_THERE
        used[numbers[i]] = 1
    for s in range(starts.shape[0] - 1):
        for i in range(starts[s] + 1, starts[s + 1]):
            if numbers[i] <= numbers[i - 1]:
                return FALLS
    if all_used:
        for number in range(size):
            if used[number] == 0:
                return IN_NO_ROW
    return 0


@kernel()
def sort_lists(items, starts, bounds):
    """Sort each list of items[starts[g]:starts[g + 1]] that is made of more than one row."""
    for g in range(bounds.shape[0] - 1):
        if bounds[g + 1] - bounds[g] > 1:
            sort_keys(items[starts[g] : starts[g + 1]])
