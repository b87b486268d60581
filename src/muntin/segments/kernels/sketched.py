"""Lanes of a sketched matrix: a sum for each listed key while keys are few, cells then.

A lane is int64 or float64; its values are not negative.
"""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.copying import fill
from muntin.summaries.kernels.count_min import locate
from muntin.summaries.kernels.sorting import search


@kernel()
def total_lane(values, order, bounds, limit, totals):
    """Sum of each group; -1 where one of its values is -1, or the sum is beyond `limit`."""
    for g in range(bounds.shape[0] - 1):
        total = values[0] * 0
        for i in range(bounds[g], bounds[g + 1]):
            value = values[order[i]]
            if value < 0 or value > limit - total:
                total = total * 0 - 1
                break
            total += value
        totals[g] = total


@kernel()
def find_places(numbers, order, bounds, starts, items, most, places):
    """`places[i]` = where the item of row `order[i]` is listed. Lists are complete; `most`: of all
    items' numbers. One look at a row for all of its columns, and no search."""
    place_of = np.empty(most + 1, np.int64)  # what another row left is never read
    for g in range(bounds.shape[0] - 1):
        for j in range(starts[g], starts[g + 1]):
            place_of[items[j]] = j
        for i in range(bounds[g], bounds[g + 1]):
            places[i] = place_of[numbers[order[i]]]


@kernel()
def fold_lane(places, values, order, bounds, totals, out):
    """Sums of a column by place; they stay 0 for a group whose total is -1."""
    fill(out, 0)
    for g in range(bounds.shape[0] - 1):
        if totals[g] < 0:
            continue
        for i in range(bounds[g], bounds[g + 1]):
            out[places[i]] += values[order[i]]


@kernel()
def find_merged(
    starts, items, cell_starts, order, bounds, dense_starts, hashes, width, listed_starts, listed,
    columns,
):  # fmt: skip
    """`columns[:, j]` = the cells that item j's sums go to, in groups that have some
    (`dense_starts`); in others `columns[0, j]` is its place in the group's list, which is
    complete. Of rows that have cells nothing is looked up. uint32[depth + 1, items]."""
    for g in range(bounds.shape[0] - 1):
        dense = dense_starts[g + 1] > dense_starts[g]
        first, last = listed_starts[g], listed_starts[g + 1]
        for i in range(bounds[g], bounds[g + 1]):
            row = order[i]
            if cell_starts[row + 1] > cell_starts[row]:
                continue
            for j in range(starts[row], starts[row + 1]):
                item = items[j]
                if dense:
                    locate(hashes[item : item + 1], width, columns[:, j : j + 1])
                else:
                    columns[0, j] = search(listed, first, last, item, False) - first


@kernel()
def merge_lane(
    starts, columns, list_starts, values, cell_starts, cells, order, bounds, dense_starts,
    width, listed_starts, totals, out_list_starts, out_list, out_cells,
):  # fmt: skip
    """Sums of groups: by key, or in cells for the groups that have some. columns : of `find_merged`
    totals : of the groups; where one is -1 its sums are 0 out_cells : zeros"""
    depth = columns.shape[0] - 1
    filled = 0
    out_list_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        base = dense_starts[g]
        dense = dense_starts[g + 1] > base
        size = 0 if dense else listed_starts[g + 1] - listed_starts[g]
        for j in range(size):
            out_list[filled + j] = 0
        for i in range(bounds[g], bounds[g + 1]):
            if totals[g] < 0:
                break
            row = order[i]
            for c in range(cell_starts[row + 1] - cell_starts[row]):
                out_cells[base + c] += cells[cell_starts[row] + c]
            if cell_starts[row + 1] > cell_starts[row]:
                continue
            # Only rows without cells list sums, so that these stand further in front than items.
            for j in range(list_starts[row], list_starts[row + 1]):
                at = starts[row] + j - list_starts[row]
                if dense:
                    for d in range(depth):
                        out_cells[base + d * width + columns[d, at]] += values[j]
                else:
                    out_list[filled + columns[0, at]] += values[j]
        filled += size
        out_list_starts[g + 1] = filled


@kernel()
def estimate_lane(
    row_of, item_hash, list_place, list_starts, values, cell_starts, cells, depth, width, out
):  # fmt: skip
    """`out[i]` = sum of key i in row `row_of[i]`: from the list (at place `list_place[i]`, -1: it
    is not there), or the least of its cells."""
    columns = np.empty((depth + 1, 1), np.uint32)
    for i in range(row_of.shape[0]):
        row = row_of[i]
        base = cell_starts[row]
        if cell_starts[row + 1] == base:
            out[i] = 0
            if list_place[i] >= 0:
                out[i] = values[list_starts[row] + list_place[i]]
            continue
        locate(item_hash[i : i + 1], width, columns)
        least = cells[base + columns[0, 0]]
        for d in range(1, depth):
            least = min(least, cells[base + d * width + columns[d, 0]])
        out[i] = least


@inlined()
def _add_up(values, first, end, total, slack):
    """Whether none is negative, not finite or beyond a total, which all together are."""
    allowed = slack * total
    found = 0.0
    for j in range(first, end):
        if not (values[j] >= 0 and values[j] <= total + allowed):  # so written, a NaN is refused
            return False
        found += values[j]
    return abs(found - total) <= allowed


@kernel()
def check_lane(list_starts, values, cell_starts, cells, totals, slack, depth, width):
    """The first row whose sums are negative, not finite or add up to another total, or -1."""
    for row in range(totals.shape[0]):
        total = np.float64(totals[row])
        if total == -1.0:  # beyond its type: its parts are all 0
            total = 0.0
        if not (total >= 0.0):
            return row
        at = cell_starts[row]
        if cell_starts[row + 1] == at:
            if not _add_up(values, list_starts[row], list_starts[row + 1], total, slack):
                return row
            continue
        for d in range(depth):
            if not _add_up(cells, at + d * width, at + (d + 1) * width, total, slack):
                return row
    return -1
