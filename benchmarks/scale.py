"""Ten million events a second of a billion keys: what a cluster needs, from what one core does.

    python benchmarks/scale.py [--short] [--keep] [--check]

1. What an event, a row and a piece cost a core of this machine, in processor time.
2. A run of the sharded form on Spark's `local-cluster` (a driver and two executors in processes of
   their own), beside what these costs say of it.
3. From the costs: partitions, cores, shards, bytes a second on each wire, bytes kept.
4. A simulation of the micro-batches of such a cluster, which no machine here can hold: events that
   come in bursts wait for the batch at hand; a batch is read, folded, shuffled, merged, written and
   committed, each part by its own machines at its own speed, and lasts as long as its slowest task.

One summary: sums of one indicator by a text key of 16 characters, panes of 10 seconds.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _record import RESULTS, Table, main
from shards import START_US, Peaks

from muntin.assembly.capacity import capacity
from muntin.ledger import open_ledger
from muntin.segments import build, cut, decode, encode, merge
from muntin.segments.sums import Sums
from muntin.spark.values import JsonValues, value_schema
from muntin.spec import Pipeline

RATE, KEYS, PANE_S, SHARDS = 10_000_000, 10**9, 10, 1_024
TASKS = 3  # for each core, so that none waits long for the slowest
NAME_BYTES, PART_BYTES = 200, 14  # of a piece, and of a shard's part of a run, for the driver
CLUSTER = "local-cluster[2,1,1024]"
ALGEBRA = Sums((("x", None),))
SCHEMA = "time timestamp, user string, x bigint"
SPEC: dict[str, Any] = {
    "name": "users", "time": "time", "pane": f"{PANE_S} seconds", "rollups": ["1 hour"],
    "retention": {"panes": "1 hour", "rollups": "30 days"},
    "summaries": {"users": {"keys": ["user"], "indicators": {"x": "int64"}}},
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """What is not measured here, and stands in the page with the figures that follow from it."""

    partition: float = 10e6  # bytes a second of one Kafka partition
    broker: float = 300e6  # bytes a second that one broker takes in, copies to others included
    copies: int = 3  # of each record on brokers
    cores: int = 16  # of an executor's machine, each as fast as one here
    wire: float = 1.25e9  # bytes a second between two machines: 10 Gbit
    store: float = 100e6  # bytes a second that one executor writes to an object store
    batch: float = 2.0  # seconds that Spark takes for a batch and its two jobs, whatever is in it
    read: float = 0.5e-6  # core seconds of an event from Parquet in Spark
    piece: float = 0.001  # seconds of the driver for a piece's name, in one transaction
    busy: float = 0.6  # share of a machine that a plan uses, the rest being for bursts


@dataclass(frozen=True)
class Units:
    """Seconds of one core and bytes, of one event or of one row (a key in a pane)."""

    record_bytes: float
    parse: float
    fold: float
    encode: float
    row_bytes: float
    decode: float
    merge: float
    held: float
    read: float


def best(run: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    made, found = run(), []
    for _ in range(repeats):
        began = time.process_time()
        made = run()
        found.append(time.process_time() - began)
    return min(found), made


def events_of(count: int, keys: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, keys, count).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return pa.table({
        "time": pa.array(np.full(count, START_US), pa.timestamp("us", "UTC")),
        "user": pa.array([f"{n:016x}" for n in numbers.tolist()]),
        "x": pa.array(rng.integers(0, 1_000, count)),
    })  # fmt: skip


def measured(events: int) -> Units:
    """A shard's share of a pane (98,000 events of 977,000 keys), and what tasks do with it."""
    keys = KEYS // SHARDS
    table = events_of(events, keys, 0)
    values = pa.array(
        [
            json.dumps({"time": "2026-01-01T00:00:00Z", "user": user, "x": x}).encode()
            for user, x in zip(table["user"].to_pylist(), table["x"].to_pylist(), strict=True)
        ],
        pa.binary(),
    )
    parser = JsonValues(value_schema(SCHEMA))
    parse, _ = best(lambda: parser.parse(values))
    columns = {name: table[name].combine_chunks() for name in ("user", "x")}
    slices = np.zeros(events, np.int64)
    fold, made = best(lambda: build(ALGEBRA, slices, [columns["x"]], [("user",)], columns))
    rows = len(made.tables[0])
    write, data = best(lambda: [encode(piece) for piece in cut(made)])
    read, _ = best(lambda: [decode(piece) for piece in data])
    others = [
        build(ALGEBRA, slices, [part["x"].combine_chunks()], [("user",)],
              {"user": part["user"].combine_chunks()})
        for part in (events_of(events, keys, seed) for seed in range(8))
    ]  # fmt: skip
    together, whole = best(lambda: merge(others))
    all_rows = sum(len(one.tables[0]) for one in others)
    return Units(
        record_bytes=float(np.mean([len(value) for value in values[:1_000].to_pylist()])),
        parse=parse / events, fold=fold / events, encode=write / rows,
        row_bytes=sum(map(len, data)) / rows, decode=read / rows, merge=together / all_rows,
        held=whole.nbytes / len(whole.tables[0]), read=max(0.0, streamed() - parse / events),
    )  # fmt: skip


