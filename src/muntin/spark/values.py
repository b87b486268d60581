"""JSON records in bulk: bytes in, columns out, and a reason for each record that is malformed.

What a record must be: UTF-8 text of one JSON object whose declared fields have the declared type or
are null; a field that is missing is null, one that is not declared is left alone. Everything else
is malformed, never null: "x" or 1.5 for a bigint, NaN for a double, an object for a string.

Records that stand in one line each are joined for Arrow's reader of JSON lines. Where it refuses,
they are halved until those that it cannot read are alone. These go to Python's `json`, which says
why, and accepts more (several lines, a name given twice, 1.0 for a bigint). So what becomes of a
record never depends on its neighbours.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from muntin.arrow import is_sound, pc
from muntin.errors import SourceError
from muntin.spark.avro_kernels import HEADER_BYTES
from muntin.spark.ddl import TYPES, UNKNOWN, declared, spelled
from muntin.spark.event_time import ABSENT, event_times
from muntin.summaries.indicators import DIGITS_MAX
from muntin.summaries.items import text_buffers
from muntin.times import DAY_US

BLOCK_BYTES = 8 << 20  # joined at once; Arrow parses it as one block
SINGLE_UP_TO = 8  # records that are tried one by one rather than halved further
SHOWN_CHARACTERS = 60
WHOLE_FLOAT_MAX = 1 << 53  # beyond, a float may be another number than what was written
_DATE = r"^\d{4}-\d{2}-\d{2}$"


class MalformedError(ValueError):
    """A record that is not what its schema says; the text says why."""


@dataclass(slots=True)
class Parsed:
    """Columns in the schema's order, and of each malformed row, all null there, why it is that."""

    columns: list[pa.Array]
    malformed: dict[int, str] = field(default_factory=dict)


def value_schema(ddl: str) -> pa.Schema:
    """The Arrow schema of `source.value.schema`, of types that a value can have."""
    entry = "source.value.schema"
    columns = declared(ddl, entry)
    for name, kind in columns.items():
        if kind == UNKNOWN:
            raise SourceError(
                f"{entry}: column '{name}': a value's column is one of {', '.join(TYPES)}, or a "
                f"decimal of at most {DIGITS_MAX} digits, such as decimal(18, 2); what is nested "
                "is for Spark: leave value out, and take it from_json in fields"
            )
    return pa.schema(list(columns.items()))


