"""Count-Min against exact counts."""

import math
from collections import Counter

import numpy as np
import psutil
import pyarrow as pa
import pytest
from damage import damaged, golden, readable
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary, SummaryOverflow
from muntin.segments.streams import _ENTRIES
from muntin.summaries.count_min import CELLS_MAX, CountMin
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.kernels.count_min import noise
from muntin.summaries.space_saving import SpaceSaving

INT32_MAX = 2**31 - 1
streams = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1000)), max_size=150)
shapes = st.sampled_from(
    [
        {"width": 2, "depth": 1},
        {"width": 8, "depth": 3},
        {"width": 8, "depth": 3, "conservative": True},
        {"width": 64, "depth": 4, "cells": "int32", "seed": 2**64 - 1},
        {"width": 5, "depth": 2, "track": 3},
    ]
)


def exact(stream):
    counts = Counter()
    for item, weight in stream:
        counts[f"i{item}"] += weight
    return counts


def fed(stream, **parameters):
    sketch = CountMin(**parameters)
    sketch.update([f"i{item}" for item, _ in stream], np.array([w for _, w in stream], np.int64))
    return sketch


@given(streams, shapes)
def test_never_below_the_truth(stream, parameters):
    sketch = fed(stream, **parameters)
    truth = exact(stream)
    asked = [f"i{i}" for i in range(40)]
    found = sketch.estimate(asked)
    counts = np.array([truth[item] for item in asked])
    assert (counts <= found.upper).all()
    assert (found.lower >= 0).all()
    assert ((found.lower <= found.value) & (found.value <= found.upper)).all()
    assert (found.upper - found.lower <= sketch.error).all()
    assert sketch.total == sum(truth.values())
    assert sketch.count == len(stream)


@given(streams, st.sampled_from([False, True]))
def test_what_is_tracked_brings_an_estimate_within_its_bounds(stream, conservative):
    sketch = fed(stream, width=5, depth=2, track=3, conservative=conservative)
    listed = SpaceSaving(3)
    listed.update([f"i{item}" for item, _ in stream], [weight for _, weight in stream])
    asked = [f"i{i}" for i in range(40)]
    found, certain, truth = sketch.estimate(asked), listed.estimate(asked), exact(stream)
    assert (found.lower >= certain.lower).all()
    assert (found.upper <= certain.upper).all()
    assert ((found.lower <= found.value) & (found.value <= found.upper)).all()
    assert (found.upper >= [truth[item] for item in asked]).all()
    if not listed.offset:
        assert found.value.tolist() == [truth[item] for item in asked]
        assert (found.lower == found.upper).all()
        assert found.confidence == 1.0


def test_what_is_asked_in_another_type_than_is_tracked_is_answered_by_the_cells():
    sketch = CountMin(width=64, track=2)
    sketch.update([7, 7, 8])
    assert sketch.estimate([7]).value == 2
    for other in (["seven"], [2**63]):
        assert sketch.estimate(other).upper <= 3
        assert sketch.estimate(other).confidence < 1


@given(streams, shapes, st.data())
def test_batches_are_the_stream_and_merging_is_the_whole(stream, parameters, data):
    cut = data.draw(st.integers(0, len(stream)))
    whole = fed(stream, **parameters)
    left, right = fed(stream[:cut], **parameters), fed(stream[cut:], **parameters)
    before = right.to_bytes()
    twin = left.copy()
    left.merge(right)
    assert right.to_bytes() == before
    asked = [f"i{i}" for i in range(31)]
    truth = exact(stream)
    if parameters.get("conservative"):
        assert (left.estimate(asked).upper >= [truth[item] for item in asked]).all()
        assert (left.total, left.count) == (whole.total, whole.count)
    elif "track" not in parameters:
        assert left.to_bytes() == whole.to_bytes()
    else:
        assert (left._of_cells(asked).value == whole._of_cells(asked).value).all()
    for item, weight in stream[cut:]:
        twin.update(f"i{item}", weight)
    assert twin.to_bytes() == whole.to_bytes()


@given(streams, shapes)
def test_bytes_round_trip(stream, parameters):
    sketch = fed(stream, **parameters)
    again = CountMin.from_bytes(sketch.to_bytes())
    assert again.to_bytes() == sketch.to_bytes()
    again.update(["more", "i1"], [3, 4])
    assert again.count == sketch.count + 2
    sketch.update(["more", "i1"], [3, 4])
    assert again.to_bytes() == sketch.to_bytes()


