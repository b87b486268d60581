"""Numbers of a batch's different keys and items, beside looking each up in a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.segments.items import item_numbers
from muntin.segments.keys import Encoded

TEXTS = st.sampled_from(["", "a", "b" * 8, "ä" * 8, "c" * 17, *map(str, range(9))])
INTEGERS = st.sampled_from([0, -1, 2**62, -(2**63), 2**63 - 1]) | st.integers(0, 9)
KINDS: dict[pa.DataType, Any] = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): st.binary(max_size=20),
    pa.int64(): INTEGERS,
    pa.int8(): st.integers(-5, 5),
    pa.bool_(): st.booleans(),
}


@st.composite
def columns(draw: Any, kinds: list[pa.DataType], rows: int) -> pa.Array:
    """Nulls, blocks with and without them, a first row that is left out, dictionaries."""
    kind = draw(st.sampled_from(kinds))
    values = draw(st.lists(KINDS[kind] | st.none(), min_size=1, max_size=20))
    at = draw(st.randoms(use_true_random=False)).choices(range(len(values)), k=rows + 1)
    column = pa.array(values, kind).take(pa.array(at))
    column = column.dictionary_encode() if draw(st.booleans()) else column
    return column.slice(1)


@given(st.data(), st.sampled_from([0, 1, 63, 64, 200]))
def test_items(data: Any, rows: int) -> None:
    column = data.draw(columns(list(KINDS), rows))
    numbers, different = item_numbers(column)
    found = different.to_pylist()
    assert len(set(found)) == len(found)
    assert set(found) == set(column.to_pylist()) - {None}
    for number, item in zip(numbers.tolist(), column.to_pylist(), strict=True):
        assert item is None or found[number] == item
    assert not found or (numbers.min(initial=0) >= 0 and numbers.max(initial=0) < len(found))


@given(st.data(), st.sampled_from([1, 63, 64, 200]))
def test_keys_of_several_columns(data: Any, rows: int) -> None:
    kinds = [kind for kind in KINDS if kind != pa.binary()]
    parts = {name: data.draw(columns(kinds, rows)) for name in "abc"}
    keys, numbers = Encoded(parts).keys(("a", "b", "c"), rows)
    whole = list(zip(*(part.to_pylist() for part in parts.values()), strict=True))
    found = list(zip(*(values.to_pylist() for values in keys.values), strict=True))
    assert [found[number] for number in numbers.tolist()] == whole
    assert len(set(found)) == len(found) == len(set(whole))


@pytest.mark.parametrize("length", [3, 40])
def test_many_texts_with_and_without_nulls(length: int) -> None:
    """More than the table's first sizes hold, so that it grows in the middle of a batch."""
    rng = np.random.default_rng(length)
    names = pa.array([f"{n:0{length}}" for n in range(20_000)])
    for nulls in (0.0, 0.1):
        at = pa.array(rng.integers(0, len(names), 50_000), mask=rng.random(50_000) < nulls)
        column = names.take(at)
        numbers, different = item_numbers(column)
        there = column.is_valid().to_numpy(zero_copy_only=False)
        assert different.take(pa.array(numbers[there])).equals(
            column.drop_null().cast(different.type)
        )
        keys, of_row = Encoded({"k": column}).keys(("k",), len(column))
        assert keys.values[0].take(pa.array(of_row)).equals(column.cast(pa.large_string()))
        assert keys.values[0].null_count == (nulls > 0)
