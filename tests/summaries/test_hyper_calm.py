"""HyperCalm against an exact account of batches and intervals in plain Python."""

import random
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from damage import readable, resealed, spoilt
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries import CalmSpaceSaving, HyperBloom, HyperCalm

GOLDEN = Path(__file__).parents[1] / "golden" / "hyper_calm-v1.bin"
FAR_TICKS = 1 << 31


def intervals(items, times, gap, batch_size=1):
    """(item, distance, begin) of each batch that has one before it, in the order of detection."""
    last, opened, size, before, found = {}, {}, {}, {}, []
    for item, time in zip(items, times, strict=True):
        if item not in last or time - last[item] > gap:
            opened[item], size[item] = time, 0
        last[item] = time
        size[item] += 1
        if size[item] == batch_size:
            if item in before:
                found.append((item, opened[item] - before[item], opened[item]))
            before[item] = opened[item]
    return found


def joined_bin(known, item, distance, unit):
    """The bin on the half-unit grid, or the nearer neighbour if that has the higher count."""
    own = 2 * distance // unit
    up = 2 * (2 * distance - own * unit) >= unit
    near = own + 1 if up else own - 1
    return near if near >= 0 and known[item, near] > known[item, own] else own


def exact(items, times, gap, unit, *, bins="floor", consecutive=False, batch_size=1):
    """Counter of (item, bin), or of the longest runs."""
    counts, row = Counter(), {}
    for item, distance, _ in intervals(items, times, gap, batch_size):
        if distance >= FAR_TICKS:
            row.pop(item, None)
            continue
        if consecutive:
            own = distance // unit
            row[item] = (own, row[item][1] + 1) if row.get(item, (-1, 0))[0] == own else (own, 1)
            counts[item, own] = max(counts[item, own], row[item][1])
        else:
            own = distance // unit if bins == "floor" else joined_bin(counts, item, distance, unit)
            counts[item, own] += 1
    return counts


