"""Exact sums: against Python's own integers and fractions, and against VectorMatrix."""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.segments import key_streams
from muntin.segments.building import WHOLE, build, merge, subtract
from muntin.segments.codec import decode, encode
from muntin.segments.keys import Keys
from muntin.segments.shards import split
from muntin.segments.sums import Sums, Totals
from muntin.segments.table import Segment
from muntin.summaries import VectorMatrix, key_columns
from tests.segments.streams import Stream, by_bytes, rows_of, spread, streams

INTEGERS = st.integers(-5, 5) | st.sampled_from([2**63 - 1, -(2**63), 2**62])
FLOATS = st.floats(-1e9, 1e9) | st.sampled_from([0.1, -0.0, 1e308, float("nan"), float("inf")])
INT, FLOAT = (pa.int64(), INTEGERS), (pa.float64(), FLOATS)
BOTH = Sums((("i", None), ("f", None)))
KEYS = ((), ("text",), ("text", "number"))
FIXTURE_STAYS = HealthCheck.function_scoped_fixture


def oracle(stream: Stream, by: Any, values: Any, step: int = 1) -> dict[Any, list[Any]]:
    """(slice, key) -> the values that are there."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for i in range(len(stream)):
        at = stream.slices[i] // step if step else 0
        key = (at, *(stream.columns[name][1][i] for name in by))
        value = values[i]
        if value is not None and math.isfinite(value):
            found[key].append(value)
        else:
            found[key] += []
    return dict(found)


def check_against_oracle(stream: Stream, segment: Any, step: int = 1) -> None:
    for by in KEYS:
        integers = oracle(stream, by, stream.values[0][1], step)
        floats = oracle(stream, by, stream.values[1][1], step)
        got = rows_of(segment, by)
        assert set(got) == set(integers)
        for key, (row,) in got.items():
            exact = sum(integers[key])
            fits = -(2**63) <= exact < 2**63
            if "i" in row and fits:
                assert row["i"] == exact
            elif "i" in row:
                assert row["i"] is None
                assert row["overflow"]
            if row["f"] is None:
                assert row["overflow"]
                assert sum(map(abs, floats[key])) > 1e308
                continue
            exact = sum(map(Fraction, floats[key]), Fraction(0))
            size = sum(map(abs, map(Fraction, floats[key])), Fraction(0))
            assert abs(Fraction(row["f"]) - exact) <= size / 2**100 + abs(exact) / 2**53


@given(streams(INT, FLOAT))
def test_fold_is_what_python_sums(stream: Stream) -> None:
    types = Sums((("i", "int64"), ("f", "float64")))
    segment = by_bytes(stream.build(types, KEYS))
    assert segment.count == len(stream)
    check_against_oracle(stream, segment)


@given(streams(INT, FLOAT), st.data(), st.sampled_from([1, 2, 5, WHOLE]))
def test_parts_and_rollups_sum_to_the_same(stream: Stream, data: Any, step: int) -> None:
    types = Sums((("i", "int64"), ("f", "float64")))
    parts = [part.build(types, KEYS) for part in data.draw(spread(stream))]
    merged = by_bytes(merge(parts, step))
    check_against_oracle(stream, merged, step)
    halves = merge([merge(parts[:1]), *parts[1:]])
    check_against_oracle(stream, merge([halves], step), step)


@given(streams(INT), st.data())
def test_integers_have_the_same_bytes_however_they_were_spread(stream: Stream, data: Any) -> None:
    algebra = Sums((("i", "int64"),))
    whole = encode(stream.build(algebra, KEYS))
    parts = [by_bytes(part.build(algebra, KEYS)) for part in data.draw(spread(stream))]
    assert encode(merge(parts)) == whole
    assert encode(merge([merge(parts[:2]), *parts[2:]])) == whole
    step = data.draw(st.sampled_from([2, 3, WHOLE]))
    rolled = encode(merge([stream.build(algebra, KEYS)], step))
    assert encode(merge([merge([part], step) for part in parts], step and 1)) == rolled


@pytest.fixture
def few_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys have one of four hashes; of their columns each value has its own."""
    fold = key_columns.fold

    def few(hashes: list[np.ndarray]) -> np.ndarray:
        return fold(hashes) >> np.uint64(62) << np.uint64(62)

    monkeypatch.setattr(key_columns, "fold", few)
    monkeypatch.setattr(key_streams, "fold", few)


