"""Sorting rows by a small code: radix, with the row's number in the same word."""

import numpy as np

from muntin.summaries.kernels import kernel

DIGIT_BITS = 11  # 2,048 counters stay in the first cache: 16 bits took twice as long
ROW_BITS = 32
CODE_BITS_MAX = 64 - ROW_BITS


@kernel()
def sort_codes(words, bits):
    """Sort words (uint64[n]: code << 32 | row) by the lowest `bits` bits of the codes; stable."""
    n = words.shape[0]
    passes = (bits + DIGIT_BITS - 1) // DIGIT_BITS
    source = words
    target = np.empty(n, np.uint64)
    done = 0
    for p in range(passes):
        # Digits of nearly equal size: 6 and 6 bits need fewer counters than 11 and 1.
        size = (bits - done + passes - p - 1) // (passes - p)
        shift = np.uint64(ROW_BITS + done)
        mask = np.uint64((1 << size) - 1)
        starts = np.zeros((1 << size) + 1, np.int64)
        for i in range(n):
            starts[np.int64((source[i] >> shift) & mask) + 1] += 1
        for d in range(1 << size):
            starts[d + 1] += starts[d]
        for i in range(n):
            word = source[i]
            d = np.int64((word >> shift) & mask)
            target[starts[d]] = word
            starts[d] += 1
        source, target = target, source
        done += size
    return source


@kernel()
def pack_codes(codes, words):
    """`words` = code << 32 | row; whether the codes ascend already."""
    ascending = True
    for i in range(codes.shape[0]):
        words[i] = (np.uint64(codes[i]) << np.uint64(ROW_BITS)) | np.uint64(i)
        if i and codes[i] < codes[i - 1]:
            ascending = False
    return ascending


@kernel()
def unpack_groups(words, order, bounds, codes):
    """The rows in order, where each code begins, and the codes; returns how many codes."""
    groups = 0
    mask = np.uint64((1 << ROW_BITS) - 1)
    last = np.uint64(0)
    for i in range(words.shape[0]):
        code = words[i] >> np.uint64(ROW_BITS)
        order[i] = np.int64(words[i] & mask)
        if i == 0 or code != last:
            bounds[groups] = i
            codes[groups] = np.int64(code)
            groups += 1
            last = code
    return groups
