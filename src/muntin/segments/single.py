"""One row of a segment as the class that people use alone, and back: the same states."""

from __future__ import annotations

import numpy as np

from muntin.errors import BadArgument
from muntin.segments.columns import Column, Ragged, frozen, lists, present, ragged
from muntin.segments.distinct import DistinctItems
from muntin.segments.kernels.distinct import ENTRY_BYTES, VALUE_BITS
from muntin.segments.keys import NO_KEY
from muntin.segments.nulls import counts_of
from muntin.segments.quantiles import Quantiles
from muntin.segments.table import Segment, Table
from muntin.summaries.distinct import Distinct
from muntin.summaries.level_stack import level_capacities
from muntin.summaries.quantiles import KLL


def of_sketch(sketch: KLL | Distinct, nulls: int = 0) -> Segment:
    """A segment of one row, of slice 0, that holds what a sketch does.

    Parameters
    ----------
    nulls : int
        Events without a value, beside those of the sketch.

    Raises
    ------
    BadArgument
        There is nothing in it.
    """
    events = sketch.count + nulls
    if not events:
        raise BadArgument("an empty sketch is no row: a segment has rows of events only")
    algebra: Quantiles | DistinctItems
    if isinstance(sketch, KLL):
        algebra, states = _of_kll(sketch)
    else:
        algebra, states = _of_distinct(sketch)
    one = frozen(np.array([events]))
    table = Table(
        keys=NO_KEY,
        slices=frozen(np.zeros(1, np.int64)),
        starts=frozen(np.array([0, 1])),
        key=frozen(np.zeros(1, np.int64)),
        events=one,
        states={"nulls": present(np.array([nulls])), **states},
    )
    return Segment(algebra, table.slices, one, (table,))


def sketch_of(segment: Segment, table: Table, row: int) -> KLL | Distinct:
    """A row of quantiles or distinct counts as its sketch; nulls are left out."""
    if isinstance(segment.algebra, Quantiles):
        return _to_kll(segment.algebra, table, row)
    if isinstance(segment.algebra, DistinctItems):
        return _to_distinct(segment.algebra, table, row)
    raise BadArgument(f"a row of {segment.algebra.kind} has no sketch of its own")


def _of_kll(sketch: KLL) -> tuple[Quantiles, dict[str, Column]]:
    stack = sketch._stack
    stack.order()
    items = stack.items()
    states: dict[str, Column] = {"items": _one(items), "levels": None, "ends": None}
    if stack.height > 1:
        states["levels"] = _one(np.diff(stack.offsets))
        states["ends"] = _one(np.array([sketch._low, sketch._high]))
    return Quantiles(sketch.k, sketch.dtype, sketch.seed), states


def _to_kll(algebra: Quantiles, table: Table, row: int) -> KLL:
    sketch = KLL(algebra.k, algebra.seed, algebra.dtype)
    count = int(counts_of(table)[row])
    if not count:
        return sketch
    items, levels, ends = (_row(table, name, row) for name in ("items", "levels", "ends"))
    low, high = (ends if len(ends) else items[[0, -1]]).tolist()
    sketch._grow(count, low, high)
    sizes = levels if len(levels) else np.array([len(items)])
    free = max(int(level_capacities(algebra.k)[1][len(sizes)]) - len(items), 0)
    sketch._stack.keys = np.concatenate((np.zeros(free, np.int64), items))
    sketch._stack.offsets = free + np.concatenate(([0], np.cumsum(sizes)))
    return sketch


def _of_distinct(sketch: Distinct) -> tuple[DistinctItems, dict[str, Column]]:
    registers = sketch._registers
    used = np.flatnonzero(registers)
    states: dict[str, Column] = {"entries": None, "registers": None}
    if ENTRY_BYTES * len(used) < len(registers):
        states["entries"] = _one((used << VALUE_BITS) | registers[used])
    else:
        states["registers"] = _one(registers.copy())
    return DistinctItems(sketch.lg_k), states


def _to_distinct(algebra: DistinctItems, table: Table, row: int) -> Distinct:
    registers = _row(table, "registers", row, np.uint8).copy()
    if not len(registers):
        registers = np.zeros(1 << algebra.lg_k, np.uint8)
        entries = _row(table, "entries", row)
        registers[entries >> VALUE_BITS] = entries & ((1 << VALUE_BITS) - 1)
    return Distinct._of(registers, int(counts_of(table)[row]))


def _one(items: np.ndarray) -> Column:
    return ragged(np.array([len(items)]), items)


def _row(table: Table, name: str, row: int, dtype: type = np.int64) -> np.ndarray:
    column: Ragged = lists(table.states[name], len(table), dtype)
    return column.items[column.starts[row] : column.starts[row + 1]]
