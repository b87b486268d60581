"""Sets of fingerprints and q-digests over many groups at once."""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.qdigest import compress
from muntin.summaries.kernels.sorting import sort_keys, sort_pairs


@kernel()
def unite_sets(prints, starts, order, bounds, out_starts, out):
    """The different numbers of the lists of each group, ascending. `starts` empty: a number a
    row."""
    single = starts.shape[0] == 0
    filled = 0
    out_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        at = filled
        for i in range(bounds[g], bounds[g + 1]):
            row = order[i]
            if single:
                out[at] = prints[row]
                at += 1
            else:
                for j in range(starts[row], starts[row + 1]):
                    out[at] = prints[j]
                    at += 1
        sort_keys(out[filled:at])
        first = filled
        for i in range(first, at):
            if i == first or out[i] != out[filled - 1]:
                out[filled] = out[i]
                filled += 1
        out_starts[g + 1] = filled


@kernel()
def merge_nodes(
    starts, nodes, counts, end_starts, ends, order, bounds, k, bits,
    out_starts, out_nodes, out_counts, out_end_starts, out_ends,
):  # fmt: skip
    """The q-digest of the q-digests of each group, compressed where it has more than 4k nodes.

    `starts` empty: rows are leaves, each counted once; `counts` and `ends` are empty, too.
    """
    single = starts.shape[0] == 0
    filled = 0
    out_starts[0] = out_end_starts[0] = 0
    size = 1
    for g in range(bounds.shape[0] - 1):
        n = bounds[g + 1] - bounds[g]
        if not single:
            n = 0
            for i in range(bounds[g], bounds[g + 1]):
                n += starts[order[i] + 1] - starts[order[i]]
        size = max(size, n)
    ids = np.empty(size, np.int64)
    held = np.empty(size, np.int64)
    for g in range(bounds.shape[0] - 1):
        n = 0
        low = high = np.int64(0)
        some = False
        for i in range(bounds[g], bounds[g + 1]):
            row = order[i]
            first = row if single else starts[row]
            last = row + 1 if single else starts[row + 1]
            if first == last:
                continue
            for j in range(first, last):
                ids[n] = nodes[j]
                held[n] = 1 if single else counts[j]
                n += 1
            a = nodes[row] - (1 << bits) if single else ends[end_starts[row]]
            b = a if single else ends[end_starts[row] + 1]
            low = min(low, a) if some else a
            high = max(high, b) if some else b
            some = True
        sort_pairs(ids[:n], held[:n])
        at = filled
        total = np.int64(0)
        for i in range(n):
            total += held[i]
            if at > filled and out_nodes[at - 1] == ids[i]:
                out_counts[at - 1] += held[i]
            else:
                out_nodes[at] = ids[i]
                out_counts[at] = held[i]
                at += 1
        n = at - filled
        if n > 4 * k:
            tight = np.empty(n, np.uint64)
            tight_counts = np.empty(n, np.int64)
            begin = compress(
                out_nodes[filled:at].view(np.uint64), out_counts[filled:at], total // k,
                tight, tight_counts,
            )  # fmt: skip
            for i in range(n - begin):
                out_nodes[filled + i] = np.int64(tight[begin + i])
                out_counts[filled + i] = tight_counts[begin + i]
            n -= begin
        filled += n
        out_starts[g + 1] = filled
        out_end_starts[g + 1] = out_end_starts[g]
        if some:
            out_ends[out_end_starts[g]] = low
            out_ends[out_end_starts[g] + 1] = high
            out_end_starts[g + 1] += 2


@kernel()
def find_members(starts, prints, asked, out):
    """`out[row, i]`: whether number i is in the row's set."""
    for row in range(starts.shape[0] - 1):
        for i in range(asked.shape[0]):
            low = starts[row]
            high = starts[row + 1]
            while low < high:
                middle = (low + high) >> 1
                if prints[middle] < asked[i]:
                    low = middle + 1
                else:
                    high = middle
            out[row, i] = low < starts[row + 1] and prints[low] == asked[i]


@kernel()
def check_prints(starts, prints, counts, universe):
    """The first row whose set no keys make, or -1."""
    for row in range(counts.shape[0]):
        n = starts[row + 1] - starts[row]
        if n > counts[row] or (n == 0) != (counts[row] == 0):
            return row
        for j in range(starts[row], starts[row + 1]):
            if prints[j] < 0 or prints[j] >= universe:
                return row
            if j > starts[row] and prints[j] <= prints[j - 1]:
                return row
    return -1


@kernel()
def check_nodes(starts, nodes, counts, end_starts, ends, keyed, k, bits):
    """The first row whose q-digest no numbers make, or -1. keyed : int64[rows], keys counted."""
    leaf = np.int64(1) << bits
    for row in range(keyed.shape[0]):
        n = starts[row + 1] - starts[row]
        two = end_starts[row + 1] - end_starts[row]
        if two != (2 if n else 0):
            return row
        if n == 0:
            continue
        total = np.int64(0)
        for j in range(starts[row], starts[row + 1]):
            if nodes[j] < 1 or counts[j] < 1 or counts[j] > keyed[row] - total:
                return row
            if j > starts[row] and nodes[j] <= nodes[j - 1]:
                return row
            total += counts[j]
        low = ends[end_starts[row]]
        high = ends[end_starts[row] + 1]
        if low < 0 or high < low or high >= leaf or nodes[starts[row + 1] - 1] >> (bits + 1):
            return row
        least_begin = least_end = leaf
        most_begin = most_end = np.int64(-1)
        for j in range(starts[row], starts[row + 1]):
            node = nodes[j]
            if node < leaf and counts[j] > total // k:
                return row
            height = 0
            while node << height < leaf:
                height += 1
            begin = (node << height) - leaf
            end = begin + (np.int64(1) << height) - 1
            least_begin = min(least_begin, begin)
            least_end = min(least_end, end)
            most_begin = max(most_begin, begin)
            most_end = max(most_end, end)
        if low < least_begin or low > least_end or high < most_begin or high > most_end:
            return row
    return -1
