# ruff: noqa: S608 - statements are what this file is made of
"""Statements that only add up: answered from one row of sums, with the same answer."""

from __future__ import annotations

import math
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from select_catalogs import MemoryCatalog, catalog, matrix_of, segment_of

from muntin.errors import SelectError
from muntin.segments import merge
from muntin.select import tables
from muntin.select.catalog import SummaryInfo
from muntin.select.engine import Engine

INFO = SummaryInfo("orders", "vector_matrix", (("driver",),), ("a", "b", "f"))
INTEGERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9))
# eighths of small numbers add up exactly in any order
EIGHTHS = st.one_of(st.none(), st.integers(-(2**20), 2**20).map(lambda n: n / 8))
ROWS = st.lists(st.tuples(st.integers(1, 2**40), INTEGERS, INTEGERS, EIGHTHS), max_size=8)
SUMMING = (
    "sum(a)", "sum(b) AS x, sum(count)", "sum(a) / sum(b)", "sum X1.Y1 / sum X1.Y2 AS avg",
    "2 * sum(f) - -sum(a) / 3", "sum(f), sum(f)", "sum(a) LIMIT 1", "1 + sum(orders.count) LIMIT 0",
)  # fmt: skip


def items(engine, text):
    return engine.check(text).items


@given(ROWS, st.sampled_from(SUMMING))
@settings(max_examples=80, deadline=None)
def test_sums_are_those_of_all_rows(rows, asked):
    counts, a, b, f = ([row[i] for row in rows] for i in range(4))
    table = pa.table(
        {
            "driver": pa.array([f"d{i}" for i in range(len(rows))], pa.string()),
            "count": pa.array(counts, pa.int64()),
            "a": pa.array(a, pa.int64()),
            "b": pa.array(b, pa.int64()),
            "f": pa.array(f, pa.float64()),
        }
    )
    held = {("orders", kind): matrix_of({("driver",): table}) for kind in ("open", "all")}
    engine = Engine(MemoryCatalog({"orders": INFO}, held))
    what, _, limit = asked.partition(" LIMIT")
    source = "vector 1.* " if "X1" in what else "orders(driver)"
    text = f"SELECT {what} FROM {source}" + (f" LIMIT{limit}" if limit else "")
    plain = f"SELECT {what} FROM {source} WHERE true" + (f" LIMIT{limit}" if limit else "")
    assert items(engine, text)[0].summed
    assert not items(engine, plain)[0].summed
    expected = engine.sql(plain)
    found = engine.sql(text)
    assert found.columns == expected.columns
    assert found.rows == expected.rows
    assert found.particulars() == expected.particulars()
    engine.close()


@pytest.mark.parametrize("rows", [1, 3, 20_000])
def test_floats_are_added_with_what_rounding_lost(rows):
    """As exactly where rows are chosen as where states are merged, but for the last place."""
    random = Random(rows)
    values = [round(random.uniform(-100, 1000), 2) for _ in range(rows)]
    table = pa.table(
        {
            "driver": [f"d{i}" for i in range(rows)],
            "count": pa.array([1] * rows),
            "a": pa.array(range(rows)),
            "f": pa.array(values),
        }
    )
    held = {("orders", kind): matrix_of({("driver",): table}) for kind in ("open", "all")}
    engine = Engine(MemoryCatalog({"orders": INFO}, held))
    near = math.ulp(sum(map(abs, values)))
    for text in (
        "SELECT sum(f) FROM orders(driver)",
        "SELECT sum(f) FROM orders(driver) WHERE a >= 0",
        "SELECT sum X1.Y3 FROM vector 1.3 WHERE driver > ''",
        "WITH o AS (SELECT * FROM orders(driver)) SELECT sum(o.f) FROM o HAVING count(*) > 0",
        "SELECT sum(f) FILTER (WHERE a >= 0) FROM orders(driver) GROUP BY a < 0 ORDER BY sum(f)",
    ):
        assert abs(engine.sql(text).rows[0][0] - math.fsum(values)) <= near, text
    whole = engine.sql(
        "SELECT sum(a), sum(count), sum(f) AS f FROM orders(driver) WHERE a < 9"
    ).rows
    assert [type(value) for value in whole[0]] == [int, int, float]
    with pytest.raises(SelectError, match=r"sum\(VARCHAR\)"):
        engine.sql("SELECT sum(driver) FROM orders(driver)")
    with pytest.raises(SelectError):
        engine.sql("SELECT sum() FROM orders(driver)")
    engine.close()


@pytest.mark.parametrize("values", [[1e308], [1e308, 1e308]])
def test_a_sum_beyond_floats_is_infinite(values):
    table = pa.table(
        {"driver": list(map(str, range(len(values)))), "count": [1] * len(values), "f": values}
    )
    held = {("orders", kind): matrix_of({("driver",): table}) for kind in ("open", "all")}
    info = SummaryInfo("orders", "vector_matrix", (("driver",),), ("f",))
    engine = Engine(MemoryCatalog({"orders": info}, held))
    found = engine.sql("SELECT isinf(sum(f)), isnan(sum(f)) FROM orders(driver) WHERE count > 0")
    assert list(found.rows[0]) == [math.isinf(sum(values)), False]
    engine.close()


