"""HyperBloom against an exact count of gaps: never a false start, and few that are missed."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, readable
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries import HyperBloom
from muntin.summaries.envelope import unseal

GOLDEN = Path(__file__).parents[1] / "golden" / "hyper_bloom-v2.bin"


def exact_starts(items, times, gap):
    """A batch starts at an item's first time, and more than `gap` after its last."""
    last, starts = {}, []
    for item, time in zip(items, times, strict=True):
        starts.append(item not in last or time - last[item] > gap)
        last[item] = time
    return np.array(starts, bool)


@st.composite
def streams(draw):
    """Few items, so that gaps repeat; steps around the gap; anywhere in int64."""
    gap = draw(st.sampled_from([1, 2, 3, 5, 7, 8, 64, 1000, 3_600_000_000]))
    size = draw(st.integers(0, 120))
    items = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
    step = st.one_of(st.integers(0, gap), st.integers(0, 4 * gap), st.just(0))
    steps = draw(st.lists(step, min_size=size, max_size=size))
    origin = draw(st.sampled_from([0, -20 * gap, -(1 << 63), 1_700_000_000_000_000, 1 << 62]))
    times = origin + np.cumsum(np.array(steps, np.int64)) if size else np.empty(0, np.int64)
    return np.array(items, np.int64), times.astype(np.int64), gap


@given(streams(), st.booleans(), st.sampled_from([68, 300, 5000]))
def test_never_a_false_start(stream, stamped, memory):
    items, times, gap = stream
    found = HyperBloom(memory, gap, stamped=stamped).update(items, times)
    assert not (found & ~exact_starts(items.tolist(), times.tolist(), gap)).any()


@given(streams(), st.lists(st.integers(0, 120), max_size=4), st.booleans())
def test_any_cut_gives_the_same_bytes_and_answers(stream, cuts, stamped):
    items, times, gap = stream
    whole = HyperBloom(700, gap, seed=3, stamped=stamped)
    expected = whole.update(items, times)
    pieces = HyperBloom(700, gap, seed=3, stamped=stamped)
    edges = [0, *sorted(min(cut, len(items)) for cut in cuts), len(items)]
    found = []
    for begin, end in pairwise(edges):
        found.append(pieces.update(items[begin:end], times[begin:end]))
        pieces = HyperBloom.from_bytes(pieces.to_bytes())
    assert np.array_equal(np.concatenate(found), expected)
    assert pieces.to_bytes() == whole.to_bytes()


def zipf_stream(n=60_000, keys=5_000, seed=1):
    rng = np.random.default_rng(seed)
    weights = np.cumsum(1 / np.arange(1, keys + 1))
    return np.searchsorted(weights / weights[-1], rng.random(n)), np.arange(n, dtype=np.int64)


def test_recall_does_not_fall_with_memory():
    items, times = zipf_stream()
    exact = exact_starts(items.tolist(), times.tolist(), 200)
    recall = {}
    for memory in (2_000, 20_000, 2_000_000):
        found = HyperBloom(memory, 200).update(items, times)
        assert not (found & ~exact).any()
        recall[memory] = found.sum() / exact.sum()
    paper = HyperBloom(2_000_000, 200, stamped=False).update(items, times).sum() / exact.sum()
    assert recall[20_000] > 0.985
    assert recall[2_000_000] >= recall[20_000] > paper


@pytest.mark.parametrize(("ratio", "expected"), [(1.03, 0.24), (1.09, 0.72), (1.13, 1.0), (9, 1.0)])
def test_a_gap_a_little_over_is_seen_by_chance_and_from_nine_eighths_for_sure(ratio, expected):
    gap, n = 8_000, 4_000
    first = np.sort(np.random.default_rng(5).integers(0, 50 * gap, n))
    times = np.concatenate([first, first + round(gap * ratio)])
    order = np.argsort(times, kind="stable")
    items = np.concatenate([np.arange(n)] * 2)
    found = HyperBloom(10_000_000, gap).update(items[order], times[order])
    assert found[order >= n].mean() == pytest.approx(expected, abs=0.03)


def test_two_to_the_31_slices_and_more():
    bloom = HyperBloom(1_000, 1)
    times = [0, 1, 1 << 31, (1 << 31) + 1, 1 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1]
    assert bloom.update(["a"] * 8, times).tolist() == [True, False] * 2 + [True, True, False, True]


