"""KLL bytes: damage, forgery, and Apache DataSketches in Python and in Spark."""

from __future__ import annotations

import random
import struct
import time

import numpy as np
import pytest
from quantile_checks import damaged, fed, forged, rank_errors

from muntin.errors import CorruptSummary, MuntinError
from muntin.summaries.quantiles import KLL

# Exact in doubles: theirs rounds 0.07 * 100 up to rank 8, ours to 7.
DYADIC = np.arange(1, 128) / 128
DTYPES = ("float64", "float32", "int64")


def sketches() -> list[KLL]:
    rng = np.random.default_rng(0)
    return [
        fed((rng.normal(size=n) * 1000).astype(dtype), k=k, seed=3, dtype=dtype)
        for dtype in DTYPES
        for n, k in ((0, 200), (1, 200), (2, 8), (30, 8), (1000, 8), (20_000, 16))
    ]


def use(sketch: KLL) -> None:
    """What a caller may do with whatever was accepted."""
    sketch.quantile([0.0, 0.5, 1.0])
    sketch.rank([0, 1])
    sketch.update([1, 2, 3])
    sketch.merge(sketch.copy())
    assert sketch._stack.weight == sketch.count
    sketch.to_bytes()


def test_damaged_envelopes_are_refused():
    rng, blobs = random.Random(1), [sketch.to_bytes() for sketch in sketches()]
    for _ in range(6_000):
        data = rng.choice(blobs)
        broken = damaged(data, rng)
        if broken != data:
            with pytest.raises(CorruptSummary):
                KLL.from_bytes(broken)


def test_resealed_envelopes_are_refused_or_whole():
    rng, blobs = random.Random(2), [sketch.to_bytes() for sketch in sketches()]
    accepted, slowest = 0, 0.0
    for _ in range(6_000):
        data = forged(rng.choice(blobs), rng)
        start = time.thread_time()  # other work on the machine does not count
        try:
            sketch = KLL.from_bytes(data)
        except CorruptSummary:
            slowest = max(slowest, time.thread_time() - start)
            continue
        accepted += 1
        assert sketch.to_bytes() == data
        try:
            use(sketch)
        except MuntinError:
            assert sketch.count > 2**58
    assert accepted < 3_000
    assert slowest < 5  # not a measurement: no lying number may hang a reader


