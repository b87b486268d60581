"""Standard output: words in colour, and tables for a terminal, for a pipe, for programs."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from muntin.select.result import Result

Format = Literal["table", "json", "jsonl", "csv", "arrow"]
FORMAT = typer.Option(
    "table", "--format", "-f", help="jsonl: an object a row; json: rows, and what they are true of."
)
LEDGER = typer.Option(..., "--ledger", "-l", help="For example sqlite:///flights.db")
ROWS_SHOWN_MAX = 1_000


def coloured(text: str, colour: str) -> str:
    """In colour, unless NO_COLOR (no-color.org) or the terminal wants none. Where this is no
    terminal, `typer.echo` takes it away."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, fg=colour)


def rich_table(table: pa.Table, rows_max: int = ROWS_SHOWN_MAX) -> Table:
    """The first rows as a table for a terminal; numbers to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from muntin.arrow import is_number
    from muntin.select.result_text import cell

    shown_table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for field in table.schema:
        side = "right" if is_number(field.type) else "left"
        shown_table.add_column(field.name, justify=side, overflow="fold")  # nothing is cut off
    for row in _rows(table.slice(0, rows_max)):
        # as it is: neither markup nor control characters of the data do anything
        cells = [(cell(value, cut=False), "dim" if value is None else "") for value in row]
        shown_table.add_row(*[Text(text, style) for text, style in cells])
    return shown_table


def print_table(table: pa.Table, footer: str = "") -> None:
    """To a terminal in its width; into a pipe or a file whole, however wide and long."""
    if not sys.stdout.isatty():
        from muntin.select import result_text

        typer.echo(result_text.table(table.column_names, _rows(table), len(table), cut=False))
        typer.echo(footer) if footer else None
        return
    from rich.console import Console

    console = Console()
    console.print(rich_table(table))
    if len(table) > ROWS_SHOWN_MAX:
        console.print(f"... {len(table) - ROWS_SHOWN_MAX:,} more rows: use --format csv")
    if footer:
        console.print(footer, style="dim", markup=False, highlight=False)


def print_result(result: Result, form: Format) -> None:
    """A result, with what must be said about it where the form has a place for it."""
    if form == "json":
        typer.echo(result.to_json())
    elif form == "table":
        print_table(result.table, result.footer())
    else:
        print_rows(result.table, form)


def print_rows(table: pa.Table, form: Format) -> None:
    """Rows alone, in a form for programs."""
    from muntin.select import result_text

    if form == "arrow":
        import pyarrow as pa

        with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
            stream.write_table(table)
    elif form == "csv":
        typer.echo(result_text.csv(table.column_names, _rows(table)), nl=False)
    elif form == "jsonl":
        for row in _rows(table, plain=True):
            named = dict(zip(table.column_names, row, strict=True))
            typer.echo(json.dumps(named, ensure_ascii=False, allow_nan=False))
    elif form == "json":
        rows = {"columns": table.column_names, "rows": _rows(table, plain=True)}
        typer.echo(json.dumps(rows, ensure_ascii=False, allow_nan=False))
    else:
        print_table(table)


def _rows(table: pa.Table, *, plain: bool = False) -> list[list[object]]:
    """Rows as one reads them; `plain`: as JSON values."""
    from muntin.select.values import json_column, rows_of, text_column

    return rows_of(table, json_column if plain else text_column)
