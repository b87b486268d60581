"""Tables of a benchmark, printed as Markdown and kept as JSON in benchmarks/results/.

docs/evidence.md is written from those files (scripts/evidence.py), and a test holds the two
together, so a figure in it is one that was measured. A file keeps a whole run and a short one: the
short run is what `make bench-check` repeats and compares with.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from _timing import in_turn

RESULTS = Path(__file__).resolve().parent / "results"
UNITS = {"s": 1.0, "ms": 1e3, "µs": 1e6, "ns": 1e9, "MB": 1e-6}


@dataclass
class Table:
    """Rows of a name and figures: numbers, texts, three ratios (see `ratios`), or lists of numbers,
    of which the page shows the first and the last."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)
    note: str = ""

    def markdown(self) -> str:
        lines = [f"| {' | '.join(self.columns)} |", f"|{' --- |' * len(self.columns)}"]
        lines += [f"| {' | '.join(map(shown, row))} |" for row in self.rows]
        return "\n".join([f"{self.title}.", "", *lines, *(["", self.note] if self.note else [])])


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """How many times as long as ours theirs takes: runs taken in turn are compared in pairs.

    A pair of which one is not known (NaN) is left out.
    """
    pairs = [their / our for our, their in zip(ours, theirs, strict=True)]
    found = sorted(ratio for ratio in pairs if not math.isnan(ratio))
    return {
        "worst": round(found[0], 3),
        "median": round(statistics.median(found), 3),
        "best": round(found[-1], 3),
    }


def compared(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
    often: int = 1,
) -> tuple[dict[str, float] | float, float]:
    """Ratios of theirs to ours, run in turn, and theirs' best seconds; 1 where both are the same.

    Processor time unless told otherwise: other work on the machine disturbs it less. What takes a
    millisecond is timed `often` at once: before each run is a garbage collection, after which
    Python's own free lists and the processor's caches are empty.
    """

    runs: dict[str, Callable[[], object]] = {
        "ours": lambda: [ours() for _ in range(often)],
        "theirs": lambda: [theirs() for _ in range(often)],
    }
    seconds = in_turn(runs, repeats, clock=clock)
    return 1.0 if ours is theirs else ratios(**seconds), min(seconds["theirs"]) / often


def timed(
    name: str,
    title: str,
    runs: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    events: int = 1,
    unit: str = "ns an event",
    ours: int = 1,
    warm: int = 1,
    clock: Callable[[], float] = time.process_time,
    note: str = "",
) -> Table:
    """Runs taken in turn: how many times as long as the first each takes, and its best.

    The first `ours` of them are no peers: `check` does not ask that they stay as slow.
    """
    seconds = in_turn(dict(runs), repeats, warm, clock)
    first = seconds[next(iter(runs))]
    table = Table(name, title, ["what", "times as long", unit], note=note)
    for number, (what, taken) in enumerate(seconds.items()):
        found = ratios(first, taken)
        best = digits(min(taken) / events * UNITS[unit.split()[0]])
        table.rows.append([what, found["median"] if number < ours else found, best])
    return table


def digits(number: float) -> float:
    """Three that count."""
    return float(f"{number:.3g}")


def shown(cell: Any) -> str:
    if isinstance(cell, dict):
        worst, median, best = (_short(cell[key]) for key in ("worst", "median", "best"))
        return f"**{median}** ({worst} to {best})"
    if isinstance(cell, list):
        return f"{shown(cell[0])} to {shown(cell[-1])}"
    return _short(cell) if isinstance(cell, float) else f"{cell:,}" if _whole(cell) else str(cell)


def _whole(cell: Any) -> bool:
    return isinstance(cell, int) and not isinstance(cell, bool)


def _short(number: float) -> str:
    """Three digits that count, without an exponent."""
    if number == 0 or number >= 100:
        return f"{number:,.0f}"
    digits = 2
    while number < 10 ** (2 - digits) and digits < 6:
        digits += 1
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


