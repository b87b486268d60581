"""Items of levels with their weights; where quantiles stand, and the intervals around them."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.sorting import search, sort_pairs


@kernel()
def weighted(items, levels, each, values, weights):
    """Items of sorted levels in order, and their weights.

    `levels`: `each` numbers a level, of which the first is its size.
    """
    at = 0
    for level in range(levels.shape[0] // each):
        for _ in range(levels[each * level]):
            values[at] = items[at]
            weights[at] = np.int64(1) << level
            at += 1
    sort_pairs(values, weights)


@kernel()
def find_around(fractions, error, cumulative, ends, places):
    """Places of the items at each fraction, at `error` below it, and at `error` above it.

    `fractions` (float64[n]).
    `cumulative` (int64[m]): running sum of the items' weights; m > 0.
    `ends`: whether the exact ends stand before and after the items, so that places count from 1.
    `places` (int64[3, n]).
    Returns False where a fraction is not in [0, 1]: there is nothing to be found in `places` then.
    """
    total = cumulative[-1]
    for i in range(fractions.shape[0]):
        q = fractions[i]
        if not 0.0 <= q <= 1.0:
            return False
        for end in range(3):
            share = q
            if end == 1:
                share = max(q - error, 0.0)
            elif end == 2:
                share = min(q + error, 1.0)
            if ends and (q == 0.0 or (end == 1 and q <= error and q < 1.0)):
                places[end, i] = 0
                continue
            if ends and (q == 1.0 or (end == 2 and q >= 1.0 - error)):
                places[end, i] = cumulative.shape[0] + 1
                continue
            # 0.07 * 100 is 7.000000000000001 in doubles: one step down finds the 7th. A fraction
            # of 0 finds the first item that has a weight.
            need = max(np.nextafter(share * total, 0.0), 0.5)
            place = search(cumulative, 0, cumulative.shape[0], need, False)
            places[end, i] = place + ends
    return True
