"""Fast hashes for tables in memory, which never leave it: what is kept in bytes uses XXH64.

A table compares the values themselves, so that these need to spread values, not to tell them
apart. Strings of up to 16 bytes are mixed without a loop.
"""

import numpy as np

from muntin.summaries.kernels import inlined
from muntin.summaries.kernels.bits import multiply_high
from muntin.summaries.kernels.memory import load_u64

# Fractional digits of pi: odd numbers without a pattern.
_A = np.uint64(0x243F6A8885A308D3)
_B = np.uint64(0x13198A2E03707345)
_C = np.uint64(0xA4093822299F31D1)


@inlined()
def multiply_fold(a, b):
    """Both halves of the 128-bit product of two uint64, one XOR the other."""
    return multiply_high(a, b) ^ (a * b)


@inlined()
def mix_integer(value):
    """Spreads an int64 over 64 bits."""
    return multiply_fold(multiply_fold(np.uint64(value) ^ _A, _B) ^ _C, _A)


@inlined()
def short_word(data, start, length):
    """The first `length` < 8 bytes as one little-endian number."""
    word = np.uint64(0)
    if start + 8 <= data.shape[0]:
        kept = (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
        word = load_u64(data, start) & kept
    else:
        for k in range(length):
            word |= np.uint64(data[start + k]) << np.uint64(8 * k)
    return word


@inlined()
def mix_words(first, last, length):
    """`mix_bytes` of a string of at most 16 bytes: its first and last 8, or all and 0."""
    h = np.uint64(length) * _C
    return multiply_fold(multiply_fold(first ^ h, last ^ _B) ^ _C, _A)


@inlined()
def mix_bytes(data, start, length):
    """Spreads `data[start:start + length]` over 64 bits; the range lies inside the array."""
    h = np.uint64(length) * _C
    if length < 8:
        first = short_word(data, start, length)
        last = np.uint64(0)
    else:
        end = start + length
        at = start
        while at + 16 < end:
            h = multiply_fold(load_u64(data, at) ^ h, load_u64(data, at + 8) ^ _A)
            at += 16
        if length >= 16:
            at = end - 16
        first = load_u64(data, at)
        last = load_u64(data, end - 8)
    return multiply_fold(multiply_fold(first ^ h, last ^ _B) ^ _C, _A)


@inlined()
def same_bytes(a, a_at, b, b_at, length):
    """Whether two ranges of the same length hold the same bytes."""
    if length < 8:
        return short_word(a, a_at, length) == short_word(b, b_at, length)
    last = length - 8
    if load_u64(a, a_at) != load_u64(b, b_at) or load_u64(a, a_at + last) != load_u64(
        b, b_at + last
    ):
        return False
    at = 8
    while at < last:
        if load_u64(a, a_at + at) != load_u64(b, b_at + at):
            return False
        at += 8
    return True
