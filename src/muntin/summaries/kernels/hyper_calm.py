"""HyperCalm's loop: a recorder of items, the HyperBloom before it, Calm Space-Saving behind it.

An item that the recorder holds has exact batch detection; one that it does not hold is admitted
only where the HyperBloom is sure that a batch starts. So each interval that is counted is a true
one (but for equal fingerprints), and errors are only omissions. The item that was silent longest
gives way, to one start of four; one that has repeated an interval is kept eight times as long:
otherwise the many items that come once would push out those whose beat is longer than the table is
deep.

The recorder's clock has ticks of `resolution`. As long as all times are a whole number of ticks
apart ("aligned"), distances in ticks are exact; else they are right to less than a tick.
"""

from typing import NamedTuple

import numpy as np

from muntin.summaries.kernels import bare, inlined
from muntin.summaries.kernels import calm_space_saving as calm
from muntin.summaries.kernels.bits import multiply_high
from muntin.summaries.kernels.calm_space_saving import FIRST, INTERVAL, LAST, WAYS
from muntin.summaries.kernels.hashing import hash_u64
from muntin.summaries.kernels.hyper_bloom import eighths, forget_stale, next_eighth, visit_stamped
from muntin.summaries.kernels.lanes import find_lane, pick_lane
from muntin.summaries.kernels.memory import prefetch

HALF_TICKS = np.uint32(1 << 31)  # intervals from here on are not counted
SMALL_TICKS = np.uint32(1 << 30)  # no batch stays small for longer: 2^10 events, 2^20 ticks apart
PROVEN = np.uint32(1 << 31)  # of a fingerprint: the item has repeated an interval
PRINT = np.uint32(0x7FFFFFFF)  # the rest of it
TURN = np.uint64(28)  # ticks, as a power of two
AHEAD = 8
PATIENCE = np.uint32(3)  # a proven item is kept eight times as long
_COIN = np.uint64(3)
_SIGN = np.uint64(1 << 63)
_2 = np.uint64(2)
_ONE = np.uint64(1)
_ALL = np.uint32(0xFFFFFFFF)


class Settings(NamedTuple):
    """Numbers that do not change, int64."""

    gap: int
    resolution: int
    unit: int
    joined: int
    consecutive: int
    batch_size: int
    promote: int


class Clock(NamedTuple):
    """Where the stream stands, int64."""

    last: int  # time of the event before, or of the first
    phase: int  # of the first event: its time from the beginning of int64 time, modulo a tick
    aligned: int  # 1 as long as all events had that phase


class Recorder(NamedTuple):
    """Items that are followed: fingerprint, last time and begin of the last batch of each.

    Ages are differences of 32-bit ticks modulo 2^32, so no age may reach that: the first event of
    each turn of 2^28 ticks forgets the items that were silent for 2^31 ticks or more.
    """

    lines: np.ndarray  # uint32[buckets * 16]: eight fingerprints (0: free), eight last times
    batches: np.ndarray  # uint32[buckets * 8]: begin of the last batch; 2^31 ticks ago: unknown
    opened: np.ndarray  # uint32[buckets * 8] or empty: begin of the batch that still is small
    sizes: np.ndarray  # uint32[buckets * 8] or empty: its items so far
    bins: np.ndarray  # uint32[buckets * 8] or empty: bin of the last interval
    runs: np.ndarray  # uint32[buckets * 8] or empty: how often it came in a row


@bare()
def forget_far(recorder, before, now):
    """Forget what is 2^31 ticks old at `now`; `before` is the last event's tick, both uint64."""
    elapsed = min(now - before, np.uint64(HALF_TICKS))
    for place in range(recorder.batches.shape[0]):
        at = place // WAYS * 16 + place % WAYS
        if recorder.lines[at] == 0:
            continue
        silent = np.uint64(np.uint32(np.uint32(before) - recorder.lines[at + WAYS])) + elapsed
        age = np.uint64(np.uint32(np.uint32(before) - recorder.batches[place])) + elapsed
        if silent >= HALF_TICKS:
            _clear(recorder, at, place)
        elif age >= HALF_TICKS:
            since = np.uint32(now)
            if recorder.sizes.shape[0] > 0:
                opened = recorder.opened[place]  # a batch that still is small may begin there
                since = opened if np.uint32(since - opened) < SMALL_TICKS else since
            recorder.batches[place] = np.uint32(since - HALF_TICKS)


