"""kill -9 of executors, on a cluster of two, while an index is built and asked."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


def test_an_index_does_not_notice_that_executors_die(tmp_path):
    """The same files after a kill in either stage, the same answer after one in a query."""
    numbers = np.arange(3_000)
    table = pa.table({"url": [f"page/{i}" for i in numbers], "bytes": numbers * 7 % 1000})
    (tmp_path / "records").mkdir()
    for part in range(2):
        pq.write_table(table.slice(part * 1_500, 1_500), tmp_path / "records" / f"{part}.parquet")
    said = subprocess.run(
        [sys.executable, "-m", "tests.chaos.index_process", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    lines = [line for line in said.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, said.stderr[-3000:]
    found = json.loads(lines[0].removeprefix("FOUND "))
    assert found.pop("present") == len(range(0, 3_000, 7))
    assert set(found.values()) == {True}, found