@pytest.mark.parametrize("conservative", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_the_bound_holds_as_often_as_it_says(conservative, depth):
    """Over many seeds, with the worst load: all items equally heavy."""
    broken = asked = 0
    items = np.arange(2000)
    for seed in range(60):
        sketch = CountMin(256, depth, conservative=conservative, seed=seed)
        sketch.update(items)
        found = sketch.estimate(items)
        broken += int((found.lower > 1).sum())
        asked += len(items)
    assert broken / asked <= math.exp(-depth)
    assert sketch.confidence == pytest.approx(1 - math.exp(-depth))


def test_rows_are_independent():
    """Items that share a cell in one row share one in another as rarely as any two."""
    width, items = 64, np.arange(4000)
    rows = []
    for row in range(4):
        sketch = CountMin(width, 4)
        at = np.empty(len(items), np.int64)
        for item in range(len(items)):
            sketch._cells[:] = 0
            sketch.update(items[item : item + 1])
            at[item] = int(np.flatnonzero(sketch._cells[row])[0])
        rows.append(at)
    for i in range(4):
        counts = np.bincount(rows[i], minlength=width)
        chi = ((counts - len(items) / width) ** 2 / (len(items) / width)).sum()
        assert chi < 130  # 63 degrees of freedom: 5 sigma is 119
        for j in range(i):
            pairs = np.bincount(rows[i] * width + rows[j], minlength=width * width)
            chi = ((pairs - len(items) / width**2) ** 2 / (len(items) / width**2)).sum()
            assert abs(chi - (width**2 - 1)) < 6 * math.sqrt(2 * width**2)


def test_for_error():
    sketch = CountMin.for_error(0.001, 0.01, conservative=True, seed=3)
    assert (sketch.width, sketch.depth, sketch.seed) == (2719, 5, 3)
    sketch.update(np.zeros(100_000, np.int64))
    assert sketch.error <= 100 + 1
    assert CountMin.for_error(0.9, 0.9).depth == 1


def test_conservative_update_is_closer():
    rng = np.random.default_rng(1)
    items = np.minimum(rng.zipf(1.2, 50_000), 10**6)
    plain, careful = CountMin(512, 4), CountMin(512, 4, conservative=True)
    plain.update(items)
    careful.update(items)
    kept = np.unique(items)
    assert (careful.estimate(kept).upper <= plain.estimate(kept).upper).all()
    assert careful.estimate(kept).upper.sum() < 0.7 * plain.estimate(kept).upper.sum()


@pytest.mark.parametrize("exponent", [1.05, 1.2, 1.5])
def test_what_others_add_is_taken_off(exponent):
    rng = np.random.default_rng(3)
    items = np.minimum(rng.zipf(exponent, 100_000), 10**6)
    sketch = CountMin(256, 5)
    sketch.update(items)
    asked, truth = np.unique(items, return_counts=True)
    absent = np.arange(2_000_000, 2_010_000)
    for names, counts in ((asked, truth), (absent, np.zeros(len(absent), int))):
        found = sketch.estimate(names)
        assert np.abs(found.value - counts).mean() < 0.4 * (found.upper - counts).mean()
    # the median: of one half it is too much, of the other too little
    assert abs(np.mean(sketch.estimate(absent).upper > noise(sketch._cells.ravel(), 5)) - 0.5) < 0.1


@given(shapes, st.integers(1, 2**62) | st.just(2**63 - 1))
def test_of_one_item_alone_nothing_is_taken_off(parameters, weight):
    sketch = fed([(1, weight)], **parameters)
    found = sketch.estimate("i1")
    assert 0 <= found.lower[0] <= found.value[0] <= found.upper[0] == weight
    assert sketch.error <= weight
    if parameters.get("cells") != "int32":
        assert found.value[0] == weight


def test_int32_cells_saturate_and_say_so():
    sketch = CountMin(128, 3, cells="int32")
    sketch.update(["a", "b"], [INT32_MAX - 1, 5])
    assert not sketch.saturated
    other = sketch.copy()
    sketch.update("a", 10**12)
    found = sketch.estimate(["a", "b"])
    assert sketch.saturated
    assert found.value[0] == INT32_MAX
    assert found.upper[0] == sketch.total == INT32_MAX - 1 + 5 + 10**12
    assert found.lower[0] <= INT32_MAX - 1 + 10**12
    assert found.value[1] == found.upper[1] == 5
    assert CountMin.from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()
    other.merge(sketch)
    assert other.saturated
    assert other.nbytes == 128 * 3 * 4
    careful = CountMin(16, 3, cells="int32", conservative=True)
    careful.update("a", 10**12)
    assert careful.saturated
    assert careful.estimate("a").upper[0] == 10**12


def test_overflow_is_refused_before_anything_changes():
    sketch = CountMin(4, 2, track=2)
    sketch.update("a", 2**63 - 1)
    before = sketch.to_bytes()
    with pytest.raises(SummaryOverflow, match=r"beyond 2\^63 - 1"):
        sketch.update(["b"])
    with pytest.raises(SummaryOverflow):
        sketch.merge(sketch.copy())
    assert sketch.to_bytes() == before
    with pytest.raises(SummaryOverflow):
        CountMin(4, 2).update(["a"] * 3, [2**62] * 3)


def test_top_keeps_the_items_with_certain_bounds():
    rng = np.random.default_rng(2)
    items = [f"item {i}" for i in np.minimum(rng.zipf(1.3, 20_000), 5000)]
    truth = Counter(items)
    sketch = CountMin(1024, 4, track=50)
    for start in range(0, len(items), 3000):
        sketch.update(items[start : start + 3000])
    top = sketch.top(10)
    assert top.column_names == ["item", "value", "lower", "upper", "guaranteed"]
    rows = top.to_pylist()
    assert [row["item"] for row in rows[:5]] == [item for item, _ in truth.most_common(5)]
    for row in sketch.top().to_pylist():
        assert row["lower"] <= truth[row["item"]] <= row["upper"]
    tenth = sorted(truth.values(), reverse=True)[9]
    assert all(truth[row["item"]] >= tenth for row in rows if row["guaranteed"])
    assert rows[0]["guaranteed"]
    assert len(CountMin(4, 2, track=3).top()) == 0
    with pytest.raises(BadArgument, match="track"):
        CountMin(4, 2).top(3)


def test_spellings_of_items():
    texts = ["a", "bb", "a", "ü" * 30]
    expected = CountMin(32, 3, track=2)
    expected.update(texts)
    for spelled in (
        iter(texts),  # which can be read once
        pa.array(texts).dictionary_encode(),
        pa.chunked_array([texts[:2], texts[2:]]),
        pa.array(texts, pa.large_string()),
        pa.array(["x", *texts]).slice(1),
        np.array(texts),
    ):
        sketch = CountMin(32, 3, track=2)
        sketch.update(spelled)
        assert sketch.to_bytes() == expected.to_bytes()
    assert expected.estimate("a").value.tolist() == [2]
    assert expected.estimate([]).value.tolist() == []
    empty = CountMin(32, 3)
    empty.update([])
    assert empty.count == 0
    assert empty.estimate(["a"]).upper.tolist() == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 1},
        {"width": 2.0},
        {"depth": 0},
        {"depth": 33},
        {"width": CELLS_MAX, "depth": 2},
        {"cells": "int16"},
        {"seed": -1},
        {"track": -1},
        {"depth": True},
    ],
)
def test_impossible_parameters(wrong):
    with pytest.raises(BadArgument):
        CountMin(**wrong)


