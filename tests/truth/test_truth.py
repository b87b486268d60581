"""Whatever is asked of whatever pipeline, by whatever way: all that is answered is true."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any

import duckdb
import pytest

from muntin.errors import SelectError
from muntin.ledger.records import ClosedWindow
from muntin.server.reader import Reader
from muntin.session import Session
from tests.totals import SEED, total
from tests.truth.checks import check_answer, check_refused
from tests.truth.oracle import Chances, check_chances, matrix_table
from tests.truth.statements import Said, Statement, by_row, rows_of, standing, statement
from tests.truth.world import PANE, World

ZONES = ("America/New_York", "Asia/Kathmandu", "Pacific/Apia", "UTC")


@dataclass
class Asked:
    """What was asked, and how it was answered."""

    found: Counter[str] = field(default_factory=Counter)
    chances: Chances = field(default_factory=Chances)
    made: list[Statement] = field(default_factory=list)


def run_world(seed: int, steps: int, each: int, *, served: bool = False) -> Asked:
    """One pipeline, asked after each of its batches."""
    random = Random(seed)
    world = World(random, retention=random.random() < 0.5, rollups=random.random() < 0.75)
    asked = Asked()
    with ExitStack() as stack:
        stack.callback(world.close)
        stored = Stored(world, asked)
        stack.callback(stored.close)
        ask: Callable[[str], Said]
        if served:
            from tests.truth.ways import Followers, Ways

            ways = Ways(world.ledger)
            stack.callback(ways.close)
            stored.followers = Followers(ways, world.names[:2])
            stack.callback(stored.followers.close)
            ask = lambda text: ways.ask(text, all_ways=random.random() < 0.1)  # noqa: E731
        else:
            session = Session(world.ledger)
            ask = lambda text: session.sql(text).to_dict()  # noqa: E731
        try:
            for _ in range(steps):
                world.step()
                stored.check()
                for _ in range(each):
                    _ask(world, ask, asked)
        except Exception as problem:
            problem.add_note(f"seed {seed}, batch {world.batches}, served {served}")
            raise
    return asked


def _ask(world: World, ask: Callable[[str], Said], asked: Asked) -> None:
    """A new statement, or one that was asked before: much is kept of it, and may not be true."""
    if len(asked.made) < 10 or world.random.random() < 0.25:
        made = statement(world, asked.chances)
        asked.made = [*asked.made[-40:], made]
    else:
        made = world.random.choice(asked.made)
    try:
        said = ask(made.text)
    except SelectError as error:
        asked.found[check_refused(world, made, error)] += 1
    else:
        asked.found[check_answer(world, made, said)] += 1


class Stored:
    """Looks at the windows that have closed since it last did, by all ways that tell of them."""

    def __init__(self, world: World, asked: Asked) -> None:
        self._world = world
        self._asked = asked
        self._reader = Reader(world.ledger)
        self._seen = 0
        self.followers: Any = None

    def close(self) -> None:
        self._reader.engine.close()

    def check(self) -> None:
        with self._world.ledger.snapshot() as view:
            closings = view.closings(self._seen, limit=1_000_000)
        for number, window in closings:
            self._seen = number
            if window.summary == "m":
                self._world.closed[window.start] = self._world.batches
            horizon = self._world.ledger.horizon(window.summary, PANE)
            whole = horizon is None or window.start >= horizon
            if self.followers is not None:
                for way, message in self.followers.heard(window.summary):
                    self._check_pushed(way, message, window, whole=whole)
            if whole:
                stored = self._reader.standing(f"by_{window.summary}", window)
                assert stored is not None
                query = self._world.spec().queries[f"by_{window.summary}"].select
                for result in (stored, self._reader.on_window(query, window)):
                    self._check("stored", result.to_dict(), window)

    def _check_pushed(self, way: str, message: Any, window: ClosedWindow, *, whole: bool) -> None:
        assert message.get("gap") is None, message
        told = message["window"]
        assert (told["revision"], told["events"]) == (window.revision, window.events), message
        if message["result"] is None:
            assert message["error"]["code"] == "dropped", message
            assert way.startswith("asked"), message
            assert not whole, message
        elif whole:
            self._check(way, message["result"], window)

    def _check(self, way: str, said: Said, window: ClosedWindow) -> None:
        span = window.start, window.end
        made = standing(self._world, window.summary, span, self._asked.chances)
        try:
            self._asked.found[check_answer(self._world, made, said)] += 1
            assert said["revision"] == window.revision
        except AssertionError as wrong:
            wrong.add_note(f"{way}: {window}")
            raise


def test_a_thousand_statements() -> None:
    asked = [run_world(seed, 12, 17) for seed in range(5)]
    found = sum((each.found for each in asked), Counter[str]())
    assert found.total() > 1_000
    assert min(found[how] for how in ("exact", "bounds", "uncounted", "dropped", "nothing")) > 5


def test_rows_are_the_same_whichever_zero_a_limit_keeps() -> None:
    asked = "SELECT 0 / i FROM (SELECT unnest(?) AS i) ORDER BY 1 LIMIT 1"
    kept = [duckdb.execute(asked, [rows]).fetchall() for rows in ([-3, 3], [3, -3])]
    assert repr(kept[0]) != repr(kept[1])
    assert by_row(kept[0]) == by_row(kept[1])


def test_the_same_by_every_way() -> None:
    """HTTP as JSON and Arrow, PostgreSQL's protocol, events and /live; asked and followed."""
    pytest.importorskip("pygwire", reason="muntin[postgres] is not installed")
    for seed in (1, 2):
        assert run_world(seed, 10, 8, served=True).found["exact"] > 10


