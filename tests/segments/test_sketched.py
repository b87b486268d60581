"""Sketched sums: exact while keys are few, then the cells and bounds of Count-Min."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.segments.building import WHOLE, build, merge
from muntin.segments.codec import decode, encode
from muntin.segments.columns import lists
from muntin.segments.sketched import Listed, SketchedSums, SumsOf, _less
from muntin.segments.sums import Totals
from muntin.summaries import CountMin
from tests.segments.streams import Stream, by_bytes, spread, streams

KEYS = [("text",), ("text", "number")]
VALUES = (pa.int64(), st.integers(-2, 50) | st.just(2**62))


@given(streams(VALUES), st.data(), st.sampled_from([1, 4, WHOLE]))
def test_few_keys_are_exact_and_have_the_same_bytes(stream: Stream, data: Any, step: int) -> None:
    algebra = SketchedSums((("i", "int64"),), width=256, depth=4, track=30)
    whole = by_bytes(merge([stream.build(algebra, KEYS)], step))
    parts = [by_bytes(part.build(algebra, KEYS)) for part in data.draw(spread(stream))]
    assert encode(merge(parts, step)) == encode(whole)
    for by in KEYS:
        table = whole.table(by)
        assert table is not None
        counts: dict[Any, int] = defaultdict(int)
        sums: dict[Any, int] = defaultdict(int)
        totals: dict[int, int] = defaultdict(int)
        for i in range(len(stream)):
            at = stream.slices[i] // step if step else 0
            key = (at, *(stream.columns[name][1][i] for name in by))
            value = stream.values[0][1][i] or 0
            counts[key] += 1
            sums[key] += max(value, 0)
            totals[at] += max(value, 0)
        rows = algebra.answer(table, Listed()).to_pylist()
        assert len(rows) == len(counts)
        for row in rows:
            at = int(table.slice_of_row[row["row"]])
            key = (at, *(row[name] for name in by))
            assert row["count"] == row["count_lower"] == counts[key]
            expected = sums[key] if totals[at] < 2**63 else None
            assert row["i"] == row["i_lower"] == expected
        asked = {key[1:] for key in counts} | {("never",) + (1,) * (len(by) - 1)}
        columns = dict(zip(by, map(pa.array, zip(*asked, strict=True)), strict=True))
        for row in algebra.answer(table, SumsOf(columns)).to_pylist():
            at = int(table.slice_of_row[row["row"]])
            key = (at, *(row[name] for name in by))
            assert row["count"] == row["count_lower"] == counts[key]
            expected = sums[key] if totals[at] < 2**63 else None
            assert row["i"] == row["i_lower"] == expected
            assert row["confidence"] == 1
        for row in algebra.answer(table, Totals()).to_pylist():
            at = int(table.slice_of_row[row["row"]])
            assert row["count"] == sum(n for key, n in counts.items() if key[0] == at)
            assert row["overflow"] == (totals[at] >= 2**63)
            assert row["i"] == (None if row["overflow"] else totals[at])


@given(st.integers(0, 99), st.integers(300, 3000), st.integers(1, 10))
def test_many_keys_are_in_the_cells_of_a_count_min(seed: int, n: int, panes: int) -> None:
    rng = np.random.default_rng(seed)
    keys = pa.array((rng.pareto(0.5, n) * 5).astype(np.int64) % 2000)
    integers, floats = pa.array(rng.integers(0, 99, n)), pa.array(rng.integers(0, 99, n) / 4)
    algebra = SketchedSums((("i", None), ("f", None)), width=32, depth=3, track=10)
    slices = rng.integers(0, panes, n)
    segment = by_bytes(build(algebra, slices, [integers, floats], [("k",)], {"k": keys}))
    (table,) = by_bytes(merge([segment], WHOLE)).tables
    asked = list(range(2010))
    counters, values = {}, {}
    for name, weights in (("cells", None), ("i.cells", integers), ("f.cells", floats)):
        sketch = CountMin(width=32, depth=3)  # of quarters, where values are floats
        sketch.update(keys, None if weights is None else (weights.to_numpy() * 4).astype(np.int64))
        values[name] = sketch.estimate(asked).upper / (1 if weights is None else 4)
        counters[name] = sketch._cells.ravel() / (1 if weights is None else 4)
    assert (lists(table.states["cells"], 1).items == counters["cells"]).all()
    assert (lists(table.states["i.cells"], 1).items == counters["i.cells"]).all()
    mine = lists(table.states["f.cells"], 1).items.view(np.float64)
    assert np.allclose(mine, counters["f.cells"])
    truth: dict[int, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for key, i, f in zip(keys.to_pylist(), integers.to_pylist(), floats.to_pylist(), strict=True):
        truth[key] = [truth[key][0] + 1, truth[key][1] + i, truth[key][2] + f]
    rows = segment.algebra.answer(table, Listed(10)).to_pylist()
    assert len(rows) == 10
    for row in rows:
        count, i, f = truth[row["k"]]
        assert row["count_lower"] <= count <= row["count"]
        assert i <= row["i"]
        assert f <= row["f"] * (1 + 1e-12)
        assert row["confidence"] == pytest.approx(1 - np.exp(-3))
    found = segment.algebra.answer(table, SumsOf({"k": pa.array(asked)})).to_pydict()
    for name, column, kind in (("i", integers, np.int64), ("f", floats, float)):
        error = np.e * column.to_numpy().sum() / 32
        expected = values[f"{name}.cells"]
        assert found[name] == pytest.approx(expected.tolist())
        lower = np.maximum(expected - (np.ceil(error) if kind is np.int64 else error), 0)
        assert found[f"{name}_lower"] == pytest.approx(lower.tolist())
    likely = 0
    for at, key in enumerate(asked):
        count, i, f = truth[key]
        assert count <= found["count"][at]
        assert i <= found["i"][at]
        likely += found["count_lower"][at] <= count
        assert found["count"][at] <= int(values["cells"][at])
    assert likely >= 0.9 * len(asked)
    (total,) = segment.algebra.answer(table, Totals()).to_pylist()
    assert (total["count"], total["i"], total["overflow"]) == (n, sum(integers.to_pylist()), False)
    assert total["f"] == pytest.approx(sum(floats.to_pylist()))
    counts = [row["count"] for row in rows]
    assert counts == sorted(counts, reverse=True)


def test_integers_join_floats_and_other_indicators_do_not() -> None:
    whole = Stream([1, 1], {"text": (pa.string(), ["a", "b"])}, [(pa.int64(), [1, 2])])
    half = Stream([1], {"text": (pa.string(), ["a"])}, [(pa.float64(), [0.5])])
    algebra = SketchedSums((("i", None),))
    merged = by_bytes(merge([whole.build(algebra, KEYS[:1]), half.build(algebra, KEYS[:1])]))
    rows = merged.algebra.answer(merged.tables[0], Listed()).to_pylist()
    assert {row["text"]: row["i"] for row in rows} == {"a": 1.5, "b": 2.0}
    other = half.build(SketchedSums((("j", None),)), KEYS[:1])
    with pytest.raises(IncompatibleSummary, match="other indicators"):
        merge([merged, other])


def test_tables_are_found_by_their_keys_whatever_these_are_called() -> None:
    stream = Stream(
        [1, 1], {"item": (pa.string(), ["a", "b"]), "weight": (pa.int64(), [1, 2])},
        [(pa.int64(), [1, 2])],
    )  # fmt: skip
    names = [("item",), ("weight",), ("item", "weight")]
    segment = by_bytes(stream.build(SketchedSums((("total", None),)), names))
    merged = merge([segment, segment], WHOLE)
    for by in names:
        assert decode(encode(segment), keys=[by]).tables[0].name(segment.algebra) == by
        table = merged.table(by)
        assert table is not None
        assert sorted(merged.algebra.answer(table, Listed())["total"].to_pylist()) == [2, 4]


def test_what_is_no_key_is_refused() -> None:
    stream = Stream([1], {"text": (pa.string(), ["a"])}, [(pa.int64(), [1])])
    segment = stream.build(SketchedSums((("i", None),)), KEYS[:1])
    for wrong in ({}, {"text": pa.array([1.5])}, {"text": pa.array([1])}):
        with pytest.raises((BadArgument, IncompatibleSummary), match=r"key|column"):
            segment.algebra.answer(segment.tables[0], SumsOf(wrong))


def test_bounds_hold_where_the_error_is_beyond_int64() -> None:
    values = pa.array([2**62, 2**62 - 3, 1, 1, 0])
    keys = pa.array(["a", "b", "c", "d", "e"])
    algebra = SketchedSums((("i", None),), width=2, depth=1, track=1)
    segment = build(algebra, np.zeros(5, np.int64), [values], [("k",)], {"k": keys})
    rows = segment.algebra.answer(
        segment.tables[0], SumsOf({"k": pa.array(["a", "c"])})
    ).to_pylist()
    assert [row["i_lower"] for row in rows] == [0, 0]
    assert rows[0]["i"] >= 2**62


def test_a_bound_beyond_float64_is_none_and_no_warning() -> None:
    value, dense = np.array([1e300]), np.array([True])
    with np.errstate(all="raise"):
        assert _less(value, np.array([1.7e308]), 2, dense).tolist() == [0.0]
