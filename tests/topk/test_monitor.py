"""A site's half alone: what it refuses, forgets and repeats."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.errors import BadArgument
from muntin.topk import (
    NOTHING,
    Alert,
    Calm,
    Factors,
    Hello,
    Monitor,
    Reply,
    Request,
    Watch,
    decode,
    encode,
)
from muntin.topk.messages import LINE_ALL


def joined(**values: int) -> Monitor:
    """A site with T = (a,) in epoch 1."""
    monitor = Monitor()
    rows = monitor.rows(list(values))
    monitor.slide(1, rows, np.array(list(values.values())))
    monitor.receive(Request(1, 0, 1, ()))
    found = monitor.receive(Factors(1, 0, 1, ("a",), ()))
    assert found == [Calm(1, 1, 1, 1)]
    return monitor


def change(monitor: Monitor, unit: int, **by: int) -> list:
    return monitor.slide(unit, monitor.rows(list(by)), np.array(list(by.values())))


def test_alert_holds_t_and_all_that_exceed_it() -> None:
    monitor = joined(a=5, b=3, c=1)
    assert change(monitor, 2, b=3, c=1) == [Alert(1, 1, 2, 2, 2, 1, (("a", 5), ("b", 6)))]
    assert change(monitor, 3, c=9) == []  # once is enough; a retry tells more
    assert monitor.tick(10.0) == []
    (again,) = monitor.tick(13.0)
    assert again == Alert(1, 1, 3, 0, 3, 2, (("a", 5), ("b", 6), ("c", 11)))


def test_heartbeat() -> None:
    monitor = joined(a=5)
    said = [change(monitor, unit, a=1) for unit in range(2, 9)]
    assert said == [[]] * 5 + [[Calm(1, 1, 1, 7)]] + [[]]


def test_hello_until_asked() -> None:
    monitor = Monitor(retry=2, life=5)
    assert monitor.tick(0.0) == [Hello(0, 0, 5)]
    assert monitor.tick(1.0) == []
    assert monitor.tick(2.0) == [Hello(0, 0, 5)]
    monitor.receive(Request(1, 0, 1, ()))
    assert monitor.tick(3.0) == []  # it was asked; factors are on their way
    assert monitor.tick(4.9) == []
    assert monitor.tick(5.0) == [Hello(1, 0, 5)]


def test_hellos_become_rarer() -> None:
    monitor = Monitor(retry=2, heartbeat=6)
    said = [now for now in range(40) if monitor.tick(float(now))]
    assert said == [0, 2, 6, 12, 18, 24, 30, 36]
    monitor.alive()  # a new connection
    said = [now for now in range(40, 60) if monitor.tick(float(now))]
    assert said == [42, 46, 52, 58]


def test_what_may_be_said_at_any_time() -> None:
    assert Monitor(life=5).alive() == [Hello(0, 0, 5)]
    monitor = joined(a=5, b=3)
    assert monitor.alive() == [Calm(1, 1, 1, 1)]
    (alert,) = change(monitor, 2, b=3)
    assert monitor.alive() == [alert]
    assert monitor.tick(10.0) == []  # which was just said
    assert monitor.tick(12.0) == [alert]
    monitor.receive(Watch(1, 1, 2, 0, ("a",), ()))
    assert monitor.alive() == [Calm(1, 0, 2, 2)]  # of no factors


def test_void_messages_are_ignored() -> None:
    monitor = joined(a=5, b=3)
    assert monitor.receive(Request(1, 0, 1, ("a",))) == []  # of before the factors
    assert monitor.receive(Factors(0, 0, 9, ("b",), ())) == []  # another epoch
    assert monitor.receive(Factors(1, 4, 5, ("b",), ())) == []  # builds on what never came
    assert monitor.receive(Factors(1, 1, 2, (), ())) == []  # no T
    assert monitor.receive(Request(7, 3, 1, ("a",))) == []  # an epoch that began without it
    assert monitor.receive(Hello(1, 1)) == []
    assert monitor.top == ("a",)
    assert monitor.receive(Factors(1, 0, 1, ("a",), ())) == [Calm(1, 1, 1, 1)]  # repeated


def test_new_epoch_drops_factors() -> None:
    monitor = joined(a=5, b=3)
    monitor.receive(Factors(1, 1, 2, None, (("b", 2),)))
    (reply,) = monitor.receive(Request(2, 0, 1, ("x",), more=1))
    assert reply == Reply(2, 0, 1, 1, 3, 0, (("a", 5), ("x", 0)))
    assert monitor.objects.adjusted.tolist() == [0, 5, 3, 0]


def test_objects_that_went_are_forgotten() -> None:
    monitor = joined(a=5)
    names = [f"o{n}" for n in range(5000)]
    rows = monitor.rows(names)
    monitor.slide(2, rows, np.ones(5000, np.int64))
    monitor.slide(3, rows, -np.ones(5000, np.int64))
    moved = monitor.compact()
    assert moved is not None
    assert moved.tolist() == [0, 1, *[-1] * 5000]
    assert monitor.objects.names == [NOTHING, "a"]
    assert monitor.top == ("a",)
    assert monitor.compact() is None


def test_more_long_names_than_a_message_holds() -> None:
    monitor = joined(a=5)
    rows = monitor.rows([f"{n:0250}" for n in range(35_000)])
    monitor.slide(2, rows, np.ones(len(rows), np.int64))
    everything = Watch(1, 1, 2, LINE_ALL, (), ())
    assert monitor.receive(everything) == [Hello(1, 2)]
    monitor.slide(3, rows[10_000:], np.full(25_000, -1))
    monitor.receive(Request(2, 0, 1, ()))
    (push,) = monitor.receive(Watch(2, 0, 1, LINE_ALL, (), ()))
    assert decode(encode(push)) == push


def test_refusals() -> None:
    monitor = joined(a=5)
    one = monitor.rows(["a"])
    with pytest.raises(BadArgument, match="only go forward"):
        monitor.slide(0, one, np.array([1]))
    with pytest.raises(BadArgument, match="scale a float"):
        monitor.slide(2, one, np.array([1.5]))
    with pytest.raises(BadArgument, match="rows go from 1 to 1"):
        monitor.slide(2, np.array([2]), np.array([1]))
    with pytest.raises(BadArgument, match="one each"):
        monitor.slide(2, one, np.array([1, 2]))
    with pytest.raises(BadArgument, match="coarser"):
        monitor.slide(2, one, np.array([1 << 51]))
    for times, most in ((2, (1 << 63) - 1), (1 << 14, 1 << 50)):  # int64 would make -2 and 0
        with pytest.raises(BadArgument, match="coarser"):
            monitor.slide(2, np.repeat(one, times), np.full(times, most))
    assert monitor.objects.values.tolist() == [0, 5]
    for wrong in (NOTHING, "x" * 300, 1.5, None, "\ud800", 1 << 63, True):
        with pytest.raises(BadArgument, match="object"):
            monitor.rows([wrong])  # pyright: ignore
    with pytest.raises(BadArgument, match="heartbeat"):
        Monitor(heartbeat=0)


def test_units_may_begin_before_1970() -> None:
    monitor = Monitor()  # a watermark of the first seconds of 1970, less the lateness
    change(monitor, -7, a=5)
    with pytest.raises(BadArgument, match="unit -8 is before -7"):
        change(monitor, -8, a=1)
    monitor.receive(Request(1, 0, 1, ()))
    assert monitor.receive(Factors(1, 0, 1, ("a",), ())) == [Calm(1, 1, -7, -7)]
