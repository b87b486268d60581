"""The pair under a network that loses, repeats and reorders, sites and a coordinator that restart.

Hypothesis thinks up the interleavings; `test_wandering` walks through many more at random. After
every step the answer's claims are held against the values that all sites had at the unit that it
names (see `world`).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from world import ITEMS, KEPT_STATES, OBJECTIVES, POLICIES, SITES, World, wander

WANDERINGS = int(os.environ.get("MUNTIN_TOPK_WANDERINGS", "20000"))

names = st.integers(0, len(SITES) - 1)
changes = st.dictionaries(st.sampled_from(ITEMS), st.integers(-5, 9))


class Protocol(RuleBasedStateMachine):
    """Every interleaving that Hypothesis can think of."""

    world: World | None = None

    @initialize(
        sites=st.integers(1, len(SITES)),
        k=st.integers(1, 4),
        epsilon=st.sampled_from([0, 0, 3]),
        policy=st.sampled_from(POLICIES),
        objective=st.sampled_from(OBJECTIVES),
        heartbeat=st.integers(1, 4),
        lives=st.booleans(),
    )
    def begin(self, **options) -> None:
        self.world = World(**options)

    def site(self, n: int) -> str:
        assert self.world
        return self.world.names[n % len(self.world.names)]

    @rule(n=names, change=changes)
    def slide(self, n: int, change: dict) -> None:
        self.world.slide(self.site(n), change)

    @rule(change=st.lists(changes, min_size=len(SITES), max_size=len(SITES)))
    def slide_all(self, change: list[dict]) -> None:
        for name, one in zip(self.world.names, change, strict=False):
            self.world.slide(name, one)

    @rule(n=names)
    def vanish(self, n: int) -> None:
        self.world.vanish(self.site(n))

    @rule(n=names)
    def flood(self, n: int) -> None:
        self.world.flood(self.site(n))

    @precondition(lambda self: self.world and self.world.flying)
    @rule(at=st.integers(0, 1000), keep=st.booleans())
    def arrive(self, at: int, keep: bool) -> None:
        self.world.arrive(at % len(self.world.flying), keep=keep)

    @precondition(lambda self: self.world and self.world.flying)
    @rule(at=st.integers(0, 1000))
    def lose(self, at: int) -> None:
        self.world.lose(at % len(self.world.flying))

    @rule(by=st.sampled_from([0.1, 1.0, 2.5, 20.0]))
    def tick(self, by: float) -> None:
        self.world.tick(by)

    @rule(units=st.integers(1, 12), moves=st.lists(st.integers(-5, 9), max_size=6))
    def good_network(self, units: int, moves: list[int]) -> None:
        self.world.good_network(units, moves)

    @rule(n=names)
    def restart_site(self, n: int) -> None:
        self.world.restart_site(self.site(n))

    @rule(n=names)
    def bring_back(self, n: int) -> None:
        self.world.bring_back(self.site(n))

    @rule(n=names)
    def freeze(self, n: int) -> None:
        self.world.freeze(self.site(n))

    @rule()
    def save(self) -> None:
        self.world.save()

    @rule(state=st.integers(0, KEPT_STATES - 1))
    def restart_coordinator(self, state: int) -> None:
        self.world.restart_coordinator(state)

    @rule(k=st.integers(1, 5), epsilon=st.integers(0, 4))
    def change_k(self, k: int, epsilon: int) -> None:
        self.world.change_k(k, epsilon)

    @invariant()
    def claims_hold(self) -> None:
        if self.world:
            self.world.claims_hold()

    def teardown(self) -> None:
        if self.world:
            self.world.heals()


Protocol.TestCase.settings = settings(
    max_examples=int(os.environ.get("MUNTIN_TOPK_EXAMPLES", "80")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestProtocol = Protocol.TestCase


def test_wandering_a_little() -> None:
    for seed in range(150):
        wander(seed)


def test_late_events_correct_the_answer_though_no_unit_follows() -> None:
    phases = set()
    for units in range(3, 30):
        world = World()
        world.good_network(units, [5, 1, 3, 2])
        phases.add(world.coordinator.phase)
        for by in (1_000, -1_000):
            world.slide("north", {"late": by}, units=0)
            for _ in range(12):
                while world.flying:
                    world.arrive(0)
                world.tick(0.5)
            assert world.coordinator.answer().valid
            world.claims_hold()  # of the values that are known by now
    assert phases == {"calm", "watching"}


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_wandering() -> None:
    for seed in range(1000, 1000 + WANDERINGS):
        wander(seed, 60 + seed % 200)
