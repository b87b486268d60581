"""The first rows of some data files, in the types that Spark will read them as."""

import codecs
import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import pc, value_type
from muntin.errors import SourceError
from muntin.kinds.columns import in_backticks
from muntin.select.syntax import quoted, text_literal
from muntin.spark.file_starts import header_of, widths_of, wrong_encoding
from muntin.spark.files import files_at, is_nested, partitions_of, unpacked
from muntin.spark.unread import is_unread
from muntin.spec import format_of

SAMPLE_ROWS = 200_000
# records that do not parse are rejected when the pipeline runs, and no reason not to look
_READERS = {
    "parquet": "read_parquet($1{})",
    "csv": "read_csv($1, ignore_errors=true, all_varchar=true{})",
    "json": "read_json($1, ignore_errors=true{})",
}
UNREAD = (".bz2", ".deflate", ".lz4", ".snappy", ".xz")  # by DuckDB; Spark reads some of them
HEAD_BYTES = 1 << 20
OBJECTS_DEPTH_MAX = 16
_DDL = {
    "VARCHAR": "string", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp",
    "BIGINT": "bigint", "INTEGER": "int", "SMALLINT": "smallint", "TINYINT": "tinyint",
    "DOUBLE": "double", "FLOAT": "float",
}  # fmt: skip
BEYOND = "values beyond int64"
_LOOSE = ", format='unstructured'"  # JSON that is neither a list nor an object a line
_HUGEINT = pa.decimal128(38, 0)  # DuckDB's for integers of JSON, where some are below 0
# texts that are of a type to Spark, which takes no others where a CSV file's schema says so
_TYPES = {
    "bigint": r"[+-]?(0|[1-9]\d{0,17}|[1-8]\d{18})",
    "double": r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?",
    "boolean": "(?i:true|false)",
    "date": r"\d{4}-\d\d-\d\d",
    "timestamp": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?( ?UTC|Z|[+-]\d\d(:?\d\d)?)?)?",
}


def _ddl(kind: str) -> str | None:
    return kind.lower() if kind.startswith("DECIMAL(") else _DDL.get(kind.partition(" ")[0])


@dataclass(slots=True)
class Sample:
    """The rows that were looked at, and how Spark is to read all of them."""

    format: str
    files: list[Path]
    options: dict[str, str] = field(default_factory=dict)
    """Of the source."""
    table: pa.Table = field(default_factory=lambda: pa.table({}))
    connection: Any = None
    """DuckDB's, to which the table is `sample`."""
    ends: list[int] = field(default_factory=list)
    """Behind which row each file's end."""
    columns: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Name -> DuckDB's word for its type, and about how many values there are."""
    fields: dict[str, str] = field(default_factory=dict)
    """Column of the table that is none of the files -> how Spark's SQL spells it."""
    partitions: set[str] = field(default_factory=set)
    """Columns that folders between `data` and its files tell."""
    mixed: set[str] = field(default_factory=set)
    """Columns of JSON that hold values of several types, which Spark reads as text."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Column of the files -> why a pipeline cannot read it."""
    unread: dict[str, pa.DataType] = field(default_factory=dict)
    """Columns for which Spark reads a file only where a schema does not name them."""
    uneven: dict[str, bool] = field(default_factory=dict)
    """Columns that are not the same in all Parquet files -> whether some file lacks it."""
    units: dict[str, str] = field(default_factory=dict)
    """Of timestamps in Parquet files."""
    warnings: list[str] = field(default_factory=list)

    def schema(self, names: Iterable[str]) -> str | None:
        """These columns as DDL; None where Spark might read one otherwise than it stands there."""
        kinds = {name: _ddl(self.columns[name][0]) for name in names}
        if (
            None in kinds.values()
            or self.fields.keys() & kinds
            or "ns" in map(self.units.get, kinds)
        ):
            return None
        return ", ".join(f"{in_backticks(name)} {kind}" for name, kind in kinds.items())

    def made(self, expression: str) -> pa.ChunkedArray:
        """What DuckDB makes of each row."""
        made = self.connection.sql(f"SELECT {expression} AS t FROM sample")
        return made.to_arrow_table()["t"]

    def first(self, name: str, bad: np.ndarray) -> str:
        """The first of the values that are bad, and its row; not those that are null."""
        column: Any = self.table[name].combine_chunks()
        rows = np.flatnonzero(bad & column.is_valid().to_numpy(zero_copy_only=False))
        if not len(rows):
            return ""
        row = int(rows[0])
        file = int(np.searchsorted(self.ends, row, "right"))
        number = row + 1 - (self.ends[file - 1] if file else 0)
        text = str(column[row].as_py())[:40]
        top = os.path.commonpath([path.parent for path in self.files])
        place = self.files[file].relative_to(top)
        return f", such as {text!r} in row {number:,} of {place}"

    def listed(self) -> str:
        return ", ".join(f"{name} {kind}" for name, (kind, _) in self.columns.items())


