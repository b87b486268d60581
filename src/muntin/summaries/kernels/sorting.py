"""Radix sort of int64 keys, with or without a payload that moves along.

Least significant digit first, eight bits at a time, stable. Digits in which all keys agree are
skipped, so that small integers and values of one magnitude cost fewer passes. About 10 ns an item
for 4,096 random doubles, where NumPy's introsort takes 20 and its argsort 28. Outside of kernels
NumPy's own sort of keys alone may be faster: see `sort_run`.
"""

import time
from functools import cache
from typing import Literal

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.copying import copy_to, fill

SMALL = 48  # below, insertion sort is faster than eight histograms
LONG = 1 << 12  # of fewer keys, NumPy's sort is never slow


def sort_run(keys: np.ndarray) -> None:
    """Sort `keys` (int64) in place, outside of kernels, by what is faster on this processor."""
    if len(keys) < LONG or _numpy_is_quick():
        keys.sort()
    else:
        sort_keys(keys)


@cache
def _numpy_is_quick() -> bool:
    """Whether NumPy's sort has vectors that are worth it.

    With AVX2, NEON, or Intel's AVX-512 it takes 4 to 9 ns a key. On AMD's Zen 4, where it packs
    vectors by an instruction that is slow there, it takes 20 to 40, and hardly less than its stable
    sort, which has none: `sort_keys` takes 9.
    """
    keys = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, LONG)
    return 3 * _seconds_of(keys, None) < _seconds_of(keys, "stable")


def _seconds_of(keys: np.ndarray, kind: Literal["stable"] | None) -> float:
    taken = []
    for _ in range(5):
        own = keys.copy()
        began = time.perf_counter()
        own.sort(kind=kind)
        taken.append(time.perf_counter() - began)
    return min(taken)


@kernel()
def sort_keys(keys):
    """Sort `keys` (int64) in place."""
    sort_pairs(keys, None)


@kernel()
def sort_pairs(keys, payload):
    """Sort `keys` (int64) in place and move `payload` (int64, or None) along; ties keep order."""
    n = keys.shape[0]
    if n <= SMALL:
        for i in range(1, n):
            key = keys[i]
            if payload is not None:
                moved = payload[i]
            j = i - 1
            while j >= 0 and keys[j] > key:
                keys[j + 1] = keys[j]
                if payload is not None:
                    payload[j + 1] = payload[j]
                j -= 1
            keys[j + 1] = key
            if payload is not None:
                payload[j + 1] = moved
        return
    counts = _digit_counts(keys)
    source, target = keys, np.empty(n, np.int64)
    if payload is not None:
        source_payload, target_payload = payload, np.empty(n, np.int64)
    swapped = False
    for digit in range(8):
        row = counts[digit]
        shift = np.uint64(8 * digit)
        if row[_digit(source[0], shift, digit)] == n:  # all keys agree in this digit
            continue
        _starts(row)
        for i in range(n):
            key = source[i]
            d = _digit(key, shift, digit)
            target[row[d]] = key
            if payload is not None:
                target_payload[row[d]] = source_payload[i]
            row[d] += 1
        source, target = target, source
        if payload is not None:
            source_payload, target_payload = target_payload, source_payload
        swapped = not swapped
    if swapped:  # then `target` is `keys`
        copy_to(target, source)
        if payload is not None:
            copy_to(target_payload, source_payload)


@kernel()
def nth_largest(values, rank):
    """The value (int64) before which `rank` others stand, the largest first.

    A histogram finds it, at once where the values are at most 254 above the least, as most weights
    of items are. (To compile `np.partition` takes seconds.)
    """
    low = high = values[0]
    for i in range(values.shape[0]):
        low = min(low, values[i])
        high = max(high, values[i])
    counts = np.empty(256, np.int64)
    shift = np.uint64(0)
    while low < high:
        fill(counts, 0)  # what is 255 steps above `low`, or more, is counted in the last one
        for i in range(values.shape[0]):
            if low <= values[i] and values[i] <= high:
                counts[min(np.uint64(values[i] - low) >> shift, np.uint64(255))] += 1
        digit = 255  # from the largest down, to the step in which the value is
        while rank >= counts[digit]:
            rank -= counts[digit]
            digit -= 1
        low += np.int64(np.uint64(digit) << shift)
        if digit < 255:
            above = min(np.uint64(high - low), (np.uint64(1) << shift) - np.uint64(1))
            high = low + np.int64(above)
        shift = np.uint64(0)
        while np.uint64(high - low) >> shift > np.uint64(255):
            shift += np.uint64(1)
    return low


@inlined()
def search(items, first, last, wanted, right):
    """Where, of items [first, last) that ascend, the first is that is not below `wanted`; with
    `right`, the first above it. (`np.searchsorted` gave wrong places in some processes.)"""
    while first < last:
        middle = (first + last) >> 1
        if items[middle] < wanted or (right and items[middle] == wanted):
            first = middle + 1
        else:
            last = middle
    return first


@inlined()
def falls(items, first, last):
    """Whether one of items [first, last) is below the one before it: the answer is hardly ever yes,
    so all are compared, several at once."""
    some = items[first:last]
    fell = 0
    for i in range(some.shape[0] - 1):
        fell |= some[i + 1] < some[i]
    return fell != 0


@kernel(inline="always")
def _digit(key, shift, digit):
    d = np.int64((np.uint64(key) >> shift) & np.uint64(255))
    return d ^ 128 if digit == 7 else d  # the top digit holds the sign


@kernel(inline="always")
def _starts(row):
    start = 0
    for d in range(256):
        size = row[d]
        row[d] = start
        start += size


@kernel()
def _digit_counts(keys):
    counts = np.zeros((8, 256), np.int64)
    for i in range(keys.shape[0]):
        key = np.uint64(keys[i])
        counts[0, np.int64(key & np.uint64(255))] += 1
        counts[1, np.int64((key >> np.uint64(8)) & np.uint64(255))] += 1
        counts[2, np.int64((key >> np.uint64(16)) & np.uint64(255))] += 1
        counts[3, np.int64((key >> np.uint64(24)) & np.uint64(255))] += 1
        counts[4, np.int64((key >> np.uint64(32)) & np.uint64(255))] += 1
        counts[5, np.int64((key >> np.uint64(40)) & np.uint64(255))] += 1
        counts[6, np.int64((key >> np.uint64(48)) & np.uint64(255))] += 1
        counts[7, np.int64((key >> np.uint64(56)) & np.uint64(255)) ^ 128] += 1
    return counts
