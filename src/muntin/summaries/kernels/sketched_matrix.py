"""Hot loops of the sketched matrix: Count-Min whose cells are vectors of sums.

cells: int64[depth, width, lanes], and the same memory as float64: lane 0 counts events, the others
hold integer or float sums. An event touches one run of lanes in each row.
"""

from __future__ import annotations

import numpy as np
from numba import types

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.count_min import BLOCK, locate, locate_block


@kernel()
def add_vectors(cells, floats, hashes, values, float_values, is_float):
    """Add each event's vector to its cells.

    cells, floats: [depth, width, lanes] views of the same memory, C-ordered. values, float_values:
    [events, lanes] views of the same memory. is_float: bool[lanes]. No integer sum may overflow.
    """
    depth, width, lanes = cells.shape
    columns = np.empty((BLOCK, depth), np.intp)
    flat = cells.reshape(depth * width * lanes)
    flat_floats = floats.reshape(depth * width * lanes)
    for start in range(0, hashes.shape[0], BLOCK):
        size = min(BLOCK, hashes.shape[0] - start)
        locate_block(flat, hashes, start, size, depth, width, lanes, columns)
        for i in range(size):
            for row in range(depth):
                cell = columns[i, row]
                for lane in range(lanes):
                    if is_float[lane]:
                        flat_floats[cell + lane] += float_values[start + i, lane]
                    else:
                        flat[cell + lane] += values[start + i, lane]


@kernel()
def estimate_vectors(cells, floats, hashes, is_float, out, float_out):
    """`out[i, lane]` (or float_out, the same memory) = the least of item i's cells in the lane."""
    depth, width, lanes = cells.shape
    columns = np.empty((1, depth), np.intp)
    for i in range(hashes.shape[0]):
        locate(hashes[i], depth, width, columns, 0)
        for lane in range(lanes):
            at = types.intp(columns[0, 0])
            if is_float[lane]:
                least = floats[0, at, lane]
                for row in range(1, depth):
                    least = min(least, floats[row, columns[0, row], lane])
                float_out[i, lane] = least
            else:
                total = cells[0, at, lane]
                for row in range(1, depth):
                    total = min(total, cells[row, columns[0, row], lane])
                out[i, lane] = total
