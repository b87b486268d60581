"""What a simulated run costs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from muntin.topk.codec import encode
from muntin.topk.messages import Calm, Hello, Message, Push, entries_in

COSTS = ("messages", "entries", "bytes")


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
    """

    policy: str
    windows: int
    control: int = 0
    invalid: int = 0
    unsure: int = 0
    changes: int = 0
    bootstrap: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COSTS, 0))
    series: dict[str, np.ndarray] = field(init=False)
    partial: int = 0
    full: int = 0
    surveys: int = 0

    def __post_init__(self) -> None:
        self.series = {name: np.zeros(self.windows, np.int64) for name in COSTS}

    @property
    def messages(self) -> int:
        """Sent both ways, after the bootstrap."""
        return int(self.series["messages"].sum())

    @property
    def entries(self) -> int:
        """Pairs of object and value, and names, in them."""
        return int(self.series["entries"].sum())

    @property
    def bytes(self) -> int:
        """Of them, with `overhead` a message."""
        return int(self.series["bytes"].sum())

    def per_100_windows(self) -> dict[str, float]:
        """Messages, entries and bytes per 100 windows."""
        return {name: getattr(self, name) * 100 / self.windows for name in COSTS}

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.messages} messages, {self.entries} entries, "
            f"{self.bytes} bytes in {self.windows} windows; {self.changes} changes, "
            f"{self.invalid} invalid, {self.unsure} unsure"
        )

    def count(self, message: Message, slide: int, overhead: int) -> None:
        """A message was sent; a slide below 0 is the bootstrap."""
        size = len(encode(message)) + overhead
        for name, cost in zip(COSTS, (1, entries_in(message), size), strict=True):
            if slide < 0:
                self.bootstrap[name] += cost
            else:
                self.series[name][min(slide, self.windows - 1)] += cost
        self.control += slide >= 0 and isinstance(message, Calm | Hello)


def naive_push(counts: np.ndarray, length: int, windows: int, overhead: int) -> Simulation:
    """Every site sends every value that changed, at every slide that changes one.

    The values of the first window are its bootstrap.
    """
    found = Simulation("naive", windows)
    for slide in range(-1, windows):
        change = counts[:length].sum(0) if slide < 0 else counts[length + slide] - counts[slide]
        for row in change:
            rows = np.flatnonzero(row)
            if len(rows):
                pairs = tuple(zip(rows.tolist(), row[rows].tolist(), strict=True))
                found.count(Push(1, 1, slide + 1, pairs), slide, overhead)
    return found
