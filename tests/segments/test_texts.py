"""Texts that key columns share: what is read is what was written, in fewer bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import CorruptSummary
from muntin.segments import codec, texts
from muntin.segments.building import build, merge
from muntin.segments.codec import cut, decode, encode
from muntin.segments.keys import memory_of
from muntin.segments.sums import Sums
from muntin.segments.table import Segment
from muntin.summaries.envelope import canonical

KEYS = (("area",), ("driver",), ("driver", "area"), ("driver", "number"))  # as a merge has them


FARES = Sums((("fare", None),))


def segment(drivers: list[Any], areas: list[Any], keys: Any = KEYS) -> Segment:
    rows = len(drivers)
    columns = {
        "driver": pa.array(drivers, pa.string()),
        "area": pa.array(areas, pa.string()),
        "number": pa.array([n % 7 for n in range(rows)], pa.int64()),
    }
    values = [pa.array(range(rows), pa.int64())]
    return build(FARES, np.arange(rows) // 100, values, keys, columns)


def plain(made: Segment, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """As if no text were shared."""
    with monkeypatch.context() as without:
        without.setattr(texts, "TEXTS_MIN", 1 << 40)
        return encode(made)


def many(rows: int = 2_000) -> Segment:
    """A fifth of the texts is null, and one is empty."""
    drivers = [
        None if n % 5 == 0 else f"{(n * 7919 % 600) * 0x9E3779B97F4A7C15 % (1 << 64):x}"
        for n in range(rows)
    ]
    return segment(drivers, [("", "Zürich", "東京", None)[n * n % 11 % 4] for n in range(rows)])


def test_they_are_read_as_they_were_written_in_fewer_bytes(monkeypatch) -> None:
    made = many()
    data, longer = encode(made), plain(made, monkeypatch)
    assert b'"texts":[[' in data
    assert b"texts" not in longer
    assert len(data) < 0.8 * len(longer)
    for read in (decode(data), decode(longer)):
        assert encode(read) == data
        for one, other in zip(read.tables, made.tables, strict=True):
            assert one.keys.equals(other.keys)
            assert one.keys.kinds == other.keys.kinds


@given(
    st.lists(st.none() | st.sampled_from("abcdefgh"), min_size=1, max_size=60), st.integers(1, 9)
)
def test_any_of_them_at_any_size(drivers, few) -> None:
    drivers = drivers * 8
    made = segment(drivers, [None if n % few == 0 else str(n % few) for n in range(len(drivers))])
    data = encode(made)
    read = decode(data)
    assert encode(read) == data
    assert encode(merge([decode(encode(piece)) for piece in cut(made, 2_000)])) == data
    for one, other in zip(read.tables, made.tables, strict=True):
        assert one.keys.equals(other.keys)


@pytest.mark.parametrize("names", [[None], [None, ""], [""]])
def test_many_keys_without_a_text(names) -> None:
    """In keys with a number, which makes them different."""
    rows = 1_000
    columns = {
        "driver": pa.array([names[n % len(names)] for n in range(rows)], pa.string()),
        "number": pa.array(range(rows), pa.int64()),
    }
    made = build(
        FARES, np.zeros(rows, np.int64), [pa.array(range(rows), pa.int64())],
        [("driver", "number")], columns,
    )  # fmt: skip
    read = decode(encode(made))
    assert read.tables[0].keys.equals(made.tables[0].keys)
    assert encode(read) == encode(made)


def test_a_table_is_read_alone() -> None:
    made = many()
    data = encode(made)
    for by, table in zip(KEYS, made.tables, strict=True):
        read = decode(data, keys=[by])
        assert encode(read) == encode(replace(made, tables=(table,)))


def test_those_that_are_all_different_are_not() -> None:
    made = segment([f"driver {n}" for n in range(1_000)], ["a"] * 1_000, keys=(("driver", "area"),))
    assert b'"texts":[["area",1]]' in encode(made)
    assert decode(encode(made)).tables[0].keys.equals(made.tables[0].keys)


def lying(made: Segment, monkeypatch: pytest.MonkeyPatch, change: Any) -> bytes:
    """Sealed with other numbers of texts than there are."""
    honest = texts.coded

    def changed(dictionaries: Any) -> Any:
        return change(honest(dictionaries))

    with monkeypatch.context() as lies:
        lies.setattr(codec, "coded", changed)
        return encode(made)


@pytest.mark.parametrize("number", [-1, 600, 2**63 - 1, -(2**63)])
def test_a_number_that_no_text_has_is_refused(number, monkeypatch) -> None:
    def change(found: Any) -> Any:
        first, *rest = found["driver"].codes
        first = first.copy()
        first[np.flatnonzero(first)[0]] = number
        return {**found, "driver": replace(found["driver"], codes=iter([first, *rest]))}

    with pytest.raises(CorruptSummary):
        decode(lying(many(), monkeypatch, change))


def test_a_text_that_is_there_twice_is_refused(monkeypatch) -> None:
    """Two numbers of it would be two keys."""

    def change(found: Any) -> Any:
        driver = found["driver"]
        texts_of = driver.values.to_pylist()
        values = pa.array([texts_of[0], *texts_of[:-1]], pa.large_string())
        return {**found, "driver": replace(driver, values=values)}

    with pytest.raises(CorruptSummary, match="a text is there twice"):
        decode(lying(many(), monkeypatch, change))


def test_a_null_with_a_number_is_refused(monkeypatch) -> None:
    def change(found: Any) -> Any:
        codes = [np.ones_like(each) for each in found["driver"].codes]
        return {**found, "driver": replace(found["driver"], codes=iter(codes))}

    with pytest.raises(CorruptSummary, match="a null key has a value"):
        decode(lying(many(), monkeypatch, change))


def test_a_long_text_that_many_keys_name_is_refused_before_it_is_made(monkeypatch) -> None:
    """Kilobytes of a segment would else be gigabytes of keys."""

    def change(found: Any) -> Any:
        driver = found["driver"]
        values = pa.array(["x" * (1 << 24), *driver.values.to_pylist()[1:]], pa.large_string())
        codes = iter([np.zeros_like(each) for each in driver.codes])
        return {**found, "driver": replace(driver, values=values, codes=codes)}

    data = lying(many(), monkeypatch, change)
    assert len(data) < 1 << 16
    with pytest.raises(CorruptSummary, match="more than are read at once"):
        decode(data)


@pytest.mark.parametrize("wrong", [[], 7, [["driver"]], [[1, 2]], [["driver", -1]], [["a", 1]] * 2])
def test_a_description_that_lies_of_texts_is_refused(wrong, monkeypatch) -> None:
    monkeypatch.setattr(codec, "canonical", lambda header: canonical({**header, "texts": wrong}))
    data = encode(many())
    monkeypatch.undo()
    with pytest.raises(CorruptSummary, match="texts"):
        decode(data)


def test_bytes_and_unions_do_not_depend_on_how_texts_are_kept() -> None:
    made = many()
    tables = []
    for table in made.tables:
        keys = replace(table.keys, columns=table.keys.values)
        assert keys.equals(table.keys)
        assert keys.kinds == table.keys.kinds
        tables.append(replace(table, keys=keys))
    plainly = replace(made, tables=tuple(tables))
    assert encode(plainly) == encode(made)
    assert encode(merge([plainly, made])) == encode(merge([made, made]))


def test_few_keys_do_not_keep_all_texts_and_what_is_shared_counts_once() -> None:
    made = many()
    every = [table.keys for table in made.tables]
    texts_bytes = sum(c.dictionary.nbytes for c in made.tables[2].keys.columns)
    alone = memory_of([made.tables[2].keys])
    assert memory_of(every) < sum(memory_of([keys]) for keys in every) - texts_bytes / 2
    few = made.tables[2].keys.take(np.arange(3))
    assert memory_of([few]) < alone / 50
    assert few.values[0].to_pylist() == made.tables[2].keys.values[0].to_pylist()[:3]
