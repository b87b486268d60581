"""Windowed sums of a Kafka topic as a stream, beside the engines that one would use instead.

    python benchmarks/peers/streams.py [--short] [--keep] [--check]

Needs Java and Maven, and an environment of its own for the peers, whose dependencies differ:
`pip install -r benchmarks/peers/requirements-streams.txt`, whose python MUNTIN_STREAMS_PYTHON names
(else this one is taken; what is not there is left out). Count and sum of JSON records by area (100
of them) and window, from a broker on this machine with two partitions, each engine in a process of
its own with two threads or tasks where it can. Spark and Muntin begin with a small topic, since
Java compiles what it runs often. Spark's state is in RocksDB; Muntin's answers are asked of its
ledger, after each batch.

- Backlog: what is there is read to the end. Events a second of the clock and of the processor, and
  the most memory of all the engine's processes.
- Live: records come at a steady rate with the clock's time. For each area and window of a second,
  the time from the window's end until its sums are answered, and stay so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _record import Table, main, ratios

from muntin.demo.broker import Broker

AREAS, PARTITIONS = 100, 2
START_US, LAST_US = 1_767_225_600_000_000, 4_000_000_000_000_000
SECONDS_MAX = 600.0
PEERS = ["bytewax", "quixstreams", "pathway"]
PYTHON = os.environ.get("MUNTIN_STREAMS_PYTHON", sys.executable)
ENGINES = Path(__file__).with_name("_stream_engines.py")


class Engine:
    """One run: what it told, the processor time and the memory of all its processes."""

    def __init__(self, name: str, servers: str, topic: str, events: int, window_us: int) -> None:
        warm = [] if name in PEERS else ["warm", str(WARM)]
        python = PYTHON if name in PEERS else sys.executable
        asked = [python, str(ENGINES), name, servers, topic, str(events), str(window_us), *warm]
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        self.process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=self._errors)
        self.ready = threading.Event()
        self.told: dict[str, Any] = {}
        self.seconds, self.bytes = 0.0, 0
        self._used: dict[int, float] = {}
        self._threads = [threading.Thread(target=run) for run in (self._read, self._watch)]
        for thread in self._threads:
            thread.start()

    def ended(self) -> dict[str, Any]:
        """What it told; it is an error where it told nothing in time."""
        self._threads[0].join(SECONDS_MAX)
        self.process.kill()
        for thread in self._threads:
            thread.join()
        if "ended" not in self.told:
            self._errors.seek(0)
            last = self._errors.read().decode(errors="replace")[-3_000:]
            raise RuntimeError(f"{self.name} ended without an answer: {last}")
        self.seconds = sum(self._used.values()) - self.told["used"]
        return self.told

    def _read(self) -> None:
        for line in self.process.stdout or ():
            if line.startswith(b"{"):
                self.told |= json.loads(line)
                if not self.ready.is_set():
                    self.told["used"] = sum(self._used.values())
                self.ready.set()

    def _watch(self) -> None:
        me = psutil.Process(self.process.pid)
        while self.process.poll() is None:
            resident = 0
            try:
                for process in [me, *me.children(recursive=True)]:
                    resident += process.memory_info().rss
                    used = process.cpu_times()
                    self._used[process.pid] = used.user + used.system
            except psutil.Error:
                continue
            self.bytes = max(self.bytes, resident)
            time.sleep(0.1)


WARM = 20_000


def record(at_us: int, area: int, fare: int) -> bytes:
    return b'{"time": %d, "area": %d, "fare": %d}' % (at_us, area, fare)


class Topics:
    """Fills topics; a record's key is its area, so that one partition has all of it."""

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers})
        settings = {"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0}
        self._producer = Producer({**settings, "queue.buffering.max.messages": 2_000_000})
        self._rng = np.random.default_rng(0)
        self._sent: dict[str, list[np.ndarray]] = defaultdict(list)

    def make(self, name: str) -> None:
        self._admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)

    def send(self, topic: str, times: np.ndarray) -> None:
        areas, fares = (self._rng.integers(top, size=len(times)) for top in (AREAS, 1_000))
        self._sent[topic].append(np.stack([times, areas, fares]))
        for at, area, fare in zip(times.tolist(), areas.tolist(), fares.tolist(), strict=True):
            self._producer.produce(topic, record(at, area, fare), str(area))
            self._producer.poll(0)

    def close(self, topic: str) -> None:
        """A later record in each partition and of each area, for what goes by these."""
        for area in range(AREAS):
            self._producer.produce(topic, record(LAST_US, area, 0), str(area))
        self._producer.flush(60)

    def sums(self, topic: str, window_us: int) -> list[list[int]]:
        """What an engine must answer: start, area, count, sum of fares."""
        times, areas, fares = np.concatenate(self._sent[topic], axis=1)
        where = np.stack([times // window_us * window_us, areas])
        found, index = np.unique(where, axis=1, return_inverse=True)
        totals = [np.bincount(index), np.bincount(index, fares).astype(int)]
        return np.stack([*found, *totals], axis=1).tolist()

    def fill(self, topic: str, events: int, windows: int, window_us: int) -> None:
        self.make(topic)
        self.send(topic, np.linspace(0, windows * window_us - 1, events).astype(int) + START_US)
        self.close(topic)


def answered(engine: Engine, topics: Topics, topic: str, window_us: int) -> dict[str, Any]:
    """What an engine told, whose sums are those of the records."""
    told = engine.ended()
    if [row[:4] for row in told["sums"]] != topics.sums(topic, window_us):
        raise RuntimeError(f"{engine.name} answered wrong sums")
    return told


def backlog(servers: str, topics: Topics, events: int, repeats: int, names: list[str]) -> Table:
    window = 10_000_000
    topics.fill("backlog", events, events // 10_000, window)
    table = Table(
        "backlog",
        f"{events:,} JSON records of {AREAS} areas in windows of 10 seconds, read to the end: "
        "times as long as ours",
        ["engine", "time", "processor time", "events a second", "a second of processor", "MB"],
        note="Above 1, ours is faster. MB: resident, at most, of all processes. Spark and Muntin "
        "have Java; Muntin's and Spark's state outlives a crash, and so does quix-streams', which "
        "writes it to a topic as well; here bytewax and pathway keep theirs in memory alone.",
    )
    runs: dict[str, list[tuple[float, float, int]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name, found in runs.items():
            engine = Engine(name, servers, "backlog", events, window)
            told = answered(engine, topics, "backlog", window)
            found.append((told["ended"] - told["began"], engine.seconds, engine.bytes))
    for name, found in runs.items():
        took, used, memory = (list(each) for each in zip(*found, strict=True))
        ours = [list(each) for each in zip(*runs["muntin"], strict=True)]
        table.rows.append([
            SHOWN[name], *(1.0 if name == "muntin" else ratios(*both)
                           for both in ((ours[0], took), (ours[1], used))),
            round(events / float(np.median(took))), round(events / float(np.median(used))),
            round(max(memory) / 1e6),
        ])  # fmt: skip
    return table


def live(servers: str, topics: Topics, rate: int, seconds: int, names: list[str]) -> Table:
    table = Table(
        "live",
        f"{rate:,} records a second for {seconds} seconds, windows of a second: milliseconds from "
        "a window's end until an area's sums are answered",
        ["engine", "median", "p99", "most"],
        note="The first three windows are left out. Spark writes updates, not final rows, which "
        "would come a batch later; pathway does as well. bytewax and quix-streams answer what is "
        "final, once a later record of the area has come.",
    )
    for name in names:
        topic = f"live-{name}"
        topics.make(topic)
        engine = Engine(name, servers, topic, rate * seconds, 1_000_000)
        if not engine.ready.wait(180):
            engine.ended()
        time.sleep(5)
        first = (int(time.time()) + 1) * 1_000_000
        for tick in range(seconds * 20):
            begin = first + tick * 50_000
            time.sleep(max(0.0, (begin + 50_000) / 1e6 - time.time()))
            topics.send(topic, np.linspace(begin, begin + 49_999, rate // 20).astype(int))
        topics.close(topic)
        told = answered(engine, topics, topic, 1_000_000)
        late = [
            1e3 * (at - window / 1e6 - 1)
            for window, *_, at in told["sums"]
            if window >= first + 3_000_000
        ]
        cells = (np.median(late), np.percentile(late, 99), max(late))
        table.rows.append([SHOWN[name], *(round(float(cell)) for cell in cells)])
    return table


SHOWN = {
    "muntin": "Muntin",
    "spark": "Spark, stateful groupBy, RocksDB",
    "bytewax": "bytewax",
    "quixstreams": "quix-streams",
    "pathway": "pathway",
}


def installed(name: str) -> bool:
    """Whether the peers' Python has it; it is told where not."""
    found = subprocess.run([PYTHON, "-c", f"import {name}"], stderr=subprocess.DEVNULL, check=False)
    if found.returncode:
        print(f"{PYTHON} has no {name}: it is left out")
    return not found.returncode


def measure(short: bool) -> Iterable[Table]:
    names = [name for name in SHOWN if name not in PEERS or installed(name)]
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        topics = Topics(broker.servers)
        topics.fill("warm", WARM, 2, 10_000_000)
        events, repeats = (200_000, 2) if short else (4_000_000, 3)
        yield backlog(broker.servers, topics, events, repeats, names)
        yield live(broker.servers, topics, 2_000, 10 if short else 40, names)


if __name__ == "__main__":
    main("peers-streams", measure, ["pyspark", "confluent-kafka", "pyarrow"], __doc__)
