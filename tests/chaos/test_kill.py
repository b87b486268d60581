"""kill -9 of the whole driver in the middle of batches: every window is exact after the restart."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from muntin.ledger.open import open_ledger
from tests.pipeline.support import SECOND, START, content, events, pipeline, run

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(900)]
FILES, ROWS = 12, 300
KILLS = int(os.environ.get("MUNTIN_KILLS", "3"))
DEADLINE_SECONDS = 120
ROOT = Path(__file__).parents[2]


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.pipeline_process", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr").open("ab"),
        start_new_session=True,
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
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run(["pkill", "-9", "-s", str(process.pid)], check=False)


def test_windows_are_exact_after_kills(tmp_path):
    rng = random.Random(20)
    table = events(
        sorted(
            (rng.uniform(0, 1800), rng.choice("abcdefgh"), rng.randrange(4), 1, rng.randrange(1000))
            for _ in range(FILES * ROWS)
        )
    )
    (tmp_path / "events").mkdir()
    for number in range(FILES):
        path = tmp_path / "events" / f"part-{number:02d}.parquet"
        pq.write_table(table.slice(number * ROWS, ROWS), path)
        os.utime(path, (START // SECOND + number,) * 2)
    for _ in range(KILLS):
        process = start(tmp_path)
        if wait_for(process, "batch", time.monotonic() + DEADLINE_SECONDS):
            time.sleep(rng.uniform(0, 1.0))
        kill_tree(process)
    process = start(tmp_path)
    assert wait_for(process, "done", time.monotonic() + DEADLINE_SECONDS), (
        tmp_path / "stderr"
    ).read_text()[-2000:]
    process.wait(timeout=60)

    spec = pipeline()
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    (info,) = ledger.pipelines()
    assert (info.read, info.counted, info.rejected, info.late) == (FILES * ROWS, FILES * ROWS, 0, 0)
    batches = [[table.slice(number * ROWS, ROWS)] for number in range(FILES)]
    with run(spec, batches) as clean:
        holder = type("Holder", (), {"ledger": ledger, "pipeline": spec})
        assert content(holder) == content(clean)
    ledger.close()