def main(
    job: str, measure: Callable[[bool], Iterable[Table]], packages: Sequence[str], about: str | None
) -> None:
    """The command line of a benchmark: run, print, keep, or compare with what was kept."""
    options = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--short", action="store_true", help="seconds instead of minutes")
    options.add_argument("--keep", action="store_true", help="write benchmarks/results/")
    options.add_argument(
        "--check", action="store_true", help="fail where a ratio fell by more than its spread"
    )
    options.add_argument("--runs", type=int, default=1, help="whose ratios are kept as one")
    chosen = options.parse_args()
    runs: list[list[Table]] = []
    for _ in range(chosen.runs):
        runs.append([])
        for table in measure(chosen.short or chosen.check):
            print(f"\n{table.markdown()}", flush=True)
            runs[-1].append(table)
    tables = together(runs)
    if chosen.check:
        check(job, tables)
    if chosen.keep:
        keep(job, tables, packages, "short" if chosen.short else "whole")


def together(runs: Sequence[list[Table]]) -> list[Table]:
    """The last run's tables, with each ratio's worst, median and best of all runs.

    The spread of one run on a machine that others use is chance; that of several is what a check
    may hold a ratio to.
    """
    *_, last = runs
    for at, table in enumerate(last):
        for row, cells in enumerate(table.rows):
            for column, cell in enumerate(cells):
                if isinstance(cell, dict):
                    same = [run[at].rows[row][column] for run in runs]
                    cells[column] = {
                        "worst": min(one["worst"] for one in same),
                        "median": round(statistics.median(one["median"] for one in same), 3),
                        "best": max(one["best"] for one in same),
                    }
    return last


def check(job: str, tables: Sequence[Table], which: str = "short") -> NoReturn:
    """End, well where no ratio fell by more than the spread of the run that was kept."""
    path = RESULTS / f"{job}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if which not in kept:
        sys.exit(f"{path.name} keeps no {which} run to compare with: run it with --keep")
    before, now = _ratios_of(Table(**one) for one in kept[which]["tables"]), _ratios_of(tables)
    if before and not before.keys() & now.keys():
        sys.exit(f"none of the ratios in {path.name} was measured: run it with --keep")
    fell = list(fallen(before, now))
    if fell and kept[which]["machine"] != machine():
        fell.append(f"These were kept on another machine ({kept[which]['machine']}): {machine()}")
    print("\n".join(fell) or f"{len(now)} ratios, none has fallen by more than its spread")
    sys.exit(bool(fell))


def keep(job: str, tables: Sequence[Table], packages: Sequence[str], which: str = "whole") -> None:
    """Write a run to benchmarks/results/, beside the other one (whole or short) that is there."""
    path = RESULTS / f"{job}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept[which] = run_of(packages, tables)
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n")


def _ratios_of(tables: Iterable[Table]) -> dict[tuple[str, ...], dict[str, float]]:
    """Of peers, by table, row and column: what is ours may well become faster."""
    return {
        (table.name, str(row[0]), column): cell
        for table in tables
        for row in table.rows
        if not str(row[0]).startswith("Muntin")
        for column, cell in zip(table.columns, row, strict=True)
        if isinstance(cell, dict)
    }


def fallen(
    before: Mapping[tuple[str, ...], dict[str, float]],
    now: Mapping[tuple[str, ...], dict[str, float]],
) -> Iterable[str]:
    """What is below the worst that was seen before by more than that run's own spread."""
    for place in before.keys() & now.keys():
        old = before[place]
        # a spread is a factor, so that no spread is so wide that nothing is asked for
        least = old["worst"] * old["worst"] / old["best"]
        least = min(least, old["worst"] * 0.75)  # a spread seen by chance may be tiny
        if now[place]["best"] < least:
            yield (
                f"{', '.join(place)}: {shown(now[place])}; before {shown(old)}, "
                f"at least {_short(least)} is asked"
            )


def run_of(packages: Sequence[str], tables: Iterable[Table]) -> dict[str, Any]:
    command = re.sub(r"\S*benchmarks/", "benchmarks/", " ".join(sys.argv))
    return {
        "command": f"python {command}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1),
        "versions": {
            "Python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in packages},
        },
        "tables": [asdict(table) for table in tables],
    }


def machine() -> str:
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*: (.*)", text)
    return found[1].strip() if found else platform.machine()
