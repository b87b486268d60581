"""Monitors and a coordinator wired together in one process, every message through its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.topk import Coordinator, Message, Monitor, decode, encode
from muntin.topk.messages import NOTHING, Object


class Pair:
    """A coordinator and its sites, with a barrier: `slide` delivers all there is to say."""

    def __init__(self, sites: int, k: int, *, names: list[Object] | None = None, **options: Any):
        self.names = [f"s{n}" for n in range(sites)]
        self.coordinator = Coordinator(self.names, k, barrier=True, **options)
        self.monitors = {name: Monitor(barrier=True) for name in self.names}
        self.values: dict[str, dict[Object, int]] = {name: {} for name in self.names}
        self.log: list[tuple[str, Message]] = []
        self.unit = 0
        self.known = names or []

    def slide(self, changes: dict[str, dict[Object, int]]) -> list[tuple[str, Message]]:
        """Move every site by its changes; returns all messages of the slide."""
        self.unit += 1
        self.log = []
        up = []
        for name, monitor in self.monitors.items():
            change = changes.get(name, {})
            for item, by in change.items():
                self.values[name][item] = self.values[name].get(item, 0) + by
            rows = monitor.rows(list(change))
            found = monitor.slide(self.unit, rows, np.array(list(change.values()), np.int64))
            up += [(name, message) for message in found]
        self.settle(up)
        return self.log

    def settle(self, up: list[tuple[str, Message]]) -> None:
        for _ in range(10_000):
            down = []
            for name, message in up:
                self.log.append((name, message))
                down += self.coordinator.receive(name, decode(encode(message)), self.unit)
            down = down or self.coordinator.tick(self.unit)
            if not down:
                return
            up = []
            for name, message in down:
                self.log.append((name, message))
                up += [(name, s) for s in self.monitors[name].receive(decode(encode(message)))]
        raise AssertionError("messages without end")

    def totals(self) -> dict[Object, int]:
        found: dict[Object, int] = {}
        for values in self.values.values():
            for item, value in values.items():
                found[item] = found.get(item, 0) + value
        return found

    def check(self) -> None:
        """The definition of a valid T, the sum of the factors, and every local constraint."""
        coordinator, totals = self.coordinator, self.totals()
        answer = coordinator.answer()
        assert answer.valid
        assert answer.as_of == self.unit
        top = coordinator.top
        assert len(set(top)) == len(top) <= coordinator.k
        assert len(top) == coordinator.k or NOTHING in top
        least = min(totals.get(item, 0) for item in top)
        outside = [value for item, value in totals.items() if item not in top]
        assert least + coordinator.epsilon >= max([0, *outside])
        sites = coordinator.sites.values()
        for item in {*coordinator.membership.own, *(i for site in sites for i in site.factors)}:
            factors = [site.factors.get(item, 0) for site in sites]
            assert coordinator.membership.own.get(item, 0) + sum(factors) == 0
        for name, monitor in self.monitors.items():
            rows = range(len(monitor.objects))
            adjusted = dict(zip(monitor.objects.names, monitor.objects.adjusted, strict=True))
            held = coordinator.sites[name].factors
            reported = dict(
                zip(monitor.objects.names, monitor.objects.reported.tolist(), strict=True)
            )
            assert coordinator.sites[name].memory == {i: v for i, v in reported.items() if v}
            assert all(
                adjusted[monitor.objects.names[r]]
                == monitor.objects.values[r] + held.get(monitor.objects.names[r], 0)
                for r in rows
            )
            if monitor.phase == "calm":
                inside = min(adjusted.get(item, 0) for item in top)
                assert inside >= max([0, *(v for i, v in adjusted.items() if i not in top)])
