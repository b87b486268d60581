"""Plans that are shared by shape, and answers without DuckDB: the same as without either."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from select_catalogs import MemoryCatalog, catalog, matrix_of, segment_of

from muntin.errors import SelectError
from muntin.select import plan as planning
from muntin.select.catalog import SummaryInfo
from muntin.select.engine import Engine
from muntin.select.limits import Limits
from muntin.select.plan import Planner


def _catalog() -> MemoryCatalog:
    made = catalog()
    values = pa.array(np.random.default_rng(0).normal(size=5_000))
    delays = segment_of("quantiles", {"v": values}, value="v")
    others = segment_of("quantiles", {"v": pa.nulls(1)}, value="v")
    calls = segment_of("frequency", {"i": pa.array(["a", "b", "a", "c"])}, item="i")
    areas = segment_of("top_k", {"i": pa.array([1, 2, 2, 3])}, item="i")
    made.infos |= {
        "delays": SummaryInfo("delays", "quantiles"),
        "others": SummaryInfo("others", "quantiles"),
        "calls": SummaryInfo("calls", "frequency"),
        "areas": SummaryInfo("areas", "top_k"),
    }
    for window in ("open", "all", "last", "range", "window"):
        made.held |= {
            ("delays", window): delays,
            ("others", window): others,
            ("calls", window): calls,
            ("areas", window): areas,
        }
    return made


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine(_catalog())
    yield made
    made.close()


@pytest.fixture(scope="module")
def by_duckdb() -> Iterator[Engine]:
    """The same, but every statement goes to DuckDB and every text is planned from the start."""
    made = Engine(_catalog())
    planner = made._planner
    planner._with_constants = lambda *_: None  # type: ignore[method-assign]
    plan_of = planner.plan
    planner.plan = lambda *asked: replace(  # type: ignore[method-assign]
        plan_of(*asked), projected=None, narrowing=None
    )
    yield made
    made.close()


LISTS = ["*", "a.*", "q", "q, value", "value AS v, q", "a.value, upper AS lower", "value, value"]
LISTS += ["q, Q", "count(*)", "q + 1", "q, (SELECT max(q) FROM quantiles(delays, 0.2))", "1", "Y1"]
LISTS += [
    "X1.*, Y1",
    "sum Y1",
    "x, rank",
    "item, value, guaranteed",
    "X1, Y2",
    "driver, count",
    "count, count AS n",
]
ITEMS = ["quantiles(delays, {}) {} AS a", "quantiles(others, {}) {} a", "ranks(delays, {}) {} a"]
ITEMS += ["frequency(calls, 'a', {}) {} a", "top_k(areas, {}) {} a", "vector (1.2) {1}"]
ITEMS += ["orders(driver) {1} a", "orders {1} a", "vector 3.* {1}", "windows(orders) {1} a"]
ITEMS += ["trend(busiest) {1} a", "orders(driver, area) {1} a", "vector 1.1, vector 1.{} {}"]
NUMBERS = ["0.5", "0.25, 0.75", "1", "2", "1.5", "'b'", "-1", "+1", "1, 1", "delays", ""]
CLAUSES = ["", "FOR ALL", "FOR LAST '1 hour'", "FOR LAST '90 minutes'", "FOR LAST"]
CLAUSES += ["FOR LAST 90 minutes", "FOR LAST 2 hours 5 minutes", "FOR LAST '1 month'"]
CLAUSES += ["FOR ALL EVERY '1 hour'", "FOR LAST '1 hour' EVERY '1 hour'", "FOR ALL EVERY"]
CLAUSES += ["FOR LAST 1 hour EVERY '1 hour'", "FOR LAST '1 hour' EVERY 30 minutes"]
TIMES = [
    "1970-01-01",
    "1970-01-01 00:30",
    "1970-01-01T01:00:00Z",
    "1970-01-01T02:00+01:00",
    "it''s",
]
CLAUSES += [f"FOR '{one}' TO '{other}'" for one in TIMES for other in TIMES]
CLAUSES += [f"FOR WINDOW '{one}'" for one in TIMES] + [
    "FOR WINDOW LAST",
    "FOR'1970-01-01'TO'1971-01-01'",
]
TAILS = ["", "ORDER BY 1", "LIMIT 2", "WHERE 1 = 1", "GROUP BY ALL", ", orders b"]
texts = st.builds(
    lambda columns, item, numbers, clause, tail, gap: (
        f"SELECT{gap}{columns} FROM {item.format(numbers, clause)}{gap}{tail}"
    ),
    *map(st.sampled_from, (LISTS, ITEMS, NUMBERS, CLAUSES, TAILS, [" ", "  ", "\n"])),
)


def _asked(engine: Engine, text: str) -> object:
    try:
        result = engine.sql(text, now=0)
    except SelectError as error:
        return error.message, error.code, error.position, error.length, error.remedy
    return result.table.schema, result.table.to_pylist(), result.particulars()


@given(texts)
def test_answers_are_those_of_duckdb_and_of_a_fresh_plan(
    engine: Engine, by_duckdb: Engine, text: str
) -> None:
    """The engine is warm with the shapes of all texts before; the other never is."""
    assert _asked(engine, text) == _asked(by_duckdb, text)


def test_most_of_what_is_listed_is_answered_directly(engine: Engine) -> None:
    for text in (
        "SELECT q, value AS v FROM quantiles(delays, 0.5)",
        "SELECT * FROM orders(driver, area)",
        "SELECT X1.* FROM vector 1.*",
    ):
        assert engine.check(text).projected is not None
    for text in (
        "SELECT q FROM quantiles(delays, 0.5) ORDER BY q + 1",
        "SELECT q FROM quantiles(delays, 0.5) WHERE q > 0.5",
        "SELECT DISTINCT q FROM quantiles(delays, 0.5)",
        "SELECT q, 1 FROM quantiles(delays, 0.5)",
        "WITH a AS (SELECT q FROM quantiles(delays, 0.5)) SELECT q FROM a",
        "SELECT a.q FROM quantiles(delays, 0.5) a, orders b",
    ):
        assert engine.check(text).projected is None


@settings(max_examples=40)
@given(st.lists(texts, min_size=2, max_size=6))
def test_a_plan_is_the_same_after_any_others(before: list[str]) -> None:
    warm = Planner(Limits())
    for text in before:
        fresh = Planner(Limits())
        assert _planned(warm, text) == _planned(fresh, text)


def _planned(planner: Planner, text: str) -> object:
    try:
        plan = planner.plan(text, _catalog())
    except SelectError as error:
        return error.message, error.code, error.position, error.length, error.remedy
    return plan, plan.show(), plan.text, [item.span for item in plan.statement.items]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that planning has parsed."""
    found: list[str] = []
    original = planning.parse

    def parse(text: str, limits: Limits) -> object:
        found.append(text)
        return original(text, limits)

    monkeypatch.setattr(planning, "parse", parse)
    return found


