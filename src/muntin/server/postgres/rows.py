"""From Arrow to PostgreSQL's types: what a column is called there, and rows as messages.

A piece of some thousand rows is written at once, by NumPy: Python makes no object for a value.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import buffer_numbers, pc
from muntin.errors import SelectError
from muntin.select.values import duration_said

TEXT, BINARY = 0, 1
DATA_ROW, COPY_DATA = b"D", b"d"
ROWS_AT_ONCE = 8_192
_EPOCH_US, _EPOCH_DAYS = 946_684_800_000_000, 10_957  # 2000-01-01, from which PostgreSQL counts
_PLAIN_ITEM = re.compile(r'[^\s{}",\\]+')  # which needs no quotes in an array
_INTERVAL = np.dtype([("us", ">i8"), ("days", ">i4"), ("months", ">i4")])


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type as PostgreSQL's clients know it."""

    oid: int
    name: str  # in format_type and information_schema
    size: int  # bytes in binary; -1 where values differ in it
    short: str  # in pg_type
    lists: int  # the type of its arrays


BOOL = PostgresType(16, "boolean", 1, "bool", 1000)
BYTEA = PostgresType(17, "bytea", -1, "bytea", 1001)
INT8 = PostgresType(20, "bigint", 8, "int8", 1016)
INT2 = PostgresType(21, "smallint", 2, "int2", 1005)
INT4 = PostgresType(23, "integer", 4, "int4", 1007)
VARCHAR = PostgresType(25, "text", -1, "text", 1009)
FLOAT4 = PostgresType(700, "real", 4, "float4", 1021)
FLOAT8 = PostgresType(701, "double precision", 8, "float8", 1022)
DATE = PostgresType(1082, "date", 4, "date", 1182)
TIME = PostgresType(1083, "time without time zone", 8, "time", 1183)
TIMESTAMP = PostgresType(1114, "timestamp without time zone", 8, "timestamp", 1115)
TIMESTAMPTZ = PostgresType(1184, "timestamp with time zone", 8, "timestamptz", 1185)
INTERVAL = PostgresType(1186, "interval", 16, "interval", 1187)
NUMERIC = PostgresType(1700, "numeric", -1, "numeric", 1231)
TYPES = (BOOL, BYTEA, INT8, INT2, INT4, VARCHAR, FLOAT4, FLOAT8, DATE, TIME, TIMESTAMP)
TYPES = (*TYPES, TIMESTAMPTZ, INTERVAL, NUMERIC)
_OID = PostgresType(26, "oid", 4, "oid", 1028)  # uint32, in lists: asyncpg knows no other list
_LISTS = {
    k: PostgresType(k.lists, f"{k.name}[]", -1, f"_{k.short}", 0) for k in (*TYPES, _OID)
}  # fmt: skip


def type_of(kind: pa.DataType) -> PostgresType:
    """What PostgreSQL calls it; text where it has no such type."""
    is_ = pa.types
    if is_.is_integer(kind):
        if is_.is_uint64(kind):
            return NUMERIC
        if is_.is_unsigned_integer(kind):
            return INT4 if kind.bit_width == 8 else INT8
        return {8: INT2, 16: INT2, 32: INT4}.get(kind.bit_width, INT8)
    if is_.is_list(kind):
        item = kind.value_type
        while is_.is_list(item):  # arrays of any dimensions have the same type
            item = item.value_type
        return VARCHAR if is_.is_nested(item) else _LISTS[_item_type(item)]
    if is_.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    known = (
        (is_.is_boolean, BOOL),
        (is_.is_float32, FLOAT4),
        (is_.is_floating, FLOAT8),
        (is_.is_decimal, NUMERIC),
        (is_.is_date, DATE),
        (is_.is_time, TIME),
        (is_.is_duration, INTERVAL),
        (is_.is_interval, INTERVAL),
        (is_.is_binary, BYTEA),
        (is_.is_large_binary, BYTEA),
    )
    return next((found for test, found in known if test(kind)), VARCHAR)


def _item_type(kind: pa.DataType) -> PostgresType:
    return _OID if pa.types.is_uint32(kind) else type_of(kind)


def modifier_of(kind: pa.DataType) -> int:
    """Of numeric, how many digits it has and how many of them after the point; else -1."""
    return (kind.precision << 16 | kind.scale) + 4 if pa.types.is_decimal(kind) else -1


def data_rows(table: pa.Table, formats: Sequence[int], letter: bytes = DATA_ROW) -> Iterator[bytes]:
    """DataRow messages, many at once. `formats`: as Bind has them: none (all text), one for all
    columns, or one for each. `letter`: `COPY_DATA`: messages of COPY, whose rows in binary have the
    same bytes."""
    each = formats_of(formats, table.num_columns)
    for piece in _pieces(table):
        columns = [_fields(*one) for one in zip(piece.columns, each, strict=True)]
        yield _messages(columns, piece.num_rows, letter)


def text_columns(table: pa.Table) -> Iterator[list[pa.Array]]:
    """The columns as texts, of many rows at once."""
    for piece in _pieces(table):
        yield [_as_text(column, type_of(column.type)) for column in piece.columns]


