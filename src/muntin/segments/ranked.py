"""What rows of quantile sketches have alike: those of KLL (`quantiles`) and of REQ (`tail`).

A row is a sorted list of keys as long as it holds all its values, then levels of them; its
columns are the items, the sizes of levels, and what is known exactly of minimum and maximum.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import Column, States, frozen, lists, room, starts_of, taken, trimmed
from muntin.segments.grouping import Groups
from muntin.segments.kernels import ranked as kernels
from muntin.segments.kernels.lists import SHORT, sort_short_lists
from muntin.segments.keys import Keys
from muntin.segments.nulls import check_nulls, counts_of, summed, without_nulls
from muntin.segments.table import Table
from muntin.summaries.checks import UINT64_MAX
from muntin.summaries.kernels.copying import append_lists
from muntin.summaries.order_keys import DTYPES, as_column, check_keys, from_keys, to_keys
from muntin.summaries.weighted_view import check_fractions, check_points, set_beyond


@dataclass(frozen=True)
class QuantilesAt:
    """The question: the values at fractions in [0, 1]."""

    fractions: tuple[float, ...]


@dataclass(frozen=True)
class RanksOf:
    """The question: the fraction of the values that are <= (or <) points."""

    points: tuple[float, ...]
    inclusive: bool = True


@dataclass(frozen=True)
class RankedRows(Algebra):
    """Quantiles and ranks of a number. `fold` takes its column."""

    k: int
    dtype: str = "float64"
    seed: int = 0

    order_free: ClassVar[bool] = False
    ends: ClassVar[str]  # the column of what is known exactly of a row that has levels
    ends_each: ClassVar[int]
    each: ClassVar[int]  # numbers of `levels` for each level
    levels_max: ClassVar[int]  # numbers that `levels` takes for a row, at most
    caps: ClassVar[Any] = None  # of KLL's levels, for kernels; None: relative compactors

    def __post_init__(self) -> None:
        self.check_k()
        if self.dtype not in DTYPES:
            raise BadArgument(f"dtype {self.dtype!r}: use one of {', '.join(DTYPES)}")
        if not 0 <= self.seed <= UINT64_MAX:
            raise BadArgument(f"seed={self.seed}: use an integer from 0 to 2^64 - 1")

    @abstractmethod
    def check_k(self) -> None:
        """BadArgument where k is impossible."""

    @property
    @abstractmethod
    def exact_max(self) -> int:
        """A row of no more values holds them all."""

    def columns(self) -> dict[str, Shape]:
        doubles = self.dtype != "int64"
        return {
            "nulls": Shape(),
            "items": Shape(ragged=True, keys=doubles),
            "levels": Shape(ragged=True),
            self.ends: Shape(ragged=True, keys=doubles),
        }

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        (column,) = values
        (order, bounds), nulls, missing = without_nulls(values, groups)
        if missing is not None:
            column = pc.if_else(pa.array(missing), pa.scalar(0, column.type), column)
        keys = to_keys(as_column(column, self.dtype))[order]
        large = np.count_nonzero(np.diff(bounds) > self.exact_max)
        if not large:
            return self._exact(nulls, keys, bounds, bounds)
        made = self._room(len(bounds) - 1, keys, int(large))
        kernels.fold_rows(bounds, self.k, self.caps, np.uint64(self.seed), *made)
        return self._states(nulls, *made)

    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        order, bounds = groups
        nulls = summed(states["nulls"], groups)
        flat = self._flat(states, len(order))
        sizes = np.diff(flat[0])[order]
        totals = np.add.reduceat(sizes, bounds[:-1]) if groups.size else sizes
        large = groups.size if states["levels"] is not None else (totals > self.exact_max).sum()
        (values,) = room(sizes.sum())
        if not large:
            starts = starts_of(totals)
            append_lists(flat[0], flat[1], order, values, 0)
            return self._exact(nulls, values, starts, bounds)
        made = self._room(groups.size, values, int(large))
        kernels.merge_rows(*flat, *groups, self.k, self.caps, np.uint64(self.seed), *made)
        return self._states(nulls, *made)

    def counts(self, table: Table) -> np.ndarray:
        """Values that each row has seen: int64[rows]."""
        return counts_of(table)

    def check(self, table: Table) -> None:
        check_nulls(table)
        counts = self.counts(table)
        flat = self._flat(table.states, len(table))
        row = kernels.check_rows(*flat, counts, self.exact_max, self.each)
        row = self.odd_row(flat) if row < 0 else row
        if row >= 0:
            raise CorruptSummary(f"{self.kind}: row {row} is no sketch of {counts[row]} values")
        for name in ("items", self.ends):
            check_keys(lists(table.states[name], len(table)).items, self.dtype, self.kind)

    def odd_row(self, flat: Any) -> int:
        """The first row that cannot be for a reason of this kind's own, or -1."""
        del flat
        return -1

    def answer(self, table: Table, question: Any) -> pa.Table:
        """Of each row with a value, and each fraction or point: `value`, `lower`, `upper`,
        `confidence`; also `q` or `x`."""
        filled = np.flatnonzero(lists(table.states["items"], len(table)).sizes)
        flat = self._flat(taken(table.states, filled, len(table)), len(filled))
        if isinstance(question, QuantilesAt):
            asked = check_fractions(question.fractions)
            keys, confidence = self.values_at(flat, frozen(asked))
            found = [from_keys(part.ravel(), self.dtype) for part in keys]
            return answer_table("q", asked, filled, found, confidence)
        if isinstance(question, RanksOf):
            asked = question.points
            points, beyond = check_points(asked, self.dtype, question.inclusive)
            counts = self.counts(table)[filled][:, None]
            keys = frozen(to_keys(points))
            parts, confidence = self.ranks_of(flat, keys, question.inclusive, counts)
            set_beyond(parts, beyond)
            return answer_table("x", asked, filled, [part.ravel() for part in parts], confidence)
        raise BadArgument(f"quantiles cannot answer {question!r:.100}: ask QuantilesAt or RanksOf")

    @abstractmethod
    def values_at(self, flat: Any, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keys of value, lower and upper, int64[3, rows, n]; confidence, [rows, 1 or n]."""

    @abstractmethod
    def ranks_of(
        self, flat: Any, points: np.ndarray, inclusive: bool, counts: np.ndarray
    ) -> tuple[Sequence[np.ndarray], np.ndarray]:
        """Rank, lower and upper, float64[rows, n] each; confidence. `counts` is int64[rows, 1]."""

    def _ranked(
        self, flat: Any, points: np.ndarray, inclusive: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weight of what is <= (or <) each point, and whether it is certain: [rows, n]."""
        weight = np.empty((len(flat[0]) - 1, len(points)), np.int64)
        sure = np.empty(weight.shape, np.bool_)
        kernels.ranks(*flat, points, inclusive, self.each, weight, sure)
        return weight, sure

    def _flat(self, states: States, rows: int) -> Any:
        parts = (lists(states[name], rows) for name in ("items", "levels", self.ends))
        return tuple(array for part in parts for array in (part.starts, part.items))

    def _room(self, groups: int, items: np.ndarray, large: int) -> list[np.ndarray]:
        """Of each list of a row, as in `_flat`, where it begins, and all of them."""
        lengths = self.levels_max * large, self.ends_each * large
        starts, level_starts, levels, end_starts, ends = room(
            groups + 1, groups + 1, lengths[0], groups + 1, lengths[1]
        )
        return [starts, items, level_starts, levels, end_starts, ends]

    def _exact(
        self, nulls: Column, items: np.ndarray, starts: np.ndarray, bounds: np.ndarray
    ) -> States:
        """Rows that hold all their values: what compacts need not be compiled for them."""
        if sort_short_lists(items, starts, bounds):
            # by NumPy, which is faster than a kernel of ours that all would wait for at first
            for group in np.flatnonzero((np.diff(starts) > SHORT) & (np.diff(bounds) > 1)).tolist():
                items[starts[group] : starts[group + 1]].sort()
        return {"nulls": nulls, "items": trimmed(starts, items), "levels": None, self.ends: None}

    def _states(self, nulls: Column, *made: np.ndarray) -> States:
        names = "items", "levels", self.ends
        found = map(trimmed, made[::2], made[1::2])
        return {"nulls": nulls, **dict(zip(names, found, strict=True))}


def answer_table(
    name: str, asked: Any, rows: np.ndarray, found: Sequence[Any], confidence: Any
) -> pa.Table:
    """Value, lower and upper of each row and question; `confidence`: one, [rows, 1], or of each."""
    asked = asked_numbers(asked)
    shape = (len(rows), len(asked))
    return pa.table(
        {
            "row": np.repeat(rows, len(asked)),
            name: np.tile(asked, len(rows)),
            "value": found[0],
            "lower": found[1],
            "upper": found[2],
            "confidence": np.broadcast_to(confidence, shape).ravel(),
        }
    )


def asked_numbers(asked: Any) -> np.ndarray:
    """Questions as an answer shows them: int64[n], or the nearest float64[n] where one is not."""
    numbers = np.array(asked, ndmin=1)
    return numbers if numbers.dtype.kind == "i" else numbers.astype(np.float64)
