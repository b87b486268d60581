"""What a run costs: the result of a simulation, and the tally that fills it in."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from muntin.topk.codec import encode
from muntin.topk.messages import Calm, Hello, Message, Push, entries_in


@dataclass(slots=True)
class Simulation:
    """What a run cost. Series have one entry a slide; totals exclude the bootstrap.

    Attributes
    ----------
    messages, entries, bytes : int
        Sent both ways; (object, value) pairs and names in them; bytes with `overhead` a message.
    control : int
        Those of the messages that only acknowledge or say that a site is there.
    invalid : int
        Slides whose answer claimed to be valid and was not.
    unsure : int
        Slides whose answer did not claim to be valid.
    changes : int
        How often T changed.
    bootstrap : dict
        Messages, entries and bytes until the first answer.
    series : dict of int64[windows]
        "messages", "entries", "bytes".
    healed : float or None
        Units from the end of the faults to the first valid answer after it.
    """

    policy: str
    windows: int
    messages: int = 0
    entries: int = 0
    bytes: int = 0
    control: int = 0
    invalid: int = 0
    unsure: int = 0
    changes: int = 0
    bootstrap: dict[str, int] = field(default_factory=dict)
    series: dict[str, np.ndarray] = field(default_factory=dict)
    healed: float | None = None
    partial: int = 0
    full: int = 0
    surveys: int = 0

    def per_100_windows(self) -> dict[str, float]:
        """Messages, entries and bytes per 100 windows."""
        scale = 100 / self.windows
        return {name: getattr(self, name) * scale for name in ("messages", "entries", "bytes")}

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.messages} messages, {self.entries} entries, "
            f"{self.bytes} bytes in {self.windows} windows; {self.changes} changes, "
            f"{self.invalid} invalid, {self.unsure} unsure"
        )


class Tally:
    """Adds up what is sent."""

    def __init__(self, policy: str, windows: int) -> None:
        self.found = Simulation(policy, windows)
        self.series = {n: np.zeros(windows, np.int64) for n in ("messages", "entries", "bytes")}
        self.first = dict.fromkeys(self.series, 0)

    def count(self, message: Message, slide: int, overhead: int) -> None:
        size = len(encode(message)) + overhead
        costs = {"messages": 1, "entries": entries_in(message), "bytes": size}
        for name, cost in costs.items():
            if slide < 0:
                self.first[name] += cost
            else:
                self.series[name][min(slide, len(self.series[name]) - 1)] += cost
        self.found.control += slide >= 0 and isinstance(message, Calm | Hello)

    def result(self) -> Simulation:
        found = self.found
        found.series, found.bootstrap = self.series, self.first
        found.messages, found.entries, found.bytes = (int(s.sum()) for s in self.series.values())
        return found


def naive_push(counts: np.ndarray, length: int, windows: int, overhead: int) -> Simulation:
    """Every site sends every value that changed, at every slide that changes one.

    The values of the first window are its bootstrap.
    """
    found = Tally("naive", windows)
    for slide in range(-1, windows):
        change = counts[:length].sum(0) if slide < 0 else counts[length + slide] - counts[slide]
        for row in change:
            rows = np.flatnonzero(row)
            if len(rows):
                pairs = tuple(zip(rows.tolist(), row[rows].tolist(), strict=True))
                found.count(Push(1, 1, slide + 1, pairs), slide, overhead)
    return found.result()