def test_sums_are_made_once_for_each_state_of_the_ledger(monkeypatch):
    made = []
    totals = tables.totals
    monkeypatch.setattr(tables, "totals", lambda *rows: made.append(rows) or totals(*rows))
    engine = Engine(catalog())
    for _ in range(2):
        engine.sql("SELECT sum X1.Y2 / sum X1.Y1 FROM vector (1.2), vector (1.1)")
    assert len(made) == 1
    engine.close()


@pytest.mark.parametrize("text", [
    "SELECT served FROM orders(driver)",
    "SELECT sum(served), count(*) FROM orders(driver)",
    "SELECT sum(served), max(time) FROM orders(driver)",
    "SELECT sum(served + time) FROM orders(driver)",
    "SELECT sum(DISTINCT served) FROM orders(driver)",
    "SELECT sum(served) FILTER (WHERE time > 1) FROM orders(driver)",
    "SELECT sum(served) OVER () FROM orders(driver)",
    "SELECT sum(served) + served FROM orders(driver) GROUP BY served",
    "SELECT sum(served) FROM orders(driver) WHERE time > 1",
    "SELECT sum(served) FROM orders(driver) GROUP BY driver",
    "SELECT sum(served) FROM orders(driver) HAVING sum(time) > 1",
    "SELECT DISTINCT sum(served) FROM orders(driver)",
    "SELECT sum(a.served) FROM orders(driver) a, orders(driver) b",
    "SELECT (SELECT sum(served) FROM orders(driver))",
    "SELECT sum(served) FROM (SELECT served FROM orders(driver))",
    "SELECT sum(served) FROM orders(driver) UNION SELECT 1",
    "SELECT 1 FROM orders(driver)",
])  # fmt: skip
def test_what_reads_more_than_sums_reads_the_rows(text):
    try:
        found = items(Engine(catalog()), text)
    except SelectError:
        return  # not allowed at all
    assert not any(item.summed for item in found if item is not None)


def test_a_sum_beyond_its_type_is_named_with_its_key() -> None:
    """Another indicator, which that row cannot have, is not what is beyond."""
    moment = pa.array([1_700_000_000_000_000] * 2, pa.timestamp("us", "UTC"))
    columns = {"t": moment, "i": pa.array([1.6e308] * 2)}
    one = segment_of("vector_matrix", columns, keys=[["t"]], indicators=["i"])
    more = {"t": moment.take(pa.array([], pa.int64())), "i": pa.array([], pa.float64())}
    other = segment_of(
        "vector_matrix", more | {"b": pa.array([], pa.int64())}, keys=[["t"]], indicators=["b", "i"]
    )
    info = SummaryInfo("s", "vector_matrix", keys=(("t",),), indicators=("b", "i"))
    held = merge([one, other])
    engine = Engine(MemoryCatalog({"s": info}, {("s", "open"): held}))
    with pytest.raises(SelectError) as caught:
        engine.sql("SELECT * FROM s(t)")
    assert caught.value.code == "overflow"
    said = "indicator 'i': a sum is beyond double (t 2023-11-14 22:13:20+00:00)"
    assert caught.value.message == said
    assert "shorter window" in caught.value.remedy
    # read as well where it is only what rows are joined by: of nulls there would be no row
    for joined in ("ON a.i = b.i", "USING (i)", "USING (I)"):
        with pytest.raises(SelectError, match="beyond double"):
            engine.sql(f"SELECT a.t FROM s(t) AS a JOIN s(t) AS b {joined}")
    engine.close()


@pytest.mark.parametrize("least", [-(2**63), 2**63 - 1])
def test_sums_beyond_int64_are_wider_integers(least: int) -> None:
    """A row that a statement leaves out does not make it fail."""
    moment = pa.array([1_700_000_000_000_000] * 5, pa.timestamp("us", "UTC"))
    columns = {"t": moment, "k": pa.array([*"aaabc"]), "i": pa.array([least] * 3 + [7, None])}
    held = segment_of("vector_matrix", columns, keys=[["k"]], indicators=["i"])
    info = SummaryInfo("s", "vector_matrix", keys=(("k",),), indicators=("i",))
    engine = Engine(MemoryCatalog({"s": info}, {("s", "open"): held}))
    for text, rows in {
        "SELECT k, i FROM s(k) ORDER BY k": [["a", 3 * least], ["b", 7], ["c", 0]],
        "SELECT i FROM s(k) WHERE k = 'b'": [[7]],
        "SELECT i FROM s": [[3 * least + 7]],
        "SELECT sum(i) AS i FROM s(k)": [[3 * least + 7]],
        "SELECT sum(i) / sum(count) AS i FROM s(k)": [[(3 * least + 7) / 5]],
        "SELECT sum(i) FILTER (WHERE k > 'a') AS i FROM s(k)": [[7]],
        "SELECT i // 2 AS i FROM s(k) WHERE k = 'b'": [[3]],
        "SELECT i // 1 AS i FROM s": [[3 * least + 7]],
    }.items():
        found = engine.sql(text)
        assert found.rows == rows, text
        fits = -(2**63) <= rows[0][-1] < 2**63 or isinstance(rows[0][-1], float)
        assert pa.types.is_decimal(found.table["i"].type) != fits
    engine.close()
