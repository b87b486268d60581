"""Whatever is asked of whatever pipeline: rows and what is said of them are true."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from muntin.errors import SelectError
from muntin.server.reader import Reader
from muntin.session import Session
from tests.truth.world import World, check_statement, rows_of

PIPELINES = 8
STEPS = 30


@pytest.mark.parametrize("seed", range(PIPELINES))
def test_answers_say_what_is_true(seed: int) -> None:
    random = Random(seed)
    world = World(random, retention=seed % 2 == 1, rollups=seed % 4 != 3)
    session = Session(world.ledger)
    kinds: Counter[str] = Counter()
    for _ in range(STEPS):
        world.step()
        for _ in range(4):
            kinds[check_statement(world, session)] += 1
    world.close()
    assert kinds["exact"], kinds


def check_stored(world: World, reader: Reader) -> Counter[str]:
    """Standing queries as the pipeline stored them, and the same asked on each closed window."""
    found: Counter[str] = Counter()
    windows = world.ledger.windows("m", limit=1000)
    for window in windows:
        events = world.among((window.start, window.end))
        assert window.events == len(events), window
        stored = reader.standing("q", window)
        assert stored is not None
        assert stored.windows[0].covered == (window.start, window.end)
        assert stored.revision == window.revision
        if not stored.exact:  # late events came after retention had dropped a part
            assert [note.code for note in stored.notes] == ["outdated"]
            assert sum(row[1] for row in stored.rows) < len(events)
            found["outdated"] += 1
            continue
        assert sorted(stored.rows) == rows_of(events, "k")
        assert stored.late == sum(event.late for event in events)
        try:
            asked = reader.on_window("SELECT k, count, i FROM m(k)", window)
        except SelectError as error:
            found[error.code] += 1
            continue
        assert (sorted(asked.rows), asked.exact) == (rows_of(events, "k"), True)
        assert asked.windows[0].covered == (window.start, window.end)
        found["held"] += 1
    trend = reader.sql("SELECT window_start, k, count FROM trend(q)")
    assert trend.exact == (not found["outdated"])
    if trend.exact:
        assert sum(row[2] for row in trend.rows) == sum(window.events for window in windows)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_stored_results_say_what_is_true(seed: int) -> None:
    """Also of windows longer than retention, declared late, and closed by the end of the source."""
    long = seed % 2 == 1
    world = World(Random(100 + seed), retention=long, rollups=seed % 4 != 3, long=long)
    reader = Reader(world.ledger)
    for number in range(2 * STEPS if long else STEPS):
        world.step()
        if number % 20 == 19:
            world.end()
            check_stored(world, reader)
    found = check_stored(world, reader)
    assert found["held"] or found["dropped"], found
    assert set(found) <= {"held", "dropped", "outdated"}, found
    _all_is_in_windows(world)
    reader.close()
    world.close()


def _all_is_in_windows(world: World) -> None:
    """Where the source has ended, each event of a window's time is in one of them."""
    world.end()
    windows = world.ledger.windows("m", limit=1000)
    last = max(window.end for window in windows)
    assert all(event.time < last for event in world.events)
    if world.window["kind"] != "sliding" and not world.long:
        assert sum(window.events for window in windows) == len(world.events)
