"""kill -9 in compactions, rollups and retention of a real pipeline: every pane stays exact."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from itertools import pairwise

import pytest

from muntin.ledger.open import open_ledger
from muntin.session import Session
from tests.chaos.compacting_process import POINTS, ROWS, SPEC, compacting, feed, rows_of
from tests.ledger.ledger_helpers import SERVERS
from tests.pipeline.support import SECOND, START, slices_of

KILLS = int(os.environ.get("MUNTIN_LEDGER_KILLS", "8"))
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600 + 60 * KILLS)]
BATCHES = 6 * KILLS + 12


@pytest.fixture(params=["sqlite", *(pytest.param(s, marks=pytest.mark.slow) for s in SERVERS)])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/orders.db"
    return request.getfixturevalue(request.param).url(schema="compacting")


def test_kill_in_compactions_loses_and_doubles_nothing(url):
    chance = random.Random(int(os.environ.get("MUNTIN_SEED", "14")))
    feed("memory://", 12)
    acknowledged = -1
    for kill in range(KILLS):
        point = [*POINTS, ""][kill % 4]
        batches = BATCHES if point else acknowledged + 8  # what comes after has some as well
        killing = compacting(url, batches, point, chance.randint(1, 3), waits=not point)
        with killing as (process, heard):
            if not point:
                for _ in range(chance.randint(1, 3)):
                    acknowledged = heard.recv()
                time.sleep(chance.uniform(0, 0.05))
                process.kill()
            acknowledged = max([acknowledged, *left_in(heard)])
            process.join()
            assert process.exitcode == -signal.SIGKILL
        committed = check(url)
        assert acknowledged < committed <= acknowledged + 2
    with compacting(url, BATCHES) as (process, heard):
        assert max(left_in(heard)) == BATCHES - 1
        process.join()
        assert process.exitcode == 0
    assert check(url, finished=True) == BATCHES


def left_in(heard):
    """What was told, until who tells it has ended."""
    while True:
        try:
            yield heard.recv()
        except EOFError:
            return


def check(url, *, finished=False):
    """Answers and slices are those of plain sums over the rows of the batches that are there."""
    ledger = open_ledger(url, create=False)
    (info,) = ledger.pipelines()
    assert (info.counted, info.rejected) == (info.batches * ROWS, 0)
    rows = [row for batch in range(info.batches) for row in rows_of(batch)]
    spans = [(SPEC.pane, ledger.horizon("orders", SPEC.pane) or 0, 2**62)]
    spans += [(c.length, c.start, c.until) for c in ledger.coverage("orders")]
    for length, first, until in spans:
        starts = [(START + int(row[0] * SECOND)) // length * length for row in rows]
        expected = Counter(start for start in starts if first <= start < until)
        held = slices_of(ledger, "orders", length, first, until)
        assert dict(zip(held.starts.tolist(), held.events.tolist(), strict=True)) == expected
        pieces = sorted(ledger.pieces("orders", length), key=lambda piece: piece.start)
        if finished:
            assert all(one.until <= other.start for one, other in pairwise(pieces))
    totals = {}
    for _, driver, _, served, fare in rows:
        count, all_served, all_fares = totals.get(driver, (0, 0, 0))
        totals[driver] = count + 1, all_served + served, all_fares + fare
    answer = Session(ledger).sql("SELECT driver, count, served, fare FROM orders(driver) FOR ALL")
    assert {driver: tuple(figures) for driver, *figures in answer.rows} == totals
    assert ledger.verify() == []
    ledger.close()
    return info.batches
