"""What the distributed top-k protocol costs: python benchmarks/topk.py [--runs 10] [--quick].

Prints messages, entries and bytes per 100 windows against the published policies and naive push,
and the time of a slide at a monitor with 100,000 objects.
"""

from __future__ import annotations

import argparse

import numpy as np
from _timing import in_turn, report

from muntin.topk import Factors, Monitor, Request, compare

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
    asked = parser.parse_args()
    slide(100_000)
    zipf(2 if asked.quick else asked.runs, [3, 8] if asked.quick else list(PAPER))
    traffic(1 if asked.quick else min(4, asked.runs))
