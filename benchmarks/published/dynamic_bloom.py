"""Bloom filters in a row, to compare with: the published dynamic filter, and split blocks.

Guo, Wu, Chen, Yuan, Luo: The Dynamic Bloom Filters, TKDE 2010: equal standard filters. Split
blocks: filters that double, with a shrinking budget (Almeida et al.: Scalable Bloom Filters, IPL
2007), one cache line a filter and key.
"""

from __future__ import annotations

import math

import numpy as np

from muntin.errors import BadArgument
from muntin.summaries import DynamicBloom
from published.bloom_filters import SplitBlockBloom, StandardBloom

DECAY = 0.7  # budget of a split-block slice, as a part of the one before
LAYOUTS = ("split", "paper")


class RowOfFilters(DynamicBloom):
    """A dynamic Bloom filter of `layout` "paper" or "split": asked and updated, no more. The last
    filter is active, those before it are frozen."""

    _runs: list[SplitBlockBloom | StandardBloom]  # type: ignore[assignment]

    def __init__(self, capacity: int, fpp: float, layout: str = "paper") -> None:
        if layout not in LAYOUTS:
            raise BadArgument(f"layout={layout!r}: one of {', '.join(LAYOUTS)}")
        super().__init__(capacity, fpp)
        self._is_paper = layout == "paper"

    def false_positive_rate(self) -> float:
        """Equation 2: filters say yes independently of each other."""
        return 1 - math.prod(1 - one.rate for one in self._settled())

    def _take(self, hashes: np.ndarray) -> None:
        if not self._is_paper and len(self._runs) > 1:
            known = np.zeros(len(hashes), np.bool_)
            for frozen in self._runs[:-1]:
                frozen.find(hashes, known)
            hashes = hashes[~known]
        while len(hashes):
            if not self._runs or self._runs[-1].room <= 0:
                self._runs.append(self._opened(len(self._runs)))
            hashes = hashes[self._runs[-1].add(hashes) :]

    def _opened(self, generation: int) -> SplitBlockBloom | StandardBloom:
        if self._is_paper:
            return StandardBloom(self.capacity, self.fpp)
        rate = self.fpp * (1 - DECAY) * DECAY**generation
        return SplitBlockBloom(self.capacity << min(generation, 40), rate)