class JsonValues:
    """A parser of records of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._raw = pa.schema([(f.name, _raw_type(f.type)) for f in schema])
        self._options = pj.ParseOptions(
            explicit_schema=self._raw, unexpected_field_behavior="ignore"
        )

    def parse(self, values: pa.Array) -> Parsed:
        """Columns of `values` (binary), row by row; what is null there is malformed."""
        values = _without_number(values)
        malformed: dict[int, str] = {}
        pieces: list[pa.RecordBatch] = []
        rows_at_once = len(values)
        if rows_at_once and values.nbytes > BLOCK_BYTES:
            rows_at_once = max(1, BLOCK_BYTES * rows_at_once // values.nbytes)
        for begin in range(0, len(values), max(1, rows_at_once)):
            self._read(values.slice(begin, rows_at_once), begin, pieces, malformed)
        table = pa.Table.from_batches(pieces, self._raw).combine_chunks()
        columns = []
        bad = np.zeros(len(values), bool)
        for column, wanted in zip(table.itercolumns(), self._schema, strict=True):
            raw = column.chunk(0) if column.num_chunks else pa.array([], column.type)
            whole, wrong = _finished(raw, wanted.type)
            columns.append(whole)
            if wrong is not None:
                bad |= wrong
        for row in np.flatnonzero(bad).tolist():
            malformed[row] = self._why(values[row].as_py())
        if bad.any():
            keep = pa.array(~bad)
            columns = [pc.if_else(keep, c, pa.scalar(None, c.type)) for c in columns]
        return Parsed(columns, malformed)

    def one(self, value: bytes | None) -> dict[str, Any]:
        """A record by Python's `json`: times are left as text. MalformedError tells why not."""
        if value is None:
            raise MalformedError("the record has no value: it is a tombstone")
        record = _object(value)
        return {f.name: _checked(f.name, f.type, record.get(f.name)) for f in self._schema}

    def _read(
        self, values: pa.Array, at: int, pieces: list[pa.RecordBatch], malformed: dict[int, str]
    ) -> None:
        found = self._in_bulk(values)
        if found is not None:
            pieces.extend(found)
        elif len(values) == 1:
            try:
                row = self.one(values[0].as_py())
            except MalformedError as problem:
                malformed[at] = str(problem)
                row = {}
            pieces.append(pa.RecordBatch.from_pylist([row], self._raw))
        else:
            size = 1 if len(values) <= SINGLE_UP_TO else -(-len(values) // 2)
            for begin in range(0, len(values), size):
                self._read(values.slice(begin, size), at + begin, pieces, malformed)

    def _in_bulk(self, values: pa.Array) -> list[pa.RecordBatch] | None:
        """All of it by Arrow; None where a record is not an object in one line that it takes."""
        joined = _joined(values)
        if joined is None:
            return None
        reading = pj.ReadOptions(use_threads=False, block_size=joined.size + 1)
        try:
            table = pj.read_json(pa.BufferReader(joined), reading, self._options)
        except pa.ArrowInvalid:
            return None
        decimals = (c for c in table.itercolumns() if pa.types.is_decimal(c.type))
        if table.num_rows != len(values) or not all(map(is_sound, decimals)):
            return None  # Arrow adds zeros after the point and does not count digits again
        return table.to_batches()

    def _why(self, value: bytes | None) -> str:
        try:
            row = self.one(value)
        except MalformedError as problem:
            return str(problem)
        for wanted in self._schema:
            raw = pa.array([row[wanted.name]], _raw_type(wanted.type))
            wrong = _finished(raw, wanted.type)[1]
            if wrong is not None and wrong[0]:
                kind = "date" if pa.types.is_date(wanted.type) else "time"
                return f"column '{wanted.name}': {_shown(row[wanted.name])} is not a {kind}"
        return "the record does not parse"


def _without_number(values: pa.Array) -> pa.Array:
    """Values without the bytes that a schema registry has put in front: 0, and four of a number."""
    if not pc.any(pc.starts_with(values, b"\0")).as_py():  # no JSON begins with it
        return values
    whole, at = text_buffers(values.cast(pa.binary()))
    n, sizes = len(values), np.diff(at)
    has_number = (sizes > 0) & (whole[np.minimum(at[:-1], len(whole) - 1)] == 0)
    cuts = np.repeat(at, 2)[:-1]  # Arrow 26 fails to slice without an end
    cuts[1::2] += np.where(has_number, np.minimum(sizes, HEADER_BYTES), 0)
    halves = pa.Array.from_buffers(
        pa.binary(), 2 * n, [None, pa.py_buffer(cuts), pa.py_buffer(whole)]
    )
    return pc.if_else(values.is_valid(), halves.take(pa.array(np.arange(1, 2 * n, 2))), None)


def _joined(values: pa.Array) -> pa.Buffer | None:
    """Records as JSON lines, where each is seen to be an object in a line of its own.

    No object can go on in the next line: that begins with {, and the last one ends with }, after
    which JSON has no {. So a reader that sees as many objects as lines sees one in each.
    """
    if values.null_count or not _is_framed(values):
        return None
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    text = pc.binary_join(lists, pa.scalar(b"\n", values.type))
    try:
        text.cast(pa.string())  # Arrow's reader would let broken UTF-8 pass
    except pa.ArrowInvalid:
        return None
    return text[0].as_buffer()


def _is_framed(values: pa.Array) -> bool:
    """Does each begin with { and end with }, and has no line's end, nor \\0, which ends a look?"""
    if values.type != pa.binary():
        values = values.cast(pa.binary())
    whole, at = text_buffers(values)
    if not len(values) or (at[1:] == at[:-1]).any():
        return False
    if (whole[at[:-1]] != ord("{")).any() or (whole[at[1:] - 1] != ord("}")).any():
        return False
    seen = whole[at[0] : at[-1]].tobytes()
    return b"\n" not in seen and b"\0" not in seen


def _raw_type(kind: pa.DataType) -> pa.DataType:
    """What Arrow's reader is asked for: times as text, which `event_times` reads."""
    return pa.string() if pa.types.is_temporal(kind) else kind


def _finished(raw: pa.Array, kind: pa.DataType) -> tuple[pa.Array, np.ndarray | None]:
    """A column in its type, and which of its values are wrong."""
    if pa.types.is_floating(kind):
        finite = pc.is_finite(raw).fill_null(True)
        wrong = ~finite.to_numpy(zero_copy_only=False)
        return raw, wrong if wrong.any() else None
    if not pa.types.is_temporal(kind):
        return raw, None
    given = raw.is_valid().to_numpy(zero_copy_only=False)
    times = event_times(raw, None)
    if pa.types.is_date(kind):
        is_day = pc.match_substring_regex(raw, _DATE).fill_null(False)
        times = np.where(is_day.to_numpy(zero_copy_only=False), times, ABSENT)
    absent = times == ABSENT
    wrong = absent & given
    if pa.types.is_date(kind):
        days = np.where(absent, 0, times) // DAY_US
        return pa.array(days.astype(np.int32), pa.int32(), mask=absent).cast(kind), wrong
    return pa.array(times, pa.int64(), mask=absent).cast(kind), wrong


def _object(value: bytes) -> Mapping[str, Any]:
    try:
        record = json.loads(value.decode("utf-8"), parse_float=_Written)
    except UnicodeDecodeError as problem:
        raise MalformedError(f"byte {problem.start} is not UTF-8") from None
    except RecursionError:
        raise MalformedError("it is nested too deeply") from None
    except ValueError as problem:
        raise MalformedError(f"not JSON: {problem}"[:200]) from None
    if not isinstance(record, dict):
        raise MalformedError(f"{_shown(record)} is not a JSON object")
    return record


def _checked(name: str, kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_boolean(kind):
        good = isinstance(value, bool)
    elif pa.types.is_integer(kind):
        if isinstance(value, float) and value.is_integer() and abs(value) <= WHOLE_FLOAT_MAX:
            value = int(value)
        limit = 1 << (kind.bit_width - 1)
        good = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    elif pa.types.is_floating(kind):
        good, value = _as_float(kind, value)
    elif pa.types.is_decimal(kind):
        good, value = _as_decimal(kind, value)
    else:
        good = isinstance(value, str) and _is_text(value)
    if not good:
        called = "text" if _raw_type(kind) == pa.string() else spelled(kind)
        raise MalformedError(f"column '{name}': {_shown(value)} is not {called}")
    return value


def _as_float(kind: pa.DataType, value: Any) -> tuple[bool, Any]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False, value
    try:
        number = float(value)
    except OverflowError:
        return False, value
    with np.errstate(over="ignore"):
        finite = math.isfinite(number if kind == pa.float64() else float(np.float32(number)))
    return finite, number if finite else value


class _Written(float):
    """A number of JSON with a point or an exponent, and how it was written."""

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def _as_decimal(kind: pa.DataType, value: Any) -> tuple[bool, Any]:
    """From a number, or text of one, with all of its digits."""
    text = value.text if isinstance(value, _Written) else value
    if isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    if not isinstance(text, str) or not _is_text(text):
        return False, value
    try:
        return True, pa.scalar(text).cast(kind).as_py()
    except pa.ArrowInvalid:
        return False, value


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        text = type(value).__name__
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