@pytest.mark.parametrize("dtype", DTYPES)
def test_foreign_bytes_are_refused_or_whole(dtype):
    read_damaged(dtype, 4_000, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_foreign_bytes_of_a_hundred_thousand_crash(dtype):
    """The reader of the `datasketches` package crashes the process on one of eight of these."""
    read_damaged(dtype, 33_334, seed=4)


def read_damaged(dtype, blobs_read, seed):
    rng = random.Random(seed)
    blobs = [sketch.to_datasketches() for sketch in sketches() if sketch.dtype == dtype]
    for _ in range(blobs_read):
        broken = damaged(rng.choice(blobs), rng)
        try:
            sketch = KLL.from_datasketches(broken, dtype)
        except CorruptSummary:
            continue
        try:
            use(sketch)
        except MuntinError:
            assert sketch.count > 2**58


@pytest.mark.parametrize(
    ("offset", "value", "match"),
    [
        (0, b"\x04", "no compact form"),
        (1, b"\x03", "no compact form"),
        (2, b"\x07", "family 7"),
        (3, b"\x01", "no compact form"),
        (3, b"\x80", "no compact form"),
        (4, b"\x07\x00", "k=7"),
        (6, b"\x02", "m=2"),
        (7, b"\x01", "cannot be read"),
        (8, struct.pack("<Q", 1), "count of 1"),
        (8, struct.pack("<Q", 2**63), "count"),
        (8, struct.pack("<Q", 1001), "add up"),
        (16, b"\x05\x00", "least k"),
        (18, b"\x00", "0 levels"),
        (18, b"\xff", "255 levels"),
        (20, b"\xff\xff\xff\xff", "overlap"),
        (-8, struct.pack("<d", np.nan), "NaN"),
        (-8, struct.pack("<d", -1e9), "not sorted"),
        (-8, struct.pack("<d", 1e9), "beyond"),
    ],
)
def test_named_damage(offset, value, match):
    data = bytearray(fed(np.arange(1000.0), k=16).to_datasketches())
    start = offset % len(data)
    data[start : start + len(value)] = value
    with pytest.raises(CorruptSummary, match=match):
        KLL.from_datasketches(bytes(data))


def test_not_bytes():
    for wrong in (None, "text", 5, [1]):
        with pytest.raises(CorruptSummary):
            KLL.from_datasketches(wrong)
        with pytest.raises(CorruptSummary):
            KLL.from_bytes(wrong)


def test_memory_of_a_lying_header_is_not_taken():
    import tracemalloc

    data = bytearray(fed(np.arange(1000.0), k=16).to_datasketches())
    data[4:6] = b"\xff\xff"  # k = 65,535: a full array of 1.5 MB
    data[18] = 61
    tracemalloc.start()
    with pytest.raises(CorruptSummary):
        KLL.from_datasketches(bytes(data))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


class TestDataSketches:
    """The C++ library, both ways; it has no longs."""

    @pytest.mark.parametrize("n", [0, 1, 2, 199, 200, 201, 5_000, 300_000])
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_theirs_reads_ours(self, n, dtype):
        datasketches = pytest.importorskip("datasketches")
        kind = {
            "float64": datasketches.kll_doubles_sketch, "float32": datasketches.kll_floats_sketch
        }[dtype]  # fmt: skip
        values = np.random.default_rng(n).normal(size=n).astype(dtype)
        ours = fed(values, 10_000, dtype=dtype)
        theirs = kind.deserialize(ours.to_datasketches())
        assert theirs.n == n
        assert theirs.is_empty() == (n == 0)
        if n:
            assert theirs.get_min_value() == ours.min
            assert theirs.get_max_value() == ours.max
            assert theirs.num_retained == len(ours)
            found = theirs.get_quantiles(DYADIC, True)
            np.testing.assert_array_equal(found, ours.quantile(DYADIC).value)
            theirs.update(values)
            assert theirs.n == 2 * n
            assert KLL.from_datasketches(theirs.serialize(), dtype).count == 2 * n

    @pytest.mark.parametrize("n", [0, 1, 2, 199, 200, 201, 5_000, 300_000])
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_ours_reads_theirs(self, n, dtype):
        datasketches = pytest.importorskip("datasketches")
        theirs = {
            "float64": datasketches.kll_doubles_sketch, "float32": datasketches.kll_floats_sketch
        }[dtype](100)  # fmt: skip
        values = np.random.default_rng(n).normal(size=n).astype(dtype)
        theirs.update(values)
        data = theirs.serialize()
        ours = KLL.from_datasketches(data, dtype, seed=5)
        assert (ours.k, ours.count, len(ours)) == (100, n, theirs.num_retained)
        if n:
            np.testing.assert_array_equal(
                ours.quantile(DYADIC).value, np.array(theirs.get_quantiles(DYADIC, True), dtype)
            )
            ours.update(values[: n // 2])
            ours.merge(KLL.from_datasketches(data, dtype))
            assert ours.count == n + n // 2 + n
            both = np.concatenate((values, values[: n // 2], values))
            assert rank_errors(ours, both).max() <= 2 * ours.rank_error() + 1e-9

    def test_least_k_is_kept(self):
        datasketches = pytest.importorskip("datasketches")
        small, large = datasketches.kll_doubles_sketch(50), datasketches.kll_doubles_sketch(200)
        small.update(np.arange(10_000.0))
        large.update(np.arange(10_000.0))
        large.merge(small)
        ours = KLL.from_datasketches(large.serialize())
        assert ours.rank_error() == pytest.approx(2.296 / 50**0.9723)
        assert KLL.from_bytes(ours.to_bytes()).rank_error() == ours.rank_error()
        assert large.normalized_rank_error(False) == pytest.approx(ours.rank_error(), rel=1e-3)


@pytest.mark.spark
def test_spark_reads_and_writes_the_same_bytes(spark):
    families = (
        ("float64", "double", "double"), ("float32", "float", "float"),
        ("int64", "bigint", "bigint"),
    )  # fmt: skip
    n = 50_000
    values = np.arange(n) * 7 % n
    columns = ", ".join(
        f"kll_sketch_agg_{name}(CAST(id * 7 % {n} AS {sql}), 200) AS {name}"
        for _, name, sql in families
    )
    theirs = spark.sql(f"SELECT {columns} FROM range({n})").first()  # noqa: S608
    assert theirs is not None
    for dtype, name, _ in families:
        read = KLL.from_datasketches(bytes(theirs[name]), dtype)
        assert (read.count, read.min, read.max) == (n, 0, n - 1)
        assert rank_errors(read, values).max() <= read.rank_error()
        ours = fed(values.astype(dtype), 9_000, dtype=dtype)
        frame = spark.createDataFrame(
            [(bytearray(ours.to_datasketches()), bytearray(theirs[name]))], "ours binary, s binary"
        )
        row = frame.selectExpr(
            f"kll_sketch_get_n_{name}(ours) AS n",
            f"kll_sketch_get_quantile_{name}(ours, array(0.1D, 0.5D, 0.99D)) AS quantiles",
            f"kll_sketch_get_n_{name}(kll_sketch_merge_{name}(ours, s)) AS merged",
            f"kll_sketch_get_quantile_{name}(s, array(0.1D, 0.5D, 0.99D)) AS own",
        ).first()
        assert row is not None
        assert (row.n, row.merged) == (n, 2 * n)
        fractions = [0.1, 0.5, 0.99]
        assert row.quantiles == ours.quantile(fractions).value.tolist()
        assert row.own == read.quantile(fractions).value.tolist()