def streamed() -> float:
    """Processor seconds of an event on its whole way, as peers/streams.py measured it; or 0.

    Of a whole run: in a short one what each batch takes is most of it.
    """
    path = RESULTS / "peers-streams.json"
    run = json.loads(path.read_text()).get("whole") if path.exists() else None
    if run is None:
        return 0.0
    table = next(one for one in run["tables"] if one["name"] == "backlog")
    ours = next(row for row in table["rows"] if row[0] == "Muntin")
    return 1 / ours[table["columns"].index("a second of processor")]


def units_table(units: Units) -> Table:
    return Table(
        "units",
        "What one core of this machine takes, and bytes",
        ["what", "ns", "bytes"],
        [
            ["a JSON record: parsed", round(1e9 * units.parse), round(units.record_bytes)],
            ["an event: folded", round(1e9 * units.fold), ""],
            ["a row (a key in a pane): written", round(1e9 * units.encode),
             round(units.row_bytes, 1)],
            ["a row: read", round(1e9 * units.decode), ""],
            ["a row: merged with those of seven others", round(1e9 * units.merge), ""],
            ["a row: held in memory, merged", "", round(units.held)],
            ["a record: Spark and Kafka's client", round(1e9 * units.read), ""],
        ],
        note="Best of three, processor time. A shard's share of a pane: nearly as many keys as "
        "events, so that a row is paid for with each. What Spark and Kafka's client take of a "
        "record is what is left of its whole way in a stream of four million (Evidence), with "
        "all that each batch takes.",
    )  # fmt: skip


# A run on local-cluster: shards are merged and written by executors, the driver commits names.


def on_cluster(folder: Path, shards: int) -> dict[str, Any]:
    """Seconds, memory and bytes of a run, after a small one that starts what is started once."""
    import muntin
    from muntin.spark.session import session

    spark = session("scale", {
        "spark.master": CLUSTER, "spark.executor.memory": "1g", "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": str(shards), "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(), "spark.eventLog.compress": "false",
    })  # fmt: skip
    spec = {**SPEC, "summaries": {"users": {**SPEC["summaries"]["users"], "shards": shards}}}
    found: dict[str, Any] = {}
    sizes: dict[Path, int] = {}
    for run, rows in (("warm", "small"), ("small", "small"), ("events", "events")):
        ledger = f"sqlite:///{folder}/{run}.db"
        began, began_ms = time.perf_counter(), time.time_ns() // 10**6
        with Peaks() as peaks, watched(folder / f"{run}.db.payloads", sizes):
            muntin.summarize(str(folder / rows), spec, ledger=ledger, progress=False).close()
        found[run] = {"seconds": time.perf_counter() - began, "cpu": peaks.cpu, **peaks.peaks}
    spark.stop()
    runs = [path for path in sizes if path.name.startswith("run-")]
    pieces = list((folder / "events.db.payloads").rglob("*.mseg"))
    found["runs"], found["pieces"] = sum(sizes[path] for path in runs), len(pieces)
    found["bytes"] = sum(path.stat().st_size for path in pieces)
    with sqlite3.connect(folder / "events.db") as kept:
        found["commit"] = sum(len(line) for line in kept.iterdump() if 'INTO "piece' in line)
    found["events_counted"] = open_ledger(f"sqlite:///{folder}/events.db").pipelines()[0].counted
    return found | task_bytes(folder, began_ms)


