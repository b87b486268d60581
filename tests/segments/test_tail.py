"""Tail quantiles: against sorted values, and against their own bound, however they were merged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.building import WHOLE, build, merge
from muntin.segments.codec import decode, encode
from muntin.segments.columns import Ragged
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt, RanksOf
from muntin.segments.table import Segment
from muntin.segments.tail import TailQuantiles
from tests.segments.streams import Stream, by_bytes, rows_of, spread
from tests.segments.test_quantiles import ASKED, FLOATS, KEYS

GOLDEN = Path(__file__).parent.parent / "golden"
POINTS = (-3.5, 0.0, 17.0)


@given(FLOATS, st.data(), st.sampled_from([1, 3, WHOLE]))
def test_few_values_answer_as_quantiles_do_and_do_not_depend_on_cuts(
    stream: Stream, data: Any, step: int
) -> None:
    algebra = TailQuantiles(k=4)
    whole = by_bytes(merge([stream.build(algebra, KEYS)], step))
    parts = [by_bytes(part.build(algebra, KEYS)) for part in data.draw(spread(stream))]
    assert encode(merge(parts, step)) == encode(whole)
    other = merge([stream.build(Quantiles(), KEYS)], step)
    for question in (QuantilesAt(ASKED), RanksOf(POINTS), RanksOf(POINTS, inclusive=False)):
        assert rows_of(whole, ("text",), question) == rows_of(other, ("text",), question)


@given(
    st.integers(1, 6000),
    st.sampled_from([4, 6, 12, 30]),
    st.integers(0, 2**32),
    st.integers(1, 200),
    st.sampled_from(["random", "up", "down"]),
)
def test_many_values_keep_to_the_bound(n: int, k: int, seed: int, parts: int, order: str) -> None:
    rng = np.random.default_rng(seed)
    values = {"random": rng.permutation(n), "up": np.arange(n), "down": np.arange(n)[::-1]}[order]
    algebra = TailQuantiles(k=k)
    slices = np.sort(rng.integers(0, parts, n))
    panes = by_bytes(build(algebra, slices, [pa.array(values.astype(np.float64))]))
    for whole in (
        merge([panes], WHOLE),
        merge([panes.between(0, parts // 2), panes.between(parts // 2, parts)], WHOLE),
        merge([merge([panes], 7)], WHOLE),
    ):
        _check_bound(algebra, by_bytes(whole), n)


def _check_bound(algebra: TailQuantiles, whole: Segment, n: int) -> None:
    """Twice the bound is never passed, the ends and the upper end are exact, answers in order."""
    (table,) = whole.tables
    fractions = (0.0, *(1 - np.geomspace(1, 1 / n, 20)).tolist(), 1.0)
    for row in algebra.answer(table, QuantilesAt(fractions)).to_pylist():
        tail = n - row["value"]  # values that are not below it
        true = max(n - np.ceil(row["q"] * n - 1e-9), 0) + 1
        assert abs(tail - true) <= 2 * min(algebra.near * true, algebra.far * n) + 1
        assert row["lower"] <= row["value"] <= row["upper"]
        if row["confidence"] == 1.0:
            assert row["lower"] == row["value"] == row["upper"]
            assert abs(tail - true) <= 1  # a fraction is a double
        assert row["confidence"] == 1.0 or tail > algebra.exact_top
        assert row["confidence"] == 1.0 or n > 16 * algebra.k
    points = np.unique(np.geomspace(1, n, 20).astype(int))
    for row in algebra.answer(table, RanksOf(tuple((n - points - 1.0).tolist()))).to_pylist():
        above = n - 1 - row["x"]
        error = abs((1 - row["value"]) * n - above)
        assert error <= 2 * min(algebra.near * above, algebra.far * n) + 1e-6
        assert above > algebra.exact_top or error < 1e-6
        assert row["lower"] <= row["value"] <= row["upper"]


def test_the_error_does_not_grow_with_merges() -> None:
    """Batches that come one by one, each compacted before: as a live stream adds them."""
    n, algebra = 40_000, TailQuantiles(k=12)
    tails = np.array([60, 150, 400, 1_300, 4_000, 20_000])
    errors = []
    for seed in range(6):
        values = np.random.default_rng(seed).permutation(n).astype(np.float64)
        parts = [
            build(algebra, np.zeros(200, np.int64), [pa.array(part)])
            for part in np.split(values, 200)
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = merge([whole, part], WHOLE)
        asked = RanksOf(tuple((n - tails - 1.0).tolist()))
        ranks = algebra.answer(whole.tables[0], asked)["value"].to_numpy()
        errors.append(((1 - ranks) * n - tails) / tails)
    assert np.sqrt(np.square(errors).mean(axis=0)).max() < algebra.near / 1.5


def test_far_quantiles_of_heavy_tails_over_many_panes() -> None:
    """A short form of benchmarks/characterize/tail.py: 0.999 over 1,440 panes."""
    panes, size, inside, seeds = 1_440, 100, 0, 15
    algebra = TailQuantiles()
    slices = np.repeat(np.arange(panes), size)
    for seed in range(seeds):
        values = np.random.default_rng(seed).pareto(1.1, panes * size)
        whole = merge([build(algebra, slices, [pa.array(values)])], WHOLE)
        (row,) = algebra.answer(whole.tables[0], QuantilesAt((0.999,))).to_pylist()
        rank = (values <= row["value"]).sum() / len(values)
        assert abs(rank - 0.999) < 0.0002
        truth = np.sort(values)[int(0.999 * len(values)) - 1]
        inside += row["lower"] <= truth <= row["upper"]
        lowest = (values <= row["lower"]).sum() / len(values)
        assert lowest > 0.9989
    assert inside >= seeds - 1


@pytest.mark.parametrize("k", [8, 30])
@pytest.mark.parametrize("order", ["random", "up", "down"])
def test_a_large_group_is_sampled_the_more_the_farther_from_the_top(k: int, order: str) -> None:
    n = 1_200_000
    values = np.random.default_rng(3).permutation(n)
    values = {"random": values, "up": np.arange(n), "down": np.arange(n)[::-1]}[order]
    algebra = TailQuantiles(k=k, dtype="int64")
    segment = by_bytes(build(algebra, np.zeros(n, np.int64), [pa.array(values)]))
    _check_bound(algebra, segment, n)
    alike = build(algebra, np.zeros(n, np.int64), [pa.array(np.where(values > 50, 7, values))])
    (row,) = algebra.answer(alike.tables[0], QuantilesAt((0.5,))).to_pylist()
    assert row["value"] == 7


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_types_of_values(dtype: str) -> None:
    kind = {"float32": pa.float32(), "int64": pa.int64()}[dtype]
    values = [3, -1, 2**31, None] if dtype == "int64" else [0.1, -2.5, 3e38, None]
    segment = by_bytes(Stream([1] * 4, {}, [(kind, values)]).build(TailQuantiles(dtype=dtype)))
    table = segment.algebra.answer(segment.tables[0], QuantilesAt((0.0, 0.5, 1.0)))
    kept = np.sort(np.array(values[:3], dtype))
    assert table["value"].to_numpy().tolist() == kept.tolist()


def test_golden_bytes_of_many_values() -> None:
    values = np.random.default_rng(5).gamma(2, 20, 5_000).round(1)
    slices = np.repeat(np.arange(5), 1_000)
    segment = build(TailQuantiles(k=6), slices, [pa.array(values)])
    golden = (GOLDEN / "segment-tail_quantiles-large-v1.bin").read_bytes()
    assert encode(decode(golden)) == encode(segment)


def _levels(change: Any) -> Any:
    def damaged(states: dict[str, Any]) -> dict[str, Any]:
        items = states["levels"].items.copy()
        change(items)
        return {**states, "levels": Ragged(states["levels"].starts, items)}

    return damaged


@pytest.mark.parametrize(
    "damage",
    [
        _levels(lambda items: items.__setitem__(0, -1)),
        _levels(lambda items: items.__setitem__(0, items[0] + 1)),
        _levels(lambda items: items.__setitem__(0, 1 << 61)),
        _levels(lambda items: items.__setitem__(1, -4)),
        lambda states: {**states, "least": None},
        lambda states: {**states, "levels": None, "least": None},
        lambda states: {
            **states, "items": Ragged(states["items"].starts, states["items"].items[::-1].copy())
        },
        lambda states: {**states, "least": Ragged(np.array([0, 1]), np.array([1 << 62]))},
    ],
)  # fmt: skip
def test_states_that_no_values_make_are_refused(damage: Any) -> None:
    algebra = TailQuantiles(k=4, dtype="int64")
    segment = build(algebra, np.zeros(900, np.int64), [pa.array(np.arange(900))])
    (table,) = segment.tables
    algebra.check(table)
    with pytest.raises(CorruptSummary, match="no sketch of 900"):
        algebra.check(replace(table, states=damage(dict(table.states))))


def test_weights_near_the_most_that_are_read_merge() -> None:
    """The weights that tiers begin at are beyond int64 then."""
    segment = build(TailQuantiles(k=762, dtype="int64"), np.zeros(1, np.int64), [pa.array([5])])
    (table,) = segment.tables
    levels, events = np.zeros(2 * 50, np.int64), np.array([8_000 << 49])
    levels[-2:] = 8_000, 64 << 2
    states = {
        **table.states,
        "items": Ragged(np.array([0, 8_000]), np.arange(8_000)),
        "levels": Ragged(np.array([0, len(levels)]), levels),
        "least": Ragged(np.array([0, 1]), np.array([0])),
    }
    large = replace(segment, events=events, tables=(replace(table, events=events, states=states),))
    both = merge([decode(encode(large)), segment], WHOLE)
    assert both.events[0] == events[0] + 1
    both.algebra.check(both.tables[0])


def test_what_cannot_be_asked_or_made() -> None:
    segment = Stream([1], {}, [(pa.float64(), [1.0])]).build(TailQuantiles())
    with pytest.raises(BadArgument, match="fraction"):
        segment.algebra.answer(segment.tables[0], QuantilesAt((1.5,)))
    with pytest.raises(BadArgument, match="ask QuantilesAt"):
        segment.algebra.answer(segment.tables[0], "median")
    for k in (2, 13, 1_026):
        with pytest.raises(BadArgument, match="an even number from 4 to 1,024"):
            TailQuantiles(k=k)
