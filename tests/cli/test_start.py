"""What is told when a run cannot start."""

import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.errors import SourceError
from muntin.spark.source import check_path
from muntin.spec import SourceSpec

FILE = """
name: flights
source: {{format: parquet, path: {path}}}
time: date
pane: 1 hour
ledger: sqlite:///{path}.db
checkpoint: {path}.checkpoint
summaries:
  flights: {{keys: [origin], indicators: [delay]}}
"""


@pytest.fixture
def run(tmp_path):
    def run(path, **environment):
        file = tmp_path / "pipeline.yaml"
        file.write_text(FILE.format(path=path))
        return subprocess.run(
            [sys.executable, "-m", "tests.sites.command", "run", str(file), "--once"],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def test_a_path_that_is_not_there_is_told_before_spark_starts(run, tmp_path):
    declared = SourceSpec(format="csv", path=f"{tmp_path}/nothing", schema="a int")
    with pytest.raises(SourceError, match=r"source\.path: .*nothing: no such file or folder"):
        check_path(declared)
    done = run(tmp_path / "nothing")
    assert done.returncode == 1
    said = f"source.path: {tmp_path}/nothing: no such file or folder"
    place = re.escape(f"{tmp_path}/pipeline.yaml") + r":\d+:\d+"  # of the entry `path`
    assert re.fullmatch(f"error: {place}: {re.escape(said)}\n", done.stderr)
    assert [file.name for file in tmp_path.iterdir()] == ["pipeline.yaml"]  # and no ledger


@pytest.fixture
def flights(tmp_path):
    rows = {"date": pa.array([1], pa.timestamp("us", "UTC")), "origin": ["EWR"], "delay": [1]}
    (tmp_path / "flüge").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "flüge" / "a.parquet")
    return tmp_path / "flüge"


def test_no_ledger_is_made_where_there_is_no_java(run, flights):
    done = run(flights, JAVA_HOME=str(flights))
    assert done.returncode == 1
    assert done.stderr.startswith("error: Spark needs Java 17, and none was found")
    assert sorted(file.name for file in flights.parent.iterdir()) == ["flüge", "pipeline.yaml"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("setting", "why"),
    [
        # of documentation: no machine has it
        ("spark.driver.bindAddress=203.0.113.9", "java.net.BindException: "),
        # where a context is half made, as it is where a signal ends Java meanwhile
        ("spark.executor.heartbeat.maxFailures=some", "[INVALID_CONF_VALUE.TYPE_MISMATCH] "),
    ],
)
def test_why_spark_does_not_start_is_told_once(run, flights, setting, why):
    """Not by Spark's own log as well; nor would that, where Ctrl-C ends Java while it starts."""
    done = run(flights, PYSPARK_SUBMIT_ARGS=f"--conf {setting} pyspark-shell")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: ")]
    assert len(lines) == 1
    assert lines[0].startswith(f"error: Spark does not start: {why}")
    assert "Where a row does that" not in lines[0]


@pytest.mark.spark
def test_a_python_that_spark_cannot_start_is_told_with_its_remedy(run, flights):
    """And what is read is found before, in a locale that does not know its name."""
    done = run(flights, PYSPARK_PYTHON="/nonexistent/python", LC_ALL="C")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: Spark's Python workers do not start (")
    assert 'Cannot run program "/nonexistent/python"' in last
    assert last.endswith(f"unset PYSPARK_PYTHON, or set it to {sys.executable}")
    assert "Traceback" not in done.stderr
