"""Numbered bytes: the same summary, read and merged as from canonical ones, and hardened."""

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, golden
from hypothesis import given
from hypothesis import strategies as st
from vector_matrix_oracle import quick, refused_or_sound

from muntin.errors import CorruptSummary, SummaryOverflow
from muntin.summaries import VectorMatrix
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.vector_matrix import numbered

KEYS = ["driver", ("driver", "area", "flag"), "day", "at", "nothing"]
INDICATORS = {"time": "int64", "fare": "float64", "empty": None}

rows = st.lists(
    st.tuples(
        st.sampled_from([None, "", "a", "b", "żółw", "a string beyond a few words", "c" * 70]),
        st.sampled_from([None, 0, -1, 300, 70_000, -(1 << 40), (1 << 63) - 1]),
        st.sampled_from([None, True, False]),
        st.integers(-3, 3),
        st.one_of(st.none(), st.integers(-(1 << 40), 1 << 40)),
        st.one_of(st.none(), st.floats(-1e6, 1e6)),
    ),
    min_size=1,
    max_size=40,
)


def batch(found: list) -> pa.Table:
    driver, area, flag, day, time, fare = zip(*found, strict=True)
    return pa.table(
        {
            "driver": pa.array(driver, pa.string()),
            "area": pa.array(area, pa.int64()),
            "flag": pa.array(flag, pa.bool_()),
            "day": pa.array(day, pa.int32()).view(pa.date32()),
            "at": pa.array([d * 10**15 for d in day], pa.int64()).view(pa.timestamp("us")),
            "nothing": pa.nulls(len(day)),
            "time": pa.array(time, pa.int64()),
            "fare": pa.array(fare, pa.float64()),
            "empty": pa.nulls(len(day)),
        }
    )


def summary_of(*parts: list, indicators=INDICATORS) -> VectorMatrix:
    summary = VectorMatrix(KEYS, indicators, capacity=9)
    for part in parts:
        summary.update(batch(part))
    summary.merge(VectorMatrix(KEYS, indicators, capacity=9))  # few rows are not numbered otherwise
    return summary


@given(rows, rows)
def test_says_what_canonical_bytes_say(one, two):
    summary, other = summary_of(one, two), summary_of(two)
    read = VectorMatrix.from_bytes(quick(summary))
    assert read.to_bytes() == summary.to_bytes()
    assert quick(read) == quick(summary)
    assert read.capacity == 9
    assert read.nulls == summary.nulls
    whole = VectorMatrix.merged([read, VectorMatrix.from_bytes(quick(other))])
    expected = VectorMatrix.merged([summary, other])
    for key in summary.keys:
        assert whole.table(key).drop_columns("fare") == expected.table(key).drop_columns("fare")
    read.subtract(VectorMatrix.from_bytes(quick(summary)))
    assert set(read.rows().values()) == {0}


def test_what_only_canonical_bytes_can_say():
    summary = summary_of([("a", 1, True, 0, 5, 1.0), ("b", 1, True, 0, 5, 1.0)])
    part = summary_of([("a", 1, True, 0, 5, 1.0)])
    gone = summary.copy()
    gone.subtract(part)
    assert gone.to_numbered_bytes() is None
    summary.add_indicator("late", "int64")
    assert summary.to_numbered_bytes() is None
    assert VectorMatrix(KEYS, INDICATORS).to_numbered_bytes() is None


@pytest.mark.parametrize("size", [1, 2, 3, 511, 512, 513, 2000])
def test_columns_of_every_width(size):
    powers = [0, 1, -1, 127, 128, -128, -129, 32767, 32768, -32769, 2**31 - 1, 2**31, -(2**31) - 1]
    found = [(f"driver {i}", i, None, 0, powers[i % len(powers)], 0.1) for i in range(size)]
    for largest in range(1, len(powers)):
        part = [(d, a, f, g, min(t, powers[largest], key=abs), x) for d, a, f, g, t, x in found]
        summary = summary_of(part)
        assert VectorMatrix.from_bytes(quick(summary)).to_bytes() == summary.to_bytes()


def test_the_sums_it_reads_are_bounded():
    most = (1 << 63) - 10
    summary = summary_of([("a", 1, True, 0, most, 1.0)])
    read = VectorMatrix.from_bytes(quick(summary))
    with pytest.raises(SummaryOverflow, match="time"):
        read.merge(summary)
    assert read.to_bytes() == summary.to_bytes()


def test_damage_is_refused():
    rng = np.random.default_rng(3)
    found = [
        (f"d{i % 9}", int(i % 5), bool(i % 2), int(i % 3), int(rng.integers(-900, 900)), 0.5)
        for i in range(60)
    ]
    data = quick(summary_of(found))
    refused_or_sound(damaged(data, 2000))


def test_golden_bytes():
    found = [(f"d{i % 9}", i % 5 or None, bool(i % 2), i % 3, 7 * i - 50, i / 4) for i in range(60)]
    summary = summary_of(found)
    before_keys_were_derived = golden("vector_matrix_numbered-v1", lambda: quick(summary))
    data = golden("vector_matrix_numbered-v2", lambda: quick(summary))
    for known in (before_keys_were_derived, data):
        assert VectorMatrix.from_bytes(known).to_bytes() == summary.to_bytes()
    assert quick(summary) == data


def change(data: bytes, **parameters) -> bytes:
    found, body = unseal(data, numbered.KIND)
    return seal(numbered.KIND, found | parameters, bytes(body))


@pytest.mark.parametrize(
    "parameters",
    [
        {"values": [2, 1, 1, 1, 1, 2]},
        {"values": [10**9, 1, 1, 1, 1, 1]},
        {"values": [-1, 1, 1, 1, 1, 1]},
        {"nulls": [5, -1, -1, -1, -1, 0]},
        {"nulls": [-1, -1, -1, -1, -1, -1]},
        {"pairs": [7, 7]},
        {"pairs": [2]},
        {"text": []},
        {"text": [2, 0]},
        {"widths": []},
        {"widths": [3] * 40},
        {"count": 5},
        {"covered": [1, 2, 2, 2, 2]},
        {"large": [[0, 0]]},
        {"more": 1},
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters):
    data = quick(summary_of([("a", 1, True, 0, 5, 1.0), ("b", 1, True, 0, 5, 1.0)]))
    with pytest.raises(CorruptSummary):
        VectorMatrix.from_bytes(change(data, **parameters))
