"""kill -9 between a shard's file and its commit: each event counts once, and garbage goes."""

import subprocess
import sys
from pathlib import Path

import pytest

from muntin.assembly import cutting
from muntin.ledger.sqlite import SqliteLedger
from tests.chaos.shards_process import BATCHES, batches, sharded
from tests.pipeline.support import content, pipeline, run, whole_of

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
