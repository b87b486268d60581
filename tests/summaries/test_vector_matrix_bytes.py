"""Bytes of the vector matrix: open to any Arrow reader, the same for ever, hardened."""

import contextlib
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from damage import damaged, golden

from muntin.errors import CorruptSummary, SummaryOverflow
from muntin.summaries import VectorMatrix
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.kernels.hash_table import NULL_HASH
from muntin.summaries.vector_matrix import encoding
from muntin.summaries.vector_matrix import rows as rows_mod

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


def test_any_arrow_reader_opens_the_body():
    summary = example()
    _, body = unseal(summary.to_bytes(), KIND)
    table = pa.ipc.open_stream(bytes(body)).read_all()
    table.validate(full=True)
    assert table.num_rows == 1
    low = [f"{name}: low parts" for name in table.schema.names[: len(KEYS)]]
    assert table.schema.names[len(KEYS) :] == low
    for at, key in enumerate(summary.keys):
        rows = table.column(at)[0].as_py()
        assert rows == summary.table(key).to_pylist()
    assert table.schema.names[1] == "(driver, area)"


def test_golden_bytes():
    data = golden("vector_matrix-v1", lambda: example().to_bytes())
    again = VectorMatrix.from_bytes(data)
    assert again.to_bytes() == data == example().to_bytes()
    assert (again.count, again.capacity, again.keys) == (80, 100, example().keys)
    for key in again.keys:
        assert again.table(key).equals(example().table(key))
    small = golden("vector_matrix-empty-v1", lambda: VectorMatrix(["a", ("a", "b")]).to_bytes())
    assert VectorMatrix.from_bytes(small).to_bytes() == small


def test_a_summary_of_nothing():
    for keys, indicators in ((["a"], []), ([("a", "b")], ["x", "y"])):
        summary = VectorMatrix(keys, indicators)
        again = VectorMatrix.from_bytes(summary.to_bytes())
        assert again.table(1).num_rows == 0
        assert again.to_bytes() == summary.to_bytes()


def accepted(data: bytes) -> bool:
    try:
        summary = VectorMatrix.from_bytes(data)
    except CorruptSummary:
        return False
    assert summary.to_bytes() == data
    for key in summary.keys:
        summary.table(key).validate(full=True)
    with contextlib.suppress(SummaryOverflow):
        summary.merge(summary)
    return True


def test_damaged_bytes_are_refused():
    data = example().to_bytes()
    assert accepted(data)
    whole = sum(accepted(case) for case in damaged(data, 4000))
    # A changed sum is still a summary, and so is another count of nulls.
    assert whole < 1600
    integers = example(indicators=("time",)).to_bytes()
    assert sum(accepted(case) for case in damaged(integers, 2000, seed=2)) < 900


def test_memory_stays_near_the_size_of_the_bytes():
    data = example().to_bytes()
    VectorMatrix.from_bytes(data)
    parameters, body = unseal(data, KIND)
    for at in range(0, len(body) - 8, 8):
        hurt = bytearray(body)
        hurt[at : at + 8] = (1 << 33).to_bytes(8, "little")
        case = seal(KIND, parameters, bytes(hurt))
        if at % 640 == 0:
            tracemalloc.start()
        accepted(case)
        if at % 640 == 0:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 1 << 20


def sealed(summary: VectorMatrix, change) -> bytes:
    """Bytes whose rows are changed before they are written."""
    parameters, _ = unseal(summary.to_bytes(), KIND)
    state = summary._state
    rows = [rows_mod.key_rows(table, state.numbering) for table in state.tables.values()]
    change(rows)
    return seal(KIND, parameters, encoding.body_of(state, rows, set()))


def swap(rows):
    rows[0].cells[:, [0, 1]] = rows[0].cells[:, [1, 0]]
    rows[0].parts[0].numbers[[0, 1]] = rows[0].parts[0].numbers[[1, 0]]


def repeat(rows):
    rows[0].parts[0].numbers[1] = rows[0].parts[0].numbers[0]


def empty_row(rows):
    rows[0].cells[0, 0] = 0


def negative(rows):
    rows[0].cells[0, 0] -= 5
    rows[0].cells[0, 1] += 5


def infinite(rows):
    rows[0].cells[2, 0] = np.float64(np.inf).view(np.int64)


def minus_zero(rows):
    rows[0].cells[3, 0] = np.int64(-(2**63))


def unrounded(rows):
    rows[0].cells[3, 0] = np.float64(3).view(np.int64)


