"""The published experiments on fingerprint queries, and how cost grows: figures and numbers.

Fig. 2 (query time against Spark's exact percentile) is in `benchmarks/fingerprint_index.py`. Here:
Fig. 3a-c (construction, query time, accuracy against a sample of the same bytes, 100 random rank
queries), Eq. 1 and 2 against measurement, routing before and after placing by range, and cost over
records and partitions with what follows from the slopes for 1.4 billion records.

`python benchmarks/characterize/fingerprint.py [--records N] [--out FOLDER]
[--keep]`
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import Table, digits, keep
from published.dynamic_bloom import RowOfFilters

from muntin.spark.index.build import CAPACITY_MIN, HEADROOM
from muntin.spark.index.files import forget, write_partition
from muntin.spark.index.manifest import Manifest, PartitionFile
from muntin.spark.index.reader import IndexReader
from muntin.spark.index.runs import CHUNK_KEYS, RunReader, RunWriter
from muntin.summaries import DyadicQDigest
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.items import hash_items

PAPER_RECORDS = 1_400_000_000
SIZES = [1_000_000, 3_000_000, 10_000_000, 30_000_000]
BITS = 20
DIGEST_K = 20_000  # what an index of 20 bits and an error of 0.1 % takes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000, help="the largest size")
    parser.add_argument("--out", type=Path, help="folder for figures (needs matplotlib)")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/")
    arguments = parser.parse_args()
    accuracy = against_a_sample(min(arguments.records, 10_000_000))
    equations()
    routing()
    with TemporaryDirectory(prefix="muntin-characterize-") as scratch:
        folder = Path(scratch)
        with contextlib.redirect_stdout(None):
            cost_of(100_000, 2, folder)  # kernels compiled
        growth = over_records(arguments.records, folder)
        split = over_partitions(min(arguments.records, 10_000_000), folder)
    on_paper(growth)
    if arguments.out:
        plot(accuracy, growth, split, arguments.out)
    if arguments.keep:
        keep("fingerprint-growth", [grown(growth), sampled(accuracy)], ["numpy", "numba"])


def grown(growth: list[Cost]) -> Table:
    table = Table(
        "growth",
        f"An index in {growth[0].partitions} partitions, without Spark: processor time",
        ["records", "hash, ns a record", "place", "filters", "digest", "bits a key",
         "1,000 keys, ms", "a rank, µs"],
    )  # fmt: skip
    for one in growth:
        built = (one.hashing, one.placing, one.filters, one.digest)
        nanoseconds = (digits(1e9 * part / one.records) for part in built)
        row = [one.records, *nanoseconds, digits(8 * one.file_bytes / one.records)]
        table.rows.append([*row, digits(1e3 * one.batch), digits(1e6 * one.rank)])
    return table


def sampled(accuracy: list[tuple[int, float, float]]) -> Table:
    return Table(
        "sample",
        "The largest error of 100 random ranks, in percent of all values",
        ["bytes", "digest", "a sample of as many bytes", "times as much"],
        [[size, digits(100 * ours), digits(100 * theirs), round(theirs / ours)]
         for size, ours, theirs in accuracy],
    )  # fmt: skip


def values_of(records: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(10, 2, records).astype(np.int64) % (1 << BITS)


def against_a_sample(records: int) -> list[tuple[int, float, float]]:
    print(f"-- Fig. 3: digest and sample of the same bytes, {records:,} values, 100 random ranks")
    print(
        f"{'k':>6} {'bytes':>9}  {'build':>9} {'sample':>9}  {'query':>9} {'scan':>9}"
        f"  {'error':>8} {'bound':>8} {'sample':>8} {'worse':>6}"
    )
    values = values_of(records)
    ordered = np.sort(values)
    rng = np.random.default_rng(2)
    questions = rng.choice(values, 100)
    truth = np.searchsorted(ordered, questions, side="right")
    rows = []
    for k in (1_000, 5_000, 10_000, 20_000):
        build, digest = timed(lambda k=k: made_digest(values, k))
        size = len(digest.to_bytes())
        sampling, sample = timed(lambda size=size: values[rng.random(records) < size / 8 / records])
        digest.rank(questions)
        query, answer = timed(lambda digest=digest: digest.rank(questions))
        # The sample is spread over the workers in the paper: a query scans all of it.
        scan, guess = timed(
            lambda sample=sample: [(sample <= question).mean() for question in questions]
        )
        error = np.abs(answer.value - truth).max() / records
        sampled = np.abs(np.array(guess) - truth / records).max()
        rows.append((size, error, sampled))
        print(
            f"{k:>6} {size:>9,}  {build:>8.2f}s {sampling:>8.2f}s  {query * 1e6:>6.0f} us"
            f" {scan * 1e6:>6.0f} us  {error:>8.4%} {digest.error_bound / 2 / records:>8.3%}"
            f" {sampled:>8.3%} {sampled / error:>5.0f}x"
        )
    return rows


def made_digest(values: np.ndarray, k: int) -> DyadicQDigest:
    digest = DyadicQDigest(BITS, k)
    for part in np.array_split(values, max(1, len(values) // 500_000)):
        digest.update(part)
    digest.compress()
    return digest


def equations(planned: int = 1_000) -> None:
    print("\n-- Eq. 1 and 2: false positives of the published filter, formula and measurement")
    asked = np.random.default_rng(3).integers(0, 2**64 - 1, 200_000, dtype=np.uint64)
    seen = RowOfFilters(planned, 0.01)
    for keys in (500, 1_000, 1_500, 5_000, 20_000, 50_000):
        seen.update(np.arange(seen.count, keys))
        print(
            f"{keys:>6,} keys, {seen.filters:>2} filters: {seen.false_positive_rate():>8.3%}"
            f" computed, {seen.contains_hashes(asked).mean():>8.3%} measured"
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
            begins, ends = digest._indexed()[0][:2]
            until = np.searchsorted(begins, asked, side="right")
            before = np.searchsorted(ends, asked, side="left")
            hits += until > before  # some node of the site's digest spans the cell
        return float(hits.mean())

    print(f"paper, records where they are: {by_digest(rng.integers(0, sites, records)):.2f}")
    print(f"paper, placed by range:        {by_digest(cells * sites >> 20):.2f}")
    print("hash range and zone map:       at most 1")


@dataclass(frozen=True)
class Cost:
    """An index of so many records: seconds of one thread, bytes, and seconds of a question."""

    records: int
    partitions: int
    hashing: float
    placing: float
    filters: float
    digest: float
    file_bytes: int
    largest_file: int
    batch: float
    rank: float

    @property
    def build(self) -> float:
        return self.hashing + self.placing + self.filters + self.digest


HEADER = (
    f"{'records':>12} {'parts':>6}  {'hash':>7} {'place':>7} {'filters':>7} {'digest':>7}  "
    f"{'bits':>6} {'largest':>9}  {'1,000 keys':>10} {'rank':>7}"
)


def cost_of(records: int, partitions: int, folder: Path) -> Cost:
    """Build as the workers do, one thread, and ask the files as the driver does; prints a row."""
    keys = np.arange(records)
    hashing, hashes = timed(lambda: hash_items(keys))
    runs = folder / f"runs-{records}-{partitions}"
    runs.mkdir()

    def write_run() -> str | None:
        writer = RunWriter(str(runs), partitions, None)
        for start in range(0, records, CHUNK_KEYS):
            writer.add(hashes[start : start + CHUNK_KEYS])
        return writer.finish()

    placing, name = timed(write_run)

    def write_files() -> list[PartitionFile]:
        reader = RunReader(str(runs), [name], partitions)
        return [
            write_partition(str(runs), partition, 1, filter_of(mine))
            for partition in range(partitions)
            if len(mine := reader.hashes(partition))
        ]

    filters, files = timed(write_files)
    (runs / name).unlink()
    values = values_of(records, records)
    counting, digest = timed(lambda: made_digest(values, DIGEST_K))
    manifest = Manifest("id", None, "integers", partitions, 0.001, 0.001, 0)
    index = IndexReader(runs, manifest.with_files(tuple(files), records=records), None)
    index.warm()
    rng = np.random.default_rng(records)
    asked = np.concatenate([rng.integers(0, records, 500), -rng.integers(1, 2**60, 500)])
    assert np.asarray(index.contains(asked)["present"])[:500].all()
    found = Cost(
        records,
        partitions,
        hashing,
        placing,
        filters,
        counting,
        sum(file.size for file in files),
        max(file.size for file in files),
        best(lambda: index.contains(asked)),
        best(lambda: digest.rank([812])),
    )
    forget(str(runs))
    shutil.rmtree(runs)
    each = [1e9 * part / records for part in (hashing, placing, filters, counting)]
    print(
        f"{records:>12,} {partitions:>6}  " + " ".join(f"{one:>4.0f} ns" for one in each) + "  "
        f"{8 * found.file_bytes / records:>6.2f} {found.largest_file / 2**20:>5.1f} MiB  "
        f"{found.batch * 1e3:>7.2f} ms {found.rank * 1e6:>4.0f} us",
        flush=True,
    )
    return found


def filter_of(hashes: np.ndarray) -> Fingerprint:
    return Fingerprint.of_hashes(hashes, 0.001, headroom=HEADROOM, capacity_min=CAPACITY_MIN)


def over_records(largest: int, folder: Path, partitions: int = 64) -> list[Cost]:
    print(f"\n-- cost over records, one thread, {partitions} partitions\n{HEADER}")
    sizes = [size for size in SIZES if size < largest]
    return [cost_of(size, partitions, folder) for size in [*sizes, largest]]


def over_partitions(records: int, folder: Path) -> list[Cost]:
    print(f"\n-- cost over partitions, one thread\n{HEADER}")
    return [cost_of(records, partitions, folder) for partitions in (1, 4, 16, 64, 256, 1024)]


def slope(growth: list[Cost], of: Callable[[Cost], float]) -> float:
    """Least squares of a cost over records."""
    return float(np.polyfit([one.records for one in growth], [of(one) for one in growth], 1)[0])


def on_paper(growth: list[Cost]) -> None:
    build = slope(growth, lambda one: one.build) * PAPER_RECORDS
    size = slope(growth, lambda one: one.file_bytes) * PAPER_RECORDS
    partitions = growth[-1].partitions
    held = 8 * PAPER_RECORDS / partitions
    print(
        f"\n-- {PAPER_RECORDS:,} records in {partitions} partitions, from the slopes above\n"
        f"filters: {size / 2**30:.2f} GiB over all machines, {size / partitions / 2**20:.0f} MiB a "
        f"partition; the driver maps them or keeps the map only ({partitions} rows)\n"
        f"hashes between the stages: {8 * PAPER_RECORDS / 2**30:.1f} GiB of files\n"
        f"memory of a task: first stage {3 * 8 * CHUNK_KEYS / 2**20:.0f} MiB and the digest, "
        f"second {4 * held / 2**20:.0f} MiB (hashes of a partition, read, spread, sorted, coded)\n"
        f"work, without reading the records: {build / 3600:.3f} core-hours\n"
        f"a batch of 1,000 keys: {growth[-1].batch * 1e3:.2f} ms at {growth[-1].records:,} "
        f"records, {growth[0].batch * 1e3:.2f} ms at {growth[0].records:,}: cache misses, no slope"
    )


def plot(
    accuracy: list[tuple[int, float, float]],
    growth: list[Cost],
    split: list[Cost],
    folder: Path,
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13.5, 4))
    sizes, ours, sampled = zip(*accuracy, strict=True)
    left.loglog(sizes, np.array(ours) * 100, "o-", label="q-digest")
    left.loglog(sizes, np.array(sampled) * 100, "s--", label="sample of the same bytes")
    left.set(xlabel="bytes", ylabel="%", title="largest error of 100 random ranks")
    records = [one.records for one in growth]
    partitions = [one.partitions for one in split]
    for label, style, of in (
        ("build, one thread", "o-", lambda one: one.build),
        ("of it: filters", "s-", lambda one: one.filters),
        ("of it: digest", "d-", lambda one: one.digest),
        ("1,000 keys", "^--", lambda one: one.batch),
        ("a rank", "v--", lambda one: one.rank),
    ):
        middle.loglog(records, [of(one) for one in growth], style, label=label)
        right.loglog(partitions, [of(one) for one in split], style, label=label)
    middle.set(xlabel="records", ylabel="seconds", title=f"{growth[0].partitions} partitions")
    right.set(xlabel="partitions", ylabel="seconds", title=f"{split[0].records:,} records")
    left.legend(fontsize=8)
    right.legend(fontsize=8)  # the same lines as in the middle
    for axes in (left, middle, right):
        axes.grid(visible=True, alpha=0.3)
    figure.tight_layout()
    figure.savefig(folder / "fingerprint.png", dpi=110)
    print(f"\n{folder / 'fingerprint.png'}")


def timed(run: Callable) -> tuple:
    """Seconds of the processor, and the result."""
    began = time.process_time()
    result = run()
    return time.process_time() - began, result


def best(run: Callable[[], object], repeats: int = 7) -> float:
    return min(timed(run)[0] for _ in range(repeats))


if __name__ == "__main__":
    main()
