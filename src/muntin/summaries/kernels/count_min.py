"""Hot loops of Count-Min: cells[depth, width], one cell a row for each item.

Two rows share one 64-bit word, which is a remix of the item's hash: row 2j takes the high half,
row 2j + 1 the low half. A half h becomes the column (h * width) >> 32, which is uniform to
within width / 2**32. All columns are below `width` by construction.
"""

from __future__ import annotations

import numpy as np
from numba import types

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.memory import prefetch

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
BLOCK = 256  # items whose columns are worked out, and fetched, before the first is added


@inlined()
def remixed(hashed, pair):
    """Word `pair` of an item's hash: SplitMix64's finaliser at the pair's own offset."""
    word = np.uint64(hashed) + GOLDEN * np.uint64(pair + 1)
    word = (word ^ (word >> np.uint64(30))) * MIX_1
    word = (word ^ (word >> np.uint64(27))) * MIX_2
    return word ^ (word >> np.uint64(31))


@inlined()
def cell_of(half, width):
    return types.intp((half * np.uint64(width)) >> _32)


@inlined()
def locate(hashed, depth, width, columns, at):
    """`columns[at, row]` = the item's column in each row."""
    for row in range(0, depth - 1, 2):
        word = remixed(hashed, row >> 1)
        columns[at, row] = cell_of(word >> _32, width)
        columns[at, row + 1] = cell_of(word & _LOW, width)
    if depth & 1:
        word = remixed(hashed, depth >> 1)
        columns[at, depth - 1] = cell_of(word >> _32, width)


@inlined()
def locate_block(flat, hashes, start, size, depth, width, columns):
    """Where the cells of a block's items are in `flat`, which is fetched: columns[item, row]."""
    for i in range(size):
        locate(hashes[start + i], depth, width, columns, i)
        for row in range(depth):
            columns[i, row] += row * width
            prefetch(flat, columns[i, row])


@inlined()
def least_of(flat, columns, i, depth):
    """The least of item i's cells."""
    least = np.int64(flat[columns[i, 0]])
    for row in range(1, depth):
        least = min(least, np.int64(flat[columns[i, row]]))
    return least


@kernel()
def add(cells, hashes, weights, limit, conservative):
    """Add each item to its cells. True if a cell was kept at `limit`.

    weights: int64[n], or int64[1] that stands for all. Cells and weights are within [0, limit]
    and [0, 2**63), and the caller made sure that no sum passes 2**63 - 1. `conservative`: raise
    each cell only as far as the item's new estimate asks for.
    """
    depth, width = cells.shape
    columns = np.empty((BLOCK, depth), np.intp)
    step = 0 if weights.shape[0] == 1 else 1
    flat = cells.reshape(depth * width)
    clamped = False
    for start in range(0, hashes.shape[0], BLOCK):
        size = min(BLOCK, hashes.shape[0] - start)
        locate_block(flat, hashes, start, size, depth, width, columns)
        for i in range(size):
            weight = weights[(start + i) * step]
            goal = least_of(flat, columns, i, depth) + weight if conservative else 0
            for row in range(depth):
                cell = columns[i, row]
                before = np.int64(flat[cell])
                total = max(before, goal) if conservative else before + weight
                if total > limit:
                    total = limit
                    clamped = True
                flat[cell] = total
    return clamped


@kernel()
def add_near(cells, hashes, weights):
    """As `add`, not conservative, where no cell can come to the limit and all are in the caches.

    A pair of rows at a time: their cells are known as soon as an item's word is, nothing is
    compared, and nothing is fetched before.
    """
    depth, width = cells.shape
    step = 0 if weights.shape[0] == 1 else 1
    for start in range(0, hashes.shape[0], 2 * BLOCK):
        end = min(start + 2 * BLOCK, hashes.shape[0])
        for row in range(0, depth, 2):
            upper, lower = cells[row], cells[min(row + 1, depth - 1)]
            has_lower = np.int64(row + 1 < depth)
            for i in range(start, end):
                word, weight = remixed(hashes[i], row >> 1), weights[i * step]
                upper[cell_of(word >> _32, width)] += weight
                lower[cell_of(word & _LOW, width)] += weight * has_lower


@kernel()
def estimate(cells, hashes, out):
    """`out[i]` = the least of item i's cells."""
    depth, width = cells.shape
    columns = np.empty((BLOCK, depth), np.intp)
    flat = cells.reshape(depth * width)
    for start in range(0, hashes.shape[0], BLOCK):
        size = min(BLOCK, hashes.shape[0] - start)
        locate_block(flat, hashes, start, size, depth, width, columns)
        for i in range(size):
            out[start + i] = least_of(flat, columns, i, depth)


@kernel()
def merge_cells(cells, others, limit):
    """Add cell by cell, at most `limit`; true if one was. Sums must not pass 2**63 - 1."""
    depth, width = cells.shape
    clamped = False
    for row in range(depth):
        for column in range(width):
            total = np.int64(cells[row, column]) + np.int64(others[row, column])
            if total > limit:
                total = limit
                clamped = True
            cells[row, column] = total
    return clamped
