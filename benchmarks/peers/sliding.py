"""The heaviest items of a sliding window beside MicroscopeSketch: error at equal bytes, speed.

    python benchmarks/peers/sliding.py [--short] [--keep] [--check]

MicroscopeSketch (KDD 2023), which no package has, is rebuilt in C (rebuilt/sketches.c) in its form
of Count-Min: it keeps no names, so that it is asked for each of them. Ours is a summary a pane,
as the ledger keeps them, merged for each window: names, and an interval that holds the truth. The
stream is of a Zipf distribution whose items change their ranks slowly; windows of ten panes, asked
at the end of each pane. The error is that of the counts of the 100 truly heaviest items.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rebuilt import Rebuilt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _record import Table, compared, main

from muntin.summaries import SpaceSaving
from muntin.summaries.items import hash_items

PANES, ITEMS = 10, 200_000
NAMES = pa.array([f"item-{i:07d}" for i in range(ITEMS)])


def panes(count: int, size: int) -> list[np.ndarray]:
    """Items of each pane; every pane, a hundredth of the ranks change places."""
    rng = np.random.default_rng(0)
    item_of = rng.permutation(ITEMS)
    made = []
    for _ in range(count):
        made.append(item_of[np.minimum(rng.zipf(1.1, size) - 1, ITEMS - 1)])
        moved = rng.choice(2_000, 20, replace=False)
        item_of[moved] = item_of[rng.permutation(moved)]
    return made


def ours(columns: list[pa.Array], capacity: int) -> Iterator[tuple[SpaceSaving, list[SpaceSaving]]]:
    """After each pane from the tenth on: the window, and its panes."""
    held: list[SpaceSaving] = []
    for column in columns:
        pane = SpaceSaving(capacity)
        pane.update(column)
        held = [*held[-PANES + 1 :], pane]
        if len(held) == PANES:
            window = held[0].copy()
            for one in held[1:]:
                window.merge(one)
            yield window, held


def microscope(columns: list[pa.Array], nbytes: int) -> Iterator[Rebuilt]:
    sketch = Rebuilt("microscope", nbytes, 3, PANES, 1)
    for at, column in enumerate(columns):
        if at:
            sketch.next()
        sketch.update(hash_items(column, 0))
        if at + 1 >= PANES:
            yield sketch


def measure(short: bool) -> Iterable[Table]:
    size, count, repeats = (50_000, 20, 3) if short else (500_000, 40, 5)
    items = panes(count, size)
    columns = [NAMES.take(pa.array(pane)) for pane in items]
    hashes = hash_items(NAMES, 0)
    table = Table(
        "sliding",
        f"{count} panes of {size:,} strings, windows of {PANES}: times as long as ours",
        ["sketch", "bytes", "error, ppm of a window", "recall of 100", "build", "ns an item"],
        note="Above 1, ours is faster, merging and asking included. MicroscopeSketch's recall is "
        "that of asking it for all 200,000 names.",
    )
    events = size * count

    for capacity in (500, 2_000):
        windows = []
        for at in range(PANES - 1, count):
            counts = np.bincount(np.concatenate(items[at - PANES + 1 : at + 1]), minlength=ITEMS)
            first = np.argsort(-counts, kind="stable")[:100]
            windows.append((first, counts[first]))

        def scored(found: list[tuple[np.ndarray, set[int]]], windows: Any = windows) -> list[float]:
            off = [values - truth for (values, _), (_, truth) in zip(found, windows, strict=True)]
            seen = [len(top & set(first.tolist())) for (_, top), (first, _) in
                    zip(found, windows, strict=True)]  # fmt: skip
            error = 1e6 * float(np.sqrt(np.mean(np.square(off)))) / (PANES * size)
            return [round(error, 2), round(float(np.mean(seen)) / 100, 3)]

        mine, nbytes = [], 0
        for at, (window, held) in enumerate(ours(columns, capacity)):
            asked = NAMES.take(pa.array(windows[at][0]))
            top = {int(name[5:]) for name in window.top(100)["item"].to_pylist()}
            mine.append((window.estimate(asked).value, top))
            nbytes = max(nbytes, sum(len(pane.to_bytes()) for pane in held))
        theirs = []
        for at, sketch in enumerate(microscope(columns, nbytes)):
            every = sketch.ask(hashes)
            top = set(np.argpartition(-every, 100)[:100].tolist())
            theirs.append((every[windows[at][0]], top))

        def run(capacity: int = capacity) -> None:
            for window, _ in ours(columns, capacity):
                window.top(100)

        def their_run(nbytes: int = nbytes, windows: Any = windows) -> None:
            for at, sketch in enumerate(microscope(columns, nbytes)):
                sketch.ask(hashes[windows[at][0]])

        _, took = compared(run, run, 1)
        ratio, seconds = compared(run, their_run, repeats)
        table.rows.append([f"Muntin SpaceSaving, {capacity:,} a pane", nbytes, *scored(mine), 1,
                           round(1e9 * took / events, 1)])  # fmt: skip
        table.rows.append([f"MicroscopeSketch (rebuilt), beside {capacity:,}", nbytes,
                           *scored(theirs), ratio, round(1e9 * seconds / events, 1)])  # fmt: skip
    yield table


if __name__ == "__main__":
    main("peers-sliding", measure, ["numpy", "numba", "pyarrow"], __doc__)
