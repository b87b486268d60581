"""Sorted sets of fingerprints, and dyadic q-digests, of many groups at once.

A node of a digest is its number in the binary tree over 2**bits cells, as in
`muntin.summaries.kernels.qdigest`; node lists ascend. A row has `ends`, its first and last cell,
where it has a node that is no leaf.

Searches and sorts are our own: `np.argsort` and `np.searchsorted` gave wrong places here, in
processes that had loaded certain other kernels from Numba's cache before.
"""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.copying import copy_to
from muntin.summaries.kernels.qdigest import compress
from muntin.summaries.kernels.sorting import search, sort_keys, sort_pairs

TIE = 2.0**-52  # a fraction is what was written: 0.07 of 100 is the seventh


@kernel()
def fold_sets(prints, bounds, starts):
    """Numbers of groups, in place, as one ascending set a group."""
    filled = 0
    starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        first = bounds[g]
        n = bounds[g + 1] - first
        sort_keys(prints[first : first + n])
        last = np.int64(-1)
        for i in range(first, first + n):
            if prints[i] != last:
                last = prints[i]
                prints[filled] = last
                filled += 1
        starts[g + 1] = filled


@kernel()
def merge_sets(starts, prints, order, bounds, out_starts, out):
    """The union of the sets of each group; `out` holds all of them."""
    filled = 0
    out_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        first = filled
        end = first
        for i in range(bounds[g], bounds[g + 1]):
            for j in range(starts[order[i]], starts[order[i] + 1]):
                out[end] = prints[j]
                end += 1
        if bounds[g + 1] - bounds[g] > 1:
            sort_keys(out[first:end])
        last = np.int64(-1)
        for i in range(first, end):
            if out[i] != last:
                last = out[i]
                out[filled] = last
                filled += 1
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
def _squeezed(ids, counts, first, n, total, k):
    """Compress the n nodes at `first`, in place; how many are left."""
    if n <= 4 * k:
        return n
    begin = 0
    for whole in (True, False):  # the second keeps the bound on the nodes, whatever the data
        left = n - begin
        own = ids[first : first + left].copy().view(np.uint64)
        stored = counts[first : first + left].copy()
        out = np.empty(left, np.uint64)
        out_counts = np.empty(left, np.int64)
        gone = compress(own, stored, total // k, whole, out, out_counts)
        for i in range(gone, left):
            ids[first + i - gone] = np.int64(out[i])
            counts[first + i - gone] = out_counts[i]
        begin += gone
        if n - begin <= 4 * k:
            break
    return n - begin


@kernel()
def fold_nodes(leaves, bounds, k, leaf, starts, ids, counts, end_starts, ends):
    """Leaves of groups, in place, as one digest a group.

    Parameters
    ----------
    leaves : int64[n]
        Group g is leaves[bounds[g]:bounds[g + 1]].
    leaf : int
        2**bits: the number of the first leaf.
    ids, counts : int64[n]
        Filled from the front.
    ends : int64[2 * groups]
    """
    filled = 0
    outer = 0
    starts[0] = end_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        first = bounds[g]
        n = bounds[g + 1] - first
        sort_keys(leaves[first : first + n])
        at = filled
        for i in range(first, first + n):
            if i > first and leaves[i] == leaves[i - 1]:
                counts[at - 1] += 1
            else:
                ids[at] = leaves[i]
                counts[at] = 1
                at += 1
        nodes = _squeezed(ids, counts, filled, at - filled, n, k)
        if nodes and ids[filled] < leaf:
            ends[outer] = leaves[first] - leaf
            ends[outer + 1] = leaves[first + n - 1] - leaf
            outer += 2
        filled += nodes
        starts[g + 1] = filled
        end_starts[g + 1] = outer


@kernel()
def merge_nodes(
    starts, ids, counts, end_starts, ends, order, bounds, k, leaf,
    out_starts, out_ids, out_counts, out_end_starts, out_ends,
):  # fmt: skip
    """The digests of each group as one: equal nodes add up; then what is too small moves up."""
    filled = 0
    outer = 0
    out_starts[0] = out_end_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        at = filled
        total = np.int64(0)
        low = np.int64(0x7FFF_FFFF_FFFF_FFFF)
        high = np.int64(-1)
        for i in range(bounds[g], bounds[g + 1]):
            row = order[i]
            first = starts[row]
            n = starts[row + 1] - first
            if n == 0:
                continue
            if end_starts[row + 1] > end_starts[row]:
                low = min(low, ends[end_starts[row]])
                high = max(high, ends[end_starts[row] + 1])
            else:
                low = min(low, ids[first] - leaf)
                high = max(high, ids[first + n - 1] - leaf)
            for j in range(first, first + n):
                out_ids[at] = ids[j]
                out_counts[at] = counts[j]
                total += counts[j]
                at += 1
        n = at - filled
        if bounds[g + 1] - bounds[g] > 1:
            sort_pairs(out_ids[filled:at], out_counts[filled:at])
        nodes = 0
        for i in range(filled, at):
            if nodes and out_ids[i] == out_ids[filled + nodes - 1]:
                out_counts[filled + nodes - 1] += out_counts[i]
            else:
                out_ids[filled + nodes] = out_ids[i]
                out_counts[filled + nodes] = out_counts[i]
                nodes += 1
        nodes = _squeezed(out_ids, out_counts, filled, nodes, total, k)
        if nodes and out_ids[filled] < leaf:
            out_ends[outer] = low
            out_ends[outer + 1] = high
            outer += 2
        filled += nodes
        out_starts[g + 1] = filled
        out_end_starts[g + 1] = outer


@kernel()
def _spans(ids, leaf, begins, ends):
    """First and last cell below each node."""
    for i in range(ids.shape[0]):
        node = ids[i]
        height = 0
        while node < leaf:
            node <<= 1
            height += 1
        begins[i] = node - leaf
        ends[i] = node - leaf + (np.int64(1) << height) - 1


@kernel()
def _accumulated(edges, counts, own, sums):
    """The edges ascending, and the counts up to each."""
    n = edges.shape[0]
    copy_to(own, edges)
    copy_to(sums, counts)
    sort_pairs(own[:n], sums[:n])
    for i in range(1, n):
        sums[i] += sums[i - 1]


@kernel()
def _target(fraction, total):
    """The place of a quantile: the smallest whole number that is at least fraction * total."""
    exact = fraction * total
    whole = np.rint(exact)
    if abs(exact - whole) > whole * TIE:
        whole = np.ceil(exact)
    return min(max(np.int64(whole), 1), total)


@kernel()
def _clipped(value, low, high):
    return min(max(value, low), high)


@kernel()
def quantile_cells(starts, ids, counts, end_starts, ends, leaf, fractions, out):
    """`out[:, row, i]` = cell to show at fraction i, the first and the last possible one.

    No row is empty.
    """
    size = 1
    for row in range(starts.shape[0] - 1):
        size = max(size, starts[row + 1] - starts[row])
    edges = np.empty(2 * size, np.int64)
    weights = np.empty(2 * size, np.int64)
    places = np.empty((3, 2 * size), np.int64)
    sums = np.empty((3, 2 * size), np.int64)
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        own = ids[first : first + n]
        if end_starts[row + 1] == end_starts[row]:
            total = np.int64(0)
            for i in range(n):
                total += counts[first + i]
                sums[0, i] = total
            for i in range(fractions.shape[0]):
                at = search(sums[0], 0, n, _target(fractions[i], total), False)
                for e in range(3):
                    out[e, row, i] = own[at] - leaf
            continue
        low = ends[end_starts[row]]
        high = ends[end_starts[row] + 1]
        _spans(own, leaf, edges[:n], edges[n : 2 * n])
        copy_to(weights, counts[first : first + n])
        copy_to(weights[n:], weights[:n])
        _accumulated(edges[: 2 * n], weights[: 2 * n], places[0], sums[0])
        _accumulated(edges[:n], weights[:n], places[1], sums[1])
        _accumulated(edges[n : 2 * n], weights[:n], places[2], sums[2])
        total = sums[1, n - 1]
        for i in range(fractions.shape[0]):
            target = _target(fractions[i], total)
            at = search(sums[0], 0, 2 * n, 2 * target, False)
            out[0, row, i] = _clipped(places[0, at], low, high)
            for e in range(1, 3):
                at = search(sums[e], 0, n, target, False)
                out[e, row, i] = _clipped(places[e, at], low, high)


@kernel()
def _up_to(edges, sums, cell, own):
    """Counts of the edges before the cell, or also in it."""
    at = search(edges, 0, edges.shape[0], cell, own)
    return sums[at - 1] if at else np.int64(0)


@kernel()
def cell_ranks(
    starts, ids, counts, end_starts, ends, leaf, cells, sides, own_lower, own_upper, out
):  # fmt: skip
    """`out[:, row, i]` = fewest and most values up to cell i; no row is empty.

    sides : int8[n]
        -1, 0, 1: below the domain, in it, above.
    own_lower, own_upper : bool
        Whether the values of the cell itself are counted.
    """
    size = 1
    for row in range(starts.shape[0] - 1):
        size = max(size, starts[row + 1] - starts[row])
    edges = np.empty((2, size), np.int64)
    places = np.empty((2, size), np.int64)
    sums = np.empty((2, size), np.int64)
    for row in range(starts.shape[0] - 1):
        first = starts[row]
        n = starts[row + 1] - first
        _spans(ids[first : first + n], leaf, edges[0, :n], edges[1, :n])
        for e in range(2):
            _accumulated(edges[e, :n], counts[first : first + n], places[e], sums[e])
        low = places[0, 0]
        high = places[1, n - 1]
        if end_starts[row + 1] > end_starts[row]:
            low = ends[end_starts[row]]
            high = ends[end_starts[row] + 1]
        total = sums[0, n - 1]
        for i in range(cells.shape[0]):
            cell = cells[i]
            lower = _up_to(places[1, :n], sums[1, :n], cell, own_lower)
            upper = _up_to(places[0, :n], sums[0, :n], cell, own_upper)
            if sides[i] > 0 or cell > high or (own_lower and cell == high):
                lower = total
            if sides[i] < 0 or cell < low or (not own_upper and cell == low):
                upper = np.int64(0)
            if sides[i] < 0:
                lower = np.int64(0)
            elif sides[i] > 0:
                upper = total
            out[0, row, i] = lower
            out[1, row, i] = upper


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
    one = np.empty((2, 1), np.int64)
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
            if ids[j] < leaf and counts[j] > totals[row] // k:
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
        least = np.int64(0x7FFF_FFFF_FFFF_FFFF)
        most = np.int64(-1)
        for j in range(first, first + n):
            _spans(ids[j : j + 1], leaf, one[0], one[1])
            if low > one[1, 0] or high < one[0, 0]:
                return row
            least = min(least, one[0, 0])
            most = max(most, one[1, 0])
        if low < least or high > most:
            return row
    return -1
