"""A summary and the events without a value: none is lost."""

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, golden
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary, SummaryOverflow
from muntin.summaries import (
    KLL,
    CountMin,
    Distinct,
    Fingerprint,
    Keyed,
    SpaceSaving,
    VectorMatrix,
    WithNulls,
)
from muntin.summaries.envelope import seal
from muntin.summaries.with_nulls import absent

NAN = float("nan")
numbers = st.lists(st.one_of(st.none(), st.just(NAN), st.integers(-5, 5).map(float)), max_size=30)


def column(values):
    return pa.array(values, pa.float64())


def is_absent(value):
    return value is None or value != value


@given(st.lists(numbers, max_size=4))
def test_every_event_is_counted_once(parts):
    whole, merged = WithNulls(KLL()), WithNulls(KLL())
    for part in parts:
        whole.update(column(part))
        other = WithNulls(KLL())
        other.update(column(part))
        merged.merge(other)
    events = [value for part in parts for value in part]
    there = [value for value in events if not is_absent(value)]
    for summary in (whole, merged, WithNulls.from_bytes(merged.to_bytes()), merged.copy()):
        assert summary.count == len(events)
        assert summary.inner.count == len(there)
        assert summary.nulls == len(events) - len(there)
        assert summary.inner.max == max(there, default=None)
        assert WithNulls.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()


def test_rows_go_with_their_keys():
    summary = WithNulls(Keyed("kll", {}, by="origin"))
    batch = pa.record_batch({"origin": pa.array(["JFK", None, "EWR", "LGA"])})
    summary.update(column([1.0, 2.0, None, 3.0]), by=batch)
    assert {key: part.max for key, part in summary.inner.items()} == {
        "JFK": 1.0,
        None: 2.0,
        "LGA": 3.0,
    }
    assert (summary.count, summary.nulls) == (4, 1)


def test_a_row_with_one_null_of_several_is_left_out():
    summary = WithNulls(CountMin(track=4))
    summary.update(pa.array(["a", None, "a", "b"]), pa.array([1, 2, None, 4], pa.int64()))
    assert summary.inner.estimate(["a", "b"]).value.tolist() == [1, 4]
    assert (summary.count, summary.nulls) == (4, 2)


def test_what_is_absent():
    assert absent([pa.array([1, 2])]) is None
    assert absent([pa.array(["a", None]), pa.array([1, 2])]).tolist() == [False, True]
    assert absent([column([1.0, NAN, None])]).tolist() == [False, True, True]
    assert absent([pa.nulls(2)]).tolist() == [True, True]
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert absent([hidden]).tolist() == [False, True, True]
    assert absent([pa.array(["a", "b"]).dictionary_encode()]) is None


def test_merged_at_once():
    parts = []
    for start in range(5):
        part = WithNulls(KLL())
        part.update(column([float(start), None]))
        parts.append(part)
    before = [part.to_bytes() for part in parts]
    whole = WithNulls.merged(parts)
    assert (whole.count, whole.nulls, whole.inner.max) == (10, 5, 4.0)
    assert [part.to_bytes() for part in parts] == before


@pytest.mark.parametrize("number", [1, 2, 16, 17, 300])
def test_many_merged_are_the_whole_in_their_order(number):
    whole, heavy = WithNulls(SpaceSaving(500)), []
    for at in range(number):
        part = WithNulls(SpaceSaving(500))
        for summary in (part, whole):
            summary.update(pa.array([f"i{at}", f"i{at // 2}", None]))
        heavy.append(part)
    before = [part.to_bytes() for part in heavy]
    assert WithNulls.merged(heavy).to_bytes() == whole.to_bytes()
    assert [part.to_bytes() for part in heavy] == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WithNulls(VectorMatrix(["a"])), BadArgument, "VectorMatrix"),
        (lambda: WithNulls(KLL(), -1), BadArgument, "nulls=-1"),
        (lambda: WithNulls(KLL()).update(), BadArgument, "needs values"),
        (lambda: WithNulls.merged([]), BadArgument, "nothing"),
        (lambda: WithNulls(KLL()).merge(KLL()), IncompatibleSummary, "KLL"),
        (lambda: WithNulls(KLL()).merge(WithNulls(Distinct())), IncompatibleSummary, "distinct"),
        (lambda: WithNulls(KLL()).merge(WithNulls(KLL(k=100))), IncompatibleSummary, "k=100"),
        (lambda: WithNulls(KLL(), 2**63 - 1).skip(1), SummaryOverflow, "int64"),
    ],
)
def test_named_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_refused_update_counts_nothing():
    summary = WithNulls(SpaceSaving(4))
    with pytest.raises(BadArgument):
        summary.update(column([1.5, None]))
    assert (summary.count, summary.nulls) == (0, 0)


def some():
    summary = WithNulls(KLL(seed=0), nulls=7)
    summary.update(column(np.random.default_rng(1).normal(size=1000)))
    return summary


def test_golden_bytes():
    data = golden("with_nulls-v1", lambda: some().to_bytes())
    assert WithNulls.from_bytes(data).to_bytes() == data == some().to_bytes()


def test_damaged_bytes_are_refused_or_sound():
    refused = 0
    for case in damaged(some().to_bytes(), 3000):
        try:
            summary = WithNulls.from_bytes(case)
        except CorruptSummary:
            refused += 1
        else:
            assert summary.to_bytes() == case
    assert refused > 1500


@pytest.mark.parametrize("inner", [VectorMatrix(["a"]), WithNulls(KLL())])
def test_another_kind_within_is_refused(inner):
    with pytest.raises(CorruptSummary, match="cannot stand here"):
        WithNulls.from_bytes(seal("with_nulls", {"nulls": 0}, inner.to_bytes()))


def test_counts_stay_in_int64():
    inner = Fingerprint(10, 0.01)
    inner.update(["a"])
    data = seal("with_nulls", {"nulls": 2**63 - 1}, inner.to_bytes())
    with pytest.raises(CorruptSummary, match="more events"):
        WithNulls.from_bytes(data)
