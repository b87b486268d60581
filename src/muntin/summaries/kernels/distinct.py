"""Hot loops of HyperLogLog: MurmurHash3 over Arrow buffers, straight into the registers.

Source of the hash: A. Appleby, MurmurHash3_x64_128 (public domain). Hash, seed and the way from
hash to register are those of Apache DataSketches, so that registers are comparable with its own:
the low bits of the first word are the slot, the leading zeros of the second, plus one, the value.
Checked in tests against the `datasketches` package.
"""

import math

import numpy as np
from numba import types

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.bits import leading_zeros
from muntin.summaries.kernels.hashing import rotate
from muntin.summaries.kernels.memory import load_u64

C1 = np.uint64(0x87C37B91114253D5)
C2 = np.uint64(0x4CF5AD432745937F)
SEED = np.uint64(9001)  # DataSketches' default update seed
VALUE_MAX = 63  # of the six bits that DataSketches has for it
_33 = np.uint64(33)


@inlined()
def _final(h):
    h ^= h >> _33
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> _33
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> _33)


@inlined()
def _first(word):
    return rotate(word * C1, 31) * C2


@inlined()
def _second(word):
    return rotate(word * C2, 33) * C1


@inlined()
def slot_and_value(h1, h2, length, registers):
    """Of a hash that is ended here: the register's number, and what it is raised to."""
    h1 ^= np.uint64(length)
    h2 ^= np.uint64(length)
    h1 += h2
    h2 += h1
    h1 = _final(h1)
    h2 = _final(h2)
    h1 += h2
    h2 += h1
    value = min(leading_zeros(h2) + np.uint64(1), np.uint64(VALUE_MAX))
    return types.intp(h1 & np.uint64(registers - 1)), np.uint8(value)


@inlined()
def _part(data, at, size):
    """The next `size` bytes (0 to 8) as one little-endian word."""
    if size == 8:
        return load_u64(data, at)
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@inlined()
def of_text(data, at, end, registers):
    """`slot_and_value` of the text data[at:end]."""
    length = end - at
    h1 = SEED
    h2 = SEED
    while at + 16 <= end:
        h1 ^= _first(load_u64(data, at))
        h1 = (rotate(h1, 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
        h2 ^= _second(load_u64(data, at + 8))
        h2 = (rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
        at += 16
    if at + 8 < end:
        h2 ^= _second(_part(data, at + 8, end - at - 8))
        h1 ^= _first(load_u64(data, at))
    elif at < end:
        h1 ^= _first(_part(data, at, end - at))
    return slot_and_value(h1, h2, length, registers)


@inlined()
def of_integer(bits, registers):
    """`slot_and_value` of an integer, as its eight little-endian bytes."""
    return slot_and_value(SEED ^ _first(np.uint64(bits)), SEED, 8, registers)


@kernel()
def add_texts(registers, data, offsets):
    """Note each text; registers uint8[2**lg_k]."""
    for i in range(offsets.shape[0] - 1):
        slot, value = of_text(
            data, types.intp(offsets[i]), types.intp(offsets[i + 1]), registers.shape[0]
        )
        if registers[slot] < value:
            registers[slot] = value


@kernel()
def add_integers(registers, bits):
    """Note each integer."""
    for i in range(bits.shape[0]):
        slot, value = of_integer(bits[i], registers.shape[0])
        if registers[slot] < value:
            registers[slot] = value


@kernel()
def _sigma(x):
    """x + sum of x**(2**k) * 2**(k - 1) over k >= 1, for x in [0, 1)."""
    y = 1.0
    z = x
    while True:
        x *= x
        before = z
        z += x * y
        y += y
        if z == before:
            return z


@kernel()
def _tau(x):
    """(1 - x - sum of (1 - x**(2**-k))**2 * 2**-k over k >= 1) / 3, for x in [0, 1]."""
    if x == 0.0 or x == 1.0:
        return 0.0
    y = 1.0
    z = 1 - x
    while True:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
        if z == before:
            return z / 3


@kernel()
def estimate(counts, m):
    """Ertl's algorithm 6 over m registers; counts[v] = registers that hold v, to VALUE_MAX."""
    if counts[0] == m:
        return 0.0
    below = max(m - counts[VALUE_MAX], 1)  # where none is, as if one were: an answer is finite
    z = m * _tau(below / np.float64(m))
    for v in range(VALUE_MAX - 1, 0, -1):
        z = 0.5 * (z + counts[v])
    z += m * _sigma(counts[0] / np.float64(m))
    return np.float64(m) * m / (2 * math.log(2.0) * z)


@kernel()
def estimate_registers(registers):
    """`estimate`, and the number of registers in use."""
    counts = np.zeros(VALUE_MAX + 1, np.int64)
    for value in registers:
        counts[value] += 1
    return estimate(counts, registers.shape[0]), registers.shape[0] - counts[0]
