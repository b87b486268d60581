"""Sums of groups: integers in 128 bits, floats as pairs (high, low) of twice their precision."""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.vector_sums import add_pairs

LACKS_TOO_OFTEN, BEYOND_ITS_EVENTS, SUM_OF_NO_VALUES, NO_NORMAL_PAIR = 1, 2, 3, 4
"""What `problem_of_integers` and `problem_of_floats` find."""


@kernel()
def groups_of_rows(order, bounds, out):
    """`out[row]` = number of the group that the row is in."""
    for g in range(bounds.shape[0] - 1):
        for i in range(bounds[g], bounds[g + 1]):
            out[order[i]] = g


@kernel()
def sum_integers(low, beyond, groups, small, out_low, out_beyond):
    """Add each row to its group's sum, exact: low + beyond * 2^64. `out` begins as zeros.

    Row by row, as they lie: a loop over each group would read rows here and there, and guess wrong
    where it ends, which costs more than adding where groups have one row or two.

    `beyond` (int64[rows]): empty: zeros.
    `groups` (int64[rows]): number of each row's group.
    `small`: no sum can be beyond int64: there is no carry, and `out_beyond` is not written.
    """
    if small:
        for i in range(low.shape[0]):
            out_low[groups[i]] += low[i]
        return
    wide = beyond.shape[0] > 0
    for i in range(low.shape[0]):
        g = groups[i]
        # To the low half it is added as an unsigned number, to the high half with its sign (-1, if
        # it is negative) and the carry: where the low half wrapped, it is smaller than what came.
        value = np.int64(low[i])
        below = np.uint64(out_low[g]) + np.uint64(value)
        out_low[g] = np.int64(below)
        out_beyond[g] += (value >> 63) + (below < np.uint64(value))
        if wide:
            out_beyond[g] += beyond[i]
    for g in range(out_low.shape[0]):  # a low half that is negative as int64 is 2^64 less
        out_beyond[g] -= out_low[g] >> 63


@kernel()
def sum_floats(high, low, order, bounds, out_high, out_low):
    """Sum of each group; beyond float64 it is (inf, 0). `low` empty: zeros."""
    paired = low.shape[0] > 0
    for g in range(bounds.shape[0] - 1):
        s = 0.0
        e = 0.0
        for i in range(bounds[g], bounds[g + 1]):
            row = order[i]
            s, e = add_pairs(s, e, high[row], low[row] if paired else 0.0)
        if not np.isfinite(s):
            s = np.inf
            e = 0.0
        out_high[g] = s + 0.0  # -0.0 is 0.0
        out_low[g] = e + 0.0


@kernel()
def pairs_of_integers(low, beyond, out_high, out_low):
    """128-bit integers as pairs of floats; exact below 2^106. `beyond` empty: zeros. Each is added
    up of three parts that are floats exactly: 64 bits, 32 and 32."""
    for i in range(low.shape[0]):
        value = low[i]
        above = np.float64(value >> 63)
        if beyond.shape[0] > 0:
            above += beyond[i]
        above *= 18446744073709551616.0
        lower = np.float64(np.uint64(value) & np.uint64(0xFFFFFFFF))
        middle = np.float64(np.uint64(value) >> np.uint64(32)) * 4294967296.0
        s, e = add_pairs(above, 0.0, middle, 0.0)
        s, e = add_pairs(s, e, lower, 0.0)
        out_high[i] = s
        out_low[i] = e


@inlined()
def lacking_at(i, events, nulls, unseen):
    """Events of row i without a value; -1 where that cannot be."""
    without = nulls[i] if nulls.shape[0] > 0 else 0
    if without < 0 or without > events[i]:
        return -1
    more = unseen[i] if unseen.shape[0] > 0 else 0
    if more < 0 or more > events[i] - without:
        return -1
    return without + more


@kernel()
def problem_of_integers(low, beyond, events, nulls, unseen):
    """0, or why no events could have made these sums; an empty column: zeros."""
    for i in range(events.shape[0]):
        without = lacking_at(i, events, nulls, unseen)
        if without < 0:
            return LACKS_TOO_OFTEN
        above = beyond[i] if beyond.shape[0] > 0 else 0
        most = ((events[i] - without) >> 1) + 1  # of values of 2^63 each
        if above > most or above < -most:  # no abs(): that of -2^63 is negative
            return BEYOND_ITS_EVENTS
        if without == events[i] and (above != 0 or (low.shape[0] > 0 and low[i] != 0)):
            return SUM_OF_NO_VALUES
    return 0


@kernel()
def problem_of_floats(high, low, events, nulls, unseen):
    """0, or why no events could have made these sums; `low` empty: zeros."""
    for i in range(events.shape[0]):
        without = lacking_at(i, events, nulls, unseen)
        if without < 0:
            return LACKS_TOO_OFTEN
        s = high[i]
        e = low[i] if low.shape[0] > 0 else 0.0
        if np.isnan(s) or s == -np.inf or (s == 0 and np.signbit(s)):
            return NO_NORMAL_PAIR
        if not np.isfinite(e) or s + e != s or (np.isinf(s) and e != 0):
            return NO_NORMAL_PAIR
        if without == events[i] and (s != 0 or e != 0):
            return SUM_OF_NO_VALUES
    return 0
