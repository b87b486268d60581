"""Rows that are left out before DuckDB, and plans that are shared: the answers of neither."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from select_catalogs import MemoryCatalog, catalog, matrix_of, order_tables

from muntin.errors import SelectError
from muntin.select import narrowing
from muntin.select import plan as planning
from muntin.select.engine import Engine

ROWS = 3_000


def _engine() -> Engine:
    rng = np.random.default_rng(3)
    served = rng.integers(-3, 4, ROWS)
    table = pa.table(
        {
            "driver": pa.array([f"d{n % 977}é" for n in range(ROWS)]),
            "count": pa.array(rng.permutation(ROWS)),
            "served": pa.array(served),
            "time": pa.array([None if n % 7 == 0 else n % 50 for n in range(ROWS)], pa.int64()),
            "paid": pa.array(np.where(served > 2, 2**62, -(2**63) + served + 3)),
            "tip": pa.array(rng.normal(size=ROWS)),
            "debt": pa.array(np.zeros(ROWS, np.int64)),
        }
    )
    made = catalog()
    keys = order_tables() | {("driver",): table}
    return Engine(MemoryCatalog(made.infos, {("orders", "open"): matrix_of(keys)}))


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Engine, Engine]]:
    """As it is, over few rows as over many; and one that leaves all to DuckDB."""
    plain, duckdb = _engine(), _engine()
    planner = duckdb._planner
    planner._with_constants = lambda *_: None  # type: ignore[method-assign]
    plan_of = planner.plan
    planner.plan = lambda *asked: replace(  # type: ignore[method-assign]
        plan_of(*asked), projected=None, narrowing=None
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrowing, "TABLE_ROWS_MIN", 1)
        patch.setattr(narrowing, "SORTED_ROWS_MAX", 200)
        yield plain, duckdb
    plain.close()
    duckdb.close()


LISTS = ["driver, count", "*", "count AS n, served", "served AS count, count AS served"]
LISTS += ["count + served AS n", "count(*)", "max(served), min(count)", "DISTINCT served"]
LISTS += ["served AS x, debt AS x", "served + 1 AS SERVED, count", "- served AS served, count"]
COLUMNS = ["count", "served", "time", "paid", "debt", "driver", "n", "x", "orders.served"]
numbers = st.integers(-4, ROWS + 5).map(str) | st.sampled_from(["1", "2", str(2**62), "1.5"])
conditions = st.builds(
    lambda column, operator, number, turned: (
        f"{number} {operator} {column}" if turned else f"{column} {operator} {number}"
    ),
    st.sampled_from(COLUMNS[:-3]),
    st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]),
    numbers,
    st.booleans(),
)
names = st.sampled_from(["d5é", "d976é", "d5", "", "D5é", "3"]).map(lambda name: f"'{name}'")
conditions |= st.builds("{} {} {}".format, st.sampled_from(["driver", "count"]),
                        st.sampled_from(["=", "<>", "<"]), names)  # fmt: skip
conditions |= names.map("{} = driver".format)
wheres = st.lists(conditions, max_size=3).flatmap(
    lambda parts: st.sampled_from([" AND ", " OR "]).map(
        lambda sign: "WHERE " + sign.join(parts) if parts else ""
    )
)
orders = st.lists(
    st.tuples(st.sampled_from([*COLUMNS, "1"]), st.sampled_from(["", " DESC", " NULLS FIRST"])),
    max_size=2,
).map(lambda keys: "ORDER BY " + ", ".join(a + b for a, b in keys) + ", count, n" if keys else "")
limits = st.sampled_from(["", "LIMIT 1", "LIMIT 7", "LIMIT 7 OFFSET 3", "LIMIT 0", "LIMIT 2000"])
texts = st.builds(
    lambda columns, where, order, limit: (
        f"SELECT {columns} FROM orders(driver) {where} {order} {limit}"  # noqa: S608
    ),
    st.sampled_from(LISTS),
    wheres,
    orders,
    limits,
)


def _asked(engine: Engine, text: str) -> object:
    try:
        found = engine.sql(text, now=0).table
    except SelectError as error:
        return error.message, error.code, error.position
    rows = [tuple(row.values()) for row in found.to_pylist()]
    ordered = "ORDER BY" in text
    if not ordered and "LIMIT" in text:
        return found.schema, len(rows)  # any rows of those will do
    return found.schema, rows if ordered else sorted(rows, key=repr)


@given(texts)
@example("SELECT driver, count FROM orders(driver) ORDER BY count LIMIT 7")
@example("SELECT driver, count FROM orders(driver) WHERE count > 9 ORDER BY count DESC LIMIT 7")
@example("SELECT driver, count FROM orders(driver) WHERE served > 3 ORDER BY served, count LIMIT 7")
@example("SELECT driver, count FROM orders(driver) WHERE count < 150 ORDER BY driver, count")
@example("SELECT driver, count FROM orders(driver) WHERE count < 150 ORDER BY time, count")
def test_answers_are_those_of_duckdb(engines: tuple[Engine, Engine], text: str) -> None:
    """All texts of one shape share a plan in the one engine, and never in the other."""
    engine, duckdb = engines
    # what is not in order beyond its keys may come in any: count, at last, leaves nothing open
    text = text.replace(", count, n", "" if "count" not in _columns(text) else ", count")
    if "ORDER BY" in text and "count" not in _columns(text):
        text = text[: text.index("ORDER BY")]
    assert _asked(engine, text) == _asked(duckdb, text)


def _columns(text: str) -> list[str]:
    """Columns that an answer has under their own names, whose order is total by count."""
    listed = text.split(" FROM ")[0].removeprefix("SELECT ")
    return ["count"] if listed in ("driver, count", "*", LISTS[-1], LISTS[-2]) else []


@given(
    st.lists(st.integers(-5, 5) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=200),
    st.integers(1, 8),
)
def test_the_first_rows_of_an_order(values: list[int], most: int) -> None:
    least = sorted(values, reverse=True)[min(most, len(values)) - 1] if values else 0
    expected = [at for at, value in enumerate(values) if value >= least]
    assert narrowing.largest(np.array(values, np.int64), most).tolist() == expected


def test_conditions_that_differ_in_numbers_share_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    original = planning.parse
    monkeypatch.setattr(
        planning, "parse", lambda text, limits: parsed.append(text) or original(text, limits)
    )
    engine = _engine()
    for number in range(5, 15):
        found = engine.sql(
            f"SELECT count FROM orders(driver) WHERE count >= {number} AND -3 < served "  # noqa: S608
            "ORDER BY count LIMIT 1"
        )
        assert found.table["count"][0].as_py() >= number
    assert len(parsed) == 1
    engine.close()
