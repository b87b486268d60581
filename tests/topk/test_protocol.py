"""The pair in one process: an oracle after every slide, message formulas, k at run time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pair import Pair

from muntin.topk import CostModel, Policy, codec, coordinator, monitor
from muntin.topk.messages import LINE_ALL, NOTHING, Alert, Factors, Push, Reply, Request, Watch

POLICIES = ["resolution", "even", "lsa", "gsa", Policy("share", 3.5, 0.5, progressive=True)]


def moves(rng: np.random.Generator, names: list[str], objects: int, wild: bool) -> dict:
    """Changes of a slide: Poisson-like, or Cauchy-like jumps."""
    found = {}
    for name in names:
        some = rng.integers(0, objects, rng.integers(0, objects + 1)).tolist()
        by = rng.standard_cauchy(len(some)) * 3 if wild else rng.integers(-4, 7, len(some))
        found[name] = {f"o{i}": int(np.clip(v, -500, 500)) for i, v in zip(some, by, strict=True)}
    return found


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p if isinstance(p, str) else p.name)
def test_valid_after_every_slide(policy: str | Policy) -> None:
    kinds: Counter[str] = Counter()
    for run in range(24):
        rng = np.random.default_rng(run)
        sites, objects, k = (
            int(rng.integers(1, 6)),
            int(rng.integers(1, 14)),
            int(rng.integers(1, 5)),
        )
        pair = Pair(sites, k, policy=policy, epsilon=int(rng.choice([0, 0, 5, 20])))
        for _ in range(25):
            pair.slide(moves(rng, pair.names, objects, wild=bool(run % 2)))
            pair.check()
        kinds["partial"] += pair.coordinator.partial
        kinds["full"] += pair.coordinator.full
    assert kinds["full"] > 24
    assert kinds["partial"] > 24 or policy == "lsa"


@pytest.mark.parametrize("objective", ["bytes", "messages"])
def test_pushing_is_valid_too(objective: str) -> None:
    kinds: Counter[type] = Counter()
    for run in range(12):
        rng = np.random.default_rng(run)
        model = CostModel(objective, stay=5, patience=0.2, share=1)
        pair = Pair(int(rng.integers(2, 6)), 3, hybrid=model, epsilon=int(rng.choice([0, 5])))
        base = {n: {f"o{i}": 60 + int(rng.integers(0, 30)) for i in range(25)} for n in pair.names}
        pair.slide(base)
        for _ in range(60):
            log = pair.slide(moves(rng, pair.names, 25, wild=run % 3 == 0))
            kinds.update(type(message) for _, message in log)
            pair.check()
    assert kinds[Watch] > 20
    assert kinds[Push] > 100
    assert kinds[Factors] > 50


def test_sparse_streams_are_valid_in_every_mode() -> None:
    for run in range(60):
        rng = np.random.default_rng(1000 + run)
        objects, leaving = int(rng.integers(5, 60)), float(rng.choice([0.02, 0.1, 0.5]))
        model = CostModel(
            str(rng.choice(["bytes", "messages"])),
            stay=int(rng.integers(2, 12)),
            patience=float(rng.choice([0.05, 0.3, 1])),
        )
        epsilon = int(rng.choice([0, 0, 3]))
        pair = Pair(int(rng.integers(1, 6)), int(rng.integers(1, 6)), hybrid=model, epsilon=epsilon)
        for _ in range(60):
            changes = {}
            for name in pair.names:
                some = rng.integers(0, objects, int(rng.integers(0, 8))).tolist()
                change = {f"o{i}": int(rng.integers(1, 4)) for i in some}
                for item, value in pair.values[name].items():
                    if rng.random() < leaving:
                        change[item] = change.get(item, 0) - value
                changes[name] = change
            pair.slide(changes)
            pair.check()


def test_what_stood_for_nothing_does_not_stand_in_the_way() -> None:
    for run in range(60):
        rng = np.random.default_rng(run)
        pair = Pair(3, 2)
        seen: list[tuple[str, int]] = []
        for slide in range(30):
            seen += [(f"s{rng.integers(3)}", int(rng.integers(7))) for _ in range(rng.integers(3))]
            left, seen = (seen[:2], seen[2:]) if len(seen) > 8 else ([], seen)
            changes: dict = {name: {} for name in pair.names}
            for by, some in ((1, seen[-2:]), (-1, left)):
                for name, item in some:
                    changes[name][item] = changes[name].get(item, 0) + by
            log = pair.slide(changes)
            pair.check()
            assert slide == 0 or len(log) <= 40
        assert pair.coordinator.surveys == 1


def test_pushing_everything_where_little_changes() -> None:
    lines = set()
    for objective in ("bytes", "messages"):
        rng = np.random.default_rng(5)
        pair = Pair(4, 3, hybrid=CostModel(objective, stay=10, patience=0.1))
        for _ in range(120):
            some = {n: {f"o{i}": 1 for i in rng.integers(0, 60, 2).tolist()} for n in pair.names}
            gone = {
                n: {
                    i: some[n].get(i, 0) - v
                    for i, v in pair.values[n].items()
                    if rng.random() < 0.1
                }
                for n in pair.names
            }
            log = pair.slide({n: some[n] | gone[n] for n in pair.names})
            pair.check()
            lines |= {message.line for _, message in log if isinstance(message, Watch)}
    assert LINE_ALL in lines
    assert max(lines) >= 0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_integers_any_order(data: st.DataObject) -> None:
    pair = Pair(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
    change = st.dictionaries(st.sampled_from(["a", "b", 1, 2, "é"]), st.integers(-9, 9), max_size=4)
    for _ in range(data.draw(st.integers(1, 6))):
        pair.slide({name: data.draw(change) for name in pair.names})
        pair.check()


def test_message_formulas_of_the_paper() -> None:
    # 2 |NV| for a partial resolution, |NV| + 3 m for a global one.
    seen: Counter[str] = Counter()
    for run in range(30):
        rng = np.random.default_rng(run)
        m = int(rng.integers(2, 7))
        pair = Pair(m, 2, policy="even")
        pair.slide(
            {n: {f"o{i}": 50 + int(rng.integers(0, 20)) for i in range(6)} for n in pair.names}
        )
        for _ in range(30):
            before = pair.coordinator.partial, pair.coordinator.full
            log = pair.slide(moves(rng, pair.names, 6, wild=False))
            kinds = Counter(type(message) for _, message in log)
            alerts = kinds[Alert]
            if pair.coordinator.partial > before[0]:
                assert len(log) == 2 * alerts
                seen["partial"] += 1
            elif pair.coordinator.full > before[1]:
                if alerts == m:  # much is known without asking: cheaper than the paper
                    assert 2 * m <= len(log) <= 4 * m
                else:
                    assert len(log) == alerts + 3 * m
                    assert kinds[Request] == kinds[Reply] == kinds[Factors] == m
                    seen["full"] += 1
            else:
                assert not log
                seen["quiet"] += 1
    assert min(seen["partial"], seen["full"], seen["quiet"]) > 20


def test_progressive_resolution_never_costs_more_than_the_papers() -> None:
    for run in range(20):
        rng = np.random.default_rng(run)
        m = int(rng.integers(2, 9))
        pair = Pair(m, 2)
        pair.slide(
            {n: {f"o{i}": 50 + int(rng.integers(0, 20)) for i in range(6)} for n in pair.names}
        )
        for _ in range(30):
            log = pair.slide(moves(rng, pair.names, 6, wild=False))
            assert len(log) <= sum(isinstance(message, Alert) for _, message in log) + 3 * m


def test_the_counterexample_to_local_top_k_sets() -> None:
    pair = Pair(2, 1, policy="even")
    pair.slide({"s0": {"A": 10}, "s1": {"A": 10}})
    assert pair.coordinator.top == ("A",)
    pair.slide({"s0": {"C": 16, "E": 15}, "s1": {"E": 9}})
    assert pair.coordinator.top == ("E",)
    pair.check()


def test_fewer_objects_than_k_and_none_at_all() -> None:
    pair = Pair(2, 3)
    pair.slide({})
    assert pair.coordinator.answer().items == ()
    assert pair.coordinator.answer().valid
    pair.slide({"s0": {"a": 4}, "s1": {"b": 1, "c": -2}})
    pair.check()
    assert [i.object for i in pair.coordinator.answer().items] == ["a", "b"]
    pair.slide({"s1": {"c": 9, "d": 2}})
    pair.check()
    assert [i.object for i in pair.coordinator.answer().items] == ["c", "a", "d"]
    pair.slide({"s0": {"a": -4}, "s1": {"b": -1, "c": -7, "d": -2}})
    pair.check()
    pair.slide({"s0": dict.fromkeys("acd", -1)})
    pair.check()
    assert pair.coordinator.top == (NOTHING,)


@pytest.mark.parametrize("policy", ["resolution", "even"])
def test_k_and_epsilon_change_while_it_runs(policy: str) -> None:
    rng = np.random.default_rng(2)
    pair = Pair(4, 2, policy=policy)
    for k, epsilon in ((2, 0), (7, 0), (1, 10), (12, 0), (3, 3)):
        pair.coordinator.set_k(k, epsilon)
        for _ in range(8):
            pair.slide(moves(rng, pair.names, 15, wild=False))
            pair.check()
            assert len(pair.coordinator.top) <= k


def test_factors_of_objects_that_have_gone_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every object is once among the largest, for a while."""
    monkeypatch.setattr(coordinator, "FACTORS_MORE", 100)
    rng, pair = np.random.default_rng(1), Pair(3, 2)
    for unit in range(250):
        coming = {n: {f"o{unit}": int(rng.integers(50, 300))} for n in pair.names}
        for name, change in coming.items():
            old = f"o{unit - 5}"
            change |= {old: -pair.values[name].get(old, 0)}
        pair.slide(coming)
        pair.check()
        assert pair.coordinator.membership.most_factors < 130  # 255 without
    assert 1 < pair.coordinator.surveys < 100


