"""Bytes of the vector matrix: the same for the same events, in every release, hardened."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from damage import damaged, golden, readable

from muntin.errors import CorruptSummary
from muntin.segments import build, decode, encode
from muntin.segments.distinct import DistinctItems
from muntin.summaries import VectorMatrix
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.key_columns import FOLD, NULL_HASH

KIND = "vector_matrix"
KEYS = ["driver", ("driver", "area"), "day", ("hour", "flag"), "nothing"]


def example(indicators=("time", "fare", "empty")) -> VectorMatrix:
    rng = np.random.default_rng(5)
    summary = VectorMatrix(KEYS, indicators, capacity=100)
    size = 60
    drivers = [None if i == 7 else f"driver {i}" for i in rng.integers(0, 12, size)]
    columns = {
        "driver": pa.array(drivers, pa.string()),
        "area": pa.array([None if i == 3 else int(i) for i in rng.integers(0, 6, size)]),
        "day": pa.array(rng.integers(-2, 3, size).astype(np.int32)).view(pa.date32()),
        "hour": pa.array(rng.integers(0, 3, size) * 3_600_000_000).view(pa.timestamp("us")),
        "flag": pa.array([[True, False, None][i] for i in rng.integers(0, 3, size)]),
        "nothing": pa.nulls(size),
        "time": pa.array(rng.integers(-50, 50, size)),
        "fare": pa.array(rng.random(size)),
        "empty": pa.nulls(size),
    }
    batch = pa.table(columns)
    summary.update(batch)
    summary.add_indicator("late", "int64")
    summary.update(batch.slice(0, 20).append_column("late", pa.array(range(20))))
    return summary


def test_golden_bytes():
    data = golden("vector_matrix-v2", lambda: example().to_bytes())
    again = VectorMatrix.from_bytes(data)
    assert again.to_bytes() == data == example().to_bytes()
    assert (again.count, again.capacity, again.keys) == (80, 100, example().keys)
    for key in again.keys:
        assert again.table(key).equals(example().table(key))


def test_the_body_is_a_segment_of_one_slice():
    summary = example()
    _, body = unseal(summary.to_bytes(), KIND)
    segment = decode(bytes(body))
    assert (segment.slices.tolist(), segment.events.tolist()) == ([0], [80])
    assert [table.by for table in segment.tables] == [(), *summary.keys]


def test_a_summary_of_nothing():
    for keys, indicators in ((["a"], []), ([("a", "b")], ["x", "y"])):
        summary = VectorMatrix(keys, indicators)
        again = VectorMatrix.from_bytes(summary.to_bytes())
        assert again.table(1).num_rows == 0
        assert again.to_bytes() == summary.to_bytes()


def test_damaged_bytes_are_refused():
    data = example().to_bytes()
    accepted = 0
    for case, summary in readable(VectorMatrix, damaged(data, 2000)):
        accepted += 1  # another capacity, or the very bytes
        assert summary.to_bytes() == case
        assert summary.table(1).equals(example().table(1))
    assert accepted < 300


def test_segments_that_are_no_matrix_are_refused():
    summary = VectorMatrix(["k"], ["x"])
    summary.update(pa.table({"k": [1, 2], "x": [1, 2]}))
    parameters, body = unseal(summary.to_bytes(), KIND)
    whole = decode(bytes(body))
    sums, columns = whole.algebra, {"k": pa.array([1, 2]), "j": pa.array([1, 2])}
    zeros, values = np.zeros(2, np.int64), [pa.array([1, 2])]
    for segment in (
        build(DistinctItems(12), zeros, values),
        build(sums, zeros, values, ((),), columns, limit=5),
        build(sums, np.arange(2), values, ((), ("k",)), columns),  # two slices
        build(sums, zeros + 1, values, ((), ("k",)), columns),
        build(sums, zeros, values, ((), ("j",)), columns),  # another key
        build(sums, zeros, values, (("k",),), columns),  # no total
        build(sums, zeros, values, (("k",), ()), columns),  # another order
        build(sums, zeros, values, ((), ("k",)), {"k": pa.array(["1", "2"])}),
    ):
        with pytest.raises(CorruptSummary):
            VectorMatrix.from_bytes(seal(KIND, parameters, encode(segment)))
    assert VectorMatrix.from_bytes(seal(KIND, parameters, encode(whole))).rows("k") == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("columns", {"k": "string"}), ("columns", {}), ("columns", {"k": "float64"}),
        ("columns", {"k": ["int64"]}), ("columns", []), ("keys", []), ("keys", [["j"]]),
        ("keys", "k"), ("keys", [["k"], ["k"]]), ("keys", [["x"]]), ("capacity", 0),
        ("capacity", "3"), ("capacity", 2**64), ("more", 1),
    ],
)  # fmt: skip
def test_parameters_that_no_summary_writes(name, value):
    summary = VectorMatrix(["k"], ["x"])
    summary.update(pa.table({"k": [1, 2, 3], "x": [1, 2, 3]}))
    parameters, body = unseal(summary.to_bytes(), KIND)
    with pytest.raises(CorruptSummary):
        VectorMatrix.from_bytes(seal(KIND, parameters | {name: value}, bytes(body)))


def test_nothing_aliases_the_callers_bytes():
    data = bytearray(example().to_bytes())
    summary = VectorMatrix.from_bytes(data)
    before = summary.to_bytes()
    data[:] = bytes(len(data))
    assert summary.to_bytes() == before
    assert summary.copy().to_bytes() == before


def unhash(h: int) -> int:
    """The int64 whose XXH64 is `h`: over eight bytes it is a permutation."""
    one, two, three = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    four, five, word = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5, 1 << 64
    h ^= h >> 32
    h = h * pow(three, -1, word) % word
    h ^= h >> 29 ^ h >> 58
    h = h * pow(two, -1, word) % word
    h ^= h >> 33
    h = (h - four) * pow(one, -1, word) % word
    h = (h >> 27 | h << 37) % word ^ (five + 8)
    h = h * pow(one, -1, word) % word
    h = (h >> 31 | h << 33) % word
    value = h * pow(two, -1, word) % word
    return value - word if value >> 63 else value


def colliding(pairs: int) -> list[tuple[int | None, int]]:
    """Combinations of two integers (the first also null) that have one hash."""
    fold, word = int(FOLD), 1 << 64

    def hash_of(value: int) -> int:
        return xxhash.xxh64_intdigest(value.to_bytes(8, "little", signed=True))

    wanted = (hash_of(5) * fold + hash_of(7)) % word
    lefts = [None, 5, *range(100, 98 + pairs)]
    hashes = [int(NULL_HASH) if left is None else hash_of(left) for left in lefts]
    return [
        (left, unhash((wanted - h * fold) % word)) for left, h in zip(lefts, hashes, strict=True)
    ]


@pytest.mark.parametrize("events", [1, 500])
def test_equal_hashes_are_ordered_by_value(events):
    """XXH64 can be made to collide: rows of one hash stand by value, null first."""
    pairs = colliding(4)
    assert pairs[1] == (5, 7)
    k, j = ([pair[at] for pair in pairs for _ in range(events)][::-1] for at in (0, 1))
    a = VectorMatrix([("k", "j"), "j"])
    a.update(pa.table({"k": k, "j": j}))
    found = [tuple(row.values()) for row in a.table(1).to_pylist()]
    assert found == [(*pair, events) for pair in pairs]
    again = VectorMatrix.from_bytes(a.to_bytes())
    assert again.to_bytes() == a.to_bytes()
    again.merge(a)
    assert [row["count"] for row in again.table(1).to_pylist()] == [2 * events] * 4


def test_null_beside_the_integer_of_its_hash():
    value = unhash(int(NULL_HASH))
    a = VectorMatrix(["k"])
    a.update(pa.table({"k": [value, None, value]}))
    assert [tuple(row.values()) for row in a.table(1).to_pylist()] == [(None, 1), (value, 2)]
    assert VectorMatrix.from_bytes(a.to_bytes()).to_bytes() == a.to_bytes()
