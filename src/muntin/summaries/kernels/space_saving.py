"""Hot loops of Space-Saving: a hash table over flat entries, with eviction in bulk.

Entry e: hashes[e], counts[e], errors[e], starts[e], lengths[e]. An integer item stands in
starts[e] itself, and `lengths` is None; a text is arena[starts[e]:starts[e] + lengths[e]].
Entries are in order of arrival, so that starts of texts ascend. table[slot] = (hash's high half)
<< 32 | e + 1, or 0. state = [entries, arena bytes in use, offset].

A loop returns before the item that it has no space for: the caller makes some and calls again.
"""

from __future__ import annotations

import numpy as np
from numba import types

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.copying import fill
from muntin.summaries.kernels.memory import prefetch
from muntin.summaries.kernels.mixing import same_bytes

ENTRIES, ARENA, OFFSET = 0, 1, 2
AHEAD = 8  # items between a prefetch of a slot and its use
_HIGH = np.uint64(0xFFFFFFFF00000000)
_INDEX = np.uint64(0xFFFFFFFF)
_0 = np.uint64(0)


@inlined()
def place(table, hashed, entry):
    """Put an entry into the first free slot from its own; the table is never full."""
    mask = np.uint64(table.shape[0] - 1)
    slot = hashed & mask
    while table[slot] != _0:
        slot = (slot + np.uint64(1)) & mask
    table[slot] = (hashed & _HIGH) | np.uint64(entry + 1)


@kernel(forceinline=True)
def find(table, starts, lengths, arena, hashed, data, at, length):
    """The entry of the text data[at:at + length], or of the integer data[at]; or -1."""
    mask = np.uint64(table.shape[0] - 1)
    slot = hashed & mask
    while table[slot] != _0:
        word = table[slot]
        if (word ^ hashed) & _HIGH == _0:
            entry = types.intp(word & _INDEX) - 1
            if lengths is None:
                if starts[entry] == data[at]:
                    return entry
            elif lengths[entry] == length and same_bytes(arena, starts[entry], data, at, length):
                return entry
        slot = (slot + np.uint64(1)) & mask
    return types.intp(-1)


@kernel()
def reindex(table, hashes, entries):
    """Fill the table anew from the entries."""
    fill(table, _0)
    for entry in range(entries):
        place(table, hashes[entry], entry)


@kernel()
def evict(state, capacity, hashes, counts, errors, starts, lengths, arena, table):
    """Keep the `capacity` largest counts (of equal ones the oldest) and raise the offset.

    The offset becomes the largest count that is let go. There are more entries than capacity.
    """
    entries = state[ENTRIES]
    threshold = np.partition(counts[:entries], entries - capacity - 1)[entries - capacity - 1]
    larger = 0
    for entry in range(entries):
        if counts[entry] > threshold:
            larger += 1
    ties = capacity - larger
    kept = 0
    used = 0
    for entry in range(entries):
        if counts[entry] < threshold:
            continue
        if counts[entry] == threshold:
            if ties == 0:
                continue
            ties -= 1
        hashes[kept] = hashes[entry]
        counts[kept] = counts[entry]
        errors[kept] = errors[entry]
        if lengths is None:
            starts[kept] = starts[entry]
        else:
            start = starts[entry]
            length = lengths[entry]
            for i in range(length):  # never overtakes: used <= start
                arena[used + i] = arena[start + i]
            starts[kept] = used
            lengths[kept] = length
            used += length
        kept += 1
    state[ENTRIES] = kept
    state[ARENA] = used
    state[OFFSET] = threshold
    reindex(table, hashes, kept)


@kernel()
def count(
    at, item_hashes, weights, data, offsets,
    state, capacity, hashes, counts, errors, starts, lengths, arena, table,
):  # fmt: skip
    """Count items from number `at` on; returns the number of the first that found no space.

    Text i is data[offsets[i]:offsets[i + 1]]; integer i, without offsets, is data[i].
    """
    n = item_hashes.shape[0]
    step = 0 if weights.shape[0] == 1 else 1
    mask = np.uint64(table.shape[0] - 1)
    for i in range(at, n):
        if i + AHEAD < n:
            prefetch(table, types.intp(item_hashes[i + AHEAD] & mask))
        weight = weights[i * step]
        if weight == 0:
            continue
        hashed = item_hashes[i]
        start = types.intp(i)
        length = types.intp(0)
        if offsets is not None:
            start = types.intp(offsets[i])
            length = types.intp(offsets[i + 1]) - start
        entry = find(table, starts, lengths, arena, hashed, data, start, length)
        if entry >= 0:
            counts[entry] += weight
            continue
        if state[ENTRIES] >= 2 * capacity:
            evict(state, capacity, hashes, counts, errors, starts, lengths, arena, table)
        entry = state[ENTRIES]
        used = state[ARENA]
        if entry >= hashes.shape[0] or used + length > arena.shape[0]:
            return i
        hashes[entry] = hashed
        counts[entry] = state[OFFSET] + weight
        errors[entry] = state[OFFSET]
        if lengths is None:
            starts[entry] = data[start]
        else:
            for byte in range(length):
                arena[used + byte] = data[start + byte]
            starts[entry] = used
            lengths[entry] = length
            state[ARENA] = used + length
        state[ENTRIES] = entry + 1
        place(table, hashed, entry)
    return n


@kernel()
def look_up(item_hashes, data, offsets, starts, lengths, arena, table, out):
    """`out[i]` = entry of item i, or -1; items as in `count`."""
    for i in range(item_hashes.shape[0]):
        start = types.intp(i)
        length = types.intp(0)
        if offsets is not None:
            start = types.intp(offsets[i])
            length = types.intp(offsets[i + 1]) - start
        out[i] = find(table, starts, lengths, arena, item_hashes[i], data, start, length)


@kernel()
def merge(
    more, more_offset, more_hashes, more_counts, more_errors, more_starts, more_lengths, more_arena,
    state, capacity, hashes, counts, errors, starts, lengths, arena, table,
):  # fmt: skip
    """Add `more` other entries, for which there is space, and the offset that they come with.

    An item that one side does not keep may have weighed up to that side's offset there.
    """
    mine = state[OFFSET]
    entries = state[ENTRIES]
    used = state[ARENA]
    for entry in range(entries):
        counts[entry] += more_offset
        errors[entry] += more_offset
    for i in range(more):
        hashed = more_hashes[i]
        start = more_starts[i]
        length = more_lengths[i]
        if lengths is None:
            entry = find(table, starts, lengths, arena, hashed, more_starts, i, length)
        else:
            entry = find(table, starts, lengths, arena, hashed, more_arena, start, length)
        if entry >= 0:
            counts[entry] += more_counts[i] - more_offset
            errors[entry] += more_errors[i] - more_offset
            continue
        if lengths is not None:
            for byte in range(length):
                arena[used + byte] = more_arena[start + byte]
            lengths[entries] = length
            start = used
            used += length
        hashes[entries] = hashed
        counts[entries] = more_counts[i] + mine
        errors[entries] = more_errors[i] + mine
        starts[entries] = start
        place(table, hashed, entries)
        entries += 1
    state[ENTRIES] = entries
    state[ARENA] = used
    state[OFFSET] = mine + more_offset
    if entries > 2 * capacity:
        evict(state, capacity, hashes, counts, errors, starts, lengths, arena, table)
