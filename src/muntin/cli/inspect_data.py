"""Look at a data file: which column is the time, which are keys, which can be summed."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.errors import SourceError
from muntin.select.syntax import quoted, text_literal
from muntin.spark.ddl import in_backticks
from muntin.spark.event_time import ABSENT, event_times
from muntin.spark.event_units import unit_of
from muntin.spark.file_starts import wrong_encoding
from muntin.spark.files import files_at, partitions_of, unpacked
from muntin.spec import format_of
from muntin.times import now_us

SAMPLE_ROWS = 200_000
KEYS_MAX, INDICATORS_MAX = 4, 6
BAD_SHARE_MAX = 0.05  # of times or numbers; a column with more of them is of another kind
NONE_SHARE_MAX, WORDS_FOR_NONE_MAX = 0.5, 3  # the same few texts, such as n/a, stand for no number
KEY_DISTINCT_SHARE_MAX = 0.5  # a column with a value of its own for each row is an identifier
_TIME_NAME = re.compile(
    r"(^|_)(time|timestamp|ts|date|datetime|at|when|epoch|unixtime|created)($|_)", re.IGNORECASE
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # eventTime
# records that do not parse are rejected when the pipeline runs, and no reason not to look
_READERS = {
    "parquet": "read_parquet($1{})",
    "csv": "read_csv($1, ignore_errors=true, all_varchar=true{})",
    "json": "read_json($1, ignore_errors=true{})",
}
UNREAD = (".bz2", ".deflate", ".lz4", ".snappy", ".xz")  # by DuckDB; Spark reads some of them
HEAD_BYTES = 1 << 20
TRIED_ROWS = 1_000  # of a column whose times are written in a way of their own
# texts that are of a type to Spark, which takes no others where a CSV file's schema says so
_TYPES = {
    "bigint": r"[+-]?(0|[1-9]\d{0,17})",
    "double": r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?",
    "boolean": "(?i:true|false)",
    "date": r"\d{4}-\d\d-\d\d",
    "timestamp": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?( ?UTC|Z|[+-]\d\d(:?\d\d)?)?)?",
}
# other ways to write a time, as Spark spells them: of two digits first, which pass for four as well
_DAYS = (
    "d/M/yy", "M/d/yy", "d.M.yy", "d/M/yyyy", "M/d/yyyy", "d.M.yyyy", "d-M-yyyy", "yyyy/M/d",
    "yyyy-M-d", "yyyyMMdd", "d/MMM/yyyy", "d-MMM-yyyy", "d MMM yyyy", "MMM d, yyyy",
)  # fmt: skip
_CLOCKS = (
    "", " H:mm", " H:mm:ss", " H:mm:ss.SSS", " h:mm a", " h:mm:ss a", "'T'HH:mm:ss", "'T'HHmmss",
    "HHmmss", ":HH:mm:ss XX",
)  # fmt: skip
_STRPTIME = {
    "yyyy": "Y", "yy": "y", "MMM": "b", "MM": "m", "M": "m", "dd": "d", "d": "d", "HH": "H",
    "H": "H", "h": "I", "mm": "M", "SSS": "g", "ss": "S", "a": "p", "XX": "z",
}  # fmt: skip
_LETTERS = re.compile("|".join(_STRPTIME))
# ways to write a number in text, and what makes of each one that Spark reads
_PLAIN = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_NUMBERS = {
    _PLAIN: "{}",
    r"[+-]?[$€£]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?": "regexp_replace({}, '[^0-9.-]', '')",
    r"[+-]?((\d{1,3}(\.\d{3})+|\d+),\d+|\d+)( ?[€$£])?": (
        "regexp_replace(translate({}, ',.', '.'), '[^0-9.-]', '')"
    ),
}
_SECOND = 1_000_000
WINDOWS_US = {  # pane -> window
    _SECOND: 60 * _SECOND,
    10 * _SECOND: 600 * _SECOND,
    60 * _SECOND: 3600 * _SECOND,
    600 * _SECOND: 6 * 3600 * _SECOND,
    3600 * _SECOND: 86_400 * _SECOND,
    86_400 * _SECOND: 7 * 86_400 * _SECOND,
}
PANES_MAX = 10_000
LATE_SHARE = 0.999  # of the events come in time


@dataclass(slots=True)
class Found:
    """What a look at the data has shown."""

    path: str
    format: str
    time: str = ""
    unit: str | None = None
    pane_us: int = 0
    lateness_us: int = 0
    keys: list[str] = field(default_factory=list)
    indicators: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Column -> why."""
    options: dict[str, str] = field(default_factory=dict)
    """Of the source."""
    fields: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def inspect(data: Path) -> Found:
    """Look at the first rows of some files; SourceError where that cannot be done."""
    import duckdb

    files, form = _files(data)
    file = files[0]
    # Spark would read a file of another kind as well
    mixed = next((other for other in files_at(data) if other.suffix != file.suffix), None)
    if form != "parquet" and (wrong := wrong_encoding(str(file), {})):
        raise SourceError(f"{file}: {wrong}")
    connection, parts = duckdb.connect(), []
    try:
        options, how = _options(connection, file, form)
        statement = f"SELECT * FROM {_READERS[form].format(how)} LIMIT {SAMPLE_ROWS // len(files)}"
        for each in files:
            parts.append(connection.sql(statement, params=[str(each)]).to_arrow_table())
            connection.register(f"part{len(parts)}", parts[-1])
        united = (f"SELECT * FROM part{number + 1}" for number in range(len(parts)))
        sample = connection.sql(" UNION ALL BY NAME ".join(united)).to_arrow_table()
        sample, fields = _taken_apart(sample) if form == "json" else (sample, {})
        kinds: dict[str, str] = {}
        if form == "csv":
            sample, kinds = _typed(connection, sample, options, partitions_of(data, files))
        connection.register("sample", sample)
        rows = connection.sql("SUMMARIZE sample").fetchall()
    except duckdb.Error as problem:
        where = files[min(len(parts), len(files) - 1)]
        said = str(problem).splitlines()[0][:300]
        raise SourceError(f"{where}: cannot be read as {form}: {said}") from None
    total = sample.num_rows
    if not total:
        raise SourceError(f"{file}: holds no rows, so there is nothing to look at")
    found = Found(str(data), form, options=options)
    columns = {str(row[0]): (kinds.get(row[0], str(row[1])), int(row[4] or 0)) for row in rows}
    if form == "parquet":
        found.left_out = _unusable(data, files, {str(row[0]): row[3] for row in rows})
        columns = {name: about for name, about in columns.items() if name not in found.left_out}
    ends = [*itertools.accumulate(map(len, parts))]
    shown = _Shown(sample, [file.name for file in files], ends)
    time, found.unit, patterns = _time_column(connection, columns, shown)
    read = sample[time]
    number = _number_in_text(read) if found.unit else None
    if patterns or number:
        text = fields.get(time, in_backticks(time))
        if number:
            found.fields[time], parsing = number[0].format(text), number[0].format(quoted(time))
        else:
            found.fields[time] = f"try_to_timestamp({text}, {text_literal(patterns[0])})"
            parsing = _parsing(time, patterns[0])
        read = _read_as(connection, parsing)
    at = _event_times(read, found.unit)
    by_file = [_present(own) for own in np.split(at, ends[:-1])]
    times = np.concatenate(by_file)
    found.time, found.pane_us = time, _pane_us(by_file)
    found.lateness_us = max(found.pane_us, _behind_us(by_file[0]))
    if mixed is not None:
        found.options["pathGlobFilter"] = f"*{file.suffix}"
        found.warnings.append(f"{data} holds {mixed.name}, too: only *{file.suffix} is read")
    if len(patterns) > 1:
        read, other = patterns[:2]
        found.warnings.append(f"times in '{time}' are read as {read}; they could be {other}")
    if "encoding" in options:
        found.warnings.append(f"{file} is not UTF-8: it is read as {options['encoding']}")
    absent = total - len(times)
    if absent:
        found.warnings.append(
            f"{absent:,} of {total:,} rows have no time in '{time}'"
            f"{shown.first(time, at == ABSENT)}: they will be rejected"
        )
    for name, (kind, distinct) in columns.items():
        if name == time:
            continue
        number = _number_in_text(sample[name])
        if not distinct:
            found.left_out[name] = "no values"
        elif number is not None:
            cast, bad = number
            found.fields[name] = cast.format(fields.get(name, in_backticks(name)))
            found.indicators.append(name)
            if bad.any():
                found.warnings.append(
                    f"{bad.sum():,} of {total:,} rows have no number in '{name}'"
                    f"{shown.first(name, bad)}: a field reads them as null"
                )
        elif _is_number(kind) and not _looks_like_key(name, kind, distinct):
            found.indicators.append(name)
        elif kind in ("VARCHAR", "BOOLEAN", "DATE") or _is_number(kind):
            if distinct > KEY_DISTINCT_SHARE_MAX * total and total > 100:
                found.left_out[name] = f"about {distinct:,} values in {total:,} rows"
            else:
                found.keys.append(name)
        else:
            found.left_out[name] = f"type {kind}"
    found.keys.sort(key=lambda name: -columns[name][1])
    found.left_out |= dict.fromkeys(found.keys[KEYS_MAX:], "could be a key as well")
    surplus = found.indicators[INDICATORS_MAX:]
    found.left_out |= dict.fromkeys(surplus, "could be an indicator as well")
    del found.keys[KEYS_MAX:], found.indicators[INDICATORS_MAX:]
    if not found.keys:
        raise SourceError(
            f"{file}: no column looks like a key (text, a code, a yes or no); there are "
            f"{_listed(columns)}"
        )
    read = (time, *found.keys, *found.indicators)
    found.fields = {n: text for n, text in fields.items() if n in read} | found.fields
    return found


