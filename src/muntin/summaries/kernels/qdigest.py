"""The q-digest's hot loops: counting equal values, adding node lists, compressing, answering.

A node is its number in the binary tree over the domain: the root is 1, the children of i are 2i
and 2i + 1, the leaf of value v is v + 2**bits. Node lists ascend; so nodes of one level lie
together, deeper levels behind.
"""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.bits import leading_zeros
from muntin.summaries.kernels.sorting import search, sort_pairs


@kernel()
def count_sorted(values, ids, counts):
    """Run lengths of ascending `values`; how many runs. `ids` may be `values`."""
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
    for i in range(values.shape[0]):
        table[values[i] - table.shape[0]] += 1


@kernel()
def combine(ids, counts):
    """Add the counts of equal nodes of an ascending list, in place; how many are left."""
    left = 0
    for i in range(ids.shape[0]):
        if left and ids[i] == ids[left - 1]:
            counts[left - 1] += counts[i]
        else:
            ids[left] = ids[i]
            counts[left] = counts[i]
            left += 1
    return left


@kernel()
def add_up(ids, counts):
    """Sort nodes in place, and add the counts of equal ones; how many are left."""
    sort_pairs(ids, counts)
    return combine(ids, counts)


@inlined()
def _height(node, leaf):
    return np.int64(leading_zeros(np.uint64(node)) - leading_zeros(np.uint64(leaf)))


@inlined()
def span(node, leaf):
    """First and last cell below a node; `leaf` is the number of the first leaf."""
    height = _height(node, leaf)
    first = (node << height) - leaf
    return first, first + (np.int64(1) << height) - 1


@kernel()
def _in_order(ids, leaf, begins):
    """Which node each is in the order of where they begin, the widest first; fills `begins`."""
    order = np.empty(ids.shape[0], np.int64)
    for i in range(ids.shape[0]):
        begins[i] = span(ids[i], leaf)[0]
        order[i] = i
    if ids.shape[0] and ids[0] < leaf:
        sort_pairs(begins, order)  # a wider node has a smaller number, and ties keep their order
    return order


