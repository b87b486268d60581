"""KLL and sliding windows against their peers; ratios of runs taken in turn.

python benchmarks/quantiles.py                  # about two minutes
python benchmarks/quantiles.py --items 300000   # seconds
"""

from __future__ import annotations

import argparse
import time

import datasketches
import numpy as np
import pyarrow as pa
from _timing import in_turn, report
from published.sliding_windows import PublishedItems
from sortedcontainers import SortedList

from muntin.segments import WHOLE, build, cut, decode, encode, merge
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt
from muntin.summaries import KLL, FixedWindowQuantiles

FRACTIONS = np.arange(1, 100) / 100


def rms_percent(errors: list[np.ndarray]) -> float:
    return 100 * float(np.sqrt(np.mean(np.square(errors))))


def ours(values: np.ndarray, batch: int, k: int = 200, seed: int = 0) -> KLL:
    sketch = KLL(k, seed)
    for start in range(0, len(values), batch):
        sketch.update(values[start : start + batch])
    return sketch


def theirs(values: np.ndarray, k: int = 200) -> datasketches.kll_doubles_sketch:
    sketch = datasketches.kll_doubles_sketch(k)
    sketch.update(values)
    return sketch


def kll_update(items: int, repeats: int) -> None:
    for n in (10_000, items):
        values = np.random.default_rng(0).lognormal(size=n)
        print(f"\nKLL update, {n:,} float64, k = 200")
        runs = {
            "muntin, one batch": lambda values=values: ours(values, len(values)),
            "muntin, batches of 65,536": lambda values=values: ours(values, 1 << 16),
            "datasketches": lambda values=values: theirs(values),
        }
        seconds = in_turn(runs, repeats if n > 100_000 else 10 * repeats)
        report(seconds, events=n, unit="value")


def kll_error(items: int, seeds: int) -> None:
    errors: dict[str, list[np.ndarray]] = {"one batch": [], "65,536": [], "datasketches": []}
    sizes: dict[str, int] = dict.fromkeys(errors, 0)
    for seed in range(seeds):
        values = np.random.default_rng(seed).lognormal(size=items)
        ordered = np.sort(values)
        one, many = ours(values, items, seed=seed), ours(values, 1 << 16, seed=seed)
        other = theirs(values)
        for name, found, size in (
            ("one batch", one.quantile(FRACTIONS).value, len(one.to_bytes())),
            ("65,536", many.quantile(FRACTIONS).value, len(many.to_bytes())),
            ("datasketches", other.get_quantiles(FRACTIONS), len(other.serialize())),
        ):
            errors[name].append(np.searchsorted(ordered, found, "right") / items - FRACTIONS)
            sizes[name] = max(sizes[name], size)
    print(f"\nRank error of 99 quantiles, {items:,} values, {seeds} seeds, k = 200")
    for name, found in errors.items():
        print(f"  {name:14} rms {rms_percent(found):.3f} %, at most {sizes[name]:,} bytes")


def kll_merge(panes: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.lognormal(size=5_000) for _ in range(panes)]
    mine = [ours(part, 5_000, seed=i) for i, part in enumerate(parts)]
    other = [theirs(part) for part in parts]

    def one_by_one() -> None:
        union = datasketches.kll_doubles_sketch(200)
        for sketch in other:
            union.merge(sketch)
        union.get_quantiles([0.5, 0.99])

    print(f"\nMerge of {panes:,} panes and two quantiles, k = 200")
    seconds = in_turn(
        {
            "KLL.merged": lambda: KLL.merged(mine).quantile([0.5, 0.99]),
            "datasketches merge": one_by_one,
        },
        2 * repeats,
    )
    report(seconds, unit="day")
    blobs = [sketch.serialize() for sketch in other]
    slices, values = np.repeat(np.arange(panes), 5_000), pa.array(np.concatenate(parts))
    stored = [encode(piece) for piece in cut(build(Quantiles(), slices, [values]))]

    def of_segments() -> None:
        (table,) = merge([decode(piece) for piece in stored], WHOLE).tables
        Quantiles().answer(table, QuantilesAt((0.5, 0.99)))

    def of_sketches() -> None:
        union = datasketches.kll_doubles_sketch(200)
        for blob in blobs:
            union.merge(datasketches.kll_doubles_sketch.deserialize(blob))
        union.get_quantiles([0.5, 0.99])

    sizes = [f"{sum(map(len, data)):,}" for data in (stored, blobs)]
    print(f"  the same from bytes ({sizes[0]}, {sizes[1]}), processor time")
    seconds = in_turn(
        {"segments, as a ledger keeps them": of_segments, "datasketches": of_sketches},
        5 * repeats,
        clock=time.process_time,
    )
    report(seconds, unit="day")


