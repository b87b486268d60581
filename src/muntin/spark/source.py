"""From the spec's source to a DataFrame."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from muntin.errors import SourceError, SpecError
from muntin.kinds.columns import in_backticks
from muntin.spark.ddl import declared, in_ddl
from muntin.spark.failures import DAMAGED, reason
from muntin.spark.file_starts import check_content, form_of, has_headers, header_of, wrong_encoding
from muntin.spark.files import (
    FILE_FORMATS,
    filled_files,
    for_spark,
    is_nested,
    is_pattern,
    local_path,
    partitions_of,
)
from muntin.spark.frame_columns import may_read
from muntin.spark.kafka import named
from muntin.spark.kafka_topics import check_broker, ids_of
from muntin.spark.options import mistyped, wrong_counts
from muntin.spark.parquet_columns import case_of, check_kinds, schema_of, timestamp_unit
from muntin.spark.partials import CORRUPT_COLUMN
from muntin.spark.places import with_files
from muntin.spark.session import as_active, check_startable, is_classic, is_elsewhere
from muntin.spark.unread import NO_SUCH_COLUMN, unread_column
from muntin.spec import Pipeline, SourceSpec
from muntin.spec_secrets import hide_secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("muntin.spark")
_TEXT_FORMATS = ("csv", "json")
SAMPLE_ROWS = 100
_UNREAD = "[PARQUET_TYPE_", "[UNSUPPORTED_TIME_TYPE", "[DECIMAL_PRECISION_EXCEEDS"
_NO_STORE = "ClassNotFoundException: Class org.apache.hadoop.fs", "No FileSystem for scheme"
_LEAVE_OUT = {"pathglobfilter", "modifiedbefore", "modifiedafter", "recursivefilelookup"}
"""Options of Spark by which it reads some files of a folder alone."""
_ANY_AGE = {"maxFileAge": "365000d"}
"""Of a stream: else Spark leaves out, without a word, files that were written a week before the
newest one it has taken, such as those that were copied or unpacked with their times."""
_PARTITIONS = re.compile(r"Partition column name list #\d+: (.+)")
_TIME_OF_DAY = re.compile(r"\s*T?\d{1,2}:\d")
_KEEP_MALFORMED = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT_COLUMN,
    # else a line that was cut off counts as one with nulls, where the fields it has suffice
    "columnPruning": "false",
}


def batch_source(
    spark: SparkSession, source: SourceSpec, pipeline: Pipeline | None = None
) -> DataFrame:
    """All that the source holds now, for what a pipeline reads of it; for anything without one."""
    ids_of(spark, source)  # Kafka answers
    reader = spark.read.format(source.format).options(**_options(source))
    is_text = source.format in _TEXT_FORMATS
    ddl = source.schema_ or (inferred_ddl(spark, source) if is_text else None)
    found = _loaded(spark, reader, source, ddl, for_spark(source.path or ""), keep_malformed=True)
    _check_zone(source, found, reader, pipeline)
    if source.format == "parquet":
        read = may_read(pipeline, found.columns) if pipeline else ()
        kinds = {name: kind for name, kind in found.dtypes if name in read}
        name = pipeline.name if pipeline else ""
        files, nanoseconds = _files_read(spark, source), nanoseconds_of(spark, source)
        check_kinds(source, files, kinds, nanoseconds, name, case_of(spark, pipeline))
    return read_of(found, source)


def _files_read(spark: SparkSession, source: SourceSpec) -> list[str]:
    """The local files of a source; options may leave some out."""
    files, none = filled_files(source.path or ""), "_muntin_none string"  # no file is looked into
    if not (files and _LEAVE_OUT & {*map(str.lower, source.options)}):
        return files
    reader = spark.read.format(source.format).options(**_options(source))
    found = _loaded(spark, reader, source, none, for_spark(source.path or "")).inputFiles()
    read = {unquote(urlsplit(address).path) for address in found}
    return [file for file in files if file in read]


def stream_source(
    spark: SparkSession, source: SourceSpec, pipeline: Pipeline | None = None
) -> DataFrame:
    """The source as a stream, as `batch_source`. Files need a schema: it is read from those that
    are there."""
    options = {**_ANY_AGE, **_options(source)}  # names in any case: those behind prevail
    reader = spark.readStream.format(source.format).options(**options)
    is_files, path = source.format in FILE_FORMATS, source.path
    ddl = (source.schema_ or inferred_ddl(spark, source)) if is_files else None
    here = local_path(path) if path else None
    if here is not None and here.is_file():
        # Spark streams folders: the folder with a filter for this one file
        reader = reader.option("pathGlobFilter", Path(for_spark(str(here))).name)
        path = str(here.parent)
    found = _loaded(spark, reader, source, ddl, for_spark(path or ""), keep_malformed=True)
    _check_zone(source, found, reader, pipeline)
    return read_of(found, source)


def read_of(df: DataFrame, source: SourceSpec) -> DataFrame:
    """What a source gives, with what is needed beside its columns."""
    if source.format not in FILE_FORMATS:
        return named(df, source)
    is_text = source.format in _TEXT_FORMATS
    names = df.columns
    if is_text:
        names.remove(CORRUPT_COLUMN)  # ours: one of that name in the data stands there as well
    if own := next((name for name in names if name.startswith("_muntin_")), None):
        raise SourceError(
            f"source.path: {source.path}: column '{own}' has a name of Muntin's own columns: give "
            "it another, or name those that are wanted as schema: under source"
        )
    start = form_of(source, names, _files_read(df.sparkSession, source))
    if source.format == "orc":
        start = {"orc": dict(df.dtypes), "encoding": ""}
    if start and is_text and "quote" not in map(str.lower, source.options):
        others = {CORRUPT_COLUMN, *start.get("folders", ())}
        start["kinds"] = {name: kind for name, kind in df.dtypes if name not in others}
    return with_files(_with_timestamps(df, source), source.format, start)


def _with_timestamps(df: DataFrame, source: SourceSpec) -> DataFrame:
    """Of local Parquet files: timestamps in nanoseconds, which came as numbers."""
    from pyspark.sql import functions as sf

    numbers = {name for name, kind in df.dtypes if kind == "bigint"}
    for name in numbers & nanoseconds_of(df.sparkSession, source):
        ns = in_backticks(name)  # down, as Arrow: div goes towards 1970
        us = f"{ns} div 1000 - IF({ns} % 1000 < 0, 1, 0)"
        df = df.withColumn(name, sf.expr(f"timestamp_micros({us})"))
    return df


def nanoseconds_of(spark: SparkSession, source: SourceSpec) -> set[str]:
    """Columns of nanoseconds in the first of local Parquet files, where Spark sees numbers."""
    if source.format != "parquet" or source.schema_ or not source.path:
        return set()
    files = _files_read(spark, source)
    return (
        {f.name for f in schema_of(files[0]) if timestamp_unit(f.type) == "ns"} if files else set()
    )


def check_source(source: SourceSpec | None) -> SourceSpec:
    """The source, so far as can be seen before Spark has started: nothing needs to be made for one
    that is not there. Raises SpecError, SourceError: there is none, as `check_path` and
    `check_broker`, an option is wrong, or Spark has no Java."""
    if source is None:
        raise SpecError("source: is missing: name one, or give a DataFrame")
    for line in mistyped(source):
        _LOG.warning("%s", line)
    for line in wrong_counts(source):
        raise SourceError(line)
    check_path(source)
    check_broker(source)
    check_startable()
    return source


def check_path(source: SourceSpec) -> None:
    """SourceError where local files are not there, or are packed or of another format. Asks no
    Spark, so that nobody waits for its start to learn of a path."""
    if source.format not in FILE_FORMATS or not source.path or is_elsewhere():
        return
    here = local_path(source.path)
    if here is None or is_pattern(source.path):
        return
    if not here.exists():
        raise SourceError(f"source.path: {source.path}: no such file or folder")
    files = [here] if here.is_file() else []
    if not files and source.format in _TEXT_FORMATS and "pathGlobFilter" not in source.options:
        files = filled_files(source.path)[:1]
    for file in map(Path, files):
        if source.format in _TEXT_FORMATS or not file.stat().st_size:
            check_content(source, file)


def inferred_ddl(spark: SparkSession, source: SourceSpec) -> str:
    """The schema of the files that are there, as DDL."""
    check_path(source)
    _check_headers(source, _files_read(spark, source))
    reader = spark.read.format(source.format).options(**_options(source))
    if source.format == "csv":
        reader = reader.option("inferSchema", "true")
    schema, frame = _of_first_file(spark, source), None
    if schema is None:
        frame = _loaded(spark, reader, source, None, for_spark(source.path or ""))
        schema = frame.schema
    made = "_corrupt_record" if source.format in _TEXT_FORMATS else None  # by Spark
    names = [field for field in schema.fields if field.name != made]
    if not names:
        lines = "; where records go over several lines, write  multiLine: true  under source"
        raise SourceError(
            f"source.path: {source.path} holds no columns: give source.schema, or data"
            f"{lines if source.format == 'json' else ''}"
        )
    kinds = {field.name: in_ddl(field.dataType) for field in names}
    if frame is not None and source.format == "csv":
        if {*kinds.values()} == {"string"} and frame.isEmpty():
            raise SourceError(
                f"source.path: {source.path} has no rows, which would tell the types of its "
                "columns: give source.schema, or data"
            )
        kinds |= dict.fromkeys(_times_of_day(spark, source, kinds), "string")
    return ", ".join(f"{in_backticks(name)} {kind}" for name, kind in kinds.items())


def _of_first_file(spark: SparkSession, source: SourceSpec) -> StructType | None:
    """The schema of local Parquet files, of the first one, by Spark's own classes.

    Spark itself starts a job for it, ten times as long. None where these classes, which are not
    public, have another form, or where Spark might look at more than one file.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    here = local_path(source.path or "")
    if here is None or not source.is_plain_parquet or not is_classic(spark):
        return None
    if is_pattern(str(here)) or spark.conf.get("spark.sql.parquet.mergeSchema") == "true":
        return None
    files = filled_files(str(here))
    told = here.is_dir() and any(here.glob("_*metadata"))  # by a file of schemas beside them
    if not files or told or partitions_of(here, map(Path, files)):
        return None
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    state: Any = spark._jsparkSession.sessionState()  # pyright: ignore
    try:
        path = java.org.apache.hadoop.fs.Path(f"file:{files[0]}")
        reader = java.org.apache.parquet.hadoop.ParquetFileReader
        footer = java.org.apache.parquet.hadoop.Footer(
            path, reader.readFooter(state.newHadoopConf(), path)
        )
        spark_parquet = java.org.apache.spark.sql.execution.datasources.parquet
        converter = spark_parquet.ParquetToSparkSchemaConverter(state.conf())
        found = spark_parquet.ParquetFileFormat.readSchemaFromFooter(footer, converter)
        schema = StructType.fromJson(json.loads(found.json()))
    except (Py4JError, PySparkException, TypeError):  # what it cannot read, Spark tells
        return None
    # its job refuses columns of one name, and perhaps times of day
    is_odd = any(field.dataType.typeName() == "time" for field in schema)
    return None if is_odd or len({*schema.names}) < len(schema) else schema


