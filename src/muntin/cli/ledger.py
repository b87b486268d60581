"""`muntin ledger copy`: from one place, or kind of place, to another."""

from __future__ import annotations

from contextlib import closing

import typer


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    app.add_typer(group, name="ledger", help="Move a ledger.")

    @group.callback()
    def _group() -> None:
        pass

    @group.command()
    def copy(
        source: str = typer.Argument(..., help="For example sqlite:///flights.db"),
        target: str = typer.Argument(..., help="For example postgresql://user@host/database"),
    ) -> None:
        """Copy all of a ledger to one that has no pipelines yet; stop the pipelines before."""
        from muntin.ledger.copying import copy_ledger
        from muntin.ledger.open import open_ledger

        with (
            closing(open_ledger(source, create=False)) as opened,
            closing(open_ledger(target)) as made,
        ):
            rows = copy_ledger(opened, made)
            typer.echo(f"{rows:,} rows copied to {made.url}")
