# ruff: noqa: S608 - statements are what this file is made of
"""Random statements of a world, each with what is true of its answer."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from muntin.times import instant_text, instant_us
from tests.pipeline.support import SECOND
from tests.truth import oracle
from tests.truth.oracle import Chances, Row
from tests.truth.world import BEGIN, KEYS, PANE, SKETCHES, STANDING, Events, Span, World

Said = dict[str, Any]
"""An answer as `Result.to_dict` has it, and every server."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A window clause."""

    text: str
    kind: str
    span: Span | None = None
    """The panes that it means, where they are always the same."""
    panes: int = 0
    """Of LAST."""

    def asked(self, world: World) -> Span | None:
        """The panes that it means now, where that does not depend on what is held."""
        if self.kind == "last":
            until = (world.newest or BEGIN) // PANE * PANE + PANE
            return until - self.panes * PANE, until
        return self.span


@dataclass(frozen=True, slots=True)
class Item:
    """A FROM item: of the matrix by a key, its totals (None), or of a sketch."""

    source: str
    text: str
    clause: Clause
    key: tuple[str, ...] | None = None
    names: frozenset[str] | None = frozenset()
    """Indicators that the statement reads; None: all that there are."""

    def reads(self, world: World) -> frozenset[str]:
        return frozenset(world.indicators) if self.names is None else self.names

    @property
    def whole(self) -> str:
        return f"{self.text} {self.clause.text}"


@dataclass(frozen=True, slots=True)
class Statement:
    """What to ask, and how to look at the answer's rows: given the events of each item."""

    text: str
    items: tuple[Item, ...]
    check: Callable[[Said, Sequence[Events]], None]
    exact: bool | Callable[[Sequence[Events]], bool] = True
    """Whether its answer can be exact; of given events it is."""