@pytest.mark.parametrize(
    "change", [swap, repeat, empty_row, negative, infinite, minus_zero, unrounded]
)
def test_rows_that_no_summary_writes(change):
    summary = VectorMatrix(["k"], {"x": "int64", "y": "float64"})
    summary.update(pa.table({"k": [1, 2, 3], "x": [1, 2, 3], "y": [1.0, 2.0, 3.0]}))
    assert accepted(sealed(summary, lambda rows: None))
    with pytest.raises(CorruptSummary):
        VectorMatrix.from_bytes(sealed(summary, change))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 2), ("count", -1), ("count", True), ("count", 2**63), ("covered", [4]),
        ("covered", []), ("covered", [3, 3]), ("covered", [3.0]), ("covered", 3),
        ("large", [[0, 0]]), ("large", [[0]]),
        ("large", [[1, 0]]), ("large", {}), ("columns", {"k": "string"}), ("columns", {}),
        ("columns", {"k": "float64"}), ("columns", []), ("keys", []), ("keys", [["j"]]),
        ("keys", "k"), ("keys", [["k"], ["k"]]), ("indicators", [["x", "int64", 3]]),
        ("indicators", [["x", "int64", 3, 4]]), ("indicators", [["x", "int64", 4, 0]]),
        ("indicators", [["x", "float64", 3, 0]]), ("indicators", [["x", None, 3, 0]]),
        ("indicators", [["x", "int64", 0, 0]]), ("indicators", [["k", "int64", 3, 0]]),
        ("indicators", [[["x"], "int64", 3, 0]]), ("indicators", [["x", ["y"], 3, 0]]),
        ("indicators", 5), ("capacity", 0), ("capacity", "3"), ("capacity", 2**64),
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


def test_large_strings_when_there_are_too_many_bytes(monkeypatch):
    summary = example()
    small = summary.to_bytes()
    for module in ("encoding", "decoding"):
        monkeypatch.setattr(f"muntin.summaries.vector_matrix.{module}.TEXT_BYTES_MAX", 20)
    data = summary.to_bytes()
    assert data != small
    again = VectorMatrix.from_bytes(data)
    assert again.to_bytes() == data
    _, body = unseal(data, KIND)
    schema = pa.ipc.open_stream(bytes(body)).schema
    assert schema.field(0).type.value_type.field("driver").type == pa.large_string()
    with pytest.raises(CorruptSummary):
        VectorMatrix.from_bytes(small)


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
    two, word = 0xC2B2AE3D27D4EB4F, 1 << 64

    def hash_of(value: int) -> int:
        return xxhash.xxh64_intdigest(value.to_bytes(8, "little", signed=True))

    wanted = (hash_of(5) * two + hash_of(7)) % word
    lefts = [None, 5, *range(100, 98 + pairs)]
    hashes = [int(NULL_HASH) if left is None else hash_of(left) for left in lefts]
    return [
        (left, unhash((wanted - h * two) % word)) for left, h in zip(lefts, hashes, strict=True)
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
    data = a.to_bytes()
    assert accepted(data)
    again = VectorMatrix.from_bytes(data)
    again.merge(a)
    assert [row["count"] for row in again.table(1).to_pylist()] == [2 * events] * 4

    def swapped(rows):
        for part in rows[0].parts:
            part.numbers[[1, 2]] = part.numbers[[2, 1]]

    def repeated(rows):
        for part in rows[0].parts:
            part.numbers[2] = part.numbers[1]

    for change in (swapped, repeated):
        with pytest.raises(CorruptSummary, match="order"):
            VectorMatrix.from_bytes(sealed(a, change))


def test_null_beside_the_integer_of_its_hash():
    value = unhash(int(NULL_HASH))
    a = VectorMatrix(["k"])
    a.update(pa.table({"k": [value, None, value]}))
    assert [tuple(row.values()) for row in a.table(1).to_pylist()] == [(None, 1), (value, 2)]
    assert accepted(a.to_bytes())


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1024, 1025])
def test_a_first_batch_of_any_size(size):
    """Small ones are grouped by sorting, others by indexes: with the same bytes."""
    keys = np.arange(size) * 7919 % 97
    texts = [None if key == 3 else f"{'ü' if key == 5 else 'k'}{key}" for key in keys.tolist()]
    batch = pa.table({"k": texts, "j": keys % 5, "x": np.arange(size), "y": np.arange(size) / 7})
    one, two = (VectorMatrix(["k", ("j", "k"), "j"], ["x", "y"]) for _ in range(2))
    one.update(batch)
    two.update(batch.slice(0, 0))  # decides types, and makes indexes
    two.update(batch)
    assert one.to_bytes() == two.to_bytes()
    assert one.rows() == two.rows()
    assert VectorMatrix.from_bytes(one.to_bytes()).rows() == two.rows()
    one.update(batch)
    two.update(batch)
    assert one.to_bytes() == two.to_bytes()
