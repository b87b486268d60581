"""Quantiles and ranks of the last W items, or of the last T of time.

=========== ==================================================================================
State       method "ring": B + 1 panes, each a KLL whose items carry when they came
            (keys, stamps: int64[~3 k] a pane)
Error       normal with deviation sqrt((0.5 / k)^2 / B + (0.09 / (B sqrt(k)))^2) of the window or
            less: 0.31 % at B = 8, k = 64 (1,707 items), where 0.19 % at most was measured on nine
            kinds of stream; it does not grow as the window slides. At most 1 / (2 B) of it comes
            from the window's edge, whatever the stream. "strict": see `exponential_histogram`
Merge       same panes and k. Time windows of one length become one over both streams; windows of
            the last W1 and W2 items become one of the last W1 + W2 (items taken in turn)
Duplicates  count twice
Source      the ring: KLL (FOCS 2016) by panes. A published window to compare with: Zhang et al.,
            CMC 2019, in `benchmarks/published`
Limits      no NaN; the same input in the same batches with the same seed gives the same bytes,
            another partitioning other bytes within the same bound. A time far ahead moves the
            window there: bound event times before they come here
=========== ==================================================================================
"""

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.base import Estimate, Merging
from muntin.summaries.checks import check_alike, integer_in, one_of
from muntin.summaries.envelope import opened, seal
from muntin.summaries.exponential_histogram import HistogramOfItems, HistogramOfTimes
from muntin.summaries.kernels.compaction import SEED
from muntin.summaries.level_stack import COUNT_MAX, check_k, described_coins, new_coins, read_coins
from muntin.summaries.order_keys import (
    DTYPES,
    as_column,
    bounds_of,
    check_dtype,
    check_keys,
    from_keys,
    to_keys,
)
from muntin.summaries.pane_ring import WINDOW_ITEMS_MAX, PaneRing
from muntin.summaries.time_ring import TIME_MAX, TimeRing
from muntin.summaries.times import as_times
from muntin.summaries.weighted_view import (
    WeightedView,
    check_fractions,
    check_points,
    nothing,
    set_beyond,
)
from muntin.summaries.weights import added
from muntin.times import DURATION_US_MAX, duration_us

PANES_MAX = 4096
PANE_ITEMS_MAX = 1 << 20  # panes * k: about 50 MiB


