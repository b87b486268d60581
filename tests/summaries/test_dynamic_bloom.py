"""The dynamic Bloom filter: never a wrong no, and wrong yeses as often as it says."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, golden, readable
from hypothesis import given
from hypothesis import strategies as st
from published_forms import RowOfFilters, bits_per_key, split_block_rate

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries.dynamic_bloom import DynamicBloom

FORMS = ("compact", "split", "paper")
batches = st.lists(st.lists(st.text(max_size=5), max_size=60), max_size=6)


def form(layout, planned, fpp, **more):
    return (
        RowOfFilters(planned, fpp, layout)
        if layout != "compact"
        else DynamicBloom(planned, fpp, **more)
    )


def strangers(count, seed=99):
    return np.random.default_rng(seed).integers(0, 2**64 - 1, count, dtype=np.uint64)


@given(batches, st.integers(1, 40), st.integers(1, 4))
def test_never_a_wrong_no(parts, capacity, headroom):
    seen = DynamicBloom(capacity, 0.05, 3, headroom)
    for part in parts:
        seen.update(part)
        assert seen.contains(part).all()
    for part in parts:
        assert seen.contains(part).all()
    assert seen.count == sum(map(len, parts))
    data = seen.to_bytes()
    again = DynamicBloom.from_bytes(data)
    assert again.to_bytes() == data
    assert DynamicBloom.mapped(memoryview(data)).to_bytes() == data
    for part in parts:
        assert again.contains(part).all()
    assert seen.false_positive_rate() <= 0.05


@given(batches, batches, st.integers(1, 40))
def test_merging_forgets_nothing(left, right, capacity):
    one, other = (DynamicBloom(capacity, 0.05) for _ in range(2))
    for part in left:
        one.update(part)
    for part in right:
        other.update(part)
    before = other.to_bytes()
    twin = one.copy()
    one.merge(other)
    assert other.to_bytes() == before
    for part in [*left, *right]:
        assert one.contains(part).all()
    assert one.count == twin.count + other.count
    assert DynamicBloom.from_bytes(one.to_bytes()).to_bytes() == one.to_bytes()
    one.update(["later"])
    assert one.contains("later").all()


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**32), st.integers(1, 4))
def test_what_several_saw_is_one_key_beyond_the_headroom_as_well(capacity, headroom, seed, parts):
    """In other orders, so that a key is in another generation here than there."""
    keys, rng = np.arange(capacity * headroom * 30), np.random.default_rng(seed)
    merged = DynamicBloom(capacity, 0.001, headroom=headroom)
    for _ in range(parts):
        part = DynamicBloom(capacity, 0.001, headroom=headroom)
        for some in np.array_split(rng.permutation(keys), 8):
            part.update(some)
            assert part.filters
        merged.merge(part)
    assert merged.contains(keys).all()
    assert merged.filters > 1
    assert abs(merged.keys - len(keys)) <= 4 + len(keys) // 20
    assert DynamicBloom.from_bytes(merged.to_bytes()).to_bytes() == merged.to_bytes()


@given(batches)
def test_a_merge_is_the_whole(parts):
    whole, merged = DynamicBloom(1000, 0.01), DynamicBloom(1000, 0.01)
    for part in parts:
        whole.update(part)
        piece = DynamicBloom(1000, 0.01)
        piece.update(part)
        merged.merge(piece)
    assert whole.to_bytes() == merged.to_bytes()


@pytest.mark.parametrize("layout", FORMS)
@pytest.mark.parametrize("fpp", [0.05, 0.01, 0.001])
def test_false_positives_at_the_plan_and_far_beyond(layout, fpp):
    planned = 20_000
    seen = form(layout, planned, fpp)
    keys = np.arange(50 * planned)
    asked = strangers(400_000)
    for times in (1, 10, 50):
        seen.update(keys[seen.count : times * planned])
        reported = seen.false_positive_rate()
        expected = reported * len(asked)
        wrong = int(seen.contains_hashes(asked).sum())
        assert wrong <= 1.1 * expected + 4 * np.sqrt(expected)  # sampling noise of the test
        if layout != "paper":
            assert reported <= fpp
            assert abs(seen.keys - seen.count) <= 1 + seen.count * 2 * fpp
        if layout == "compact" and reported < 0.02:  # above, two bits a key weigh more
            best = 1.125 * np.log2(1 / reported)  # a binary fuse filter of this rate
            assert seen.bits_per_key <= 1.25 * best
    assert seen.contains(keys).all()


@pytest.mark.parametrize("layout", ["compact", "split"])
def test_the_rate_holds_past_all_generations(layout):
    seen = form(layout, 50, 0.02, headroom=1)
    keys = np.arange(60_000)
    for part in np.array_split(keys, 50):
        seen.update(part)
    assert seen.filters > 2
    assert seen.contains(keys).all()
    assert seen.false_positive_rate() <= 0.02
    asked = strangers(200_000)
    assert seen.contains_hashes(asked).mean() <= 1.1 * seen.false_positive_rate() + 2e-4


@pytest.mark.parametrize("layout", FORMS)
def test_keys_of_one_hash_range_are_told_apart_as_well(layout):
    hashes = strangers(60_000) >> np.uint64(6)  # as of one of 64 partitions by hash range
    seen = form(layout, 10_000, 0.01, headroom=1)
    seen.update_hashes(hashes[:10_000])
    expected = 50_000 * seen.false_positive_rate()
    assert seen.contains_hashes(hashes[10_000:]).sum() <= 1.1 * expected + 4 * np.sqrt(expected)


def test_runs_that_do_not_overlap_answer_yes_as_often_as_it_says():
    seen = DynamicBloom(1000, 0.9, headroom=1)
    for keys in np.split(strangers(30_000, seed=5), 1000):
        seen.update_hashes(keys)
        assert seen.filters
    expected = seen.false_positive_rate()  # were they independent, it would be 0.858
    assert expected <= 0.9
    assert seen.contains_hashes(strangers(200_000)).mean() == pytest.approx(expected, abs=0.004)


@given(st.lists(st.integers(0, 300), max_size=600), st.integers(1, 40))
def test_an_item_that_comes_twice_at_once_is_one_key(items, capacity):
    seen = DynamicBloom(capacity, 0.001, headroom=1)
    seen.update(np.array(items * 2, np.int64))
    assert seen.keys <= len(set(items))


def test_repeats_cost_nothing():
    seen = RowOfFilters(1000, 0.01, "split")
    for _ in range(30):
        seen.update(np.arange(900))
    assert seen.filters == 1
    assert seen.count == 27_000


def test_equation_2_of_the_paper():
    seen = RowOfFilters(1000, 0.01)
    seen.update(np.arange(5500))
    full = RowOfFilters(1000, 0.01)
    full.update(np.arange(1000))
    half = RowOfFilters(1000, 0.01)
    half.update(np.arange(500))
    f, g = full.false_positive_rate(), half.false_positive_rate()
    assert seen.filters == 6
    assert seen.false_positive_rate() == pytest.approx(1 - (1 - f) ** 5 * (1 - g), rel=1e-9)


def test_split_blocks_are_sized_by_the_poisson_formula():
    assert bits_per_key(0.01) == pytest.approx(10.53, abs=0.01)
    assert bits_per_key(0.001) == pytest.approx(16.89, abs=0.01)
    for bits, rate in ((8, 0.0332), (10, 0.01265), (12, 0.00542), (16, 0.001316)):
        assert split_block_rate(256 / bits) == pytest.approx(rate, rel=0.01)


def test_all_kinds_of_keys():
    for items in (["a", "ü"], [b"\x00", b""], [1, -5], pa.array(["x", "y"]).dictionary_encode()):
        seen = DynamicBloom(10, 0.01)
        seen.update(items)
        assert seen.contains(items).all()
        assert not seen.contains_hashes(strangers(3)).any()
        twin = DynamicBloom.from_bytes(seen.to_bytes())
        assert twin.contains(items).all()


def test_same_seed_same_bytes_and_other_seed_other_hashes():
    one, two, other = (DynamicBloom(100, 0.01, seed) for seed in (1, 1, 2))
    for seen in (one, two, other):
        seen.update(["a", "b"])
    assert one.to_bytes() == two.to_bytes() != other.to_bytes()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DynamicBloom(capacity=0), "capacity=0"),
        (lambda: DynamicBloom(capacity=1.5), "capacity must be an integer, got 1.5"),
        (lambda: DynamicBloom(fpp=0.0), "fpp=0.0"),
        (lambda: DynamicBloom(fpp=1.0), "fpp=1.0"),
        (lambda: DynamicBloom(fpp=float("nan")), "fpp=nan"),
        (lambda: DynamicBloom(fpp=1e-14), "beyond"),
        (lambda: DynamicBloom(seed=-1), "seed=-1"),
        (lambda: DynamicBloom(headroom=0), "headroom=0"),
        (lambda: DynamicBloom().update([1.5]), "hashed"),
        (lambda: DynamicBloom().update(["a", None]), "null"),
        (lambda: DynamicBloom().update(["a", 1]), "items must be"),
        (lambda: DynamicBloom().update_hashes(np.arange(3)), "uint64"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(BadArgument, match=message):
        call()


def test_mixed_key_types_are_refused():
    seen = DynamicBloom()
    seen.update(["a"])
    for call in (seen.update, seen.contains):
        with pytest.raises(BadArgument, match="integers"):
            call([1])
    numbers = DynamicBloom()
    numbers.update([1])
    with pytest.raises(IncompatibleSummary, match="text"):
        numbers.merge(seen)


def test_a_time_is_the_same_key_in_any_unit():
    """It was said never to have been seen, by a filter whose no is always right."""
    moments = [datetime(1969, 12, 31, 23, 59, 58), datetime(2026, 1, 1)]
    for kinds in (
        [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")],
        [pa.duration(unit) for unit in ("s", "ms", "us", "ns")],
        [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
        [pa.date32(), pa.date64()],
    ):
        given = moments
        if pa.types.is_duration(kinds[0]):
            given = [moment - datetime(2000, 1, 1) for moment in moments]
        elif pa.types.is_time(kinds[0]):
            given = [moment.time() for moment in moments]
        elif pa.types.is_date(kinds[0]):
            given = [moment.date() for moment in moments]
        columns = [pa.array(given, kind) for kind in kinds]
        seen = DynamicBloom()
        seen.update(columns[0])
        assert [seen.contains(column).tolist() for column in columns] == [[True, True]] * len(kinds)
    with pytest.raises(BadArgument, match="beyond 64 bits of microseconds"):
        DynamicBloom().update(pa.array([1 << 62], pa.timestamp("s")))


def test_other_parameters_do_not_merge():
    for other in (
        DynamicBloom(10),
        DynamicBloom(fpp=0.02),
        DynamicBloom(seed=1),
        DynamicBloom(headroom=2),
    ):
        with pytest.raises(IncompatibleSummary):
            DynamicBloom().merge(other)


def made_filter():
    seen = DynamicBloom(50, 0.02, 7, 1)
    for start in range(0, 400, 100):
        seen.update([f"key {i}" for i in range(start, start + 100)])
        seen.keys  # noqa: B018  (settles, so that there is more than one generation)
    return seen


def test_golden_bytes():
    data = golden("dynamic_bloom-v3", lambda: made_filter().to_bytes())
    again = DynamicBloom.from_bytes(data)
    assert again.to_bytes() == data == made_filter().to_bytes()
    assert again.contains([f"key {i}" for i in range(400)]).all()


def test_damaged_bytes_are_refused_or_sound():
    asked = strangers(50)
    accepted = 0
    for case, seen in readable(DynamicBloom, damaged(made_filter().to_bytes(), 2500)):
        accepted += 1
        assert seen.to_bytes() == case
        seen.contains_hashes(asked)
        seen.update_hashes(asked)
    assert accepted < 1500
