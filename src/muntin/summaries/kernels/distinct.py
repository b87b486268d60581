"""Hot loops of UltraLogLog: MurmurHash3 over Arrow buffers, straight into the registers.

A register is a byte: the highest value that came to it, << 2, and whether the value below (2) and
the one below that (1) came as well; 0 where nothing came. `kept` says which of these bits are
known: `ULTRA`, or `HYPER` alone where sketches of HyperLogLog are in it.

Sources: O. Ertl, UltraLogLog, PVLDB 17(7), 2024, arXiv:2308.16862 (the maximum-likelihood
estimator: section 4.2). A. Appleby, MurmurHash3_x64_128 (public domain). Hash, seed and the way
from hash to register are those of Apache DataSketches, so that the values are those of its
HyperLogLog: the low bits of the first word are the slot, the leading zeros of the second, plus
one, the value. Checked in tests against the `datasketches` package.
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
ULTRA, HYPER = np.uint8(0xFF), np.uint8(0xFC)
ERRORS = {int(ULTRA): 0.7608621, int(HYPER): 1.0367}
"""Standard errors times the root of the number of registers: sqrt(log(2) / zeta(2, 1 + 2**-d))."""
FEW_ITEMS = {int(ULTRA): (0.5, 3.2), int(HYPER): (0.5**0.5, 1.8)}
"""The same while items are few: only what falls on another's register, and is not told apart from
it, is missed. And the load at which at most half of the way to `ERRORS` is gone, in variance, after
Fisher's information of a register at each load."""
ULTRA_BIAS, HYPER_BIAS = 0.4814738, 1.0101
"""Times 1 / registers: log(2) (1 + 2 / 2**d) zeta(3, 1 + 2**-d) / zeta(2, 1 + 2**-d)**2, of d
values below the highest that are known: 2 or 0 (equation 11)."""
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
def slot_and_register(h1, h2, length, registers):
    """Of a hash that is ended here: the register's number, and what it is if nothing else comes."""
    h1 ^= np.uint64(length)
    h2 ^= np.uint64(length)
    h1 += h2
    h2 += h1
    h1 = _final(h1)
    h2 = _final(h2)
    h1 += h2
    h2 += h1
    value = min(leading_zeros(h2) + np.uint64(1), np.uint64(VALUE_MAX))
    return types.intp(h1 & np.uint64(registers - 1)), np.uint8(value << np.uint64(2))


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
def of_item(data, offsets, i, registers):
    """`slot_and_register` of text i, data[offsets[i]:offsets[i + 1]]; or, without offsets, of the
    integer data[i], as its eight little-endian bytes."""
    if offsets is None:
        return slot_and_register(SEED ^ _first(np.uint64(data[i])), SEED, 8, registers)
    at, end = types.intp(offsets[i]), types.intp(offsets[i + 1])
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
    return slot_and_register(h1, h2, length, registers)


def _every_pair():
    """JOINED[one << 8 | other] = `joined(one, other)`."""
    one, other = np.arange(256, dtype=np.uint8)[:, None], np.arange(256, dtype=np.uint8)
    high, low = np.maximum(one, other), np.minimum(one, other)
    came = low & 3 | (low > 0).astype(np.uint8) << 2
    return (high | came >> ((high >> 2) - (low >> 2)) & 3).ravel()


JOINED = _every_pair()
POWERS = 0.5 ** np.arange(VALUE_MAX + 1)


@inlined()
def joined(one, other):
    """A register of all that came to either of two, where a loop takes 32 at once."""
    high = max(one, other)
    low = min(one, other)
    below = np.uint8((high >> 2) - (low >> 2))
    came = np.uint8(4 if low else 0) | (low & np.uint8(3))  # low's value, and the two below
    told = np.uint8(0)
    told = came if below == 0 else told
    told = came >> np.uint8(1) if below == 1 else told
    told = came >> np.uint8(2) if below == 2 else told
    return high | (told & np.uint8(3))


@inlined()
def note(registers, slot, register, kept):
    """Join one register to another, by a table: no branch that would be guessed wrong."""
    pair = types.intp(register) << 8 | types.intp(registers[slot])
    registers[slot] = JOINED[pair] & kept


@kernel()
def add_items(registers, kept, items, data, offsets):
    """Note so many items; registers uint8[2**lg_k]."""
    for i in range(items):
        slot, register = of_item(data, offsets, i, registers.shape[0])
        note(registers, slot, register, kept)


@kernel()
def merge_registers(registers, kept, others):
    """Take in as many others."""
    for slot in range(registers.shape[0]):
        registers[slot] = joined(registers[slot], others[slot]) & kept


@inlined()
def is_possible(register, kept):
    """Whether items can make a register that is in use."""
    value = types.intp(register >> 2)
    return value > 0 and register & kept == register and not register & (3 >> (value - 1))


@kernel()
def possible(registers, kept):
    """How many are in use, or -1 where items cannot make one."""
    used = 0
    for register in registers:
        if register:
            if not is_possible(register, kept):
                return -1
            used += 1
    return used


@kernel()
def estimate(counts, came, m, kept):
    """The number of items, and the least that they can be: counts[r] (int64[256]) of m registers
    are r. `came` (float64[64]) is scratch.

    Where n items are spread, value k comes to a register with probability 1 - exp(-n / (m 2**k)).
    The n that makes what came and what did not most likely solves

        sum of came[k] / 2**k / (exp(x / 2**k) - 1) = `absent`,    x = n / m

    of which x times the left side is convex and falls: Newton's steps from the left end within
    five or so. `came[k]` is the number of registers to which k is known to have come, `absent` the
    sum of 2**-k over what did not.
    """
    highest = 255
    while highest and not counts[highest]:
        highest -= 1
    if not highest:
        return 0.0, 0
    came[: (highest >> 2) + 1] = 0
    absent = np.float64(counts[0])
    for register in range(4, highest + 1):
        if not counts[register]:
            continue
        number = np.float64(counts[register])
        value = register >> 2
        came[value] += number
        if value < VALUE_MAX:
            absent += number * POWERS[value]
        if kept == ULTRA:
            for below in range(1, min(value, 3)):
                if register & (4 >> below):
                    came[value - below] += number
                else:
                    absent += number * POWERS[value - below]
    absent = max(absent, POWERS[VALUE_MAX - 1])  # as if one were: an answer is finite
    highest >>= 2
    if highest == VALUE_MAX:  # stands for all from 63 on: as likely as 62
        highest -= 1
        came[highest] += came[VALUE_MAX]
    least = 0.0
    half = 0.0
    for k in range(highest, 0, -1):
        least += came[k]
        half += came[k] * POWERS[k] * 0.5
    x = least / (absent + half)  # y / (exp(y) - 1) >= 1 - y / 2: left of the solution
    while True:
        grown = math.expm1(x * POWERS[highest])  # of the value below: g * (g + 2)
        level = -absent * x
        slope = -absent
        for k in range(highest, 0, -1):
            if grown > 1e18:
                break
            if came[k]:
                inverse = POWERS[k] / grown
                share = x * inverse
                level += came[k] * share
                slope += came[k] * inverse * (1 - share * (grown + 1))
            grown *= grown + 2
        step = level / slope
        x -= step
        if not -step > 1e-7 * x:  # the next one would be its square
            break
    bias = ULTRA_BIAS if kept == ULTRA else HYPER_BIAS
    return m * x / (1 + bias / m), int(least)


@kernel()
def estimate_registers(registers, kept):
    counts = np.zeros(256, np.int64)
    for register in registers:
        counts[register] += 1
    return estimate(counts, np.empty(VALUE_MAX + 1), registers.shape[0], kept)
