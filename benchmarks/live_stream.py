"""A live stream: six keys x seven indicators in panes of 10 seconds, a second of events a batch.

    python benchmarks/live_stream.py [--events 20000 100000] [--batches 12] [--kafka]

Taxi orders in Parquet files, one a batch, as fast as they are taken: Muntin into a SQLite ledger,
and Spark's own `groupBy(window, ...)` of the same groups, its state in RocksDB with a log of
changes, its output thrown away. With --kafka they are JSON records of one
topic of a broker on this machine, which Spark parses by `from_json`. Of the later half of the
batches: what one takes, events a second of the clock and of the processor (this process, Java,
Python workers; with --kafka the broker, too).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from spark_streams import Tree

import muntin
from muntin.demo.broker import Broker
from muntin.demo.producing import json_values, produce
from muntin.demo.taxi import INDICATORS, KEYS, SCHEMA, orders
from muntin.spark.connector import pinned_jars
from muntin.spark.session import session

START_US = 1_767_225_600_000_000
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
        self.ends: list[tuple[float, float]] = []

    def ended(self, *_: object) -> None:
        self.ends.append((time.perf_counter(), self._tree.seconds()))

    def later(self) -> tuple[list[float], list[float]]:
        """Seconds of each batch of the later half: of the clock, and of the processor."""
        pairs = list(zip(self.ends, self.ends[1:], strict=False))[len(self.ends) // 2 :]
        return [b[0] - a[0] for a, b in pairs], [b[1] - a[1] for a, b in pairs]


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

    def rows(self) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.source))

    def muntin(self, batches: Batches) -> None:
        made = self.folder / "muntin"
        made.mkdir()
        rows, spec = self.source_of_muntin()
        running = muntin.stream(
            rows, spec, checkpoint=str(made / "checkpoint"),
            ledger=str(made / "live.db"), once=True, on_batch=batches.ended,
        )  # fmt: skip
        running.await_termination()
        shutil.rmtree(made)

    def by_spark(self, batches: Batches) -> None:
        sets = ", ".join(
            f"(pane, {', '.join(key) if isinstance(key, tuple) else key})" for key in KEYS
        )
        names = ", ".join(dict.fromkeys(
            name for key in KEYS for name in (key if isinstance(key, tuple) else (key,))
        ))  # fmt: skip
        sums = ", ".join(f"sum({name}) AS {name}" for name in INDICATORS)
        rows = self.rows().withWatermark("time", "10 seconds")
        rows = rows.selectExpr("window(time, '10 seconds') AS pane", "*")
        rows.createOrReplaceTempView("live")
        grouped = self.spark.sql(
            f"SELECT pane, {names}, count(*) AS count, {sums} FROM live "
            f"GROUP BY GROUPING SETS ({sets})"
        )

        def taken(batch: Any, _: int) -> None:
            batch.write.format("noop").mode("overwrite").save()
            batches.ended()

        made = self.folder / "spark"
        query = (
            grouped.writeStream.foreachBatch(taken)
            .outputMode("update")
            .option("checkpointLocation", str(made))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        shutil.rmtree(made)


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


def measured(run: Callable[[Batches], None], name: str, events: int) -> tuple[float, float]:
    """Prints what a batch takes; events a second of the clock, and of the processor."""
    batches = Batches()
    run(batches)
    wall, used = batches.later()
    rates = events / statistics.median(wall), events / statistics.median(used)
    print(
        f"  {name:8} batch {min(wall):6.2f} {statistics.median(wall):6.2f} s, processor "
        f"{min(used):6.2f} {statistics.median(used):6.2f} s (best, median); events a second "
        f"{rates[0]:9,.0f}, of the processor {rates[1]:9,.0f}",
        flush=True,
    )
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--drivers", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--kafka", action="store_true")
    options = parser.parse_args()
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory())
        settings = {"spark.master": "local[*,4]", **SETTINGS}
        broker = None
        if options.kafka:
            broker = held.enter_context(Broker(Path(folder) / "kafka"))
            settings["spark.jars"] = ",".join(map(str, pinned_jars()))
        spark = session("live", settings)
        spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
        for events in options.events:
            given = (Path(folder), events, options.drivers, options.batches, spark)
            live = LiveKafka(*given, broker.servers) if broker else Live(*given)
            print(f"{events:,} events a batch, {options.drivers:,} drivers")
            mine = measured(live.muntin, "muntin", events)
            theirs = measured(live.by_spark, "spark", events)
            print(
                f"  Muntin takes {mine[0] / theirs[0]:.1f} times as many events a second, "
                f"{mine[1] / theirs[1]:.1f} times of the processor"
            )
        spark.stop()


if __name__ == "__main__":
    main()
