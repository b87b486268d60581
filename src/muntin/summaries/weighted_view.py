"""Weighted items in sorted order: what every quantile and rank is read from."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.errors import BadArgument
from muntin.summaries.base import Estimate
from muntin.summaries.kernels.weighted_view import find_around


class WeightedView:
    """Sorted values with the weight up to and including each.

    Parameters
    ----------
    values : ndarray[n]
        Sorted; n > 0.
    cumulative : int64[n]
        Running sum of the weights; the last is the total. Weights of 0 are allowed.
    ends : pair of ndarray[1], optional
        Smallest and largest value where they are known exactly, though no item may hold them.
    """

    __slots__ = ("_answers", "_known_ends", "cumulative", "total", "values")

    def __init__(
        self,
        values: np.ndarray,
        cumulative: np.ndarray,
        ends: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.values = values
        self.cumulative = cumulative
        self.total = int(cumulative[-1])
        self._known_ends = ends is not None
        self._answers = values if ends is None else np.concatenate((ends[0], values, ends[1]))

    @property
    def nbytes(self) -> int:
        own = self._answers.nbytes if self._known_ends else 0
        return own + self.values.nbytes + self.cumulative.nbytes

    @property
    def ends(self) -> tuple[Any, Any]:
        """Smallest and largest value, as Python numbers."""
        return self._answers[0].item(), self._answers[-1].item()

    def around(self, q: Any, error: float) -> np.ndarray:
        """Values at fractions, at `error` below them, and at `error` above: [3, n].

        A value at a fraction is the smallest whose weight reaches it. With known ends, 0 and 1
        are answered by them, and so are bounds that reach beyond.

        Raises
        ------
        BadArgument
            Fractions that are not in [0, 1], or not of one dimension.
        """
        fractions = _numbers(q)
        if fractions.ndim == 1:
            places = np.empty((3, len(fractions)), np.int64)
            if find_around(fractions, error, self.cumulative, self._known_ends, places):
                return self._answers[places]
        check_fractions(q)
        raise AssertionError("a fraction outside [0, 1] was not refused")

    def weight_below(self, points: np.ndarray, inclusive: bool) -> np.ndarray:
        """Weight of the values <= (or <) each point."""
        at = self.values.searchsorted(points, side="right" if inclusive else "left")
        weight = self.cumulative[at - 1]
        weight[at == 0] = 0
        return weight


def check_fractions(q: Any) -> np.ndarray:
    """Fractions as float64[n], each in [0, 1]."""
    fractions = _numbers(q)
    if fractions.ndim != 1:
        raise BadArgument(f"fractions have shape {fractions.shape}: give one dimension")
    if fractions.size and not (
        np.minimum.reduce(fractions) >= 0 and np.maximum.reduce(fractions) <= 1
    ):
        at = int((~((fractions >= 0) & (fractions <= 1))).argmax())
        raise BadArgument(f"fraction {fractions[at]} at position {at}: use 0 <= q <= 1")
    return fractions


def _numbers(q: Any) -> np.ndarray:
    try:
        return np.array(q, np.float64, ndmin=1)
    except (TypeError, ValueError):
        raise BadArgument(f"fractions {q!r:.80} are not numbers: use 0 <= q <= 1") from None


def check_points(x: Any, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Points to rank, as (for inclusive ranks, for exclusive ranks) in the values' type.

    Points between integers are moved to the integer that gives the same rank.
    """
    points = np.atleast_1d(np.asarray(x))
    if points.ndim != 1:
        raise BadArgument(f"points have shape {points.shape}: give one dimension")
    if points.size == 0:
        points = points.astype(np.float64)
    if points.dtype.kind not in "fiu":
        raise BadArgument(f"points of type {points.dtype} are not numbers")
    if points.dtype.kind == "f" and np.isnan(points).any():
        at = int(np.isnan(points).argmax())
        raise BadArgument(f"point at position {at} is NaN: NaN has no rank")
    if dtype != "int64":
        wide = points.astype(np.float64)
        return wide, wide
    if points.dtype.kind in "iu":
        whole = np.minimum(points, np.iinfo(np.int64).max).astype(np.int64)
        return whole, whole
    return _clipped(np.floor(points)), _clipped(np.ceil(points))


def _clipped(points: np.ndarray) -> np.ndarray:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    inside = np.where(np.abs(points) < 2.0**63, points, 0).astype(np.int64)
    inside[points >= 2.0**63] = high
    inside[points < -(2.0**63)] = low
    inside[points == -(2.0**63)] = low
    return inside


def check_increasing(points: Any) -> np.ndarray:
    """Points that strictly increase, at least one dimension; BadArgument."""
    column = np.atleast_1d(np.asarray(points))
    if column.ndim == 1 and (np.diff(column) <= 0).any():
        at = int((np.diff(column) <= 0).argmax()) + 1
        raise BadArgument(f"point {column[at]} at position {at}: points must strictly increase")
    return column


def nothing(dtype: str) -> Estimate:
    """The answer of an empty summary: no entries, whatever was asked."""
    none = np.empty(0, dtype)
    return Estimate(none, none.copy(), none.copy(), 1.0)
