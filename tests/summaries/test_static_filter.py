"""The compact runs: exactly the set of fingerprints, whatever its shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import CorruptSummary
from muntin.summaries.envelope import Body
from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.bits import (
    leading_zeros,
    multiply_high,
    popcount,
    select,
    select_by_halves,
    trailing_zeros,
)
from muntin.summaries.static_filter import FingerprintRun, sorted_hashes, to_fingerprints

words = st.integers(0, 2**64 - 1)


@kernel()
def bits_of(a, b, out):
    out[0] = popcount(a)
    out[1] = trailing_zeros(a)
    out[2] = leading_zeros(a)
    out[3] = multiply_high(a, b)
    for i in range(popcount(a)):
        out[4 + i] = select(a, np.uint64(i))
        out[68 + i] = select_by_halves(a, np.uint64(i))


@given(words, words)
def test_bit_instructions(a, b):
    out = np.zeros(132, np.uint64)
    bits_of(np.uint64(a), np.uint64(b), out)
    ones = [i for i in range(64) if a >> i & 1]
    zeros = ones[0] if ones else 64, 64 - a.bit_length()
    assert out[: 4 + len(ones)].tolist() == [len(ones), *zeros, a * b >> 64, *ones]
    assert out[68 : 68 + len(ones)].tolist() == ones


@given(
    st.sets(words, min_size=1, max_size=300),
    st.integers(0, 56).flatmap(lambda bits: st.integers(1, 1 << bits)),
    st.lists(words, max_size=50),
)
def test_a_run_is_its_set(members, universe, others):
    hashes = np.array(sorted(members), np.uint64)
    fingerprints = to_fingerprints(hashes, universe)
    expected = sorted({h * universe >> 64 for h in members})
    assert fingerprints.tolist() == expected
    run = FingerprintRun.of(fingerprints, universe)
    assert run.fingerprints().tolist() == expected
    asked = np.array([*others, *members], np.uint64)
    found = np.zeros(len(asked), np.bool_)
    run.find(asked, found)
    assert found.tolist() == [(h * universe >> 64) in set(expected) for h in asked.tolist()]
    body = b"".join(run.parts())
    for copy in (True, False):
        rest = Body("dynamic_bloom", memoryview(body + b"rest"))
        again = FingerprintRun.read(rest, universe, run.count, copy=copy)
        assert rest.left == len(b"rest")
        assert again.parts() == run.parts()
    more = to_fingerprints(np.sort(np.array(others, np.uint64)), universe)
    assert run.union(more).fingerprints().tolist() == sorted({*expected, *more.tolist()})


@pytest.mark.parametrize("shift", [0, 6, 40])
def test_sorting_hashes(shift):
    rng = np.random.default_rng(shift)
    even = rng.integers(0, 2**64 - 1, 5000, dtype=np.uint64) >> np.uint64(shift)
    few = even[rng.integers(0, 3, 5000)]
    crowded = np.concatenate([even, even[:1] + np.arange(200, dtype=np.uint64)])
    high = even | np.uint64(1 << 63)
    for hashes in (even, high, few, crowded, np.zeros(2000, np.uint64), even[:3], even[:0]):
        assert sorted_hashes(hashes).tolist() == sorted({*hashes.tolist()})


@given(st.sets(st.integers(0, 599), min_size=1), st.integers(600, 9000))
def test_a_run_finds_nothing_else(members, universe):
    run = FingerprintRun.of(np.array(sorted(members), np.uint64), universe)
    hashes = [-(-(value << 64) // universe) for value in range(universe)]
    found = np.zeros(universe, np.bool_)
    run.find(np.array(hashes, np.uint64), found)
    assert set(np.flatnonzero(found).tolist()) == members


def test_buckets_of_all_lengths():
    universe = 1 << 20
    crowded = np.concatenate([np.arange(5000), np.arange(900_000, 900_003), [universe - 1]])
    run = FingerprintRun.of(crowded.astype(np.uint64), universe)
    hashes = (np.arange(universe, dtype=np.uint64) << np.uint64(44)) + np.uint64(1)
    found = np.zeros(universe, np.bool_)
    run.find(hashes, found)
    assert np.flatnonzero(found).tolist() == crowded.tolist()


@given(st.integers(0, 2**32), st.integers(0, 4000))
def test_a_changed_bit_is_seen(seed, bit):
    rng = np.random.default_rng(seed)
    fingerprints = np.unique(rng.integers(0, 1 << 20, 200, dtype=np.uint64))
    run = FingerprintRun.of(fingerprints, 1 << 20)
    body = bytearray(b"".join(run.parts()))
    body[bit // 8 % len(body)] ^= 1 << bit % 8
    try:
        read = Body("dynamic_bloom", memoryview(bytes(body)))
        other = FingerprintRun.read(read, 1 << 20, run.count, copy=True)
    except CorruptSummary:
        return
    assert b"".join(other.parts()) == bytes(body)  # another set, as sound as ours
    assert FingerprintRun.of(other.fingerprints(), 1 << 20).parts() == other.parts()


def test_wrong_lengths():
    run = FingerprintRun.of(np.arange(10, dtype=np.uint64), 100)
    body = b"".join(run.parts())
    for count in (0, 9, 11, 1 << 40):
        with pytest.raises(CorruptSummary):
            FingerprintRun.read(Body("dynamic_bloom", memoryview(body)), 100, count, copy=True)
