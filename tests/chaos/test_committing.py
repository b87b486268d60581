"""One assembler a ledger: two processes that commit for one query, one killed, frozen, or late."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from muntin.ledger.open import open_ledger
from tests.chaos.committing_process import BATCHES, FREEZES_IN, POINTS, ROWS, batches
from tests.pipeline.support import content, pipeline, run

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
SHORT = ("before windows close",)


@contextmanager
def committing(*words):
    command = [sys.executable, "-m", "tests.chaos.committing_process", *map(str, words)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def told(process, word):
    """Lines until one begins with the word."""
    for line in process.stdout:
        if line.startswith(word):
            return line
    raise AssertionError(f"it ended without {word!r}")


def check(url):
    """The ledger is that of one process which nobody disturbed."""
    ledger, spec = open_ledger(url), pipeline()
    (info,) = ledger.pipelines()
    rows = BATCHES * ROWS
    assert (info.read, info.counted, info.batches, info.rejected) == (rows, rows, BATCHES, 0)
    with run(spec, batches()) as clean:
        holder = type("Holder", (), {"ledger": ledger, "pipeline": spec})
        assert content(holder) == content(clean)
        assert len(ledger.windows()) > 3
    assert ledger.verify() == []
    ledger.close()


points = pytest.mark.parametrize(
    "point",
    [pytest.param(p, marks=() if p in SHORT else pytest.mark.slow) for p in POINTS],
)


@points
def test_a_frozen_one_that_wakes_up_closes_no_window(tmp_path, point):
    url = f"sqlite:///{tmp_path}/orders.db"
    with committing(url, "run 1", 0, point) as older:
        told(older, "stopped")
        with committing(url, "run 2", FREEZES_IN) as newer:  # Spark replays the batch at hand
            told(newer, f"batch {FREEZES_IN}")
            os.kill(older.pid, signal.SIGCONT)  # in the middle of the newer one's batches
            told(older, "refused")
            told(newer, "done")
    check(url)


@pytest.mark.slow
@points
def test_one_that_was_killed_has_left_nothing_half_done(tmp_path, point):
    url = f"sqlite:///{tmp_path}/orders.db"
    with committing(url, "run 1", 0, point) as older:
        told(older, "stopped")
        older.kill()
        older.wait()
        with committing(url, "run 1", FREEZES_IN) as newer:  # Spark has started another process
            told(newer, "done")
    check(url)


@pytest.mark.slow
def test_of_two_at_once_the_newer_is_left(tmp_path):
    url = f"sqlite:///{tmp_path}/orders.db"
    with committing(url, "run 1", 0) as older:
        told(older, "batch 0")
        with committing(url, "run 2", 1) as newer:
            told(newer, "done")
        last = older.stdout.read().split("\n")[-2]
        assert last.startswith("refused") or last == "done"
    with committing(url, "run 1", 0) as late:  # its process is new, its run is not
        told(late, "refused")
    check(url)
