"""Statements made by a grammar of all that is allowed, and by mutation of those.

The grammar does not know types: much of what it makes is refused. What is looked for is a third
outcome beside an answer and a `SelectError`.
"""

from __future__ import annotations

import io
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable

import pyarrow as pa

from muntin.errors import MuntinError, SelectError
from muntin.select.allowed import AGGREGATES, FUNCTIONS, NUMBERS, TIME, WINDOW_FUNCTIONS
from muntin.select.engine import Engine
from muntin.select.result import Result
from muntin.server.answering import json_pieces
from muntin.server.postgres.rows import BINARY, TEXT, data_rows

CONSTANTS = (
    "NULL", "TRUE", "FALSE", "0", "1", "-1", "2", "0.5", "-0.0", "1e308", "1e-320", "1e999",
    "127", "2147483647", "-2147483648", "9223372036854775807", "-9223372036854775808",
    "9223372036854775808", "18446744073709551616", "1" + "0" * 23, "9" * 38, "9" * 39, "1" * 54,
    "170141183460469231731687303715884105727", "0.1" + "0" * 37 + "1", "." + "9" * 60, "1e38",
    "''", "'a'", "'1'", "'nan'", "'inf'", "'1e400'", "'é'", "'😀'", "'%'", "'2026-01-31'",
    "'2026-01-01 10:00:00'", "'infinity'", "'-infinity'", "'epoch'", "'24:00'", "'24:00:00'",
    "'294247-01-10 04:00:54.775806'", "'290309-12-22 (BC) 00:00:00'", "'5881580-07-10'",
    "'10000-01-01'", "'0001-01-01 (BC)'", "'day'", "'century'", "'month'", "'hour'", "'%Y-%m-%d'",
    "'%f%Z%z%j%U%g'", "'UTC'", "'P1D'", "'1 year'", "INTERVAL '1 day'", "INTERVAL 1 MONTH",
    "INTERVAL '9223372036854775807' MICROSECOND", "INTERVAL '178000000 years'",
    "INTERVAL '-2147483648 months'", "INTERVAL '2147483647 days'", "DATE '2026-01-31'",
    "DATE '5881580-07-10'", "DATE '0044-03-15 (BC)'", "TIMESTAMP '2026-01-31 10:00:00.123456'",
    "TIMESTAMP '294247-01-10'", "TIMESTAMP 'infinity'", "DATE '-infinity'", "TIME '24:00'",
    "TIME '23:59:59.999999'", "now()", "current_date", "current_timestamp", "pi()",
)  # fmt: skip
TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
    "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL(38,38)", "DECIMAL(38,0)", "DECIMAL(4,2)",
    "DECIMAL", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "INTERVAL",
)  # fmt: skip
OPERATORS = (
    *"+ - * / // % ^ || = <> < <= > >= AND OR".split(),  # noqa: SIM905
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
)
FUNCTION_NAMES = tuple(sorted(FUNCTIONS))
SOURCES = (
    ("orders", ("count", "served", "time", "paid", "tip", "debt")),
    ("orders(driver)", ("driver", "count", "served", "tip", "X1", "Y2")),
    ("orders(area)", ("area", "count", "tip", "debt")),
    ("orders(driver, area)", ("driver", "area", "count", "tip")),
    ("orders(driver) FOR ALL", ("driver", "count", "paid")),
    ("vector 1.1, vector 3.*", ("X1.Y1", "X3.Y2", "count")),
    ("trend(busiest)", ("window_start", "window_end", "revision", "driver", "orders")),
    ("windows(orders)", ("window_start", "reason", "overflowed", "events")),
)
FRAMES = (
    "", "ROWS 1 PRECEDING", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 9223372036854775807 PRECEDING AND 2 FOLLOWING",
    "RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW",
)  # fmt: skip


