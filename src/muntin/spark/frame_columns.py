"""The columns that a pipeline reads of a DataFrame or a table, checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from muntin.errors import BadArgument, SourceError, did_you_mean
from muntin.kinds.columns import in_backticks, in_sql
from muntin.spark.ddl import in_arrow
from muntin.spark.event_time import check_type
from muntin.spark.failures import reason
from muntin.spark.kafka import KEPT_COLUMNS, parsed
from muntin.spark.places import FILE_COLUMNS
from muntin.spark.session import as_active
from muntin.spec import Pipeline

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def needed(df: DataFrame, pipeline: Pipeline) -> tuple[DataFrame, pa.Schema]:
    """The columns that a pipeline reads, fields evaluated; with their Arrow types. Raises
    SourceError: a column is missing, of a type that cannot be used, or a field's expression is
    wrong."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as sf

    with as_active(df.sparkSession):
        df = parsed(df, pipeline)
        source, replaced = set(df.columns), list[str]()
        for name, expression in pipeline.fields.items():
            try:
                df = df.withColumn(name, sf.expr(expression))
                _ = df.schema
            except PySparkException as problem:
                said = re.sub(r", `_muntin_\w+`", "", reason(problem))  # columns of reading itself
                by = next(
                    (n for n in replaced if re.search(rf"\b{re.escape(n)}\b", expression)), None
                )
                hint = f"; '{by}' is no longer the source's but fields.{by}, above" if by else ""
                raise SourceError(f"fields.{name}: {expression!r}: {said}{hint}") from None
            if name in source:
                replaced.append(name)
    wanted = check_names(pipeline, df.columns)
    wanted += [column for column in (*KEPT_COLUMNS, *FILE_COLUMNS) if column in df.columns]
    try:
        df = df.selectExpr(*map(in_backticks, wanted))  # far fewer calls of Java than by columns
    except PySparkException:
        check_cases(wanted, df.columns)
        raise
    return df, checked_schema(pipeline, df.schema)


def check_cases(wanted: Iterable[str], there: Iterable[str], where: str = "") -> None:
    """SourceError where a session that does not tell k from K has both."""
    for name in wanted:
        other = next((n for n in there if n != name and n.lower() == name.lower()), None)
        if other is not None:
            raise SourceError(
                f"{where}columns '{name}' and '{other}' differ by case alone, and your session "
                "takes them for one: rename one, or set spark.sql.caseSensitive to true in it"
            )


def checked_schema(pipeline: Pipeline, schema: StructType) -> pa.Schema:
    """As Arrow's, with times in UTC; SourceError where a column's type cannot be used."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        found = in_arrow(schema)
    except PySparkException:
        for column in schema:
            try:
                in_arrow(StructType([column]))
            except PySparkException as problem:
                raise SourceError(
                    f"column '{column.name}' has no Arrow type: {reason(problem)} Leave it out, or "
                    f"cast it under fields, for example  {column.name}: "
                    f"CAST({in_sql(column.name)} AS INT)"
                ) from None
        raise
    check_types(pipeline, found)
    return found


def check_types(pipeline: Pipeline, schema: pa.Schema) -> None:
    """SourceError where a column's type cannot be used for what the pipeline does with it."""
    entry = ""
    try:
        check_type(pipeline.time, schema.field(pipeline.time.column).type)
        for name, summary in pipeline.summaries.items():
            entry = f"summaries.{name}: "
            summary.check_types({c: schema.field(c).type for c in summary.columns()})
    except BadArgument as problem:
        raise SourceError(f"{entry}{problem}") from None


def check_names(pipeline: Pipeline, there: list[str]) -> list[str]:
    """The columns that a pipeline reads; SourceError where one is not there, or more than once."""
    wanted = pipeline.columns_read()
    for column in wanted:
        found = there.count(column)
        if not found:
            raise SourceError(no_column(column, pipeline, there))
        if found > 1:
            raise SourceError(f"there are {found} columns '{column}': give each its own name")
    return wanted


def no_column(column: str, pipeline: Pipeline, there: list[str], where: str = "") -> str:
    users = [f"summaries.{n}" for n, s in pipeline.summaries.items() if column in s.columns()]
    where = where or ("time" if column == pipeline.time.column else users[0])
    shown = [name for name in there if not name.startswith("_muntin_")]  # of reading itself
    hint = (did_you_mean(column, shown, "columns") or "nor any other") + separated(shown)
    source = pipeline.source
    if source and source.format in ("parquet", "json") and not source.schema_:
        hint += " (where later files have it, name all columns in source.schema)"
    return f"{where}: the source has no column '{column}'; {hint}"


def separated(names: list[str]) -> str:
    """What to write where the one column of a CSV file looks like several; else ""."""
    sign = next((sign for sign in ";\t|" if len(names) == 1 and sign in names[0]), "")
    hint = f"; are they separated by {sign!r}? Write  sep: {json.dumps(sign)}  under source"
    return hint if sign else ""


def may_read(pipeline: Pipeline, there: Iterable[str]) -> set[str]:
    """The columns that a pipeline or its fields name, of those that are there."""
    read, said = pipeline.columns_read(), " ".join(pipeline.fields.values()).lower()
    if re.search(r"[(,.]\s*\*", said):  # all of them, as hash(*) does; a product is none of these
        return {*there}
    return {n for n in there if n in read or in_backticks(n.lower())[1:-1] in said}
