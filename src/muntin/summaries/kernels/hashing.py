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
        h ^= _round(np.uint64(0), load_u64(data, at))
        h = rotate(h, 27) * PRIME_1 + PRIME_4
        at += 8
    if at + 4 <= end:
        h ^= np.uint64(load_u32(data, at)) * PRIME_1
        h = rotate(h, 23) * PRIME_2 + PRIME_3
        at += 4
    while at < end:
        h ^= np.uint64(data[np.uint64(at)]) * PRIME_5
        h = rotate(h, 11) * PRIME_1
        at += 1
    return _avalanche(h)


@inlined()
def hash_u64(value, seed):
    """XXH64 of an integer's eight little-endian bytes."""
    h = np.uint64(seed) + PRIME_5 + np.uint64(8)
    h ^= _round(np.uint64(0), np.uint64(value))
    h = rotate(h, 27) * PRIME_1 + PRIME_4
    return _avalanche(h)


@kernel()
def hash_integers(values, seed, out):
    """`out[i] = XXH64(values[i])`; values int64 or uint64."""
    for i in range(values.shape[0]):
        out[i] = hash_u64(values[i], seed)


@kernel()
def hash_strings(data, offsets, seed, out):
    """`out[i] = XXH64(data[offsets[i]:offsets[i + 1]])`; data uint8, offsets int32 or int64."""
    for i in range(out.shape[0]):
        out[i] = hash_bytes(data, types.intp(offsets[i]), types.intp(offsets[i + 1]), seed)
