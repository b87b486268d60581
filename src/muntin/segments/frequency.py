"""`frequency`: how often each item was there: a list while items are few, Count-Min then.

=========== =================================================================================
State       a row: `item`, `weight`, `offset`, `gained`, `total` and `nulls` as in `top_k`; from
            more than max(2 x track, width x depth / 8) items on also `cells`, the counters of
            Count-Min, and the list then holds the heaviest only
Error       none without cells; with them as `CountMin`: truth <= upper, and upper - truth <=
            ceil(e / width x total) with probability 1 - exp(-depth)
Merge       lists and cells add up; what has only a list is added to the cells
Duplicates  count again
Source      see `muntin.summaries.count_min`
Limits      cells do not depend on how events were spread (conservative ones do), nor do lists
            without cells; which items are in the list beside cells does
=========== =================================================================================
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import Column, Ragged, States, frozen, lists, room, trimmed
from muntin.segments.grouping import Groups, each_alone
from muntin.segments.items import asked_items, item_keys
from muntin.segments.kernels import frequency as kernels
from muntin.segments.kernels.top_k import close_lists, merge_items
from muntin.segments.keys import Keys
from muntin.segments.nulls import check_nulls, summed
from muntin.segments.table import Table
from muntin.segments.top_k import (
    ENTRIES,
    Heaviest,
    WeightOf,
    check_entries,
    entries_of,
    entry_room,
    flat,
    folded,
    heaviest,
    listed,
    numbered,
    weights_of,
    weights_table,
)
from muntin.summaries.checks import integer_in
from muntin.summaries.count_min import CELLS_MAX, DEPTH_MAX, TRACK_MAX, error_of

_NO_HASHES = frozen(np.empty(0, np.uint64))
ANY = (1 << 62) - 1  # more items than there are
COUNTED = {**ENTRIES, "cells": Shape(ragged=True)}


@dataclass(frozen=True)
class Frequency(Algebra):
    """Weights of items. `fold` takes their column and, if they are weighed, weights in int64.

    Parameters
    ----------
    width, depth : int
        Of the cells: the error is e / width of the total weight; 2 or more, 1 to 32.
    conservative : bool
        Cells are raised no further than an item's new estimate.
    track : int
        Heaviest items that are listed beside cells; 0: none.
    """

    width: int = 2048
    depth: int = 5
    conservative: bool = False
    track: int = 100

    kind: ClassVar[str] = "frequency"
    order_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        integer_in("width", self.width, 2, CELLS_MAX)
        integer_in("depth", self.depth, 1, DEPTH_MAX)
        integer_in("track", self.track, 0, TRACK_MAX)
        if self.width * self.depth > CELLS_MAX:
            raise BadArgument(f"{self.width} x {self.depth} cells are too many")

    @property
    def few(self) -> int:
        """Up to so many items a row is a list."""
        return max(2 * self.track, self.width * self.depth // 8)

    @property
    def confidence(self) -> float:
        """Probability that `lower` of one answer from cells holds."""
        return -math.expm1(-self.depth)

    def columns(self) -> dict[str, Shape]:
        return {"nulls": Shape(), **COUNTED}

    def prepared(self, values: Sequence[pa.Array]) -> tuple[Sequence[Any], Keys | None]:
        return numbered(values)

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        states = {**folded(values, groups, 1, ANY), "cells": None}
        if self.are_lists(states, groups.size):
            return states
        return self.merge(states, each_alone(groups.size), items)

    def are_lists(self, states: States, rows: int) -> bool:
        """Whether what was folded stays as it is: no row has so many items that it needs cells."""
        return int(lists(states["item"], rows).sizes.max(initial=0)) <= self.few

    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        return self.merged_lists(states, groups, items)[0]

    def merged_lists(
        self, states: States, groups: Groups, items: Keys | None
    ) -> tuple[dict[str, Column], tuple[np.ndarray, np.ndarray]]:
        """The states of a merge; and starts and items of each group before any were let go."""
        order, bounds = groups
        stored = flat(states, len(order))
        out = entry_room(groups.size, len(stored[1]))
        merge_items(*stored, *groups, 1, ANY, *out)
        starts, named, weights, gained, offsets, totals = out
        cells = lists(states["cells"], len(order))
        sizes = np.diff(starts)
        some = np.add.reduceat(cells.sizes[order], bounds[:-1]) > 0
        size = int(np.count_nonzero(some | (sizes > self.few))) * self.width * self.depth
        cell_starts, counters = room(len(bounds), size)
        hashes = items.hashes if items is not None else _NO_HASHES
        kernels.merge_cells(
            *stored[:3], cells.starts, cells.items, order, bounds, frozen(sizes), frozen(totals),
            self.few, hashes, self.depth, self.width, self.conservative, cell_starts, counters,
        )  # fmt: skip
        listed = frozen(starts.copy()), frozen(named[: int(starts[-1])].copy())
        close_lists(cell_starts, self.track, starts, named, weights, gained, offsets)
        nulls = summed(states["nulls"], groups)
        return {"nulls": nulls, **entries_of(out), "cells": trimmed(cell_starts, counters)}, listed

    def check(self, table: Table) -> None:
        check_nulls(table)
        cells = lists(table.states["cells"], len(table))
        beside = 2 * self.track if self.track else -1
        most = np.where(cells.sizes > 0, beside, self.few)
        check_entries(table, max(self.track, 1), frozen(most), "frequency")
        offset = table.states["offset"]
        if isinstance(offset, np.ndarray) and offset[cells.sizes == 0].any():
            raise CorruptSummary("frequency: a list without cells lacks items")
        total = table.states["total"]
        row = kernels.check_cells(
            cells.starts, cells.items, total, self.depth, self.width, self.conservative
        )
        if row >= 0:
            raise CorruptSummary(f"frequency: row {row} has cells that no events make")
        if len(cells.items):  # as if conservative, since what others add is dear to find
            plain, stored = replace(self, conservative=True), flat(table.states, len(table))
            _, lower, upper, _ = plain._of_listed(table, stored, cells)
            if (lower > upper).any():
                raise CorruptSummary("frequency: an item weighs more than its cells have")

    def answer(self, table: Table, question: Any) -> pa.Table:
        """As `top_k`, with what cells know better: `value` is then an item's least cell, less what
        others add to it at the median. `confidence` of `WeightOf` is 1 where a row has no cells."""
        stored = flat(table.states, len(table))
        cells = lists(table.states["cells"], len(table))
        if isinstance(question, Heaviest):
            if not self.track and len(cells.items):
                raise BadArgument("this frequency lists no items: make it with track above 0")
            bounds = self._of_listed(table, stored, cells)[:3]
            return heaviest(table, stored, question.k, bounds)
        if not isinstance(question, WeightOf):
            raise BadArgument(f"frequency cannot answer {question!r:.100}: ask Heaviest, WeightOf")
        asked, rows = len(question.items), len(table)
        codes, keys = item_keys(asked_items(question.items))
        starts, hashes = np.arange(rows + 1) * asked, np.tile(keys.hashes[codes], rows)
        bounds = weights_of(table, stored, question.items)
        value, lower, upper, least = self._narrowed(cells, starts, hashes, *bounds)
        errors = np.zeros(rows, np.int64)
        large = np.flatnonzero(cells.sizes)  # few: all others are lists
        errors[large] = [self._error(int(total)) for total in stored[5][large]]
        dense = np.repeat(cells.sizes > 0, asked)
        likely = np.minimum(least - np.repeat(errors, asked), upper)  # at `confidence`
        lower = np.where(dense, np.maximum(likely, lower), lower)
        confidence = np.where(dense, self.confidence, 1.0)
        bounds = np.maximum(value, lower), lower, upper
        return weights_table(stored[5], question.items, bounds, confidence)

    def error_max(self, table: Table) -> int:
        """The most that an answer is above the truth; 0 where no row has cells."""
        dense = lists(table.states["cells"], len(table)).sizes > 0
        totals = flat(table.states, len(table))[5]
        return max((self._error(int(total)) for total in totals[dense]), default=0)

    def _error(self, total: int) -> int:
        return error_of(max(total, 0), self.width)

    def _of_listed(self, table: Table, stored: Any, cells: Ragged) -> tuple[np.ndarray, ...]:
        hashes = table.items.hashes[stored[1]] if table.items is not None else _NO_HASHES
        return self._narrowed(cells, stored[0], hashes, *listed(stored))

    def _narrowed(
        self,
        cells: Ragged,
        starts: np.ndarray,
        hashes: np.ndarray,
        value: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What lists say of the items of each row, with what its cells know better, all of it
        certain; and the least cell of each item, int64[items]."""
        least, noises = upper.copy(), np.zeros(len(starts) - 1, np.int64)
        kernels.estimate_cells(
            cells.starts, cells.items, frozen(starts), frozen(hashes), self.depth, self.width,
            self.conservative, least, noises,
        )  # fmt: skip
        sizes = np.diff(starts)
        upper = np.minimum(upper, least) if self.track else least  # an empty list knows nothing
        likely = np.clip(least - np.repeat(noises, sizes), lower, upper)
        return np.where(np.repeat(cells.sizes > 0, sizes), likely, value), lower, upper, least
