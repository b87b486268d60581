"""Columns as they are wanted: those of FROM items as the check of a statement has promised them,
those of a result as clients read them, plain types in Arrow and plain values in JSON.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrow import floats_of_decimals, is_sound
from muntin.errors import SelectError
from muntin.times import DAY_US, datetime_of, instant_text, instant_us


def plain_table(table: pa.Table, names: Sequence[str], *, wide: bool = False) -> pa.Table:
    """DuckDB's result in types that everyone reads.

    Sums of int64 come as 128-bit integers: int64 where all fit, else (or if `wide`) decimal128(38,
    0). Decimals with digits after the point become float64, times get the zone that they are in,
    UTC. Intervals without months are durations. Raises SelectError: a value that Arrow, Python or
    JSON cannot hold: names the column.
    """
    arrays = [_plain(table.column(i), name, wide) for i, name in enumerate(names)]
    return pa.Table.from_arrays(arrays, names=list(names))


def _plain(column: pa.ChunkedArray, name: str, wide: bool) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_decimal(kind):
        return _whole(column, name, wide) if is_wide(kind) else floats(column)
    if pa.types.is_timestamp(kind):
        return _within_years(column.cast(pa.timestamp("us", "UTC")), pa.int64(), _YEARS_US, name)
    if pa.types.is_date32(kind):
        return _within_years(column, pa.int32(), _YEARS_DAYS, name)
    if pa.types.is_time64(kind) and _beyond(column.cast(pa.int64()), (0, DAY_US - 1)):
        raise _no_value(name, "holds 24:00, which is no time of day", "cast to INTERVAL or VARCHAR")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        if column.null_count == len(column):
            return column  # catalogs ask for the types alone
        raise _no_value(name, "holds bytes, not text", "cast it to VARCHAR")
    if pa.types.is_nested(kind):  # a tuple that went through an aggregate or CASE
        raise _no_value(name, "holds several values in one", "name each as a column of its own")
    if kind == pa.month_day_nano_interval():
        return _durations(column)
    return column


_TYPED_MAX = 4  # columns of no type of which all types are tried
_YEARS_US = (instant_us("0001-01-01"), instant_us("9999-12-31T23:59:59.999999"))
_YEARS_DAYS = (_YEARS_US[0] // DAY_US, _YEARS_US[1] // DAY_US)


def is_wide(kind: pa.DataType) -> bool:
    """A type of integers beyond int64."""
    return pa.types.is_decimal(kind) and kind.scale <= 0


def floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals with digits after the point as the nearest floats; any other column as it is."""
    if not pa.types.is_decimal(column.type) or is_wide(column.type):
        return column
    return pa.chunked_array([floats_of_decimals(column.combine_chunks())])


def _whole(column: pa.ChunkedArray, name: str, wide: bool) -> pa.ChunkedArray:
    """DuckDB's 128-bit integers."""
    if not wide:
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.int64())
    if not is_sound(column):
        raise _no_value(name, "holds an integer of more than 38 digits", "cast to DOUBLE")
    return column.cast(pa.decimal128(38, 0))


def _within_years(
    column: pa.ChunkedArray, whole: pa.DataType, years: tuple[int, int], name: str
) -> pa.ChunkedArray:
    """The column, if each of its times is one that Python has too; DuckDB knows infinite ones."""
    if _beyond(column.cast(whole), years):
        what = "holds a time that is infinite or outside of the years 1 to 9999"
        raise _no_value(name, what, "leave it out with WHERE, or cast it to VARCHAR")
    return column


def _beyond(column: pa.ChunkedArray, ends: tuple[int, int]) -> bool:
    found = pc.call_function("min_max", [column]).as_py()
    return found["min"] is not None and (found["min"] < ends[0] or found["max"] > ends[1])


def _no_value(name: str, what: str, remedy: str) -> SelectError:
    return SelectError(f"column '{name[:64]}' of the answer {what}", code="value", remedy=remedy)


_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_DAYS_MAX = (1 << 63) // DAY_US - 200_000  # space for the nanoseconds beside them


