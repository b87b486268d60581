"""Sorted fingerprints, Elias-Fano coded, in two byte buffers: encode, decode, check, look up.

Fingerprint i is `high << low_bits | low`. Bit `i + high` of `upper` is one; a zero ends each
bucket of equal `high`. `lower` holds the low parts, packed. Both are uint8 and read with unaligned
loads: a run works in place on a mapped file. `starts[j]` (uint32) is where bucket `STRIDE * j`
begins in `upper`, so that a look-up nearly always finds its bucket in the first two words: half a
bit a key, which is not stored, as whoever reads a run goes through all of it to check it.
"""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.bits import multiply_high, popcount, select, trailing_zeros
from muntin.summaries.kernels.copying import copy_to
from muntin.summaries.kernels.memory import load_u64, prefetch

STRIDE = 64
_SHIFT = np.uint64(6)
_INSIDE = np.uint64(STRIDE - 1)
_0 = np.uint64(0)
_1 = np.uint64(1)
_3 = np.uint64(3)
_6 = np.uint64(6)
_7 = np.uint64(7)
_63 = np.uint64(63)
_64 = np.uint64(64)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOADED = np.uint64(57)  # bits from any bit on, by a load from its byte
_AHEAD = 16


@kernel()
def to_fingerprints(hashes, universe, out):
    """`out[i]` = hash scaled to [0, universe); the order of hashes is kept."""
    for i in range(hashes.shape[0]):
        out[i] = multiply_high(hashes[i], np.uint64(universe))


@kernel()
def encode(fingerprints, low_bits, upper, lower, starts):
    """Fill zeroed uint64 buffers `upper` and `lower`, and `starts`; fingerprints ascend."""
    low_bits = np.uint64(low_bits)
    mask = (_1 << low_bits) - _1
    next_start = 0
    for i in range(fingerprints.shape[0]):
        value = np.uint64(fingerprints[i])
        high = value >> low_bits
        while next_start < starts.shape[0] and np.uint64(next_start * STRIDE) <= high:
            starts[next_start] = np.uint32(i + next_start * STRIDE)
            next_start += 1
        at = np.uint64(i) + high
        upper[at >> _6] |= _1 << (at & _63)
        if low_bits > _0:
            bit = np.uint64(i) * low_bits
            word = bit >> _6
            shift = bit & _63
            low = value & mask
            lower[word] |= low << shift
            if shift + low_bits > _64:  # the rest of it goes to the next word
                lower[word + _1] |= low >> (_64 - shift)
    while next_start < starts.shape[0]:
        starts[next_start] = np.uint32(fingerprints.shape[0] + next_start * STRIDE)
        next_start += 1


@inlined()
def _low(lower, index, low_bits, mask):
    bit = np.uint64(index) * low_bits
    return (load_u64(lower, np.intp(bit >> _3)) >> (bit & _7)) & mask


@kernel()
def decode(upper, lower, count, low_bits, out):
    """The fingerprints of a checked run, ascending."""
    low_bits = np.uint64(low_bits)
    mask = (_1 << low_bits) - _1
    found = 0
    word_number = 0
    while found < count:
        word = load_u64(upper, np.intp(word_number * 8))
        while word != _0:
            at = np.uint64(word_number * 64) + trailing_zeros(word)
            out[found] = ((at - np.uint64(found)) << low_bits) | _low(lower, found, low_bits, mask)
            found += 1
            word &= word - _1
        word_number += 1


