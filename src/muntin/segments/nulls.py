"""Events without a value: counted in a column `nulls`, and left out of the states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _pc

from muntin.errors import CorruptSummary
from muntin.segments.columns import Column, frozen, numbers, present, room
from muntin.segments.kernels.lists import keep_present, sum_counts
from muntin.segments.table import Table

pc: Any = _pc


def without_nulls(
    values: Sequence[pa.Array], order: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Column, np.ndarray | None]:
    """The events that have all values: their order and bounds, how many each group lacks, and
    which lack one (bool[n])."""
    missing = absent(values)
    if missing is None:
        return order, bounds, None, None
    return *without(missing, order, bounds), missing


def without(
    missing: np.ndarray, order: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Column]:
    """The other events: their order and bounds, and how many each group lacks."""
    counts, kept, kept_bounds = room(len(bounds) - 1, len(order), len(bounds))
    size: Any = keep_present(order, bounds, frozen(missing), kept, kept_bounds, counts)
    return frozen(kept[:size]), frozen(kept_bounds), present(counts)


def summed(column: Column, order: np.ndarray, bounds: np.ndarray) -> Column:
    """Counts as a merge has them: the sum of each group."""
    if not isinstance(column, np.ndarray):
        return None
    counts = np.empty(len(bounds) - 1, np.int64)
    sum_counts(column, order, bounds, counts)
    return present(counts)


def less(events: np.ndarray, column: Column) -> np.ndarray:
    """Events of each row that are not among those a column counts."""
    counts = numbers(column)
    return frozen(events - counts) if len(counts) else events


def counts_of(table: Table) -> np.ndarray:
    """Events with a value of each row: int64[rows]."""
    return less(table.events, table.states["nulls"])


def check_counts(column: Column, most: np.ndarray, problem: str) -> None:
    """CorruptSummary where a count is below 0, or above the most that it can be."""
    counts = numbers(column)
    if len(counts) and (counts.min() < 0 or (counts > most).any()):
        raise CorruptSummary(problem)


def check_nulls(table: Table) -> None:
    """CorruptSummary where a row has more nulls than events, or fewer than none."""
    check_counts(table.states["nulls"], table.events, "segment: more nulls than events")


def absent(columns: Iterable[pa.Array]) -> np.ndarray | None:
    """bool[n]: rows in which a column is null or NaN; None where there are none."""
    missing: np.ndarray | None = None
    for column in columns:
        is_float = pa.types.is_floating(column.type)
        if not (column.null_count or (is_float and _has_nan(column))):
            continue
        nulls = pc.call_function("is_null", [column], pc.NullOptions(nan_is_null=is_float))
        found = nulls.to_numpy(zero_copy_only=False)
        if found.any():
            missing = found if missing is None else missing | found
    return missing


def _has_nan(column: pa.Array) -> bool:
    """Whether a column of floats without nulls has a NaN: the minimum is one then."""
    values = column.to_numpy()
    with np.errstate(invalid="ignore"):
        return len(values) > 0 and bool(np.isnan(np.minimum.reduce(values)))
