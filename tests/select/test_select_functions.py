"""Table functions over real summaries: the same numbers as the summaries' own queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from select_catalogs import MemoryCatalog

from muntin.errors import SelectError
from muntin.select import Engine, SummaryInfo
from muntin.select.functions import TABLE_FUNCTIONS
from muntin.select.functions_allowed import FUNCTIONS
from muntin.summaries.count_min import CountMin
from muntin.summaries.distinct import Distinct
from muntin.summaries.dynamic_bloom import DynamicBloom
from muntin.summaries.hyper_calm import HyperCalm
from muntin.summaries.keyed import Keyed
from muntin.summaries.quantiles import KLL
from muntin.summaries.sketched_matrix import SketchedMatrix
from muntin.summaries.space_saving import SpaceSaving
from muntin.summaries.vector_matrix import VectorMatrix


def _engine(kind: str, summary: Any, **info: Any) -> Engine:
    infos = {"s": SummaryInfo("s", kind, **info)}
    return Engine(MemoryCatalog(infos, {("s", "open"): summary}))


def _columns(engine: Engine, text: str) -> dict[str, list]:
    return engine.sql(text).table.to_pydict()


def test_quantiles_and_ranks() -> None:
    kll = KLL()
    kll.update(np.random.default_rng(1).normal(size=20_000))
    engine = _engine("quantiles", kll)
    got = _columns(engine, "SELECT * FROM quantiles(s, 0.01, 0.5, 1)")
    expected = kll.quantile([0.01, 0.5, 1])
    assert got["q"] == [0.01, 0.5, 1]
    assert (got["value"], got["lower"], got["upper"]) == tuple(
        a.tolist() for a in (expected.value, expected.lower, expected.upper)
    )
    assert set(got["confidence"]) == {expected.confidence}
    assert set(got["n"]) == {20_000}
    got = _columns(engine, "SELECT x, rank, lower, upper FROM ranks(s, -1, 0.5) ORDER BY x")
    assert got["rank"] == kll.rank([-1, 0.5]).value.tolist()
    assert engine.sql("SELECT value FROM quantiles(s, 0.5)").exact is False
    empty = _engine("kll", KLL())
    assert _columns(empty, "SELECT q, value, n FROM quantiles(s, 0.5)") == {
        "q": [0.5],
        "value": [None],
        "n": [0],
    }


@pytest.mark.parametrize("made", [CountMin(track=50), SpaceSaving(50)])
def test_frequency_and_top_k(made: Any) -> None:
    made.update([f"d{i}" for i in range(20) for _ in range(i)])
    engine = _engine("frequency", made)
    got = _columns(engine, "SELECT * FROM frequency(s, 'd3', 'd19', 'x''y')")
    expected = made.estimate(["d3", "d19", "x'y"])
    assert got["item"] == ["d3", "d19", "x'y"]
    assert got["value"] == expected.value.tolist()
    assert got["lower"] == expected.lower.tolist()
    top = engine.sql("SELECT item, value FROM top_k(s, 3)")
    assert top.rows == [["d19", 19], ["d18", 18], ["d17", 17]]
    assert len(engine.sql("SELECT * FROM top_k(s)")) == 10


def test_integer_items() -> None:
    sketch = SpaceSaving(50)
    sketch.update([7, 7, 9, -1])
    engine = _engine("top_k", sketch)
    got = engine.sql("SELECT item, value FROM frequency(s, 7, 9, -1, 5)").rows
    assert got == [[7, 2], [9, 1], [-1, 1], [5, 0]]


def test_contains_and_distinct() -> None:
    bloom = DynamicBloom(capacity=1000, fpp=0.001)
    bloom.update(["a", "b"])
    engine = _engine("dynamic_bloom", bloom)
    got = _columns(engine, "SELECT * FROM contains(s, 'a', 'zzz', 'b')")
    assert got["present"] == [True, False, True]
    assert max(got["false_positive_rate"]) < 0.001
    distinct = Distinct()
    distinct.update([f"u{i}" for i in range(1000)])
    (row,) = _engine("distinct", distinct).sql("SELECT * FROM distinct(s)").rows
    assert row[1] <= 1000 <= row[2]
    assert row[3] == 0.99


def test_by_key() -> None:
    keyed = Keyed("kll", {}, by="origin", limit=2)
    keyed.update(["JFK", "EWR", "JFK", "LGA", None], [1.0, 2.0, 3.0, 4.0, 5.0])
    engine = _engine("quantiles", keyed, by=("origin",))
    rows = engine.sql("SELECT origin, q, value, n, other FROM quantiles(s, 0, 1)").rows
    assert sorted(rows, key=str) == sorted(
        [
            ["JFK", 0, 1.0, 2, False],
            ["JFK", 1, 3.0, 2, False],
            ["EWR", 0, 2.0, 1, False],
            ["EWR", 1, 2.0, 1, False],
            [None, 0, 4.0, 2, True],
            [None, 1, 5.0, 2, True],
        ],
        key=str,
    )
    none = _engine("quantiles", Keyed("kll", {}, by="origin"), by=("origin",))
    assert none.sql("SELECT * FROM quantiles(s, 0.5)").rows == []
    held = _engine("quantiles", None, by=("origin",))
    assert held.sql("SELECT origin, value FROM quantiles(s, 0.5)").rows == []


def test_periodic() -> None:
    second = 1_000_000
    calm = HyperCalm(1 << 16, second, second, 10)
    times = np.arange(60, dtype=np.int64) * 30 * second
    calm.update(pa.array(["bus"] * 60), times)
    engine = _engine("periodic", calm)
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


ORDERS = pa.table({"driver": ["a", "b", "a", None], "area": [1, 2, 1, 2], "time": [5, 7, 9, 11]})


def test_a_real_vector_matrix() -> None:
    matrix = VectorMatrix(keys=["driver", ("driver", "area")], indicators=["time"])
    matrix.update(ORDERS)
    info = {"keys": (("driver",), ("driver", "area")), "indicators": ("time",)}
    engine = _engine("vector_matrix", matrix, **info)
    assert engine.sql("SELECT * FROM s").rows == [[4, 32]]
    rows = engine.sql("SELECT X2, Y1 / count AS mean FROM s(driver, area) ORDER BY X2").rows
    assert rows == [["a", 1, 7.0], ["b", 2, 7.0], [None, 2, 11.0]]
    assert engine.sql("SELECT sum X1.Y1 FROM vector 1.1").rows == [[32]]
    assert engine.sql("SELECT sum X1.Y1 FROM vector 1.1").exact


def test_a_real_sketched_matrix() -> None:
    matrix = SketchedMatrix(keys=["driver"], indicators=["time"])
    matrix.update(ORDERS)
    info = {"keys": (("driver",),), "indicators": ("time",), "sketched": True}
    engine = _engine("sketched_matrix", matrix, **info)
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
    engine = _engine("quantiles", KLL())
    text = f"SELECT 1 FROM {marked}"  # noqa: S608
    with pytest.raises(SelectError) as caught:
        engine.sql(text.replace("»", "").replace("«", ""))
    assert message in caught.value.message
    if "»" in text:
        assert caught.value.position == text.index("»")
        assert caught.value.length == text.index("«") - text.index("»") - 1


def test_wrong_counts_and_items() -> None:
    engine = _engine("top_k", SpaceSaving(10))
    for item in ("top_k(s, 0)", "top_k(s, 1000000)", "top_k(s, 'x')", "top_k(s, 1, 2)"):
        with pytest.raises(SelectError):
            engine.sql(f"SELECT 1 FROM {item}")  # noqa: S608
    for item in ("frequency(s)", "frequency(s, 1.5)", "frequency(s, 1, 'x')", "frequency(s, NULL)"):
        with pytest.raises(SelectError):
            engine.sql(f"SELECT 1 FROM {item}")  # noqa: S608
    with pytest.raises(SelectError) as caught:
        _engine("frequency", CountMin(track=0)).sql("SELECT 1 FROM top_k(s, 3)")
    assert caught.value.code == "load"
    assert "keeps no items" in caught.value.message


def test_every_allowed_function_is_duckdbs() -> None:
    import duckdb

    found = duckdb.sql("SELECT function_name FROM duckdb_functions()").fetchall()
    grammar = {"coalesce", "ifnull"}
    assert FUNCTIONS - grammar <= {name for (name,) in found}
    assert all(name == function.name for name, function in TABLE_FUNCTIONS.items())
