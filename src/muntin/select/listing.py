"""`SHOW TABLES` and `DESCRIBE x`: what there is to ask, as rows like any other answer."""

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from muntin.errors import did_you_mean
from muntin.select.bind import MATRIX, keyed_items, named, show_key
from muntin.select.catalog import TREND_OWN, WINDOW_COLUMNS, QueryInfo, SummaryInfo, trend_columns
from muntin.select.functions import TABLE_FUNCTIONS, WITHOUT_WINDOWS
from muntin.select.places import Span, problem_at
from muntin.select.syntax import in_select
from muntin.times import instant_text

_SHOW = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*\Z", re.IGNORECASE)
_DESCRIBE = re.compile(
    r'\s*DESC(?:RIBE)?\s+(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>.+?))\s*;?\s*\Z',
    re.IGNORECASE | re.DOTALL,
)
_MOMENT = pa.timestamp("us", "UTC")
_TABLES = pa.schema(
    {name: _MOMENT if name in ("from", "to") else pa.string()
     for name in ("name", "kind", "keys", "indicators", "from", "to", "ask")}
)  # fmt: skip
_COLUMNS = pa.schema({name: pa.string() for name in ("ask", "column", "meaning")})
_MEANINGS = {
    "q": "fraction asked for", "x": "value asked for", "item": "item", "value": "answer",
    "lower": "lower bound", "upper": "upper bound", "confidence": "probability of the bounds",
    "n": "events with a value", "rank": "share of values at most x", "present": "may be there",
    "false_positive_rate": "how often present is wrong", "guaranteed": "surely among the k",
    "complete": "holds all events of the key", "other": "row of the keys beyond limit",
    "valid": "whether it holds", "as_of": "time it is of", "interval": "from batch to batch",
    "periodicity": "how often that interval came", "next_expected": "when it is due",
    "last_batch": "newest at that interval", "first_seen": "first at that interval",
    "interval_low": "least interval counted", "interval_high": "end of the intervals counted",
    "window_start": "start, UTC", "window_end": "end (excluded), UTC", "reason": "why it closed",
    "revision": "changes by late events", "overflowed": "a pane was beyond capacity",
    "events": "number of events", "late": "events that came late", "error": "why it failed",
}  # fmt: skip

ListedValue = str | int | None  # a text, or an instant in microseconds since 1970 UTC
Rows = Sequence[tuple[ListedValue, ...]]
SpanOf = Callable[[str], tuple[int, int] | None]


def example_item(info: SummaryInfo) -> str:
    """A FROM item that asks a summary, as an example."""
    if info.keys:
        return keyed_items(info)[0]
    usage = next((f.usage for f in TABLE_FUNCTIONS.values() if f.can_ask(info)), "<summary>")
    return usage.replace("<summary>", in_select(info.name))


def listed(
    text: str,
    summaries: Mapping[str, SummaryInfo],
    queries: Mapping[str, QueryInfo],
    columns_of: Callable[[QueryInfo], tuple[str, ...]],
    span_of: SpanOf,
) -> pa.Table | None:
    """The rows of SHOW TABLES or DESCRIBE; None for any other statement. `span_of` tells from where
    to where a summary is stored. Raises SelectError: DESCRIBE of a name that does not exist."""
    if _SHOW.match(text):
        rows = [_row(info, span_of) for info in summaries.values()]
        rows += [
            (n, "standing query", None, None, None, None, f"trend({in_select(n)})") for n in queries
        ]
        return _table(_TABLES, sorted(rows, key=lambda row: str(row[0])))
    found = _DESCRIBE.match(text)
    if found is None:
        return None
    part = "quoted" if found["quoted"] else "plain"
    name = found[part].replace('""', '"')
    info, query = named(name, summaries), named(name, queries)
    if info is not None:
        return _table(_COLUMNS, _of_summary(info, span_of))
    if query is not None:
        return _table(_COLUMNS, _of_query(query.name, columns_of(query)))
    place = Span(found.start(part), len(found[part]))
    remedy = did_you_mean(name, [*summaries, *queries])
    raise problem_at(
        text, place, f"no summary or standing query '{name[:64]}'", remedy, "unknown_name"
    )


def _row(info: SummaryInfo, span_of: SpanOf) -> tuple[ListedValue, ...]:
    keys = [*info.keys] or [(name,) for name in info.by]
    shown = ", ".join(map(show_key, keys))
    sums = ", ".join(info.indicators)
    span = span_of(info.name) or (None, None)
    return info.name, info.kind, shown or None, sums or None, *span, example_item(info)


def _of_summary(info: SummaryInfo, span_of: SpanOf) -> Rows:
    rows: list[tuple[ListedValue, ...]] = []
    span = span_of(info.name)
    if span is not None:
        start, end = map(instant_text, span)
        if info.kind in WITHOUT_WINDOWS:  # it takes no clause
            rows.append((example_item(info), None, f"of all from {start} to {end}"))
        else:
            rows.append((f"FOR '{start}' TO '{end}'", None, "all that is stored"))
    if info.kind == MATRIX:
        sums = [("count", "number of events")]
        sums += [(name, "sum over the events of a row") for name in info.indicators]
        if info.sketched:
            sums += [(f"{name}_lower", f"lower bound of {name}") for name, _ in sums]
        for key, way in zip(info.keys, keyed_items(info), strict=True):
            rows += [(way, name, "key") for name in key]
            rows += [(way, name, meaning) for name, meaning in sums]
    for function in TABLE_FUNCTIONS.values():
        if function.can_ask(info):
            way = function.usage.replace("<summary>", in_select(info.name))
            by = {*info.by, *info.parts}
            columns = function.all_columns(info)
            rows += [(way, n, "key" if n in by else _MEANINGS.get(n, "answer")) for n in columns]
    if info.kind in WITHOUT_WINDOWS:
        return rows
    way = f"windows({in_select(info.name)})"
    return rows + [(way, name, _MEANINGS[name]) for name in WINDOW_COLUMNS]


def _of_query(name: str, columns: Sequence[str]) -> Rows:
    way = f"trend({in_select(name)})"
    every = trend_columns(columns)
    return [(way, c, _MEANINGS[c] if c in TREND_OWN else "of the query") for c in every]


def _table(schema: pa.Schema, rows: Rows) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
