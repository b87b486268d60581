"""Closed windows and stored results as tables: the newest, and said where that is not all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import SelectError
from muntin.ledger.base import View
from muntin.ledger.records import ClosedWindow, TrendPoint
from muntin.reading.stored_results import read_result
from muntin.select.catalog import TREND_ERROR, TREND_OWN, LoadedTable, Note, WindowAsked
from muntin.select.result import Result
from muntin.times import instant_text

HISTORY_MAX = 100_000  # windows or trend points in one answer
_MOMENT = pa.timestamp("us", "UTC")
_MONTHS = pa.month_day_nano_interval()
_DAY_US = 86_400_000_000

Span = tuple[int | None, int | None]
Overtaken = Callable[
    [Sequence[TrendPoint], Sequence[Result], Span], tuple[Mapping[str, Any], tuple[Note, ...]]
]
"""See `overtaken`."""


@dataclass(frozen=True, slots=True)
class About:
    """What must be said of whatever is read of a pipeline."""

    newest: int
    """Time of its newest event."""
    watermark: int | None
    stale: bool


def trend(
    view: View,
    query: str,
    asked: WindowAsked | None,
    about: About,
    rows_max: int,
    overtaken: Overtaken,
) -> LoadedTable:
    """Results of a standing query, one after the other. `overtaken` says what they do not."""
    (start, end), most = _span(asked, about), _most(asked, rows_max)
    points = view.trend(query, start=start, end=end, limit=most + 1, newest_first=True)
    points, notes = _newest(query, points, most, asked, "results")
    read = [_read(point, about) for point in points]
    results = [each for each in read if isinstance(each, Result)]
    table = _joined(query, points, [_rows(each) for each in read])
    known = results
    if not points:  # the newest there is says what types the columns have
        any_ = view.trend(query, limit=1, newest_first=True)
        newest = [_read(each, about) for each in any_]
        table = _joined(query, any_, [_rows(each) for each in newest]).slice(0, 0)
        known = [each for each in newest if isinstance(each, Result)]
    bounds, more = overtaken(points, known, (start, end))
    return LoadedTable(
        table,
        covered=_covered(points),
        watermark=about.watermark,
        revision=max((point.revision for point in points), default=0),
        late=sum(result.late for result in results),
        stale=about.stale,
        exact=all(result.exact for result in results) and not more,
        bounds={**worst([result.bounds for result in results]), **bounds},
        notes=(*notes, *more, *dict.fromkeys(note for each in results for note in each.notes)),
    )


def windows(
    view: View, summary: str, asked: WindowAsked | None, about: About, rows_max: int
) -> LoadedTable:
    """Closed windows, in their newest revision."""
    (start, end), most = _span(asked, about), _most(asked, rows_max)
    found = view.windows(summary, start=start, end=end, limit=most + 1, newest_first=True)
    closed, notes = _newest(summary, found, most, asked, "windows")
    table = pa.table(
        {
            "window_start": pa.array([w.start for w in closed], _MOMENT),
            "window_end": pa.array([w.end for w in closed], _MOMENT),
            "reason": pa.array([w.reason for w in closed], pa.string()),
            "revision": pa.array([w.revision for w in closed], pa.int64()),
            "overflowed": pa.array([w.overflowed for w in closed], pa.bool_()),
            "events": pa.array([w.events for w in closed], pa.int64()),
            "late": pa.array([w.late for w in closed], pa.int64()),
        }
    )
    return LoadedTable(
        table,
        covered=_covered(closed),
        watermark=about.watermark,
        revision=max((window.revision for window in closed), default=0),
        late=sum(window.late for window in closed),
        stale=about.stale,
        exact=True,  # events of a window are counted, whatever its summary is
        bounds={},
        notes=notes,
    )


def _read(point: TrendPoint, about: About) -> Result | SelectError:
    try:
        return read_result(point, about.watermark, stale=about.stale)
    except SelectError as failed:
        return failed


def _rows(read: Result | SelectError) -> pa.Table:
    """A standing query's rows for one window; where it failed there, one that says why."""
    if isinstance(read, SelectError):
        return pa.table({TREND_ERROR: [read.message]})
    table = read.table
    own = [name for name in table.column_names if name.lower() in TREND_OWN]
    return table.drop_columns(own).append_column(TREND_ERROR, pa.nulls(len(table), pa.string()))


