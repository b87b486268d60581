"""The sampler in front of KLL: one item of each block of 2^shift, chosen uniformly.

Source: Karnin, Lang, Liberty (FOCS 2016), section 4.
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.compaction import draw
from muntin.summaries.kernels.order_keys import KEY_OF_MINUS_ZERO, key_of

BLOCK_SHIFT_MAX = 20


@kernel()
def shift_of(blocks, halves):
    """Logarithm of the size of blocks that add so much variance."""
    bits = 0
    whole = np.int64(min(blocks, 1e18))  # a float beyond int64 is no certain integer
    while whole > 0:
        whole >>= 1
        bits += 1
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