def _times_of_day(spark: SparkSession, source: SourceSpec, kinds: Mapping[str, str]) -> set[str]:
    """Columns such as 12:30:00, which Spark takes for that time of the day on which it reads."""
    times = [name for name, kind in kinds.items() if kind.startswith("timestamp")]
    if not times:
        return set()
    texts = ", ".join(f"{in_backticks(name)} string" for name in kinds)
    reader = spark.read.format("csv").options(**_options(source))
    frame = _loaded(spark, reader, source, texts, for_spark(source.path or ""))
    rows = frame.select(*map(in_backticks, times)).limit(SAMPLE_ROWS).collect()
    return {name for row in rows for name in times if _TIME_OF_DAY.match(row[name] or "")}


def _check_headers(source: SourceSpec, files: Sequence[str]) -> None:
    """SourceError where CSV files differ in their headers: Spark would take all but the first one
    for rows, and find columns of text in them."""
    if not has_headers(source):
        return
    form = form_of(source, (), files)
    for file in files:
        if wrong := wrong_encoding(file, form):
            raise SourceError(f"{file}: {wrong}")
        header = header_of(file, form)
        if header and header != form["first"]:
            shown, first = (form["separator"].join(each)[:100] for each in (header, form["first"]))
            raise SourceError(
                f"{file}: its header is {shown!r}, and that of the first file {first!r}: write the "
                "columns that they share as schema: under source, or name files that are alike by "
                "a pattern"
            )


