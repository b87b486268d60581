"""Columns of Parquet files for which Spark refuses the whole file, whether it is asked for them or
not."""

from pathlib import Path

import pyarrow as pa

NO_SUCH_COLUMN = (
    "Spark reads no file with such a column, unless schema: under source names those that are "
    "wanted; muntin.summarize without fields, where Arrow reads, takes it"
)


def unread_column(file: str | Path, schema: pa.Schema) -> str:
    """Names the first column for which Spark refuses a file of these, and what helps; "" for
    none."""
    found = (field for field in schema if is_unread(field.type))
    column = next(found, None)
    if column is None:
        return ""
    return f"source.path: {file}: column '{column.name}' is {column.type}: {NO_SUCH_COLUMN}"


def is_unread(kind: pa.DataType) -> bool:
    """Does Spark refuse a file that has such a column, whether it is asked for or not?"""
    if pa.types.is_nested(kind):
        return any(is_unread(kind.field(at).type) for at in range(kind.num_fields))
    is_wide = pa.types.is_decimal256(kind) and kind.precision > 38
    return (
        is_wide or pa.types.is_float16(kind) or pa.types.is_time(kind) or pa.types.is_interval(kind)
    )