def sampled(data: Path) -> Sample:
    """The first rows of some files; SourceError where they cannot be read, or hold none."""
    import duckdb

    from muntin.spark.parquet import read_schema

    sample = Sample(*_files(data))
    file, form = sample.files[0], sample.format
    try:
        is_nested(data, f"*{file.suffix}")
        sample.partitions = partitions_of(data, sample.files)
    except SourceError:  # files beside folders of partitions
        sample.warnings.append(
            f"{data} holds files beside folders of partitions: all are read, without the "
            "partitions' columns"
        )
    if form != "parquet" and (wrong := wrong_encoding(str(file), {})):
        raise SourceError(f"{file}: {wrong}")
    parts: list[pa.Table] = []
    try:
        rows, kinds = _read(duckdb.connect(), data, sample, parts)
    except duckdb.Error as problem:
        where = sample.files[min(len(parts), len(sample.files) - 1)]
        said = str(problem).splitlines()[0][:300]
        raise SourceError(f"{where}: cannot be read as {form}: {said}") from None
    if not sample.table.num_rows or (form == "csv" and _is_header(sample)):
        raise SourceError(f"{file}: holds no rows, so there is nothing to look at")
    sample.ends = [*itertools.accumulate(map(len, parts))]
    if form == "parquet":
        greatest = {str(row[0]): row[3] for row in rows if row[0] not in sample.fields}
        schemas = {each: read_schema(each) for each in sample.files}
        sample.left_out = _unusable(schemas, greatest.keys() - sample.partitions, greatest)
        for name in greatest.keys() - sample.partitions - sample.left_out.keys():
            types = {
                value_type(each.field(name).type) if name in each.names else None
                for each in schemas.values()
            }
            if len(types) > 1:
                sample.uneven[name] = None in types
        schema = schemas[file]
        sample.unread = {c.name: c.type for c in schema if is_unread(c.type)}
        sample.left_out |= {name: f"type {kind}" for name, kind in sample.unread.items()}
        sample.units = {c.name: c.type.unit for c in schema if pa.types.is_timestamp(c.type)}
    elif form == "json":
        wide = [c.name for c in sample.table.schema if c.type in (_HUGEINT, pa.uint64())]
        sample.left_out = {n: BEYOND for n in wide if _is_beyond_int64(sample.table[n])}
    sample.columns = {
        str(row[0]): (kinds.get(row[0], str(row[1])), int(row[4] or 0))
        for row in rows
        if row[0] not in sample.left_out
    }
    # Spark would read a file of another kind as well
    mixed = next((other for other in files_at(data) if other.suffix != file.suffix), None)
    if mixed is not None:
        sample.options["pathGlobFilter"] = f"*{file.suffix}"
        sample.warnings.append(f"{data} holds {mixed.name}, too: only *{file.suffix} is read")
    if "encoding" in sample.options:
        sample.warnings.append(f"{file} is not UTF-8: it is read as {sample.options['encoding']}")
    return sample


def _read(
    connection: Any, data: Path, sample: Sample, parts: list[pa.Table]
) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    """Reads the files into `parts`, and these into the sample: what DuckDB says of its columns, and
    of which texts it does not know that they are times."""
    files, form = sample.files, sample.format
    sample.connection = connection
    sample.options, how = _options(connection, files[0], form)
    if sample.warnings:  # of files beside folders of partitions
        sample.options["recursiveFileLookup"] = "true"
    # which folders of its path tell columns is not for DuckDB to say, to which each does
    reader = _READERS[form].format(f", hive_partitioning={bool(sample.partitions)}{how}")
    above = {part.partition("=")[0] for part in data.parts if "=" in part} - sample.partitions
    statement = f"SELECT * FROM {reader} LIMIT {SAMPLE_ROWS // len(files)}"
    for each in files:
        found = connection.sql(statement, params=[str(each)])
        read = (found.to_arrow_table(), ()) if form != "json" else as_spark_reads(connection, found)
        parts.append(read[0].drop_columns([n for n in read[0].column_names if n in above]))
        sample.mixed.update(read[1])
        connection.register(f"part{len(parts)}", parts[-1])
        if how == _LOOSE and len(parts[-1]) > 1:
            raise SourceError(
                f"{each}: holds several objects, some over several lines, and Spark would read the "
                "first alone: write each on a line of its own, for example by  jq -c ."
            )
    united = (f"SELECT * FROM part{number + 1}" for number in range(len(parts)))
    table = connection.sql(" UNION ALL BY NAME ".join(united)).to_arrow_table()
    kinds: dict[str, str] = {}
    table, sample.fields = _taken_apart(table)
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            us = pa.timestamp("us", column.type.tz)  # DuckDB has no mean of nanoseconds with a zone
            table = table.set_column(at, column.name, table[at].cast(us, safe=False))
        elif form == "json" and column.type == _HUGEINT and not _is_beyond_int64(table[at]):
            table = table.set_column(at, column.name, table[at].cast(pa.int64()))
    if form == "csv":
        table, kinds = _typed(connection, table, sample.options, sample.partitions)
        _declare_all(sample)
    sample.table = table
    connection.register("sample", table)
    return connection.sql("SUMMARIZE sample").fetchall(), kinds