def lines(texts: pa.Array, letter: bytes) -> bytes:
    """A message for each of the texts, which are not null."""
    values = _varied(texts.cast(pa.binary()))
    head = np.empty(len(texts), [("letter", "S1"), ("size", ">i4")])
    head["letter"], head["size"] = letter, 4 + values.lengths
    return _joined([_even(head), values])


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    for at in range(0, table.num_rows, ROWS_AT_ONCE):
        yield from table.slice(at, ROWS_AT_ONCE).combine_chunks().to_batches()


def formats_of(formats: Sequence[int], values: int) -> list[int]:
    """The format of each value: one that is given is that of all."""
    if len(formats) == 1:
        return [*formats] * values
    return [*formats, *[TEXT] * (values - len(formats))]


@dataclass(frozen=True, slots=True)
class _Values:
    """A column's values, one after the other; a length of -1 is null and has no bytes."""

    data: np.ndarray
    lengths: np.ndarray
    width: int = 0  # of each value, where all are as long and none is null


def _fields(column: pa.Array, form: int) -> _Values:
    kind = type_of(column.type)
    if form == BINARY and kind.size > 0:
        return _fixed(column, _binary(column, kind))
    if form == BINARY and kind is NUMERIC:
        return _varied(pa.array([*map(_numeric, column.to_pylist())], pa.binary()))
    if form == BINARY and kind in _LISTS.values():
        return _varied(pa.array([*map(_list_binary, column)], pa.binary()))
    if kind is BYTEA and form == BINARY:
        return _varied(column.cast(pa.binary()) if column.type != pa.binary() else column)
    return _varied(_as_text(column, kind).cast(pa.binary()))


def _fixed(column: pa.Array, values: np.ndarray) -> _Values:
    if not column.null_count:
        return _even(values)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    return _Values(values[there].view(np.uint8), np.where(there, values.dtype.itemsize, -1))


def _even(values: np.ndarray) -> _Values:
    width = values.dtype.itemsize
    return _Values(values.view(np.uint8), np.broadcast_to(width, len(values)), width)


def _varied(column: pa.Array) -> _Values:
    _, ends, data = column.buffers()
    offsets = buffer_numbers(ends, np.int32, len(column) + 1, 4 * column.offset)
    lengths = np.diff(offsets).astype(np.int64)
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        if lengths[~there].any():  # bytes under a null: they are not sent
            return _varied(pa.array(column.to_pylist(), pa.binary()))
        lengths = np.where(there, lengths, -1)
    size = int(offsets[-1] - offsets[0]) if len(column) else 0
    return _Values(buffer_numbers(data, np.uint8, size, int(offsets[0]) if size else 0), lengths)


def _binary(column: pa.Array, kind: PostgresType) -> np.ndarray:
    """Values of one width, in network order; nulls are anything."""
    if kind is BOOL:
        return _plain(column.cast(pa.uint8()), 0).astype("u1")
    if kind in (TIMESTAMP, TIMESTAMPTZ):
        us = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        return (_plain(us, _EPOCH_US) - _EPOCH_US).astype(">i8")
    if kind is DATE:
        days = column.cast(pa.date32()).cast(pa.int32())
        return (_plain(days, 0) - _EPOCH_DAYS).astype(">i4")
    if kind is TIME:
        return _plain(column.cast(pa.time64("us")).cast(pa.int64()), 0).astype(">i8")
    if kind is INTERVAL:
        return _intervals(column)
    order = {INT2: ">i2", INT4: ">i4", INT8: ">i8", FLOAT4: ">f4", FLOAT8: ">f8"}[kind]
    return _plain(column, 0).astype(order)


def _plain(column: pa.Array, null: int) -> np.ndarray:
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(null, column.type))
    return column.to_numpy(zero_copy_only=False)


