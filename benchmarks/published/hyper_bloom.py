"""HyperBloom as published, but for its timeline, which the paper compares its own with."""

from __future__ import annotations

import numpy as np

from muntin.summaries import HyperBloom
from muntin.summaries.items import hash_items
from muntin.summaries.kernels.hyper_bloom import update_published


class SynchronousBloom(HyperBloom):
    """All arrays begin their slices together."""

    def __init__(self, memory: int, gap: int) -> None:
        super().__init__(memory, gap, stamped=False)

    def update(self, items: np.ndarray, times: np.ndarray) -> np.ndarray:
        """bool[n]: what begins a batch. Items and times int64[n], in order of time."""
        starts = np.empty(len(items), np.bool_)
        update_published(self._words, hash_items(items), times, self.gap, True, starts)
        return starts