def listed(calm, unit):
    """What a top with bins="floor" says, as a Counter like `exact`."""
    rows = calm.top().to_pylist()
    middle = [(row["interval_low"] + row["interval_high"]) // 2 for row in rows]
    pairs = zip(rows, middle, strict=True)
    return Counter({(r["item"], far // unit): r["periodicity"] for r, far in pairs})


@st.composite
def streams(draw, far=False):
    size = draw(st.integers(0, 150))
    items = draw(st.lists(st.integers(0, 6), min_size=size, max_size=size))
    step = st.one_of(st.integers(0, 30), st.just(11), st.integers(0, 4))
    if far:
        step = st.one_of(step, st.integers(1 << 29, 1 << 32), st.just(1 << 31), st.just(1 << 40))
    steps = draw(st.lists(step, min_size=size, max_size=size))
    origin = draw(st.sampled_from([0, -500, -(1 << 63), (1 << 31) - 300, 1_700_000_000_000_000]))
    times = [origin]
    for by in steps:
        times.append(times[-1] + by)
    return items, times[1:]


def within(row, seen, consecutive=False):
    """How many of an item's intervals lie in a row's range; or the longest run of such."""
    held = [row["interval_low"] <= far < row["interval_high"]
            for item, far, _ in seen if item == row["item"]]  # fmt: skip
    if not consecutive:
        return sum(held)
    return max((len(list(run)) for inside, run in groupby(held) if inside), default=0)


def arrays(items, times):
    return np.array(items, np.int64), np.array(times, np.int64)


@settings(max_examples=40)
@given(streams(far=True), st.sampled_from([1, 7, 20, 100]), st.booleans())
def test_with_room_for_all_it_is_exact(stream, unit, consecutive):
    items, times = stream
    calm = HyperCalm(60_000, 10, unit, 200, bins="floor", consecutive=consecutive)
    calm.update(*arrays(items, times))
    assert listed(calm, unit) == exact(items, times, 10, unit, consecutive=consecutive)
    assert calm.nbytes <= 60_000
    for row in calm.top().to_pylist():
        assert row["lower"] == row["periodicity"] <= row["upper"]


@given(streams(), st.integers(2, 4))
def test_small_batches_are_ignored(stream, batch_size):
    items, times = stream
    calm = HyperCalm(60_000, 10, 20, 200, bins="floor", batch_size=batch_size)
    calm.update(*arrays(items, times))
    assert listed(calm, 20) == exact(items, times, 10, 20, batch_size=batch_size)
    seen = intervals(items, times, 10, batch_size)
    for row in calm.top().to_pylist():
        of_row = [(begin - far, begin) for item, far, begin in seen
                  if (item, far // 20) == (row["item"], row["interval_low"] // 20)]  # fmt: skip
        assert (row["first_seen"], row["last_batch"]) == (of_row[0][0], of_row[-1][1])
        latest = max(begin for item, _, begin in seen if item == row["item"])
        assert row["next_expected"] == latest + row["interval"]


@given(streams(), st.sampled_from([4, 20, 100]))
def test_joined_bins_follow_their_rule(stream, unit):
    items, times = stream
    calm = HyperCalm(60_000, 10, unit, 200)
    calm.update(*arrays(items, times))
    expected = exact(items, times, 10, unit, bins="joined")
    rows = calm.top().to_pylist()
    assert sorted(r["periodicity"] for r in rows) == sorted(expected.values())
    known = {(i, max(0, -(-(2 * b - 1) * unit // 4))): n for (i, b), n in expected.items()}
    assert {(r["item"], r["interval_low"]): r["periodicity"] for r in rows} == known
    seen = intervals(items, times, 10)
    for row in rows:
        assert row["lower"] <= within(row, seen) <= row["upper"]


def noisy_stream(n=40_000, keys=4_000, planted=20, gap=50, period=3_000, seed=3):
    """A Zipf background, one event a tick, and items with a steady, slightly jittered beat."""
    rng = np.random.default_rng(seed)
    weights = np.cumsum(1 / np.arange(1, keys + 1))
    items = np.searchsorted(weights / weights[-1], rng.random(n)).astype(np.int64)
    for item in range(planted):
        first = int(rng.integers(0, period))
        for begin in range(first, n - gap, period + 40 * item):
            at = begin + int(rng.integers(-8, 9))
            items[[max(at, 0), at + 5, at + 20]] = 10_000 + item
    return items, np.arange(n, dtype=np.int64)


@pytest.mark.parametrize("options", [{}, {"bins": "floor"}, {"consecutive": True}, {"promote": 3}])
@pytest.mark.parametrize("memory", [4_000, 12_000])
def test_bounds_hold_when_memory_is_short(memory, options):
    items, times = noisy_stream()
    calm = HyperCalm(memory, 50, 100, 30, **options)
    calm.update(items, times)
    seen = intervals(items.tolist(), times.tolist(), 50)
    rows = calm.top().to_pylist()
    assert len(rows) == 30
    for row in rows:
        assert row["lower"] <= within(row, seen) <= row["upper"]
        assert row["lower"] <= row["periodicity"] <= row["upper"]
    assert calm.nbytes <= memory


def test_it_finds_the_planted_beats_in_little_memory():
    items, times = noisy_stream(n=100_000, keys=20_000)
    calm = HyperCalm(150_000, 50, 400, 250)
    calm.update(items, times)
    rows = {row["item"]: row for row in reversed(calm.top().to_pylist())}
    seen = [found for found in intervals(items.tolist(), times.tolist(), 50) if found[0] >= 10_000]
    for item in range(20):
        row = rows[10_000 + item]
        assert row["interval_low"] <= 3_000 + 40 * item < row["interval_high"]
        assert row["periodicity"] == sum(
            row["item"] == item and row["interval_low"] <= far < row["interval_high"]
            for item, far, _ in seen
        )
        assert row["interval"] == pytest.approx(3_000 + 40 * item, abs=30)
        assert row["next_expected"] >= row["last_batch"] + row["interval"]


@pytest.mark.parametrize("offset", [0, 25, 50, 75])
def test_a_period_on_a_bin_edge_is_not_split(offset):
    rng = np.random.default_rng(offset)
    beats = 1_000 + (1_000 + offset) * np.arange(400) + rng.integers(-6, 7, 400)
    items = np.ones(400, np.int64)
    joined = HyperCalm(10_000, 50, 100, 10)
    joined.update(items, beats)
    assert joined.top(1)["periodicity"].to_pylist() == [399]
    floor = HyperCalm(10_000, 50, 100, 10, bins="floor")
    floor.update(items, beats)
    highest = floor.top(1)["periodicity"][0].as_py()
    assert (highest < 300) if offset == 0 else (highest == 399)


@given(
    streams(far=True),
    st.lists(st.integers(0, 150), max_size=4),
    st.sampled_from([{}, {"consecutive": True}, {"batch_size": 2}, {"promote": 3, "k": 3}]),
    st.booleans(),
)
def test_any_cut_gives_the_same_bytes(stream, cuts, options, text):
    items, times = arrays(*stream)
    named = pa.array([f"{'long ' * (item * 3)}{item}" for item in items.tolist()], pa.string())
    column = named if text else items
    options = {"k": 8, "item_bytes": 8, "resolution": 3, **options}
    whole = HyperCalm(3_000, 10, 20, **options)
    whole.update(column, times)
    pieces = HyperCalm(3_000, 10, 20, **options)
    edges = [0, *sorted(min(cut, len(items)) for cut in cuts), len(items)]
    for begin, end in pairwise(edges):
        pieces.update(column[begin:end], times[begin:end])
        data = pieces.to_bytes()
        pieces = HyperCalm.from_bytes(data)
        assert pieces.to_bytes() == data
    assert pieces.to_bytes() == whole.copy().to_bytes() == whole.to_bytes()
    assert pieces.top().equals(whole.top())


def test_long_items_share_an_arena_and_stay_whole():
    rng = np.random.default_rng(11)
    events = sorted(
        (int(beat * (400 + 7 * item) + rng.integers(0, 5)), item)
        for item in range(40)
        for beat in range(60 - item)
    )
    names = [f"{item}:" + "x" * int(rng.integers(0, 120)) for item in range(40)]
    calm = HyperCalm(12_000, 20, 50, 40, item_bytes=24)
    for begin in range(0, len(events), 97):
        part = events[begin : begin + 97]
        calm.update([names[item] for _, item in part], [time for time, _ in part])
    top = calm.top()
    assert 10 < top.num_rows < 40
    assert set(top["item"].to_pylist()) <= set(names)
    best = sorted(top["periodicity"].to_pylist(), reverse=True)
    assert top["periodicity"].to_pylist() == best
    assert calm.unnamed > 0
    assert calm.nbytes <= 12_000
    huge = HyperCalm(3_000, 20, 50, 2)
    huge.update(["y" * 5_000] * 5 + ["z"] * 5, list(range(0, 1_000, 100)))
    assert huge.top()["item"].to_pylist() == ["z"]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 31, 32, 33, 1_000, 100_000])
def test_items_of_any_length(length):
    names = [letter * length for letter in "ab"] if length else ["", "b"]
    items, times = names * 20, np.repeat(np.arange(20) * 100, 2)
    calm = HyperCalm(500_000, 20, 20, 4, item_bytes=60_000)
    calm.update(items, times)
    assert calm.top()["item"].to_pylist() == sorted(names)
    assert calm.top()["periodicity"].to_pylist() == [19, 19]
    assert HyperBloom(10_000, 20).update(items, times).all()
    counted = CalmSpaceSaving(500_000, 4, item_bytes=60_000)
    counted.update(items)
    assert counted.top()["value"].to_pylist() == [20, 20]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.int64(), pa.uint64(), pa.int16()])
def test_items_come_back_as_they_were(kind):
    values = pa.array([[65, 66, 67][i % 3] for i in range(60)])
    if kind in (pa.string(), pa.binary()):
        column = pa.array([f"é{v}".encode() for v in values.to_pylist()]).cast(kind)
    else:
        column = values.cast(kind)
    calm = HyperCalm(10_000, 20, 10, 10)
    calm.update(column, np.arange(60) * 100)
    assert set(calm.top()["item"].to_pylist()) == set(column.to_pylist())


@pytest.mark.parametrize("options", [{}, {"resolution": 7}, {"batch_size": 2}])
def test_an_item_that_missed_a_beat_is_expected_from_its_latest_batch(options):
    """One beat fell out: the interval was another, but the item is not overdue any more."""
    size = options.get("batch_size", 1)
    beats = [100 * beat for beat in range(10) if beat != 8]
    calm = HyperCalm(20_000, 20, 20, 5, **options)
    calm.update(["a"] * len(beats) * size, np.repeat(beats, size))
    row = calm.top(1).to_pylist()[0]
    assert row["interval_low"] <= 100 < row["interval_high"]
    assert row["last_batch"] <= 700
    assert row["next_expected"] == pytest.approx(1_000, abs=14)
    assert HyperCalm.from_bytes(calm.to_bytes()).top().equals(calm.top())


def test_shards_of_items_add_up():
    items, times = noisy_stream(n=20_000)
    whole = HyperCalm(400_000, 50, 100, 60)
    whole.update(items, times)
    shards = [HyperCalm(400_000, 50, 100, 60) for _ in range(3)]
    for number, shard in enumerate(shards):
        mine = items % 3 == number
        shard.update(items[mine], times[mine])
    merged = HyperCalm.merged_top(shards, 20)
    columns = ["item", "interval_low", "periodicity", "last_batch"]
    assert merged.select(columns).equals(whole.top(20).select(columns))
    assert HyperCalm.merged_top([shards[0], HyperCalm(9_000, 50, 100, 5)], 5).num_rows == 5
    with pytest.raises(IncompatibleSummary, match="gap is 50"):
        HyperCalm.merged_top([shards[0], HyperCalm(9_000, 60, 100, 5)], 5)
    with pytest.raises(BadArgument, match="at least one"):
        HyperCalm.merged_top([], 5)
    with pytest.raises(IncompatibleSummary, match="Shard the stream by item"):
        shards[0].merge(shards[1])
    named = HyperCalm(9_000, 50, 100, 5)
    named.update(["a"], [1])
    with pytest.raises(IncompatibleSummary, match="different types"):
        HyperCalm.merged_top([shards[0], named], 5)


def test_parameters_are_guessed_from_a_sample():
    rng = np.random.default_rng(0)
    events = []
    for item in range(30):
        period = 60_000_000 + 1_000_000 * item
        for beat in range(40):
            begin = beat * period + int(rng.integers(-200_000, 200_000)) + 10_000_000
            events += [(begin + int(x), f"bot {item}") for x in rng.integers(0, 2_000_000, 4)]
    events.sort()
    times, items = zip(*events, strict=True)
    calm = HyperCalm.for_stream(items, times, memory=50_000, k=40)
    assert 1_000_000 < calm.parameters.gap < 58_000_000
    calm.update(items, times)
    top = calm.top(30)
    assert set(top["item"].to_pylist()) == {f"bot {item}" for item in range(30)}
    assert min(top["periodicity"].to_pylist()) >= 30
    known = HyperCalm.for_stream(items, times, k=5, gap=3_000_000, consecutive=True)
    assert known.parameters.gap == 3_000_000
    assert known.parameters.consecutive
    with pytest.raises(BadArgument, match="no item comes twice"):
        HyperCalm.for_stream(["a", "b"], [1, 2])
    with pytest.raises(BadArgument, match="backwards"):
        HyperCalm.for_stream(["a", "a"], [2, 1])
    for gap in ("5 s", 0, 1 << 45):
        with pytest.raises(BadArgument, match="gap"):
            HyperCalm.for_stream(["a", "a"], [1, 2], gap=gap)


@pytest.mark.parametrize("step", [86_400_000_000, 2_000_000_011 * 3])
@pytest.mark.parametrize("days", [30, 200])
def test_a_guess_has_a_tick_that_may_be(step, days):
    """The sample's times are a whole number of it apart: a day is too long for one."""
    period = days * 86_400_000_000 // step * step
    times = np.add.outer(np.arange(12) * period, np.arange(2) * step).ravel()
    calm = HyperCalm.for_stream(["a", "b"] * 12, times)
    assert step % calm.parameters.resolution == 0
    calm.update(["a", "b"] * 12, times)
    assert {row["interval"] for row in calm.top().to_pylist()} == {period}


@given(st.integers(0, 10**6), st.integers(200, 800), st.integers(0, 3))
@settings(max_examples=30)
def test_rows_of_a_steady_interval_are_one_pair(seed, period, jitter):
    """A row that begins on the other side of a bin's edge was a pair of its own."""
    rng = np.random.default_rng(seed)
    steps = period + rng.integers(-jitter, jitter + 1, (6, 12))
    steps[:, 0] = 10_000  # a beat that was missed
    calm = HyperCalm(9_000, 50, 16, 9, consecutive=True)
    calm.update(["a"] * steps.size, np.cumsum(steps.ravel()))
    found = [row["periodicity"] for row in calm.top().to_pylist() if row["interval"] < 1_000]
    assert found[0] == 11
    assert len(found) == 1 or jitter > 1


def test_the_last_batch_is_the_latest_in_whatever_row():
    """A shorter row of the same interval comes after a longer one."""
    times = [0, 30, 60, 90, 120, 190, 220, 250]
    calm = HyperCalm(9_000, 5, 1, 9, consecutive=True)
    calm.update(["a"] * len(times), times)
    row = calm.top(1).to_pylist()[0]
    assert (row["periodicity"], row["interval"], row["last_batch"]) == (4, 30, 250)


@pytest.mark.parametrize("items", [1, 50])
def test_a_guess_finds_items_that_come_one_at_a_time(items):
    """Each event is a batch: the gap is below all distances."""
    times = np.sort(np.add.outer(np.arange(50) * 30_000_000, np.arange(items) * 100_000).ravel())
    names = [f"poller {at % items}" for at in range(len(times))]
    calm = HyperCalm.for_stream(names, times, memory=100_000, k=items)
    calm.update(names, times)
    assert sorted(calm.top()["item"].to_pylist()) == sorted(names[:items])
    assert set(calm.top()["periodicity"].to_pylist()) == {49}


@given(
    streams(),
    st.tuples(st.integers(1, 16), st.integers(1, 40)).filter(lambda pair: pair[0] <= pair[1]),
    st.sampled_from([10, 16, 23]),
    st.sampled_from([{}, {"bins": "floor"}, {"consecutive": True}, {"batch_size": 2}]),
)
def test_bounds_hold_with_ticks_coarser_than_the_streams(stream, ticks, gap, options):
    items, times = stream
    resolution, unit = min(ticks[0], gap), max(ticks)
    calm = HyperCalm(60_000, gap, unit, 200, resolution=resolution, **options)
    calm.update(*arrays(items, times))
    seen = intervals(items, times, gap, options.get("batch_size", 1))
    for row in calm.top().to_pylist():
        truth = within(row, seen, options.get("consecutive", False))
        assert row["lower"] == row["periodicity"] <= truth <= row["upper"], (row, truth)


@given(streams(), st.integers(1, 12), st.integers(0, 11), st.integers(0, 11), st.booleans())
def test_ticks_as_coarse_as_the_streams_are_exact(stream, tick, phase, more, consecutive):
    items, times = stream
    times = [(time - times[0] - 500) * tick + phase for time in times]
    gap, unit = 10 * tick + more % tick, 7 * tick
    calm = HyperCalm(60_000, gap, unit, 200, 0, consecutive, bins="floor", resolution=tick)
    calm.update(*arrays(items, times))
    assert listed(calm, unit) == exact(items, times, gap, unit, consecutive=consecutive)
    for row in calm.top().to_pylist():
        assert row["interval_low"] % unit == 0
        assert row["interval_high"] - row["interval_low"] == unit


@pytest.mark.parametrize("before", range(1, 12))
def test_a_small_batch_grows_across_a_turn_of_the_clock(before):
    times = [(1 << 28) - before + at for at in (0, 5, 10, 15)]
    calm = HyperCalm(60_000, 10, 20, 5, batch_size=4)
    calm.update(["a"] * 4, times)
    assert calm.top().num_rows == 0
    calm.update(["a"] * 4, [time + 100 for time in times])
    row = calm.top().to_pylist()[0]
    assert row["interval_low"] <= 100 < row["interval_high"]


SPANS = {"of stamps": 10 << 29, "2^31 slices": 10 << 31, "of ticks": 1 << 32, "of epochs": 1 << 63}


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"consecutive": True}])
def test_a_jump_of_a_clocks_whole_range_is_seen(span, options):
    """What came before such a jump would look as young as what comes after it."""
    size = options.get("batch_size", 1)
    beats = [beat + event for beat in (0, 40, 80) for event in range(size)]
    start = -(1 << 63) + 1
    for shift in (0, 3, 40):
        times = [start + at for at in beats] + [start + span - shift + at for at in beats]
        calm = HyperCalm(60_000, 10, 7, 200, bins="floor", **options)
        calm.update(["a"] * len(times), times)
        row = calm.top(1).to_pylist()[0]
        assert calm.top().num_rows == 1
        assert row["interval_low"] == 35
        assert row["periodicity"] == (2 if options.get("consecutive") else 4)
        assert row["last_batch"] == times[-size]
        fresh = HyperCalm(60_000, 10, 7, 200, bins="floor", **options)
        fresh.update(["b", *["a"] * len(beats)], [start, *times[len(beats) :]])
        assert fresh.top(1).to_pylist()[0]["periodicity"] == 2


def test_coarse_ticks_miss_late_starts_but_invent_none():
    calm = HyperCalm(20_000, 1_000_000, 1_000_000, 50, bins="floor")
    assert calm.parameters.resolution == 123
    rng = np.random.default_rng(2)
    times = np.cumsum(rng.integers(0, 2_000_000, 3_000))
    items = rng.integers(0, 3, 3_000)
    calm.update(items, times)
    found = listed(calm, 1_000_000)
    true = exact(items.tolist(), times.tolist(), 1_000_000, 1_000_000)
    assert abs(found.total() - true.total()) <= 3
    assert sum(abs(found[pair] - true[pair]) for pair in true | found) <= 12


def test_bad_input_is_refused_and_changes_nothing():
    calm = HyperCalm(10_000, 10, 20, 5)
    calm.update(["a", "b", "a"], [1, 1, 30])
    before = calm.to_bytes()
    with pytest.raises(BadArgument, match="position 1: 29 after 31"):
        calm.update(["a", "b"], [31, 29])
    with pytest.raises(BadArgument, match="position 0: 29 after 30"):
        calm.update(["a"], [29])
    for items, times in (([1], [40]), ([b"a"], [40]), (["a", None], [40, 41]), (["a"], [40, 41]),
                         (["a"], [1.5]), (["a"], ["x"]), ([1.5], [40])):  # fmt: skip
        with pytest.raises(BadArgument):
            calm.update(items, times)
    assert calm.to_bytes() == before
    calm.update([], [])
    calm.update(pa.array([], pa.int64()), pa.array([], pa.timestamp("us")))
    assert calm.to_bytes() == before
    calm.update(["a", "a"], [30, 30])
    with pytest.raises(BadArgument, match="k=6"):
        calm.top(6)
    good = {"memory": 10_000, "gap": 10, "interval_unit": 20, "k": 5}
    for wrong in ({"gap": 0}, {"gap": -1}, {"interval_unit": 0}, {"interval_unit": -20},
                  {"k": 0}, {"k": -1}, {"memory": 0}, {"memory": -5}, {"gap": 1 << 45},
                  {"batch_size": 0}, {"bins": "round"}, {"resolution": 11}, {"seed": -1},
                  {"resolution": 0}, {"promote": 0}, {"queue_ways": 9}, {"item_bytes": 7},
                  {"recorder_percent": 100}, {"gap": 2.5}, {"interval_unit": 1 << 61},
                  {"gap": 1 << 30, "interval_unit": 1 << 30, "resolution": 1},
                  {"gap": 1 << 40, "interval_unit": 1 << 40, "resolution": 1 << 33}):  # fmt: skip
        with pytest.raises(BadArgument):
            HyperCalm(**(good | wrong))


@pytest.mark.parametrize("bins", ["joined", "floor"])
def test_the_coarsest_clock_over_all_of_time(bins):
    calm = HyperCalm(60_000, 1 << 44, 1 << 44, 5, bins=bins, resolution=1 << 32)
    calm.update([*"baaaab"], [-(2**63), -(2**63), -(2**62), 0, 2**62, 2**63 - 1])
    (row,) = (row for row in calm.top().to_pylist() if row["item"] == "a")
    assert (row["interval"], row["periodicity"], row["last_batch"]) == (2**62, 3, 2**62)
    assert row["interval_low"] <= 2**62 < row["interval_high"]


@pytest.mark.parametrize("k", [1, 5, 1_000])
def test_the_least_memory_is_named_and_works(k):
    with pytest.raises(BadArgument, match=r"give at least \d+ bytes") as problem:
        HyperCalm(100, 10, 20, k)
    least = int(str(problem.value).split("at least ")[1].split()[0])
    calm = HyperCalm(least, 10, 20, k)
    calm.update(np.arange(500) % 7, np.arange(500) * 5)
    assert calm.nbytes <= least
    with pytest.raises(BadArgument, match="too small"):
        HyperCalm(least - 1, 10, 20, k)


@pytest.mark.parametrize("options", [{}, {"consecutive": True}, {"batch_size": 2, "promote": 3}])
def test_damaged_bytes_are_refused_and_never_crash(options):
    rng = random.Random(13)
    calm = HyperCalm(1_500, 10, 20, 6, item_bytes=8, **options)
    noise = np.random.default_rng(1)
    calm.update([f"i{x}" for x in noise.integers(0, 90, 900)], np.cumsum(noise.integers(0, 9, 900)))
    blob, accepted = calm.to_bytes(), 0
    assert not [*readable(HyperCalm, spoilt(blob, 1_200, rng))]
    for bad, made in readable(HyperCalm, resealed(blob, 600, rng, 700)):
        accepted += 1
        assert made.to_bytes() == bad
        made.top()
        if made.item_type == "string" and made.last_time <= 1 << 62:
            times = made.last_time + np.arange(100) * 3
            made.update([f"i{x}" for x in noise.integers(0, 90, 100)], times)
            made.top()
    assert accepted > 0


def test_golden_bytes():
    data = GOLDEN.read_bytes()
    calm = HyperCalm.from_bytes(data)
    assert calm.to_bytes() == data
    items, times = noisy_stream(n=3_000)
    fresh = HyperCalm(4_000, 50, 100, 8, seed=9)
    fresh.update(items, times)
    assert fresh.to_bytes() == data
