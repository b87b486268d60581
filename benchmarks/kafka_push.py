"""From produce to pushed answer: how long an event in Kafka takes to a subscriber of a server.

    python benchmarks/kafka_push.py [--short] [--keep]

A broker, `muntin run`, `muntin serve`, the producer and one subscriber over WebSocket share this
machine. Taxi orders of 20,000 drivers as JSON, 6 keys x 7 indicators in panes of 10 seconds, their
time is now; the subscriber follows a statement that counts them all. First as many as are taken:
the producer is never more than LEAD events ahead of what was pushed. Then half and four fifths of
that rate, evenly: an event has arrived with the first push that counts it and all before it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from _record import Table, main
from confluent_kafka import Producer

from muntin.client import Client
from muntin.demo.broker import Broker, free_ports
from muntin.demo.producing import json_values
from muntin.demo.taxi import INDICATORS, KEYS, SCHEMA, orders
from muntin.errors import MuntinError

DRIVERS = 20_000
AT_ONCE = 200_000  # events of a batch at most
LEAD = 3 * AT_ONCE
TICK_SECONDS = 0.01
START_SECONDS_MAX = 300
ASKED = "SELECT sum(count) AS events FROM orders(area) FOR ALL"


def spec_of(folder: Path, servers: str) -> dict[str, Any]:
    options = {
        "kafka.bootstrap.servers": servers, "subscribe": "orders",
        "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(AT_ONCE),
    }  # fmt: skip
    keys = [list(key) if isinstance(key, tuple) else key for key in KEYS]
    return {
        "name": "live", "time": "time", "pane": "10 seconds", "lateness": "10 seconds",
        "trigger": "0 seconds",
        "source": {"format": "kafka", "options": options, "value": {"schema": SCHEMA}},
        "summaries": {"orders": {"keys": keys, "indicators": list(INDICATORS)}},
        "ledger": f"sqlite:///{folder}/live.db", "checkpoint": f"{folder}/checkpoint",
    }  # fmt: skip


class Orders:
    """Produces; knows when each event was due."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 5, "batch.num.messages": 10_000,
             "queue.buffering.max.messages": 2_000_000, "log_level": 2}
        )  # fmt: skip
        rows = json_values(orders(100_000, DRIVERS))
        self._rest = cycle([row[row.index(b'", ') :] for row in rows])  # all but the time
        self.sent = 0

    def send(self, number: int) -> None:
        """So many events whose time is now."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").encode()
        begin = b'{"time": "' + now
        for _, rest in zip(range(number), self._rest, strict=False):
            self._producer.produce("orders", begin + rest)
        self.sent += number
        self._producer.poll(0)

    def closed_loop(self, seconds: float, pushed: Callable[[], int]) -> None:
        """As many as are taken."""
        end = time.time() + seconds
        while time.time() < end:
            if self.sent - pushed() < LEAD:
                self.send(2_000)
            else:
                time.sleep(TICK_SECONDS)

    def evenly(self, rate: float, seconds: float) -> tuple[int, float]:
        """The first event's number, and when it was due: the next ones follow at the rate."""
        first, begun = self.sent, time.time()
        while (passed := time.time() - begun) < seconds:
            self.send(max(0, int(passed * rate) - (self.sent - first)))
            time.sleep(TICK_SECONDS)
        return first, begun


class Pushed:
    """What a subscriber has heard: when, and how many events were counted."""

    def __init__(self, url: str) -> None:
        self.heard: list[tuple[float, int]] = [(0.0, 0)]
        self._updates = _until_there(lambda: Client(url).subscribe(ASKED, on="update"))
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        for update in self._updates:
            if update.result is not None and update.result.rows:
                self.heard.append((time.time(), int(update.result.rows[0][0] or 0)))

    def newest(self) -> int:
        return self.heard[-1][1]

    def wait(self, number: int) -> None:
        end = time.monotonic() + START_SECONDS_MAX
        while self.newest() < number:
            if time.monotonic() > end:
                raise SystemExit(f"{self.newest():,} of {number:,} events were pushed")
            time.sleep(0.05)

    def rate(self, since: float, until: float) -> float:
        """Events a second that were pushed between two moments."""
        inside = [one for one in self.heard if since <= one[0] <= until]
        (begin, first), (end, last) = inside[0], inside[-1]
        return (last - first) / (end - begin)

    def waited(self, first: int, begun: float, rate: float, number: int) -> np.ndarray:
        """Seconds from when each of some events was due to the first push that counts it."""
        at, counted = (np.array(column) for column in zip(*self.heard, strict=True))
        which = np.searchsorted(counted, first + 1 + np.arange(number))
        return at[which] - (begun + np.arange(number) / rate)

    def close(self) -> None:
        self._updates.close()
        self._thread.join(10)


def _until_there(ask: Callable[[], Any]) -> Any:
    end = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            return ask()
        except MuntinError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def measured(folder: Path, servers: str, seconds: float) -> Table:
    (folder / "live.yaml").write_text(json.dumps(spec_of(folder, servers)))
    made = Orders(servers)
    made.send(1_000)
    (port,) = free_ports(1)
    words = [["run", str(folder / "live.yaml")],
             ["serve", "-l", f"sqlite:///{folder}/live.db", "--port", str(port)]]  # fmt: skip
    running: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("ab") as log:
        for each in words:
            command = [sys.executable, "-m", "muntin", *each]
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
            end = time.monotonic() + START_SECONDS_MAX
            while not (folder / "live.db").exists() and time.monotonic() < end:
                time.sleep(0.2)
    try:
        pushed = Pushed(f"http://127.0.0.1:{port}")
        pushed.wait(1_000)
        made.closed_loop(seconds / 2, pushed.newest)  # all is compiled, and in its caches
        begun = time.time()
        made.closed_loop(seconds, pushed.newest)
        highest = pushed.rate(begun, time.time())
        table = Table(
            "latency",
            "From produce to pushed answer, by the share of the highest rate",
            ["share", "events a second", "p50 s", "p99 s"],
            [["as many as are taken", round(highest), "", ""]],
            "The broker, the producer, the pipeline, the server and the subscriber share the "
            "machine's cores.",
        )
        for share in (0.5, 0.8):
            pushed.wait(made.sent)
            rate = share * highest
            first, due = made.evenly(rate, seconds / 4 + seconds)
            pushed.wait(made.sent)
            skipped = int(rate * seconds / 4)  # until batches are as long as this rate makes them
            waited = pushed.waited(
                first + skipped, due + skipped / rate, rate, made.sent - first - skipped
            )
            row = [f"{share:.0%}", round(rate), *np.round(np.quantile(waited, [0.5, 0.99]), 2)]
            table.rows.append([cell if isinstance(cell, str) else float(cell) for cell in row])
        pushed.close()
        return table
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)


def measure(short: bool) -> Iterable[Table]:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        yield measured(Path(folder), broker.servers, 10.0 if short else 60.0)


if __name__ == "__main__":
    main("kafka", measure, ["pyspark", "numpy", "pyarrow", "numba"], __doc__)
