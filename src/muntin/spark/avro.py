"""Avro records in bulk: bytes in, columns out, and a reason for each record that is malformed.

A record's schema is flat: null, boolean, int, long, float, double, string, bytes, enum and fixed,
each alone or in a union with null, with the logical types of dates, times and decimals. Values may
begin with the five bytes of a schema registry, and be of several schemas then. A record counts if
it ends where its bytes do; source: Apache Avro 1.12, "Binary Encoding" and "Schema Resolution".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.errors import SourceError
from muntin.spark import avro_kernels as kernels
from muntin.spark.values import Parsed
from muntin.summaries.items import text_buffers

ENTRY = "source.value.schema"
_KINDS = {
    "null": (kernels.NULL, 0, pa.null()),
    "boolean": (kernels.BOOLEAN, 1, pa.bool_()),
    "int": (kernels.INT, 0, pa.int32()),
    "long": (kernels.LONG, 0, pa.int64()),
    "float": (kernels.FLOAT, 4, pa.float32()),
    "double": (kernels.DOUBLE, 8, pa.float64()),
    "string": (kernels.TEXT, 0, pa.string()),
    "bytes": (kernels.TEXT, 0, pa.binary()),
}
_TIME = pa.timestamp("us", "UTC")
# (multiplied by, divided by): microseconds since 1970 UTC; a local one is taken as UTC
_TIMES = {"timestamp-millis": (1_000, 1), "timestamp-micros": (1, 1), "timestamp-nanos": (1, 1_000)}
_NESTED = ("array", "map", "record", "error")


@dataclass(frozen=True, slots=True)
class AvroField:
    name: str
    kind: int
    size: int
    null: int
    type: pa.DataType
    factor: int = 1
    divisor: int = 1
    symbols: tuple[str, ...] = ()
    default: pa.Scalar | None = None


Schemas = Mapping[int, tuple[AvroField, ...]]
"""Fields by the schema's number, the newest first."""
UNNUMBERED = -1
"""The number of a schema whose values have none in front."""


def avro_schemas(given: str | Mapping[int, str]) -> Schemas:
    """Of `source.value.schema`: one schema, or several by their numbers in a registry."""
    if isinstance(given, str):
        return {UNNUMBERED: avro_fields(given)}
    return {number: avro_fields(given[number]) for number in sorted(given, reverse=True)}


