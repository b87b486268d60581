"""A result for reading: aligned text, CSV, HTML."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from muntin.errors import how_many

_CELL_MAX = 60
_SPECIAL = re.compile(r'[",\r\n]')
HTML_ROWS_MAX = 100


def cell(value: Any, *, cut: bool = True) -> str:
    """A value as a person reads it: to 15 digits of a float (`exactly` of the dashboard's dom.js
    is the same), thousands apart, long text cut; null as NULL, since an empty text is nothing.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 2**53 else f"{value:,.15g}"
    text = str(value).translate(CONTROLS)
    return text if len(text) <= _CELL_MAX or not cut else text[: _CELL_MAX - 3] + "..."


# What moves a terminal's cursor or colours it must not come from a key in the data.
CONTROLS = dict.fromkeys((*range(32), *range(127, 160), 0x202E, 0x2066, 0x2067), "�")
CONTROLS[0x1F] = " · "  # between the parts of a joined item


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], count: int, *, cut: bool = True
) -> str:
    """Columns aligned, numbers to the right; `count` rows there are, of which some are given."""
    cells = [[cell(value, cut=cut) for value in row] for row in rows]
    heads = [cell(name, cut=cut) for name in columns]
    widths = [max([len(h), *(len(r[i]) for r in cells)]) for i, h in enumerate(heads)]
    right = [
        any(isinstance(r[i], int | float) and not isinstance(r[i], bool) for r in rows)
        for i in range(len(heads))
    ]
    lines = [_line(heads, widths, right), "  ".join("-" * w for w in widths)]
    lines += [_line(row, widths, right) for row in cells]
    if len(rows) < count:
        lines.append(f"... and {count - len(rows):,} more")
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
    return "  ".join(parts).rstrip()


def footer(count: int, about: Mapping[str, Any], seconds: float) -> str:
    parts = [how_many(count, "row")]
    for window in about["windows"]:
        covered = window["covered"]
        run = f"{covered['start']} to {covered['end']}" if covered else "nothing"
        part = f"{window['source']} {window['asked']}: {run}"
        parts += [] if part in parts else [part]
    if about["windows"]:
        parts.append("exact" if about["exact"] else "approximate, see bounds")
    if about["revision"]:
        parts.append(f"revision {about['revision']}")
    if about["late"]:
        parts.append(f"{about['late']:,} late")
    if about["stale"]:
        parts.append("STALE: events that came since may be missing")
    if seconds:
        parts.append(f"{seconds * 1000:.1f} ms")
    return "\n".join([" | ".join(parts), *(f"! {note['message']}" for note in about["notes"])])


def csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """RFC 4180 but for its line ends, which are those of pandas and of every tool in a pipe.

    Null is nothing, an empty text is "", as PostgreSQL, Spark and polars tell them apart; but a
    line is never empty.
    """
    lines = [",".join(map(_field, row)) or '""' for row in (columns, *rows)]
    return "\n".join([*lines, ""])


def _field(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if value and not _SPECIAL.search(value):
        return value
    return '"' + value.replace('"', '""') + '"'


def html(columns: Sequence[str], rows: Sequence[Sequence[Any]], count: int, about: str) -> str:
    """A table for notebooks; everything that comes from data is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    cells = ["".join(f"<td>{escape(cell(v))}</td>" for v in row) for row in rows]
    body = [f"<tr>{row}</tr>" for row in cells]
    more = count - len(rows)
    note = f"... and {more:,} more. " if more > 0 else ""
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        f"<p><small>{note}{escape(about).replace(chr(10), '<br>')}</small></p>"
    )
