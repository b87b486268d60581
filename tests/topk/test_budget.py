"""The budget that resolving is paid from, and what sites remember of what they told."""

from __future__ import annotations

import numpy as np
import pytest
from pair import Pair

from muntin.errors import BadArgument
from muntin.topk import Coordinator, CostModel, Monitor, hybrid
from muntin.topk.budget import Budget
from muntin.topk.messages import LINE_ALL, Busy, Push, Watch


def opened(survey: float = 100.0) -> Budget:
    budget = Budget(0.1)
    budget.survey_begins()
    budget.pay(survey)
    assert not budget.empty()  # a survey is not refused
    budget.survey_ends()
    return budget


def test_what_goes_in_and_out() -> None:
    budget = opened()
    assert budget.left == 100
    budget.pay(60)
    assert not budget.empty(40)
    assert budget.empty(41)
    budget.naive("a", 50)  # it need not have pushed that
    assert budget.left == pytest.approx(95)
    assert budget.empty()  # until it holds what it started with
    budget.push("a", 80)
    assert budget.left == pytest.approx(103)
    assert not budget.empty()
    budget.naive("a", 130)  # all of which was pushed
    assert budget.left == pytest.approx(103)
    budget.naive("a", 20)  # an old account
    assert budget.left == pytest.approx(103)


def test_a_second_survey_adds_its_own_start() -> None:
    budget = opened()
    budget.pay(30)
    budget.survey_begins()
    budget.pay(50)
    budget.survey_begins()  # the sites changed meanwhile
    budget.pay(10)
    budget.survey_ends()
    assert budget.left == 80


def test_a_share_must_be_above_0() -> None:
    with pytest.raises(BadArgument, match="share"):
        CostModel(share=0)


def test_an_empty_purse_pushes_changes_and_nothing_but_changes() -> None:
    pair = Pair(3, 2, hybrid=CostModel(stay=5))
    pair.slide({n: {f"o{i}": 9 for i in range(30)} for n in pair.names})
    pair.coordinator.hybrid.budget.pay(1e9)
    rng = np.random.default_rng(0)
    pushes = 0
    for _ in range(40):
        changes = {n: {f"o{rng.integers(30)}": int(rng.integers(-2, 3))} for n in pair.names}
        for message in (message for _, message in pair.slide(changes)):
            if isinstance(message, Watch):
                assert message.line == LINE_ALL
            elif isinstance(message, Push):
                pushes += len(message.entries) == 1
        pair.check()
    assert pushes > 30


def test_objects_that_came_and_went_are_forgotten_where_they_were_told_too() -> None:
    pair = Pair(2, 2, hybrid=CostModel(stay=5))
    pair.slide({n: {"a": 9, "b": 8, "c": 7} for n in pair.names})
    pair.coordinator.hybrid.budget.pay(1e9)
    pair.slide({"s0": {"c": 3}})  # from now on everything is pushed
    many = {f"x{i}": 1 for i in range(3000)}
    pair.slide({"s0": many})
    monitor = pair.monitors["s0"]
    assert monitor.compact() is None  # they are there
    pair.slide({"s0": dict.fromkeys(many, -1)})
    assert monitor.compact() is not None
    pair.values["s0"] = {item: value for item, value in pair.values["s0"].items() if value}
    pair.check()
    pair.slide({"s0": {"b": 9}, "s1": {"c": 20}})
    pair.check()
    assert set(pair.coordinator.top) == {"b", "c"}


def test_sites_account_for_what_watching_saved() -> None:
    rng = np.random.default_rng(1)
    pair = Pair(4, 3, hybrid=CostModel(stay=200, patience=0.1))
    pair.slide({n: {f"o{i}": 200 - 2 * i for i in range(60)} for n in pair.names})
    accounts = 0
    for _ in range(150):
        moves = {n: rng.integers(-3, 4, 60).tolist() for n in pair.names}
        log = pair.slide({n: {f"o{i}": by for i, by in enumerate(m)} for n, m in moves.items()})
        accounts += sum(isinstance(message, Busy) for _, message in log)
        pair.check()
    assert accounts


def test_a_site_with_too_much_to_push_is_not_asked_to_push_everything_again_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hybrid, "STAY_MAX", 60)
    coordinator = Coordinator(["n"], 2, hybrid=CostModel(stay=5))
    monitor = Monitor()
    rows = monitor.rows(list(range(1, 70_001)))
    now = 0.0
    orders = 0

    def settle(up: list) -> None:
        nonlocal orders
        while up:
            down = [message for m in up for _, message in coordinator.receive("n", m, now)]
            down += [message for _, message in coordinator.tick(now)]
            orders += sum(isinstance(m, Watch) and m.line == LINE_ALL for m in down)
            up = [said for message in down for said in monitor.receive(message)]

    settle([*monitor.slide(1, rows, np.ones(70_000, np.int64)), *monitor.tick(now)])
    assert coordinator.hybrid
    coordinator.hybrid.budget.pay(1e9)

    def move(units: range) -> None:
        nonlocal now
        for unit in units:
            now = float(unit)
            moved = np.array([3 + unit % 7, 3 + unit * 5 % 11])
            settle([*monitor.slide(unit, moved, np.array([unit, unit])), *monitor.tick(now)])
            settle(monitor.tick(now + 0.5))

    move(range(2, 40))
    assert orders == 1
    assert coordinator.hybrid.refused
    assert coordinator.answer().as_of is not None
    settle(monitor.slide(40, rows[10:], np.full(69_990, -1)))  # now it has little
    move(range(41, 120))
    assert orders == 2
    assert coordinator.answer().valid
