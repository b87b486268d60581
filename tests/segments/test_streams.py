"""Streams of lists: items that come again are codes; whatever is written comes back, or is refused.

Damage and lies within whole segments: test_codec.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import CorruptSummary
from muntin.segments.columns import Ragged, Shape, frozen, lists, numbers
from muntin.segments.kernels.streams import CODED_SHARE
from muntin.segments.streams import (
    _ENTRIES,
    ALIKE,
    CODED,
    CODED_BY_KEY,
    DIFFERENCES_MIN,
    ENTRY_BYTES,
    StreamReader,
    StreamWriter,
)
from muntin.summaries.order_keys import to_keys

LEFT = 1 << 20


def ragged(sizes: Any, items: Any) -> Ragged:
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return Ragged(frozen(starts.astype(np.int64)), frozen(np.array(items, np.int64)))


def written(*columns: Ragged, keys: bool = False) -> tuple[bytearray, bytes]:
    writer = StreamWriter()
    for column in columns:
        writer.lists(column, keys)
    directory, payload = writer.written()
    return bytearray(directory), payload


def read(directory: bytes | bytearray, payload: bytes, rows: int, *, keys: bool = False) -> Ragged:
    reader = StreamReader(memoryview(directory), memoryview(payload))
    column = reader.lists(rows, "int64", keys, LEFT)
    reader.done()
    return column


def again_and_again(seed: int, rows: int, each: int, different: int, most: int) -> Ragged:
    rng = np.random.default_rng(seed)
    there = rng.integers(-most, most, different)
    return ragged([each] * rows, np.sort(rng.choice(there, (rows, each)), axis=1).ravel())


@given(
    seed=st.integers(0, 99),
    rows=st.integers(1, 60),
    each=st.integers(1, 40),
    different=st.integers(1, 100),
    most=st.sampled_from([1, 1 << 7, 1 << 15, 1 << 17, 1 << 33, (1 << 63) - 1]),
)
def test_lists_come_back(seed: int, rows: int, each: int, different: int, most: int) -> None:
    column = again_and_again(seed, rows, each, different, most)
    found = read(*written(column), rows)
    assert np.array_equal(found.starts, column.starts)
    assert np.array_equal(found.items, column.items)


@pytest.mark.parametrize("most", [1 << 18, 1 << 40, 1 << 62])
def test_items_that_come_again_take_two_bytes_at_most(most: int) -> None:
    column = again_and_again(1, 500, 40, 500, most)
    directory, payload = written(column)
    assert len(directory) == 4 * len(written(ragged([1], [0]))[0]) // 3  # a stream more
    assert len(payload) < 2.1 * len(column.items)
    other = again_and_again(1, 500, 40, 500 * 40 // CODED_SHARE + 9_000, most)
    assert len(written(other)[0]) < len(directory)  # nearly all are different


def test_doubles_that_come_again_are_the_same_doubles() -> None:
    for values in (np.arange(60) * 1e9 / 10, np.random.default_rng(0).lognormal(size=60)):
        rows = np.sort(np.random.default_rng(1).choice(to_keys(values), (90, 20)), axis=1)
        column = ragged([20] * 90, rows.ravel())
        directory, payload = written(column, keys=True)
        assert np.array_equal(read(directory, payload, 90, keys=True).items, column.items)


def test_items_that_meet_in_one_place_are_written_as_they_are() -> None:
    """Made so that a table of them would be searched from end to end."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    there = np.array([(at * inverse) % (1 << 64) for at in range(3_000)], np.uint64).view(np.int64)
    column = ragged([10] * 3_000, np.tile(there, 10))
    directory, payload = written(column)
    assert len(directory) == len(written(ragged([1], [0]))[0])
    assert np.array_equal(read(directory, payload, 3_000).items, column.items)


