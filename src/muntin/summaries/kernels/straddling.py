"""The pane that a sliding window's edge cuts: which share of its items is still inside."""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import kernel


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
