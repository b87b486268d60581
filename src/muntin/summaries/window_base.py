"""What windows of the last items and of the last time share: answers, bytes, merging."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.base import Estimate, Merging
from muntin.summaries.checks import check_alike, integer_in, one_of
from muntin.summaries.envelope import seal
from muntin.summaries.kernels.compaction import SEED
from muntin.summaries.level_stack import (
    COUNT_MAX,
    K_MAX,
    K_MIN,
    check_k,
    described_coins,
    new_coins,
    read_coins,
)
from muntin.summaries.order_keys import DTYPES, check_dtype, check_keys, from_keys
from muntin.summaries.reading import opened
from muntin.summaries.weighted_view import (
    WeightedView,
    check_fractions,
    check_points,
    nothing,
    set_beyond,
)

METHODS = ("ring", "strict")
PANES_MAX = 4096
PANE_ITEMS_MAX = 1 << 20  # panes * k: about 50 MiB


class WindowQuantiles(Merging):
    """Quantiles and ranks over an engine that holds the window; not to be used by itself."""

    kind: ClassVar[str]
    _engines: ClassVar[dict[str, Any]]

    _window_max: ClassVar[int]
    _counted: ClassVar[tuple[str, ...]] = ("seen",)  # none is more than the one before
    _options: ClassVar[dict[str, tuple[int, int]]] = {"panes": (1, PANES_MAX), "k": (K_MIN, K_MAX)}

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
        points = check_points(x, self.dtype, inclusive)
        if self.count == 0:
            return nothing("float64")
        view, error, confidence = self._sorted_view()
        value = view.weight_below(points, inclusive) / float(view.total)
        lower, upper = np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)
        set_beyond(x, self.dtype, (value, lower, upper), 1.0)
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
        options: dict[str, Any] = {n: fields.integer(n, *ends) for n, ends in cls._options.items()}
        options["method"] = fields.choice("method", METHODS)
        options["dtype"] = fields.choice("dtype", DTYPES)
        try:
            window = cls(fields.integer("window", 1, cls._window_max), **options)
        except BadArgument as problem:
            raise CorruptSummary(f"{cls.kind}: {problem}") from None
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
        self._engine.merge(other._engine)
        for name in self._counted:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._view = None

    def _sorted_view(self) -> tuple[WeightedView, float, float]:
        if self._view is None:
            found = self._engine.view()
            values = from_keys(found.keys, self.dtype)
            view = WeightedView(values, found.cumulative)
            self._view = (view, found.error, found.confidence)
        return self._view