@inlined()
def _clear(recorder, at, place):
    """Nothing is left of an item, so that equal streams give equal bytes."""
    recorder.lines[at] = 0
    recorder.lines[at + WAYS] = 0
    recorder.batches[place] = 0
    if recorder.sizes.shape[0] > 0:
        recorder.opened[place] = 0
        recorder.sizes[place] = 0
    if recorder.runs.shape[0] > 0:
        recorder.bins[place] = 0
        recorder.runs[place] = 0


@inlined()
def follow(recorder, bucket, way, item_print, tick, batch_size):
    """A new item, at the start of a batch; before it there is none."""
    recorder.lines[bucket * 16 + way] = item_print
    recorder.lines[bucket * 16 + WAYS + way] = tick
    unknown = np.uint32(tick - HALF_TICKS)
    recorder.batches[bucket * WAYS + way] = tick if batch_size == 1 else unknown
    if batch_size > 1:
        recorder.opened[bucket * WAYS + way] = tick
        recorder.sizes[bucket * WAYS + way] = 1
    if recorder.runs.shape[0] > 0:
        recorder.bins[bucket * WAYS + way] = 0
        recorder.runs[bucket * WAYS + way] = 0


@inlined()
def batch_begins(recorder, at, tick, silent, within, apart, batch_size):
    """An item at `at` comes again after `silent` ticks: has a batch begun, and been large enough?

    Up to `within` ticks it surely goes on, above `apart` one surely begins. Between, ticks are too
    coarse to tell: no interval is then measured from this batch, nor to it.
    """
    begins = False
    if silent > within:
        if silent <= apart:
            recorder.batches[at] = np.uint32(tick - HALF_TICKS)
            if batch_size > 1:
                recorder.sizes[at] = np.uint32(batch_size)
        elif batch_size > 1:
            recorder.opened[at] = tick
            recorder.sizes[at] = 1
        else:
            begins = True
    elif batch_size > 1 and recorder.sizes[at] != np.uint32(batch_size):
        recorder.sizes[at] += np.uint32(1)
        begins = recorder.sizes[at] == np.uint32(batch_size)
    return begins


@inlined()
def _remember_times(tables, settings, slot, interval, distance, last):
    """What the store keeps of a named pair's beat: first and last batch, the usual distance."""
    usual = tables.slots[slot, INTERVAL] >> 32
    if usual == 0:  # just named
        tables.slots[slot, FIRST] = last - distance * settings.resolution
        usual = distance
    else:
        usual += (distance - usual + 4) >> 3
    tables.slots[slot, INTERVAL] = (usual << 32) | interval
    tables.slots[slot, LAST] = last


@inlined()
def _bins(distance, settings):
    """The bin of an interval, and the neighbour that it may join (itself: none).

    A bin is one unit wide. Where bins may join, the grid is half a unit, and a bin takes in the
    nearer halves of its neighbours as long as it has the higher count: again one unit. A steady
    interval then does not fall into two, wherever it lies.
    """
    span = np.uint64(distance) * np.uint64(settings.resolution)
    unit = np.uint64(settings.unit)
    if settings.joined == 0:
        own = span // unit
        other = own
    else:
        own = span * _2 // unit
        rest = span * _2 - own * unit
        other = own + _ONE if rest * _2 >= unit else own - _ONE
        if own == 0 and rest * _2 < unit:
            other = own
    return np.int64(own), np.int64(other)


@inlined()
def _located(tables, item_hash, interval):
    """The pair of an item and a bin, its bucket, and its way there (WAYS: none)."""
    pair = calm.pair_hash(item_hash, interval)
    bucket = calm.bucket_of(tables, pair)
    return pair, bucket, find_lane(tables.saving, bucket * 16, calm.fingerprint(pair), _ALL)


@inlined()
def _is_higher(tables, bucket, way, other, other_way):
    return calm.count_of(tables, bucket, way) > calm.count_of(tables, other, other_way)


