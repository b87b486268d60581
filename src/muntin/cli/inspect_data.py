"""Look at a data file: which column is the time, which are keys, which can be summed."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import SourceError
from muntin.select.syntax import in_select
from muntin.spark.files import files_at
from muntin.spec import format_of
from muntin.times import duration_text, now_us

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
    "parquet": "read_parquet($1)",
    "csv": "read_csv($1, ignore_errors=true)",
    "json": "read_json($1, ignore_errors=true, format='auto')",
    "jsonl": "read_json($1, ignore_errors=true, format='newline_delimited')",
}
_SPARK_TYPES = {
    "BIGINT": "bigint", "DOUBLE": "double", "BOOLEAN": "boolean", "DATE": "date",
    "TIMESTAMP": "timestamp", "TIMESTAMP WITH TIME ZONE": "timestamp",
}  # fmt: skip
_SECOND = 1_000_000
_WINDOWS_US = {  # pane -> window
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
    time: str
    unit: str | None
    pane_us: int
    lateness_us: int
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
    mixed = _beside(data, file)
    reader = _READERS["jsonl" if form == "json" and _is_json_lines(file) else form]
    statement = f"SELECT * FROM {reader} LIMIT {SAMPLE_ROWS // len(files)}"
    connection, parts = duckdb.connect(), []
    try:
        for each in files:
            parts.append(connection.sql(statement, params=[str(each)]).to_arrow_table())
            connection.register(f"part{len(parts)}", parts[-1])
        united = (f"SELECT * FROM part{number + 1}" for number in range(len(parts)))
        sample = connection.sql(" UNION ALL BY NAME ".join(united)).to_arrow_table()
        connection.register("sample", sample)
        rows = connection.sql("SUMMARIZE sample").fetchall()
        sniffed = _csv_options(connection, file) if form == "csv" else ({}, {})
    except duckdb.Error as problem:
        where = files[min(len(parts), len(files) - 1)]
        raise SourceError(f"{where}: cannot be read as {form}: {str(problem)[:300]}") from None
    total = sample.num_rows
    if not total:
        raise SourceError(f"{file}: holds no rows, so there is nothing to look at")
    columns = {str(row[0]): (str(row[1]), int(row[4] or 0)) for row in rows}
    time, unit, times = _time_column(columns, sample)
    edges = itertools.pairwise([0, *itertools.accumulate(map(len, parts))])
    by_file = [_times(sample[time].slice(a, b - a), unit) for a, b in edges]
    pane = _pane_us(by_file)
    lateness = max(pane, _behind_us(by_file[0]))
    options, fields = sniffed
    found = Found(str(data), form, time, unit, pane, lateness, options=options)
    if time in fields:
        found.fields[time] = fields[time]
    if mixed is not None:
        found.options["pathGlobFilter"] = f"*{file.suffix}"
        found.warnings.append(f"{data} holds {mixed.name}, too: only *{file.suffix} is read")
    absent = total - len(times)
    if absent:
        found.warnings.append(
            f"{absent:,} of {total:,} rows have no time in '{time}'"
            f"{_shown(sample, time)}: they will be rejected"
        )
    for name, (kind, distinct) in columns.items():
        if name == time:
            continue
        number = _number_in_text(sample[name]) if kind == "VARCHAR" else None
        if number is not None:
            cast, bad = number
            found.fields[name] = f"TRY_CAST(`{name}` AS {cast})"
            found.indicators.append(name)
            found.warnings.append(
                f"{bad:,} of {total:,} rows have no number in '{name}'"
                f"{_shown(sample, name)}: a field reads them as null"
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
    for surplus in found.keys[KEYS_MAX:]:
        found.left_out[surplus] = "could be a key as well"
    for surplus in found.indicators[INDICATORS_MAX:]:
        found.left_out[surplus] = "could be an indicator as well"
    del found.keys[KEYS_MAX:], found.indicators[INDICATORS_MAX:]
    if not found.keys:
        raise SourceError(f"{file}: no column looks like a key: text, a code, a yes or no")
    return found


def pipeline_text(found: Found) -> str:
    """The commented pipeline file."""
    name = re.sub(r"[^a-z0-9_-]+", "_", Path(found.path).stem.lower()).strip("_-") or "events"
    name = name if name[0].isalpha() else f"s_{name}"
    pane = found.pane_us
    window = _WINDOWS_US[pane]
    pair = found.keys[:2]
    keys = ", ".join(
        [*map(_quoted, found.keys), f"[{', '.join(map(_quoted, pair))}]"]
        if len(pair) == 2
        else map(_quoted, found.keys)
    )
    fields = "".join(f"  {_quoted(n)}: {text}\n" for n, text in found.fields.items())
    if fields:
        fields = f"\n# Columns made or replaced, by Spark's SQL.\nfields:\n{fields}"
    warnings = "".join(f"# Note: {warning}.\n" for warning in found.warnings)
    left_out = "".join(f"#   {column}: {why}\n" for column, why in found.left_out.items())
    time = (
        _quoted(found.time)
        if found.unit is None
        else f"{{column: {_quoted(found.time)}, unit: {found.unit}}}"
    )
    more = f", {in_select(found.indicators[0])}" if found.indicators else ""
    key = in_select(found.keys[0])
    select = f"SELECT {key}, count{more} FROM {in_select(name)}({key}) ORDER BY count DESC LIMIT 10"
    entries = {"format": found.format, "path": found.path, **found.options}
    source = ", ".join(f"{entry}: {_quoted(text)}" for entry, text in entries.items())
    return f"""\
