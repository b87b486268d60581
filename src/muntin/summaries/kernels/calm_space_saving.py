"""Calm Space-Saving's loops: buckets of eight pairs and a queue, and a store of named pairs.

A pair is a 64-bit hash of item and interval. A bucket is one cache line, eight fingerprints and
eight count words, with its own short queue of fingerprints beside it. The items themselves stand
only in the store, which holds the pairs of highest count: a pair is named when its count passes
the store's lowest, at a moment when its item is at hand. A pair in the store keeps its count
there, and its count word the slot: no second index is needed.
"""

from typing import NamedTuple

import numpy as np

from muntin.summaries.kernels import bare, inlined
from muntin.summaries.kernels.bits import multiply_high
from muntin.summaries.kernels.hashing import hash_u64
from muntin.summaries.kernels.lanes import find_lane, push_lane
from muntin.summaries.kernels.memory import copy_bytes, load_u32, prefetch

WAYS = 8
STORED = np.uint32(1 << 31)  # count word: the rest is a slot of the store
PROMOTED = np.uint32(1 << 30)  # count word: the count may hold up to the bucket's floor of others
COUNT = np.uint32((1 << 30) - 1)
SLOT = np.uint32((1 << 31) - 1)
ERROR_MAX = (1 << 31) - 1
# Columns of a slot; the last two only where batches have times. Two are packed: ERROR_PLACE is
# error << 32 | bucket * 8 + way, and WHERE is begin << 32 | length of the item in the arena.
COUNTED, ERROR_PLACE, WHERE, INTERVAL, FIRST, LAST = range(6)
NOWHERE = 0xFFFFFFFF  # place of a slot that is free
# Numbers about the store, in `marks`: slots taken from the front, free ones among these, the count
# that a pair must pass, where the hand is, bytes of the arena in use and of items that are there,
# and how often an item found no room.
USED, FREE, THRESHOLD, HAND, ARENA_END, ARENA_LIVE, UNNAMED = range(7)
MARKS = 7
AHEAD = 8
HEADER = 8  # bytes before an item in the arena: its slot and its length, for compaction
_ALL = np.uint32(0xFFFFFFFF)
_TAG = np.uint32(0xFFFFFF00)
_ONE = np.uint32(1)
_LOW = 0xFFFFFFFF


class CalmTables(NamedTuple):
    """What a Calm Space-Saving holds; see the module."""

    saving: np.ndarray  # uint32[buckets * 16]: eight fingerprints (0: free), eight count words
    queue: np.ndarray  # uint32[buckets * queue ways]: 24 bits of the hash, 8 bits of count
    floors: np.ndarray  # uint32[buckets]: largest count that a promoted pair took over
    losses: np.ndarray  # uint32[buckets] or [1]: occurrences that fell off the queue
    slots: np.ndarray  # int64[k, 4 or 6]: the store
    marks: np.ndarray  # int64[MARKS]
    arena: np.ndarray  # uint8[...]: the named items' bytes


@inlined()
def pair_hash(item_hash, interval):
    return hash_u64(np.uint64(interval), item_hash)


@inlined()
def bucket_of(tables, pair):
    return np.intp(multiply_high(pair, np.uint64(tables.floors.shape[0])))


@inlined()
def fingerprint(number):
    low = np.uint32(number)
    return low if low != 0 else _ONE


@inlined()
def queue_tag(pair):
    tag = np.uint32(pair) & _TAG
    return tag if tag != 0 else np.uint32(256)


@inlined()
def find_queued(tables, bucket, tag):
    """Position of a tag in its bucket's queue, or -1."""
    ways = tables.queue.shape[0] // tables.floors.shape[0]
    found = -1
    for begin in range(bucket * ways, (bucket + 1) * ways, WAYS):
        way = find_lane(tables.queue, begin, tag, _TAG)
        if way < WAYS:
            found = begin + way
            break
    return found


@inlined()
def enqueue(tables, bucket, entry):
    """Put a newcomer in front: the first free place closes up, or the oldest entry falls off."""
    ways = tables.queue.shape[0] // tables.floors.shape[0]
    for begin in range(bucket * ways, (bucket + 1) * ways, WAYS):
        last = min(find_lane(tables.queue, begin, np.uint32(0), _ALL), WAYS - 1)
        entry = push_lane(tables.queue, begin, entry, last)
        if entry == 0:
            break
    if tables.losses.shape[0] > 0:
        lost = np.uint64(tables.losses[bucket]) + np.uint64(entry & np.uint32(255))
        tables.losses[bucket] = np.uint32(min(lost, np.uint64(0xFFFFFFFF)))


