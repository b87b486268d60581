"""Bloom filters in a row, to compare with: the published dynamic filter, and split blocks.

Guo, Wu, Chen, Yuan, Luo: The Dynamic Bloom Filters, TKDE 2010: equal standard filters. Split
blocks: filters that double, with a shrinking budget (Almeida et al.: Scalable Bloom Filters, IPL
2007), one cache line a filter and key.
"""

from __future__ import annotations

import numpy as np

from muntin.errors import BadArgument
from muntin.summaries import DynamicBloom
from published.bloom_filters import SplitBlockBloom, StandardBloom

DECAY = 0.7  # budget of a split-block slice, as a part of the one before
LAYOUTS = ("split", "paper")


class BloomSlices:
    """A list of filters: the last one is active, those before it are frozen."""

    def __init__(self, capacity: int, fpp: float, is_paper: bool) -> None:
        self._capacity, self._fpp, self._is_paper = capacity, fpp, is_paper
        self._slices: list[SplitBlockBloom | StandardBloom] = []

    @property
    def keys(self) -> int:
        return sum(one.count for one in self._slices)

    @property
    def rates(self) -> list[float]:
        return [one.rate for one in self._slices]

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self._slices)

    filter_bytes = nbytes

    def add(self, hashes: np.ndarray) -> None:
        if not self._is_paper and len(self._slices) > 1:
            known = np.zeros(len(hashes), np.bool_)
            for frozen in self._slices[:-1]:
                frozen.find(hashes, known)
            hashes = hashes[~known]
        while len(hashes):
            if not self._slices or self._slices[-1].room <= 0:
                self._slices.append(self._opened(len(self._slices)))
            hashes = hashes[self._slices[-1].add(hashes) :]

    def _opened(self, generation: int) -> SplitBlockBloom | StandardBloom:
        if self._is_paper:
            return StandardBloom(self._capacity, self._fpp)
        rate = self._fpp * (1 - DECAY) * DECAY**generation
        return SplitBlockBloom(self._capacity << min(generation, 40), rate)

    def find(self, hashes: np.ndarray, out: np.ndarray) -> None:
        for one in self._slices:
            one.find(hashes, out)


class RowOfFilters(DynamicBloom):
    """A dynamic Bloom filter of `layout` "paper" or "split": asked and updated, no more."""

    def __init__(self, capacity: int, fpp: float, layout: str = "paper") -> None:
        if layout not in LAYOUTS:
            raise BadArgument(f"layout={layout!r}: one of {', '.join(LAYOUTS)}")
        super().__init__(capacity, fpp)
        self._filters = BloomSlices(capacity, fpp, layout == "paper")  # type: ignore[assignment]
