"""`muntin query`: a SELECT over a ledger."""

from __future__ import annotations

import sys
from typing import Literal

import typer

Format = Literal["table", "json", "csv", "arrow"]


def register(app: typer.Typer) -> None:
    @app.command()
    def query(
        statement: str = typer.Argument(help="The SELECT; - reads it from standard input."),
        ledger: str = typer.Option(..., "--ledger", "-l", help="For example sqlite:///flights.db"),
        format: Format = typer.Option("table", "--format", "-f"),  # noqa: A002
    ) -> None:
        """Answer a SELECT over what a ledger holds."""
        import muntin

        if statement == "-":
            statement = sys.stdin.read()
        with muntin.open(ledger) as session:
            result = session.sql(statement)
            if format == "json":
                typer.echo(result.to_json())
            elif format == "csv":
                typer.echo(result.to_csv(), nl=False)
            elif format == "arrow":
                _write_arrow(result)
            else:
                from muntin.cli.tables import print_result

                print_result(result)


def _write_arrow(result) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sys.stdout.buffer, result.table.schema) as stream:
        stream.write_table(result.table)
