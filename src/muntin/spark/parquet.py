"""Parquet read in the workers by Arrow: no copy from the JVM to Python.

Each worker has one share of the row groups, so that it makes one summary of as many rows as it
can; more where there is very much to read. Strings that the file has as numbers of a dictionary
are read so, which is a third sooner, unless they hardly repeat.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.arrow import is_text, value_type
from muntin.errors import SourceError
from muntin.spark.failures import DAMAGED
from muntin.spark.files import filled_files, local_path, partitions_of
from muntin.spark.frame_columns import check_names, check_types, may_read
from muntin.spark.java import class_of, items_of
from muntin.spark.parquet_columns import are_in_other_case, case_of, check_kinds
from muntin.spark.partials import Placed, Plan, fold_placed
from muntin.spark.rows import Row, tasks_of
from muntin.spark.runs import merged
from muntin.spark.session import is_classic
from muntin.spark.unchanged import REMEDY, check_unchanged, states_of
from muntin.spec import Pipeline, SourceSpec
from muntin.summaries.key_columns import kind_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from muntin.spark.gathering import GatherRows

_LOG = logging.getLogger("muntin.spark")
ROWS_AT_ONCE = 1 << 18
UNITS: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
"""What Spark writes by default would be nanoseconds, where the year 9999 is taken for 1816."""
DICTIONARY_ROW_BYTES = 3  # for each row, in the file; for more, the strings are as fast
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_OTHER_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION, _ONE_CALENDAR = b"org.apache.spark.version", b"3.1.0"
_MODES = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead")
SHARE_BYTES = 512 << 20  # uncompressed, of one task


def read_schema(path: str | Path) -> pa.Schema:
    """Arrow's schema of a file, with intervals: to Arrow, Spark's are numbers, and others bytes."""
    with pq.ParquetFile(path, **UNITS) as file:
        schema, columns = file.schema_arrow, file.schema
    fields = json.loads((schema.metadata or {}).get(_SPARK_SCHEMA, b'{"fields": []}'))["fields"]
    kinds = {f["name"]: pa.duration("us") for f in fields if str(f["type"]).startswith("interval")}
    leaves = (columns.column(at) for at in range(len(columns)))
    others = [leaf.path for leaf in leaves if leaf.converted_type == "INTERVAL"]
    kinds |= dict.fromkeys(others, pa.month_day_nano_interval())
    return pa.schema([f.with_type(kinds.get(f.name, f.type)) for f in schema], schema.metadata)


class MixedKeysError(SourceError):
    """Keys or items of files do not merge, whoever reads them."""


@dataclass(frozen=True, slots=True)
class Split:
    """Row groups of one file."""

    path: str
    row_groups: tuple[int, ...]
    first_row: int  # where the first of them begins in the file
    whole: tuple[int, int]  # rows and row groups of the file

    def opened(self, **options: Any) -> pq.ParquetFile:
        """The file; SourceError where it is another one by now, of which a part would be read."""
        file = pq.ParquetFile(self.path, **options, **UNITS)
        if _whole(file.metadata) == self.whole:
            return file
        file.close()
        raise SourceError(f"{self.path} was written anew while it was read: {REMEDY}")


def _whole(metadata: pq.FileMetaData) -> tuple[int, int]:
    return metadata.num_rows, metadata.num_row_groups


def readable_files(
    source: SourceSpec, pipeline: Pipeline, files: Sequence[str], spark: SparkSession | None = None
) -> Sequence[str]:
    """The files of a source, checked; [] where only Spark can read what the pipeline needs, in this
    session, where one is given."""
    if pipeline.fields or not source.is_plain_parquet:
        return []
    here = local_path(source.path or "")
    if here is None or partitions_of(here, map(Path, files)) & set(pipeline.columns_read()):
        return []  # of a partition's column, its folders have the word
    if are_in_other_case(files, pipeline.columns_read(), case_of(spark, pipeline)):
        return []
    schemas = check_files(files, pipeline)
    check_keys(schemas, pipeline)
    if are_in_other_calendar(schemas.values(), pipeline.columns(), lambda: spark):
        return []
    return files


def are_in_other_calendar(
    schemas: Iterable[pa.Schema], names: Collection[str], session: Callable[[], SparkSession | None]
) -> bool:
    """Whether Spark makes other dates and times of these columns of files than stand in them.

    Spark 2 counted days before 1582 by the Julian calendar, and times before 1900 by the clocks of
    then (3.0 still those of 96 bits); a newer one does where it is set so, and says it in the file.
    Of files that Spark has not written, the session says it that reads them; it is asked for one
    only where there are such files.
    """
    unsaid = False
    for schema in schemas:
        kinds = [field.type for field in schema if field.name in names]  # a file may lack some
        if not any(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in kinds):
            continue
        about = schema.metadata or {}
        version = about.get(_SPARK_VERSION)
        if version is None:
            unsaid = True
        elif version < _ONE_CALENDAR or any(mark in about for mark in _OTHER_CALENDAR):
            return True
    spark = session() if unsaid else None
    return spark is not None and any(spark.conf.get(mode) == "LEGACY" for mode in _MODES)


def gather_parquet(
    spark: SparkSession, source: SourceSpec, pipeline: Pipeline
) -> GatherRows | None:
    """Partials of local Parquet files; None where Spark must read them."""
    files = readable_files(source, pipeline, filled_files(source.path or ""), spark)
    return _gather_files(spark, files, pipeline) if files else None


def gather_batch(
    df: DataFrame, source: SourceSpec, pipeline: Pipeline, nanoseconds: Collection[str] = ()
) -> GatherRows | None:
    """Partials of a micro-batch of local Parquet files; None where Spark must read them.

    Spark also reads files that are not what the pipeline needs: it fills in columns that are
    missing, or says what is wrong. Raises SourceError: Spark must, and would read columns as
    others, as `check_kinds`.
    """
    if source.format != "parquet" or not is_classic(df.sparkSession):
        return None
    files: Sequence[str] = ()
    teller = pipeline.name
    try:
        files = readable_files(source, pipeline, _files_of(df), df.sparkSession)
    except MixedKeysError:
        raise
    except SourceError as problem:
        _LOG.warning("%s: %s: it is read by Spark, which takes for null what is not there",
                     pipeline.name, problem)  # fmt: skip
        teller = ""
    if files:
        return _gather_files(df.sparkSession, files, pipeline)
    read = may_read(pipeline, df.columns)
    kinds = {name: kind for name, kind in df.dtypes if name in read}
    case = case_of(df.sparkSession, pipeline)
    check_kinds(source, _files_of(df), kinds, nanoseconds, teller, case)
    return None


def _files_of(df: DataFrame) -> list[str]:
    """The local files that a micro-batch of a source's own rows reads; [] if that is not known.

    Spark tells it in the job that it would run, which is not part of its public interface: where
    that has another form, nothing is lost but time.
    """
    from py4j.protocol import Py4JError

    found: dict[str, None] = {}
    try:
        java: Any = df._jdf  # pyright: ignore[reportPrivateUsage]
        rdd = java.queryExecution().logical().rdd()
        while class_of(rdd) != "FileScanRDD":
            if rdd.dependencies().size() != 1:
                return []
            rdd = rdd.dependencies().apply(0).rdd()
        for partition in items_of(rdd.filePartitions()):
            found |= {str(file.urlEncodedPath()): None for file in partition.files()}
    except Py4JError:
        return []
    here = [local_path(unquote(path)) for path in found]
    return sorted(str(path) for path in here if path is not None) if all(here) else []


def _gather_files(spark: SparkSession, files: Sequence[str], pipeline: Pipeline) -> GatherRows:
    before = states_of(files)
    first = pq.read_schema(files[0])
    columns = pa.schema([first.field(name) for name in pipeline.columns_read()])
    shares = shares_of(files, max(1, spark.sparkContext.defaultParallelism))
    tasks = tasks_of(spark)

    def gather(plan: Plan) -> Sequence[Row]:
        def task(number: int) -> Iterator[Row]:
            return fold_placed(plan, _read(shares[number], columns))

        rows = tasks(len(shares), task)
        check_unchanged(before, states_of(files))
        return merged(plan, rows, tasks)

    return gather


def _read(share: list[Split], columns: pa.Schema) -> Iterator[Placed]:
    """Rows; null in columns that a file does not have."""
    for split in share:
        row = split.first_row
        coded = _coded(split.path, columns.names)
        with _naming(split.path), split.opened(read_dictionary=coded) as file:
            absent = {*columns.names} - {*file.schema_arrow.names}
            there = [name for name in columns.names if name not in absent]
            for batch in file.iter_batches(
                ROWS_AT_ONCE, row_groups=list(split.row_groups), columns=there, use_threads=False
            ):
                for name in absent:
                    nulls = pa.nulls(batch.num_rows, columns.field(name).type)
                    batch = batch.append_column(name, nulls)
                yield batch, partial(_place, split.path, row)
                row += batch.num_rows


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """What Arrow says of damaged bytes names no file."""
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise  # of the file as a whole, which it names
        raise SourceError(f"{path}: {str(problem).splitlines()[0].rstrip('. ')}{DAMAGED}") from None


def _place(path: str, first: int, row: int) -> str:
    return f"{path}, row {first + row + 1}"


def _coded(path: str, columns: list[str]) -> list[str]:
    """Columns of a file that are read as dictionaries: those of strings that repeat. A writer that
    gives a dictionary up goes on with the strings themselves, of more bytes than a number."""
    metadata = pq.read_metadata(path)
    if not metadata.num_row_groups:
        return []
    group = metadata.row_group(0)
    found = []
    for at in range(group.num_columns):
        column = group.column(at)
        name = column.path_in_schema
        if column.physical_type != "BYTE_ARRAY" or name not in columns:
            continue
        first, rows = column.dictionary_page_offset, column.num_values
        if first is None:
            continue
        size = column.data_page_offset - first
        if max(size, column.total_compressed_size - size) <= DICTIONARY_ROW_BYTES * rows:
            found.append(name)
    return found


def check_files(files: Sequence[str], pipeline: Pipeline) -> dict[str, pa.Schema]:
    """Their schemas; SourceError where a file cannot be read, the first lacks a column, or one has
    another type than can be used. What a later file lacks is null, as it is to Spark."""
    first: dict[str, pa.Field] = {}
    found: dict[str, pa.Schema] = {}
    for path in files:
        try:
            found[path] = schema = read_schema(path)
        except PermissionError:
            raise SourceError(f"{path} cannot be read: let this user read it") from None
        except FileNotFoundError:
            raise SourceError(f"{path} is gone: it must stay until it was read") from None
        except (pa.ArrowInvalid, OSError) as problem:
            raise SourceError(
                f"{path}: not a Parquet file: {problem}; if it is none, name the others, by a "
                "pattern such as  path: folder/*.parquet"
            ) from None
        first = first or {field.name: field for field in schema}
        try:
            for name in sorted({*pipeline.columns_read()} & {*first} - {*schema.names}):
                _LOG.warning("%s: %s has no column '%s', which is null there", pipeline.name, path,
                             name)  # fmt: skip
                schema = schema.append(first[name])
            check_names(pipeline, schema.names)
            check_types(pipeline, schema)
        except SourceError as problem:
            raise SourceError(f"{path}: {problem}") from None
    return found


def check_keys(schemas: Mapping[str, pa.Schema], pipeline: Pipeline) -> None:
    """MixedKeysError where a key or item has another type in another file: they do not merge."""
    names = {name for summary in pipeline.summaries.values() for name in summary.text_columns()}
    first: dict[str, tuple[str, str]] = {}
    for path, schema in schemas.items():
        for name in sorted(names & {*schema.names}):
            kind = _kind(schema.field(name))
            was, known = first.setdefault(name, (kind, path)) if kind else (kind, path)
            if was != kind:
                raise MixedKeysError(
                    f"{path}: '{name}' is {kind} there, and {was} in {known}: the two do not "
                    "merge; write the files alike"
                )


def _kind(field: pa.Field) -> str | None:
    """The types that merge have one name; None: of no type."""
    kind = value_type(field.type)
    if is_text(kind, or_binary=True) and not is_text(kind):
        return "binary"
    if pa.types.is_decimal(kind):  # joined items are text
        return "decimal"
    return kind_of(field.name, pa.nulls(0, kind))


def shares_of(
    files: Sequence[str], parallelism: int, share_bytes: int = SHARE_BYTES
) -> list[list[Split]]:
    """Row groups in order, in one share a worker, or as many as keep below `share_bytes`."""
    groups: list[tuple[str, int, int, int]] = []
    wholes: dict[str, tuple[int, int]] = {}
    for path in files:
        metadata = pq.read_metadata(path)
        wholes[path] = _whole(metadata)
        row = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            groups.append((path, number, row, max(1, group.total_byte_size)))
            row += group.num_rows
    total = sum(size for *_, size in groups)
    tasks = max(parallelism, -(-total // share_bytes))
    shares: list[list[Split]] = [[] for _ in range(tasks)]
    begin = 0
    for path, number, row, size in groups:
        share = shares[(2 * begin + size) * tasks // (2 * total)]  # by where its middle lies
        begin += size
        last = share[-1] if share else None
        if last is not None and last.path == path:
            share[-1] = replace(last, row_groups=(*last.row_groups, number))
        else:
            share.append(Split(path, (number,), row, wholes[path]))
    return [share for share in shares if share]