@pytest.mark.parametrize("slices", [1 << 28, 1 << 29, 3 << 29, 1 << 31, 1 << 32, 1 << 61])
@pytest.mark.parametrize("gap", [1, 2, 7, 10])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_jump_of_the_stamps_whole_range_is_seen(slices, gap, steps):
    """Stamps tell 2^29 slices apart: what is older must not look young again."""
    start = -(1 << 63)
    jump = min(slices * gap, (1 << 63) - 1)
    for shift in (-gap, 0, 1, gap):
        bloom = HyperBloom(136, gap)
        assert bloom.update(["a", "b"], [start, start + gap]).tolist() == [True, True]
        times = start + jump * np.arange(1, steps + 1, dtype=object) // steps
        times = [max(int(at) + shift, start + gap) for at in times]
        found = bloom.update(["a"] * steps, times)
        assert found.all()
        assert bloom.update(["b"], [times[-1]])[0]


@pytest.mark.parametrize("gap", [1, 2, 3, 4])
def test_no_seam_at_time_zero(gap):
    times = np.arange(-50, 50)
    found = HyperBloom(1_000, gap).update(["x"] * 100, times)
    assert found.tolist() == [True] + [False] * 99


def test_items_and_times_of_all_kinds_agree():
    words = [f"item {i % 7}" for i in range(40)]
    micros = np.arange(40, dtype=np.int64) * 1_000_000
    expected = HyperBloom(2_000, 3_000_000).update(words, micros)
    for items in (pa.array(words), pa.array(words, pa.large_string()), pa.chunked_array([words])):
        for times in (
            micros.astype("datetime64[us]"),
            (micros // 1_000_000).astype("datetime64[s]"),
            pa.array(micros, pa.timestamp("us", "UTC")),
            pa.array(micros * 1000, pa.timestamp("ns")),
            pa.chunked_array([pa.array(micros)]),
        ):
            assert np.array_equal(HyperBloom(2_000, 3_000_000).update(items, times), expected)


def test_bad_input_is_refused_and_changes_nothing():
    bloom = HyperBloom(2_000, 10)
    bloom.update(["a", "b"], [5, 7])
    before = bloom.to_bytes()
    with pytest.raises(BadArgument, match="position 2: 8 after 9"):
        bloom.update(["a", "b", "c"], [7, 9, 8])
    with pytest.raises(BadArgument, match="position 0: 6 after 7"):
        bloom.update(["a"], [6])
    for items, times in (
        (["a", None], [8, 9]),
        (["a"], [8, 9]),
        (["a"], [8.5]),
        (["a"], [None]),
        (["a"], np.array(["NaT"], "datetime64[us]")),
        (["a"], np.array([2**63], np.uint64)),
        ([1.5], [8]),
        (["a"], np.array([[8]])),
        (["a"], np.array([1 << 60], "datetime64[s]")),
    ):
        with pytest.raises(BadArgument):
            bloom.update(items, times)
    assert bloom.to_bytes() == before
    assert bloom.update([], []).tolist() == []
    assert bloom.to_bytes() == before
    for wrong in (
        {"memory": 67},
        {"memory": 63, "stamped": False},
        {"stamped": 0},
        {"memory": -1},
        {"gap": 0},
        {"gap": -5},
        {"gap": 1.5},
        {"seed": -1},
        {"memory": True},
    ):
        with pytest.raises(BadArgument):
            HyperBloom(**{"memory": 1_000, "gap": 10, **wrong})
    with pytest.raises(IncompatibleSummary, match="time order"):
        bloom.merge(bloom.copy())


@pytest.mark.parametrize(("stamped", "nbytes"), [(True, 14 * 68), (False, 15 * 64)])
def test_nbytes_stays_within_memory(stamped, nbytes):
    bloom = HyperBloom(1_000, 10, stamped=stamped)
    assert bloom.copy().nbytes == bloom.nbytes == nbytes


@pytest.mark.parametrize("stamped", [True, False])
def test_damaged_bytes_are_refused_and_never_crash(stamped):
    bloom = HyperBloom(300, 10, stamped=stamped)
    bloom.update(np.arange(50), np.arange(50))
    for bad, made in readable(HyperBloom, damaged(bloom.to_bytes(), 3_000)):
        assert made.to_bytes() == bad
        last = unseal(bad, "hyper_bloom")[0]["last"] or 0
        made.update(np.arange(5), np.full(5, last))


def test_golden_bytes():
    data = GOLDEN.read_bytes()
    bloom = HyperBloom.from_bytes(data)
    assert bloom.to_bytes() == data
    fresh = HyperBloom(500, 10, seed=9)
    fresh.update([f"item {i % 17}" for i in range(200)], np.arange(200))
    assert fresh.to_bytes() == data
