"""Weighted items in sorted order: what every quantile and rank is read from."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument
from muntin.summaries.base import Estimate
from muntin.summaries.checks import INT64_MAX, INT64_MIN, boolean, column_of
from muntin.summaries.kernels.weighted_view import find_around

CONFIDENCE = 0.99  # of the bounds of what was sampled
_FAR = 1 << 65  # beyond all integers that are summarised


class WeightedView:
    """Sorted values with the weight up to and including each. `values`: sorted; n > 0.
    `cumulative`: running sum of the weights; the last is the total. Weights of 0 are allowed.
    `ends`: smallest and largest value where they are known exactly, though no item may hold
    them."""

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

        A value at a fraction is the smallest whose weight reaches it. With known ends, 0 and 1 are
        answered by them, and so are bounds that reach beyond. Raises BadArgument: fractions that
        are not in [0, 1], or not of one dimension.
        """
        fractions = _numbers(q)
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
    if fractions.size and not (
        np.minimum.reduce(fractions) >= 0 and np.maximum.reduce(fractions) <= 1
    ):
        at = int((~((fractions >= 0) & (fractions <= 1))).argmax())
        raise BadArgument(f"fraction {fractions[at]} at position {at}: use 0 <= q <= 1")
    return fractions


def _numbers(q: Any) -> np.ndarray:
    fractions = column_of(q, "fraction")
    if fractions.size and fractions.dtype.kind not in "fiu":
        raise BadArgument(f"fractions {q!r:.80} are not numbers: use 0 <= q <= 1")
    return fractions.astype(np.float64)


def check_points(x: Any, dtype: str, inclusive: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points to rank, float64[n], or as `whole_points` for values that are int64; which are beyond.
    Values that are float32 were rounded to it, and so is a point: 0.1 is at most 0.1."""
    boolean("inclusive", inclusive)
    if dtype == "int64":
        return whole_points(x, inclusive)
    try:
        points = as_points(x).astype(np.float64, copy=False)
    except OverflowError:
        raise BadArgument("a point is an integer beyond float64: use inf or -inf") from None
    if dtype == "float32":
        with np.errstate(over="ignore"):  # as what comes in, it is inf
            points = points.astype(np.float32).astype(np.float64)
    return points, np.zeros(len(points), np.int8)


def whole_points(x: Any, inclusive: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points as the integers of the same rank, int64[n]: less than 2.5 is less than 3. And which
    are beyond int64, int8[n]: -1 below (the least stands for them), 1 above (the greatest)."""
    near = math.floor if inclusive else math.ceil
    points = as_points(x, near)
    if points.dtype.kind == "f":
        points = np.floor(points) if inclusive else np.ceil(points)
    elif points.dtype == object:
        whole = [p if isinstance(p, int) or math.isinf(p) else near(p) for p in points]
        points = np.array(whole, object)
    beyond = (points >= INT64_MAX + 1).astype(np.int8) - (points < INT64_MIN)
    inside = np.where(beyond != 0, 0, points).astype(np.int64)
    inside[beyond > 0] = INT64_MAX
    inside[beyond < 0] = INT64_MIN
    return inside, beyond


def set_beyond(parts: Sequence[np.ndarray], beyond: np.ndarray) -> None:
    """In ranks [..., n] of points that `check_points` found to be beyond all values: 0 or 1."""
    for part in parts:
        part[..., beyond > 0] = 1.0
        part[..., beyond < 0] = 0.0


def as_points(x: Any, near: Callable[[Any], int] | None = None) -> np.ndarray:
    """Integers or float64, [n], none of them NaN, or both as objects, where the integers among
    floats would lose a digit; BadArgument. Decimals become what `near` makes of them, or without
    it the nearest floats."""
    if near:
        x = _without_decimals(x, near)
    points = column_of(x, "point")
    if isinstance(x, list | tuple) and (
        points.dtype == object or (points.dtype.kind == "f" and (np.abs(points) >= 2**53).any())
    ):
        plain = [point.item() if isinstance(point, np.generic) else point for point in x]
        if any(isinstance(point, int) for point in plain):
            points = np.array(plain, object)
    if points.size == 0 or points.dtype.kind == "f":
        points = points.astype(np.float64, copy=False)
    if points.dtype.kind not in "fiu" and not all(isinstance(p, int | float) for p in points):
        raise BadArgument(f"points of type {points.dtype} are not numbers")
    if (points != points).any():
        at = int((points != points).argmax())
        raise BadArgument(f"point at position {at} is NaN: NaN has no rank")
    return points


def _without_decimals(x: Any, near: Callable[[Any], int]) -> Any:
    return [
        near(min(max(point, -_FAR), _FAR))
        if isinstance(point, Decimal) and not point.is_nan()
        else point
        for point in _with_decimals(x)
    ] or x


def _with_decimals(x: Any) -> Sequence[Any]:
    """The points as they were given, where a Decimal is among them; else none."""
    plain = x.as_py() if isinstance(x, pa.Scalar) else x
    if isinstance(x, pa.Array | pa.ChunkedArray):
        plain = x.to_pylist() if pa.types.is_decimal(x.type) else []
    elif not isinstance(plain, list | tuple):
        array = np.atleast_1d(plain)
        plain = array.tolist() if array.dtype == object else []
    return plain if any(isinstance(point, Decimal) for point in plain) else []


def check_increasing(x: Any) -> Any:
    """`x`, if it is points that strictly increase."""
    points = as_points(x)
    given = _with_decimals(x)  # of which two may have one nearest float
    points = np.array(given, object) if given else points
    falls = points[1:] <= points[:-1]
    if falls.any():
        at = int(falls.argmax()) + 1
        raise BadArgument(f"point {points[at]} at position {at}: points must strictly increase")
    return x


def nothing(dtype: str) -> Estimate:
    """The answer of an empty summary: no entries, whatever was asked."""
    none = np.empty(0, dtype)
    return Estimate(none, none.copy(), none.copy(), 1.0)
