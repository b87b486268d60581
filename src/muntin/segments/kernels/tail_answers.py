"""What relative compactors answer, and which rows cannot be: over many rows at once."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.compaction import LEVELS_MAX
from muntin.summaries.kernels.relative import EXACT_IN_K, sections_of
from muntin.summaries.kernels.sorting import falls, search, sort_pairs


@kernel()
def _weighted(items, levels, values, above):
    """Items in order, and the weight of those that are not before each, itself included.

    `levels` holds two numbers a level: its size, and its turns, which do not matter here.
    """
    at = 0
    for level in range(levels.shape[0] // 2):
        for _ in range(levels[2 * level]):
            values[at] = items[at]
            above[at] = np.int64(1) << level
            at += 1
    sort_pairs(values, above)
    for i in range(at - 2, -1, -1):
        above[i] += above[i + 1]


@kernel()
def _place(above, weight):
    """The last place that so much weight is not before, or -1."""
    low = 0
    high = above.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if above[middle] >= weight:
            low = middle + 1
        else:
            high = middle
    return low - 1


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
    above = np.empty(size, np.int64)
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        exact = level_starts[row + 1] == level_starts[row]
        if exact:
            for i in range(n):
                values[i] = items[first + i]
                above[i] = n - i
        else:
            own = levels[level_starts[row] : level_starts[row + 1]]
            _weighted(items[first : first + n], own, values[:n], above[:n])
        total = above[0]
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
                    out[end, row, i] = values[_place(above[:n], np.int64(weight))]


@kernel()
def ranks(
    starts, items, level_starts, levels, least_starts, least, points, inclusive, weight, sure
):  # fmt: skip
    """Weight of the items > (or >=, where not inclusive) each point, and whether it is certain. No
    row is empty."""
    for row in range(starts.shape[0] - 1):
        exact = level_starts[row + 1] == level_starts[row]
        low = items[starts[row]] if exact else least[least_starts[row]]
        for i in range(points.shape[0]):
            weight[row, i] = 0
        at = starts[row]
        height = 1 if exact else (level_starts[row + 1] - level_starts[row]) // 2
        total = np.int64(0)
        for level in range(height):
            n = starts[row + 1] - at if exact else levels[level_starts[row] + 2 * level]
            total += n << level
            for i in range(points.shape[0]):
                weight[row, i] += (
                    at + n - search(items, at, at + n, points[i], inclusive)
                ) << level
            at += n
        for i in range(points.shape[0]):
            below = points[i] < low or (not inclusive and points[i] == low)
            if below:
                weight[row, i] = total
            sure[row, i] = exact or below


@kernel()
def check_tail(starts, items, level_starts, levels, least_starts, least, counts, k):
    """The first row that no values could have made, or -1."""
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        own_levels = level_starts[row + 1] - level_starts[row]  # numbers, two a level
        own_least = least_starts[row + 1] - least_starts[row]
        if own_levels == 0:
            if own_least != 0 or n != counts[row] or n > EXACT_IN_K * k:
                return row
            if falls(items, first, first + n):
                return row
            continue
        if own_levels & 1 or own_levels > 2 * LEVELS_MAX or own_least != 1 or counts[row] <= 0:
            return row
        low = least[least_starts[row]]
        at = first
        weight = np.int64(0)
        for level in range(own_levels // 2):
            own = levels[level_starts[row] + 2 * level]
            turns = levels[level_starts[row] + 2 * level + 1]
            # As a shift of what is left: `own << level` might overflow.
            if own < 0 or own > first + n - at or own > (counts[row] - weight) >> level:
                return row
            if turns < 0:
                return row
            number, size = sections_of(k, turns >> 2)
            if own >= 2 * number * size:  # such a level would have been compacted
                return row
            weight += own << level
            if own and (items[at] < low or falls(items, at, at + own)):
                return row
            at += own
        if at != first + n or weight != counts[row]:
            return row
    return -1
