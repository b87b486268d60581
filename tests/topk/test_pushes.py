"""Pushes of one site that come late, twice, out of order or not at all."""

from __future__ import annotations

import random

from muntin.topk import Push
from muntin.topk.pushes import EARLY_MAX, ENTRIES_WAITING_MAX, WAITING_MAX, Pushes


def push(number: int, unit: int) -> Push:
    return Push(1, 1, unit, (), number)


def test_in_whatever_order_they_come_they_are_told_in_theirs() -> None:
    sent = [push(-1, 3), push(2, 4), push(3, 4), push(4, 7), push(5, 8), push(6, 12)]
    for seed in range(50):
        pushes, shuffled = Pushes(), sent * 2
        random.Random(seed).shuffle(shuffled)
        for one in shuffled:
            pushes.take(one, 0.0)
        assert (pushes.since, pushes.until) == (3, 12)
        assert pushes.up_to(7) == sent[:4]
        assert pushes.up_to(7) == []
        assert pushes.up_to(20) == sent[4:]
        assert not pushes.broken(100.0, 1.0)


def test_a_gap_is_broken_after_a_while_and_closes() -> None:
    pushes = Pushes()
    pushes.take(push(-1, 1), 0.0)
    pushes.take(push(3, 3), 1.0)
    assert pushes.until == 1
    assert not pushes.broken(2.0, 2.0)
    assert pushes.broken(3.5, 2.0)
    pushes.take(push(2, 2), 4.0)
    assert pushes.until == 3
    assert not pushes.broken(10.0, 2.0)


def test_what_begins_anew_leaves_out_what_was_lost() -> None:
    pushes = Pushes()
    pushes.take(push(2, 2), 0.0)  # the first was lost: nothing is known
    assert pushes.since is None
    pushes.take(push(-3, 5), 1.0)
    assert (pushes.since, pushes.until) == (5, 5)
    pushes.take(push(2, 2), 1.0)  # late, and of no use
    pushes.take(push(4, 6), 1.0)
    pushes.take(push(-5, 7), 1.0)  # said again, nothing lost: units 5 and 6 stand
    assert (pushes.since, pushes.until) == (5, 7)
    assert [one.number for one in pushes.up_to(9)] == [-3, 4, -5]


def test_bounded_in_what_they_hold() -> None:
    pushes, many = Pushes(), tuple((n, 1) for n in range(ENTRIES_WAITING_MAX // 2))
    for number, unit in ((-1, 1), (2, 2), (3, 3)):
        assert not pushes.broken(0.0, 1.0)
        pushes.take(Push(1, 1, unit, many if number > 0 else many[:1], number), 0.0)
    assert pushes.broken(0.0, 1.0)
    pushes.up_to(2)
    assert not pushes.broken(0.0, 1.0)


def test_bounded() -> None:
    pushes = Pushes()
    pushes.take(push(-1, 1), 0.0)
    for number in range(3, 3 + 2 * EARLY_MAX):
        pushes.take(push(number, number), 0.0)
    assert pushes.until == 1
    pushes = Pushes()
    pushes.take(push(-1, 1), 0.0)
    for number in range(2, WAITING_MAX + 3):
        pushes.take(push(number, number), 0.0)
    assert pushes.broken(0.0, 1.0)
