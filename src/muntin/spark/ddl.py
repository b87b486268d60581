"""Columns of a schema that is written as SQL DDL, without Spark."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import SourceError, closest
from muntin.kinds.columns import in_backticks
from muntin.summaries.indicators import DIGITS_MAX

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

UNKNOWN = pa.null()  # a type that is Spark's to know, such as a struct: nothing is said against it
_ARROW = {
    "STRING": pa.string(), "VARCHAR": pa.string(), "BIGINT": pa.int64(), "INT": pa.int32(),
    "SMALLINT": pa.int16(), "TINYINT": pa.int8(), "DOUBLE": pa.float64(), "FLOAT": pa.float32(),
    "BOOLEAN": pa.bool_(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us", "UTC"),
}  # fmt: skip
TYPES = tuple(name.lower() for name in _ARROW if name != "VARCHAR")
_SPELLED = {_ARROW[name.upper()]: name for name in TYPES}
_SPELLED |= {pa.binary(): "binary", pa.null(): "void"}


def spelled(kind: pa.DataType) -> str:
    """As Spark calls the type of a column that is read here; void, where only Spark knows."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPELLED.get(kind, "void")


def in_arrow(schema: StructType) -> pa.Schema:
    """Of Spark's types, times in UTC; PySparkException where one has no Arrow type."""
    from pyspark.sql.pandas.types import to_arrow_schema

    named = signature(to_arrow_schema).parameters  # Spark 4.1 knows no other zone
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in named else {}
    return to_arrow_schema(schema, **zone)


def in_ddl(kind: DataType) -> str:
    """A type as DDL: `simpleString` leaves names within structs, such as `user-agent`, as they are,
    and Spark does not read them so."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        each = (f"{in_backticks(field.name)}:{in_ddl(field.dataType)}" for field in kind)
        return f"struct<{','.join(each)}>"
    if isinstance(kind, ArrayType):
        return f"array<{in_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{in_ddl(kind.keyType)},{in_ddl(kind.valueType)}>"
    return kind.simpleString()


def declared(ddl: str, entry: str = "source.schema") -> dict[str, pa.DataType]:
    """The columns of `ddl` in their order; SourceError, naming the `entry`, where it is none."""
    import re

    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark")
    except SqlglotError as problem:
        word = (problem.errors[0].get("highlight") if isinstance(problem, ParseError) else "") or ""
        meant = closest(word, TYPES)
        hint = f"there is no type '{word}'; did you mean '{meant}'?" if meant else ""
        raise _wrong(ddl, entry, hint or str(problem).splitlines()[0]) from None
    schema = table.this
    columns = {}
    for column in schema.expressions if isinstance(schema, exp.Schema) else ():
        kind = column.args.get("kind") if isinstance(column, exp.ColumnDef) else None
        if kind is None:
            raise _wrong(ddl, entry, f"column '{column.name}' has no type")
        text = kind.sql("spark").upper()
        columns[column.name] = _ARROW.get(re.sub(r"\(.*", "", text), UNKNOWN)
        if decimal := re.fullmatch(r"DECIMAL(?:\((\d+)(?:, (\d+))?\))?", text):
            precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
            if scale <= precision <= DIGITS_MAX:
                columns[column.name] = pa.decimal128(precision, scale)
    if not columns:
        raise _wrong(ddl, entry, "it has no columns")
    return columns


def _wrong(ddl: str, entry: str, why: str) -> SourceError:
    return SourceError(
        f"{entry}: {ddl!r} is not SQL DDL, such as 'time timestamp, fare double': {why}"
    )
