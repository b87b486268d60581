"""Summaries by key against one summary a key, fed by hand."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, golden
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries.count_min import CountMin
from muntin.summaries.distinct import Distinct
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.keyed import Keyed
from muntin.summaries.quantiles import KLL
from muntin.summaries.space_saving import SpaceSaving

rows = st.lists(
    st.tuples(st.sampled_from(["JFK", "EWR", "", None, "ü", "LGA"]), st.integers(0, 9)), max_size=60
)
KINDS = {
    "count_min": ({"width": 16, "depth": 2, "seed": 3}, CountMin),
    "space_saving": ({"capacity": 4}, SpaceSaving),
    "distinct": ({"lg_k": 4}, Distinct),
    "kll": ({"k": 8, "dtype": "int64"}, KLL),
}


def keyed(kind="count_min", by="origin", limit=100):
    return Keyed(kind, KINDS[kind][0], by=by, limit=limit)


def split(events):
    keys = pa.array([key for key, _ in events], pa.string())
    return keys, np.array([item for _, item in events], np.int64)


@settings(max_examples=60)
@given(rows, st.sampled_from(sorted(KINDS)), st.integers(1, 7), st.integers(0, 60))
def test_one_summary_a_key_and_nothing_lost(events, kind, limit, cut):
    parameters, make = KINDS[kind]
    summary = keyed(kind, limit=limit)
    for part in (events[:cut], events[cut:]):
        summary.update(*split(part))
    seen = list(dict.fromkeys(key for key, _ in events))
    for key in seen[:limit]:
        expected = make(**parameters)
        for part in (events[:cut], events[cut:]):
            items = [item for k, item in part if k == key]
            if items:
                expected.update(np.array(items, np.int64))
        assert summary.get(key).to_bytes() == expected.to_bytes()
        assert summary.complete(key)
    for key in seen[limit:]:
        assert summary.get(key) is None
        assert not summary.complete(key)
    assert summary.count == len(events)
    others = sum(key in seen[limit:] for key, _ in events)
    assert (summary.other.count if summary.other else 0) == others
    table = summary.table()
    assert table["count"].to_pylist() == [s.count for s in summary.summaries()]
    assert sum(table["count"].to_pylist()) == len(events)
    assert table["origin"].to_pylist() == seen[:limit] + [None] * (others > 0)
    assert [key for key, _ in summary.items()] == seen[:limit]
    again = Keyed.from_bytes(summary.to_bytes())
    assert again.to_bytes() == summary.to_bytes()
    assert again.count == len(events)


@settings(max_examples=60)
@given(rows, rows, st.integers(1, 7), st.sampled_from(["count_min", "distinct"]))
def test_merging(left, right, limit, kind):
    one, other = keyed(kind, limit=limit), keyed(kind, limit=limit)
    one.update(*split(left))
    other.update(*split(right))
    before = other.to_bytes()
    twin = one.copy()
    twin.merge(other)
    assert other.to_bytes() == before
    both = left + right
    assert twin.count == len(both)
    assert len(twin) <= limit
    for key, summary in twin.items():
        expected = KINDS[kind][1](**KINDS[kind][0])
        expected.update(np.array([item for k, item in both if k == key], np.int64))
        assert summary.count <= expected.count
        if twin.complete(key):
            assert summary.to_bytes() == expected.to_bytes()
    if len({key for key, _ in both}) <= limit:
        whole = keyed(kind, limit=limit)
        whole.update(*split(both))
        assert twin.to_bytes() == whole.to_bytes()
    assert Keyed.from_bytes(twin.to_bytes()).to_bytes() == twin.to_bytes()
    one.merge(one)
    assert one.count == 2 * len(left)


@settings(max_examples=60)
@given(st.lists(rows, min_size=1, max_size=5), st.integers(1, 7), st.sampled_from(sorted(KINDS)))
def test_merging_many_at_once(parts, limit, kind):
    given = []
    for events in parts:
        given.append(keyed(kind, limit=limit))
        given[-1].update(*split(events))
    before = [part.to_bytes() for part in given]
    at_once, in_turn = Keyed.merged(given), given[0].copy()
    for part in given[1:]:
        in_turn.merge(part)
    assert [part.to_bytes() for part in given] == before
    assert at_once.table().equals(in_turn.table())
    if kind in ("count_min", "distinct"):  # exact, whatever the order
        assert at_once.to_bytes() == in_turn.to_bytes()
    assert Keyed.from_bytes(at_once.to_bytes()).to_bytes() == at_once.to_bytes()
    at_once.update(["x"], [1])
    assert [part.to_bytes() for part in given] == before


def test_merging_many_that_differ():
    with pytest.raises(BadArgument, match="nothing"):
        Keyed.merged([])
    for other in (keyed("distinct"), keyed(by="dest"), keyed(limit=9), Keyed("count_min", by="x")):
        with pytest.raises(IncompatibleSummary):
            Keyed.merged([keyed(), other])
    with pytest.raises(IncompatibleSummary, match="KLL"):
        Keyed.merged([keyed(), KLL()])


def test_a_key_that_hides_in_the_other_is_not_complete():
    one, other = keyed(limit=1), keyed(limit=1)
    one.update(["a"], [1])
    other.update(["b", "a"], [1, 1])
    assert one.complete("a")
    one.merge(other)
    assert not one.complete("a")
    assert one.get("a").count == 1
    assert one.other.count == 2
    assert one.count == 3


def test_combinations_of_all_types():
    day = datetime.date(2026, 11, 21)
    moment = datetime.datetime(2026, 11, 21, 5, tzinfo=datetime.UTC)
    batch = pa.record_batch(
        {
            "s": pa.array(["a", "b", "a", None]).dictionary_encode(),
            "i": pa.array([1, 1, 1, 2], pa.int8()),
            "b": [True, False, True, None],
            "d": [day, day, day, None],
            "t": [moment, moment, moment, None],
            "item": ["x", "y", "z", "x"],
            "weight": [5, 6, 7, 8],
        }
    )
    summary = keyed(by=["s", "i", "b", "d", "t"])
    summary.update(batch, batch["item"], batch["weight"])
    assert len(summary) == 3
    key = ("a", 1, True, day, moment)
    assert summary.get(key).estimate(["x", "z"]).value.tolist() == [5, 7]
    assert summary.get((None, 2, None, None, None)).total == 8
    assert summary.get(("a", 2, True, day, moment)) is None
    assert next(iter(summary.items()))[0] == key
    again = Keyed.from_bytes(summary.to_bytes())
    assert again.table().equals(summary.table())
    assert again.to_bytes() == summary.to_bytes()
    again.update(batch, batch["item"], 3)
    assert again.get(key).total == 12 + 6
    with pytest.raises(BadArgument):
        summary.get("a")
    assert "5 keys" not in repr(summary)


def test_many_keys_in_large_batches():
    rng = np.random.default_rng(1)
    keys, items = rng.integers(0, 300, 20_000), rng.integers(0, 50, 20_000)
    summary = keyed("distinct", by="k", limit=70_000)
    summary.update(keys, items)
    small = keyed("distinct", by="k", limit=100)
    small.update(keys, items)
    for key in range(300):
        expected = Distinct(4)
        expected.update(items[keys == key])
        assert summary.get(key).to_bytes() == expected.to_bytes()
        kept = small.get(key)
        assert kept is None or kept.to_bytes() == expected.to_bytes()
    assert len(small) == 100
    assert small.count == 20_000


def test_nothing():
    summary = keyed()
    assert (summary.count, len(summary), list(summary.items())) == (0, 0, [])
    assert summary.table().num_rows == 0
    summary.update(pa.array([], pa.string()), np.array([], np.int64))
    assert summary.get("a") is None
    assert summary.complete("a")
    assert Keyed.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()
    assert summary.nbytes > 0


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (["a"], [[1, 2]]),
        ([1.5], [[1]]),
        (["a", "b"], [[1, None]]),
        (["a"], [["text"]]),
        (["a"], [[1], [-1]]),
        ({"destination": ["a"]}, [[1]]),
        (pa.array([b"\xff"]).view(pa.string()), [[1]]),
        ([1], [[1]]),
        (["a"], []),
    ],
)
def test_refused_updates_change_nothing(keys, values):
    summary = keyed("space_saving")
    summary.update(["a", "b"], [1, 2])
    before = summary.to_bytes()
    with pytest.raises((BadArgument, TypeError)):
        summary.update(keys, *values)
    assert summary.to_bytes() == before


@pytest.mark.parametrize(
    ("kind", "parameters", "by", "limit"),
    [
        ("keyed", {}, "a", 1),
        ("kll", {"width": 3}, "a", 1),
        ("count_min", {"width": 0}, "a", 1),
        ("count_min", {}, [], 1),
        ("count_min", {}, ["a", "a"], 1),
        ("count_min", {}, [1], 1),
        ("count_min", {}, "a", 0),
    ],
)
def test_impossible_parameters(kind, parameters, by, limit):
    with pytest.raises(BadArgument):
        Keyed(kind, parameters, by=by, limit=limit)


def test_only_alike_merge():
    summary = keyed()
    summary.update(["a"], [1])
    numbers = keyed()
    numbers.update([1], [1])
    for other in (
        keyed("distinct"),
        keyed(limit=5),
        keyed(by="other"),
        Keyed("count_min", {"width": 17, "depth": 2}, by="origin", limit=100),
        numbers,
        "sketch",
    ):
        before = summary.to_bytes()
        with pytest.raises(IncompatibleSummary):
            summary.merge(other)
        assert summary.to_bytes() == before


def example():
    summary = keyed("space_saving", by=["origin", "n"], limit=2)
    summary.update([pa.array(["JFK", None, "ü"]), pa.array([1, 2, None])], ["x", "y", "x"])
    return summary


def test_golden_bytes():
    data = golden("keyed-v1", lambda: example().to_bytes())
    assert Keyed.from_bytes(data).to_bytes() == data == example().to_bytes()
    assert Keyed.from_bytes(data).get(("JFK", 1)).top()["item"].to_pylist() == ["x"]


@pytest.mark.parametrize("kind", ["space_saving", "distinct"])
def test_damaged_bytes(kind):
    summary = keyed(kind, limit=2)
    summary.update(*split([("a", 1), (None, 2), ("b", 3), ("a", 4)]))
    data = summary.to_bytes()
    for size in range(0, len(data), 5):
        with pytest.raises(CorruptSummary):
            Keyed.from_bytes(data[:size])
    for blob in damaged(data, 1500):
        try:
            found = Keyed.from_bytes(blob)
        except CorruptSummary:
            continue
        assert found.to_bytes() == blob
        found.table()


@pytest.mark.parametrize(
    "change",
    [
        {"by": ["a", "a"]},
        {"by": [""]},
        {"by": "ab"},
        {"types": ["string"]},
        {"types": ["string", "float"]},
        {"types": ["string", None]},
        {"types": ["string", "bool"]},
        {"limit": 3},
        {"limit": 1},
        {"keys": 1},
        {"other": False},
    ],
)
def test_contradictions_are_found(change):
    parameters, body = unseal(example().to_bytes(), "keyed")
    with pytest.raises(CorruptSummary):
        Keyed.from_bytes(seal("keyed", parameters | change, bytes(body)))


def test_a_summary_of_other_parameters_is_found():
    one = Keyed("space_saving", {"capacity": 4}, by="k")
    two = Keyed("space_saving", {"capacity": 5}, by="k")
    for summary in (one, two):
        summary.update(["a"], ["x"])
    parameters, body = unseal(one.to_bytes(), "keyed")
    inner = [summary.get("a").to_bytes() for summary in (one, two)]
    forged = bytes(body).replace(inner[0], inner[1])
    with pytest.raises(CorruptSummary, match="parameters"):
        Keyed.from_bytes(seal("keyed", parameters, forged))
