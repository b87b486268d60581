"""What HyperCalm is compared with: the paper's strawman, and the exact account.

The strawman is Clock-Sketch (Chen et al., SIGMOD 2021) for batch starts, a recorder of last batch
times, and Unbiased Space-Saving (Ting, SIGMOD 2018) for pairs. Both tables are eight-way sets
here, which is kinder to it than the linked lists that it was published with: 8 bytes a recorded
item and 12 a pair.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from muntin.summaries.aligned import aligned_zeros
from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.bits import multiply_high
from muntin.summaries.kernels.hashing import hash_u64
from muntin.summaries.kernels.lanes import find_lane

HASHES = 4
FULL = 15  # of a 4-bit cell; the hand takes it to zero in one gap
RECORD_BYTES = 8
PAIR_BYTES = 12
_ALL = np.uint32(0xFFFFFFFF)


@kernel()
def update_clock(cells, hand, hashes, times, gap, starts):
    """Clock-Sketch: `starts[i]` where one of an item's four cells has run down.

    `hand` holds position and last time; it passes all cells FULL - 1 times in a gap.
    """
    size = cells.shape[0]
    position, before = hand[0], hand[1]
    due = np.int64(0)
    for i in range(hashes.shape[0]):
        due += (times[i] - before) * size * (FULL - 1)
        before = times[i]
        steps = min(due // gap, size * FULL)
        due -= due // gap * gap
        for _ in range(steps):
            if cells[position] > 0:
                cells[position] -= np.uint8(1)
            position += 1
            if position == size:
                position = 0
        start = False
        for number in range(HASHES):
            at = np.intp(multiply_high(hash_u64(hashes[i], np.uint64(number)), np.uint64(size)))
            start |= cells[at] == 0
            cells[at] = FULL
        starts[i] = start
    hand[0], hand[1] = position, before


@kernel()
def update_strawman(records, pairs, starts, keys, hashes, times, unit, state):
    """Starts to intervals to Unbiased Space-Saving.

    `records`: uint32[buckets * 16], items and last batch times; `pairs`: uint32[buckets * 24],
    items, intervals and counts; `state`: the random generator's. An item is never 0 here.
    """
    record_buckets = np.uint64(records.shape[0] // 16)
    pair_buckets = np.uint64(pairs.shape[0] // 24)
    for i in range(keys.shape[0]):
        if not starts[i]:
            continue
        base = np.intp(multiply_high(hashes[i], record_buckets)) * 16
        way = find_lane(records, base, keys[i], _ALL)
        now = np.uint32(times[i])
        if way == 8:
            way = 0
            for other in range(8):
                if records[base + other] == 0:
                    way = other
                    break
                if records[base + 8 + other] < records[base + 8 + way]:
                    way = other
            records[base + way] = keys[i]
            records[base + 8 + way] = now
            continue
        interval = np.uint32(np.int64(now - records[base + 8 + way]) // unit)
        records[base + 8 + way] = now
        pair = hash_u64(hashes[i], np.uint64(interval))
        base = np.intp(multiply_high(pair, pair_buckets)) * 24
        lowest = 0
        found = -1
        for other in range(8):
            if pairs[base + other] == keys[i] and pairs[base + 8 + other] == interval:
                found = other
                break
            if pairs[base + 16 + other] < pairs[base + 16 + lowest]:
                lowest = other
        if found < 0:
            found = lowest
            count = np.uint64(pairs[base + 16 + lowest]) + np.uint64(1)
            state[0] = state[0] * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            if (state[0] >> np.uint64(33)) * count < np.uint64(1 << 31):
                pairs[base + lowest] = keys[i]
                pairs[base + 8 + lowest] = interval
        pairs[base + 16 + found] += np.uint32(1)


class Strawman:
    """Clock-Sketch + recorder + Unbiased Space-Saving in `memory` bytes; items are uint32."""

    def __init__(self, memory: int, gap: int, unit: int) -> None:
        clock = memory // 10
        records = (memory - clock) // 2 // (8 * RECORD_BYTES)
        self.cells = np.zeros(clock * 2, np.uint8)  # two cells would share a byte
        self.hand = np.zeros(2, np.int64)
        self.records = aligned_zeros(records * 16, np.uint32)
        left = memory - clock - records * 8 * RECORD_BYTES
        self.pairs = aligned_zeros(left // (8 * PAIR_BYTES) * 24, np.uint32)
        self.state = np.array([1], np.uint64)
        self.gap, self.unit = gap, unit

    def update(self, keys: np.ndarray, hashes: np.ndarray, times: np.ndarray) -> None:
        """One pass; keys uint32, their hashes uint64, times int64 below 2^32."""
        starts = np.empty(len(keys), np.bool_)
        update_clock(self.cells, self.hand, hashes, times, self.gap, starts)
        update_strawman(
            self.records, self.pairs, starts, keys, hashes, times, self.unit, self.state
        )

    def top(self, k: int) -> list[tuple[int, int, int]]:
        """(item, interval in units, count), highest count first."""
        lines = self.pairs.reshape(-1, 3, 8)
        item, interval, count = (lines[:, row].ravel() for row in range(3))
        best = np.argsort(-count.astype(np.int64), kind="stable")[:k]
        return list(
            zip(item[best].tolist(), interval[best].tolist(), count[best].tolist(), strict=True)
        )


def exact_starts(keys: np.ndarray, times: np.ndarray, gap: int) -> np.ndarray:
    """Which events begin a batch: bool[n]."""
    order = np.lexsort((np.arange(len(keys)), keys))
    item, time = keys[order], times[order]
    starts = np.ones(len(keys), np.bool_)
    starts[order[1:]] = (item[1:] != item[:-1]) | (time[1:] - time[:-1] > gap)
    return starts


def exact_pairs(keys: np.ndarray, times: np.ndarray, gap: int, unit: int) -> Counter:
    """How often each (item, interval // unit) came; items are integers."""
    starts = exact_starts(keys, times, gap)
    order = np.lexsort((times[starts], keys[starts]))
    item, arrival = keys[starts][order], times[starts][order]
    same = item[1:] == item[:-1]
    interval = (arrival[1:] - arrival[:-1])[same] // unit
    pairs = np.stack([item[1:][same].astype(np.int64), interval])
    found, counts = np.unique(pairs, axis=1, return_counts=True)
    return Counter(dict(zip(zip(*found.tolist(), strict=True), counts.tolist(), strict=True)))
