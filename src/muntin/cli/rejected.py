"""`muntin rejected`: the records that were not counted, and why."""

from __future__ import annotations

from contextlib import closing

import typer

from muntin.cli.tables import LEDGER


def register(app: typer.Typer) -> None:
    @app.command()
    def rejected(
        ledger: str = LEDGER,
        pipeline: str = typer.Option("", help="Only this pipeline's."),
        limit: int = typer.Option(20, min=1, max=100_000),
    ) -> None:
        """Show the records that were rejected, with their reason."""
        import pyarrow as pa

        from muntin.cli.tables import print_table
        from muntin.ledger.open import open_ledger

        with closing(open_ledger(ledger, create=False)) as opened:
            for info in opened.pipelines():
                if pipeline not in ("", info.name):
                    continue
                typer.echo(f"{info.name}: {info.rejected:,} of {info.read:,} events rejected")
                if not info.rejected:
                    continue
                records = [record for _, record in opened.rejected(info.name, limit=limit)]
                columns = {
                    "reason": [record.reason for record in records],
                    "detail": [record.detail for record in records],
                    "where": [record.place for record in records],
                    "record": [r.raw.decode("utf-8", "replace")[:200] for r in records],
                }
                print_table(pa.table({n: pa.array(v, pa.string()) for n, v in columns.items()}))
