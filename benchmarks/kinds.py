"""Kinds of summary in a pipeline: what a pane costs, and what a day of them costs to merge.

    python benchmarks/kinds.py [--panes 8640] [--events 200] [--keys 20]

A day of 10-second panes is merged twice: all panes at once (what a question without rollups would
do), and from rollups (what a question does: the ladder 1 minute, 10 minutes, 1 hour, 6 hours and
1 day). `read` is from bytes, as from the ledger; a pane that is in the reader's cache costs none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from _timing import in_turn

from muntin.kinds import SummarySpec
from muntin.select.catalog import SummaryInfo
from muntin.select.functions import TABLE_FUNCTIONS
from muntin.spec import Pipeline

KINDS: dict[str, tuple[dict[str, Any], str, tuple[Any, ...]]] = {
    "quantiles": ({"kind": "quantiles", "value": "delay"}, "quantiles", (0.5, 0.99)),
    "quantiles by": (
        {"kind": "quantiles", "value": "delay", "by": "origin"}, "quantiles", (0.5, 0.99),
    ),
    "frequency": ({"kind": "frequency", "item": "dest"}, "frequency", ("d1", "d2")),
    "top_k": ({"kind": "top_k", "item": "dest", "capacity": 100}, "top_k", (10,)),
    "distinct": ({"kind": "distinct", "item": "tail"}, "distinct", ()),
    "distinct by": ({"kind": "distinct", "item": "tail", "by": "origin"}, "distinct", ()),
    "fingerprint": ({"kind": "fingerprint", "key": "tail"}, "contains", ("t1", "t2")),
    "fingerprint rank": (
        {"kind": "fingerprint", "key": "tail", "rank": "delay"}, "quantiles", (0.5, 0.99),
    ),
}  # fmt: skip
LADDER = (6, 10, 6, 6, 4)  # panes of 10 s a minute, minutes in ten, ... quarters of a day


def batch_of(rng: np.random.Generator, events: int, keys: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "origin": pa.array([f"o{i}" for i in rng.integers(0, keys, events)]),
            "dest": pa.array([f"d{i}" for i in rng.zipf(1.3, events) % 5000]),
            "tail": pa.array([f"t{i}" for i in rng.integers(0, 50_000, events)]),
            "delay": pa.array(rng.gamma(2.0, 15.0, events)),
        }
    )


def rolled_up(spec: SummarySpec, parts: list[Any]) -> list[Any]:
    """The rollups that stand for a day: 1, if it is a whole one."""
    for several in LADDER:
        parts = [spec.merged(parts[at : at + several]) for at in range(0, len(parts), several)]
    return parts


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--panes", type=int, default=8640)
    parser.add_argument("--events", type=int, default=200, help="in a pane")
    parser.add_argument("--keys", type=int, default=20, help="values of `by`")
    parser.add_argument("--only", default="", help="kinds whose name begins so")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    batches = [batch_of(rng, options.events, options.keys) for _ in range(64)]
    print(f"{options.panes} panes of {options.events} events\n")
    print(
        f"{'':18}{'update':>10}{'bytes':>9}{'read':>10}{'day from panes':>16}"
        f"{'from rollups':>14}{'ask':>10}{'ratio':>8}"
    )
    for name, (entry, function, arguments) in KINDS.items():
        if name.startswith(options.only):
            measure(name, entry, function, arguments, batches, options.panes)


def measure(
    name: str,
    entry: dict[str, Any],
    function: str,
    arguments: tuple[Any, ...],
    batches: list[pa.RecordBatch],
    panes: int,
) -> None:
    spec = Pipeline.of(
        {"name": "p", "time": "t", "pane": "10 s", "summaries": {"s": entry}}
    ).summaries["s"]
    info = SummaryInfo("s", spec.kind, **spec.asked())
    table = TABLE_FUNCTIONS[function]

    def pane(number: int) -> Any:
        summary = spec.new()
        spec.update(summary, batches[number % len(batches)])
        return summary

    def ask(summary: Any) -> Any:
        return table.rows(summary, info, arguments)

    for number in range(3):
        spec.read(spec.merged([pane(number), pane(number + 1)]).to_bytes())
    updating, summaries = seconds(lambda: [pane(number) for number in range(panes)])
    payloads = [summary.to_bytes() for summary in summaries]
    reading, parts = seconds(lambda: [spec.read(payload) for payload in payloads])
    tops = [spec.read(top.to_bytes()) for top in rolled_up(spec, parts)]
    ask(spec.merged(tops))

    def from_rollups() -> Any:
        return tops[0] if len(tops) == 1 else spec.merged(tops)

    taken = in_turn(
        {
            "panes": lambda: ask(spec.merged(parts)),
            "rollups": lambda: ask(from_rollups()),
            "read rollups": lambda: ask(spec.merged([spec.read(t.to_bytes()) for t in tops])),
        },
        repeats=3,
        warm=1,
    )
    best = {run: min(each) for run, each in taken.items()}
    size = sum(map(len, payloads)) / panes
    print(
        f"{name:18}{updating / panes * 1e6:>8.0f}us{size:>9,.0f}{reading / panes * 1e6:>8.0f}us"
        f"{best['panes'] * 1e3:>14.1f}ms{best['read rollups'] * 1e3:>12.2f}ms"
        f"{best['rollups'] * 1e3:>8.2f}ms{best['panes'] / best['read rollups']:>7.0f}x",
        flush=True,
    )


if __name__ == "__main__":
    main()