class WindowQuantiles(Merging):
    """Quantiles and ranks over an engine that holds the window; not to be used by itself."""

    kind: ClassVar[str]
    _engines: ClassVar[dict[str, Any]]
    _counted: ClassVar[tuple[str, ...]] = ("seen",)  # none is more than the one before
    _options: ClassVar[tuple[str, ...]] = ("window", "panes", "k", "method")

    __slots__ = (
        "_coins", "_engine", "_view", "dtype", "k", "method", "panes", "seen",
    )  # fmt: skip

    def __init__(
        self,
        window: int,
        panes: int,
        k: int,
        seed: int,
        method: str,
        guarantee: str | None = None,
        dtype: Any = "float64",
    ) -> None:
        if guarantee is not None:
            method = one_of("guarantee", guarantee, ["strict"])
        one_of("method", method, self._engines)
        self.panes = integer_in("panes", panes, 1, PANES_MAX)
        self.k = check_k(k)
        if self.panes * self.k > PANE_ITEMS_MAX:
            raise BadArgument(f"panes={panes} of k={k} are too many: panes * k is at most 2^20")
        self.method = method
        self.dtype = check_dtype(dtype)
        self._coins = new_coins(seed)
        self._engine = self._engines[method](window, self.panes, self.k, self._coins)
        self._view: tuple[WeightedView, float, float] | None = None
        self.seen = 0

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(window={self.window}, panes={self.panes}, k={self.k},"
            f" seed={self.seed}, method={self.method!r}, dtype={self.dtype!r}, count={self.count})"
        )

    def __len__(self) -> int:
        """Items stored."""
        return self._engine.retained

    @property
    def window(self) -> int:
        """Items, or microseconds."""
        return self._engine.window

    @property
    def seed(self) -> int:
        """Of the coins that decide which values stay."""
        return int(self._coins[SEED])

    @property
    def parameters(self) -> dict[str, Any]:
        """What two windows must share to be merged."""
        return {"dtype": self.dtype, "k": self.k, "method": self.method, "panes": self.panes}

    @property
    def count(self) -> int:
        """Items in the window: the weight of all that it answers from."""
        return self._engine.count

    @property
    def nbytes(self) -> int:
        """Bytes of memory now, cached views included."""
        cached = 0 if self._view is None else self._view[0].nbytes
        return self._engine.nbytes + cached

    def rank_error(self) -> float:
        """Half-width of the interval around a rank, as a fraction of the count."""
        return self._sorted_view()[1] if self.count else 0.0

    def quantile(self, q: Any) -> Estimate:
        """The smallest value that a fraction `q` of the window does not exceed.

        Parameters
        ----------
        q : float or float[n]
            In [0, 1].

        Returns
        -------
        Estimate
            `value`, `lower`, `upper`: [n] in the dtype; n = 0 while the window is empty. A window
            does not keep its extremes: within `rank_error()` of 0 `lower` is the dtype's lowest
            value, within it of 1 `upper` the highest (for floats -inf and inf).
        """
        if self.count == 0:
            check_fractions(q)
            return nothing(self.dtype)
        view, error, confidence = self._sorted_view()
        value, lower, upper = view.around(q, error)
        if error:
            asked, whole = check_fractions(q), self.dtype == "int64"
            lower[asked <= error] = np.iinfo(np.int64).min if whole else -np.inf
            upper[asked >= 1.0 - error] = np.iinfo(np.int64).max if whole else np.inf
        return Estimate(value, lower, upper, confidence)

    def rank(self, x: Any, *, inclusive: bool = True) -> Estimate:
        """Fraction of the window's values that are <= `x` (or < `x`, where not inclusive).

        Returns
        -------
        Estimate
            `value`, `lower`, `upper`: float64[n] in [0, 1]; n = 0 while the window is empty.
        """
        points, beyond = check_points(x, self.dtype, inclusive)
        if self.count == 0:
            return nothing("float64")
        view, error, confidence = self._sorted_view()
        value = view.weight_below(points, inclusive) / float(view.total)
        lower, upper = np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)
        set_beyond((value, lower, upper), beyond)
        return Estimate(value, lower, upper, confidence)

    def to_bytes(self) -> bytes:
        """The whole state; see `from_bytes`."""
        parameters, body = self._engine.state()
        parameters |= described_coins(self._coins) | self.parameters | {"window": self.window}
        parameters |= {name: getattr(self, name) for name in self._counted}
        return seal(self.kind, parameters, body)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A window from `to_bytes`; `CorruptSummary` on anything else."""
        fields, body = opened(data, cls.kind)
        dtype = fields.choice("dtype", DTYPES)
        window = fields.made(partial(cls, dtype=dtype), *cls._options)
        window._coins[:] = read_coins(fields)
        most = COUNT_MAX
        for name in cls._counted:
            most = fields.integer(name, 0, most)
            setattr(window, name, most)
        window._engine.restore(cls.kind, fields, body)
        fields.done()
        body.done()
        for keys in window._engine.all_keys():
            check_keys(keys, window.dtype, cls.kind)
        if window.to_bytes() != data:
            raise CorruptSummary(f"{cls.kind}: not in the form that to_bytes writes")
        return window

    def merge(self, other: Self) -> None:
        """Take another node's window in; the other is unchanged.

        Raises
        ------
        IncompatibleSummary
            Another kind of window, method, dtype, number of panes or k.
        """
        check_alike(self, other)
        added(self.seen, other.seen, self.kind, "values", COUNT_MAX)
        self._engine.merge(other._engine)
        for name in self._counted:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._view = None

    def _sorted_view(self) -> tuple[WeightedView, float, float]:
        if self._view is None:
            (keys, cumulative), error, confidence = self._engine.view()
            view = WeightedView(from_keys(keys, self.dtype), cumulative)
            self._view = (view, error, confidence)
        return self._view


class FixedWindowQuantiles(WindowQuantiles):
    """Order statistics of the last `window` items.

    Parameters
    ----------
    window : int
        Items.
    panes : int
        The window is cut into so many; more panes make a query's boundary finer and cost memory.
    k : int
        Accuracy of each pane. 8 panes of k = 64 hold at most about 1,700 items.
    seed : int
        Of the coins, 0 to 2^64 - 1.
    method : {"ring"}
        A ring of panes.
    guarantee : {None, "strict"}
        "strict": an exponential histogram, whose bound on the edge's error is proved; `panes`
        is then the number of blocks of each size, and the bound 1 / (2 panes).
    dtype : {"float64", "float32", "int64"}
        Of the values.
    """

    kind: ClassVar[str] = "fixed_window_quantiles"
    _engines: ClassVar[dict[str, Any]] = {"ring": PaneRing, "strict": HistogramOfItems}

    __slots__ = ()

    def __init__(
        self,
        window: int,
        panes: int = 8,
        k: int = 64,
        seed: int = 0,
        method: str = "ring",
        guarantee: str | None = None,
        dtype: Any = "float64",
    ) -> None:
        window = integer_in("window", window, 1, WINDOW_ITEMS_MAX)
        super().__init__(window, panes, k, seed, method, guarantee, dtype)

    def update(self, values: Any) -> None:
        """Add the next values, in order. Either all are added or, on an error, none.

        Parameters
        ----------
        values : ndarray[n], pyarrow Array or ChunkedArray, sequence of numbers, or one number

        Raises
        ------
        BadArgument
            A NaN or null (the first position is named), or values that do not fit the dtype.
        """
        column = as_column(values, self.dtype)
        if not len(column):
            return
        bounds_of(column)
        self._engine.add(to_keys(column))
        self.seen += len(column)
        self._view = None


class TimeWindowQuantiles(WindowQuantiles):
    """Order statistics of the last `window` of time; each value comes with its own.

    The window holds the times t with end - window < t <= end, where end is the latest time seen
    or given to `advance`. Where the exact count at its edge is not known any more, it covers a
    little more, and says so in `covered`; `count` is exact for what it covers.

    Parameters
    ----------
    window : str, timedelta or int
        "5 minutes", or microseconds.
    panes : int
        The window is cut into so many, on a grid of time that starts in 1970.
    k : int
        Accuracy of each pane.
    seed : int
        Of the coins, 0 to 2^64 - 1.
    tolerance : str, timedelta or int, optional
        A value that comes with a time this far behind the latest is still added; one further
        behind is counted in `late` and left out. By default the window's length; with "strict",
        0, since it holds all values back for so long.
    method, guarantee, dtype
        As for `FixedWindowQuantiles`.
    """

    kind: ClassVar[str] = "time_window_quantiles"
    _engines: ClassVar[dict[str, Any]] = {"ring": TimeRing, "strict": HistogramOfTimes}
    _counted: ClassVar[tuple[str, ...]] = ("seen", "late")
    _options: ClassVar[tuple[str, ...]] = (*WindowQuantiles._options, "tolerance")

    __slots__ = ("late", "tolerance")

    def __init__(
        self,
        window: Any,
        panes: int = 8,
        k: int = 64,
        seed: int = 0,
        tolerance: Any = None,
        method: str = "ring",
        guarantee: str | None = None,
        dtype: Any = "float64",
    ) -> None:
        length = _microseconds(window)
        super().__init__(length, panes, k, seed, method, guarantee, dtype)
        if tolerance is None:
            tolerance = 0 if self.method == "strict" else length
        self.tolerance = _microseconds(tolerance, 0)
        self.late = 0
        if self.method == "strict":
            self._engine.hold = self.tolerance

    @property
    def parameters(self) -> dict[str, Any]:
        """What two windows must share to be merged."""
        return super().parameters | {"tolerance": self.tolerance, "window": self.window}

    @property
    def end(self) -> int | None:
        """Latest time, microseconds; None before the first."""
        return self._engine.end

    @property
    def covered(self) -> tuple[int, int] | None:
        """First and last microsecond that the answers cover, both included."""
        return self._engine.covered

    def update(self, values: Any, times: Any) -> None:
        """Add values with their times. Either all are taken or, on an error, none.

        Parameters
        ----------
        values : ndarray[n], pyarrow Array or ChunkedArray, sequence of numbers, or one number
        times : int64[n] microseconds, datetime64[n], Arrow timestamps, or one for all
            In any order within the tolerance.

        Raises
        ------
        BadArgument
            A NaN or null, values that do not fit the dtype, or not one time for each value.
        """
        column = as_column(values, self.dtype)
        moments = as_times(times, len(column))
        if not len(column):
            return
        bounds_of(column)
        if moments.min() < -TIME_MAX or moments.max() > TIME_MAX:
            raise BadArgument(f"times reach from {moments.min()} to {moments.max()} us: too far")
        end = self._engine.end
        latest = np.maximum.accumulate(moments)
        if end is not None:
            latest = np.maximum(latest, end)
        now = int(latest[-1])
        in_time = moments >= latest - self.tolerance
        self.late += len(column) - int(in_time.sum())
        keys = to_keys(column)
        if in_time.all():
            moments = moments.copy()  # the engine sorts it
        else:
            keys, moments = keys[in_time], moments[in_time]
        self._engine.add(keys, moments, now)
        self.seen += len(column)
        self._view = None

    def advance(self, now: Any) -> None:
        """Move the window's end to `now` (microseconds, datetime or datetime64), not backwards."""
        moment = int(as_times(now, 1)[0])
        if abs(moment) > TIME_MAX:
            raise BadArgument(f"now={now!r} is too far")
        self._engine.advance(moment)
        self._view = None


def _microseconds(value: Any, least: int = 1) -> int:
    """A duration, or already its microseconds, as the times of values are."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return integer_in("duration", value, least, DURATION_US_MAX)
    return duration_us(value)
