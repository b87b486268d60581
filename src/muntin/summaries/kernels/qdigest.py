"""The q-digest's hot loops: counting equal values, adding node lists, one compression pass.

A node is its number in the binary tree over the domain: the root is 1, the children of i are 2i
and 2i + 1, the leaf of value v is v + 2**bits. Node lists ascend; so nodes of one level lie
together, deeper levels behind.
"""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import kernel

_1 = np.uint64(1)


@kernel()
def count_sorted(values, ids, counts):
    """Run lengths of ascending uint64 `values`; how many runs."""
    runs = 0
    i = 0
    while i < values.shape[0]:
        value = values[i]
        start = i
        while i < values.shape[0] and values[i] == value:
            i += 1
        ids[runs] = value
        counts[runs] = i - start
        runs += 1
    return runs


@kernel()
def count_dense(values, table):
    """`table[v - first] += 1` for leaves v of a small domain; first = len(table)."""
    first = np.uint64(table.shape[0])
    for i in range(values.shape[0]):
        table[np.intp(values[i] - first)] += 1


@kernel()
def drain_dense(table, ids, counts):
    """The non-zero cells of `table` as leaves, ascending."""
    runs = 0
    for i in range(table.shape[0]):
        if table[i] != 0:
            ids[runs] = np.uint64(i + table.shape[0])
            counts[runs] = table[i]
            runs += 1
    return runs


@kernel()
def weigh_sorted(values, order, weights, ids, counts):
    """As `count_sorted` with weights: `values` ascend, `weights[order[i]]` belongs to values[i]."""
    runs = 0
    i = 0
    while i < values.shape[0]:
        value = values[i]
        total = np.int64(0)
        while i < values.shape[0] and values[i] == value:
            total += weights[order[i]]
            i += 1
        if total != 0:
            ids[runs] = value
            counts[runs] = total
            runs += 1
    return runs


@kernel()
def add_nodes(ids_a, counts_a, ids_b, counts_b, ids, counts):
    """Two ascending node lists into one, counts of equal nodes added; its length."""
    i = 0
    j = 0
    written = 0
    while i < ids_a.shape[0] or j < ids_b.shape[0]:
        if j >= ids_b.shape[0] or (i < ids_a.shape[0] and ids_a[i] < ids_b[j]):
            ids[written] = ids_a[i]
            counts[written] = counts_a[i]
            i += 1
        elif i >= ids_a.shape[0] or ids_b[j] < ids_a[i]:
            ids[written] = ids_b[j]
            counts[written] = counts_b[j]
            j += 1
        else:
            ids[written] = ids_a[i]
            counts[written] = counts_a[i] + counts_b[j]
            i += 1
            j += 1
        written += 1
    return written


@kernel()
def compress(ids, counts, limit, whole, out_ids, out_counts):
    """One pass from the leaves to the root: children whose family counts at most `limit` move up.

    `whole`: only where nothing of the family stays below, so that what a node counts is spread over
    all of its cells. `ids` ascend. The result is written ascending to the end of `out_ids`,
    `out_counts` (as long as `ids`); returns where it begins. It never has more nodes than went in.
    """
    total = ids.shape[0]
    begin = total
    # Nodes of the level below that were moved into a parent: the level's new list, descending. One
    # that counts -1 was not: some of its family stays below.
    moved_ids = np.empty(total, np.uint64)
    moved_counts = np.empty(total, np.int64)
    next_ids = np.empty(total, np.uint64)
    next_counts = np.empty(total, np.int64)
    moved = 0
    at = total - 1
    while at >= 0 or moved > 0:
        # This level holds the stored nodes from `at` down and the moved ones; take the deepest.
        deepest = np.uint64(0)
        if at >= 0:
            deepest = ids[at]
        if moved > 0 and moved_ids[0] > deepest:
            deepest = moved_ids[0]
        floor = _1
        while floor <= deepest >> _1:
            floor <<= _1
        if floor == _1:  # the root has no parent
            count = np.int64(0)
            if at >= 0:
                count += counts[at]
                at -= 1
            if moved > 0:
                count += max(moved_counts[0], 0)
                moved = 0
            if count > 0:
                begin -= 1
                out_ids[begin] = _1
                out_counts[begin] = count
            break
        # Where this level's parents begin among the stored nodes.
        parent_at = at
        while parent_at >= 0 and ids[parent_at] >= floor:
            parent_at -= 1
        next_moved = 0
        j = 0
        while (at >= 0 and ids[at] >= floor) or j < moved:
            # The next family, in descending order: right child, left child.
            node = np.uint64(0)
            if at >= 0 and ids[at] >= floor:
                node = ids[at]
            if j < moved and moved_ids[j] > node:
                node = moved_ids[j]
            parent = node >> _1
            right = np.int64(0)
            left = np.int64(0)
            stays = False
            for child in range(2):
                wanted = (parent << _1) | np.uint64(1 - child)
                count = np.int64(0)
                if at >= 0 and ids[at] == wanted:
                    count += counts[at]
                    at -= 1
                if j < moved and moved_ids[j] == wanted:
                    stays |= moved_counts[j] < 0
                    count += max(moved_counts[j], 0)
                    j += 1
                if child == 0:
                    right = count
                else:
                    left = count
            while parent_at >= 0 and ids[parent_at] > parent:
                parent_at -= 1
            above = np.int64(0)
            if parent_at >= 0 and ids[parent_at] == parent:
                above = counts[parent_at]
            moves = not stays and right + left + above <= limit
            if moves or whole:
                next_ids[next_moved] = parent
                next_counts[next_moved] = right + left if moves else -1
                next_moved += 1
            if not moves:
                if right > 0:
                    begin -= 1
                    out_ids[begin] = (parent << _1) | _1
                    out_counts[begin] = right
                if left > 0:
                    begin -= 1
                    out_ids[begin] = parent << _1
                    out_counts[begin] = left
        moved_ids, next_ids = next_ids, moved_ids
        moved_counts, next_counts = next_counts, moved_counts
        moved = next_moved
    return begin


@kernel()
def spread(begins, ends, counts, out_begins, out_ends, out_counts):
    """Nodes without nodes below them, in order, with what all above them count; how many.

    Nodes come in order of where they begin, the widest first. What a node counts is shared by those
    below it in proportion to what they count.
    """
    n = begins.shape[0]
    below = counts.astype(np.float64)  # with all that is below
    open_ = np.empty(64, np.intp)
    depth = 0
    for i in range(n + 1):
        while depth > 0 and (i == n or ends[open_[depth - 1]] < begins[i]):
            depth -= 1
            if depth > 0:
                below[open_[depth - 1]] += below[open_[depth]]
        if i < n:
            open_[depth] = i
            depth += 1
    factors = np.ones(65)
    found = 0
    for i in range(n):
        while depth > 0 and ends[open_[depth - 1]] < begins[i]:
            depth -= 1
        if i + 1 < n and begins[i + 1] <= ends[i]:
            factors[depth + 1] = factors[depth] * below[i] / (below[i] - counts[i])
        else:
            out_begins[found] = begins[i]
            out_ends[found] = ends[i]
            out_counts[found] = factors[depth] * counts[i]
            found += 1
        open_[depth] = i
        depth += 1
    return found
