"""Micro-batches of 1,000 rows: `format("muntin")` beside foreachBatch, in turn.

python benchmarks/spark_format.py [--short] [--keep] [--check]
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from _record import Table, main, ratios

import muntin
from muntin.demo.taxi import PIPELINE, SCHEMA, orders
from muntin.spark.session import session
from muntin.spec import Pipeline

ROWS, BATCHES = 1_000, 12


def measure(short: bool) -> Iterable[Table]:
    folder = Path(tempfile.mkdtemp())
    (folder / "orders").mkdir()
    whole = orders(ROWS * BATCHES, 1_000, per_second=ROWS / 2)
    for number in range(BATCHES):
        part = whole.slice(number * ROWS, ROWS)
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

    ways = {"foreachBatch": by_foreach, '`format("muntin")`': by_format}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(2 if short else 4):
        for number, (name, run) in enumerate(ways.items()):
            query = run(f"{folder}/{repeat}-{number}")
            for progress in query.recentProgress[2:] if repeat else ():  # the first starts Python
                taken[name].append(progress["durationMs"]["triggerExecution"])
    spark.stop()
    shutil.rmtree(folder)
    table = Table(
        "batches",
        f"A micro-batch of {ROWS:,} rows, by the two ways of writing a stream",
        ["way", "ms, median", "foreachBatch : this"],
    )
    for name, spent in taken.items():
        found = ratios(spent, taken["foreachBatch"]) if name != "foreachBatch" else 1.0
        table.rows.append([name, round(statistics.median(spent)), found])
    yield table


if __name__ == "__main__":
    main("spark-format", measure, ["pyspark", "numpy", "numba", "pyarrow"], __doc__)