def _durations(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Intervals as durations, which pandas and polars know; as they are where a month has no
    length, or the length does not fit."""
    chunks = []
    for chunk in column.chunks:
        valid = chunk.is_valid().to_numpy(zero_copy_only=False)
        data = chunk.buffers()[1] or b""
        parts = np.frombuffer(data, _INTERVAL)[chunk.offset : chunk.offset + len(chunk)]
        parts = np.where(valid, parts, np.zeros(1, _INTERVAL))
        if parts["months"].any() or (np.abs(parts["days"].astype(np.int64)) > _DAYS_MAX).any():
            return column
        us = parts["days"].astype(np.int64) * DAY_US + parts["nanoseconds"] // 1000
        chunks.append(pa.array(us, pa.int64(), mask=~valid).cast(pa.duration("us")))
    return pa.chunked_array(chunks, pa.duration("us"))


def months_as_text(table: pa.Table) -> pa.Table:
    """The same with text for what polars and Spark do not know: intervals with months."""
    for at, field in enumerate(table.schema):
        if field.type == pa.month_day_nano_interval():
            text = pa.array(json_column(table.column(at)), pa.string())
            table = table.set_column(at, field.name, text)
    return table


def typed_ways(tables: Sequence[pa.Table]) -> Iterator[list[pa.Table]]:
    """Tables in which columns of no type, all null, have each of those types that a function may
    want of them: a key that was added at run time has none before it has counted."""
    untyped = [
        (at, number, field.name)
        for at, table in enumerate(tables)
        for number, field in enumerate(table.schema)
        if pa.types.is_null(field.type)
    ]
    for kinds in product((pa.timestamp("us"), pa.string()), repeat=min(len(untyped), _TYPED_MAX)):
        typed = list(tables)
        for (at, number, name), kind in zip(untyped, kinds, strict=False):
            column = pa.nulls(len(typed[at]), kind)
            typed[at] = typed[at].set_column(number, name, column)
        if untyped:
            yield typed


def distinct_names(names: Sequence[str]) -> list[str]:
    """A name that stands twice, in whatever case, with a number: a, a_2."""
    taken = {name.lower() for name in names}
    seen: set[str] = set()
    distinct = []
    for name in names:
        unique, number = name, 1
        while unique.lower() in seen or (number > 1 and unique.lower() in taken):
            number += 1
            unique = f"{name}_{number}"
        seen.add(unique.lower())
        distinct.append(unique)
    return distinct


def rows_of(table: pa.Table, values_of: Callable[[pa.ChunkedArray], list[Any]]) -> list[list[Any]]:
    """The rows of a table, its columns as `json_column` or `text_column` have them."""
    columns = [values_of(column) for column in table.columns]
    if not columns:
        return [[] for _ in range(table.num_rows)]
    return [list(row) for row in zip(*columns, strict=True)]


def json_column(column: pa.ChunkedArray) -> list[Any]:
    """Values for JSON: null for what is no number, ISO 8601 for times."""
    kind = column.type
    if pa.types.is_floating(kind):
        finite = pc.call_function("is_finite", [column])
        column = pc.call_function("if_else", [finite, column, pa.scalar(None, kind)])
        return column.to_pylist()
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        return [None if us is None else instant_text(us) for us in micros]
    values = column.to_pylist()
    return [_json_value(value) for value in values] if kind in _FROM_JSON else values


def typed_column(values: Sequence[Any], kind: str) -> pa.Array:
    """What `json_column` made of a column whose type has this name."""
    known = _KINDS.get(kind)
    if known is None:  # of another version
        return pa.array(values)
    there = _FROM_JSON.get(known)
    if there is not None:
        values = [None if value is None else there(value) for value in values]
    return pa.array(values, known)


def text_column(column: pa.ChunkedArray) -> list[Any]:
    """Values for a reader and for CSV: as for JSON, but inf, nan, and durations as
    "1 day 02:30:00.5", all of which pandas, PostgreSQL and DuckDB read as well."""
    if pa.types.is_duration(column.type):
        return [None if value is None else duration_said(value) for value in column.to_pylist()]
    if pa.types.is_float32(column.type):  # 0.1, not 0.10000000149011612
        column = column.cast(pa.string()).cast(pa.float64())
    return column.to_pylist() if pa.types.is_floating(column.type) else json_column(column)


def duration_said(value: timedelta) -> str:
    """A length of time as "1 day 02:30:00.5"; below a day without days. Below minus one day the
    clock counts forward from the days, as all of these read it."""
    sign = "-" if timedelta(days=-1) < value < timedelta(0) else ""
    value = -value if sign else value
    minutes, seconds = divmod(value.seconds, 60)
    clock = f"{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    if value.microseconds:
        clock += f".{value.microseconds:06}".rstrip("0")
    if not value.days:
        return clock
    return f"{value.days} day{'s' if abs(value.days) != 1 else ''} {clock}"


def _json_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        sign = -1 if value < timedelta(0) else 1
        value = abs(value)
        microseconds = (value - timedelta(days=value.days)) // timedelta(microseconds=1)
        return _iso_duration((0, sign * value.days, sign * microseconds * 1000))
    if isinstance(value, pa.MonthDayNano):
        return _iso_duration(value)
    return value


def _interval_of(text: str) -> pa.MonthDayNano:
    found = _ISO_DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no ISO 8601 duration")
    months, days, seconds = found.groups(default="0")
    return pa.MonthDayNano([int(months), int(days), int(Decimal(seconds).scaleb(9))])


def _length_of(text: str) -> timedelta:
    _, days, nanoseconds = _interval_of(text)
    return timedelta(days=days, microseconds=nanoseconds // 1000)


_ISO_DURATION = re.compile(r"P(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(-?[\d.]+)S)?")
_FROM_JSON: dict[pa.DataType, Any] = {
    pa.timestamp("us", "UTC"): lambda text: datetime_of(instant_us(text)),
    pa.date32(): date.fromisoformat,
    pa.time64("us"): time.fromisoformat,
    pa.duration("us"): _length_of,
    pa.month_day_nano_interval(): _interval_of,
    pa.decimal128(38, 0): Decimal,
}
_KINDS = {
    str(kind): kind
    for kind in (
        *_FROM_JSON, pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
        pa.uint32(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.null(),
    )
}  # fmt: skip
"""Types of results by name."""


def _iso_duration(value: Any) -> str:
    """ISO 8601: P1M2DT3.5S."""
    months, days, nanoseconds = value
    seconds = Decimal(nanoseconds).scaleb(-9).normalize()
    parts = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    if seconds or not parts:
        parts += f"T{seconds:f}S"
    return "P" + parts


MOMENT = pa.timestamp("us")
_PLAIN = frozenset((pa.int64(), pa.float64(), pa.string(), pa.bool_()))  # as they are


def conformed(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Exactly `columns`: one that the table does not have is null, also in its type; times are
    naive UTC."""
    if table.column_names == list(columns) and _PLAIN.issuperset(table.schema.types):
        return table
    arrays = []
    for name in columns:
        index = table.schema.get_field_index(name)
        arrays.append(_promised(table.column(index)) if index >= 0 else pa.nulls(len(table)))
    return pa.table(arrays, names=list(columns))


def typed(table: pa.Table, like: pa.Table) -> pa.Table:
    """The same rows, where a column of no type has that of its namesake in `like`."""
    for at, field in enumerate(table.schema):
        if pa.types.is_null(field.type):
            place = like.schema.get_field_index(field.name)
            kind = like.schema.field(place).type if place >= 0 else field.type
            table = table.set_column(at, field.name, pa.nulls(len(table), kind))
    return table


def has_untyped(table: pa.Table) -> bool:
    """Whether a column's type is not known from its rows."""
    return any(pa.types.is_null(field.type) for field in table.schema)


def _promised(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_null(kind.value_type):
        return column.cast(pa.null())
    if pa.types.is_timestamp(kind) and kind != MOMENT:
        return pc.cast(column, MOMENT, safe=False)
    return column
