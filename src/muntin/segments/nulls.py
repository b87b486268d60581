"""Events without a value: counted in a column `nulls`, and left out of the states."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.errors import CorruptSummary
from muntin.segments.columns import Column, frozen, numbers, present, room
from muntin.segments.grouping import Groups, sums_of
from muntin.segments.kernels.lists import keep_present
from muntin.segments.table import Table


def without_nulls(
    values: Sequence[pa.Array], groups: Groups
) -> tuple[Groups, Column, np.ndarray | None]:
    """The events that have all values, how many each group lacks, and which lack one (bool[n])."""
    missing = absent(values)
    return (groups, None, None) if missing is None else (*without(missing, groups), missing)


def without(missing: np.ndarray, groups: Groups) -> tuple[Groups, Column]:
    """The other events, and how many each group lacks."""
    counts, kept, bounds = room(groups.size, len(groups.order), groups.size + 1)
    size: Any = keep_present(*groups, frozen(missing), kept, bounds, counts)
    return Groups(frozen(kept[:size]), frozen(bounds)), present(counts)


def summed(column: Column, groups: Groups) -> Column:
    """Counts as a merge has them: the sum of each group."""
    return present(sums_of(column, groups)) if isinstance(column, np.ndarray) else None


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
        nulls = pc.is_null(column, nan_is_null=is_float)
        found = nulls.to_numpy(zero_copy_only=False)
        if found.any():
            missing = found if missing is None else missing | found
    return missing


def _has_nan(column: pa.Array) -> bool:
    """Whether a column of floats without nulls has a NaN: the minimum is one then."""
    values = column.to_numpy()
    with np.errstate(invalid="ignore"):
        return len(values) > 0 and bool(np.isnan(np.minimum.reduce(values)))
