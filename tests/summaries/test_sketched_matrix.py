"""The sketched matrix against exact sums by key, and beside the vector matrix."""

import datetime
import warnings
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, golden, readable
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary, SummaryOverflow
from muntin.segments import build, decode, encode
from muntin.segments.sums import Sums
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.sketched_matrix import SketchedMatrix
from muntin.summaries.vector_matrix import VectorMatrix

KEYS = ["driver", ("driver", "area")]
events = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ü", "", None, *map(str, range(12))]),
        st.sampled_from([1, 2, None]),
        st.integers(0, 100) | st.none(),
        st.floats(0, 1e6) | st.none() | st.just(float("nan")),
    ),
    max_size=60,
)


def batch_of(rows):
    columns = list(zip(*rows, strict=True)) or [[]] * 4
    return pa.record_batch(
        {
            "driver": pa.array(columns[0], pa.string()),
            "area": pa.array(columns[1], pa.int32()),
            "served": pa.array(columns[2], pa.int64()),
            "time": pa.array(columns[3], pa.float64(), from_pandas=False),
        }
    )


def matrix(**parameters):
    defaults = {"width": 16, "depth": 3, "track": 5}
    return SketchedMatrix(KEYS, ["served", "time"], **defaults | parameters)


def fed(rows, **parameters):
    summary = matrix(**parameters)
    summary.update(batch_of(rows))
    return summary


def exact(rows, key):
    sums = defaultdict(lambda: [0, 0, 0.0])
    for driver, area, served, time in rows:
        row = sums[(driver,) if key == ("driver",) else (driver, area)]
        row[0] += 1
        row[1] += served or 0
        row[2] += time if time is not None and time == time else 0.0
    return sums


def check(summary, rows):
    assert summary.count == len(rows)
    for key in summary.keys:
        truth = exact(rows, key)
        asked = {
            "driver": pa.array([k[0] for k in truth], pa.string()),
            "area": pa.array([k[-1] if len(k) > 1 else None for k in truth], pa.int64()),
        }
        found = summary.estimate(key, asked)
        for lane, name in enumerate(("count", "served", "time")):
            sums = np.array([row[lane] for row in truth.values()])
            assert (sums <= found[name].upper * (1 + 1e-12)).all()
            assert (found[name].value == found[name].upper).all()
            assert (found[name].lower <= found[name].upper).all()
        table = summary.table(key)
        assert table.column_names == [
            *key, "count", "served", "time", "count_lower", "served_lower", "time_lower",
        ]  # fmt: skip
        assert table["count"].to_pylist() == sorted(table["count"].to_pylist(), reverse=True)
        for row in table.to_pylist():
            count, served, time = truth[tuple(row[name] for name in key)]
            assert row["count_lower"] <= count <= row["count"]
            assert served <= row["served"]
            assert time <= row["time"] * (1 + 1e-12)
        listed = {tuple(row[name] for name in key) for row in table.to_pylist()}
        bound = len(rows) / (summary.track + 1)
        assert all(value in listed for value, row in truth.items() if row[0] > bound)


def items_of(summary, key, part):
    table = summary._segment().table(key)
    column = None if table is None else table.states[part]
    return None if column is None else column.items.tolist()


@settings(max_examples=60)
@given(events, st.sampled_from([1, 5, 40]), st.integers(0, 60))
def test_bounds_merging_and_bytes(rows, track, cut):
    whole = fed(rows, track=track)
    left, right = fed(rows[:cut], track=track), fed(rows[cut:], track=track)
    before = right.to_bytes()
    both = SketchedMatrix.merged([left, right])
    assert right.to_bytes() == before
    left.update(batch_of(rows[cut:]))
    for summary in (whole, both, left):
        check(summary, rows)
        again = SketchedMatrix.from_bytes(summary.to_bytes())
        assert again.to_bytes() == summary.to_bytes()
        assert again.table("driver").equals(summary.table("driver"))
    assert (both.nulls, both.totals["served"]) == (whole.nulls, whole.totals["served"])
    for part in ("cells", "served.cells", "served.list"):
        for key in whole.keys:
            mine, theirs, its = (items_of(summary, key, part) for summary in (whole, both, left))
            assert mine == theirs == its


