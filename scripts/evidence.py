"""Write the measured tables of README and docs from benchmarks/results/*.json.

    python scripts/evidence.py

A table stands between `<!-- measured: JOB TABLE -->` and `<!-- end -->`; a ratio alone is asked for
by `<!-- measured: JOB TABLE ROW :: COLUMN -->`. What stands between is replaced; nothing else is
touched. The plots of scripts/plots.py are drawn from the same files. tests/test_evidence.py fails
where a page or a plot is not what this makes of the results.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "scripts"))
from _record import RESULTS, Table, shown  # noqa: E402  # pyright: ignore[reportMissingImports]
from plots import PLOTS, Plot, drawn  # noqa: E402  # pyright: ignore[reportMissingImports]

PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
PART = re.compile(
    r"(<!-- measured: (\S+) (\S+)(?: ([^\n]+?) :: ([^\n]+?))? -->)(.*?)(<!-- end -->)", re.DOTALL
)


def main() -> None:
    for page in PAGES:
        path = ROOT / page
        path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
    for image, plot in PLOTS.items():
        (ROOT / image).write_text(plotted(plot), encoding="utf-8")


def rendered(text: str) -> str:
    """The page with each measured part as the results have it."""
    return PART.sub(lambda found: found[1] + _part(*found.group(2, 3, 4, 5)) + found[7], text)


def plotted(plot: Plot) -> str:
    """The SVG that the results make."""
    _, made = _made(plot.job, plot.table)
    return drawn(plot, made.columns, made.rows)


def _made(job: str, table: str) -> tuple[dict[str, Any], Table]:
    kept = json.loads((RESULTS / f"{job}.json").read_text(encoding="utf-8"))
    run = kept.get("whole") or kept["short"]  # its command and its titles say which
    return run, next(Table(**one) for one in run["tables"] if one["name"] == table)


def _part(job: str, table: str, row: str | None, column: str | None) -> str:
    run, made = _made(job, table)
    if row is None:
        return f"\n{made.markdown()}\n\n{_origin(run)}\n"
    cells = next(cells for cells in made.rows if cells[0] == row)
    return shown(cells[made.columns.index(str(column))])


def _origin(run: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return (
        f"<small>`{run['command']}`, {run['date']}, {run['machine']}, load {run['load']}; "
        f"{versions}</small>"
    )


if __name__ == "__main__":
    main()
