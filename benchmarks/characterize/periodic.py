"""Experiments about HyperBloom, HyperCalm and CalmSpaceSaving: curves, not one figure.

    python benchmarks/characterize/periodic.py             # all, about two minutes
    python benchmarks/characterize/periodic.py bins gaps   # some
    python benchmarks/characterize/periodic.py --full      # ten times as many events
    python benchmarks/characterize/periodic.py --plot docs/images/periodic.png --keep

Prints Markdown tables. The stream is the Zipf background with planted beats of S1, unless said.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from _periodic_plot import plot
from _record import Table, keep
from periodic_baselines import exact_pairs, exact_starts
from periodic_streams import RECIPES, make
from published.hyper_bloom import SynchronousBloom

from muntin.summaries import CalmSpaceSaving, HyperBloom, HyperCalm


class Stream:
    """A stream and its exact account, made once."""

    def __init__(self, name: str) -> None:
        self.recipe = RECIPES[name]
        keys, self.times, self.planted = make(name)
        self.items = keys.astype(np.int64)
        warm = HyperCalm(20_000, self.recipe.gap, self.recipe.unit, 10)
        warm.update(self.items[:1000], self.times[:1000])  # loads what is compiled
        self.starts = exact_starts(self.items, self.times, self.recipe.gap)
        self.pairs = exact_pairs(self.items, self.times, self.recipe.gap, self.recipe.unit)

    def score(self, calm: HyperCalm) -> tuple[float, float]:
        """Recall and ARE of the k highest, against the paper's bins."""
        k, unit = self.recipe.k, self.recipe.unit
        kth = sorted(self.pairs.values(), reverse=True)[k - 1]
        rows = calm.top().to_pylist()
        true = [self.pairs[row["item"], row["interval_low"] // unit] for row in rows]
        right = [(row["periodicity"], n) for row, n in zip(rows, true, strict=True) if n >= kth]
        error = float(np.mean([abs(said - n) / n for said, n in right])) if right else 1.0
        return len(right) / k, error

    def run(self, memory: int, **options: object) -> tuple[float, float, float]:
        """Recall, ARE and million events a second of a HyperCalm."""
        recipe = self.recipe
        options = {"bins": "floor", "item_bytes": 8, **options}
        calm = HyperCalm(memory, recipe.gap, recipe.unit, recipe.k, **options)  # pyright: ignore
        began = time.thread_time()
        calm.update(self.items, self.times)
        seconds = time.thread_time() - began
        return *self.score(calm), len(self.items) / 1e6 / seconds


tables: dict[str, tuple[list[str], list[tuple]]] = {}
"""What was found, by experiment."""
titles: dict[str, str] = {}
KEPT = ("gaps", "promotion", "cache")
"""What docs/periodic.md speaks of."""


def table(name: str, title: str, head: list[str], rows: list[tuple]) -> None:
    """One Markdown table."""
    tables[name], titles[name] = (head, rows), title
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        shown = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        print(f"| {' | '.join(shown)} |")


def memory(stream: Stream) -> None:
    """Recall and speed against memory."""
    rows = []
    for size in (20_000, 30_000, 50_000, 100_000, 200_000, 500_000):
        bloom = HyperBloom(size // 10, stream.recipe.gap)
        said = bloom.update(stream.items, stream.times)
        rows.append((size, float((said & stream.starts).sum() / stream.starts.sum()),
                     *stream.run(size)))  # fmt: skip
    table(
        "memory",
        "Memory",
        ["bytes", "recall of starts, a tenth of it", "recall", "ARE", "Mops"],
        rows,
    )


def gaps(stream: Stream) -> None:
    """Recall of batch starts by the length of the gap before them."""
    gap = stream.recipe.gap
    order = np.lexsort((np.arange(len(stream.items)), stream.items))
    before = np.full(len(stream.items), -1, np.int64)
    same = stream.items[order[1:]] == stream.items[order[:-1]]
    distance = stream.times[order[1:]] - stream.times[order[:-1]]
    before[order[1:]] = np.where(same, distance, -1)
    said = {
        "stamped": HyperBloom(500_000, gap),
        "paper": HyperBloom(500_000, gap, stamped=False),
        "synchronous": SynchronousBloom(500_000, gap),
    }
    found = {name: bloom.update(stream.items, stream.times) for name, bloom in said.items()}
    rows = []
    for low, high in ((1, 1.0625), (1.0625, 1.125), (1.125, 1.25), (1.25, 1.5), (1.5, 2), (2, 3),
                      (3, 4), (4, 5), (5, 7), (7, 10), (10, 20)):  # fmt: skip
        here = (before > low * gap) & (before <= high * gap)
        recalls = (round(float(found[name][here].mean()), 3) for name in said)
        rows.append((f"{low:g} to {high:g}", *recalls))
    table("gaps", "Recall by gap, in T, 500 KB", ["gap", *said], rows)


def timelines(stream: Stream) -> None:
    """The asynchronous timeline against one where all arrays change at once."""
    rows = []
    for size in (5_000, 20_000, 50_000):
        found = []
        gap = stream.recipe.gap
        for bloom in (
            HyperBloom(size, gap),
            HyperBloom(size, gap, stamped=False),
            SynchronousBloom(size, gap),
        ):
            said = bloom.update(stream.items, stream.times)
            found.append(float((said & stream.starts).sum() / stream.starts.sum()))
        rows.append((size, *found))
    table(
        "timelines",
        "Timelines: recall of starts",
        ["bytes", "stamped", "paper", "synchronous"],
        rows,
    )


def promotion(events: int) -> None:
    """Probability that a cold item enters Space-Saving, against (1 - (R / (R + 1))^w)^(P - 1).

    One bucket: eight hot items fill it; between two occurrences of a cold item come R newcomers
    on the average, each once.
    """
    rng = np.random.default_rng(1)
    rows = []
    for ways in (8, 16, 32):
        for ratio in (4, 16, 64):
            for promote in (2, 3):
                made = CalmSpaceSaving(576 + 4 * ways, 8, promote=promote, queue_ways=ways)
                made.update(np.repeat(np.arange(8), 1_000))
                entered, trials = 0, max(events // 200, 100)
                for _ in range(trials):
                    waits = rng.geometric(1 / (ratio + 1), promote - 1) - 1
                    items = np.arange(promote + waits.sum()) + 1_000
                    items[np.cumsum([0, *(waits + 1)])] = 99
                    one = made.copy()
                    one.update(items)
                    entered += 99 in one.top()["item"].to_pylist()
                theory = (1 - (ratio / (ratio + 1)) ** ways) ** (promote - 1)
                share = round(entered / trials, 3)
                rows.append((ways, ratio, promote, share, round(theory, 3)))
    table("promotion", "Promotion of a cold pair", ["w", "R", "P", "measured", "theory"], rows)


def sweeps(stream: Stream) -> None:
    """Promotion count, queue length and the recorder's share."""
    rows = [("P", p, *stream.run(30_000, promote=p)) for p in (1, 2, 4, 10, 20)]
    rows += [("w, ways a bucket", w, *stream.run(30_000, queue_ways=w)) for w in (8, 16, 32)]
    rows += [("recorder, %", c, *stream.run(30_000, recorder_percent=c)) for c in (30, 45, 60, 75)]
    table("sweeps", "Sweeps at 30 KB", ["what", "value", "recall", "ARE", "Mops"], rows)


def bins(events: int) -> None:
    """Periods anywhere relative to the bins: how much of an item's beats its best pair holds."""
    rng = np.random.default_rng(2)
    rows = []
    unit, gap = 1_000, 100
    for offset in (0, 125, 250, 375, 500, 625, 750, 875):
        beats = max(events // 4_000, 100)
        period = 10 * unit + offset
        begins = rng.integers(0, period, 20)[:, None] + period * np.arange(beats)
        begins = begins + rng.integers(-50, 51, begins.shape)
        order = np.argsort(begins, axis=None, kind="stable")
        items = np.repeat(np.arange(20), beats)[order]
        times = np.maximum(begins.ravel()[order], 0)
        held = []
        for kind in ("floor", "joined"):
            calm = HyperCalm(60_000, gap, unit, 60, bins=kind)
            calm.update(items, times)
            best: Counter = Counter()
            for row in calm.top().to_pylist():
                best[row["item"]] = max(best[row["item"]], row["periodicity"])
            held.append(float(np.mean([best[item] / (beats - 1) for item in range(20)])))
        rows.append((offset / unit, *held))
    table(
        "bins",
        "Bins: share of an item's intervals in its best pair, by where the period lies in a unit",
        ["offset, units", "floor", "joined"],
        rows,
    )


def cache(events: int) -> None:
    """Hit rates of the example's caches."""
    from periodic_cache import generated, run

    results = run(*generated(min(events, 200_000)))
    rows = [
        (name, round(float(hits.mean()), 4), round(1000 * n / len(hits), 1))
        for name, (hits, n) in results.items()
    ]
    table("cache", "Cache, 640 lines", ["cache", "hit rate", "prefetches / 1000 requests"], rows)


def main() -> None:
    of_stream = {"memory": memory, "gaps": gaps, "timelines": timelines, "sweeps": sweeps}
    of_size = {"promotion": promotion, "bins": bins, "cache": cache}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="*", choices=[*of_stream, *of_size, []])
    parser.add_argument("--full", action="store_true", help="ten times as many events")
    parser.add_argument("--plot", type=Path, help="draw them into this file as well")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/")
    arguments = parser.parse_args()
    chosen = arguments.experiments or [*of_stream, *of_size]
    if set(chosen) & set(of_stream):
        stream = Stream("P10" if arguments.full else "S1")
    for name in chosen:
        if name in of_stream:
            of_stream[name](stream)
        else:
            of_size[name](2_000_000 if arguments.full else 100_000)
    if arguments.plot:
        plot(tables, arguments.plot)
    if arguments.keep:
        kept = [Table(name, titles[name], *map(list, tables[name])) for name in KEPT]
        keep("periodic-experiments", kept, ["numpy", "numba"])


if __name__ == "__main__":
    main()
