"""The published sliding-window algorithms, item by item, as the paper has them.

Levels are rows of two matrices, keys and stamps; level h has weight 2^h and `fills[h]` items.
Source: Zhang et al., "A Scalable Method of Maintaining Order Statistics for Big Data Stream",
CMC 2019, Algorithms 1 and 2, over the published KLL prototype (lazy compaction, capacity
ceil(k c^depth) + 1 with c = 2/3).
"""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.compaction import draw

SHRINK = 2.0 / 3.0
HEIGHT, SEEN, SLIDING = 0, 1, 2  # words of `info`


@inlined()
def capacity(k, height, level):
    """ceil(k c^depth) + 1"""
    return np.int64(np.ceil(k * SHRINK ** (height - 1 - level))) + 1


@kernel()
def _flip(coins):
    return np.int64(draw(coins) >> np.uint64(63))


@kernel()
def _sort_level(keys, stamps, n):
    order = np.argsort(keys[:n], kind="mergesort")
    keys[:n] = keys[:n][order]
    stamps[:n] = stamps[:n][order]


@kernel()
def _insert_sorted(keys, stamps, n, key, stamp):
    at = np.searchsorted(keys[:n], key, side="right")
    for i in range(n, at, -1):
        keys[i] = keys[i - 1]
        stamps[i] = stamps[i - 1]
    keys[at] = key
    stamps[at] = stamp


@kernel()
def _delete(keys, stamps, n, at):
    for i in range(at, n - 1):
        keys[i] = keys[i + 1]
        stamps[i] = stamps[i + 1]


@kernel()
def compress(keys, stamps, fills, info, k, coins):
    """Compact the lowest full level, as the prototype does while it is too large (lazy)."""
    for level in range(info[0]):
        n = fills[level]
        if n < capacity(k, info[0], level):
            continue
        if level + 1 == info[0]:
            if info[0] == keys.shape[0]:
                return False
            info[0] += 1
        _sort_level(keys[level], stamps[level], n)
        left = 0  # an odd item stays: the first or the last
        start = 0
        if n % 2 == 1:
            start = _flip(coins)
            left = 1
        coin = _flip(coins)
        above = fills[level + 1]
        for i in range(n // 2):
            keys[level + 1, above + i] = keys[level, start + 2 * i + coin]
            stamps[level + 1, above + i] = stamps[level, start + 2 * i + coin]
        if left == 1:
            odd = 0 if start == 1 else n - 1
            keys[level, 0] = keys[level, odd]
            stamps[level, 0] = stamps[level, odd]
        fills[level + 1] += n // 2
        fills[level] = left
        return True
    return False


@kernel()
def size_of(fills, height):
    total = 0
    for level in range(height):
        total += fills[level]
    return total


@kernel()
def size_allowed(k, height):
    total = 0
    for level in range(height):
        total += capacity(k, height, level)
    return total


@kernel()
def slide_items(new_keys, keys, stamps, fills, triggers, info, k, window, coins):
    """Algorithm 1: the next items of a window of the last `window` items."""
    for i in range(new_keys.shape[0]):
        key = new_keys[i]
        stamp = info[1]
        info[1] += 1
        if stamp < window:
            keys[0, fills[0]] = key
            stamps[0, fills[0]] = stamp
            fills[0] += 1
            if size_of(fills, info[0]) >= size_allowed(k, info[0]):
                compress(keys, stamps, fills, info, k, coins)
            continue
        if info[2] == 0:  # the window is full: from here on every level keeps its size
            info[2] = 1
            for level in range(info[0]):
                _sort_level(keys[level], stamps[level], fills[level])
                triggers[level] = 0
        _insert_sorted(keys[0], stamps[0], fills[0], key, stamp)
        fills[0] += 1
        triggers[0] += 1
        for level in range(info[0]):
            if triggers[level] < 2:
                break
            triggers[level] = 0
            row, when = keys[level], stamps[level]
            if level == info[0] - 1:
                for _ in range(min(2, fills[level])):
                    _delete(row, when, fills[level], np.argmin(when[: fills[level]]))
                    fills[level] -= 1
                break
            oldest = np.argmin(when[: fills[level]])
            if oldest == 0:
                neighbour = 1
            elif oldest == fills[level] - 1 or _flip(coins) == 0:
                neighbour = oldest - 1
            else:
                neighbour = oldest + 1
            kept = oldest if _flip(coins) == 0 else neighbour
            above = level + 1
            _insert_sorted(keys[above], stamps[above], fills[above], row[kept], when[kept])
            fills[level + 1] += 1
            triggers[level + 1] += 1
            _delete(row, when, fills[level], max(oldest, neighbour))
            _delete(row, when, fills[level] - 1, min(oldest, neighbour))
            fills[level] -= 2


@kernel()
def expire(keys, stamps, fills, height, edge):
    """Drop items with a stamp before `edge`."""
    for level in range(height):
        kept = 0
        for i in range(fills[level]):
            if stamps[level, i] >= edge:
                keys[level, kept] = keys[level, i]
                stamps[level, kept] = stamps[level, i]
                kept += 1
        fills[level] = kept


@kernel()
def slide_times(new_keys, times, keys, stamps, fills, info, k, window, latest, coins):
    """Algorithm 2: KLL's update, with expired items dropped; returns the latest time.

    Expired items are dropped before each compaction instead of at each item: nothing looks at
    them in between.
    """
    for i in range(new_keys.shape[0]):
        latest = max(latest, times[i])
        info[1] += 1
        keys[0, fills[0]] = new_keys[i]
        stamps[0, fills[0]] = times[i]
        fills[0] += 1
        if size_of(fills, info[0]) >= size_allowed(k, info[0]):
            expire(keys, stamps, fills, info[0], latest - window + 1)
            if size_of(fills, info[0]) >= size_allowed(k, info[0]):
                compress(keys, stamps, fills, info, k, coins)
    return latest
