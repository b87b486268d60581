"""A picture of what `compare` found. Needs matplotlib (the notebook extra)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from muntin.extras import needs

COSTS = ("messages", "entries", "bytes")


def plot(table: Mapping[str, Mapping[str, float]], path: str | PathLike[str]) -> None:
    """Draw messages, entries and bytes per 100 windows of each policy into a PNG or SVG.

    Parameters
    ----------
    table : from `compare`
    path : file to write; its ending says the format

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    needs("notebook", "a plot", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    for place, cost in enumerate(COSTS, 1):
        axis = figure.add_subplot(1, len(COSTS), place)
        bars = axis.bar(list(table), [row[cost] for row in table.values()])
        axis.bar_label(bars, fmt="{:,.0f}", fontsize=7)
        axis.set_yscale("symlog", linthresh=10)
        axis.set_title(f"{cost} per 100 windows", fontsize=9)
        axis.tick_params(axis="x", labelrotation=30, labelsize=8)
    figure.savefig(path, dpi=120)
