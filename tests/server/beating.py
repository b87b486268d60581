"""A pipeline of periodic items around the present moment, for what shows and pushes them."""

from __future__ import annotations

import time

import pyarrow as pa

from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from tests.pipeline.support import SECOND, gather

OVERDUE = (
    "SELECT driver, area, next_expected FROM periodic(beats, 100) "
    "WHERE next_expected < now() ORDER BY next_expected"
)


def beating_pipeline(**changes):
    entries = {
        "name": "calls",
        "time": "time",
        "pane": "1 second",
        "lateness": "5 seconds",
        "summaries": {
            "beats": {
                "kind": "periodic",
                "item": ["driver", "area"],
                "gap": "2 seconds",
                "interval_unit": "2 seconds",
                "memory": "60 KB",
                "k": 20,
                "shards": 2,
            }
        },
        "queries": {"overdue": {"select": OVERDUE, "on": "update"}},
    }
    return Pipeline.of(entries | changes)


def now_us():
    return time.time_ns() // 1000


class Beating:
    """A pipeline at work; `beats` commits one batch of events of some items."""

    def __init__(self, ledger, spec=None):
        self.ingest = Ingest(spec or beating_pipeline(), ledger, query_id="q")
        self.batches = 0

    def beats(self, items):
        """`items`: (driver, area, period in seconds, beats, microseconds of the last one)."""
        rows = sorted(
            (last - int(back * period * SECOND), driver, area)
            for driver, area, period, beats, last in items
            for back in range(beats)
        )
        times, drivers, areas = zip(*rows, strict=True)
        batch = pa.table(
            {
                "time": pa.array(times, pa.timestamp("us", "UTC")),
                "driver": pa.array(drivers, pa.string()),
                "area": pa.array(areas, pa.int64()),
            }
        )
        self.ingest.take(self.batches, gather([batch]))
        self.batches += 1

    def close(self):
        self.ingest.close()
