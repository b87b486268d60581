"""Relative compactors over many groups at once: one sketch a group.

A sketch is a list of items (int64 keys) level by level, and for each level its size and its turns
(how often it was compacted, and its last coin). Without levels it is all items, sorted, and nothing
is lost. A batch is compacted at once: most items in few large steps, of which each costs a rank at
most one pair.
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.compaction import draw
from muntin.summaries.kernels.copying import copy_to, fill
from muntin.summaries.kernels.order_keys import KEY_OF_MINUS_ZERO, LOW_63, key_of
from muntin.summaries.kernels.relative import DEVIATION, compact_stack
from muntin.summaries.kernels.sorting import sort_keys

SAMPLED_MAX = 1 << 22  # items taken at once where most are sampled
SORTED_MAX = 1 << 15  # and where all are sorted
BLOCK = 1 << 11  # keys at once, in the first-level cache; so many tell where a quarter begins
FOLD_SHARE = 0.2  # of a rank's variance, that sampling in front may add
SHIFT_MAX = 20
TIERS_MAX = 20
INTEGERS, DOUBLES, FLOATS = 0, 1, 2  # what items are; of FLOATS, those of float32 that are nearest
PAYS = 6.0  # items x `allowed`: with a quarter of them above, blocks of two may be taken


@kernel()
def _make_keys(items, form, keys, ends):
    """Keys of items; `ends` goes down to the least and up to the greatest."""
    n = items.shape[0]
    low, high = ends[0], ends[1]
    if form == INTEGERS:
        for i in range(n):
            key = np.int64(items[i])
            low = min(low, key)
            high = max(high, key)
            keys[i] = key
    else:
        doubles = np.empty(n, np.float64)
        for i in range(n):
            doubles[i] = np.float32(items[i]) if form == FLOATS else items[i]
        bits = doubles.view(np.int64)
        for i in range(n):
            key = key_of(bits[i])
            low = min(low, key)
            high = max(high, key)
            keys[i] = np.int64(0) if key == KEY_OF_MINUS_ZERO else key
    ends[0], ends[1] = low, high


@kernel()
def _upper_quarter(items, form, keys):
    """About where it begins, and the share of the items that are not below that."""
    found = items[:: items.shape[0] // BLOCK + 1].copy()
    n = found.shape[0]
    _make_keys(found, form, keys, np.zeros(2, np.int64))
    sort_keys(keys[:n])
    at = n - n // 4
    threshold = keys[at]
    while at and keys[at - 1] == threshold:
        at -= 1
    return threshold, (n - at) / n


@kernel()
def _divide(keys, threshold, shift, coins, lows, above, taken, place):
    """Keys from the threshold on, to `above`; of each 2^shift of the others one, to `taken`.

    lows : int64[len(keys)]
        Space.
    place : int64[4]
        How many are above and how many below, where `taken` begins (it grows downwards, and has
        one too many where the last block is not full), and which of those below is taken next.
        Advanced.
    """
    mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    filled, below, end, wanted = place[0], place[1], place[2], place[3]
    # Each key is written to both places, and only one of them moves on: no branch, which nobody
    # could foresee. Numba asks of a signed place whether it counts from the end.
    at, low = np.uint64(filled), np.uint64(0)
    for i in range(keys.shape[0]):
        key = keys[i]
        above[at] = key
        lows[low] = key
        is_above = np.uint64(key >= threshold)
        at += is_above
        low += np.uint64(1) - is_above
    first = below
    below += np.int64(low)
    while wanted < below:
        end -= 1
        taken[end] = lows[wanted - first]
        wanted = (((wanted >> shift) + 1) << shift) + np.int64(draw(coins) & mask)
    place[0], place[1], place[2], place[3] = np.int64(at), below, end, wanted


@kernel()
def _tier(items, form, allowed, shift_max, coins, keys, lows, above, taken, end, ends):
    """Sample what is below the upper quarter of items (see `_sampled`), where that pays. Returns
    the blocks' shift, or 0; how many items are left, in `above`; where `taken` begins."""
    n = items.shape[0]
    threshold, share = _upper_quarter(items, form, keys)
    place = np.empty(4, np.int64)
    shift = shift_max
    limit = allowed * min(share, 1.0 - share) * n / max(1.0 - share, 1.0 / n)
    while True:
        # What a few items tell of their number is a little off: it is counted, then looked at.
        while shift and np.float64(np.int64(1) << shift) > limit:
            shift -= 1
        if shift == 0:
            return 0, 0, end
        mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
        place[0] = place[1] = 0
        place[2] = end
        place[3] = np.int64(draw(coins) & mask)
        for first in range(0, n, BLOCK):
            made = keys[: min(BLOCK, n - first)]
            _make_keys(items[first : first + made.shape[0]], form, made, ends)
            _divide(made, threshold, shift, coins, lows, above, taken, place)
        filled, below = place[0], place[1]
        limit = allowed * min(filled, below) * n / max(below, 1)
        if np.float64(np.int64(1) << shift) <= limit:
            break
    rest = below & np.int64(mask)
    left = filled + rest
    first = (n - 1) // BLOCK * BLOCK
    while rest:  # the last ones below, which fill no block, stay: they are looked for from the end
        made = keys[: min(BLOCK, n - first)]
        _make_keys(items[first : first + made.shape[0]], form, made, ends)
        for i in range(made.shape[0] - 1, -1, -1):
            if rest and made[i] < threshold:
                rest -= 1
                above[filled + rest] = made[i]
        first -= BLOCK
    return shift, left, end - (below >> shift)


