"""HyperBloom's loops: one cache line an item, eight arrays with shifted time slices.

Two forms. The stamped one has a present and a previous half in each word, and shifts the word on as
a whole when its slice has passed (see `lanes.visit_block`). The paper's has cells of two bits, the
slice of the last visit modulo three, plus one; each visit clears the one state that must be out of
date, so that a cell that nobody visits for three slices looks fresh again.

A stamp has 32 bits, and would look young again after 2^29 slices. So the first event of each turn
of 2^28 slices empties all blocks that are out of date: an empty block is empty at any age.
"""

import numpy as np

from muntin.summaries.kernels import bare, inlined, kernel
from muntin.summaries.kernels.bits import multiply_high
from muntin.summaries.kernels.lanes import visit_block
from muntin.summaries.kernels.memory import prefetch

AHEAD = 8  # items whose block is asked for early
_SIGN = np.uint64(1 << 63)
_3 = np.uint64(3)
_7 = np.uint64(7)
_8 = np.uint64(8)
_FAR = np.uint64(1 << 40)
_TURN = np.uint64(28)  # slices, as a power of two: half of what stamps can tell apart
_OLD = np.uint64(16)  # eighths: from here on every array is two slices further
_PAIRS = np.uint64(0x5555555555555555)


@inlined()
def _split(time, gap):
    """Slices from the beginning of int64 time, which are `gap` long, and eighths of the next."""
    since = np.uint64(time) ^ _SIGN
    slices = since // np.uint64(gap)
    return slices, (since - slices * np.uint64(gap)) * _8 // np.uint64(gap)


@inlined()
def eighths(time, gap):
    """Eighths of a slice from the beginning of int64 time, modulo 2^64."""
    slices, eighth = _split(time, gap)
    return slices * _8 + eighth


@inlined()
def next_eighth(time, gap):
    """The first time (uint64, from the beginning of int64 time) that lies in a later eighth."""
    slices, eighth = _split(time, gap)
    return slices * np.uint64(gap) + ((eighth + np.uint64(1)) * np.uint64(gap) + _7) // _8


@inlined()
def slice_of(time, gap):
    """Slices from the beginning of int64 time."""
    return (np.uint64(time) ^ _SIGN) // np.uint64(gap)


@inlined()
def turn_of(time, gap):
    """The turn of the stamps in which a time lies."""
    return slice_of(time, gap) >> _TURN


@bare()
def forget_stale(words, stamps, before, time, gap):
    """Empty the blocks that are out of date at `time`; `before` is the time of the last event.

    At `before` the age of each block that is not empty must be below 2^32 eighths: call this at
    least once in a turn.
    """
    slices = slice_of(time, gap) - slice_of(before, gap)
    then = eighths(before, gap)
    elapsed = eighths(time, gap) - then if slices < _8 else _FAR
    for block in range(stamps.shape[0]):
        age = np.uint64(np.uint32(np.uint32(then) - stamps[block])) + elapsed
        if age >= _OLD:
            for lane in range(8):
                words[block * 8 + lane] = 0


@inlined()
def visit_stamped(words, stamps, block, item_hash, now):
    """One item at one block: true where it was not there; `now` in eighths."""
    late = np.uint64(np.uint32(np.uint32(now) - stamps[block]))  # Numba widens differences
    stamps[block] = np.uint32(now)
    # Only the eighth inside the slice and the distance matter, which any base leaves the same.
    present = (now & _7) | _FAR
    return visit_block(words, block * 8, item_hash, present - late, present)


@kernel()
def update_bloom(words, stamps, hashes, times, last, gap, starts):
    """`starts[i]`: item i begins a batch. Times never go backwards, nor below `last`. gap * 8 fits
    in 63 bits; `last` is the time of the event before, or that of the first."""
    blocks = np.uint64(stamps.shape[0])
    n = hashes.shape[0]
    now = np.uint64(0)
    until = np.uint64(0)
    turn = turn_of(last, gap)
    for i in range(n):
        if i + AHEAD < n:
            prefetch(words, np.intp(multiply_high(hashes[i + AHEAD], blocks)) * 8)
        if np.uint64(times[i]) ^ _SIGN >= until:
            now = eighths(times[i], gap)
            until = next_eighth(times[i], gap)
            if turn_of(times[i], gap) != turn:
                turn = turn_of(times[i], gap)
                forget_stale(words, stamps, times[i - 1] if i else last, times[i], gap)
        block = np.intp(multiply_high(hashes[i], blocks))
        starts[i] = visit_stamped(words, stamps, block, hashes[i], now)


@inlined()
def _set_states(time, gap, synchronous, states, stale):
    """What array i writes now, and the pattern of the state that it clears."""
    slices, eighth = _split(time, gap)
    for lane in range(8):
        early = np.uint64(0) if synchronous else np.uint64(lane)
        state = (slices % _3 + ((eighth + early) >> _3)) % _3
        states[lane] = state + np.uint64(1)
        stale[lane] = _PAIRS * ((state + np.uint64(1)) % _3 + np.uint64(1))


@kernel()
def update_published(words, hashes, times, gap, synchronous, starts):
    """As `update_bloom`, as the paper; `synchronous`: all arrays begin their slices together."""
    blocks = np.uint64(words.shape[0] // 8)
    states = np.empty(8, np.uint64)
    stale = np.empty(8, np.uint64)
    until = np.uint64(0)
    for i in range(hashes.shape[0]):
        if np.uint64(times[i]) ^ _SIGN >= until:
            _set_states(times[i], gap, synchronous, states, stale)
            until = next_eighth(times[i], gap)
        item_hash = hashes[i]
        base = np.intp(multiply_high(item_hash, blocks)) * 8
        empty = 0
        for lane in range(8):
            word = words[base + lane]
            other = word ^ stale[lane]  # pairs that become 00 are stale
            keep = (other | (other >> np.uint64(1))) & _PAIRS
            word &= keep | (keep << np.uint64(1))
            at = ((item_hash >> np.uint64(5 * lane)) & np.uint64(31)) << np.uint64(1)
            empty += (word >> at) & _3 == np.uint64(0)
            words[base + lane] = (word & ~(_3 << at)) | (states[lane] << at)
        starts[i] = empty != 0


@kernel()
def first_backwards(times, last):
    """The first position whose time is below that of the one before it (or `last`); -1: none."""
    for i in range(times.shape[0]):
        if times[i] < last:
            return i
        last = times[i]
    return -1
