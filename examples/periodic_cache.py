"""A cache that knows what comes back: LRU and LFU with prefetch and protection of batches.

A HyperCalm watches the requests and says when each periodic item is expected next; shortly before
that the item is fetched into the cache. A HyperBloom says which requests go on with a batch; the
LFU cache does not evict items whose batch is going on, nor, with both, what was just fetched
ahead. Beside them, plain LRU and LFU.

    python examples/periodic_cache.py                       # generated requests
    python examples/periodic_cache.py --trace requests.csv  # lines "item,time", time in order
    python examples/periodic_cache.py --plot hits.png

A prefetch is a fetch too: the last column counts them for each thousand requests.
"""

from __future__ import annotations

import argparse
import csv
import heapq
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from muntin.summaries import HyperBloom, HyperCalm

STEP = 128  # requests between two looks at the summary


@dataclass
class LRU:
    """Least recently used."""

    lines: int
    held: OrderedDict = field(default_factory=OrderedDict)

    def request(self, item: object, *_: int) -> bool:
        """Serve an item; true where it was there."""
        hit = item in self.held
        self.fetch(item)
        return hit

    def fetch(self, item: object, *_: int) -> None:
        """Bring an item in as the most recent."""
        self.held[item] = None
        self.held.move_to_end(item)
        if len(self.held) > self.lines:
            self.held.popitem(last=False)


@dataclass
class LFU:
    """Least frequently used, oldest first among equals; a line may be protected for a time."""

    lines: int
    uses: dict = field(default_factory=dict)
    protected: dict = field(default_factory=dict)
    queue: list = field(default_factory=list)
    turn: int = 0

    def request(self, item: object, protect_until: int, now: int) -> bool:
        """Serve an item; true where it was there."""
        hit = item in self.uses
        if not hit:
            self._make_room(now)
        self.uses[item] = self.uses.get(item, 0) + 1
        self._queue(item)
        if protect_until:
            self.protected[item] = protect_until
        return hit

    def fetch(self, item: object, now: int, protect_until: int) -> None:
        """Bring an item in without counting a use."""
        if item not in self.uses:
            self._make_room(now)
            self.uses[item] = 0
            self._queue(item)
        if protect_until:
            self.protected[item] = protect_until

    def _queue(self, item: object) -> None:
        self.turn += 1
        heapq.heappush(self.queue, (self.uses[item], self.turn, item))

    def _make_room(self, now: int) -> None:
        spared = []
        while len(self.uses) >= self.lines:
            uses, turn, item = heapq.heappop(self.queue)
            if self.uses.get(item) != uses:
                continue  # used since it was queued
            if self.protected.get(item, 0) > now and len(spared) < self.lines // 2:
                spared.append((uses, turn, item))
                continue
            del self.uses[item]
            self.protected.pop(item, None)
        for entry in spared:
            heapq.heappush(self.queue, entry)


@dataclass
class Watch:
    """When which item is expected, from a HyperCalm over the requests so far."""

    calm: HyperCalm
    lead: int
    least: int = 4
    due: list = field(default_factory=list)
    planned: dict = field(default_factory=dict)

    def look(self, horizon: int) -> None:
        """Plan the items that are expected before `horizon`."""
        top = self.calm.top()
        names = ("item", "periodicity", "last_batch", "interval", "next_expected")
        for item, beats, last, every, expected in zip(
            *(top[name].to_pylist() for name in names), strict=True
        ):
            # its last beat came in time: what only was steady once is not fetched for ever
            steady = beats >= self.least and expected - last < 1.5 * every
            if steady and expected < horizon and self.planned.get(item, 0) < expected:
                self.planned[item] = expected
                heapq.heappush(self.due, (expected - self.lead, item))

    def ready(self, now: int) -> list:
        """Items to fetch now."""
        found = []
        while self.due and self.due[0][0] <= now:
            at, item = heapq.heappop(self.due)
            if at > now - 4 * self.lead:  # else the beat was missed long ago
                found.append(item)
        return found