def _files(data: Path) -> tuple[list[Path], str]:
    """The largest file, then the first and the last, which tell how long a time there is."""
    if not data.exists():
        raise SourceError(f"{data}: no such file or folder")
    files = [file for file in files_at(data) if format_of(file) in _READERS]
    if not files:
        raise SourceError(f"{data}: no .parquet, .csv, .tsv, .json or .jsonl file")
    form = format_of(files[0]) or ""
    alike = [file for file in files if format_of(file) == form and file.stat().st_size]
    if not alike:
        raise SourceError(f"{files[0]}: holds no rows, so there is nothing to look at")
    largest = max(alike, key=lambda file: file.stat().st_size)
    if largest.suffix in UNREAD:
        raise SourceError(
            f"{largest}: there is no looking into {largest.suffix}: name a file that is unpacked, "
            "or a .gz, and then write this path into the pipeline file"
        )
    return list(dict.fromkeys((largest, alike[0], alike[-1]))), form


def _unusable(data: Path, files: list[Path], greatest: dict[str, Any]) -> dict[str, str]:
    """Columns of Parquet files that a pipeline cannot read, and why."""
    import pyarrow.parquet as pq

    schemas = {file: pq.read_schema(file) for file in files}
    kinds = {field.name: field.type for schema in schemas.values() for field in schema}
    found = {}
    for name in greatest.keys() - partitions_of(data, files):
        lacking = [file.name for file, schema in schemas.items() if name not in schema.names]
        if name not in kinds:
            found[name] = "its name is another's, but for upper and lower case"
        elif lacking:
            found[name] = f"not in {lacking[0]}"
        elif name.startswith("__index_level_"):
            found[name] = "the index of a pandas DataFrame"
        elif pa.types.is_duration(kinds[name]):
            found[name] = f"type {kinds[name]}"
        elif pa.types.is_uint64(kinds[name]) and int(greatest[name] or 0) >= 1 << 63:
            found[name] = "values beyond int64"
    return found


