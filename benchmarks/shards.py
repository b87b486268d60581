"""Very many different keys in one pane: a summary in shards against Spark's own statement.

    python benchmarks/shards.py [--keys 20000000] [--shards 16] [--repeats 2] [--of text|int64]

Each of `--keys` keys comes once, in random order, with one indicator, all in one pane of a day.
Muntin: `summarize` from Parquet to a ledger, sums by key, `shards: n`. Spark: `groupBy(day, key)
.agg(count, sum).write.parquet` from the same file, with as many shuffle partitions. Each run in a
process of its own with `local[2]`, after a small job of the same form, in turn; seconds, processor
seconds of all its processes, and the peak of resident memory of the driver's Python, of Java
(driver and executors in one) and of the largest Python worker.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

DAY_US = 86_400_000_000
START_US = 1_700_006_400_000_000
SMALL = 200_000


def write_events(path: Path, keys: int, of: str) -> None:
    """Keys are 16 hexadecimal digits, or numbers of 64 bits: a bijection of 0 ... keys - 1."""
    rng = np.random.default_rng(7)
    order = rng.permutation(keys).astype(np.uint64)
    mixed = order * np.uint64(0x9E3779B97F4A7C15)
    with pq.ParquetWriter(path, _schema(of)) as out:
        for begin in range(0, keys, 1 << 20):
            part = mixed[begin : begin + (1 << 20)]
            column: Any = pa.array(part.view(np.int64))
            if of == "text":
                column = pa.array([f"{key:016x}" for key in part.tolist()])
            time_us = START_US + rng.integers(0, DAY_US, len(part))
            value = rng.integers(0, 1000, len(part))
            out.write_table(
                pa.table([pa.array(time_us, pa.timestamp("us", "UTC")), column, pa.array(value)],
                         schema=_schema(of)),
                row_group_size=1 << 19,
            )  # fmt: skip


def _schema(of: str) -> pa.Schema:
    key = pa.string() if of == "text" else pa.int64()
    return pa.schema([("time", pa.timestamp("us", "UTC")), ("key", key), ("x", pa.int64())])


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


def session(shards: int) -> Any:
    from muntin.spark.session import session as started

    return started(
        settings={
            "spark.master": "local[2]",
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": str(shards),
        }
    )


def by_muntin(spark: Any, path: Path, out: Path, shards: int) -> None:
    import muntin

    spec = {
        "name": "keys",
        "time": "time",
        "pane": "1 day",
        "rollups": [],
        "summaries": {"sums": {"keys": ["key"], "indicators": {"x": "int64"}, "shards": shards}},
    }
    out.mkdir()
    muntin.summarize(str(path), spec, ledger=f"sqlite:///{out}/ledger.db", progress=False).close()


def by_spark(spark: Any, path: Path, out: Path, shards: int) -> None:
    from pyspark.sql import functions as f

    day = f.window("time", "1 day").start
    grouped = spark.read.parquet(str(path)).groupBy(day.alias("day"), "key")
    grouped.agg(f.count("*").alias("count"), f.sum("x").alias("x")).write.parquet(str(out))


def once(who: str, folder: Path, shards: int) -> dict[str, Any]:
    """In a process of its own."""
    run = {"muntin": by_muntin, "spark": by_spark}[who]
    spark = session(shards)
    run(spark, folder / "small.parquet", folder / f"{who}-small", shards)
    out = folder / f"{who}-out"
    began = time.perf_counter()
    with Peaks() as peaks:
        run(spark, folder / "events.parquet", out, shards)
    seconds = time.perf_counter() - began
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return {"seconds": seconds, "cpu": peaks.cpu, "bytes": size, **peaks.peaks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--of", choices=("text", "int64"), default="text")
    parser.add_argument("--once", nargs=2)
    given = parser.parse_args()
    if given.once:
        found = once(given.once[0], Path(given.once[1]), given.shards)
        print(json.dumps(found))
        return
    folder = Path(tempfile.mkdtemp(prefix="shards-"))
    try:
        write_events(folder / "events.parquet", given.keys, given.of)
        write_events(folder / "small.parquet", SMALL, given.of)
        told: dict[str, list[dict[str, Any]]] = {"muntin": [], "spark": []}
        for _ in range(given.repeats):
            for who, runs in told.items():
                runs.append(_apart(who, folder, given.shards))
                _show(who, runs[-1])
                for left in folder.glob(f"{who}-*"):
                    shutil.rmtree(left)
        ratio = {
            what: statistics.median(r[what] for r in told["muntin"])
            / statistics.median(r[what] for r in told["spark"])
            for what in ("seconds", "cpu", "bytes")
        }
        print(f"{given.keys:,} {given.of} keys, {given.shards} shards: Muntin takes "
              f"{ratio['seconds']:.2f}x Spark's time, {ratio['cpu']:.2f}x its processor time, "
              f"{ratio['bytes']:.2f}x its bytes (medians of {given.repeats})")  # fmt: skip
    finally:
        shutil.rmtree(folder)


def _apart(who: str, folder: Path, shards: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--once", who, str(folder), "--shards", str(shards)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def _show(who: str, run: dict[str, Any]) -> None:
    memory = ", ".join(
        f"{what} {run[what] / 2**20:,.0f} MiB" for what in ("driver", "java", "worker")
    )
    print(f"{who:7} {run['seconds']:6.1f} s, {run['cpu']:6.1f} s of processors, "
          f"{run['bytes'] / 1e6:,.0f} MB written; peaks: {memory}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
