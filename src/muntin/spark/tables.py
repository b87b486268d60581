"""Tables in memory (pandas, polars, Arrow): folded here, without Spark."""

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from muntin.arrow import UNSIGNED_OF_SPARK
from muntin.errors import SourceError
from muntin.spark.frame_columns import check_names, check_types
from muntin.spark.gathering import GatherRows
from muntin.spark.partials import fold
from muntin.spark.rows import here
from muntin.spark.runs import merged
from muntin.spec import Pipeline

ROWS_AT_ONCE = 1 << 18


_FOR_SPARK = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): UNSIGNED_OF_SPARK,
    pa.date64(): pa.date32(),
    pa.float16(): pa.float32(),
}


class SupportsArrow(Protocol):
    """A table that gives its columns as Arrow: pandas, polars, DuckDB, Arrow itself."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def is_table(data: Any) -> bool:
    """Does it give Arrow batches, as pandas, polars, DuckDB and Arrow do?"""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def arrow_of(data: Any) -> pa.RecordBatchReader:
    """The batches of a table, without a copy where its owner makes none. Raises SourceError: a
    column has no Arrow type, such as one of Python objects of several kinds."""
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        said = str(problem).splitlines()[0][:300]
        raise SourceError(
            f"this {type(data).__name__} cannot become an Arrow table ({said}): give each column "
            "values of one type"
        ) from None


def spark_table(table: pa.Table) -> pa.Table:
    """A table in types that Spark takes as well: unsigned integers wider, as it reads Parquet."""
    kinds = [_plain(kind) for kind in table.schema.types]
    kinds = [_FOR_SPARK.get(kind, kind) for kind in kinds]
    columns = [
        pa.chunked_array([_cast(chunk, kind) for chunk in column.chunks], kind)
        for column, kind in zip(table.columns, kinds, strict=True)
    ]
    return pa.table(columns, table.schema.names)


def gather_table(data: Any, pipeline: Pipeline) -> GatherRows:
    reader = arrow_of(data)
    columns = check_names(pipeline, reader.schema.names)
    fields = [reader.schema.field(column) for column in columns]
    schema = pa.schema([(field.name, _plain(field.type)) for field in fields])
    check_types(pipeline, schema)
    return lambda plan: merged(plan, list(fold(plan, _batches(reader, schema))), here)


def _batches(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for read in reader:
        for first in range(0, read.num_rows, ROWS_AT_ONCE):
            part = read.slice(first, ROWS_AT_ONCE).select(schema.names)
            arrays = [*map(_cast, part.columns, schema.types)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.DictionaryArray):
        return column.dictionary.cast(kind).take(column.indices)
    return column if column.type == kind else column.cast(kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Of the ways to hold the same values, the one that Spark has as well."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_decimal(kind) and kind.bit_width < 128:  # Arrow compares none of them
        return pa.decimal128(kind.precision, kind.scale)
    return kind