def test_wide_sketches_equal_the_vector_matrix():
    rng = np.random.default_rng(1)
    n = 5000
    batch = pa.table(
        {
            "driver": pa.array([f"d{i}" for i in rng.integers(0, 40, n)]).dictionary_encode(),
            "area": rng.integers(0, 5, n),
            "day": pa.array(rng.integers(0, 3, n), pa.int32()).cast(pa.date32()),
            "served": rng.integers(0, 9, n),
            "time": rng.integers(0, 64, n) / 4,
        }
    )
    keys = ["driver", ("area", "driver"), ("day", "area")]
    sketch = SketchedMatrix(keys, ["served", "time"], width=1 << 15, depth=5, track=300)
    matrix = VectorMatrix(keys, ["served", "time"])
    for start in range(0, n, 1500):
        sketch.update(batch.slice(start, 1500))
        matrix.update(batch.slice(start, 1500))
    assert sketch.keys == matrix.keys
    assert sketch.indicators == matrix.indicators
    assert sketch.rows() == matrix.rows()
    for key in keys:
        names = [key] if isinstance(key, str) else list(key)
        mine = sketch.table(key).select([*names, "count", "served", "time"])
        theirs = matrix.table(key).to_pylist()
        assert sorted(map(str, mine.to_pylist())) == sorted(map(str, theirs))


def test_the_bound_holds_as_often_as_it_says():
    broken = asked = 0
    for seed in range(40):
        items = np.arange(500) + 1000 * seed
        batch = pa.table({"k": items, "x": np.ones(500, np.int64), "y": np.ones(500)})
        sketch = SketchedMatrix(["k"], ["x", "y"], width=64, depth=2, track=1)
        sketch.update(batch)
        for estimate in sketch.estimate("k", items).values():
            broken += int((estimate.lower > 1).sum())
            asked += len(items)
        assert estimate.confidence == pytest.approx(1 - np.exp(-2))
    assert broken / asked <= np.exp(-2)


def test_no_lower_bound_from_cells_is_above_what_the_list_knows():
    """One row of cells: what shares the heaviest key's has a cell far above its own count."""
    items = np.concatenate([np.zeros(5000, np.int64), np.arange(200)])
    sketch = SketchedMatrix(["k"], ["x"], width=64, depth=1, track=60)
    sketch.update(pa.table({"k": items, "x": items}))
    for found in sketch.estimate("k", np.arange(300)).values():
        assert (found.lower <= found.value).all()


def test_types_are_decided_by_data_and_widened_by_merging():
    one = SketchedMatrix(["k"], ["x"], width=8, depth=2)
    two = one.copy()
    one.update(pa.table({"k": pa.nulls(2), "x": pa.nulls(2)}))
    assert one.indicators == {"x": None}
    assert one.nulls == {"x": 2}
    assert SketchedMatrix.from_bytes(one.to_bytes()).to_bytes() == one.to_bytes()
    one.update(pa.table({"k": ["a"], "x": [3]}))
    two.update(pa.table({"k": ["a", None], "x": [0.5, -0.0]}))
    one.merge(two)
    assert one.indicators == {"x": "float64"}
    assert one.estimate("k", ["a"])["x"].value.tolist() == [3.5]
    assert one.table("k")["k"].to_pylist() == [None, "a"]
    assert one.totals == {"count": 5, "x": 3.5}
    with pytest.raises(BadArgument):
        one.update(pa.table({"k": [1], "x": [1]}))
    with pytest.raises(BadArgument, match="k"):
        one.estimate("k", [1])
    again = SketchedMatrix.from_bytes(one.to_bytes())
    assert again.to_bytes() == one.to_bytes()
    one.merge(one)
    assert one.count == 10
    assert again.nbytes > 0


