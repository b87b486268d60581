"""A site without sockets: in every phase it is heard of, whatever its stream does."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.sites.follower import News
from muntin.sites.machine import SiteMachine
from muntin.topk import Coordinator, CostModel, decode, encode
from tests.sites.stream import HEARTBEAT, WINDOW_UNITS, pipeline

HALF = 0.5


class Wired:
    """One site and a coordinator; the messages arrive at once, through their bytes."""

    def __init__(self, machine=None, **options):
        self.machine = machine or SiteMachine(pipeline("north", "ws://127.0.0.1:1").sites)
        self.coordinator = Coordinator(["north"], 2, missing_after=4 * HEARTBEAT, **options)
        self.now = 100.0
        self.unit = 100
        self.deliver([])

    def deliver(self, up):
        for _ in range(100):
            down = []
            for data in up:
                down += self.coordinator.receive("north", decode(data), self.now)
            down += self.coordinator.tick(self.now)
            if not down:
                return
            up = []
            for _, message in down:
                up += self.machine.receive(encode(message), self.now)

    def move(self, values, **options):
        self.unit += 1
        read = (list(values), np.array(list(values.values()), np.int64))
        self.deliver(self.machine.move(News(self.unit, {self.unit: read}, **options), self.now))
        self.pass_by(1)

    def pass_by(self, units):
        for _ in range(int(units / HALF)):
            self.now += HALF
            self.deliver(self.machine.tick(self.now))


@pytest.mark.parametrize("changing", [False, True])
def test_a_site_whose_stream_stands_still_is_not_missing(changing):
    wired = Wired(hybrid=CostModel("bytes"))
    rng = np.random.default_rng(1)
    wired.machine.move(News(wired.unit, {}, anew=True), wired.now)
    phases = set()
    for _ in range(60):
        values = rng.integers(1, 50, 30) if changing else np.arange(1, 31)
        wired.move({f"o{n}": int(v) for n, v in enumerate(values)})
        phases.add(wired.machine.monitor.phase)
    assert phases & ({"watching"} if changing else {"calm"})
    for _ in range(5):
        wired.pass_by(4 * HEARTBEAT)
        assert wired.coordinator.answer().missing_sites == ()


def test_a_new_connection_says_something_at_once():
    wired = Wired()
    assert len(wired.machine.greet(wired.now)) == 1  # hello
    wired.machine.move(News(wired.unit, {}, anew=True), wired.now)
    for _ in range(5):
        wired.move({"a": 3, "b": 2, "c": 1})
    assert wired.machine.monitor.phase == "calm"
    assert len(wired.machine.greet(wired.now)) == 1
    assert wired.coordinator.answer().valid
    assert wired.machine.slack() >= 0


def test_a_site_that_restarts_is_taken_in_at_once():
    wired = Wired(SiteMachine(pipeline("north", "ws://127.0.0.1:1").sites, 1000))
    wired.machine.move(News(wired.unit, {}, anew=True), wired.now)
    for _ in range(3):
        wired.move({"a": 3, "b": 2, "c": 1})
    surveys = wired.coordinator.surveys
    read = (["a", "c"], np.array([1, 9]))
    wired.machine = SiteMachine(pipeline("north", "ws://127.0.0.1:1").sites, 2000)
    wired.machine.move(News(wired.unit, {wired.unit: read}, anew=True), wired.now)
    wired.deliver(wired.machine.greet(wired.now))
    wired.pass_by(1)
    assert wired.coordinator.surveys == surveys + 1
    assert wired.coordinator.answer().valid
    assert [item.object for item in wired.coordinator.answer().items] == ["c", "a"]


def test_no_unit_is_left_out_of_what_is_said():
    """Two units at once; the constraint is broken in the first and holds again in the second."""
    wired = Wired()
    wired.machine.move(News(wired.unit, {}, anew=True), wired.now)
    for _ in range(3):
        wired.move({"a": 3, "b": 2, "c": 1})
    assert wired.machine.monitor.phase == "calm"
    units = {}
    for unit, value in ((wired.unit + 1, 100), (wired.unit + 2, -100)):
        units[unit] = (["c"], np.array([value], np.int64))
    said = wired.machine.move(News(wired.unit + 2, units), wired.now)
    assert [type(decode(data)).__name__ for data in said] == ["Alert"]


def test_a_site_that_was_away_for_long_takes_part_anew():
    wired = Wired()
    wired.machine.move(News(wired.unit, {}, anew=True), wired.now)
    for _ in range(3):
        wired.move({"a": 3, "b": 2, "c": 1})
    before = wired.machine.monitor
    wired.unit += WINDOW_UNITS + 1
    wired.move({"a": 1, "c": 9}, anew=True)
    assert wired.machine.monitor is not before
    for _ in range(20):
        wired.pass_by(1)
    assert wired.coordinator.answer().valid
    assert {item.object: item.value for item in wired.coordinator.answer().items} == {
        "c": 9,
        "a": 1,
    }


def test_what_is_read_anew_says_nothing_of_units_before_its_window():
    """Another writer's ledger is read from where its newest window begins."""
    wired = Wired()
    wired.machine.move(News(wired.unit, {}, anew=True), wired.now)
    for _ in range(3):
        wired.move({"a": 3, "b": 2, "c": 1})
    before = wired.machine.monitor
    read = (["c", "b"], np.array([9, 5], np.int64))
    wired.deliver(wired.machine.move(News(wired.unit, {wired.unit: read}, anew=True), wired.now))
    assert wired.machine.monitor is before  # of the same unit: corrected
    wired.unit += 1
    news = News(wired.unit, {wired.unit: read}, anew=True)
    assert wired.machine.move(news, wired.now) == []
    assert wired.machine.monitor is not before
    wired.pass_by(20)
    answer = wired.coordinator.answer()
    assert (answer.valid, answer.as_of) == (True, wired.unit)
    assert [(item.object, item.value) for item in answer.items] == [("c", 9), ("b", 5)]
