"""Copies and fills, as loops: Numba takes a second or two to compile each slice that is set."""

from muntin.summaries.kernels import inlined, kernel


@inlined()
def copy_to(target, source):
    """`target[:len(source)] = source`"""
    for i in range(source.shape[0]):
        target[i] = source[i]


@inlined()
def fill(target, value):
    """`target[:] = value`"""
    for i in range(target.shape[0]):
        target[i] = value


@kernel()
def append_lists(starts, items, rows, out, filled):
    """Put some lists behind what is filled of `out`; returns how much is then. `rows` (int64[n]):
    which of the lists, of which i is items[starts[i]:starts[i + 1]]."""
    for i in range(rows.shape[0]):
        for j in range(starts[rows[i]], starts[rows[i] + 1]):
            out[filled] = items[j]
            filled += 1
    return filled
