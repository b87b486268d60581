"""Hours of all of it at once: does memory grow, are descriptors kept, is any window wrong?

    python -m benchmarks.soak [--hours 2] [--rate 500] [--folder soak]

A Kafka broker, a ledger on PostgreSQL, `muntin run` with every kind and with retention, two
`muntin serve`, and clients that come and go (HTTP, SSE, WebSocket, psycopg). Some events are late
by a minute, some records are malformed. Each closed window that a subscriber gets is compared with
what was produced, and none may be missing; at the end read = counted + rejected. Memory (RSS) and
descriptors of each process are written every 30 seconds to FOLDER/soak.csv, Java's heap after a
full collection every five minutes; slopes are Theil and Sen's (median of all pairs), without the
first 20 minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import http.client
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil

from muntin.client import Client
from muntin.demo.broker import Broker, free_ports
from muntin.errors import MuntinError
from tests.store_servers import PostgresServer

AREAS, DRIVERS = 50, 2_000
WINDOW_SECONDS = 60
LATE_SECONDS = 75
SETTLED_WINDOWS = 4  # after so many newer ones nothing late can come any more
SAMPLE_SECONDS, HEAP_SECONDS, WARM_SECONDS = 30, 300, 1_200
TUMBLING = {"kind": "tumbling", "length": "1 minute"}
SUMMARIES = {
    "orders": {"keys": ["area", ["driver", "area"]], "indicators": ["fare"], "window": TUMBLING},
    "fares": {"kind": "quantiles", "value": "fare", "by": "area", "window": TUMBLING},
    "busy": {"kind": "top_k", "item": "driver", "capacity": 100, "window": TUMBLING},
    "calls": {"kind": "frequency", "item": "driver", "weight": "fare", "window": TUMBLING},
    "drivers": {"kind": "distinct", "item": "driver", "by": "area", "window": TUMBLING},
    "members": {"kind": "fingerprint", "key": "driver", "rank": "fare", "window": TUMBLING},
    "beats": {
        "kind": "periodic", "item": ["driver", "area"], "gap": "5 seconds",
        "interval_unit": "4 seconds", "memory": "100 KB", "k": 10,
    },
}  # fmt: skip
EVERY = "SELECT area, count, fare FROM orders(area) ORDER BY area"
ASKED = [
    "SELECT area, count, fare FROM orders(area) FOR LAST '5 minutes' ORDER BY count DESC LIMIT 10",
    "SELECT * FROM quantiles(fares, 0.5, 0.99) FOR LAST '10 minutes'",
    "SELECT * FROM top_k(busy, 10) FOR LAST '2 minutes'",
    "SELECT * FROM frequency(calls, 'driver-7') FOR ALL",
    "SELECT * FROM distinct(drivers) FOR LAST '1 hour'",
    "SELECT * FROM contains(members, 'driver-7', 'nobody')",
    "SELECT sum(count) AS events FROM orders(area) FOR ALL",
]


class Orders:
    """What was produced: event number `i` is always the same one, but for its time."""

    def __init__(self) -> None:
        self.windows: dict[int, np.ndarray] = defaultdict(lambda: np.zeros((AREAS, 2), np.int64))
        self.sent = self.malformed = self.late = 0

    def next(self, due: float) -> bytes:
        i = self.sent
        self.sent += 1
        if i % 1_000 == 999:
            self.malformed += 1
            return b'{"time": "noon"}'
        at = due
        if i % 200 == 7:
            at -= LATE_SECONDS
            self.late += 1
        elif i % 10 == 3:
            at -= 2.5  # out of order
        area, driver, fare = i * 7 % AREAS, i * 31 % DRIVERS, i * 13 % 997
        cell = self.windows[int(at) // WINDOW_SECONDS * WINDOW_SECONDS][area]
        cell[0] += 1
        cell[1] += fare
        when = datetime.fromtimestamp(at, UTC).isoformat()
        return json.dumps(
            {"time": when, "area": area, "driver": f"driver-{driver}", "fare": fare}
        ).encode()


def produce(orders: Orders, servers: str, rate: int, ended: threading.Event) -> None:
    from confluent_kafka import Producer

    failed = Counter()
    producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 2}
    )

    def acknowledged(problem: object, _: object) -> None:
        if problem is not None:
            failed[str(problem)] += 1

    begun, given = time.time(), 0
    while not ended.is_set():
        while given < (time.time() - begun) * rate:
            producer.produce("orders", orders.next(begun + given / rate), on_delivery=acknowledged)
            given += 1
        producer.poll(0)
        ended.wait(0.1)
    left = producer.flush(120)
    if left or failed:
        raise SystemExit(f"not acknowledged: {left} {failed}")


class Checked:
    """Closed windows as one subscriber gets them, compared once they are settled."""

    def __init__(self, orders: Orders, name: str) -> None:
        self._orders, self._name = orders, name
        self._seen: dict[int, dict[str, list[int]]] = {}
        self._next: int | None = None
        self.right = self.wrong = self.missing = self.revisions = 0

    def take(self, start: str, revision: int, rows: list[list]) -> None:
        at = int(datetime.fromisoformat(start).timestamp())
        self.revisions += revision > 0
        self._seen[at] = {str(area): [int(n), int(fare)] for area, n, fare in rows}
        if self._next is None:
            self._next = at + WINDOW_SECONDS  # the first may have begun before
        while self._next + SETTLED_WINDOWS * WINDOW_SECONDS < max(self._seen):
            self._compare(self._next)
            self._next += WINDOW_SECONDS

    def _compare(self, at: int) -> None:
        got = self._seen.pop(at, None)
        cells = self._orders.windows[at]
        expected = {str(a): cells[a].tolist() for a in range(AREAS) if cells[a, 0]}
        if got is None:
            self.missing += bool(expected)
            if expected:
                print(f"MISSING at {self._name}: {at}", flush=True)
        elif got == expected:
            self.right += 1
        else:
            self.wrong += 1
            print(f"WRONG at {self._name}: {at}: {got} is not {expected}", flush=True)


class Clients:
    """Threads that ask, follow, leave and come back until all is over."""

    def __init__(self, urls: list[str], postgres: list[str], orders: Orders) -> None:
        self.urls, self.postgres, self.orders = urls, postgres, orders
        self.ended = threading.Event()
        self.done: Counter[str] = Counter()
        self.checked = [
            Checked(orders, name) for name in ("socket 0", "socket 1", "sse 0", "sse 1")
        ]
        work = [(self.follow, self.checked[0]), (self.follow, self.checked[1]),
                (self.sse, self.checked[2]), (self.sse, self.checked[3]),
                (self.ask, 0), (self.ask, 1), (self.sql, None), (self.moves, None)]  # fmt: skip
        self.threads = [threading.Thread(target=f, args=(a,), daemon=True) for f, a in work]
        for thread in self.threads:
            thread.start()

    def _pause(self, seconds: float) -> None:
        self.ended.wait(seconds)

    def _failed(self, who: str, why: Exception) -> None:
        self.done[f"{who} failed: {type(why).__name__} {str(why)[:80]}"] += 1
        self._pause(2)

    def follow(self, checked: Checked) -> None:
        """Over WebSocket, from server to server."""
        after, turn = None, random.randrange(2)
        while not self.ended.is_set():
            turn, leave = turn + 1, time.monotonic() + random.uniform(20, 90)
            try:
                with Client(self.urls[turn % 2]).subscribe(
                    query="every", on="window", after=after
                ) as got:
                    killer = threading.Timer(leave - time.monotonic(), got.close)
                    killer.start()
                    for update in got:
                        if update.gap is not None:
                            self.done["websocket gaps"] += 1
                        if update.window is not None and update.result is not None:
                            rows = update.result.rows
                            checked.take(update.window["start"], update.window["revision"], rows)
                        after = got.after
                    killer.cancel()
                self.done["websocket connections"] += 1
            except MuntinError as why:
                self._failed("websocket", why)

    def sse(self, checked: Checked) -> None:
        after, place, turn = None, None, random.randrange(2)
        while not self.ended.is_set():
            turn, leave = turn + 1, time.monotonic() + random.uniform(20, 90)
            host = self.urls[turn % 2].removeprefix("http://")
            socket = http.client.HTTPConnection(host, timeout=120)
            try:
                headers = {"Last-Event-ID": after} if after else {}
                socket.request("GET", "/events?query=every&on=window", headers=headers)
                answer = socket.getresponse()
                while time.monotonic() < leave and not self.ended.is_set():
                    line = answer.readline().decode()
                    if not line:
                        break
                    if line.startswith("id:"):
                        place = line[3:].strip()
                    elif not line.strip():
                        after = place  # the event is whole, and was taken
                    elif line.startswith("data:"):
                        told = json.loads(line[5:])
                        if told["type"] == "gap":
                            self.done["sse gaps"] += 1
                        if told["type"] == "window" and "result" in told:
                            window = told["window"]
                            checked.take(
                                window["start"], window["revision"], told["result"]["rows"]
                            )
                self.done["sse connections"] += 1
            except (OSError, http.client.HTTPException) as why:
                self._failed("sse", why)
            finally:
                socket.close()

    def ask(self, server: int) -> None:
        client = Client(self.urls[server])
        for statement in itertools.cycle(ASKED):
            if self.ended.is_set():
                return
            try:
                client.sql(statement)
                self.done["http answers"] += 1
                if random.random() < 0.1:
                    client.state()
            except MuntinError as why:
                self._failed(f"http {statement[:40]}", why)
            self._pause(0.5)

    def sql(self, _: object) -> None:
        import psycopg

        for turn in itertools.count():
            if self.ended.is_set():
                return
            try:
                with psycopg.connect(self.postgres[turn % 2], connect_timeout=30) as connection:
                    for _ in range(5):
                        connection.execute(ASKED[0]).fetchall()
                        self.done["psycopg answers"] += 1
                        self._pause(1)
            except psycopg.Error as why:
                self._failed("psycopg", why)

    def moves(self, _: object) -> None:
        """Answers as they move, of which a slow reader gets only some."""
        while not self.ended.is_set():
            try:
                with Client(random.choice(self.urls)).subscribe(ASKED[0]) as got:
                    killer = threading.Timer(random.uniform(20, 90), got.close)
                    killer.start()
                    for _ in got:
                        self.done["moves"] += 1
                    killer.cancel()
            except MuntinError as why:
                self._failed("moves", why)


class Sampler:
    """Memory and descriptors of each process, by the part that it has."""

    def __init__(self, file: Path, parts: dict[str, psutil.Process]) -> None:
        self.file, self.parts = file, parts
        self.begun = time.monotonic()
        self.rows: dict[str, list[tuple[float, float, int, int]]] = defaultdict(list)
        with file.open("w", newline="") as out:
            csv.writer(out).writerow(["seconds", "part", "processes", "rss_mb", "descriptors"])

    def java(self) -> int | None:
        for child in self.parts["driver"].children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.name() == "java":
                    return child.pid
        return None

    def sample(self) -> None:
        at = time.monotonic() - self.begun
        groups: dict[str, list[psutil.Process]] = defaultdict(list)
        for part, process in self.parts.items():
            groups[part].append(process)
            for child in process.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    name = child.name()
                    below = "java" if name == "java" else "workers"
                    groups[f"{part} {below}"].append(child)
        for part, processes in groups.items():
            rss = files = count = 0
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    rss += process.memory_info().rss
                    files += process.num_fds()
                    count += 1
            self._row(at, part, count, rss / 2**20, files)

    def heap(self) -> None:
        """What lives in Java's heap: the histogram counts it in a full collection."""
        pid = self.java()
        if pid is None or shutil.which("jcmd") is None:
            return
        at = time.monotonic() - self.begun
        for name, command, pattern, unit in (
            ("java heap, live", "GC.class_histogram", r"Total\s+\d+\s+(\d+)", 1 << 20),
            ("java metaspace", "GC.heap_info", r"Metaspace\s+used (\d+)K", 1 << 10),
        ):
            told = subprocess.run(
                ["jcmd", str(pid), command], capture_output=True, text=True, check=False
            )
            found = re.search(pattern, told.stdout)
            if found:
                self._row(at, name, 1, int(found[1]) / unit, 0)

    def _row(self, at: float, part: str, count: int, rss: float, files: int) -> None:
        self.rows[part].append((at, rss, files, count))
        with self.file.open("a", newline="") as out:
            csv.writer(out).writerow([f"{at:.0f}", part, count, f"{rss:.2f}", files])