_WHOLE, _TEXT, _TIME, _TRUTH, _SPAN = "nstbi"
_OF_KIND = {
    _WHOLE: [c for c in CONSTANTS if c[0] in "-.0123456789"] + ["count", "tip", "paid", "area"],
    _TEXT: [c for c in CONSTANTS if c[0] == "'"] + ["driver"],
    _TIME: [c for c in CONSTANTS if c[:4] in ("DATE", "TIME", "now(", "curr")] + ["window_start"],
    _TRUTH: ["TRUE", "FALSE", "overflowed"],
    _SPAN: [c for c in CONSTANTS if c.startswith("INTERVAL")],
}
_TYPED = {
    _WHOLE: [
        *(f"{name}({{n}})" for name in sorted(NUMBERS - {"pi", "power", "pow", "atan2"})),
        *(f"{name}({{n}})" for name in sorted(AGGREGATES)),
        *(f"{name}({{n}}, {{n}})" for name in ("quantile", "quantile_disc", "corr", "regr_slope")),
        *(f"{name}({{n}}) OVER (ORDER BY {{n}})" for name in sorted(WINDOW_FUNCTIONS)),
        *(f"{name}() OVER (ORDER BY {{n}})" for name in ("rank", "row_number", "cume_dist")),
        *(f"({{n}} {operator} {{n}})" for operator in ("+", "-", "*", "/", "//", "%", "^")),
        *(f"{name}({{n}}, {{n}})" for name in ("power", "round", "atan2", "greatest", "nullif")),
        *(f"{name}({{t}})" for name in ("year", "month", "day", "epoch", "epoch_us", "epoch_ms")),
        *(f"{name}({{t}})" for name in ("week", "isodow", "dayofyear", "quarter", "second")),
        *(f"{name}({{s}})" for name in ("length", "strlen")),
        "date_diff('hour', {t}, {t})", "date_part('century', {t})", "strpos({s}, {s})",
        "CASE WHEN {b} THEN {n} ELSE {n} END", "coalesce({n}, {n})", "{n}::DECIMAL(38, 10)",
        "{n}::HUGEINT", "{n}::UTINYINT", "{s}::DOUBLE", "{s}::BIGINT", "count(*)", "sum({n})",
        "date_part('epoch', {i})", "({t}::DATE - {t}::DATE)",
    ],
    _TEXT: [
        *(f"{name}({{s}})" for name in ("lower", "upper", "reverse", "trim", "ltrim")),
        *(f"{name}({{s}}, {{n}})" for name in ("substr", "left", "right")),
        *(f"{name}({{t}})" for name in ("dayname", "monthname")), "({s} || {s})",
        "split_part({s}, {s}, {n})", "regexp_extract({s}, '(a|b)', 1)", "{n}::VARCHAR",
        "{t}::VARCHAR", "{i}::VARCHAR", "concat({s}, {n}, {t})", "max({s})", "min({s})",
        "strftime({t}, '%Y-%m-%d %f %Z')", "first({s})", "arg_max({s}, {n})",
    ],
    _TIME: [
        "({t} + {i})", "({t} - {i})", "date_trunc('month', {t})", "last_day({t})",
        "time_bucket({i}, {t})", "to_timestamp({n})", "make_date({n}::INT, {n}::INT, {n}::INT)",
        "make_timestamp({n}::BIGINT, 1, 1, {n}::BIGINT, 0, {n})", "make_timestamp({n}::BIGINT)",
        "{s}::TIMESTAMP", "{s}::DATE", "{s}::TIME", "{t}::TIMESTAMP", "{t}::DATE", "{t}::TIME",
        "max({t})", "min({t}::TIMESTAMP)", "TRY_CAST({s} AS TIMESTAMP)", "coalesce({t}, now())",
        "last_value({t}) OVER (ORDER BY {t})", "mode({t})", "median({t})", "avg({t})",
    ],
    _TRUTH: [
        *(f"({{n}} {operator} {{n}})" for operator in ("=", "<", ">=", "<>")), "({t} < {t})",
        "({s} = {s})", "({s} LIKE '%a_%b')", "contains({s}, {s})", "isfinite({t})", "({b} AND {b})",
        "({n} IS NULL)", "({n} BETWEEN {n} AND {n})", "({s} IN ({s}, {s}))", "(NOT {b})",
        "regexp_matches({s}, '^(a+)+$')", "isnan({n}::DOUBLE)", "bool_or({b})",
        "starts_with({s}, {s})",
    ],
    _SPAN: [
        "({t} - {t})", "({i} + {i})", "({i} * {n})", "(- {i})", "{s}::INTERVAL",
        "({t}::TIMESTAMP - {t})",
        "sum({i})", "max({i})", "(TIME '24:00' - {i})", "avg({i})",
    ],
}  # fmt: skip


