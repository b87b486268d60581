"""`tail_quantiles`: a REQ sketch a row, the sharper the nearer a value is to the maximum.

=========== =================================================================================
State       a row: `items`, keys of values level by level; `levels`, for each level its size and
            twice how often it was compacted (plus its last coin), and `least`, the minimum: both
            empty while the row holds all of its at most 16 k values, sorted; `nulls`, events
            without a value
Error       at k = 12 a rank is off by at most 3.8 % of what is above it, or 2.1 % of everything,
            whichever is less, with probability 99 %; 0 for the 36 largest values
Merge       one sort of each level, then one compaction; the bound is that of one sketch of all
Duplicates  count twice
Source      see `muntin.summaries.kernels.relative`
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

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import States, frozen, lists, take
from muntin.segments.kernels import tail as _tail
from muntin.segments.kernels import tail_answers as _answers
from muntin.segments.kernels import tail_merges as _merges
from muntin.segments.keys import Keys
from muntin.segments.nulls import check_nulls, counts_of, merged_nulls
from muntin.segments.quantiles import (
    SEED_MAX,
    QuantilesAt,
    RanksOf,
    answer_table,
    keys_of_groups,
    trimmed,
)
from muntin.segments.table import Table
from muntin.summaries.kernels.compaction import LEVELS_MAX
from muntin.summaries.kernels.relative import SECTIONS
from muntin.summaries.order_keys import DTYPES, check_dtype, check_keys, from_keys, to_keys
from muntin.summaries.weighted_view import check_fractions, check_points

folding: Any = _tail  # lists of columns are unpacked into their calls
merging: Any = _merges
answering: Any = _answers
K_MIN, K_MAX = 4, 1024
CONFIDENCE = 0.99
EXACT_IN_K = 16
"""A row of so many values, in units of k, holds them all."""
NEAR, FAR = 0.45, 0.25
"""Half-widths of a 99 % interval around a rank, times k: in shares of what is above it, and of
everything. benchmarks/characterize/tail.py measures what they rest on."""


@dataclass(frozen=True)
class TailQuantiles(Algebra):
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
    dtype: str = "float64"
    seed: int = 0

    kind: ClassVar[str] = "tail_quantiles"
    order_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_tail_k(self.k)
        check_dtype(self.dtype)
        if not 0 <= self.seed <= SEED_MAX:
            raise BadArgument(f"seed={self.seed}: use an integer from 0 to 2^64 - 1")

    @property
    def near(self) -> float:
        """Half-width of the 99 % interval around a rank, in shares of what is above it."""
        return NEAR / self.k

    @property
    def far(self) -> float:
        """The same in shares of everything: the smaller of both holds."""
        return FAR / self.k

    @property
    def exact_top(self) -> int:
        """So many of the largest values are always held, each by itself."""
        return SECTIONS * self.k

    def parameters(self) -> dict[str, Any]:
        return {"k": self.k, "dtype": self.dtype, "seed": self.seed}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        k, dtype, seed = (parameters.get(name) for name in ("k", "dtype", "seed"))
        if (
            len(parameters) != 3
            or type(k) is not int
            or not K_MIN <= k <= K_MAX
            or k % 2
            or dtype not in DTYPES
            or type(seed) is not int
            or not 0 <= seed <= SEED_MAX
        ):
            raise CorruptSummary(f"tail_quantiles: parameters {dict(parameters)!r:.200}")
        return cls(k, dtype, seed)

    def columns(self) -> dict[str, Shape]:
        doubles = self.dtype != "int64"
        return {
            "nulls": Shape(),
            "items": Shape(ragged=True, keys=doubles),
            "levels": Shape(ragged=True),
            "least": Shape(ragged=True, keys=doubles),
        }

    def fold(
        self,
        values: Sequence[Any],
        order: np.ndarray,
        bounds: np.ndarray,
        items: Keys | None,  # noqa: ARG002
    ) -> States:
        held, bounds, nulls = keys_of_groups(values, order, bounds, self.dtype)
        large = int(np.count_nonzero(np.diff(bounds) > self._exact_max))
        out = _Lists(len(bounds) - 1, held, large)
        folding.fold_tail(
            held, bounds, self.k, self._exact_max, np.uint64(self.seed),
            out.starts, out.levels, out.level_starts, out.least, out.least_starts,
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
        large = groups if states["levels"] is not None else int((totals > self._exact_max).sum())
        out = _Lists(groups, np.empty(int(sizes.sum()), np.int64), large)
        merging.merge_tail(
            *flat, order, bounds, self.k, self._exact_max, np.uint64(self.seed),
            out.starts, out.items, out.level_starts, out.levels, out.least_starts, out.least,
        )  # fmt: skip
        return {"nulls": nulls, **out.states()}

    def check(self, table: Table) -> None:
        check_nulls(table)
        counts = counts_of(table)
        flat = _flat(table.states, len(table))
        row = answering.check_tail(*flat, counts, np.int64(self.k), self._exact_max)
        if row >= 0:
            raise CorruptSummary(f"tail_quantiles: row {row} is no sketch of {counts[row]} values")
        for name in ("items", "least"):
            keys = lists(table.states[name], len(table)).items
            check_keys(keys, self.dtype, "tail_quantiles")

    def answer(self, table: Table, question: Any) -> pa.Table:
        """Of each row with a value, and each fraction or point: `value`, `lower`, `upper`,
        `confidence`; also `q` or `x`."""
        filled = np.flatnonzero(lists(table.states["items"], len(table)).sizes)
        states: States = table.states
        if len(filled) < len(table):
            states = {name: take(column, filled) for name, column in states.items()}
        flat = _flat(states, len(filled))
        if isinstance(question, QuantilesAt):
            asked = check_fractions(question.fractions)
            out = np.empty((3, len(filled), len(asked)), np.int64)
            sure = np.empty(out.shape[1:], np.bool_)
            answering.quantiles(
                *flat, frozen(asked), self.near, self.far, self.exact_top, out, sure
            )
            found = [from_keys(part.ravel(), self.dtype) for part in out]
            return answer_table("q", asked, filled, found, np.where(sure, 1.0, CONFIDENCE))
        if isinstance(question, RanksOf):
            asked = np.atleast_1d(np.asarray(question.points))
            points = check_points(asked, self.dtype)[0 if question.inclusive else 1]
            tail = np.empty((len(filled), len(points)), np.int64)
            sure = np.empty(tail.shape, np.bool_)
            keys = frozen(to_keys(points))
            answering.ranks(*flat, keys, question.inclusive, tail, sure)
            sure |= tail <= self.exact_top
            count = counts_of(table)[filled][:, None]
            # What is above is within `near` of its true weight, so that lies between these two.
            low = np.where(sure, tail, np.maximum(tail / (1 + self.near), tail - self.far * count))
            high = np.where(sure, tail, np.minimum(tail / (1 - self.near), tail + self.far * count))
            bounds = [(count - weight) / count for weight in (tail, high, low)]
            found = [np.clip(part, 0.0, 1.0).ravel() for part in bounds]
            return answer_table("x", asked, filled, found, np.where(sure, 1.0, CONFIDENCE))
        raise BadArgument(f"quantiles cannot answer {question!r:.100}: ask QuantilesAt or RanksOf")

    @property
    def _exact_max(self) -> int:
        return EXACT_IN_K * self.k


def check_tail_k(k: int) -> int:
    """k itself; BadArgument where it is not even, or not from 4 to 1,024."""
    if not K_MIN <= k <= K_MAX or k % 2:
        raise BadArgument(f"k={k}: use an even number from {K_MIN} to {K_MAX:,}")
    return k


class _Lists:
    """Room for the sketches of groups, and what was put into it."""

    def __init__(self, groups: int, items: np.ndarray, large: int) -> None:
        self.items = items
        self.starts, self.level_starts, self.least_starts = (
            np.empty(groups + 1, np.int64) for _ in range(3)
        )
        self.levels = np.empty(2 * LEVELS_MAX * large, np.int64)  # unused pages cost nothing
        self.least = np.empty(large, np.int64)

    def states(self) -> dict[str, Any]:
        return {
            "items": trimmed(self.starts, self.items),
            "levels": trimmed(self.level_starts, self.levels),
            "least": trimmed(self.least_starts, self.least),
        }


def _flat(states: States, rows: int) -> Any:
    parts = (lists(states[name], rows) for name in ("items", "levels", "least"))
    return tuple(array for part in parts for array in (part.starts, part.items))
