"""Table functions over real summaries: the same numbers as the summaries' own queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from select_catalogs import MemoryCatalog, segment_of

from muntin.errors import SelectError
from muntin.segments.ranked import QuantilesAt, RanksOf
from muntin.select.allowed import FUNCTIONS
from muntin.select.catalog import SummaryInfo
from muntin.select.engine import Engine
from muntin.select.functions import TABLE_FUNCTIONS
from muntin.summaries.hyper_calm import HyperCalm


def _engine(kind: str, summary: Any, **info: Any) -> Engine:
    infos = {"s": SummaryInfo("s", kind, **info)}
    return Engine(MemoryCatalog(infos, {("s", "open"): summary}))


def _columns(engine: Engine, text: str) -> dict[str, list]:
    return engine.sql(text).table.to_pydict()


def test_quantiles_and_ranks() -> None:
    values = np.random.default_rng(1).normal(size=20_000)
    segment = segment_of("quantiles", {"v": pa.array(values)}, value="v")
    (table,) = segment.tables
    engine = _engine("quantiles", segment)
    got = _columns(engine, "SELECT * FROM quantiles(s, 0.01, 0.5, 1)")
    expected = segment.algebra.answer(table, QuantilesAt((0.01, 0.5, 1)))
    assert got["q"] == [0.01, 0.5, 1]
    for name in ("value", "lower", "upper", "confidence"):
        assert got[name] == expected[name].to_pylist()
    assert set(got["n"]) == {20_000}
    got = _columns(engine, "SELECT x, rank, lower, upper FROM ranks(s, -1, .5) ORDER BY x")
    assert got["rank"] == segment.algebra.answer(table, RanksOf((-1, 0.5)))["value"].to_pylist()
    for rank, low, high, x in zip(got["rank"], got["lower"], got["upper"], (-1, 0.5), strict=True):
        assert low <= (values <= x).mean() <= high
        assert low <= rank <= high
    assert engine.sql("SELECT value FROM quantiles(s, 0.5)").exact is False
    empty = _engine("quantiles", segment_of("quantiles", {"v": pa.nulls(1)}, value="v"))
    assert _columns(empty, "SELECT q, value, n FROM quantiles(s, 0.5)") == {
        "q": [0.5],
        "value": [None],
        "n": [0],
    }
    for points in ((1, -(2**63)), (2**63, -1), (2**70,), (-(2**63) - 1, 0), (2**53 + 1, 0.5)):
        asked = f"SELECT x, n FROM ranks(s, {', '.join(map(str, points))})"  # noqa: S608
        found = _columns(empty, asked)
        assert found == {"x": list(map(float, points)), "n": [0] * len(points)}
        assert engine.sql(asked).table["x"].equals(empty.sql(asked).table["x"])


@pytest.mark.parametrize("kind", ["frequency", "top_k"])
def test_frequency_and_top_k(kind: str) -> None:
    items = pa.array([f"d{i}" for i in range(20) for _ in range(i)])
    engine = _engine(kind, segment_of(kind, {"i": items}, item="i"))
    got = _columns(engine, "SELECT * FROM frequency(s, 'd3', 'd19', 'x''y')")
    assert got["item"] == ["d3", "d19", "x'y"]
    assert got["value"] == got["lower"] == got["upper"] == [3, 19, 0]
    top = engine.sql("SELECT item, value FROM top_k(s, 3)")
    assert top.rows == [["d19", 19], ["d18", 18], ["d17", 17]]
    assert len(engine.sql("SELECT * FROM top_k(s)")) == 10


def test_integer_items() -> None:
    segment = segment_of("top_k", {"i": pa.array([7, 7, 9, -1])}, item="i")
    got = _engine("top_k", segment).sql("SELECT item, value FROM frequency(s, 7, 9, -1, 5)").rows
    assert got == [[7, 2], [9, 1], [-1, 1], [5, 0]]


def test_contains_and_distinct() -> None:
    seen = segment_of("fingerprint", {"k": pa.array(["a", "b"])}, key="k", fpp=0.001)
    engine = _engine("fingerprint", seen)
    got = _columns(engine, "SELECT * FROM contains(s, 'a', 'zzz', 'b')")
    assert got["present"] == [True, False, True]
    assert max(got["false_positive_rate"]) < 0.001
    users = pa.array([f"u{i}" for i in range(1000)])
    distinct = segment_of("distinct", {"i": users}, item="i")
    (row,) = _engine("distinct", distinct).sql("SELECT * FROM distinct(s)").rows
    assert row[1] <= 1000 <= row[2]
    assert row[3] == 0.99


def test_by_key() -> None:
    columns = {
        "origin": pa.array(["JFK", "EWR", "JFK", "LGA", None, "SFO"]),
        "v": pa.array([1.0, 2.0, 3.0, 4.0, 5.0, None]),
    }
    every = segment_of("quantiles", columns, value="v", by="origin", limit=9)
    engine = _engine("quantiles", every, by=("origin",))
    text = "SELECT origin, q, value, n, complete, other FROM quantiles(s, 0, 1)"
    rows = engine.sql(text).rows
    expected = [
        ("JFK", 1.0, 3.0, 2),
        ("EWR", 2.0, 2.0, 1),
        ("LGA", 4.0, 4.0, 1),
        (None, 5.0, 5.0, 1),
    ]
    assert sorted(rows, key=str) == sorted(
        [
            [key, q, (low, high)[q], n, True, False]
            for key, low, high, n in expected  # SFO has no value, and so is not there
            for q in (0, 1)
        ],
        key=str,
    )
    two = segment_of("quantiles", columns, value="v", by="origin", limit=2)
    rows = _engine("quantiles", two, by=("origin",)).sql(text).rows
    kept = [row for row in rows if not row[5]]
    assert len({row[0] for row in kept}) <= 2
    assert all(row in engine.sql(text).rows for row in kept)  # who is kept is kept whole
    assert sum(row[3] for row in rows if row[1] == 0) == 5
    held = _engine("quantiles", None, by=("origin",))
    assert held.sql("SELECT origin, value FROM quantiles(s, 0.5)").rows == []


def test_periodic() -> None:
    second = 1_000_000
    calm = HyperCalm(1 << 16, second, second, 10)
    times = np.arange(60, dtype=np.int64) * 30 * second
    calm.update(pa.array(["bus"] * 60), times)
    engine = _engine("periodic", [calm])
    result = engine.sql("SELECT * FROM periodic(s, 20)")
    expected = calm.top()
    assert result.table["item"].to_pylist() == expected["item"].to_pylist()
    assert len(result) >= 1
    row = dict(zip(result.columns, result.rows[0], strict=True))
    assert row["interval"].startswith("PT")
    assert row["next_expected"].endswith("Z")
    late = "SELECT item FROM periodic(s) WHERE next_expected < now() AND interval < INTERVAL 1 HOUR"
    assert len(engine.sql(late, now=2**50)) == len(result)
    assert len(engine.sql(late, now=0)) == 0


ORDERS_COLUMNS = {
    "driver": pa.array(["a", "b", "a", None]),
    "area": pa.array([1, 2, 1, 2]),
    "time": pa.array([5, 7, 9, 11]),
}


def test_a_real_vector_matrix() -> None:
    keys = ["driver", ["driver", "area"]]
    matrix = segment_of("vector_matrix", ORDERS_COLUMNS, keys=keys, indicators=["time"])
    info = {"keys": (("driver",), ("driver", "area")), "indicators": ("time",)}
    engine = _engine("vector_matrix", matrix, **info)
    assert engine.sql("SELECT * FROM s").rows == [[4, 32]]
    rows = engine.sql("SELECT X2, Y1 / count AS mean FROM s(driver, area) ORDER BY X2").rows
    assert rows == [["a", 1, 7.0], ["b", 2, 7.0], [None, 2, 11.0]]
    assert engine.sql("SELECT sum X1.Y1 FROM vector 1.1").rows == [[32]]
    assert engine.sql("SELECT sum X1.Y1 FROM vector 1.1").exact


def test_a_real_sketched_matrix() -> None:
    matrix = segment_of(
        "vector_matrix", ORDERS_COLUMNS, keys=["driver"], indicators=["time"], sketch={}
    )
    info = {"keys": (("driver",),), "indicators": ("time",), "sketched": True}
    engine = _engine("vector_matrix", matrix, **info)
    result = engine.sql("SELECT X1, Y1, count, time_lower FROM sketch 1.1 ORDER BY X1")
    assert [row[:3] for row in result.rows] == [["a", 14, 2], ["b", 7, 1], [None, 11, 1]]
    assert all(row[3] <= row[1] for row in result.rows)
    assert result.exact is False
    total = engine.sql("SELECT * FROM s")
    assert total.rows == [[4, 32]]
    assert total.exact


WRONG = [
    ("quantiles(s)", "is missing"),
    ("quantiles(s, »2«)", "not between 0 and 1"),
    ("quantiles(s, 0.5, »'x'«)", "not a number"),
    ("quantiles(s, »q«)", "a name where a constant"),
    ("»top_k(s, 3)«", "cannot be asked of s"),
    ("»quantiles(0.5)«", "the first argument"),
    ("»s«", "no table by itself"),
]


@pytest.mark.parametrize(("marked", "message"), WRONG)
def test_wrong_arguments(marked: str, message: str) -> None:
    engine = _engine("quantiles", segment_of("quantiles", {"v": pa.array([1.0])}, value="v"))
    text = f"SELECT 1 FROM {marked}"  # noqa: S608
    with pytest.raises(SelectError) as caught:
        engine.sql(text.replace("»", "").replace("«", ""))
    assert message in caught.value.message
    if "»" in text:
        assert caught.value.position == text.index("»")
        assert caught.value.length == text.index("«") - text.index("»") - 1


def test_wrong_counts_and_items() -> None:
    engine = _engine("top_k", segment_of("top_k", {"i": pa.array([1])}, item="i"))
    for item in ("top_k(s, 0)", "top_k(s, 1000000)", "top_k(s, 'x')", "top_k(s, 1, 2)"):
        with pytest.raises(SelectError):
            engine.sql(f"SELECT 1 FROM {item}")  # noqa: S608
    for item in ("frequency(s)", "frequency(s, 1.5)", "frequency(s, 1, 'x')"):
        with pytest.raises(SelectError):
            engine.sql(f"SELECT 1 FROM {item}")  # noqa: S608
    with pytest.raises(SelectError, match="NULL is not an item"):
        engine.sql("SELECT 1 FROM frequency(s, NULL)")
    many = {"i": pa.array(range(1000))}
    untracked = segment_of("frequency", many, item="i", track=0, width=8, depth=2)
    with pytest.raises(SelectError) as caught:
        _engine("frequency", untracked).sql("SELECT 1 FROM top_k(s, 3)")
    assert caught.value.code == "from_item"
    assert "lists no items" in caught.value.message


def test_every_allowed_function_is_duckdbs() -> None:
    import duckdb

    found = duckdb.sql("SELECT function_name FROM duckdb_functions()").fetchall()
    grammar = {"coalesce", "ifnull"}
    assert FUNCTIONS - grammar <= {name for (name,) in found}
    assert all(name == function.name for name, function in TABLE_FUNCTIONS.items())
