"""What a FROM item reads, as an Arrow table with the columns that the check has promised.

Tables are kept by what was asked, so that a second statement over the same window finds them ready.
"""

from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.cache import Cache
from muntin.errors import MuntinError, SummaryOverflow
from muntin.segments.building import totals
from muntin.segments.sketched import Listed, SketchedSums
from muntin.segments.sums import OfIndicators, Totals, counted_events, key_rows
from muntin.segments.table import Segment, Table
from muntin.select.bind import Bound
from muntin.select.catalog import SPAN_COLUMNS, LoadedWindow, SummaryInfo
from muntin.select.functions import PERIODIC, TABLE_FUNCTIONS
from muntin.select.values import MOMENT, conformed, has_untyped, is_wide, typed

_TOGETHER_ROWS_MAX = 1 << 16  # of answers to windows that close together


def table_of(
    bound: Bound, loaded: LoadedWindow, info: SummaryInfo, names: frozenset[str] | None = None
) -> tuple[pa.Table, bool]:
    """The rows of a summary that a FROM item asks for, and whether they may be kept.

    `names`: columns that the statement reads; default all. A sum beyond its type spoils only the
      statements that read it.

    The types of columns are those of the summary also where the window holds nothing; then they
    are read from what else is stored, which may be more later.
    """
    summary = loaded.summary
    rows = partial(_rows, bound, info=info, span=loaded.covered)
    try:
        table = _among(bound, loaded, info)
        if table is None:
            table = _empty(bound, info) if summary is None else rows(summary)
    except SummaryOverflow:
        if names is None:
            raise
        narrow = names.intersection(bound.columns)
        return typed(rows(summary, names=narrow), _numbers(bound, info)), False
    if not has_untyped(table):
        return table, True
    for other in loaded.like() if loaded.like is not None else ():
        with suppress(SummaryOverflow):  # of other events
            table = typed(table, rows(other))
        if not has_untyped(table):
            break
    return typed(table, _numbers(bound, info)), False


def _among(bound: Bound, loaded: LoadedWindow, info: SummaryInfo) -> pa.Table | None:
    """The rows of one of the windows that close together. None where it has to be asked alone: it
    closes alone, one of the others fails, or they are large."""
    if loaded.among is None or bound.kind != "function":
        return None
    windows, number = loaded.among
    if windows.segment.rows * max(1, len(bound.arguments)) > _TOGETHER_ROWS_MAX:
        return None
    asked = shape_of(bound)
    if asked not in windows.rows:
        function = TABLE_FUNCTIONS[bound.function]
        windows.rows[asked] = None
        with suppress(MuntinError):
            rows, places = function.rows_by_slice(windows.segment, info, bound.arguments)
            windows.rows[asked] = conformed(rows, bound.columns), places
    found = windows.rows[asked]
    if found is None:
        return None
    table, places = found
    # copied: of a slice, Arrow stores some of what lies beside it
    return table.take(pa.array(np.arange(*places[number])))


def _rows(
    bound: Bound,
    summary: Any,
    *,
    info: SummaryInfo,
    span: tuple[int, int] | None,
    names: frozenset[str] | None = None,
) -> pa.Table:
    """`span`: start and end of what was read, to which the first and the last step are cut."""
    if bound.kind != "function":
        rows, slices = _matrix_rows(bound, summary, names)
    else:
        function = TABLE_FUNCTIONS[bound.function]
        if not isinstance(summary, Segment):
            return conformed(function.rows(summary, info, bound.arguments), bound.columns)
        rows, places = function.rows_by_slice(summary, info, bound.arguments)
        sizes = [last - first for first, last in places.values()]
        slices = np.repeat(np.array([*places], np.int64), np.array(sizes, np.int64))
    if bound.every is not None:
        starts = slices * bound.every
        ends = starts + bound.every
        if span is not None:
            starts, ends = np.maximum(starts, span[0]), np.minimum(ends, span[1])
        for name, times in zip(SPAN_COLUMNS, (starts, ends), strict=True):
            rows = rows.append_column(name, pa.array(times, MOMENT))
    return conformed(rows, bound.columns)


