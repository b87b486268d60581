"""Micro-batches of 1,000 rows: `format("muntin")` beside foreachBatch, in turn.

python benchmarks/spark_format.py [--rows 1000] [--batches 12] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import muntin
from muntin.demo.taxi import PIPELINE, SCHEMA, orders
from muntin.spark.session import session
from muntin.spec import Pipeline


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    (folder / "orders").mkdir()
    whole = orders(asked.rows * asked.batches, 1_000, per_second=asked.rows / 2)
    for number in range(asked.batches):
        part = whole.slice(number * asked.rows, asked.rows)
        pq.write_table(pa.Table.from_batches([part]), folder / "orders" / f"{number:04}.parquet")
    spark = session("benchmark", {"spark.master": "local[2,4]", "spark.driver.memory": "2g"})
    muntin.register(spark)
    spec = Pipeline.of(PIPELINE)

    def arriving():
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(folder / "orders"))

    def by_foreach(place: str):
        stream = muntin.stream(
            arriving(), spec, ledger=f"sqlite:///{place}.db", checkpoint=place, once=True
        )
        stream.await_termination()
        return stream.query

    def by_format(place: str):
        query = (
            arriving().writeStream.format("muntin")
            .options(spec=json.dumps(spec.as_json()), ledger=f"sqlite:///{place}.db")
            .option("checkpointLocation", place).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return query

    ways = {"foreachBatch": by_foreach, 'format("muntin")': by_format}
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in ways}
    for repeat in range(asked.repeats + 1):
        for number, (name, run) in enumerate(ways.items()):
            query = run(f"{folder}/{repeat}-{number}")
            for progress in query.recentProgress[2:] if repeat else ():  # the first starts Python
                for step in ("addBatch", "triggerExecution"):
                    taken[name].setdefault(step, []).append(progress["durationMs"][step])
    spark.stop()
    print(f"{asked.rows:,} rows a batch, ms: median (quarter to three quarters)")
    for step in ("addBatch", "triggerExecution"):
        first = statistics.median(taken["foreachBatch"][step])
        for name, steps in taken.items():
            low, middle, high = statistics.quantiles(steps[step], n=4)
            print(f"{step:16}  {name:16}  {middle:6.0f} ({low:.0f} to {high:.0f})"
                  f"  {middle / first:.2f}x")  # fmt: skip


if __name__ == "__main__":
    main()