def _options(source: SourceSpec) -> dict[str, str]:
    ours: dict[str, str] = {}
    if source.format == "csv":
        ours["header"] = "true"
        ours["escape"] = '"'  # a quote in quotes is doubled, as RFC 4180 has it
    if source.format in _TEXT_FORMATS:
        ours["timeZone"] = "UTC"  # of naive times, whatever the session's
    if source.format == "kafka":
        ours["includeHeaders"] = "true"
    said = {name.lower(): value for name, value in source.options.items()}  # in any case, to Spark
    here = local_path(source.path) if source.path and source.format in FILE_FORMATS else None
    if (
        here is not None
        and "recursivefilelookup" not in said
        and is_nested(here, said.get("pathglobfilter", "*"))
    ):
        ours["recursiveFileLookup"] = "true"
    return {
        name: value for name, value in ours.items() if name.lower() not in said
    } | source.options


def _loaded(
    spark: SparkSession,
    reader: Any,
    source: SourceSpec,
    ddl: str | None,
    path: str,
    *,
    keep_malformed: bool = False,
) -> DataFrame:
    if keep_malformed and source.format in _TEXT_FORMATS:
        ddl = f"{ddl}, `{CORRUPT_COLUMN}` string"
        reader = reader.options(**_KEEP_MALFORMED)
    try:
        with as_active(spark):
            reader = reader.schema(ddl) if ddl else reader
        found: DataFrame = reader.load(path) if path else reader.load()
    except Exception as problem:  # PySpark does not name all that Java raises
        text = reason(problem)
        if source.schema_ and text.startswith(("[UNSUPPORTED_DATATYPE", "[PARSE_")):
            declared(source.schema_)  # says what would be right, where it sees that
            text = f"source.schema: {source.schema_!r}: {text}"
        elif "CONFLICTING_PARTITION" in text:
            text = (
                f"source.path: {source.path}: its folders tell different columns "
                f"({'; '.join(_PARTITIONS.findall(str(problem)))}): name those that tell the same, "
                "or write  recursiveFileLookup: true  to read all files without such columns"
            )
        elif "PATH_NOT_FOUND" in text:
            text = f"source.path: {source.path}: no such file or folder"
        elif "UNABLE_TO_INFER_SCHEMA" in text:
            text = (
                f"source.path: {source.path} holds no files, or empty ones: give source.schema, or "
                "data"
            )
        elif source.format in FILE_FORMATS and any(sign in text for sign in _NO_STORE):
            scheme = path.partition("://")[0]
            text = (
                f"source.path: {source.path}: this Spark has no package for {scheme}:// ({text}): "
                "name it, for s3a:// of the version of Spark's own Hadoop:  "
                "spark: {spark.jars.packages: org.apache.hadoop:hadoop-aws:VERSION}; or start your "
                "session with it"
            )
        elif "DATA_SOURCE_NOT_FOUND" in text or "ClassNotFoundException" in text:
            text = (
                f"source.format: Spark has no source '{source.format}'; "
                f"there are {', '.join(FILE_FORMATS)}, rate, kafka, or a package on its class path"
            )
        elif text.startswith(_UNREAD):
            what = text.partition("] ")[2].partition(" SQLSTATE")[0]
            text = f"source.path: {source.path}: {what} {NO_SUCH_COLUMN}"
            text = _with_unread_column(source) or text
        elif "KAFKA_DATA_SOURCE_NOT_ENABLED" in text:
            text = (
                "source.format: kafka: the session that runs has no connector: let muntin start "
                "Spark, or start it with the jars of muntin.spark.connector.PINNED as spark.jars"
            )
        elif DAMAGED not in text and (damaged := _damaged_orc(source)):
            text = f"source.path: {damaged}: {text}{DAMAGED}"
        else:
            text = f"source: {text}"
        raise SourceError(hide_secrets(text, source.options)) from None
    return found