def _options(connection: Any, file: Path, form: str) -> tuple[dict[str, str], str]:
    """What the source must say of such files, and the same for DuckDB's reader."""
    if form == "parquet":
        return {}, ""
    with unpacked(str(file)) or BytesIO(b"{}") as stream:
        head = stream.read(HEAD_BYTES)
    if form == "json":
        first = head.lstrip().partition(b"\n")[0].rstrip()
        if first[:1] == b"{" and (first[-1:] == b"}" or len(first) == HEAD_BYTES):
            return {}, ", format='newline_delimited'"
        return {"multiLine": "true"}, ""
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
    """Texts of CSV in the types that Spark reads them as, and which of them are times.

    Adds to the options the schema, so that Spark need not read all of the files to infer one.
    """
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


def _type_of(column: pa.ChunkedArray) -> str:
    given = column.drop_null()
    fitting = (kind for kind, form in _TYPES.items() if len(given) == _count(given, form))
    return next(fitting, "string") if len(given) else "string"


def _count(texts: pa.ChunkedArray, form: str) -> int:
    """How many of the texts have this form."""
    return pc.sum(pc.match_substring_regex(texts, f"^({form})$")).as_py() or 0


def _taken_apart(sample: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """What stands in JSON's objects as columns, too, and how Spark's SQL spells it."""
    fields = {}
    for outer in sample.schema:
        for inner in outer.type if pa.types.is_struct(outer.type) else ():
            name = f"{outer.name}_{inner.name}"
            if name not in sample.column_names and not pa.types.is_nested(inner.type):
                values = pc.struct_field(sample[outer.name], inner.name)
                sample = sample.append_column(name, values)
                fields[name] = f"{in_backticks(outer.name)}.{in_backticks(inner.name)}"
    return sample, fields


def _time_column(
    connection: Any, columns: dict[str, tuple[str, int]], shown: _Shown
) -> tuple[str, str | None, list[str]]:
    """The event time with its unit, or with the ways in which it can have been written."""
    sample = shown.sample
    named = [name for name in columns if _TIME_NAME.search(_CAMEL.sub("_", name))]
    for name, (kind, _) in columns.items():
        if kind.startswith("TIMESTAMP"):
            return name, None, []
    in_order = [*named, *(name for name in columns if name not in named)]
    texts = [name for name in in_order if columns[name][0] == "VARCHAR" and columns[name][1]]
    for name in texts:
        if len(_times(sample[name])) >= _most(sample[name]):
            return name, None, []
    for name in texts:
        patterns = _patterns(connection, sample, name)
        if patterns:
            return name, None, patterns
    for name in named:
        numbers = sample[name]
        if found := _number_in_text(numbers):
            numbers = _read_as(connection, found[0].format(quoted(name)))
        unit = unit_of(numbers.combine_chunks(), now_us())
        if unit is not None:
            return name, unit, []
    for name, (kind, _) in columns.items():
        if kind == "DATE":
            return name, None, []
    odd = ((name, _event_times(sample[name], None) == ABSENT) for name in texts if name in named)
    raise SourceError(
        "no column looks like an event time (a timestamp, a date, ISO 8601 text, or a number since "
        "1970 whose name says time, ts, date, at, when, epoch, created); there are "
        f"{_listed(columns)}"
        + "".join(
            f"; {bad.sum():,} rows have no time in '{n}'{shown.first(n, bad)}" for n, bad in odd
        )
    )


def _listed(columns: dict[str, tuple[str, int]]) -> str:
    return ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())


