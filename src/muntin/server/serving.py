"""Run the server: in the foreground, or in a thread beside a pipeline."""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette

from muntin.errors import BadArgument, LedgerError, needs
from muntin.hosts import is_loopback
from muntin.ledger.base import Ledger
from muntin.server.app import Extension, make_app
from muntin.server.auth import Auth
from muntin.server.connections import ACCEPTS_AT_ONCE
from muntin.server.limits import ServerLimits
from muntin.server.live import Tokens
from muntin.server.postgres.certificate import Certificate
from muntin.server.sockets import protocols

PORT = 8787
BACKLOG = 2048  # asyncio's 100 is lost at once in a storm of reconnects
START_SECONDS = 60.0  # a busy machine takes seconds, and is not at fault
STOP_SECONDS = 5


class Server:
    """A server that listens; `run()` it here, or `start()` it in a thread.

    `ledger` stays the caller's to close. `host`, `port`: loopback by default; port 0 takes a free
    one. `reader_token`, `operator_token`: without one, only loopback is listened on. `read_only`,
    `origins`, `hosts`: see `Auth`. `postgres`: where PostgreSQL's clients connect,
    "127.0.0.1:5433"; port 0 takes a free one. `certificate`, `key`: PEM files for their TLS, which
    is a must from other machines. `agents`: agents may ask at `/mcp`. `begun`: whether the pipeline
    beside has begun, for `/readyz`. `tokens` gives both tokens anew every `limits.recheck_seconds`:
    who came in with one that is no longer given is closed.

    Raises BadArgument: a host beyond loopback without a token, or an address that cannot be
    listened on.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        reader_token: str = "",
        operator_token: str = "",
        read_only: bool = False,
        origins: Sequence[str] = (),
        hosts: Sequence[str] = (),
        limits: ServerLimits | None = None,
        tokens: Tokens | None = None,
        extension: Extension | None = None,
        postgres: str | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        agents: bool = False,
        begun: Callable[[], bool] = lambda: True,
    ) -> None:
        if agents:
            needs("agents", "/mcp")
        if tokens is not None:
            reader_token, operator_token = tokens()
        limits = limits or ServerLimits()
        auth = Auth(
            reader_token=reader_token,
            operator_token=operator_token,
            read_only=read_only,
            origins=origins,
            hosts=hosts,
            limits=limits,
            now=time.monotonic,
        )
        postgres_host, postgres_port = ("", 0) if postgres is None else _postgres(postgres)
        encrypts = _certificate(certificate, key, postgres)
        beyond = [h for h in (host, postgres_host) if h and not is_loopback(h)]
        if beyond and auth.everybody:
            raise BadArgument(
                f"host {beyond[0]} can be reached from other machines: set MUNTIN_TOKEN (to read) "
                "or MUNTIN_OPERATOR_TOKEN (to read and command) first, or listen on 127.0.0.1"
            )
        if postgres is None:
            limits = replace(limits, postgres_connections_max=0)
        self._socket = _listening(host, port)
        self.url = f"http://{_shown(host)}:{self._socket.getsockname()[1]}"
        self._postgres: socket.socket | None = None
        self.postgres_url = ""
        """For psql and other clients; "" where they cannot connect."""
        if postgres is not None:
            try:
                self._postgres = _listening(postgres_host, postgres_port, "--postgres address")
            except BadArgument:
                self._socket.close()
                raise
            port = self._postgres.getsockname()[1]
            self.postgres_url = f"postgresql://muntin@{_shown(postgres_host)}:{port}/muntin"
        self.app: Starlette = make_app(
            ledger, auth, limits, tokens, extension, self._postgres, encrypts, agents, begun
        )
        self._server = _Uvicorn(_config(self.app, limits))
        self._server.goodbye = self.app.state.goodbye
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until a signal comes."""
        self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """Serve in a thread; returns when it answers."""
        self._thread = threading.Thread(target=self.run, name="muntin-server", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise LedgerError("the server did not start; its log says more")
            time.sleep(0.01)

    def ask_to_end(self, *_: object) -> None:
        """Let `run` end in order; for signal handlers, too."""
        self._server.should_exit = True

    def stop(self) -> None:
        """Say goodbye to the clients and end the thread."""
        self.ask_to_end()
        if self._thread is not None:
            self._thread.join(timeout=6 * STOP_SECONDS)
        self._socket.close()
        if self._postgres is not None:
            self._postgres.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Uvicorn(uvicorn.Server):
    """Says goodbye before it waits for connections to end: a stream of events never does."""

    goodbye: Callable[[], None]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Asked to, however often, it ends in order. (uvicorn would raise the signal again at the
        end, which kills, and the second time not wait, and log a trace.)"""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)  # asyncio has made it as short as what it accepts at once

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.goodbye()
        await super().shutdown(sockets)


def _config(app: Starlette, limits: ServerLimits) -> uvicorn.Config:
    http, websocket = protocols(limits)
    settings: dict[str, Any] = {
        "http": http,
        "ws": websocket,
        "ws_max_size": limits.message_bytes_max,
        "ws_ping_interval": limits.ping_seconds,
        "ws_ping_timeout": limits.pong_seconds,
        "ws_per_message_deflate": False,  # measured: 4.4 times the CPU
        "h11_max_incomplete_event_size": limits.head_bytes_max,
        "loop": "asyncio",  # what connections.py knows of accepting
        "backlog": ACCEPTS_AT_ONCE,
        "timeout_graceful_shutdown": STOP_SECONDS,
        "server_header": False,
        "proxy_headers": False,  # nobody's word is taken for who they are
        "log_level": "warning",
        "access_log": False,
    }
    return uvicorn.Config(app, **settings)


def _postgres(text: str) -> tuple[str, int]:
    """Host and port. Raises BadArgument."""
    needs("postgres", "--postgres")
    host, mark, port = text.rpartition(":")
    if not mark or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadArgument(
            f"--postgres {text[:80]!r} is no address: write host:port, 127.0.0.1:5433"
        )
    return host.strip("[]"), int(port)


def _certificate(
    chain: str | Path | None, key: str | Path | None, postgres: str | None
) -> Certificate | None:
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        raise BadArgument("a certificate needs its key: give --certificate and --key")
    if postgres is None:
        raise BadArgument(
            "--certificate is for PostgreSQL's clients: give --postgres as well "
            "(HTTP is encrypted by what stands in front of the server)"
        )
    return Certificate(Path(chain), Path(key))


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listening(host: str, port: int, option: str = "--port") -> socket.socket:
    if not host:  # which would be all of this machine's addresses
        raise BadArgument("--host is empty: write 127.0.0.1, or 0.0.0.0 for all addresses")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with the protocol said, asyncio sends at once: else an answer in two pieces waits for 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as problem:
        listening.close()
        why = getattr(problem, "strerror", "ports are 0 to 65535")
        if isinstance(problem, socket.gaierror):
            option = option.replace("--port", "--host")
        raise BadArgument(
            f"cannot listen on {host}:{port}: {why}; choose another {option}"
        ) from None
    return listening