_KINDS = "nnnssttbi"
_PLACE = re.compile(r"\{([nstbi])\}")


class Maker:
    """Makes one statement after the other from a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._columns: tuple[str, ...] = ()
        self._made: list[str] = []

    def statement(self) -> str:
        text = self._mutated() if self._made and self._chance.random() < 0.3 else self._select(2)
        if len(self._made) < 500:
            self._made.append(text)
        else:
            self._made[self._chance.randrange(500)] = text
        return text

    def _pick(self, *options: Callable[[], str]) -> str:
        return self._chance.choice(options)()

    def _expression(self, depth: int) -> str:
        chance = self._chance
        if chance.random() < 0.9:
            return self._typed(chance.choice(_KINDS), depth)
        if depth <= 0 or chance.random() < 0.15:
            if self._columns and chance.random() < 0.4:
                return chance.choice(self._columns)
            return chance.choice(CONSTANTS)
        inner = depth - 1

        def one() -> str:
            return self._expression(inner)

        return self._pick(
            lambda: f"({one()} {chance.choice(OPERATORS)} {one()})",
            lambda: f"({one()} {chance.choice(OPERATORS)} {one()})",
            lambda: f"{one()}::{chance.choice(TYPES)}",
            lambda: f"TRY_CAST({one()} AS {chance.choice(TYPES)})",
            lambda: self._call(inner),
            lambda: self._call(inner),
            lambda: self._call(inner),
            lambda: f"CASE WHEN {one()} THEN {one()} ELSE {one()} END",
            lambda: f"(- {one()})",
            lambda: f"({one()} BETWEEN {one()} AND {one()})",
            lambda: f"({one()} IN ({one()}, {one()}))",
            lambda: f"({one()} IS NULL)",
            lambda: f"({self._select(depth - 2)})",
        )

    def _typed(self, kind: str, depth: int) -> str:
        chance = self._chance
        if chance.random() < 0.02:
            kind = chance.choice(_KINDS)
        if depth <= 0 or chance.random() < 0.2:
            known = [c for c in _OF_KIND[kind] if not c.isidentifier() or c in self._columns]
            return chance.choice(known or CONSTANTS)
        form = chance.choice(_TYPED[kind])
        parts = _PLACE.split(form)
        for at in range(1, len(parts), 2):
            parts[at] = self._typed(parts[at], depth - 1)
        return "".join(parts)

    def _call(self, depth: int) -> str:
        chance = self._chance
        name = chance.choice(sorted(TIME) if chance.random() < 0.3 else FUNCTION_NAMES)
        count = chance.choice((0, 1, 1, 1, 2, 2, 3, 6))
        call = f"{name}({', '.join(self._expression(depth) for _ in range(count))})"
        if chance.random() < (0.8 if name in WINDOW_FUNCTIONS else 0.1):
            order = f"ORDER BY {self._expression(0)}" if chance.random() < 0.7 else ""
            call += f" OVER ({order} {chance.choice(FRAMES)})"
        elif chance.random() < 0.05:
            call += f" FILTER (WHERE {self._expression(depth)})"
        return call

    def _source(self) -> tuple[str, tuple[str, ...]]:
        chance = self._chance
        if chance.random() < 0.6:
            return chance.choice(SOURCES)
        function, columns, argument = chance.choice(
            (
                ("quantiles(delays", ("q", "value", "lower", "n"), self._constant),
                ("ranks(delays", ("x", "rank", "confidence"), self._constant),
                ("frequency(calls", ("item", "value", "upper"), self._constant),
                ("contains(seen", ("item", "present"), self._constant),
                ("top_k(calls", ("item", "value", "guaranteed"), self._constant),
            )
        )
        arguments = "".join(f", {argument()}" for _ in range(chance.randint(0, 3)))
        return f"{function}{arguments})", columns

    def _constant(self) -> str:
        return self._chance.choice((*CONSTANTS[:36], "0.5", "0.99", "'d1'", "4"))

    def _select(self, depth: int) -> str:
        chance, before = self._chance, self._columns
        source = ""
        self._columns = ()
        if chance.random() < 0.8:
            source, self._columns = self._source()
        columns = [
            self._expression(depth) for _ in range(1 if depth < 2 else chance.choice((1, 2)))
        ]
        text = f"SELECT {', '.join(columns)}"
        if source:
            text += f" FROM {source}"
            text += f" WHERE {self._expression(depth)}" if chance.random() < 0.2 else ""
            text += f" GROUP BY {self._expression(1)}" if chance.random() < 0.15 else ""
            text += f" HAVING {self._expression(1)}" if chance.random() < 0.05 else ""
            text += f" ORDER BY {self._expression(1)}" if chance.random() < 0.15 else ""
            text += " LIMIT 3" if chance.random() < 0.1 else ""
        if depth == 2 and chance.random() < 0.1:
            text += f" UNION ALL SELECT {', '.join(self._expression(1) for _ in columns)}"
        self._columns = before
        return text

    def _mutated(self) -> str:
        chance = self._chance
        words = chance.choice(self._made).replace("(", " ( ").replace(")", " ) ").split(" ")
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(words))
            other = chance.choice(self._made).replace("(", " ( ").replace(")", " ) ").split(" ")
            change = chance.random()
            if change < 0.3:
                words[at] = chance.choice(CONSTANTS)
            elif change < 0.5:
                words[at] = chance.choice(FUNCTION_NAMES)
            elif change < 0.8:
                words[at] = chance.choice(other)
            else:
                words.insert(at, chance.choice(other))
        return " ".join(words)


def outcome(engine: Engine, text: str) -> str:
    """ "answered", or the code of the error. Anything else is raised.

    An answer is written out in every form that there is.
    """
    try:
        result = engine.sql(text, now=1_767_323_045_123_456)
    except SelectError as error:
        found = error
    else:
        write_out(result)
        return "answered"
    assert found.message
    assert found.code != "internal", str(found)
    assert 0 <= found.position <= len(text)
    return found.code


def write_out(result: Result) -> None:
    """In every form in which an answer leaves: also as servers send it."""
    plain = json.loads(result.to_json())
    assert plain["columns"] == result.columns
    assert len(plain["rows"]) == len(result)
    for row in result.rows:
        for value in row:
            assert value is None or isinstance(value, bool | int | float | str), value
    sent = b"".join(json_pieces(result))
    assert json.loads(sent) == plain
    for form in (TEXT, BINARY):
        for _ in data_rows(result.table, [form]):
            pass
    assert isinstance(result.to_text(), str)
    assert isinstance(result.to_csv(), str)
    sink = io.BytesIO()
    table = result.to_arrow()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().schema == table.schema
    table.to_pandas()
    table.validate(full=True)


def run(
    engine: Engine, seed: int, count: int, seconds_max: float
) -> tuple[Counter[str], list[tuple[str, BaseException]]]:
    """Outcomes of so many statements, and those that had none."""
    maker, found = Maker(seed), Counter[str]()
    bad: list[tuple[str, BaseException]] = []
    for _ in range(count):
        text = maker.statement()
        started = time.process_time()  # whatever else the machine does
        try:
            found[outcome(engine, text)] += 1
            took = time.process_time() - started
            if took > seconds_max:
                bad.append((text, TimeoutError(f"{took:.1f} s")))
        except BaseException as error:
            if isinstance(error, MuntinError | KeyboardInterrupt):
                raise
            bad.append((text, error))
    return found, bad