def test_decimals_for_sums_of_integers_are_refused_by_their_name():
    sketch = SketchedMatrix(["k"], ["x"], width=8, depth=2)
    sketch.update(pa.table({"k": ["a"], "x": [3]}))
    prices = pa.array(["1.50"]).cast(pa.decimal128(5, 2))
    with pytest.raises(BadArgument, match=r"is decimal128\(5, 2\), and its sums are int64"):
        sketch.update(pa.table({"k": ["a"], "x": prices}))
    sketch.update(pa.table({"k": ["a"], "x": prices.cast(pa.decimal128(5, 0), safe=False)}))
    assert sketch.totals["x"] == 4


def test_decimals_in_a_dictionary_are_summed_as_floats():
    prices = pa.array(["1.50", "0.25"]).cast(pa.decimal128(5, 2)).dictionary_encode()
    sketch = SketchedMatrix(["k"], ["x"], width=8, depth=2)
    sketch.update(pa.table({"k": ["a", "a"], "x": prices}))
    assert SketchedMatrix.from_bytes(sketch.to_bytes()).table("k")["x"].to_pylist() == [1.75]


def test_times_and_booleans():
    moment = datetime.datetime(2026, 11, 21, 5, tzinfo=datetime.UTC)
    batch = pa.table({"t": [moment, None], "b": [True, False], "x": [True, None]})
    sketch = SketchedMatrix([("t", "b")], ["x"], width=8, depth=2)
    sketch.update(batch)
    sketch.update(batch.cast(pa.schema({"t": pa.timestamp("ms", "UTC"), "b": "bool", "x": "bool"})))
    rows = SketchedMatrix.from_bytes(sketch.to_bytes()).table(("t", "b")).to_pylist()
    assert {(row["t"], row["b"], row["count"], row["x"]) for row in rows} == {
        (moment, True, 2, 2),
        (None, False, 2, 0),
    }


@pytest.mark.parametrize(
    "batch",
    [
        {"driver": ["a"], "area": [1], "served": [-1], "time": [1.0]},
        {"driver": ["a"], "area": [1], "served": [1], "time": [-0.5]},
        {"driver": ["a"], "area": [1], "served": [1.5], "time": [1.0]},
        {"driver": ["a"], "area": [1], "served": [1]},
        {"driver": [1.5], "area": [1], "served": [1], "time": [1.0]},
        {"driver": [1], "area": [1], "served": [1], "time": [1.0]},
        {
            "driver": pa.array([b"\xff"]).view(pa.string()),
            "area": [1],
            "served": [1],
            "time": [1.0],
        },
        {"driver": ["a"], "area": pa.array([2**63], pa.uint64()), "served": [1], "time": [1.0]},
    ],
)
def test_refused_updates_change_nothing(batch):
    summary = fed([("a", 1, 1, 1.0)])
    before = summary.to_bytes()
    with pytest.raises(BadArgument):
        summary.update(pa.table(batch))
    with pytest.raises(BadArgument):
        summary.update(batch)
    assert summary.to_bytes() == before


def test_overflow_changes_nothing():
    summary = fed([("a", 1, 2**63 - 1, 1.7e308)])
    before = summary.to_bytes()
    for row in (("a", 1, 1, 0.0), ("b", 1, 0, 1.7e308)):
        with pytest.raises(SummaryOverflow):
            summary.update(batch_of([row]))
        with pytest.raises(SummaryOverflow):
            summary.merge(fed([row]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy has nothing to add
        with pytest.raises(SummaryOverflow):
            summary.update(batch_of([("c", 1, 0, 1.7e308)] * 2))
    assert summary.to_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 1},
        {"depth": 0},
        {"track": 0},
        {"width": 1 << 28},
        {"keys": []},
        {"keys": ["a", "a"]},
        {"indicators": ["a"]},
        {"indicators": ["x", "x_lower"]},
        {"keys": ["count_lower"]},
    ],
)
def test_impossible_parameters(wrong):
    with pytest.raises(BadArgument):
        SketchedMatrix(**{"keys": ["a"], "indicators": ["x"]} | wrong)


