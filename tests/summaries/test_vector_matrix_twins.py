"""Events in hash tables, rows that are derived, segments that wait: nobody can tell them apart."""

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muntin.errors import MuntinError, SummaryOverflow
from muntin.summaries import VectorMatrix

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
    """One summary as it is, and one that is written and read after all that happens."""

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
        self.eager = VectorMatrix.from_bytes(self.eager.to_bytes())
        assert said[0] == said[1]

    @rule(found=rows)
    def update(self, found):
        self.both(lambda summary: summary.update(batch(found)))

    @rule(found=rows)
    def refuse(self, found):
        """New values are numbered before a text is found to be broken."""
        more = batch([*found, ("new", 9, True, 3, 1, 1.0), ("worse", 10, True, 4, 1, 1.0)])
        broken = pa.array([b"new"] * (more.num_rows - 1) + [b"\xff"]).view(pa.string())
        self.both(lambda summary: summary.update(more.set_column(0, "a", broken)))

    @rule(found=rows)
    def go_beyond(self, found):
        """Sums in 128 bits, which come back."""
        for most in (MOST, -MOST):
            far = batch([*found, *[("new", 9, True, 3, most, 1.0)] * 2])
            self.both(lambda summary, far=far: summary.update(far))

    @rule(at=st.integers(0, 6))
    def ask(self, at):
        key = self.eager.keys[at % len(self.eager.keys)]
        try:
            found = self.lazy.table(key)
        except SummaryOverflow:
            return
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
        other = VectorMatrix(keys, INDICATORS)
        other.update(batch(found))
        self.both(lambda summary: summary.merge(other))

    @rule(found=rows)
    def subtract(self, found):
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

    @precondition(lambda self: hasattr(self, "eager"))
    @invariant()
    def nobody_can_tell(self):
        assert self.lazy.copy().to_bytes() == self.eager.to_bytes()


Twins.TestCase.settings = settings(stateful_step_count=12)
TestTwins = Twins.TestCase