def arrow_schema(schemas: Schemas) -> pa.Schema:
    """The columns of all schemas; a number is of the widest type that one of them says."""
    each = [pa.schema([(f.name, f.type) for f in fields]) for fields in schemas.values()]
    try:
        whole = pa.unify_schemas(each, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise SourceError(f"{ENTRY}: the schemas do not agree: {problem}") from None
    for field in (field for one in each for field in one if pa.types.is_decimal(field.type)):
        kind = whole.field(field.name).type
        if not pa.types.is_decimal128(kind):
            raise SourceError(
                f"{ENTRY}: the schemas do not agree: no type has what {field.type} and the others "
                f"of field '{field.name}' hold exactly"
            )
    return whole


def avro_fields(given: str) -> tuple[AvroField, ...]:
    """The fields of a flat record's schema: Avro's JSON, or the path of a file that holds it."""
    text = given.strip()
    if not text.startswith(("{", "[")):
        try:
            text = Path(text).read_text("utf-8")
        except (OSError, ValueError) as problem:
            raise SourceError(
                f"{ENTRY}: {given!r}: {getattr(problem, 'strerror', problem)}; write Avro's JSON, "
                "or the path of a file that holds it"
            ) from None
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise SourceError(f"{ENTRY}: not JSON: {str(problem)[:200]}") from None
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list) or not fields or schema.get("type") != "record":
        raise SourceError(f"{ENTRY}: is no Avro record: {{type: record, name: …, fields: [ … ]}}")
    named: dict[str, Any] = {}
    space = _full_name(schema, "").rpartition(".")[0]
    found = [_field(field, named, space) for field in fields]
    names = [field.name for field in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SourceError(f"{ENTRY}: field '{twice}' stands there twice")
    return tuple(found)


def _full_name(given: Mapping[str, Any], space: str) -> str:
    """Of a type that has a name: with its namespace, by default the one around it."""
    name, own = str(given.get("name", "")), given.get("namespace")
    own = own if isinstance(own, str) else space
    return name if "." in name or not own else f"{own}.{name}"


def _field(given: Any, named: dict[str, Any], space: str) -> AvroField:
    field = _typed(given, named, space)
    value = given.get("default")
    if value is None:
        return field
    try:
        return replace(field, default=_default(field, value))
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        raise SourceError(
            f"{ENTRY}: field '{field.name}': its default {str(value)[:80]!r} is no {field.type}"
        ) from None


def _default(field: AvroField, value: Any) -> pa.Scalar:
    """A default as JSON has it: times are numbers, and bytes the characters of their numbers."""
    if isinstance(value, bool) != (field.kind == kernels.BOOLEAN):
        raise TypeError
    if field.type in (_TIME, pa.date32()):
        stored = pa.int32() if field.type == pa.date32() else pa.int64()
        return pa.scalar(value * field.factor // field.divisor, stored).cast(field.type)
    if field.type == pa.binary():
        value = value.encode("latin-1")
    elif pa.types.is_decimal(field.type):
        digits = int.from_bytes(value.encode("latin-1"), "big", signed=True)
        value = Decimal(digits).scaleb(-field.type.scale, Context(40))
    return pa.scalar(value, field.type)


def _typed(given: Any, named: dict[str, Any], space: str) -> AvroField:
    """A field but for its default."""
    name = given.get("name") if isinstance(given, Mapping) else None
    if not isinstance(name, str) or "type" not in given:
        raise SourceError(f"{ENTRY}: a field needs a name and a type: {str(given)[:80]}")
    kind, null = given["type"], -1
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        if len(others) != 1 or len(kind) > 2:
            raise SourceError(f"{ENTRY}: field '{name}': a union is of null and one other type")
        null = kind.index("null") if len(kind) == 2 else kernels.ALONE
        kind = others[0]
    about = kind if isinstance(kind, Mapping) else {"type": kind}
    what = about.get("type")
    if isinstance(what, str) and what not in _KINDS:
        about = named.get(_full_name({"name": what}, space), about)
        what = about["type"]
    if what in ("enum", "fixed"):
        named[_full_name(about, space)] = about
    symbols = about.get("symbols")
    symbols = tuple(symbols) if isinstance(symbols, list) else ()
    if what == "enum" and symbols and all(isinstance(one, str) for one in symbols):
        return AvroField(name, kernels.ENUM, len(symbols), null, pa.string(), symbols=symbols)
    if what == "fixed" and type(about.get("size")) is int and 0 <= about["size"] < 1 << 31:
        return AvroField(name, kernels.FIXED, about["size"], null, _decimal(about) or pa.binary())
    if not isinstance(what, str) or what not in _KINDS:
        nested = "; what is nested is for Spark: leave value out, and take from_avro in fields"
        raise SourceError(
            f"{ENTRY}: field '{name}': a column is one of {', '.join(_KINDS)}, enum, fixed, or in "
            f"a union with null{nested if what in _NESTED or isinstance(what, Mapping) else ''}"
        )
    number, size, arrow = _KINDS[what]
    logical = str(about.get("logicalType"))
    factor = divisor = 1
    if what == "long" and (time := _TIMES.get(logical.removeprefix("local-"))):
        arrow, (factor, divisor) = _TIME, time
    elif logical == "date" and what == "int":
        arrow = pa.date32()
    elif what == "bytes":
        arrow = _decimal(about) or arrow
    return AvroField(name, number, size, null, arrow, factor, divisor)


def _decimal(about: Mapping[str, Any]) -> pa.DataType | None:
    """The decimal that bytes are; None where they are none, or of more digits than Arrow has."""
    precision, scale = about.get("precision"), about.get("scale", 0)
    if about.get("logicalType") != "decimal" or not type(precision) is type(scale) is int:
        return None
    return pa.decimal128(precision, scale) if 0 <= scale <= precision in range(1, 39) else None


class AvroValues:
    """A parser of records of one schema, or of those whose numbers stand in front of values."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._columns = arrow_schema(schemas)
        self._defaults = {
            field.name: field.default
            for fields in reversed([*schemas.values()])  # that of the newest that has the field
            for field in fields
        }

    def parse(self, values: pa.Array) -> Parsed:
        """Columns of `values` (binary), row by row; what is null there is malformed."""
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        n = len(values)
        whole, at = text_buffers(values)
        numbers = np.full(n, UNNUMBERED)
        if UNNUMBERED not in self._schemas:
            kernels.schema_numbers(whole, at, numbers)
        malformed: dict[int, str] = {}
        parts, rows, unknown = [], [], np.ones(n, bool)
        for number, fields in self._schemas.items():
            own = np.flatnonzero(numbers == number)
            if len(own):
                found = self._of_schema(
                    fields, whole, at, own, 0 if number == UNNUMBERED else kernels.HEADER_BYTES
                )
                malformed |= {int(own[row]): why for row, why in found.malformed.items()}
                parts.append(found.columns)
                rows.append(own)
                unknown[own] = False
        others = np.flatnonzero(unknown)
        if len(others) or not parts:
            malformed |= {row: self._no_schema(int(numbers[row])) for row in others.tolist()}
            parts.append([pa.nulls(len(others), kind) for kind in self._columns.types])
            rows.append(others)
        if values.null_count:
            tombstone = "the record has no value: it is a tombstone"
            malformed |= dict.fromkeys(
                np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist(), tombstone
            )
        if len(parts) == 1:
            return Parsed(parts[0], malformed)
        order = pa.array(np.argsort(np.concatenate(rows)))
        columns = [pa.concat_arrays(each).take(order) for each in zip(*parts, strict=True)]
        return Parsed(columns, malformed)

    def _of_schema(
        self,
        fields: tuple[AvroField, ...],
        whole: np.ndarray,
        at: np.ndarray,
        rows: np.ndarray,
        skip: int,
    ) -> Parsed:
        """The columns of those rows, which one schema wrote, in order."""
        n = len(rows)
        shape = len(fields), n
        kinds = np.array([f.kind for f in fields], np.uint8)
        nulls = np.array([f.null for f in fields], np.int8)
        sizes = np.array([f.size for f in fields], np.int64)
        numbers, lengths = np.zeros(shape, np.int64), np.zeros(shape, np.int32)
        valid, why, where = np.zeros(shape, np.uint8), np.zeros(n, np.uint8), np.zeros(n, np.int32)
        kernels.read_records(
            whole, at, rows, skip, kinds, nulls, sizes, numbers, lengths, valid, why, where
        )
        malformed = {
            row: _why(int(why[row]), fields[where[row]].name)
            for row in np.flatnonzero(why).tolist()
        }
        taken = np.ones(n, bool)
        taken[list(malformed)] = False
        columns: dict[str, pa.Array] = {}
        for f, field in enumerate(fields):
            there = (valid[f] != 0) & taken
            columns[field.name], wrong = _column(field, numbers[f], lengths[f], there, whole)
            for row, problem in wrong.items():
                malformed.setdefault(row, f"column '{field.name}': {problem}")
        for name, default in self._defaults.items():
            if name not in columns and default is not None:
                columns[name] = pa.repeat(default, n)
        if malformed:  # null in all columns, also where it was found in one
            taken[list(malformed)] = False
            keep = pa.array(taken)
            columns = {
                name: pc.if_else(keep, c, pa.scalar(None, c.type)) for name, c in columns.items()
            }
        absent = pa.nulls(n)
        fitted = [(columns.get(field.name, absent), field.type) for field in self._columns]
        return Parsed([c if c.type == t else c.cast(t, safe=False) for c, t in fitted], malformed)

    def _no_schema(self, number: int) -> str:
        known = " or ".join(map(str, sorted(self._schemas)))
        if number < 0:
            return f"it does not begin with 0 and the schema's number, {known}"
        return f"its schema's number is {number}, not {known}: give {ENTRY} that schema, too"


def _column(
    field: AvroField,
    numbers: np.ndarray,
    lengths: np.ndarray,
    there: np.ndarray,
    data: np.ndarray,
) -> tuple[pa.Array, dict[int, str]]:
    """One field's column, and which of its rows are wrong after all."""
    kind, absent = field.type, ~there
    if field.kind == kernels.NULL:
        return pa.nulls(len(numbers), kind), {}
    if field.symbols:
        places = pa.array(numbers.astype(np.int32), pa.int32(), mask=absent)
        return pc.take(pa.array(field.symbols, pa.string()), places), {}
    if pa.types.is_decimal(kind):
        return _decimals(numbers, np.where(there, lengths, 1), absent, data, kind)
    if field.kind in (kernels.TEXT, kernels.FIXED):
        return _texts(numbers, np.where(there, lengths, 0), absent, data, kind)
    if field.kind == kernels.BOOLEAN:
        return pa.array(numbers != 0, mask=absent), {}
    if field.kind == kernels.FLOAT:
        floats = numbers.astype(np.uint32).view(np.float32)
        return pa.array(floats, mask=absent), {}
    if field.kind == kernels.DOUBLE:
        return pa.array(numbers.view(np.float64), mask=absent), {}
    numbers = numbers // field.divisor
    most = np.iinfo(np.int64).max // field.factor
    out = (numbers > most) | (numbers < -most)  # `abs` has none of the least int64
    beyond = there & out if field.factor > 1 else np.zeros(0, bool)
    wrong = {row: f"{numbers[row]} is not a time" for row in np.flatnonzero(beyond).tolist()}
    if wrong:
        numbers = np.where(beyond, 0, numbers)
    numbers = numbers * field.factor
    storage = pa.int32() if kind in (pa.int32(), pa.date32()) else pa.int64()
    return pa.array(numbers.astype(storage.to_pandas_dtype()), mask=absent).cast(kind), wrong


def _why(why: int, name: str) -> str:
    if why == kernels.LEFT:
        return "bytes are left behind the last field: is it another schema's?"
    problems = {
        kernels.CUT: "the record ends within it",
        kernels.BRANCH: "no such branch of the union",
        kernels.RANGE: "the number is beyond its type",
        kernels.SYMBOL: "no such symbol of the enum",
        kernels.LENGTH: "a length below 0",
    }
    return f"column '{name}': {problems[why]}"


def _decimals(
    starts: np.ndarray, lengths: np.ndarray, absent: np.ndarray, data: np.ndarray, kind: pa.DataType
) -> tuple[pa.Array, dict[int, str]]:
    """Whole numbers of the last digit, their highest byte first, as decimals; and which rows have
    none, or more digits than the schema says."""
    data = data if len(data) else np.zeros(1, np.uint8)
    last = len(data) - 1
    above = np.where(data[np.clip(starts, 0, last)] < 128, 0, 255).astype(np.uint8)
    wide = np.empty((len(starts), 16), np.uint8)
    for at in range(16):
        byte = data[np.clip(starts + lengths - 1 - at, 0, last)]
        wide[:, at] = np.where(at < lengths, byte, above)
    # by halves: Arrow fails to compare what has 39 digits, which 16 bytes hold as well
    low, high = wide.view("<u8")[:, 0], wide.view("<i8")[:, 1]
    most = 10**kind.precision - 1
    (above_high, above_low), (below_high, below_low) = (divmod(n, 1 << 64) for n in (most, -most))
    fits = (high < above_high) | ((high == above_high) & (low <= np.uint64(above_low)))
    fits &= (high > below_high) | ((high == below_high) & (low >= np.uint64(below_low)))
    bad = ~(fits & (lengths >= 1) & (lengths <= 16))
    wrong = np.flatnonzero(bad & ~absent).tolist()
    present = pc.invert(pa.array(bad | absent)).buffers()[1]
    found = pa.Array.from_buffers(kind, len(wide), [present, pa.py_buffer(wide)])
    return found, dict.fromkeys(wrong, f"no number of at most {kind.precision} digits")


def _texts(
    starts: np.ndarray, lengths: np.ndarray, absent: np.ndarray, data: np.ndarray, kind: pa.DataType
) -> tuple[pa.Array, dict[int, str]]:
    """Bytes, or text, in one piece; of text, which rows are not UTF-8."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    kernels.gather_bytes(data, starts, offsets, out)
    present = pc.invert(pa.array(absent)).buffers()[1] if absent.any() else None
    offsets = offsets.astype(np.int32)  # a batch's values have as few bytes in all
    buffers = [present, pa.py_buffer(offsets), pa.py_buffer(out)]
    raw = pa.Array.from_buffers(pa.binary(), len(lengths), buffers)
    if kind == pa.binary():
        return raw, {}
    try:
        return raw.cast(pa.string()), {}
    except pa.ArrowInvalid:
        texts, wrong = [], {}
        for row, value in enumerate(raw.to_pylist()):
            try:
                texts.append(None if value is None else value.decode("utf-8"))
            except UnicodeDecodeError as problem:
                wrong[row] = f"byte {problem.start} is not UTF-8"
                texts.append(None)
        return pa.array(texts, pa.string()), wrong
