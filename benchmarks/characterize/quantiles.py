"""Experiments 5.1 to 5.6 of Zhang et al. (CMC 2019), and what they do not ask.

python benchmarks/characterize/quantiles.py [--scale 1.0] [--out FOLDER] [--only correctness]
    [--keep]

One CSV and one PNG each; the command that made it stands in the CSV's first line. Errors are
normalised rank errors of 99 quantiles. Beside the paper's window stand the ring and, as reference,
a fresh KLL over exactly the window's items, which no one can maintain. At full scale each takes
less than four minutes on one core.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

from muntin.summaries import KLL, FixedWindowQuantiles, TimeWindowQuantiles

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import Table, digits, keep, shown
from published.sliding_windows import PublishedItems, PublishedTimes

FRACTIONS = np.arange(1, 100) / 100
WINDOWS = 31  # that go by: one to fill, 30 to slide
METHODS = ("paper", "ring")
FRESH = "fresh KLL"
Row = dict[str, Any]


def errors_of(found: np.ndarray, inside: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(inside), found, "right") / len(inside) - FRACTIONS


def rms(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def fresh(inside: np.ndarray, k: int, seed: int) -> KLL:
    sketch = KLL(k, seed)
    for start in range(0, len(inside), 100):  # as they come, not in one sorted batch
        sketch.update(inside[start : start + 100])
    return sketch


def window_of(method: str, length: int, k: int, seed: int = 0) -> FixedWindowQuantiles:
    """The paper's window of `k`, or a ring that holds about as many items."""
    if method == "paper":
        return PublishedItems(length, k, seed)
    panes = 4 if k < 256 else 8
    return FixedWindowQuantiles(length, panes, max(8, k // panes), seed)


def slide(
    windows: list[FixedWindowQuantiles], stream: np.ndarray, length: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Feed batches of 1,000; stop every 0.23 windows, where the edge cuts a pane anywhere."""
    step = max(int(0.23 * length), 1)
    for start in range(0, len(stream), step):
        end = min(start + step, len(stream))
        for at in range(start, end, 1_000):
            for window in windows:
                window.update(stream[at : min(at + 1_000, end)])
        if end >= length:
            yield end, stream[end - length : end]


def cdfs(scale: float) -> list[Row]:
    """5.1: the CDF of the last 500 items after 31 windows, k = 32."""
    del scale
    stream = np.random.default_rng(0).normal(size=WINDOWS * 500)
    windows: dict[str, Any] = {method: window_of(method, 500, 32) for method in METHODS}
    for window in windows.values():
        window.update(stream)
    inside = np.sort(stream[-500:])
    windows[FRESH] = fresh(stream[-500:], 32, 0)
    rows = []
    for x in np.linspace(-3, 3, 61):
        row: Row = {"x": x, "exact": np.searchsorted(inside, x, "right") / 500}
        rows.append(row | {name: float(w.rank(x).value[0]) for name, w in windows.items()})
    return rows


def _timed(run: Callable[[], object]) -> float:
    """Seconds of processor time, which other work on the machine disturbs little."""
    start = time.process_time()
    run()
    return time.process_time() - start


def insert_time(scale: float) -> list[Row]:
    """5.2: nanoseconds an insert, batches of 1,000, while 31 windows go by."""
    rows = []
    fresh(np.random.default_rng(0).normal(size=20_000), 32, 0)  # compiles what is timed below
    for length in (10_000, 100_000):
        stream = np.random.default_rng(0).normal(size=int(WINDOWS * length * scale))
        for k in (32, 64, 128, 256, 512):
            row: Row = {"window": length, "k": k}
            made = {method: window_of(method, length, k) for method in METHODS}
            for name, sketch in (made | {FRESH: KLL(k)}).items():
                sketch.update(stream[:10])

                def run(sketch: Any = sketch, stream: np.ndarray = stream) -> None:
                    for start in range(0, len(stream), 1_000):
                        sketch.update(stream[start : start + 1_000])

                row[name] = _timed(run) / len(stream) * 1e9
            rows.append(row)
    return rows


def query_time(scale: float) -> list[Row]:
    """5.3: microseconds a query of one quantile, one after every 10 items, after 31 windows."""
    steps, rows = int(2_000 * scale) + 20, []
    stream = np.random.default_rng(0).normal(size=WINDOWS * 100_000)
    for length in (10_000, 100_000):
        for k in (32, 64, 128, 256, 512):
            row: Row = {"window": length, "k": k}
            made = {method: window_of(method, length, k) for method in METHODS}
            for name, sketch in (made | {FRESH: KLL(k)}).items():
                sketch.update(stream[: length if name == FRESH else WINDOWS * length])
                taken = []
                for step in range(steps):
                    sketch.update(stream[10 * step : 10 * step + 10])
                    taken.append(_timed(lambda sketch=sketch: sketch.quantile(0.5)))
                row[name] = float(np.mean(taken[20:])) * 1e6  # the first load what is compiled
            rows.append(row)
    return rows


def size(scale: float) -> list[Row]:
    """5.4: the most items held while 31 windows go by, by window and k."""
    rows = []
    for length in (1_000, 10_000, 100_000, int(400_000 * max(scale, 0.25))):
        stream = np.random.default_rng(0).normal(size=int(WINDOWS * length * scale))
        for k in (32, 128, 1024):
            row: Row = {"window": length, "k": k}
            for method in METHODS:
                window, most = window_of(method, length, k), 0
                for start in range(0, len(stream), 1_000):
                    window.update(stream[start : start + 1_000])
                    most = max(most, len(window))
                row[method] = most
            row[FRESH] = len(fresh(stream[-length:], k, 0))
            rows.append(row)
    return rows


def streams(length: int, windows: int = WINDOWS) -> dict[str, np.ndarray]:
    """Nine kinds of stream, among them one that changes in the middle of a ring's panes."""
    t = np.arange(length * windows)
    noise = np.random.default_rng(0).normal(size=len(t))
    return {
        "iid": noise,
        "shift": noise + 3.0 * (t // (3 * length // 2) % 2),
        "sine": 0.3 * noise + 2 * np.sin(2 * np.pi * t / (0.7 * length)),
        "drift": noise + t / length,
        "sawtooth": t % (0.37 * length) / length + 0.01 * noise,
        "sorted": t.astype(float),
        "reverse": -t.astype(float),
        "lognormal": np.exp(2 * noise),
        "pane-adversarial": noise + 5.0 * (t // (length // 16) % 2),
    }


def correctness(scale: float) -> list[Row]:
    """5.5: error while a window of 100,000 slides over 31 windows, k = 128, three streams."""
    length, rows = int(100_000 * scale), []
    for name, stream in list(streams(length).items())[:3]:
        paper = window_of("paper", length, 128)
        ring = FixedWindowQuantiles(length, 4, 24)  # as many items as the paper's at k = 128
        large = FixedWindowQuantiles(length)
        for end, inside in slide([paper, ring, large], stream, length):
            row: Row = {"stream": name, "windows": end / length}
            for label, found in (
                ("paper", paper), ("ring, 420 items", ring), ("ring, 1,707 items", large),
                (FRESH, fresh(inside, 128, end)),
            ):  # fmt: skip
                row[label] = 100 * rms(errors_of(found.quantile(FRACTIONS).value, inside))
            rows.append(row)
    return rows


def aggregation(scale: float) -> list[Row]:
    """5.6: two windows of 500 merged, against one of 1,000; greatest gap between the CDFs."""
    rows = []
    for seed in range(max(int(20 * scale), 3)):
        stream = np.random.default_rng(seed).normal(size=WINDOWS * 1_000)
        inside = stream[-1_000:]
        row: Row = {"seed": seed}
        for method in METHODS:
            parts = []
            for node in range(2):
                part = window_of(method, 500, 32, seed + node)
                part.update(stream[node::2])
                parts.append(part)
            one = window_of(method, 1_000, 32, seed)
            one.update(stream)
            row[f"{method}, merged"] = _gap(FixedWindowQuantiles.merged(parts), inside)
            row[f"{method}, one"] = _gap(one, inside)
        row[FRESH] = _gap(fresh(inside, 32, seed), inside)
        rows.append(row)
    return rows


def nodes(scale: float) -> list[Row]:
    """4.3: three nodes in turn, the last 5 minutes, merged every 30 s; 31 windows go by."""
    second, minutes = 1_000_000, max(int(5 * WINDOWS * scale), 6)
    rng, rows = np.random.default_rng(0), []
    for name, rates in (("steady", [300]), ("bursts", [30, 30, 1_200, 30])):
        each = np.resize(rates, 6 * minutes) * 10  # events of 10 seconds
        starts = np.repeat(np.arange(len(each)) * 10 * second, each)
        times = np.sort(starts + rng.integers(0, 10 * second, len(starts)))
        values = rng.lognormal(size=len(times)) * (1 + 0.3 * np.sin(times / (200 * second)))
        made: dict[str, list[TimeWindowQuantiles]] = {
            "paper, k = 128": [PublishedTimes("5 minutes", 128, n) for n in range(3)],
            "ring, 10 panes of k = 64": [
                TimeWindowQuantiles("5 minutes", 10, 64, seed=n) for n in range(3)
            ],
        }
        for stop in range(30 * second, 60 * minutes * second + 1, 30 * second):
            low, high = np.searchsorted(times, [stop - 30 * second, stop])
            for windows in made.values():
                for n, window in enumerate(windows):
                    window.update(values[low:high][n::3], times[low:high][n::3])
            if stop < 300 * second:
                continue
            since = np.searchsorted(times, times[high - 1] - 300 * second, "right")
            inside = values[since:high]
            row: Row = {"stream": name, "minutes": stop / (60 * second)}
            for label, windows in made.items():
                found = TimeWindowQuantiles.merged(windows).quantile(FRACTIONS)
                row[label] = 100 * rms(errors_of(found.value, inside))
            found = fresh(inside, 128, stop).quantile(FRACTIONS)
            rows.append(row | {FRESH: 100 * rms(errors_of(found.value, inside))})
    return rows


def _gap(found: Any, inside: np.ndarray) -> float:
    return 100 * float(np.abs(errors_of(found.quantile(FRACTIONS).value, inside)).max())


def _pooled(methods: dict[str, Any], stream: np.ndarray, length: int, k: int) -> Row:
    """Error of windows, and of a fresh KLL of `k`, over all stops while a stream slides by."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*methods, FRESH)}
    for end, inside in slide(list(methods.values()), stream, length):
        for name, window in (methods | {FRESH: fresh(inside, k, end)}).items():
            found[name].append(errors_of(window.quantile(FRACTIONS).value, inside))
    return {name: 100 * rms(errors) for name, errors in found.items()}


def by_k(scale: float) -> list[Row]:
    """Error against k over 31 windows: the slope tells k^-1 from k^-0.6."""
    length, rows = int(100_000 * scale), []
    stream = np.random.default_rng(0).normal(size=WINDOWS * length)
    for k in (32, 64, 128, 256, 512, 1024):
        windows = {method: window_of(method, length, k) for method in METHODS}
        row: Row = {"k": k} | _pooled(windows, stream, length, k)
        rows.append(row | {f"items, {method}": len(windows[method]) for method in METHODS})
    return rows


def by_window(scale: float) -> list[Row]:
    """Error against W over 31 windows, k = 128: the paper's levels freeze where W left them."""
    rows = []
    for thousands in range(60, 201, 10):
        length = int(thousands * 1_000 * scale)
        stream = np.random.default_rng(thousands).normal(size=WINDOWS * length)
        windows = {method: window_of(method, length, 128) for method in METHODS}
        rows.append({"window": length} | _pooled(windows, stream, length, 128))
    return rows


def by_age(scale: float) -> list[Row]:
    """Error against the number of windows slid, up to 310: W = 20,000, in groups of 10."""
    length, rows = 20_000, []
    for name, stream in list(streams(length, 10 * max(int(31 * scale), 2)).items())[:2]:
        windows = {method: window_of(method, length, 128) for method in METHODS}
        found: dict[str, list[np.ndarray]] = {}
        following = 10
        for end, inside in slide(list(windows.values()), stream, length):
            for label, sketch in (windows | {FRESH: fresh(inside, 128, end)}).items():
                errors = errors_of(sketch.quantile(FRACTIONS).value, inside)
                found.setdefault(label, []).append(errors)
            if end >= following * length:
                pooled = {label: 100 * rms(errors) for label, errors in found.items()}
                rows.append({"stream": name, "windows": following} | pooled)
                found, following = {}, following + 10
    return rows


def by_stream(scale: float) -> list[Row]:
    """Error over 31 windows of nine kinds of stream, paper and ring at about equal space."""
    length, rows = int(100_000 * scale), []
    sizes = {"962 items": (4, 64), "1,707 items": (8, 64), "3,257 items": (8, 128)}
    for name, stream in streams(length).items():
        windows = {
            f"ring, {items}": FixedWindowQuantiles(length, *shape, seed=1)
            for items, shape in sizes.items()
        }
        windows |= {f"paper, k = {k}": window_of("paper", length, k, 1) for k in (256, 512, 1024)}
        pooled = _pooled(windows, stream, length, 128)
        rows.append({"kind": name} | pooled)
    return rows


# name: (run, x axis, y axis, column whose values are lines of their own, logarithmic)
EXPERIMENTS: dict[str, tuple[Callable[[float], list[Row]], str, str, str, bool]] = {
    "cdf": (cdfs, "x", "share of the window", "", False),
    "insert_time": (insert_time, "k", "ns an insert", "window", False),
    "query_time": (query_time, "k", "us a query", "window", False),
    "size": (size, "window", "items held", "k", True),
    "correctness": (correctness, "windows", "rms rank error, %", "stream", False),
    "aggregation": (aggregation, "seed", "greatest gap, %", "", False),
    "nodes": (nodes, "minutes", "rms rank error, %", "stream", False),
    "by_k": (by_k, "k", "rms rank error, %", "", True),
    "by_window": (by_window, "window", "rms rank error, %", "", False),
    "by_age": (by_age, "windows", "rms rank error, %", "stream", False),
    "by_stream": (by_stream, "kind", "rms rank error, %", "", False),
}


def write(name: str, scale: float, out: Path, kept: Table) -> None:
    run, x, y, group, logarithmic = EXPERIMENTS[name]
    rows = run(scale)
    with (out / f"quantiles-{name}.csv").open("w", newline="") as file:
        file.write(f"# python {' '.join(sys.argv)}\n")
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    groups = list(dict.fromkeys(row[group] for row in rows)) if group else [None]
    lines = [key for key in rows[0] if key not in (x, group) and not key.startswith("items,")]
    figure, axes = plt.subplots(
        1, len(groups), figsize=(5 * len(groups), 4), squeeze=False, constrained_layout=True
    )
    for axis, which in zip(axes[0], groups, strict=True):
        own = [row for row in rows if which is None or row[group] == which]
        for line in lines:
            axis.plot([row[x] for row in own], [row[line] for row in own], ".-", label=line)
        if logarithmic:
            axis.loglog()
        axis.set(xlabel=x, ylabel=y, title=f"{group} {which}" if group else name)
        axis.grid(alpha=0.3)
        if isinstance(own[0][x], str):
            axis.tick_params("x", rotation=60)
    axes[0][0].legend(framealpha=0.4, fontsize="small")
    figure.savefig(out / f"quantiles-{name}.png", dpi=110)
    plt.close(figure)
    for which in groups:
        own = [row for row in rows if which is None or row[group] == which]
        what = name if which is None else f"{name}, {group} {which}"
        for line in lines:
            if line == "exact":
                continue
            found = [float(row[line]) for row in own]
            if name == "cdf":
                found = [100 * abs(cdf - row["exact"]) for cdf, row in zip(found, own, strict=True)]
            mean, most, ends = float(np.mean(found)), max(found), (found[0], found[-1])
            print(f"{what:30} {line:22} mean {mean:10.3f}  most {most:10.3f}")
            over = f"{shown(own[0][x])} to {shown(own[-1][x])}"
            figures = [list(map(digits, ends)), digits(mean), digits(most)]
            kept.rows.append([what, "off the CDF, %" if name == "cdf" else y, line, over, *figures])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of windows and streams")
    parser.add_argument("--out", type=Path, default=Path("build/characterize"))
    parser.add_argument("--only", choices=EXPERIMENTS, action="append")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    kept = Table(
        "windows",
        f"Quantiles over sliding windows, streams and windows at {given.scale:g} of full size",
        ["experiment", "what", "line", "over", "at the first, the last", "mean", "most"],
    )
    for name in given.only or EXPERIMENTS:
        write(name, given.scale, given.out, kept)
    if given.keep and not given.only:
        keep("sliding-quantiles", [kept], ["numpy", "numba"])


if __name__ == "__main__":
    main()
