"""`muntin rejected`: the records that were not counted, and why."""

from __future__ import annotations

from itertools import islice

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def rejected(
        ledger: str = typer.Option(..., "--ledger", "-l", help="For example sqlite:///flights.db"),
        pipeline: str = typer.Option("", help="Only this pipeline's."),
        limit: int = typer.Option(20, min=1, max=100_000),
    ) -> None:
        """Show the records that were rejected, with their reason."""
        from rich.console import Console
        from rich.table import Table

        from muntin.ledger.open import open_ledger

        console = Console()
        opened = open_ledger(ledger, create=False)
        try:
            infos = [p for p in opened.pipelines() if pipeline in ("", p.name)]
            for info in infos:
                console.print(f"{info.name}: {info.rejected:,} of {info.read:,} events rejected")
                if not info.rejected:
                    continue
                table = Table("reason", "detail", "where", "record")
                kept = opened.rejected(info.name, limit=limit)
                for _, record in islice(kept, limit):
                    raw = record.raw.decode("utf-8", "replace")
                    table.add_row(record.reason, record.detail, record.place, raw[:200])
                console.print(table)
        finally:
            opened.close()