def _matrix_rows(
    bound: Bound, segment: Segment, names: frozenset[str] | None
) -> tuple[pa.Table, np.ndarray]:
    """Rows of a key of a vector matrix, or their sums, and the slice of each."""
    wanted = bound.columns if names is None else names
    algebra, none = segment.algebra, np.zeros(0, np.int64)
    if isinstance(algebra, SketchedSums):
        table = segment.table(bound.key) if bound.key is not None else None
        if bound.key is None:  # it knows them; its rows do not add up
            table = max(segment.tables, key=lambda table: int(table.events.sum()))
        if table is None:
            return pa.table({name: pa.nulls(0) for name in bound.key or ()}), none
        _check_sketched(algebra, table, wanted)
        rows = algebra.answer(table, Totals() if bound.key is None else Listed())
        return rows, table.slice_of_row[rows["row"].to_numpy()]
    if bound.key is None:
        return _totals(segment, wanted), segment.slices
    table = segment.table(bound.key)
    if table is None:
        return pa.table({name: pa.nulls(0) for name in bound.key}), none
    if bound.summed and len(table):  # of no rows: null, not 0
        table = totals(algebra, table)
    return key_rows(algebra, table, wanted, wide=True), table.slice_of_row


def _totals(segment: Segment, wanted: Collection[str]) -> pa.Table:
    """All events of each slice, and of each indicator the sum by the key that has counted most of
    it there, of those that were read: also by one that was taken out."""
    sums = segment.algebra
    assert isinstance(sums, OfIndicators)  # noqa: S101 (totals are of a vector matrix)
    found: dict[str, Any] = {"count": pa.array(segment.events)}
    chosen = {
        name: np.argmax([counted_events(segment, t, name) for t in segment.tables], axis=0)
        for name, _ in sums.indicators
        if name in wanted and segment.tables
    }
    for number, table in enumerate(segment.tables):
        names = [name for name, best in chosen.items() if (best == number).any()]
        if not names:
            continue
        rows = key_rows(sums, totals(sums, table), names, wide=True)
        at = np.searchsorted(table.slices, segment.slices)
        missing = ~np.isin(segment.slices, table.slices)
        for name in names:
            column = rows[name].take(pa.array(at, mask=missing))
            if name in found:  # other keys know it of other slices
                before = found[name]
                if is_wide(column.type):
                    before = before.cast(column.type)
                column = pc.if_else(
                    pa.array(chosen[name] == number), column.cast(before.type), before
                )
            found[name] = column
    return pa.table(found)


def _check_sketched(algebra: SketchedSums, table: Table, wanted: Collection[str]) -> None:
    for name in algebra.beyond(table):
        if name in wanted or f"{name}_lower" in wanted:
            raise SummaryOverflow(f"indicator {name!r}: the sum over all is beyond its type")


def shape_of(bound: Bound) -> Hashable:
    """What of a summary `table_of` gives: with its window, the name of a table."""
    # 1 equals 1.0, but a column of one is not that of the other
    arguments = tuple(map(repr, bound.arguments))
    return bound.kind, bound.key, bound.columns, bound.function, arguments, bound.summed


def _empty(bound: Bound, info: SummaryInfo) -> pa.Table:
    """No events: no rows (a total of nothing)."""
    if bound.kind == "total" and bound.every is None:
        return conformed(pa.table({"count": [0]}), bound.columns)
    known: dict[str, pa.DataType] = {}
    if bound.every is not None:
        known |= dict.fromkeys(SPAN_COLUMNS, MOMENT)
    if bound.function == "periodic":
        known |= PERIODIC
    if info.parts:  # joined, they are a text
        known |= dict.fromkeys((*info.parts, "item"), pa.string())
    columns = {name: pa.array([], known.get(name, pa.null())) for name in bound.columns}
    return pa.table(columns)


def _numbers(bound: Bound, info: SummaryInfo) -> pa.Table:
    """Types where nothing is stored at all: numbers, but for columns that may be anything. Those
    have no type, which compares with any."""
    any_type = {*(bound.key or ()), *info.by, "item"}
    return pa.table({n: pa.array([], pa.int64()) for n in bound.columns if n not in any_type})


class TableCache(Cache[tuple[Hashable, pa.Table]]):
    """The newest Arrow table of each question (`name`), with the token of its content."""

    def made(
        self, name: Hashable, token: Hashable, make: Callable[[], tuple[pa.Table, bool]]
    ) -> pa.Table:
        """The table, made if it is not there. `make` says too whether it may be kept. One whose
        token is None is never kept."""
        found = None if token is None else self.get(name)
        if found is not None and found[0] == token:
            return found[1]
        # made outside the lock: two threads may both make it, and one is kept
        table, keep = make()
        if token is not None and keep:
            self.put(name, (token, table), table.nbytes)
        return table