def test_constants_are_planned_once(parsed: list[str]) -> None:
    planner = Planner(Limits())

    def arguments(text: str) -> tuple:
        item = planner.plan(text, _catalog()).items[0]
        assert item is not None
        return item.arguments

    for number in range(1, 600):
        found = arguments(f"SELECT q FROM quantiles(delays, 0.{number}, 1)")  # noqa: S608
        assert found == (float(f"0.{number}"), 1)
    assert len(parsed) == 1
    assert arguments("SELECT rank FROM ranks(delays, 1)") == (1,)
    assert arguments("SELECT rank FROM ranks(delays, - 2.5)") == (-2.5,)
    assert arguments("SELECT rank FROM ranks(delays, - 2)") == (-2,)
    assert len(parsed) == 3
    text = "SELECT item FROM frequency(calls, {}, {}) LIMIT {}"
    assert arguments(text.format("'d1'", "'it''s'", 3)) == ("d1", "it's")
    assert arguments(text.format("''''", "'1.5 -- x'", 3)) == ("'", "1.5 -- x")
    assert len(parsed) == 4
    arguments(text.format("''''", "'1.5 -- x'", 4))  # what is no argument is not shared
    assert len(parsed) == 5
    assert len(planner._plans._entries) <= 512


@pytest.mark.parametrize(
    "clause", ["LAST '{} h'", "WINDOW '2026-01-0{}'", "'2026-01-0{}' TO '2026-02-01'"]
)
@pytest.mark.parametrize(
    "item",
    ["orders(driver)", "orders", "quantiles(delays, 0.5)", "trend(busiest)", "windows(orders)"],
)
def test_windows_are_planned_once(item: str, clause: str, parsed: list[str]) -> None:
    planner = Planner(Limits())
    texts = [f"SELECT * FROM {item} FOR {clause.format(number)}" for number in (1, 2, 3)]  # noqa: S608
    plans = [planner.plan(texts[0], _catalog())]
    already = len(parsed)
    plans += [planner.plan(text, _catalog()) for text in texts[1:]]
    assert len(parsed) == already
    assert len({item.window for plan in plans for item in plan.items if item}) == 3
    for text, plan in zip(texts, plans, strict=True):
        assert plan == Planner(Limits()).plan(text, _catalog())


