"""HyperBloom as published: states of two bits, and no stamps.

A state is the slice of an item's last visit modulo three, plus one; each visit clears the one
state that must be out of date. So cells that nobody visits for three slices look fresh again, and
recall falls where memory is large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.summaries.aligned import aligned_zeros
from muntin.summaries.items import hash_items
from muntin.summaries.kernels import bits, inlined, kernel
from muntin.summaries.kernels.hyper_bloom import next_eighth

multiply_high: Any = bits.multiply_high  # an intrinsic: called without its typing context
BLOCK_BYTES = 64
_SIGN = np.uint64(1 << 63)
_3 = np.uint64(3)
_8 = np.uint64(8)
_PAIRS = np.uint64(0x5555555555555555)


class PublishedBloom:
    """Which items begin a batch; parameters as of `HyperBloom`.

    Parameters
    ----------
    synchronous : bool
        All arrays begin their slices together: what the asynchronous timeline is compared with.
    """

    def __init__(self, memory: int, gap: int, *, synchronous: bool = False) -> None:
        self._gap, self._synchronous = gap, synchronous
        self._words = aligned_zeros(memory // BLOCK_BYTES * 8, np.uint64)

    def update(self, items: np.ndarray, times: np.ndarray) -> np.ndarray:
        """bool[n]: what begins a batch. Items and times int64[n], in order of time."""
        starts = np.empty(len(items), np.bool_)
        hashes = hash_items(items)
        _update(self._words, hashes, times, self._gap, self._synchronous, starts)
        return starts


@inlined()
def _set_states(time, gap, synchronous, states, stale):
    """What array i writes now, and the pattern of the state that it clears."""
    since = np.uint64(time) ^ _SIGN
    slices = since // np.uint64(gap)
    eighth = (since - slices * np.uint64(gap)) * _8 // np.uint64(gap)
    for lane in range(8):
        early = np.uint64(0) if synchronous else np.uint64(lane)
        state = (slices % _3 + ((eighth + early) >> _3)) % _3
        states[lane] = state + np.uint64(1)
        stale[lane] = _PAIRS * ((state + np.uint64(1)) % _3 + np.uint64(1))


@kernel()
def _update(words, hashes, times, gap, synchronous, starts):
    """As the paper: states 1 to 3 by slice, the stale one cleared on each visit, no stamps."""
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