@pytest.mark.parametrize(
    ("items", "weights"),
    [
        (["a", None], None),
        ([1.5], None),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])), None),
        (["a"], [-1]),
        (["a"], [1, 2]),
        (["a"], [1.5]),
        (["a"], pa.array([None], pa.int64())),
        (["a"], np.array([2**63], np.uint64)),
        (["a"], [[1]]),
    ],
)
def test_refused_updates(items, weights):
    sketch = CountMin(8, 2, track=2)
    with pytest.raises(BadArgument):
        sketch.update(items, weights)
    assert sketch.to_bytes() == CountMin(8, 2, track=2).to_bytes()
    with pytest.raises(BadArgument):
        CountMin.for_error(1, 0.5)
    with pytest.raises(BadArgument):
        CountMin.for_error(0.1, 0)


def test_only_equal_parameters_merge():
    sketch = CountMin(8, 2)
    for other in (
        CountMin(9, 2),
        CountMin(8, 3),
        CountMin(8, 2, seed=1),
        CountMin(8, 2, conservative=True),
        CountMin(8, 2, cells="int32"),
        CountMin(8, 2, track=1),
        "a sketch",
    ):
        with pytest.raises(IncompatibleSummary):
            sketch.merge(other)


@pytest.mark.parametrize("cells", ["int64", "int32"])
def test_bytes_are_few(cells):
    """No more than a tenth above the cells' entropy, where they are no handful of values."""
    sketch = CountMin(cells=cells)
    sketch.update(np.random.default_rng(1).zipf(1.2, 100_000))
    _, times = np.unique(sketch._cells, return_counts=True)
    entropy = -(times * np.log2(times / times.sum())).sum() / 8
    assert len(sketch.to_bytes()) < 1.1 * entropy + 200
    assert len(CountMin(cells=cells).to_bytes()) < 250


