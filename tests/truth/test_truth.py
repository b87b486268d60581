"""Whatever is asked of whatever pipeline: rows and what is said of them are true."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

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


@pytest.mark.parametrize("seed", range(4))
def test_stored_results_say_what_is_true(seed: int) -> None:
    """Standing queries as the pipeline stored them, and the same asked on each closed window."""
    world = World(Random(100 + seed))
    for _ in range(STEPS):
        world.step()
    reader = Reader(world.ledger)
    windows = world.ledger.windows("m", limit=1000)
    for window in windows:
        events = world.among((window.start, window.end))
        stored = reader.standing("q", window)
        assert stored is not None
        asked = reader.on_window("SELECT k, count, i FROM m(k)", window)
        for result in (stored, asked):
            assert sorted(result.rows) == rows_of(events, "k")
            assert result.exact
            assert result.late == sum(event.late for event in events)
            assert result.windows[0].covered == (window.start, window.end)
            assert result.revision == window.revision
    trend = reader.sql("SELECT window_start, k, count FROM trend(q)")
    assert trend.exact
    assert sum(row[2] for row in trend.rows) == sum(window.events for window in windows)
    reader.close()
    world.close()
