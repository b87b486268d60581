"""Rows of 64-bit cells as columns of the fewest bytes that hold them, and back.

Columns lie in one buffer, each at a multiple of 8 bytes, and are seen through four views of it:
int8, int16, int32 and int64.
"""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import inlined, kernel

_BLOCK = 512  # rows that stay in the nearest cache while each of their cells is written


@kernel()
def extremes_of_cells(matrix, rows, integers, low, high):
    """Smallest and largest value of each integer cell over the first rows, at least one."""
    for c in range(integers):
        low[c] = matrix[0, c]
        high[c] = matrix[0, c]
    for i in range(rows):
        for c in range(integers):
            low[c] = min(low[c], matrix[i, c])
            high[c] = max(high[c], matrix[i, c])


@kernel()
def narrow_rows(matrix, rows, widths, starts, bytes1, bytes2, bytes4, bytes8):
    """Write cell c of the first rows as a column of `widths[c]` bytes each, at `starts[c]`."""
    for begin in range(0, rows, _BLOCK):
        end = min(rows, begin + _BLOCK)
        for c in range(widths.shape[0]):
            width = widths[c]
            at = starts[c] // width
            if width == 1:
                for i in range(begin, end):
                    bytes1[at + i] = np.int8(matrix[i, c])
            elif width == 2:
                for i in range(begin, end):
                    bytes2[at + i] = np.int16(matrix[i, c])
            elif width == 4:
                for i in range(begin, end):
                    bytes4[at + i] = np.int32(matrix[i, c])
            else:
                for i in range(begin, end):
                    bytes8[at + i] = matrix[i, c]


@inlined()
def _wide(width, at, bytes1, bytes2, bytes4, bytes8):
    if width == 1:
        return np.int64(bytes1[at])
    if width == 2:
        return np.int64(bytes2[at])
    if width == 4:
        return np.int64(bytes4[at])
    return bytes8[at]


@kernel()
def widen_rows(matrix, rows, integers, widths, starts, bytes1, bytes2, bytes4, bytes8, bits):
    """Read what `narrow_rows` wrote. `bits[c]`: OR of the magnitudes of integer cell c.

    Returns
    -------
    (int, int, int)
        Smallest value of cell 0, and the sums of the upper and lower halves of its values.
    """
    for begin in range(0, rows, _BLOCK):
        end = min(rows, begin + _BLOCK)
        for c in range(widths.shape[0]):
            width = widths[c]
            at = starts[c] // width
            seen = np.int64(0)
            for i in range(begin, end):
                value = _wide(width, at + i, bytes1, bytes2, bytes4, bytes8)
                matrix[i, c] = value
                seen |= value ^ (value >> 63)
            if c < integers:
                bits[c] |= seen
    least = np.int64((1 << 63) - 1)
    upper = np.int64(0)
    lower = np.int64(0)
    for i in range(rows):
        least = min(least, matrix[i, 0])
        upper += matrix[i, 0] >> 32
        lower += matrix[i, 0] & 0xFFFFFFFF
    return least, upper, lower