def test_codes_that_are_passed_over() -> None:
    column = again_and_again(2, 100, 30, 50, 1 << 40)
    directory, payload = written(column, ragged([1, 2], [7, 8, 9]))
    reader = StreamReader(memoryview(directory), memoryview(payload))
    reader.skip(3)
    assert reader.lists(2, "int64", False, LEFT).items.tolist() == [7, 8, 9]
    reader.done()


def test_codes_that_lie_are_refused() -> None:
    rows = again_and_again(3, 40, 30, 20, 1 << 40)

    def with_values(change: Any) -> tuple[bytes, bytes]:
        writer = StreamWriter()
        writer.lists(rows)
        (line, values, form, spare) = writer._streams[-1]
        writer._streams[-1] = line, frozen(change(values.copy())), form, spare
        return writer.written()

    assert np.array_equal(read(*with_values(lambda v: v), 40).items, rows.items)
    for change, message in (
        (lambda v: v[:-1], "none of the different"),
        (lambda v: np.append(v[:-1], 0), "do not ascend"),
        (lambda v: np.append(v[:-1], -1), "do not ascend"),
        (lambda v: np.append(v[:-1], (1 << 63) - 1), "do not ascend"),
        (lambda v: v[:0], "0 different items"),
        (lambda v: np.append(v, np.ones(1_300, np.int64)), "different items among 1200"),
    ):
        with pytest.raises(CorruptSummary, match=message):
            read(*with_values(change), 40)
    directory, payload = written(rows)
    lines = len(directory) // 4
    for at, form in ((1, 1), (3, 1)):  # codes as decimals; decimals where no doubles are
        lying = directory.copy()
        lying[at * lines] = form
        with pytest.raises(CorruptSummary, match="as decimals"):
            read(lying, payload, 40)
    for coded, line in ((0, 1), (1, 0), (1, 2)):
        lying = directory.copy()
        lying[line * lines + 3] = coded
        if line == 1:
            with pytest.raises(CorruptSummary, match="more streams"):
                read(lying, payload, 40)
        else:  # where nothing can be coded the mark says nothing
            assert np.array_equal(read(lying, payload, 40).items, rows.items)


KEYED = {"items": Shape(ragged=True)}


def few_of_each_key(seed: int, rows: int, keys: int, own: int, most: int) -> tuple[Ragged, Any]:
    """Lists of 0 to 3 items, of which a key has some only."""
    rng = np.random.default_rng(seed)
    there = np.unique(rng.integers(-(1 << 40), 1 << 40, 5 * own))
    of_key = [rng.choice(there, own) for _ in range(keys)]
    key_of = frozen(rng.integers(0, keys, rows))
    sizes = rng.integers(0, most, rows)
    items = [np.sort(rng.choice(of_key[k], n)) for k, n in zip(key_of, sizes, strict=True)]
    return ragged(sizes, np.concatenate(items)), key_of


def with_keys(column: Ragged, key_of: Any) -> tuple[bytearray, bytes]:
    writer = StreamWriter()
    writer.columns({"items": column}, KEYED, frozen(np.ones(len(key_of), np.int64)), key_of)
    directory, payload = writer.written()
    return bytearray(directory), payload


def read_with_keys(directory: bytes | bytearray, payload: bytes, key_of: Any) -> Any:
    reader = StreamReader(memoryview(directory), memoryview(payload))
    events = frozen(np.ones(len(key_of), np.int64))
    found = reader.columns(events, KEYED, LEFT, key_of)["items"]
    reader.done()
    return found


@given(
    seed=st.integers(0, 99),
    rows=st.sampled_from([1, 50, 3_000]),
    keys=st.integers(1, 20),
    own=st.integers(1, 60),
    most=st.integers(2, 6),
)
def test_lists_of_keys_come_back(seed: int, rows: int, keys: int, own: int, most: int) -> None:
    column, key_of = few_of_each_key(seed, rows, keys, own, most)
    found = lists(read_with_keys(*with_keys(column, key_of), key_of), rows)
    assert np.array_equal(found.starts, column.starts)
    assert np.array_equal(found.items, column.items)


