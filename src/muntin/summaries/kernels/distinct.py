"""Hot loops of HyperLogLog: MurmurHash3 over Arrow buffers, straight into the registers.

Source of the hash: A. Appleby, MurmurHash3_x64_128 (public domain). Hash, seed and the way from
hash to register are those of Apache DataSketches, so that registers are comparable with its own:
the low bits of the first word are the slot, the leading zeros of the second, plus one, the value.
Checked in tests against the `datasketches` package.
"""

from __future__ import annotations

import numpy as np
from numba import types

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.memory import load_u64

C1 = np.uint64(0x87C37B91114253D5)
C2 = np.uint64(0x4CF5AD432745937F)
SEED = np.uint64(9001)  # DataSketches' default update seed
VALUE_MAX = 63
_33 = np.uint64(33)
_64 = np.uint64(64)


@inlined()
def _rotate(value, bits):
    return (value << np.uint64(bits)) | (value >> (_64 - np.uint64(bits)))


@inlined()
def _final(h):
    h ^= h >> _33
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> _33
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> _33)


@inlined()
def _first(word):
    return _rotate(word * C1, 31) * C2


@inlined()
def _second(word):
    return _rotate(word * C2, 33) * C1


@inlined()
def _note(registers, h1, h2, length):
    """End the hash, and raise the register of its slot to its value."""
    h1 ^= np.uint64(length)
    h2 ^= np.uint64(length)
    h1 += h2
    h2 += h1
    h1 = _final(h1)
    h2 = _final(h2)
    h1 += h2
    h2 += h1
    value = np.uint8(1)
    while value < VALUE_MAX and h2 < np.uint64(0x8000000000000000):
        h2 <<= np.uint64(1)
        value += np.uint8(1)
    slot = types.intp(h1 & np.uint64(registers.shape[0] - 1))
    if registers[slot] < value:
        registers[slot] = value


@inlined()
def _part(data, at, size):
    """The next `size` bytes (0 to 8) as one little-endian word."""
    if size == 8:
        return load_u64(data, at)
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@kernel()
def add_texts(registers, data, offsets):
    """Note each text; registers uint8[2**lg_k]."""
    for i in range(offsets.shape[0] - 1):
        at = types.intp(offsets[i])
        end = types.intp(offsets[i + 1])
        length = end - at
        h1 = SEED
        h2 = SEED
        while at + 16 <= end:
            h1 ^= _first(load_u64(data, at))
            h1 = (_rotate(h1, 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
            h2 ^= _second(load_u64(data, at + 8))
            h2 = (_rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
            at += 16
        if at + 8 < end:
            h2 ^= _second(_part(data, at + 8, end - at - 8))
            h1 ^= _first(load_u64(data, at))
        elif at < end:
            h1 ^= _first(_part(data, at, end - at))
        _note(registers, h1, h2, length)


@kernel()
def add_integers(registers, bits):
    """Note each integer, as its eight little-endian bytes."""
    for i in range(bits.shape[0]):
        _note(registers, SEED ^ _first(np.uint64(bits[i])), SEED, 8)
