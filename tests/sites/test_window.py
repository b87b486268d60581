"""A site's window, from a real ledger: what is late, what is empty, what began again."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muntin.errors import BadArgument
from muntin.ledger.sqlite_view import View
from muntin.ledger.temporary import temporary
from muntin.sites import follower
from muntin.sites.counts import FRAME_BYTES, NaiveCost, SiteCounts
from muntin.sites.follower import PaneReader
from muntin.sites.machine import SiteMachine
from muntin.sites.objects import ranked, type_of
from muntin.sites.units import Units
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from muntin.topk import Push, encode
from muntin.topk.objects import OBJECT_BYTES_MAX, Objects, check_object
from tests.pipeline.support import gather
from tests.sites.test_machine import Wired

SECOND = 1_000_000
UNIT, UNITS = 2 * SECOND, 3
START = 1_700_000_000 * SECOND


def pipeline(**sites):
    return Pipeline.of(
        {
            "name": "p",
            "time": "time",
            "pane": "1 second",
            "lateness": "1 second",
            "summaries": {
                "orders": {
                    "keys": ["item", ["item", "area"]],
                    "indicators": {"fare": "float64", "trips": "int64"},
                }
            },
            "sites": {
                "coordinator": "ws://127.0.0.1:1",
                "site": "north",
                "summary": "orders",
                "key": "item",
                "unit": "2 seconds",
                "window": "6 seconds",
            }
            | sites,
        }
    )


def table(rows):
    times, items, areas, fares, trips = zip(*rows, strict=True)
    return pa.table(
        {
            "time": pa.array([START + t * SECOND // 4 for t in times], pa.timestamp("us", "UTC")),
            "item": pa.array(items, pa.string()),
            "area": pa.array(areas, pa.int64()),
            "fare": pa.array(fares, pa.float64()),
            "trips": pa.array(trips, pa.int64()),
        }
    )


class Fed:
    """A ledger that a real pipeline feeds, and the site's half over it."""

    def __init__(self, spec, clock=lambda: 0.0, *, taking_part=False):
        self.spec = spec
        self.taking_part = taking_part
        self.ledger = temporary()
        self.events = []
        self.batches = 0
        self.ingest = None
        self.follower = PaneReader(self.ledger, spec, spec.sites, clock)
        self.machine = SiteMachine(spec.sites)
        self.wired = Wired(self.machine)
        self.begin("continue")

    def begin(self, mode):
        if self.ingest is not None:
            self.ingest.close()
        if mode == "overwrite":
            self.events, self.batches = [], 0
        self.ingest = Ingest(self.spec, self.ledger, query_id="q", mode=mode)

    def take(self, rows):
        self.ingest.take(self.batches, gather([table(rows)]))
        self.batches += 1
        self.events += rows

    def look(self):
        news = self.follower.look()
        if news is not None:
            said = self.machine.move(news, self.wired.now)
            if self.taking_part:
                self.wired.deliver(said)
                self.wired.pass_by(1)
        return news

    def values(self):
        objects = self.machine.monitor.objects
        return {
            name: value
            for name, value in zip(objects.names, objects.values.tolist(), strict=True)
            if value
        }

    def expected(self, key, value):
        """Exact sums of the events in the units of the window."""
        if self.machine.unit is None:
            return {}
        end = (self.machine.unit + 1) * UNIT
        found = Counter()
        for row in self.events:
            if end - UNITS * UNIT <= START + row[0] * SECOND // 4 < end:
                found[key(row)] += value(row)
        return {name: total for name, total in found.items() if total}


# time in quarters of a second, item, area, fare in quarters, trips
EVENT = st.tuples(
    st.integers(0, 200),
    st.sampled_from("abcd"),
    st.integers(0, 1),
    st.integers(0, 40).map(lambda n: n / 4),
    st.integers(-3, 3),
)
STEPS = st.lists(
    st.one_of(
        st.lists(EVENT, min_size=1, max_size=12),
        st.sampled_from(["continue", "overwrite", "look"]),
    ),
    max_size=14,
)


