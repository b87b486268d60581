"""Rows and the classes that people use alone hold the same, and answer the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument
from muntin.segments.building import WHOLE, build, merge
from muntin.segments.codec import encode
from muntin.segments.distinct import DistinctItems
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt
from muntin.segments.single import of_sketch, sketch_of
from muntin.summaries import KLL, Distinct
from tests.segments.examples import example
from tests.segments.streams import by_bytes

ASKED = (0.0, 0.1, 0.5, 0.99, 1.0)


@given(st.integers(1, 3000), st.integers(0, 99), st.integers(8, 64))
def test_a_kll_is_a_row_and_a_row_is_a_kll(n: int, seed: int, k: int) -> None:
    values = np.random.default_rng(seed).normal(size=n)
    sketch = KLL(k)
    sketch.update(values)
    segment = by_bytes(of_sketch(sketch))
    mine = segment.algebra.answer(segment.tables[0], QuantilesAt(ASKED))
    found = sketch.quantile(ASKED)
    for name in ("value", "lower", "upper"):
        assert mine[name].to_pylist() == getattr(found, name).tolist()
    back = sketch_of(segment, segment.tables[0], 0)
    assert isinstance(back, KLL)
    assert KLL.from_bytes(back.to_bytes()).quantile(ASKED).value.tolist() == found.value.tolist()
    assert back.to_datasketches() == sketch.to_datasketches()
    back.update(values)
    assert back.count == 2 * n
    built = build(Quantiles(k), np.zeros(n, np.int64), [pa.array(values)])
    read = sketch_of(built, built.tables[0], 0)
    assert isinstance(read, KLL)
    again = of_sketch(KLL.from_bytes(read.to_bytes()))
    assert encode(again) == encode(built)
    merged = by_bytes(merge([built, of_sketch(back, nulls=3)], WHOLE))
    assert merged.count == 3 * n + 3


@given(st.integers(1, 3000), st.integers(0, 99), st.integers(4, 12))
def test_a_distinct_is_a_row_and_a_row_is_a_distinct(n: int, seed: int, lg_k: int) -> None:
    items = pa.array(np.random.default_rng(seed).integers(0, n, n))
    sketch = Distinct(lg_k)
    sketch.update(items)
    built = build(DistinctItems(lg_k), np.zeros(n, np.int64), [items])
    assert encode(of_sketch(sketch)) == encode(built)
    back = sketch_of(built, built.tables[0], 0)
    assert isinstance(back, Distinct)
    assert back.to_bytes() == sketch.to_bytes()


def test_what_is_no_sketch() -> None:
    with pytest.raises(BadArgument, match="empty sketch"):
        of_sketch(KLL())
    sums = example("vector_matrix", 20)
    with pytest.raises(BadArgument, match="no sketch"):
        sketch_of(sums, sums.tables[0], 0)
