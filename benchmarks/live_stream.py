"""A live stream: six keys x seven indicators in panes of 10 seconds, a second of events a batch.

    python benchmarks/live_stream.py [--short] [--keep] [--check]

Taxi orders, as fast as they are taken: Muntin into a SQLite ledger, and Spark's own
`groupBy(window, ...)` of the same groups, its state in RocksDB with a log of changes, its output
thrown away; in turn, over the same backlog. First JSON records of one topic of two partitions, from
a broker on this machine, which Spark parses by `from_json`; then Parquet files, one a batch. Of the
later half of the batches: events a second of the clock and of the processor (this process, Java,
Python workers; the broker, too). A first run of each compares all sums.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _record import Table, main, ratios
from _spark import Tree

import muntin
from muntin.demo.broker import Broker
from muntin.demo.producing import json_values, produce
from muntin.demo.taxi import INDICATORS, KEYS, SCHEMA, orders
from muntin.spark.connector import pinned_jars
from muntin.spark.session import session

START_US = 1_767_225_600_000_000
DRIVERS = 20_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
SPEC: dict[str, Any] = {
    "name": "live", "time": "time", "pane": "10 seconds", "lateness": "10 seconds",
    "summaries": {
        "orders": {
            "kind": "vector_matrix",
            "keys": [list(key) if isinstance(key, tuple) else key for key in KEYS],
            "indicators": list(INDICATORS),
        }
    },
}  # fmt: skip


class Batches:
    """When batches ended, and the processor time until then."""

    def __init__(self) -> None:
        self._tree = Tree()
        self._ends: list[tuple[float, float]] = []

    def ended(self, *_: object) -> None:
        self._ends.append((time.perf_counter(), self._tree.seconds()))

    def later(self) -> tuple[float, float]:
        """Seconds of a batch of the later half: of the clock, and of the processor."""
        first, last = self._ends[len(self._ends) // 2], self._ends[-1]
        number = len(self._ends) - 1 - len(self._ends) // 2
        return (last[0] - first[0]) / number, (last[1] - first[1]) / number


Sums = dict[tuple[str, ...], pa.Table]
"""Of each key's values the count and the sums of all panes, in order."""


def in_order(table: pa.Table, key: tuple[str, ...]) -> pa.Table:
    kinds = [pa.string()] * len(key) + [pa.int64()] * (1 + len(INDICATORS))
    table = table.select([*key, "count", *INDICATORS])
    table = table.cast(pa.schema(zip(table.column_names, kinds, strict=True)))
    return table.sort_by([(name, "ascending") for name in key]).combine_chunks()


def grouped(table: pa.Table, by: Iterable[str], how: str) -> pa.Table:
    names, figures = list(by), ["count", *INDICATORS]
    made = table.group_by(names).aggregate([(name, how) for name in figures])
    return made.select([*names, *(f"{name}_{how}" for name in figures)]).rename_columns(
        [*names, *figures]
    )


KEY_NAMES = [key if isinstance(key, tuple) else (key,) for key in KEYS]
COLUMNS = list(dict.fromkeys(name for key in KEY_NAMES for name in key))


