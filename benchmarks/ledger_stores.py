"""Ledgers in stores: commits beside SQLite's, the way to a second server, and updates per event.

    python benchmarks/ledger_stores.py [--short] [--keep] [--check]

Starts PostgreSQL and Redis on loopback. The last part is the way of the published system: a client
that adds each event to counters in Redis (HINCRBY, one for each of 6 keys and 7 indicators), with
and without pipelines, against commits of the same events by Muntin.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # for tests/

from _record import Table, digits, main, ratios
from _timing import in_turn

from muntin.client import Client, Subscription
from muntin.demo.broker import free_ports
from muntin.demo.taxi import INDICATORS, PIPELINE, orders
from muntin.errors import MuntinError
from muntin.ledger import Batch, Partial, Slices, Writer, open_ledger
from muntin.ledger.sqlite_writer import Writer as SqliteWriter
from muntin.spark.ingest import Ingest
from muntin.spark.partials import fold
from muntin.spec import Pipeline
from tests.pipeline.support import events, gather, pipeline
from tests.store_servers import PostgresServer, RedisServer, Server

PER_SECOND = 10_000
EVENTS_A_BATCH = 10_000  # a second of them
PANE_US, PIECES, PIECE_BYTES = 10_000_000, 50, 20_000
SPEC = {"pane_us": PANE_US, "summaries": {"s": {"kind": "vector_matrix"}}}
DURABLE = {"PostgreSQL": ("-c", "fsync=on"), "Redis": ()}


class Feed:
    """Commits of pieces, each to the next panes."""

    def __init__(self, writer: Writer) -> None:
        self._writer, self._number = writer, -1
        half_noise = b"".join(os.urandom(8) + bytes(8) for _ in range(PIECE_BYTES // 16))
        self._payload = half_noise  # which compresses about two to one, as a matrix of counts does

    def __call__(self) -> None:
        self._number += 1
        panes = [(self._number + index) * PANE_US for index in range(PIECES)]
        partials = [Partial("s", Slices.of([pane], [1]), self._payload) for pane in panes]
        self._writer.commit(Batch("A", self._number, partials, read=PIECES, counted=PIECES))


def commits(urls: dict[str, str], repeats: int) -> dict[str, list[float]]:
    """Seconds of each commit, in turn."""
    ledgers = {name: open_ledger(url) for name, url in urls.items()}
    runs: dict[str, Callable[[], object]] = {
        name: Feed(ledger.open_writer("p", SPEC, query_id="A")) for name, ledger in ledgers.items()
    }
    seconds = in_turn(runs, repeats, warm=3)
    for ledger in ledgers.values():
        ledger.close()
    return seconds


def pushes(url: str, closings: int) -> list[float]:
    """From the end of a commit that closes a window to its result at a subscriber of the second of
    two servers: processes of their own, followed over WebSocket. Milliseconds of each window."""
    ledger = open_ledger(url)
    ingest = Ingest(pipeline(), ledger, query_id="q")
    done: dict[int, float] = {}
    heard: dict[int, float] = {}
    close = SqliteWriter.close_windows

    def closing(self: SqliteWriter, windows: Any, *others: Any) -> Any:
        told = close(self, windows, *others)
        done.update(dict.fromkeys([window.start for window in windows], time.perf_counter()))
        return told

    def minute(number: int) -> None:
        seconds = range(60 * number, 60 * number + 60, 10)
        rows = [(s, "abcdef"[i % 6], i % 3, 1, i) for s in seconds for i in range(5)]
        ingest.take(number, gather([events(rows)]))

    SqliteWriter.close_windows = closing
    processes = []
    try:
        minute(0)
        urls = []
        for _ in range(2):
            (port,) = free_ports(1)
            urls.append(f"http://127.0.0.1:{port}")
            serve = [sys.executable, "-m", "muntin", "serve", "-l", url, "--port", str(port)]
            processes.append(subprocess.Popen(serve, stdout=subprocess.DEVNULL))
        following = subscribed(urls[1])

        def follow() -> None:
            for update in following:
                at = time.perf_counter()
                if update.window is not None:
                    start = datetime.fromisoformat(update.window["start"]).timestamp()
                    heard.setdefault(int(start * 1e6), at)

        listening = threading.Thread(target=follow)
        listening.start()
        for number in range(1, closings + 1):
            minute(number)
            end = time.monotonic() + 60
            while len(heard) < len(done) and time.monotonic() < end:
                time.sleep(0.01)
        following.close()
        listening.join()
    finally:
        SqliteWriter.close_windows = close
        for process in processes:
            process.terminate()
            process.wait()
    waits = sorted(1000 * max(0.0, heard[start] - done[start]) for start in done)[:closings]
    ingest.close()
    ledger.close()
    return waits


def subscribed(url: str) -> Subscription:
    end = time.monotonic() + 120
    while True:
        try:
            return Client(url).subscribe(query="busiest", on="window")
        except MuntinError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def received(server: RedisServer) -> int:
    return int(server.client().info("stats")["total_net_input_bytes"])  # pyright: ignore[reportIndexIssue]


def per_event(server: RedisServer, number: int, together: int) -> tuple[float, int]:
    """Events a second, and bytes; `together`: events that share a round trip."""
    rows = orders(number, per_second=PER_SECOND).to_pylist()
    client = server.client()
    keys = Pipeline.of(PIPELINE).summaries["orders"].keys  # pyright: ignore[reportAttributeAccessIssue]
    groups = [[one] if isinstance(one, str) else list(one) for one in keys]
    before, began = received(server), time.perf_counter()
    batch = client.pipeline(transaction=False)
    for index, row in enumerate(rows, 1):
        pane = int(row["time"].timestamp()) // 10
        for place, group in enumerate(groups):
            key = f"{pane}:{place}:" + ":".join(str(row[name]) for name in group)
            for indicator in INDICATORS:
                if together:
                    batch.hincrby(key, indicator, row[indicator])
                else:
                    client.hincrby(key, indicator, row[indicator])
        if together and index % together == 0:
            batch.execute()
    batch.execute()
    return number / (time.perf_counter() - began), received(server) - before


def by_commits(server: RedisServer, number: int) -> tuple[float, int]:
    """The same events by Muntin: events a second, bytes."""
    ledger = open_ledger(server.url(schema="orders"))
    ingest = Ingest(Pipeline.of(PIPELINE), ledger, query_id="benchmark")
    parts = [
        orders(EVENTS_A_BATCH, seed=1, start_us=1_700_000_000_000_000 + at * 1_000_000,
               per_second=PER_SECOND)
        for at in range(number // EVENTS_A_BATCH + 1)
    ]  # fmt: skip
    ingest.take(0, lambda plan: list(fold(plan, [parts[0]])))  # kernels are compiled
    before, began = received(server), time.perf_counter()
    for batch, part in enumerate(parts[1:], 1):
        ingest.take(batch, lambda plan: list(fold(plan, [part])))  # noqa: B023
    seconds = time.perf_counter() - began
    sent = received(server) - before
    ingest.close()
    ledger.close()
    return number / seconds, sent


def counters(server: RedisServer, number: int) -> Table:
    few, fewer = number // 20, number // 400  # each without a pipeline is 42 round trips
    found = {
        "Muntin, a commit a second": (number, *by_commits(server, number)),
        "`HINCRBY`, 100 orders a pipeline": (few, *per_event(server, few, 100)),
        "`HINCRBY`": (fewer, *per_event(server, fewer, 0)),
    }
    table = Table(
        "counters",
        f"Taxi orders ({number:,}) by 6 keys and 7 indicators into Redis",
        ["client", "events a second", "bytes sent an event"],
    )
    for name, (fed, rate, sent) in found.items():
        table.rows.append([name, round(rate), round(sent / fed, 1)])
    return table


def measure(short: bool) -> Iterable[Table]:
    servers: dict[str, Server] = {"PostgreSQL": PostgresServer(), "Redis": RedisServer()}
    try:
        for name, server in servers.items():
            server.start(*DURABLE[name])
        with tempfile.TemporaryDirectory() as folder:
            yield stores(servers, folder, short)
        redis = servers["Redis"]
        assert isinstance(redis, RedisServer)
        yield counters(redis, 20_000 if short else 60_000)
    finally:
        for server in servers.values():
            server.close()


def stores(servers: dict[str, Server], folder: str, short: bool) -> Table:
    urls = {"SQLite": f"sqlite:///{folder}/a.db"}
    urls |= {name: server.url(schema="bench") for name, server in servers.items()}
    urls["SQLite, `synchronous=full`"] = f"sqlite:///{folder}/b.db?synchronous=full"
    seconds = commits(urls, 10 if short else 60)
    table = Table(
        "stores",
        f"A commit of {PIECES} pieces of {PIECE_BYTES // 1000} KB; and from a commit that closes a "
        "window to its result at a subscriber of a second server, by WebSocket",
        ["ledger", "SQLite's commit : this", "commit, ms", "to the subscriber: p50 ms", "p99 ms"],
        note="Servers on loopback. Below 1, a commit takes longer than SQLite's.",
    )
    for name, taken in seconds.items():
        row = [name, ratios(taken, seconds["SQLite"]) if name != "SQLite" else 1.0]
        row.append(digits(1e3 * statistics.median(taken)))
        row += ["", ""]
        if "full" not in name:
            url = servers[name].url(schema="pushes") if name in servers else f"{urls[name]}.pushes"
            waits = pushes(url, 20 if short else 100)
            row[3:] = [digits(statistics.median(waits)), digits(waits[int(0.99 * len(waits))])]
        table.rows.append(row)
    return table


if __name__ == "__main__":
    main("ledger-stores", measure, ["psycopg", "redis", "pyarrow", "numba"], __doc__)
