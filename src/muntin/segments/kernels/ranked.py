"""Rows of sorted levels, of KLL and of relative compactors: what is alike in both.

A row is a list of items (int64 keys) level by level, and for each level `each` numbers, of which
the first is its size: one of KLL, two of relative compactors. Without levels it is all items,
sorted. With levels it has its `ends`: of KLL the least and the greatest, of relative compactors,
which never lose the greatest, the least alone.
"""

import numpy as np

from muntin.segments.kernels.quantiles import fold_levels, merge_levels
from muntin.segments.kernels.tail import INTEGERS, fold_run
from muntin.segments.kernels.tail_merges import merge_compactors
from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.compaction import LEVELS_MAX, coins_of
from muntin.summaries.kernels.copying import append_lists, copy_to
from muntin.summaries.kernels.relative import EXACT_IN_K
from muntin.summaries.kernels.sorting import falls, search, sort_keys

GREATEST = np.int64(0x7FFF_FFFF_FFFF_FFFF)


@inlined()
def _put(g, each, height, sizes, turns, both, level_starts, levels, end_starts, ends):
    """The levels of group g, and its `ends`, behind those of the group before."""
    at = level_starts[g]
    for level in range(height):
        levels[at + each * level] = sizes[level]
        if each == 2:
            levels[at + 2 * level + 1] = turns[level]
    level_starts[g + 1] = at + each * height
    at = end_starts[g]
    end_starts[g + 1] = at + 3 - each
    ends[at] = both[0]
    if each == 1:
        ends[at + 1] = both[1]


@kernel()
def fold_rows(bounds, k, caps, seed, starts, items, level_starts, levels, end_starts, ends):
    """Items of groups, each becoming a row, in place.

    `caps`: of KLL, as `absorb` has them; None: relative compactors.
    `items` (int64[n]): group g is items[bounds[g]:bounds[g + 1]]. Rows are put in front.
    `starts`, `level_starts`, `end_starts` (int64[groups + 1]): filled with the lists' starts.
    `levels`, `ends` (int64[...]): room for each group that is too large to be kept as it is.
    """
    filled = 0  # never beyond the group that is read: a row has no more items than its group
    most, each = (EXACT_IN_K * k, 2) if caps is None else (k, 1)
    sizes, own_ends = np.empty(LEVELS_MAX + 2, np.int64), np.empty(2, np.int64)
    starts[0] = level_starts[0] = end_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        run = items[bounds[g] : bounds[g + 1]]
        level_starts[g + 1] = level_starts[g]
        end_starts[g + 1] = end_starts[g]
        if run.shape[0] <= most:
            sort_keys(run)
            copy_to(items[filled:], run)
            filled += run.shape[0]
        else:
            turns = np.zeros(LEVELS_MAX + 2, np.int64)
            coins = coins_of(run, seed)
            if caps is None:
                kept, height = fold_run(run, INTEGERS, k, coins, turns, sizes, own_ends)
            else:
                kept, height = fold_levels(run, k, caps, coins, sizes, own_ends)
            copy_to(items[filled:], kept)
            filled += kept.shape[0]
            _put(g, each, height, sizes, turns, own_ends, level_starts, levels, end_starts, ends)
        starts[g + 1] = filled


@kernel()
def merge_rows(
    starts, items, level_starts, levels, end_starts, ends, order, bounds, k, caps, seed,
    out_starts, out_items, out_level_starts, out_levels, out_end_starts, out_ends,
):  # fmt: skip
    """The rows of each group as one. Lists as in `fold_rows`; a single row stays as it is.

    `order`, `bounds` (int64[rows], int64[groups + 1]): group g is made of the rows
      order[bounds[g]:bounds[g + 1]].
    `out_items` (int64[n]): as many as the rows have together.
    `out_levels`, `out_ends` (int64[...]): room for each group that may get levels.
    """
    filled = 0
    most, each = (EXACT_IN_K * k, 2) if caps is None else (k, 1)
    sizes, turns = np.empty(LEVELS_MAX + 2, np.int64), np.empty(LEVELS_MAX + 2, np.int64)
    both = np.empty(2, np.int64)
    out_starts[0] = out_level_starts[0] = out_end_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        rows = order[bounds[g] : bounds[g + 1]]
        total = 0
        compacted = False
        both[0], both[1] = GREATEST, ~GREATEST
        for row in rows:
            if starts[row + 1] == starts[row]:
                continue
            total += starts[row + 1] - starts[row]
            low, high = items[starts[row]], items[starts[row + 1] - 1]
            if level_starts[row + 1] > level_starts[row]:
                compacted = True
                low, high = ends[end_starts[row]], ends[end_starts[row + 1] - 1]
            both[0], both[1] = min(both[0], low), max(both[1], high)
        out_level_starts[g + 1] = out_level_starts[g]
        out_end_starts[g + 1] = out_end_starts[g]
        start = filled
        if rows.shape[0] == 1 or (not compacted and total <= most):  # nothing is lost
            filled = append_lists(starts, items, rows, out_items, filled)
            if rows.shape[0] > 1:
                sort_keys(out_items[start:filled])
            # there are levels only where it is a single row
            at, end = out_level_starts[g], out_end_starts[g]
            out_level_starts[g + 1] = append_lists(level_starts, levels, rows, out_levels, at)
            out_end_starts[g + 1] = append_lists(end_starts, ends, rows, out_ends, end)
        else:
            room = out_items[filled : filled + total]
            if caps is None:
                height, size = merge_compactors(
                    rows, starts, items, level_starts, levels, k, seed, turns, sizes, room
                )
            else:
                height, size = merge_levels(
                    rows, starts, items, level_starts, levels, k, caps, seed, sizes, room
                )
            filled += size
            _put(
                g, each, height, sizes, turns, both, out_level_starts, out_levels,
                out_end_starts, out_ends,
            )  # fmt: skip
        out_starts[g + 1] = filled


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
