"""Runs the pipeline's own code on batches that stand for what Spark's workers would see."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from muntin.ledger.slices import added_up
from muntin.ledger.temporary import temporary
from muntin.segments import decode, encode, merge
from muntin.spark.ingest import Ingest
from muntin.spark.partials import fold
from muntin.spark.rows import here
from muntin.spark.runs import merged
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
        rows = [row for part in partitions for row in fold(plan, part.to_batches())]
        return merged(plan, rows, here)

    return gathered


@contextmanager
def run(spec, batches, ledger=None, *, ended=False):
    """An ingest that has taken batches, each a list of partitions; finished, and closed after.

    `ended`: the source has, so that open windows close.
    """
    ingest = Ingest(spec, ledger or temporary(), query_id="q")
    try:
        for number, partitions in enumerate(batches):
            ingest.take(number, gather(partitions))
        ingest.finish(ended=ended)
        yield ingest
    finally:
        ingest.close()


def content(ingest):
    """Everything that a ledger holds of the pipeline, without wall clocks and running numbers."""
    ledger, spec = ingest.ledger, ingest.pipeline
    slices = {
        (name, length): whole_of(ledger, name, length)
        for name in spec.summaries
        for length in (spec.pane, *spec.rungs)
    }
    windows = [
        (w.summary, w.start, w.end, w.reason, w.overflowed, w.events, dict(w.fill))
        for w in ledger.windows()
    ]
    trends = [(t.query, t.start, t.end, t.result) for q in spec.queries for t in ledger.trend(q)]
    return slices, windows, trends


def whole_of(ledger, name, length):
    """Slices, and bytes of all pieces of one length together; None where there is none."""
    pieces = ledger.pieces(name, length)
    if not pieces:
        return None
    payloads = ledger.payloads([piece.id for piece in pieces])
    whole = merge([decode(payload) for payload in payloads.values()])
    held = slices_of(ledger, name, length)
    assert held.starts.tolist() == (whole.slices * length).tolist()
    assert held.events.tolist() == whole.events.tolist()
    tables = sorted(whole.tables, key=lambda table: table.name(whole.algebra))
    whole = replace(whole, shard=0, tables=tuple(tables))  # in shards, some have no table first
    return held.starts.tolist(), held.events.tolist(), encode(whole)


def slices_of(ledger, name, length, start=-(2**62), end=2**62):
    """Which slices of one length that start in [start, end) hold events, and how many."""
    return added_up([p.slices.between(start, end) for p in ledger.pieces(name, length, start, end)])


def state(found):
    """The content of a ledger that `summarize` or `stream` has written."""
    holder = type("Holder", (), {"ledger": found.ledger, "pipeline": pipeline()})
    return content(holder)


def said_once_stopped(stream, monkeypatch):
    """What the ledger says of a stream that is stopped while another thread says its last word."""
    finish, finishing, stopped = Ingest.finish, threading.Event(), threading.Event()

    def slow(ingest, **how):
        finishing.set()
        stopped.wait(1)
        finish(ingest, **how)

    monkeypatch.setattr(Ingest, "finish", slow)
    awaiting = threading.Thread(target=stream.await_termination)
    awaiting.start()
    assert finishing.wait(300)
    stream.stop()
    said = stream.ledger.status("orders")["state"]
    stopped.set()
    awaiting.join()
    return said
