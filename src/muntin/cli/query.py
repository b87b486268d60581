"""`muntin query`: a SELECT over a ledger."""

from __future__ import annotations

import sys

import typer

from muntin.cli.tables import FORMAT, LEDGER, Format


def register(app: typer.Typer) -> None:
    @app.command()
    def query(
        statement: str = typer.Argument(help="The SELECT; - reads it from standard input."),
        ledger: str = LEDGER,
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """Answer a SELECT over what a ledger holds; `muntin tables` lists what that is."""
        import muntin
        from muntin.cli.tables import print_result

        if statement == "-":
            statement = sys.stdin.read()
        with muntin.open(ledger) as session:
            print_result(session.sql(statement), format)