# Written by `muntin init {found.path}`. Check it with `muntin check`, run it with `muntin run`.
{warnings}name: {name}

# Where events come from: any Spark source; further entries here are its options.
source: {{{source}}}

# The event time: a timestamp, ISO 8601 text (without a zone it is UTC), or a number with its unit.
time: {time}
{fields}
# The smallest slice of time that is kept. Any window is made of whole panes.
pane: {duration_text(pane)}

# How late an event may come and still count towards where its window ends.
lateness: {duration_text(found.lateness_us)}

# The durable table of summaries.
ledger: sqlite:///{name}.db

summaries:
  {name}:
    kind: vector_matrix        # exact sums per key and key combination
    keys: [{keys}]
    indicators: [{", ".join(map(_quoted, found.indicators))}]
    capacity: 100000           # rows per key; a window closes early before it would pass this
    window: {{kind: floating, length: {duration_text(window)}}}
{"# Columns left out:" + chr(10) + left_out if left_out else ""}
# Run on each window that closes; the results are kept as a trend.
queries:
  busiest: {{select: '{select}', on: window}}
"""


def _files(data: Path) -> tuple[list[Path], str]:
    """The largest file, then the first and the last, which tell how long a time there is."""
    if not data.exists():
        raise SourceError(f"{data}: no such file or folder")
    files = [file for file in files_at(data) if format_of(file) in _READERS]
    if not files:
        raise SourceError(f"{data}: no .parquet, .csv, .json or .jsonl file")
    form = format_of(files[0]) or ""
    alike = [file for file in files if format_of(file) == form]
    largest = max(alike, key=lambda file: file.stat().st_size)
    return list(dict.fromkeys((largest, alike[0], alike[-1]))), form


def _beside(data: Path, file: Path) -> Path | None:
    """A file of another kind than this one, which Spark would read as well."""
    return next((other for other in files_at(data) if other.suffix != file.suffix), None)


def _is_json_lines(file: Path) -> bool:
    """One object a line: where lines are bad, the others can still be read."""
    with file.open("rb") as stream:
        return stream.read(4096).lstrip()[:1] == b"{"


def _csv_options(connection, file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The schema, so that Spark need not read all of the files to infer one, and the separator;
    and fields for times that are written in a way of their own."""
    columns, separator, header, escape, times, dates = connection.sql(
        "SELECT Columns, Delimiter, HasHeader, Escape, TimestampFormat, DateFormat "
        "FROM sniff_csv($1, ignore_errors=true)",
        params=[str(file)],
    ).fetchall()[0]
    kinds, fields = dict(_SPARK_TYPES), {}
    for kind, form in (("TIMESTAMP", times), ("DATE", dates)):
        if not form or form == "%Y-%m-%d":
            continue
        del kinds[kind]  # not as Spark reads them
        for each in columns:
            if each["type"] == kind:
                name = each["name"].replace("`", "``")
                fields[each["name"]] = f"try_to_timestamp(`{name}`, '{_spark_pattern(form)}')"
    ddl = [(each["name"], kinds.get(each["type"], "string")) for each in columns]
    found = {"schema": ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in ddl)}
    if separator != ",":
        found["sep"] = separator
    if not header:
        found["header"] = "false"
    if escape == "\\":
        found["escape"] = escape
    return found, fields