@pytest.mark.parametrize("seed", [seed for seed in range(12) if seed % 4 != 2])  # as 0 is
def test_stored_results_say_what_is_true(seed: int) -> None:
    """Also of windows longer than retention, declared late, and closed by the end of the source."""
    long = seed % 2 == 1
    random = Random(100 + seed)
    world = World(
        random, retention=long, rollups=seed % 4 != 3, sketches=0, long=long, window=seed % 3
    )
    reader = Reader(world.ledger)
    for number in range(60 if long else 30):
        world.step()
        if number % 20 == 19:
            world.end()
            _check_stored(world, reader)
    found = _check_stored(world, reader)
    assert found["held"] or found["dropped"], found
    assert set(found) <= {"held", "dropped", "outdated"}, found
    _all_is_in_windows(world)
    reader.engine.close()
    world.close()


def _check_stored(world: World, reader: Reader) -> Counter[str]:
    """Standing queries as the pipeline stored them, and the same asked on each closed window."""
    found: Counter[str] = Counter()
    windows = world.ledger.windows("m", limit=1000)
    for window in windows:
        events = world.among((window.start, window.end))
        rows = by_row(rows_of(matrix_table(world, events, ("k",)).select(["k", "count", "i"])))
        assert window.events == len(events), window
        stored = reader.standing("by_m", window)
        assert stored is not None
        assert stored.windows[0].covered == (window.start, window.end)
        assert stored.revision == window.revision
        if "outdated" in {note.code for note in stored.notes}:
            assert not stored.exact  # late events came after retention had dropped a part
            assert sum(row[1] for row in stored.rows) < len(events)
            found["outdated"] += 1
            continue
        assert by_row([row[:3] for row in stored.rows]) == rows
        assert stored.late == events.late.sum()
        try:
            asked = reader.on_window("SELECT k, count, i FROM m(k)", window)
        except SelectError as error:
            found[error.code] += 1
            continue
        assert (by_row(asked.rows), asked.exact) == (rows, True)
        assert asked.windows[0].covered == (window.start, window.end)
        found["held"] += 1
    trend = reader.engine.sql("SELECT window_start, k, count FROM trend(by_m)")
    assert not (trend.exact and found["outdated"])
    if not found["outdated"]:
        assert sum(row[2] for row in trend.rows) == sum(window.events for window in windows)
    return found


def _all_is_in_windows(world: World) -> None:
    """Where the source has ended, each event of a window's time is in one of them."""
    world.end()
    windows = world.ledger.windows("m", limit=1000)
    last = max(window.end for window in windows)
    assert (world.events.time < last).all()
    if world.windows["m"]["kind"] != "sliding" and not world.long:
        assert sum(window.events for window in windows) == len(world.events)


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_a_hundred_thousand_statements(zone: str) -> None:
    """A process for each time zone of a machine: DuckDB and Arrow ask for it once."""
    most = total("STATEMENTS", 100_000) // len(ZONES)
    seed = SEED + ZONES.index(zone) * 1_000_000
    command = [sys.executable, "-m", "tests.truth.test_truth", str(seed), str(most)]
    run = subprocess.run(
        command, env=os.environ | {"TZ": zone}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-8_000:]


def main(seed: int, most: int) -> None:
    """So many statements of new pipelines; one in eight is asked by every way."""
    done: list[Asked] = []
    total = 0
    while total < most:
        served = len(done) % 8 == 7
        done.append(run_world(seed + len(done), 30, 6 if served else 40, served=served))
        total += done[-1].found.total()
        print(f"{len(done)} pipelines, {total} statements", flush=True)  # noqa: T201
    check_chances([each.chances for each in done])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
