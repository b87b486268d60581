"""Merges of relative compactors, many at once.

A merge of many large sketches would spend its time on sorting items far from the top, which then go
up several levels. They go there at once: of neighbours in a sorted run, one is taken with the
weight of all. That costs a rank two blocks of each run, so the more is above, the larger these are.
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.compaction import LEVELS_MAX, MIX_1, SEED, coins_of, draw
from muntin.summaries.kernels.copying import copy_to, fill
from muntin.summaries.kernels.relative import DEVIATION, compact_stack
from muntin.summaries.kernels.sorting import search, sort_keys, sort_pairs

MERGE_SHARE = 0.2  # of a rank's variance, that sampling may add
SORTED_MAX = 1 << 12  # a merge of no more items sorts them all
SAMPLED = 1 << 11  # items that tell where tiers begin
TIER_SHIFT = 2  # a tier's items may go up so many levels more than those of the tier above it


@kernel()
def _unite_turns(rows, level_starts, levels, turns):
    """Schedules are united by OR. A coin that waits for its opposite stays where its level was
    compacted more often than all others: else a sketch that is merged again and again, each time
    with the same coin, would decide every one.

    `levels` holds two numbers a level, its size and its turns, packed as `compact_stack` says.
    """
    fill(turns, 0)
    most = np.zeros(turns.shape[0], np.int64)
    height = 1
    for i in range(rows.shape[0]):
        start = level_starts[rows[i]]
        high = (level_starts[rows[i] + 1] - start) // 2
        height = max(height, high)
        for level in range(high):
            other = levels[start + 2 * level + 1]
            coin = turns[level] & 3
            if other >> 2 > most[level]:
                most[level] = other >> 2
                coin = other & 3
            elif other >> 2 == most[level]:
                coin = 0
            turns[level] = ((turns[level] | other) >> 2 << 2) | coin
    return height


@kernel()
def _thresholds(rows, starts, items, level_starts, levels, total, first, found):
    """Keys that have about so much above them: `first`, then each time 2^TIER_SHIFT times as much.
    Returns how many were found; a sample of the items is asked."""
    step = total // SAMPLED + 1
    keys = np.empty(total // step + 1, np.int64)
    weights = np.empty(keys.shape[0], np.int64)
    taken = 0
    skip = 0  # counted on from run to run: else runs shorter than `step` would never be asked
    for i in range(rows.shape[0]):
        row = rows[i]
        at = starts[row]
        high = (level_starts[row + 1] - level_starts[row]) // 2
        for level in range(max(high, 1)):
            n = levels[level_starts[row] + 2 * level] if high else starts[row + 1] - at
            while skip < n:
                keys[taken] = items[at + skip]
                weights[taken] = step << level
                taken += 1
                skip += step
            skip -= n
            at += n
    sort_pairs(keys[:taken], weights[:taken])
    tiers = 0
    above = np.int64(0)
    limit = np.float64(first)  # as int64 it might wrap to 0, and never be above
    for i in range(taken - 1, -1, -1):
        above += weights[i]
        if above >= limit and tiers < found.shape[0]:
            found[tiers] = keys[i]
            tiers += 1
            while limit <= above:
                limit *= 1 << TIER_SHIFT  # an item that passes several begins one tier only
    return tiers


@kernel()
def _gather(rows, starts, items, level_starts, levels, height, thresholds, coins, sizes, out):
    """The items of rows level by level, not sorted.

    Tier j + 1 is what is below thresholds[j] and in no later tier; tier 0 is the top. Its items may
    go up to level (j + 1) x TIER_SHIFT: of each block of neighbours one is taken, with the weight
    of all. What fills no block stays where it is.

    Returns the number of levels; `sizes` is filled.
    """
    tiers = thresholds.shape[0]
    there = max(height, tiers * TIER_SHIFT + 1)
    counts = np.zeros((height, tiers + 1), np.int64)  # items of each level and tier, of all rows
    heights = 0
    for i in range(rows.shape[0]):
        heights += max((level_starts[rows[i] + 1] - level_starts[rows[i]]) // 2, 1)
    # A run is a level of a row. It is sorted, so that tier j is one stretch of it: items
    # cuts[run, j + 1] to cuts[run, j].
    cuts = np.empty((heights, tiers + 2), np.int64)
    run = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        at = starts[row]
        high = (level_starts[row + 1] - level_starts[row]) // 2
        for level in range(max(high, 1)):
            end = at + levels[level_starts[row] + 2 * level] if high else starts[row + 1]
            cuts[run, tiers + 1] = at
            for j in range(tiers, 0, -1):
                low = search(items, cuts[run, j + 1], end, thresholds[j - 1], False)
                cuts[run, j] = low
                counts[level, j] += low - cuts[run, j + 1]
            cuts[run, 0] = end
            counts[level, 0] += end - cuts[run, 1]
            run += 1
            at = end
    fill(sizes, 0)
    for level in range(height):
        for j in range(tiers + 1):
            shift = max(j * TIER_SHIFT - level, 0)
            blocks = counts[level, j] >> shift
            sizes[level + shift] += blocks
            sizes[level] += counts[level, j] - (blocks << shift)
    filled = np.zeros(there + 1, np.int64)  # the next free place of each level in `out`
    for level in range(there):
        filled[level + 1] = filled[level] + sizes[level]
    # Blocks go on from run to run, as if all items of a level and tier were one list. So many of
    # the list are in runs before this one; and which of the list is taken next.
    seen = np.zeros((height, tiers + 1), np.int64)
    picked = np.zeros((height, tiers + 1), np.int64)
    run = 0
    for i in range(rows.shape[0]):
        high = max((level_starts[rows[i] + 1] - level_starts[rows[i]]) // 2, 1)
        for level in range(high):
            for j in range(tiers + 1):
                first = cuts[run, j + 1]
                end = cuts[run, j]
                shift = max(j * TIER_SHIFT - level, 0)
                before = seen[level, j]
                seen[level, j] += end - first
                if shift:
                    whole = counts[level, j] >> shift << shift  # of the list, in full blocks
                    mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
                    put = filled[level + shift]
                    pick = picked[level, j]
                    if before == 0 and end > first:
                        pick = np.int64(draw(coins) & mask)
                    while pick < whole and pick < seen[level, j]:
                        out[put] = items[first + pick - before]
                        put += 1
                        pick = (((pick >> shift) + 1) << shift) + np.int64(draw(coins) & mask)
                    picked[level, j] = pick
                    filled[level + shift] = put
                    # What is left of this run is behind the last full block.
                    first = max(first, min(end, first + whole - before))
                copy_to(out[filled[level] :], items[first:end])
                filled[level] += end - first
            run += 1
    return there


@kernel()
def merge_compactors(rows, starts, items, level_starts, levels, k, seed, turns, sizes, out):
    """The sketches of rows as one, in front of `out`; returns its levels and items. `turns`,
    `sizes` (int64[LEVELS_MAX + 2]): filled."""
    total = 0
    cut_runs = 0  # by a rank: two levels of a sketch have items on both sides of it
    for row in rows:
        total += starts[row + 1] - starts[row]
        if starts[row + 1] > starts[row]:
            cut_runs += 1 if level_starts[row + 1] == level_starts[row] else 2
    thresholds = np.empty(60 // TIER_SHIFT, np.int64)
    height = _unite_turns(rows, level_starts, levels, turns)
    tiers = 0
    if total > SORTED_MAX:
        # What a tier's blocks add to the variance of a rank is MERGE_SHARE of its own: of each
        # sorted run, at most two blocks of a tier are cut by that rank.
        first = k * np.sqrt(cut_runs / (3 * MERGE_SHARE)) / DEVIATION
        tiers = _thresholds(
            rows, starts, items, level_starts, levels, total,
            np.int64(first) << TIER_SHIFT, thresholds,
        )  # fmt: skip
    # Coins of what is merged, so that the same parts give the same bytes.
    coins = coins_of(items[starts[rows[0]] : starts[rows[0] + 1]], seed)
    last = coins_of(items[starts[rows[-1]] : starts[rows[-1] + 1]], seed)
    coins[SEED] ^= last[SEED] * MIX_1
    flat, united = np.empty(total, np.int64), np.empty(LEVELS_MAX + 2, np.int64)
    height = _gather(
        rows, starts, items, level_starts, levels, height, thresholds[:tiers], coins, united, flat
    )
    total = 0  # fewer than before: of each block one was taken
    for level in range(height):
        sort_keys(flat[total : total + united[level]])
        total += united[level]
    nothing = flat[:0]
    return compact_stack(
        nothing, nothing, flat[:total], united[:height], turns, k, coins, out, sizes
    )
