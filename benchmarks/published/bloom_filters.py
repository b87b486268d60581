"""One Bloom filter: the textbook's, and split blocks.

Of a key, eight bits in one 256-bit block: one cache line a probe.

State       uint32[8 * blocks]; block and bits as in Apache Parquet's filter
Error       sum over i of Pois(i; keys / blocks) * (1 - (31/32)**i)**8
Duplicates  harmless
Source      Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, WEA 2007
Limits      blocks are loaded unevenly, which the textbook's formula does not see: for 1 % a key
            needs 10.53 bits (the formula of the Parquet format says 9.68), for 0.1 % 16.89 (14.61)
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from muntin.errors import BadArgument
from published import bloom_kernels as kernels

BLOCK_BITS = 256
BLOCKS_MAX = 1 << 31  # 64 GiB; a block's number is taken from 32 bits of the hash


def split_block_rate(keys_per_block: float) -> float:
    """False-positive rate of blocks that hold so many keys each on average."""
    if keys_per_block <= 0:
        return 0.0
    reach = int(keys_per_block + 12 * math.sqrt(keys_per_block) + 30)
    counts = np.arange(reach + 1)
    logs = counts * math.log(keys_per_block) - keys_per_block
    logs -= np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    return float(np.sum(np.exp(logs) * (1 - (31 / 32) ** counts) ** 8))


@lru_cache(maxsize=256)
def bits_per_key(rate: float) -> float:
    """Bits that a key needs for a false-positive rate."""
    low, high = 0.1, 1.0
    while split_block_rate(BLOCK_BITS / high) > rate:
        high *= 2
        if high > 1 << 14:
            raise BadArgument(f"a split-block filter cannot reach a rate of {rate:.3g}")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if split_block_rate(BLOCK_BITS / middle) > rate else (low, middle)
        )
    return high


class SplitBlockBloom:
    """Filter for `capacity` keys at `rate`; made empty or around stored words."""

    __slots__ = ("capacity", "count", "words")

    def __init__(self, capacity: int, rate: float) -> None:
        self.capacity = capacity
        self.count = 0
        self.words = np.zeros(self.words_for(capacity, rate), np.uint32)

    @staticmethod
    def words_for(capacity: int, rate: float) -> int:
        blocks = max(1, math.ceil(capacity * bits_per_key(rate) / BLOCK_BITS))
        if blocks > BLOCKS_MAX:
            raise BadArgument(f"{capacity} keys at a rate of {rate:.3g} need too large a filter")
        return 8 * blocks

    @property
    def room(self) -> int:
        return self.capacity - self.count

    @property
    def rate(self) -> float:
        return split_block_rate(self.count / (len(self.words) // 8))

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def find(self, hashes: np.ndarray, out: np.ndarray) -> None:
        kernels.split_contains(hashes, self.words, out)

    def add(self, hashes: np.ndarray) -> int:
        """Add until there is no room; how many hashes were taken. Keys found are not counted."""
        taken, fresh = kernels.split_add(hashes, self.words, self.room)
        self.count += fresh
        return taken


class StandardBloom:
    """The textbook's filter, as the published dynamic Bloom filter has it: m bits, k anywhere.

    Rate (1 - exp(-k d / m))**k for d keys (the paper's Eq. 1). Here only for comparison.
    """

    __slots__ = ("bits", "capacity", "count", "probes", "words")

    def __init__(self, capacity: int, rate: float) -> None:
        self.capacity = capacity
        self.count = 0
        self.bits, self.probes = self._shape(capacity, rate)
        self.words = np.zeros(self.words_for(capacity, rate), np.uint64)

    @staticmethod
    def _shape(capacity: int, rate: float) -> tuple[int, int]:
        bits = max(64, math.ceil(-capacity * math.log(rate) / math.log(2) ** 2))
        return bits, max(1, round(bits / capacity * math.log(2)))

    @classmethod
    def words_for(cls, capacity: int, rate: float) -> int:
        return (cls._shape(capacity, rate)[0] + 63) // 64

    @property
    def room(self) -> int:
        return self.capacity - self.count

    @property
    def rate(self) -> float:
        return (1 - math.exp(-self.probes * self.count / self.bits)) ** self.probes

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def find(self, hashes: np.ndarray, out: np.ndarray) -> None:
        kernels.standard_contains(hashes, self.words, self.bits, self.probes, out)

    def add(self, hashes: np.ndarray) -> int:
        taken = min(self.room, len(hashes))
        kernels.standard_add(hashes[:taken], self.words, self.bits, self.probes)
        self.count += taken
        return taken