@contextmanager
def watched(folder: Path, sizes: dict[Path, int]) -> Iterator[None]:
    """The most bytes that each file below a folder has meanwhile, of those soon deleted as well."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            for path in folder.rglob("*.mseg"):
                with suppress(FileNotFoundError):
                    sizes[path] = max(sizes.get(path, 0), path.stat().st_size)

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    stop.set()
    thread.join()


def task_bytes(folder: Path, since_ms: int) -> dict[str, int]:
    """What Spark's own log says that tasks have sent each other, and the driver."""
    shuffled = told = 0
    for log in folder.glob("eventlog*/events*"):
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] != "SparkListenerTaskEnd":
                continue
            if event["Task Info"]["Launch Time"] >= since_ms:
                metrics = event["Task Metrics"]
                shuffled += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                told += metrics["Result Size"]
    return {"shuffled": shuffled, "told": told}


def checked(units: Units, events: int, keys: int, shards: int) -> tuple[Table, float]:
    """A run beside what the costs say; seconds of an event that they do not know of."""
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        for kind, count in (("small", 20_000), ("events", events)):
            (folder / kind).mkdir()
            for part in range(2):
                made = events_of(count // 2, keys, part)
                pq.write_table(made, folder / kind / f"{part}.parquet", row_group_size=1 << 19)
        asked = [sys.executable, __file__, "--cluster", name, str(shards)]
        run = subprocess.run(asked, stdout=subprocess.PIPE, check=True, text=True)
        found = json.loads(run.stdout.splitlines()[-1])
    rows = 2 * keys * (1 - np.exp(-events / 2 / keys))  # of both tasks
    sealed = keys * (1 - np.exp(-events / keys))
    core = events * units.fold + rows * (units.encode + units.decode + units.merge)
    core += sealed * units.encode
    both, small = found["events"], found["small"]
    used = both["cpu"] - small["cpu"]
    table = Table(
        "cluster",
        f"{events:,} events of {keys:,} keys on {CLUSTER}, {shards} shards",
        ["what", "from the costs", "measured", "measured : said"],
        [
            compared("processor seconds", core + events * Given.read, used, 1),
            compared("store: runs by shard, bytes written", rows * units.row_bytes, found["runs"]),
            compared("store: pieces, bytes written", sealed * units.row_bytes, found["bytes"]),
            compared("store: pieces", shards, found["pieces"]),
            ["wire: Spark's own shuffle, bytes", 0, found["shuffled"], ""],
            compared("wire: executors to driver, bytes",
                     shards * NAME_BYTES + 2 * shards * PART_BYTES, found["told"]),
            compared("the driver's commit, bytes of names", shards * NAME_BYTES, found["commit"]),
            compared("events counted by the ledger", events, found["events_counted"]),
            ["the driver's Python, MB", "", round(both["driver"] / 1e6), ""],
            ["the same of 20,000 events, MB", "", round(small["driver"] / 1e6), ""],
            ["largest worker, MB", "", round(both["worker"] / 1e6), ""],
            ["seconds of the clock", "", round(both["seconds"], 1), ""],
            ["the same of 20,000 events", "", round(small["seconds"], 1), ""],
        ],
        note="Processor seconds are those of all processes, less those of a run of 20,000 events; "
        "what tasks tell the driver has some 1.5 kB of Spark's for each.",
    )  # fmt: skip
    return table, max(0.0, used - core) / events


def compared(what: str, said: float, found: float, digits: int | None = None) -> list[Any]:
    return [what, round(said, digits), round(found, digits), round(found / said, 2)]


@dataclass(frozen=True)
class Plan:
    """A cluster for a rate, and what goes through it each second."""

    units: Units
    given: Given
    rate: float
    keys: float = KEYS

    @property
    def rows(self) -> float:
        """Keys that a pane has."""
        return self.keys * -np.expm1(-self.rate * PANE_S / self.keys)

    @property
    def kafka(self) -> float:
        """Bytes a second of records, with some 20 of Kafka's for each."""
        return self.rate * (self.units.record_bytes + 20)

    @property
    def task_rows(self) -> float:
        """Rows a second that leave the tasks: nearly one an event, since keys are so many."""
        return self.rate

    @property
    def first(self) -> float:
        """Core seconds a second: read, parsed, folded, written by shard."""
        units = self.units
        return self.rate * (units.read + units.parse + units.fold) + self.task_rows * units.encode

    @property
    def second(self) -> float:
        """Core seconds a second: shards read, merged, written as pieces."""
        units = self.units
        return self.task_rows * (units.decode + units.merge + units.encode)

    @property
    def sealed(self) -> float:
        """Bytes a second of pieces; batches are shorter than panes, and each has its own."""
        return self.task_rows * self.units.row_bytes

    @property
    def needs(self) -> dict[str, float]:
        """Executors that each of their parts would ask for, all of it busy."""
        given, runs = self.given, self.task_rows * self.units.row_bytes
        return {
            "cores": (self.first + self.second) / given.cores,
            "wire": (self.kafka + 2 * runs + self.sealed) / given.wire,
            "store": (runs + self.sealed) / given.store,
        }

    @property
    def executors(self) -> int:
        return int(np.ceil(max(self.needs.values()) / self.given.busy))

    @property
    def partitions(self) -> int:
        """As many as their bytes ask for, and some for each core, since each is one task."""
        cores = TASKS * self.executors * self.given.cores
        return max(int(np.ceil(self.kafka / self.given.partition / self.given.busy)), cores)

    @property
    def brokers(self) -> int:
        given = self.given
        return int(np.ceil(given.copies * self.kafka / given.broker / given.busy))


def gigabytes(number: float) -> str:
    return f"{number / 1e9:,.2f} GB"


def plan_table(plan: Plan) -> Table:
    users = {"user": int(plan.keys / SHARDS)}
    shard = capacity(Pipeline.of(SPEC), plan.rate / SHARDS, users, 30 * 86_400 * 10**6)
    line = shard.lines[0]
    hour = plan.keys * -np.expm1(-plan.rate * 3_600 / plan.keys) * plan.units.row_bytes
    window = plan.keys * plan.units.held
    parts = plan.partitions * SHARDS  # each task of the first job writes one run
    rows = [
        ["Kafka: partitions, three for each core", f"{plan.partitions:,}"],
        ["Kafka: brokers, of 300 MB a second", f"{plan.brokers:,}"],
        ["cores: read, parse, fold, cut", f"{plan.first:,.0f} busy"],
        ["cores: merge by shard, write", f"{plan.second:,.0f} busy"],
        ["executors of 16 cores, 60 % busy", f"{plan.executors:,}"],
        *([f"executors that {what} alone would ask for, 60 % busy",
           f"{need / plan.given.busy:,.1f}"] for what, need in plan.needs.items()),
        ["shards", f"{SHARDS:,}"],
        ["keys of a shard", f"{plan.keys / SHARDS:,.0f}"],
        ["keys in a pane of 10 seconds", f"{plan.rows:,.0f}"],
        ["wire: Kafka to executors", f"{gigabytes(plan.kafka)} a second"],
        ["wire: between brokers", f"{gigabytes((plan.given.copies - 1) * plan.kafka)} a second"],
        ["wire: executors to the store and back, runs by shard",
         f"{gigabytes(plan.task_rows * plan.units.row_bytes)} a second, each way"],
        ["wire: executors to the store, pieces", f"{gigabytes(plan.sealed)} a second"],
        ["reads of a shard's part of a run", f"{parts:,} a batch"],
        ["wire: executors to driver, names and parts of runs",
         f"{(SHARDS * NAME_BYTES + parts * PART_BYTES) / 1e3:,.0f} kB a batch"],
        ["files a second into the store", f"{2 * SHARDS / PANE_S:,.0f}"],
        ["one process that merges a window of all keys", f"{gigabytes(window)} of memory"],
        ["kept: panes, one hour", gigabytes(360 * plan.rows * plan.units.row_bytes)],
        ["kept: hours, thirty days", gigabytes(720 * hour)],
        ["`muntin capacity` of one shard: a pane", f"{line.slice_bytes:,.0f} bytes"],
        ["the same of all shards, one hour of panes", gigabytes(SHARDS * line.nbytes)],
        ["the same: cores to fold, all shards", f"{SHARDS * shard.fold_seconds:,.0f} busy"],
    ]  # fmt: skip
    return Table(
        "plan",
        f"{plan.rate:,.0f} events a second of {plan.keys:,.0f} keys",
        ["what", "how much"],
        [list(row) for row in rows],
        note="From the costs above and what is taken as given: `Given` in benchmarks/scale.py.",
    )


def dealt(tasks: list[float], machines: int) -> float:
    """When the last of them has ended."""
    free = [0.0] * machines
    for task in tasks:
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def simulated(plan: Plan, rate: float, seconds: float, rng: np.random.Generator) -> list[Any]:
    """Micro-batches of a cluster that `plan` sized, at another rate.

    A second's events are Poisson around a rate that wanders by a third (bursts of a minute). The
    next batch takes what came during the last. Each part of it is cut into tasks whose times are
    log-normal (stragglers, sd 0.3), each taken by the machine that is free first; parts follow each
    other, but for the brokers, which go along.
    """
    given, now = plan.given, Plan(plan.units, plan.given, rate, plan.keys)
    burst = np.exp(0.33 * np.convolve(rng.normal(size=int(seconds) + 120), np.ones(60) / 60**0.5,
                                      "valid"))  # fmt: skip
    came = np.concatenate([[0], np.cumsum(rng.poisson(rate * burst[: int(seconds)]))])
    at, taken, lasted, busy = 1.0, 0.0, [], np.zeros(5)
    needs = now.needs
    parts = {
        "brokers": (plan.brokers, given.copies * now.kafka / given.broker),
        "cores": (plan.executors * given.cores, needs["cores"] * given.cores),
        "wire": (plan.executors, needs["wire"]),
        "store": (plan.executors, needs["store"]),
    }
    while at < seconds:
        events = float(np.interp(at, np.arange(len(came)), came)) - taken
        taken += events
        share = events / rate  # seconds of the mean rate that are in this batch
        took = []
        for many, work in parts.values():
            tasks = max(TASKS * many, SHARDS)
            times = rng.lognormal(-0.045, 0.3, tasks) * work * share / tasks
            took.append(dealt(times.tolist(), many))
        driver = given.batch + SHARDS * given.piece
        length = max(took[0], took[1] + took[2] + took[3] + driver)
        lasted.append(length)
        busy += [*(work * share / many for many, work in parts.values()), driver]
        at += length
    share_of = busy / np.sum(lasted)
    left = float(came[-1]) - taken
    first = max(zip(share_of, [*parts, "driver"], strict=True))[1]
    return [
        f"{rate:,.0f}",
        round(float(np.median(lasted)), 1),
        round(float(np.percentile(lasted, 99)), 1),
        "yes" if lasted[-1] < 60 and left / rate < 60 else "no",
        *(f"{100 * min(one, 1):.0f} %" for one in share_of),
        first,
    ]


def load_table(plan: Plan, seconds: float) -> Table:
    rng = np.random.default_rng(0)
    factors = (0.1, 0.5, 1.0, 1.5, 2.0, 3.0)
    return Table(
        "load",
        f"The cluster of the plan, simulated for {seconds / 60:,.0f} minutes: how long batches "
        "last, and how busy each part is",
        ["events a second", "batch, s (median)", "p99", "keeps up", "brokers", "cores", "wire",
         "store", "driver", "busiest"],
        [simulated(plan, factor * plan.rate, seconds, rng) for factor in factors],
        note="Keeps up: batches stay below a minute. The driver's share is of its own fixed work "
        "for each batch, during which the others wait.",
    )  # fmt: skip


def measure(short: bool) -> Iterable[Table]:
    units = measured(98_000)
    units = replace(units, read=max(units.read, Given.read))
    cluster, more = checked(
        units, *((2_000_000, 2_000_000, 4) if short else (16_000_000, 16_000_000, 16))
    )
    if not short:  # else what starts Java's part is too much of it
        units = replace(units, read=max(units.read, more))
    yield units_table(units)
    yield cluster
    plan = Plan(units, Given(), RATE)
    yield plan_table(plan)
    yield load_table(plan, 600 if short else 7_200)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cluster"]:
        print(json.dumps(on_cluster(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        main("scale", measure, ["numpy", "numba", "pyarrow", "pyspark"], __doc__)