def keys_of(segment: Segment) -> list[Keys]:
    return [table.keys for table in segment.tables]


@settings(suppress_health_check=[*settings().suppress_health_check, FIXTURE_STAYS])
@given(streams(INT, FLOAT), st.data(), st.sampled_from([1, 4]))
def test_keys_of_one_hash_stay_apart(few_hashes, stream: Stream, data: Any, shards: int) -> None:
    types = Sums((("i", "int64"), ("f", "float64")))
    parts = [by_bytes(part.build(types, KEYS)) for part in data.draw(spread(stream))]
    merged = by_bytes(merge(parts))
    check_against_oracle(stream, merged)
    check_against_oracle(stream, merge([by_bytes(each) for each in split(merged, shards)]))
    turned = by_bytes(merge(parts[::-1]))
    assert all(map(Keys.equals, keys_of(merged), keys_of(turned)))


LARGEST = 10**18 - 1
UNITS = st.integers(-100, 100) | st.integers(-LARGEST, LARGEST) | st.sampled_from([LARGEST])
CENTS = (pa.decimal128(18, 2), UNITS.map(lambda units: decimal.Decimal(units).scaleb(-2)))


@given(streams(CENTS), st.data(), st.sampled_from([1, 5, WHOLE]))
def test_decimals_are_summed_as_they_are_written(stream: Stream, data: Any, step: int) -> None:
    parts = [part.build(Sums((("i", None),)), KEYS) for part in data.draw(spread(stream))]
    segment = merge([merge([stream.build(Sums((("i", None),)), KEYS)], step)])
    merged = merge(parts, step)
    assert encode(by_bytes(merged)) == encode(merge([by_bytes(segment)]))
    assert segment.algebra == Sums((("i", "decimal(2)"),))
    for by in KEYS:
        values = oracle(stream, by, stream.values[0][1], step)
        got = rows_of(decode(encode(segment)), by)
        assert {key: row["i"] for key, (row,) in got.items()} == {
            key: float(sum(map(Fraction, there), Fraction(0))) for key, there in values.items()
        }


@pytest.mark.parametrize(
    "other", [pa.array([7]), pa.array([0.5]), pa.array([decimal.Decimal("0.125")])]
)
def test_decimals_join_other_numbers_as_floats(other: pa.Array) -> None:
    cents = pa.array([decimal.Decimal("0.10"), decimal.Decimal("-1000000.01"), None])
    parts = [build(Sums((("i", None),)), np.zeros(len(a), np.int64), [a]) for a in (cents, other)]
    merged = merge(parts, WHOLE)
    assert merged.algebra == Sums((("i", "float64"),))
    (row,) = rows_of(merged, ())[0,]
    assert row["i"] == pytest.approx(0.10 - 1000000.01 + float(other[0].as_py()), abs=1e-9)


@given(streams(INT), st.data())
def test_merge_of_slices_is_slice_of_merges(stream: Stream, data: Any) -> None:
    algebra = Sums((("i", "int64"),))
    parts = [part.build(algebra, KEYS) for part in data.draw(spread(stream))]
    low = min(stream.slices) + data.draw(st.integers(-1, 9))
    high = low + data.draw(st.integers(0, 9))
    cut = merge([part.between(low, high) for part in parts])
    assert encode(merge(parts).between(low, high)) == encode(cut)


@given(streams(INT, keys=("text", "number", "flag", "day", "time", "nothing")))
def test_every_type_of_key_comes_back(stream: Stream) -> None:
    names = tuple(stream.columns)
    segment = by_bytes(stream.build(Sums((("i", None),)), [names, *((name,) for name in names)]))
    for by in (names, *((name,) for name in names)):
        assert set(rows_of(segment, by)) == set(oracle(stream, by, stream.values[0][1]))