@pytest.mark.parametrize(
    ("entries", "key", "value"),
    [
        ({}, lambda r: r[1], lambda r: 1),
        ({"value": "trips"}, lambda r: r[1], lambda r: r[4]),
        ({"value": "fare", "scale": 4}, lambda r: r[1], lambda r: round(4 * r[3])),
        ({"key": ["area", "item"]}, lambda r: f'[{r[2]},"{r[1]}"]', lambda r: 1),
    ],
    ids=["count", "sums", "scaled", "combination"],
)
@settings(max_examples=25)
@given(steps=STEPS, taking_part=st.booleans())
def test_the_window_is_what_the_ledger_holds(entries, key, value, steps, taking_part):
    fed = Fed(pipeline(**entries), taking_part=taking_part)
    try:
        for step in steps:
            if step in ("continue", "overwrite"):
                fed.begin(step)
            elif step != "look":
                fed.take(step)
                if len(step) % 3 == 0:
                    continue  # the site looks seldom
            fed.look()
            if fed.batches:
                assert fed.values() == fed.expected(key, value)
                assert fed.look() is None
    finally:
        fed.ingest.close()


def test_what_is_read_is_of_one_moment(monkeypatch):
    """A batch after the watermark was read took it far on, and retention the panes before."""
    spec = pipeline()
    retention = spec.retention.model_copy(update={"panes": (UNITS + 1) * UNIT})
    fed = Fed(spec.model_copy(update={"retention": retention}))
    fed.take([(4 * second, "a", 0, 1.0, 1) for second in range(24)])
    pipeline_of, reader, asked = View.pipeline, threading.get_ident(), []

    def batch_after_it(view, name):
        info = pipeline_of(view, name)
        if threading.get_ident() == reader and not asked:  # merges run beside it
            asked.append(info.watermark)
            fed.ingest.take(1, gather([table([(1000, "b", 0, 1.0, 1)])]))
        return info

    monkeypatch.setattr(View, "pipeline", batch_after_it)
    fed.look()
    monkeypatch.undo()
    assert fed.ledger.pipeline("p").watermark > asked[0]
    assert fed.values() == fed.expected(lambda row: row[1], lambda row: 1) == {"a": UNITS * 2}
    fed.ingest.close()