@bare()
def _to_front(tables, bucket, entry, at):
    """An entry of the queue at `at` moves to its front, changed."""
    ways = tables.queue.shape[0] // tables.floors.shape[0]
    for place in range(at, bucket * ways, -1):
        tables.queue[place] = tables.queue[place - 1]
    tables.queue[bucket * ways] = entry


@inlined()
def _store_u32(data, at, number):
    for byte in range(4):
        data[at + byte] = np.uint8((number >> (8 * byte)) & 255)


@bare()
def _compact(tables):
    """Close the holes that items which left the store have made in the arena."""
    begin = end = np.int64(0)
    while begin < tables.marks[ARENA_END]:
        slot = np.int64(load_u32(tables.arena, begin))
        length = np.int64(load_u32(tables.arena, begin + 4))
        # What has left is still in the arena; its slot says another place now, or none.
        if tables.slots[slot, WHERE] == (begin << 32) | length:
            tables.slots[slot, WHERE] = (end << 32) | length
            copy_bytes(tables.arena, end, tables.arena, begin, HEADER + length)
            end += HEADER + length
        begin += HEADER + length
    tables.marks[ARENA_END] = end


@bare()
def _leave(tables, slot):
    """Take a slot's pair out of the store: its count goes back to its bucket, its slot and its
    item's bytes are free."""
    place = tables.slots[slot, ERROR_PLACE] & _LOW
    count = np.uint32(min(tables.slots[slot, COUNTED], np.int64(COUNT)))
    if tables.slots[slot, ERROR_PLACE] >> 32:
        count |= PROMOTED
    tables.saving[place // WAYS * 16 + WAYS + place % WAYS] = count
    tables.marks[ARENA_LIVE] -= HEADER + (tables.slots[slot, WHERE] & _LOW)
    for column in range(tables.slots.shape[1]):
        tables.slots[slot, column] = 0
    tables.slots[slot, ERROR_PLACE] = NOWHERE
    tables.marks[FREE] += 1


@bare()
def _slot_for(tables, count):
    """A slot for a pair of this count: free, or of a pair with a lower one; -1 where none is.

    The hand goes round: it takes the first slot at or below the threshold, and when it has met
    none all round, the threshold rises to the lowest count that it saw.
    """
    k = tables.slots.shape[0]
    if tables.marks[USED] < k:
        tables.marks[USED] += 1
        return tables.marks[USED] - 1
    if tables.marks[FREE] > 0:
        for slot in range(k):
            if tables.slots[slot, ERROR_PLACE] & _LOW == NOWHERE:
                tables.marks[FREE] -= 1
                return slot
    while count > tables.marks[THRESHOLD]:
        lowest = np.int64(1 << 62)
        for _ in range(k):
            slot = tables.marks[HAND]
            tables.marks[HAND] = slot + 1 if slot + 1 < k else 0
            if tables.slots[slot, COUNTED] <= tables.marks[THRESHOLD]:
                _leave(tables, slot)
                tables.marks[FREE] -= 1
                return slot
            lowest = min(lowest, tables.slots[slot, COUNTED])
        tables.marks[THRESHOLD] = lowest
    return -1


@bare()
def _may_fit(tables, count, length):
    """Whether an item of `length` fits once the pairs of lower count have gone, which must not go
    for nothing. Where none is lower, nothing goes."""
    left = tables.arena.shape[0] - HEADER - length
    if left < 0 or tables.marks[ARENA_LIVE] <= left:
        return left >= 0
    lower = False
    for slot in range(tables.marks[USED]):
        if tables.slots[slot, ERROR_PLACE] & _LOW == NOWHERE:
            continue
        if tables.slots[slot, COUNTED] >= count:
            left -= HEADER + (tables.slots[slot, WHERE] & _LOW)
        else:
            lower = True
    return left >= 0 or not lower


@bare()
def _make_room(tables, count, length):
    """Let pairs of lower count go until an item of `length` fits; false where it cannot."""
    capacity = tables.arena.shape[0]
    need = HEADER + length
    while tables.marks[ARENA_LIVE] + need > capacity:
        lowest = -1
        for slot in range(tables.marks[USED]):
            if tables.slots[slot, ERROR_PLACE] & _LOW == NOWHERE:
                continue
            if tables.slots[slot, COUNTED] >= count:
                continue
            if lowest < 0 or tables.slots[slot, COUNTED] < tables.slots[lowest, COUNTED]:
                lowest = slot
        if lowest < 0:
            return False
        _leave(tables, lowest)
    if tables.marks[ARENA_END] + need > capacity:
        _compact(tables)
    return True


@bare()
def _fill(tables, slot, place, count, error, interval, data, start, length):
    """Name a pair: its item's bytes into the arena, its count into the slot."""
    begin = tables.marks[ARENA_END]
    _store_u32(tables.arena, begin, slot)
    _store_u32(tables.arena, begin + 4, length)
    copy_bytes(tables.arena, begin + HEADER, data, start, length)
    tables.marks[ARENA_END] += HEADER + length
    tables.marks[ARENA_LIVE] += HEADER + length
    tables.slots[slot, COUNTED] = count
    tables.slots[slot, ERROR_PLACE] = (error << 32) | place
    tables.slots[slot, WHERE] = (begin << 32) | length
    tables.slots[slot, INTERVAL] = interval
    tables.saving[place // WAYS * 16 + WAYS + place % WAYS] = STORED | np.uint32(slot)


@bare()
def name_pair(tables, bucket, way, count, error, interval, data, start, length):
    """Put a pair whose count passed the threshold into the store; its slot, or -1."""
    if not _may_fit(tables, count, length):
        tables.marks[UNNAMED] += 1
        return -1
    slot = _slot_for(tables, count)
    if slot < 0:
        return -1
    tables.slots[slot, ERROR_PLACE] = NOWHERE  # not filled yet: `_make_room` passes it over
    if not _make_room(tables, count, length):
        tables.marks[FREE] += 1
        tables.marks[UNNAMED] += 1
        return -1
    _fill(tables, slot, bucket * WAYS + way, count, error, interval, data, start, length)
    return slot


@bare()
def count_of(tables, bucket, way):
    """Count of a bucket's way, wherever it is kept."""
    word = tables.saving[bucket * 16 + WAYS + way]
    if word & STORED:
        return tables.slots[np.intp(word & SLOT), COUNTED]
    return np.int64(word & COUNT)


@bare()
def lowest_way(tables, bucket):
    """The way of a full bucket with the lowest count, the first of equals."""
    best, lowest = 0, count_of(tables, bucket, 0)
    for way in range(1, WAYS):
        count = count_of(tables, bucket, way)
        if count < lowest:
            best, lowest = way, count
    return best


@bare()
def take_over(tables, bucket, way, pair):
    """Give a way to another pair; what it held leaves the store as well."""
    word = tables.saving[bucket * 16 + WAYS + way]
    if word & STORED:
        _leave(tables, np.intp(word & SLOT))
    tables.saving[bucket * 16 + way] = fingerprint(pair)


@bare()
def set_count(tables, bucket, way, count, error, interval, data, start, length):
    """Write a new count of a pair that is not in the store; its slot if that names it, else -1."""
    word = np.uint32(min(count, np.int64(COUNT)))
    if error:
        word |= PROMOTED
    tables.saving[bucket * 16 + WAYS + way] = word
    if count > tables.marks[THRESHOLD]:
        return name_pair(tables, bucket, way, count, error, interval, data, start, length)
    return -1


@bare()
def rename(tables, bucket, way, interval, data, start, length):
    """Name a pair whose count word has passed the threshold."""
    word = tables.saving[bucket * 16 + WAYS + way]
    count = np.int64(word & COUNT)
    error = np.int64(0)
    if word & PROMOTED:
        error = min(np.int64(tables.floors[bucket]), count - 1)
    return name_pair(tables, bucket, way, count, error, interval, data, start, length)


@bare()
def promote_pair(tables, bucket, pair, seen, interval, data, start, length):
    """Replace a full bucket's lowest pair; the newcomer takes its count on, as its error."""
    way = lowest_way(tables, bucket)
    floor = min(count_of(tables, bucket, way), ERROR_MAX)
    take_over(tables, bucket, way, pair)
    tables.floors[bucket] = max(np.int64(tables.floors[bucket]), floor)
    return set_count(tables, bucket, way, floor + seen, floor, interval, data, start, length)


@bare()
def add_queued(tables, bucket, at, promote, pair, interval, data, start, length):
    """One more of a pair at a queue's position: to the front, or promoted at `promote`."""
    entry = tables.queue[at] + _ONE
    if np.int64(entry & np.uint32(255)) < promote:
        _to_front(tables, bucket, entry, at)
        return -1
    tables.queue[at] = 0
    return promote_pair(tables, bucket, pair, promote, interval, data, start, length)


@inlined()
def add_known(tables, bucket, way, interval, data, start, length):
    """One more of a pair in Space-Saving; its slot in the store, or -1."""
    at = bucket * 16 + WAYS + way
    word = tables.saving[at]
    slot = -1
    if word & STORED:
        slot = np.intp(word & SLOT)
        tables.slots[slot, COUNTED] += 1
    else:
        if word & COUNT != COUNT:
            word = np.uint32(word + _ONE)
        tables.saving[at] = word
        if np.int64(word & COUNT) > tables.marks[THRESHOLD]:
            slot = rename(tables, bucket, way, interval, data, start, length)
    return slot


@inlined()
def add_new(tables, bucket, promote, pair, interval, data, start, length):
    """A pair that is neither in Space-Saving nor queued: a free way at once, else the queue."""
    slot = -1
    way = find_lane(tables.saving, bucket * 16, np.uint32(0), _ALL)
    if way < WAYS:
        tables.saving[bucket * 16 + way] = fingerprint(pair)
        slot = set_count(tables, bucket, way, 1, 0, interval, data, start, length)
    elif promote > 1:
        enqueue(tables, bucket, np.uint32(queue_tag(pair) | _ONE))
    else:
        slot = promote_pair(tables, bucket, pair, 1, interval, data, start, length)
    return slot


@bare()
def raise_known(tables, bucket, way, value, interval, data, start, length):
    """A pair keeps the highest value; its slot in the store, or -1."""
    at = bucket * 16 + WAYS + way
    word = tables.saving[at]
    if word & STORED:
        slot = np.intp(word & SLOT)
        tables.slots[slot, COUNTED] = max(tables.slots[slot, COUNTED], value)
        return slot
    if value <= np.int64(word & COUNT):
        return -1
    return set_count(tables, bucket, way, value, 0, interval, data, start, length)


@bare()
def raise_new(tables, bucket, value, pair, interval, data, start, length):
    """A pair that is not there, by its value: a free way, or the lowest one's if that is less."""
    way = find_lane(tables.saving, bucket * 16, np.uint32(0), _ALL)
    if way == WAYS:
        way = lowest_way(tables, bucket)
        if count_of(tables, bucket, way) >= value:
            return -1
        take_over(tables, bucket, way, pair)
    tables.saving[bucket * 16 + way] = fingerprint(pair)
    return set_count(tables, bucket, way, value, 0, interval, data, start, length)


@bare()
def update_calm(tables, promote, hashes, intervals, data, offsets):
    """Count a batch; `intervals` may be empty, `offsets` is empty for 8-byte integers."""
    n = hashes.shape[0]
    paired = intervals.shape[0] > 0
    text = offsets.shape[0] > 0
    for i in range(n):
        if i + AHEAD < n and not paired:
            prefetch(tables.saving, bucket_of(tables, hashes[i + AHEAD]) * 16)
        interval = intervals[i] if paired else np.int64(0)
        pair = pair_hash(hashes[i], interval) if paired else hashes[i]
        start = offsets[i] if text else np.int64(i) * 8
        length = offsets[i + 1] - start if text else np.int64(8)
        bucket = bucket_of(tables, pair)
        way = find_lane(tables.saving, bucket * 16, fingerprint(pair), _ALL)
        if way < WAYS:
            add_known(tables, bucket, way, interval, data, start, length)
            continue
        at = find_queued(tables, bucket, queue_tag(pair))
        if at >= 0:
            add_queued(tables, bucket, at, promote, pair, interval, data, start, length)
        else:
            add_new(tables, bucket, promote, pair, interval, data, start, length)
