"""Ledgers in stores: commits beside SQLite's, the way to a second server, and updates per event.

python benchmarks/ledger_stores.py [--repeats 30] [--orders 60000] [--closings 100]

Starts PostgreSQL and Redis on loopback. The last part is the way of the published system: a client
that adds each event to counters in Redis (HINCRBY, one for each of 6 keys and 7 indicators), with
and without pipelines, against commits of the same events by Muntin.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # for tests/

from _timing import in_turn, report
from ledger import SPEC, Feed

from muntin.client import Client, Subscription
from muntin.demo.taxi import INDICATORS, PIPELINE, orders
from muntin.errors import MuntinError
from muntin.ledger import open_ledger
from muntin.ledger.sqlite_writer import Writer
from muntin.spark.ingest import Ingest
from muntin.spark.partials import fold
from muntin.spec import Pipeline
from tests.pipeline.support import events, gather, pipeline
from tests.store_servers import PostgresServer, RedisServer, Server, free_port

PER_SECOND = 10_000
EVENTS_A_BATCH = 10_000  # a second of them
DURABLE = {"PostgreSQL": ("-c", "fsync=on"), "Redis": ()}


def commits(servers: dict[str, Server], repeats: int) -> None:
    """50 pieces of 20 KB, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        urls = {"SQLite": f"sqlite:///{folder}/a.db"}
        urls |= {name: server.url(schema="bench") for name, server in servers.items()}
        urls["SQLite, synchronous=full"] = f"sqlite:///{folder}/b.db?synchronous=full"
        ledgers = {name: open_ledger(url) for name, url in urls.items()}
        runs: dict[str, Callable[[], object]] = {
            name: Feed(ledger.open_writer("p", SPEC, query_id="A"), 50, 20_000)
            for name, ledger in ledgers.items()
        }
        seconds = in_turn(runs, repeats, warm=3)
        print("\ncommit of 50 pieces of 20 KB")
        report(seconds, unit="commit")
        base = seconds["SQLite"]
        for name, times in seconds.items():
            ratio = statistics.median(a / b for a, b in zip(times, base, strict=True))
            print(f"  {name:26} median of the ratios to SQLite, round by round: {ratio:.2f}")
        for ledger in ledgers.values():
            ledger.close()


def pushes(name: str, url: str, closings: int) -> list[float]:
    """From the end of a commit that closes a window to its result at a subscriber of the second of
    two servers: processes of their own, followed over WebSocket. Milliseconds of each window."""
    ledger = open_ledger(url)
    ingest = Ingest(pipeline(), ledger, query_id="q")
    done: dict[int, float] = {}
    heard: dict[int, float] = {}
    close = Writer.close_windows

    def closing(self: Writer, windows: Any, *others: Any) -> Any:
        told = close(self, windows, *others)
        done.update(dict.fromkeys([window.start for window in windows], time.perf_counter()))
        return told

    def minute(number: int) -> None:
        seconds = range(60 * number, 60 * number + 60, 10)
        rows = [(s, "abcdef"[i % 6], i % 3, 1, i) for s in seconds for i in range(5)]
        ingest.take(number, gather([events(rows)]))

    Writer.close_windows = closing
    processes = []
    try:
        minute(0)
        urls = []
        for _ in range(2):
            port = free_port()
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
        Writer.close_windows = close
        for process in processes:
            process.terminate()
            process.wait()
    waits = sorted(1000 * max(0.0, heard[start] - done[start]) for start in done)[:closings]
    print(
        f"  {name:12} {len(waits)} windows, p50 {statistics.median(waits):6.2f} ms  "
        f"p99 {waits[int(0.99 * (len(waits) - 1))]:6.2f} ms"
    )
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


def comparison(server: RedisServer, number: int) -> None:
    print(f"\n6 keys x 7 indicators of taxi orders, into Redis ({number:,} orders)")
    few = max(1_000, number // 20)
    found = {
        "HINCRBY": (few, *per_event(server, few, 0)),
        "HINCRBY, 100 orders a pipeline": (few, *per_event(server, few, 100)),
        "Muntin, a commit a second": (number, *by_commits(server, number)),
    }
    _, rate, sent = found["Muntin, a commit a second"]
    mine = sent / number
    for name, (fed, per_second, sent) in found.items():
        each = sent / fed
        print(
            f"  {name:32} {per_second:10,.0f} events/s ({rate / per_second:6.1f} times)  "
            f"{each:8.1f} bytes an event ({each / mine:6.1f} times)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--orders", type=int, default=60_000)
    parser.add_argument("--closings", type=int, default=100)
    parser.add_argument("--only-pushes", action="store_true")
    asked = parser.parse_args()
    servers: dict[str, Server] = {"PostgreSQL": PostgresServer(), "Redis": RedisServer()}
    try:
        for name, server in servers.items():
            server.start(*DURABLE[name])
        if not asked.only_pushes:
            commits(servers, asked.repeats)
        print("\nfrom a commit to a subscriber of a second server")
        with tempfile.TemporaryDirectory() as folder:
            urls = {"SQLite": f"sqlite:///{folder}/a.db"}
            urls |= {name: server.url(schema="pushes") for name, server in servers.items()}
            for name, url in urls.items():
                pushes(name, url, asked.closings)
        if asked.only_pushes:
            return
        redis = servers["Redis"]
        assert isinstance(redis, RedisServer)
        comparison(redis, asked.orders)
    finally:
        for server in servers.values():
            server.close()


if __name__ == "__main__":
    main()