def _most(column: pa.ChunkedArray) -> float:
    """All but a few, of which one is always let pass, and more than half."""
    given = len(column) - column.null_count
    return max(min((1 - BAD_SHARE_MAX) * given, given - 1), (given + 1) / 2)


def _patterns(connection: Any, sample: pa.Table, name: str) -> list[str]:
    """How most times in a column of text can have been written, in Spark's letters.

    First that in which they lie closest together: 3/1 and 3/2 are two days, hardly two months.
    """
    texts = sample[name].drop_null()
    if _count(texts, r".*\d.*\d.*\d.*") < _most(texts):
        return []
    if len(texts) > TRIED_ROWS:
        texts = texts.take(np.linspace(0, len(texts) - 1, TRIED_ROWS).astype(np.int64))
    connection.register("tried", pa.table({name: texts}))
    patterns = [day + clock for day in _DAYS for clock in _CLOCKS]
    read = (f"{_parsing(name, pattern)}::TIMESTAMP AS p{n}" for n, pattern in enumerate(patterns))
    tried = connection.sql(f"SELECT {', '.join(read)} FROM tried").to_arrow_table()
    found: dict[str, Any] = {}
    for pattern, column in zip(patterns, tried.itercolumns(), strict=True):
        times = _times(column)
        if len(times) >= _most(texts) and times.min() >= 0:  # 24 is no year of four digits
            found[pattern] = np.ptp(times)
    return sorted(found, key=lambda pattern: found[pattern])


