"""The sweeps of Chen, Lv, Yu & Liu (2017), figures 4 to 7: k, sites, epsilon, unit.

python benchmarks/characterize/topk.py [--runs 3] [--out FOLDER] [--sweep k] [--stream traffic]

Writes one CSV a sweep and stream (messages, entries and bytes per 100 windows) and one PNG.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from muntin.topk import compare

POLICIES = ["resolution", "lsa", "gsa", "hybrid", "naive"]
SWEEPS: dict[str, tuple[str, list[Any], str]] = {
    "k": ("k", [10, 20, 30, 40, 50], "Figure 4: members k"),
    "sites": ("sites", [3, 5, 8, 10, 15], "Figure 5: sites m"),
    "epsilon": ("epsilon", [0, 25, 50, 75, 100], "Figure 6: tolerance epsilon"),
    "unit": ("unit", [5, 10, 15, 20], "Figure 7: unit w, seconds"),
}


def sweep(name: str, stream: str, runs: int, out: Path, policies: list[str]) -> None:
    option, values, title = SWEEPS[name]
    rows = []
    for value in values:
        table = compare(stream, policies=policies, runs=runs, **{option: value})
        for policy, costs in table.items():
            rows.append({option: value, "policy": policy, **costs})
            print(name, stream, rows[-1], flush=True)
    with (out / f"topk-{name}-{stream}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for axis, cost in zip(axes, ("messages", "bytes"), strict=True):
        for policy in policies:
            own = [row for row in rows if row["policy"] == policy]
            axis.plot([r[option] for r in own], [r[cost] for r in own], marker="o", label=policy)
        axis.set(xlabel=title, ylabel=f"{cost} per 100 windows")
        axis.set_yscale("symlog", linthresh=10)
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.suptitle(f"{stream}: {runs} runs")
    figure.savefig(out / f"topk-{name}-{stream}.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/characterize"))
    parser.add_argument("--sweep", choices=SWEEPS, action="append")
    parser.add_argument("--stream", choices=["zipf", "traffic"], action="append")
    parser.add_argument("--policy", choices=[*POLICIES, "even"], action="append")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for stream in asked.stream or ["zipf", "traffic"]:
        for name in asked.sweep or SWEEPS:
            sweep(name, stream, asked.runs, asked.out, asked.policy or POLICIES)