def test_few_items_of_each_key_take_less_than_all_that_there_are() -> None:
    column, key_of = few_of_each_key(1, 20_000, 40, 120, 3)
    assert with_keys(column, key_of)[0][ENTRY_BYTES + 3] == CODED_BY_KEY
    assert len(with_keys(column, key_of)[1]) < 0.9 * len(written(column)[1])
    one_key = frozen(np.zeros(20_000, np.int64))
    assert with_keys(column, one_key)[0][ENTRY_BYTES + 3] == CODED


def test_codes_of_keys_that_lie_are_refused() -> None:
    column, key_of = few_of_each_key(2, 5_000, 10, 60, 3)
    honest, payload = with_keys(column, key_of)
    assert honest[ENTRY_BYTES + 3] == CODED_BY_KEY

    def read_changed(stream: int, change: Any) -> None:
        writer = StreamWriter()
        writer.columns({"items": column}, KEYED, frozen(np.ones(5_000, np.int64)), key_of)
        line, values, form, spare = writer._streams[stream]
        writer._streams[stream] = line, frozen(change(values.copy())), form, spare
        read_with_keys(*writer.written(), key_of)

    def first(value: int) -> Any:
        return lambda values: np.concatenate([[value], values[1:]])

    for stream, change, message in (
        (1, first(60), "its key does not have"),
        (1, first(-1), "its key does not have"),
        (1, lambda v: v[:-1], "numbers where"),
        (3, lambda v: v[:-1], "none of the different"),
        (4, first(1 << 40), "more different items than"),
        (4, first(-1), "more different items than"),
        (4, lambda v: v[:-1], "numbers where"),
        (5, first(1 << 40), "none of the different"),
        (5, first(-(1 << 40)), "none of the different"),
    ):
        with pytest.raises(CorruptSummary, match=message):
            read_changed(stream, change)
    for coded in (0, 1, 2, 4, 255):
        lying = honest.copy()
        lying[ENTRY_BYTES + 3] = coded
        with pytest.raises(CorruptSummary):
            read_with_keys(lying, payload, key_of)
    with pytest.raises(CorruptSummary, match="3 streams behind"):
        read(honest, payload, 5_000)


@given(st.integers(0, 99), st.integers(1_000, 3_000), st.sampled_from([1, 255]), st.data())
def test_numbers_of_which_most_are_alike_come_back(seed: int, n: int, low: int, data: Any) -> None:
    """Two bytes in one, of the last plane: also of an odd number of them, and behind another."""
    rng = np.random.default_rng(seed)
    high = rng.choice([0, 1, data.draw(st.sampled_from([2, 15, 16]))], n, p=[0.8, 0.15, 0.05])
    values = high * (low + 1) // 2 * 2 + rng.integers(0, low, n)
    writer = StreamWriter()
    writer.numbers(values)
    directory, payload = map(memoryview, writer.written())
    assert np.array_equal(StreamReader(directory, payload).numbers(n), values)
    if directory[2] == 2:
        lying = bytearray(directory)
        for compressed in (1, 3):
            lying[2] = compressed
            with pytest.raises(CorruptSummary):
                StreamReader(memoryview(lying), payload).numbers(n)


