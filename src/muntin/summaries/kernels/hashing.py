"""XXH64, the one hash function, over Arrow buffers and integers.

Source: Y. Collet, xxHash specification 0.1.1, XXH64. Checked in tests against the `xxhash` package.
An integer is hashed as its eight little-endian bytes, a string as its UTF-8 bytes.
"""

import numpy as np
from numba import types

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.memory import load_u32, load_u64

PRIME_1 = np.uint64(0x9E3779B185EBCA87)
PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
PRIME_3 = np.uint64(0x165667B19E3779F9)
PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_32 = np.uint64(32)
_33 = np.uint64(33)
_29 = np.uint64(29)
_64 = np.uint64(64)
BLOCK = 256  # strings hashed side by side


@inlined()
def rotate(value, bits):
    return (value << np.uint64(bits)) | (value >> (_64 - np.uint64(bits)))


@inlined()
def _round(accumulator, lane):
    return rotate(accumulator + lane * PRIME_2, 31) * PRIME_1


@inlined()
def _merge_round(accumulator, lane):
    return (accumulator ^ _round(np.uint64(0), lane)) * PRIME_1 + PRIME_4


@inlined()
def _avalanche(h):
    h ^= h >> _33
    h *= PRIME_2
    h ^= h >> _29
    h *= PRIME_3
    h ^= h >> _32
    return h


@inlined()
def _stripes(data, at, end, seed):
    """Of at least 32 bytes, those in whole stripes."""
    v1 = seed + PRIME_1 + PRIME_2
    v2 = seed + PRIME_2
    v3 = seed
    v4 = seed - PRIME_1
    while at + 32 <= end:
        v1 = _round(v1, load_u64(data, at))
        v2 = _round(v2, load_u64(data, at + 8))
        v3 = _round(v3, load_u64(data, at + 16))
        v4 = _round(v4, load_u64(data, at + 24))
        at += 32
    h = rotate(v1, 1) + rotate(v2, 7) + rotate(v3, 12) + rotate(v4, 18)
    h = _merge_round(h, v1)
    h = _merge_round(h, v2)
    h = _merge_round(h, v3)
    return _merge_round(h, v4)


@inlined()
def _eight(h, word):
    return rotate(h ^ _round(np.uint64(0), word), 27) * PRIME_1 + PRIME_4


@inlined()
def _four(h, word):
    return rotate(h ^ (word * PRIME_1), 23) * PRIME_2 + PRIME_3


@inlined()
def _one(h, byte):
    return rotate(h ^ (byte * PRIME_5), 11) * PRIME_1


@inlined()
def hash_bytes(data, start, end, seed):
    """XXH64 of `data[start:end]` (uint8 array); the range must lie inside the array."""
    seed = np.uint64(seed)
    at = start
    length = end - start
    h = seed + PRIME_5
    if length >= 32:
        h = _stripes(data, at, end, seed)
        at = end - (length & 31)
    h += np.uint64(length)
    while at + 8 <= end:
        h = _eight(h, load_u64(data, at))
        at += 8
    if at + 4 <= end:
        h = _four(h, np.uint64(load_u32(data, at)))
        at += 4
    while at < end:
        h = _one(h, np.uint64(data[np.uint64(at)]))
        at += 1
    return _avalanche(h)


@inlined()
def hash_u64(value, seed):
    """XXH64 of an integer's eight little-endian bytes."""
    h = np.uint64(seed) + PRIME_5 + np.uint64(8)
    return _avalanche(_eight(h, np.uint64(value)))


@kernel()
def hash_integers(values, seed, out):
    """`out[i] = XXH64(values[i])`; values int64 or uint64."""
    for i in range(values.shape[0]):
        out[i] = hash_u64(values[i], seed)


@inlined()
def _hash_block(data, offsets, seed, out, left, words):
    """`hash_strings` of a block, whose data goes on for 32 bytes more: each step of all strings
    at once, which the processor does for several; a string that is too short keeps what it has.

    left: uint64[n], bytes of each string behind its stripes. words: uint64[n], what a step reads.
    """
    longest = some = np.uint64(0)
    for i in range(out.shape[0]):
        left[i] = np.uint64(types.intp(offsets[i + 1]) - types.intp(offsets[i]))
        out[i] = seed + PRIME_5 + left[i]
        longest = max(longest, left[i])
        some |= left[i]
    if longest >= np.uint64(32):
        longest = np.uint64(0)
        for i in range(out.shape[0]):
            if left[i] >= np.uint64(32):
                at, end = types.intp(offsets[i]), types.intp(offsets[i + 1])
                out[i] = _stripes(data, at, end, seed) + left[i]
                left[i] &= np.uint64(31)
            longest = max(longest, left[i])
    for step in range(0, types.intp(longest) - 7, 8):
        for i in range(out.shape[0]):
            words[i] = load_u64(data, types.intp(offsets[i + 1]) - types.intp(left[i]) + step)
        for i in range(out.shape[0]):
            h = _eight(out[i], words[i])
            out[i] = h if left[i] >= np.uint64(step + 8) else out[i]
    if some & np.uint64(7):
        for i in range(out.shape[0]):
            rest = types.intp(left[i] & np.uint64(7))
            words[i] = load_u64(data, types.intp(offsets[i + 1]) - rest)
    if some & np.uint64(4):
        for i in range(out.shape[0]):
            four = left[i] & np.uint64(4)
            h = _four(out[i], words[i] & np.uint64(0xFFFFFFFF))
            out[i] = h if four else out[i]
            words[i] >>= four << np.uint64(3)
    if some & np.uint64(3):
        for i in range(out.shape[0]):
            few = left[i] & np.uint64(3)
            for step in range(3):
                h = _one(out[i], (words[i] >> np.uint64(8 * step)) & np.uint64(0xFF))
                out[i] = h if few > np.uint64(step) else out[i]
    for i in range(out.shape[0]):
        out[i] = _avalanche(out[i])


@kernel()
def hash_strings(data, offsets, seed, out):
    """`out[i] = XXH64(data[offsets[i]:offsets[i + 1]])`; data uint8, offsets int32 or int64."""
    left, words = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    for start in range(0, out.shape[0], BLOCK):
        some, ends = out[start : start + BLOCK], offsets[start : start + BLOCK + 1]
        if types.intp(ends[some.shape[0]]) + 32 <= data.shape[0]:
            _hash_block(data, ends, seed, some, left, words)
            continue
        for i in range(some.shape[0]):
            some[i] = hash_bytes(data, types.intp(ends[i]), types.intp(ends[i + 1]), seed)
