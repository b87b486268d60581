"""Rows of sorted levels, of KLL and of relative compactors: what is alike in both.

A row is a list of items (int64 keys) level by level, and for each level `each` numbers, of which
the first is its size: one of KLL, two of relative compactors. Without levels it is all items,
sorted. With levels it has its `ends`: of KLL the least and the greatest, of relative compactors,
which never lose the greatest, the least alone.
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.compaction import LEVELS_MAX
from muntin.summaries.kernels.sorting import falls, search

GREATEST = np.int64(0x7FFF_FFFF_FFFF_FFFF)


@kernel()
def ranks(
    starts, items, level_starts, levels, end_starts, ends, points, inclusive, each, weight, sure
):  # fmt: skip
    """Weight of the items <= (or <) each point, and whether it is certain. No row is empty."""
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        exact = level_starts[row + 1] == level_starts[row]
        low, high = items[first], items[first + n - 1]
        if not exact:
            low = ends[end_starts[row]]
            high = ends[end_starts[row] + 1] if each == 1 else GREATEST
        total = 0
        for i in range(points.shape[0]):
            weight[row, i] = 0
        at = first
        for level in range(1 if exact else (level_starts[row + 1] - level_starts[row]) // each):
            own = n if exact else levels[level_starts[row] + each * level]
            total += own << level
            for i in range(points.shape[0]):
                weight[row, i] += (search(items, at, at + own, points[i], inclusive) - at) << level
            at += own
        for i in range(points.shape[0]):
            below = points[i] < low or (not inclusive and points[i] == low)
            above = points[i] > high or (inclusive and points[i] == high)
            if below:
                weight[row, i] = 0
            elif above:
                weight[row, i] = total
            sure[row, i] = exact or below or above


@kernel()
def check_rows(starts, items, level_starts, levels, end_starts, ends, counts, most, each):
    """The first row that no values could have made, or -1.

    most : int64
        Items of a row without levels.
    """
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        numbers = level_starts[row + 1] - level_starts[row]
        own_ends = end_starts[row + 1] - end_starts[row]
        if numbers == 0:
            if own_ends != 0 or n != counts[row] or n > most or falls(items, first, first + n):
                return row
            continue
        height = numbers // each
        if height * each != numbers or height > LEVELS_MAX or counts[row] <= 0:
            return row
        if own_ends != 3 - each or height < 3 - each:  # a KLL of one level has lost nothing
            return row
        low = ends[end_starts[row]]
        high = ends[end_starts[row] + 1] if each == 1 else GREATEST
        at = first
        weight = np.int64(0)
        for level in range(height):
            own = levels[level_starts[row] + each * level]
            # As a shift of what is left: `own << level` might overflow.
            if own < 0 or own > first + n - at or own > (counts[row] - weight) >> level:
                return row
            weight += own << level
            end = at + own
            if own and (items[at] < low or items[end - 1] > high or falls(items, at, end)):
                return row
            at = end
        if at != first + n or weight != counts[row]:
            return row
    return -1
