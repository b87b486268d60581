"""KLL's one step: put sorted runs into the levels, and halve the levels that are too full.

A stack of levels is a flat array of int64 keys and offsets: level h, of weight 2^h, holds
`keys[offsets[h]:offsets[h + 1]]`, sorted. Items may carry a stamp (int64) along; a stack without
stamps passes None, for which Numba compiles a version of its own.

Source: Karnin, Lang, Liberty, "Optimal Quantile Approximation in Streams" (FOCS 2016); the lazy
order of compactions is that of Apache DataSketches. Coins come in pairs: a level's second coin is
the opposite of its first. A pair's errors then cancel instead of adding up, so its variance is
never above that of two free coins (Ivkin et al., "Streaming Quantiles Algorithms with Small Space
and Update Time", 2019), and every single coin is still fair.
"""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.copying import copy_to

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
LEVELS_MAX = 61  # as DataSketches; the count stays below 2^60
HASHED_MAX = 1 << 12  # items that decide the coins

# The four words of a stack's coins (uint64): where randomness comes from and where it stands.
SEED, DRAWS, LAST, PAIRED = 0, 1, 2, 3


@kernel()
def coins_of(items, seed):
    """Coins that depend on the items and their order: all of them, or where they are many some."""
    n = items.shape[0]
    h = np.uint64(n) * GOLDEN
    step = n // HASHED_MAX + 1
    for i in range(0, n, step):
        h = (h ^ np.uint64(items[i])) * MIX_1
        h ^= h >> np.uint64(29)
    coins = np.zeros(4, np.uint64)
    coins[SEED] = h ^ seed
    return coins


@inlined()
def splitmix(z):
    """SplitMix64's finaliser."""
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


@inlined()
def draw(coins):
    """The next 64 random bits: splitmix64 of the seed and the number of draws."""
    coins[DRAWS] += np.uint64(1)
    return splitmix(coins[SEED] + coins[DRAWS] * GOLDEN)


@kernel()
def toss(coins, level):
    """Level's next coin, 0 or 1. Bit `level` of PAIRED: the last one waits for its opposite; of
    LAST: what it was."""
    bit = np.uint64(1) << np.uint64(level)
    if coins[PAIRED] & bit:
        coins[PAIRED] ^= bit
        return 0 if coins[LAST] & bit else 1
    coins[PAIRED] |= bit
    if draw(coins) >> np.uint64(63):
        coins[LAST] |= bit
        return 1
    coins[LAST] &= ~bit
    return 0


@kernel()
def merge_runs(x, x_carried, x_from, x_to, y, y_carried, y_from, y_to, out, out_carried):
    """Merge two sorted runs, and what their items carry (or None); returns how many there are."""
    n = 0
    i = x_from
    j = y_from
    while i < x_to and j < y_to:
        second = y[j] < x[i]  # no branch that depends on the keys: nobody could foresee it
        out[n] = y[j] if second else x[i]
        if x_carried is not None:
            out_carried[n] = y_carried[j] if second else x_carried[i]
        i += not second
        j += second
        n += 1
    copy_to(out[n:], x[i:x_to])
    copy_to(out[n + x_to - i :], y[j:y_to])
    if x_carried is not None:
        copy_to(out_carried[n:], x_carried[i:x_to])
        copy_to(out_carried[n + x_to - i :], y_carried[j:y_to])
    return n + x_to - i + y_to - j


