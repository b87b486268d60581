"""`muntin serve`: live answers from a ledger; `muntin coordinator`: a top k over several sites."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muntin.cli.tables import LEDGER
from muntin.errors import BadArgument

if TYPE_CHECKING:
    from muntin.ledger.base import Ledger
    from muntin.server.serving import Server

READER_TOKEN = typer.Option(
    None, help="Holds the token to read; or set MUNTIN_TOKEN.", exists=True, dir_okay=False
)
HOST, PORT = "127.0.0.1", 8787


def register(app: typer.Typer) -> None:
    @app.command()
    def serve(
        ledger: str = LEDGER,
        host: str = typer.Option(HOST, help="Where to listen; beyond loopback with a token."),
        port: int = typer.Option(PORT, help="Where to listen; 0: a free one."),
        token_file: Path = READER_TOKEN,
        operator_token_file: Path = typer.Option(
            None,
            help="Holds the token to read and command; or set MUNTIN_OPERATOR_TOKEN.",
            exists=True,
            dir_okay=False,
        ),
        read_only: bool = typer.Option(False, "--read-only", help="Refuse slow_down and resume."),
        origin: list[str] = typer.Option(
            [], help="A further origin whose pages may connect, e.g. https://ops.example"
        ),
        host_name: list[str] = typer.Option(
            [], help="A further name under which the server is called."
        ),
        postgres: str = typer.Option(
            None, help="Listen for PostgreSQL's clients, e.g. at 127.0.0.1:5433"
        ),
        agents: bool = typer.Option(False, "--agents", help="Answer agents, at /mcp (MCP)."),
        certificate: Path = typer.Option(
            None, help="PEM file: PostgreSQL's clients may then use TLS, and beyond loopback must."
        ),
        key: Path = typer.Option(None, help="PEM file: the certificate's key."),
    ) -> None:
        """Serve a ledger: dashboard, HTTP and WebSocket, and PostgreSQL's protocol."""
        from muntin.ledger.open import open_ledger
        from muntin.server.serving import Server

        opened = open_ledger(ledger, create=False)
        server = Server(
            opened,
            host=host,
            port=port,
            tokens=lambda: (
                _secret(token_file, "MUNTIN_TOKEN"),
                _secret(operator_token_file, "MUNTIN_OPERATOR_TOKEN"),
            ),
            read_only=read_only,
            origins=origin,
            hosts=host_name,
            postgres=postgres,
            certificate=certificate,
            key=key,
            agents=agents,
        )
        with _ended_in_order(server), closing(opened):
            typer.echo(f"dashboard, HTTP and WebSocket:  {server.url}")
            if server.postgres_url:
                typer.echo(f"PostgreSQL's clients:  psql {server.postgres_url}")
            if agents:
                typer.echo(f"agents (MCP):  {server.url}/mcp")
            server.run()

    @app.command()
    def coordinator(
        file: Path = typer.Argument(help="The coordinator's file."),
        port: int = typer.Option(
            None, min=0, max=65535, help="Instead of the file's; 0: a free one."
        ),
        token_file: Path = READER_TOKEN,
    ) -> None:
        """Keep a top k over several sites, and serve it."""
        import logging

        from muntin.sites.coordinating import CoordinatorServer

        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        token = token_in(token_file) if token_file else None
        server = CoordinatorServer(file, reader_token=token, port=port)
        spec = server.spec
        with _ended_in_order(server):
            typer.echo(f"top {spec.k} over {', '.join(spec.sites)}:  {server.url}/top_k")
            typer.echo(f"sites connect to:  {server.address}")
            typer.echo(f"in SELECT:  FROM top_k({spec.name}, {spec.k})")
            server.run()


@contextmanager
def _ended_in_order(server: Server) -> Iterator[None]:
    """Signals ask the server to end, however many come. It hears of them itself only while it runs:
    one before, or after, would kill this process in its midst."""
    ends = (signal.SIGINT, signal.SIGTERM)
    for number in ends:
        signal.signal(number, server.ask_to_end)
    yield
    for number in ends:
        signal.signal(number, signal.SIG_IGN)  # Python drops other handlers before it has ended


def beside(
    ledger: Ledger,
    port: int | None,
    *,
    show: bool = False,
    begun: Callable[[], bool] = lambda: True,
) -> Server:
    """A server in a thread of this process, on loopback; `show` opens its page. It is ready when
    the pipeline has `begun`.

    Where nobody asked for a port, it is 8787, or a free one. BadArgument where the one that was
    asked for is taken.
    """
    from muntin.server.serving import Server

    try:
        server = Server(ledger, port=PORT if port is None else port, begun=begun)
    except BadArgument:
        if port is not None:
            raise
        server = Server(ledger, port=0, begun=begun)
    server.start()
    typer.echo(f"dashboard:  {server.url}")
    open_page(server.url, show=show)
    return server


def open_page(url: str, *, show: bool) -> None:
    """Open a page in the browser, where there is a screen to show one."""
    import webbrowser

    if show and (os.environ.get("DISPLAY") or sys.platform == "darwin"):
        webbrowser.open(url)


def _secret(path: Path | None, variable: str) -> str:
    """From a file or the environment: a command line can be read by every process."""
    return token_in(path) if path else os.environ.get(variable, "")


def token_in(path: Path) -> str:
    """The token that a file holds. Raises BadArgument: it holds none (without one everybody could
    come in), or several."""
    found = path.read_bytes().strip()
    if not found or not found.isascii():
        raise BadArgument(f"{path} holds no token: write one, as `openssl rand -hex 16` gives")
    if len(found.splitlines()) > 1:
        raise BadArgument(f"{path} holds several lines: a token is one, and there is one of each")
    return found.decode()
