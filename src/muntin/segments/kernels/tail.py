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
from muntin.summaries.kernels.copying import copy_to, fill
from muntin.summaries.kernels.relative import DEVIATION, EXACT_IN_K, coins_of, compact_stack
from muntin.summaries.kernels.sampling import sample_blocks
from muntin.summaries.kernels.sorting import sort_keys

SAMPLED_MAX = 1 << 20  # items taken at once where most are sampled
SORTED_MAX = 1 << 15  # and where all are sorted
SAMPLED = 1 << 11  # items that tell where an upper quarter begins
FOLD_SHARE = 0.2  # of a rank's variance, that sampling in front may add
SHIFT_MAX = 20
TIERS_MAX = 20
PAYS = 6.0  # items x `allowed`: with a quarter of them above, blocks of two may be taken


@kernel()
def _part(items, spare):
    """Put what is below the upper quarter into `spare`, and the rest in front; how many each."""
    n = items.shape[0]
    found = items[:: n // SAMPLED + 1].copy()
    sort_keys(found)
    threshold = found[found.shape[0] - found.shape[0] // 4]
    above = 0
    below = 0
    for i in range(n):
        item = items[i]
        spare[below] = item
        items[above] = item
        lower = item < threshold  # no branch: nobody could foresee it
        below += lower
        above += not lower
    return above, below


@kernel()
def _sampled(items, allowed, coins, spare, sizes):
    """Items, not sorted, as a stack of levels in their own place; its first item and its levels.

    A tier is what is below the upper quarter of the items that no tier has yet. Of each block of
    2^shift of its items one is taken. A rank that m items of a tier of size `below` are above has
    a variance of at most 2^shift m (1 - m / below) from it, whichever blocks these are in, and
    nothing from the other tiers. With `above` items over the tier, that is at most
    2^shift below / (4 above (above + below)) of the square of all that is above: at most
    `allowed` / 4. Where many items are alike and most are over the tier, `below` stands for
    `above`, so that it is as little of the square of everything.
    """
    left = end = items.shape[0]
    offsets = np.empty(SHIFT_MAX + 2, np.int64)
    fill(sizes, 0)
    levels = 1
    shift = SHIFT_MAX
    for _ in range(TIERS_MAX):
        if allowed * left < PAYS:
            break
        above, below = _part(items[:left], spare)
        limit = allowed * min(above, below) * left / max(below, 1)
        while shift and np.float64(np.int64(1) << shift) > limit:
            shift -= 1
        whole = below >> shift << shift if shift else 0
        copy_to(items[above:], spare[whole:below])  # what fills no block stays as it is
        left -= whole
        if whole == 0:
            break
        first = end - (whole >> shift)
        sample_blocks(spare[:whole], False, shift, coins, items[first:end], offsets)
        sizes[shift] += end - first
        levels = max(levels, shift + 1)
        end = first
    for i in range(1, left + 1):
        items[end - i] = items[left - i]
    sizes[0] = left
    return end - left, levels


@kernel()
def _fold_one(run, k, coins, turns, out, sizes):
    """A sketch of a run of items, which is overwritten; returns its levels and items."""
    n = run.shape[0]
    kept = np.empty(0, np.int64)
    kept_sizes = np.empty(0, np.int64)
    height = filled = 0
    own = np.empty(SHIFT_MAX + 1, np.int64)
    allowed = 4 * FOLD_SHARE * DEVIATION * DEVIATION / (k * k)
    chunk = SAMPLED_MAX if allowed * SAMPLED_MAX >= 2 * PAYS else SORTED_MAX
    spare = np.empty(min(n, chunk), np.int64)
    for start in range(0, n, chunk):
        part = run[start : min(start + chunk, n)]
        at, levels = _sampled(part, allowed, coins, spare, own)
        new = part[at:]
        at = 0
        for level in range(levels):
            sort_keys(new[at : at + own[level]])
            at += own[level]
        space = np.empty(kept.shape[0] + at, np.int64)
        height, filled = compact_stack(
            kept, kept_sizes, new, own[:levels], turns, k, coins, space, sizes
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
