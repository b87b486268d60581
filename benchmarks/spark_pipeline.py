"""Taxi orders through real Spark: Muntin beside Spark's own GROUPING SETS, in turn.

python benchmarks/spark_pipeline.py [--orders 3000000] [--drivers 200000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from _timing import in_turn, report

import muntin
from muntin.demo.taxi import INDICATORS, KEYS, PIPELINE, orders
from muntin.ledger.temporary import temporary
from muntin.spark.session import session
from muntin.spark.source import batch_source
from muntin.spec import SourceSpec


def grouping_sets(table: str) -> str:
    sets = ", ".join(f"({', '.join(key) if isinstance(key, tuple) else key})" for key in KEYS)
    columns = ", ".join(
        dict.fromkeys(c for k in KEYS for c in (k if isinstance(k, tuple) else (k,)))
    )
    sums = ", ".join(f"sum({name}) AS {name}" for name in INDICATORS)
    return (
        f"SELECT {columns}, count(*) AS count, {sums} FROM {table} GROUP BY GROUPING SETS ({sets})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=3_000_000)
    parser.add_argument("--drivers", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    spark = session("benchmark", {"spark.master": "local[2,4]", "spark.driver.memory": "6g"})
    folder = Path(tempfile.mkdtemp())
    path = folder / "orders.parquet"
    batch = orders(asked.orders, asked.drivers, per_second=asked.orders / 9)
    pq.write_table(pa.Table.from_batches([batch]), path, row_group_size=250_000)
    csv = folder / "orders.csv"
    pacsv.write_csv(pa.Table.from_batches([batch.slice(0, asked.orders // 2)]), csv)
    spec = dict(PIPELINE, queries={}, rollups=[])
    parquet = spark.read.parquet(str(path))
    cached = spark.read.parquet(str(path)).cache()
    cached.count()
    parquet.createOrReplaceTempView("from_parquet")
    cached.createOrReplaceTempView("from_cache")

    def muntin_on(data: object, **more: object) -> None:
        muntin.summarize(data, spec | more, ledger=temporary(), progress=False)

    def spark_on(table: str) -> None:
        spark.sql(grouping_sets(table)).write.format("noop").mode("overwrite").save()

    print(f"{asked.orders:,} orders, {asked.drivers:,} drivers, one pane, local[2]")
    report(
        in_turn(
            {
                "Muntin, cached DataFrame": lambda: muntin_on(cached),
                "Spark GROUPING SETS, cached": lambda: spark_on("from_cache"),
                "Muntin, Parquet in the workers": lambda: muntin_on(str(path)),
                "Spark GROUPING SETS, Parquet": lambda: spark_on("from_parquet"),
            },
            asked.repeats,
        ),
        events=asked.orders,
    )
    ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in parquet.schema)
    source = SourceSpec(format="csv", path=str(csv), schema=ddl)
    batch_source(spark, source).createOrReplaceTempView("from_csv")
    by_spark = batch_source(spark, source)
    print()
    report(
        in_turn(
            {
                "Muntin, CSV in the workers": lambda: muntin_on(None, source=source),
                "Muntin, CSV read by Spark": lambda: muntin_on(by_spark),
                "Spark GROUPING SETS, CSV": lambda: spark_on("from_csv"),
            },
            asked.repeats,
        ),
        events=asked.orders // 2,
    )
    micro_batches(spark, folder)


def micro_batches(spark: object, folder: Path) -> None:
    """What a micro-batch of 1,000 orders costs, beside Spark's own empty foreachBatch."""
    events = folder / "events"
    events.mkdir()
    schema = spark.createDataFrame(pa.Table.from_batches([orders(1)])).schema
    files = 12

    def feed() -> None:
        for number in range(files):
            batch = orders(1000, 1000, seed=number, start_us=1_767_225_600_000_000 + number * 10**6)
            table = pa.Table.from_batches([batch])
            pq.write_table(table, events / f"part-{number:03d}.parquet")

    feed()
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(events))

    def empty() -> float:
        times: list[float] = []

        def take(df: object, batch_id: int) -> None:
            began = time.perf_counter()
            df.count()
            times.append(time.perf_counter() - began)

        query = (
            stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(folder / f"empty-{time.time_ns()}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(times)[len(times) // 2]

    def ours() -> float:
        times: list[float] = []
        url = f"sqlite:///{folder}/{time.time_ns()}.db"
        spec = dict(PIPELINE)

        def note(ingest: object) -> None:
            times.append(ingest.ledger.status("taxi")["batch_seconds"])

        running = muntin.stream(stream, spec, ledger=url, once=True, on_batch=note)
        running.await_termination()
        return sorted(times)[len(times) // 2]

    print("\na micro-batch of 1,000 orders, median seconds")
    print(f"  empty foreachBatch with one count()   {empty():.3f}")
    print(f"  Muntin: partials, commit, windows     {ours():.3f}")


if __name__ == "__main__":
    main()
