"""`quantiles` and `distinct` of a column of sketches that others have made: `merge: column`.

An event is a sketch here, and counts once, whatever it has seen; a null, or an empty sketch, counts
as a null. Everything else is that of the kind whose states these are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from muntin.segments.algebra import Shape
from muntin.segments.columns import States, frozen, numbers
from muntin.segments.distinct import DistinctItems
from muntin.segments.exchange import hll_registers, kll_parts, rows_of_hll, rows_of_kll
from muntin.segments.grouping import Groups, sums_of
from muntin.segments.keys import Keys
from muntin.segments.nulls import counts_of
from muntin.segments.quantiles import Quantiles
from muntin.segments.table import Table
from muntin.summaries.datasketches_kll import Parts
from muntin.summaries.kernels.distinct import HYPER
from muntin.summaries.level_stack import K_MIN

UNKNOWN = np.iinfo(np.int64).max
_NONE = np.empty(0)
NO_VALUES = Parts(K_MIN, K_MIN, 0, np.zeros(2, np.int64), _NONE, _NONE, _NONE)


@dataclass(frozen=True)
class MergedQuantiles(Quantiles):
    """Quantiles of all that KLL sketches have seen. `fold` takes a column of their bytes. A state
    has a number more than one of `Quantiles`: `values`, how many its sketches have seen."""

    kind: ClassVar[str] = "merged_quantiles"

    @property
    def read(self) -> Callable[[Any], Any]:
        """Bytes -> a sketch; CorruptSummary."""
        return partial(kll_parts, k=self.k, dtype=self.dtype)

    def columns(self) -> dict[str, Shape]:
        return {"values": Shape(required=True), **super().columns()}

    def counts(self, table: Table) -> np.ndarray:
        return numbers(table.states["values"])

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        sketches = [
            NO_VALUES if data is None else self.read(data) for data in values[0].to_pylist()
        ]
        return self.merge(rows_of_kll(sketches), groups, items)

    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        seen = frozen(sums_of(frozen(numbers(states["values"])), groups))
        return {**super().merge(states, groups, items), "values": seen}


@dataclass(frozen=True)
class MergedDistinct(DistinctItems):
    """Different items of all that HLL sketches have seen. `fold` takes a column of their bytes."""

    kind: ClassVar[str] = "merged_distinct"
    kept: ClassVar[np.uint8] = HYPER

    @property
    def read(self) -> Callable[[Any], Any]:
        """Bytes -> registers; CorruptSummary."""
        return partial(hll_registers, lg_k=self.lg_k)

    def counts(self, table: Table) -> np.ndarray:
        return np.where(counts_of(table) > 0, UNKNOWN, 0)

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        none = np.zeros(1 << self.lg_k, np.uint8)
        sketches = (none if data is None else self.read(data) for data in values[0].to_pylist())
        return self.merge(rows_of_hll(sketches), groups, items)
