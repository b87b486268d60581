"""What was published, from beside the benchmarks that compare with it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from published.bloom_filters import bits_per_key, split_block_rate
from published.dynamic_bloom import RowOfFilters
from published.sliding_windows import PublishedItems, PublishedTimes

__all__ = [
    "PublishedItems",
    "PublishedTimes",
    "RowOfFilters",
    "bits_per_key",
    "split_block_rate",
]