def replay(cache, items, times, starts, watch, gap, protect) -> tuple[np.ndarray, int]:
    """Serve all requests; which were hits, and how many items were fetched ahead of time."""
    hits = np.zeros(len(items), np.bool_)
    ahead = 0
    for begin in range(0, len(items), STEP):
        end = min(begin + STEP, len(items))
        if watch is not None:
            watch.look(int(times[end - 1]) + watch.lead)
        for at in range(begin, end):
            now = int(times[at])
            if watch is not None:
                for item in watch.ready(now):
                    cache.fetch(item, now, now + 6 * gap if protect else 0)
                    ahead += 1
            active = protect and not starts[at]  # goes on with a batch
            hits[at] = cache.request(items[at], now + 2 * gap if active else 0, now)
        if watch is not None:
            watch.calm.update(items[begin:end], times[begin:end])
    return hits, ahead


def generated(requests: int, seed: int = 0) -> tuple[list[int], np.ndarray, int, int]:
    """200 items with periods about 10 units of 10 gaps, among Zipf requests: items, times, T, u."""
    rng = np.random.default_rng(seed)
    gap = 40
    unit = 10 * gap
    keys = requests // 2
    weights = np.cumsum(np.arange(1, keys + 1) ** -0.8)
    items = np.searchsorted(weights / weights[-1], rng.random(requests)).astype(np.int64)
    for number in range(200):
        period = int(10 * unit * rng.uniform(0.8, 1.2))
        first = int(rng.integers(0, period))
        for begin in range(first, requests - gap, period):
            at = begin + int(rng.integers(0, gap // 2))
            items[[at, at + gap // 4, at + gap // 3, at + gap // 2]] = keys + number
    return items.tolist(), np.arange(requests, dtype=np.int64), gap, unit


def from_file(path: Path) -> tuple[list[str], np.ndarray, int, int]:
    """Requests of a file, and a gap and unit guessed from its first tenth."""
    with path.open(newline="") as lines:
        rows = [(item, int(time)) for item, time in csv.reader(lines)]
    items, times = [item for item, _ in rows], np.array([time for _, time in rows], np.int64)
    few = max(len(items) // 10, min(len(items), 10_000))
    guess = HyperCalm.for_stream(items[:few], times[:few]).parameters
    return items, times, guess.gap, guess.interval_unit


def run(items, times, gap, unit, lines=640, memory=200_000) -> dict[str, tuple[np.ndarray, int]]:
    """Hits and prefetches of each cache."""
    column = np.array(items)
    starts = HyperBloom(memory // 10, gap).update(column, times)
    results = {}
    for name, make, prefetch, protect in (
        ("LRU", LRU, False, False),
        ("LRU + prefetch", LRU, True, False),
        ("LFU", LFU, False, False),
        ("LFU + prefetch", LFU, True, False),
        ("LFU + protection", LFU, False, True),
        ("LFU + both", LFU, True, True),
    ):
        # Runs of one interval tell a beat from items that are merely frequent.
        calm = HyperCalm(memory, gap, unit, 400, consecutive=True)
        watch = Watch(calm, lead=2 * gap) if prefetch else None
        results[name] = replay(make(lines), column.tolist(), times, starts, watch, gap, protect)
    return results


def plot(results: dict[str, tuple[np.ndarray, int]], path: Path) -> None:
    """Hit rate over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for name, (hits, _) in results.items():
        pieces = np.array_split(hits, 40)
        style = "-" if "+" in name else "--"
        axes.plot([100 * piece.mean() for piece in pieces], style, label=name)
    axes.set(xlabel="time (fortieths of the trace)", ylabel="hits, %", title="Periodic items")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--requests", type=int, default=100_000, help="of the generated trace")
    parser.add_argument("--lines", type=int, default=640)
    parser.add_argument("--memory", type=int, default=200_000, help="bytes of the HyperCalm")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    read = from_file(arguments.trace) if arguments.trace else generated(arguments.requests)
    results = run(*read, lines=arguments.lines, memory=arguments.memory)
    print(f"{len(read[0]):,} requests, {len(set(read[0])):,} items, {arguments.lines} lines")
    for name, (hits, ahead) in results.items():
        print(f"  {name:17} hit rate {hits.mean():.4f}  prefetches {1000 * ahead / len(hits):5.1f}")
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
