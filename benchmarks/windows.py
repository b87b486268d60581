"""Windows over stored panes: LAST '1 hour' of 10-second panes, as the stream moves on.

python benchmarks/windows.py [--short] [--keep] [--check]
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from _record import Table, digits, main

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


def measure(short: bool) -> Iterable[Table]:
    keys, steps = 10_000, 60 if short else 120  # steps of a minute
    spec = Pipeline.of(
        {
            "name": "sensors",
            "time": "time",
            "pane": "10 seconds",
            "lateness": "10 seconds",
            "summaries": {"sensors": {"keys": ["sensor"], "indicators": ["value"]}},
        }
    )
    folder = tempfile.TemporaryDirectory()
    ledger = open_ledger(f"sqlite:///{folder.name}/sensors.db")
    ingest = Ingest(spec, ledger, query_id="benchmark")

    def take(number: int, first: int, panes: int) -> None:
        rows = batch(keys, panes, first, number)
        ingest.take(number, lambda plan: list(fold(plan, [rows])))

    for minute in range(steps):
        take(minute, minute * 6, 6)
    session = muntin.open(ledger)
    select = "SELECT sensor, value / count AS mean FROM sensors(sensor) FOR LAST '1 hour' LIMIT 10"

    def asked() -> float:
        began = time.process_time()
        session.sql(select)
        return 1e3 * (time.process_time() - began)

    cold, moved, repeated = asked(), [], []
    for step in range(12):  # the stream moves on by a pane before each question
        take(steps + step, steps * 6 + step, 1)
        moved.append(asked())
        repeated.append(asked())
    ingest.close()
    folder.cleanup()
    table = Table(
        "hour",
        f"LAST '1 hour' of panes of ten seconds with {keys:,} keys each: processor time",
        ["what", "ms, median"],
        [
            ["the first question", digits(cold)],
            ["after each new pane", digits(statistics.median(moved))],
            ["asked again", digits(statistics.median(repeated))],
            ["a sliding hour moves by a pane, with its commit", digits(1e3 * sliding(keys))],
        ],
    )
    yield table


def sliding(keys: int) -> float:
    """Seconds of a batch, at the median, in which an hour slides by a pane."""
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
        began = time.process_time()
        ingest.take(next(numbers), lambda plan: result)
        return time.process_time() - began

    for first in range(0, 400, 40):
        take(first, 40)
    spent = [take(pane, 1) for pane in range(400, 424)][1:]  # the first finds nothing to slide
    ingest.close()
    return statistics.median(spent)


if __name__ == "__main__":
    main("windows", measure, ["numpy", "numba", "pyarrow"], __doc__)