@pytest.mark.parametrize("then", [40, 44, 60])
def test_what_comes_for_units_that_the_clock_brought_in_counts(then):
    """Once the watermark had passed them, they were never read again."""
    clock = [0.0]
    fed = Fed(pipeline(window="20 seconds", idle="1 second"), lambda: clock[0])
    fed.take([(0, "a", 0, 1.0, 1), (4 * 4, "a", 0, 1.0, 1)])
    fed.look()
    clock[0] = 6.0
    fed.look()
    moved = fed.machine.unit
    fed.take([(4 * 5, "b", 0, 1.0, 1), (4 * 7, "b", 0, 1.0, 1), (then, "c", 0, 1.0, 1)])
    fed.look()
    end = (fed.machine.unit + 1) * UNIT - START
    held = [row[1] for row in fed.events if end - 20 * SECOND <= row[0] * SECOND // 4 < end]
    assert fed.machine.unit >= moved
    assert fed.values() == Counter(held)
    assert fed.values()["b"] == 2
    fed.ingest.close()


@pytest.mark.parametrize("taking_part", [False, True])
def test_a_batch_of_many_units_leaves_those_before_in_the_window(monkeypatch, taking_part):
    """A site that took part anew knew of the units alone that were new."""
    monkeypatch.setattr(follower, "CATCH_UP_UNITS_MAX", 2)
    fed = Fed(pipeline(window="20 seconds"), taking_part=taking_part)
    for seconds in (range(19), range(19, 23), range(23, 39), range(39, 90)):
        fed.take([(4 * second, "a", 0, 1.0, 1) for second in seconds])
        fed.look()
        end = (fed.machine.unit + 1) * UNIT - START
        held = range(max(0, end // SECOND - 20), end // SECOND)
        assert fed.values() == {"a": len(held)}
    fed.ingest.close()


def test_nothing_is_sealed_at_first_and_units_without_events_pass():
    fed = Fed(pipeline())
    assert fed.look() is None
    fed.take([(0, "a", 0, 1.0, 1)])
    fed.look()
    assert fed.values() == {}
    fed.take([(40, "b", 0, 1.0, 1)])  # second 10, sealed until second 9
    news = fed.look()
    assert news.to == (START + 8 * SECOND) // UNIT - 1
    assert fed.values() == {}
    fed.ingest.close()


def test_idle_moves_the_window_with_the_clock():
    now = [0.0]
    fed = Fed(pipeline(idle="5 seconds"), clock=lambda: now[0])
    fed.take([(0, "a", 0, 1.0, 1), (12, "b", 0, 1.0, 1), (13, "b", 0, 1.0, 1)])
    fed.look()
    first = fed.machine.unit
    assert fed.values() == {"a": 1}
    now[0] = 5.0
    assert fed.look() is None
    now[0] = 7.5
    fed.look()
    assert fed.machine.unit == first + 2  # the 5 seconds are over since 2.5
    assert fed.values() == {"a": 1, "b": 2}
    fed.take([(14, "b", 0, 1.0, 1)])  # not late for the ledger: its pane was not sealed
    fed.look()
    assert fed.values() == {"a": 1, "b": 3}
    fed.ingest.close()


CELLS = st.dictionaries(st.integers(0, 5), st.integers(-4, 4)).map(
    lambda cells: (np.array(list(cells), np.int64), np.array(list(cells.values()), np.int64))
)


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 7), st.dictionaries(st.integers(-6, 7), CELLS))),
)
def test_units(length, moves):
    """Corrections, jumps and gaps, against a dict that keeps everything."""
    units, held, sums = Units(length), {}, np.zeros(6, np.int64)
    to = 100
    for step, given_cells in moves:
        cells = {to + at: new for at, new in given_cells.items()}
        oldest = (to if units.newest is None else units.newest) - length + 1
        to += step
        held |= {u: new for u, new in cells.items() if u <= to and u >= oldest}
        held = {u: new for u, new in held.items() if to - length < u}
        rows, changes = units.advance(to, cells)
        assert len(rows) == len(set(rows.tolist()))
        assert changes.all()
        sums[rows] += changes
        expected = np.zeros(6, np.int64)
        for rows, values in held.values():
            np.add.at(expected, rows, values)
        assert sums.tolist() == expected.tolist()
        assert units.newest == to
    if moves:
        with pytest.raises(ValueError, match="is before"):
            units.advance(to - 1, {})


@given(st.lists(st.text(max_size=300), unique=True, max_size=8))
def test_names_are_objects_and_stay_different(texts):
    rows = pa.table({"k": pa.array(texts, pa.string()), "count": [1] * len(texts)})
    names, values = ranked(rows, ("k",), "count", None)
    assert len(set(names)) == len(texts)
    for name in names:
        check_object(name)
    assert values.tolist() == [1] * len(texts)


@pytest.mark.parametrize("total", [2**51, 2**63 + 5, 2**64 - 5])
def test_sums_beyond_the_limit_are_no_small_ones(total):
    rows = pa.table({"k": ["a"], "fare": pa.array([total], pa.uint64())})
    with pytest.raises(BadArgument, match="'fare' has a sum beyond 2"):
        ranked(rows, ("k",), "fare", None)


