"""Rows of equal (slice, key) side by side: by counting where slices ascend, else by radix sort of
small codes, with the row's number in the same word."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.bits import trailing_zeros

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


@kernel()
def runs_of(slices):
    """How many slices there are, where they ascend; 0 where they do not."""
    runs = 1
    for i in range(1, slices.shape[0]):
        runs += slices[i] != slices[i - 1]
        if slices[i] < slices[i - 1]:
            return 0
    return runs


@kernel()
def group_runs(slices, keys, width, order, bounds, key_of, found, starts):
    """Groups of rows whose slices ascend; returns how many. Keys are below `width`.

    A slice's rows are counted by key, and put to their places in the order of keys: that stays in
    the first caches, where a sort by slice and key goes through all rows several times. Which keys
    a slice has is marked in bits, so that few of many are found sixty-four at a time.

    `order`, `bounds`, `key_of`, `found`, `starts`: as `Groups` has them, with room for a group a
    row and for the slices that `runs_of` has counted.
    """
    places = np.zeros(width, np.int64)  # how many rows a key has, then where its next one goes
    marks = np.zeros((width + 63) >> 6, np.uint64)
    one = np.uint64(1)
    groups = 0
    runs = 0
    begin = 0
    while begin < slices.shape[0]:
        end = begin
        while end < slices.shape[0] and slices[end] == slices[begin]:
            key = np.uint64(keys[end])
            places[key] += 1
            marks[key >> np.uint64(6)] |= one << (key & np.uint64(63))
            end += 1
        found[runs] = slices[begin]
        starts[runs] = groups
        at = begin
        for m in range(marks.shape[0]):
            mark = marks[m]
            while mark != 0:
                key = (np.uint64(m) << np.uint64(6)) + trailing_zeros(mark)
                mark &= mark - one
                bounds[groups] = at
                key_of[groups] = np.int64(key)
                groups += 1
                count = places[key]
                places[key] = at
                at += count
            marks[m] = 0
        for i in range(begin, end):
            key = np.uint64(keys[i])
            order[places[key]] = i
            places[key] += 1
        for g in range(starts[runs], groups):
            places[np.uint64(key_of[g])] = 0
        runs += 1
        begin = end
    bounds[groups] = slices.shape[0]
    starts[runs] = groups
    return groups
