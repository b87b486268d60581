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
from muntin.summaries.kernels.sampling import gather_levels, sample_blocks, shift_of, shift_of_merge
from muntin.summaries.kernels.sorting import sort_keys
from muntin.summaries.kernels.weighted_view import find_around, weighted

RUN_ITEMS_MAX = 1 << 15  # sorted at once
SAMPLER_SHARE = 0.2  # of KLL's variance, that the sampler in front may add


@kernel()
def _fold_one(run, k, caps, coins, out, offsets):
    """A sketch of a run of more than k items: levels in `out`; returns how many."""
    n = run.shape[0]
    # Blocks of 2^shift add n 2^shift / 4 at most to a rank's variance; KLL's own is n^2 / 4 k^2.
    shift = shift_of(SAMPLER_SHARE * n / (np.float64(k) * k), 1)
    kept = np.empty(0, np.int64)
    kept_offsets = np.zeros(2, np.int64)
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
    out[: kept.shape[0]] = kept
    return height


@kernel()
def fold_quantiles(bounds, k, caps, seed, starts, items, level_starts, levels, end_starts, ends):
    """Items of groups, each becoming a sketch, in place.

    `items` (int64[n]): group g is items[bounds[g]:bounds[g + 1]]. Sketches are put in front.
    `starts`, `level_starts`, `end_starts` (int64[groups + 1]): filled with the lists' starts.
    `levels`, `ends` (int64[...]): 62 and 2 for each group of more than k items.
    """
    filled = 0  # never beyond the group that is read: a sketch has no more items than its group
    offsets = np.empty(LEVELS_MAX + 2, np.int64)
    starts[0] = level_starts[0] = end_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        first = bounds[g]
        n = bounds[g + 1] - first
        run = items[first : first + n]
        at = level_starts[g]
        level_starts[g + 1] = at
        end_starts[g + 1] = end_starts[g]
        if n <= k:
            sort_keys(run)
            copy_to(items[filled:], run)
            filled += n
        else:
            low = high = run[0]
            for i in range(n):
                low = min(low, run[i])
                high = max(high, run[i])
            coins = coins_of(run, np.uint64(seed))
            out = np.empty(n, np.int64)
            height = _fold_one(run, k, caps, coins, out, offsets)
            size = offsets[height]
            copy_to(items[filled:], out[:size])
            filled += size
            for level in range(height):
                levels[at + level] = offsets[level + 1] - offsets[level]
            level_starts[g + 1] = at + height
            ends[end_starts[g]] = low
            ends[end_starts[g] + 1] = high
            end_starts[g + 1] += 2
        starts[g + 1] = filled


@kernel()
def _flatten(rows, starts, items, level_starts, levels, flat, edges, heights):
    """The sketches of rows in a row, with their levels' edges; returns edges used.

    A sketch of h levels has h + 1 edges, where its levels begin and end in `flat`.
    """
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
    return edge


@kernel()
def merge_quantiles(
    starts, items, level_starts, levels, end_starts, ends, order, bounds, k, caps, seed,
    out_starts, out_items, out_level_starts, out_levels, out_end_starts, out_ends,
):  # fmt: skip
    """Sketches of groups as one each. Lists as in `fold_quantiles`; a single one stays as it is.

    `order`, `bounds` (int64[rows], int64[groups + 1]): group g is made of the rows
      order[bounds[g]:bounds[g + 1]].
    `out_items` (int64[n]): as many as the sketches have together.
    `out_levels`, `out_ends` (int64[...]): 62 and 2 for each group that may get levels.
    """
    filled = 0
    out_starts[0] = out_level_starts[0] = out_end_starts[0] = 0
    offsets = np.empty(LEVELS_MAX + 2, np.int64)
    for g in range(bounds.shape[0] - 1):
        rows = order[bounds[g] : bounds[g + 1]]
        total = 0
        heights_sum = 0
        levels_max = 1
        compacted = False
        low = high = np.int64(0)
        some = False
        for i in range(rows.shape[0]):
            row = rows[i]
            size = starts[row + 1] - starts[row]
            if size == 0:
                continue
            total += size
            height = level_starts[row + 1] - level_starts[row]
            if height:
                compacted = True
                heights_sum += height
                levels_max = max(levels_max, height)
                first = ends[end_starts[row]]
                last = ends[end_starts[row] + 1]
            else:
                heights_sum += 1
                first = items[starts[row]]
                last = items[starts[row + 1] - 1]
            low = min(low, first) if some else first
            high = max(high, last) if some else last
            some = True
        at = out_level_starts[g]
        out_level_starts[g + 1] = at
        out_end_starts[g + 1] = out_end_starts[g]
        if rows.shape[0] == 1 or (not compacted and total <= k):  # nothing is lost
            first = filled
            filled = append_lists(starts, items, rows, out_items, filled)
            if rows.shape[0] > 1:
                sort_keys(out_items[first:filled])
            # there are levels only where it is a single row
            out_level_starts[g + 1] = append_lists(level_starts, levels, rows, out_levels, at)
        else:
            flat = np.empty(total, np.int64)
            edges = np.empty(heights_sum + 2 * rows.shape[0], np.int64)
            heights = np.empty(rows.shape[0], np.int64)
            edge = _flatten(rows, starts, items, level_starts, levels, flat, edges, heights)
            coins = coins_of(flat, np.uint64(seed))
            shift = shift_of_merge(edges, heights, k)
            united_levels = max(levels_max, shift + 1)
            united = np.empty(total, np.int64)
            united_offsets = np.empty(united_levels + 1, np.int64)
            gather_levels(flat, edges[:edge], heights, shift, coins, united, united_offsets)
            for level in range(united_levels):
                sort_keys(united[united_offsets[level] : united_offsets[level + 1]])
            # All stacks are one already: it is united with an empty one, so as to be compacted.
            space = np.empty(total, np.int64)
            height = absorb(
                united[:0], None, np.zeros(2, np.int64), united, None, united_offsets,
                caps, k // 8, 0, coins, space, None, offsets,
            )  # fmt: skip
            copy_to(out_items[filled:], space[: offsets[height]])
            filled += offsets[height]
            for level in range(height):
                out_levels[at + level] = offsets[level + 1] - offsets[level]
            out_level_starts[g + 1] = at + height
        if out_level_starts[g + 1] > at:
            out_ends[out_end_starts[g]] = low
            out_ends[out_end_starts[g] + 1] = high
            out_end_starts[g + 1] += 2
        out_starts[g + 1] = filled


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
