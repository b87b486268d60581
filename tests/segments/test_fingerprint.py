"""Membership against sets, ranks against sorted numbers and the digest's own bound."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.segments.building import WHOLE, build, merge
from muntin.segments.codec import encode
from muntin.segments.columns import Ragged
from muntin.segments.columns import numbers as numbers_of
from muntin.segments.fingerprint import FPP_MIN, KEYS_LG_MAX, Contains, Fingerprints
from muntin.segments.ranked import QuantilesAt, RanksOf
from muntin.segments.table import Segment
from muntin.summaries import DyadicQDigest
from muntin.summaries.order_maps import FloatOrder, IntegerRange
from tests.segments.streams import Stream, by_bytes, rows_of, spread, streams

ITEMS = {
    "text": (pa.string(), st.text(max_size=20)),
    "bytes": (pa.binary(), st.binary(max_size=20)),
    "number": (pa.int64(), st.integers(-9, 9) | st.just(2**63 - 1)),
    "unsigned": (pa.uint64(), st.integers(0, 9) | st.just(2**64 - 1)),
}
NUMBERS = {
    "float64": (pa.float64(), st.integers(-50, 50).map(float) | st.floats(allow_nan=True)),
    "int64": (pa.int64(), st.integers(-50, 50) | st.integers(-(2**63), 2**63 - 1)),
}
DOMAINS = {"float64": FloatOrder(), "int64": IntegerRange(62, -(1 << 61))}
KEYS = [("text",)]
ASKED = (0.0, 0.07, 0.5, 0.7, 1.0)


def _groups(stream: Stream, step: int) -> dict[Any, list[tuple[Any, ...]]]:
    found: dict[Any, list[tuple[Any, ...]]] = {}
    columns = [values for _, values in stream.values]
    rows = zip(stream.slices, stream.columns["text"][1], *columns, strict=True)
    for at, key, *values in rows:
        found.setdefault((at // step if step else 0, key), []).append(tuple(values))
    return found


@pytest.mark.parametrize("kind", ITEMS)
@given(data=st.data(), step=st.sampled_from([1, 4, WHOLE]))
def test_membership_and_bytes_however_keys_were_spread(kind: str, data: Any, step: int) -> None:
    stream: Stream = data.draw(streams(ITEMS[kind]))
    algebra = Fingerprints(fpp=0.001)
    whole = by_bytes(merge([stream.build(algebra, KEYS)], step))
    parts = [by_bytes(part.build(algebra, KEYS)) for part in data.draw(spread(stream))]
    assert encode(merge(parts, step)) == encode(whole)
    held = {key: {v for (v,) in rows} - {None} for key, rows in _groups(stream, step).items()}
    asked = sorted(set().union(*held.values()))
    answers = rows_of(whole, ("text",), Contains(tuple(asked)))
    if asked:
        assert set(answers) == set(held)
    for key, rows in answers.items():
        assert [row["item"] for row in rows] == asked
        assert [row["present"] for row in rows] == [item in held[key] for item in asked]
        assert {row["false_positive_rate"] for row in rows} == {len(held[key]) / 2.0**40}


@given(st.floats(FPP_MIN, 1, exclude_max=True))
def test_the_rate_holds_for_the_largest_set_there_can_be(fpp: float) -> None:
    bits = Fingerprints(fpp=fpp).print_bits
    assert bits <= 62
    assert Fraction(2**KEYS_LG_MAX, 2**bits) <= Fraction(fpp)


def test_the_reported_rate_is_the_measured_one() -> None:
    keys = np.arange(400_000)
    panes = build(Fingerprints(fpp=0.9), keys % 1000, [pa.array(keys)])
    whole = merge([by_bytes(panes)], WHOLE)
    (table,) = whole.tables
    found = whole.algebra.answer(table, Contains(tuple(range(400_000))))
    assert np.all(found["present"].to_numpy())
    rate = found["false_positive_rate"][0].as_py()
    asked = tuple(range(10**7, 10**7 + 1_000_000))
    wrong = int(whole.algebra.answer(table, Contains(asked))["present"].to_numpy().sum())
    expected = rate * len(asked)
    assert abs(wrong - expected) < 5 * math.sqrt(expected)


@pytest.mark.parametrize("kind", NUMBERS)
@given(data=st.data(), step=st.sampled_from([1, 3, WHOLE]))
def test_few_numbers_are_ranked_exactly(kind: Any, data: Any, step: int) -> None:
    stream: Stream = data.draw(streams(ITEMS["text"], NUMBERS[kind]))
    algebra = Fingerprints.over(DOMAINS[kind], 0.01)
    whole = by_bytes(merge([stream.build(algebra, KEYS)], step))
    parts = [by_bytes(part.build(algebra, KEYS)) for part in data.draw(spread(stream))]
    assert encode(merge(parts, step)) == encode(whole)
    quantiles = rows_of(whole, ("text",), QuantilesAt(ASKED))
    points = (-50, -3.5, 0.0, 17)
    ranks = rows_of(whole, ("text",), RanksOf(points))
    for key, rows in _groups(stream, step).items():
        values = [v for item, v in rows if item is not None and v is not None and v == v]
        if kind == "int64":
            values = [v for v in values if -(2**61) <= v < 2**61]
        if not values:
            assert key not in quantiles
            continue
        values.sort()
        for q, row in zip(ASKED, quantiles[key], strict=True):
            truth = values[max(math.ceil(Fraction(str(q)) * len(values)), 1) - 1]
            assert row["lower"] <= truth <= row["upper"]
            assert row["lower"] <= row["value"] <= row["upper"]
            width = row["upper"] - row["lower"]
            assert width <= 1e-15 * abs(truth) + 1e-320 or math.isinf(truth)
            assert row["confidence"] == 1
        for x, row in zip(points, ranks[key], strict=True):
            truth = sum(v <= x for v in values) / len(values)
            assert row["lower"] <= truth <= row["upper"]
            if kind == "int64":
                assert row["lower"] == row["upper"] == truth


@given(
    st.integers(1, 4000), st.integers(1, 60), st.integers(0, 99), st.integers(1, 30),
    st.sampled_from(["float64", "int64"]),
)  # fmt: skip
def test_many_numbers_keep_to_the_bound(n: int, k: int, seed: int, parts: int, kind: Any) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.normal(0, 40, n) ** 3).astype(np.int64) + 2**18
    values = np.clip(values, 0, 2**20 - 1)
    domain = IntegerRange(20) if kind == "int64" else FloatOrder(40)
    algebra = replace(Fingerprints.over(domain, 0.5), k=k)
    slices = np.sort(rng.integers(0, parts, n))
    ranked = pa.array(values.astype(kind))
    panes = by_bytes(build(algebra, slices, [pa.array(np.arange(n)), ranked]))
    _check_bound(panes, [np.sort(values[slices == at]) for at in np.unique(slices)])
    whole = [np.sort(values)]
    _check_bound(by_bytes(merge([panes], WHOLE)), whole)
    halves = [panes.between(0, parts // 2), panes.between(parts // 2, parts)]
    _check_bound(by_bytes(merge([merge([half], WHOLE) for half in halves], WHOLE)), whole)
    _check_bound(by_bytes(merge([merge([panes], 7)], WHOLE)), whole)


def _check_bound(segment: Segment, truths: list[np.ndarray]) -> None:
    algebra: Any = segment.algebra
    (table,) = segment.tables
    points = (0, 1, 2**17, 2**18 - 1, 2**18, 2**18 + 500, 2**20 - 1, 2**21)
    rows = algebra.answer(table, RanksOf(points)).to_pylist()
    assert len(rows) == len(truths) * len(points)
    inner = table.states["ends"]
    for row in rows:
        held = truths[row["row"]]
        n = len(held)
        up_to = np.searchsorted(held, row["x"], "right")
        assert row["lower"] <= up_to / n <= row["upper"]
        own = 0 if algebra._map.exact else up_to - np.searchsorted(held, row["x"])
        width = algebra._map.bits * (n // algebra.k) + own
        assert (row["upper"] - row["lower"]) * n <= width + 1e-6
        assert abs(row["value"] - up_to / n) <= algebra.rank_error + own / 2 / n + 1e-9
    for row in algebra.answer(table, QuantilesAt(ASKED)).to_pylist():
        held = truths[row["row"]]
        place = max(math.ceil(Fraction(str(row["q"])) * len(held)), 1)
        assert row["lower"] <= held[place - 1] <= row["upper"]
        assert row["lower"] <= row["value"] <= row["upper"]
        if not isinstance(inner, Ragged) and algebra._map.exact:
            assert row["lower"] == row["upper"]


def test_ranks_are_as_those_of_one_digest() -> None:
    """Nothing is lost against `DyadicQDigest` over the same numbers, in its own order."""
    rng = np.random.default_rng(1)
    values = rng.gamma(2, 20, 50_000)
    digest = DyadicQDigest.for_error(0.01, domain=FloatOrder())
    digest.update(values)
    algebra = Fingerprints.over(FloatOrder(), 0.01)
    assert (algebra.k, algebra._map) == (digest.k, digest.domain)
    panes = build(
        algebra, np.arange(50_000) // 100, [pa.array(np.arange(50_000)), pa.array(values)]
    )
    whole = merge([panes], WHOLE)
    points = np.quantile(values, np.linspace(0, 1, 101))
    rows = whole.algebra.answer(whole.tables[0], RanksOf(tuple(points))).to_pydict()
    truth = np.searchsorted(np.sort(values), points, "right") / 50_000
    theirs = digest.rank(points)
    assert np.abs(np.array(rows["value"]) - truth).max() <= 0.01
    widths = np.array(rows["upper"]) - np.array(rows["lower"])
    assert widths.max() <= 2 * ((theirs.upper - theirs.lower) / 50_000).max() + 1e-3


@given(
    st.integers(1, 6000), st.integers(20, 60), st.integers(0, 99), st.booleans(), st.booleans(),
    st.sampled_from([FloatOrder(31), IntegerRange(40)]),
)  # fmt: skip
def test_answers_are_those_of_the_class(
    n: int, k: int, seed: int, whole: bool, inclusive: bool, domain: Any
) -> None:
    """Where both have compressed the same values to the same nodes, or not at all."""
    values = np.random.default_rng(seed).lognormal(18, 1, n)
    values = np.round(values, -6 if whole else 0).astype(np.int64)
    algebra = replace(Fingerprints.over(domain, 0.5), k=k)
    columns = [pa.array(np.arange(n)), pa.array(values)]
    (table,) = build(algebra, np.zeros(n, np.int64), columns).tables
    nodes, digest = table.states["nodes"], DyadicQDigest(k=k, domain=domain)
    digest.update(values)
    if table.states["ends"] is not None:
        digest.compress()
    assume(isinstance(nodes, Ragged) and np.array_equal(nodes.items, digest._ids))
    points = (*np.quantile(values, ASKED).tolist(), 10**6, 5 * 10**7)
    theirs = digest.rank(points, inclusive=inclusive), digest.quantile(ASKED)
    for question, estimate, of in (
        (RanksOf(points, inclusive), theirs[0], n), (QuantilesAt(ASKED), theirs[1], 1)
    ):  # fmt: skip
        ours = algebra.answer(table, question).to_pydict()
        for name in ("value", "lower", "upper"):
            assert ours[name] == (getattr(estimate, name) / of).tolist()
    held = np.sort(values)
    up_to = np.searchsorted(held, points, "right" if inclusive else "left")
    assert ((theirs[0].lower <= up_to) & (up_to <= theirs[0].upper)).all()
    if domain.exact:
        assert (np.abs(theirs[0].value - up_to) <= algebra.rank_error * n).all()
    places = [max(math.ceil(Fraction(str(q)) * n), 1) - 1 for q in ASKED]
    assert ((theirs[1].lower <= held[places]) & (held[places] <= theirs[1].upper)).all()


def test_the_rank_of_a_float_counts_those_equal_to_it() -> None:
    prices = pa.array([5.0] * 30 + [9.99] * 30 + [19.95] * 40)
    algebra = Fingerprints.over(FloatOrder(), 0.001)
    (table,) = build(algebra, np.zeros(100, np.int64), [pa.array(range(100)), prices]).tables
    for inclusive, value in ((True, 0.6), (False, 0.3)):
        (row,) = algebra.answer(table, RanksOf((9.99,), inclusive)).to_pylist()
        assert (row["value"], row["lower"], row["upper"]) == (value, 0.3, 0.6)


def test_the_rank_of_an_integer_that_stands_beside_floats() -> None:
    algebra = Fingerprints.over(IntegerRange(62, -(1 << 61)), 0.001)
    numbers = pa.array([2**53, 2**53 + 1])
    (table,) = build(algebra, np.zeros(2, np.int64), [pa.array(["a", "b"]), numbers]).tables
    points = (2**53, 2**53 + 1, 0.5, 2**70)
    assert algebra.answer(table, RanksOf(points))["value"].to_pylist() == [0.5, 1.0, 0.0, 1.0]


def test_keys_without_a_number_are_members_without_a_rank() -> None:
    algebra = Fingerprints.over(IntegerRange(4), 0.01)
    values = [pa.array(["a", None, "b", "c", "d", None]), pa.array([3, 4, None, 16, -1, None])]
    (table,) = build(algebra, np.zeros(6, np.int64), values).tables
    states: Any = table.states
    algebra = replace(algebra, items="text")
    members = algebra.answer(table, Contains(("a", "b", "c", "d", "e")))
    assert members["present"].to_pylist() == [True, True, True, True, False]
    assert algebra.answer(table, RanksOf((3, 15)))["value"].to_pylist() == [1.0, 1.0]
    assert states["nulls"].tolist() == [2]
    assert states["unranked"].tolist() == [3]


def test_keys_of_other_types_do_not_mix() -> None:
    texts = build(Fingerprints(), np.zeros(1, np.int64), [pa.array(["a"])])
    one = build(Fingerprints(), np.zeros(1, np.int64), [pa.array([1])])
    none = build(Fingerprints(), np.zeros(1, np.int64), [pa.array([None], pa.string())])
    with pytest.raises(IncompatibleSummary):
        merge([texts, one])
    merged = merge([none, texts])
    assert merged.algebra == texts.algebra
    with pytest.raises(BadArgument, match="text"):
        merged.algebra.answer(merged.tables[0], Contains((1,)))
    with pytest.raises(BadArgument, match="ranks no number"):
        merged.algebra.answer(merged.tables[0], QuantilesAt((0.5,)))
    with pytest.raises(BadArgument):
        build(Fingerprints(), np.zeros(1, np.int64), [pa.array([1.5])])
    wrong: Any
    for wrong in ({"fpp": 0.0}, {"fpp": 1.0}, {"k": 0}, {"items": "x"}, {"domain": ()}):
        with pytest.raises(BadArgument):
            Fingerprints(**wrong)


@pytest.mark.parametrize(
    "numbers",
    [
        pa.array([True, None, False]),
        pa.array([1, None, 2**64 - 1], pa.uint64()),
        pa.array([1, None, 2]).dictionary_encode(),
        pa.nulls(3),
    ],
)
@pytest.mark.parametrize("kind", ["float64", "int64"])
def test_every_number_is_ranked_or_counted(numbers: pa.Array, kind: Any) -> None:
    keys = pa.array(["a", "b", "c"]).dictionary_encode()
    algebra = Fingerprints.over(DOMAINS[kind], 0.01)
    (table,) = build(algebra, np.zeros(3, np.int64), [keys, numbers]).tables
    counts, unranked = table.states["counts"], numbers_of(table.states["unranked"])
    ranked = counts.items.sum() if isinstance(counts, Ragged) else 0
    assert ranked + unranked.sum() == 3


def test_what_is_outside_the_domain_is_counted() -> None:
    algebra = Fingerprints.over(IntegerRange(3), 0.01)
    numbers = pa.array([-1, 0, 7, 8, None, 2**62])
    segment = build(algebra, np.zeros(6, np.int64), [pa.array(range(6)), numbers])
    (table,) = by_bytes(segment).tables
    assert numbers_of(table.states["unranked"]).tolist() == [4]
    found = segment.algebra.answer(table, QuantilesAt((0.0, 1.0)))
    assert found["lower"][0].as_py() <= numbers[1].as_py() <= found["upper"][0].as_py()
    assert found["lower"][1].as_py() <= numbers[2].as_py() <= found["upper"][1].as_py()
