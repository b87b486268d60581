"""Hot loops of Space-Saving: a hash table over flat entries, with eviction in bulk.

Entry e: hashes[e], counts[e], errors[e], and its item: starts[e] where it is an integer, and
`arena` is None; a text is arena[starts[e]:starts[e + 1]]. Entries are in order of arrival.
table[slot] = (hash's high half) << 32 | e + 1, or 0. state = [entries, offset].

A loop returns before the item that it has no space for: the caller makes some and calls again.
"""

import numpy as np
from numba import types

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.copying import fill
from muntin.summaries.kernels.hash_table import fill_slots, place, slot_of
from muntin.summaries.kernels.memory import copy_bytes
from muntin.summaries.kernels.mixing import same_bytes
from muntin.summaries.kernels.sorting import nth_largest

ENTRIES, OFFSET = 0, 1
_HIGH = np.uint64(0xFFFFFFFF00000000)
_INDEX = np.uint64(0xFFFFFFFF)
_0 = np.uint64(0)
_1 = np.uint64(1)


@inlined()
def is_item(number, starts, arena, data, at, length):
    """Whether an entry is the text data[at:at + length], or the integer data[at]."""
    start = starts[number - _1]
    if arena is None:
        return start == data[at]
    return starts[number] - start == length and same_bytes(arena, start, data, at, length)


@inlined()
def find(table, starts, arena, hashed, data, at, length):
    """The number, plus 1, of an item's entry, or 0. Unsigned, so that indexing is direct."""
    mask = np.uint64(table.shape[0] - 1)
    number = slot_of(table, hashed, mask)
    if number != _0 and not is_item(number, starts, arena, data, at, length):
        slot = hashed & mask  # another item of the same tag: all that are there are looked at
        number = _0
        while number == _0 and table[slot] != _0:
            if (table[slot] ^ hashed) & _HIGH == _0 and is_item(
                table[slot] & _INDEX, starts, arena, data, at, length
            ):
                number = table[slot] & _INDEX
            slot = (slot + _1) & mask
    return number


@inlined()
def text_of(offsets, i):
    """Where text i begins, and its length; of integers, which have no offsets, i."""
    if offsets is None:
        return types.intp(i), types.intp(0)
    start = types.intp(offsets[i])
    return start, types.intp(offsets[i + 1]) - start


@inlined()
def put(entry, hashed, count, error, hashes, counts, errors):
    hashes[entry] = hashed
    counts[entry] = count
    errors[entry] = error


@inlined()
def put_item(entry, data, start, length, starts, arena):
    """The integer data[start], or the text of such a length behind that of the entry before."""
    if arena is None:
        starts[entry] = data[start]
    else:
        copy_bytes(arena, starts[entry], data, start, length)
        starts[entry + 1] = starts[entry] + length


@kernel()
def reindex(table, hashes, entries):
    """Fill the table anew from the entries."""
    fill(table, _0)
    fill_slots(table, hashes, entries, -1)


@kernel()
def evict(state, capacity, hashes, counts, errors, starts, arena, table):
    """Keep the `capacity` largest counts (of equal ones the oldest) and raise the offset. The
    offset becomes the largest count that is let go. There are more entries than capacity."""
    entries = state[ENTRIES]
    threshold = nth_largest(counts[:entries], capacity)
    larger = 0
    for entry in range(entries):
        larger += counts[entry] > threshold
    ties = capacity - larger
    kept = 0
    for entry in range(entries):
        if counts[entry] < threshold:
            continue
        if counts[entry] == threshold:
            if ties == 0:
                continue
            ties -= 1
        put(kept, hashes[entry], counts[entry], errors[entry], hashes, counts, errors)
        if arena is None:
            starts[kept] = starts[entry]
        else:  # within the arena, forwards: nothing is overwritten that is still to be moved
            put_item(kept, arena, *text_of(starts, entry), starts, arena)
        kept += 1
    state[ENTRIES] = kept
    state[OFFSET] = threshold
    reindex(table, hashes, kept)


@kernel()
def count(
    at, item_hashes, weights, data, offsets,
    state, capacity, hashes, counts, errors, starts, arena, table,
):  # fmt: skip
    """Count items from number `at` on; returns the number of the first that found no space. Text i
    is data[offsets[i]:offsets[i + 1]]; integer i, without offsets, is data[i]."""
    i, n = np.uint64(at), np.uint64(item_hashes.shape[0])
    step = np.uint64(weights.shape[0] > 1)  # one weight stands for all
    while True:
        while i < n:  # a loop of its own, so that it has the processor's registers
            hashed = item_hashes[i]
            start, length = text_of(offsets, i)
            found = find(table, starts, arena, hashed, data, start, length)
            if not found:
                break
            counts[found - _1] += weights[i * step]
            i += _1
        if i == n:
            return n
        weight = weights[i * step]
        if weight:
            if state[ENTRIES] >= 2 * capacity:
                evict(state, capacity, hashes, counts, errors, starts, arena, table)
            entry, offset = state[ENTRIES], state[OFFSET]
            if entry >= hashes.shape[0] or (
                arena is not None and starts[entry] + length > arena.shape[0]
            ):
                return i
            put(entry, hashed, offset + weight, offset, hashes, counts, errors)
            put_item(entry, data, start, length, starts, arena)
            state[ENTRIES] = entry + 1
            place(table, hashed, entry)
        i += _1


@kernel()
def look_up(item_hashes, data, offsets, starts, arena, table, out):
    """`out[i]` = entry of item i, or -1; items as in `count`."""
    for i in range(item_hashes.shape[0]):
        start, length = text_of(offsets, i)
        out[i] = types.intp(find(table, starts, arena, item_hashes[i], data, start, length)) - 1


@kernel()
def merge(
    more, more_offset, more_hashes, more_counts, more_errors, data, offsets,
    state, capacity, hashes, counts, errors, starts, arena, table,
):  # fmt: skip
    """Add `more` other entries, for which there is space, and the offset that they come with; their
    items as in `count`. An item that one side does not keep may have weighed up to that side's
    offset there."""
    mine = state[OFFSET]
    entries = state[ENTRIES]
    for entry in range(entries):
        counts[entry] += more_offset
        errors[entry] += more_offset
    for i in range(more):
        hashed = more_hashes[i]
        start, length = text_of(offsets, i)
        found = find(table, starts, arena, hashed, data, start, length)
        if found:  # both sides keep it: its count there, in place of the offset
            counts[found - _1] += more_counts[i] - more_offset
            errors[found - _1] += more_errors[i] - more_offset
            continue
        put(entries, hashed, more_counts[i] + mine, more_errors[i] + mine, hashes, counts, errors)
        put_item(entries, data, start, length, starts, arena)
        place(table, hashed, entries)
        entries += 1
    state[ENTRIES] = entries
    state[OFFSET] = mine + more_offset
    if entries > 2 * capacity:
        evict(state, capacity, hashes, counts, errors, starts, arena, table)
