"""Runs the pipeline's own code on batches that stand for what Spark's workers would see."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import groupby

import pyarrow as pa

from muntin.ledger.memory import MemoryLedger
from muntin.spark.ingest import Ingest
from muntin.spark.partials import fold
from muntin.spec import Pipeline

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def pipeline(**changes):
    entries = {
        "name": "orders",
        "time": "time",
        "pane": "10 seconds",
        "lateness": "30 seconds",
        "summaries": {
            "orders": {
                "keys": ["driver", ["driver", "area"]],
                "indicators": ["served", "fare"],
                "capacity": 6,
                "window": {"kind": "floating", "length": "1 minute"},
            }
        },
        "queries": {
            "busiest": "SELECT driver, count FROM orders(driver) ORDER BY count DESC, driver"
        },
    }
    return Pipeline.of(entries | changes)


def events(rows):
    """A table of (seconds, driver, area, served, fare)."""
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    return pa.table(
        {
            "time": pa.array(
                [START + int(s * SECOND) for s in columns[0]], pa.timestamp("us", "UTC")
            ),
            "driver": pa.array(columns[1], pa.string()),
            "area": pa.array(columns[2], pa.int64()),
            "served": pa.array(columns[3], pa.int64()),
            "fare": pa.array(columns[4], pa.int64()),
        }
    )


def gather(partitions):
    """What a job over these partitions returns."""

    def gathered(plan):
        return [row for part in partitions for row in fold(plan, part.to_batches())]

    return gathered


@contextmanager
def run(spec, batches, ledger=None):
    """An ingest that has taken batches, each a list of partitions; finished, and closed after."""
    ingest = Ingest(spec, ledger or MemoryLedger(), query_id="q")
    try:
        for number, partitions in enumerate(batches):
            ingest.take(number, gather(partitions))
        ingest.finish()
        yield ingest
    finally:
        ingest.close()


def content(ingest):
    """Everything that a ledger holds of the pipeline, without wall clocks and running numbers."""
    ledger, spec = ingest.ledger, ingest.pipeline
    slices = {
        (name, length): compacted(ledger.pieces(name, length, 0, 2**62), spec.summaries[name])
        for name in spec.summaries
        for length in (spec.pane, *spec.rungs)
    }
    windows = [
        (w.summary, w.start, w.end, w.reason, w.overflowed, w.events, dict(w.fill))
        for w in ledger.windows()
    ]
    trends = [(t.query, t.start, t.end, t.result) for q in spec.queries for t in ledger.trend(q)]
    return slices, windows, trends


def compacted(pieces, summary):
    """(start, events, bytes) of each slice; panes that are still open are in several pieces."""
    found = []
    for start, held in groupby(pieces, key=lambda piece: piece.start):
        parts = list(held)
        whole = summary.merged([summary.read(part.payload) for part in parts])
        found.append((start, sum(part.events for part in parts), whole.to_bytes()))
    return found
