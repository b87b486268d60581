"""REQ: quantiles and ranks that are the surer the nearer a value is to the maximum.

=========== ==================================================================================
State       one row of a segment of `tail_quantiles`: some 80 k numbers for a million values, in
            levels of weight 2^level
Error       |rank - true rank| / count <= 0.45 / k of the share above, or 0.25 / k, whichever is
            less, with probability 99 %: at k = 12, 0.999 is off by at most 0.0038 %. The 3 k
            largest values are exact, and all while there are at most 16 k. At k = 4 and 6 it is
            1.8 / k: so few sections err more after many merges
Merge       any two of the same k and dtype; the bound is that of one sketch over both
Duplicates  count twice
Source      Cormode, Karnin, Liberty, Thaler, Vesely, "Relative Error Streaming Quantiles",
            PODS 2021, arXiv:2004.01668; the bytes are Apache DataSketches'
Limits      k even, 4 to 1,024; total weight below 2^60; no NaN. The same input in the same batches
            with the same seed gives the same bytes; another partitioning or order gives other
            bytes within the same bound
=========== ==================================================================================
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.codec import decode, encode
from muntin.segments.columns import NOTHING, States, frozen, lists, ragged
from muntin.segments.exchange import sketch_bytes, tail_bytes
from muntin.segments.grouping import one_group
from muntin.segments.kernels.tail import DOUBLES, FLOATS, INTEGERS, fold_run
from muntin.segments.keys import NO_KEY
from muntin.segments.ranked import QuantilesAt, RanksOf
from muntin.segments.table import Segment, Table
from muntin.segments.tail import TailQuantiles
from muntin.summaries import datasketches_req
from muntin.summaries.base import Copied, Estimate
from muntin.summaries.checks import check_alike, check_seed, integer_in, to_merge
from muntin.summaries.datasketches_req import COUNT_MAX, K_MAX, K_MIN
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.kernels.compaction import HASHED_MAX, LEVELS_MAX, coins_of
from muntin.summaries.kernels.order_keys import KEY_OF_INFINITY, KEY_OF_MINUS_INFINITY
from muntin.summaries.kernels.relative import compact_stack
from muntin.summaries.order_keys import (
    as_column,
    as_read,
    bits_of,
    bounds_of,
    check_dtype,
    checked_bounds,
    to_keys,
)
from muntin.summaries.weighted_view import check_fractions, check_points, nothing
from muntin.summaries.weights import added

_LISTS = ("items", "levels", "least")
_FAR = 2.0**65  # beyond int64, all points are alike
WAITING_MAX = 1 << 16
"""Values of small updates that are kept as they are, until they are worth a compaction."""


class _Row(NamedTuple):
    """A row of a segment of `tail_quantiles`: events, items, levels and the least value. While the
    items are all the values, `levels` is empty and `least` says nothing."""

    events: int
    items: np.ndarray
    levels: np.ndarray = NOTHING
    least: int = 0

    @classmethod
    def of(cls, events: int, states: States) -> Self:
        """The only row of these states."""
        items, levels, least = (lists(states[name], 1).items for name in _LISTS)
        return cls(events, items, levels, int(least[0]) if len(least) else 0)

    def segment(self, algebra: TailQuantiles) -> Segment:
        """The segment that has only this row."""
        one, zero = frozen(np.array([self.events])), frozen(np.zeros(1, np.int64))
        starts = frozen(np.array([0, 1]))
        table = Table(NO_KEY, zero, starts, zero, one, _states([self]))
        return Segment(algebra, zero, one, (table,))


def _states(rows: Sequence[_Row]) -> States:
    _, items, levels, least = zip(*rows, strict=True)
    of_levels = np.fromiter(map(len, levels), np.int64, len(rows))
    several = of_levels > 0
    return {
        "nulls": None,
        "items": ragged(np.fromiter(map(len, items), np.int64, len(rows)), np.concatenate(items)),
        "levels": ragged(of_levels, np.concatenate(levels)),
        "least": ragged(several.astype(np.int64), np.array(least)[several]),
    }


_algebra_of = lru_cache(TailQuantiles)


class REQ(Copied):
    """Quantiles and ranks of a stream of numbers, sharp near the maximum.

    Parameters
    ----------
    k : int
        Accuracy: a rank is off by at most 0.45 / k of what is above it. Even, 4 to 1,024.
    seed : int
        Of the sketch's coins, 0 to 2^64 - 1.
    dtype : {"float64", "float32", "int64"}
        Of the values.

    Examples
    --------
    >>> import numpy as np
    >>> from muntin.summaries import REQ
    >>> sketch = REQ()
    >>> sketch.update(np.arange(1_000_000.0))
    >>> answer = sketch.quantile([0.5, 0.999, 0.99999])
    >>> bool(998_950 <= answer.lower[1] <= answer.value[1] <= answer.upper[1] <= 999_050)
    True
    >>> float(answer.value[2])
    999989.0
    """

    kind: ClassVar[str] = "req"

    __slots__ = ("_algebra", "_row", "_size", "_waiting")

    def __init__(self, k: int = 12, seed: int = 0, dtype: Any = "float64") -> None:
        k, seed = integer_in("k", k, K_MIN, K_MAX), check_seed(seed)
        self._algebra = _algebra_of(k, check_dtype(dtype), seed)
        self._row: _Row | None = None
        self._waiting: list[np.ndarray] = []
        self._size = 0

    def __repr__(self) -> str:
        one = self._algebra
        return f"REQ(k={one.k}, seed={one.seed}, dtype={one.dtype!r}, count={self.count})"

    def __len__(self) -> int:
        """Items stored."""
        row = self._settled()
        return 0 if row is None else len(row.items)

    @property
    def k(self) -> int:
        """Accuracy."""
        return self._algebra.k

    @property
    def dtype(self) -> str:
        """Of the values."""
        return self._algebra.dtype

    @property
    def count(self) -> int:
        """Values seen, exact."""
        return self._size + (0 if self._row is None else self._row.events)

    @property
    def parameters(self) -> dict[str, Any]:
        """What two sketches must share to be merged."""
        return {"k": self.k, "dtype": self.dtype}

    @property
    def nbytes(self) -> int:
        """Bytes of memory now."""
        row = () if self._row is None else self._row[1:3]
        return sum(part.nbytes for part in (*self._waiting, *row))

    @property
    def exact(self) -> bool:
        """Whether nothing was compacted yet, so that answers are exact."""
        row = self._settled()
        return row is None or not len(row.levels)

    @property
    def min(self) -> Any:
        """Smallest value, exact; None where there is none."""
        return self.quantile(0.0).value[0].item() if self.count else None

    @property
    def max(self) -> Any:
        """Largest value, exact; None where there is none."""
        return self.quantile(1.0).value[0].item() if self.count else None

    def update(self, values: Any) -> None:
        """Add values: ndarray[n], Arrow, a sequence of numbers, or one number.

        Raises
        ------
        BadArgument
            A NaN or null (the first position is named), or values that do not fit the dtype. None
            is added then.
        """
        column = as_read(values, self.dtype)
        added(self.count, len(column), self.kind, most=COUNT_MAX)
        if len(column) >= WAITING_MAX:
            self._row = self._of(self._row, self._folded(column))
        elif len(column):
            column = as_column(column, self.dtype)
            bounds_of(column)  # refuses NaN
            self._waiting.append(to_keys(column))
            self._size += len(column)
            if self._size >= WAITING_MAX:
                self._settled()

    def merge(self, other: Self) -> None:
        """Add what another sketch of the same k and dtype has seen; the other is unchanged."""
        check_alike(self, other)
        self._row = self._of(self._settled(), other._settled())

    @classmethod
    def merged(cls, sketches: Iterable[Self]) -> Self:
        """One sketch over what all have seen, at once; none is changed.

        Faster and no less exact than one `merge` after another. The first one's k, dtype and seed
        are taken on. BadArgument without sketches, IncompatibleSummary where they differ.
        """
        sketches = to_merge(cls, sketches)
        result = sketches[0].copy()
        for sketch in sketches:
            if type(sketch) is not cls or sketch._algebra is not result._algebra:
                check_alike(result, sketch)
            if sketch._waiting:
                sketch._settled()
        result._row = result._of(*(sketch._row for sketch in sketches))
        return result

    def copy(self) -> Self:
        """An independent sketch in the same state."""
        new = type(self)(self.k, self._algebra.seed, self.dtype)
        new._row = self._settled()
        return new

    def quantile(self, q: Any) -> Estimate:
        """The smallest value that a fraction `q` of all values does not exceed.

        Parameters
        ----------
        q : float or float[n]
            In [0, 1].

        Returns
        -------
        Estimate
            `value`, `lower`, `upper`: [n] in the sketch's dtype; n = 0 while the sketch is empty.
            `confidence` is that of the least certain.
        """
        asked = check_fractions(q)
        return self._asked(QuantilesAt(tuple(asked.tolist())), self.dtype)

    def rank(self, x: Any, *, inclusive: bool = True) -> Estimate:
        """Fraction of the values that are <= `x` (or < `x`, where not inclusive): float64[n]."""
        points, beyond = check_points(x, self.dtype, inclusive)
        pairs = zip(points.tolist(), beyond.tolist(), strict=True)
        asked = tuple(side * _FAR if side else point for point, side in pairs)
        return self._asked(RanksOf(asked, bool(inclusive)), "float64")

    def to_datasketches(self) -> bytes:
        """The bare bytes of Apache DataSketches' REQ of floats, of a sketch of float32.

        Raises
        ------
        BadArgument
            Another dtype: the form holds float32.
        """
        if self.dtype != "float32":
            raise BadArgument(f"DataSketches' REQ holds float32, not {self.dtype}: use that dtype")
        row = self._settled()
        if row is None:
            return tail_bytes(self.k, *(np.empty(0, np.float32),) * 3)
        return next(sketch_bytes(self._algebra, row.segment(self._algebra).tables[0]))

    @classmethod
    def from_datasketches(cls, data: bytes, seed: int = 0) -> Self:
        """A sketch of float32 from Apache DataSketches' REQ bytes (C++, Java, Python).

        Raises
        ------
        CorruptSummary
            Anything that is not such a sketch, whatever it is.
        IncompatibleSummary
            A sketch of low rank accuracy.
        """
        parts = datasketches_req.decode(data)
        sketch = cls(parts.k, seed, "float32")
        if not parts.count:
            return sketch
        values = np.concatenate([*parts.levels, np.array([parts.least], np.float32)])
        keys = to_keys(values.astype(np.float64))
        sizes = np.array([len(items) for items in parts.levels])
        turns = np.zeros(LEVELS_MAX + 2, np.int64)
        turns[: len(sizes)] = 4 * np.array(parts.compactions, np.int64)
        items = keys[:-1]
        if len(sizes) == 1 and parts.count <= sketch._algebra.exact_max:
            sketch._row = _Row(parts.count, items)
            return sketch
        # Levels that are fuller than ours may be are compacted.
        space, filled = np.empty(len(items), np.int64), np.empty(LEVELS_MAX + 2, np.int64)
        coins: Any = coins_of(items, np.uint64(seed))
        none = np.empty(0, np.int64)
        height, used = compact_stack(none, none, items, sizes, turns, parts.k, coins, space, filled)
        levels = _pairs(filled[:height], turns)
        sketch._row = _Row(parts.count, space[:used].copy(), levels, int(keys[-1]))
        return sketch

    def to_bytes(self) -> bytes:
        """The row's segment in Muntin's envelope."""
        row = self._settled()
        return seal(
            self.kind,
            self._algebra.parameters(),
            b"" if row is None else encode(row.segment(self._algebra)),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A sketch from `to_bytes`; `CorruptSummary` on anything else."""
        parameters, body = unseal(data, cls.kind)
        algebra = TailQuantiles.from_parameters(parameters)
        sketch = cls(algebra.k, algebra.seed, algebra.dtype)
        if body:
            row = decode(body)
            if row.algebra != algebra or row.rows != 1 or row.count > COUNT_MAX:
                raise CorruptSummary("req: not the row of a sketch")
            sketch._row = _Row.of(row.count, row.tables[0].states)
            if encode(sketch._row.segment(algebra)) != body:
                raise CorruptSummary("req: not in the form that to_bytes writes")
        return sketch

    def _settled(self) -> _Row | None:
        """The row, with all that waited in it."""
        if self._waiting:
            keys = np.concatenate(self._waiting) if self._waiting[1:] else self._waiting[0]
            self._waiting, self._size = [], 0
            if len(keys) > self._algebra.exact_max:
                new = self._folded(frozen(keys))
            else:
                keys.sort()
                new = _Row(len(keys), keys)
            self._row = self._of(self._row, new)
        return self._row

    def _folded(self, column: np.ndarray) -> _Row:
        """The row of many values, or of keys. BadArgument where one is NaN or beyond the dtype."""
        one, floating = self._algebra, column.dtype.kind == "f"
        narrow = FLOATS if one.dtype == "float32" else DOUBLES
        sizes, turns = np.empty(LEVELS_MAX + 2, np.int64), np.zeros(LEVELS_MAX + 2, np.int64)
        ends = np.empty(2, np.int64)
        few = as_column(column[:: len(column) // HASHED_MAX + 1], column.dtype.name)
        coins: Any = coins_of(bits_of(few), np.uint64(one.seed))
        form = narrow if floating else INTEGERS
        items, height = fold_run(column, form, one.k, coins, turns, sizes, ends)
        least, most = checked_bounds(column, int(ends[0]), int(ends[1]))
        if floating and not KEY_OF_MINUS_INFINITY < least <= most < KEY_OF_INFINITY:
            as_column(column, one.dtype)  # which refuses what only became infinite
        return _Row(len(column), items, _pairs(sizes[:height], turns), least)

    def _of(self, *given: _Row | None) -> _Row | None:
        rows = [row for row in given if row is not None]
        if len(rows) < 2:
            return rows[0] if rows else None
        events = added(0, sum(row.events for row in rows), self.kind, most=COUNT_MAX)
        merged = self._algebra.merge(_states(rows), one_group(len(rows)), None)
        return _Row.of(events, merged)

    def _asked(self, question: QuantilesAt | RanksOf, dtype: str) -> Estimate:
        row = self._settled()
        if row is None:
            return nothing(dtype)
        table = self._algebra.answer(row.segment(self._algebra).tables[0], question)
        value, lower, upper, sure = (
            table[name].to_numpy() for name in ("value", "lower", "upper", "confidence")
        )
        return Estimate(value, lower, upper, float(np.min(sure, initial=1.0)))


def _pairs(sizes: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Of each level its size and its turns, as a row holds them."""
    return np.stack([sizes, turns[: len(sizes)]], axis=1).ravel()