def test_only_alike_merge():
    summary = fed([("a", 1, 1, 1.0)])
    numbers = matrix()
    numbers.update(pa.table({"driver": [1], "area": [1], "served": [1], "time": [1.0]}))
    other_key = SketchedMatrix(["driver"], ["served", "time"], width=16, depth=3, track=5)
    for other in (matrix(width=17), matrix(track=6), other_key, numbers, "matrix"):
        before = summary.to_bytes()
        with pytest.raises(IncompatibleSummary):
            summary.merge(other)
        assert summary.to_bytes() == before
    more = SketchedMatrix(["driver"], ["served"], width=16, depth=3, track=5)
    with pytest.raises(
        IncompatibleSummary, match=r"\(indicators .*'time'.* make both with the same"
    ):
        other_key.merge(more)


def example():
    rows = [("a", 1, 3, 0.5), (None, 2, None, 2.0), ("ü", None, 70_000, None), ("a", 1, 4, 8.25)]
    return fed(rows, width=4, depth=2)


def test_golden_bytes():
    data = golden("sketched_matrix-v2", lambda: example().to_bytes())
    summary = SketchedMatrix.from_bytes(data)
    assert summary.to_bytes() == data == example().to_bytes()
    assert summary.table("driver")["driver"].to_pylist()[0] == "a"


def test_damaged_bytes():
    data = example().to_bytes()
    for size in range(0, len(data), 7):
        with pytest.raises(CorruptSummary):
            SketchedMatrix.from_bytes(data[:size])
    for blob, found in readable(SketchedMatrix, damaged(data, 4000)):
        assert found.to_bytes() == blob
        found.table(1)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"columns": {"driver": "string"}},
        {"columns": {"driver": "string", "area": 5}},
        {"columns": {"driver": "int64", "area": "int64"}},
        {"keys": [["driver"]]},
        {"keys": [["driver"], ["driver", "served"]]},
        {"keys": [["driver", "area"], ["driver"]]},
        {"keys": 5},
    ],
)
def test_contradictions_are_found(change):
    parameters, body = unseal(example().to_bytes(), "sketched_matrix")
    with pytest.raises(CorruptSummary):
        SketchedMatrix.from_bytes(seal("sketched_matrix", parameters | change, bytes(body)))


def test_segments_that_are_no_matrix_are_refused():
    summary = SketchedMatrix(["k", "j"], ["x"])
    columns = {"k": pa.array([1, 2]), "j": pa.array([1, 2])}
    summary.update(pa.table({**columns, "x": [1, 2]}))
    parameters, body = unseal(summary.to_bytes(), "sketched_matrix")
    whole = decode(bytes(body))
    sums, zeros, values = whole.algebra, np.zeros(2, np.int64), [pa.array([1, 2])]
    keys, large = [("k",), ("j",)], [pa.array([2**63 - 1, 1])]
    for segment in (
        build(Sums(sums.indicators), zeros, values, keys, columns),
        build(sums, zeros, values, keys, columns, limit=5),
        build(sums, np.arange(2), values, keys, columns),  # two slices
        build(sums, zeros + 1, values, keys, columns),
        build(sums, zeros, values, keys[:1], columns),  # one key of two
        build(sums, zeros, values, keys[::-1], columns),  # another order
        build(sums, zeros, values, keys, {**columns, "k": pa.array(["1", "2"])}),
        build(sums, zeros, large, keys, columns),  # no update makes such a sum
    ):
        with pytest.raises(CorruptSummary):
            SketchedMatrix.from_bytes(seal("sketched_matrix", parameters, encode(segment)))
    again = SketchedMatrix.from_bytes(seal("sketched_matrix", parameters, encode(whole)))
    assert again.totals == summary.totals == {"count": 2, "x": 3}


