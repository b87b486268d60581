"""Bloom filters' hot loops: split blocks (one cache line a key) and the textbook's."""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.bits import multiply_high
from muntin.summaries.kernels.memory import prefetch

# The salts of Apache Parquet's split-block filter, one per 32-bit lane.
SALTS = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    np.uint32,
)
_AHEAD = 12
_1 = np.uint64(1)
_6 = np.uint64(6)
_32 = np.uint64(32)
_63 = np.uint64(63)


@inlined()
def _block(value, blocks):
    return np.intp(((value >> _32) * np.uint64(blocks)) >> _32) * 8


@inlined()
def _bit(value, lane):
    return np.uint32(1) << np.uint32(np.uint32(np.uint32(value) * SALTS[lane]) >> np.uint32(27))


@kernel()
def split_contains(hashes, words, out):
    """`out[i] |=` whether all eight bits of `hashes[i]` are set; words uint32[8 * blocks]."""
    blocks = words.shape[0] // 8
    total = hashes.shape[0]
    for i in range(min(_AHEAD, total)):
        prefetch(words, _block(hashes[i], blocks))
    for i in range(total):
        if i + _AHEAD < total:
            prefetch(words, _block(hashes[i + _AHEAD], blocks))
        at = _block(hashes[i], blocks)
        missing = np.uint32(0)
        for lane in range(8):
            missing |= _bit(hashes[i], lane) & ~words[at + lane]
        out[i] |= missing == np.uint32(0)


@kernel()
def split_add(hashes, words, room):
    """Set the eight bits of each hash until `room` hashes set one that was not set.

    How many hashes were taken, and how many of them set a bit.
    """
    blocks = words.shape[0] // 8
    total = hashes.shape[0]
    fresh = 0
    taken = 0
    while taken < total and fresh < room:
        if taken + _AHEAD < total:
            prefetch(words, _block(hashes[taken + _AHEAD], blocks))
        at = _block(hashes[taken], blocks)
        missing = np.uint32(0)
        for lane in range(8):
            bit = _bit(hashes[taken], lane)
            missing |= bit & ~words[at + lane]
            words[at + lane] |= bit
        fresh += missing != np.uint32(0)
        taken += 1
    return taken, fresh


@inlined()
def _step(value):
    return ((value << _32) | (value >> _32)) | _1


@kernel()
def standard_contains(hashes, words, bits, probes, out):
    """The textbook's filter: `probes` bits anywhere in uint64 `words`."""
    for i in range(hashes.shape[0]):
        value = np.uint64(hashes[i])
        step = _step(value)
        found = True
        for _ in range(probes):
            bit = multiply_high(value, np.uint64(bits))
            if (words[bit >> _6] >> (bit & _63)) & _1 == np.uint64(0):
                found = False
                break
            value += step
        out[i] |= found


@kernel()
def standard_add(hashes, words, bits, probes):
    for i in range(hashes.shape[0]):
        value = np.uint64(hashes[i])
        step = _step(value)
        for _ in range(probes):
            bit = multiply_high(value, np.uint64(bits))
            words[bit >> _6] |= _1 << (bit & _63)
            value += step
