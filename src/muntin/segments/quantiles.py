"""`quantiles`: a KLL sketch a row, which holds its values exactly as long as there are few.

=========== =================================================================================
State       a row: `items`, keys of values level by level; `levels`, the sizes of the levels,
            and `ends`, minimum and maximum: both empty while the row holds all of its at most
            k values, sorted; `nulls`, events without a value
Error       as `KLL`: 1.33 % of the rank at k = 200 with probability 99 %; 0 without levels
Merge       one sort of each level, then one compaction; the bound is that of one sketch of all
Duplicates  count twice
Source      see `muntin.summaries.quantiles`
Limits      while a row holds all its values, its bytes do not depend on how events were spread;
            after that they do, within the same bound: coins are made of what is merged
=========== =================================================================================
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from muntin.segments.kernels import quantiles as kernels
from muntin.segments.ranked import RankedRows
from muntin.summaries.level_stack import check_k, level_capacities
from muntin.summaries.weighted_view import CONFIDENCE


@dataclass(frozen=True)
class Quantiles(RankedRows):
    """Quantiles and ranks of a number. `fold` takes its column.

    Parameters
    ----------
    k : int
        Accuracy: the error is about 1 / k. 8 to 65,535.
    dtype : "float64", "float32" or "int64"
        Of the values.
    seed : int
        Of the coins, 0 to 2^64 - 1.
    """

    k: int = 200

    kind: ClassVar[str] = "quantiles"
    ends: ClassVar[str] = "ends"
    ends_each: ClassVar[int] = 2
    each: ClassVar[int] = 1
    levels_max: ClassVar[int] = 62

    def check_k(self) -> None:
        check_k(self.k)

    @property
    def exact_max(self) -> int:
        return self.k

    @property
    def caps(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return level_capacities(self.k)[0]

    @property
    def rank_error(self) -> float:
        """Half-width of the 99 % interval around a rank of a row that has levels."""
        return 2.296 / self.k**0.9723

    def values_at(self, flat: Any, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        out = np.empty((3, len(flat[0]) - 1, len(fractions)), np.int64)
        kernels.quantiles(*flat, fractions, self.rank_error, out)
        return out, _confidence(flat)

    def ranks_of(
        self, flat: Any, points: np.ndarray, inclusive: bool, counts: np.ndarray
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        weight, sure = self._ranked(flat, points, inclusive)
        value = weight / counts
        error = np.where(sure, 0.0, self.rank_error)
        lower, upper = np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)
        return (value, lower, upper), _confidence(flat)


def _confidence(flat: Any) -> np.ndarray:
    """Of each row, [rows, 1]: without levels it holds all its values."""
    return np.where(np.diff(flat[2]) == 0, 1.0, CONFIDENCE)[:, None]