@kernel()
def is_sound(upper, lower, count, low_bits, buckets, universe, starts):
    """Whether buffers of the right lengths are what `encode` writes for some fingerprints. If so,
    `starts` is filled."""
    low_bits = np.uint64(low_bits)
    mask = (_1 << low_bits) - _1
    length = np.uint64(count) + np.uint64(buckets)
    found = 0
    previous = _0
    next_start = 0
    for word_number in range(upper.shape[0] // 8):
        word = load_u64(upper, np.intp(word_number * 8))
        while word != _0:
            at = np.uint64(word_number * 64) + trailing_zeros(word)
            if found >= count or at >= length:
                return False
            high = at - np.uint64(found)
            if high >= np.uint64(buckets):
                return False
            value = (high << low_bits) | _low(lower, found, low_bits, mask)
            if value >= np.uint64(universe) or (found > 0 and value <= previous):
                return False
            while next_start < starts.shape[0] and np.uint64(next_start * STRIDE) <= high:
                starts[next_start] = np.uint32(found + next_start * STRIDE)
                next_start += 1
            previous = value
            found += 1
            word &= word - _1
    if found != count:
        return False
    while next_start < starts.shape[0]:
        starts[next_start] = np.uint32(count + next_start * STRIDE)
        next_start += 1
    # What lies behind the last low part must be zero.
    used = np.uint64(count) * low_bits
    for byte in range(np.intp(used >> _3), lower.shape[0]):
        kept = _0
        if np.uint64(byte) == used >> _3:
            kept = (_1 << (used & _7)) - _1
        if np.uint64(lower[byte]) & ~kept != _0:
            return False
    return True


@kernel()
def contains(hashes, universe, upper, lower, starts, low_bits, out):
    """`out[i] |=` whether the fingerprint of `hashes[i]` is there. For a checked run."""
    low_bits = np.uint64(low_bits)
    universe = np.uint64(universe)
    mask = (_1 << low_bits) - _1
    fields = np.uint64(_LOADED // low_bits if low_bits > _0 else _0)  # low parts in one load
    ones = tops = _0  # the lowest and the highest bit of each
    for i in range(fields):
        ones |= _1 << (np.uint64(i) * low_bits)
        tops |= _1 << (np.uint64(i + 1) * low_bits - _1)
    last = np.uint64(upper.shape[0] - 8)
    total = hashes.shape[0]
    values = np.empty(_AHEAD, np.uint64)
    begins = np.empty(_AHEAD, np.uint64)
    for first in range(0, total, _AHEAD):
        width = min(_AHEAD, total - first)
        for j in range(width):
            values[j] = multiply_high(hashes[first + j], universe)
            prefetch(starts, np.intp((values[j] >> low_bits) >> _SHIFT))
        for j in range(width):
            block = (values[j] >> low_bits) >> _SHIFT
            begins[j] = np.uint64(starts[np.intp(block)])
            prefetch(upper, np.intp(begins[j] >> _3))
            index = begins[j] - block * np.uint64(STRIDE)
            prefetch(lower, np.intp((index * low_bits) >> _3))
        for j in range(width):
            high = values[j] >> low_bits
            at = begins[j]
            word_number = at >> _6
            skip = high & _INSIDE
            if skip > _0:  # each zero ends a bucket: ours is behind so many
                zeros = ~load_u64(upper, np.intp(word_number << _3)) & (_ALL << (at & _63))
                here = popcount(zeros)
                while here < skip:
                    skip -= here
                    word_number += _1
                    zeros = ~load_u64(upper, np.intp(word_number << _3))
                    here = popcount(zeros)
                at = word_number * _64 + select(zeros, skip - _1) + _1
            low = values[j] & mask
            index = at - high
            byte = min(at >> _3, last)  # a load of 8 bytes must not begin later
            shift = at - (byte << _3)
            size = trailing_zeros(~(load_u64(upper, np.intp(byte)) >> shift))
            if size <= fields:  # as nearly always, and then without a branch that is guessed
                # All low parts at once: one that is equal differs by 0. To take 1 from each field
                # sets a top bit only in a field of 0, or above one. Those above `size` are others'.
                bit = index * low_bits
                differ = (load_u64(lower, np.intp(bit >> _3)) >> (bit & _7)) ^ (low * ones)
                equal = (differ - ones) & ~differ & tops
                if equal & ((_1 << (size * low_bits)) - _1) != _0:
                    out[first + j] = True
                continue
            while (upper[at >> _3] >> (at & _7)) & _1:
                out[first + j] |= _low(lower, index, low_bits, mask) == low
                at += _1
                index += _1


@kernel()
def merge_sorted(left, right, out):
    """Union of two ascending arrays without repeats; how many were written."""
    i = 0
    j = 0
    written = 0
    while i < left.shape[0] and j < right.shape[0]:
        a = left[i]
        b = right[j]
        out[written] = min(a, b)
        written += 1
        i += a <= b
        j += b <= a
    copy_to(out[written:], left[i:])
    written += left.shape[0] - i
    copy_to(out[written:], right[j:])
    return written + right.shape[0] - j


@kernel()
def place(hashes, partitions, starts, out):
    """Copy `hashes` to `out`, partition by partition; partition p is out[starts[p]:starts[p + 1]].
    `starts` is int64[partitions + 1], zeroed. Order inside a partition is kept."""
    count = np.uint64(partitions)
    for i in range(hashes.shape[0]):
        starts[np.intp(multiply_high(hashes[i], count)) + 1] += 1
    for p in range(partitions):
        starts[p + 1] += starts[p]
    at = starts[:-1].copy()
    for i in range(hashes.shape[0]):
        p = np.intp(multiply_high(hashes[i], count))
        out[at[p]] = hashes[i]
        at[p] += 1


@kernel()
def spread(hashes, out):
    """A permutation of 64-bit numbers whose high bits depend on all bits of the hash.

    Filters scale a hash's high bits. Those of keys that were placed by hash range are alike: such
    filters would use a part of their cells only, and be wrong as many times more often.
    """
    for i in range(hashes.shape[0]):
        value = np.uint64(hashes[i])
        value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        out[i] = value ^ (value >> np.uint64(32))
