"""Result columns as clients want them: plain types in Arrow, plain values in JSON."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.select.window_clause import show_time


def plain_table(table: pa.Table) -> pa.Table:
    """DuckDB's result in types that everyone reads.

    Sums of int64 come as 128-bit integers: int64 where all fit, else decimal128(38, 0). Decimals
    with digits after the point become float64, times get the zone that they are in, UTC. A column
    name that stands twice gets a number.
    """
    arrays = [_plain(table.column(i)) for i in range(table.num_columns)]
    return pa.Table.from_arrays(arrays, names=_distinct(table.column_names))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_decimal(kind):
        if kind.scale > 0:
            # By way of text: Arrow's own cast is off by a unit in the last place (0.3).
            return column.cast(pa.string()).cast(pa.float64())
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    return column


def _distinct(names: list[str]) -> list[str]:
    taken = set(names)
    seen: set[str] = set()
    distinct = []
    for name in names:
        unique, number = name, 1
        while unique in seen or (number > 1 and unique in taken):
            number += 1
            unique = f"{name}_{number}"
        seen.add(unique)
        distinct.append(unique)
    return distinct


def json_column(column: pa.ChunkedArray) -> list[Any]:
    """Values for JSON: null for what is no number, ISO 8601 for times."""
    kind = column.type
    if pa.types.is_floating(kind):
        finite = pc.call_function("is_finite", [column])
        column = pc.call_function("if_else", [finite, column, pa.scalar(None, kind)])
        return column.to_pylist()
    if (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    ):
        return column.to_pylist()
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        return [None if us is None else show_time(us) for us in micros]
    return [_json_value(value) for value in column.to_pylist()]


def _json_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _iso_duration((0, 0, value // timedelta(microseconds=1) * 1000))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, pa.MonthDayNano):
        return _iso_duration(value)
    return value


def _iso_duration(value: Any) -> str:
    """ISO 8601: P1M2DT3.5S."""
    months, days, nanoseconds = value
    seconds = Decimal(nanoseconds).scaleb(-9).normalize()
    parts = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    if seconds or not parts:
        parts += f"T{seconds:f}S"
    return "P" + parts