def _with_unread_column(source: SourceSpec) -> str:
    """Of local Parquet files, the first with a column that Spark does not read, which it does not
    name; "" for none."""
    from muntin.spark.parquet import read_schema

    for file in filled_files(source.path or "") if source.format == "parquet" else ():
        with suppress(pa.ArrowException, OSError):  # that is damaged as well
            if refused := unread_column(file, read_schema(file)):
                return refused
    return ""


def _damaged_orc(source: SourceSpec) -> str:
    """The first local file that cannot be opened, which Spark does not name; "" for none."""
    from pyarrow import ArrowInvalid, orc

    for file in filled_files(source.path or "") if source.format == "orc" else ():
        try:
            orc.ORCFile(file)
        except (OSError, ArrowInvalid):
            return file
    return ""


def _check_zone(
    source: SourceSpec, found: DataFrame, reader: Any, pipeline: Pipeline | None
) -> None:
    """SourceError where a time without a zone is read, and Java, in whose zone Spark reads those of
    ORC and of databases, is in another one than UTC's."""
    if source.format not in ("orc", "jdbc") or not is_classic(found.sparkSession):
        return
    java: Any = found.sparkSession._jvm  # pyright: ignore[reportPrivateUsage]
    zone, sign = java.java.util.TimeZone.getDefault(), "timestamp"
    if not zone.getRawOffset() and not zone.useDaylightTime():
        return
    if source.format == "jdbc":  # which tells times with a zone from others where it is asked to
        sign, found = "timestamp_ntz", reader.option("preferTimestampNTZ", "true").load()
    read = found.columns if pipeline is None else may_read(pipeline, found.columns)
    if column := next((name for name, kind in found.dtypes if sign in kind and name in read), ""):
        raise SourceError(
            f"source.format: {source.format}: column '{column}': times without a zone are UTC, and "
            f"Spark reads these in Java's zone, {zone.getID()}: start your session with "
            "spark.driver.defaultJavaOptions and spark.executor.defaultJavaOptions of "
            "-Duser.timezone=UTC"
        )
