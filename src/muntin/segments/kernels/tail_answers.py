"""Quantiles of relative compactors, and turns that cannot be: over many rows at once."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.copying import copy_to, fill
from muntin.summaries.kernels.relative import sections_of
from muntin.summaries.kernels.sorting import search
from muntin.summaries.kernels.weighted_view import weighted


@kernel()
def quantiles(
    starts, items, level_starts, levels, least_starts, least,
    fractions, near, far, exact_top, out, sure,
):  # fmt: skip
    """`out[:, row, i]` = key at fraction i, and at the ends of its interval. No row is empty.

    `near`, `far`: half-width of an interval: in shares of what is above, and of everything; the
      smaller.
    `exact_top`: so many items below the maximum hold their places.
    `sure` (bool[rows, fractions]): filled: whether value and place are certain.
    """
    size = 1
    for row in range(starts.shape[0] - 1):
        size = max(size, starts[row + 1] - starts[row])
    values = np.empty(size, np.int64)
    before = np.empty(size, np.int64)  # weight
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        exact = level_starts[row + 1] == level_starts[row]
        total = np.int64(0)
        if exact:
            copy_to(values, items[first : first + n])
            fill(before[:n], 1)
        else:
            own = levels[level_starts[row] : level_starts[row + 1]]
            weighted(items[first : first + n], own, 2, values[:n], before[:n])
        for i in range(n):
            total += before[i]
            before[i] = total - before[i]
        for i in range(fractions.shape[0]):
            q = fractions[i]
            # 0.07 * 100 is 7.000000000000001 in doubles: one step down finds the 7th.
            place = max(np.int64(np.ceil(np.nextafter(q * total, 0.0))), 1)
            tail = total - place + 1  # values that are not below
            known = exact or tail <= exact_top or place == 1
            sure[row, i] = known
            error = 0.0 if known else min(near * tail, far * total)
            for end in range(3):
                weight = np.float64(tail)
                if end == 1:
                    weight = min(np.ceil(tail + error), np.float64(total))
                elif end == 2:
                    weight = max(np.floor(tail - error), 1.0)
                if weight >= total and not exact:  # the minimum itself may have been compacted away
                    out[end, row, i] = least[least_starts[row]]
                else:
                    at = search(before, 0, n, total - np.int64(weight), True)
                    out[end, row, i] = values[at - 1]


@kernel()
def check_turns(level_starts, levels, k):
    """The first row with a level that would have been compacted, or impossible turns, or -1."""
    for row in range(level_starts.shape[0] - 1):
        for at in range(level_starts[row], level_starts[row + 1], 2):
            turns = levels[at + 1]
            if turns < 0:
                return row
            number, size = sections_of(k, turns >> 2)
            if levels[at] >= 2 * number * size:
                return row
    return -1
