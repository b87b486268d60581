"""Each type of column that a kind accepts is counted, nulls and all."""

import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from muntin.arrow import floats_of_decimals
from muntin.errors import BadArgument
from muntin.kinds import KINDS
from muntin.segments import decode, encode, merge
from muntin.segments.fingerprint import Contains
from muntin.segments.ranked import QuantilesAt
from muntin.segments.sums import key_rows
from muntin.segments.top_k import WeightOf
from muntin.summaries import KLL

NUMBERS = [
    pa.array([1, None, 2, 2], pa.int8()),
    pa.array([1, None, 2, 2], pa.int64()),
    pa.array([1, None, 2, 2], pa.uint32()),
    pa.array([True, None, False, True]),
    pa.nulls(4),
]
REALS = [
    pa.array([1.5, None, float("nan"), 2], pa.float64()),
    pa.array([1.5, None, float("inf"), 2], pa.float32()),
    pa.array([Decimal("1.50"), None, Decimal(2), Decimal(2)], pa.decimal128(10, 2)),
]
ITEMS = [
    pa.array(["a", None, "", "a"]),
    pa.array(["a", None, "", "a"], pa.large_string()),
    pa.array(["a", None, "", "a"], pa.string_view()),
    pa.array(["a", None, "", "a"]).dictionary_encode(),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None])),
    pa.nulls(4, pa.string()).dictionary_encode(),
    pa.array([b"a", None, b"\xff", b"a"]),
    pa.array([1, None, -2, 1], pa.int16()),
    pa.array([1, None, 2**63 - 1, 1], pa.uint64()),
    pa.nulls(4),
]
HASHED = [
    pa.array([True, None, False, True]),
    pa.array([date(2026, 1, 1), None, date(1960, 1, 1), date(2026, 1, 1)]),
    pa.array([datetime(2026, 1, 1, tzinfo=UTC), None, None, datetime(1960, 1, 1, tzinfo=UTC)]),
]
KEYS = pa.array(["x", None, "y", "x"])


def column_name(column):
    return str(column.type)


def counted(entry, **columns):
    """Entry's segment of two batches, read again from its bytes."""
    spec = KINDS[entry["kind"]].model_validate(entry)
    batch = pa.record_batch(columns)
    spec.check_types({name: batch.schema.field(name).type for name in spec.columns()})
    slices = np.zeros(batch.num_rows, np.int64)
    segment = merge([spec.segment(batch, slices), spec.segment(batch, slices)])
    assert segment.count == 2 * batch.num_rows
    again = decode(encode(segment))
    assert encode(again) == encode(segment)
    return again, spec.bounds(again)


def total_of(segment):
    """The weight of all items."""
    (table,) = segment.tables
    return int(table.states["total"].sum())


@pytest.mark.parametrize("by", [(), ("k",)])
@pytest.mark.parametrize("column", NUMBERS + REALS, ids=column_name)
def test_values(column, by):
    for kind in ("float64", "float32"):
        entry = {"kind": "quantiles", "value": "v", "type": kind, "by": by}
        _, bounds = counted(entry, v=column, k=KEYS)
        assert bounds["nulls"] == 2 * sum(v is None or v != v for v in column.to_pylist())


@pytest.mark.parametrize("column", NUMBERS, ids=column_name)
def test_whole_values_and_weights(column):
    counted({"kind": "quantiles", "value": "v", "type": "int64"}, v=column)
    nulls = column.null_count
    for kind in ("frequency", "top_k"):
        segment, bounds = counted({"kind": kind, "item": "i", "weight": "w"}, i=KEYS, w=column)
        assert bounds["nulls"] == 2 * nulls if nulls == 4 else 2  # the key is null where they are
        total = sum(int(v) for v in column.to_pylist() if v is not None)
        assert total_of(segment) == 2 * total


@pytest.mark.parametrize("by", [(), ("k",)])
@pytest.mark.parametrize("column", ITEMS + HASHED, ids=column_name)
def test_items(column, by):
    nulls = 2 * sum(v is None for v in column.to_pylist())
    entries = [{"kind": "distinct", "item": "i"}]
    if not any(column is c for c in HASHED):
        entries += [{"kind": "frequency", "item": "i"}, {"kind": "top_k", "item": "i"}]
    for entry in entries:
        _, bounds = counted(entry | {"by": by}, i=column, k=KEYS)
        assert bounds["nulls"] == nulls


