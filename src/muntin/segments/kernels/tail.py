"""Relative compactors over many groups at once: one sketch a group.

A sketch is a list of items (int64 keys) level by level, and for each level its size and its turns
(how often it was compacted, and its last coin). Without levels it is all items, sorted, and nothing
is lost. A batch is compacted at once: most items in few large steps, of which each costs a rank at
most one pair.
"""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.compaction import LEVELS_MAX
from muntin.summaries.kernels.copying import copy_to
from muntin.summaries.kernels.relative import DEVIATION, EXACT_IN_K, coins_of, compact_stack
from muntin.summaries.kernels.sampling import sample_blocks
from muntin.summaries.kernels.sorting import sort_keys

RUN_ITEMS_MAX = 1 << 15  # sorted at once
SAMPLED = 1 << 11  # items that tell where the upper quarter begins
FOLD_SHARE = 0.2  # of a rank's variance, that sampling in front may add
SHIFT_MAX = 20


@kernel()
def _sampled(part, shift, coins, out, sizes):
    """The upper quarter of a run as it is, and a sample of the rest: a stack, not sorted.

    Returns its levels, and its items; 0 levels where so many items are alike that there is no
    upper quarter.
    """
    n = part.shape[0]
    step = n // SAMPLED + 1
    found = part[::step].copy()
    sort_keys(found)
    threshold = found[found.shape[0] - found.shape[0] // 4]
    rest = np.empty(n, np.int64)
    above = 0
    below = 0
    for i in range(n):
        item = part[i]
        rest[below] = item
        out[above] = item
        if item < threshold:
            below += 1
        else:
            above += 1
    if 2 * above > n:
        return 0, 0
    space = np.empty((below >> shift) + shift, np.int64)
    offsets = np.empty(shift + 2, np.int64)
    sample_blocks(rest[:below], False, shift, coins, space, offsets)
    for level in range(shift + 1):
        sizes[level] = offsets[level + 1] - offsets[level]
    sizes[0] += above
    for i in range(offsets[shift + 1]):
        out[above + i] = space[i]
    return shift + 1, above + offsets[shift + 1]


@kernel()
def _fold_one(run, k, coins, turns, out, sizes):
    """A sketch of a run of items; returns its levels and items.

    A block of 2^shift items that come one after the other adds at most 4^shift / 4 to the variance
    of a rank that cuts it: with a quarter of all above, that stays in its share.
    """
    n = run.shape[0]
    limit = FOLD_SHARE * n * DEVIATION * DEVIATION / (4.0 * k * k)
    shift = 0
    while shift < SHIFT_MAX and np.float64(np.int64(2) << shift) <= limit:
        shift += 1
    kept = np.empty(0, np.int64)
    kept_sizes = np.empty(0, np.int64)
    height = filled = 0
    own = np.empty(SHIFT_MAX + 1, np.int64)
    chunk = RUN_ITEMS_MAX << shift
    new = np.empty(min(n, chunk) + shift, np.int64)
    for start in range(0, n, chunk):
        part = run[start : min(start + chunk, n)]
        levels, taken = 0, 0
        if shift:
            levels, taken = _sampled(part, shift, coins, new, own)
        if levels == 0:
            levels, taken = 1, part.shape[0]
            own[0] = taken
            copy_to(new, part)
        at = 0
        for level in range(levels):
            sort_keys(new[at : at + own[level]])
            at += own[level]
        space = np.empty(kept.shape[0] + taken, np.int64)
        height, filled = compact_stack(
            kept, kept_sizes, new[:taken], own[:levels], turns, k, coins, space, sizes
        )
        kept = space[:filled].copy()
        kept_sizes = sizes[:height].copy()
    copy_to(out, kept)
    return height, filled


@kernel()
def fold_tail(items, bounds, k, seed, starts, levels, level_starts, least, least_starts):
    """Items of groups, each becoming a sketch, in place.

    Parameters
    ----------
    items : int64[n]
        Group g is items[bounds[g]:bounds[g + 1]]. Sketches are put in front.
    starts, level_starts, least_starts : int64[groups + 1]
        Filled with the lists' starts.
    levels, least : int64[...]
        2 x LEVELS_MAX and 1 for each group of more than EXACT_IN_K x k items.
    """
    filled = 0
    sizes = np.empty(LEVELS_MAX + 2, np.int64)
    starts[0] = level_starts[0] = least_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        first = bounds[g]
        n = bounds[g + 1] - first
        run = items[first : first + n]
        at = level_starts[g]
        level_starts[g + 1] = at
        least_starts[g + 1] = least_starts[g]
        if n <= EXACT_IN_K * k:
            sort_keys(run)
            for i in range(n):
                items[filled + i] = run[i]
            filled += n
        else:
            low = run[0]
            for i in range(n):
                low = min(low, run[i])
            turns = np.zeros(LEVELS_MAX + 2, np.int64)
            out = np.empty(n, np.int64)
            height, size = _fold_one(run, k, coins_of(run, seed), turns, out, sizes)
            for i in range(size):
                items[filled + i] = out[i]
            filled += size
            for level in range(height):
                levels[at + 2 * level] = sizes[level]
                levels[at + 2 * level + 1] = turns[level]
            level_starts[g + 1] = at + 2 * height
            least[least_starts[g]] = low
            least_starts[g + 1] += 1
        starts[g + 1] = filled
