"""`muntin export`: sketches into a table that others read."""

from __future__ import annotations

from contextlib import closing
from typing import Literal

import typer

from muntin.cli.tables import LEDGER


def register(app: typer.Typer) -> None:
    @app.command()
    def export(
        summary: str = typer.Argument(help="Of kind quantiles or distinct."),
        place: str = typer.Argument(help="A folder, a Delta table, or namespace.table of Iceberg."),
        ledger: str = LEDGER,
        to: Literal["parquet", "delta", "iceberg"] = typer.Option(
            "parquet", help="delta and iceberg: pip install 'muntin\\[export]'."
        ),
        panes: bool = typer.Option(False, "--panes", help="Sealed panes, not closed windows."),
        catalog: str = typer.Option("default", help="Of Iceberg, as PyIceberg names it."),
    ) -> None:
        """Append what is new of a summary, as sketches of Apache DataSketches, each window once."""
        from muntin.exporting import export
        from muntin.ledger.open import open_ledger

        what = "panes" if panes else "windows"
        with closing(open_ledger(ledger, create=False)) as opened:
            said = export(opened, summary, to, place, of=what, catalog=catalog)
        typer.echo(f"{said.units:,} {what} in {said.rows:,} rows, {said.commits:,} commits")
        if said.waiting:
            typer.echo(f"{said.waiting:,} windows wait for the revision with their late events")
        if said.dropped:
            typer.echo(f"{said.dropped:,} windows cannot go out: retention has dropped their panes")