@kernel()
def compress(ids, counts, leaf, limit, whole):
    """One pass from the leaves to the root, in place; how many nodes are left.

    Children whose family counts at most `limit` move up. `whole`: only where nothing of the family
    stays below, so that what a node counts is spread over all of its cells.

    What counts at most `limit` with all that is below it moves as one. So only the nodes that count
    more are looked at, and of these only those with a count of their own or nodes on both sides.
    """
    n = ids.shape[0]
    if n == 0 or limit == 0:
        return n
    begins = np.empty(n, np.int64)
    order = _in_order(ids, leaf, begins)
    sums = np.empty(n + 1, np.int64)
    sums[0] = 0
    for i in range(n):
        sums[i + 1] = sums[i] + counts[order[i]]
    if sums[n] <= limit:
        ids[0] = 1
        counts[0] = sums[n]
        return 1
    # A part is a stretch of the order that counts more than `limit`; the first is all of it. Those
    # of one height are apart, and there are 63 heights.
    room = min(2 * n, 63 * (sums[n] // limit))
    nodes = np.empty(room, np.int64)  # of each part the lowest node over it; those below come later
    own = np.empty(room, np.int64)
    parts = np.empty((room, 2), np.int64)  # where they begin and end
    sides = np.empty(2 * room, np.int64)  # what comes from the left of each, and from its right
    goes_to = np.empty(room, np.int64)  # which of these
    parts[0, 0] = 0
    parts[0, 1] = n
    goes_to[0] = -1
    found = 1
    at = 0
    while at < found:
        first = parts[at, 0]
        last = parts[at, 1]
        node = ids[order[first]]
        # The lowest node over both: as high as the first, and as the highest bit that differs.
        apart = np.uint64(begins[first] ^ begins[last - 1])
        height = max(_height(node, leaf), 64 - np.int64(leading_zeros(apart)))
        above = (begins[first] + leaf) >> height
        nodes[at] = above
        own[at] = 0
        if node == above:
            own[at] = counts[order[first]]
            first += 1
        middle = (above << height) - leaf + ((np.int64(1) << height) >> 1)
        middle_at = search(begins, first, last, middle, False)
        for side in range(2):
            begin = middle_at if side else first
            end = last if side else middle_at
            sides[2 * at + side] = sums[end] - sums[begin]
            if sums[end] - sums[begin] > limit:  # what will come up from it is not known yet
                sides[2 * at + side] = 0
                parts[found, 0] = begin
                parts[found, 1] = end
                goes_to[found] = 2 * at + side
                found += 1
        at += 1
    left = 0  # nothing of `ids` and `counts` is read any more: the result may take its place
    for at in range(found - 1, -1, -1):
        total = own[at]
        if not whole and sides[2 * at] + sides[2 * at + 1] + total <= limit:
            total += sides[2 * at] + sides[2 * at + 1]
        else:
            for side in range(2):
                if sides[2 * at + side] > 0:
                    ids[left] = 2 * nodes[at] + side
                    counts[left] = sides[2 * at + side]
                    left += 1
        to = goes_to[at]  # what moves up goes at once to `top`, just below the next node above
        top = 2 * nodes[to >> 1] + (to & 1) if at else np.int64(1)
        stays = whole or (total > limit and nodes[at] != top)
        if at and not stays:
            sides[to] = total
        elif total > 0:
            ids[left] = nodes[at] if stays else top
            counts[left] = total
            left += 1
    sort_pairs(ids[:left], counts[:left])
    return left


@kernel()
def index(ids, counts, leaf, low, high):
    """What answers are read from.

    A piece is a node without nodes below it, and what it counts lies evenly in its cells between
    `low` and `high`, the first and the last that hold a value. What a node above counts is shared
    by the pieces below it in proportion to what they count.

    Returned are `edges` (int64[4, n]): where nodes begin and where they end, each ascending; where
      pieces begin and end.
    `sums` (int64[2, n]): counts of the nodes up to each beginning, and to each end.
    `masses` (float64[pieces]): what there is up to the end of each piece.
    `grained`: whether many values are equal, so that others may be round, too: a quarter
      lies in pieces of one cell.
    """
    n = ids.shape[0]
    edges = np.empty((4, n), np.int64)
    sums = np.empty((2, n), np.int64)
    masses = np.empty(n, np.float64)
    order = _in_order(ids, leaf, edges[0])
    begins = edges[0]
    lasts = np.empty(n, np.int64)
    below = np.empty(n, np.float64)  # with all that is below
    open_ = np.empty(64, np.int64)
    depth = 0
    total = np.int64(0)
    ended = np.int64(0)
    closed = 0
    # In the order of their beginnings; on the stack are nodes that have begun and not ended, each
    # inside of the one before. At n all end.
    for i in range(n + 1):
        while depth > 0 and (i == n or lasts[open_[depth - 1]] < begins[i]):
            depth -= 1
            at = open_[depth]
            ended += counts[order[at]]
            edges[1, closed] = lasts[at]
            sums[1, closed] = ended
            closed += 1
            if depth > 0:
                below[open_[depth - 1]] += below[at]
        if i < n:
            lasts[i] = span(ids[order[i]], leaf)[1]
            below[i] = counts[order[i]]
            total += counts[order[i]]
            sums[0, i] = total
            open_[depth] = i
            depth += 1
    factors = np.empty(65, np.float64)
    factors[0] = 1.0
    found = 0
    mass = single = 0.0
    for i in range(n):
        while depth > 0 and lasts[open_[depth - 1]] < begins[i]:
            depth -= 1
        count = counts[order[i]]
        if i + 1 < n and begins[i + 1] <= lasts[i]:  # the next one is below: this is no piece
            factors[depth + 1] = factors[depth] * below[i] / (below[i] - count)
        else:
            mass += factors[depth] * count
            single += factors[depth] * count if begins[i] == lasts[i] else 0.0
            edges[2, found] = max(begins[i], low)
            edges[3, found] = min(lasts[i], high)
            masses[found] = mass
            found += 1
        open_[depth] = i
        depth += 1
    return edges, sums, masses[:found], single > mass / 4


@kernel()
def quantiles(edges, sums, masses, low, high, targets, out):
    """`out[:, i]` = the cell where the counts reach target i: to show, the first and the last."""
    for i in range(targets.shape[0]):
        for end in range(2):
            at = search(sums[end], 0, sums.shape[1], targets[i], False)
            out[1 + end, i] = min(max(edges[end, at], low), high)
        wanted = targets[i] - 0.5
        at = search(masses, 0, masses.shape[0] - 1, wanted, False)
        before = masses[at - 1] if at else 0.0
        share = 1.0
        if wanted < masses[at]:
            share = max(wanted - before, 0.0) / (masses[at] - before)
        cell = edges[2, at] + np.int64(share * np.float64(edges[3, at] - edges[2, at]))
        out[0, i] = min(max(cell, out[1, i]), out[2, i])


@inlined()
def _up_to(edges, sums, cell, own):
    """Counts of the edges before the cell, or also in it."""
    at = search(edges, 0, edges.shape[0], cell, own)
    return sums[at - 1] if at else np.int64(0)


@kernel()
def _bounds(edges, sums, low, high, cell, own_lower, own_upper):
    """Fewest and most values up to the cell; whether its own values count, in each."""
    lower = _up_to(edges[1], sums[1], cell, own_lower)
    upper = _up_to(edges[0], sums[0], cell, own_upper)
    if cell > high or (own_lower and cell == high):
        lower = sums[0, sums.shape[1] - 1]
    if cell < low or (not own_upper and cell == low):
        upper = np.int64(0)
    return lower, upper


@kernel()
def ranks(
    edges, sums, masses, grained, low, high,
    margin, cells, beyond, inclusive, exact, values, bounds,
):  # fmt: skip
    """How many values are up to each cell, and the fewest and the most that there may be.

    `margin`: half of what bounds may leave open: no value is further from the truth.
    `beyond` (int8[n]): -1, 0, 1: below the domain, in it, above.
    `inclusive`: whether the values of the cell itself are counted.
    `exact`: whether these all are the value that is asked for; else they lie between the bounds.
    `values` (float64[n]).
    `bounds` (int64[2, n]).
    """
    total = sums[0, sums.shape[1] - 1]
    for i in range(cells.shape[0]):
        cell = cells[i]
        if beyond[i]:
            bounds[0, i] = bounds[1, i] = total if beyond[i] > 0 else 0
            values[i] = bounds[0, i]
            continue
        lower, upper = _bounds(edges, sums, low, high, cell, inclusive, inclusive)
        at = search(edges[3], 0, masses.shape[0], cell, False)
        value = masses[at - 1] if at else 0.0
        if at < masses.shape[0] and edges[2, at] <= cell:
            cells_up_to = np.float64(cell - edges[2, at]) + inclusive
            if grained and inclusive:
                # Round values are the first of their pieces: a round question is thought to be half
                # of the way to the next one.
                cells_up_to += max(np.float64(cell & -cell) / 2 - 1, 0.0)
            width = np.float64(edges[3, at] - edges[2, at]) + 1
            value += (masses[at] - value) * min(cells_up_to / width, 1.0)
        values[i] = min(max(value, lower, upper - margin), upper, lower + margin)
        if not exact:
            lower, upper = _bounds(edges, sums, low, high, cell, False, True)
        bounds[0, i] = lower
        bounds[1, i] = upper
