"""Membership and ranks: against sets and sorted numbers, and against Fingerprint."""

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
from muntin.segments.fingerprint import Fingerprints, Members, NumbersAt, RanksWithin
from muntin.summaries import Fingerprint
from muntin.summaries.order_maps import FloatOrder, IntegerRange
from tests.segments.streams import Stream, by_bytes, spread, streams

NUMBERS = st.integers(0, 1000)
RECORDS = streams((pa.string(), st.text(max_size=5)), (pa.int64(), NUMBERS))
ALGEBRA = Fingerprints.over(IntegerRange(10), 0.1, capacity=1000)


@given(RECORDS, st.data(), st.sampled_from([1, 4, WHOLE]))
def test_members_and_ranks_however_records_were_spread(
    stream: Stream, data: Any, step: int
) -> None:
    parts = [by_bytes(part.build(ALGEBRA)) for part in data.draw(spread(stream))]
    whole = by_bytes(merge([stream.build(ALGEBRA)], step))
    assert encode(merge(parts, step)) == encode(whole)
    (table,) = merge([whole], WHOLE).tables
    keys = {key for key in stream.values[0][1] if key is not None}
    asked = (*sorted(keys), "never there")
    members = ALGEBRA.answer(table, Members(asked)).to_pylist()
    assert [row["value"] for row in members[:-1]] == [True] * len(keys)
    pairs = zip(stream.values[0][1], stream.values[1][1], strict=True)
    numbers = sorted(n for key, n in pairs if key is not None and n is not None)
    ranks = ALGEBRA.answer(table, RanksWithin((0, 10, 500, 2000))).to_pylist()
    assert (len(ranks) > 0) == (len(numbers) > 0)
    for row in ranks:
        true = sum(n <= row["x"] for n in numbers)
        assert row["lower"] <= true <= row["upper"]
    if numbers:
        fingerprint = Fingerprint(1000, domain=IntegerRange(10), error=0.1)
        fingerprint.update(["x"] * len(numbers), numbers)
        expected = fingerprint.quantile((0.0, 0.5, 1.0))
        got = ALGEBRA.answer(table, NumbersAt((0.0, 0.5, 1.0)))
        assert got["value"].to_pylist() == expected.value.tolist()


@given(st.integers(0, 99), st.integers(1000, 20_000), st.integers(1, 20))
def test_many_numbers_keep_to_the_bound(seed: int, n: int, panes: int) -> None:
    rng = np.random.default_rng(seed)
    algebra = Fingerprints.over(FloatOrder(40), 0.05, capacity=1000)
    values = rng.normal(size=n)
    keys = pa.array(rng.integers(0, n, n))
    segment = by_bytes(build(algebra, rng.integers(0, panes, n), [keys, pa.array(values)]))
    (table,) = by_bytes(merge([segment], WHOLE)).tables
    points = (-1.0, 0.0, 0.3, 2.0)
    for row in algebra.answer(table, RanksWithin(points)).to_pylist():
        true = int((values <= row["x"]).sum())
        assert row["lower"] <= true <= row["upper"]
        assert row["upper"] - row["lower"] <= 2 * 0.05 * n + 1
    missing = algebra.answer(table, Members(tuple(range(n, n + 5000))))
    assert missing["value"].to_numpy().mean() <= 0.01


def test_keys_alone_and_what_cannot_be_asked() -> None:
    segment = by_bytes(Stream([1], {}, [(pa.string(), ["a"])]).build(Fingerprints()))
    with pytest.raises(BadArgument, match="cannot answer"):
        segment.algebra.answer(segment.tables[0], NumbersAt((0.5,)))
    with pytest.raises(BadArgument, match="give their column"):
        Stream([1], {}, [(pa.string(), ["a"])]).build(ALGEBRA)
    with pytest.raises(BadArgument, match="56 bits"):
        Fingerprints(capacity=1 << 40, fpp=1e-9)
