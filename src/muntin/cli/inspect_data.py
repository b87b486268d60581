"""Look at a data file: which column is the time, which are keys, which can be summed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from muntin.errors import SourceError
from muntin.times import duration_text

SAMPLE_ROWS = 200_000
KEYS_MAX, INDICATORS_MAX = 4, 6
KEY_DISTINCT_SHARE_MAX = 0.5  # a column with a value of its own for each row is an identifier
_TIME_NAME = re.compile(r"(^|_)(time|timestamp|ts|date|datetime|at|when)($|_)", re.IGNORECASE)
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
# records that do not parse are rejected when the pipeline runs, and no reason not to look
_READERS = {
    "parquet": "read_parquet($1)",
    "csv": "read_csv($1, ignore_errors=true)",
    "json": "read_json($1, ignore_errors=true)",
}
_SPARK_TYPES = {
    "BIGINT": "bigint", "DOUBLE": "double", "BOOLEAN": "boolean", "DATE": "date",
    "TIMESTAMP": "timestamp", "TIMESTAMP WITH TIME ZONE": "timestamp",
}  # fmt: skip
_PANES_US = [s * 1_000_000 for s in (1, 10, 60, 600, 3600, 86_400)]


@dataclass(slots=True)
class Found:
    """What a look at the data has shown."""

    path: str
    format: str
    time: str
    unit: str | None
    span_us: int
    keys: list[str] = field(default_factory=list)
    indicators: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Column -> why."""
    options: dict[str, str] = field(default_factory=dict)
    """Of the source."""


def inspect(data: Path) -> Found:
    """Look at the first rows of a file or folder; SourceError where that cannot be done."""
    import duckdb

    file, form = _first_file(data)
    reader = _READERS[form]
    connection = duckdb.connect()
    try:
        sample = connection.sql(f"SELECT * FROM {reader} LIMIT {SAMPLE_ROWS}", params=[str(file)])
        connection.register("sample", sample.to_arrow_table())
        rows = connection.sql("SUMMARIZE sample").fetchall()
        total = connection.sql("SELECT count(*) FROM sample").fetchall()[0][0]
        options = _csv_options(connection, file) if form == "csv" else {}
    except duckdb.Error as problem:
        raise SourceError(f"{file}: cannot be read as {form}: {str(problem)[:300]}") from None
    if not total:
        raise SourceError(f"{file}: holds no rows, so there is nothing to look at")
    columns = {str(row[0]): (str(row[1]), int(row[4] or 0)) for row in rows}
    time, unit = _time_column(columns, connection)
    found = Found(str(data), form, time, unit, _span_us(connection, time, unit), options=options)
    for name, (kind, distinct) in columns.items():
        if name == time:
            continue
        if _is_number(kind) and not _looks_like_key(name, kind, distinct):
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
    pane = next((p for p in _PANES_US if found.span_us / p <= 10_000), _PANES_US[-1])
    window = max(pane, min(_PANES_US[-1], pane * 24))
    window -= window % pane
    pair = found.keys[:2]
    keys = ", ".join(
        [*map(_quoted, found.keys), f"[{', '.join(map(_quoted, pair))}]"]
        if len(pair) == 2
        else map(_quoted, found.keys)
    )
    left_out = "".join(f"#   {column}: {why}\n" for column, why in found.left_out.items())
    time = (
        _quoted(found.time)
        if found.unit is None
        else f"{{column: {_quoted(found.time)}, unit: {found.unit}}}"
    )
    more = f", {in_select(found.indicators[0])}" if found.indicators else ""
    key = in_select(found.keys[0])
    select = f"SELECT {key}, count{more} FROM {name}({key}) ORDER BY count DESC LIMIT 10"
    entries = {"format": found.format, "path": found.path, **found.options}
    source = ", ".join(f"{entry}: {_quoted(text)}" for entry, text in entries.items())
    return f"""\
# Written by `muntin init {found.path}`. Check it with `muntin check`, run it with `muntin run`.
name: {name}

# Where events come from: any Spark source; further entries here are its options.
source: {{{source}}}

# The event time: a timestamp, ISO 8601 text (without a zone it is UTC), or a number with its unit.
time: {time}

# The smallest slice of time that is kept. Any window is made of whole panes.
pane: {duration_text(pane)}

# How late an event may come and still count towards where its window ends.
lateness: {duration_text(pane)}

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


def _first_file(data: Path) -> tuple[Path, str]:
    if not data.exists():
        raise SourceError(f"{data}: no such file or folder")
    files = sorted(f for f in data.rglob("*") if f.suffix in _FORMATS) if data.is_dir() else [data]
    if not files or files[0].suffix not in _FORMATS:
        raise SourceError(f"{data}: no {', '.join(_FORMATS)} file")
    return files[0], _FORMATS[files[0].suffix]


def _csv_options(connection, file: Path) -> dict[str, str]:
    """The schema, so that Spark need not read all of the files to infer one; and the separator."""
    columns, separator, header, times = connection.sql(
        "SELECT Columns, Delimiter, HasHeader, TimestampFormat "
        "FROM sniff_csv($1, ignore_errors=true)",
        params=[str(file)],
    ).fetchall()[0]
    kinds = dict(_SPARK_TYPES)
    if times:  # not as Spark reads them
        del kinds["TIMESTAMP"]
    ddl = [(each["name"], kinds.get(each["type"], "string")) for each in columns]
    found = {"schema": ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in ddl)}
    if separator != ",":
        found["sep"] = separator
    if not header:
        found["header"] = "false"
    return found


def _time_column(columns: dict[str, tuple[str, int]], connection) -> tuple[str, str | None]:
    for name, (kind, _) in columns.items():
        if kind.startswith("TIMESTAMP"):
            return name, None
    for name, (kind, _) in columns.items():
        if kind == "VARCHAR" and _TIME_NAME.search(name):
            bad = connection.sql(
                f"SELECT count(*) FROM sample WHERE try_cast({_sql(name)} AS TIMESTAMP) IS NULL"
            ).fetchall()[0][0]
            if not bad:
                return name, None
    for name, (kind, _) in columns.items():
        if kind == "BIGINT" and _TIME_NAME.search(name):
            newest = connection.sql(f"SELECT max({_sql(name)}) FROM sample").fetchall()[0][0] or 0
            for unit, least in (("ns", 10**17), ("us", 10**14), ("ms", 10**11), ("s", 10**8)):
                if newest >= least:
                    return name, unit
    for name, (kind, _) in columns.items():
        if kind == "DATE":
            return name, None
    there = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    raise SourceError(f"no column looks like an event time; there are {there}")


def _span_us(connection, time: str, unit: str | None) -> int:
    column = _sql(time)
    if unit is None:
        column = f"{column}::TIMESTAMP"
        text = f"SELECT epoch_us(max({column})) - epoch_us(min({column})) FROM sample"
        return int(connection.sql(text).fetchall()[0][0] or 0)
    factor = {"ns": 0.001, "us": 1, "ms": 1_000, "s": 1_000_000}[unit]
    span = connection.sql(f"SELECT max({column}) - min({column}) FROM sample").fetchall()[0][0]
    return int((span or 0) * factor)


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
    return text if plain and text.lower() not in ("true", "false", "null") else f'"{text}"'


def _sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def in_select(name: str) -> str:
    """As one would write it: in quotes only where it must be."""
    import duckdb

    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) is not None
    words = "SELECT count(*) FROM duckdb_keywords() WHERE keyword_name = $1"
    is_word = duckdb.connect().sql(words, params=[name]).fetchall()[0][0]
    return name if plain and not is_word else _sql(name)
