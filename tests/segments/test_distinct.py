"""Distinct counts: registers, bytes and answers are those of `Distinct`."""

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
from muntin.segments.distinct import DistinctCount, DistinctItems
from muntin.summaries import Distinct
from tests.segments.streams import Stream, by_bytes, rows_of, spread, streams

ITEMS = {
    "text": (pa.string(), st.text(max_size=40)),
    "bytes": (pa.binary(), st.binary(max_size=40)),
    "number": (pa.int64(), st.integers(-9, 9) | st.just(2**63 - 1)),
}
KEYS = [("text",)]


@pytest.mark.parametrize("kind", ITEMS)
@given(data=st.data(), lg_k=st.integers(4, 8), step=st.sampled_from([1, 4, WHOLE]))
def test_answers_and_bytes_however_items_were_spread(
    kind: str, data: Any, lg_k: int, step: int
) -> None:
    stream: Stream = data.draw(streams(ITEMS[kind]))
    algebra = DistinctItems(lg_k)
    whole = by_bytes(merge([stream.build(algebra, KEYS)], step))
    parts = [by_bytes(part.build(algebra, KEYS)) for part in data.draw(spread(stream))]
    assert encode(merge(parts, step)) == encode(whole)
    items: dict[Any, list[Any]] = {}
    names = stream.columns["text"][1]
    for at, key, item in zip(stream.slices, names, stream.values[0][1], strict=True):
        held = items.setdefault((at // step if step else 0, key), [])
        if item is not None:
            held.append(item)
    answers = rows_of(whole, ("text",), DistinctCount())
    assert set(answers) == set(items)
    for key, held in items.items():
        sketch = Distinct(lg_k)
        if held:
            sketch.update(pa.array(held, ITEMS[kind][0]))
        found = sketch.estimate()
        (row,) = answers[key]
        for name in ("value", "lower", "upper"):
            of_one = int(getattr(found, name)[0])
            assert row[name] == min(of_one, len(held)), "there are no more items than events"


@given(st.integers(1, 20_000), st.integers(0, 99), st.sampled_from([6, 10, 12]))
def test_many_items_are_those_of_one_sketch(n: int, seed: int, lg_k: int) -> None:
    rng = np.random.default_rng(seed)
    items = pa.array(rng.integers(0, n, n))
    sketch = Distinct(lg_k)
    sketch.update(items)
    panes = build(DistinctItems(lg_k), rng.integers(0, 20, n), [items])
    row = panes.algebra.answer(merge([panes], WHOLE).tables[0], None).to_pylist()[0]
    assert row["value"] == min(int(sketch.estimate().value[0]), n)
    once = build(DistinctItems(lg_k), np.zeros(n, np.int64), [items.dictionary_encode()])
    assert encode(merge([by_bytes(panes)], WHOLE)) == encode(once)


def test_the_items_of_small_rows_are_counted() -> None:
    """Real streams: many keys with few events each, some of them of the same item."""
    rng = np.random.default_rng(1)
    keys = np.sort(rng.integers(0, 2_000, 12_000))
    items = rng.integers(0, 9, 12_000) + 10 * keys
    stream = Stream([0] * 12_000, {"number": (pa.int64(), keys.tolist())}, [(pa.int64(), items)])
    answers = rows_of(stream.build(DistinctItems(), [("number",)]), ("number",), DistinctCount())
    right = 0
    for (_, key), (row,) in answers.items():
        truth = len(np.unique(items[keys == key]))
        assert all(isinstance(row[name], int) for name in ("value", "lower", "upper"))
        right += row["value"] == truth
    assert right >= 0.99 * len(answers)


def test_floats_are_no_items() -> None:
    with pytest.raises(BadArgument, match="cannot be hashed"):
        Stream([1], {}, [(pa.float64(), [1.5])]).build(DistinctItems())
