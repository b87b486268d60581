"""Monitors and a coordinator over one stream, with an oracle that knows all values.

`Synchronous`: every message of a slide arrives before the next one. `Faulty`: they get lost, and
sites and the coordinator fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.topk.answer import Answer
from muntin.topk.coordinator import Coordinator
from muntin.topk.costs import Simulation
from muntin.topk.hybrid import CostModel
from muntin.topk.messages import NOTHING, Message, Object
from muntin.topk.monitor import Monitor
from muntin.topk.network import Faults, Network
from muntin.topk.policy import Policy

TICKS = 4  # of a unit, in a run with faults


@dataclass
class Run:
    """Monitors and a coordinator over one stream, with the oracle."""

    counts: np.ndarray
    length: int
    k: int
    epsilon: int
    policy: str | Policy
    model: CostModel | None
    overhead: int
    found: Simulation

    def __post_init__(self) -> None:
        self.sites = [f"s{n}" for n in range(self.counts.shape[1])]
        self.objects: list[Object] = list(range(self.counts.shape[2]))

    def coordinator(self, **options: Any) -> Coordinator:
        options |= {"policy": self.policy, "hybrid": self.model}
        return Coordinator(self.sites, self.k, epsilon=self.epsilon, **options)

    def result(self, last: Coordinator, changes: int = 0) -> Simulation:
        """What it cost; `changes`: those of T under coordinators before the last."""
        found = self.found
        found.changes, found.partial = changes + last.changes, last.partial
        found.full, found.surveys = last.full, last.surveys
        return found

    def feed(self, monitor: Monitor, unit: int, change: np.ndarray) -> list[Message]:
        rows = np.flatnonzero(change)
        return monitor.slide(unit, rows + 1, change[rows])

    def monitor(self, **options: Any) -> Monitor:
        monitor = Monitor(**options)
        monitor.rows(self.objects)
        return monitor


class Synchronous(Run):
    """Every message of a slide arrives before the next slide."""

    def run(self, windows: int) -> Simulation:
        found, coordinator = self.found, self.coordinator(barrier=True)
        window = self.counts[: self.length].sum(0)
        monitors = {site: self.monitor(barrier=True) for site in self.sites}
        for slide in range(-1, windows):
            if slide < 0:
                change = window
            else:
                change = self.counts[self.length + slide] - self.counts[slide]
                window = window + change
            now = slide + 1
            up = []
            for row, (site, monitor) in zip(change, monitors.items(), strict=True):
                up += [(site, message) for message in self.feed(monitor, now, row)]
            while True:
                down = []
                for site, message in up:
                    found.count(message, slide, self.overhead)
                    down += coordinator.receive(site, message, now)
                if not (down := down or coordinator.tick(now)):
                    break
                up = []
                for site, message in down:
                    found.count(message, slide, self.overhead)
                    up += [(site, said) for said in monitors[site].receive(message)]
            if slide < 0:
                continue
            answer = coordinator.answer()
            found.unsure += not answer.valid
            if answer.valid:
                found.invalid += not holds(window.sum(0), coordinator.top, self.k, self.epsilon)
        return self.result(coordinator)


def holds(totals: np.ndarray, top: Iterable[Object], k: int, epsilon: int) -> bool:
    """The oracle: whether `top` is a top k of the totals within epsilon, by definition."""
    rows = [int(item) for item in top if item != NOTHING]
    if len(rows) > k or len(set(rows)) != len(rows):
        return False
    outside = np.delete(totals, rows)
    most = max(0, int(outside.max(initial=0)))
    least = int(totals[rows].min()) if len(rows) == k else 0
    return min(least, int(totals[rows].min(initial=least))) + epsilon >= most


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
                    changes += coordinator.changes
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
                if slide >= quiet_from and self.found.healed is None and answer.valid:
                    self.found.healed = now - quiet_from
        return self.result(coordinator, changes)

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