def test_names_of_other_types():
    day = pa.array([1], pa.date32())
    both = pa.table({"a": ["x"], "b": [None], "d": day, "t": [True], "count": [2]})
    assert ranked(both, ("a", "b", "d", "t"), "count", None)[0] == ['["x",null,"1970-01-02",true]']
    assert ranked(both, ("t",), "count", None)[0] == ["True"]
    assert ranked(both, ("b",), "count", None)[0] == []  # no key, no rank
    coded = pa.table({"a": pa.array(["x", "y"]).dictionary_encode(), "count": [2, 0]})
    assert ranked(coded, ("a",), "count", None)[0] == ["x"]
    whole = pa.table({"a": [5, 2**63 - 1], "count": [1, 1]})
    assert ranked(whole, ("a",), "count", None)[0] == [5, 2**63 - 1]
    far = pa.table(
        {"a": pa.array([1, 1 << 30, -(1 << 30)], pa.date32()), "b": ["x"] * 3, "count": [1] * 3}
    )
    assert ranked(far, ("a",), "count", None)[0] == [
        "1970-01-02",
        "day 1073741824 since 1970",
        "day -1073741824 since 1970",
    ]
    assert ranked(far, ("a", "b"), "count", None)[0][1] == '["day 1073741824 since 1970","x"]'
    long = pa.table({"a": ["é" * 200, "é" * 201], "count": [1, 1]})
    names, _ = ranked(long, ("a",), "count", None)
    assert [len(name.encode()) <= OBJECT_BYTES_MAX for name in names] == [True, True]


@pytest.mark.parametrize(("values", "scale", "match"), [
    ([0.5], None, "scale: is missing"), ([2**51], None, "beyond 2"), ([1e300], 1e10, "not finite"),
    ([float("nan")], 1.0, "not finite"), ([2**50], 2.0, "scale smaller"),
])  # fmt: skip
def test_sums_that_cannot_be_ranked(values, scale, match):
    with pytest.raises(BadArgument, match=match):
        ranked(pa.table({"k": ["a"], "v": values}), ("k",), "v", scale)


def test_events_without_a_key_may_have_any_sum():
    rows = pa.table({"k": ["a", None], "v": [5, 2**51]})
    assert ranked(rows, ("k",), "v", None)[0] == ["a"]


@pytest.mark.parametrize("number", [5, 2**63 - 1, 2**63])
def test_digits_are_text_and_no_integer_of_a_key_is(number):
    texts = pa.table({"k": [str(number)], "count": [1]})
    assert type_of(tuple(zip(*ranked(texts, ("k",), "count", None), strict=True))) == "text"
    fed = Fed(pipeline())
    rows = table([(4, "a", 0, 0.0, 0), (12, "a", 0, 0.0, 0)])
    rows = rows.set_column(1, "item", pa.array([number, 1], pa.uint64()))
    fed.ingest.take(0, gather([rows]))
    rejected = number > 2**63 - 1  # so nobody need write it as text
    assert fed.ledger.pipeline("p").rejected == rejected
    assert [read[0] for read in fed.look().units.values()] == ([] if rejected else [[number]])
    assert type_of(((number, 1),)) == "integers"


def test_sums_that_are_not_ranked_may_be_beyond_their_type():
    fed = Fed(pipeline())
    fed.take([(0, "a", 0, 0.0, 2**62)] * 2 + [(14, "b", 0, 0.0, 0)])
    fed.look()
    assert fed.values() == {"a": 2}
    fed.ingest.close()


@given(st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=4), st.integers(1, 2**14))
@example([2**50], 2**14)  # of which int64 would make 0
def test_a_window_whose_sum_is_beyond_int64_is_refused(values, times):
    cells = {i: (np.array([1]), np.array([values[i % len(values)]])) for i in range(times)}
    whole, left = sum(int(value[0]) for _, value in cells.values()), Units(times)
    try:
        _, changes = left.advance(times - 1, cells)
    except BadArgument:
        assert abs(whole) >= 2**62 - 2**20
    else:
        assert changes.tolist() == [whole] * (whole != 0)


@given(st.dictionaries(st.text("ab\u00e9", min_size=1, max_size=200), st.integers(-(2**40), 2**40)))
def test_the_cost_of_naive_push_is_that_of_its_message(changes):
    changed = {name: value for name, value in changes.items() if value}
    objects, cost = Objects(), NaiveCost()
    rows = objects.rows(list(changed))
    cost.slide(objects, rows, np.array(list(changed.values()), np.int64))
    if not changed:
        assert cost.messages == 0
        return
    unit = 7_000_000_000
    message = Push(1, 1, unit, tuple(sorted(changed.items())))
    assert cost.entries == len(changed)
    assert abs(cost.bytes - len(encode(message)) - FRAME_BYTES) <= 2


