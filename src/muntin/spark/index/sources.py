"""Where the records of an index come from: a DataFrame, or Parquet files read by Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.errors import BadArgument, SourceError, did_you_mean
from muntin.kinds.columns import in_backticks
from muntin.spark.failures import reason
from muntin.spark.files import filled_files, for_spark
from muntin.spark.index.build import IndexPlan, scatter
from muntin.spark.java import class_of, items_of
from muntin.spark.parquet import ROWS_AT_ONCE, UNITS, Split, are_in_other_calendar, shares_of
from muntin.spark.rows import ROWS_DDL, Row, as_batches, from_table, tasks_of
from muntin.spark.session import own_python, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARE_BYTES = 1 << 30  # a task which is lost is soon repeated


@dataclass
class _Columns:
    """Records that can be read, and read again."""

    key: str
    rank: str | None
    key_type: pa.DataType
    rank_type: pa.DataType | None


@dataclass
class FrameSource(_Columns):
    df: DataFrame

    @property
    def spark(self) -> SparkSession:
        return self.df.sparkSession

    def rows(self, plan: IndexPlan) -> list[Row]:
        """What `scatter` makes of the records."""
        names = {"key": self.key}
        if plan.domain is not None and self.rank is not None:
            names["rank"] = self.rank

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            parts = ((b[0], b[1] if b.num_columns == 2 else None, "") for b in batches)
            return as_batches(scatter(plan, parts))

        with own_python(self.spark):
            columns = self.df.select(*map(in_backticks, names.values()))
            plain = columns.toDF(*names)  # PySpark looks for a column `a.b` inside of `a`
            return from_table(plain.mapInArrow(task, ROWS_DDL).toArrow())


@dataclass
class Files(_Columns):
    """Parquet files; Spark is started, where none is given, when they are read."""

    given: SparkSession | None
    files: list[str]

    @property
    def spark(self) -> SparkSession:
        self.given = self.given or session()
        return self.given

    def rows(self, plan: IndexPlan) -> list[Row]:
        """What `scatter` makes of the records."""
        key, rank = self.key, self.rank if plan.domain is not None else None
        parallelism = max(1, self.spark.sparkContext.defaultParallelism)
        try:
            shares = shares_of(self.files, parallelism, SHARE_BYTES)  # what each task reads
        except (pa.ArrowInvalid, OSError) as problem:  # gone since they were found
            raise SourceError(f"the records cannot be read: {problem}") from None

        return tasks_of(self.spark)(
            len(shares), lambda number: scatter(plan, _read(shares[number], key, rank))
        )


Source = FrameSource | Files


def _read(
    splits: list[Split], key: str, rank: str | None
) -> Iterator[tuple[pa.Array, pa.Array | None, str]]:
    columns = [key] if rank is None else list(dict.fromkeys([key, rank]))
    for split in splits:
        row = split.first_row
        with split.opened() as file:
            groups = list(split.row_groups)
            for batch in file.iter_batches(ROWS_AT_ONCE, groups, columns, use_threads=False):
                place = f"{split.path}, from row {row + 1:,} on: "
                yield batch.column(key), batch.column(rank) if rank is not None else None, place
                row += batch.num_rows


def source_of(given: Any, key: str, rank: str | None, spark: SparkSession | None) -> Source:
    """The source of a DataFrame or of a path of Parquet files."""
    from pyspark.errors import PySparkException

    if isinstance(given, str | Path):
        return _files(str(given), key, rank, spark)
    if not hasattr(given, "mapInArrow"):
        raise BadArgument(f"expected a DataFrame or a path, got {type(given).__name__}")
    wanted = [key] if rank is None else list(dict.fromkeys([key, rank]))
    _check_columns(wanted, given.columns, "the DataFrame")
    try:
        schema = given.select(*map(in_backticks, wanted)).limit(0).toArrow().schema
    except PySparkException as problem:
        raise BadArgument(f"the columns {', '.join(wanted)}: {reason(problem)}") from None
    types = _types(schema, key, rank)
    if files := scanned_files(given):
        with suppress(BadArgument, SourceError):  # such as files that Spark has to make alike
            source = _of_files(files, key, rank, given.sparkSession)
            if source is not None and (source.key_type, source.rank_type) == types:
                return source
    return FrameSource(key, rank, *types, given)


def _files(path: str, key: str, rank: str | None, spark: SparkSession | None) -> Source:
    files = filled_files(path)
    if not files:
        if "://" in path:  # elsewhere: Spark knows how to read it
            spark = spark or session()
            return source_of(spark.read.parquet(path), key, rank, spark)
        raise SourceError(f"{path}: no Parquet files there")
    source = _of_files(files, key, rank, spark)
    if source is not None:
        return source
    frame = (spark or session()).read.parquet(*map(for_spark, files))
    return source_of(frame, key, rank, spark)


def _of_files(
    files: list[str], key: str, rank: str | None, spark: SparkSession | None
) -> Files | None:
    """Files that Arrow reads; None where only Spark knows the dates and times of one."""
    names = [key] if rank is None else [key, rank]
    types: list[tuple[pa.DataType, pa.DataType | None]] = []
    schemas: list[pa.Schema] = []
    for file in files:
        try:
            with pq.ParquetFile(file, **UNITS) as opened:
                schema = opened.schema_arrow
        except (pa.ArrowInvalid, OSError) as problem:
            raise SourceError(
                f"{file}: not a Parquet file: {problem}; if it is none, say what it is: "
                "--source-format csv; in Python give a DataFrame"
            ) from None
        _check_columns(names, schema.names, file)
        types.append(_types(schema, key, rank))
        if types[-1] != types[0]:
            raise SourceError(f"{file}: columns of other types than in {files[0]}")
        schemas.append(schema)
    if are_in_other_calendar(schemas, names, lambda: spark or session()):
        return None
    return Files(key, rank, *types[0], spark, files)


def _types(schema: pa.Schema, key: str, rank: str | None) -> tuple[pa.DataType, pa.DataType | None]:
    return schema.field(key).type, schema.field(rank).type if rank is not None else None


def _check_columns(wanted: list[str], there: list[str], where: str) -> None:
    for name in wanted:
        if name not in there:
            shown = [each for each in map(str, there) if not each.startswith("_muntin_")]
            hint = did_you_mean(name, shown, "columns")
            raise BadArgument(f"{where} has no column '{name}'; {hint}")
        if (found := there.count(name)) > 1:
            raise BadArgument(f"{where} has {found} columns '{name}': give each its own name")


def scanned_files(df: DataFrame) -> list[str]:
    """The files of a DataFrame that is a plain scan of them, or some of its columns; [] otherwise.

    A plain scan is what `spark.read.parquet(path)` gives where folders hold no partition columns.
    Reader options, filters, new names and cached frames are left to Spark.
    """
    frame: Any = getattr(df, "_jdf", None)  # a Connect session has none
    if frame is None:
        return []
    plan = frame.queryExecution().analyzed()
    while class_of(plan) == "Project" and all(
        class_of(column) == "AttributeReference" for column in items_of(plan.projectList())
    ):
        plan = plan.child()
    if class_of(plan) != "LogicalRelation" or class_of(plan.relation()) != "HadoopFsRelation":
        return []
    relation = plan.relation()
    options = set(relation.options().keySet().mkString("\n").split("\n"))
    if (
        relation.fileFormat().toString() != "Parquet"
        or not relation.partitionSchema().isEmpty()
        or options - {"path", "paths"}
    ):
        return []
    addresses = [urlsplit(name) for name in df.inputFiles()]  # none where the frame is cached
    if any(one.scheme not in ("", "file") or one.netloc for one in addresses):
        return []
    return sorted(unquote(one.path) for one in addresses)
