"""Adding vectors to the rows of a matrix: one event (or one row of another matrix), one row.

A row is `[count, integer sums ..., pairs of float sums ..., padding]`, all in 64-bit cells; a
float sum is a pair (high, low) of floats, whose unevaluated sum is the value (double-double, about
106 bits: T. J. Dekker 1971; Y. Hida, X. S. Li, D. H. Bailey 2001). Kernels see the float cells
through a second view of the same memory.
"""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.memory import prefetch

AHEAD = 64  # rows that lie in memory, not in a cache, take that long


@inlined()
def _two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@inlined()
def add_pairs(high, low, other_high, other_low):
    s, e = _two_sum(high, other_high)
    t, f = _two_sum(low, other_low)
    e += t
    u = s + e
    e -= u - s
    e += f
    v = u + e
    return v, e - (v - u)


@kernel()
def add_vectors(matrix, floats, rows, vectors, vector_floats, integers, last):
    """Add vector i to row `rows[i]`; the caller knows that no sum can leave its range. Cells [0,
    integers) are integers, [integers, last) pairs of floats. Returns how many rows' count was 0."""
    n = rows.shape[0]
    woken = 0
    if matrix.shape[1] == 8 and integers == last:  # one cache line, one vector instruction
        for i in range(n):
            prefetch(matrix, np.int64(rows[min(i + AHEAD, n - 1)]) * 8)
            row = np.uint64(rows[i])  # unsigned: no test for an index from the end
            woken += (matrix[row, 0] == 0) & (vectors[i, 0] != 0)
            for c in range(8):
                matrix[row, np.uint64(c)] += vectors[i, c]
        return woken
    width = matrix.shape[1]
    for i in range(n):
        if i + AHEAD < n:
            prefetch(matrix, np.int64(rows[i + AHEAD]) * width)
        row = rows[i]
        woken += (matrix[row, 0] == 0) & (vectors[i, 0] != 0)
        for c in range(integers):
            matrix[row, c] += vectors[i, c]
        for c in range(integers, last, 2):
            floats[row, c], floats[row, c + 1] = add_pairs(
                floats[row, c], floats[row, c + 1], vector_floats[i, c], vector_floats[i, c + 1]
            )
    return woken


@kernel()
def gather_columns(matrix, rows, out):
    """`out[c, i] = matrix[rows[i], c]`: rows become columns."""
    n = rows.shape[0]
    width = matrix.shape[1]
    for i in range(n):
        if i + AHEAD < n:
            prefetch(matrix, np.int64(rows[i + AHEAD]) * width)
        row = rows[i]
        for c in range(out.shape[0]):
            out[c, i] = matrix[row, c]


@kernel()
def magnitude_bits(values):
    """OR of all magnitudes: every |value| is at most this (int64; as a two's complement mask)."""
    bits = np.int64(0)
    for i in range(values.shape[0]):
        bits |= values[i] ^ (values[i] >> 63)
    return bits


@kernel()
def fill_integers(values, bits, bit_offset, out):
    """Copy; what is null in the validity bitmap becomes 0. Returns `magnitude_bits` of the rest."""
    seen = np.int64(0)
    for i in range(values.shape[0]):
        at = bit_offset + i
        valid = np.int64((bits[at >> 3] >> np.uint8(at & 7)) & np.uint8(1))
        value = values[i] & -valid
        out[i] = value
        seen |= value ^ (value >> 63)
    return seen


@kernel()
def finite_floats(values, out):
    """Copy; NaN and infinities become 0. Returns how many they were, and the largest |value|."""
    bad = 0
    largest = 0.0
    for i in range(values.shape[0]):
        value = values[i]
        if np.isfinite(value):
            out[i] = value + 0.0  # no minus zero
            largest = max(largest, abs(value))
        else:
            out[i] = 0.0
            bad += 1
    return bad, largest
