"""Space-Saving over many groups at once.

A state is a list of (item, weight, gained) in the order of the items' numbers, and an offset: no
item that is not listed weighs more. An item weighs at most offset + weight and surely
weight + gained. Weights, what is gained and offsets of several states add up, item by item: that
is the whole merge. (`gained` is the offset less the error of the textbook.)
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.sorting import nth_largest, sort_pairs

INT64_MAX = np.int64(0x7FFF_FFFF_FFFF_FFFF)
SPARSE = 4  # numbers for each event


@kernel()
def _close(items, weights, gained, first, n, capacity, most, exact):
    """Let all but the `capacity` heaviest of the n items at `first` go, where there are more than
    `most`; of equal ones those with the smallest numbers stay. Returns how many are left and how
    much the offset rises.

    It rises by the weight of the heaviest that goes. Those that stay lose as much of their weights,
    so that offset + weight is what it was, and gain it, so that weight + gained is.

    exact : bool
        The offset was 0: nothing is gained yet, and `gained` is not set.
    """
    if n <= most:
        return n, 0
    threshold = nth_largest(weights[first : first + n], capacity)
    larger = 0
    for i in range(first, first + n):
        larger += weights[i] > threshold
    ties = capacity - larger
    kept = first
    for i in range(first, first + n):
        weight = weights[i]
        if weight < threshold:
            continue
        if weight == threshold:
            if ties == 0:
                continue
            ties -= 1
        before = np.int64(0) if exact else gained[i]
        items[kept] = items[i]
        weights[kept] = weight - threshold
        gained[kept] = before + threshold
        kept += 1
    return kept - first, threshold


@kernel()
def fold_items(
    numbers, weights, order, bounds, capacity, most,
    starts, items, item_weights, gained, offsets, totals,
):  # fmt: skip
    """One state a group of events.

    numbers, weights : int64[n], int64[n] (of one: for all)
        Number and weight of each event's item; weights are not negative.
    items, item_weights, gained : int64[n]
        Filled from the front. Where the offset of a group is 0, its `gained` is not set.
    totals : int64[groups]
        -1 where the weights of a group are beyond int64: it holds no items.
    """
    one = weights.shape[0] == 1
    filled = 0
    starts[0] = 0
    size = 1
    for g in range(bounds.shape[0] - 1):
        size = max(size, bounds[g + 1] - bounds[g])
    keys = np.empty(size, np.int64)
    heavy = np.empty(size, np.int64)
    span = 0  # of numbers, from 0
    for number in numbers:
        span = max(span, number + 1)
    sums = np.zeros(span if span <= SPARSE * size else 0, np.int64)
    for g in range(bounds.shape[0] - 1):
        n = bounds[g + 1] - bounds[g]
        total = np.int64(0)
        for i in range(n):
            row = order[bounds[g] + i]
            keys[i] = numbers[row]
            heavy[i] = weights[0] if one else weights[row]
            if total >= 0:
                total = -1 if heavy[i] > INT64_MAX - total else total + heavy[i]
        offsets[g] = 0
        totals[g] = total
        if total >= 0:
            at = filled
            if span <= SPARSE * n:  # a look at all numbers is sooner done than sorting
                for i in range(n):
                    sums[keys[i]] += heavy[i]
                for number in range(span):
                    if sums[number] > 0:
                        items[at] = number
                        item_weights[at] = sums[number]
                        at += 1
                        sums[number] = 0
                n = 0  # nothing is left to sort
            sort_pairs(keys[:n], heavy[:n])
            for i in range(n):
                if heavy[i] == 0:
                    continue
                if at > filled and items[at - 1] == keys[i]:
                    item_weights[at - 1] += heavy[i]
                else:
                    items[at] = keys[i]
                    item_weights[at] = heavy[i]
                    at += 1
            kept, offset = _close(
                items, item_weights, gained, filled, at - filled, capacity, most, True
            )
            offsets[g] = offset
            filled += kept
        starts[g + 1] = filled


@kernel()
def merge_items(
    starts, items, weights, gained, offsets, totals, order, bounds, capacity, most,
    out_starts, out_items, out_weights, out_gained, out_offsets, out_totals,
):  # fmt: skip
    """One state of the states of each group; lists as in `fold_items`, `gained` all set."""
    filled = 0
    out_starts[0] = 0
    size = 1
    for g in range(bounds.shape[0] - 1):
        n = 0
        for i in range(bounds[g], bounds[g + 1]):
            n += starts[order[i] + 1] - starts[order[i]]
        size = max(size, n)
    keys = np.empty(size, np.int64)
    places = np.empty(size, np.int64)  # which entry each key is of
    for g in range(bounds.shape[0] - 1):
        total = np.int64(0)
        offset = np.int64(0)
        n = 0
        for i in range(bounds[g], bounds[g + 1]):
            row = order[i]
            if total >= 0:
                own = totals[row]
                total = -1 if own < 0 or own > INT64_MAX - total else total + own
            offset += offsets[row]
            for j in range(starts[row], starts[row + 1]):
                keys[n] = items[j]
                places[n] = j
                n += 1
        out_totals[g] = total
        out_offsets[g] = 0
        if total >= 0:
            if bounds[g + 1] - bounds[g] > 1:  # the list of one state is in order
                sort_pairs(keys[:n], places[:n])
            at = filled
            for i in range(n):
                j = places[i]
                if at > filled and out_items[at - 1] == keys[i]:
                    out_weights[at - 1] += weights[j]
                    out_gained[at - 1] += gained[j]
                else:
                    out_items[at] = keys[i]
                    out_weights[at] = weights[j]
                    out_gained[at] = gained[j]
                    at += 1
            kept, rise = _close(
                out_items, out_weights, out_gained, filled, at - filled, capacity, most, False
            )
            out_offsets[g] = offset + rise
            filled += kept
        out_starts[g + 1] = filled


@kernel()
def spread_gained(starts, offsets, gained_starts, gained, out):
    """What is gained for each item: lists that are empty where the offset is 0, as zeros."""
    for row in range(offsets.shape[0]):
        at = gained_starts[row]
        none = gained_starts[row + 1] == at
        for j in range(starts[row], starts[row + 1]):
            out[j] = 0 if none else gained[at + j - starts[row]]


@kernel()
def gather_gained(starts, offsets, gained, out_starts, out):
    """The inverse of `spread_gained`."""
    filled = 0
    out_starts[0] = 0
    for row in range(offsets.shape[0]):
        if offsets[row]:
            for j in range(starts[row], starts[row + 1]):
                out[filled] = gained[j]
                filled += 1
        out_starts[row + 1] = filled
    return filled


@kernel()
def check_items(
    starts, items, weights, gained_starts, gained, offsets, totals, counts, capacity, most
):  # fmt: skip
    """The first row that no events could have made, or -1. Nothing here can overflow.

    most : int64[rows]
        Items that a row may list; -1: none, whatever it has counted.
    """
    for row in range(offsets.shape[0]):
        n = starts[row + 1] - starts[row]
        offset = offsets[row]
        total = totals[row]
        own = gained_starts[row + 1] - gained_starts[row]
        if own != (n if offset else 0) or offset < 0 or n > max(most[row], 0):
            return row
        if total < 0:
            if total != -1 or n or offset or counts[row] < 2:
                return row
            continue
        if most[row] < 0:
            if offset or total == 0 or counts[row] == 0:
                return row
            continue
        if (total > 0) != (n > 0) or (offset and n < capacity) or (total and counts[row] == 0):
            return row
        # Whenever the offset rose, capacity + 1 items or more lost as much: those that stayed, and
        # the heaviest that went. All weights that are left come from the rest of the total.
        if offset and offset > total // (capacity + 1):
            return row
        left = total - (capacity + 1) * offset
        sure = total  # what items surely weigh, together
        for j in range(starts[row], starts[row + 1]):
            i = j - starts[row]
            more = gained[gained_starts[row] + i] if offset else 0
            if j > starts[row] and items[j] <= items[j - 1]:
                return row
            if weights[j] < 0 or weights[j] > left or more < 0 or more > offset:
                return row
            left -= weights[j]
            if weights[j] > sure - more or weights[j] + more == 0:
                return row
            sure -= weights[j] + more
        if not offset and left != 0:
            return row
    return -1


@kernel()
def close_lists(cell_starts, capacity, starts, items, weights, gained, offsets):
    """Let all but the `capacity` heaviest of the rows with cells go, in place, where there are
    more than twice as many; with a capacity of 0, all."""
    filled = 0
    first = starts[0]
    for row in range(offsets.shape[0]):
        n = starts[row + 1] - first
        at = first
        first = starts[row + 1]
        kept = n
        if cell_starts[row + 1] > cell_starts[row]:
            if capacity == 0:
                kept = 0
                offsets[row] = 0
            else:
                exact = offsets[row] == 0
                kept, rise = _close(items, weights, gained, at, n, capacity, 2 * capacity, exact)
                offsets[row] += rise
        for i in range(kept):
            items[filled + i] = items[at + i]
            weights[filled + i] = weights[at + i]
            gained[filled + i] = gained[at + i]
        filled += kept
        starts[row + 1] = filled