@pytest.mark.parametrize("column", ITEMS, ids=column_name)
def test_keys_of_fingerprints(column):
    segment, _ = counted({"kind": "fingerprint", "key": "i"}, i=column)
    there = [v for v in column.to_pylist() if v is not None]
    (table,) = segment.tables
    if there and isinstance(there[0], str | int):
        found = segment.algebra.answer(table, Contains(tuple(there)))
        assert found["present"].to_pylist() == [True] * len(there)
    for kind, ranks in (("float64", NUMBERS + REALS), ("int64", NUMBERS)):
        for rank in ranks:
            entry = {"kind": "fingerprint", "key": "i", "rank": "r", "type": kind}
            _, bounds = counted(entry, i=column, r=rank)
            assert bounds["nulls"] == 2 * sum(v is None for v in column.to_pylist())


def test_an_empty_batch_changes_nothing():
    for entry in (
        {"kind": "quantiles", "value": "v", "by": "k"},
        {"kind": "frequency", "item": "k", "weight": "v"},
        {"kind": "fingerprint", "key": "k", "rank": "v"},
    ):
        spec = KINDS[entry["kind"]].model_validate(entry)
        full = pa.record_batch({"k": KEYS, "v": pa.array([1, 2, 3, 4])})
        segment = spec.segment(full, np.zeros(4, np.int64))
        nothing = spec.segment(full.slice(0, 0), np.zeros(0, np.int64))
        assert nothing.count == 0
        assert encode(merge([segment, nothing])) == encode(segment)


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(), pa.large_binary(), pa.binary_view(), pa.duration("us"), pa.time32("s"),
        pa.float32(), pa.decimal128(5, 1), pa.list_(pa.int8()), pa.month_day_nano_interval(),
        pa.dictionary(pa.int8(), pa.binary()),
    ],
)  # fmt: skip
def test_what_cannot_be_a_key_is_refused_before_any_event(kind):
    spec = KINDS["vector_matrix"](keys=["k"])
    with pytest.raises(BadArgument, match="a key is text"):
        spec.check_types({"k": kind})


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (pa.decimal128(3, 1), ["0.3", "-0.7", None, "99.9"]),
        (pa.decimal128(38, 10), ["0.3", "9007199254740993.3", None, "-123456789.0123456789"]),
        (pa.decimal128(38, 0), ["9007199254740993", str(2**100), None, "-1"]),
        (pa.decimal256(60, 2), ["0.07", "1.1", None, "-1e57"]),
    ],
)
def test_decimals_are_the_nearest_floats(kind, texts):
    """Arrow's own cast makes 0.3 of three tenths 0.30000000000000004."""
    values = [None if text is None else Decimal(text) for text in texts]
    column = pa.array(values, kind)
    expected = [None if value is None else float(value) for value in values]
    assert floats_of_decimals(column).to_pylist() == expected
    assert floats_of_decimals(column.slice(1)).to_pylist() == expected[1:]
    keys = pa.array(["a", "b", "c", "d"])
    matrix = {"kind": "vector_matrix", "keys": ["k"], "indicators": ["x"]}
    batch = pa.record_batch({"k": keys, "x": column})
    spec = KINDS["vector_matrix"].model_validate(matrix)
    segment = spec.segment(batch, np.zeros(4, np.int64))
    rows = key_rows(segment.algebra, segment.table(("k",)))
    sums = dict(zip(rows["k"].to_pylist(), rows["x"].to_pylist(), strict=True))
    assert sums == dict(zip("abcd", [value or 0.0 for value in expected], strict=True))
    ranked = KINDS["quantiles"].model_validate({"kind": "quantiles", "value": "x"})
    assert ranked.values(batch)[0].to_pylist() == expected
    ranked = {"kind": "fingerprint", "key": "k", "rank": "x"}
    assert KINDS["fingerprint"].model_validate(ranked).values(batch)[1].to_pylist() == expected