def _spark_pattern(strptime: str) -> str:
    """ "%d/%m/%Y %H:%M" as Spark writes it: "dd/MM/yyyy HH:mm"."""
    letters = {
        "d": "dd", "m": "MM", "Y": "yyyy", "y": "yy", "H": "HH", "I": "hh", "M": "mm", "S": "ss",
        "p": "a", "f": "SSSSSS", "g": "SSS", "b": "MMM", "B": "MMMM", "z": "XXX",
    }  # fmt: skip
    text = re.sub(r"%-?([a-zA-Z])", lambda found: letters.get(found[1], "'?'"), strptime)
    return text.replace("T", "''T''") if "T" in text else text


def _time_column(
    columns: dict[str, tuple[str, int]], sample: pa.Table
) -> tuple[str, str | None, np.ndarray]:
    """The event time with its unit, and its values: microseconds, without those that are none."""
    from muntin.spark.event_units import unit_of

    named = [name for name in columns if _TIME_NAME.search(_CAMEL.sub("_", name))]
    for name, (kind, _) in columns.items():
        if kind.startswith("TIMESTAMP"):
            return name, None, _times(sample[name])
    for name in [*named, *(name for name in columns if name not in named)]:
        if columns[name][0] == "VARCHAR":
            times = _times(sample[name])
            if len(times) >= (1 - BAD_SHARE_MAX) * max(1, len(sample[name].drop_null())):
                return name, None, times
    for name in named:
        unit = unit_of(sample[name].combine_chunks(), now_us())
        if unit is not None:
            return name, unit, _times(sample[name], unit)
    for name, (kind, _) in columns.items():
        if kind == "DATE":
            return name, None, _times(sample[name])
    there = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    raise SourceError(
        f"no column looks like an event time (a timestamp, a date, ISO 8601 text, or a number "
        f"since 1970 whose name says time, ts, date, at, when, epoch, created); there are {there}"
    )


def _times(column: pa.ChunkedArray, unit: str | None = None) -> np.ndarray:
    from muntin.spark.event_time import ABSENT, event_times

    times = event_times(column.combine_chunks(), unit)
    return times[times != ABSENT]


def _pane_us(by_file: list[np.ndarray]) -> int:
    """Some thousands of panes at most, and none below the step in which the times come.

    A few times that are far off say nothing about the others of their file.
    """
    times = np.concatenate(by_file)
    spans = [np.quantile(own, [0.01, 0.99]) for own in by_file if len(own)]
    first, last = (np.min(spans), np.max(spans)) if spans else (0, 0)
    panes = list(_WINDOWS_US)
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
    return next((pane for pane in _WINDOWS_US if pane >= behind), max(_WINDOWS_US))


def _number_in_text(column: pa.ChunkedArray) -> tuple[str, int] | None:
    """The type of a column of numbers with a few other texts among them, and how many."""
    texts = column.drop_null()
    numbers = [_number(text) for text in texts.to_pylist()]
    bad = numbers.count(None)
    others = {
        text for text, number in zip(texts.to_pylist(), numbers, strict=True) if number is None
    }
    share = NONE_SHARE_MAX if len(others) <= WORDS_FOR_NONE_MAX else BAD_SHARE_MAX
    if not 0 < bad <= share * len(numbers):
        return None
    whole = all(number is None or isinstance(number, int) for number in numbers)
    return ("BIGINT" if whole else "DOUBLE"), bad


def _number(text: str) -> int | float | None:
    text = text.strip()
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return float(text)
    return None


def _shown(sample: pa.Table, name: str) -> str:
    """The first text in a column that is no time and no number."""
    from muntin.spark.event_time import ABSENT, event_times

    column: Any = sample[name].combine_chunks().drop_null()
    if not pa.types.is_string(column.type):
        return ""
    bad = event_times(column, None) == ABSENT
    for text in column.filter(pa.array(bad)).to_pylist():
        if _number(text) is None:
            return f", such as {text[:40]!r}"
    return ""


def _is_number(kind: str) -> bool:
    return kind.startswith("DECIMAL") or kind in (
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
        "HUGEINT", "FLOAT", "DOUBLE",
    )  # fmt: skip


def _looks_like_key(name: str, kind: str, distinct: int) -> bool:
    whole = "INT" in kind
    return whole and (
        bool(re.search(r"(^|_)(id|code|no|number|class|year|month|day|hour|minute)$", name.lower()))
        or distinct <= 2
    )


def _quoted(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][\w./-]*", text) is not None
    if plain and text.lower() not in ("true", "false", "null"):
        return text
    return json.dumps(text, ensure_ascii=False)  # YAML reads it alike
