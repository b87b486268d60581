"""HyperCalm's recorder: a table of eight-way buckets of the items whose batches are followed.

Each item has a fingerprint, its last time and the begin of its last batch, in 32-bit ticks. Ages
are differences modulo 2^32, so no age may reach that: the first event of each turn of 2^28 ticks
forgets the items that were silent for 2^31 ticks or more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.summaries.kernels import bare, inlined

WAYS = 8
HALF_TICKS = np.uint32(1 << 31)  # intervals from here on are not counted
SMALL_TICKS = np.uint32(1 << 30)  # no batch stays small for longer: 2^10 events, 2^20 ticks apart
PROVEN = np.uint32(1 << 31)  # of a fingerprint: the item has repeated an interval
PRINT = np.uint32(0x7FFFFFFF)  # the rest of it
TURN = np.uint64(28)  # ticks, as a power of two


class Recorder(NamedTuple):
    """Items that are followed."""

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