@given(streams((pa.int64(), st.integers(-100, 100)), (pa.float64(), st.sampled_from([0.5, 2.25]))))
def test_a_window_is_what_a_vector_matrix_holds(stream: Stream) -> None:
    matrix = VectorMatrix([("text",), ("text", "number")], {"i": "int64", "f": "float64"})
    columns = {**stream.columns, "i": stream.values[0], "f": stream.values[1]}
    matrix.update(pa.table({name: pa.array(v, kind) for name, (kind, v) in columns.items()}))
    types = Sums((("i", "int64"), ("f", "float64")))
    window = merge([stream.build(types, matrix.keys)], WHOLE)
    for key in matrix.keys:
        table = window.table(key)
        assert table is not None
        got = window.algebra.answer(table, None).drop_columns(["row", "overflow"])
        keys = pa.table(dict(zip(key, table.key_arrays(), strict=True)))
        expected = matrix.table(key)
        rows = [*keys.to_pylist()], [*got.to_pylist()]
        mine = sorted(({**k, **v} for k, v in zip(*rows, strict=True)), key=repr)
        assert mine == sorted(expected.to_pylist(), key=repr)


@given(streams(INT, rows_min=2), st.data(), st.integers(1, 3))
def test_a_limit_keeps_the_same_keys_complete_whatever_the_order(
    stream: Stream, data: Any, limit: int
) -> None:
    algebra, keys = Sums((("i", "int64"),)), [("text",)]
    full = rows_of(stream.build(algebra, keys), ("text",))
    whole = by_bytes(stream.build(algebra, keys, limit))
    for (at, *key), (row,) in rows_of(whole, ("text",)).items():
        kept = sum(1 for other in full if other[0] == at)
        if key == ["rest"]:
            assert kept > limit
        else:
            assert [row] == full[(at, *key)]
    parts = [part.build(algebra, keys, limit) for part in data.draw(spread(stream))]
    assert encode(merge(parts)) == encode(whole)
    step = data.draw(st.sampled_from([2, WHOLE]))
    assert encode(merge(parts, step)) == encode(merge([stream.build(algebra, keys, limit)], step))


@given(streams((pa.int64(), st.integers(-5, 5)), rows_min=2), st.data())
def test_what_is_subtracted_is_gone(stream: Stream, data: Any) -> None:
    algebra = Sums((("i", "int64"),))
    parts = [part.build(algebra, KEYS) for part in data.draw(spread(stream))]
    rest = subtract(merge(parts), parts[0])
    if len(parts) > 1:
        assert encode(rest) == encode(merge(parts[1:]))
        with pytest.raises(IncompatibleSummary):
            subtract(parts[1], merge(parts))
    else:
        assert not rest.tables
        assert not rest.count


@given(streams(INT), streams(INT, FLOAT), streams(FLOAT))
def test_keys_and_indicators_may_be_added(old: Stream, new: Stream, floats: Stream) -> None:
    first = old.build(Sums((("i", "int64"),)), [("text",)])
    second = new.build(Sums((("i", "int64"), ("f", "float64"))), [("text",), ("number",)])
    merged = by_bytes(merge([first, second], WHOLE))
    assert merged.count == len(old) + len(new)
    added, kept = merged.table(("number",)), merged.table(("text",))
    assert added is not None
    assert kept is not None
    assert int(added.events.sum()) == len(new)
    assert int(kept.events.sum()) == len(old) + len(new)
    with_f = set(rows_of(merge([second], WHOLE), ("text",)))
    for key, (row,) in rows_of(merged, ("text",)).items():
        if key not in with_f:
            assert row["f"] is None
    third = floats.build(Sums((("i", "float64"),)), [("text",)])
    together = by_bytes(merge([first, third], WHOLE))
    assert together.algebra == Sums((("i", "float64"),))
    for key, (row,) in rows_of(together, ("text",)).items():
        values = oracle(old, ("text",), old.values[0][1], 0).get(key, [])
        values = values + oracle(floats, ("text",), floats.values[0][1], 0).get(key, [])
        if row["i"] is not None:
            exact = sum(map(Fraction, values), Fraction(0))
            size = sum(map(abs, map(Fraction, values)), Fraction(0))
            assert abs(Fraction(row["i"]) - exact) <= size / 2**100 + abs(exact) / 2**53


