"""Random pipelines, fed without Spark, beside all of their events.

A world has a matrix that gets keys and an indicator while it runs, sketches that are small enough
to estimate, late events, gaps, restarts, and a ledger that may drop what is old.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.ledger.base import Ledger
from muntin.ledger.records import ClosedWindow
from muntin.ledger.temporary import temporary
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from tests.pipeline.support import SECOND, gather

PANE = 10 * SECOND
LATENESS = 30 * SECOND
BEGIN = 1_700_000_000 * SECOND // (600 * SECOND) * (600 * SECOND)
NEVER = 1 << 40

Span = tuple[int, int]
KEYS = (("k",), ("n",), ("k", "h"))
"""The first is there from the beginning, the others come later."""
SKETCHES: dict[str, dict[str, Any]] = {
    "s": {"keys": ["u"], "indicators": ["w"], "sketch": {"width": 4, "depth": 3, "track": 3}},
    "q": {"kind": "quantiles", "value": "x", "accuracy": "tail", "k": 4},
    "qk": {"kind": "quantiles", "value": "x", "k": 8, "by": "k", "limit": 3},
    "d": {"kind": "distinct", "item": "u", "precision": 5},
    "dk": {"kind": "distinct", "item": "u", "precision": 4, "by": "k", "limit": 2},
    "t": {"kind": "top_k", "item": "u", "weight": "w", "capacity": 3},
    "f": {"kind": "frequency", "item": "u", "width": 12, "depth": 3, "track": 2},
    "fc": {"kind": "frequency", "item": "u", "weight": "w", "width": 12, "depth": 3, "track": 2,
           "conservative": True},
    "p": {"kind": "fingerprint", "key": "u", "fpp": 0.05, "rank": "x", "bits": 12, "error": 0.3},
}  # fmt: skip
"""Their parameters are so small that most windows estimate, and some do not."""
STANDING = {
    "m": "SELECT * FROM m(k)",
    "s": "SELECT * FROM s(u)",
    "q": "SELECT * FROM quantiles(q, 0.0, 0.5, 1.0)",
    "qk": "SELECT * FROM ranks(qk, 0.25, 3)",
    "d": "SELECT * FROM distinct(d)",
    "dk": "SELECT * FROM distinct(dk)",
    "t": "SELECT * FROM top_k(t, 3)",
    "f": "SELECT * FROM top_k(f, 2)",
    "fc": "SELECT * FROM top_k(fc, 2)",
    "p": "SELECT * FROM ranks(p, 0.25, 3)",
}
WINDOWS = (
    {"kind": "tumbling", "length": "20 s"},
    {"kind": "floating", "length": "40 s"},
    {"kind": "sliding", "length": "40 s", "every": "20 s"},
)
LONG = (
    {"kind": "tumbling", "length": "10 minutes"},
    {"kind": "floating", "length": "5 minutes"},
    {"kind": "sliding", "length": "5 minutes", "every": "50 s"},
)
DECLARED = 5
"""Batches before long windows are declared."""
TYPES = {
    "time": pa.timestamp("us", "UTC"), "k": pa.string(), "n": pa.int64(),
    "h": pa.timestamp("us", "UTC"), "i": pa.int64(), "j": pa.int64(), "x": pa.float64(),
    "u": pa.string(), "w": pa.int64(),
}  # fmt: skip


@dataclass(slots=True)
class Events:
    """All that was fed, in the order of coming. A null is None."""

    time: np.ndarray
    batch: np.ndarray
    late: np.ndarray
    columns: dict[str, np.ndarray]

    @classmethod
    def none(cls) -> Events:
        numbers = np.empty(0, np.int64)
        columns = {name: np.empty(0, object) for name in TYPES if name != "time"}
        return cls(numbers, numbers, np.empty(0, bool), columns)

    def __len__(self) -> int:
        return len(self.time)

    def take(self, mask: np.ndarray) -> Events:
        columns = {name: column[mask] for name, column in self.columns.items()}
        return Events(self.time[mask], self.batch[mask], self.late[mask], columns)

    def joined(self, more: Events) -> Events:
        columns = {n: np.concatenate([c, more.columns[n]]) for n, c in self.columns.items()}
        return Events(
            np.concatenate([self.time, more.time]),
            np.concatenate([self.batch, more.batch]),
            np.concatenate([self.late, more.late]),
            columns,
        )


@dataclass
class World:
    """One pipeline and what it was fed.

    Attributes
    ----------
    since : dict
        Key or indicator -> the first batch that counts it.
    closed : dict
        Start of a closed window of the matrix -> how many batches there were then.
    """

    random: Random
    retention: bool = False
    rollups: bool = True
    sketches: int = 2
    long: bool = False
    """Windows longer than what retention keeps, declared after some batches."""
    window: int | None = None
    """Which of the kinds of window the matrix has; None: any."""
    ledger: Ledger = field(default_factory=temporary)
    on_step: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        random = self.random
        names = random.sample(sorted(SKETCHES), self.sketches)
        self.names = ["m", *names]
        kinds = LONG if self.long else WINDOWS
        self.windows = {name: random.choice(kinds) for name in self.names}
        if self.window is not None:
            self.windows["m"] = kinds[self.window]
        self.items = [f"{random.randrange(1 << 40):x}" for _ in range(random.randint(4, 60))]
        self.burst = random.choice([3, 8, 40])
        self.since: dict[Any, int] = {KEYS[0]: 0, "i": 0, "x": 0}
        self.closed: dict[int, int] = {}
        self.events = Events.none()
        self.batches = 0
        self.newest: int | None = None
        self._among: dict[Span, Events] = {}
        self._retention = {"panes": "3 minutes"} if self.retention else {}
        if self.long:
            self._retention = {"panes": "1 minute", "rollups": "3 minutes"}
        self.ingest = Ingest(self.spec(), self.ledger, query_id="q")

    @property
    def keys(self) -> list[tuple[str, ...]]:
        return [key for key in KEYS if key in self.since]

    @property
    def indicators(self) -> list[str]:
        return [name for name in ("i", "x", "j") if name in self.since]

    def spec(self) -> Pipeline:
        matrix = {"keys": [list(key) for key in self.keys], "indicators": self.indicators}
        summaries = {"m": matrix} | {name: dict(SKETCHES[name]) for name in self.names[1:]}
        queries = {}
        if not self.long or self.batches >= DECLARED:
            for name, entry in summaries.items():
                entry["window"] = self.windows[name]
            queries = {f"by_{name}": STANDING[name] for name in self.names}
        return Pipeline.of(
            {
                "name": "p",
                "time": "time",
                "pane": "10 s",
                "lateness": "30 s",
                "rollups": ["1 minute", "10 minutes"] if self.rollups else [],
                "retention": self._retention,
                "summaries": summaries,
                "queries": queries,
            }
        )

    def step(self) -> None:
        """A batch; now and then after a restart, in a crash, with one more key or indicator, or
        after a client has asked for longer windows."""
        chance = self.random.random()
        if chance < 0.05:
            self.ingest.close()
            self.ingest = Ingest(self.spec(), self.ledger, query_id="q")
        elif self.long and self.batches == DECLARED:
            self.ingest.reconfigure(self.spec())
        elif chance < 0.13 and self.batches:
            self._one_more()
        elif 0.2 <= chance < 0.3:
            self.ingest.command(self.random.choice(("slow_down", "slow_down", "resume")))
        made = self._made()
        table = pa.table(
            {
                "time": pa.array(made.time, TYPES["time"]),
                **{name: pa.array(c, TYPES[name]) for name, c in made.columns.items()},
            }
        )
        if 0.13 <= chance < 0.2:
            self._crash(table)
        self.ingest.take(self.batches, gather([table]))
        self.batches += 1
        self.events = self.events.joined(made)
        self._among.clear()
        if len(made):
            self.newest = max(int(made.time.max()), self.newest or 0)
        if self.on_step is not None:
            self.on_step()

    def _crash(self, table: pa.Table) -> None:
        """The process ends when the batch is committed, before any window tells of it."""

        def ended(*_: object, **__: object) -> list[ClosedWindow]:
            raise InterruptedError

        self.ingest._assembler.step = ended
        with suppress(InterruptedError):
            self.ingest.take(self.batches, gather([table]))
        self.ingest.close()
        self.ingest = Ingest(self.spec(), self.ledger, query_id="q")

    def _one_more(self) -> None:
        missing = [part for part in (*KEYS, "j") if part not in self.since]
        if missing:
            self.since[self.random.choice(missing)] = self.batches
            self.ingest.reconfigure(self.spec())

    def _made(self) -> Events:
        random = self.random
        watermark = None if self.newest is None else self.newest - LATENESS
        around = self.newest or BEGIN
        if random.random() < 0.04:
            around += random.randint(60, 400) * SECOND  # a gap
        times = []
        for _ in range(random.randint(0, self.burst)):
            back = 400 if random.random() < 0.15 else 25
            times.append(max(BEGIN, around + random.randint(-back * 10**6, 40 * 10**6)))
        time = np.array(times, np.int64)
        late = np.zeros(len(time), bool)
        if watermark is not None:
            late = time // PANE * PANE + PANE <= watermark

        def column(value: Callable[[], Any], nulls: float = 0.06) -> np.ndarray:
            made = [None if random.random() < nulls else value() for _ in times]
            return np.array([*made, None], object)[:-1]

        items = self.items
        columns = {
            "k": column(lambda: random.choice("abcde")),
            "n": column(lambda: random.randint(0, 2)),
            "h": column(lambda: BEGIN + random.randint(0, 40) * 1_800 * SECOND),
            "i": column(lambda: random.randint(-5, 5)),
            "j": column(lambda: random.randint(-5, 5)),
            "x": column(lambda: random.randint(-16, 64) / 4),
            "u": column(lambda: items[int(len(items) * random.random() ** 2)]),
            "w": column(lambda: random.randint(0, 4)),
        }
        return Events(time, np.full(len(time), self.batches, np.int64), late, columns)

    def end(self) -> None:
        """The source has ended."""
        self.ingest.finish(ended=True)

    def close(self) -> None:
        self.ingest.close()

    def among(self, span: Span | None) -> Events:
        """The events of a span of time."""
        if span is None:
            return Events.none()
        found = self._among.get(span)
        if found is None:
            time = self.events.time
            found = self.events.take((span[0] <= time) & (time < span[1]))
            self._among[span] = found
        return found

    def counted(self, events: Events, part: Any) -> Events:
        """Those that a key or an indicator of the matrix has counted."""
        since = self.since[part]
        return events if since == 0 else events.take(events.batch >= since)
