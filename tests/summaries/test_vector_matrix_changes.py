"""Keys and indicators that come and go: what a pane did not have is null, never zero."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vector_matrix_oracle import batch_of, expected, filled, rows_of, streams

from muntin.errors import BadArgument, IncompatibleSummary, UnknownName
from muntin.summaries import VectorMatrix


def of(rows, keys=("k",), indicators=("x",)):
    summary = VectorMatrix(keys, indicators)
    summary.update(pa.Table.from_pylist(rows))
    return summary


def lines(summary, key="k"):
    return sorted(summary.table(key).to_pylist(), key=str)


def test_an_indicator_that_one_pane_lacks_is_null_in_its_rows():
    old = of([{"k": "a"}, {"k": "b"}], indicators=())
    new = of([{"k": "b", "x": 3}, {"k": "c", "x": None}])
    wanted = [
        {"k": "a", "count": 1, "x": None},
        {"k": "b", "count": 2, "x": 3},
        {"k": "c", "count": 1, "x": 0},
    ]
    one, two = old.copy(), new.copy()
    one.merge(new)
    two.merge(old)
    for merged in (one, two, VectorMatrix.merged([old, new, VectorMatrix(["k"])])):
        assert lines(merged) == wanted
        again = VectorMatrix.from_bytes(merged.to_bytes())
        assert lines(again) == wanted
        assert again.to_bytes() == merged.to_bytes() == one.to_bytes()
        again.update(pa.table({"k": ["a"], "x": [0]}))
        assert lines(again)[0] == {"k": "a", "count": 2, "x": 0}
    assert one.nulls == {"x": 1}


def test_a_key_that_one_pane_lacks_covers_less():
    old = of([{"k": "a", "j": 1}], indicators=())
    new = of([{"k": "a", "j": 1}], keys=["k", ("j", "k"), "j"], indicators=())
    old.merge(new)
    assert old.keys == (("k",), ("j", "k"), ("j",))
    assert (old.covered("k"), old.covered("j"), old.covered(("j", "k")), old.count) == (2, 1, 1, 2)
    assert VectorMatrix.from_bytes(old.to_bytes()).covered("j") == 1


def test_adding_and_removing():
    summary = of([{"k": "a", "x": 1}])
    summary.add_indicator("y", "float64")
    summary.add_key(("k", "j"))
    summary.add_key("j")
    assert lines(summary) == [{"k": "a", "count": 1, "x": 1, "y": None}]
    assert summary.table("j").num_rows == 0
    summary.update(pa.table({"k": ["a", "b"], "j": [1, 2], "x": [5, 6], "y": [0.5, None]}))
    assert lines(summary) == [
        {"k": "a", "count": 2, "x": 6, "y": 0.5},
        {"k": "b", "count": 1, "x": 6, "y": 0.0},
    ]
    assert lines(summary, ("k", "j"))[0] == {"k": "a", "j": 1, "count": 1, "x": 5, "y": 0.5}
    assert (summary.covered("k"), summary.covered("j")) == (3, 2)
    again = VectorMatrix.from_bytes(summary.to_bytes())
    assert again.to_bytes() == summary.to_bytes()
    summary.remove_key(("k", "j"))
    summary.remove_indicator("x")
    assert summary.indicators == {"y": "float64"}
    assert lines(summary, "j") == [
        {"j": 1, "count": 1, "y": 0.5},
        {"j": 2, "count": 1, "y": 0.0},
    ]
    assert (again.keys, again.rows()) == (
        (("k",), ("k", "j"), ("j",)),
        {("k",): 2, ("k", "j"): 2, ("j",): 2},
    )


def test_a_key_can_be_added_for_a_column_that_is_known():
    summary = of([{"k": str(i), "j": i % 3} for i in range(100)], keys=[("k", "j")], indicators=())
    summary.add_key("k")
    summary.update(pa.table({"k": ["5", "x"], "j": [1, 1]}))
    assert lines(summary) == [{"k": "5", "count": 1}, {"k": "x", "count": 1}]
    summary.remove_key(("k", "j"))
    assert VectorMatrix.from_bytes(summary.to_bytes()).rows("k") == 2
    other = of([{"k": str(i)} for i in range(50, 150)], indicators=())
    summary.merge(other)
    assert summary.rows("k") == 102


def test_refused_changes():
    summary = of([{"k": "a", "x": 1}])
    for change, says in (
        (lambda: summary.add_key("k"), "there already"),
        (lambda: summary.add_key("x"), "a key and an indicator"),
        (lambda: summary.add_indicator("x"), "there already"),
        (lambda: summary.add_indicator("k"), "a key and an indicator"),
        (lambda: summary.add_indicator("z", "text"), "int64"),
        (lambda: summary.remove_key("k"), "the only one"),
        (lambda: summary.remove_key("z"), "there are k"),
        (lambda: summary.remove_indicator("z"), "there are: x"),
    ):
        with pytest.raises(BadArgument, match=says):
            change()
    with pytest.raises(UnknownName):
        summary.remove_indicator("z")
    assert lines(summary) == [{"k": "a", "count": 1, "x": 1}]


def test_integers_meet_floats_exactly():
    big = 2**62 + 1
    whole = of([{"k": "a", "x": big}])
    parts = of([{"k": "a", "x": 0.5}])
    for first, second in ((whole, parts), (parts, whole)):
        merged = first.copy()
        merged.merge(second)
        assert merged.indicators == {"x": "float64"}
        assert lines(merged) == [{"k": "a", "count": 2, "x": float(big)}]
        merged.merge(of([{"k": "a", "x": -float(2**62)}]))
        assert lines(merged) == [{"k": "a", "count": 3, "x": 1.5}]


def test_merging_what_cannot_be():
    a, b = of([{"k": "a", "x": 1}]), of([{"x": "a", "k": 1}], keys=["x"], indicators=["k"])
    with pytest.raises(IncompatibleSummary, match="a key in one summary"):
        a.merge(b)
    with pytest.raises(IncompatibleSummary, match="keys are"):
        a.subtract(VectorMatrix(["j"], ["x"]))
    with pytest.raises(IncompatibleSummary, match="indicators are"):
        a.subtract(VectorMatrix(["k"], ["y"]))
    lately = a.copy()
    lately.add_indicator("y")
    with pytest.raises(IncompatibleSummary, match="added on the way"):
        lately.subtract(VectorMatrix(["k"], ["x", "y"]))


def test_the_larger_capacity_holds():
    for one, two, wanted in ((1, 2, 2), (None, 2, None), (2, None, None), (None, None, None)):
        first = VectorMatrix(["k"], capacity=one)
        first.merge(VectorMatrix(["k"], capacity=two and np.int64(two)))
        assert first.capacity == wanted


@given(streams, streams, streams, st.permutations(range(3)))
def test_panes_of_three_versions_of_a_pipeline(a, b, c, order):
    panes = [
        filled(a, ["driver"], {"time": "int64"}),
        filled(b, ["driver", ("driver", "area")], {"time": "int64", "served": None}),
        filled(c, [("driver", "area"), "driver"], {"served": "int64", "time": None}),
    ]
    merged = VectorMatrix.merged([panes[i] for i in order])
    totals, later = expected(a + b + c, "driver"), expected(b + c, "driver")
    found = rows_of(merged, "driver")
    assert found.keys() == totals.keys()
    names = merged.table("driver").schema.names[1:]
    for key, values in found.items():
        row = dict(zip(names, values, strict=True))
        assert row["count"], row["time"] == (totals[key][0], totals[key][2])
        assert row["served"] == (later[key][1] if key in later else None)
    pairs = expected(b + c, ("driver", "area"))
    counts = {key: values[0] for key, values in rows_of(merged, ("driver", "area")).items()}
    assert counts == {key: values[0] for key, values in pairs.items()}
    again = VectorMatrix.from_bytes(merged.to_bytes())
    assert again.to_bytes() == merged.to_bytes()
    assert rows_of(again, "driver") == found
    again.update(batch_of(a))
