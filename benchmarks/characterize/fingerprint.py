"""The published experiments on fingerprint queries, and how cost grows: figures and numbers.

Fig. 2 (query time against Spark's exact percentile) is in `benchmarks/fingerprint_index.py`. Here:
Fig. 3a-c (construction, query time, accuracy against a sample of the same bytes, 100 random rank
queries), Eq. 1 and 2 against measurement, routing before and after placing by range, and cost over
records and partitions with what follows from the slopes for 1.4 billion records.

`python benchmarks/characterize/fingerprint.py [--records N] [--out FOLDER]`
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from fingerprint_index import routing

from muntin.summaries import DyadicQDigest, DynamicBloom
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.static_filter import to_partitions

PAPER_RECORDS = 1_400_000_000
BITS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000, help="the largest size")
    parser.add_argument("--out", type=Path, help="folder for figures (needs matplotlib)")
    arguments = parser.parse_args()
    accuracy = against_a_sample(arguments.records)
    equations()
    routing()
    growth = over_records(arguments.records)
    over_partitions(min(arguments.records, 1_000_000))
    on_paper(growth)
    if arguments.out:
        plot(accuracy, growth, arguments.out)


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
    seen = DynamicBloom(planned, 0.01, layout="paper")
    for keys in (500, 1_000, 1_500, 5_000, 20_000, 50_000):
        seen.update(np.arange(seen.count, keys))
        print(
            f"{keys:>6,} keys, {seen.filters:>2} filters: {seen.false_positive_rate():>8.3%}"
            f" computed, {seen.contains_hashes(asked).mean():>8.3%} measured"
        )


def over_records(largest: int) -> list[tuple[int, float, float, float, float]]:
    print("\n-- cost over records, one partition, one thread")
    print(f"{'records':>12}  {'keys':>9} {'ranks':>9}  {'1,000 keys':>10} {'rank':>8}  {'bits':>6}")
    rows = []
    size = min(125_000, largest)
    while size <= largest:
        hashes = np.random.default_rng(size).integers(0, 2**64 - 1, size, dtype=np.uint64)
        values = values_of(size, size)
        keyed, summary = timed(lambda h=hashes: made_filter(h))
        ranked, digest = timed(lambda v=values: made_digest(v, 20_000))
        asked = np.concatenate([hashes[:500], hashes[:500] ^ np.uint64(12345)])
        ask = best(lambda s=summary, a=asked: s.contains_hashes(a))
        digest.rank([812])
        rank = best(lambda d=digest: d.rank([812]))
        rows.append((size, keyed / size, ranked / size, ask, summary.bits_per_key))
        print(
            f"{size:>12,}  {keyed / size * 1e9:>6.0f} ns {ranked / size * 1e9:>6.0f} ns"
            f"  {ask * 1e6:>7.0f} us {rank * 1e6:>5.0f} us  {summary.bits_per_key:>6.2f}"
        )
        size *= 2
    return rows


def made_filter(hashes: np.ndarray) -> Fingerprint:
    summary = Fingerprint(len(hashes), 0.001, headroom=2)
    summary.update_hashes(np.sort(hashes))
    _ = summary.keys
    return summary


def over_partitions(records: int) -> None:
    print(f"\n-- cost over partitions, {records:,} keys, a batch of 1,000 at one process")
    hashes = np.random.default_rng(9).integers(0, 2**64 - 1, records, dtype=np.uint64)
    asked = np.concatenate([hashes[:500], hashes[:500] ^ np.uint64(12345)])
    for partitions in (1, 4, 16, 64, 256):
        placed = to_partitions(hashes, partitions)
        order = np.argsort(placed, kind="stable")
        ends = np.cumsum(np.bincount(placed, minlength=partitions))
        filters = [made_filter(part) for part in np.split(hashes[order], ends[:-1])]
        where = to_partitions(asked, partitions)

        def ask(filters=filters, where=where) -> None:
            for partition in np.unique(where):
                filters[partition].contains_hashes(asked[where == partition])

        print(f"{partitions:>5} partitions: {best(ask) * 1e6:>7.0f} us")


def on_paper(growth: list[tuple[int, float, float, float, float]]) -> None:
    _, keyed, ranked, _, bits = growth[-1]
    filters = PAPER_RECORDS * bits / 8 / 2**30
    print(
        f"\n-- {PAPER_RECORDS:,} records, from the slopes above\n"
        f"filters: {filters:.2f} GiB over all workers; at 64 partitions {filters * 1024 / 64:.0f} "
        f"MiB each\nhashes that cross the shuffle: {PAPER_RECORDS * 8 / 2**30:.1f} GiB\n"
        f"work, without reading: {PAPER_RECORDS * (keyed + ranked) / 3600:.2f} core-hours\n"
        f"a batch of 1,000 keys: as above, its cost does not grow with records but for cache misses"
    )


def plot(
    accuracy: list[tuple[int, float, float]],
    growth: list[tuple[int, float, float, float, float]],
    folder: Path,
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    sizes, ours, sampled = zip(*accuracy, strict=True)
    left.loglog(sizes, np.array(ours) * 100, "o-", label="q-digest")
    left.loglog(sizes, np.array(sampled) * 100, "s--", label="sample of the same bytes")
    left.set(xlabel="bytes", ylabel="largest rank error, %")
    left.legend()
    records, keyed, ranked, ask, _ = zip(*growth, strict=True)
    right.loglog(records, np.array(keyed) * np.array(records), "o-", label="filter, s")
    right.loglog(records, np.array(ranked) * np.array(records), "s-", label="digest, s")
    right.loglog(records, ask, "^--", label="1,000 keys asked, s")
    right.set(xlabel="records", ylabel="seconds")
    right.legend()
    figure.tight_layout()
    figure.savefig(folder / "fingerprint.png", dpi=120)
    print(f"\n{folder / 'fingerprint.png'}")


def timed(run: Callable) -> tuple:
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def best(run: Callable[[], object], repeats: int = 7) -> float:
    return min(timed(run)[0] for _ in range(repeats))


if __name__ == "__main__":
    main()