@kernel()
def absorb(
    a, a_stamps, a_offsets, b, b_stamps, b_offsets, caps, spare, thrifty_depth, coins,
    out, out_stamps, out_offsets,
):  # fmt: skip
    """Unite stacks a and b (all levels sorted) and compact while they hold too much.

    `caps` (int64[LEVELS_MAX + 1]): capacity of a level by its distance from the top.
    `spare`: how much below its capacity the whole is brought once it has to be compacted.
    `thrifty_depth`: levels at most so far below the top are halved only as far as they have to be.
    `coins` (uint64[4]): advanced in place.
    `out`, `out_stamps` (int64[len(a) + len(b)]): the items that remain, levels from 0 upwards.
    `out_offsets` (int64[LEVELS_MAX + 2]).

    Returns the number of levels. A level is compacted only while the whole is at or above its
    capacity, so that small levels lend their space to others. A thrifty compaction halves no more
    pairs than it has to, spread evenly; a rank changes only by the one pair that it cuts, so a pair
    costs the same wherever it is.
    """
    a_height = a_offsets.shape[0] - 1
    b_height = b_offsets.shape[0] - 1
    height = max(a_height, b_height)
    count = (a_offsets[a_height] - a_offsets[0]) + (b_offsets[b_height] - b_offsets[0])
    target = 0  # what all levels hold together before any is compacted; grows with the height
    for depth in range(height):
        target += caps[depth]
    carry = np.empty(count // 2 + 1, np.int64)  # what comes up from the level below
    half_way = np.empty(count, np.int64)
    level_items = np.empty(count, np.int64)
    if a_stamps is not None:
        carry_stamps = np.empty(count // 2 + 1, np.int64)
        half_way_stamps = np.empty(count, np.int64)
        level_stamps = np.empty(count, np.int64)
    else:
        carry_stamps = None
        half_way_stamps = None
        level_stamps = None
    carried = 0
    filled = 0
    level = 0
    out_offsets[0] = 0
    while level < height:
        a_from = a_to = b_from = b_to = 0
        if level < a_height:
            a_from, a_to = a_offsets[level], a_offsets[level + 1]
        if level < b_height:
            b_from, b_to = b_offsets[level], b_offsets[level + 1]
        n = merge_runs(
            a, a_stamps, a_from, a_to, carry, carry_stamps, 0, carried, half_way, half_way_stamps
        )
        n = merge_runs(
            half_way, half_way_stamps, 0, n, b, b_stamps, b_from, b_to, level_items, level_stamps
        )
        if count < target or n < caps[height - 1 - level]:
            copy_to(out[filled:], level_items[:n])
            if a_stamps is not None:
                copy_to(out_stamps[filled:], level_stamps[:n])
            filled += n
            carried = 0
        else:
            if level == height - 1:  # what is carried becomes a new top
                target += caps[height]
                height += 1
            odd = n & 1
            if odd:  # it keeps its exact weight, here
                out[filled] = level_items[0]
                if a_stamps is not None:
                    out_stamps[filled] = level_stamps[0]
                filled += 1
            pairs = n // 2
            carried = pairs
            if height - 1 - level <= thrifty_depth:
                carried = min(pairs, max(1, count - target + spare))
            count -= carried
            coin = toss(coins, level)
            if carried == pairs:
                for i in range(pairs):
                    carry[i] = level_items[odd + coin + 2 * i]
                    if a_stamps is not None:
                        carry_stamps[i] = level_stamps[odd + coin + 2 * i]
            else:
                # As a line is drawn in pixels: `carried` is added for each pair, and at each wrap
                # at `pairs` one is halved. Where that begins is drawn.
                phase = np.int64(draw(coins) % np.uint64(pairs)) * carried % pairs
                taken = 0
                for i in range(pairs):
                    one = odd + 2 * i
                    if phase < carried:
                        carry[taken] = level_items[one + coin]
                        if a_stamps is not None:
                            carry_stamps[taken] = level_stamps[one + coin]
                        taken += 1
                    else:
                        out[filled] = level_items[one]
                        out[filled + 1] = level_items[one + 1]
                        if a_stamps is not None:
                            out_stamps[filled] = level_stamps[one]
                            out_stamps[filled + 1] = level_stamps[one + 1]
                        filled += 2
                    phase += carried
                    if phase >= pairs:
                        phase -= pairs
        level += 1
        out_offsets[level] = filled
    return height
