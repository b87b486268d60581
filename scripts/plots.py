"""Error over bytes, and cost over growth, as SVG, from benchmarks/results/*.json.

scripts/evidence.py writes them together with its tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 264, 16, 44
LEGEND = WIDTH - RIGHT + 24


class Plot(NamedTuple):
    """A table's column over its bytes; `part` picks one of several figures in a cell."""

    job: str
    table: str
    column: str
    label: str
    part: int = 0


class Growth(NamedTuple):
    """What follows where something grows, of the table's rows that end in these units."""

    job: str
    table: str
    units: tuple[str, ...]
    label: str


PLOTS: Mapping[str, Plot | Growth] = {
    "docs/images/quantiles-error.svg": Plot(
        "peers-quantiles", "error", "log-normal", "rank error of p99.9, % of all ranks", 1
    ),
    "docs/images/frequency-error.svg": Plot(
        "peers-frequency", "zipf-1.05", "error, ppm of events", "error, millionths of all events"
    ),
    "docs/images/distinct-error.svg": Plot("peers-distinct", "error", "error, %", "error, %"),
    "docs/images/growth-time.svg": Growth("growth", "growth", ("s", "ns"), "times as long"),
    "docs/images/growth-bytes.svg": Growth("growth", "growth", ("MB",), "times as many bytes"),
}
COLOURS = ["#0b7285", "#c92a2a", "#5f3dc4", "#2b8a3e", "#d9480f", "#1864ab", "#a61e4d", "#5c940d"]


def drawn(plot: Plot | Growth, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The SVG of a table; both axes are logarithms."""
    return grown(plot, rows) if isinstance(plot, Growth) else scattered(plot, columns, rows)


def grown(plot: Growth, rows: Sequence[Sequence[Any]]) -> str:
    """A line for each row: how many times what it was at first, over how much there is of it."""
    lines = [
        (str(name), [(s / sizes[0], f / found[0]) for s, f in zip(sizes, found, strict=True)])
        for name, sizes, found, _ in rows
        if str(name).rsplit(", ", 1)[1] in plot.units
    ]
    points = [point for _, line in lines for point in line]
    right = LEFT + WIDTH // 2 - 40
    x, _, high_x = _scale([p[0] for p in points], LEFT, right)
    y, low_y, high_y = _scale([p[1] for p in points], HEIGHT - BOTTOM, TOP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for tick in _ticks(1, high_x):
        out.append(f'<path d="M{x(tick):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e3e6ea"/>')
        out.append(_text(x(tick), HEIGHT - BOTTOM + 16, f"{tick:,.0f}", "middle"))
    for tick in _ticks(low_y, high_y):
        out.append(f'<path d="M{LEFT} {y(tick):.1f}H{right}" stroke="#e3e6ea"/>')
        out.append(_text(LEFT - 6, y(tick) + 4, f"{tick:g}", "end"))
    end = min(high_x, high_y)
    out.append(
        f'<path d="M{x(1):.1f} {y(1):.1f}L{x(end):.1f} {y(end):.1f}" stroke="#868e96" '
        'stroke-dasharray="4 4"/>'
    )
    out.append(_text((LEFT + right) / 2, HEIGHT - 8, "times as many (dashed: linear)", "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f' transform="rotate(-90 14 {middle:.0f})"'
    out.append(_text(14, middle, plot.label, "middle", turned))
    for number, (name, line) in enumerate(lines):
        colour, at = COLOURS[number % len(COLOURS)], TOP + 8 + 18 * number
        way = "L".join(f"{x(across):.1f} {y(up):.1f}" for across, up in line)
        dashes = ' stroke-dasharray="6 2"' if number >= len(COLOURS) else ""
        path = f"M{way}M{right + 16} {at}H{right + 36}"
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        out.append(_text(right + 42, at + 4, name.rsplit(", ", 1)[0], "start"))
    return "\n".join([*out, "</svg>", ""])


def scattered(plot: Plot, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Error over bytes (the first, where there are several); ours are filled."""
    size, value = columns.index("bytes"), columns.index(plot.column)
    points = [
        (str(row[0]), float(_figure(row[size], 0)), _figure(row[value], plot.part))
        for row in rows
        if row[size]
    ]
    points = [point for point in points if point[2] > 0]
    height = max(HEIGHT, TOP + 19 * len(points) + 8)
    x, low_x, high_x = _scale([p[1] for p in points], LEFT, WIDTH - RIGHT)
    y, low_y, high_y = _scale([p[2] for p in points], height - BOTTOM, TOP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for tick in _ticks(low_x, high_x):
        at = x(tick)
        out.append(f'<path d="M{at:.1f} {TOP}V{height - BOTTOM}" stroke="#e3e6ea"/>')
        out.append(_text(at, height - BOTTOM + 16, f"{tick:,.0f}", "middle"))
    for tick in _ticks(low_y, high_y):
        at = y(tick)
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#e3e6ea"/>')
        out.append(_text(LEFT - 6, at + 4, f"{tick:g}", "end"))
    out.append(_text((LEFT + WIDTH - RIGHT) / 2, height - 8, "bytes", "middle"))
    middle = (TOP + height - BOTTOM) / 2
    turned = f' transform="rotate(-90 14 {middle:.0f})"'
    out.append(_text(14, middle, plot.label, "middle", turned))
    for number, (name, across, up) in enumerate(points, 1):
        ours = name.startswith("Muntin")
        fill, ink = ("#0b7285", "#ffffff") if ours else ("#ffffff", "#30363d")
        px, py, line = x(across), y(up), TOP + 8 + 19 * (number - 1)
        for at, down in ((px, py), (LEGEND, line)):
            out.append(
                f'<circle cx="{at:.1f}" cy="{down:.1f}" r="8" fill="{fill}" stroke="#0b7285"/>'
            )
            out.append(_text(at, down + 4, str(number), "middle", ink=ink))
        out.append(_text(LEGEND + 14, line + 4, name, "start"))
    return "\n".join([*out, "</svg>", ""])


def _figure(cell: Any, part: int) -> float:
    """A number, or one of those that a cell shows."""
    if isinstance(cell, int | float):
        return float(cell)
    found = re.findall(r"[0-9.]+(?:e-?[0-9]+)?", str(cell))
    return float(found[part]) if len(found) > part else 0.0


def _scale(
    values: Sequence[float], first: float, last: float
) -> tuple[Callable[[float], float], float, float]:
    low, high = min(values) / 1.4, max(values) * 1.4
    span = math.log(high / low)
    return lambda v: first + (last - first) * math.log(v / low) / span, low, high


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [f * 10.0**p for p in powers for f in (1, 2, 5)]
    found = [value for value in found if low <= value <= high]
    return found if len(found) <= 8 else [v for v in found if f"{v:e}"[0] == "1"]


def _text(x: float, y: float, words: str, anchor: str, more: str = "", ink: str = "#30363d") -> str:
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}"{more}>{words}</text>'