def test_ties_do_not_alert() -> None:
    pair = Pair(3, 1)
    pair.slide({n: {"a": 5, "b": 5} for n in pair.names})
    first = pair.coordinator.top
    assert not pair.slide({n: {"a": 1, "b": 1} for n in pair.names})
    assert pair.coordinator.top == first


def test_bootstrap_takes_three_round_trips_and_factors() -> None:
    pair = Pair(4, 2)
    log = pair.slide({n: {"a": 9, "b": 7, "c": 1} for n in pair.names})
    kinds = Counter(type(message) for _, message in log)
    assert kinds == {Request: 12, Reply: 12, Factors: 4}


def test_answer_says_values_and_order() -> None:
    pair = Pair(2, 2)
    pair.slide({"s0": {"a": 3, "b": 9}, "s1": {"a": 4}})
    answer = pair.coordinator.answer()
    assert [(item.object, item.value) for item in answer.items] == [("b", 9), ("a", 7)]
    assert answer.bound == 0
    assert answer.missing_sites == ()


@pytest.mark.parametrize("model", [None, CostModel("bytes")])
def test_more_contenders_than_a_message_holds_are_no_question_without_end(
    model: CostModel | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # When the contenders (4 each) are asked for by name, what came before them (3 each) has no
    # room any more, and is above the members' share (2 each).
    monkeypatch.setattr(monitor, "ENTRIES_MAX", 64)
    pair = Pair(3, 1, hybrid=model)
    levels = {4: 24, 3: 32, 1: 20}
    values = {
        name: {f"{name}-{v}-{n}": v for v, many in levels.items() for n in range(many)} | {"t": 2}
        for name in pair.names
    }
    log = pair.slide(values)
    assert sum(isinstance(message, Request) for _, message in log) < 60
    assert pair.coordinator.answer().valid is (model is not None)
    if model is not None:
        assert pair.coordinator.top == ("t",)


@pytest.mark.parametrize("model", [None, CostModel("bytes")])
def test_more_factors_than_a_message_holds_are_not_said(
    model: CostModel | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All tie, each at one site: a question holds their names, but no factors with T beside them.
    monkeypatch.setattr(codec, "MESSAGE_BYTES_MAX", 13_400)
    pair = Pair(2, 12, hybrid=model)
    names = [f"{n:0200}" for n in range(60)]
    pair.slide({"s0": dict.fromkeys(names[::2], 5), "s1": dict.fromkeys(names[1::2], 5)})
    assert pair.coordinator.answer().valid is (model is not None)
    for _ in range(4):  # those that tie leave, and it is tried again
        pair.slide({"s0": dict.fromkeys(names[::2], -1)})
    pair.check()
    assert set(pair.coordinator.top) <= {*names[1::2]}
