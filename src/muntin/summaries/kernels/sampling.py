"""The sampler in front of KLL, and of a merge of many stacks: one item of each block of 2^shift,
chosen uniformly.

Source: Karnin, Lang, Liberty (FOCS 2016), section 4.
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.bits import leading_zeros
from muntin.summaries.kernels.compaction import draw
from muntin.summaries.kernels.order_keys import KEY_OF_MINUS_ZERO, key_of

BLOCK_SHIFT_MAX = 20
SORTED_ITEMS = 32  # in units of k: a merge of fewer items sorts them all
VARIANCE_SHARE = 0.1  # of KLL's own, 0.25 / k^2, that a merge's sampling may add


@kernel()
def shift_of(blocks, halves):
    """Logarithm of the size of blocks that add so much variance."""
    whole = np.uint64(min(blocks, 1e18))  # a float beyond int64 is no certain integer
    bits = 64 - np.int64(leading_zeros(whole))
    return min(max(bits - 1, 0) // halves, BLOCK_SHIFT_MAX)


@kernel()
def sample_blocks(bits, of_doubles, shift, coins, out, offsets):
    """Keys of the samples of consecutive blocks, as the levels of a stack.

    `bits` (int64[n]): doubles' bits, or integers.
    `shift`: blocks of 2^shift items go to level `shift`. The rest, fewer than 2^shift items, is cut
      into blocks of the powers of two that it is made of, so that weights add up to n exactly.
    `out` (int64[n >> shift + shift]).
    `offsets` (int64[shift + 2]): filled with the levels' offsets in `out`. The last level is not
      sorted.
    """
    n = bits.shape[0]
    whole = n >> shift
    at = whole << shift
    filled = 0
    for level in range(shift):
        offsets[level] = filled
        if (n >> level) & 1:
            mask = (np.uint64(1) << np.uint64(level)) - np.uint64(1)
            out[filled] = bits[at + np.int64(draw(coins) & mask)]
            filled += 1
            at += 1 << level
    offsets[shift] = filled
    mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    for block in range(whole):
        out[filled] = bits[(block << shift) + np.int64(draw(coins) & mask)]
        filled += 1
    offsets[shift + 1] = filled
    if of_doubles:
        for i in range(filled):
            key = key_of(out[i])
            out[i] = np.int64(0) if key == KEY_OF_MINUS_ZERO else key
    return filled


@kernel()
def shift_of_merge(edges, heights, k):
    """Level below which a merge of stacks samples items in blocks; 0 where it need not.

    Blocks are of neighbours in a run, which is a level of a stack that holds any, so that only one
    of each run matters to a rank: it errs by (2^shift)^2 / 6 in variance.
    """
    items = runs = weight = at = 0
    for height in heights:
        for level in range(height):
            size = edges[at + level + 1] - edges[at + level]
            items += size
            runs += size > 0
            weight += size << level
        at += height + 1
    if items <= SORTED_ITEMS * k:
        return 0
    share = weight / np.float64(k)
    return shift_of(6 * VARIANCE_SHARE * 0.25 * share * share / runs, 2)


@kernel()
def gather_levels(flat, edges, heights, shift, coins, out, offsets):
    """Items of many stacks, level by level, not sorted.

    `flat` (int64[n]): the items of all stacks, one stack after the other, each from its level 0 on.
    `edges`, `heights` (int64[sum(heights + 1)], int64[stacks]): where the levels of each stack
      begin and end, up to a constant of the stack; how many levels it has.
    `shift`: a level below it gives one item of each 2^(shift - level) neighbours to level `shift`.
      What is left over is cut into blocks of powers of two, so that weights add up exactly.
    `out` (int64[n]).
    `offsets` (int64[levels + 1]): filled with the levels' offsets in `out`; at least heights.max()
      and shift + 1 levels.
    """
    stacks = heights.shape[0]
    levels = offsets.shape[0] - 1
    sizes = np.zeros(levels, np.int64)  # of each level, before
    counts = np.zeros(levels, np.int64)  # after
    at = 0
    for i in range(stacks):
        for level in range(heights[i]):
            sizes[level] += edges[at + level + 1] - edges[at + level]
        at += heights[i] + 1
    for level in range(levels):
        blocks = shift - level
        if blocks <= 0 or sizes[level] >> blocks == 0:
            counts[level] += sizes[level]
        else:
            counts[shift] += sizes[level] >> blocks
            for bit in range(blocks):  # what is left over, as the powers of two that it is made of
                counts[level + bit] += (sizes[level] >> bit) & 1
    offsets[0] = 0
    for level in range(levels):
        offsets[level + 1] = offsets[level] + counts[level]
    filled = offsets[:levels].copy()
    for level in range(levels):
        target = level
        if shift > level and sizes[level] >> (shift - level):
            target = shift
        size = 1 << (target - level)
        stack = -1
        at = start = 0  # of the next stack, in edges and in flat
        first = before = until = 0  # this stack's items of the level: in flat, and all in a row
        block = 0
        while block < sizes[level]:  # blocks go on from stack to stack, as if this were one list
            while block + size > sizes[level]:
                size >>= 1
                target -= 1
            picked = block
            if size > 1:
                picked += np.int64(draw(coins) & np.uint64(size - 1))
            while picked >= until:
                stack += 1
                before = until
                if level < heights[stack]:
                    first = start + edges[at + level] - edges[at]
                    until += edges[at + level + 1] - edges[at + level]
                start += edges[at + heights[stack]] - edges[at]
                at += heights[stack] + 1
            out[filled[target]] = flat[first + picked - before]
            filled[target] += 1
            block += size