def _intervals(column: pa.Array) -> np.ndarray:
    found = np.zeros(len(column), _INTERVAL)
    if pa.types.is_duration(column.type):
        found["us"] = _plain(column.cast(pa.duration("us")).cast(pa.int64()), 0)
        return found
    for at, value in enumerate(column.to_pylist()):
        if value is not None:
            months, days, nanoseconds = value
            found[at] = (nanoseconds // 1000, days, months)
    return found


def _as_text(column: pa.Array, kind: PostgresType) -> pa.Array:
    if kind is BOOL:
        return pc.if_else(column, "t", "f")
    if kind in (TIMESTAMP, TIMESTAMPTZ):
        naive = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        text = naive.cast(pa.timestamp("us")).cast(pa.string())
        return text if kind is TIMESTAMP else pc.binary_join_element_wise(text, "+00", "")
    if kind in (FLOAT4, FLOAT8):
        text = column.cast(pa.string())
        for ours, theirs in (("inf", "Infinity"), ("-inf", "-Infinity"), ("nan", "NaN")):
            text = pc.if_else(pc.equal(text, ours), theirs, text)
        return text
    if kind is INTERVAL:
        return pa.array([_interval_text(value) for value in column.to_pylist()], pa.string())
    if kind is BYTEA:
        texts = [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_nested(column.type):
        return pa.array([*map(_list_text, column)], pa.string())
    return column.cast(pa.string())


def _list_binary(value: pa.ListScalar) -> bytes | None:
    if not value.is_valid:
        return None
    sizes, items = _dimensions(value)
    of = _item_type(items.type)
    fields = _fields(items.cast(pa.int32(), safe=False) if of is _OID else items, BINARY)
    bounds = [bound for size in sizes for bound in (size, 1)]  # each dimension begins at 1
    head = np.array([len(sizes), -1 in fields.lengths, of.oid, *bounds], ">i4").tobytes()
    ends, data = np.cumsum(np.maximum(fields.lengths, 0)).tolist(), fields.data.tobytes()
    parts = [
        int(size).to_bytes(4, "big", signed=True) + data[end - max(size, 0) : end]
        for size, end in zip(fields.lengths.tolist(), ends, strict=True)
    ]
    return head + b"".join(parts)


def _list_text(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return None
    if not pa.types.is_list(value.type):
        return str(value.as_py())
    sizes, items = _dimensions(value)
    texts = [_item_text(text) for text in _as_text(items, type_of(items.type)).to_pylist()]
    for size in reversed(sizes[1:]):
        texts = ["{" + ",".join(texts[at : at + size]) + "}" for at in range(0, len(texts), size)]
    return "{" + ",".join(texts) + "}"


def _item_text(text: str | None) -> str:
    if text is None:
        return "NULL"
    if _PLAIN_ITEM.fullmatch(text) and text.upper() != "NULL":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _dimensions(value: pa.Scalar) -> tuple[list[int], pa.Array]:
    """How long the lists of an array are, from the outermost one on, and its items; no dimension
    where there are none. Raises SelectError: lists in it are not as long as each other."""
    items = value.values
    sizes = [len(items)]
    while pa.types.is_list(items.type):
        lengths = set(pc.list_value_length(items).to_pylist())
        if len(lengths) > 1 or None in lengths:
            raise SelectError(
                "lists in a list are not as long as each other, and so no array of PostgreSQL",
                code="value",
                remedy="ask for one of them alone",
            )
        sizes.append(lengths.pop() if lengths else 0)
        items = items.flatten()
    return (sizes if all(sizes) else []), items


def _interval_text(value: Any) -> str | None:
    if value is None or not isinstance(value, tuple):
        return None if value is None else duration_said(value)
    months, days, nanoseconds = value
    us = abs(nanoseconds) // 1000
    years = abs(months) // 12 * (1 if months > 0 else -1)  # as in binary: clients give them days
    clock = clock_text(-us if nanoseconds < 0 else us)
    return f"{years} years {months - 12 * years} mons {days} days {clock}"


def clock_text(us: int) -> str:
    """Microseconds as hours, minutes and seconds."""
    sign = "-" if us < 0 else ""
    seconds, us = divmod(abs(us), 1_000_000)
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{us:06}"


def _numeric(value: Decimal | int | None) -> bytes | None:
    """The binary form: digits of base 10,000 around the point."""
    if value is None:
        return None
    sign, digits, exponent = Decimal(value).as_tuple()
    scale = max(0, -int(exponent))
    whole = int("".join(map(str, digits))) * 10 ** max(0, int(exponent))
    whole *= 10 ** (-scale % 4)  # whole groups after the point
    groups = []
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.append(group)
    groups.reverse()
    weight = len(groups) - 1 - (scale + 3) // 4
    head = np.array([len(groups), weight if groups else 0], ">i2").tobytes()
    rest = np.array([0x4000 if sign else 0, scale, *groups], ">u2").tobytes()
    return head + rest


def _messages(columns: Sequence[_Values], rows: int, letter: bytes) -> bytes:
    head = np.empty(rows, [("letter", "S1"), ("size", ">i4"), ("columns", ">u2")])
    head["letter"], head["columns"] = letter, len(columns)
    head["size"] = 6 + sum(4 + np.maximum(column.lengths, 0) for column in columns)
    parts = [_even(head)]
    for column in columns:
        parts += [_even(column.lengths.astype(">i4")), column]
    return _joined(parts)


def _joined(columns: Sequence[_Values]) -> bytes:
    """The values of each row, one after the other."""
    if all(column.width for column in columns):
        even = [column.data.reshape(-1, column.width) for column in columns]
        return np.concatenate(even, axis=1).tobytes()
    sizes = [column.width or np.maximum(column.lengths, 0) for column in columns]
    ends = np.cumsum(sum(sizes))
    at = ends - sum(sizes)
    out = np.empty(int(ends[-1]), np.uint8)
    for column, size in zip(columns, sizes, strict=True):
        if column.width:
            for k in range(column.width):
                out[at + k] = column.data[k :: column.width]
        elif len(column.data):
            before = np.cumsum(size) - size
            out[np.repeat(at - before, size) + np.arange(len(column.data))] = column.data
        at = at + size
    return out.tobytes()