def as_spark_reads(connection: Any, found: Any) -> tuple[pa.Table, list[str]]:
    """JSON where lines that are no objects have no columns, and values of several types are text
    without quotes; and which columns these are."""
    with NamedTemporaryFile("w", suffix=".json") as file:
        if found.columns == ["json"] and found.types[0] == "JSON":
            objects = found.project("CASE json_type(json) WHEN 'OBJECT' THEN json ELSE '{}' END")
            file.writelines(f"{text}\n" for (text,) in objects.fetchall())
            file.flush()
            statement = "SELECT * FROM read_json($1, format='unstructured')"
            found = connection.sql(statement, params=[file.name])
        mixed = [n for n, kind in zip(found.columns, found.types, strict=True) if kind == "JSON"]
        texts = ", ".join(f"{quoted(name)}->>'$' AS {quoted(name)}" for name in mixed)
        return (found.project(f"* REPLACE ({texts})") if mixed else found).to_arrow_table(), mixed


def _is_header(sample: Sample) -> bool:
    """Is all that a CSV file holds a line that names columns?"""
    values = [str(column[0]) for column in sample.table.itercolumns()]
    is_first = sample.options.get("header") == "false" and sample.table.num_rows == 1
    return is_first and not any(letter.isdigit() for text in values for letter in text)


def _is_beyond_int64(column: pa.ChunkedArray) -> bool:
    ends = pc.min_max(column)
    return any(abs(int(ends[end].as_py() or 0)) >= 1 << 63 for end in ("min", "max"))


def _files(data: Path) -> tuple[str, list[Path]]:
    """The `telling` files, and their format."""
    if not data.exists():
        raise SourceError(f"{data}: no such file or folder")
    files = [file for file in files_at(data) if format_of(file) in _READERS]
    if not files:
        raise SourceError(f"{data}: no .parquet, .csv, .tsv, .json or .jsonl file")
    form = format_of(files[0]) or ""
    alike = [file for file in files if format_of(file) == form and file.stat().st_size]
    if not alike:
        raise SourceError(f"{files[0]}: holds no rows, so there is nothing to look at")
    found = telling(alike)
    if found[0].suffix in UNREAD:
        raise SourceError(
            f"{found[0]}: there is no looking into {found[0].suffix}: name a file that is "
            "unpacked, or a .gz, and then write this path into the pipeline file"
        )
    return form, found


def telling(files: list[Path]) -> list[Path]:
    """The largest file, then the first and the last, which tell how long a time there is."""
    largest = max(files, key=lambda file: file.stat().st_size)
    return list(dict.fromkeys((largest, files[0], files[-1])))


def _unusable(
    schemas: Mapping[Path, pa.Schema], names: Iterable[str], greatest: dict[str, Any]
) -> dict[str, str]:
    """Columns of Parquet files that a pipeline cannot read, and why."""
    kinds = {field.name: field.type for schema in schemas.values() for field in schema}
    found = {}
    for name in names:
        if name not in kinds:
            found[name] = "its name is another's, but for upper and lower case"
        elif name.startswith("__index_level_"):
            found[name] = "the index of a pandas DataFrame"
        elif pa.types.is_duration(kinds[name]):
            found[name] = f"type {kinds[name]}"
        elif pa.types.is_uint64(kinds[name]) and int(greatest[name] or 0) >= 1 << 63:
            found[name] = BEYOND
    return found


def _options(connection: Any, file: Path, form: str) -> tuple[dict[str, str], str]:
    """What the source must say of such files, and the same for DuckDB's reader."""
    if form == "parquet":
        return {}, ""
    with unpacked(str(file)) or BytesIO(b"{}") as stream:
        head = stream.read(HEAD_BYTES)
    if form == "json":
        head = head.removeprefix(codecs.BOM_UTF8).lstrip()
        first = head.partition(b"\n")[0].rstrip()
        if first[:1] == b"{" and (first[-1:] == b"}" or len(first) == HEAD_BYTES):
            return {}, ", format='newline_delimited'"
        return {"multiLine": "true"}, "" if head[:1] == b"[" else _LOOSE
    options, encoding = {}, ""
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as problem:
        if problem.start < HEAD_BYTES - 4:  # not where the head was cut off
            options["encoding"], encoding = "ISO-8859-1", ", encoding='latin-1'"
    separator, header, quote, escape, comment = connection.sql(
        "SELECT Delimiter, HasHeader, Quote, Escape, Comment "
        f"FROM sniff_csv($1, ignore_errors=true{encoding})",
        params=[str(file)],
    ).fetchall()[0]
    quote, comment = quote if len(quote) == 1 else '"', comment if len(comment) == 1 else ""
    escape = escape if len(escape) == 1 else quote
    usual = {"sep": ",", "header": "true", "quote": '"', "escape": '"', "comment": ""}
    found = dict(zip(usual, (separator, str(header).lower(), quote, escape, comment), strict=True))
    told = ", ".join(f"{name}={text_literal(text)}" for name, text in found.items())
    return options | {n: text for n, text in found.items() if text != usual[n]}, (
        f"{encoding}, {told}"
    )


