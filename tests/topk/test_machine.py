"""The pair under a network that loses, repeats and reorders, sites that restart: Hypothesis.

After every step the answer's claims are held against the values that all sites had at the unit
that it names.
"""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muntin.topk import Coordinator, CostModel, Message, Monitor, decode, encode
from muntin.topk.messages import NOTHING

SITES = ["north", "south", "west"]
ITEMS = ["a", "b", "c", "d", "e"]
EAGER = {"stay": 3, "patience": 0.1}  # so that short runs push and resolve


class Protocol(RuleBasedStateMachine):
    """Every interleaving that Hypothesis can think of."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator(SITES, 2, hybrid=CostModel("messages", **EAGER))
        self.monitors = {name: Monitor(heartbeat=2) for name in SITES}
        self.values = {name: dict.fromkeys(ITEMS, 0) for name in SITES}
        self.history: dict[str, dict[int, dict[str, int]]] = {name: {} for name in SITES}
        self.units = dict.fromkeys(SITES, 0)
        self.saved = self.coordinator.to_bytes()
        self.flying: list[tuple[str, bool, bytes]] = []
        self.now = 0.0
        for name in SITES:
            self.slide(name, {})

    def put(self, name: str, up: bool, messages: list[Message]) -> None:
        self.flying += [(name, up, encode(message)) for message in messages]

    def put_down(self, addressed: list[tuple[str, Message]]) -> None:
        for name, message in addressed:
            self.put(name, False, [message])

    @rule(
        name=st.sampled_from(SITES),
        change=st.dictionaries(st.sampled_from(ITEMS), st.integers(-5, 9)),
    )
    def slide(self, name: str, change: dict[str, int]) -> None:
        self.units[name] += 1
        for item, by in change.items():
            self.values[name][item] += by
        self.history[name][self.units[name]] = dict(self.values[name])
        rows = self.monitors[name].rows(list(change))
        found = self.monitors[name].slide(
            self.units[name], rows, np.array(list(change.values()), np.int64)
        )
        self.put(name, True, found)

    @rule(change=st.lists(st.integers(-3, 6), min_size=len(ITEMS) * 3, max_size=len(ITEMS) * 3))
    def slide_all(self, change: list[int]) -> None:
        for n, name in enumerate(SITES):
            self.slide(name, dict(zip(ITEMS, change[n * len(ITEMS) :], strict=False)))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), keep=st.booleans())
    def deliver(self, data: st.DataObject, keep: bool) -> None:
        at = data.draw(st.integers(0, len(self.flying) - 1))
        name, up, message = self.flying[at]
        if not keep:
            del self.flying[at]
        self.arrive(name, up, message)

    def arrive(self, name: str, up: bool, message: bytes) -> None:
        if up:
            self.put_down(self.coordinator.receive(name, decode(message), self.now))
        else:
            self.put(name, True, self.monitors[name].receive(decode(message)))

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        del self.flying[data.draw(st.integers(0, len(self.flying) - 1))]

    @rule(by=st.sampled_from([0.1, 1.0, 2.5, 20.0]))
    def tick(self, by: float) -> None:
        self.now += by
        for name, monitor in self.monitors.items():
            self.put(name, True, monitor.tick(self.now))
        self.put_down(self.coordinator.tick(self.now))

    @rule(steps=st.integers(5, 60))
    def calm_down(self, steps: int) -> None:
        """A good network for a while."""
        for _ in range(steps):
            if not self.flying:
                self.tick(0.5)
            for name, up, message in [*self.flying]:
                self.flying.remove((name, up, message))
                self.arrive(name, up, message)
                self.claims_hold()

    @rule(name=st.sampled_from(SITES))
    def restart_site(self, name: str) -> None:
        self.monitors[name] = Monitor(heartbeat=2)
        rows = self.monitors[name].rows(ITEMS)
        values = np.array([self.values[name][item] for item in ITEMS], np.int64)
        self.put(name, True, self.monitors[name].slide(self.units[name], rows, values))

    @rule()
    def save(self) -> None:
        self.saved = self.coordinator.to_bytes()

    @rule()
    def restart_coordinator(self) -> None:
        model = CostModel("messages", **EAGER)
        self.coordinator = Coordinator.from_bytes(self.saved, hybrid=model)

    @rule(k=st.integers(1, 4), epsilon=st.integers(0, 4))
    def change_k(self, k: int, epsilon: int) -> None:
        self.coordinator.set_k(k, epsilon)

    @invariant()
    def claims_hold(self) -> None:
        answer = self.coordinator.answer()
        if answer.as_of is None or answer.bound is None:
            assert not answer.valid
            return
        assert not (answer.valid and answer.missing_sites)
        there = [name for name in SITES if name not in answer.missing_sites]
        totals = dict.fromkeys(ITEMS, 0)
        for name in there:
            for item, value in self.history[name][answer.as_of].items():
                totals[item] += value
        top = [item.object for item in answer.items]
        assert NOTHING not in top
        least = min([totals[item] for item in top] + [0] * (len(top) < self.coordinator.k))
        outside = [value for item, value in totals.items() if item not in top]
        assert least + answer.bound >= max([0, *outside])

    def teardown(self) -> None:
        """With a good network and calm values, the answer becomes valid again."""
        self.flying.clear()
        for _ in range(80):
            self.tick(0.5)
            for name in SITES:
                self.slide(name, {})
            for _ in range(6):
                flying, self.flying = self.flying, []
                for name, up, message in flying:
                    self.arrive(name, up, message)
            self.claims_hold()
        assert self.coordinator.answer().valid


Protocol.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestProtocol = Protocol.TestCase
