"""Very many different keys in one pane: a summary in shards against Spark's own statement.

    python benchmarks/shards.py [--short] [--keep] [--check]

Each key comes once, in random order, with one indicator, all in one pane of a day.
Muntin: `summarize` from Parquet to a ledger, sums by key, `shards: n`. Spark: `groupBy(day, key)
.agg(count, sum).write.parquet` from the same file, with as many shuffle partitions. Each run in a
process of its own with `local[2]`, after a small job of the same form, in turn; seconds, processor
seconds of all its processes, and the peak of resident memory of the driver's Python, of Java
(driver and executors in one) and of the largest Python worker.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from _record import Table, main, ratios

DAY_US = 86_400_000_000
START_US = 1_700_006_400_000_000
SMALL, SHARDS = 200_000, 16
WHAT = ("seconds", "cpu")
PEAKS = ("driver's Python, MiB", "Java", "a worker")


def write_events(path: Path, keys: int) -> None:
    """Keys are 16 hexadecimal digits: a bijection of 0 ... keys - 1."""
    rng = np.random.default_rng(7)
    order = rng.permutation(keys).astype(np.uint64)
    mixed = order * np.uint64(0x9E3779B97F4A7C15)
    schema = pa.schema(
        [("time", pa.timestamp("us", "UTC")), ("key", pa.string()), ("x", pa.int64())]
    )
    with pq.ParquetWriter(path, schema) as out:
        for begin in range(0, keys, 1 << 20):
            part = mixed[begin : begin + (1 << 20)]
            time_us = START_US + rng.integers(0, DAY_US, len(part))
            columns = [
                pa.array(time_us, pa.timestamp("us", "UTC")),
                pa.array([f"{key:016x}" for key in part.tolist()]),
                pa.array(rng.integers(0, 1000, len(part))),
            ]
            out.write_table(pa.table(columns, schema=schema), row_group_size=1 << 19)


class Peaks:
    """Peak memory and processor time of this process and all below it, looked at now and then."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.peaks = {"driver": 0, "java": 0, "worker": 0}
        self._cpu: dict[int, float] = {}
        self._before = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._before = sum(self._cpu.values())
        self.peaks = dict.fromkeys(self.peaks, 0)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._look()
        self._stop.set()
        self._thread.join()

    @property
    def cpu(self) -> float:
        return sum(self._cpu.values()) - self._before

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self._look()

    def _look(self) -> None:
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            try:
                rss = process.memory_info().rss
                used = process.cpu_times()
                name = process.name()
            except psutil.Error:
                continue
            self._cpu[process.pid] = used.user + used.system
            what = "driver" if process.pid == me.pid else "java" if "java" in name else "worker"
            self.peaks[what] = max(self.peaks[what], rss)


def session() -> Any:
    from muntin.spark.session import session as started

    return started(
        settings={
            "spark.master": "local[2]",
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": str(SHARDS),
        }
    )


def by_muntin(spark: Any, path: Path, out: Path) -> None:
    import muntin

    spec = {
        "name": "keys",
        "time": "time",
        "pane": "1 day",
        "rollups": [],
        "summaries": {"sums": {"keys": ["key"], "indicators": {"x": "int64"}, "shards": SHARDS}},
    }
    out.mkdir()
    muntin.summarize(str(path), spec, ledger=f"sqlite:///{out}/ledger.db", progress=False).close()


def by_spark(spark: Any, path: Path, out: Path) -> None:
    from pyspark.sql import functions as f

    day = f.window("time", "1 day").start
    grouped = spark.read.parquet(str(path)).groupBy(day.alias("day"), "key")
    grouped.agg(f.count("*").alias("count"), f.sum("x").alias("x")).write.parquet(str(out))


def once(who: str, folder: Path) -> dict[str, Any]:
    """In a process of its own."""
    run = {"muntin": by_muntin, "spark": by_spark}[who]
    spark = session()
    run(spark, folder / "small.parquet", folder / f"{who}-small")
    out = folder / f"{who}-out"
    began = time.perf_counter()
    with Peaks() as peaks:
        run(spark, folder / "events.parquet", out)
    seconds = time.perf_counter() - began
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return {"seconds": seconds, "cpu": peaks.cpu, "bytes": size, **peaks.peaks}


def measure(short: bool) -> Iterable[Table]:
    keys, repeats = (2_000_000, 2) if short else (20_000_000, 2)
    with tempfile.TemporaryDirectory(prefix="shards-") as place:
        folder = Path(place)
        write_events(folder / "events.parquet", keys)
        write_events(folder / "small.parquet", SMALL)
        told: dict[str, list[dict[str, Any]]] = {"muntin": [], "spark": []}
        for _ in range(repeats):
            for who, runs in told.items():
                runs.append(_apart(who, folder))
                for left in folder.glob(f"{who}-*"):
                    shutil.rmtree(left)
    ours, theirs = told["muntin"], told["spark"]
    pairs = [([run[what] for run in ours], [run[what] for run in theirs]) for what in WHAT]
    size = round(ours[0]["bytes"] / theirs[0]["bytes"], 2)
    peaks = [max(run[what] for run in ours) >> 20 for what in ("driver", "java", "worker")]
    yield Table(
        "shards",
        f"{keys:,} different keys of 16 characters in one pane, {SHARDS} shards, `local[2]`: "
        "Spark's `groupBy().agg().write.parquet`, times as long as ours",
        ["keys", "time", "processor time", "bytes : Spark's", *PEAKS],
        [[keys, *(ratios(*pair) for pair in pairs), size, *peaks]],
        f"Spark's own run: {max(run['java'] for run in theirs) >> 20:,} MiB of Java.",
    )


def _apart(who: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--once", who, str(folder)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(once(sys.argv[2], Path(sys.argv[3]))))
    else:
        main("shards", measure, ["pyspark", "numpy", "numba", "pyarrow"], __doc__)
