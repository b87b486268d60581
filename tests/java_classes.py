"""Spark's classes as Java keeps them once loaded: tests start Spark some hundred times.

    python -m tests.java_classes

Writes an archive (class data sharing) into this environment, from a run that loads what most tests
load. With it, and with Java's quick compiler alone, a start of Spark takes half of the processor
time. Java ignores an archive that does not fit its version or its jars.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ARCHIVE = Path(sys.prefix) / "java-classes.jsa"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:disable"


def options() -> str:
    """For `SPARK_SUBMIT_OPTS`."""
    return f"{QUICK} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else QUICK


def main(folder: Path) -> None:
    made = folder / "classes.jsa"
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK} -XX:ArchiveClassesAtExit={made}"
    import muntin
    from muntin.cli.stopping import stop_spark

    times = pa.array([1, 2, 3_600_000_000], pa.timestamp("us", "UTC"))
    table = pa.table({"time": times, "key": ["a", "b", "a"], "x": [1, 2, 4]})
    (folder / "events").mkdir()
    pq.write_table(table, folder / "events" / "events.parquet")
    (folder / "events.json").write_text('{"time": "2026-01-01T00:00:00Z", "key": "a", "x": 1}\n')
    (folder / "events.csv").write_text("time,key,x\n2026-01-01 00:00:00,a,1\n")
    spec = {
        "name": "classes", "time": "time", "pane": "1 hour",
        "spark": {"spark.master": "local[2,4]"},
        "summaries": {"sums": {"keys": ["key"], "indicators": ["x"]}},
    }  # fmt: skip
    for name in ("events", "events.json", "events.csv"):
        ledger = f"memory://{name.replace('.', '-')}"
        with muntin.summarize(str(folder / name), spec | {"ledger": ledger}, progress=False):
            pass
    schema = "time timestamp, key string, x bigint"
    ledger = f"sqlite:///{folder}/stream.db"
    source = {"format": "parquet", "path": str(folder / "events"), "schema": schema}
    stream = muntin.stream(None, spec | {"source": source, "ledger": ledger}, once=True)
    stream.await_termination()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    frame = SparkSession.builder.getOrCreate().read.parquet(source["path"])
    frame.groupBy("key").sum("x").orderBy("key").write.parquet(str(folder / "sums"))
    gateway: Any = SparkContext._gateway
    stop_spark()
    gateway.proc.stdin.close()  # at which Java ends
    gateway.proc.wait()
    with contextlib.suppress(FileNotFoundError):  # another kind of Java: as it would be without
        made.replace(ARCHIVE)


if __name__ == "__main__":
    if not ARCHIVE.exists():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as place:
            main(Path(place))
