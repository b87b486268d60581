"""Sliding windows of quantiles, and panes as a ledger keeps them, beside their peers.

    python benchmarks/quantiles.py [--short] [--keep] [--check]

Sketches alone, taken in and merged: benchmarks/peers/quantiles.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import datasketches
import numpy as np
import pyarrow as pa
from _record import Table, compared, digits, main, timed
from published.sliding_windows import PublishedItems
from sortedcontainers import SortedList

from muntin.segments import WHOLE, build, cut, decode, encode, merge
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt
from muntin.summaries import FixedWindowQuantiles

WINDOW, BATCH = 100_000, 2_000
ASKED = (0.5, 0.9, 0.99)
AS_EXACT = 400  # k at which DataSketches' merge of such panes is as exact as ours at 200
SEEDS = 12
IN_A_ROW = 10


def theirs(values: np.ndarray, k: int = 200) -> datasketches.kll_doubles_sketch:
    sketch = datasketches.kll_doubles_sketch(k)
    sketch.update(values)
    return sketch


def from_bytes(panes: int, repeats: int) -> Table:
    asked = tuple(np.arange(1, 100) / 100)
    squares: dict[str, list[float]] = {}
    stored: list[bytes] = []
    blobs: dict[int, list[bytes]] = {200: [], AS_EXACT: []}

    def of_segments() -> list[float]:
        (table,) = merge([decode(piece) for piece in stored], WHOLE).tables
        return Quantiles().answer(table, QuantilesAt(asked)).column("value").to_pylist()

    def of_sketches(k: int) -> list[float]:
        union = datasketches.kll_doubles_sketch(k)
        for blob in blobs[k]:
            union.merge(datasketches.kll_doubles_sketch.deserialize(blob))
        return union.get_quantiles(list(asked))

    engines = {"Muntin's segments, k = 200": of_segments} | {
        f"DataSketches KLL, k = {k}": partial(of_sketches, k) for k in blobs
    }
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        parts = [rng.lognormal(size=5_000) for _ in range(panes)]
        slices, values = np.repeat(np.arange(panes), 5_000), np.concatenate(parts)
        stored[:] = map(encode, cut(build(Quantiles(), slices, [pa.array(values)])))
        for k in blobs:
            blobs[k] = [theirs(part, k).serialize() for part in parts]
        values.sort()
        for name, answer in engines.items():
            ranks = np.searchsorted(values, answer()) / len(values)
            squares.setdefault(name, []).append(float(np.mean((ranks - asked) ** 2)))
    table = Table(
        "from-bytes",
        f"{panes:,} panes of 5,000 values, from bytes to 99 quantiles: times as long as ours",
        ["what", "times as long", "ms", "bytes", "error, %"],
        note=f"Above 1, ours is faster; {IN_A_ROW} questions in a row are timed at once. The error "
        f"is that of the quantiles' ranks, root mean square of {SEEDS} seeds.",
    )
    mine, *_ = engines.values()
    for data, (name, answer) in zip((stored, *blobs.values()), engines.items(), strict=True):
        ratio, seconds = compared(mine, answer, repeats, often=IN_A_ROW)
        error = round(100 * float(np.mean(squares[name])) ** 0.5, 3)
        table.rows.append([name, ratio, digits(1e3 * seconds), sum(map(len, data)), error])
    return table


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


def inserts(batches: int, repeats: int) -> Table:
    rng = np.random.default_rng(0)
    filled, more = rng.normal(size=2 * WINDOW), rng.normal(size=batches * BATCH)
    windows = {
        "the ring, 8 panes of k = 64": FixedWindowQuantiles(WINDOW),
        "the paper's window, k = 128, compiled": PublishedItems(WINDOW, k=128),
        "a sorted list, exact": SortedWindow(WINDOW),
    }
    for window in windows.values():
        window.update(filled)

    def fed(window: FixedWindowQuantiles | SortedWindow) -> None:
        for start in range(0, len(more), BATCH):
            window.update(more[start : start + BATCH])

    return timed(
        "inserts",
        f"A window of the last {WINDOW:,} values takes in batches of {BATCH:,}",
        {name: lambda window=window: fed(window) for name, window in windows.items()},
        repeats,
        events=len(more),
        unit="ns a value",
    )


def queries(repeats: int) -> Table:
    rng = np.random.default_rng(0)
    values = rng.normal(size=2 * WINDOW + WINDOW // 20)
    ring = FixedWindowQuantiles(WINDOW)
    ring.update(values)
    pane = WINDOW // 64

    def live() -> None:
        for at in range(20):
            ring.update(values[at : at + 10])
            ring.quantile(ASKED)

    def merged(held: list, k: int) -> None:
        for _ in range(20):
            union = datasketches.kll_doubles_sketch(k)
            for sketch in held:
                union.merge(sketch)
            union.get_quantiles(list(ASKED))

    runs = {
        "the ring, each after ten new values": live,
        "the ring, nothing new": lambda: [ring.quantile(ASKED) for _ in range(20)],
    }
    for k in (32, 64, 128):
        held = [theirs(values[at * pane : (at + 1) * pane], k) for at in range(64)]
        runs[f"64 panes of DataSketches' KLL, k = {k}, merged"] = lambda held=held, k=k: merged(
            held, k
        )
    return timed(
        "queries",
        f"Three quantiles of a window of {WINDOW:,} values",
        runs,
        repeats,
        events=20,
        unit="µs a query",
        ours=2,
    )


def measure(short: bool) -> Iterable[Table]:
    yield from_bytes(144 if short else 1_440, 9)
    yield inserts(5 if short else 50, 5)
    yield queries(9)


if __name__ == "__main__":
    main("quantile-windows", measure, ["datasketches", "numpy", "numba"], __doc__)
