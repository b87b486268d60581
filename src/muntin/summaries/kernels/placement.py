"""Hashes to the partitions whose range holds them, and hashes that forget that range."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.bits import multiply_high


@kernel()
def place(hashes, partitions, starts, out):
    """Copy `hashes` to `out`, partition by partition; partition p is out[starts[p]:starts[p + 1]].
    `starts` is int64[partitions + 1], zeroed. Order inside a partition is kept."""
    count = np.uint64(partitions)
    for i in range(hashes.shape[0]):
        starts[np.intp(multiply_high(hashes[i], count)) + 1] += 1
    for p in range(partitions):
        starts[p + 1] += starts[p]
    at = starts[:-1].copy()
    for i in range(hashes.shape[0]):
        p = np.intp(multiply_high(hashes[i], count))
        out[at[p]] = hashes[i]
        at[p] += 1


@kernel()
def spread(hashes, out):
    """A permutation of 64-bit numbers whose high bits depend on all bits of the hash.

    Filters scale a hash's high bits. Those of keys that were placed by hash range are alike: such
    filters would use a part of their cells only, and be wrong as many times more often.
    """
    for i in range(hashes.shape[0]):
        value = np.uint64(hashes[i])
        value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        out[i] = value ^ (value >> np.uint64(32))