def test_a_type_that_changes_is_refused() -> None:
    text = Stream([1], {"k": (pa.string(), ["a"])}, [])
    number = Stream([1], {"k": (pa.int64(), [1])}, [])
    nothing = Stream([1], {"k": (pa.null(), [None])}, [])
    one, two, three = (stream.build(Sums(), [("k",)]) for stream in (text, number, nothing))
    with pytest.raises(IncompatibleSummary, match="'k' is int64 and string"):
        merge([one, two])
    assert len(by_bytes(merge([three, one])).tables[0]) == 2
    with pytest.raises(BadArgument, match="'k' is double"):
        Stream([1], {"k": (pa.float64(), [1.5])}, []).build(Sums(), [("k",)])
    with pytest.raises(BadArgument, match="missing"):
        text.build(Sums(), [("other",)])


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("i.sum", lambda x: np.where(np.arange(len(x)) == 0, 5, x)),  # a sum of no value
        ("i.nulls", lambda x: x + 5),
        ("i.nulls", lambda x: -x),
        ("f.sum", lambda x: np.where(np.arange(len(x)) == 1, np.nan, x)),
        ("f.sum", lambda x: np.where(np.arange(len(x)) == 1, -np.inf, x)),
        ("f.low", lambda x: np.full(3, 100.0)),
        ("i.beyond", lambda x: np.array([0, 0, 9])),
        ("i.beyond", lambda x: np.array([0, 0, -(2**63)])),
        ("i.unseen", lambda x: np.array([1, 1, 1])),
    ],
)
def test_impossible_states_are_refused(column: str, change: Any) -> None:
    values = [(pa.int64(), [None, 2, 3]), (pa.float64(), [None, 2.5, 1e300])]
    segment = Stream([0, 1, 2], {}, values).build(Sums((("i", "int64"), ("f", "float64"))))
    (table,) = segment.tables
    states = {**table.states, column: change(table.states[column])}
    data = encode(replace(segment, tables=(replace(table, states=states),)))
    with pytest.raises(CorruptSummary):
        decode(data)


def test_a_column_has_the_same_keys_in_every_spelling() -> None:
    """Dictionaries with values that are unused or stand twice; integers near and far apart."""
    slices, values = np.array([1, 1, 2, 2]), [pa.array([1, 2, 3, 4])]

    def made(column: pa.Array) -> bytes:
        return encode(build(Sums((("v", "int64"),)), slices, values, [("k",)], {"k": column}))

    plain = made(pa.array(["a", "b", "a", None]))
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 3, None]), ["a", "b", "unused", "a"])
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 2]), ["a", "b", None])
    for column in (
        pa.array(["a", "b", "a", None], pa.large_string()),
        pa.array(["a", "b", "a", None], pa.string_view()),
        pa.chunked_array([["a", "b"], ["a", None]]),
        twice,
        hidden,
    ):
        assert made(column) == plain
    near = made(pa.array([5, 7, 5, 6]))
    assert made(pa.array([5, 7, 5, 6], pa.uint8())) == near
    assert made(pa.array([5, 7, 5, 6]).dictionary_encode()) == near
    times = pa.array([0, 1, 0, 1], pa.timestamp("us"))
    assert made(times) == made(times.cast(pa.timestamp("ns", "UTC")))


def test_wide_integers_come_only_where_one_is_beyond_int64() -> None:
    values = [pa.array([2**62, 2**62, 1])]
    two = build(Sums((("i", "int64"),)), np.array([0, 0, 1]), values)
    for slice_, kind in ((0, pa.decimal128(38, 0)), (1, pa.int64())):
        (table,) = two.between(slice_, slice_ + 1).tables
        assert two.algebra.answer(table, Totals(wide=True))["i"].type == kind


def test_declared_floats_begin_with_numbers_beyond_int64() -> None:
    """Rows are not rejected for it, so it must not stop the fold either."""
    values = pa.array([2**63, 1, None], pa.uint64())
    segment = build(Sums((("v", "float64"),)), np.zeros(3, np.int64), [values], [()], {})
    assert [row["v"] for (row,) in rows_of(segment, ()).values()] == [float(2**63 + 1)]
