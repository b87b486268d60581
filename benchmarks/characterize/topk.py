"""The sweeps of Chen, Lv, Yu & Liu (2017), figures 4 to 7: k, sites, epsilon, unit.

python benchmarks/characterize/topk.py [--runs 2] [--out FOLDER] [--sweep k] [--stream traffic]
    [--redraw] [--keep]

One CSV and one PNG a sweep and stream: messages, entries and bytes per 100 windows of each policy;
the command that made it stands in the CSV's first line. "even" is the published resolution,
"naive" pushes every change. All eight take some minutes on one core, with two runs each.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import Table, keep

from muntin.topk import compare

POLICIES = ["resolution", "even", "lsa", "gsa", "hybrid", "naive"]
STYLES = {"hybrid": ":x", "naive": "--o"}
COSTS = ["messages", "entries", "bytes"]
STREAMS = {"zipf": "Zipf(2), uniform routing", "traffic": "near-tie drifting traffic"}
SWEEPS: dict[str, tuple[str, list[Any], str]] = {
    "k": ("k", [10, 20, 30, 40, 50], "members k (Figure 4)"),
    "sites": ("sites", [3, 5, 8, 10, 15], "sites m (Figure 5)"),
    "epsilon": ("epsilon", [0, 25, 50, 75, 100], "tolerance epsilon (Figure 6)"),
    "unit": ("unit", [5, 10, 15, 20], "unit w, seconds (Figure 7)"),
}


def sweep(name: str, stream: str, runs: int, out: Path, policies: list[str]) -> list[Any]:
    """A row of the table that is kept."""
    option, values, _ = SWEEPS[name]
    rows: list[dict[str, Any]] = []
    for value in values:
        table = compare(stream, policies=policies, runs=runs, **{option: value})
        for policy, costs in table.items():
            rows.append({option: value, "policy": policy, "runs": runs, **costs})
            print(name, stream, rows[-1], flush=True)
    with (out / f"topk-{name}-{stream}.csv").open("w", newline="") as file:
        file.write(f"# python {' '.join(sys.argv)}\n")
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

    def costs(policy: str, cost: str) -> list[int]:
        return [round(row[cost]) for row in rows if row["policy"] == policy]

    messages = [costs(policy, "messages") for policy in ("resolution", "lsa", "gsa")]
    sent = [costs(policy, "bytes") for policy in ("resolution", "hybrid", "naive")]
    return [f"{option} = {values[0]} to {values[-1]}, {STREAMS[stream]}", *messages, *sent]


def redraw(name: str, stream: str, out: Path) -> None:
    """Draw what a sweep's CSV holds."""
    option, values, title = SWEEPS[name]
    with (out / f"topk-{name}-{stream}.csv").open() as file:
        next(file)  # the command
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row |= {of: float(row[of]) for of in (option, "runs", *COSTS)}
    policies, runs = list(dict.fromkeys(row["policy"] for row in rows)), int(rows[0]["runs"])
    figure, axes = plt.subplots(1, len(COSTS), figsize=(13, 4), constrained_layout=True)
    for axis, cost in zip(axes, COSTS, strict=True):
        for policy in policies:
            own = [row for row in rows if row["policy"] == policy]
            style = STYLES.get(policy, "-o")  # hybrid lies upon resolution where that pays
            axis.plot([r[option] for r in own], [r[cost] for r in own], style, ms=5)
        axis.set(xlabel=title, ylabel=f"{cost} per 100 windows", xticks=values)
        axis.margins(y=0.1)
        least, most = (of(row[cost] for row in rows) for of in (min, max))
        if most > 30 * least:
            axis.set_yscale("symlog", linthresh=10)
        if least < 10 or most <= 30 * least:
            axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    figure.legend(policies, loc="outside right center")
    figure.suptitle(f"{STREAMS[stream]}: mean of {runs} run{'s' if runs > 1 else ''}")
    figure.savefig(out / f"topk-{name}-{stream}.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/characterize"))
    parser.add_argument("--sweep", choices=SWEEPS, action="append")
    parser.add_argument("--stream", choices=STREAMS, action="append")
    parser.add_argument("--policy", choices=POLICIES, action="append")
    parser.add_argument("--redraw", action="store_true", help="From the CSV files that are there.")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    kept = Table(
        "sweeps",
        f"Per 100 windows, 10 sites and k = 10 where nothing else is said, {asked.runs} runs each",
        ["what grows", *(f"{p}, messages" for p in ("resolution", "LSA", "GSA"))],
    )
    kept.columns += [f"{policy}, bytes" for policy in ("resolution", "hybrid", "naive")]
    for stream in asked.stream or STREAMS:
        for name in asked.sweep or SWEEPS:
            if not asked.redraw:
                policies = asked.policy or POLICIES
                kept.rows.append(sweep(name, stream, asked.runs, asked.out, policies))
            redraw(name, stream, asked.out)
    if asked.keep:
        keep("topk-sweeps", [kept], ["numpy", "numba"])
