"""Results as tables in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.times import instant_text

if TYPE_CHECKING:
    from rich.table import Table

    from muntin.select.result import Result

ROWS_SHOWN_MAX = 1_000


def result_table(result: Result, rows_max: int = ROWS_SHOWN_MAX) -> Table:
    """A result as a table; numbers to the right."""
    import pyarrow as pa
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for field in result.table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if number else "left")
    for row in result.rows[:rows_max]:
        table.add_row(*[shown(value) for value in row])
    return table


def shown(value: object) -> str:
    """A value as text; null as a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 1e12 else f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def print_result(result: Result) -> None:
    """A result with what must be said about it."""
    from rich.console import Console

    console = Console()
    console.print(result_table(result))
    if len(result.rows) > ROWS_SHOWN_MAX:
        console.print(f"... {len(result.rows) - ROWS_SHOWN_MAX:,} more rows: use --format csv")
    covered = [w.covered for w in result.windows if w.covered]
    parts = [f"{len(result.rows):,} row{'s' if len(result.rows) != 1 else ''}"]
    if covered:
        parts.append(f"{instant_text(covered[0][0])} to {instant_text(covered[0][1])}")
    parts.append("exact" if result.exact else "approximate, with bounds")
    if result.late:
        parts.append(f"{result.late:,} late")
    if result.stale:
        parts.append("[yellow]stale: the pipeline has not committed for a while[/]")
    console.print("[dim]" + " · ".join(parts) + "[/]")
