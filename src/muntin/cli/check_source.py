"""What can be seen of a pipeline's source without Spark: files, columns, times, fields."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from muntin import storage
from muntin.arrow import UNSIGNED_OF_SPARK, pc
from muntin.cli.sample import UNREAD, as_spark_reads, telling
from muntin.errors import BadArgument, SourceError, did_you_mean, how_many, needs
from muntin.select.syntax import text_literal
from muntin.spark.ddl import UNKNOWN, spelled
from muntin.spark.ddl import declared as declared_columns
from muntin.spark.event_time import ABSENT, check_type, doubt_of, event_times, unit_of
from muntin.spark.file_starts import (
    ESCAPED,
    check_content,
    form_of,
    header_of,
    widths_of,
    wrong_encoding,
)
from muntin.spark.files import (
    FILE_FORMATS,
    files_at,
    filled_files,
    is_nested,
    is_pattern,
    partitions_of,
)
from muntin.spark.frame_columns import may_read, no_column, separated
from muntin.spark.java import java_version
from muntin.spark.kafka import columns_of
from muntin.spark.options import mistyped, wrong_counts
from muntin.spark.unread import unread_column
from muntin.spec import Pipeline, SourceSpec, format_of
from muntin.times import duration_text, instant_text, now_us

SAMPLE_ROWS = 10_000
OFFSETS = ("startingoffsets", "endingoffsets")
KNOWN_FORMATS = (
    "parquet", "csv", "json", "orc", "text", "avro", "kafka", "rate", "rate-micro-batch", "socket",
    "jdbc", "delta", "iceberg", "xml", "binaryFile",
)  # fmt: skip
_RATE = {"timestamp": pa.timestamp("us", "UTC"), "value": pa.int64()}


@dataclass(slots=True)
class Seen:
    """What a look has shown: the columns where they are known, and the times of some rows."""

    columns: dict[str, pa.DataType] | None = None
    times: pa.Array | None = None


def wrong_in(pipeline: Pipeline) -> Iterator[str]:
    """What would not run, one line each: "entry: what is wrong; what would be right"."""
    source = pipeline.source
    seen = Seen()
    if source is not None:
        problems = list(_wrong_format(source))
        yield from problems
        if problems:
            return
        try:
            seen = look(source, pipeline.time.column)
        except SourceError as problem:
            yield str(problem)
            return
    problems = [*_wrong_fields(pipeline, seen), *_wrong_columns(pipeline, seen)]
    yield from problems
    if source is not None and not problems:
        from muntin.spark.parquet import readable_files
        from muntin.spark.parquet_columns import case_of, check_kinds

        try:
            files = filled_files(source.path or "") if source.is_plain_parquet else []
            if not readable_files(source, pipeline, files):
                # Spark reads them, as of the types of the first
                columns = seen.columns or {}
                read = {n: spelled(columns[n]) for n in may_read(pipeline, columns)}
                check_kinds(source, files, read, (), pipeline.name, case_of(None, pipeline))
        except SourceError as problem:  # another file than the first
            yield f"source.path: {problem}"


def _wrong_format(source: SourceSpec) -> Iterator[str]:
    if source.format not in KNOWN_FORMATS and "." not in source.format:
        hint = did_you_mean(source.format, KNOWN_FORMATS, "known are")
        yield (
            f"source.format: Spark has no source '{source.format}'; {hint} "
            "A source of a package of yours goes by the name of its class, with dots"
        )
    yield from mistyped(source)
    yield from wrong_counts(source)
    if source.format == "kafka":
        ways = ("subscribe", "subscribepattern", "assign")
        if "kafka.bootstrap.servers" not in source.options:
            yield "source: kafka.bootstrap.servers is missing: write for example localhost:9092"
        given = [name for name in source.options if name.lower() in ways]
        if not given:
            yield "source: the topic is missing: write for example subscribe: orders"
        elif len(given) > 1:
            yield f"source: {' and '.join(given)} each name topics: keep one of them"
        for name, value in source.options.items():
            is_json = value.lstrip().startswith("{")
            words = ("earliest", "latest")
            if name.lower() in OFFSETS and not is_json and value.strip().lower() not in words:
                hint = did_you_mean(value, words, "it is one of")
                yield f"source.{name}: {value!r} is none; {hint}; or offsets, {{orders: {{0: 5}}}}"


def wrong_packages(pipeline: Pipeline) -> Iterator[str]:
    """A source whose jar Spark does not bring, where nothing names it."""
    form = pipeline.source.format if pipeline.source else ""
    if form == "kafka" and find_spec("pyspark") is not None:
        from muntin.spark.connector import is_to_be_fetched

        try:
            is_to_be_fetched(pipeline)
        except SourceError as problem:
            yield str(problem)
    if form != "avro":
        return
    from muntin.spark.connector import is_named

    needs("spark", f"source.format: {form}")
    if is_named("spark-avro", pipeline.spark):
        return
    import pyspark

    yield (
        f"source.format: {form} needs a package that Spark does not bring: write  spark: "
        f"{{spark.jars.packages: 'org.apache.spark:spark-avro_2.13:{pyspark.__version__}'}}"
    )


def look(source: SourceSpec, time: str) -> Seen:
    """The columns of a source, and some of its times; SourceError where that cannot run."""
    if source.format == "kafka":
        return Seen(columns_of(source))
    if source.format.startswith("rate"):
        return Seen(dict(_RATE))
    files = files_of(source)
    declared = declared_columns(source.schema_) if source.schema_ else None
    if not files:
        return Seen(declared)
    file = files[0]
    check_content(source, file)
    seen = Seen(declared)
    if source.format == "parquet":
        seen = _look_at_parquet(file, time, declared)
    elif source.format in ("csv", "json"):
        seen = _look_at_text(source, file, time, declared)
        if source.format == "json" and declared is None and seen.columns is not None:
            for other in telling(files):  # Spark has the columns of all files
                with suppress(SourceError):  # records that do not parse are rejected
                    later = _look_at_text(source, other, time, None).columns or {}
                    differ = {n for n, kind in later.items() if seen.columns.get(n, kind) != kind}
                    seen.columns |= later | dict.fromkeys(differ, UNKNOWN)
    if seen.columns is not None:
        here = Path(storage.path_of(source.path or ""))
        if source.options.get("recursiveFileLookup") != "true":
            seen.columns |= dict.fromkeys(partitions_of(here, [file]), UNKNOWN)
    return seen


def files_of(source: SourceSpec) -> list[Path]:
    """The local files that a source reads; none where they are elsewhere."""
    path = source.path
    if source.format not in FILE_FORMATS:
        return []
    if not path:
        raise SourceError(f"source.path: is missing: {source.format} reads files")
    if storage.is_elsewhere(path):
        return []
    here = Path(storage.path_of(path))
    files = files_at(here)
    if here.is_dir():
        wanted = source.options.get("pathGlobFilter", "*")
        files = [file for file in files if fnmatch(file.name, wanted)]
        if "recursiveFileLookup" not in source.options:
            is_nested(here, wanted)
        _check_one_kind(source, files)
        if not files and source.schema_ is None:
            raise SourceError(f"source.path: {path} holds no files: give source.schema, or data")
    elif not files and not is_pattern(path):
        raise SourceError(f"source.path: {path}: no such file or folder")
    elif not files and "{" not in path:
        raise SourceError(f"source.path: {path}: no file matches")
    return files


def _check_one_kind(source: SourceSpec, files: list[Path]) -> None:
    """Spark reads each file of a folder in the one format, whatever its name says."""
    kinds = ["spreadsheet" if f.suffix.lower() == ".xlsx" else format_of(f) for f in files]
    others = [f for f, kind in zip(files, kinds, strict=True) if kind not in (None, source.format)]
    if not others or source.format not in kinds:
        return
    ending = files[kinds.index(source.format)].suffix
    raise SourceError(
        f"source.path: {source.path} holds {others[0].name} beside {ending} files, and all are "
        f"read as {source.format}: write  pathGlobFilter: '*{ending}'  into source"
    )


def _look_at_parquet(file: Path, time: str, declared: dict[str, pa.DataType] | None) -> Seen:
    import pyarrow.parquet as pq

    from muntin.spark.parquet import UNITS, read_schema

    try:
        schema = read_schema(file)
        with pq.ParquetFile(file, **UNITS) as opened:
            times = None
            if time in schema.names and opened.metadata.num_rows:
                batch = next(opened.iter_batches(SAMPLE_ROWS, columns=[time]), None)
                times = batch.column(0) if batch is not None else None
    except (pa.ArrowException, OSError) as problem:
        raise SourceError(f"source.path: {file}: not a Parquet file: {problem}") from None
    if declared is None and (refused := unread_column(file, schema)):
        raise SourceError(refused)
    of_spark = {pa.uint64(): UNSIGNED_OF_SPARK}  # the others can be used for less as they are
    return Seen(declared or {f.name: of_spark.get(f.type, f.type) for f in schema}, times)


def _look_at_text(
    source: SourceSpec, file: Path, time: str, declared: dict[str, pa.DataType] | None
) -> Seen:
    import duckdb

    form = form_of(source, [*(declared or ())], [str(file)])
    if wrong := wrong_encoding(str(file), form):
        raise SourceError(f"source.path: {file}: {wrong}")
    if file.suffix in UNREAD or form.get("encoding", "").lower().startswith("utf-16"):
        return Seen(declared)
    try:
        found = sample_of(source, file)
    except duckdb.Error as problem:
        if declared is not None:
            return Seen(declared)
        said = str(problem).splitlines()[0][:200]
        raise SourceError(
            f"source.path: {file}: cannot be read as {source.format}: {said}"
        ) from None
    if source.format == "csv" and not form["whole"]:
        texts = (c for c in found.itercolumns() if pa.types.is_string(c.type))
        if any(pc.any(pc.match_substring(column, "\n")).as_py() for column in texts):
            raise SourceError(
                f"source.path: {file}: a text in quotes goes over several lines, each of which "
                "Spark takes for a record: write  multiLine: true  under source"
            )
    if declared is None:
        named = header_of(str(file), form) if "names" in form else []
        _check_widths(source, file, form, named)
        known = {str(pa.string()), str(pa.int64()), str(pa.float64())}
        columns = {f.name: f.type if str(f.type) in known else UNKNOWN for f in found.schema}
        return Seen(columns, found[time].combine_chunks() if time in columns else None)
    first = found.column_names
    if source.options.get("header") == "false":
        first = [str(value) for row in found.slice(0, 1).to_pylist() for value in row.values()]
    if source.format == "csv" and (hint := separated(first)) and len(declared) > 1:
        raise SourceError(f"source.path: {file} has one column, its schema {len(declared)}{hint}")
    if source.format == "csv" and len(declared) == found.num_columns:
        if first == [*declared] and first != found.column_names:
            raise SourceError(f"source.path: {file} has a header: write  header: true")
        found = found.rename_columns(list(declared))  # Spark goes by place
    _check_widths(source, file, form, declared)
    times = found[time].combine_chunks() if time in found.column_names else None
    return Seen(declared, times)


def _check_widths(
    source: SourceSpec, file: Path, form: dict[str, Any], columns: Iterable[str]
) -> None:
    """SourceError where no line of a CSV file has as many fields as the source has columns."""
    others = form.get("whole") or {"quote", "escape"} & {*map(str.lower, source.options)}
    count = len([name for name in columns if name not in form.get("folders", ())])
    if source.format != "csv" or others or not count:
        return
    widths = widths_of(str(file), form, is_headed="names" in form)
    if widths and count not in widths:
        fields = " or ".join(f"{width:,}" for width in sorted(widths)[:3])
        raise SourceError(
            f"source.path: {file}: its lines have {fields} fields, and the source "
            f"{how_many(count, 'column')}: each line would be rejected: name as many columns as "
            "schema: under source, also one behind a separator that ends the lines"
        )


def sample_of(source: SourceSpec, file: Path) -> pa.Table:
    """The first rows of a CSV or JSON file, as its options say."""
    import duckdb

    more = ", ignore_errors=true, hive_partitioning=false"
    if source.format == "csv":
        options = source.options
        sep = options.get("sep") or options.get("delimiter") or ","
        header = options.get("header", "true") == "true"
        more += f", header={str(header).lower()}, delim={text_literal(ESCAPED.get(sep, sep))}"
        # what DuckDB takes for a time, such as 31.01.2026, is none to us
        kinds = "'BOOLEAN', 'BIGINT', 'DOUBLE', 'VARCHAR'" if header else "'VARCHAR'"
        more += f", auto_type_candidates=[{kinds}]"
    reader = f"read_{source.format}({text_literal(str(file))}{more})"
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT * FROM {reader} LIMIT {SAMPLE_ROWS}")  # noqa: S608 (quoted)
        if source.format == "json":
            return as_spark_reads(connection, found)[0]
        return found.to_arrow_table()


def _wrong_fields(pipeline: Pipeline, seen: Seen) -> Iterator[str]:
    there = set(seen.columns or ())
    for name, text in pipeline.fields.items():
        parsed, problem = parsed_field(text)
        if problem:
            yield f"fields.{name}: {problem}"
        if parsed is not None and seen.columns is not None:
            for column in parsed.find_all(exp.Column):
                first = column.parts[0].name
                if first not in there:
                    yield no_column(first, pipeline, sorted(there), f"fields.{name}")
        there.add(name)


def parsed_field(text: str) -> tuple[Any, str]:
    """An expression's syntax tree, and what is wrong with it in Spark's own words."""
    try:
        return sqlglot.parse_one(text, dialect="spark"), ""
    except SqlglotError as problem:
        # of an operator without its other side it names a class of its own
        ours = re.sub(r"^Required .*>\.", "Something is missing.", str(problem).splitlines()[0])
    # it may be right all the same: sqlglot does not know all that Spark reads
    said = spark_says(text)
    if said is None:
        said = ours
    return None, f"{text!r} is not an expression: {said}" if said else ""


def spark_says(text: str) -> str | None:
    """Spark's parser on an expression: "" where it is right, None without Spark or Java. The parser
    alone: a Java process for a few seconds, no session."""
    if find_spec("pyspark") is None or java_version()[0] is None:
        return None
    from py4j.protocol import Py4JJavaError
    from pyspark.java_gateway import launch_gateway

    gateway: Any = launch_gateway(popen_kwargs={"stderr": subprocess.DEVNULL})
    try:
        parser = gateway.jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()
        parser.parseExpression(text)
    except Py4JJavaError as problem:
        found = re.search(
            r"\[\w+(?:\.\w+)*\] (.*?)(?: SQLSTATE.*?)?(\(line.*\))?$", str(problem), re.M
        )
        return f"{found[1]} {found[2] or ''}".strip() if found else "Spark cannot parse it"
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(10)
    return ""


def _wrong_columns(pipeline: Pipeline, seen: Seen) -> Iterator[str]:
    if seen.columns is None:
        return
    types = {**seen.columns, **dict.fromkeys(pipeline.fields, UNKNOWN)}
    missing = [column for column in pipeline.columns_read() if column not in types]
    for column in missing:
        yield no_column(column, pipeline, list(types))
    for name, summary in pipeline.summaries.items():
        if set(summary.columns()) & set(missing):
            continue
        try:
            summary.check_types({c: types[c] for c in summary.columns()})
        except BadArgument as problem:
            yield f"summaries.{name}: {problem}"
    if pipeline.time.column in missing:
        return
    guess = None if seen.times is None else unit_of(seen.times, now_us())
    try:
        check_type(pipeline.time, types[pipeline.time.column], guess or "ms")
    except BadArgument as problem:
        yield str(problem)
        return
    if seen.times is not None and pipeline.time.column not in pipeline.fields:
        yield from _wrong_times(pipeline, seen.times, types)


def _wrong_times(
    pipeline: Pipeline, column: pa.Array, types: Mapping[str, pa.DataType]
) -> Iterator[str]:
    """Times of which not one can be used, since all events would be rejected; or most in a unit
    that they do not count."""
    name = pipeline.time.column
    try:
        check_type(pipeline.time, column.type)
    except BadArgument:
        return  # it is read as another type than it was looked at
    column = column.drop_null()
    if not len(column):
        return
    unit, latest = pipeline.time.unit, now_us() + pipeline.max_future_skew
    times = event_times(column, unit)
    doubt = doubt_of(column, times, unit, latest)
    if doubt.events > len(column) / 2:
        yield doubt.text(pipeline.time, len(column))
        return
    shown = ", ".join(repr(value) for value in column.unique().slice(0, 3).to_pylist())
    usable = times[times != ABSENT]
    if not len(usable):
        others = [c for c, kind in types.items() if pa.types.is_timestamp(kind)]
        hint = f"there is {', '.join(others)}" if others else "an event time is ISO 8601 text"
        yield f"time: column '{name}' holds no times: {shown}; {hint}"
    elif usable.min() > latest:
        ahead = duration_text(pipeline.max_future_skew) if pipeline.max_future_skew else "0"
        yield (
            f"time: column '{name}' lies in the future ({instant_text(int(usable.min()))}), beyond "
            f"max_future_skew of {ahead}: is its unit right?"
        )
    elif usable.max() < 0:
        yield f"time: column '{name}' lies before 1970 ({shown}): is its unit right?"
