"""A ledger that a real pipeline feeds, without Spark, and a server over it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from types import SimpleNamespace

import pytest

from muntin.errors import BadArgument
from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from muntin.spark.ingest import Ingest
from tests.pipeline.support import events, gather, pipeline
from tests.server.browser import page

__all__ = ["page"]

DRIVERS = "abcdef"


class Feeder:
    """A pipeline at work: each call of `minute` is one batch of a minute's events."""

    def __init__(self, ledger, spec=None):
        self.ingest = Ingest(spec or pipeline(), ledger, query_id="q")
        self.batches = 0
        self.at = 0

    def rows(self, rows):
        self.ingest.take(self.batches, gather([events(rows)]))
        self.batches += 1

    def minute(self, events_a_pane=5):
        seconds = range(self.at, self.at + 60, 10)
        self.at += 60
        self.rows(
            [(s, DRIVERS[i % 6], i % 3, i, 2 * i) for s in seconds for i in range(events_a_pane)]
        )

    def late(self, second):
        self.rows([(second, "a", 0, 1, 1)])

    def close(self):
        self.ingest.close()


@contextlib.contextmanager
def fed_server(**options):
    """A server over three minutes of orders; the pipeline is there, and sends nothing more."""
    ledger = temporary()
    feeder = Feeder(ledger)
    for _ in range(3):
        feeder.minute()
    with Server(ledger, port=0, **options) as server:
        yield server
    feeder.close()


PATIENCE_SECONDS = 180.0  # a machine may be slow and busy, and have to compile kernels first


def until(condition, seconds=PATIENCE_SECONDS):
    """Wait for a condition to hold; what it returned."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class Clock:
    """That of servers, which goes on where a test says so: limits of time are reached without a
    wait, and none of them where the machine only stands still for a while."""

    def __init__(self):
        self.passed = 0.0

    def passes(self, seconds):
        self.passed += seconds

    def now(self, _=None):
        return time.monotonic() + self.passed


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", made.now)
    monkeypatch.setattr("muntin.server.live.time", SimpleNamespace(monotonic=made.now))
    return made


def server_that_comes_back(ledger):
    """A server and its port, which the system gives to nobody while the server is away.

    Free ports, and those of outgoing connections, are taken from 32768 on.
    """
    for port in random.sample(range(20_000, 32_000), 50):
        with contextlib.suppress(BadArgument):  # somebody listens there
            return Server(ledger, port=port), port
    raise AssertionError("no port is free")


@pytest.fixture
def ledger():
    return temporary()


@pytest.fixture
def feeder(ledger):
    made = Feeder(ledger)
    for _ in range(3):
        made.minute()
    yield made
    made.close()


@pytest.fixture
def server(feeder, ledger):
    with Server(ledger, port=0) as running:
        yield running