def slope(points: list[tuple[float, float]]) -> float:
    """Median of the slopes of all pairs, an hour."""
    x, y = np.asarray(points).T
    i, j = np.triu_indices(len(x), 1)
    return float(np.median((y[j] - y[i]) / (x[j] - x[i]))) * 3600 if len(x) > 1 else 0.0


def report(rows: dict[str, list[tuple[float, float, int, int]]], warm: float) -> None:
    print(f"{'part':24} processes  RSS first, last MB  an hour  descriptors least, most, an hour")
    for part, all_of in rows.items():
        kept = [row for row in all_of if row[0] >= warm]
        if len(kept) < 3:
            continue
        files = [row[2] for row in kept]
        print(
            f"{part:24} {kept[-1][3]:9}  {kept[0][1]:9.1f} {kept[-1][1]:7.1f}  "
            f"{slope([(at, rss) for at, rss, _, _ in kept]):10.2f}  "
            f"{min(files):6} {max(files):6} {slope([(at, n) for at, _, n, _ in kept]):8.2f}"
        )


def started(log: Path, *words: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen([sys.executable, "-m", "muntin", *words], stdout=out, stderr=out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--rate", type=int, default=500, help="events a second")
    parser.add_argument("--trigger", default="2 seconds")
    parser.add_argument("--warm", type=float, default=WARM_SECONDS)
    parser.add_argument("--folder", type=Path, default=Path("soak"))
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    store = PostgresServer()
    running: list[subprocess.Popen[bytes]] = []
    orders, ended = Orders(), threading.Event()
    try:
        store.start()
        with Broker(folder / "kafka") as broker:
            producer = threading.Thread(
                target=produce, args=(orders, broker.servers, options.rate, ended), daemon=True
            )
            producer.start()
            spec = {
                "name": "soak",
                "source": {
                    "format": "kafka",
                    "options": {
                        "kafka.bootstrap.servers": broker.servers, "subscribe": "orders",
                        "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100000",
                    },
                    "value": {
                        "format": "json",
                        "schema": "time timestamp, area int, driver string, fare bigint",
                    },
                },
                "time": "time", "pane": "10 seconds", "lateness": "5 seconds",
                "trigger": options.trigger,
                "retention": {"panes": "5 minutes", "rollups": "20 minutes",
                              "history": "20 minutes"},
                "summaries": SUMMARIES,
                "queries": {"every": {"select": EVERY, "on": "window"}},
                "ledger": store.url(), "checkpoint": str(folder / "checkpoint"),
                "spark": {"spark.master": "local[2,4]", "spark.driver.memory": "600m",
                          "spark.sql.shuffle.partitions": "2"},
            }  # fmt: skip
            (folder / "soak.yaml").write_text(json.dumps(spec, indent=1))
            time.sleep(5)
            pipeline = started(folder / "run.log", "run", str(folder / "soak.yaml"))
            running.append(pipeline)
            ports = free_ports(4)
            urls = [f"http://127.0.0.1:{port}" for port in ports[:2]]
            wait_for(pipeline, folder, store)
            for number in range(2):
                words = ["--port", str(ports[number])]
                words += ["--postgres", f"127.0.0.1:{ports[2 + number]}"]
                serve = started(folder / f"serve-{number}.log", "serve", "-l", store.url(), *words)
                running.append(serve)
            for url in urls:
                until_there(url)
            clients = Clients(
                urls, [f"postgresql://muntin@127.0.0.1:{p}/muntin" for p in ports[2:]], orders
            )
            names = ("driver", "server 0", "server 1")
            parts = {n: psutil.Process(p.pid) for n, p in zip(names, running, strict=True)}
            parts["broker"] = psutil.Process(broker.process.pid)
            sampler = Sampler(folder / "soak.csv", parts)
            watch(sampler, running, clients, orders, urls[0], options.hours * 3600)
            ended.set()
            producer.join()
            settled(urls[0], orders)
            clients.ended.set()
            report(sampler.rows, options.warm)
            print(json.dumps(clients.done, indent=1))
            print(told(clients, orders, urls[0]))
    finally:
        for process in running:
            process.terminate()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
        for process in running:
            process.kill()
        store.close()


def wait_for(pipeline: subprocess.Popen[bytes], folder: Path, store: PostgresServer) -> None:
    """Until the ledger has a batch."""
    from muntin.ledger.open import open_ledger

    end = time.monotonic() + 600
    while time.monotonic() < end and pipeline.poll() is None:
        with contextlib.suppress(MuntinError):
            ledger = open_ledger(store.url(), create=False)
            try:
                if any(info.batches for info in ledger.pipelines()):
                    return
            finally:
                ledger.close()
        time.sleep(2)
    raise SystemExit(f"the pipeline does not start: {(folder / 'run.log').read_text()[-2000:]}")


def until_there(url: str) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with contextlib.suppress(MuntinError):
            Client(url).state()
            return
        time.sleep(1)
    raise SystemExit(f"{url} does not answer")


def watch(sampler, running, clients, orders, url, seconds) -> None:
    end, heap = time.monotonic() + seconds, 0.0
    for turn in itertools.count():
        if time.monotonic() >= end:
            return
        if any(process.poll() is not None for process in running):
            raise SystemExit("a process has ended: see the logs")
        sampler.sample()
        if time.monotonic() >= heap:
            sampler.heap()
            heap = time.monotonic() + HEAP_SECONDS
        if turn % 10 == 0:
            print(f"{datetime.now(UTC):%H:%M} {told(clients, orders, url)}", flush=True)
        time.sleep(SAMPLE_SECONDS)


def settled(url: str, orders: Orders) -> None:
    """Until all that was produced is counted."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        with contextlib.suppress(MuntinError):
            if Client(url).state()["pipelines"][0]["read"] >= orders.sent:
                return
        time.sleep(2)


def told(clients: Clients, orders: Orders, url: str) -> str:
    sums = {
        name: sum(getattr(one, name) for one in clients.checked)
        for name in ("right", "wrong", "missing", "revisions")
    }
    try:
        events = Client(url).state()["pipelines"][0]
    except MuntinError as why:
        events = {"state": str(why)}
    known = {k: events.get(k) for k in ("state", "read", "counted", "late", "rejected")}
    failed = sum(n for name, n in clients.done.items() if "failed" in name)
    answers = sum(n for name, n in clients.done.items() if name.endswith("answers"))
    return (
        f"windows at subscribers {sums}; produced {orders.sent:,}, malformed {orders.malformed:,}, "
        f"late {orders.late:,}; ledger {known}; answers {answers:,}, failed {failed}; "
        f"load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