@given(
    n=st.integers(100, 1_300),
    unit=st.sampled_from([1, 1 << 8, 1 << 24, 1 << 40, 1 << 56]),
    seed=st.integers(0, 99),
)
def test_numbers_whose_bytes_are_all_small_come_back(n: int, unit: int, seed: int) -> None:
    """Where they are few, the planes are compressed as one, of which no half is the last."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(n) < 0.02, rng.integers(0, 4, n) * unit + rng.integers(0, 4, n), 0)
    writer = StreamWriter()
    writer.numbers(values)
    directory, payload = map(memoryview, writer.written())
    assert np.array_equal(StreamReader(directory, payload).numbers(n), values)


def test_two_bytes_in_one_take_less() -> None:
    rng = np.random.default_rng(1)
    rare = rng.random(20_000) < 0.05
    writer = StreamWriter()
    writer.numbers(rare.astype(np.int64))
    directory, payload = writer.written()
    assert directory[2] == 2
    assert len(payload) < 0.7 * 20_000 / 8


FORMS = {
    "nulls": Shape(),
    "items": Shape(ragged=True),
    "weights": Shape(ragged=True),
    "total": Shape(required=True),
}


@given(
    rows=st.sampled_from([0, 1, DIFFERENCES_MIN - 1, DIFFERENCES_MIN, 2_000]),
    seed=st.integers(0, 99),
    nulls=st.sampled_from([0.0, 0.3, 1.0]),
    apart=st.sampled_from([0.0, 0.2, 0.9]),
    most=st.sampled_from([3, 300, 1 << 62]),
)
def test_numbers_that_are_those_of_others_come_back(
    rows: int, seed: int, nulls: float, apart: float, most: int
) -> None:
    rng = np.random.default_rng(seed)
    events = frozen(rng.integers(1, 5, rows))
    absent = frozen(np.where(rng.random(rows) < nulls, events, 0))
    sizes = np.where(rng.random(rows) < apart, rng.integers(0, 9, rows), events - absent)
    items = np.arange(sizes.sum())
    total = np.where(rng.random(rows) < apart, rng.integers(-most, most, rows), events - absent)
    states = {
        "nulls": absent,
        "items": ragged(sizes, items),
        "weights": ragged(sizes, items % 7),
        "total": frozen(total),
    }
    writer = StreamWriter()
    writer.columns(states, FORMS, events, frozen(np.zeros(rows, np.int64)))
    directory, payload = map(memoryview, writer.written())
    reader = StreamReader(directory, payload)
    found = reader.columns(events, FORMS, LEFT, frozen(np.zeros(rows, np.int64)))
    reader.done()
    assert np.array_equal(numbers(found["nulls"]), absent if absent.any() else [])
    assert np.array_equal(found["total"], total)
    for name in ("items", "weights"):
        column = lists(found[name], rows)
        assert np.array_equal(column.sizes, sizes)
        assert np.array_equal(column.items, states[name].items)


@pytest.mark.parametrize(("like", "form"), [(0, ALIKE), (1, ALIKE + 1)])
def test_sizes_that_are_known_take_no_bytes(like: int, form: int) -> None:
    """Of lists as long as a row has events, or as the list before."""
    rng = np.random.default_rng(0)
    events, others = (frozen(rng.integers(1, 1 << 10, 100)) for _ in range(2))
    first, last = (
        ragged(sizes, np.zeros(sizes.sum())) for sizes in (others, [events, others][like])
    )
    writer = StreamWriter()
    states = {"nulls": None, "items": first, "weights": last, "total": None}
    writer.columns(states, FORMS, events, events)
    lines = np.frombuffer(writer.written()[0], _ENTRIES)
    assert lines["width"][[1, 4]].tolist() == [2, 0]
    assert lines["form"][[1, 4]].tolist() == [0, form]


@pytest.mark.parametrize("form", range(1, 8))
def test_a_form_that_a_stream_cannot_have_is_refused(form: int) -> None:
    directory, payload = written(ragged([1] * 9, [5] * 9))
    directory[0] = form  # of the sizes, of which the reader knows no others
    with pytest.raises(CorruptSummary, match="decimals" if form < ALIKE else f"form {form}"):
        read(directory, payload, 9)


def test_equal_numbers_of_which_a_strangers_few_bytes_say_many_are_not_believed() -> None:
    """They take no bytes, and each stream would fill gigabytes."""
    lines = np.zeros(3, _ENTRIES)
    lines["numbers"] = 1 << 22
    reader = StreamReader(memoryview(lines.tobytes()), memoryview(b""))
    for _ in range(2):
        assert not reader.numbers(1 << 22).any()
    with pytest.raises(CorruptSummary, match="4194304 numbers in 0 bytes"):
        reader.numbers(1 << 22)
