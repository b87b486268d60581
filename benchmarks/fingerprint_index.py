"""The fingerprint index beside Spark: build, quantiles, membership, false positives.

python benchmarks/fingerprint_index.py [--short] [--keep] [--check]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _record import Table, digits, main, timed
from _spark import Tree
from published.dynamic_bloom import RowOfFilters
from pyspark.sql import functions as F

from muntin.spark import FingerprintIndex
from muntin.spark.session import session
from muntin.summaries import DynamicBloom
from muntin.summaries.order_maps import IntegerRange

DECILES = [q / 10 for q in range(1, 11)]
FILE_ROWS = 1_000_000
FPP = 0.001


def measure(short: bool) -> Iterable[Table]:
    records, partitions = (1_000_000, 16) if short else (20_000_000, 64)
    yield filters()
    with tempfile.TemporaryDirectory(prefix="muntin-bench-") as place:
        folder = Path(place)
        write_records(folder, records)
        spark = session("benchmark")
        spark.range(1000).selectExpr("sum(id)").collect()
        yield builds(spark, folder, records, partitions)
        index = build(folder, partitions, spark)
        yield quantiles(spark, folder, index)
        yield membership(spark, folder, index, records)
        spark.stop()


def write_records(folder: Path, records: int) -> None:
    for start in range(0, records, FILE_ROWS):
        rows = min(FILE_ROWS, records - start)
        rng = np.random.default_rng(start)
        numbers = np.arange(start, start + rows, dtype=np.int64) * 2_654_435_761 % (1 << 40)
        table = pa.table(
            {
                "url": pa.array([f"https://example.org/{n:011x}" for n in numbers.tolist()]),
                "bytes": rng.lognormal(10, 2, rows).astype(np.int64) % (1 << 20),
            }
        )
        pq.write_table(table, folder / f"{start:012d}.parquet", row_group_size=250_000)


def build(data: Any, partitions: int, spark: Any = None) -> FingerprintIndex:
    return FingerprintIndex.build(
        str(data) if isinstance(data, Path) else data, "url", "bytes", partitions=partitions,
        fpp=FPP, domain=IntegerRange(20), spark=spark, progress=False,
    )  # fmt: skip


def builds(spark: Any, folder: Path, records: int, partitions: int) -> Table:
    df = spark.read.parquet(str(folder))
    index = build(folder, partitions, spark)
    # The published comparison: a Bernoulli sample of as many bytes, kept in the executors' memory.
    fraction = sum(file.size for file in index.manifest.files) / record_bytes(folder)

    def sampled() -> None:
        sample = df.sample(fraction, seed=1).persist()
        sample.count()
        sample.unpersist(blocking=True)

    def grouped() -> None:
        counted = df.groupBy("url").count()
        counted._jdf.stat().bloomFilter("url", records, FPP)

    runs: dict[str, Callable[[], object]] = {
        "the index, from Parquet": lambda: build(folder, partitions, spark),
        "the index, from a filtered DataFrame": lambda: build(df.where("bytes >= 0"), partitions),
        "`groupBy(key).count()` and a Bloom filter": grouped,
        "a Bloom filter alone": lambda: df._jdf.stat().bloomFilter("url", records, FPP),
        f"a sample of as many bytes ({100 * fraction:.1f} %), persisted": sampled,
    }
    return timed(
        "build",
        f"An index of {records:,} records in {partitions} partitions, built",
        runs,
        2,
        events=records,
        unit="ns a record",
        ours=2,
        clock=Tree().seconds,
        note="Processor time of all processes.",
    )


def record_bytes(folder: Path) -> int:
    """Of the key and the number of all records, in memory."""
    table = pq.read_table(sorted(folder.iterdir())[0])
    rows = sum(pq.read_metadata(file).num_rows for file in folder.iterdir())
    return rows * table.nbytes // table.num_rows


def quantiles(spark: Any, folder: Path, index: FingerprintIndex) -> Table:
    df = spark.read.parquet(str(folder)).select("bytes").cache()
    records = df.count()
    values = np.sort(pq.read_table(folder, columns=["bytes"])["bytes"].to_numpy())
    deciles = F.array(*[F.lit(q) for q in DECILES])
    stored = df.agg(F.kll_sketch_agg_bigint("bytes", F.lit(200)).alias("sketch")).cache()
    stored.count()
    texts = ", ".join(map(str, DECILES))
    asked = f"kll_sketch_get_quantile_bigint(sketch, array({texts}))"
    questions = np.quantile(values, np.linspace(0.001, 0.999, 999), method="inverted_cdf")
    truth = np.searchsorted(values, questions, side="right")
    answer = index.rank(questions)
    value, lower, upper = (np.asarray(answer[name]) for name in ("value", "lower", "upper"))
    assert ((lower <= truth) & (truth <= upper)).all()
    ours = np.abs(value - truth).max() / records
    widest = np.maximum(upper - value, value - lower).max() / records
    assert index.digest is not None
    size = len(index.digest.to_bytes())
    sample = np.sort(np.random.default_rng(1).choice(values, size // 8))
    guess = np.searchsorted(sample, questions, side="right") / len(sample)
    theirs = np.abs(guess - truth / records).max()
    table = timed(
        "quantiles",
        f"Ten deciles of {records:,} numbers in memory",
        {
            "the index, at the driver": lambda: index.quantile(DECILES),
            "a stored KLL sketch of Spark's": lambda: stored.selectExpr(asked).collect(),
            "`percentile_approx`": lambda: df.agg(
                F.percentile_approx("bytes", deciles, F.lit(10_000))
            ).collect(),
            "`percentile`, exact": lambda: df.agg(F.percentile("bytes", deciles)).collect(),
        },
        3,
        unit="ms",
        clock=time.perf_counter,
        note=f"Over 999 ranks the index is off by {100 * ours:.4f} % at most, where its bounds "
        f"allow {100 * widest:.4f} %; a sample of as many bytes ({size:,}) by "
        f"{100 * theirs:.4f} %.",
    )
    df.unpersist()
    return table


def membership(spark: Any, folder: Path, index: FingerprintIndex, records: int) -> Table:
    index.warm()
    df = spark.read.parquet(str(folder)).select("url").cache()
    df.count()
    bloom = df._jdf.stat().bloomFilter("url", records, FPP)
    there = pq.read_table(sorted(folder.iterdir())[0], columns=["url"])["url"].to_pylist()[:500]
    keys = there + [f"https://example.org/absent/{i}" for i in range(500)]
    asked = spark.createDataFrame([(key,) for key in keys], "url string").cache()
    asked.count()
    assert np.asarray(index.contains(keys)["present"])[:500].all()
    strangers = [f"absent/{i}" for i in range(300_000)]
    wrong = np.asarray(index.contains(strangers)["present"]).mean()
    table = timed(
        "membership",
        f"1,000 keys, half of them there, of {records:,}",
        {
            "the index, at the driver": lambda: index.contains(keys, via="driver"),
            "one key": lambda: index.contains(keys[0], via="driver"),
            "the index, as one job": lambda: index.contains(keys, via="job"),
            "Spark's own Bloom filter, key by key": lambda: [
                bloom.mightContainString(key) for key in keys
            ],
            "`isin` over the cached table": lambda: df.where(F.col("url").isin(keys)).count(),
            "a semi-join": lambda: asked.join(df, "url", "left_semi").count(),
        },
        3,
        unit="ms",
        ours=3,
        clock=time.perf_counter,
        note=f"{index.bits_per_key:.2f} bits a key; false positives {100 * wrong:.4f} % of "
        f"{len(strangers):,}, {100 * index.false_positive_rate():.4f} % reported, "
        f"{100 * FPP:.1f} % asked.",
    )
    df.unpersist()
    return table


def filters(planned: int = 100_000) -> Table:
    table = Table(
        "filters",
        f"Filters planned for {planned:,} keys at 1 %, and what more keys make of them",
        ["filter, keys", "rate measured, %", "reported, %", "bits a key", "binary fuse : this"],
        note="Binary fuse: 1.125 log2(1 / rate) bits, built once of all keys.",
    )
    asked = np.random.default_rng(5).integers(0, 2**64 - 1, 2_000_000, dtype=np.uint64)
    kinds = {
        "DynamicBloom": DynamicBloom(planned, 0.01),
        "split blocks": RowOfFilters(planned, 0.01, "split"),
        "as published": RowOfFilters(planned, 0.01, "paper"),
    }
    for name, seen in kinds.items():
        for times in (1, 10, 50):
            seen.update(np.arange(seen.count, times * planned))
            rate, bits = seen.false_positive_rate(), seen.bits_per_key
            found = seen.contains_hashes(asked).mean()
            table.rows.append([
                f"{name}, {times}x", *(digits(100 * one) for one in (found, rate)),
                round(bits, 1), round(1.125 * np.log2(1 / rate) / bits, 2),
            ])  # fmt: skip
    return table


if __name__ == "__main__":
    main("fingerprint-index", measure, ["pyspark", "numpy", "numba", "pyarrow"], __doc__)
