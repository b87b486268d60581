"""`tail_quantiles`: a REQ sketch a row, the sharper the nearer a value is to the maximum.

=========== =================================================================================
State       a row: `items`, keys of values level by level; `levels`, for each level its size and
            four times how often it was compacted (plus its last coin, see `compact_stack`), and
            `least`, the minimum: both empty while the row holds all of its at most 16 k values,
            sorted; `nulls`, events without a value
Error       at k = 12 a rank is off by at most 3.8 % of what is above it, or 2.1 % of everything,
            whichever is less, with probability 99 %; 0 for the 36 largest values
Merge       one sort of each level, then one compaction; the bound is that of one sketch of all
Duplicates  count twice
Source      see `muntin.summaries.kernels.relative`
Limits      while a row holds all its values, its bytes do not depend on how events were spread;
            after that they do, within the same bound: coins are made of what is merged
=========== =================================================================================
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from muntin.errors import BadArgument
from muntin.segments.kernels import tail_answers as answers
from muntin.segments.ranked import RankedRows
from muntin.summaries.datasketches_req import K_MAX, K_MIN
from muntin.summaries.kernels.compaction import LEVELS_MAX
from muntin.summaries.kernels.relative import EXACT_IN_K, SECTIONS
from muntin.summaries.weighted_view import CONFIDENCE

NEAR, FAR = 0.45, 0.25
"""Half-widths of a 99 % interval around a rank, times k: in shares of what is above it, and of
everything. benchmarks/characterize/tail.py measures what they rest on."""
NEAR_OF_FEW = 4 * NEAR
"""Below k = 8, whose sections are too few to be spared by thousands of merges."""


@dataclass(frozen=True)
class TailQuantiles(RankedRows):
    """Quantiles and ranks of a number, sharp at the upper end. `fold` takes its column.

    Parameters
    ----------
    k : int
        Accuracy: the error is about 0.45 / k of what is above. Even, 4 to 1,024.
    dtype : "float64", "float32" or "int64"
        Of the values.
    seed : int
        Of the coins, 0 to 2^64 - 1.
    """

    k: int = 12

    kind: ClassVar[str] = "tail_quantiles"
    ends: ClassVar[str] = "least"
    ends_each: ClassVar[int] = 1
    each: ClassVar[int] = 2
    levels_max: ClassVar[int] = 2 * LEVELS_MAX

    def check_k(self) -> None:
        if not K_MIN <= self.k <= K_MAX or self.k % 2:
            raise BadArgument(f"k={self.k}: use an even number from {K_MIN} to {K_MAX:,}")

    @property
    def exact_max(self) -> int:
        return EXACT_IN_K * self.k

    @property
    def near(self) -> float:
        """Half-width of the 99 % interval around a rank, in shares of what is above it."""
        return (NEAR if self.k >= 8 else NEAR_OF_FEW) / self.k

    @property
    def far(self) -> float:
        """The same in shares of everything: the smaller of both holds."""
        return FAR / self.k

    @property
    def exact_top(self) -> int:
        """So many of the largest values are always kept, each by itself."""
        return SECTIONS * self.k

    def odd_row(self, flat: Any) -> int:
        return answers.check_turns(*flat[2:4], self.k)

    def values_at(self, flat: Any, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        out = np.empty((3, len(flat[0]) - 1, len(fractions)), np.int64)
        sure = np.empty(out.shape[1:], np.bool_)
        answers.quantiles(*flat, fractions, self.near, self.far, self.exact_top, out, sure)
        return out, np.where(sure, 1.0, CONFIDENCE)

    def ranks_of(
        self, flat: Any, points: np.ndarray, inclusive: bool, counts: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray]:
        weight, sure = self._ranked(flat, points, inclusive)
        tail = counts - weight  # what is above
        sure |= tail < self.exact_top  # where all of these are above, more may have been
        # What is above is within `near` of its true weight, so that lies between these two.
        low = np.where(sure, tail, np.maximum(tail / (1 + self.near), tail - self.far * counts))
        high = np.where(sure, tail, np.minimum(tail / (1 - self.near), tail + self.far * counts))
        found = [(counts - weight) / counts for weight in (tail, high, low)]
        return [np.clip(part, 0.0, 1.0) for part in found], np.where(sure, 1.0, CONFIDENCE)
