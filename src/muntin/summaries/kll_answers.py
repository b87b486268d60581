"""What can be asked of a KLL: quantiles, ranks, and the masses of intervals, with their bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from muntin.summaries.base import Estimate
from muntin.summaries.checks import boolean
from muntin.summaries.weighted_view import (
    WeightedView,
    check_fractions,
    check_increasing,
    check_points,
    nothing,
    set_beyond,
)

CONFIDENCE = 0.99


class KLLAnswers(ABC):
    """Answers from the sorted view of the items, and from the exact ends."""

    __slots__ = ()

    _count: int
    _min_k: int
    dtype: str

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether nothing was compacted yet, so that answers are exact."""

    @abstractmethod
    def _sorted_view(self) -> WeightedView: ...

    def rank_error(self, *, pmf: bool = False) -> float:
        """Half-width of the 99 % interval around a rank (or, for `pmf`, a mass), in [0, 1].

        Apache DataSketches' fit to measurements, single-sided and over all quantiles at once,
        which is on the safe side for one.
        """
        pmf = boolean("pmf", pmf)
        if self.exact:
            return 0.0
        if pmf:
            return 2.446 / self._min_k**0.9433
        return 2.296 / self._min_k**0.9723

    def quantile(self, q: Any) -> Estimate:
        """The smallest value that a fraction `q` of all values does not exceed.

        Parameters
        ----------
        q : float or float[n]
            In [0, 1]. 0 and 1 give minimum and maximum, exactly.

        Returns
        -------
        Estimate
            `value`, `lower`, `upper`: [n] in the sketch's dtype; n = 0 while the sketch is empty.
            The values at q - rank_error and q + rank_error are the bounds.
        """
        if self._count == 0:
            check_fractions(q)
            return nothing(self.dtype)
        value, lower, upper = self._sorted_view().around(q, self.rank_error())
        return Estimate(value, lower, upper, self._confidence())

    def rank(self, x: Any, *, inclusive: bool = True) -> Estimate:
        """Fraction of the values that are <= `x` (or < `x`, where not inclusive).

        Parameters
        ----------
        x : number or number[n]

        Returns
        -------
        Estimate
            `value`, `lower`, `upper`: float64[n] in [0, 1]; n = 0 while the sketch is empty.
        """
        ranked = self._ranked(x, inclusive)
        return nothing("float64") if ranked is None else self._ranks(*ranked)

    def rank_count(self, x: Any, *, inclusive: bool = True) -> Estimate:
        """`rank` as a number of values: float64[n] in [0, count]."""
        found = self.rank(x, inclusive=inclusive)
        count = float(self._count)
        return Estimate(
            found.value * count, found.lower * count, found.upper * count, found.confidence
        )

    def cdf(self, points: Any, *, inclusive: bool = True) -> Estimate:
        """Ranks of strictly increasing `points`, and 1 after the last: n + 1 entries."""
        ranked = self._ranked(check_increasing(points), inclusive)
        if ranked is None:
            return nothing("float64")
        weight, sure = ranked
        return self._ranks(np.append(weight, self._count), np.append(sure, True))

    def pmf(self, points: Any, *, inclusive: bool = True) -> Estimate:
        """Share of the values in each of the n + 1 intervals that n increasing points make.

        Inclusive: (-inf, p0], (p0, p1], ..., (pn, inf); else (-inf, p0), [p0, p1), ...
        """
        ranked = self._ranked(check_increasing(points), inclusive)
        if ranked is None:
            return nothing("float64")
        edges = np.concatenate(([0], ranked[0], [self._count]))
        value, error = np.diff(edges) / self._count, self.rank_error(pmf=True)
        lower, upper = np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)
        return Estimate(value, lower, upper, self._confidence())

    def _confidence(self) -> float:
        return 1.0 if self.exact else CONFIDENCE

    def _ranked(self, x: Any, inclusive: bool) -> tuple[np.ndarray, np.ndarray] | None:
        """Weight below each point and whether it is certain; None while there is nothing."""
        at = check_points(x, self.dtype, inclusive)
        if self._count == 0:
            return None
        view = self._sorted_view()
        weight = view.weight_below(at, inclusive)
        low, high = view.ends
        below = at < low if inclusive else at <= low
        above = at >= high if inclusive else at > high
        weight[below] = 0
        weight[above] = self._count
        sure = below | above
        set_beyond(x, self.dtype, [weight], self._count)
        set_beyond(x, self.dtype, [sure], True, True)
        return weight, sure

    def _ranks(self, weight: np.ndarray, sure: np.ndarray) -> Estimate:
        value, error = weight / self._count, self.rank_error()
        lower = np.where(sure, value, np.maximum(value - error, 0.0))
        upper = np.where(sure, value, np.minimum(value + error, 1.0))
        return Estimate(value, lower, upper, self._confidence())
