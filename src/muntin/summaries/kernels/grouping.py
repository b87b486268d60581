"""Grouping a small batch by its hashes: no table is built, rows come out in the order of bytes.

Events of one key stand side by side once they are sorted by hash. The values of each group are
compared with those of its first event, so that two values of one hash are noticed, not mixed.
"""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.hash_table import NULL_HASH
from muntin.summaries.kernels.hashing import hash_bytes, hash_u64
from muntin.summaries.kernels.vector_sums import add_pairs

_SEED = np.uint64(0)


@inlined()
def _is_null(bits, position):
    return (bits[position >> 3] >> np.uint8(position & 7)) & np.uint8(1) == np.uint8(0)


@kernel()
def hash_text_column(data, offsets, bits, bit_offset, out):
    """`out[i]` = XXH64 of string i; null has a hash of its own."""
    nulls = bits.shape[0] > 0
    for i in range(out.shape[0]):
        if nulls and _is_null(bits, bit_offset + i):
            out[i] = NULL_HASH
        else:
            out[i] = hash_bytes(data, np.int64(offsets[i]), np.int64(offsets[i + 1]), _SEED)


@kernel()
def hash_integer_column(values, bits, bit_offset, out):
    """`out[i]` = XXH64 of integer i; null has a hash of its own."""
    nulls = bits.shape[0] > 0
    for i in range(out.shape[0]):
        if nulls and _is_null(bits, bit_offset + i):
            out[i] = NULL_HASH
        else:
            out[i] = hash_u64(np.uint64(values[i]), _SEED)


@kernel()
def group_events(hashes, order, vectors, floats, integers, last, starts, cells, float_cells):
    """Sum the vectors of events of equal hashes.

    Parameters
    ----------
    hashes, order : uint64[keys, n], int64[keys, n]
        Hash of each event's key, and the events in the order of their hashes.
    vectors, floats, integers, last
        As for `add_vectors`: int64[n, width], a second view of it, and which cells are what.
    starts : int64[keys, n + 1]
        Out: where in the order each group begins, and the end of the last.
    cells, float_cells : int64[keys, last * n]
        Out: a key's sums, one cell of all its groups after the other.

    Returns
    -------
    int64[keys]
        Groups of each key.
    """
    keys, n = hashes.shape
    sizes = np.zeros(keys, np.int64)
    for k in range(keys):
        size = 0
        for i in range(n):
            if i == 0 or hashes[k, order[k, i]] != hashes[k, order[k, i - 1]]:
                starts[k, size] = i
                size += 1
        starts[k, size] = n
        sizes[k] = size
        for g in range(size):
            for c in range(last):
                cells[k, c * size + g] = 0
            for i in range(starts[k, g], starts[k, g + 1]):
                event = order[k, i]
                for c in range(integers):
                    cells[k, c * size + g] += vectors[event, c]
                for c in range(integers, last, 2):
                    high, low = add_pairs(
                        float_cells[k, c * size + g],
                        float_cells[k, (c + 1) * size + g],
                        floats[event, c],
                        floats[event, c + 1],
                    )
                    float_cells[k, c * size + g] = high
                    float_cells[k, (c + 1) * size + g] = low
    return sizes


@kernel()
def group_text(data, offsets, bits, bit_offset, order, starts, size, out_offsets, out_data):
    """The string of each group, one after the other; null has none.

    Returns
    -------
    (int, int)
        Groups that are null, and all bytes ORed; -1 where a group holds two different values.
    """
    nulls = bits.shape[0] > 0
    absent = 0
    seen = np.uint8(0)
    to = 0
    out_offsets[0] = 0
    for g in range(size):
        event = order[starts[g]]
        null = nulls and _is_null(bits, bit_offset + event)
        begin = np.int64(offsets[event])
        length = np.int64(0) if null else np.int64(offsets[event + 1]) - begin
        absent += null
        for i in range(starts[g] + 1, starts[g + 1]):
            other = order[i]
            if (nulls and _is_null(bits, bit_offset + other)) != null:
                return -1, 0
            if null:
                continue
            at = np.int64(offsets[other])
            if np.int64(offsets[other + 1]) - at != length:
                return -1, 0
            for b in range(length):
                if data[at + b] != data[begin + b]:
                    return -1, 0
        for b in range(length):
            byte = data[begin + b]
            out_data[to + b] = byte
            seen |= byte
        to += length
        out_offsets[g + 1] = to
    return absent, np.int64(seen)


@kernel()
def group_integers(values, bits, bit_offset, order, starts, size, out):
    """The integer of each group; null is 0. Returns groups that are null, -1 as `group_text`."""
    nulls = bits.shape[0] > 0
    absent = 0
    for g in range(size):
        event = order[starts[g]]
        null = nulls and _is_null(bits, bit_offset + event)
        absent += null
        out[g] = 0 if null else values[event]
        for i in range(starts[g] + 1, starts[g + 1]):
            other = order[i]
            if (nulls and _is_null(bits, bit_offset + other)) != null:
                return -1
            if not null and values[other] != values[event]:
                return -1
    return absent


@kernel()
def group_bitmap(bits, bit_offset, order, starts, size, out):
    """Validity bitmap (zeros before) of the groups."""
    for g in range(size):
        if not _is_null(bits, bit_offset + order[starts[g]]):
            out[g >> 3] |= np.uint8(1) << np.uint8(g & 7)
