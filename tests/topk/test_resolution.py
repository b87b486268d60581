"""Who gets how much of the slack: exact in integers, against the definition."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.topk.expectation import by_expectation, expected_values, fill, reserve_needed
from muntin.topk.messages import NOTHING
from muntin.topk.policy import share_weights
from muntin.topk.resolution import Report, allocate, choose_top, shares


def test_example_1_of_the_paper_is_exact() -> None:
    # P = (0, 4, 3) for (coordinator, node 1, node 2); S_2 = 3, S_3 = 6; F = 1/3 each.
    reports = [Report({2: 6, 3: 4}, 4), Report({2: 4, 3: 9}, 3)]
    found = allocate([3], reports, [{}, {}], {}, [1, 1, 1])
    assert found is not None
    factors = [found.coordinator, *found.sites]
    assert [part.get(2, 0) for part in factors] == [1, -1, 0]
    assert [part.get(3, 0) for part in factors] == [2, 2, -4]


def test_example_1_shares() -> None:
    assert shares(3, [1, 1, 1]) == [1, 1, 1]
    assert shares(6, [1, 1, 1]) == [2, 2, 2]


def test_where_no_weight_tells_more_all_get_as_much() -> None:
    assert shares(7, [0, 0]) == shares(7, [1, 1]) == [3, 4]


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), st.integers(-(10**6), 10**6)
)
def test_shares_sum_and_are_monotone(weights: list[int], whole: int) -> None:
    now, more = shares(whole, weights), shares(whole + 1, weights)
    assert sum(now) == whole
    assert all(a <= b for a, b in zip(now, more, strict=True))
    assert all(part == 0 for part, weight in zip(now, weights, strict=True) if weight == 0)


def test_floor_and_remainder_would_break_the_constraint() -> None:
    # 3 parts of 3 are (1, 1, 1); 2 with the remainder in front would be (1, 1, 0) at best and
    # (2, 0, 0) at worst: more than the larger slack gets. Hermite's shares never do that.
    for parts in range(1, 9):
        for small in range(60):
            for large in range(small, 60):
                pairs = zip(shares(small, [1] * parts), shares(large, [1] * parts), strict=True)
                assert all(a <= b for a, b in pairs)


@pytest.mark.parametrize("weights", [[], [1, -1]])
def test_shares_refuse_weights_that_share_nothing(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="weights"):
        shares(1, weights)


@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(-300, 300), st.integers(1, 50)), min_size=1, max_size=6),
)
def test_fill_gives_parts_of_one_level(amount: int, cells: list[tuple[int, int]]) -> None:
    heads, weights = [h for h, _ in cells], [w for _, w in cells]
    parts = fill(amount, heads, weights)
    assert sum(parts) == amount
    assert min(parts) >= 0


@st.composite
def instances(draw: st.DrawFn) -> tuple:
    """A state that held, and values that moved since: what a resolution meets."""
    sites, objects = draw(st.integers(1, 4)), draw(st.integers(2, 7))
    number = st.integers(-6, 25)
    values = [[draw(number) for _ in range(objects)] for _ in range(sites)]
    factors = [[0] * objects for _ in range(sites)]
    own = [0] * objects
    for item in range(objects):
        parts = [draw(st.integers(-5, 5)) for _ in range(sites)]
        own[item] = -sum(parts)
        for j in range(sites):
            factors[j][item] = parts[j]
    k = draw(st.integers(1, objects - 1))
    epsilon = draw(st.integers(0, 4))
    return sites, objects, k, epsilon, values, factors, own, draw(st.booleans())


@settings(max_examples=400, deadline=None)
@given(instances(), st.randoms(use_true_random=False), st.integers(0, 4))
def test_allocation_makes_every_constraint_hold(instance: tuple, random, which: int) -> None:
    sites, objects, k, epsilon, values, factors, own, anticipate = instance
    held = [{i: d for i, d in enumerate(row) if d} for row in factors]
    mine = {i: d for i, d in enumerate(own) if d}
    top = random.sample(range(objects), k)
    reports = []
    for j in range(sites):
        reported = set(top) | {i for i in range(objects) if random.random() < 0.7}
        adjusted = [values[j][i] + factors[j][i] for i in range(objects) if i not in reported]
        reports.append(Report({i: values[j][i] for i in sorted(reported)}, max([0, *adjusted])))
    keep = [0, 0.5, 1, 3.5, float("inf")][which]
    spread = None
    if anticipate:
        spread = by_expectation(reports, expected_values(reports), min(keep, 4))
    found = allocate(top, reports, held, mine, share_weights(keep, sites), epsilon, spread)
    if found is None:
        return
    for j in range(sites):
        held[j].update(found.sites[j])
    mine.update(found.coordinator)
    for item in range(objects):
        assert mine.get(item, 0) + sum(row.get(item, 0) for row in held) == 0
    outside = [i for i in range(objects) if i not in top]
    for j in range(sites):
        least = min(values[j][a] + held[j].get(a, 0) for a in top)
        assert all(values[j][b] + held[j].get(b, 0) <= least for b in outside)
        assert least >= 0  # so that objects nobody has reported are below, too
    assert all(mine.get(a, 0) + epsilon >= mine.get(b, 0) for a in top for b in outside)
    totals = [sum(values[j][i] for j in range(sites)) for i in range(objects)]
    assert min(totals[a] for a in top) + epsilon >= max(totals[b] for b in outside)


@settings(max_examples=300, deadline=None)
@given(instances())
def test_allocation_exists_exactly_if_the_slacks_say_so(instance: tuple) -> None:
    sites, objects, k, _, values, factors, own, _ = instance
    held = [dict(enumerate(row)) for row in factors]
    mine = dict(enumerate(own))
    reports = [Report(dict(enumerate(values[j])), 0) for j in range(sites)]
    totals = {i: sum(values[j][i] for j in range(sites)) for i in range(objects)}
    top = sorted(totals, key=lambda i: -totals[i])[:k]
    found = allocate(top, reports, held, mine, [1] * (sites + 1))
    # Everything is reported: borders are 0, slack is the total, and T is right.
    assert (found is not None) == (totals[top[-1]] >= 0)


def test_the_papers_resolution_set_is_not_enough() -> None:
    # k = 1, T = {A}. Local top-1 sets name C only; E is larger than A in total.
    first, second = {"A": 10, "C": 16, "E": 15}, {"A": 10, "C": 0, "E": 9}
    lap = [Report({"A": 10, "C": 16}, 15), Report({"A": 10, "C": 0}, 9)]
    assert allocate(["A"], lap, [{}, {}], {}, [1, 1, 1]) is None  # S_A = 20 - 24 < 0
    whole = [Report(first, 0), Report(second, 0)]
    assert allocate(["A"], whole, [{}, {}], {}, [1, 1, 1]) is None
    assert allocate(["E"], whole, [{}, {}], {}, [1, 1, 1]) is not None


def test_choose_top_keeps_old_members_within_epsilon() -> None:
    slack = {"a": 10, "b": 12, "c": 3}
    assert choose_top(1, ("a",), slack, 0, 2) == ("a",)
    assert choose_top(1, ("a",), slack, 0, 1) == ("b",)
    assert choose_top(2, (), slack, 0, 0) == ("b", "a")


def test_choose_top_fills_up_with_nothing() -> None:
    assert choose_top(3, (), {"a": 5, "b": 0, "c": -2}, 0, 0) == ("a", NOTHING)
    assert choose_top(1, ("a",), {"a": -1}, 0, 0) == (NOTHING,)
    assert choose_top(2, ("a", NOTHING), {"a": 5, "b": 1}, 0, 1) == ("a", NOTHING)


def test_choose_top_has_no_room_for_nothing_when_k_shrinks() -> None:
    assert choose_top(1, ("e", NOTHING), {"a": 1, "e": 1}, 0, 0) == ("e",)


def test_expected_values_shrink_by_chance_only() -> None:
    # One object scattered as counts do, one that lives at the first site.
    reports = [Report({"even": 105, "own": 200}, 0), Report({"even": 95, "own": 0}, 0)]
    found = expected_values([*reports, Report({"even": 100, "own": 100}, 0)])
    assert abs(found[0]["own"] - 200) < 20
    assert all(
        sum(site[i] for site in found) - total in range(-3, 4)
        for i, total in (("even", 300), ("own", 300))
    )


def test_reserve_is_small_where_slack_is_ample() -> None:
    assert reserve_needed(3000, [100] * 3, [90] * 3) < 0.01
    assert reserve_needed(0, [100] * 10, [100] * 10) == 2.0
