"""Frequency summaries against Apache DataSketches, and Count-Min also against Spark.

    python benchmarks/frequency.py                 a few seconds
    python benchmarks/frequency.py --items 10000000 --spark

Items are strings of a Zipf distribution in Arrow batches. DataSketches' Python functions take one
item a call; the list of Python strings that they need is made beforehand and not timed. Equal
error: the same width and depth; SpaceSaving's capacity is what the other's table may hold.
"""

from __future__ import annotations

import argparse
from collections import Counter

import datasketches
import numpy as np
import pyarrow as pa
from _timing import in_turn, report

from muntin.summaries import CountMin, Distinct, SketchedMatrix, SpaceSaving, VectorMatrix

WIDTH, DEPTH, LG_ITEMS = 2048, 5, 12
CAPACITY = (3 << LG_ITEMS) // 4  # entries that DataSketches' table of 2**12 holds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--items", type=int, default=1_000_000)
    options.add_argument("--batch", type=int, default=65_536, help="rows of an Arrow batch")
    options.add_argument("--exponent", type=float, default=1.2, help="of the Zipf distribution")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--spark", action="store_true", help="compare with count_min_sketch")
    chosen = options.parse_args()
    rng = np.random.default_rng(1)
    ranks = np.minimum(rng.zipf(chosen.exponent, chosen.items), 10**6)
    names = pa.array([f"item-{i:07d}" for i in range(10**6 + 1)])
    whole = names.take(pa.array(ranks))
    batches = [whole.slice(at, chosen.batch) for at in range(0, len(whole), chosen.batch)]
    items = whole.to_pylist()

    def fed(make, columns=batches):
        def run():
            summary = make()
            for column in columns:
                summary.update(column)
            return summary

        return run

    def theirs(make):
        def run():
            update = (sketch := make()).update
            for item in items:
                update(item)
            return sketch

        return run

    coded = [batch.dictionary_encode() for batch in batches]
    print(f"\nCount-Min, {WIDTH} x {DEPTH}, {chosen.items:,} strings, Zipf {chosen.exponent}")
    runs = {
        "muntin": fed(lambda: CountMin(WIDTH, DEPTH)),
        "muntin, dictionaries": fed(lambda: CountMin(WIDTH, DEPTH), coded),
        "muntin, conservative": fed(lambda: CountMin(WIDTH, DEPTH, conservative=True)),
        "muntin, int32": fed(lambda: CountMin(WIDTH, DEPTH, cells="int32")),
        "muntin, track 100": fed(lambda: CountMin(WIDTH, DEPTH, track=100)),
        "datasketches": theirs(lambda: datasketches.count_min_sketch(DEPTH, WIDTH)),
    }
    report(in_turn(runs, chosen.repeats), events=len(items), unit="item")
    compare_estimates(runs, items)

    print(f"\nSpaceSaving, capacity {CAPACITY}")
    runs = {
        "muntin": fed(lambda: SpaceSaving(CAPACITY)),
        "datasketches": theirs(lambda: datasketches.frequent_strings_sketch(LG_ITEMS)),
    }
    report(in_turn(runs, chosen.repeats), events=len(items), unit="item")
    print(
        f"uncertainty of a count: muntin {runs['muntin']().offset}, datasketches "
        f"{runs['datasketches']().get_upper_bound('of no item')}"
    )
    panes = [fed(lambda: SpaceSaving(100), [batch])() for batch in batches] * 1440
    merged = in_turn({"1,440 panes of capacity 100": lambda: merge(panes[:1440])}, 3)
    report(merged, unit="merge and top(10)")

    print("\nDistinct, lg_k 12")
    runs = {
        "muntin": fed(Distinct),
        "datasketches": theirs(
            lambda: datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_8)
        ),
    }
    report(in_turn(runs, chosen.repeats), events=len(items), unit="item")

    print("\nsketched against exact matrix, one key and two indicators")
    tables = [
        pa.record_batch({"k": b, "x": np.arange(len(b)), "y": np.arange(len(b))}) for b in batches
    ]
    runs = {
        "SketchedMatrix 2048 x 4": fed(lambda: SketchedMatrix(["k"], ["x", "y"]), tables),
        "VectorMatrix": fed(lambda: VectorMatrix(["k"], ["x", "y"]), tables),
    }
    report(in_turn(runs, chosen.repeats), events=len(items), unit="event")
    for name, run in runs.items():
        print(f"{name}: {run().nbytes:,} bytes")
    if chosen.spark:
        compare_spark(whole, batches, chosen.repeats)


def merge(panes):
    total = SpaceSaving(100)
    for pane in panes:
        total.merge(pane)
    return total.top(10)


def compare_estimates(runs, items) -> None:
    truth = Counter(items)
    asked = list(truth)
    counts = np.array([truth[item] for item in asked])
    for name in ("muntin", "muntin, conservative"):
        value = runs[name]().estimate(asked).value
        print(f"mean error, {name}: {np.mean(value - counts):.1f}")
    other = runs["datasketches"]()
    value = np.array([other.get_estimate(item) for item in asked])
    print(f"mean error, datasketches: {np.mean(value - counts):.1f}")


def compare_spark(whole, batches, repeats) -> None:
    """Spark's aggregate over a cached column, against ours over the same rows in Arrow."""
    from pyspark.sql import SparkSession, functions

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.driver.memory", "4g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.createDataFrame(pa.table({"item": whole})).coalesce(1).cache()
    frame.count()
    error, confidence = 2 / WIDTH, 1 - 2.0**-DEPTH  # Spark: width 2 / error, depth -log2(1 - c)
    literals = [functions.lit(value) for value in (error, confidence, 1)]

    def theirs():
        return frame.agg(functions.count_min_sketch("item", *literals)).collect()

    def ours():
        sketch = CountMin(WIDTH, DEPTH)
        for batch in batches:
            sketch.update(batch)

    print("\nCount-Min, Spark on one core, rows cached in memory")
    seconds = in_turn({"muntin": ours, "Spark count_min_sketch": theirs}, repeats)
    report(seconds, events=len(whole), unit="item")
    spark.stop()


if __name__ == "__main__":
    main()
