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

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import (
    Column,
    Ragged,
    States,
    frozen,
    lists,
    take,
)
from muntin.segments.kernels import quantiles as _kernels
from muntin.segments.keys import Keys
from muntin.segments.nulls import check_nulls, counts_of, merged_nulls, without_nulls
from muntin.segments.table import Table
from muntin.summaries.kll_answers import CONFIDENCE
from muntin.summaries.level_stack import K_MAX, K_MIN, check_k, level_capacities
from muntin.summaries.order_keys import (
    DTYPES,
    as_column,
    check_dtype,
    check_keys,
    from_keys,
    to_keys,
)
from muntin.summaries.weighted_view import check_fractions, check_points

kernels: Any = _kernels  # lists of columns are unpacked into their calls
SEED_MAX = (1 << 64) - 1
_LEVELS = 62
_ARROW = {"float64": pa.float64(), "float32": pa.float32(), "int64": pa.int64()}


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
class Quantiles(Algebra):
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
    dtype: str = "float64"
    seed: int = 0

    kind: ClassVar[str] = "quantiles"
    order_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_k(self.k)
        check_dtype(self.dtype)
        if not 0 <= self.seed <= SEED_MAX:
            raise BadArgument(f"seed={self.seed}: use an integer from 0 to 2^64 - 1")

    @property
    def rank_error(self) -> float:
        """Half-width of the 99 % interval around a rank of a row that has levels."""
        return 2.296 / self.k**0.9723

    def parameters(self) -> dict[str, Any]:
        return {"k": self.k, "dtype": self.dtype, "seed": self.seed}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        k, dtype, seed = (parameters.get(name) for name in ("k", "dtype", "seed"))
        if (
            len(parameters) != 3
            or type(k) is not int
            or not K_MIN <= k <= K_MAX
            or dtype not in DTYPES
            or type(seed) is not int
            or not 0 <= seed <= SEED_MAX
        ):
            raise CorruptSummary(f"quantiles: parameters {dict(parameters)!r:.200}")
        return cls(k, dtype, seed)

    def columns(self) -> dict[str, Shape]:
        doubles = self.dtype != "int64"
        return {
            "nulls": Shape(),
            "items": Shape(ragged=True, keys=doubles),
            "levels": Shape(ragged=True),
            "ends": Shape(ragged=True, keys=doubles),
        }

    def fold(
        self,
        values: Sequence[Any],
        order: np.ndarray,
        bounds: np.ndarray,
        items: Keys | None,  # noqa: ARG002
    ) -> States:
        held, bounds, nulls = keys_of_groups(values, order, bounds, self.dtype)
        groups = len(bounds) - 1
        large = int(np.count_nonzero(np.diff(bounds) > self.k))
        out = _Lists(groups, held, large)
        caps = level_capacities(self.k)[0]
        kernels.fold_quantiles(
            held, bounds, self.k, caps, np.uint64(self.seed),
            out.starts, out.levels, out.level_starts, out.ends, out.end_starts,
        )  # fmt: skip
        return {"nulls": nulls, **out.states()}

    def merge(
        self,
        states: States,
        order: np.ndarray,
        bounds: np.ndarray,
        items: Keys | None,  # noqa: ARG002
    ) -> States:
        nulls, groups = merged_nulls(states, order, bounds), len(bounds) - 1
        flat = _flat(states, len(order))
        sizes = np.diff(flat[0])[order]
        totals = np.add.reduceat(sizes, bounds[:-1]) if groups else sizes
        large = int(np.count_nonzero(totals > self.k))
        if isinstance(states["levels"], Ragged):
            large = groups
        out = _Lists(groups, np.empty(int(sizes.sum()), np.int64), large)
        caps = level_capacities(self.k)[0]
        kernels.merge_quantiles(
            *flat, order, bounds, self.k, caps, np.uint64(self.seed),
            out.starts, out.items, out.level_starts, out.levels, out.end_starts, out.ends,
        )  # fmt: skip
        return {"nulls": nulls, **out.states()}

    def check(self, table: Table) -> None:
        check_nulls(table)
        counts = counts_of(table)
        row = kernels.check_quantiles(*_flat(table.states, len(table)), counts, np.int64(self.k))
        if row >= 0:
            raise CorruptSummary(f"quantiles: row {row} is no sketch of {counts[row]} values")
        for name in ("items", "ends"):
            check_keys(lists(table.states[name], len(table)).items, self.dtype, "quantiles")

    def answer(self, table: Table, question: Any) -> pa.Table:
        """Of each row with a value, and each fraction or point: `value`, `lower`, `upper`,
        `confidence`; also `q` or `x`."""
        filled = np.flatnonzero(lists(table.states["items"], len(table)).sizes)
        states: States = table.states
        if len(filled) < len(table):
            states = {name: take(column, filled) for name, column in states.items()}
        flat = _flat(states, len(filled))
        exact = np.diff(flat[2]) == 0
        confidence = np.where(exact, 1.0, CONFIDENCE)[:, None]
        if isinstance(question, QuantilesAt):
            asked = check_fractions(question.fractions)
            out = np.empty((3, len(filled), len(asked)), np.int64)
            kernels.quantiles(*flat, frozen(asked), self.rank_error, out)
            found = [from_keys(part.ravel(), self.dtype) for part in out]
            return answer_table("q", asked, filled, found, confidence)
        if isinstance(question, RanksOf):
            asked = np.atleast_1d(np.asarray(question.points))
            points = check_points(asked, self.dtype)[0 if question.inclusive else 1]
            weight = np.empty((len(filled), len(points)), np.int64)
            sure = np.empty(weight.shape, np.bool_)
            keys = frozen(to_keys(points))
            kernels.ranks(*flat, keys, question.inclusive, weight, sure)
            value = weight / counts_of(table)[filled][:, None]
            error = np.where(sure, 0.0, self.rank_error)
            lower, upper = np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)
            found = [part.ravel() for part in (value, lower, upper)]
            return answer_table("x", asked, filled, found, confidence)
        raise BadArgument(f"quantiles cannot answer {question!r:.100}: ask QuantilesAt or RanksOf")


