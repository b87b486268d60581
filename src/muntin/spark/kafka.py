"""Kafka's records as columns: their values parsed in the workers, their place beside them.

The source's frame has a record's value in `VALUE_COLUMN`, as bytes. Where a pipeline has no fields
the very task that folds a batch parses it before; fields are Spark's to evaluate, so there a task
of its own parses, and rows pass through Spark once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import SourceError
from muntin.kinds.columns import in_backticks
from muntin.spark.avro import AvroValues, arrow_schema, avro_schemas
from muntin.spark.ddl import declared, spelled
from muntin.spark.partials import CORRUPT_COLUMN, REJECTED_KEPT_MAX, WHY_COLUMN, Placed
from muntin.spark.places import FILE, reader_of_files
from muntin.spark.values import JsonValues, Parsed, value_schema
from muntin.spec import Pipeline, SourceSpec, ValueSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE_COLUMN = "_muntin_value"
PLACE_COLUMNS = {"topic": "_muntin_topic", "partition": "_muntin_partition",
                 "offset": "_muntin_offset"}  # fmt: skip
KEPT_COLUMNS = (CORRUPT_COLUMN, WHY_COLUMN, *PLACE_COLUMNS.values())
"""Beside those that a pipeline reads, where the source has them."""
RECORD_DDL = (
    "key binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
_SHOWN_BYTES = 4_000  # of a malformed value
Placing = Callable[[Iterable[pa.RecordBatch]], Iterator[Placed]]


def columns_of(source: SourceSpec) -> dict[str, pa.DataType]:
    """The columns of a source's records by name, without Spark."""
    record = declared(RECORD_DDL) | {"key": pa.binary()}
    if source.value is None:
        return record | {"value": pa.binary()}
    schema, _ = _format(source.value)
    return record | {field.name: field.type for field in schema}


def named(df: DataFrame, source: SourceSpec) -> DataFrame:
    """Kafka's frame, its value marked as one that is to be parsed."""
    if source.format != "kafka" or source.value is None:
        return df
    _format(source.value)
    return df.withColumnRenamed("value", VALUE_COLUMN)


def is_raw(df: DataFrame) -> bool:
    """Has the frame records whose values are to be parsed?"""
    return VALUE_COLUMN in df.columns


def parsed(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """A raw frame with all columns of its records and values; other frames as they are."""
    if not is_raw(df):
        return df
    own, parser = _format(_value(pipeline))
    others = [c for c in df.columns if c not in own.names and c != VALUE_COLUMN]
    kinds = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    ddl = [f"`{c}` {kinds[c]}" for c in others]
    ddl += [f"{in_backticks(f.name)} {spelled(f.type)}" for f in own]
    ddl += [f"`{CORRUPT_COLUMN}` string, `{WHY_COLUMN}` string"]
    ddl += [f"`{c}` {kinds[name]}" for name, c in PLACE_COLUMNS.items()]
    columns = [*others, *own.names, *KEPT_COLUMNS]
    return _with_places(df, others).mapInArrow(_reader(own, parser, columns), ", ".join(ddl))


def prepared(
    df: DataFrame, pipeline: Pipeline, needed: Callable[[DataFrame, Pipeline], Any]
) -> tuple[DataFrame, Placing]:
    """What is sent to the workers, and what makes of it the columns that a pipeline reads.

    Of records whose values are read there, nothing is checked: that was done before the first
    batch, and costs each a hundred calls of Java.
    """
    if not is_raw(df) or pipeline.fields:
        columns, _ = needed(df, pipeline)
        is_of_files = FILE in columns.columns
        return columns, reader_of_files(columns, pipeline.fields) if is_of_files else placed
    own, parser = _format(_value(pipeline))
    wanted = pipeline.columns_read()
    raw = _with_places(df, [c for c in wanted if c not in own.names])
    read = _reader(own, parser, [*wanted, *KEPT_COLUMNS])
    return raw, lambda batches: placed(read(batches))


def placed(batches: Iterable[pa.RecordBatch]) -> Iterator[Placed]:
    """Batches without the columns that tell their rows' places, if any, and these: topic[0]@12."""
    names = set(PLACE_COLUMNS.values())
    for batch in batches:
        if not names <= set(batch.schema.names):
            yield batch, None
            continue
        topic, partition, offset = (batch.column(name) for name in PLACE_COLUMNS.values())

        def place(row: int, t: Any = topic, p: Any = partition, o: Any = offset) -> str:
            return f"{t[row]}[{p[row]}]@{o[row]}"

        yield batch.select([n for n in batch.schema.names if n not in names]), place


def _value(pipeline: Pipeline) -> Any:
    return pipeline.source and pipeline.source.value


def _format(value: ValueSpec) -> tuple[pa.Schema, Callable[[], JsonValues | AvroValues]]:
    """The columns of values, and what makes their parser in a worker."""
    if value.format == "avro":
        schemas = avro_schemas(value.schema_)
        schema, parser = arrow_schema(schemas), partial(AvroValues, schemas)
    else:
        schema = value_schema(str(value.schema_))
        parser = partial(JsonValues, schema)
    if own := next((name for name in schema.names if name.startswith("_muntin_")), None):
        raise SourceError(f"source.value.schema: column '{own}' has a name of Muntin's own columns")
    return schema, parser


def _with_places(df: DataFrame, others: list[str]) -> DataFrame:
    places = [f"{name} AS {column}" for name, column in PLACE_COLUMNS.items()]
    return df.selectExpr(VALUE_COLUMN, *map(in_backticks, others), *places)


def _reader(
    schema: pa.Schema, parser: Callable[[], JsonValues | AvroValues], columns: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Raw batches to the columns that are named: a value's where it has one of the name."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = parser()
        for batch in batches:
            raw = batch.column(VALUE_COLUMN)
            got = values.parse(raw)
            found = {name: batch.column(name) for name in batch.schema.names}
            found |= dict(zip(schema.names, got.columns, strict=True))
            found[CORRUPT_COLUMN], found[WHY_COLUMN] = _malformed(raw, got)
            yield pa.RecordBatch.from_arrays([found[c] for c in columns], columns)

    return read


def _malformed(raw: pa.Array, got: Parsed) -> tuple[pa.Array, pa.Array]:
    """The text of records that are malformed, and why they are; null of others."""
    if not got.malformed:
        return pa.nulls(len(raw), pa.string()), pa.nulls(len(raw), pa.string())
    texts: list[str | None] = [None] * len(raw)
    whys: list[str | None] = [None] * len(raw)
    for number, (row, why) in enumerate(sorted(got.malformed.items())):
        texts[row] = ""  # no more than these are kept
        if number >= REJECTED_KEPT_MAX:
            continue
        value = raw[row].as_py() or b""
        texts[row] = value[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
        whys[row] = why
    return pa.array(texts, pa.string()), pa.array(whys, pa.string())
