"""Doubles as int64 keys of the same order, so that every kernel compares plain integers.

The bits of a double, with the lower 63 flipped where it is negative, are ordered as the doubles
are; -0.0 becomes 0.0. A NaN lies beyond the key of +inf or -inf, so smallest and largest key show
whether there is one, and one vectorised pass finds minimum, maximum and NaN together.
"""

import numpy as np

from muntin.summaries.kernels import bare, inlined, kernel

LOW_63 = np.int64(0x7FFF_FFFF_FFFF_FFFF)
KEY_OF_INFINITY = 0x7FF0_0000_0000_0000
KEY_OF_MINUS_INFINITY = -0x7FF0_0000_0000_0001
KEY_OF_MINUS_ZERO = np.int64(-1)


@inlined()
def key_of(bits):
    return bits ^ ((bits >> np.int64(63)) & LOW_63)


@kernel()
def extremes(bits, of_doubles):
    """Smallest and largest key of `bits` (int64[n], n > 0): doubles' bits, or integers."""
    low = LOW_63
    high = ~LOW_63
    if of_doubles:
        for i in range(bits.shape[0]):
            key = key_of(bits[i])
            low = min(low, key)
            high = max(high, key)
    else:
        for i in range(bits.shape[0]):
            low = min(low, bits[i])
            high = max(high, bits[i])
    return low, high


@kernel()
def keys_of_doubles(bits, out):
    """`out[i]` = key of the double with these bits."""
    for i in range(bits.shape[0]):
        key = key_of(bits[i])
        out[i] = np.int64(0) if key == KEY_OF_MINUS_ZERO else key


@bare()
def bits_of_keys(keys, out):
    """The bits of the doubles that keys stand for: the inverse of `keys_of_doubles`."""
    for i in range(keys.shape[0]):
        out[i] = key_of(keys[i])