def keys_of_groups(
    values: Sequence[Any], order: np.ndarray, bounds: np.ndarray, dtype: str
) -> tuple[np.ndarray, np.ndarray, Column]:
    """What `fold` begins with: a column's keys, group by group, their bounds, and the nulls."""
    (column,) = values
    order, bounds, nulls, missing = without_nulls(values, order, bounds)
    if missing is not None:
        call: Any = pc
        column = call.if_else(pa.array(missing), pa.scalar(0, column.type), column)
    return to_keys(as_column(column, dtype))[order], bounds, nulls


def answer_table(
    name: str, asked: np.ndarray, rows: np.ndarray, found: list[Any], confidence: np.ndarray
) -> pa.Table:
    """Value, lower and upper of each row and question; `confidence` may be one a row, [rows, 1]."""
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


class _Lists:
    """Room for the sketches of groups, and what was put into it."""

    def __init__(self, groups: int, items: np.ndarray, large: int) -> None:
        self.items = items
        self.starts, self.level_starts, self.end_starts = (
            np.empty(groups + 1, np.int64) for _ in range(3)
        )
        self.levels = np.empty(_LEVELS * large, np.int64)  # pages that are not used cost nothing
        self.ends = np.empty(2 * large, np.int64)

    def states(self) -> dict[str, Column]:
        parts = {
            "items": (self.starts, self.items),
            "levels": (self.level_starts, self.levels),
            "ends": (self.end_starts, self.ends),
        }
        return {name: trimmed(*part) for name, part in parts.items()}


def trimmed(starts: np.ndarray, items: np.ndarray) -> Column:
    """A column of lists without the room that was not used."""
    used = int(starts[-1])
    if 2 * used < len(items):
        items = items[:used].copy()
    return Ragged(frozen(starts), frozen(items[:used])) if used else None


def _flat(states: States, rows: int) -> Any:
    parts = (lists(states[name], rows) for name in ("items", "levels", "ends"))
    return tuple(array for part in parts for array in (part.starts, part.items))