def worst(all_bounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bounds that hold for each of several results: the least confidence, else the largest."""
    found: dict[str, Any] = {}
    for bounds in all_bounds:
        for name, value in bounds.items():
            known = found.get(name)
            if name not in found or value == known:
                found[name] = value
            elif isinstance(value, Mapping) and isinstance(known, Mapping):
                found[name] = worst([known, value])
            elif isinstance(value, int | float) and isinstance(known, int | float):
                found[name] = min(known, value) if name == "confidence" else max(known, value)
            else:
                found[name] = None  # they differ, and neither is worse
    return found


def _span(asked: WindowAsked | None, about: About) -> Span:
    """Starts of windows that a clause on a trend or on `windows(...)` lets through."""
    if asked is None:
        return None, None
    if asked.kind == "last":
        return about.newest - (asked.length_us or 0), about.newest + 1
    if asked.kind == "window":
        return asked.start_us, (asked.start_us or 0) + 1
    return asked.start_us, asked.end_us


def _most(asked: WindowAsked | None, rows_max: int) -> int:
    return 1 if asked is not None and asked.kind == "newest_window" else rows_max


def _newest(
    source: str, found: list[Any], most: int, asked: WindowAsked | None, what: str
) -> tuple[list[Any], tuple[Note, ...]]:
    """The newest of what was found, oldest first, and what to say where there are more."""
    kept = found[:most][::-1]
    if len(found) <= most or (asked is not None and asked.kind == "newest_window"):
        return kept, ()
    message = (
        f"{source}: only the newest {most:,} {what} were read, and there are older ones: "
        "ask for a shorter time, FOR '<start>' TO '<end>'"
    )
    return kept, (Note("cut", source, message),)


def _covered(found: Sequence[ClosedWindow] | Sequence[TrendPoint]) -> tuple[int, int] | None:
    return (found[0].start, max(each.end for each in found)) if found else None


def _joined(query: str, points: Sequence[TrendPoint], tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, each with its window in front.

    Raises
    ------
    SelectError
        The query was changed, and a column has had another type before.
    """
    lengths = [len(table) for table in tables]

    def column(values: list[int], kind: pa.DataType) -> pa.Array:
        return pa.array(np.repeat(np.asarray(values, np.int64), lengths)).cast(kind)

    front = pa.table(
        {
            "window_start": column([point.start for point in points], _MOMENT),
            "window_end": column([point.end for point in points], _MOMENT),
            "revision": column([point.revision for point in points], pa.int64()),
        }
    )
    if not tables:
        return front.append_column(TREND_ERROR, pa.array([], pa.string()))
    if any(_MONTHS in table.schema.types for table in tables):
        tables = [_with_months(table) for table in tables]
    try:
        # in one piece: each statement over it would otherwise go through thousands
        rest = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    except pa.ArrowTypeError:
        raise _other_types(query, points, tables) from None
    for name in rest.column_names:
        front = front.append_column(name, rest.column(name))
    return front


def _with_months(table: pa.Table) -> pa.Table:
    """Lengths of time as the intervals that others of the same column are."""
    for at, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            lengths = [
                None if us is None else pa.MonthDayNano([0, us // _DAY_US, us % _DAY_US * 1000])
                for us in table.column(at).cast(pa.int64()).to_pylist()
            ]
            table = table.set_column(at, field.name, pa.array(lengths, _MONTHS))
    return table


def _other_types(
    query: str, points: Sequence[TrendPoint], tables: Sequence[pa.Table]
) -> SelectError:
    """Which column has changed, and since when it is what it is now."""
    newest: dict[str, pa.DataType] = {}
    for _, table, after in zip(points[::-1], tables[::-1], (None, *points[::-1]), strict=False):
        for name, kind in zip(table.schema.names, table.schema.types, strict=True):
            known = newest.setdefault(name, kind)
            if pa.types.is_null(known):
                newest[name] = kind
            elif not (pa.types.is_null(kind) or kind == known or _both_numbers(kind, known)):
                since = instant_text(points[-1].start if after is None else after.start)
                return SelectError(
                    f"the standing query '{query}' was changed: its column '{name}' is {known} "
                    f"since {since}, and {kind} before",
                    code="type",
                    remedy=f"FOR '{since}' TO '{instant_text(points[-1].end)}'",
                )
    return SelectError(f"the standing query '{query}' was changed", code="type")


def _both_numbers(one: pa.DataType, other: pa.DataType) -> bool:
    return all(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        for kind in (one, other)
    )
