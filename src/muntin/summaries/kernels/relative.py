"""Relative compactors: levels that keep the more of their items the nearer these are to the top.

Level h, of weight 2^h, is a sorted list. Its upper half is never compacted, and of its lower half
the sections nearer the top the more rarely: section j from below once in 2^j times. What a rank
can be off by is then a share of what is above it.

Source: Cormode, Karnin, Liberty, Thaler, Vesely, "Relative Error Streaming Quantiles" (PODS 2021,
arXiv:2004.01668); sections that shrink and double, and schedules that are united by OR, are Apache
DataSketches' REQ.
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.bits import trailing_zeros
from muntin.summaries.kernels.compaction import draw, merge_runs
from muntin.summaries.kernels.copying import copy_to

SECTIONS = 3  # of a level that was not compacted yet
SECTION_MIN = 4  # items
EXACT_IN_K = 16  # a sketch of so many values, in units of k, holds them all
DEVIATION = 0.13  # of a rank, in shares of what is above it, times k


@kernel()
def sections_of(k, compactions):
    """Number and size of the sections of a level's lower half, after so many compactions.

    Once the schedule has come to the last section, there are twice as many, each smaller by the
    root of 2.
    """
    number = SECTIONS
    raw = np.float64(k)
    size = k
    while number < 48 and compactions >= np.int64(1) << (number - 1):
        raw /= np.sqrt(2.0)
        smaller = 2 * np.int64(np.round(raw / 2))
        if smaller < SECTION_MIN:
            break
        number *= 2
        size = smaller
    return number, size


@kernel()
def compact_stack(
    a, a_sizes, b, b_sizes, turns, k, coins, out, out_sizes
):  # fmt: skip
    """Unite two stacks of sorted levels, and compact the levels that are full.

    `a`, `a_sizes`, `b`, `b_sizes`: items, level by level, and how many each level has.
    `turns` (int64[LEVELS_MAX]): of each level: 4 x compactions + 2 x the last coin + whether its
      opposite is still to come. Advanced in place.
    `out`, `out_sizes` (int64[len(a) + len(b)], int64[LEVELS_MAX]).
    Returns levels and items.
    """
    height = max(a_sizes.shape[0], b_sizes.shape[0])
    count = a.shape[0] + b.shape[0]
    carry = np.empty(count // 2 + 1, np.int64)
    half_way = np.empty(count, np.int64)
    level_items = np.empty(count, np.int64)
    carried = 0
    filled = 0
    a_at = b_at = 0
    level = 0
    while level < height:
        a_to = a_at + (a_sizes[level] if level < a_sizes.shape[0] else 0)
        b_to = b_at + (b_sizes[level] if level < b_sizes.shape[0] else 0)
        n = merge_runs(a, None, a_at, a_to, carry, None, 0, carried, half_way, None)
        n = merge_runs(half_way, None, 0, n, b, None, b_at, b_to, level_items, None)
        a_at, b_at = a_to, b_to
        before = turns[level] >> 2
        number, size = sections_of(k, before)
        carried = 0
        if n >= 2 * number * size:
            # Of the lower half as many sections go as `before` has trailing ones, and one more: so
            # section j from below goes once in 2^j times. All others stay, and the upper half.
            ones = np.int64(trailing_zeros(~np.uint64(before)))
            kept = number * size + (number - min(ones + 1, number)) * size
            carried = (n - kept) >> 1
            # A second coin is the opposite of the first: their errors cancel rather than add up.
            coin = np.int64(draw(coins) >> np.uint64(63))
            pending = turns[level] & 1
            if pending:
                coin = 1 - ((turns[level] >> 1) & 1)
            turns[level] = ((before + 1) << 2) | (coin << 1) | (1 - pending)
            for i in range(carried):
                carry[i] = level_items[2 * i + coin]
            if level == height - 1:
                height += 1
        copy_to(out[filled:], level_items[2 * carried : n])
        out_sizes[level] = n - 2 * carried
        filled += out_sizes[level]
        level += 1
    return height, filled
