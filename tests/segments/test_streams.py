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
from muntin.segments.columns import Ragged, frozen
from muntin.segments.kernels.streams import CODED_SHARE
from muntin.segments.streams import StreamReader, StreamWriter
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
