"""Runs in which messages get lost, twice and late, and sites and the coordinator fail.

All is drawn from one generator, so that a run can be repeated. Time is in window units.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from muntin.topk import Answer, Coordinator, CostModel, Message, Simulation
from muntin.topk.simulation import Run, holds

TICKS = 4  # of a unit


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and how often.

    Attributes
    ----------
    lose, repeat : float
        Probability that a message is lost; that it comes twice.
    delay : float
        A message takes up to this many units, each its own time: they overtake each other.
    crash, freeze : float
        Probability in one unit that a site loses its state; that it stops and goes on later.
    outage : float
        A crash or freeze lasts up to this many units.
    restart : float
        Probability in one unit that the coordinator starts anew from what it had saved last.
    save_every : int
        Units between two savings: what the coordinator comes back with may be that old.
    quiet : int
        Units at the end in which nothing goes wrong (but the delay): all must heal in them.
    """

    lose: float = 0.05
    repeat: float = 0.05
    delay: float = 0.8
    crash: float = 0.005
    freeze: float = 0.005
    outage: float = 40.0
    restart: float = 0.005
    save_every: int = 10
    quiet: int = 0


class Network:
    """Messages under way, by time of arrival."""

    def __init__(self, rng: np.random.Generator, faults: Faults) -> None:
        self._rng = rng
        self._faults = faults
        self._queue: list[tuple[float, int, str, bool, Any]] = []
        self._number = count()
        self.calm = False

    def send(self, site: str, up: bool, message: Any, now: float) -> None:
        """Put a message on its way, or not."""
        faults, draw = self._faults, self._rng.random
        if not self.calm and draw() < faults.lose:
            return
        copies = 2 if not self.calm and draw() < faults.repeat else 1
        for _ in range(copies):
            at = now + draw() * faults.delay
            heapq.heappush(self._queue, (at, next(self._number), site, up, message))

    def arrived(self, now: float) -> list[tuple[str, bool, Any]]:
        """Messages that arrive by `now`: site, whether it goes up, message."""
        found = []
        while self._queue and self._queue[0][0] <= now:
            _, _, site, up, message = heapq.heappop(self._queue)
            found.append((site, up, message))
        return found


@dataclass
class Faulty(Run):
    """Messages get lost, sites and the coordinator fail; time passes in ticks."""

    faults: Faults
    seed: int
    heartbeat: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rng = np.random.default_rng(1_000_003 * self.seed + 11)
        self.judged: Answer | None = None
        self.healed: float | None = None  # units from the end of the faults to a valid answer
        self.network = Network(self.rng, self.faults)
        starts = np.concatenate((np.zeros_like(self.counts[:1]), np.cumsum(self.counts, 0)))
        self.windows_of = starts[self.length :] - starts[: -self.length]

    def run(self, windows: int) -> Simulation:
        faults, rng = self.faults, self.rng
        self.slide = -1
        coordinator = self._coordinator()
        self.monitors = {site: self.monitor(heartbeat=self.heartbeat) for site in self.sites}
        self.reached = dict.fromkeys(self.sites, -1)
        out_until = dict.fromkeys(self.sites, -1.0)
        waiting: dict[str, list[Message]] = {site: [] for site in self.sites}
        saved = coordinator.to_bytes()
        quiet_from = windows - faults.quiet
        changes = 0
        for slide in range(windows):
            self.slide = slide
            self.network.calm = slide >= quiet_from
            if not self.network.calm:
                for site in self.sites:
                    if out_until[site] > slide:
                        continue
                    if rng.random() < faults.crash:
                        self.monitors[site] = self.monitor(heartbeat=self.heartbeat, life=slide + 1)
                        self.reached[site] = -1
                        waiting[site] = []
                        out_until[site] = slide + rng.random() * faults.outage
                    elif rng.random() < faults.freeze:
                        out_until[site] = slide + rng.random() * faults.outage
                if rng.random() < faults.restart:
                    changes += coordinator.membership.changes
                    coordinator = self._coordinator(saved)
            else:
                out_until = dict.fromkeys(self.sites, -1.0)
            if slide % faults.save_every == 0:
                saved = coordinator.to_bytes()
            for tick in range(TICKS):
                now = slide + tick / TICKS
                for site in self.sites:
                    if out_until[site] <= now:
                        self._live(site, slide, waiting, now)
                for site, up, message in self.network.arrived(now):
                    if up:
                        self._down(coordinator.receive(site, message, now), now)
                    elif out_until[site] <= now:
                        self._up(site, self.monitors[site].receive(message), now)
                    else:
                        waiting[site].append(message)
                self._down(coordinator.tick(now), now)
                answer = coordinator.answer()
                self._judge(answer, tick == TICKS - 1)
                if slide >= quiet_from and self.healed is None and answer.valid:
                    self.healed = now - quiet_from
        found = self.result(coordinator)
        found.changes += changes
        return found

    def _coordinator(self, saved: bytes | None = None) -> Coordinator:
        if self.model is not None:  # a life of a coordinator has one of its own
            self.model = CostModel(self.model.objective, overhead=self.overhead)
        if saved is None:
            return self.coordinator()
        return Coordinator.from_bytes(saved, policy=self.policy, hybrid=self.model)

    def _live(self, site: str, slide: int, waiting: dict[str, list[Message]], now: float) -> None:
        """Let a site catch up with its stream and with the messages that waited for it."""
        monitor, index = self.monitors[site], self.sites.index(site)
        for message in waiting[site]:
            self._up(site, monitor.receive(message), now)
        waiting[site] = []
        reached = self.reached[site]
        for step in range(reached + 1 if reached >= 0 else slide, slide + 1):
            before = self.windows_of[step - 1][index] if reached >= 0 else 0
            change = self.windows_of[step][index] - before
            self._up(site, self.feed(monitor, step, change), now)
            reached = step
        self.reached[site] = reached
        self._up(site, monitor.tick(now), now)

    def _up(self, site: str, messages: list[Message], now: float) -> None:
        for message in messages:
            self.found.count(message, self.slide, self.overhead)
            self.network.send(site, True, message, now)

    def _down(self, messages: list[tuple[str, Message]], now: float) -> None:
        for site, message in messages:
            self.found.count(message, self.slide, self.overhead)
            self.network.send(site, False, message, now)

    def _judge(self, answer: Answer, last: bool) -> None:
        """Check what the answer claims: validity, or its bound over the sites that are there."""
        self.found.unsure += last and not answer.valid
        if answer == self.judged:
            return
        self.judged = answer
        if answer.as_of is None or answer.bound is None:
            wrong = answer.valid
        else:
            there = [n for n, site in enumerate(self.sites) if site not in answer.missing_sites]
            totals = self.windows_of[answer.as_of][there].sum(0)
            top = [item.object for item in answer.items]
            wrong = not holds(totals, top, self.k, answer.bound)
        self.found.invalid += bool(wrong)


def faulty_run(
    counts: np.ndarray,
    length: int,
    policy: str,
    faults: Faults,
    objective: str = "bytes",
    k: int = 10,
    epsilon: int = 0,
    heartbeat: int = 6,
    seed: int = 0,
) -> Faulty:
    """As `simulate` of counts, whose first `length` units are the first window."""
    model = CostModel(objective, overhead=8) if policy == "hybrid" else None
    found = Simulation(policy, len(counts) - length)
    chosen = "resolution" if model else policy
    return Faulty(counts, length, k, epsilon, chosen, model, 8, found, faults, seed, heartbeat)
