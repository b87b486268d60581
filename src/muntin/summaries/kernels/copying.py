"""Copies and fills, as loops: Numba takes a second or two to compile each slice that is set."""

from muntin.summaries.kernels import inlined


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
