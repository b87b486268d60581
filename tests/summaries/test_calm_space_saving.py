"""Calm Space-Saving against exact counts, and its bytes against damage."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from damage import readable, resealed, spoilt
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries import CalmSpaceSaving
from muntin.summaries.calm_space_saving import CalmParameters
from muntin.summaries.envelope import unseal
from muntin.summaries.kernels.calm_space_saving import NOWHERE, WAYS
from muntin.summaries.named_pairs import MEMORY_BYTES_MAX

BROKEN = pa.array([b"\xff"]).view(pa.string())
GOLDEN = Path(__file__).parents[1] / "golden" / "calm_space_saving-v1.bin"


def zipf(n, keys, seed=1):
    weights = np.cumsum(1 / np.arange(1, keys + 1))
    return np.searchsorted(weights / weights[-1], np.random.default_rng(seed).random(n))


pairs = st.lists(st.tuples(st.integers(-3, 40), st.integers(-2, 2)), max_size=300)


@given(pairs, st.booleans())
def test_with_room_for_all_it_is_exact(stream, paired):
    items = np.array([item for item, _ in stream], np.int64)
    spans = np.array([span for _, span in stream], np.int64)
    calm = CalmSpaceSaving(40_000, 250)
    calm.update(items, spans if paired else None)
    keys = stream if paired else items.tolist()
    names = ["item", "interval", "value"] if paired else ["item", "value"]
    rows = [tuple(row[name] for name in names) for row in calm.top().to_pylist()]
    counts = Counter(keys)
    expected = [(*key, n) if paired else (key, n) for key, n in counts.items()]
    assert rows == sorted(expected, key=lambda row: (-row[-1], *row[:-1]))
    assert calm.top()["lower"].equals(calm.top()["upper"])
    assert calm.count == len(stream)


@given(
    st.lists(st.integers(0, 60), max_size=400),
    st.sampled_from([1, 2, 3, 7]),
    st.sampled_from([8, 16]),
)
def test_bounds_hold_when_memory_is_short(items, promote, ways):
    calm = CalmSpaceSaving(1_000, 8, promote=promote, queue_ways=ways)
    calm.update(np.array(items, np.int64))
    true = Counter(items)
    for row in calm.top().to_pylist():
        assert row["lower"] <= true[row["item"]] <= row["upper"]
        assert row["lower"] <= row["value"] <= row["upper"]
    assert calm.nbytes <= 1_000


@given(
    st.lists(st.integers(0, 60), max_size=300),
    st.lists(st.integers(0, 300), max_size=4),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_any_cut_gives_the_same_bytes(items, cuts, promote, text):
    names = pa.array([f"{'x' * (item % 23)}{item}" for item in items], pa.string())
    column = names if text else np.array(items, np.int64)
    whole = CalmSpaceSaving(900, 6, seed=4, promote=promote, item_bytes=8)
    whole.update(column)
    pieces = CalmSpaceSaving(900, 6, seed=4, promote=promote, item_bytes=8)
    edges = [0, *sorted(min(cut, len(items)) for cut in cuts), len(items)]
    for begin, end in pairwise(edges):
        pieces.update(column[begin:end])
        pieces = CalmSpaceSaving.from_bytes(pieces.to_bytes())
    assert pieces.to_bytes() == whole.copy().to_bytes() == whole.to_bytes()
    assert pieces.top().equals(whole.top())


def test_it_is_calmer_than_space_saving():
    items = zipf(200_000, 50_000)
    true = Counter(items.tolist())
    kth = sorted(true.values())[-100]
    recall = {}
    for promote in (1, 2, 3):
        calm = CalmSpaceSaving(12_000, 100, promote=promote)
        calm.update(items)
        rows = calm.top().to_pylist()
        recall[promote] = sum(true[row["item"]] >= kth for row in rows) / 100
        for row in rows:
            assert row["lower"] <= true[row["item"]] <= row["upper"]
    assert recall[2] >= 0.9
    assert recall[2] > recall[1]
    assert recall[3] > recall[1]


def test_bad_input_is_refused_and_changes_nothing():
    calm = CalmSpaceSaving(2_000, 5)
    calm.update(["a", "b"])
    before = calm.to_bytes()
    for items, spans in ((["a", None], None), ([1], None), ([b"a"], None), (["a"], [1]),
                         (["a"], [1, 2]), (["a"], [1.5]), ([2.5], None),
                         (BROKEN, None)):  # fmt: skip
        with pytest.raises(BadArgument):
            calm.update(items, spans)
    calm.update([])
    assert calm.to_bytes() == before
    with pytest.raises(BadArgument, match=f"interval {2**64 - 1} at position 1 is beyond int64"):
        CalmSpaceSaving(2_000, 5).update(["a", "b"], np.array([1, 2**64 - 1], np.uint64))
    with pytest.raises(BadArgument, match="k=6"):
        calm.top(6)
    with pytest.raises(BadArgument, match="too small for k=100: give at least 7008"):
        CalmSpaceSaving(100, 100)
    good = {"memory": 2_000, "k": 5}
    for wrong in ({"k": 0}, {"promote": 0}, {"promote": 256}, {"queue_ways": 12}, {"seed": -1},
                  {"item_bytes": 4}, {"memory": 1 << 40}, {"queue_ways": 0},
                  {"k": 1 << 24, "item_bytes": 4_000, "memory": 1 << 37}):  # fmt: skip
        with pytest.raises(BadArgument):
            CalmSpaceSaving(**(good | wrong))
    largest = CalmParameters(MEMORY_BYTES_MAX, 1, 0, 2, WAYS, 8).shape
    assert largest.buckets * WAYS <= NOWHERE  # of which a slot keeps 32 bits
    with pytest.raises(IncompatibleSummary, match="order"):
        calm.merge(calm.copy())


def test_an_item_longer_than_the_arena_is_counted_but_not_named():
    calm = CalmSpaceSaving(2_000, 3)
    calm.update(["y" * 1_000] * 9 + ["z", "é"])
    assert calm.top()["item"].to_pylist() == ["z", "é"]
    assert calm.unnamed == 9
    assert calm.count == 11


@pytest.mark.parametrize("k", [2, 3])  # with and without a free slot
def test_no_pair_gives_way_to_an_item_that_does_not_fit_all_the_same(k):
    calm = CalmSpaceSaving(50_000, k, item_bytes=240 // k - 8)
    high, low, long = "a" * 192, "c" * 8, "b" * 92
    for item, times in ((high, 100), (low, 20), (long, 50)):
        calm.update([item] * times)
    assert calm.top()["item"].to_pylist() == [high, low]
    assert calm.unnamed > 0
    calm.update([long] * 60)  # higher than both, which may go
    assert calm.top()["item"].to_pylist() == [long]


@pytest.mark.parametrize("text", [True, False])
def test_damaged_bytes_are_refused_and_never_crash(text):
    rng = random.Random(13)
    calm = CalmSpaceSaving(1_000, 6, item_bytes=8, promote=3)
    items = zipf(2_000, 300)
    calm.update([f"i{x}" for x in items] if text else items)
    blob, accepted = calm.to_bytes(), 0
    assert not [*readable(CalmSpaceSaving, spoilt(blob, 1_800, rng))]
    for bad, made in readable(CalmSpaceSaving, resealed(blob, 900, rng, 400)):
        accepted += 1
        assert made.to_bytes() == bad
        made.top()
        if made.item_type == ("string" if text else "int64"):
            spans = items[:200] if unseal(bad, "calm_space_saving")[0]["paired"] else None
            made.update([f"i{x}" for x in items[:200]] if text else items[:200], spans)
            made.top()
    assert accepted > 0


def test_golden_bytes():
    data = GOLDEN.read_bytes()
    calm = CalmSpaceSaving.from_bytes(data)
    assert calm.to_bytes() == data
    fresh = CalmSpaceSaving(1_500, 10, seed=9)
    fresh.update([f"item {x}" for x in zipf(500, 90)])
    assert fresh.to_bytes() == data
