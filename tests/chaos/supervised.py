"""A pipeline from Kafka to PostgreSQL and a server, of which any part is killed or frozen.

A supervisor starts again what has ended, as systemd or Kubernetes would. Every event is then
counted once, every closed window is that of an exact oracle over what was produced, and results
flow again.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import psutil

from muntin.client import Client
from muntin.demo.broker import Broker, free_ports
from muntin.errors import LedgerError, MuntinError
from muntin.ledger.open import open_ledger
from muntin.session import Session
from tests.conftest import SPARK
from tests.store_servers import PostgresServer

RATE, AREAS, WINDOW = 200, 7, 10
WINDOWS_MIN = 10
BACK_SECONDS_MAX = 600  # on a machine with much other work; what it took is printed
WAYS = ("driver", "worker", "broker", "broker frozen", "driver frozen", "store", "server")


def killed(folder: Path, ways: Iterable[str], rng: random.Random) -> dict[str, list[float]]:
    """Seconds until results flow again after each strike, by way; all is compared in the end."""
    store = PostgresServer()
    store.start()
    took: dict[str, list[float]] = defaultdict(list)
    try:
        with Broker(folder / "kafka") as broker:
            produced = Produced(broker.servers)
            run = Supervised(folder, spec_of(broker, store, folder))
            try:
                back(run, time.time())
                for number, way in enumerate(ways):
                    time.sleep(rng.uniform(0, 3))
                    begun = time.time()
                    strike(way, run, broker, store, rng)
                    took[way].append(back(run, begun))
                    print(f"{number} {way}: {took[way][-1]:.1f} s", flush=True)  # noqa: T201
                while len(produced.windows) < WINDOWS_MIN + 8:  # the lateness, and what is open
                    time.sleep(1)
                produced.stop()
                end = time.monotonic() + BACK_SECONDS_MAX
                while run.state().get("read") != produced.sent and time.monotonic() < end:
                    time.sleep(0.5)
            finally:
                produced.stop()
                run.stop()
        assert produced.failed == 0
        wrong_in(store.url(), produced)
    finally:
        store.close()
    return took


class Produced:
    """Events whose time is now, and what an exact answer about them is."""

    def __init__(self, servers: str) -> None:
        self.windows = defaultdict(Counter)
        self.fares = defaultdict(Counter)
        self.sent = self.failed = 0
        self._servers = servers
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        from confluent_kafka import Producer

        options = {"bootstrap.servers": self._servers, "enable.idempotence": True}
        producer = Producer({**options, "message.timeout.ms": 600_000, "log_level": 0})
        begun = time.time()
        while not self._ended.wait(0.05):
            while self.sent < (time.time() - begun) * RATE:
                at, fare = begun + self.sent / RATE, self.sent * 13 % 997
                area = self.sent % AREAS
                when = datetime.fromtimestamp(at, UTC).isoformat()
                record = json.dumps({"time": when, "area": area, "fare": fare})
                producer.produce("orders", record.encode(), on_delivery=self._told)
                self.windows[int(at) // WINDOW * WINDOW][area] += 1
                self.fares[int(at) // WINDOW * WINDOW][area] += fare
                self.sent += 1
            producer.poll(0)
        self.failed += producer.flush(600)

    def _told(self, problem: object, _: object) -> None:
        self.failed += problem is not None


class Supervised:
    """`muntin run` and `muntin serve`, started again whenever they have ended."""

    def __init__(self, folder, spec: dict) -> None:
        (folder / "all.yaml").write_text(json.dumps(spec))
        (self.port,) = free_ports(1)
        serve = ["serve", "--ledger", spec["ledger"], "--port", str(self.port)]
        self._words = {"driver": ["run", str(folder / "all.yaml")], "server": serve}
        self._log = folder / "log"
        self._ended = threading.Event()
        self.starts: Counter[str] = Counter()
        self.processes: dict[str, psutil.Popen] = {}
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            for name, words in self._words.items():
                there = self.processes.get(name)
                if there is None or there.poll() is not None:
                    self.starts[name] += 1
                    with self._log.open("ab") as log:
                        self.processes[name] = psutil.Popen(
                            [sys.executable, "-m", "muntin", *words],
                            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                        )  # fmt: skip

    def tree(self, name: str) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            return [self.processes[name], *self.processes[name].children(recursive=True)]
        return []

    def workers(self) -> list[psutil.Process]:
        """Python workers that Spark's daemon has forked."""
        found = []
        for process in self.tree("driver")[1:]:
            with contextlib.suppress(psutil.Error):
                if process.name() != "java" and process.parent().name() != "java":
                    found.append(process)
        return found

    def state(self) -> dict:
        with contextlib.suppress(MuntinError):
            for pipeline in Client(f"http://127.0.0.1:{self.port}", timeout=10).state()[
                "pipelines"
            ]:
                return pipeline
        return {}

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        send(signal.SIGTERM, [*self.processes.values()])
        for name, process in self.processes.items():
            below = self.tree(name)
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(120)
            send(signal.SIGKILL, below)