def clause(world: World, name: str) -> Clause:
    random = world.random
    kind = random.choice(["all", "last", "range", "range", "window", "newest", "open"])
    if kind == "last":
        length = random.randint(1, 40)
        spelled = random.choice([f"'{length * 10} s'", f"'{length * 10_000} ms'"])
        return Clause(f"FOR LAST {spelled}", kind, panes=length)
    if kind == "range":
        start = BEGIN + random.randint(-3, ((world.newest or BEGIN) - BEGIN) // PANE + 1) * PANE
        end = start + random.randint(1, 30) * PANE
        if random.random() < 0.3:  # not whole panes: those that it touches are meant
            start, end = start + random.randint(0, PANE - 1), end + random.randint(0, PANE - 1)
        text = f"FOR '{_spelled(random, start)}' TO '{_spelled(random, end)}'"
        return Clause(text, kind, (start // PANE * PANE, -(-end // PANE) * PANE))
    if kind in ("window", "newest"):
        closed = world.ledger.windows(name)
        if closed and kind == "newest":
            return Clause("FOR WINDOW LAST", kind)
        if closed:
            window = random.choice(closed)
            text = f"FOR WINDOW '{_spelled(random, window.start)}'"
            return Clause(text, kind, (window.start, window.end))
    return Clause("", "open") if kind == "open" else Clause("FOR ALL", "all")


def _spelled(random: Random, at: int) -> str:
    """An instant, now and then in another zone."""
    hours = random.choice([None, None, 5.5, -8, 14])
    if hours is None:
        return str(instant_text(at))
    zone = dt.timezone(dt.timedelta(hours=hours))
    return (
        (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=at))
        .astimezone(zone)
        .isoformat()
    )


def statement(world: World, chances: Chances) -> Statement:
    """A random one."""
    random = world.random
    if random.random() < 0.45:
        return _of_sketch(world, random.choice(world.names[1:]), chances)
    made = random.choice(
        [_plain, _plain, _worked_out, _worked_out, _by_steps, _two, _mixed, _closed, _trend]
    )
    return made(world)


def item_of_matrix(world: World) -> Item:
    key = world.random.choice([*world.keys, None])
    name = "m" if key is None else f"m({', '.join(key)})"
    return Item("m", name, clause(world, "m"), key, None)


def _plain(world: World) -> Statement:
    """All columns of one item, or some, which needs no SQL."""
    random = world.random
    item = item_of_matrix(world)
    if random.random() < 0.3:
        return _listed(world, item, None)
    columns = [*(item.key or ()), "count", *world.indicators]
    columns = random.sample(columns, random.randint(1, len(columns)))
    names = frozenset(world.indicators) & set(columns)
    return _listed(world, replace(item, names=names), columns)


def _listed(world: World, item: Item, listed: list[str] | None) -> Statement:
    def check(said: Said, events: Sequence[Events]) -> None:
        columns = listed or [*(item.key or ()), "count", *world.indicators]
        table = oracle.matrix_table(world, events[0], item.key).select(columns)
        assert said["columns"] == columns
        assert by_row(said["rows"]) == by_row(rows_of(table))
        if len(world.events) and said["rows"]:
            assert said["types"] == [str(kind) for kind in table.schema.types], said["types"]

    return Statement(f"SELECT {', '.join(listed or '*')} FROM {item.whole}", (item,), check)


def _by_steps(world: World) -> Statement:
    """The rows of each step of a window."""
    item = item_of_matrix(world)
    step = world.random.choice([10, 20, 50, 60, 120, 700]) * SECOND
    text = f"{item.clause.text or 'FOR OPEN'} EVERY '{step} us'"
    item = replace(item, clause=replace(item.clause, text=text))

    def check(said: Said, events: Sequence[Events]) -> None:
        rows, (own,) = [], events
        span = span_of(said["windows"][0]) or (0, 0)
        for at in range(span[0] // step * step, span[1], step):
            start, end = max(at, span[0]), min(at + step, span[1])
            there = own.take((own.time >= start) & (own.time < end))
            if len(there):
                ends = [instant_text(start), instant_text(end)]
                table = oracle.matrix_table(world, there, item.key)
                rows += [[*ends, *row] for row in rows_of(table)]
        assert by_row(said["rows"]) == by_row(rows), (said["rows"][:3], rows[:3])

    return Statement(f"SELECT * FROM {item.whole}", (item,), check)


def _worked_out(world: World) -> Statement:
    """Expressions, filters, groups and order over one item."""
    random = world.random
    item = item_of_matrix(world)
    keys = item.key or ()
    parts = ["count", "i", "x", "i / count", "x - i", "coalesce(i, 0) + count", "-i", "abs(x)",
             "CASE WHEN i > 0 THEN count ELSE 0 END", "count BETWEEN 2 AND 5"]  # fmt: skip
    parts += ["j", "coalesce(j, -1)", "j / i"] if "j" in world.since else []
    parts += ["upper(k)", "k || '!'", "k IS NULL", "k IN ('a', 'b')"] if "k" in keys else []
    parts += ["n + 1", "n::VARCHAR", "i / n"] if "n" in keys else []
    if "h" in keys:
        parts += ["hour(h)", "h::DATE", "h::VARCHAR", "date_trunc('hour', h)", "epoch(h)",
                  "strftime(h, '%Y-%m-%d %H:%M %A')", "h + INTERVAL 1 DAY"]  # fmt: skip
    tests = ["count > 2", "i >= 0", "x IS NOT NULL", "i <> 3 OR x < 2"]
    tests += ["k < 'c'"] if "k" in keys else []
    tests += (
        ["hour(h) < 9", f"h < TIMESTAMP '{_naive(BEGIN + 7200 * SECOND)}'"] if "h" in keys else []
    )
    where = f" WHERE {random.choice(tests)}" if random.random() < 0.5 else ""
    if random.random() < 0.4:
        by = random.choice([*parts[-3:], "count % 2"])
        totals = ["sum(count)", "count(*)", "min(i)", "max(x)", "sum(x)", "sum(i)", "count(i)",
                  "any_value(count) IS NULL"]  # fmt: skip
        listed = [by, *random.sample(totals, random.randint(1, 3))]
        tail = f"{where} GROUP BY ALL" + random.choice(["", " HAVING sum(count) > 3"])
    else:
        listed, tail = random.sample(parts, random.randint(1, 4)), where
        if random.random() < 0.2:
            over = ", ".join([*keys, "count", *world.indicators])
            listed.append(f"row_number() OVER (ORDER BY {over})")
    names = ", ".join(f"{part} AS c{at}" for at, part in enumerate(listed))
    order = ", ".join(str(at + 1) for at in range(len(listed)))
    tail += f" ORDER BY {order} LIMIT {random.randint(1, 9)}" if random.random() < 0.4 else ""
    text = f"SELECT {names} FROM {{0}}{tail}"
    read = frozenset(world.indicators) & _words(names + tail)
    return _by_sql(world, text, [replace(item, names=read)])


def _two(world: World) -> Statement:
    """One key in two windows, or two keys, side by side."""
    random = world.random
    key = random.choice(world.keys)
    name = f"m({', '.join(key)})"
    items = [Item("m", name, clause(world, "m"), key, frozenset({"i"})) for _ in range(2)]
    join = random.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
    shown = ", ".join(key)
    text = f"SELECT {shown}, a.count, b.count AS other, a.i - b.i AS more"
    text += f" FROM {{0}} {join} {{1}} USING ({shown})"
    if random.random() < 0.4:
        text = f"SELECT {shown}, count, i FROM {{0}} UNION ALL SELECT {shown}, count, i FROM {{1}}"
    return _by_sql(world, text, items)


def _mixed(world: World) -> Statement:
    """The totals of matrix and sketch in one statement."""
    other = "s" if "s" in world.names else "m"
    items = [
        Item(name, name, clause(world, name), None, frozenset({"i"} if name == "m" else {"w"}))
        for name in ("m", other)
    ]
    sums = "b.w" if other == "s" else "b.i"
    return _by_sql(
        world, f"SELECT a.count, a.i, b.count AS c, {sums} AS w FROM {{0}}, {{1}}", items
    )


def _closed(world: World) -> Statement:
    """Closed windows and what they hold, and times in all their forms."""
    random = world.random
    name = random.choice(world.names)
    shown = ["window_start", "window_end", "revision", "events", "late", "reason", "overflowed",
             "window_start::VARCHAR AS text", "date_trunc('hour', window_end) AS hours",
             "strftime(window_start, '%Y-%m-%dT%H:%M:%S') AS form", "hour(window_end) AS hour",
             "window_end - window_start AS length", "epoch(window_start) AS seconds",
             "window_start::DATE AS day"]  # fmt: skip
    listed = random.sample(shown, random.randint(1, 5))

    def check(said: Said, _: Sequence[Events]) -> None:
        rows = []
        for window in world.ledger.windows(name, limit=100_000):
            events = world.among((window.start, window.end))
            rows.append([_of_window(world, window, events, part) for part in listed])
        assert by_row(said["rows"]) == by_row(rows), (said["rows"][:3], rows[:3])
        assert said["exact"] is True
        assert said["bounds"] == {}

    return Statement(f"SELECT {', '.join(listed)} FROM windows({name})", (), check)


def _trend(world: World) -> Statement:
    """What the standing query gave, window by window."""
    newest = world.random.random() < 0.2

    def check(said: Said, _: Sequence[Events]) -> None:
        if world.retention:  # what is dropped is revised no more
            return
        rows, exact = [], True
        for window in world.ledger.windows("m", limit=1 if newest else 100_000, newest_first=True):
            events = world.among((window.start, window.end))
            known = world.closed[window.start]  # its result has the columns of then
            exact &= not oracle.uncounted(world, events, KEYS[0], known)
            front = [instant_text(window.start), window.revision]
            table = oracle.matrix_table(world, events, KEYS[0])
            rows += [[*front, *row[:3], None] for row in rows_of(table)]
        assert by_row(said["rows"]) == by_row(rows), (said["rows"][:3], rows[:3])
        assert said["exact"] == exact
        assert ("uncounted" in {note["code"] for note in said["notes"]}) != exact

    text = "SELECT window_start, revision, k, count, i, error FROM trend(by_m)"
    return Statement(f"{text} FOR WINDOW LAST" if newest else text, (), check)


def _of_window(world: World, window: Any, events: Events, part: str) -> Any:
    start = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=window.start)
    end = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=window.end)
    return {
        "window_start": instant_text(window.start),
        "window_end": instant_text(window.end),
        "revision": window.revision,
        "events": len(events),
        "late": int(events.late.sum()),
        "reason": window.reason,
        "overflowed": window.overflowed,
        "text": start.isoformat(" "),
        "hours": f"{end:%Y-%m-%dT%H:00:00Z}",
        "form": f"{start:%Y-%m-%dT%H:%M:%S}",
        "hour": end.hour,
        "length": f"PT{(window.end - window.start) // SECOND}S",
        "seconds": window.start / SECOND,
        "day": f"{start:%Y-%m-%d}",
    }[part.rpartition(" AS ")[2]]


def _of_sketch(world: World, name: str, chances: Chances) -> Statement:
    random = world.random
    asked = [*random.sample(world.items, min(3, len(world.items))), "not there"]
    items = ", ".join(f"'{item}'" for item in asked)
    if name == "s" and random.random() < 0.3:
        item = Item("s", "s", clause(world, "s"))

        def totals(said: Said, events: Sequence[Events]) -> None:
            weights = [w for w in events[0].columns["w"] if w is not None]
            none = None if not len(events[0]) else 0
            assert said["rows"] == [[len(events[0]), sum(weights) if len(events[0]) else none]]

        return Statement(f"SELECT count, w FROM {item.whole}", (item,), totals)
    text, look = _question(random, name, items, chances)
    return _looked_at(Item(name, text, clause(world, name)), look)


def _looked_at(item: Item, look: Look) -> Statement:
    name = item.source

    def check(said: Said, events: Sequence[Events]) -> None:
        rows = [dict(zip(said["columns"], row, strict=True)) for row in said["rows"]]
        _check_bounds(name, said, events[0])
        if len(events[0]) or rows:
            look(events[0], rows, said["bounds"].get(name, {}))

    def exact(events: Sequence[Events]) -> bool:
        return bool(len(events[0])) and oracle.all_listed(name, events[0])

    return Statement(f"SELECT * FROM {item.whole}", (item,), check, exact)


Look = Callable[[Events, list[Row], dict[str, Any]], None]


def looks(name: str, k: int, chances: Chances) -> dict[str, Look]:
    """How to look at the rows of each question that a sketch can be asked."""
    column = {"q": "x", "qk": "x"}.get(name, "u")

    def split(check: Callable[..., None]) -> Look:
        def look(events: Events, rows: list[Row], _: Any) -> None:
            check(name, events, rows, chances)
            oracle.check_listed(name, events, rows, column)

        return look

    return {
        "quantiles": split(oracle.check_quantiles),
        "ranks": split(oracle.check_ranks),
        "distinct": split(oracle.check_distinct),
        "frequency": lambda events, rows, _: oracle.check_weights(name, events, rows, chances),
        "contains": lambda events, rows, _: oracle.check_members(events, rows, chances),
        "top_k": lambda events, rows, _: oracle.check_heaviest(name, events, rows, k, chances),
        "s": lambda events, rows, bounds: oracle.check_sketched(
            events, rows, bounds.get("confidence", 1.0), chances
        ),
    }


def _question(random: Random, name: str, items: str, chances: Chances) -> tuple[str, Look]:
    """A FROM item that asks a sketch something, and how to look at its rows."""
    k = random.randint(1, 6)
    fractions = ", ".join(random.sample(["0.0", "0.25", "0.5", "0.75", "1.0"], 3))
    points = ", ".join(random.sample(["0", "0.25", "3", "-1", "16.5"], 2))
    ordered = [f"quantiles({name}, {fractions})", f"ranks({name}, {points})"]
    counted = [f"frequency({name}, {items})", f"top_k({name}, {k})"]
    texts = {
        "s": ["s(u)"], "d": ["distinct(d)"], "dk": ["distinct(dk)"], "q": ordered, "qk": ordered,
        "t": counted, "f": counted, "fc": counted, "p": [*ordered, f"contains(p, {items})"],
    }  # fmt: skip
    text = random.choice(texts[name])
    return text, looks(name, k, chances)[text.partition("(")[0]]


def standing(world: World, name: str, span: Span, chances: Chances) -> Statement:
    """What a world's standing query over a summary gave for a closed window."""
    closed = Clause("", "closed", span)
    if name == "m":
        return _listed(world, Item("m", "m(k)", closed, KEYS[0], None), None)
    text = STANDING[name].partition("FROM ")[2]
    look = looks(name, int(text[-2]) if "top_k" in text else 0, chances)[text.partition("(")[0]]
    return _looked_at(Item(name, text, closed), look)


def _check_bounds(name: str, said: Said, events: Events) -> None:
    if not len(events):
        return
    bounds = said["bounds"][name]
    if name == "s":
        is_list = len(set(events.columns["u"])) <= 9  # 3/4 of width x depth
        assert bounds == pytest.approx(
            {"relative": 0.0, "confidence": 1.0}
            if is_list
            else {"relative": math.e / 4, "confidence": 1 - math.exp(-3)}
        )
        return
    assert bounds["nulls"] == oracle.nulls(name, events) or name == "p", bounds
    if name == "p":
        assert bounds["nulls"] == sum(u is None for u in events.columns["u"]), bounds
        ranked = len(oracle._ranked("p", events))
        assert bounds["unranked"] == len(events) - bounds["nulls"] - ranked, bounds
    assert name != "t" or bounds["confidence"] == 1.0
    if "by" in SKETCHES[name]:
        assert bounds["keys"] <= SKETCHES[name]["limit"], bounds


_DIVISOR = re.compile(r"/ (\w+)")
_DUCKDB = duckdb.connect(":memory:", config={"threads": "1"})
_DUCKDB.execute("SET TimeZone = 'UTC'")


def _by_sql(world: World, text: str, items: list[Item]) -> Statement:
    """A statement whose FROM items are tables that are known: what DuckDB makes of these."""
    names = ("a", "b")
    several = len(items) > 1 and "UNION" not in text
    shown = [item.whole for item in items]
    if several:
        shown = [f"{item} AS {name}" for item, name in zip(shown, names, strict=True)]

    def check(said: Said, events: Sequence[Events]) -> None:
        for name, item, own in zip(names, items, events, strict=False):
            _DUCKDB.register(name, _table(world, item, own))
        plain = _DIVISOR.sub(r"/ nullif(\1, 0)", text)  # division by zero is null
        found = _DUCKDB.sql(plain.format(*names)).to_arrow_table()
        expected = rows_of(found)
        if "ORDER BY" in text.rpartition(")")[2]:
            assert said["rows"] == expected, (said["rows"], expected)
        assert by_row(said["rows"]) == by_row(expected), (said["rows"], expected)

    return Statement(text.format(*shown), tuple(items), check)


def _table(world: World, item: Item, events: Events) -> pa.Table:
    if item.source == "m":
        table = oracle.matrix_table(world, events, item.key)
    else:
        weights = [w for w in events.columns["w"] if w is not None]
        total = sum(weights) if len(events) else None
        table = pa.table({"count": [len(events)], "w": pa.array([total], pa.int64())})
    return _without_zones(table)


def _without_zones(table: pa.Table) -> pa.Table:
    """Times as statements see them: UTC, and no zone said."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.timestamp("us")))
    return table


def rows_of(table: pa.Table) -> list[list[Any]]:
    """Rows as JSON values, made apart from the package's own."""
    columns = [[_json(value) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _json(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text.rstrip("0").rstrip(".") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if value is not None and not isinstance(value, bool | int | float | str):
        return int(value)  # Decimal: sums of integers
    return value


def by_row(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Rows in an order that does not depend on how they came; 1 and 1.0 are one, and 0 and -0.

    Of 0 and -0, which DuckDB orders as equals, a LIMIT keeps the one that came first.
    """
    return sorted(repr([v + 0.0 if type(v) in (int, float) else v for v in row]) for row in rows)


def _naive(at: int) -> str:
    return str(instant_text(at)).removesuffix("Z").replace("T", " ")


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def span_of(window: dict[str, Any]) -> Span | None:
    """What a window says that it covers."""
    covered = window["covered"]
    return None if covered is None else (instant_us(covered["start"]), instant_us(covered["end"]))


__all__ = ["KEYS", "Clause", "Item", "Said", "Statement", "clause", "span_of", "statement"]