@kernel()
def _sampled(items, form, allowed, coins, one, other, taken, sizes, ends):
    """Items, not sorted, as a stack of levels at the end of `taken`; its first item, its levels.

    A tier is what is below the upper quarter of the items that no tier has yet. Of each block of
    2^shift of its items one is taken. A rank that m items of a tier of size `below` are above has a
    variance of at most 2^shift m (1 - m / below) from it, whichever blocks these are in, and
    nothing from the other tiers. With `above` items over the tier, that is at most 2^shift below /
    (4 above (above + below)) of the square of all that is above: at most `allowed` / 4. Where many
    items are alike and most are over the tier, `below` stands for `above`, so that it is as little
    of the square of everything.

    `one`, `other`, `taken` (int64[n]): space.
    `ends` (int64[2]): filled with the least and the greatest key.
    """
    keys, lows = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    end = taken.shape[0]
    fill(sizes, 0)
    left = items.shape[0]
    shift = 0
    height = 1
    if allowed * left >= PAYS:
        shift, left, end = _tier(
            items, form, allowed, SHIFT_MAX, coins, keys, lows, one, taken, end, ends
        )
    if shift == 0:
        left = items.shape[0]
        _make_keys(items, form, one, ends)
    tiers = 0
    before = taken.shape[0]
    while shift and tiers < TIERS_MAX:
        sizes[shift] += before - end
        height = max(height, shift + 1)
        before = end
        tiers += 1
        if allowed * left < PAYS:
            break
        # Blocks become smaller towards the top, where fewer items are above them.
        shift, rest, end = _tier(
            one[:left], INTEGERS, allowed, shift, coins, keys, lows, other, taken, end, ends
        )
        if shift:
            left = rest
            one, other = other, one
    copy_to(taken[end - left :], one[:left])
    sizes[0] = left
    return end - left, height


@kernel()
def fold_run(items, form, k, coins, turns, sizes, ends):
    """A sketch of items (integers, or values of `form`); returns what it keeps, and its levels.

    `turns`, `sizes` (int64[LEVELS_MAX + 2]): of levels; `turns` begins as zeros.
    `ends` (int64[2]): filled with the least and the greatest key.
    """
    n = items.shape[0]
    ends[0], ends[1] = LOW_63, ~LOW_63
    kept = np.empty(0, np.int64)
    kept_sizes = np.empty(0, np.int64)
    height = filled = 0
    own = np.empty(SHIFT_MAX + 1, np.int64)
    # A rank's variance is (DEVIATION / k)^2 of the square of what is above; see `_sampled`.
    allowed = 4 * FOLD_SHARE * DEVIATION * DEVIATION / (k * k)
    chunk = SAMPLED_MAX if allowed * min(n, SAMPLED_MAX) >= 2 * PAYS else SORTED_MAX
    one, other = np.empty(min(n, chunk), np.int64), np.empty(min(n, chunk), np.int64)
    taken = np.empty(min(n, chunk), np.int64)
    for start in range(0, n, chunk):
        part = items[start : min(start + chunk, n)]
        size = part.shape[0]
        at, levels = _sampled(part, form, allowed, coins, one, other, taken[:size], own, ends)
        new = taken[at:size]
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
    return kept, height
