"""Heaviest items and frequencies: against counters, SpaceSaving and CountMin."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import CorruptSummary, IncompatibleSummary
from muntin.kinds.columns import without_views
from muntin.segments.building import WHOLE, build, merge
from muntin.segments.codec import encode
from muntin.segments.columns import Ragged, frozen, lists
from muntin.segments.distinct import DistinctItems
from muntin.segments.frequency import Frequency
from muntin.segments.top_k import Heaviest, TopItems, WeightOf, flat, heaviest, listed
from muntin.summaries import CountMin, SpaceSaving
from tests.segments.streams import Stream, by_bytes, rows_of, spread, streams

NAMES = st.sampled_from(["a", "b", "ä", "", "x" * 30, *"cdefgh"])
WEIGHTS = st.integers(0, 9) | st.sampled_from([-1, 2**62])
ITEMS = streams((pa.string(), NAMES), (pa.int64(), WEIGHTS))
KEYS = [("text",)]
TOP = TopItems(capacity=3)


def counters(stream: Stream, step: int = 1) -> dict[Any, Counter[str]]:
    found: dict[Any, Counter[str]] = {}
    names = stream.columns["text"][1]
    values = zip(stream.values[0][1], stream.values[1][1], strict=True)
    for at, key, (item, weight) in zip(stream.slices, names, values, strict=True):
        held = found.setdefault((at // step if step else 0, key), Counter())
        if item is not None and weight is not None and weight >= 0:
            held[item] += weight
    return found


@given(ITEMS, st.data(), st.sampled_from([1, 4, WHOLE]))
def test_bounds_are_certain_in_any_order(stream: Stream, data: Any, step: int) -> None:
    parts = [by_bytes(part.build(TOP, KEYS)) for part in data.draw(spread(stream))]
    merged = by_bytes(merge(parts, step))
    truth = counters(stream, step)
    names = ("a", "b", "ä", "", "x" * 30, "nobody")
    asked = rows_of(merged, ("text",), WeightOf(names))
    top = rows_of(merged, ("text",), Heaviest())
    (table,) = merged.tables
    assert len(table) == len(truth)
    for key, held in truth.items():
        total = sum(held.values())
        if total >= 2**63:
            assert key not in asked
            continue
        for row in asked[key]:
            assert row["lower"] <= held[row["item"]] <= row["upper"]
            assert row["upper"] - row["lower"] <= total // (TOP.capacity + 1)
        for row in top.get(key, []):
            assert row["lower"] <= held[row["item"]] <= row["upper"]
        kept = {row["item"] for row in top.get(key, [])}
        for item, weight in held.items():
            assert item in kept or weight <= total // (TOP.capacity + 1)
        ranked = sorted(held.values(), reverse=True)
        for row in rows_of(merged, ("text",), Heaviest(2)).get(key, []):
            if row["guaranteed"]:
                assert held[row["item"]] >= ([*ranked, 0, 0])[1]


@given(ITEMS, st.data(), st.sampled_from([1, 4, WHOLE]))
def test_few_items_are_exact_and_have_the_same_bytes(stream: Stream, data: Any, step: int) -> None:
    for algebra in (TopItems(capacity=20), Frequency(width=64, depth=4)):
        parts = [by_bytes(part.build(algebra, KEYS)) for part in data.draw(spread(stream))]
        whole = by_bytes(merge([stream.build(algebra, KEYS)], step))
        assert encode(merge(parts, step)) == encode(whole)
        top = rows_of(whole, ("text",), Heaviest())
        for key, held in counters(stream, step).items():
            if sum(held.values()) < 2**63:
                expected = {item: weight for item, weight in held.items() if weight}
                assert {row["item"]: row["value"] for row in top.get(key, [])} == expected
                values = [row["value"] for row in top.get(key, [])]
                assert values == sorted(values, reverse=True)


def test_the_answer_is_that_of_space_saving() -> None:
    rng = np.random.default_rng(5)
    items = pa.array([f"item {n}" for n in (rng.pareto(1, 500) * 3).astype(int)])
    sketch = SpaceSaving(1000)
    sketch.update(items)
    segment = by_bytes(build(TopItems(1000), np.zeros(500, np.int64), [items.dictionary_encode()]))
    mine = segment.algebra.answer(segment.tables[0], Heaviest(10)).drop_columns(["row"])
    assert mine.to_pylist() == sketch.top(10).to_pylist()


@pytest.mark.parametrize("track", [0, 5])
@pytest.mark.parametrize("conservative", [False, True])
@given(seed=st.integers(0, 99), n=st.integers(1, 3000), panes=st.integers(1, 30))
def test_cells_are_those_of_count_min(
    conservative: bool, track: int, seed: int, n: int, panes: int
) -> None:
    rng = np.random.default_rng(seed)
    numbers = (rng.pareto(0.7, n) * 3).astype(np.int64) % 5000
    weights = rng.integers(1, 9, n)
    algebra = Frequency(width=64, depth=3, conservative=conservative, track=track)
    columns = [pa.array(numbers), pa.array(weights)]
    segment = by_bytes(build(algebra, rng.integers(0, panes, n), columns))
    whole = by_bytes(merge([segment], WHOLE))
    (table,) = whole.tables
    cells = lists(table.states["cells"], 1)
    truth: Counter[int] = Counter()
    for item, weight in zip(numbers.tolist(), weights.tolist(), strict=True):
        truth[item] += weight
    asked = tuple(range(40))
    answer = algebra.answer(table, WeightOf(asked)).to_pylist()
    if len(truth) <= algebra.few:
        assert not len(cells.items)
        assert [row["value"] for row in answer] == [truth[item] for item in asked]
        assert {row["confidence"] for row in answer} == {1.0}
    else:
        assert all(row["lower"] <= row["value"] <= row["upper"] for row in answer)
        assert all(row["upper"] >= truth[row["item"]] for row in answer)
        if not conservative:
            sketch = CountMin(width=64, depth=3)
            sketch.update(pa.array(numbers), weights)
            estimate = sketch.estimate(pa.array(asked))
            assert all(row["lower"] >= at for row, at in zip(answer, estimate.lower, strict=True))
            assert all(row["upper"] <= at for row, at in zip(answer, estimate.upper, strict=True))
            assert cells.items.tolist() == sketch._cells.ravel().tolist()
    if len(cells.items) and not track:
        return  # it lists nothing
    top = algebra.answer(table, Heaviest(5)).to_pylist()
    again = algebra.answer(table, WeightOf(tuple(row["item"] for row in top))).to_pylist()
    for row, same in zip(top, again, strict=True):
        assert row["lower"] <= truth[row["item"]] <= row["upper"] == same["upper"]
        assert row["lower"] <= row["value"] <= row["upper"]
        assert same["value"] == max(row["value"], same["lower"])


def test_what_is_listed_beside_cells_is_as_exact_as_they_are() -> None:
    numbers = np.random.default_rng(1).zipf(1.2, 100_000) % 20_000
    algebra = Frequency()
    panes = build(algebra, np.repeat(np.arange(20), 5_000), [pa.array(numbers)])
    (table,) = merge([panes], WHOLE).tables
    stored, truth = flat(table.states, 1), np.bincount(numbers)
    listed_alone = heaviest(table, stored, None, listed(stored))
    off, by_list = (
        np.abs(answer["value"].to_numpy() - truth[answer["item"].to_numpy()]).mean()
        for answer in (algebra.answer(table, Heaviest()), listed_alone)
    )
    assert off < 0.7 * by_list


def test_cells_that_have_less_than_a_listed_item_are_refused() -> None:
    """Its lower bound, which is said to be certain, would be above its upper one."""
    algebra = Frequency(width=16, depth=3, track=2)
    numbers = np.random.default_rng(1).zipf(1.2, 1_000) % 200
    (table,) = build(algebra, np.zeros(1_000, np.int64), [pa.array(numbers)]).tables
    algebra.check(table)
    cells = lists(table.states["cells"], 1)
    rolled = np.roll(cells.items.reshape(3, 16), 1, axis=1).ravel()
    states = {**table.states, "cells": Ragged(cells.starts, frozen(rolled))}
    with pytest.raises(CorruptSummary, match="weighs more than its cells have"):
        algebra.check(replace(table, states=states))


def test_items_of_another_type_are_refused() -> None:
    one = Stream([1], {}, [(pa.string(), ["1"])]).build(TOP)
    two = Stream([1], {}, [(pa.int64(), [1])]).build(TOP)
    none = Stream([1], {}, [(pa.null(), [None])]).build(TOP)
    with pytest.raises(IncompatibleSummary):
        merge([one, two])
    assert by_bytes(merge([none, one])).count == 2


@given(st.data(), st.sampled_from([TOP, Frequency(width=8, depth=2), DistinctItems()]))
def test_a_dictionary_has_the_bytes_of_its_values(data: Any, algebra: Any) -> None:
    texts = data.draw(st.lists(NAMES | st.none(), min_size=1, max_size=9))  # some twice, some null
    numbers = st.integers(0, len(texts) - 1) | st.none()
    rows = data.draw(st.lists(numbers, min_size=1, max_size=30))
    coded = pa.DictionaryArray.from_arrays(pa.array(rows, pa.int32()), pa.array(texts, pa.string()))
    coded = without_views(pa.record_batch({"i": coded}), ["i"]).column(0)  # as every kind has it
    slices = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    )
    given_so, plain = (
        build(algebra, slices, [c], [()], {}) for c in (coded, coded.cast(pa.string()))
    )
    assert encode(given_so) == encode(plain)
