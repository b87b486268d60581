"""A network that loses, repeats, delays and reorders messages, and sites that fail.

Everything is drawn from one generator, so a run can be repeated. Time is in window units.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from muntin.errors import BadArgument


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

    def __post_init__(self) -> None:
        for name in ("lose", "repeat", "crash", "freeze", "restart"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadArgument(f"{name} is {getattr(self, name)}: give a probability, 0 to 1")
        if self.delay < 0 or self.outage < 0 or self.save_every < 1 or self.quiet < 0:
            raise BadArgument("delay, outage and quiet must be >= 0, save_every >= 1")


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