def _typed(
    connection: Any, sample: pa.Table, options: dict[str, str], partitions: set[str]
) -> tuple[pa.Table, dict[str, str]]:
    """Texts of CSV in the types that Spark reads them as, and which of them are times. Adds to the
    options the schema, so that Spark need not read all of the files to infer one."""
    names = [name for name in sample.column_names if name not in partitions]
    texts = [sample[name] for name in names]
    if any(pc.any(pc.equal(column, "\\N")).as_py() for column in texts):  # as PostgreSQL writes
        options["nullValue"] = "\\N"
        texts = [pc.if_else(pc.equal(column, "\\N"), None, column) for column in texts]
    trimmed = [pc.utf8_trim_whitespace(column) for column in texts]
    trimmed = [pc.if_else(pc.equal(column, ""), None, column) for column in trimmed]
    kinds = [_type_of(column) for column in trimmed]
    if kinds != [_type_of(column) for column in texts]:
        options |= {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}
        texts = trimmed
    if any(pc.any(pc.match_substring(column, "\n")).as_py() for column in texts):
        options["multiLine"] = "true"
    ddl = (f"{in_backticks(name)} {kind}" for name, kind in zip(names, kinds, strict=True))
    options["schema"] = ", ".join(ddl)
    for name, text in zip(names, texts, strict=True):
        sample = sample.set_column(sample.schema.get_field_index(name), name, text)
    connection.register("sample", sample)
    casts = ", ".join(
        f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}"
        for name, kind in zip(names, kinds, strict=True)
        if kind in ("bigint", "double", "boolean")
    )
    if casts:
        sample = connection.sql(f"SELECT * REPLACE ({casts}) FROM sample").to_arrow_table()
    times = ("date", "timestamp")
    return sample, {n: k.upper() for n, k in zip(names, kinds, strict=True) if k in times}


def _declare_all(sample: Sample) -> None:
    """Fields of CSV that the header does not name, such as one behind a separator that ends the
    lines: Spark rejects lines that have more fields than the schema."""
    options, file = sample.options, str(sample.files[0])
    if options.get("header") == "false" or options.keys() & {"quote", "escape", "multiLine"}:
        return
    form = {
        "encoding": options.get("encoding", "utf-8"), "separator": options.get("sep", ","),
        "comment": options.get("comment", ""),
    }  # fmt: skip
    named, widths = len(header_of(file, form)), widths_of(file, form, is_headed=True)
    if len(widths) == 1 and (width := max(widths)) > named:
        others = [f"_c{at}" for at in range(named, width)]  # as Spark calls them
        options["schema"] += "".join(f", {in_backticks(name)} string" for name in others)
        sample.warnings.append(
            f"the lines of {file} have {width} fields, and its header {named}: the schema names "
            f"the rest {', '.join(others)}"
        )


def _type_of(column: pa.ChunkedArray) -> str:
    given = column.drop_null()
    fitting = (kind for kind, form in _TYPES.items() if len(given) == count(given, form))
    return next(fitting, "string") if len(given) else "string"


def count(texts: pa.ChunkedArray, form: str) -> int:
    """How many of the texts have this form."""
    return pc.sum(pc.match_substring_regex(texts, f"^({form})$")).as_py() or 0


def _taken_apart(sample: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """What stands in objects, and in objects in these, as columns, too, and how Spark's SQL spells
    it."""
    fields = {}
    found = [(name, in_backticks(name), sample[name], 0) for name in sample.column_names]
    for outer, spelled, values, depth in found:  # which grows as objects are met
        if not pa.types.is_struct(values.type) or depth == OBJECTS_DEPTH_MAX:
            continue
        for place, inner in enumerate(values.type):
            name = f"{outer}_{inner.name}"
            text = f"{spelled}.{in_backticks(inner.name)}"
            part = pc.struct_field(values, [place])
            found.append((name, text, part, depth + 1))
            if name not in sample.column_names and not pa.types.is_nested(inner.type):
                sample, fields[name] = sample.append_column(name, part), text
    return sample, fields