@bare()
def count_interval(tables, settings, item_hash, distance, own, other, data, start, length, time):
    """One more batch at this distance from the last: to the pair of its bin or a neighbour's. True
    where that pair was there already, in Space-Saving or its queue: the interval repeats."""
    interval = own
    pair, bucket, way = _located(tables, item_hash, own)
    queued = -1
    if other == own:
        if way == WAYS:
            queued = calm.find_queued(tables, bucket, calm.queue_tag(pair))
    else:
        next_hash, beside, next_way = _located(tables, item_hash, other)
        # The bin that is in Space-Saving, of both the one with the higher count; else one that is
        # queued, the own one first.
        if next_way < WAYS:
            if way == WAYS or _is_higher(tables, beside, next_way, bucket, way):
                interval, pair, bucket, way = other, next_hash, beside, next_way
        elif way == WAYS:
            queued = calm.find_queued(tables, bucket, calm.queue_tag(pair))
            if queued < 0:
                queued = calm.find_queued(tables, beside, calm.queue_tag(next_hash))
                if queued >= 0:
                    interval, pair, bucket = other, next_hash, beside
    if way < WAYS:
        slot = calm.add_known(tables, bucket, way, interval, data, start, length)
    elif queued >= 0:
        slot = calm.add_queued(
            tables, bucket, queued, settings.promote, pair, interval, data, start, length
        )
    else:
        slot = calm.add_new(tables, bucket, settings.promote, pair, interval, data, start, length)
    if slot >= 0:
        _remember_times(tables, settings, slot, interval, distance, time)
    return way < WAYS or queued >= 0


@bare()
def count_run(
    tables, recorder, at, settings, item_hash, distance, own, other, data, start, length, time
):
    """The interval once more in a row, or the first of a new row; pairs keep the longest. A row
    goes on in its bin; a new one begins in that of the longer row, its own or the neighbour's."""
    interval = own
    if recorder.runs[at] > 0 and np.int64(recorder.bins[at]) == other:
        interval = other
    run = np.int64(1)
    if recorder.runs[at] > 0 and np.int64(recorder.bins[at]) == interval:
        run = min(np.int64(recorder.runs[at]) + 1, np.int64(0xFFFFFFFF))
    pair, bucket, way = _located(tables, item_hash, interval)
    if run == 1 and other != own:
        next_hash, beside, next_way = _located(tables, item_hash, other)
        if next_way < WAYS:
            if way == WAYS or _is_higher(tables, beside, next_way, bucket, way):
                interval, pair, bucket, way = other, next_hash, beside, next_way
    recorder.bins[at] = np.uint32(interval)
    recorder.runs[at] = np.uint32(run)
    if way < WAYS:
        slot = calm.raise_known(tables, bucket, way, run, interval, data, start, length)
    else:
        slot = calm.raise_new(tables, bucket, run, pair, interval, data, start, length)
    if slot >= 0:
        _remember_times(tables, settings, slot, interval, distance, time)
    return run > 1


@inlined()
def _beat(tables, recorder, at, settings, item_hash, tick, data, start, length, time):
    """A batch of a followed item begins at `tick`: count its distance; true if that is known."""
    distance = np.uint32(tick - recorder.batches[at])
    recorder.batches[at] = tick
    known = False
    if distance >= HALF_TICKS:
        if settings.consecutive != 0:
            recorder.runs[at] = 0
    else:
        far = np.int64(distance)
        own, other = _bins(far, settings)
        if settings.consecutive != 0:
            known = count_run(
                tables, recorder, at, settings, item_hash, far, own, other, data, start, length,
                time,
            )  # fmt: skip
        else:
            known = count_interval(
                tables, settings, item_hash, far, own, other, data, start, length, time
            )
    return known


@inlined()
def _limits(settings, aligned):
    """Ticks of silence up to which a batch surely goes on, and above which one surely begins."""
    within = settings.gap // settings.resolution
    apart = within
    if aligned == 0:
        within = (settings.gap + 1) // settings.resolution - 1
        apart = (settings.gap + settings.resolution - 1) // settings.resolution
    return within, apart


