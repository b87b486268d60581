"""Parquet read in the workers by Arrow: no copy from the JVM to Python.

One task a group of row groups. Strings are read plainly: dictionaries were slower to look up where
each row group has many distinct values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.errors import BadArgument, SourceError
from muntin.spark.partials import RESULT_DDL, RESULT_SCHEMA, Plan, fold
from muntin.spark.source import check_types, no_column
from muntin.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from muntin.spark.ingest import GatherRows

ROWS_AT_ONCE = 1 << 17
SPLIT_BYTES = 64 << 20  # uncompressed; a task has at least one row group


@dataclass(frozen=True, slots=True)
class Split:
    """Row groups of one file."""

    path: str
    row_groups: tuple[int, ...]


def parquet_files(path: str) -> list[str]:
    """The Parquet files of a local file, folder or pattern, in order; [] if they are elsewhere."""
    if "://" in path:
        return []
    here = Path(path)
    if here.is_dir():
        found = [
            file
            for file in here.rglob("*.parquet")
            if not any(part.startswith(("_", ".")) for part in file.relative_to(here).parts)
        ]
    elif here.is_file():
        found = [here]
    else:
        found = [f for f in Path(here.anchor or ".").glob(path.lstrip("/")) if f.is_file()]
    return sorted(str(file) for file in found)


def gather_parquet(spark: SparkSession, files: Sequence[str], pipeline: Pipeline) -> GatherRows:
    """Partials of Parquet files.

    Raises
    ------
    SourceError
        A file cannot be read, or lacks a column, or has it in a type that cannot be used.
    """
    columns = list(dict.fromkeys([pipeline.time.column, *pipeline.columns()]))
    check_files(files, pipeline, columns)
    splits = splits_of(files, max(1, spark.sparkContext.defaultParallelism))

    def gather(plan: Plan) -> pa.Table:
        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from _fold_split(plan, splits[number], columns)

        if not splits:
            return RESULT_SCHEMA.empty_table()
        numbers = spark.range(0, len(splits), 1, len(splits))
        return numbers.mapInArrow(task, RESULT_DDL).toArrow()

    return gather


def _fold_split(plan: Plan, split: Split, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(split.path) as file:
        batches = file.iter_batches(
            ROWS_AT_ONCE, row_groups=list(split.row_groups), columns=columns, use_threads=False
        )
        yield from fold(plan, batches, place=f"{split.path}, ")


def check_files(files: Sequence[str], pipeline: Pipeline, columns: list[str]) -> None:
    """SourceError where a file cannot be read, or lacks a column, or has it in a wrong type."""
    for path in files:
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowInvalid, OSError) as problem:
            raise SourceError(f"{path}: not a Parquet file: {problem}") from None
        for column in columns:
            if column not in schema.names:
                raise SourceError(f"{path}: {no_column(column, pipeline, schema.names)}")
        try:
            check_types(pipeline, schema)
        except BadArgument as problem:
            raise SourceError(f"{path}: {problem}") from None


def splits_of(files: Sequence[str], parallelism: int) -> list[Split]:
    """Row groups in bundles: at least two a worker where there are that many."""
    groups: list[tuple[str, int, int]] = []
    for path in files:
        metadata = pq.read_metadata(path)
        groups += [
            (path, number, metadata.row_group(number).total_byte_size)
            for number in range(metadata.num_row_groups)
        ]
    total = sum(size for *_, size in groups)
    size_max = max(1, min(SPLIT_BYTES, total // (2 * parallelism)))
    splits: list[Split] = []
    gathered: list[int] = []
    size = 0
    for at, (path, number, group_size) in enumerate(groups):
        gathered.append(number)
        size += group_size
        last_of_file = at + 1 == len(groups) or groups[at + 1][0] != path
        if size >= size_max or last_of_file:
            splits.append(Split(path, tuple(gathered)))
            gathered, size = [], 0
    return splits
