"""Who is surveyed when: at the start, when sites come and go, when one begins anew."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.topk import Coordinator, Hello, Message, Monitor

NAMES = ["n", "s", "w"]


class Net:
    """Sites that can be switched on and off; messages arrive at once."""

    def __init__(self, **options) -> None:
        self.coordinator = Coordinator(NAMES, 1, missing_after=10, retry=2, **options)
        self.monitors: dict[str, Monitor] = {}
        self.now = 0.0
        self.unit = 5
        self.down(self.coordinator.tick(0.0))

    def on(self, name: str, life: int = 0) -> None:
        monitor = self.monitors[name] = Monitor(heartbeat=2, retry=2, life=life)
        rows = monitor.rows(["a", "b"])
        self.up(name, monitor.slide(self.unit, rows, np.array([9, 4])))

    def up(self, name: str, messages: list[Message]) -> None:
        for message in messages:
            self.down(self.coordinator.receive(name, message, self.now))

    def down(self, addressed: list[tuple[str, Message]]) -> None:
        for name, message in addressed:
            if name in self.monitors:
                self.up(name, self.monitors[name].receive(message))

    def pass_by(self, units: float) -> None:
        for _ in range(round(2 * units)):
            self.now += 0.5
            for name, monitor in list(self.monitors.items()):
                self.up(name, monitor.tick(self.now))
                self.up(name, monitor.alive() if monitor.phase == "calm" else [])
            self.down(self.coordinator.tick(self.now))

    @property
    def surveys(self) -> int:
        return self.coordinator.surveys

    @property
    def valid(self) -> bool:
        return self.coordinator.answer().valid


def test_the_first_survey_waits_for_all() -> None:
    net = Net(gather=1000)
    for name in NAMES:
        assert not net.surveys
        net.on(name)
        net.pass_by(50)
    assert net.surveys == 1
    assert net.valid


def test_but_not_for_ever() -> None:
    net = Net()
    net.on("n")
    net.pass_by(9)
    assert not net.surveys
    net.pass_by(2)
    assert net.surveys == 1
    assert net.coordinator.answer().missing_sites == ("s", "w")


def test_sites_that_come_one_after_the_other_are_taken_in_together() -> None:
    net = Net(gather=0)
    net.on("n")
    net.pass_by(3)
    assert net.surveys == 1
    net.on("s")
    net.pass_by(1)
    assert net.surveys == 1  # another may follow
    net.on("w")
    net.pass_by(1)
    assert net.surveys == 2
    assert net.valid


def test_one_that_comes_alone_is_taken_in_soon() -> None:
    net = Net(gather=0)
    net.on("n")
    net.pass_by(3)
    net.on("s")
    net.pass_by(3)
    assert net.surveys == 2
    assert net.coordinator.answer().missing_sites == ("w",)


@pytest.mark.parametrize(("life", "at_once"), [(8, True), (7, False), (0, False)])
def test_a_site_that_began_anew_is_taken_in_at_once_if_it_says_so(life: int, at_once: bool) -> None:
    """Its unit is that of before, so nothing else tells it from a Hello that comes late."""
    net = Net()
    for name in NAMES:
        net.on(name, life=7)
    net.pass_by(1)
    assert (net.surveys, net.valid) == (1, True)
    net.on("s", life=life)
    net.pass_by(1)
    assert net.surveys == 1 + at_once
    net.pass_by(8)  # it asks four times
    assert net.surveys == 2
    assert net.valid


def test_a_process_that_was_taken_for_dead_is_taken_in_when_it_is_back() -> None:
    """It holds factors of an older epoch, and so never says Hello."""
    net = Net()
    for name in NAMES:
        net.on(name, life=1)
    net.pass_by(3)
    frozen = net.monitors["s"]
    net.on("s", life=2)
    net.pass_by(3)
    assert (net.surveys, net.valid) == (2, True)
    net.monitors["s"] = frozen
    net.pass_by(3)
    assert (net.surveys, net.valid) == (3, True)


def test_sites_that_begin_again_with_older_units_do_not_hold_the_answer_back() -> None:
    net = Net()
    for life, unit in ((1, 1000), (2, 5)):
        net.unit = unit
        for name in NAMES:
            net.on(name, life)
        net.pass_by(20)
        assert net.valid
        assert net.coordinator.answer().as_of == unit


def test_sites_may_be_any_number_of_epochs_ahead() -> None:
    """Of a coordinator whose state is lost, and whose clock stands at 1970."""
    net = Net(epoch=1 << 50)
    for name in NAMES:
        net.on(name, life=1)
    net.pass_by(3)
    net.coordinator = Coordinator(NAMES, 1, missing_after=10, retry=2)
    net.pass_by(3)
    assert (net.surveys, net.valid) == (1, True)


def test_a_late_hello_does_no_harm() -> None:
    net = Net()
    for name in NAMES:
        net.on(name, life=7)
    net.pass_by(1)
    for life in (0, 6, 7):
        net.up("s", [Hello(0, 5, life)])
        net.pass_by(1)
    assert net.surveys == 1
    assert net.valid