@inlined()
def _may_enter(recorder, at, item_hash, tick):
    """A free place is taken at once, that of another item by one start of four.

    Most items of a long tail come once: if each took a place, none would be held for as long as
    an interval. An item with a beat tries again at each batch, and loses a few of its first.
    """
    return recorder.lines[at] == 0 or hash_u64(np.uint64(tick), item_hash) & _COIN == 0


@bare()
def update_hyper_calm(
    words, stamps, recorder, tables, settings, clock, hashes, times, data, offsets
):
    """Take events in time order; `offsets` is empty for items that are 8-byte integers. Returns
    what `clock.aligned` is after them."""
    n = hashes.shape[0]
    text = offsets.shape[0] > 0
    blocks = np.uint64(stamps.shape[0])
    buckets = np.uint64(recorder.batches.shape[0] // WAYS)
    batch_size = settings.batch_size
    resolution = np.uint64(settings.resolution)
    aligned = clock.aligned
    within, apart = _limits(settings, aligned)
    before = (np.uint64(clock.last) ^ _SIGN) // resolution
    now = np.uint64(0)
    until = np.uint64(0)
    for i in range(n):
        if i + AHEAD < n:
            ahead = hashes[i + AHEAD]
            prefetch(recorder.lines, np.intp(multiply_high(ahead, buckets)) * 16)
            prefetch(words, np.intp(multiply_high(ahead, blocks)) * 8)
        since = np.uint64(times[i]) ^ _SIGN
        wide = since
        if resolution != _ONE:
            wide = since // resolution
            if aligned and np.int64(since - wide * resolution) != clock.phase:
                aligned = 0
                within, apart = _limits(settings, aligned)
        if wide >> TURN != before >> TURN:
            forget_far(recorder, before, wide)
            earlier = times[i - 1] if i else clock.last
            forget_stale(words, stamps, earlier, times[i], settings.gap)
        before = wide
        tick = np.uint32(wide)
        item_hash = hashes[i]
        item_print = calm.fingerprint(item_hash & np.uint64(PRINT))
        bucket = np.intp(multiply_high(item_hash, buckets))
        way = find_lane(recorder.lines, bucket * 16, item_print, PRINT)
        if way < WAYS:
            at = bucket * WAYS + way
            silent = np.int64(np.uint32(tick - recorder.lines[bucket * 16 + WAYS + way]))
            recorder.lines[bucket * 16 + WAYS + way] = tick
            if not batch_begins(recorder, at, tick, silent, within, apart, batch_size):
                continue
            begin = tick if batch_size == 1 else recorder.opened[at]
            start = offsets[i] if text else np.int64(i) * 8
            length = offsets[i + 1] - start if text else np.int64(8)
            time = times[i] - np.int64(np.uint32(tick - begin)) * settings.resolution
            if _beat(tables, recorder, at, settings, item_hash, begin, data, start, length, time):
                recorder.lines[bucket * 16 + way] |= PROVEN
        else:
            if since >= until:
                now = eighths(times[i], settings.gap)
                until = next_eighth(times[i], settings.gap)
            block = np.intp(multiply_high(item_hash, blocks))
            if not visit_stamped(words, stamps, block, item_hash, now):
                continue
            # An item inside a batch stays: the HyperBloom has not seen it for as long as it was
            # followed, and would call its next occurrence a start.
            way = pick_lane(recorder.lines, bucket * 16, tick, np.uint32(apart), PATIENCE)
            if way < WAYS and _may_enter(recorder, bucket * 16 + way, item_hash, tick):
                follow(recorder, bucket, way, item_print, tick, batch_size)
    return aligned


@bare()
def batch_ages(recorder, hashes, now, ages):
    """How many ticks before `now` (uint64) each item's last batch began; -1: not known."""
    buckets = np.uint64(recorder.batches.shape[0] // WAYS)
    for i in range(hashes.shape[0]):
        ages[i] = -1
        item_print = calm.fingerprint(hashes[i] & np.uint64(PRINT))
        bucket = np.intp(multiply_high(hashes[i], buckets))
        way = find_lane(recorder.lines, bucket * 16, item_print, PRINT)
        if way < WAYS:
            age = np.uint32(np.uint32(now) - recorder.batches[bucket * WAYS + way])
            if age < HALF_TICKS:
                ages[i] = np.int64(age)
