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


@kernel()
def bucket_sort(values, least, shift, starts, crowd_max, out):
    """Sort numbers that are spread evenly: into buckets by value, then each bucket by insertion.

    `starts` is int64[buckets + 1], zeroed. False where a bucket holds more than `crowd_max`: the
    values are not spread evenly, and `out` is not sorted.
    """
    least = np.uint64(least)
    shift = np.uint64(shift)
    buckets = np.uint64(starts.shape[0] - 1)
    for i in range(values.shape[0]):
        starts[np.intp(multiply_high((values[i] - least) << shift, buckets)) + 1] += 1
    for b in range(starts.shape[0] - 1):
        if starts[b + 1] > crowd_max:
            return False
        starts[b + 1] += starts[b]
    for i in range(values.shape[0]):
        b = np.intp(multiply_high((values[i] - least) << shift, buckets))
        out[starts[b]] = values[i]
        starts[b] += 1  # becomes where the next bucket begins
    for i in range(1, out.shape[0]):
        value = out[i]
        j = i
        while j > 0 and out[j - 1] > value:
            out[j] = out[j - 1]
            j -= 1
        out[j] = value
    return True