def test_items_of_bytes_are_asked_as_text():
    for kind, size in ((["a", "é", "a"], {}), (["a", "é", *map(str, range(40))], {"track": 1})):
        column = pa.array([text.encode() for text in kind], pa.binary())
        entry = {"kind": "frequency", "item": "i", "width": 64, "depth": 2, **size}
        spec = KINDS["frequency"].model_validate(entry)
        segment = spec.segment(pa.record_batch({"i": column}), np.zeros(len(column), np.int64))
        found = segment.algebra.answer(segment.tables[0], WeightOf(("a", "é", "zz")))
        assert found["item"].to_pylist() == ["a", "é", "zz"]
        assert [u >= n for u, n in zip(found["upper"].to_pylist(), (kind.count("a"), 1, 0),
                strict=True)] == [True] * 3  # fmt: skip
        if not size:
            assert found["value"].to_pylist() == [2, 1, 0]


def test_times_are_the_same_items_in_any_unit():
    days = [date(2026, 1, 1), None, date(1960, 1, 1), date(2026, 1, 1)]
    moments = [None if day is None else datetime(day.year, 1, 1) for day in days]
    kinds = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")]
    for columns in (
        [pa.array(moments, kind) for kind in kinds],
        [pa.array(days, kind) for kind in (pa.date32(), pa.date64())],
    ):
        found = []
        for column in columns:
            spec = KINDS["distinct"].model_validate({"kind": "distinct", "item": "i"})
            spec.check_types({"i": column.type})
            found.append(spec.segment(pa.record_batch({"i": column}), np.zeros(4, np.int64)))
        assert {encode(segment) for segment in found} == {encode(found[0])}


def test_weights_of_top_k_are_certain():
    spec = KINDS["top_k"].model_validate({"kind": "top_k", "item": "i", "capacity": 1})
    segment = spec.segment(pa.record_batch({"i": [*range(9), 3]}), np.zeros(10, np.int64))
    answer = segment.algebra.answer(segment.tables[0], WeightOf((3, 99)))
    assert answer["confidence"].to_pylist() == [1.0, 1.0]


@pytest.mark.parametrize("sketch", [None, {}], ids=["exact", "sketched"])
def test_indicators_of_no_type_take_the_type_that_comes_later(sketch):
    entry = {"kind": "vector_matrix", "keys": ["k"], "indicators": ["v"], "sketch": sketch}
    spec = KINDS["vector_matrix"].model_validate(entry)

    def stored(*columns):
        batches = [pa.record_batch({"k": KEYS, "v": column}) for column in columns]
        return encode(merge([spec.segment(each, np.zeros(4, np.int64)) for each in batches]))

    cents = pa.array([Decimal("-99.9"), Decimal("99.9"), Decimal("0.1"), None])
    for later in (pa.array([0.5, None, 2, 2]), pa.array([1, None, 2, 2]), cents):
        assert stored(pa.nulls(4), later) == stored(pa.nulls(4, later.type), later)
        assert stored(later, pa.nulls(4)) == stored(later, pa.nulls(4, later.type))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("size", [3, 5000])
def test_nulls_beside_sketches_leave_their_values_as_they_are(dtype, size):
    sketch = KLL(dtype=dtype)
    sketch.update(np.arange(1, size + 1))
    column = pa.array([None, sketch.to_datasketches(), None], pa.binary())
    entry = {"kind": "quantiles", "value": "v", "type": dtype, "merge": "column"}
    segment, bounds = counted(entry, v=column)
    assert bounds["nulls"] == 4
    (table,) = segment.tables
    found = segment.algebra.answer(table, QuantilesAt((0.0, 1.0)))
    assert found["value"].to_pylist() == [1, size]


def test_small_sketches_take_little_memory_however_large_their_registers_would_be():
    datasketches = pytest.importorskip("datasketches")
    sketch = datasketches.hll_sketch(18)
    sketch.update("a")
    column = pa.array([sketch.serialize_compact()] * 400, pa.binary())
    entry = {"kind": "distinct", "item": "v", "merge": "column", "precision": 18}
    spec = KINDS["distinct"].model_validate(entry)
    tracemalloc.start()
    spec.segment(pa.record_batch({"v": column}), np.zeros(400, np.int64))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 2**18  # all of them would take 400
