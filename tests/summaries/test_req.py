"""REQ: the row of a segment as people use it alone, and Apache DataSketches' bytes."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.segments.codec import decode, encode
from muntin.segments.columns import frozen
from muntin.summaries import KLL, REQ
from muntin.summaries.datasketches_req import COUNT_MAX
from muntin.summaries.envelope import seal, unseal

datasketches: Any = pytest.importorskip("datasketches")
FLOATS = st.lists(st.floats(-1e6, 1e6, width=32), max_size=60)


def filled(n: int, k: int = 12, dtype: str = "float64") -> REQ:
    sketch = REQ(k, 1, dtype)
    sketch.update(np.random.default_rng(n).permutation(n))
    return sketch


def test_small_updates_and_merges_keep_to_the_bound() -> None:
    n = 30_000
    values = np.random.default_rng(2).permutation(n).astype(np.float64)
    parts = []
    for part in np.split(values, 10):
        parts.append(REQ(24))
        for few in np.array_split(part, 7):
            parts[-1].update(few)
    one_by_one = parts[0].copy()
    for part in parts[1:]:
        one_by_one.merge(part)
    for sketch in (one_by_one, REQ.merged(parts)):
        assert (sketch.count, sketch.min, sketch.max, sketch.exact) == (n, 0.0, n - 1.0, False)
        assert len(sketch) < n / 10
        found = sketch.quantile([0.9, 0.99, 0.9999])
        assert (found.lower <= found.value).all()
        assert (found.value <= found.upper).all()
        tail = n - found.value
        assert (abs(tail - [3_000, 300, 3]) <= np.array([3_000, 300, 3]) * 0.8 / 24 + 1).all()
        assert found.confidence == 0.99
        assert sketch.quantile(0.9999).confidence == 1.0
        rank = sketch.rank([n - 301.0, n + 5.0])
        assert rank.lower[0] <= 0.99 <= rank.upper[0]
        assert rank.value[1] == rank.lower[1] == 1.0
    assert parts[0].count == n // 10


@given(FLOATS, FLOATS)
def test_few_values_are_exact_and_bytes_go_round(one: list[float], other: list[float]) -> None:
    sketch, more = REQ(), REQ()
    sketch.update(one)
    more.update(other)
    sketch.merge(more)
    kll = KLL()
    kll.update(one + other)
    again = REQ.from_bytes(sketch.to_bytes())
    assert again.to_bytes() == sketch.to_bytes()
    for asked in (sketch, again):
        assert asked.exact
        assert (
            asked.quantile([0, 0.3, 1]).value.tolist() == kll.quantile([0, 0.3, 1]).value.tolist()
        )
        assert asked.rank([0.0]).value.tolist() == kll.rank([0.0]).value.tolist()
        assert (asked.min, asked.max) == (kll.min, kll.max)


@pytest.mark.parametrize("n", [0, 1, 4, 5, 100, 150, 1_000, 60_000])
def test_datasketches_reads_what_we_write_and_we_what_it_writes(n: int) -> None:
    fractions = [0.0, 0.5, 0.9, 0.999, 1.0]
    ours = filled(n, dtype="float32")
    theirs = datasketches.req_floats_sketch.deserialize(ours.to_datasketches())
    assert theirs.n == n
    assert theirs.k == 12
    written = datasketches.req_floats_sketch(12, True)
    for value in np.random.default_rng(n).permutation(n).astype(np.float32):
        written.update(float(value))
    read = REQ.from_datasketches(written.serialize())
    assert read.count == n
    if not n:
        assert read.quantile(0.5).value.size == 0
        return
    # at 0 DataSketches gives the least that it holds, and not the minimum
    assert theirs.get_quantiles(fractions, True)[1:] == ours.quantile(fractions).value[1:].tolist()
    assert (read.min, read.max) == (ours.min, ours.max) == (0.0, n - 1.0)
    found = read.quantile(fractions)
    true = np.maximum(np.ceil(np.array(fractions) * n), 1) - 1
    assert (abs(found.value - true) <= 0.8 / 12 * (n - true)).all()
    again = REQ.from_datasketches(read.to_datasketches())
    assert again.to_datasketches() == read.to_datasketches()
    both = datasketches.req_floats_sketch.deserialize(read.to_datasketches())
    both.merge(written)
    assert both.n == 2 * n


def test_what_no_sketch_is_is_refused() -> None:
    good = filled(3_000, dtype="float32").to_datasketches()
    low = datasketches.req_floats_sketch(12, False)
    low.update(1.0)
    with pytest.raises(IncompatibleSummary, match="low rank"):
        REQ.from_datasketches(low.serialize())
    nan = struct.pack("<f", float("nan"))
    broken: list[Any] = [b"", b"x" * 7, good[:-1], good + b"\0", good[:-4] + nan, "text", None]
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(good)
        damaged[rng.integers(0, 60)] ^= 1 << rng.integers(0, 8)
        broken.append(bytes(damaged))
    refused = 0
    for data in broken:
        try:
            read = REQ.from_datasketches(data)
        except (CorruptSummary, IncompatibleSummary):
            refused += 1
        else:  # what is told of a level may change without a contradiction
            REQ.from_bytes(read.to_bytes())
    assert refused > 7
    for data in broken[:7]:
        with pytest.raises(CorruptSummary):
            REQ.from_datasketches(data)


def test_what_is_not_taken() -> None:
    sketch = REQ()
    for values in ([1.0, float("nan")], ["a"]):
        with pytest.raises(BadArgument):
            sketch.update(values)
    assert sketch.count == 0
    with pytest.raises(BadArgument, match="float32"):
        sketch.to_datasketches()
    with pytest.raises(IncompatibleSummary, match="k 12 and 24"):
        sketch.merge(REQ(24))
    with pytest.raises(BadArgument, match="at least one"):
        REQ.merged([])
    data = filled(1_000).to_bytes()
    for at in range(0, len(data), 7):
        with pytest.raises(CorruptSummary):
            REQ.from_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


@pytest.mark.parametrize("events", [1_001, COUNT_MAX + 1])
def test_a_count_that_is_not_that_of_its_items_is_refused(events: int) -> None:
    """Ranks would be shares of it."""
    parameters, body = unseal(filled(1_000).to_bytes(), "req")
    segment = decode(body)
    wrong = replace(segment, events=frozen(np.array([events])))
    with pytest.raises(CorruptSummary):
        REQ.from_bytes(seal("req", parameters, encode(wrong)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("given", [np.float64, np.float32, np.int64])
def test_large_batches_keep_to_the_bound_whatever_they_are_made_of(dtype: str, given: Any) -> None:
    if dtype == "int64" and given is not np.int64:
        pytest.skip("floats are refused")
    n = 300_000
    values = np.random.default_rng(4).permutation(n).astype(given) - 1_000
    if given is not np.int64:
        values[values == 0] = -0.0
    sketch = REQ(12, 1, dtype)
    sketch.update([5_000_000])
    for part in np.split(values, [100_000, 200_000]):
        sketch.update(part)
    assert (sketch.count, sketch.min, sketch.max) == (n + 1, -1_000, 5_000_000)
    tails = np.array([30, 300, 3_000, 30_000, 150_000])
    found = sketch.quantile(1 - tails / n)
    assert (abs(n - 1_000 - found.value - tails) <= 0.8 / 12 * tails + 1).all()
    assert REQ.from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()


@pytest.mark.parametrize(
    ("bad", "dtype", "why"),
    [
        (float("nan"), "float64", "position 90000 is NaN"),
        (float("nan"), "float32", "position 90000 is NaN"),
        (1e39, "float32", "1e[+]39 at position 90000 is beyond float32"),
    ],
)
def test_a_value_in_a_large_batch_that_is_not_taken(bad: float, dtype: str, why: str) -> None:
    values = np.arange(100_000.0)
    values[[90_000, 95_000]] = bad, float("inf")
    sketch = REQ(dtype=dtype)
    with pytest.raises(BadArgument, match=why):
        sketch.update(values)
    assert sketch.count == 0
    values[90_000] = 1.0
    sketch.update(values)
    assert sketch.max == float("inf")


@pytest.mark.parametrize("k", [4, 6, 8])
def test_small_sketches_keep_to_their_bound_after_many_merges(k: int) -> None:
    n, misses = 30_000, []
    above = np.unique(np.geomspace(3 * k + 1, 3_000, 12).astype(int))
    for seed in range(12):
        whole = REQ(k)
        for part in np.array_split(np.random.default_rng(seed).permutation(n), 150):
            one = REQ(k)
            one.update(part)
            whole.merge(one)
        rank, truth = whole.rank(n - 1 - above), (n - above) / n
        misses.append((truth < rank.lower) | (rank.upper < truth))
    assert np.mean(misses) <= 0.01


@pytest.mark.parametrize("k", [4, 12])
def test_what_is_certain_of_the_top_is_exact(k: int) -> None:
    rng = np.random.default_rng(k)
    values, whole = np.empty(0), REQ(k)
    for _ in range(200):
        part = rng.random(rng.integers(1, 40 * k))
        values = np.sort(np.append(values, part))
        one = REQ(k)
        one.update(part)
        whole.merge(one)
        above = np.arange(1, min(6 * k, len(values) - 1))
        rank, truth = whole.rank(values[-1 - above]), 1 - above / len(values)
        certain = rank.lower == rank.upper
        assert certain[: 3 * k - 1].all()
        np.testing.assert_allclose(rank.value[certain], truth[certain])


@pytest.mark.parametrize("size", [200, 1_000])
def test_a_sketch_that_is_merged_again_and_again_does_not_add_up_its_coins(size: int) -> None:
    """As of panes with the same values and seed: each time the same coins, in its levels."""
    below = (np.array([[0.25, 0.75, 0.9, 0.95, 0.99]]).T * size + [0, 1]).ravel()  # even and odd
    asked, missed = below / size, np.zeros(len(below))
    for seed in range(40):
        sketch = REQ(12, seed)
        sketch.update(np.random.default_rng(seed).permutation(size))
        whole = sketch.copy()
        for _ in range(300):
            whole.merge(sketch)
        found = whole.rank(below - 1)
        missed += (asked < found.lower - 1e-9) | (asked > found.upper + 1e-9)
    assert missed.max() <= 3
