"""kill -9 between a shard's file and its commit: each event counts once, and garbage goes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from muntin.assembly import cutting
from muntin.ledger.sqlite import SqliteLedger
from tests.chaos.shards_process import BATCHES, batches, sharded
from tests.pipeline.support import content, events, pipeline, run, whole_of
from tests.spark.test_any_spark import python_said

pytestmark = [pytest.mark.chaos]
ROOT = Path(__file__).parents[2]


def test_files_that_were_never_committed_count_nowhere_and_go(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
    monkeypatch.setattr(cutting, "FILE_BYTES_MIN", 0)
    for until in (0, 2):
        command = [sys.executable, "-m", "tests.chaos.shards_process", str(tmp_path), str(until)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "written\n"
            process.kill()
    (folder,) = (tmp_path / "ledger.db.payloads").iterdir()
    assert list(folder.iterdir())

    spec = pipeline()
    ledger = SqliteLedger(tmp_path / "ledger.db")
    with run(sharded(), batches(), ledger) as again, run(spec, batches()) as clean:
        (info,) = ledger.pipelines()
        assert (info.read, info.counted, info.batches) == (1600, 1600, BATCHES)
        assert content(again) == content(clean)
        assert whole_of(ledger, "orders", spec.pane) == whole_of(clean.ledger, "orders", spec.pane)
        lengths = (spec.pane, *spec.rungs)
        pieces = [piece for length in lengths for piece in ledger.pieces("orders", length)]
        there = list(folder.iterdir())
        assert again._maintenance.sweep() == 0  # a try may run still
        assert again._maintenance.sweep(age_us=-1_000_000) > 0
        assert len(list(folder.iterdir())) == len(pieces) < len(there)
        assert ledger.verify() == []


def of_cluster(folder: Path, killed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.chaos.shards_executors", str(folder), killed]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_does_not_notice_that_its_driver_and_an_executor_die(tmp_path):
    """The driver between the executors' files and the commit; then one that wrote, in its task."""
    (tmp_path / "rows").mkdir()
    for part in range(2):
        rows = [(at / 40, f"driver {at * 7 % 1999}", at % 3, 1, at) for at in range(part, 6000, 2)]
        pq.write_table(events(rows), tmp_path / "rows" / f"{part}.parquet")
    said = of_cluster(tmp_path, "driver")
    assert said.returncode == -signal.SIGKILL, python_said(said.stderr)
    (folder,) = (tmp_path / "ledger.db.payloads").iterdir()
    garbage = set(folder.iterdir())
    assert len(garbage) >= 4
    assert SqliteLedger(tmp_path / "ledger.db").pieces("orders", 10_000_000) == []

    said = of_cluster(tmp_path, "executor")
    lines = [line for line in said.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, python_said(said.stderr)
    assert json.loads(lines[0].removeprefix("FOUND ")) == {
        "same": True, "rows": 1999, "shards": 4, "marked": True, "damage": [], "read": 6000,
    }  # fmt: skip
    ledger = SqliteLedger(tmp_path / "ledger.db")
    (info,) = ledger.pipelines()
    writer = ledger.open_writer("orders", info.spec, query_id="sweeper", mode="append")
    assert writer.sweep(ledger.payload_folder("orders"), 2**62) >= len(garbage)
    assert garbage.isdisjoint(folder.iterdir())
    assert ledger.verify() == []  # all that the commits name is there
    writer.close()
