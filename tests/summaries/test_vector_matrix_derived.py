"""Rows that are derived from a combination's: whatever happens, nobody can tell."""

import random
from collections.abc import Callable
from unittest.mock import patch

import pyarrow as pa
import pytest
from damage import damaged, golden
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from vector_matrix_oracle import quick, refused_or_sound

from muntin.errors import BadArgument, CorruptSummary, MuntinError, SummaryOverflow
from muntin.summaries import VectorMatrix
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.vector_matrix import grouping, indexes, numbered

KEYS = [("a",), ("b",), ("c",), ("a", "b"), ("a", "b", "c"), ("c", "b"), ("a", "d")]
INDICATORS = {"n": "int64", "x": "float64"}
MOST = (1 << 63) - 1

rows = st.lists(
    st.tuples(
        st.sampled_from([None, "", "p", "q"]),
        st.sampled_from([None, 0, 7, -(1 << 40)]),
        st.booleans(),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(-9, 9), st.sampled_from([1 << 61, -(1 << 61)])),
        st.integers(-40, 40).map(lambda quarters: quarters / 4),  # sums of them are exact
    ),
    max_size=12,
)


def batch(found: list) -> pa.Table:
    types = [pa.string(), pa.int64(), pa.bool_(), pa.int32(), pa.int64(), pa.float64()]
    columns = list(zip(*found, strict=True)) or [()] * 6
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table(dict(zip("abcdnx", arrays, strict=True)))


class Twins(RuleBasedStateMachine):
    """One summary that derives what it can, and one whose rows are all added to."""

    @initialize(keys=st.lists(st.sampled_from(KEYS), min_size=1, unique=True))
    def begin(self, keys):
        self.lazy, self.eager = VectorMatrix(keys, INDICATORS), VectorMatrix(keys, INDICATORS)

    def both(self, act):
        """Do the same to both; a refusal leaves both as they were."""
        said = []
        for summary in (self.lazy, self.eager):
            try:
                act(summary)
                said.append(None)
            except MuntinError as problem:
                said.append(str(problem))
        _ = self.eager._state.tables
        assert said[0] == said[1]

    @rule(found=rows)
    def update(self, found):
        with patch.object(grouping, "EVENTS_MAX", 0):  # else few events are not numbered
            self.both(lambda summary: summary.update(batch(found)))

    @rule(found=rows)
    def refuse(self, found):
        """New values are numbered before the sum of one is found to be beyond int64."""
        far = batch([*found, *[("new", 9, True, 3, MOST, 1.0)] * 2])
        with patch.object(grouping, "EVENTS_MAX", 0):
            self.both(lambda summary: summary.update(far))

    @rule(at=st.integers(0, 6))
    def ask(self, at):
        key = self.eager.keys[at % len(self.eager.keys)]
        found = self.lazy.table(key)
        assert found == self.eager.table(key)
        assert self.lazy.rows(key) == found.num_rows

    @rule()
    def ask_for_sizes(self):
        assert self.lazy.rows() == self.eager.rows()

    @rule()
    def copy(self):
        before = self.lazy
        self.lazy = before.copy()
        before.update(batch([("p", 1, True, 1, 1, 1.0)] * 2000))  # no memory is shared

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, unique=True), found=rows)
    def merge(self, keys, found):
        with patch.object(grouping, "EVENTS_MAX", 0):
            other = VectorMatrix(keys, INDICATORS)
            other.update(batch(found))
        self.both(lambda summary: summary.merge(other))

    @rule(found=rows)
    def subtract(self, found):
        with patch.object(grouping, "EVENTS_MAX", 0):
            part = VectorMatrix(self.eager.keys, INDICATORS)
            part.update(batch(found))
            self.both(lambda summary: summary.merge(part))
        self.both(lambda summary: summary.subtract(part))

    @rule(key=st.sampled_from(KEYS))
    def add_key(self, key):
        self.both(lambda summary: summary.add_key(key))

    @rule(key=st.sampled_from(KEYS))
    def remove_key(self, key):
        self.both(lambda summary: summary.remove_key(key))

    @rule()
    def change_indicators(self):
        self.both(lambda summary: summary.add_indicator("d2", "int64"))
        self.both(lambda summary: summary.remove_indicator("d2"))

    @rule()
    def read_back(self):
        self.lazy = VectorMatrix.from_bytes(self.lazy.to_bytes())

    @rule()
    def read_back_numbered(self):
        data = self.lazy.to_numbered_bytes()
        if data is not None:
            self.lazy = VectorMatrix.from_bytes(data)

    @precondition(lambda self: hasattr(self, "eager"))
    @invariant()
    def nobody_can_tell(self):
        assert self.lazy.copy().to_bytes() == self.eager.to_bytes()