class SortedWindow:
    """What keeps the exact order: a sorted list and a queue, O(W) memory."""

    def __init__(self, window: int) -> None:
        self.window, self.queue, self.at = window, np.zeros(window), 0
        self.ordered: SortedList = SortedList()

    def update(self, values: np.ndarray) -> None:
        for value in values.tolist():
            slot = self.at % self.window
            if self.at >= self.window:
                self.ordered.remove(self.queue[slot])
            self.ordered.add(value)
            self.queue[slot] = value
            self.at += 1


def window_insert(window: int, batch: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    filled = rng.normal(size=2 * window)
    ring, paper = (
        FixedWindowQuantiles(window),
        PublishedItems(window, k=128),
    )
    exact = SortedWindow(window)
    ring.update(filled)
    paper.update(filled)
    exact.update(filled[:window])
    more = rng.normal(size=50 * batch)

    def insert(target: object, steps: int) -> None:
        for start in range(0, steps * batch, batch):
            target.update(more[start : start + batch])  # pyright: ignore

    print(f"\nSliding window of {window:,}, inserts in batches of {batch:,}")
    seconds = in_turn(
        {
            "ring, 8 panes of k = 64": lambda: insert(ring, 50),
            "paper's Algorithm 1, k = 128, compiled": lambda: insert(paper, 50),
        },
        2 * repeats,
    )
    few = in_turn({"sorted list": lambda: insert(exact, 5)}, repeats)
    seconds["sorted list, exact"] = [10 * taken for taken in few["sorted list"]]
    report(seconds, events=len(more), unit="value")


def window_query(window: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=2 * window + window // 20)
    ring = FixedWindowQuantiles(window)
    ring.update(values)
    pane = window // 64
    panes = {
        k: [theirs(values[i * pane : (i + 1) * pane], k) for i in range(64)] for k in (32, 64, 128)
    }
    asked = [0.5, 0.9, 0.99]

    def merged(sketches: list, k: int) -> None:
        union = datasketches.kll_doubles_sketch(k)
        for sketch in sketches:
            union.merge(sketch)
        union.get_quantiles(asked)

    def live() -> None:
        for i in range(20):
            ring.update(values[i : i + 10])
            ring.quantile(asked)

    def moved(times: int) -> list[float]:
        """Seconds of 20 queries, each after 10 values, without the time to take these in."""
        found = []
        for _ in range(times):
            taken = 0.0
            for i in range(20):
                ring.update(values[i : i + 10])
                began = time.perf_counter()
                ring.quantile(asked)
                taken += time.perf_counter() - began
            found.append(taken)
        return found

    print("\nThree quantiles of a live window")
    seconds = in_turn(
        {
            "ring, nothing new": lambda: [ring.quantile(asked) for _ in range(20)],
            "ring, taking in 10 values included": live,
        }
        | {
            f"64 panes of k = {k} merged": lambda k=k, held=held: [
                merged(held, k) for _ in range(20)
            ]
            for k, held in panes.items()
        },
        4 * repeats,
    )
    seconds["ring, after 10 values"] = moved(4 * repeats)
    report(seconds, events=20, unit="query", first="ring, after 10 values")
    inside = np.sort(values[len(values) - window :])

    def rms_of(union: datasketches.kll_doubles_sketch) -> float:
        found = np.searchsorted(inside, union.get_quantiles(FRACTIONS), "right") / window
        return rms_percent([found - FRACTIONS])

    for k in panes:
        union = datasketches.kll_doubles_sketch(k)
        for start in range(0, 64 * pane, pane):
            at = len(values) - window + start
            union.merge(theirs(values[at : at + pane], k))
        print(
            f"  rms rank error, 64 panes of k = {k} that end with the window: {rms_of(union):.2f} %"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--window", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=2_000)
    parser.add_argument("--panes", type=int, default=1_440)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("kll", "window"))
    given = parser.parse_args()
    if given.only != "window":
        kll_update(given.items, given.repeats)
        kll_error(min(given.items, 5_000_000), given.seeds)
        kll_merge(given.panes, given.repeats)
    if given.only != "kll":
        window_insert(given.window, given.batch, given.repeats)
        window_query(given.window, given.repeats)


if __name__ == "__main__":
    main()