def test_the_cost_of_a_first_window_is_that_of_its_message():
    objects, cost = Objects(), NaiveCost()
    values = {"ATL": 300, "ORD": -2, "gone": 0}
    rows = objects.rows(list(values))
    objects.change(rows, np.array(list(values.values()), np.int64))
    entries, size = cost.of_window(objects)
    message = Push(1, 1, 7_000_000_000, (("ATL", 300), ("ORD", -2)))
    assert entries == 2
    assert abs(size - len(encode(message)) - FRAME_BYTES) <= 2


def test_naive_costs_add_up_over_restarts():
    """Of the site: its window is pushed again; of the coordinator: it is all pushed again."""

    def told(slides, grown):
        naive = {f"naive_{what}": grown for what in ("messages", "entries", "bytes")}
        return {"slides": slides, "window_entries": 10, "window_bytes": 100, **naive}

    counts = SiteCounts()
    counts.report(told(40, 7), 1)  # what it counted before is not this coordinator's
    assert (counts.naive.messages, counts.naive.bytes) == (1, 100)
    counts.report(told(50, 12), 1)
    assert (counts.naive.messages, counts.naive.bytes) == (6, 105)
    counts.report(told(1, 0), 1)
    assert (counts.naive.messages, counts.naive.bytes) == (7, 205)
    counts.report(told(9, 3), 1)
    assert (counts.naive.messages, counts.naive.entries, counts.naive.bytes) == (10, 28, 208)


def test_objects_that_have_gone_are_forgotten_but_not_those_of_a_unit():
    """A unit may still hold +1 and another -1 of what counts as nothing in the window."""
    spec = pipeline(value="trips")
    fed = Fed(spec)
    fed.take([(0, "zero", 0, 0.0, 1), (9, "zero", 0, 0.0, -1)])
    fed.take([(9, f"once{n}", 0, 0.0, 1) for n in range(3000)])
    for second in range(4, 40):
        fed.take([(4 * second, "on", 0, 0.0, 1), (4 * second, "off", 0, 0.0, -1)])
        fed.look()
        assert fed.values() == fed.expected(lambda r: r[1], lambda r: r[4])
    assert len(fed.machine.monitor.objects) < 1100
    fed.ingest.close()


@pytest.mark.parametrize(
    ("before", "entries", "part"),
    [
        ({"orders": {"keys": ["item"]}}, {"key": ["item", "area"]}, "item, area"),
        ({"orders": {"keys": ["item"]}}, {"value": "trips"}, "trips"),
        ({"others": {"keys": ["item"]}}, {}, "orders"),
    ],
)
def test_what_was_added_later_is_ranked_once_the_window_holds_it(before, entries, part):
    """An indicator counted as 0 in the panes before it, in an answer that was valid."""
    fed = Fed(pipeline(**entries))
    after = fed.spec
    fed.spec = Pipeline.of(
        {"name": "p", "time": "time", "pane": "1 second", "lateness": "1 second"}
        | {"summaries": before}
    )
    fed.begin("overwrite")
    fed.take([(quarter, "a", 0, 1.0, 1) for quarter in range(0, 40, 4)])
    fed.spec = after
    fed.begin("continue")
    refused = []
    for quarter in range(40, 120, 4):
        fed.take([(quarter, "b", 1, 1.0, 1)])
        try:
            fed.look()
        except BadArgument as problem:
            refused.append(str(problem))
        else:
            assert set(fed.values().values()) == {6}  # of each of the seconds of the window
    assert 6 <= len(refused) <= 12
    said = f"{part} was added later and lacks events before"
    assert all(each.startswith(said) for each in refused)
    fed.ingest.close()
