"""docs/adding-a-kind.md: its code is run as it stands, and the kind is asked by SELECT."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import kinds
from muntin.assembly import maintenance
from muntin.errors import CorruptSummary
from muntin.segments import WHOLE, build, decode, encode, merge, registry
from muntin.select import functions
from muntin.session import Session
from muntin.spec import Pipeline
from tests.docs_samples import ROOT, samples_of
from tests.pipeline.support import SECOND, START, run

PAGE = ROOT / "docs" / "adding-a-kind.md"
SOURCES = "# src/"


@pytest.fixture(scope="module")
def mean() -> Iterator[Any]:
    """The kind's algebra, registered as the page does it; gone after these tests."""
    with pytest.MonkeyPatch.context() as patched:
        for known in (registry.KINDS, kinds.KINDS, functions.TABLE_FUNCTIONS):
            patched.setitem(known, "mean", None)  # so that it is taken away again
        for sample in samples_of(PAGE):
            first = sample.text.splitlines()[0]
            names: dict[str, Any] = {}
            if first.startswith(SOURCES):
                path = first.removeprefix(SOURCES).removesuffix(".py").removesuffix("/__init__")
                name = path.replace("/", ".")
                if name not in sys.modules:
                    patched.setitem(sys.modules, name, ModuleType(name))
                    names = sys.modules[name].__dict__
                else:  # rows for a file that is there
                    names = dict(sys.modules[name].__dict__)
            exec(compile(sample.text, sample.name, "exec"), names)  # noqa: S102 (our own page)
        yield sys.modules["muntin.segments.mean"]


def test_the_page_has_each_file_and_what_it_says_is_tried(mean: Any) -> None:
    shown = [sample.text.splitlines()[0] for sample in samples_of(PAGE)]
    assert [line for line in shown if not line.startswith(SOURCES)] == ["# try it"]
    assert shown[0] == "# src/muntin/segments/mean.py"
    assert registry.algebra_class("mean") is mean.Mean


VALUES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from("ab"),
        st.none() | st.floats(allow_nan=True, allow_infinity=True),
    ),
    min_size=1,
    max_size=60,
)


@given(VALUES, st.integers(0, 60), st.sampled_from((1, 2, WHOLE)))
def test_the_bounds_hold_however_events_are_cut(mean: Any, rows: Any, cut: int, step: int) -> None:
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    whole = merge([decode(encode(_segment(mean, part))) for part in parts], step)
    (table,) = whole.tables
    mean.Mean().check(table)
    answered = mean.Mean().answer(table, mean.MeanOf()).to_pylist()
    keys, slices = table.key_arrays()[0].to_pylist(), table.slice_of_row.tolist()
    told = {(slices[each["row"]], keys[each["row"]]): each for each in answered}
    exact: dict[Any, list[Fraction]] = {}
    for slice_, key, value in rows:
        if value is not None and abs(value) <= mean.VALUE_MAX:
            at = slice_ if step == 1 else 0 if step == WHOLE else slice_ // step
            exact.setdefault((at, key), []).append(Fraction(value))
    assert told.keys() == exact.keys()
    for name, values in exact.items():
        truth = sum(values) / len(values)
        assert Fraction(told[name]["lower"]) <= truth <= Fraction(told[name]["upper"])


def test_lies_are_refused(mean: Any) -> None:
    (table,) = _segment(mean, [(0, "a", 2.0), (0, "b", None)]).tables
    for name, lie in (("sum", [3.0, 1.0]), ("size", [np.inf, 0.0]), ("sum", [np.nan, 0.0])):
        states = {**table.states, name: np.array(lie)}
        with pytest.raises(CorruptSummary, match="mean"):
            mean.Mean().check(type(table)(**_fields(table) | {"states": states}))


def test_a_pipeline_keeps_it_and_select_asks_it(mean: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(maintenance, "SHRINK", 0)  # rolled up, though there is so little of it
    spec = Pipeline.of(
        {
            "name": "flights",
            "time": "time",
            "pane": "1 s",
            "rollups": ["10 s"],
            "summaries": {
                "delays": {"kind": "mean", "value": "delay", "by": "origin", "limit": 10},
                "all": {"kind": "mean", "value": "delay"},
            },
        }
    )
    fed = [
        [_flights((0, "JFK", 10.0), (12, "LGA", None), (40, "EWR", 1.5))],
        [_flights((1, "JFK", 30.0), (41, "EWR", 2.5), (42, "EWR", 1e300))],  # the first is late
    ]
    with run(spec, fed) as ingest:
        session = Session(ingest.ledger)
        found = session.sql("SELECT origin, value FROM mean(delays) FOR ALL ORDER BY origin")
        assert found.rows == [["EWR", 2.0], ["JFK", 20.0]]
        assert found.bounds["delays"]["nulls"] == 1
        (row,) = session.sql("SELECT value, lower, upper, confidence FROM mean(all) FOR ALL").rows
        assert row[1] <= 11.0 <= row[2]
        assert row[3] == 1.0
        assert ingest.progress.rejected == 1
        nothing = "SELECT origin, value FROM mean(delays) FOR '2001-01-01' TO '2001-01-02'"
        assert session.sql(nothing).rows == []
        assert ingest.ledger.pieces("delays", 10 * SECOND)


def _segment(mean: Any, rows: Any) -> Any:
    slices, keys, values = zip(*rows, strict=True)
    columns = {"key": pa.array(keys)}
    column = pa.array(values, pa.float64())
    return build(mean.Mean(), np.array(slices), [column], [("key",)], columns)


def _fields(table: Any) -> dict[str, Any]:
    return {name: getattr(table, name) for name in table.__dataclass_fields__}


def _flights(*rows: tuple[int, str, float | None]) -> pa.Table:
    times, origins, delays = zip(*rows, strict=True)
    return pa.table(
        {
            "time": pa.array([START + at * SECOND for at in times], pa.timestamp("us", "UTC")),
            "origin": origins,
            "delay": pa.array(delays, pa.float64()),
        }
    )
