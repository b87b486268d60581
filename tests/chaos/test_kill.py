"""kill -9 of the whole driver in the middle of batches: every window is exact after the restart."""

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from muntin.ledger.open import open_ledger
from muntin.summaries import PeriodicShard
from tests.pipeline.support import SECOND, START, content, events, pipeline, run

FILES, ROWS = 12, 300
KILLS = int(os.environ.get("MUNTIN_KILLS", "3"))
pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(2400 + 60 * KILLS)]
DEADLINE_SECONDS = 400
ROOT = Path(__file__).parents[2]


def start(folder, summaries=None, *more):
    more = [json.dumps(summaries) if summaries else "", *more]
    with (folder / "stderr").open("ab") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.pipeline_process", str(folder), *more],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


def wait_for(process, word, deadline):
    """Read the process's lines until one begins with the word; False if it ends before."""
    for line in process.stdout:
        if line.startswith(word):
            return True
        assert time.monotonic() < deadline, "the pipeline makes no progress"
    return False


def kill_tree(process):
    below = psutil.Process(process.pid).children(recursive=True)  # Spark, its Python workers
    process.kill()
    process.wait()
    process.stdout.close()
    for child in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def written(table, folder):
    """The table as files, which Spark takes in this order, one a batch."""
    folder.mkdir()
    for number in range(len(table) // ROWS):
        path = folder / f"part-{number:04d}.parquet"
        pq.write_table(table.slice(number * ROWS, ROWS), path)
        os.utime(path, (START // SECOND + number,) * 2)


def killed_and_finished(folder, kills, rng, summaries=None):
    """Start the pipeline and kill it, again and again, then let it come to its end."""
    for _ in range(kills):
        process = start(folder, summaries)
        if wait_for(process, "batch", time.monotonic() + DEADLINE_SECONDS):
            time.sleep(rng.uniform(0, 1.0))
        kill_tree(process)
    process = start(folder, summaries)
    assert wait_for(process, "done", time.monotonic() + DEADLINE_SECONDS), (
        folder / "stderr"
    ).read_text()[-2000:]
    process.wait(timeout=300)
    process.stdout.close()


def test_windows_are_exact_after_kills(tmp_path):
    rng = random.Random(20)
    files = max(FILES, 4 * KILLS)  # some for each time that it runs
    table = in_order(files, rng)
    written(table, tmp_path / "events")
    killed_and_finished(tmp_path, KILLS, rng)
    check_exact(table, tmp_path)


def in_order(files, rng):
    """Rows of so many files, none of them late."""
    rows = files * ROWS
    return events(
        sorted(
            (rng.uniform(0, rows // 2), rng.choice("abcdefgh"), rng.randrange(4), 1, n % 997)
            for n in range(rows)
        )
    )


def check_exact(table, folder):
    """Compare the ledger with that of a pipeline to which nothing was done."""
    rows, spec = len(table), pipeline()
    ledger = open_ledger(f"sqlite:///{folder}/ledger.db")
    (info,) = ledger.pipelines()
    assert (info.read, info.counted, info.rejected, info.late) == (rows, rows, 0, 0)
    batches = [[table.slice(first, ROWS)] for first in range(0, rows, ROWS)]
    with run(spec, batches, ended=True) as clean:
        holder = type("Holder", (), {"ledger": ledger, "pipeline": spec})
        assert content(holder) == content(clean)
    ledger.close()


def taken(table, folder):
    """The batches as Spark took them: killed between two lines of its log, it takes two files."""
    offsets = folder / "ledger.db.checkpoints" / "orders" / "offsets"
    logs = sorted(
        (log for log in offsets.iterdir() if log.name.isdigit()), key=lambda f: int(f.name)
    )
    ends = [json.loads(log.read_text().splitlines()[-1])["logOffset"] + 1 for log in logs]
    assert ends[-1] == FILES
    return [
        [table.slice(first * ROWS, (end - first) * ROWS)] for first, end in pairwise([0, *ends])
    ]


BEATS = {
    "kind": "periodic",
    "item": ["driver", "area"],
    "gap": "5 seconds",
    "interval_unit": "4 seconds",
    "memory": "40 KB",
    "k": 10,
    "shards": 3,
}


def beating(rng):
    """Items with a beat and others, out of order by up to a minute: twice the lateness."""
    rows = [(at, "bot", 1, 1, 1) for at in range(0, 3600, 45)]
    rows += [(at + rng.uniform(0, 1), "cron", 2, 1, 1) for at in range(7, 3600, 90)]
    while len(rows) < FILES * ROWS:
        rows.append((rng.uniform(0, 3600), rng.choice("abcdefgh"), rng.randrange(40), 1, 1))
    return events(sorted(rows, key=lambda row: row[0] + rng.uniform(0, 60)))


@pytest.mark.slow
def test_shards_of_a_sequential_summary_are_exact_after_kills(tmp_path):
    """Held events, late ones and what was folded: each event is in exactly one of them, once."""
    rng = random.Random(21)
    table = beating(rng)
    written(table, tmp_path / "events")
    killed_and_finished(tmp_path, min(KILLS, 2), rng, {"beats": BEATS})

    spec = pipeline(summaries={"beats": BEATS}, queries={})
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    with run(spec, taken(table, tmp_path)) as clean:  # what is late depends on where batches end
        states = clean.ledger.states("beats")
        assert len(states) == 3
        assert ledger.states("beats") == states
        found, expected = (
            (info.read, info.counted, info.rejected, info.late)
            for info in (*ledger.pipelines(), *clean.ledger.pipelines())
        )
    shards = [PeriodicShard.from_bytes(payload) for payload in states.values()]
    late = sum(shard.late for shard in shards)
    assert found == expected == (FILES * ROWS, FILES * ROWS, 0, late)
    assert late > 0
    assert sum(shard.buffered for shard in shards) > 0
    assert sum(shard.count for shard in shards) + late == FILES * ROWS
    ledger.close()
