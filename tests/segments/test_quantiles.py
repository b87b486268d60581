"""Quantiles: against sorted values, against KLL, and against KLL's own bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument
from muntin.segments.building import WHOLE, build, merge
from muntin.segments.codec import encode
from muntin.segments.columns import Ragged
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt, RanksOf
from muntin.summaries import KLL
from tests.segments.streams import Stream, by_bytes, rows_of, spread, streams

VALUES = st.integers(-50, 50).map(float) | st.floats(allow_nan=True) | st.just(-0.0)
FLOATS = streams((pa.float64(), VALUES))
ASKED = (0.0, 0.07, 0.5, 0.9, 1.0)
KEYS = [("text",)]


def values_by_key(stream: Stream, step: int = 1) -> dict[Any, list[float]]:
    found: dict[Any, list[float]] = {}
    for at, key, value in zip(
        stream.slices, stream.columns["text"][1], stream.values[0][1], strict=True
    ):
        held = found.setdefault((at // step if step else 0, key), [])
        if value is not None and value == value:
            held.append(value)
    return found


@given(FLOATS, st.data(), st.sampled_from([1, 3, WHOLE]))
def test_few_values_are_held_exactly_and_answer_as_kll(
    stream: Stream, data: Any, step: int
) -> None:
    algebra = Quantiles(k=64)
    whole = by_bytes(merge([stream.build(algebra, KEYS)], step))
    parts = [by_bytes(part.build(algebra, KEYS)) for part in data.draw(spread(stream))]
    assert encode(merge(parts, step)) == encode(whole)
    expected = values_by_key(stream, step)
    answers = rows_of(whole, ("text",), QuantilesAt(ASKED))
    points = (-3.5, 0.0, 17.0)
    ranked = rows_of(whole, ("text",), RanksOf(points, inclusive=False))
    (table,) = whole.tables
    assert len(table) == len(expected)
    for key, values in expected.items():
        if not values:
            assert key not in answers
            continue
        sketch = KLL(k=64)
        sketch.update(values)
        found = sketch.quantile(ASKED)
        for name in ("value", "lower", "upper"):
            assert [row[name] for row in answers[key]] == getattr(found, name).tolist()
        assert {row["confidence"] for row in answers[key]} == {1.0}
        rank = sketch.rank(points, inclusive=False)
        assert [row["value"] for row in ranked[key]] == rank.value.tolist()


@given(st.integers(1, 4000), st.integers(8, 64), st.integers(0, 2**32), st.integers(1, 40))
def test_many_values_keep_to_the_bound(n: int, k: int, seed: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.permutation(n).astype(np.float64)
    algebra = Quantiles(k=k)
    slices = np.sort(rng.integers(0, parts, n))
    panes = by_bytes(build(algebra, slices, [pa.array(values)]))
    whole = by_bytes(merge([panes], WHOLE))
    _check_bound(algebra, whole, n)
    again = merge([panes.between(0, parts // 2), panes.between(parts // 2, parts)], WHOLE)
    _check_bound(algebra, by_bytes(again), n)
    _check_bound(algebra, by_bytes(merge([merge([panes], 7)], WHOLE)), n)


def _check_bound(algebra: Quantiles, whole: Any, n: int) -> None:
    (table,) = whole.tables
    fractions = tuple(np.linspace(0, 1, 21).tolist())
    rows = algebra.answer(table, QuantilesAt(fractions)).to_pylist()
    error = 0.0 if n <= algebra.k else algebra.rank_error
    for row in rows:
        rank = (row["value"] + 1) / n
        assert abs(rank - row["q"]) <= 2 * error + 1 / n
        assert row["lower"] <= row["value"] <= row["upper"]
    assert rows[0]["value"] == 0
    assert rows[-1]["value"] == n - 1
    ranks = algebra.answer(table, RanksOf(tuple(np.arange(-1, n + 1, max(n // 9, 1)).tolist())))
    for row in ranks.to_pylist():
        true = min(max(row["x"] + 1, 0), n) / n
        assert abs(row["value"] - true) <= 2 * error + 1e-12


@pytest.mark.parametrize("n", [40_000, 700_000])
def test_a_large_group_goes_through_the_sampler(n: int) -> None:
    values = np.random.default_rng(3).permutation(n).astype(np.float64)
    algebra = Quantiles(k=32)
    segment = by_bytes(build(algebra, np.zeros(n, np.int64), [pa.array(values)]))
    _check_bound(algebra, segment, n)
    sketch = KLL(k=32)
    sketch.update(values)
    assert algebra.rank_error == sketch.rank_error()  # what is seen is far below it
    items = segment.tables[0].states["items"]
    assert isinstance(items, Ragged)
    assert len(items.items) < 4 * 32 + 200


def test_errors_of_many_panes_cancel() -> None:
    """Each pane tosses coins of its own: the error of a window is far below that of a pane."""
    rng = np.random.default_rng(11)
    panes, size, algebra = 200, 2000, Quantiles(k=50)
    values = rng.normal(size=panes * size)
    slices = np.repeat(np.arange(panes), size)
    whole = merge([build(algebra, slices, [pa.array(values)])], WHOLE)
    points = tuple(np.quantile(values, np.linspace(0.02, 0.98, 49)).tolist())
    answer = algebra.answer(whole.tables[0], RanksOf(points))
    true = np.searchsorted(np.sort(values), points, side="right") / len(values)
    assert np.abs(answer["value"].to_numpy() - true).max() < algebra.rank_error


@given(FLOATS, st.integers(1, 2))
def test_nulls_are_counted_and_the_rest_of_the_keys_is_one_row(stream: Stream, limit: int) -> None:
    segment = by_bytes(stream.build(Quantiles(), KEYS, limit))
    (table,) = segment.tables
    values = stream.values[0][1]
    nulls = table.states["nulls"]
    missing = sum(1 for value in values if value is None or value != value)
    assert (0 if nulls is None else int(np.asarray(nulls).sum())) == missing
    assert int(table.events.sum()) == len(stream)
    assert np.diff(table.starts).max() <= limit + 1


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_types_of_values(dtype: str) -> None:
    kind = {"float32": pa.float32(), "int64": pa.int64()}[dtype]
    values = [3, -1, 2**31, None] if dtype == "int64" else [0.1, -2.5, 3e38, None]
    segment = by_bytes(Stream([1] * 4, {}, [(kind, values)]).build(Quantiles(dtype=dtype)))
    table = segment.algebra.answer(segment.tables[0], QuantilesAt((0.0, 0.5, 1.0)))
    kept = np.sort(np.array(values[:3], dtype))
    assert table["value"].to_numpy().tolist() == kept.tolist()
    ranks = segment.algebra.answer(segment.tables[0], RanksOf(tuple(sorted(values[:3]))))
    assert ranks["lower"].to_numpy().tolist() == [1 / 3, 2 / 3, 1.0]
    assert str(table["value"].type) == {"float32": "float", "int64": "int64"}[dtype]


def test_questions_that_cannot_be_asked() -> None:
    segment = Stream([1], {}, [(pa.float64(), [1.0])]).build(Quantiles())
    with pytest.raises(BadArgument, match="fraction"):
        segment.algebra.answer(segment.tables[0], QuantilesAt((1.5,)))
    with pytest.raises(BadArgument, match="ask QuantilesAt"):
        segment.algebra.answer(segment.tables[0], "median")
