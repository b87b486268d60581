"""One engine's windowed sums of a Kafka topic: what benchmarks/peers/streams.py starts.

    python benchmarks/peers/_stream_engines.py ENGINE SERVERS TOPIC EVENTS WINDOW_US [WARM_TOPIC]

Records are JSON, `{"time": microseconds, "area": int, "fare": int}`, with the area as their key;
count and sum of fare by area and window. Records of the year 2096 come last, and only move
watermarks on. It ends once answers count EVENTS events, and prints them, with the time at which
each was as it stayed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

AT_ONCE = 100_000  # events of a micro-batch, where an engine has such
BACK, BACK_AGAIN = 24, 5  # windows that the first of them may reach over, and later ones
LAST_US = 4_000_000_000_000_000  # in 2096: what bears this time only moves watermarks on
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Answers:
    """The newest sums of each window and area, and since when they are so."""

    def __init__(self, events: int) -> None:
        self._events, self._seen = events, 0
        self._lock = threading.Lock()
        self._sums: dict[tuple[int, int], tuple[int, int, float]] = {}
        self.began = time.time()

    def add(self, window_us: int, area: int, count: int, fare: int) -> None:
        if window_us >= LAST_US:
            return
        with self._lock:  # some engines answer from several threads
            before = self._sums.get((window_us, area), (0, 0, 0.0))
            if before[:2] != (count, fare):
                self._sums[window_us, area] = count, fare, time.time()
                self._seen += count - before[0]

    @property
    def done(self) -> bool:
        return self._seen >= self._events

    def end(self) -> None:
        """Told in the child, since some engines cannot be stopped from within."""
        ended = max(at for *_, at in self._sums.values())
        sums = [[*where, *sums] for where, sums in sorted(self._sums.items())]
        told = {"began": self.began, "ended": ended, "sums": sums}
        print(json.dumps(told), flush=True)
        os._exit(0)


def micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def by_bytewax(servers: str, topic: str, window_us: int, answers: Answers) -> None:
    import bytewax.operators as op
    import bytewax.operators.windowing as windowing
    from bytewax.connectors.kafka import KafkaSource
    from bytewax.dataflow import Dataflow
    from bytewax.testing import cluster_main

    def parsed(message: Any) -> tuple[str, tuple[datetime, int]]:
        row = json.loads(message.value)
        return str(row["area"]), (EPOCH + timedelta(microseconds=row["time"]), row["fare"])

    def folded(state: list[int], row: tuple[datetime, int]) -> list[int]:
        state[0] += 1
        state[1] += row[1]
        return state

    def taken(_step: str, item: Any) -> None:
        area, (window, state) = item
        answers.add(window * window_us, int(area), *state)
        if answers.done:
            answers.end()

    flow = Dataflow("sums")
    source = KafkaSource([servers], [topic], tail=True, batch_size=10_000)
    keyed = op.map("parse", op.input("in", flow, source), parsed)
    # A clock that stands: else time goes on with the machine's, and what a slow one has not read by
    # then is late. A key's records are in order, so that they alone tell when its windows end.
    clock = windowing.EventClock(
        lambda row: row[0], timedelta(0), now_getter=lambda: EPOCH, to_system_utc=lambda _: None
    )
    windower = windowing.TumblingWindower(timedelta(microseconds=window_us), align_to=EPOCH)

    def joined(a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0], a[1] + b[1]]

    made = windowing.fold_window(
        "sums", keyed, clock, windower, lambda: [0, 0], folded, joined, ordered=False
    )
    op.inspect("out", made.down, taken)
    cluster_main(flow, [], 0, worker_count_per_proc=2)


def by_quixstreams(servers: str, topic: str, window_us: int, answers: Answers) -> None:
    from quixstreams import Application
    from quixstreams.dataframe.windows import Count, Sum

    app = Application(
        servers, consumer_group=f"sums-{os.getpid()}", auto_offset_reset="earliest",
        state_dir=tempfile.mkdtemp(), loglevel="WARNING",
    )  # fmt: skip
    source = app.topic(
        topic,
        key_deserializer="str",
        value_deserializer="json",
        timestamp_extractor=lambda value, *_: value["time"] // 1000,
    )

    def taken(value: Any, key: Any, *_: object) -> None:
        answers.add(value["start"] * 1000, int(key), value["count"], value["fare"])
        if answers.done:
            answers.end()

    windows = app.dataframe(source).tumbling_window(timedelta(microseconds=window_us))
    closed = windows.agg(count=Count(), fare=Sum("fare")).final(closing_strategy="key")
    closed.update(taken, metadata=True)
    app.run()


def by_pathway(servers: str, topic: str, window_us: int, answers: Answers) -> None:
    import pathway as pw

    schema = pw.schema_from_types(time=int, area=int, fare=int)
    settings = {
        "bootstrap.servers": servers, "group.id": f"sums-{os.getpid()}",
        "auto.offset.reset": "earliest",
    }  # fmt: skip
    rows = pw.io.kafka.read(
        settings, topic=topic, schema=schema, format="json", autocommit_duration_ms=100
    )
    rows = rows.filter(rows.time < LAST_US)
    windows = rows.windowby(
        rows.time,
        window=pw.temporal.tumbling(duration=window_us),
        instance=rows.area,
    )
    sums = windows.reduce(
        start=pw.this._pw_window_start,
        area=pw.this._pw_instance,
        count=pw.reducers.count(),
        fare=pw.reducers.sum(pw.this.fare),
    )

    def taken(key: Any, row: Any, time: int, is_addition: bool) -> None:
        if is_addition:
            answers.add(row["start"], row["area"], row["count"], row["fare"])
            if answers.done:
                answers.end()

    pw.io.subscribe(sums, on_change=taken)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


SCHEMA = "time long, area int, fare long"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def spark_session() -> Any:
    from muntin.spark.connector import pinned_jars
    from muntin.spark.session import session

    settings = {
        "spark.master": "local[2]", "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.jars": ",".join(map(str, pinned_jars())),
    }  # fmt: skip
    return session("streams", settings)


def kafka_options(servers: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": servers, "subscribe": topic,
        "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(AT_ONCE),
    }  # fmt: skip


def by_spark(servers: str, topic: str, window_us: int, answers: Answers) -> None:
    spark = spark_session()
    records = spark.readStream.format("kafka").options(**kafka_options(servers, topic)).load()
    parsed = records.selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS row")
    rows = parsed.selectExpr("row.area", "row.fare", "timestamp_micros(row.time) AS time")
    rows = rows.withWatermark("time", "10 seconds")
    rows = rows.selectExpr(f"window(time, '{window_us} microseconds').start AS start", "*")
    sums = rows.groupBy("start", "area").agg({"*": "count", "fare": "sum"})

    def taken(batch: Any, _: int) -> None:
        sums = batch.selectExpr("unix_micros(start)", "area", "`count(1)`", "`sum(fare)`")
        for row in sums.collect():
            answers.add(*row)

    followed(
        lambda: sums.writeStream.foreachBatch(taken).outputMode("update")
        .option("checkpointLocation", tempfile.mkdtemp()).start(),
        "awaitTermination", answers,
    )  # fmt: skip


def followed(start: Callable[[], Any], ends: str, answers: Answers) -> None:
    """A query that goes on until all is answered; its own error ends it, told by its method."""
    answers.began = time.time()
    query = start()
    while not answers.done:
        if getattr(query, ends)(0.05):
            raise RuntimeError("the query has ended before all was answered")
    query.stop()


def by_muntin(servers: str, topic: str, window_us: int, answers: Answers) -> None:
    import muntin
    from muntin.session import Session
    from muntin.times import duration_text

    spark_session()
    folder = tempfile.mkdtemp()
    value = {"format": "json", "schema": SCHEMA}
    pipeline = {
        "name": "sums", "time": {"column": "time", "unit": "us"},
        "pane": duration_text(window_us), "lateness": "10 seconds", "trigger": 0,
        "source": {"format": "kafka", "options": kafka_options(servers, topic), "value": value},
        "summaries": {"orders": {"keys": ["area"], "indicators": {"fare": "int64"}}},
    }  # fmt: skip
    asked = [0]  # the first window that a batch may still add to

    def taken(ingest: Any) -> None:
        session = Session(ingest.ledger)
        at = ingest.ledger.pipelines()[0].max_event_time
        if at is None:  # Spark's first batch, of a topic that has nothing
            return
        newest = at // window_us
        first = asked[0] or newest - BACK
        for window in range(first, newest + 1):
            start, end = (
                EPOCH + timedelta(microseconds=n * window_us) for n in (window, window + 1)
            )
            found = session.sql(
                f"SELECT area, count, fare FROM orders(area) FOR '{start}' TO '{end}'"
            )
            for area, count, fare in found.rows:
                answers.add(window * window_us, area, count, fare)
        asked[0] = newest - BACK_AGAIN

    followed(
        lambda: muntin.stream(
            None, pipeline, checkpoint=f"{folder}/checkpoint", ledger=f"sqlite:///{folder}/sums.db",
            on_batch=taken,
        ),
        "await_termination", answers,
    )  # fmt: skip


ENGINES = {
    "bytewax": by_bytewax,
    "quixstreams": by_quixstreams,
    "pathway": by_pathway,
    "spark": by_spark,
    "muntin": by_muntin,
}


IMPORTS = {
    "bytewax": ["bytewax.operators.windowing", "bytewax.connectors.kafka", "bytewax.testing"],
    "quixstreams": ["quixstreams.dataframe.windows"],
    "pathway": ["pathway"],
}


def main() -> None:
    engine, servers, topic, events, window_us, *warm = sys.argv[1:]
    run = ENGINES[engine]
    for module in IMPORTS.get(engine, ()):
        importlib.import_module(module)
    if warm:  # Java compiles what it runs often
        run(servers, warm[0], 10_000_000, Answers(int(warm[1])))
    print(json.dumps({"ready": time.time()}), flush=True)
    answers = Answers(int(events))
    run(servers, topic, int(window_us), answers)
    answers.end()


if __name__ == "__main__":
    main()
