"""Space-Saving against exact counts and a plain Python reference."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, golden, readable
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary, SummaryOverflow
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.space_saving import CAPACITY_MAX, SpaceSaving

streams = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 50)), max_size=200)
capacities = st.sampled_from([1, 2, 5, 16, 100])
KINDS = {
    "string": lambda i: f"{'x' * (i % 13)}{i}",
    "binary": lambda i: b"\xff\x00" * (i % 9) + bytes([i]),
    "int64": lambda i: i - 20,
    "uint64": lambda i: 2**63 + i,
}
kinds = st.sampled_from(sorted(KINDS))


def as_array(items, kind):
    make = KINDS[kind]
    types = {"string": pa.string(), "binary": pa.binary()}
    return pa.array([make(item) for item in items], types.get(kind) or getattr(pa, kind)())


def fed(stream, capacity, kind="int64", seed=0):
    summary = SpaceSaving(capacity, seed)
    items, weights = [i for i, _ in stream], np.array([w for _, w in stream], np.int64)
    summary.update(as_array(items, kind), weights)
    return summary


class Reference:
    """The algorithm on a dict: insert at offset + weight, evict all but the largest in bulk."""

    def __init__(self, capacity):
        self.capacity, self.offset, self.entries = capacity, 0, {}

    def add(self, item, weight):
        if weight == 0:
            return
        if item in self.entries:
            self.entries[item][0] += weight
            return
        if len(self.entries) == 2 * self.capacity:
            ranked = sorted(self.entries.items(), key=lambda entry: -entry[1][0])
            self.offset = ranked[self.capacity][1][0]
            kept = {item for item, _ in ranked[: self.capacity]}
            self.entries = {i: entry for i, entry in self.entries.items() if i in kept}
        self.entries[item] = [self.offset + weight, self.offset]


def check_bounds(summary, truth, kind):
    make = KINDS[kind]
    total = sum(truth.values())
    assert summary.total == total
    assert summary.offset * (summary.capacity + 1) <= total
    asked = list(range(45))
    found = summary.estimate(as_array(asked, kind))
    counts = np.array([truth[i] for i in asked])
    assert found.confidence == 1.0
    assert (found.lower <= counts).all()
    assert (counts <= found.upper).all()
    assert (found.value == (found.lower + found.upper) // 2).all()
    assert (found.upper - found.lower <= summary.offset).all()
    for k in (1, 3, None):
        top = summary.top(k)
        size = len(top)
        kth = sorted(truth.values(), reverse=True)[:size][-1] if size and len(truth) >= size else 0
        by_item = {make(item): count for item, count in truth.items()}
        for row in top.to_pylist():
            assert row["lower"] <= by_item[row["item"]] <= row["upper"]
            assert row["value"] == (row["lower"] + row["upper"]) // 2
            if row["guaranteed"]:
                assert by_item[row["item"]] >= kth
        assert top["value"].to_pylist() == sorted(top["value"].to_pylist(), reverse=True)
    kept = set(summary.top()["item"].to_pylist())
    assert all(make(item) in kept for item, count in truth.items() if count > summary.offset)


@given(streams, capacities, kinds)
def test_bounds_hold(stream, capacity, kind):
    truth = Counter()
    for item, weight in stream:
        truth[item] += weight
    check_bounds(fed(stream, capacity, kind), truth, kind)


@given(streams, capacities, kinds)
def test_equals_the_reference_item_by_item(stream, capacity, kind):
    reference = Reference(capacity)
    for item, weight in stream:
        reference.add(item, weight)
    summary = fed(stream, capacity, kind)
    assert summary.offset == reference.offset
    expected = {
        KINDS[kind](item): (count, count - error)
        for item, (count, error) in reference.entries.items()
    }
    rows = summary.top().to_pylist()
    assert {row["item"]: (row["upper"], row["lower"]) for row in rows} == expected


@given(streams, capacities, kinds, st.lists(st.integers(0, 200), max_size=4))
def test_merging_keeps_the_bounds(stream, capacity, kind, cuts):
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    whole = SpaceSaving(capacity)
    for start, end in pairwise(edges):
        part = fed(stream[start:end], capacity, kind)
        before = part.to_bytes()
        whole.merge(part)
        assert part.to_bytes() == before
        assert SpaceSaving.from_bytes(whole.to_bytes()).to_bytes() == whole.to_bytes()
    truth = Counter()
    for item, weight in stream:
        truth[item] += weight
    assert whole.count == len(stream)
    check_bounds(whole, truth, kind)


@given(streams, capacities, kinds, st.integers(0, 200))
def test_batches_are_the_stream(stream, capacity, kind, cut):
    whole = fed(stream, capacity, kind)
    parts = fed(stream[:cut], capacity, kind)
    for item, weight in stream[cut:]:
        parts.update(as_array([item], kind), weight)
    assert parts.to_bytes() == whole.to_bytes()
    again = SpaceSaving.from_bytes(fed(stream[:cut], capacity, kind).to_bytes())
    again.update(as_array([i for i, _ in stream[cut:]], kind), [w for _, w in stream[cut:]])
    assert again.to_bytes() == whole.to_bytes()


def test_itself_can_be_merged():
    summary = fed([(i, i) for i in range(20)], 4)
    twin = summary.copy()
    summary.merge(summary)
    other = twin.copy()
    other.merge(twin)
    assert summary.to_bytes() == other.to_bytes()


def test_merging_many_panes():
    rng = np.random.default_rng(5)
    truth, whole = Counter(), SpaceSaving(64)
    for _ in range(100):
        items = np.minimum(rng.zipf(1.3, 500), 3000)
        truth.update(items.tolist())
        pane = SpaceSaving(64)
        pane.update(items)
        whole.merge(pane)
    for row in whole.top().to_pylist():
        assert row["lower"] <= truth[row["item"]] <= row["upper"]
    expected = [item for item, _ in truth.most_common(5)]
    assert whole.top(5)["item"].to_pylist() == expected


def test_long_and_short_texts():
    rng = np.random.default_rng(3)
    words = ["a" * n for n in range(60)] + ["b" * 5000, "", "ü" * 7]
    items = [words[i] for i in rng.integers(0, len(words), 4000)]
    summary = SpaceSaving(100)
    summary.update(items)
    assert summary.offset == 0
    assert {r["item"]: r["value"] for r in summary.top().to_pylist()} == Counter(items)
    assert summary.estimate(["", "c"]).value.tolist() == [Counter(items)[""], 0]
    assert summary.nbytes > 5000


def test_top_orders_ties_by_item():
    summary = SpaceSaving(10)
    summary.update(["c", "a", "b"])
    assert summary.top()["item"].to_pylist() == ["a", "b", "c"]
    assert summary.top(2)["guaranteed"].to_pylist() == [True, True]
    assert len(SpaceSaving(3).top(2)) == 0
    assert len(summary.top(np.int32(2))) == 2
    for k in (-1, True, 10**30):  # the last is beyond what Arrow takes
        with pytest.raises(BadArgument, match="k"):
            summary.top(k)


def test_integers_of_both_signs():
    summary = SpaceSaving(4)
    summary.update(np.array([1, 2, 2], np.int64))
    summary.update(np.array([2], np.uint8))
    assert summary.estimate(2).value.tolist() == [3]
    with pytest.raises(BadArgument, match="int64"):
        summary.update(np.array([2**63], np.uint64))
    assert summary.count == 4


def test_items_of_another_type_are_refused():
    summary = SpaceSaving(4)
    summary.update(["a"])
    before = summary.to_bytes()
    for items in ([1], [b"a"]):
        with pytest.raises(BadArgument, match="string"):
            summary.update(items)
        with pytest.raises(BadArgument):
            summary.estimate(items)
    other = SpaceSaving(4)
    other.update([1])
    for wrong in (other, SpaceSaving(5), SpaceSaving(4, seed=1), 7):
        with pytest.raises(IncompatibleSummary):
            summary.merge(wrong)
    assert summary.to_bytes() == before
    summary.merge(SpaceSaving(4))
    assert summary.to_bytes() == before
    empty = SpaceSaving(4)
    empty.merge(summary)
    assert empty.to_bytes() == before


def test_broken_text_is_refused():
    broken = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    summary = SpaceSaving(4)
    with pytest.raises(BadArgument, match="binary"):
        summary.update(broken)
    assert summary.to_bytes() == SpaceSaving(4).to_bytes()
    summary.update(broken.view(pa.binary()))
    parameters, body = unseal(summary.to_bytes(), "space_saving")
    with pytest.raises(CorruptSummary, match="UTF-8"):
        SpaceSaving.from_bytes(seal("space_saving", parameters | {"items": "string"}, bytes(body)))


def test_overflow_is_refused():
    summary = SpaceSaving(2)
    summary.update("a", 2**63 - 1)
    before = summary.to_bytes()
    for more in (lambda: summary.update("b"), lambda: summary.merge(summary)):
        with pytest.raises(SummaryOverflow):
            more()
    assert summary.to_bytes() == before


@pytest.mark.parametrize("wrong", [{"capacity": 0}, {"capacity": 1.0}, {"seed": -1}])
def test_impossible_parameters(wrong):
    with pytest.raises(BadArgument):
        SpaceSaving(**wrong)


def example():
    summary = SpaceSaving(capacity=3, seed=5)
    summary.update(["JFK", "EWR", "JFK", "", "ü", "BOS", "SFO", "JFK", "LAX", "EWR"])
    return summary


def test_golden_bytes():
    data = golden("space_saving-v2", lambda: example().to_bytes())
    assert SpaceSaving.from_bytes(data).to_bytes() == data == example().to_bytes()
    assert SpaceSaving.from_bytes(data).top(1)["item"].to_pylist() == ["JFK"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_damaged_bytes(kind):
    data = fed([(i * i % 19, i % 5) for i in range(60)], 5, kind).to_bytes()
    for size in range(0, len(data), 3):
        with pytest.raises(CorruptSummary):
            SpaceSaving.from_bytes(data[:size])
    other = fed([(3, 4), (50, 1), (60, 1)], 5, kind)
    for _, found in readable(SpaceSaving, damaged(data, 1500)):
        data = found.to_bytes()  # other frames of zstd say the same
        assert SpaceSaving.from_bytes(data).to_bytes() == data
        found.top(3)
        if found.parameters == other.parameters and found.total < 2**62:
            found.merge(other)
            found.update(other.top()["item"])


@pytest.mark.parametrize(
    "change",
    [
        {"total": 5},
        {"total": 0},
        {"events": 0},
        {"entries": 3},
        {"entries": 2**40, "capacity": CAPACITY_MAX},
        {"offset": 2**62},
        {"offset": 0},
        {"items": None},
        {"items": "int64"},
        {"capacity": 1},
        {"capacity": 30},
    ],
)
def test_contradictions_are_found(change):
    parameters, body = unseal(example().to_bytes(), "space_saving")
    with pytest.raises(CorruptSummary):
        SpaceSaving.from_bytes(seal("space_saving", parameters | change, bytes(body)))


def test_an_item_that_stands_twice_is_found():
    summary = SpaceSaving(4)
    summary.update(["ab", "cd"])
    parameters, body = unseal(summary.to_bytes(), "space_saving")
    with pytest.raises(CorruptSummary, match="twice"):
        SpaceSaving.from_bytes(
            seal("space_saving", parameters, bytes(body).replace(b"abcd", b"abab"))
        )
