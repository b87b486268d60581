"""Sorted sets of fingerprints, and dyadic q-digests, of many groups at once.

A node of a digest is its number in the binary tree over 2**bits cells, as in
`muntin.summaries.kernels.qdigest`, which answers of each row; node lists ascend. A row has `ends`,
its first and last cell, where it has a node that is no leaf.

Searches and sorts are our own: `np.argsort` and `np.searchsorted` gave wrong places here, in
processes that had loaded certain other kernels from Numba's cache before.
"""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.copying import append_lists
from muntin.summaries.kernels.qdigest import (
    add_up,
    compress,
    count_sorted,
    index,
    quantiles,
    ranks,
    span,
)
from muntin.summaries.kernels.sorting import search, sort_keys

TIE = 2.0**-52  # a fraction is what was written: 0.07 of 100 is the seventh


@kernel()
def _as_set(prints, first, end, filled):
    """Numbers first ... end - 1 in order, those that are equal as one, put to `filled`."""
    sort_keys(prints[first:end])
    last = np.int64(-1)
    for i in range(first, end):
        if prints[i] != last:
            last = prints[i]
            prints[filled] = last
            filled += 1
    return filled


@kernel()
def fold_sets(prints, bounds, starts):
    """Numbers of groups, in place, as one ascending set a group."""
    filled = 0
    starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        filled = _as_set(prints, bounds[g], bounds[g + 1], filled)
        starts[g + 1] = filled


@kernel()
def merge_sets(starts, prints, order, bounds, out_starts, out):
    """The union of the sets of each group; `out` holds all of them."""
    filled = 0
    out_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        rows = order[bounds[g] : bounds[g + 1]]
        end = append_lists(starts, prints, rows, out, filled)
        filled = end if rows.shape[0] == 1 else _as_set(out, filled, end, filled)
        out_starts[g + 1] = filled


@kernel()
def contains(starts, prints, asked, out):
    """`out[row, i]`: whether number i is in the row's set."""
    for row in range(out.shape[0]):
        own = prints[starts[row] : starts[row + 1]]
        for i in range(asked.shape[0]):
            at = search(own, 0, own.shape[0], asked[i], False)
            out[row, i] = at < own.shape[0] and own[at] == asked[i]