def example():
    sketch = CountMin(width=16, depth=3, seed=9, track=4)
    sketch.update(["JFK", "EWR", "LGA", "JFK", "ü"], [1, 2, 3, 400, 70_000])
    sketch.update(["EWR"])
    return sketch


def test_golden_bytes():
    data = golden("count_min-v2", lambda: example().to_bytes())
    sketch = CountMin.from_bytes(data)
    assert sketch.to_bytes() == data == example().to_bytes()
    assert sketch.estimate(["JFK", "ü"]).value.tolist() == [401, 70_000]


@pytest.mark.parametrize(
    "sketch",
    [
        example(),
        fed([(i % 7, i) for i in range(50)], width=4, depth=2, conservative=True),
        fed([(1, 2**31)], width=4, depth=2, cells="int32"),
        CountMin(4, 2),
    ],
)
def test_damaged_bytes(sketch):
    data = sketch.to_bytes()
    for size in range(len(data)):
        with pytest.raises(CorruptSummary):
            CountMin.from_bytes(data[:size])
    accepted = 0
    for _, found in readable(CountMin, damaged(data, 2000)):
        again = found.to_bytes()  # other frames of zstd say the same
        assert CountMin.from_bytes(again).to_bytes() == again
        found.estimate(["JFK", "nobody"])
        found.merge(found.copy()) if found.total < 2**62 and found.count < 2**62 else None
        accepted += 1
    assert accepted < 2000


@pytest.mark.parametrize(
    "change",
    [
        {"total": 5},
        {"events": 0},
        {"width": CELLS_MAX, "depth": 32},
        {"width": 2**40},
        {"cell_bytes": 2},
        {"saturated": True},
        {"conservative": 1},
        {"track": 0},
        {"seed": 8},
    ],
)
def test_contradictions_are_found(change):
    parameters, body = unseal(example().to_bytes(), "count_min")
    with pytest.raises(CorruptSummary):
        CountMin.from_bytes(seal("count_min", parameters | change, bytes(body)))


def test_few_bytes_take_little_memory():
    """Whatever width they name: 100 bytes of a stranger are no reason to fill 128 MiB."""
    empty = CountMin(width=1 << 24, depth=1).to_bytes()
    parameters, body = unseal(empty, "count_min")
    line = np.frombuffer(body, _ENTRIES).copy()
    line["base"] = 1
    forged = seal("count_min", parameters | {"events": 1, "total": 1 << 24}, line.tobytes())
    before = psutil.Process().memory_info().rss
    with pytest.raises(CorruptSummary, match="16777216 numbers in 0 bytes"):
        CountMin.from_bytes(forged)
    with pytest.raises(CorruptSummary, match="not 16777216 zeros"):
        CountMin.from_bytes(seal("count_min", parameters, line.tobytes()))
    again = CountMin.from_bytes(empty)
    assert psutil.Process().memory_info().rss - before < 1 << 25
    again.update(["a"], 3)
    assert CountMin.from_bytes(again.to_bytes()).estimate("a").value[0] == 3


@pytest.mark.parametrize("cells", ["int64", "int32"])
def test_cells_that_have_less_than_a_tracked_item_are_refused(cells):
    """Its lower bound, which is said to be certain, would be above its upper one."""
    sketch = CountMin(64, 2, cells=cells, track=3)
    sketch.update(["a"] * 9 + ["b"], 2**30)
    assert CountMin.from_bytes(sketch.to_bytes()).estimate("a").lower[0] == 9 * 2**30
    sketch._cells = np.roll(sketch._cells, 1, axis=1)
    with pytest.raises(CorruptSummary, match="weighs more than its cells have"):
        CountMin.from_bytes(sketch.to_bytes())


def test_estimates_are_compared_by_what_they_say():
    sketch = CountMin()
    sketch.update(["a", "b"])
    assert sketch.estimate(["a", "b"]) == sketch.estimate(["b", "a"])
    assert sketch.estimate(["a", "b"]) != sketch.estimate(["a", "c"])
    assert sketch.estimate(["a", "b"]) != sketch.estimate(["a"])
    assert sketch.estimate("a") != 1
