"""A process that commits small batches, merges pieces as they age, and is killed in the midst.

It replays the newest batch, as Spark does, and goes on from there. Two pieces of a size are merged
already, so that nearly each batch compacts.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from muntin.assembly import maintenance
from muntin.ledger import sqlite_commit
from muntin.ledger.open import open_ledger
from muntin.ledger.sqlite_writer import Writer
from muntin.spark.ingest import Ingest
from tests.pipeline.support import events, gather, pipeline

ROWS, SECONDS = 25, 20  # of events in a batch, and of event time
SPEC = pipeline(
    rollups=["1 minute"],
    retention={"panes": "5 minutes"},
    queries={},
    summaries={"orders": {"keys": ["driver"], "indicators": ["served", "fare"]}},
)
POINTS = {
    "before": (Writer, "compact"),
    "amid": (sqlite_commit, "_insert"),  # the old pieces are deleted, the new ones not there yet
    "after": (Writer, "compact"),
}


def rows_of(batch: int) -> list[tuple]:
    """(seconds, driver, area, served, fare), some of a pane of the batch before."""
    chance = random.Random(batch)
    begin = batch * SECONDS - 10
    return [
        (max(0, begin + chance.uniform(0, SECONDS)), chance.choice("abcdefgh"), 0, 1, n * batch)
        for n in range(ROWS)
    ]


def die_at(point: str, number: int) -> None:
    """Kill this process the n-th time that it comes to the point."""
    owner, name = POINTS[point]
    real, times = getattr(owner, name), 0

    def dying(*arguments, **named):
        nonlocal times
        times += 1
        if point == "after":
            real(*arguments, **named)
        if times == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    setattr(owner, name, dying)


def feed(url: str, batches: int, told: Connection | None = None) -> None:
    ingest = Ingest(SPEC, open_ledger(url), query_id="q")
    newest = ingest.writer.last_batch("q")
    for batch in range(newest or 0, batches):
        ingest.take(batch, gather([events(rows_of(batch))]))
        if told is not None:
            told.send(batch)
    ingest.finish(ended=False)
    ingest.close()


def main(url: str, batches: int, point: str, number: int, waits: bool, told: Connection) -> None:
    maintenance.PIECES_OF_A_SIZE_MAX = 2
    if point:
        die_at(point, number)
    feed(url, batches, told)
    if waits:
        signal.pause()


@contextmanager
def compacting(
    url: str, batches: int, point: str = "", number: int = 0, *, waits: bool = False
) -> Iterator[tuple]:
    """The process, and the numbers of the batches that it tells as committed. `waits`: then it does
    not end by itself, however late it is killed.

    It is forked, with all that is loaded here: `feed` something first.
    """
    forks = multiprocessing.get_context("fork")
    heard, told = forks.Pipe(duplex=False)
    process = forks.Process(target=main, args=(url, batches, point, number, waits, told))
    process.start()
    told.close()
    try:
        yield process, heard
    finally:
        process.kill()
        process.join()
        heard.close()
