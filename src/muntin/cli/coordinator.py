"""`muntin coordinator`: the global top k over several sites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from muntin.sites.coordinating import CoordinatorServer


def register(app: typer.Typer) -> None:
    @app.command()
    def coordinator(
        file: Path = typer.Argument(help="The coordinator's file."),
        port: int = typer.Option(
            None, min=0, max=65535, help="Instead of the file's; 0: a free one."
        ),
        token_file: Path = typer.Option(
            None, help="Holds the token to read; or set MUNTIN_TOKEN.", exists=True, dir_okay=False
        ),
    ) -> None:
        """Keep a top k over several sites, and serve it."""
        import logging

        from muntin.cli.serve import token_in
        from muntin.sites.coordinating import CoordinatorServer

        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        token = token_in(token_file) if token_file else None
        server = CoordinatorServer(file, reader_token=token, port=port)
        _say(server)
        server.run()


def _say(server: CoordinatorServer) -> None:
    spec = server.spec
    typer.echo(f"top {spec.k} over {', '.join(spec.sites)}:  {server.url}/top_k")
    typer.echo(f"sites connect to:  {server.address}")
    typer.echo(f"in SELECT:  FROM top_k({spec.name}, {spec.k})")