def send(number: int, processes: list) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def strike(way: str, run: Supervised, broker: Broker, store: PostgresServer, rng) -> None:
    if way == "store":
        store.kill()
        time.sleep(rng.uniform(0, 2))
        store.start()
    elif way == "broker":
        broker.kill()
        time.sleep(rng.uniform(0, 2))
        broker.start()
    elif way == "worker":
        there = run.workers()
        send(signal.SIGKILL, rng.sample(there, min(1, len(there))))
    elif way.endswith("frozen"):
        held = (
            run.tree("driver") if way == "driver frozen" else [psutil.Process(broker.process.pid)]
        )
        send(signal.SIGSTOP, held)
        time.sleep(rng.uniform(3, 10))
        send(signal.SIGCONT, held)
    else:
        send(signal.SIGKILL, run.tree(way))


def spec_of(broker: Broker, store: PostgresServer, folder) -> dict:
    source = {
        "kafka.bootstrap.servers": broker.servers, "subscribe": "orders",
        "startingOffsets": "earliest", "maxOffsetsPerTrigger": 20_000,
    }  # fmt: skip
    schema = "time timestamp, area int, fare bigint"
    window = {"kind": "tumbling", "length": f"{WINDOW} seconds"}
    return {
        "name": "all",
        "source": {"format": "kafka", "options": source, "value": {"schema": schema}},
        "time": "time", "pane": "5 seconds", "lateness": "1 minute",
        "summaries": {"orders": {"keys": ["area"], "indicators": ["fare"], "window": window}},
        "queries": {"every": "SELECT area, count, fare FROM orders(area) ORDER BY area"},
        "ledger": store.url(), "checkpoint": str(folder / "checkpoint"), "spark": SPARK,
    }  # fmt: skip


def back(run: Supervised, since: float) -> float:
    """Seconds until the server tells of an event that was produced after."""
    while time.time() < since + BACK_SECONDS_MAX:
        if (run.state().get("newest") or 0) > since * 1e6:
            return time.time() - since
        time.sleep(0.2)
    raise AssertionError(f"nothing comes: {run._log.read_text()[-3000:]}")


def wrong_in(url: str, produced: Produced) -> None:
    ledger = open_ledger(url, create=False)
    (info,) = ledger.pipelines()
    assert (info.read, info.counted, info.rejected) == (produced.sent, produced.sent, 0)
    asked = Session(ledger)
    totals = Counter()
    for counts in produced.windows.values():
        totals.update(counts)
    rows = asked.sql("SELECT area, count FROM orders(area) FOR ALL").rows
    assert {int(area): int(n) for area, n in rows} == totals
    found = defaultdict(dict)
    for start, area, n, fare in asked.sql(
        "SELECT window_start, area, count, fare FROM trend(every) FOR ALL"
    ).rows:
        at = int(datetime.fromisoformat(str(start)).timestamp())
        found[at][int(area)] = (int(n), int(fare))
    assert len(found) >= WINDOWS_MIN
    for at, areas in found.items():
        expected = {a: (n, produced.fares[at][a]) for a, n in produced.windows[at].items()}
        assert areas == expected, at
    closed = sorted(at for at in found)
    assert closed == list(range(closed[0], closed[-1] + 1, WINDOW))
    with contextlib.suppress(LedgerError):
        ledger.close()
    print(f"{len(found)} windows, {produced.sent:,} events, 0 wrong")  # noqa: T201
