"""Lists in a row: list i is items[starts[i]:starts[i + 1]]."""

from __future__ import annotations

from muntin.summaries.kernels import kernel


@kernel()
def gather_lists(starts, items, rows, out_starts, out):
    """The lists of `rows`, in their order; `out_starts` is filled already."""
    for i in range(rows.shape[0]):
        at = starts[rows[i]]
        to = out_starts[i]
        for j in range(out_starts[i + 1] - to):
            out[to + j] = items[at + j]


@kernel()
def keep_present(order, bounds, missing, kept, kept_bounds, absent):
    """The events of each group that are not missing, and how many are.

    order, bounds : int64[n], int64[groups + 1]
    missing : bool[n]
    kept, kept_bounds, absent : int64[n], int64[groups + 1], int64[groups]
    """
    filled = 0
    kept_bounds[0] = 0
    for g in range(bounds.shape[0] - 1):
        for i in range(bounds[g], bounds[g + 1]):
            if not missing[order[i]]:
                kept[filled] = order[i]
                filled += 1
        kept_bounds[g + 1] = filled
        absent[g] = bounds[g + 1] - bounds[g] - (filled - kept_bounds[g])
    return filled


@kernel()
def sum_counts(counts, order, bounds, out):
    """`out[g]` = sum of the counts of group g."""
    for g in range(bounds.shape[0] - 1):
        total = 0
        for i in range(bounds[g], bounds[g + 1]):
            total += counts[order[i]]
        out[g] = total
