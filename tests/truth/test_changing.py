"""A pipeline whose file is changed at random between its batches, beside who has counted what.

Summaries, keys and indicators come, go and come back; windows, lateness, retention and rollups
become others. An answer holds what was counted, and says how much it lacks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import deepcopy
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from muntin.errors import SelectError, SpecError
from muntin.ledger.temporary import temporary
from muntin.session import Session
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from muntin.times import instant_text
from tests.pipeline.support import SECOND, gather
from tests.totals import SEED, total
from tests.truth.world import BEGIN, PANE

KEYS = (["a"], ["b"], ["a", "b"])
INDICATORS = ("i", "j")
COLUMNS = {"a": pa.string(), "b": pa.int64(), "i": pa.int64(), "j": pa.int64()}
WINDOWS: tuple[dict[str, Any], ...] = (
    {},
    {"window": {"kind": "tumbling", "length": "20 s"}},
    {"window": {"kind": "floating", "length": "40 s"}},
    {"window": {"kind": "sliding", "length": "40 s", "every": "20 s"}},
)
OTHERS = {
    "lateness": ("0 s", "20 s", "60 s"),
    "retention": ({}, {"panes": "2 minutes"}, {"panes": "1 minute", "rollups": "5 minutes"}),
    "rollups": ([], ["1 minute"], ["20 s", "1 minute", "10 minutes"]),
}
Row = dict[str, Any]


class Changing:
    """One pipeline. `rows` has what was fed, each with the summaries that were there then."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.ledger = temporary()
        self.file: dict[str, Any] = {"summaries": {"m": self._matrix()}}
        self.rows: list[Row] = []
        self.batches = 0
        self.newest = BEGIN
        self.ingest = self._started(self.file)

    def _matrix(self) -> dict[str, Any]:
        keys = self.random.sample(KEYS, self.random.randint(1, 3))
        indicators = self.random.sample(INDICATORS, self.random.randint(0, 2))
        return {"keys": keys, "indicators": indicators} | self.random.choice(WINDOWS)

    def _started(self, file: dict[str, Any]) -> Ingest:
        return Ingest(self._spec(file), self.ledger, query_id="q")

    @staticmethod
    def _spec(file: dict[str, Any]) -> Pipeline:
        return Pipeline.of({"name": "p", "time": "time", "pane": "10 s", "queries": {}} | file)

    def change(self) -> None:
        """One change, while it runs or between two runs; one that is refused changes nothing."""
        file = deepcopy(self.file)
        summaries = file["summaries"]
        chance = self.random.random()
        if chance < 0.5:
            summaries[self.random.choice("mn")] = self._matrix()
        elif chance < 0.6:
            unique = {"kind": "distinct", "item": "a", "by": "b"}
            summaries["d"] = unique | self.random.choice(WINDOWS)
        elif chance < 0.75 and len(summaries) > 1:
            del summaries[self.random.choice(list(summaries))]
        else:
            name = self.random.choice(list(OTHERS))
            file[name] = self.random.choice(OTHERS[name])
        try:
            if self.random.random() < 0.5:
                self.ingest.close()
                self.ingest = self._started(file)
            else:
                self.ingest.reconfigure(self._spec(file))
        except SpecError:
            self.ingest.close()
            self.ingest = self._started(self.file)
        else:
            self.file = file

    def feed(self) -> None:
        """A batch, of which some events are late."""
        random = self.random
        self.newest += random.choice((0, 5, 10, 60)) * SECOND
        rows = []
        for _ in range(random.randint(0, 8)):
            back = 300 if random.random() < 0.1 else 20
            time = max(BEGIN, self.newest + random.randint(-back, 10) * SECOND)
            picked = (random.choice(("x", "y", None)), random.choice((1, 2, None)))
            amounts = (random.choice((1, 5, None)), random.choice((0, 3)))
            rows.append({"time": time} | dict(zip(COLUMNS, (*picked, *amounts), strict=True)))
        table = {name: pa.array([row[name] for row in rows], of) for name, of in COLUMNS.items()}
        times = pa.array([row["time"] for row in rows], pa.timestamp("us", "UTC"))
        self.ingest.take(self.batches, gather([pa.table({"time": times} | table)]))
        self.batches += 1
        there = deepcopy(self.file["summaries"])
        self.rows += [row | {"there": there} for row in rows]

    def ask(self) -> str:
        """One question; how it was answered, after the answer was found to be true."""
        name = self.random.choice(list(self.file["summaries"]))
        entry = self.file["summaries"][name]
        clause, low, high = "FOR ALL", None, None
        if self.random.random() < 0.7:
            panes = (self.newest - BEGIN) // PANE
            low = BEGIN + self.random.randint(0, panes) * PANE
            high = low + self.random.randint(1, 30) * PANE
            clause = f"FOR '{instant_text(low)}' TO '{instant_text(high)}'"
        if name == "d":
            key, text = ["b"], f"SELECT b, round(value) FROM distinct(d) {clause}"  # noqa: S608
        else:
            key = self.random.choice(entry["keys"])
            columns = ", ".join((*key, "count", *entry["indicators"]))
            text = f"SELECT {columns} FROM {name}({', '.join(key)}) {clause}"  # noqa: S608
        try:
            result = Session(self.ledger).sql(text)
        except SelectError as refused:
            if refused.code != "dropped":
                raise
            return refused.code
        covered = result.windows[0].covered or (0, 0)
        within = [row for row in self.rows if covered[0] <= row["time"] < covered[1]]
        if low is not None:
            within = [row for row in within if low <= row["time"] < high]
        counted = [row for row in within if self._counts(row["there"].get(name), key)]
        expected = self._distinct(counted) if name == "d" else self._sums(counted, name, key)
        assert Counter(map(tuple, result.rows)) == Counter(expected), text
        lacks = result.bounds.get(name, {}).get("uncounted", {})
        if not lacks:
            assert counted == within, text
            assert result.exact or name == "d", text
            return "whole"
        assert not result.exact, text
        here = sum(count for part, count in lacks.items() if part not in INDICATORS)
        assert here >= len(within) - len(counted), text
        at_most = any("at most" in note.message for note in result.notes)
        assert here == len(within) - len(counted) or covered != (low, high) or at_most, text
        return "lacking"

    @staticmethod
    def _counts(entry: dict[str, Any] | None, key: list[str]) -> bool:
        return entry is not None and key in entry.get("keys", [key])

    @staticmethod
    def _sums_of(rows: list[Row], name: str, indicator: str) -> int | None:
        """Null where no event of the key came while the indicator was there."""
        seen = [row for row in rows if indicator in row["there"][name]["indicators"]]
        return sum(row[indicator] or 0 for row in seen) if seen else None

    def _sums(self, rows: list[Row], name: str, key: list[str]) -> list[tuple[Any, ...]]:
        groups = defaultdict(list)
        for row in rows:
            groups[tuple(row[column] for column in key)].append(row)
        indicators = self.file["summaries"][name]["indicators"]
        return [
            (*group, len(of), *(self._sums_of(of, name, each) for each in indicators))
            for group, of in groups.items()
        ]

    @staticmethod
    def _distinct(rows: list[Row]) -> list[tuple[Any, ...]]:
        """A key whose events have no item does not show."""
        items = defaultdict(set)
        for row in rows:
            if row["a"] is not None:
                items[row["b"]].add(row["a"])
        return [(key, len(of)) for key, of in items.items()]


def changed(seed: int, steps: int) -> Counter[str]:
    """How its questions were answered."""
    world, found = Changing(seed), Counter[str]()
    try:
        for _ in range(steps):
            world.change()
            for _ in range(world.random.randint(1, 3)):
                world.feed()
            found.update(world.ask() for _ in range(2))
        world.ingest.close()
        assert world.ledger.verify() == []
    except Exception as problem:
        problem.add_note(f"seed {seed}, batch {world.batches}, file {world.file}")
        raise
    return found


def test_an_answer_says_what_it_lacks() -> None:
    found = sum((changed(seed, 12) for seed in (5, 11)), Counter[str]())
    assert min(found[how] for how in ("whole", "lacking", "dropped")) > 0, found


@pytest.mark.slow
def test_a_hundred_pipelines_that_change() -> None:
    for number in range(total("CHANGING", 100)):
        changed(SEED + number, 40)