def _parsing(name: str, pattern: str) -> str:
    """DuckDB's expression that reads times which are written so."""
    letters = _LETTERS.sub(lambda run: f"%{_STRPTIME[run[0]]}", pattern.replace("'", ""))
    return f"try_strptime({quoted(name)}, {text_literal(letters)})"


def _times(column: pa.ChunkedArray) -> np.ndarray:
    return _present(_event_times(column, None))


def _read_as(connection: Any, expression: str) -> pa.ChunkedArray:
    return connection.sql(f"SELECT {expression} AS t FROM sample").to_arrow_table()["t"]


def _event_times(column: pa.ChunkedArray, unit: str | None) -> np.ndarray:
    return event_times(column.combine_chunks(), unit)


def _present(times: np.ndarray) -> np.ndarray:
    return times[times != ABSENT]


def _pane_us(by_file: list[np.ndarray]) -> int:
    """Some thousands of panes at most, and none below the step in which the times come.

    A few times that are far off say nothing about the others of their file.
    """
    times = np.concatenate(by_file)
    spans = [np.quantile(own, [0.01, 0.99]) for own in by_file if len(own)]
    first, last = (np.min(spans), np.max(spans)) if spans else (0, 0)
    panes = list(WINDOWS_US)
    for pane in panes:
        longer = [p for p in panes if p > pane]
        in_steps = longer and np.mean(times % longer[0] == 0) > 1 - BAD_SHARE_MAX
        if (last - first) / pane <= PANES_MAX and not in_steps:
            return pane
    return panes[-1]


def _behind_us(times: np.ndarray) -> int:
    """How late events come, in the order of a file: a pane's length, at most a day."""
    if not len(times):
        return 0
    near = times[times <= np.quantile(times, 0.99)]  # one that is far ahead makes none late
    behind = np.quantile(np.maximum.accumulate(near) - near, LATE_SHARE)
    return next((pane for pane in WINDOWS_US if pane >= behind), max(WINDOWS_US))


def _number_in_text(column: pa.ChunkedArray) -> tuple[str, np.ndarray] | None:
    """What makes numbers of a column of text, and of which rows it does not."""
    if not pa.types.is_string(column.type):
        return None
    texts = column.drop_null()
    counts = {form: _count(texts, form) for form in _NUMBERS}
    form = max(counts, key=lambda each: counts[each])
    others = {text for text in texts.unique().to_pylist() if not re.fullmatch(form, text)}
    share = NONE_SHARE_MAX if len(others) <= WORDS_FOR_NONE_MAX else BAD_SHARE_MAX
    bad = len(texts) - counts[form]
    if bad > share * len(texts) or counts[_PLAIN] == len(texts):
        return None
    whole = form == _PLAIN and _count(texts, r"\s*[+-]?\d{1,18}\s*") == counts[form]
    others_at = pc.fill_null(pc.is_in(column, pa.array(others, pa.string())), False)
    cast = f"TRY_CAST({_NUMBERS[form]} AS {'BIGINT' if whole else 'DOUBLE'})"
    return cast, others_at.to_numpy()


@dataclass(slots=True)
class _Shown:
    """The rows that were looked at, and of which file they are."""

    sample: pa.Table
    files: list[str]
    ends: list[int]

    def first(self, name: str, bad: np.ndarray) -> str:
        """The first of the values that are bad, and its row; not those that are null."""
        column: Any = self.sample[name].combine_chunks()
        rows = np.flatnonzero(bad & column.is_valid().to_numpy(zero_copy_only=False))
        if not len(rows):
            return ""
        row = int(rows[0])
        file = int(np.searchsorted(self.ends, row, "right"))
        number = row + 1 - (self.ends[file - 1] if file else 0)
        text = str(column[row].as_py())[:40]
        return f", such as {text!r} in row {number:,} of {self.files[file]}"


def _is_number(kind: str) -> bool:
    return bool(re.fullmatch(r"DECIMAL.*|FLOAT|DOUBLE|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER", kind))


def _looks_like_key(name: str, kind: str, distinct: int) -> bool:
    words = r"(^|_)(id|code|no|number|class|year|month|day|hour|minute)$"
    return "INT" in kind and (distinct <= 2 or bool(re.search(words, name.lower())))
