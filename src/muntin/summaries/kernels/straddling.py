"""A sliding window's items: the share of a cut pane that is still inside, and all in one run."""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.sorting import sort_keys


@kernel()
def surviving(weights, stamps, edge, survivors, total, out):
    """Weights of a pane's items (sorted by value) as far as the window still holds them.

    Parameters
    ----------
    weights, stamps : int64[n]
        The weights' sum is `total`.
    edge : int64
        Items with a stamp below it have left.
    survivors : int64
        How many of the pane's `total` items are inside: known exactly, 0 < survivors <= total.
    out : int64[n]
        New weights, which add up to `survivors` exactly.

    Notes
    -----
    Items inside are scaled to the survivors. Of the items <= x in the whole pane, at most the
    expired are gone and at most the survivors are left: the running sum is held between the two,
    which bounds the error whatever the sample of stamps was.
    """
    n = weights.shape[0]
    inside = 0
    for i in range(n):
        if stamps[i] >= edge:
            inside += weights[i]
    expired = total - survivors
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

    Parameters
    ----------
    newest, offsets : int64[m], int64[levels + 1]
        A stack's array, which is not changed, and where its levels begin. All levels but the
        first are sorted.
    keys, cumulative : int64[len(a) + len(b) + items of the stack]
        Filled.
    """
    held = newest.shape[0] - offsets[0]
    own, own_weights = np.empty(held, np.int64), np.empty(held, np.int64)
    spare, spare_weights = np.empty(held, np.int64), np.empty(held, np.int64)
    n = offsets[1] - offsets[0]
    own[:n] = newest[offsets[0] : offsets[1]]
    sort_keys(own[:n])
    own_weights[:n] = 1
    for level in range(1, offsets.shape[0] - 1):
        start = offsets[level]
        size = offsets[level + 1] - start
        weights = np.full(size, np.int64(1) << level)
        _merge(own, own_weights, n, newest[start:], weights, size, spare, spare_weights)
        own, spare = spare, own
        own_weights, spare_weights = spare_weights, own_weights
        n += size
    both, both_weights = np.empty(n + a.shape[0], np.int64), np.empty(n + a.shape[0], np.int64)
    _merge(a, a_weights, a.shape[0], own, own_weights, n, both, both_weights)
    n += a.shape[0]
    _merge_summed(both, both_weights, n, b, b_weights, b.shape[0], keys, cumulative)


# Neither has a branch in its loop that depends on the keys: nobody could foresee it.


@kernel()
def _merge(x, x_weights, n, y, y_weights, m, out, out_weights):
    """Two sorted runs of n and m items into one."""
    i = 0
    j = 0
    while i < n and j < m:
        one = x[i]
        other = y[j]
        second = other < one
        out[i + j] = other if second else one
        out_weights[i + j] = y_weights[j] if second else x_weights[i]
        j += second
        i += not second
    while j < m:
        out[i + j] = y[j]
        out_weights[i + j] = y_weights[j]
        j += 1
    while i < n:
        out[i + j] = x[i]
        out_weights[i + j] = x_weights[i]
        i += 1


@kernel()
def _merge_summed(x, x_weights, n, y, y_weights, m, out, cumulative):
    """`_merge`, with the running sum of the weights."""
    i = 0
    j = 0
    running = np.int64(0)
    while i < n and j < m:
        one = x[i]
        other = y[j]
        second = other < one
        out[i + j] = other if second else one
        running += y_weights[j] if second else x_weights[i]
        cumulative[i + j] = running
        j += second
        i += not second
    while j < m:
        running += y_weights[j]
        out[i + j] = y[j]
        cumulative[i + j] = running
        j += 1
    while i < n:
        running += x_weights[i]
        out[i + j] = x[i]
        cumulative[i + j] = running
        i += 1
