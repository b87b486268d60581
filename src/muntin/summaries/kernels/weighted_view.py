"""Items of levels and of windows with their weights; where quantiles stand, and the intervals
around them."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.compaction import merge_runs
from muntin.summaries.kernels.copying import copy_to, fill
from muntin.summaries.kernels.sorting import search, sort_keys, sort_pairs


@kernel()
def weighted(items, levels, each, values, weights):
    """Items of sorted levels in order, and their weights. `levels`: `each` numbers a level, of
    which the first is its size."""
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


@kernel()
def surviving(weights, stamps, edge, survivors, total, out):
    """Weights of a pane's items (sorted by value) as far as the window still holds them.

    Items inside are scaled to the survivors. Of the items <= x in the whole pane, at most the
    expired are gone and at most the survivors are left: the running sum is kept between the two,
    which bounds the error whatever the sample of stamps was.

    `weights`, `stamps` (int64[n]): the weights' sum is `total`.
    `edge`: items with a stamp below it have left.
    `survivors`: how many of the pane's `total` items are inside: known exactly, 0 < survivors <=
      total.
    `out` (int64[n]): new weights, which add up to `survivors` exactly.
    """
    n = weights.shape[0]
    inside = 0
    for i in range(n):
        if stamps[i] >= edge:
            inside += weights[i]
    expired = total - survivors
    # Where the sample of stamps shows none inside, though some are, all items share them.
    scale = survivors / inside if inside > 0 else survivors / total
    whole = 0
    kept = 0
    before = 0
    for i in range(n):
        whole += weights[i]
        if inside == 0 or stamps[i] >= edge:
            kept += weights[i]
        running = np.int64(np.floor(kept * scale + 0.5))
        running = max(running, max(whole - expired, 0))
        running = min(running, min(whole, survivors))
        out[i] = running - before
        before = running


@kernel()
def join_runs(a, a_weights, b, b_weights, newest, offsets, keys, cumulative):
    """Two sorted runs and the items of a stack as one sorted run, with its running weight.

    `newest`, `offsets` (int64[m], int64[levels + 1]): a stack's array, which is not changed, and
      where its levels begin. All levels but the first are sorted.
    `keys`, `cumulative` (int64[len(a) + len(b) + items of the stack]): filled.
    """
    size = newest.shape[0] - offsets[0]
    own, own_weights = np.empty(size, np.int64), np.empty(size, np.int64)
    spare, spare_weights = np.empty(size, np.int64), np.empty(size, np.int64)
    n = offsets[1] - offsets[0]
    copy_to(own, newest[offsets[0] : offsets[1]])
    sort_keys(own[:n])
    fill(own_weights[:n], 1)
    for level in range(1, offsets.shape[0] - 1):
        start = offsets[level]
        size = offsets[level + 1] - start
        weights = np.full(size, np.int64(1) << level)
        level_items = newest[start : start + size]
        merge_runs(own, own_weights, 0, n, level_items, weights, 0, size, spare, spare_weights)
        own, spare = spare, own
        own_weights, spare_weights = spare_weights, own_weights
        n += size
    both, both_weights = np.empty(n + a.shape[0], np.int64), np.empty(n + a.shape[0], np.int64)
    n = merge_runs(a, a_weights, 0, a.shape[0], own, own_weights, 0, n, both, both_weights)
    n = merge_runs(both, both_weights, 0, n, b, b_weights, 0, b.shape[0], keys, cumulative)
    for i in range(1, n):
        cumulative[i] += cumulative[i - 1]
