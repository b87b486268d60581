"""KLL over many groups at once: one sketch a group, each a sorted list as long as it is small.

A sketch is a list of items (int64 keys), the sizes of its levels (an empty list: one level, all
items, sorted, nothing lost) and its two ends (a list of two where there are levels; else they are
the first and the last item). Coins come from what is merged, so that the same parts give the same
bytes and different ones different coins.
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.compaction import LEVELS_MAX, absorb, coins_of
from muntin.summaries.kernels.copying import append_lists, copy_to
from muntin.summaries.kernels.order_keys import extremes
from muntin.summaries.kernels.sampling import gather_levels, sample_blocks, shift_of, shift_of_merge
from muntin.summaries.kernels.sorting import sort_keys
from muntin.summaries.kernels.weighted_view import find_around, weighted

RUN_ITEMS_MAX = 1 << 15  # sorted at once
SAMPLER_SHARE = 0.2  # of KLL's variance, that the sampler in front may add


@kernel()
def fold_levels(run, k, caps, coins, sizes, ends):
    """A sketch of a run of more than k items; returns what it keeps, and its levels.

    `sizes` (int64[LEVELS_MAX + 2]): filled with those of the levels.
    `ends` (int64[2]): filled with the least and the greatest item.
    """
    n = run.shape[0]
    ends[0], ends[1] = extremes(run, False)
    # Blocks of 2^shift add n 2^shift / 4 at most to a rank's variance; KLL's own is n^2 / 4 k^2.
    shift = shift_of(SAMPLER_SHARE * n / (np.float64(k) * k), 1)
    kept = np.empty(0, np.int64)
    kept_offsets = np.zeros(2, np.int64)
    offsets = np.empty(LEVELS_MAX + 2, np.int64)
    height = 1
    chunk = RUN_ITEMS_MAX << shift
    for start in range(0, n, chunk):
        part = run[start : min(start + chunk, n)]
        if shift == 0:
            new = part.copy()
            sort_keys(new)
            new_offsets = np.zeros(2, np.int64)
            new_offsets[1] = part.shape[0]
        else:
            new = np.empty((part.shape[0] >> shift) + shift, np.int64)
            new_offsets = np.empty(shift + 2, np.int64)
            sample_blocks(part, False, shift, coins, new, new_offsets)
            sort_keys(new[new_offsets[shift] : new_offsets[shift + 1]])
        space = np.empty(kept.shape[0] + new.shape[0], np.int64)
        height = absorb(
            kept, None, kept_offsets, new, None, new_offsets, caps, k // 8, 0, coins,
            space, None, offsets,
        )  # fmt: skip
        kept = space[: offsets[height]].copy()
        kept_offsets = offsets[: height + 1].copy()
    for level in range(height):
        sizes[level] = offsets[level + 1] - offsets[level]
    return kept, height


@kernel()
def _flatten(rows, starts, items, level_starts, levels, flat, edges, heights):
    """The sketches of rows in a row, with their levels' edges. A sketch of h levels has h + 1
    edges, where its levels begin and end in `flat`."""
    append_lists(starts, items, rows, flat, 0)
    at = 0
    edge = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        size = starts[row + 1] - starts[row]
        height = level_starts[row + 1] - level_starts[row]
        edges[edge] = at
        if height == 0:
            edges[edge + 1] = at + size
            height = 1
        else:
            for level in range(height):
                own = levels[level_starts[row] + level]
                edges[edge + level + 1] = edges[edge + level] + own
        heights[i] = height
        edge += height + 1
        at += size


@kernel()
def merge_levels(rows, starts, items, level_starts, levels, k, caps, seed, sizes, out):
    """The sketches of rows as one, in front of `out`; returns its levels and items. `sizes`
    (int64[LEVELS_MAX + 2]): filled with those of the levels."""
    total = 0
    heights_sum = 0
    levels_max = 1
    for row in rows:
        total += starts[row + 1] - starts[row]
        height = max(level_starts[row + 1] - level_starts[row], 1)
        heights_sum += height
        levels_max = max(levels_max, height)
    flat = np.empty(total, np.int64)
    edges = np.empty(heights_sum + rows.shape[0], np.int64)
    heights = np.empty(rows.shape[0], np.int64)
    _flatten(rows, starts, items, level_starts, levels, flat, edges, heights)
    coins = coins_of(flat, seed)
    shift = shift_of_merge(edges, heights, k)
    united_levels = max(levels_max, shift + 1)
    united = np.empty(total, np.int64)
    offsets = np.empty(united_levels + 1, np.int64)
    gather_levels(flat, edges, heights, shift, coins, united, offsets)
    for level in range(united_levels):
        sort_keys(united[offsets[level] : offsets[level + 1]])
    # All stacks are one already: it is united with an empty one, so as to be compacted.
    space, space_offsets = np.empty(total, np.int64), np.empty(LEVELS_MAX + 2, np.int64)
    height = absorb(
        united[:0], None, np.zeros(2, np.int64), united, None, offsets,
        caps, k // 8, 0, coins, space, None, space_offsets,
    )  # fmt: skip
    copy_to(out, space[: space_offsets[height]])
    for level in range(height):
        sizes[level] = space_offsets[level + 1] - space_offsets[level]
    return height, space_offsets[height]


@kernel()
def quantiles(
    starts, items, level_starts, levels, end_starts, ends, fractions, error, out
):  # fmt: skip
    """`out[:, row, i]` = key at fraction i, and at the ends of its interval. No row is empty."""
    size = 1
    for row in range(starts.shape[0] - 1):
        size = max(size, starts[row + 1] - starts[row])
    values = np.empty(size, np.int64)
    cumulative = np.empty(size, np.int64)
    ones = np.arange(1, size + 1)
    places = np.empty((3, fractions.shape[0]), np.int64)
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        if level_starts[row + 1] > level_starts[row]:
            own = levels[level_starts[row] : level_starts[row + 1]]
            weighted(items[first : first + n], own, 1, values[:n], cumulative[:n])
            for i in range(1, n):
                cumulative[i] += cumulative[i - 1]
            find_around(fractions, error, cumulative[:n], True, places)
            low = ends[end_starts[row]]
            high = ends[end_starts[row] + 1]
        else:
            copy_to(values, items[first : first + n])
            find_around(fractions, 0.0, ones[:n], True, places)
            low = values[0]
            high = values[n - 1]
        for e in range(3):
            for i in range(fractions.shape[0]):
                place = places[e, i]  # the ends stand before the first item and after the last
                if place == 0:
                    out[e, row, i] = low
                elif place == n + 1:
                    out[e, row, i] = high
                else:
                    out[e, row, i] = values[place - 1]
