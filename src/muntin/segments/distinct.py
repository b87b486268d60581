"""`distinct`: UltraLogLog a row, as a list of registers in use while these are few.

=========== =================================================================================
State       a row: `entries`, slot << 8 | register of those in use, ascending, or, from a fifth
            of them on, `registers`, all; `nulls`, events without an item
Error       as `Distinct`: standard error 0.76 / sqrt(2**lg_k); bounds at 99 %
Merge       exact: the registers of all events
Duplicates  harmless
Source      see `muntin.summaries.distinct`
Bytes       full registers are stored in some 4.2 bits each, of which 4 are their entropy
Limits      no item can be taken back
=========== =================================================================================
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import Column, States, lists, room, trimmed
from muntin.segments.grouping import Groups
from muntin.segments.items import item_numbers
from muntin.segments.kernels import distinct as kernels
from muntin.segments.keys import Keys
from muntin.segments.nulls import check_nulls, counts_of, summed, without_nulls
from muntin.segments.table import Table
from muntin.summaries.checks import integer_in
from muntin.summaries.distinct import CONFIDENCE, LG_K_MAX, LG_K_MIN, interval
from muntin.summaries.items import as_items, item_buffers
from muntin.summaries.kernels.distinct import ULTRA

ITEMS_MAX = 1 << 62  # an estimate of registers that are all full is beyond int64


@dataclass(frozen=True)
class DistinctCount:
    """The question: how many different items."""


@dataclass(frozen=True)
class DistinctItems(Algebra):
    """The number of different items. `fold` takes their column. `lg_k` (int): logarithm of the
    number of registers, 4 to 21."""

    lg_k: int = 12

    kind: ClassVar[str] = "distinct"
    order_free: ClassVar[bool] = True
    kept: ClassVar[np.uint8] = ULTRA  # bits of registers that are known

    def __post_init__(self) -> None:
        integer_in("lg_k", self.lg_k, LG_K_MIN, LG_K_MAX)

    def columns(self) -> dict[str, Shape]:
        return {
            "nulls": Shape(),
            "entries": Shape(ragged=True),
            "registers": Shape("uint8", ragged=True),
        }

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        (order, bounds), nulls, _ = without_nulls(values, groups)
        (column,) = values
        if pa.types.is_dictionary(column.type):
            codes, different = item_numbers(column)
            order = codes[order]
        else:  # an item is sooner hashed than found among others
            if column.null_count:
                there = column.is_valid().to_numpy(zero_copy_only=False)
                order = (np.cumsum(there) - 1)[order]
            different = as_items(column.drop_null())
        of_item = np.empty(len(different), np.int64)
        kernels.entries_of(*item_buffers(different), self.lg_k, of_item)
        entries = of_item[order]
        m = 1 << self.lg_k
        large = int(np.count_nonzero(np.diff(bounds) * kernels.ENTRY_BYTES >= m))
        starts, register_starts = room(len(bounds), len(bounds))
        registers = np.empty(large * m, np.uint8)
        kernels.fold_distinct(entries, bounds, m, starts, registers, register_starts)
        return _states(nulls, trimmed(starts, entries), trimmed(register_starts, registers))

    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        order, bounds = groups
        flat, m = _flat(states, len(order)), 1 << self.lg_k
        sizes = (np.diff(flat[0]) * kernels.ENTRY_BYTES + np.diff(flat[2]))[order]
        large = int(np.count_nonzero(np.add.reduceat(sizes, bounds[:-1]) >= m))
        entries = len(flat[1]) + large * (m // kernels.ENTRY_BYTES + 1)
        starts, register_starts, buffer = room(len(bounds), len(bounds), entries)
        registers = np.empty(large * m, np.uint8)
        kernels.merge_distinct(
            *flat, order, bounds, m, self.kept, starts, buffer, register_starts, registers
        )
        nulls = summed(states["nulls"], groups)
        return _states(nulls, trimmed(starts, buffer), trimmed(register_starts, registers))

    def counts(self, table: Table) -> np.ndarray:
        """At most so many items each row has seen: int64[rows]."""
        return counts_of(table)

    def check(self, table: Table) -> None:
        check_nulls(table)
        row = kernels.check_distinct(
            *_flat(table.states, len(table)), self.counts(table), 1 << self.lg_k, self.kept
        )
        if row >= 0:
            raise CorruptSummary(f"distinct: row {row} has registers that no items make")

    def answer(self, table: Table, question: Any = None) -> pa.Table:
        """`value`, `lower`, `upper` (int64) at `confidence` 0.99."""
        m, most = 1 << self.lg_k, np.minimum(self.counts(table), ITEMS_MAX)
        value, least = np.empty(len(table)), np.empty(len(table), np.int64)
        kernels.estimate_distinct(*_flat(table.states, len(table)), m, self.kept, value, least)
        whole = [
            np.minimum(bound, most).astype(np.int64)
            for bound in interval(value, least, m, self.kept)
        ]
        columns = [np.arange(len(table)), *whole, np.full(len(table), CONFIDENCE)]
        return pa.table(columns, ["row", "value", "lower", "upper", "confidence"])


def _states(nulls: Column, entries: Column, registers: Column) -> States:
    return {"nulls": nulls, "entries": entries, "registers": registers}


def _flat(states: States, rows: int) -> tuple[np.ndarray, ...]:
    entries = lists(states["entries"], rows)
    registers = lists(states["registers"], rows, np.uint8)
    return entries.starts, entries.items, registers.starts, registers.items
