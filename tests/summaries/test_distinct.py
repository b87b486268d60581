"""UltraLogLog against exact counts and against HyperLogLog of the `datasketches` package."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, golden, readable
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries import datasketches_hll
from muntin.summaries.distinct import Distinct, standard_error
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.kernels.distinct import HYPER, ULTRA

datasketches = pytest.importorskip("datasketches")
HLL_8 = datasketches.tgt_hll_type.HLL_8
texts = st.lists(st.text(max_size=70).filter(bool), max_size=60)
integers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60)


def fed(items, lg_k=12):
    summary = Distinct(lg_k)
    summary.update(items)
    return summary


def theirs(items, lg_k, full=True):
    sketch = datasketches.hll_sketch(lg_k, HLL_8, full)
    for item in items:
        sketch.update(item)
    return sketch


def seen(items, lg_k):
    """The values that came to each register, by HyperLogLog of one item each."""
    came = {}
    for item in set(items):
        bare = theirs([item], lg_k).serialize_updatable()
        registers = np.frombuffer(bare[40 : 40 + (1 << lg_k)], np.uint8)
        (slot,) = np.flatnonzero(registers)
        came.setdefault(slot, set()).add(int(registers[slot]))
    return came


@given(texts | integers | st.integers(0, 999).map(range), st.sampled_from([4, 5, 7]))
def test_registers_are_the_values_that_came(items, lg_k):
    expected = np.zeros(1 << lg_k, np.uint8)
    for slot, values in seen(items, lg_k).items():
        high = max(values)
        expected[slot] = high << 2 | (high - 1 in values) << 1 | (high - 2 in values)
    assert (fed(items, lg_k)._registers == expected).all()


@given(texts | integers, st.sampled_from([4, 7, 12, 21]))
def test_registers_are_those_of_datasketches(items, lg_k):
    mine = fed(items, lg_k)
    bare = theirs(items, lg_k).serialize_updatable()
    assert (mine._registers >> 2 == np.frombuffer(bare[40 : 40 + (1 << lg_k)], np.uint8)).all()


@given(integers, st.integers(0, 400), st.sampled_from([4, 8, 12]))
def test_exchange_with_datasketches(items, more, lg_k):
    items = [*items, *range(more)]
    mine = fed(items, lg_k)
    values = mine._registers & HYPER
    for full in (False, True):
        sketch = theirs(items, lg_k, full)
        for bare in (sketch.serialize_compact(), sketch.serialize_updatable()):
            assert (Distinct.from_datasketches(bare)._registers == values).all()
    bare = mine.to_datasketches()
    assert (Distinct.from_datasketches(bare)._registers == values).all()
    back = datasketches.hll_sketch.deserialize(bare)
    assert back.lg_config_k == lg_k
    tolerance = 0.05 if lg_k == 12 else 0.6
    assert back.get_estimate() == pytest.approx(mine.estimate().value[0], rel=tolerance, abs=0.5)


@given(integers, integers, st.integers(0, 2000), st.sampled_from([4, 8]))
def test_what_took_in_a_sketch_of_theirs_goes_on_as_hyperloglog(left, right, more, lg_k):
    """In any order, also through bytes: its two bits are unknown from then on."""
    left, right = [*left, *range(more)], [*right, *range(-more, 0)]
    both = fed(left + right, lg_k)
    expected = Distinct.from_datasketches(both.to_datasketches())
    foreign = Distinct.from_datasketches(theirs(left, lg_k).serialize_compact())
    own = fed(right, lg_k)
    one, other = foreign.copy(), own.copy()
    one.merge(own)
    other.merge(foreign)
    fed_later = Distinct.from_bytes(foreign.to_bytes())
    fed_later.update(right)
    for found in (one, other, fed_later):
        again = Distinct.from_bytes(found.to_bytes())
        assert (found._registers == expected._registers).all()
        assert found.estimate() == again.estimate() == expected.estimate()
        assert found.to_datasketches() == both.to_datasketches()


def test_our_sketch_joins_theirs():
    union = datasketches.hll_union(12)
    union.update(datasketches.hll_sketch.deserialize(fed(range(5000)).to_datasketches()))
    union.update(theirs(range(3000, 8000), 12))
    assert union.get_estimate() == pytest.approx(8000, rel=0.05)
    mine = fed(range(5000))
    result = union.get_result(HLL_8).serialize_compact()
    mine.merge(Distinct.from_datasketches(result))
    assert mine.to_datasketches() == result


@pytest.mark.parametrize("kind", ["HLL_4", "HLL_6"])
@given(st.integers(0, 30_000), st.sampled_from([4, 8, 12]), st.integers(0, 2**32), st.data())
def test_every_type_of_theirs_is_read(kind, count, lg_k, first, data):
    """HLL_4 has exceptions beside its nibbles; damage is seen, or changes no register."""
    items = np.arange(first, first + count, dtype=np.int64)
    sketch = datasketches.hll_sketch(lg_k, getattr(datasketches.tgt_hll_type, kind))
    for item in items.tolist():
        sketch.update(item)
    registers = fed(items, lg_k)._registers & HYPER
    for bare in (sketch.serialize_compact(), sketch.serialize_updatable()):
        assert (Distinct.from_datasketches(bare)._registers == registers).all()
        spoilt = bytearray(bare)
        spoilt[data.draw(st.integers(0, len(bare) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        with suppress(CorruptSummary):
            assert Distinct.from_datasketches(bytes(spoilt))._registers.max() <= 63 << 2


@pytest.mark.parametrize(
    ("lg_k", "kept"), [(4, ULTRA), (7, ULTRA), (10, ULTRA), (12, ULTRA), (4, HYPER), (10, HYPER)]
)
@pytest.mark.parametrize("load", [0.002, 0.01, 0.3, 1, 3, 15])
def test_the_interval_holds_as_often_as_it_says(lg_k, load, kept):
    items = max(1, int(load * (1 << lg_k)))
    trials = 400 if items < 20_000 else 100
    rng = np.random.default_rng(lg_k)
    errors, lengths, missed = [], [], 0
    for _ in range(trials):
        sketch = fed(rng.integers(-(2**63), 2**63 - 1, items), lg_k)
        if kept == HYPER:
            sketch = Distinct.from_datasketches(sketch.to_datasketches())
        found = sketch.estimate()
        errors.append(found.value[0] / items - 1)
        missed += not found.lower[0] <= items <= found.upper[0]
        lengths.append((found.upper[0] - found.lower[0]) / items)
    assert missed / trials <= 0.01 + 4 * np.sqrt(0.01 / trials)
    rms = np.sqrt(np.mean(np.square(errors)))
    least = 0.15 / np.sqrt(1 << lg_k) if lg_k < 7 else 0
    assert rms <= standard_error(1 << lg_k, kept) * (1 + 4 / np.sqrt(2 * trials)) + least
    if items > 10 and lg_k > 4:  # no longer than what is needed, but for an item and some
        assert np.median(lengths) <= 2 * 2.58 * 1.35 * rms + 1.5 / items


def test_nothing_one_and_two():
    summary = Distinct()
    found = summary.estimate()
    assert (found.value, found.lower, found.upper) == (0, 0, 0)
    assert found.confidence == 0.99
    summary.update("a")
    found = summary.estimate()
    # one of 4,096 registers: another was hardly on it
    assert found.value[0] == found.lower[0] == found.upper[0] == 1
    summary.update(["b", "a"])
    assert summary.estimate().value[0] == 2
    assert summary.count == 3


@pytest.mark.parametrize("lg_k", [4, 12, 21])
def test_registers_that_are_all_full_have_a_finite_estimate(lg_k):
    full = np.full(1 << lg_k, 63, np.uint8)
    one_below = full.copy()
    one_below[0] = 62
    found = [Distinct.from_datasketches(datasketches_hll.write(r)) for r in (one_below, full)]
    assert found[0].estimate().value[0] <= found[1].estimate().value[0] < np.inf


@given(texts, texts, st.sampled_from([4, 12]))
def test_merging_is_the_whole_in_any_order_and_duplicates_are_harmless(left, right, lg_k):
    whole = fed([*left, *right], lg_k)
    one, other = fed(left, lg_k), fed(right, lg_k)
    twin = other.copy()
    before = other.to_bytes()
    one.merge(other)
    assert other.to_bytes() == before
    assert one.to_bytes() == whole.to_bytes()
    twin.merge(fed(left, lg_k))
    assert twin.to_bytes() == whole.to_bytes()
    again = whole.copy()
    again.update([*left, *left])
    again.merge(whole)
    assert again.to_datasketches() == whole.to_datasketches()


@given(texts | integers, st.sampled_from([4, 12, 19]))
def test_bytes_round_trip(items, lg_k):
    summary = fed(items, lg_k)
    again = Distinct.from_bytes(summary.to_bytes())
    assert again.to_bytes() == summary.to_bytes()
    assert again.count == len(items)
    again.update(["x"])
    assert again.count == len(items) + 1


def test_spellings_of_items():
    words = ["a", "", "ü" * 30, "a"]
    expected = fed(words).to_bytes()
    for spelled in (
        pa.array(words).dictionary_encode(),
        pa.array([*words, "spare"]).dictionary_encode().slice(0, 4),
        pa.chunked_array([words[:1], words[1:]]),
        pa.array(words, pa.large_string()),
        pa.array([word.encode() for word in words]),
    ):
        assert fed(spelled).to_bytes() == expected
    assert fed(np.array([1, 2], np.uint8)).to_bytes() == fed([1, 2]).to_bytes()
    assert fed([1]).to_bytes() != fed(["1"]).to_bytes()


@pytest.mark.parametrize("items", [[1.5], ["a", None], pa.array(["a", None]).dictionary_encode()])
def test_refused_items(items):
    with pytest.raises(BadArgument):
        Distinct().update(items)


@pytest.mark.parametrize("lg_k", [3, 22, 12.0, True])
def test_impossible_parameters(lg_k):
    with pytest.raises(BadArgument):
        Distinct(lg_k)


def test_only_equal_sizes_merge():
    for other in (Distinct(11), "sketch"):
        with pytest.raises(IncompatibleSummary):
            Distinct(12).merge(other)


def test_bytes_are_few():
    """Registers in little more than their entropy, and fewer bytes while items are few."""
    some = fed(range(100_000))
    times = np.unique(some._registers, return_counts=True)[1]
    entropy = -(times * np.log2(times / times.sum())).sum() / 8
    assert len(some.to_bytes()) < 1.15 * entropy < 0.58 * (1 << 12)
    assert len(fed(range(100)).to_bytes()) < 400


def test_golden_bytes():
    data = golden("distinct-v4", lambda: fed(["JFK", "EWR", "ü", "JFK"], 8).to_bytes())
    assert Distinct.from_bytes(data).to_bytes() == data
    assert fed(["JFK", "EWR", "ü", "JFK"], 8).to_bytes() == data


@pytest.mark.parametrize("items", [range(5), range(3000)])
def test_damaged_bytes(items):
    data = fed(list(items), 8).to_bytes()
    for size in range(len(data)):
        with pytest.raises(CorruptSummary):
            Distinct.from_bytes(data[:size])
    for _, found in readable(Distinct, damaged(data, 2000)):
        assert Distinct.from_bytes(found.to_bytes()).estimate() == found.estimate()


@pytest.mark.parametrize("items", [0, 5, 100, 3000])
def test_damaged_bytes_of_datasketches(items):
    rng = np.random.default_rng(items)
    bare = theirs(range(items), 8, False).serialize_updatable()
    for case in range(1000):
        blob = bytearray(bare)
        if case % 3 == 0:
            del blob[rng.integers(0, len(blob)) :]
        for _ in range(rng.integers(1, 4)):
            if blob:
                blob[rng.integers(0, min(len(blob), 50))] = rng.integers(0, 256)
        with suppress(CorruptSummary):
            Distinct.from_datasketches(bytes(blob)).estimate()
    for size in range(len(bare)):
        with pytest.raises(CorruptSummary):
            Distinct.from_datasketches(bare[:size])


@pytest.mark.parametrize(
    ("offset", "value"),
    [(0, 2), (1, 2), (2, 8), (3, 3), (5, 4), (5, 64), (7, 2), (23, 1), (32, 7), (36, 1), (40, 64)],
)
def test_named_damage_of_datasketches(offset, value):
    blob = bytearray(theirs(range(3000), 8).serialize_compact())
    blob[offset] = value
    with pytest.raises(CorruptSummary):
        Distinct.from_datasketches(bytes(blob))


@pytest.mark.parametrize(
    "change", [{"used": 2}, {"events": 0}, {"lg_k": 21}, {"lg_k": 4}, {"kept": 254}, {"kept": 252}]
)
def test_contradictions_are_found(change):
    parameters, body = unseal(fed(range(600), 8).to_bytes(), "distinct")
    with pytest.raises(CorruptSummary):
        Distinct.from_bytes(seal("distinct", parameters | change, bytes(body)))
