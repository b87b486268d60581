"""Random pipelines, fed without Spark, beside all of their events: what every answer must be.

An answer is right where its rows are those of all events in what it says it covers, and where it
says of them what is true: how many came late, and how many a key has not counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from muntin.errors import SelectError
from muntin.ledger.temporary import temporary
from muntin.select.result import Result
from muntin.session import Session
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from muntin.times import instant_text
from tests.pipeline.support import SECOND, gather

PANE = 10 * SECOND
LATENESS = 30 * SECOND
BEGIN = 1_700_000_000 * SECOND // (600 * SECOND) * (600 * SECOND)
QUERY = "SELECT k, count, i FROM m(k)"


@dataclass(frozen=True, slots=True)
class Event:
    time: int
    k: str
    n: int
    i: int
    late: bool
    by_n: bool
    """Whether the key n was there to count it."""

    @property
    def pane(self) -> int:
        return self.time // PANE * PANE


@dataclass
class World:
    """One pipeline and what it was fed."""

    random: Random
    retention: bool = False
    rollups: bool = True
    long: bool = False
    """Windows longer than what retention keeps, declared after some batches."""
    keys: list[str] = field(default_factory=lambda: ["k"])
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = temporary()
        self.ingest = Ingest(self.spec(), self.ledger, query_id="q")
        self.batches = 0
        self.newest: int | None = None

    def spec(self) -> Pipeline:
        kinds = [
            {"kind": "tumbling", "length": "20 s"},
            {"kind": "floating", "length": "40 s"},
            {"kind": "sliding", "length": "40 s", "every": "20 s"},
        ]
        if self.long:
            kinds = [
                {"kind": "tumbling", "length": "10 minutes"},
                {"kind": "floating", "length": "5 minutes"},
                {"kind": "sliding", "length": "5 minutes", "every": "50 s"},
            ]
        self.window = getattr(self, "window", None) or self.random.choice(kinds)
        summary = {"keys": list(self.keys), "indicators": ["i"], "window": self.window}
        queries = {"q": QUERY}
        if self.long and getattr(self, "batches", 0) < 5:
            del summary["window"]
            queries = {}
        retention = {"panes": "1 minute", "rollups": "3 minutes"} if self.long else None
        return Pipeline.of(
            {
                "name": "p",
                "time": "time",
                "pane": "10 s",
                "lateness": "30 s",
                "rollups": ["1 minute", "10 minutes"] if self.rollups else [],
                "retention": retention or ({"panes": "3 minutes"} if self.retention else {}),
                "summaries": {"m": summary},
                "queries": queries,
            }
        )

    def step(self) -> None:
        """A batch; now and then a restart before it, or one more key."""
        chance = self.random.random()
        if chance < 0.08:
            self.ingest.close()
            self.ingest = Ingest(self.spec(), self.ledger, query_id="q")
        elif self.long and self.batches == 5:
            self.ingest.reconfigure(self.spec())
        elif chance < 0.16 and self.keys == ["k"] and self.batches:
            self.keys = ["k", "n"]
            self.ingest.reconfigure(self.spec())
        watermark = None if self.newest is None else self.newest - LATENESS
        around = self.newest or BEGIN
        times = []
        for _ in range(self.random.randint(0, 6)):
            back = 400 if self.random.random() < 0.15 else 25
            times.append(max(BEGIN, around + self.random.randint(-back, 40) * SECOND))
        made = []
        for time in times:
            late = watermark is not None and time // PANE * PANE + PANE <= watermark
            key, number = self.random.choice("abc"), self.random.randint(0, 2)
            value = self.random.randint(-5, 5)
            made.append(Event(time, key, number, value, late, "n" in self.keys))
        table = pa.table(
            {
                "time": pa.array(times, pa.timestamp("us", "UTC")),
                "k": pa.array([e.k for e in made], pa.string()),
                "n": pa.array([e.n for e in made], pa.int64()),
                "i": pa.array([e.i for e in made], pa.int64()),
            }
        )
        self.ingest.take(self.batches, gather([table]))
        self.batches += 1
        self.events += made
        self.newest = max([*times, *([] if self.newest is None else [self.newest])], default=None)

    def end(self) -> None:
        """The source has ended."""
        self.ingest.finish(ended=True)

    def close(self) -> None:
        self.ingest.close()

    def among(self, span: tuple[int, int]) -> list[Event]:
        return [event for event in self.events if span[0] <= event.time < span[1]]

    def clause(self) -> tuple[str, tuple[int, int] | None]:
        """A window clause, and the panes that it means where that does not depend on the ledger."""
        until = (self.newest or BEGIN) // PANE * PANE + PANE
        kind = self.random.choice(["all", "last", "range", "range", "window", "open"])
        if kind == "last":
            length = self.random.randint(1, 40)
            return f"FOR LAST '{length * 10} s'", (until - length * PANE, until)
        if kind == "range":
            start = BEGIN + self.random.randint(-3, (until - BEGIN) // PANE) * PANE
            end = start + self.random.randint(1, 30) * PANE
            return f"FOR '{instant_text(start)}' TO '{instant_text(end)}'", (start, end)
        if kind == "window":
            closed = self.ledger.windows("m")
            if closed:
                window = self.random.choice(closed)
                span = window.start, window.end
                return f"FOR WINDOW '{instant_text(window.start)}'", span
        return ("", None) if kind == "open" else ("FOR ALL", None)


def check_statement(world: World, session: Session) -> str:
    """Ask one random thing; how it was answered: "exact", "uncounted", "dropped", "nothing"."""
    clause, asked = world.clause()
    key = world.random.choice(world.keys)
    text = f"SELECT {key}, count, i FROM m({key}) {clause} ORDER BY {key}"  # noqa: S608
    try:
        result = session.sql(text)
    except SelectError as error:
        if error.code != "dropped":
            raise
        assert world.retention, text
        horizon = world.ledger.horizon("m", PANE)
        assert asked is not None, text
        assert horizon is not None, text
        assert asked[0] < horizon, text
        return "dropped"
    covered = result.windows[0].covered
    codes = {note.code for note in result.notes}
    if asked is not None and "retention" not in codes:
        inside = world.among(covered) if covered else []
        assert len(world.among(asked)) == len(inside), (text, asked, covered)
    if asked is not None and covered is not None:
        assert asked[0] <= covered[0] < covered[1] <= asked[1], (text, asked, covered)
    if covered is None:
        assert result.rows == [], text
        assert codes & {"nothing", "open"} or not world.events, text
        return "nothing"
    return _check_rows(world, text, key, result, covered)


def _check_rows(world: World, text: str, key: str, result: Result, covered: tuple[int, int]) -> str:
    events = world.among(covered)
    counted = [event for event in events if key == "k" or event.by_n]
    assert result.rows == rows_of(counted, key), (text, covered)
    assert result.late == sum(event.late for event in events), (text, covered)
    missing = len(events) - len(counted)
    assert result.exact == (not missing), (text, covered)
    if not missing:
        assert result.bounds == {}, text
        return "exact"
    assert result.bounds["m"]["uncounted"][key] == missing, text
    assert "uncounted" in {note.code for note in result.notes}, text
    return "uncounted"


def rows_of(events: list[Event], key: str) -> list[list[Any]]:
    counts: Counter[Any] = Counter()
    sums: Counter[Any] = Counter()
    for event in events:
        counts[getattr(event, key)] += 1
        sums[getattr(event, key)] += event.i
    return [[value, counts[value], sums[value]] for value in sorted(counts)]
