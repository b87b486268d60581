"""Count-Min over many groups at once: exact lists of items while these are few, cells then."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.copying import fill
from muntin.summaries.kernels.count_min import LIMIT_MAX, add, estimate, noise


@kernel()
def merge_cells(
    starts, items, weights, cell_starts, cells, order, bounds, sizes, totals, few, hashes,
    depth, width, conservative, out_starts, out,
):  # fmt: skip
    """Cells of the groups that have, or get, any.

    `starts`, `items`, `weights`, `cell_starts`, `cells`: the states: those without cells list all
      of their items.
    `sizes` (int64[groups]): different items that the lists of each group hold together.
    `totals` (int64[groups]): -1: nothing is kept of the group.
    `few`: a group of more items gets cells.
    `hashes` (uint64[items]).
    `out` (int64[depth * width * groups that may get cells]).
    """
    filled = 0
    out_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        dense = sizes[g] > few
        listed = 0
        for i in range(bounds[g], bounds[g + 1]):
            row = order[i]
            if cell_starts[row + 1] > cell_starts[row]:
                dense = True
            else:
                listed += starts[row + 1] - starts[row]
        if dense and totals[g] >= 0:
            own = out[filled : filled + depth * width].reshape(depth, width)
            fill(own, 0)
            heavy = np.empty(max(listed, 1), np.int64)
            named = np.empty(listed, np.uint64)
            n = 0
            for i in range(bounds[g], bounds[g + 1]):
                row = order[i]
                if cell_starts[row + 1] == cell_starts[row]:
                    for j in range(starts[row], starts[row + 1]):
                        named[n] = hashes[items[j]]
                        heavy[n] = weights[j]
                        n += 1
            if n:
                add(own, named, heavy, LIMIT_MAX, conservative)
            for i in range(bounds[g], bounds[g + 1]):
                at = cell_starts[order[i]]
                for c in range(cell_starts[order[i] + 1] - at):
                    out[filled + c] += cells[at + c]
            filled += depth * width
        out_starts[g + 1] = filled


@kernel()
def estimate_cells(
    cell_starts, cells, starts, hashes, depth, width, conservative, out, noises
):  # fmt: skip
    """Of rows that have cells: `out[i]` = least cell of item i, where row r is asked for the items
    `hashes[starts[r]:starts[r + 1]]`; and `noises[r]`, what of it is others' at the median."""
    for row in range(noises.shape[0]):
        at = cell_starts[row]
        first, end = starts[row], starts[row + 1]
        if cell_starts[row + 1] > at and end > first:
            own = cells[at : at + depth * width]
            estimate(own.reshape(depth, width), hashes[first:end], out[first:end])
            if not conservative:
                noises[row] = noise(own, depth)


@kernel()
def check_cells(cell_starts, cells, totals, depth, width, conservative):
    """The first row whose cells no events could have made, or -1."""
    for row in range(totals.shape[0]):
        at = cell_starts[row]
        size = cell_starts[row + 1] - at
        if size == 0:
            continue
        if size != depth * width or totals[row] <= 0:
            return row
        for d in range(depth):
            left = totals[row]
            for c in range(at + d * width, at + (d + 1) * width):
                if cells[c] < 0 or cells[c] > left:
                    return row
                left -= cells[c]
            if left == totals[row] or (left != 0 and not conservative):
                return row
    return -1
