"""Sites and a coordinator in a world where messages fly, get lost and come twice; with an oracle.

Nothing happens by itself: whoever holds the world (Hypothesis, or a generator of random numbers)
says what happens next. After every step `claims_hold` compares what the answer claims with the
values that all sites had at the unit that it names.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from muntin.topk import Coordinator, CostModel, Message, Monitor, decode, encode
from muntin.topk.messages import NOTHING, Object

SITES = ["north", "south", "west", "east"]
ITEMS: list[Object] = ["a", "b", "c", "d", "e", 7, 8]
POLICIES = ["resolution", "even", "lsa", "gsa"]
OBJECTIVES = ["bytes", "messages", None]
KEPT_STATES = 6


class World:
    """One coordinator, its sites, and the messages between them."""

    def __init__(
        self,
        *,
        sites: int = 3,
        k: int = 2,
        epsilon: int = 0,
        policy: str = "resolution",
        objective: str | None = "messages",
        heartbeat: int = 2,
        lives: bool = True,
    ) -> None:
        self.names = SITES[:sites]
        self.policy, self.objective, self.heartbeat = policy, objective, heartbeat
        self.coordinator = Coordinator(self.names, k, epsilon=epsilon, **self.options())
        self.lives = lives
        self.made = 0
        self.monitors = {name: self.monitor() for name in self.names}
        self.taken_for_dead: dict[str, Monitor] = {}
        self.values: dict[str, dict[Object, int]] = {name: {} for name in self.names}
        self.history: dict[str, dict[int, dict[Object, int]]] = {name: {} for name in self.names}
        self.units = dict.fromkeys(self.names, 0)
        self.frozen: set[str] = set()
        self.states = [self.coordinator.to_bytes()]
        self.flying: list[tuple[str, bool, bytes]] = []
        self.sent: list[tuple[str, bool, bytes]] = []
        self.floods = self.restarts = 0
        self.now = 0.0
        for name in self.names:
            self.slide(name, {})

    def monitor(self) -> Monitor:
        """A new one; with `lives`, it says that it is."""
        self.made += 1
        return Monitor(heartbeat=self.heartbeat, life=self.made if self.lives else 0)

    def options(self) -> dict[str, Any]:
        """Pushing and resolving follow each other fast, so that short runs see both."""
        model = self.objective and CostModel(self.objective, stay=3, patience=0.1)
        return {"policy": self.policy, "hybrid": model or None}

    # -- messages

    def put(self, name: str, up: bool, messages: list[Message]) -> None:
        found = [(name, up, encode(message)) for message in messages]
        self.flying += found
        self.sent += found

    def put_down(self, addressed: list[tuple[str, Message]]) -> None:
        for name, message in addressed:
            self.put(name, False, [message])

    def arrive(self, at: int, *, keep: bool = False) -> None:
        """The message at that place arrives; `keep`: it will come again."""
        name, up, message = self.flying[at]
        if not up and name in self.frozen:
            return
        if not keep:
            del self.flying[at]
        if up:
            self.put_down(self.coordinator.receive(name, decode(message), self.now))
        else:
            self.put(name, True, self.monitors[name].receive(decode(message)))

    def lose(self, at: int) -> None:
        del self.flying[at]

    # -- what happens at sites

    def slide(self, name: str, change: dict[Object, int], units: int = 1) -> None:
        """A site's window moves by a unit; by 0 where late events come into it."""
        if name in self.frozen:
            return
        self.units[name] += units
        values = self.values[name]
        for item, by in change.items():
            values[item] = values.get(item, 0) + by
        self.history[name][self.units[name]] = {i: v for i, v in values.items() if v}
        monitor = self.monitors[name]
        moved = np.array(list(change.values()), np.int64)
        self.put(name, True, monitor.slide(self.units[name], monitor.rows(list(change)), moved))

    def vanish(self, name: str) -> None:
        """All that a site has leaves its window, and it forgets what it can."""
        self.slide(name, {item: -value for item, value in self.values[name].items() if value})
        self.values[name] = {item: value for item, value in self.values[name].items() if value}
        self.monitors[name].compact()

    def flood(self, name: str) -> None:
        """So many objects come and go that the site's rows move."""
        self.floods += 1
        many: list[Object] = [100_000 * self.floods + n for n in range(1_200)]
        self.slide(name, dict.fromkeys(many, 1))
        self.slide(name, dict.fromkeys(many, -1))
        if name not in self.frozen:
            self.values[name] = {i: v for i, v in self.values[name].items() if v}
            self.monitors[name].compact()

    def restart_site(self, name: str) -> None:
        self.frozen.discard(name)
        self.taken_for_dead[name] = self.monitors[name]
        self.monitors[name] = monitor = self.monitor()
        values = self.values[name]
        moved = np.array(list(values.values()), np.int64)
        self.put(name, True, monitor.slide(self.units[name], monitor.rows(list(values)), moved))

    def bring_back(self, name: str) -> None:
        """The process before the newest was not dead: it is back, and the newest is not."""
        if name not in self.taken_for_dead:
            return
        self.frozen.discard(name)
        monitor = self.taken_for_dead[name]
        self.taken_for_dead[name], self.monitors[name] = self.monitors[name], monitor
        for unit in range(monitor.unit + 1, self.units[name] + 1):
            objects, now = monitor.objects, self.history[name][unit]
            there = zip(objects.names[1:], objects.values[1:].tolist(), strict=True)
            change = dict(now)
            for item, value in there:
                change[item] = now.get(item, 0) - value
            moved = np.array(list(change.values()), np.int64)
            self.put(name, True, monitor.slide(unit, monitor.rows(list(change)), moved))
        self.put(name, True, monitor.alive())

    def freeze(self, name: str) -> None:
        """A site stops, or goes on and catches up; what was sent to it waits."""
        self.frozen.symmetric_difference_update({name})
        self.catch_up(name)

    def catch_up(self, name: str) -> None:
        """Units are numbered alike at all sites: one that fell behind has some to make up for."""
        while name not in self.frozen and self.units[name] < max(self.units.values()):
            self.slide(name, {})

    # -- the coordinator

    def tick(self, by: float) -> None:
        self.now += by
        for name, monitor in self.monitors.items():
            if name not in self.frozen:
                self.put(name, True, monitor.tick(self.now))
        self.put_down(self.coordinator.tick(self.now))

    def save(self) -> None:
        self.states = [*self.states, self.coordinator.to_bytes()][-KEPT_STATES:]

    def restart_coordinator(self, state: int) -> None:
        """It comes back with one of the states that were saved, old as it may be."""
        data = self.states[state % len(self.states)]
        self.restarts += 1  # the clock, for it may come back twice with the same one
        epoch = self.restarts << 32
        self.coordinator = Coordinator.from_bytes(data, epoch=epoch, **self.options())

    def change_k(self, k: int, epsilon: int) -> None:
        self.coordinator.set_k(k, epsilon)

    # -- what must hold

    def good_network(self, units: int, moves: list[int] | None = None) -> None:
        """Every message arrives at once, in order, for some units; values move by `moves`."""
        moves = moves or [0]
        for unit in range(units):
            for n, name in enumerate(self.names):
                by = moves[(unit * len(self.names) + n) % len(moves)]
                self.slide(name, {ITEMS[(unit + n) % len(ITEMS)]: by} if by else {})
            for _ in range(2):
                self.tick(0.5)
                for _ in range(400):
                    at = next((n for n, f in enumerate(self.flying) if self.can_arrive(f)), None)
                    if at is None:
                        break
                    self.arrive(at)
                    self.claims_hold()
                else:
                    raise AssertionError("messages without end")

    def can_arrive(self, flight: tuple[str, bool, bytes]) -> bool:
        return flight[1] or flight[0] not in self.frozen

    def claims_hold(self) -> None:
        answer = self.coordinator.answer()
        if answer.as_of is None or answer.bound is None:
            assert not answer.valid
            return
        assert not (answer.valid and answer.missing_sites)
        totals: dict[Object, int] = {}
        for name in self.names:
            if name not in answer.missing_sites:
                for item, value in self.history[name][answer.as_of].items():
                    totals[item] = totals.get(item, 0) + value
        top = [item.object for item in answer.items]
        assert NOTHING not in top
        assert len(set(top)) == len(top) <= self.coordinator.k
        least = min([totals.get(i, 0) for i in top] + [0] * (len(top) < self.coordinator.k))
        outside = [value for item, value in totals.items() if item not in top]
        assert least + answer.bound >= max([0, *outside])

    def heals(self) -> None:
        """With all sites there, a good network and still values, the answer is valid again."""
        self.flying.clear()
        self.frozen.clear()
        for name in self.names:
            self.catch_up(name)
        self.good_network(40)
        for _ in range(4):  # at the change between pushing and resolving it is unsure for a moment
            if self.coordinator.answer().valid:
                return
            self.good_network(1)
        raise AssertionError(f"not valid again: {self.coordinator.answer()}")


