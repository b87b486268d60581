"""Hot loops of Count-Min: cells[depth, width], one cell a row for each item.

Where the width is a power of two, and the hash has bits enough, each row's column is bits of it.
Else two rows share one 64-bit word, which is a remix of the item's hash: row 2j takes the high
half, row 2j + 1 the low half. A half h becomes the column (h * width) >> 32, which is uniform to
within width / 2**32. All columns are below `width` by construction.
"""

import numpy as np
from numba import types

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.bits import leading_zeros
from muntin.summaries.kernels.compaction import GOLDEN, splitmix
from muntin.summaries.kernels.memory import prefetch
from muntin.summaries.kernels.sorting import nth_largest

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_64 = np.uint64(64)
BLOCK = 256  # items whose columns are worked out, and fetched, before the first is added
LIMIT_MAX = (1 << 63) - 1
NEAR_BYTES = 1 << 20  # of cells that the processor's caches hold: they need not be fetched


@inlined()
def remixed(hashed, pair):
    """Word `pair` of an item's hash: SplitMix64's finaliser at the pair's own offset."""
    return splitmix(np.uint64(hashed) + GOLDEN * np.uint64(pair + 1))


@inlined()
def locate(hashes, width, columns):
    """`columns[row, i]` = item i's column in each row: uint32[depth + 1, n], the last one spare.

    A pair of rows at a time, of all items: several at once. A column that is unsigned cannot be
    counted from the end, which would have to be asked of each.
    """
    depth = columns.shape[0] - 1
    mask = np.uint64(width - 1)
    bits = _64 - leading_zeros(mask)
    if width == 1 << bits and depth * bits <= 64:
        for row in range(depth):
            own, shift = columns[row], bits * np.uint64(row)
            for i in range(hashes.shape[0]):
                own[i] = (hashes[i] >> shift) & mask
        return
    for row in range(0, depth, 2):
        upper, lower = columns[row], columns[row + 1]
        for i in range(hashes.shape[0]):
            word = remixed(hashes[i], row >> 1)
            upper[i] = ((word >> _32) * np.uint64(width)) >> _32
            lower[i] = ((word & _LOW) * np.uint64(width)) >> _32


@inlined()
def locate_block(cells, hashes, columns):
    """`locate`, and cells that are far are fetched."""
    depth, width = cells.shape
    locate(hashes, width, columns)
    if cells.size * cells.itemsize > NEAR_BYTES:
        for row in range(depth):
            for i in range(hashes.shape[0]):
                prefetch(cells[row], types.intp(columns[row, i]))


@inlined()
def least_of(cells, columns, i):
    """The least of item i's cells."""
    least = np.int64(cells[0, columns[0, i]])
    for row in range(1, cells.shape[0]):
        least = min(least, np.int64(cells[row, columns[row, i]]))
    return least


@inlined()
def add_five(cells, columns, weights, start, n):
    """n items to five rows at once: a cell that many items in turn are added to, as those of the
    most frequent one, waits for itself, and what is added to other rows need not."""
    a, b, c, d, e = cells[0], cells[1], cells[2], cells[3], cells[4]
    to_a, to_b, to_c, to_d, to_e = columns[0], columns[1], columns[2], columns[3], columns[4]
    step = 0 if weights.shape[0] == 1 else 1
    for i in range(n):
        weight = weights[(start + i) * step]
        a[to_a[i]] += weight
        b[to_b[i]] += weight
        c[to_c[i]] += weight
        d[to_d[i]] += weight
        e[to_e[i]] += weight


@kernel()
def add(cells, hashes, weights, limit, conservative):
    """Add each item to its cells. True if a cell was kept at `limit`.

    weights: int64[n], or int64[1] that stands for all. Cells and weights are within [0, limit]
    and [0, 2**63), and the caller made sure that no sum passes 2**63 - 1, which as `limit` is
    never looked at. `conservative`: raise each cell only as far as the item's new estimate asks
    for.
    """
    depth = cells.shape[0]
    columns = np.empty((depth + 1, BLOCK), np.uint32)
    step = 0 if weights.shape[0] == 1 else 1
    clamped = False
    for start in range(0, hashes.shape[0], BLOCK):
        some = hashes[start : start + BLOCK]
        locate_block(cells, some, columns)
        if conservative:
            for i in range(some.shape[0]):
                goal = least_of(cells, columns, i) + weights[(start + i) * step]
                clamped |= goal > limit
                goal = min(goal, limit)
                for row in range(depth):
                    before = np.int64(cells[row, columns[row, i]])
                    cells[row, columns[row, i]] = max(before, goal)
            continue
        fives = depth // 5 * 5 if limit == LIMIT_MAX else 0
        for row in range(0, fives, 5):
            add_five(cells[row : row + 5], columns[row : row + 5], weights, start, some.shape[0])
        for row in range(fives, depth):
            own, places = cells[row], columns[row]
            if limit == LIMIT_MAX:
                for i in range(some.shape[0]):
                    own[places[i]] += weights[(start + i) * step]
                continue
            for i in range(some.shape[0]):
                total = np.int64(own[places[i]]) + weights[(start + i) * step]
                clamped |= total > limit
                own[places[i]] = min(total, limit)
    return clamped


@kernel()
def estimate(cells, hashes, out):
    """`out[i]` = the least of item i's cells."""
    columns = np.empty((cells.shape[0] + 1, BLOCK), np.uint32)
    for start in range(0, hashes.shape[0], BLOCK):
        some = hashes[start : start + BLOCK]
        locate_block(cells, some, columns)
        least = out[start : start + BLOCK]
        for i in range(some.shape[0]):
            least[i] = cells[0, columns[0, i]]
        for row in range(1, cells.shape[0]):
            own, places = cells[row], columns[row]
            for i in range(some.shape[0]):
                least[i] = min(least[i], np.int64(own[places[i]]))


@kernel()
def noise(cells, depth):
    """What other items add to the least of an item's cells, at the median; cells are int64[n].

    An item's cells hold, besides its own weight, as much as any others: the least of `depth` that
    are drawn from those is above their quantile 1 - 2^(-1 / depth) half of the time.
    """
    below = np.int64((cells.shape[0] - depth) * (1 - 2.0 ** (-1 / depth)))
    return nth_largest(cells, cells.shape[0] - 1 - below)
