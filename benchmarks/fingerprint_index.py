"""The fingerprint index beside Spark: quantiles, membership, build, false positives, routing.

Runs are taken in turn on the same machine; ratios are what to read. Run with
`python benchmarks/fingerprint_index.py [--records N] [--partitions N] [--full] [--only PART ...]`.
A quick run takes a minute or two; `--full` is 20 million records (some ten minutes; a few each with
`--only`). `--only large` asks 100 million records. `--keep FOLDER` writes the records there once.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _timing import in_turn, report
from published.bloom_filters import bits_per_key
from published.dynamic_bloom import RowOfFilters
from pyspark.sql import functions as F

from muntin.spark import FingerprintIndex
from muntin.spark.index.files import write_partition
from muntin.spark.index.manifest import Manifest
from muntin.spark.session import session
from muntin.summaries import DyadicQDigest, DynamicBloom
from muntin.summaries.dyadic_qdigest import _spans
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.items import hash_items
from muntin.summaries.kernels.placement import place
from muntin.summaries.order_maps import IntegerRange

PARTS = ("quantiles", "membership", "build", "grouped", "filters", "routing", "large")
DECILES = [q / 10 for q in range(1, 11)]
FILE_ROWS = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--fpp", type=float, default=0.001)
    parser.add_argument("--full", action="store_true", help="20 million records, 64 partitions")
    parser.add_argument("--keep", type=Path, help="folder for the records, used again")
    parser.add_argument("--large-records", type=int, default=100_000_000, help="for --only large")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS[:-1]))
    arguments = parser.parse_args()
    if arguments.full:
        arguments.records, arguments.partitions = 20_000_000, 64
    if "filters" in arguments.only:
        filters()
    if "routing" in arguments.only:
        routing()
    if "large" in arguments.only:
        large(arguments.large_records, 64, arguments.fpp)
    if not {"quantiles", "membership", "build", "grouped"} & set(arguments.only):
        return
    if arguments.keep:
        with_spark(arguments.keep / f"{arguments.records}", arguments)
        return
    folder = Path(tempfile.mkdtemp(prefix="muntin-bench-"))
    try:
        with_spark(folder, arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def with_spark(folder: Path, arguments: argparse.Namespace) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        write_records(folder, arguments.records)
    spark = session("benchmark")
    spark.range(1000).selectExpr("sum(id)").collect()
    print(f"\n{arguments.records:,} records, {arguments.partitions} partitions")
    took, index = timed(lambda: build(folder, arguments, spark))
    print(f"first build, workers started and kernels compiled: {took:.1f} s")
    if "build" in arguments.only:
        builds(spark, folder, index, arguments)
    if "grouped" in arguments.only:
        grouping(spark, folder, arguments)
    if "quantiles" in arguments.only:
        quantiles(spark, folder, index)
    if "membership" in arguments.only:
        membership(spark, folder, index, arguments)


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


def build(folder: Path, arguments: argparse.Namespace, spark) -> FingerprintIndex:
    return FingerprintIndex.build(
        str(folder),
        "url",
        "bytes",
        partitions=arguments.partitions,
        fpp=arguments.fpp,
        domain=IntegerRange(20),
        spark=spark,
        progress=False,
    )


def builds(spark, folder: Path, index: FingerprintIndex, arguments: argparse.Namespace) -> None:
    print("\n-- build, from Parquet")
    df = spark.read.parquet(str(folder))
    # The published comparison: a Bernoulli sample of as many bytes, kept in the executors' memory.
    fraction = sum(file.size for file in index.manifest.files) / record_bytes(folder)

    def sampled() -> None:
        sample = df.sample(fraction, seed=1).persist()
        sample.count()
        sample.unpersist(blocking=True)

    options = {"partitions": arguments.partitions, "fpp": arguments.fpp, "progress": False}
    seconds = in_turn(
        {
            "index from Parquet": lambda: build(folder, arguments, spark),
            "the same, rank of any 62 bits": lambda: FingerprintIndex.build(
                str(folder), "url", "bytes", spark=spark, **options
            ),
            f"sample of as many bytes ({fraction:.1%}), persisted": sampled,
            "sample of 1 %, to the driver": lambda: df.sample(0.01, seed=1).toArrow(),
        },
        repeats=5,
        warm=2,
    )
    report(seconds, events=arguments.records, unit="record")


def grouping(spark, folder: Path, arguments: argparse.Namespace) -> None:
    print("\n-- build, from Parquet, against what Spark has")
    df = spark.read.parquet(str(folder))

    def grouped() -> None:
        counted = df.groupBy("url").count()
        counted._jdf.stat().bloomFilter("url", arguments.records, arguments.fpp)

    def framed() -> None:
        FingerprintIndex.build(
            df.where("bytes >= 0"),  # no plain scan: rows come through the JVM
            "url",
            "bytes",
            partitions=arguments.partitions,
            fpp=arguments.fpp,
            domain=IntegerRange(20),
            progress=False,
        )

    runs: dict[str, Callable[[], object]] = {
        "index from Parquet": lambda: build(folder, arguments, spark),
        "index from a filtered DataFrame": framed,
        "groupBy(key).count + Bloom filter": grouped,
    }
    report(in_turn(runs, repeats=2, warm=0), events=arguments.records, unit="record")


def record_bytes(folder: Path) -> int:
    """Of the key and the number of all records, in memory."""
    table = pq.read_table(sorted(folder.iterdir())[0])
    rows = sum(pq.read_metadata(file).num_rows for file in folder.iterdir())
    return rows * table.nbytes // table.num_rows


def quantiles(spark, folder: Path, index: FingerprintIndex) -> None:
    print("\n-- ten deciles of a number in memory")
    df = spark.read.parquet(str(folder)).select("bytes").cache()
    records = df.count()
    values = np.sort(pq.read_table(folder, columns=["bytes"])["bytes"].to_numpy())
    deciles = F.array(*[F.lit(q) for q in DECILES])
    stored = df.agg(F.kll_sketch_agg_bigint("bytes", F.lit(200)).alias("sketch")).cache()
    stored.count()
    texts = ", ".join(map(str, DECILES))
    runs: dict[str, Callable[[], object]] = {
        "index, at the driver": lambda: index.quantile(DECILES),
        "stored KLL sketch, a query": lambda: stored.selectExpr(
            f"kll_sketch_get_quantile_bigint(sketch, array({texts}))"
        ).collect(),
        "percentile_approx": lambda: df.agg(
            F.percentile_approx("bytes", deciles, F.lit(10_000))
        ).collect(),
    }
    seconds = in_turn(runs, repeats=3, warm=1)
    exact, _ = timed(lambda: df.agg(F.percentile("bytes", deciles)).collect())  # minutes: once
    report({**seconds, "percentile, exact": [exact]}, unit="query of ten")
    questions = np.quantile(values, np.linspace(0.001, 0.999, 999), method="inverted_cdf")
    truth = np.searchsorted(values, questions, side="right")
    answer = index.rank(questions)
    ours = np.abs(np.asarray(answer["value"]) - truth).max() / records
    widest = (np.asarray(answer["upper"]) - np.asarray(answer["lower"])).max() / records / 2
    assert index.digest is not None
    size = len(index.digest.to_bytes())
    sample = np.random.default_rng(1).choice(values, size // 8)
    guess = np.searchsorted(np.sort(sample), questions, side="right") / len(sample)
    theirs = np.abs(guess - truth / records).max()
    print(
        f"rank error over 999 ranks: {ours:.4%} measured, {widest:.4%} guaranteed for these, "
        f"{index.digest.error_bound / 2 / records:.3%} for any; {size:,} bytes\n"
        f"sample of as many bytes ({size // 8:,} values): {theirs:.3%}, {theirs / ours:.0f}x worse"
    )
    df.unpersist()


def membership(spark, folder: Path, index: FingerprintIndex, arguments) -> None:
    print("\n-- membership of 1,000 keys, half of them there")
    took, _ = timed(index.warm)
    print(
        f"files mapped and checked in {took * 1e3:.0f} ms, once; {index.bits_per_key:.2f} bits "
        f"a key, rate {index.false_positive_rate():.4%} (asked {arguments.fpp:.2%})"
    )
    bloom = None

    def made() -> None:
        nonlocal bloom
        frame = spark.read.parquet(str(folder))
        bloom = frame._jdf.stat().bloomFilter("url", arguments.records, arguments.fpp)

    took, _ = timed(made)
    print(f"Spark's own Bloom filter through the JVM: made in {took:.1f} s")
    there = pq.read_table(sorted(folder.iterdir())[0], columns=["url"])["url"].to_pylist()[:500]
    keys = there + [f"https://example.org/absent/{i}" for i in range(500)]
    df = spark.read.parquet(str(folder)).select("url").cache()
    df.count()
    asked = spark.createDataFrame([(key,) for key in keys], "url string").cache()
    asked.count()
    report(
        in_turn(
            {
                "index, at the driver": lambda: index.contains(keys, via="driver"),
                "index, at the driver, one key": lambda: index.contains(keys[0], via="driver"),
                "index, one job": lambda: index.contains(keys, via="job"),
                "index, one job, one key": lambda: index.contains(keys[0], via="job"),
                "Spark's Bloom filter, key by key": lambda: [
                    bloom.mightContainString(key) for key in keys
                ],
                "Spark, isin over the cached table": lambda: df.where(
                    F.col("url").isin(keys)
                ).count(),
                "Spark, semi-join": lambda: asked.join(df, "url", "left_semi").count(),
            },
            repeats=5,
            warm=2,
        ),
        unit="question",
    )
    present = np.asarray(index.contains(keys)["present"])
    assert present[:500].all()
    df.unpersist()
    strangers = [f"absent/{i}" for i in range(300_000)]
    wrong = np.asarray(index.contains(strangers)["present"]).mean()
    print(f"false positives: {wrong:.4%} measured of {len(strangers):,}")


def large(records: int, partitions: int, fpp: float) -> None:
    """Membership against many records: the files that a build writes, made in this process."""
    print(f"-- membership of 1,000 keys against {records:,} records, {partitions} partitions")
    folder = Path(tempfile.mkdtemp(prefix="muntin-bench-"))
    try:
        made, _ = timed(lambda: write_index(folder, records, partitions, fpp))
        spark = session("benchmark")
        index = FingerprintIndex.load(spark, folder)
        size = sum(file.size for file in index.manifest.files)
        print(
            f"files made in {made:.0f} s by one thread, {size / 2**20:.0f} MiB, "
            f"{index.bits_per_key:.2f} bits a key, rate {index.false_positive_rate():.4%}"
        )
        rng = np.random.default_rng(1)
        keys = np.concatenate([rng.integers(0, records, 500), -rng.integers(1, 2**60, 500)])
        cold, _ = timed(lambda: index.contains(keys, via="driver"))
        print(f"first batch, files mapped and checked: {cold:.2f} s")
        report(
            in_turn(
                {
                    "at the driver": lambda: index.contains(keys, via="driver"),
                    "at the driver, one key": lambda: index.contains(int(keys[0]), via="driver"),
                    "one job": lambda: index.contains(keys, via="job"),
                    "one job, one key": lambda: index.contains(int(keys[0]), via="job"),
                    "Spark, isin over a cached column": _isin(spark, records, keys),
                },
                repeats=7,
                warm=2,
            ),
            unit="question",
        )
        assert np.asarray(index.contains(keys)["present"])[:500].all()
        strangers = -rng.integers(1, 2**60, 1_000_000)
        wrong = np.asarray(index.contains(strangers)["present"]).mean()
        print(f"false positives: {wrong:.4%} measured of {len(strangers):,}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _isin(spark, records: int, keys: np.ndarray) -> Callable[[], object]:
    df = spark.range(records // 10).cache()  # a tenth, which fits into the memory of a laptop
    df.count()
    print(f"(Spark scans {records // 10:,} records: multiply by ten)")
    asked = [int(key) for key in keys]
    return lambda: df.where(F.col("id").isin(asked)).count()


def write_index(folder: Path, records: int, partitions: int, fpp: float) -> None:
    hashes = hash_items(np.arange(records))
    placed = np.empty_like(hashes)
    starts = np.zeros(partitions + 1, np.int64)
    place(hashes, partitions, starts, placed)
    del hashes
    files = []
    for partition in range(partitions):
        mine = np.sort(placed[starts[partition] : starts[partition + 1]])
        summary = Fingerprint(len(mine), fpp, headroom=2)
        summary.update_hashes(mine, "integers")
        files.append(write_partition(str(folder), partition, summary))
    manifest = Manifest("id", None, "integers", partitions, fpp, 0.001, 0)
    manifest.with_files(tuple(files), records=records).write(folder)


def filters(planned: int = 100_000) -> None:
    print(f"-- filters planned for {planned:,} keys: rates measured and reported, bits a key")
    print(
        f"{'layout':8} {'fpp':>6} {'keys':>5}  {'measured':>9} {'reported':>9}  {'bits':>6}"
        f"  {'fuse*':>6} {'ratio':>5}  {'add':>7} {'ask':>7}"
    )
    asked = np.random.default_rng(5).integers(0, 2**64 - 1, 2_000_000, dtype=np.uint64)
    for layout in ("compact", "split", "paper"):
        for fpp in (0.01, 0.001):
            seen = (
                DynamicBloom(planned, fpp)
                if layout == "compact"
                else RowOfFilters(planned, fpp, layout)
            )
            seen.contains_hashes(asked[:10])
            for times in (1, 10, 50):
                keys = np.arange(seen.count, times * planned)
                add, _ = timed(lambda seen=seen, keys=keys: (seen.update(keys), seen.keys))
                ask, found = timed(lambda seen=seen: seen.contains_hashes(asked))
                rate = seen.false_positive_rate()
                best = 1.125 * np.log2(1 / rate)
                print(
                    f"{layout:8} {fpp:>6} {times:>4}x  {found.mean():>9.4%} {rate:>9.4%}"
                    f"  {seen.bits_per_key:>6.2f}  {best:>6.2f} {seen.bits_per_key / best:>5.2f}"
                    f"  {add / len(keys) * 1e9:>4.0f} ns {ask / len(asked) * 1e9:>4.0f} ns"
                )
    print(
        "* bits of a binary fuse filter of the reported rate, 1.125 log2(1 / rate)\n"
        f"one split-block filter that knows its keys: {bits_per_key(0.01):.2f} bits for 1 %"
    )


def routing(sites: int = 16, records: int = 400_000) -> None:
    """Sites asked a key: the paper's routing by digests over hashed keys, and by hash range."""
    print(f"\n-- sites asked a key, {sites} sites, scattered keys")
    rng = np.random.default_rng(7)
    cells = rng.integers(0, 1 << 20, records)
    asked = rng.choice(cells, 1000)

    def by_digest(site_of: np.ndarray) -> float:
        hits = np.zeros(len(asked))
        for site in range(sites):
            digest = DyadicQDigest(20, 1000)
            digest.update(cells[site_of == site])
            digest.compress()
            begins, ends = _spans(digest._ids, digest.bits)
            until = np.searchsorted(np.sort(begins), asked.astype(np.uint64), side="right")
            before = np.searchsorted(np.sort(ends), asked.astype(np.uint64), side="left")
            hits += until > before  # some node of the site's digest spans the cell
        return float(hits.mean())

    print(f"paper, records where they are: {by_digest(rng.integers(0, sites, records)):.2f}")
    print(f"paper, placed by range:        {by_digest(cells * sites >> 20):.2f}")
    print("hash range and zone map:       at most 1")


def timed(run: Callable[[], object]) -> tuple[float, object]:
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


if __name__ == "__main__":
    main()
