"""The bytes of segments: damage, lies, cuts, and single parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, MuntinError, SummaryOverflow
from muntin.segments.algebra import Algebra
from muntin.segments.building import WHOLE, build, merge
from muntin.segments.checks import EVENTS_MAX
from muntin.segments.codec import cut, decode, encode, head_size, read_index, read_types
from muntin.segments.columns import Column, Ragged, frozen
from muntin.segments.distinct import DistinctItems
from muntin.segments.registry import KINDS
from muntin.segments.shards import split
from muntin.segments.sums import Sums
from muntin.segments.table import Segment
from tests.segments.examples import EXAMPLES, example

BY = (("text",),)


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_byte_is_refused(kind: str) -> None:
    data = encode(example(kind, 12))
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at % 8)
        with pytest.raises(CorruptSummary):
            decode(bytes(damaged))
    for end in (0, 3, 39, 40, 100, len(data) - 1):
        with pytest.raises(CorruptSummary):
            decode(data[:end])
    with pytest.raises(CorruptSummary):
        decode(data + b"\0")


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_bytes_tell_the_types(kind: str) -> None:
    data = encode(example(kind, 12))
    size = head_size(data[:40])
    assert read_types(data[:size]) == read_types(data)
    for at in range(size):
        damaged = bytearray(data[:size])
        damaged[at] ^= 1 << (at % 8)
        with pytest.raises(CorruptSummary):
            read_types(damaged)
    for end in (0, 3, 39, 40, size - 1):
        with pytest.raises(CorruptSummary):
            read_types(data[:end])


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_states_that_are_changed_are_refused_or_answer(kind: str, data: Any) -> None:
    """Sealed again, as one would who means harm: never a crash, nothing but CorruptSummary."""
    segment = example(kind, 60)
    (table,) = segment.tables
    lies = {**table.states, "key": table.key, "events": table.events, "slices": table.slices}
    name = data.draw(st.sampled_from(sorted(name for name, c in lies.items() if c is not None)))
    column = lies[name]
    changed: Any = column
    if isinstance(column, Ragged) and data.draw(st.booleans()):
        changed = Ragged(column.starts, _changed(column.items, data))
    elif isinstance(column, Ragged):
        sizes = np.maximum(_changed(frozen(column.sizes), data) % 50, 0)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        if starts[-1] > len(column.items):
            return
        changed = Ragged(frozen(starts), column.items[: starts[-1]])
    else:
        changed = _changed(column, data)
    if name in table.states:
        lying = replace(table, states={**table.states, name: changed})
    else:
        lying = replace(table, **{name: changed})
    try:
        read = decode(encode(replace(segment, tables=(lying,))))
    except CorruptSummary:
        return
    for question in EXAMPLES[kind].questions:
        read.algebra.answer(read.tables[0], question)
    merge([read, segment], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_more_events_than_are_read_are_not_merged(kind: str) -> None:
    """Their number would wrap, and levels of sketches pass the last that there is room for."""
    segment = example(kind, 1)
    (table,) = segment.tables
    large = replace(segment, tables=(replace(table, events=frozen(table.events * EVENTS_MAX)),))
    with pytest.raises(SummaryOverflow, match="events"):
        merge([large, large], WHOLE)


def _changed(values: np.ndarray, data: Any) -> np.ndarray:
    changed = values.copy()
    at = data.draw(st.integers(0, len(values) - 1))
    kind = st.integers(-3, 300) | st.sampled_from([2**63 - 1, -(2**63), 2**32])
    new = data.draw(kind)
    changed[at] = new % 256 if values.dtype == np.uint8 else new
    return frozen(changed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_index_tells_slices_without_states(kind: str) -> None:
    segment = example(kind, 500)
    data = encode(segment)
    index = read_index(data)
    assert index.algebra == segment.algebra
    assert index.slices.tolist() == segment.slices.tolist()
    assert index.events.tolist() == segment.events.tolist()
    (table,) = segment.tables
    ((by, slices, rows),) = index.tables
    assert (by, slices.tolist(), rows.tolist()) == (
        table.name(index.algebra), table.slices.tolist(), np.diff(table.starts).tolist()
    )  # fmt: skip
    assert decode(data, keys=[]).tables == ()
    assert len(decode(data, keys=BY).tables) == 1
    with pytest.raises(CorruptSummary):
        read_index(data[:60] + b"\xff" + data[61:])


@pytest.mark.parametrize("kind", KINDS)
@given(nbytes=st.integers(1, 50_000), shards=st.sampled_from([1, 2, 16, 1024]))
def test_cuts_and_shards_are_whole_again(kind: str, nbytes: int, shards: int) -> None:
    segment = example(kind, 500)
    whole = encode(segment)
    pieces = cut(segment, nbytes)
    assert encode(merge([decode(encode(piece)) for piece in pieces])) == whole
    parts = split(segment, shards)
    assert sum(part.count for part in parts) == segment.count
    assert sum(part.rows for part in parts) == segment.rows
    again = merge([decode(encode(part)) for part in parts])
    assert encode(replace(again, shard=0)) == whole


def test_of_a_shard_it_does_not_matter_which_key_came_first() -> None:
    numbers = pa.array(range(100))
    columns = {name: pa.array([f"{name}{n}" for n in range(100)]) for name in "ab"}
    algebra, at = Sums((("x", "int64"),)), np.zeros(100, np.int64)
    made = build(algebra, at, [numbers], [("a",), ("b",)], columns)
    parts = [
        part
        for key in made.tables
        for part in split(replace(made, tables=(key,)), 2)
        if part.shard == 3
    ]
    assert encode(merge(parts)) == encode(merge(parts[::-1])) == encode(split(made, 2)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_and_parameters_do_not_mix(kind: str) -> None:
    mine = example(kind, 20)
    for other in KINDS:
        if other != kind:
            with pytest.raises(MuntinError):
                merge([mine, example(other, 20)])
    with pytest.raises(MuntinError):
        merge([mine, replace(mine, limit=7)])


def _same(one: Column, other: Column) -> bool:
    """Whether two columns hold the same, bit by bit."""
    if isinstance(one, Ragged) and isinstance(other, Ragged):
        return _same(one.starts, other.starts) and _same(one.items, other.items)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and bytes(one) == bytes(other)
    return one is None and other is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_gives_the_same_columns(kind: str) -> None:
    segment = example(kind, 500)
    read = decode(encode(segment))
    for mine, its in zip(segment.tables, read.tables, strict=True):
        assert mine.keys.equals(its.keys)
        for name, column in mine.states.items():
            assert _same(column, its.states[name]), name


def test_an_empty_segment_has_bytes() -> None:
    segment = example("vector_matrix", 20)
    none = segment.between(10**9, 10**9 + 1)
    assert none.tables == ()
    assert decode(encode(none)).count == 0
    assert encode(merge([none, segment])) == encode(segment)


LONG = [f"{number:0100}" for number in range(4_000)]  # texts of 400,000 bytes


@pytest.mark.parametrize(
    ("algebra", "by", "keys"),
    [
        (Sums((("x", "int64"),)), ("name",), {"name": LONG}),
        (Sums((("x", "int64"),)), ("name", "n"), {"name": LONG[:1_000] * 4, "n": range(4_000)}),
        (DistinctItems(10), ("n",), {"n": [n % 160 for n in range(40_000)]}),
    ],
)
def test_what_is_written_is_read_however_long_it_is(algebra, by, keys, monkeypatch) -> None:
    """A piece that nobody can read again would be lost with all of its events."""
    monkeypatch.setattr("muntin.segments.codec.DECODED_BYTES_MAX", 1 << 20)
    columns = {name: pa.array(column) for name, column in keys.items()}
    many = len(columns[by[0]])
    made = build(algebra, np.zeros(many, np.int64), [pa.array(range(many))], [by], columns)
    assert decode(encode(made)).count == many
    monkeypatch.setattr("muntin.segments.codec.DECODED_BYTES_MAX", 1 << 17)
    with pytest.raises(BadArgument, match="in one piece; at most 65,536: give the summary"):
        encode(made)


def _sealed(algebra: Algebra) -> Segment:
    none = frozen(np.empty(0, np.int64))
    return Segment(algebra, none, none, ())


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_come_back_and_lies_are_refused(kind: str) -> None:
    algebra = EXAMPLES[kind].algebra
    assert decode(encode(_sealed(algebra))).algebra == algebra
    told = algebra.parameters()
    for name in told:
        for lie in (None, -1, "x", 1 << 70, [["a", "b"]]):
            if lie != told[name] and not (lie is None and told[name] is None):
                try:
                    read = type(algebra).from_parameters({**told, name: lie})
                except CorruptSummary:
                    continue
                assert read.parameters() == {**told, name: lie}
    with pytest.raises(CorruptSummary):
        type(algebra).from_parameters({**told, "more": 1})