def wander(seed: int, steps: int = 120) -> World:
    """A world in which things happen at random, checked after each step and healed at the end."""
    draw = random.Random(seed)
    world = World(
        sites=draw.randint(1, 4),
        k=draw.randint(1, 4),
        epsilon=draw.choice([0, 0, 1, 4]),
        policy=draw.choice(POLICIES[:1] * 3 + POLICIES),
        objective=draw.choice(OBJECTIVES),
        heartbeat=draw.randint(1, 4),
        lives=draw.random() < 0.7,
    )
    spread, loss, again = draw.choice([1, 3, 9]), draw.random() ** 3, draw.random() ** 3
    fate = draw.choice([0.0, 0.02, 0.1])
    for _ in range(steps):
        name = draw.choice(world.names)
        act = draw.random()
        if draw.random() < fate:
            match draw.randrange(9):
                case 0:
                    world.restart_site(name)
                case 1:
                    world.restart_coordinator(draw.randrange(KEPT_STATES))
                case 2 | 3:
                    world.change_k(draw.randint(1, 5), draw.randint(0, 4))
                case 4:
                    world.freeze(name)
                case 5:
                    world.vanish(name)
                case 6:
                    world.bring_back(name)
                case 7 if draw.random() < 0.3:
                    world.flood(name)
                case _:
                    world.tick(draw.choice([20.0, 5.0]))
        elif act < 0.2:
            for one in world.names:
                some = draw.sample(ITEMS, draw.randint(0, 3))
                world.slide(one, {item: draw.randint(-spread, 2 * spread) for item in some})
        elif act < 0.25:
            world.slide(name, {draw.choice(ITEMS): draw.randint(-spread, spread)})
        elif act < 0.45:
            world.tick(draw.choice([0.1, 0.5, 1.0, 2.5]))
        elif act < 0.47:
            world.save()
        elif act < 0.52:
            moves = [draw.randint(-spread, spread) for _ in range(draw.randint(1, 9))]
            world.good_network(draw.randint(1, 6), moves)
        else:
            for _ in range(draw.randint(1, 6)):
                if world.flying:
                    at = draw.randrange(len(world.flying)) if draw.random() < 0.5 else 0
                    if draw.random() < loss / 2:
                        world.lose(at)
                    else:
                        world.arrive(at, keep=draw.random() < again / 2)
                    world.claims_hold()
        del world.flying[:-60]
        world.claims_hold()
    world.heals()
    return world