class Live:
    """A folder of Parquet files, each a second of orders."""

    def __init__(self, folder: Path, events: int, drivers: int, batches: int, spark: Any) -> None:
        self.folder, self.spark = folder, spark
        self.source = folder / f"orders-{events}"
        self.source.mkdir()
        for second in range(batches):
            start = START_US + second * 1_000_000
            batch = orders(events, drivers, second, start, per_second=events)
            pq.write_table(pa.Table.from_batches([batch]), self.source / f"{second:05}.parquet")

    def source_of_muntin(self) -> tuple[Any, dict[str, Any]]:
        """What `muntin.stream` is given: rows and the pipeline, or the pipeline alone."""
        return self.rows(), SPEC

    def _new_folder(self) -> Path:
        """Spark looks after its states for a while behind a query's end: none is used twice."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def rows(self) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.source))

    def muntin(self, batches: Batches, kept: Sums | None = None) -> None:
        made = self._new_folder()
        rows, spec = self.source_of_muntin()
        running = muntin.stream(
            rows, spec, checkpoint=str(made / "checkpoint"),
            ledger=str(made / "live.db"), once=True, on_batch=batches.ended,
        )  # fmt: skip
        running.await_termination()
        if kept is not None:
            for key in KEY_NAMES:
                answer = running.sql(f"SELECT * FROM orders({', '.join(key)}) FOR ALL")
                kept[key] = in_order(answer.table, key)
        running.ledger.close()
        shutil.rmtree(made)

    def by_spark(self, batches: Batches, kept: Sums | None = None) -> None:
        sets = ", ".join(f"(pane, {', '.join(key)})" for key in KEY_NAMES)
        sums = ", ".join(f"sum({name}) AS {name}" for name in INDICATORS)
        rows = self.rows().withWatermark("time", "10 seconds")
        rows = rows.selectExpr("window(time, '10 seconds') AS pane", "*")
        rows.createOrReplaceTempView("live")
        sums_of_all = self.spark.sql(
            f"SELECT pane, {', '.join(COLUMNS)}, count(*) AS count, {sums} FROM live "
            f"GROUP BY GROUPING SETS ({sets})"
        )
        updates: list[pa.Table] = []

        def taken(batch: Any, _: int) -> None:
            if kept is None:
                batch.write.format("noop").mode("overwrite").save()
            else:
                updates.append(batch.selectExpr("pane.start AS pane", "* EXCEPT (pane)").toArrow())
            batches.ended()

        made = self._new_folder()
        query = (
            sums_of_all.writeStream.foreachBatch(taken)
            .outputMode("update")
            .option("checkpointLocation", str(made))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        shutil.rmtree(made, ignore_errors=True)
        if kept is None:
            return
        # counts and sums only grow: the last of a pane's updates is the largest
        newest = grouped(pa.concat_tables(updates), ["pane", *COLUMNS], "max")
        for key in KEY_NAMES:
            chosen = pa.array([True] * len(newest))
            for name in COLUMNS:
                mask = (pc.is_valid if name in key else pc.is_null)(newest[name])  # pyright: ignore[reportAttributeAccessIssue]
                chosen = pc.and_(chosen, mask)  # pyright: ignore[reportAttributeAccessIssue]
            kept[key] = in_order(grouped(newest.filter(chosen), key, "sum"), key)


class LiveKafka(Live):
    """The same orders as JSON records in a topic of two partitions, a second of them a batch."""

    def __init__(
        self, folder: Path, events: int, drivers: int, batches: int, spark: Any, servers: str
    ) -> None:
        self.folder, self.spark = folder, spark
        topic = f"orders-{events}"
        self._options = {
            "kafka.bootstrap.servers": servers, "subscribe": topic,
            "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(events),
        }  # fmt: skip
        values = chain.from_iterable(
            json_values(orders(events, drivers, second, START_US + second * 1_000_000, events))
            for second in range(batches)
        )
        sent = produce(values, topic, {"bootstrap.servers": servers})
        assert (sent.sent, sent.failed) == (events * batches, 0), sent

    def source_of_muntin(self) -> tuple[Any, dict[str, Any]]:
        source = {"format": "kafka", "options": self._options, "value": {"schema": SCHEMA}}
        return None, {**SPEC, "source": source}

    def rows(self) -> Any:
        records = self.spark.readStream.format("kafka").options(**self._options).load()
        parsed = records.selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS row")
        return parsed.select("row.*")


def measured(live: Live, events: int, repeats: int) -> list[Any]:
    """Times as long as ours, and events of a second; of the clock and of the processor."""
    ways = {"muntin": live.muntin, "spark": live.by_spark}
    sums: dict[str, Sums] = {name: {} for name in ways}
    for name, run in ways.items():
        run(Batches(), sums[name])
    for key, mine in sums["muntin"].items():
        assert mine.equals(sums["spark"][key]), f"the sums by {key} differ"
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, run in ways.items():
            batches = Batches()
            run(batches)
            seconds[name].append(batches.later())
    ours, theirs = ([list(each) for each in zip(*seconds[name], strict=True)] for name in ways)
    rates = [round(events / statistics.median(each)) for each in (*ours, *theirs)]
    return [*(ratios(*both) for both in zip(ours, theirs, strict=True)), *rates]


def measure(short: bool) -> Iterable[Table]:
    repeats, batches = (2, 6) if short else (3, 40)  # Java compiles in the first hundred
    table = Table(
        "backlog",
        f"Taxi orders of {DRIVERS:,} drivers in {batches} batches: Spark's groupBy takes as many "
        "times as long as Muntin",
        ["orders", "time", "processor time", "Muntin, events a second", "a second of processor",
         "Spark, events a second", "a second of its processor"],
        note="Above 1, Muntin is faster. Broker and both engines share the machine's cores; all "
        "sums were compared.",
    )  # fmt: skip
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # Spark may still write there
    with folder as place, Broker(Path(place) / "kafka") as broker:
        jars = ",".join(map(str, pinned_jars()))
        spark = session("live", {"spark.master": "local[*,4]", "spark.jars": jars, **SETTINGS})
        spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
        few = 20_000

        def add(shown: str, live: Live, events: int) -> None:
            shown = f"{shown}, {events:,} a batch"
            table.rows.append([shown, *measured(live, events, repeats)])

        for events in [few] if short else [100_000, few]:
            kafka = LiveKafka(Path(place), events, DRIVERS, batches, spark, broker.servers)
            add("JSON from Kafka", kafka, events)
        if not short:
            add("Parquet", Live(Path(place), few, DRIVERS, batches, spark), few)
        spark.stop()
    yield table


if __name__ == "__main__":
    main("live-stream", measure, ["pyspark", "numpy", "pyarrow", "numba"], __doc__)
