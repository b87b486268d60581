"""Our XXH64 against the `xxhash` package."""

from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument
from muntin.summaries.items import as_items, hash_items
from muntin.summaries.kernels.hashing import hash_integers, hash_strings

seeds = st.integers(0, 2**64 - 1)


@given(
    st.lists(st.binary(max_size=40) | st.binary(max_size=200), max_size=20),
    st.integers(1, 30),
    st.integers(0, 40),
    seeds,
)
def test_byte_strings(items, times, behind, seed):
    """Blocks of them side by side, and those near the end of their data one by one."""
    items = items * times
    offsets = np.cumsum([0, *map(len, items)], dtype=np.int32)
    data = np.frombuffer(b"".join(items) + b"\xff" * behind, np.uint8)
    out = np.empty(len(items), np.uint64)
    hash_strings(data, offsets, np.uint64(seed), out)
    assert [xxhash.xxh64_intdigest(item, seed) for item in items] == out.tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), seeds)
def test_integers(items, seed):
    out = np.empty(len(items), np.uint64)
    hash_integers(np.array(items, np.int64), np.uint64(seed), out)
    expected = [xxhash.xxh64_intdigest(i.to_bytes(8, "little", signed=True), seed) for i in items]
    assert expected == out.tolist()


def test_all_spellings_of_an_item_hash_alike():
    texts = ["a", "", "ü" * 40, "xyz"]
    expected = [xxhash.xxh64_intdigest(text.encode(), 7) for text in texts]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()):
        items = pa.array(texts).cast(kind)
        coded = pa.chunked_array([items[:1].dictionary_encode(), items[1:].dictionary_encode()])
        for same in (items, items.dictionary_encode(), coded, coded.chunk(1)):
            assert hash_items(same, 7).tolist() == expected[-len(same) :]
            assert len(as_items(same)) == len(same)
    assert hash_items(pa.array(["skip", *texts]).slice(1), 7).tolist() == expected
    for same in (np.array([1, 2], np.int32), np.array([1, 2], ">i4"), np.array([1, 2], ">u8")):
        assert hash_items(same).tolist() == hash_items([1, 2]).tolist()
    assert hash_items(np.array(5)).tolist() == hash_items(5).tolist()
    assert hash_items(np.array(texts, ">U40"), 7).tolist() == expected


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["a", None], "item at position 1 is null: drop"),
        (np.ma.array([1, 2, 3], mask=[1, 0, 1]), "position 0 is null, of 2 that are: drop"),
        (pa.array(["a", None]).dictionary_encode(), "item at position 1 is null: drop"),
    ],
)
def test_a_null_is_no_item(items, message):
    with pytest.raises(BadArgument, match=message):
        hash_items(items)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (Counter("aab"), "items are a Counter: give its keys as a list, counts as weights"),
        (pa.table({"a": [1, 2]}), r"items have shape \(2, 1\): give one column"),
        (pd.DataFrame({"a": [1]}), r"items have shape \(1, 1\): give one column"),
        (np.zeros((2, 3), np.int64), r"items have shape \(2, 3\): give one column"),
    ],
)
def test_what_is_not_one_column_is_refused(items, message):
    """Of a Counter the keys would count once each, and nobody would see it."""
    with pytest.raises(BadArgument, match=message):
        hash_items(items)


def test_bytes_that_may_change_are_one_item():
    assert hash_items(bytearray(b"ab")).tolist() == hash_items(b"ab").tolist()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), seeds)
def test_integers_beyond_int64_are_no_negative_ones(items, seed):
    found = hash_items(pa.array(items, pa.uint64()), seed)
    signed = [item - 2**64 if item >= 2**63 else item for item in items]
    same = found == hash_items(pa.array(signed, pa.int64()), seed)
    assert same.tolist() == [item < 2**63 for item in items]


def test_integers_of_python_are_taken_up_to_uint64():
    numbers = [1, 2**63, 2**64 - 1]
    expected = hash_items(np.array(numbers, np.uint64)).tolist()
    assert hash_items(numbers).tolist() == expected
    assert [hash_items(number).item() for number in numbers] == expected
    for refused in ([2**64], [-1, 2**63], [2**63, 1.5], (number for number in numbers)):
        with pytest.raises(BadArgument, match="items must be"):
            hash_items(refused)


def test_a_time_is_one_item_in_any_unit():
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    times = [pa.array([1_700_000_000 * n], pa.timestamp(unit)) for unit, n in units.items()]
    assert len({int(hash_items(time)[0]) for time in times}) == 1
    days = [pa.array([86_400_000], pa.date64()), pa.array([1], pa.date32())]
    assert hash_items(days[0]) == hash_items(days[1])


@pytest.mark.parametrize(
    "items", [[1.5], ["a", None], [{}], ["a", 1], None, object(), ["\ud800"], [2**64]]
)
def test_refused_items(items):
    with pytest.raises(BadArgument):
        hash_items(items)