NUMBER = st.one_of(
    st.integers(-(10**42), 10**42).map(str),
    st.floats(-3, 3).map(repr),
    st.sampled_from(["1.", ".5", "1e-2", "0x1", "1_0", "00.50", "1.5.2", "1 .5", "1'a'", "'a'1"]),
)
STRING = st.one_of(
    st.text(alphabet="a'\\\"-/*;\x01 \u00e91(", max_size=6).map("'{}'".format),
    st.sampled_from(["'a' 'b'", "E'a'", "x'00'", "'a''b'", "''", "'it''s'", "'a'--", "$$a$$"]),
)


@given(st.data())
def test_any_constants_in_a_known_shape(data: st.DataObject) -> None:
    """Whatever stands where a constant stood is read as if the text had been the first."""
    forms = ["SELECT q FROM quantiles(delays, {}, {}) -- 1", "SELECT * FROM ranks(delays,{},-{})"]
    forms += ["SELECT item FROM frequency(calls, {}, {})", "SELECT * FROM frequency(calls,{}, 'b')"]
    form = data.draw(st.sampled_from(forms))
    limits = Limits(literal_bytes=8)
    warm = Planner(limits)
    for first in ("0.5", "1", "'b'"):
        _planned(warm, form.format(first, first))
    text = form.format(data.draw(NUMBER | STRING), data.draw(NUMBER | STRING))
    assert _planned(warm, text) == _planned(Planner(limits), text)


WINDOW = st.one_of(
    STRING,
    NUMBER,
    st.sampled_from(["'1 hour 1 hour 1 hour 1 hour'", "'2026'", "'2026-02-30'", "'2027-01-01' "]),
    st.datetimes().map("'{}'".format),
    st.builds("'{} {}'".format, st.integers(-1, 99), st.sampled_from(["s", "hours", "months", ""])),
)


@given(st.data())
def test_any_constants_in_a_window(data: st.DataObject) -> None:
    forms = [
        "SELECT * FROM orders(driver) FOR {} TO {}",
        "SELECT q FROM quantiles(delays,{}) FOR LAST{}",
    ]
    forms += [
        "SELECT * FROM trend(busiest) FOR WINDOW {} /*{}*/",
        "SELECT * FROM orders FOR LAST {} a{}",
    ]
    form = data.draw(st.sampled_from(forms))
    limits = Limits(literal_bytes=26)
    warm = Planner(limits)
    for first in (("'2026-01-01'", "'2026-01-02'"), ("0.5", "'1 hour'"), ("'1 hour'", "")):
        _planned(warm, form.format(*first))
    text = form.format(data.draw(WINDOW), data.draw(WINDOW))
    assert _planned(warm, text) == _planned(Planner(limits), text)


def test_a_shape_follows_the_catalog() -> None:
    made = catalog()
    planner = Planner(Limits())
    text = "SELECT * FROM orders(driver)"
    assert "tip" in planner.plan(text, made).columns
    made.infos["orders"] = replace(made.infos["orders"], indicators=("served",))
    assert planner.plan(text, made).columns == ("driver", "count", "served")


def test_rows_beyond_the_limit_are_refused() -> None:
    engine = Engine(catalog(), Limits(result_rows=2))
    with pytest.raises(SelectError, match="more than 2 rows"):
        engine.sql("SELECT driver, area FROM orders(driver, area)")


def test_a_closed_engine_answers_nothing(engine: Engine) -> None:
    closed = Engine(_catalog())
    assert len(closed.sql("SELECT q FROM quantiles(delays, 0.5)")) == 1
    closed.close()
    with pytest.raises(SelectError, match="closed"):
        closed.sql("SELECT q FROM quantiles(delays, 0.5)")


def test_types_that_duckdb_would_change_go_through_it() -> None:
    made = catalog()
    table = pa.table({"driver": pa.array(["a"]).dictionary_encode(), "count": pa.array([1])})
    made.held["orders", "open"] = matrix_of({("driver",): table})
    got = Engine(made).sql("SELECT driver FROM orders(driver)").table
    assert got.schema.field("driver").type == pa.string()
