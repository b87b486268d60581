"""Java is killed under a stream that a program has started: what is told is one error of ours."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark.sql.classic.dataframe import DataFrame

from muntin.errors import SourceError
from muntin.spark.failures import plainly

pytestmark = pytest.mark.spark
SCRIPT = """
import logging, sys
import muntin
from muntin.errors import SourceError
from muntin.spark.ingest import Ingest
from pyspark import SparkContext

logging.basicConfig(level=logging.WARNING)
plan = Ingest.plan


def killed(ingest):  # once a batch has begun
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()
    return plan(ingest)


Ingest.plan = killed
folder = sys.argv[1]
stream = muntin.stream(None, {
    "name": "n", "source": {"format": "csv", "path": f"{folder}/in"}, "time": "t",
    "pane": "1 minute", "summaries": {"s": {"keys": ["k"], "indicators": []}},
    "ledger": f"sqlite:///{folder}/n.db",
    "spark": {"spark.ui.enabled": "false", "spark.master": "local[1]"},
})
try:
    stream.await_termination()
except SourceError as told:
    print(told)
"""


def test_java_is_killed_in_a_batch(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("t,k\n2026-01-01 00:00:01,a\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("Spark's process of Java has ended"), done.stderr
    assert not {"py4j", "Traceback"} & set(done.stderr.replace(":", " ").split()), done.stderr


def test_what_pyspark_says_of_a_frame_whose_java_is_gone():
    """It hides that the connection was refused: [CANNOT_PARSE_DATATYPE]."""

    def refused():
        raise ConnectionRefusedError(111, "Connection refused")

    frame = SimpleNamespace(_jdf=SimpleNamespace(schema=refused))
    with pytest.raises(SourceError, match="process of Java has ended"), plainly():
        DataFrame.schema.func(frame)