Twins.TestCase.settings = settings(stateful_step_count=12)
TestTwins = Twins.TestCase


def numbered_events(events: int) -> VectorMatrix:
    """A summary that was not asked yet: `a` and `b` are in the rows of the pair alone."""
    summary = VectorMatrix([("a",), ("b",), ("a", "b")], INDICATORS)
    found = [(f"a{i % 9}", i % 5, True, 0, i % 6, i / 4) for i in range(events)]
    with patch.object(grouping, "EVENTS_MAX", 0):
        summary.update(batch(found))
    return summary


def changed(data: bytes, change: Callable[[bytearray], None] = lambda body: None, **new) -> bytes:
    """Bytes with other parameters, or another body before it was compressed."""
    parameters, packed = unseal(data, numbered.KIND)
    body = bytearray(numbered._ZSTD.decompress(packed, parameters["size"], asbytes=True))
    change(body)
    return seal(numbered.KIND, parameters | new, numbered._ZSTD.compress(bytes(body), asbytes=True))


def test_rows_that_can_be_derived_are_not_written():
    summary = numbered_events(400)
    data = quick(summary)
    read = VectorMatrix.from_bytes(data)
    assert read.to_bytes() == summary.to_bytes()  # which asks for all rows
    assert len(quick(summary)) > len(data)
    assert VectorMatrix.from_bytes(quick(summary)).to_bytes() == read.to_bytes()
    assert quick(read) == quick(summary)


def test_sums_that_are_derived_may_be_larger_than_those_that_are_read():
    summary = VectorMatrix([("a",), ("a", "b")], {"n": "int64"})
    with patch.object(grouping, "EVENTS_MAX", 0):
        summary.update(batch([("p", i, True, 0, 1 << 60, 0.0) for i in range(7)]))
    read = VectorMatrix.from_bytes(quick(summary))
    assert read.table("a").to_pylist() == [{"a": "p", "count": 7, "n": 7 << 60}]
    with pytest.raises(SummaryOverflow, match="key a, indicator 'n'"):
        read.merge(summary)
    assert read.to_bytes() == summary.to_bytes()


def test_a_value_that_no_event_came_to_have_is_not_there():
    before = numbered_events(100).to_bytes()
    summary = numbered_events(100)
    with patch.object(indexes, "ROWS_MAX", 128), pytest.raises(BadArgument, match="distinct"):
        summary.update(batch([(f"new {i}", 0, True, 0, 1, 0.0) for i in range(2000)]))
    assert summary.to_numbered_bytes() is None
    assert summary.to_bytes() == before
    assert summary.rows() == {("a",): 9, ("b",): 5, ("a", "b"): 45}


def test_derived_rows_that_do_not_fit_are_refused():
    data = quick(numbered_events(45))
    for wrong in (
        changed(data, derived=False),
        changed(data, derived=1),
        changed(data, count=46, indicators=[["n", "int64", 46, 0], ["x", "float64", 46, 0]]),
        changed(data, covered=[44, 45, 45]),
    ):
        with pytest.raises(CorruptSummary):
            VectorMatrix.from_bytes(wrong)
    assert VectorMatrix.from_bytes(changed(data)).count == 45


def test_derived_sums_beyond_their_range_are_refused():
    summary = VectorMatrix([("a",), ("a", "b")], {"n": "int64"})
    with patch.object(grouping, "EVENTS_MAX", 0):
        summary.update(batch([("p", i, True, 0, 1 << 60, 0.0) for i in range(4)]))

    def grow(body: bytearray) -> None:
        body[-8 * 4 :] = (1 << 62).to_bytes(8, "little") * 4

    with pytest.raises(CorruptSummary, match="beyond int64"):
        VectorMatrix.from_bytes(changed(quick(summary), grow))


def test_damage_is_refused():
    data = quick(numbered_events(200))
    rng = random.Random(5)

    def hurt(body: bytearray) -> None:
        for _ in range(rng.randint(1, 3)):
            body[rng.randrange(len(body))] = rng.randrange(256)

    refused_or_sound(damaged(data, 500))
    refused_or_sound(changed(data, hurt) for _ in range(1500))


def test_golden_bytes():
    data = golden("vector_matrix_numbered-derived-v1", lambda: quick(numbered_events(300)))
    assert VectorMatrix.from_bytes(data).to_bytes() == numbered_events(300).to_bytes()
    assert quick(numbered_events(300)) == data