@kernel()
def _squeezed(ids, counts, leaf, total, k):
    """Compress the nodes, in place; how many are left."""
    left = ids.shape[0]
    for whole in (True, False):  # the second keeps the bound on the nodes, whatever the data
        if left > 4 * k:
            left = compress(ids[:left], counts[:left], leaf, total // k, whole)
    return left


@kernel()
def fold_leaves(leaves, bounds, starts, ids, counts):
    """Leaves of groups, in place, as one digest a group, of leaves alone; the most that one has.

    `leaves` (int64[n]): group g is leaves[bounds[g]:bounds[g + 1]].
    `ids`, `counts` (int64[n]): filled from the front.
    """
    starts[0] = most = 0
    for g in range(bounds.shape[0] - 1):
        own = leaves[bounds[g] : bounds[g + 1]]
        sort_keys(own)
        nodes = count_sorted(own, ids[starts[g] :], counts[starts[g] :])
        starts[g + 1] = starts[g] + nodes
        most = max(most, nodes)
    return most


@inlined()
def _extremes(ids, outer, leaf):
    """First and last cell of a row, which are its `outer` where it has a node that is no leaf."""
    if outer.shape[0]:
        return outer[0], outer[1]
    return ids[0] - leaf, ids[-1] - leaf


@kernel()
def merge_nodes(
    starts, ids, counts, end_starts, ends, order, bounds, k, leaf,
    out_starts, out_ids, out_counts, out_end_starts, out_ends,
):  # fmt: skip
    """The digests of each group as one: equal nodes add up; then what is too small moves up.

    `leaf`: 2**bits: the number of the first leaf.
    `out_ids`, `out_counts` (int64[n]), `out_ends` (int64[2 * groups]): room for all.
    """
    filled = 0
    outer = 0
    out_starts[0] = out_end_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        rows = order[bounds[g] : bounds[g + 1]]
        append_lists(starts, ids, rows, out_ids, filled)
        at = append_lists(starts, counts, rows, out_counts, filled)
        total = np.int64(0)
        for i in range(filled, at):
            total += out_counts[i]
        low = np.int64(0x7FFF_FFFF_FFFF_FFFF)
        high = np.int64(-1)
        for row in rows:
            own = ids[starts[row] : starts[row + 1]]
            if own.shape[0]:
                outer_cells = ends[end_starts[row] : end_starts[row + 1]]
                first, last = _extremes(own, outer_cells, leaf)
                low = min(low, first)
                high = max(high, last)
        if rows.shape[0] > 1:
            at = filled + add_up(out_ids[filled:at], out_counts[filled:at])
        nodes = _squeezed(out_ids[filled:at], out_counts[filled:at], leaf, total, k)
        if nodes and out_ids[filled] < leaf:  # ids ascend: if any is no leaf, the first is not
            out_ends[outer] = low
            out_ends[outer + 1] = high
            outer += 2
        filled += nodes
        out_starts[g + 1] = filled
        out_end_starts[g + 1] = outer


@kernel()
def _target(fraction, total):
    """The place of a quantile: the smallest whole number that is at least fraction * total."""
    exact = fraction * total
    whole = np.rint(exact)
    if abs(exact - whole) > whole * TIE:
        whole = np.ceil(exact)
    return min(max(np.int64(whole), 1), total)


@kernel()
def quantile_cells(starts, ids, counts, end_starts, ends, leaf, fractions, out):
    """`out[row, :, i]` = cell to show at fraction i, the first and the last possible one. No row is
    empty."""
    targets = np.empty(fractions.shape[0], np.int64)
    up_to = np.empty(counts.shape[0], np.int64)
    for row in range(starts.shape[0] - 1):
        own = ids[starts[row] : starts[row + 1]]
        held = counts[starts[row] : starts[row + 1]]
        if end_starts[row + 1] == end_starts[row]:  # as most rows are: much faster
            total = np.int64(0)
            for i in range(own.shape[0]):
                total += held[i]
                up_to[i] = total
            for i in range(fractions.shape[0]):
                at = search(up_to, 0, own.shape[0], _target(fractions[i], total), False)
                for end in range(3):
                    out[row, end, i] = own[at] - leaf
            continue
        low, high = _extremes(own, ends[end_starts[row] : end_starts[row + 1]], leaf)
        edges, sums, masses, _ = index(own, held, leaf, low, high)
        for i in range(fractions.shape[0]):
            targets[i] = _target(fractions[i], sums[0, -1])
        quantiles(edges, sums, masses, low, high, targets, out[row])


@kernel()
def cell_ranks(
    starts, ids, counts, end_starts, ends, leaf, bits, k,
    cells, beyond, inclusive, exact, values, bounds,
):  # fmt: skip
    """`values[row, i]`, `bounds[row, :, i]`: as `ranks`. No row is empty."""
    for row in range(starts.shape[0] - 1):
        own = ids[starts[row] : starts[row + 1]]
        held = counts[starts[row] : starts[row + 1]]
        low, high = _extremes(own, ends[end_starts[row] : end_starts[row + 1]], leaf)
        edges, sums, masses, grained = index(own, held, leaf, low, high)
        margin = bits * (sums[0, -1] // k) / 2
        ranks(
            edges, sums, masses, grained, low, high,
            margin, cells, beyond, inclusive, exact, values[row], bounds[row],
        )  # fmt: skip


@kernel()
def check_sets(starts, prints, counts, universe):
    """The first row whose set no keys make, or -1."""
    for row in range(starts.shape[0] - 1):
        n = starts[row + 1] - starts[row]
        if n > counts[row] or (n == 0) != (counts[row] == 0):
            return row
        before = np.int64(-1)
        for j in range(starts[row], starts[row + 1]):
            if prints[j] <= before or prints[j] >= universe:
                return row
            before = prints[j]
    return -1


@kernel()
def check_nodes(starts, ids, counts, end_starts, ends, totals, k, leaf):
    """The first row whose digest no values make, or -1. Nothing here can overflow."""
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        outer = end_starts[row + 1] - end_starts[row]
        if n > 4 * k + 1 or (n == 0 and (totals[row] or outer)):
            return row
        if n == 0:
            continue
        before = np.int64(0)
        left = totals[row]
        for j in range(first, first + n):
            if ids[j] <= before or (ids[j] >> 1) >= leaf or counts[j] < 1 or counts[j] > left:
                return row
            if ids[j] < leaf and counts[j] > totals[row] // k:  # it would not have moved up
                return row
            before = ids[j]
            left -= counts[j]
        if left or outer != (2 if ids[first] < leaf else 0):
            return row
        if not outer:
            continue
        low = ends[end_starts[row]]
        high = ends[end_starts[row] + 1]
        if low < 0 or low > high or high >= leaf:
            return row
        # Each node has a value, so it has a cell between both ends; these are in cells of nodes.
        least = np.int64(0x7FFF_FFFF_FFFF_FFFF)
        most = np.int64(-1)
        for j in range(first, first + n):
            begin, end = span(ids[j], leaf)
            if low > end or high < begin:
                return row
            least = min(least, begin)
            most = max(most, end)
        if low < least or high > most:
            return row
    return -1
