"""Windows over stored panes: LAST '1 hour' of 10-second panes, as the stream moves on.

python benchmarks/windows.py [--keys 10000] [--hours 2]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import muntin
from muntin.ledger.open import open_ledger
from muntin.ledger.temporary import temporary
from muntin.spark.ingest import Ingest
from muntin.spark.partials import fold
from muntin.spec import Pipeline

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def batch(keys: int, panes: int, first: int, seed: int) -> pa.RecordBatch:
    """One event a key and pane."""
    rng = np.random.default_rng(seed)
    times = np.repeat(START + (first + np.arange(panes)) * 10 * SECOND, keys)
    names = pa.array([f"sensor-{i:06d}" for i in range(keys)])
    return pa.record_batch(
        {
            "time": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "sensor": pa.concat_arrays([names] * panes),
            "value": pa.array(rng.integers(0, 1000, keys * panes)),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--hours", type=float, default=2)
    asked = parser.parse_args()
    spec = Pipeline.of(
        {
            "name": "sensors",
            "time": "time",
            "pane": "10 seconds",
            "lateness": "10 seconds",
            "summaries": {"sensors": {"keys": ["sensor"], "indicators": ["value"]}},
        }
    )
    folder = Path(tempfile.mkdtemp())
    ledger = open_ledger(f"sqlite:///{folder}/sensors.db")
    ingest = Ingest(spec, ledger, query_id="benchmark")
    steps = int(asked.hours * 60)

    def take(number: int, first: int, panes: int) -> None:
        rows = batch(asked.keys, panes, first, number)
        ingest.take(number, lambda plan: list(fold(plan, [rows])))

    began = time.perf_counter()
    for minute in range(steps):
        take(minute, minute * 6, 6)
    print(
        f"{steps * 6:,} panes of {asked.keys:,} keys taken in {time.perf_counter() - began:.1f} s"
    )
    session = muntin.open(ledger)
    select = "SELECT sensor, value / count AS mean FROM sensors(sensor) FOR LAST '1 hour' LIMIT 10"
    cold = time.perf_counter()
    session.sql(select)
    print(f"LAST '1 hour', first question          {1000 * (time.perf_counter() - cold):8.1f} ms")
    moved, repeated = [], []
    for step in range(12):  # the stream moves on by a pane before each question
        take(steps + step, steps * 6 + step, 1)
        began = time.perf_counter()
        session.sql(select)
        moved.append(time.perf_counter() - began)
        began = time.perf_counter()
        session.sql(select)
        repeated.append(time.perf_counter() - began)
    print(f"after each new pane, median            {1000 * statistics.median(moved):8.1f} ms")
    print(f"asked again, median                    {1000 * statistics.median(repeated):8.1f} ms")
    ingest.close()
    sliding(asked.keys)


def sliding(keys: int) -> None:
    """An hour that slides by a pane: panes that leave are subtracted, or all are merged again."""
    spec = Pipeline.of(
        {
            "name": "sliding",
            "time": "time",
            "pane": "10 seconds",
            "summaries": {
                "sensors": {
                    "keys": ["sensor"],
                    "indicators": ["value"],
                    "window": {"kind": "sliding", "length": "1 hour", "every": "10 seconds"},
                }
            },
        }
    )
    ingest = Ingest(spec, temporary(), query_id="benchmark")

    numbers = itertools.count()

    def take(pane: int, panes: int) -> float:
        rows = batch(keys, panes, pane, pane)
        result = list(fold(ingest.plan(), [rows]))
        began = time.perf_counter()
        ingest.take(next(numbers), lambda plan: result)
        return time.perf_counter() - began

    for first in range(0, 400, 40):
        take(first, 40)
    spent = [take(pane, 1) for pane in range(400, 424)][1:]  # the first finds nothing to slide
    ingest.close()
    print(f"an hour of {keys:,} keys slides by 10 s, with its commit, median")
    print(f"  {1000 * statistics.median(spent):8.1f} ms")


if __name__ == "__main__":
    main()
