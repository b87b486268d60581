"""One figure of the experiments about periodic batches, from the tables that they print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Tables = Mapping[str, tuple[list[str], list[tuple]]]
"""By the experiment's name: the head and the rows."""


def plot(tables: Tables, path: Path) -> None:
    """Draw those experiments that were run; the rest stay empty."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(15, 8))
    draw = {
        "memory": _memory,
        "gaps": _gaps,
        "timelines": _timelines,
        "promotion": _promotion,
        "sweeps": _sweeps,
        "bins": _bins,
    }
    for (name, drawn), axis in zip(draw.items(), axes.ravel(), strict=True):
        if name in tables:
            drawn(axis, *tables[name])
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def _memory(axis: Any, _: list[str], rows: list[tuple]) -> None:
    kilobytes = [f"{row[0] / 1000:g}" for row in rows]
    axis.set_title("HyperCalm: recall and speed by memory")
    axis.plot(kilobytes, [row[2] for row in rows], "o-", label="recall of the top k")
    axis.plot(kilobytes, [row[1] for row in rows], "s:", label="recall of starts, a tenth of it")
    axis.set(xlabel="KB", ylabel="recall", ylim=(0, 1.05))
    speed = axis.twinx()
    speed.plot(kilobytes, [row[4] for row in rows], "^--", color="tab:green")
    speed.set_ylabel("million events a second (green)")
    speed.set_ylim(bottom=0)
    axis.legend(loc="lower right")


def _gaps(axis: Any, head: list[str], rows: list[tuple]) -> None:
    axis.set_title("HyperBloom, 500 KB: recall by the gap before a batch")
    for column, name in enumerate(head[1:], 1):
        axis.plot([row[0] for row in rows], [row[column] for row in rows], "o-", label=name)
    axis.set(xlabel="gap, in T", ylabel="recall", ylim=(0, 1.05))
    axis.tick_params(axis="x", rotation=45)
    axis.legend()


def _timelines(axis: Any, head: list[str], rows: list[tuple]) -> None:
    axis.set_title("Asynchronous and synchronous timelines")
    for column, name in enumerate(head[1:], 1):
        axis.plot([row[0] / 1000 for row in rows], [row[column] for row in rows], "o-", label=name)
    axis.set(xlabel="KB", ylabel="recall of starts", ylim=(0, 1.05))
    axis.legend()


def _promotion(axis: Any, _: list[str], rows: list[tuple]) -> None:
    axis.set_title("A cold pair is promoted: measured and theory")
    for promote, sign in ((2, "o"), (3, "s")):
        here = [row for row in rows if row[2] == promote]
        axis.plot([row[4] for row in here], [row[3] for row in here], sign, label=f"P = {promote}")
    axis.plot([0, 1], [0, 1], "k:", linewidth=1)
    axis.set(xlabel="theory", ylabel="measured", xlim=(0, 1), ylim=(0, 1))
    axis.legend()


def _sweeps(axis: Any, _: list[str], rows: list[tuple]) -> None:
    axis.set_title("HyperCalm, 30 KB: parameters")
    for name in dict.fromkeys(row[0] for row in rows):
        here = [row for row in rows if row[0] == name]
        axis.plot([row[1] for row in here], [row[2] for row in here], "o-", label=name)
    axis.set(xlabel="value", ylabel="recall", ylim=(0, 1.05))
    axis.legend()


def _bins(axis: Any, head: list[str], rows: list[tuple]) -> None:
    axis.set_title("Share of an item's intervals in its best pair")
    for column, name in enumerate(head[1:], 1):
        axis.plot([row[0] for row in rows], [row[column] for row in rows], "o-", label=name)
    axis.set(xlabel="where the period lies in a unit", ylabel="share", ylim=(0, 1.05))
    axis.legend()