def test_many_values_become_cells_whatever_the_batches():
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 10**9, 150_000)  # more than are gathered at once
    batch = pa.table({"k": keys, "x": rng.integers(0, 9, len(keys))})
    sizes = {"width": 256, "depth": 3, "track": 5}
    one, many = (SketchedMatrix(["k"], ["x"], **sizes) for _ in range(2))
    one.update(batch)
    for start in range(0, len(keys), 7_000):
        many.update(batch.slice(start, 7_000))
        if start % 3 == 0:
            assert many.estimate("k", keys[:1])["count"].value[0] >= 1  # asked on the way
    assert many.nbytes < 64 << 20
    for part in ("cells", "x.cells"):
        assert items_of(one, ("k",), part) == items_of(many, ("k",), part)
    found = one.estimate("k", keys[:1000])
    assert found["x"].confidence == pytest.approx(1 - np.exp(-3))
    assert (found["x"].value >= batch["x"].to_numpy()[:1000]).all()
    assert one.totals == many.totals == {"count": len(keys), "x": int(batch["x"].to_numpy().sum())}


def test_sums_that_only_their_bound_says_are_too_large():
    """2^62 and many small values: each times the number of events is beyond int64."""
    batch = pa.table({"k": ["a", *"bcd"], "x": [2**62, 1, 2, 3], "y": [1e300, 1.0, 0.0, None]})
    summary = SketchedMatrix(["k"], ["x", "y"])
    summary.update(batch)
    summary.update(batch.slice(1))
    assert summary.totals == {"count": 7, "x": 2**62 + 12, "y": 1e300}
    rows = {row["k"]: (row["count"], row["x"], row["y"]) for row in summary.table("k").to_pylist()}
    assert rows == {"a": (1, 2**62, 1e300), "b": (2, 2, 2.0), "c": (2, 4, 0.0), "d": (2, 6, 0.0)}
    assert summary.nulls == {"x": 0, "y": 2}


@pytest.mark.parametrize(
    ("with_nulls", "without"),
    [
        ({"k": [None, "a", None], "x": [1, None, 3]}, {"k": ["a", "b"], "x": [1, 2]}),
        ({"k": pa.nulls(3), "x": pa.nulls(3)}, {"k": ["a", "b"], "x": [1, 2]}),
        ({"k": pa.nulls(2), "x": [1, 2]}, {"k": [1, 2], "x": [0.5, 2.0]}),
        ({"k": ["a", None], "x": pa.nulls(2)}, {"k": ["a", "b"], "x": [1.5, 2.5]}),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_nulls_join_what_has_none(with_nulls, without, turned):
    """Null keys are keys of their own, null values add nothing, whatever was merged into which."""
    tables = [pa.table(with_nulls), pa.table(without)]
    parts = [SketchedMatrix(["k"], ["x"], width=64, depth=3, track=8) for _ in tables]
    for part, table in zip(parts, tables, strict=True):
        part.update(table)
    one = SketchedMatrix.merged(parts[::-1] if turned else parts)
    truth: dict[object, list[float]] = {}
    for table in tables:
        for row in table.to_pylist():
            sums = truth.setdefault(row["k"], [0, 0])
            sums[0] += 1
            sums[1] += row["x"] or 0
    assert {r["k"]: [r["count"], r["x"]] for r in one.table("k").to_pylist()} == truth
    assert one.nulls == {"x": tables[0]["x"].null_count}
    assert one.totals == {"count": sum(c for c, _ in truth.values()), "x": sum(
        x for _, x in truth.values()
    )}  # fmt: skip
    again = SketchedMatrix.from_bytes(one.to_bytes())
    assert again.to_bytes() == one.to_bytes()
    assert again.estimate("k", pa.array([None], again.table("k")["k"].type))["count"].value[0] >= (
        truth[None][0] if None in truth else 0
    )
