"""Monitors and a coordinator over one stream, with an oracle that knows all values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.topk.coordinator import Coordinator
from muntin.topk.costs import Simulation
from muntin.topk.hybrid import CostModel
from muntin.topk.messages import NOTHING, Message, Object
from muntin.topk.monitor import Monitor
from muntin.topk.policy import Policy


@dataclass
class Run:
    """Every message of a slide arrives before the next slide."""

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

    def result(self, last: Coordinator) -> Simulation:
        """What it cost."""
        found = self.found
        found.changes, found.partial = last.changes, last.partial
        found.full, found.surveys = last.full, last.surveys
        return found

    def feed(self, monitor: Monitor, unit: int, change: np.ndarray) -> list[Message]:
        rows = np.flatnonzero(change)
        return monitor.slide(unit, rows + 1, change[rows])

    def monitor(self, **options: Any) -> Monitor:
        monitor = Monitor(**options)
        monitor.rows(self.objects)
        return monitor

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
