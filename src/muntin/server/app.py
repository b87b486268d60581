"""The application: HTTP, WebSocket, Server-Sent Events and the page over one ledger."""

import asyncio
import hashlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muntin.ledger.base import Ledger
from muntin.server.auth import Auth
from muntin.server.commands import Commands
from muntin.server.feeds import Feeds
from muntin.server.http import Http
from muntin.server.limits import ServerLimits
from muntin.server.live import Hub, Tokens
from muntin.server.postgres.certificate import Certificate
from muntin.server.problems import plain
from muntin.server.reader import Reader
from muntin.server.sending import Paced
from muntin.server.sse import Events
from muntin.server.statements import Statements

FOLDER = Path(__file__).parent / "dashboard"
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]


@dataclass(frozen=True, slots=True)
class Extension:
    """What a server does beside answering from a ledger, behind the same auth."""

    reader: Reader
    """Answers instead of the ledger's own reader."""
    routes: Callable[[Http], Sequence[BaseRoute]]
    """(Http) -> the routes to add; `http.admitted(request)` says who asks."""
    alongside: Callable[[], AbstractAsyncContextManager[Any]]
    """Is open while the server runs, on its loop."""
    metrics: Callable[[], Iterable[Metric]]
    """What GET /metrics shows beside the rest."""
    paths: Mapping[str, Any]
    """The routes in the words of OpenAPI: path -> method -> operation."""


def make_app(
    ledger: Ledger,
    auth: Auth,
    limits: ServerLimits | None = None,
    tokens: Tokens | None = None,
    extension: Extension | None = None,
    postgres: socket.socket | None = None,
    certificate: Certificate | None = None,
    agents: bool = False,
    begun: Callable[[], bool] = lambda: True,
) -> Starlette:
    """An ASGI application that answers from a ledger, which stays the caller's to close.

    `postgres`: a socket that listens for PostgreSQL's clients; it stays the caller's to close.
    `certificate`: for their TLS. The others: see `Server`.
    """
    limits = limits or ServerLimits()
    one = limits.of_statement(limits.statements_at_once)
    reader = extension.reader if extension else Reader(ledger, limits=one)
    statements = Statements(reader, limits)
    feeds = Feeds(reader, statements, limits)
    hub = Hub(auth, feeds, Commands(reader, limits), limits, tokens)
    http = Http(reader, hub, statements, extension.paths if extension else {}, begun)

    listener = None
    if postgres is not None:
        # here, since what it needs is an extra
        from muntin.server.postgres.listener import PostgresListener

        listener = PostgresListener(postgres, statements, auth, limits, certificate)

    spoken = None
    if agents:
        from muntin.server.agents import Agents

        spoken = Agents(http, limits)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(int)  # loads what everybody would wait for at the first page
        statements.start()
        await feeds.start()
        ticking = asyncio.create_task(hub.tick())
        if listener is not None:
            await listener.start()
        try:
            async with (
                extension.alongside() if extension else nullcontext(),
                spoken.alongside() if spoken else nullcontext(),
            ):
                yield
        finally:
            ticking.cancel()
            hub.leave()
            if listener is not None:
                await listener.stop()
            await feeds.stop()
            http.close()
            statements.close()
            reader.engine.close()

    app = Starlette(
        routes=[
            *http.routes(),
            *(extension.routes(http) if extension else ()),
            *([Route("/mcp", spoken, methods=["POST"])] if spoken else ()),
            Route("/events", Events(http, hub)),
            WebSocketRoute("/live", hub.serve),
            Route("/live", _no_upgrade),
            *page_routes(FOLDER, "/static"),
            Route("/panels", _panels),
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False  # to a URL that it makes up: behind TLS it is another
    app.state.hub = hub
    app.state.statements = statements
    app.state.postgres = listener

    def goodbye() -> None:
        statements.leave()
        hub.leave()

    app.state.goodbye = goodbye
    if extension:
        http.metrics.more = extension.metrics
    app.add_middleware(Paced, limits=limits)
    app.add_middleware(_safe_headers)
    return app


async def _refused(request: Request, error: Any) -> Response:
    """What no route takes: a path that there is not, or another method than the path's."""
    method, path = request.method[:20], request.url.path[:80]
    allowed = (error.headers or {}).get("Allow", "GET, HEAD")
    remedy = "the paths are in /openapi.json"
    if path.endswith("/"):
        remedy = "leave out the / at the end: " + remedy
    about = plain("path", f"there is nothing at {path!r}", remedy)
    if error.status_code == 405:
        about = plain("method", f"{path!r} does not take {method}", f"send {allowed}")
    return JSONResponse({"error": about}, error.status_code, error.headers)


async def _no_upgrade(_: Request) -> Response:
    """What a proxy makes of a WebSocket's handshake that it does not know."""
    remedy = "connect by ws:// or wss://; a proxy in front must pass Upgrade and Connection on"
    about = plain("upgrade", "/live speaks WebSocket, and this request asks for none", remedy)
    return JSONResponse({"error": about}, 426, {"upgrade": "websocket", "connection": "upgrade"})


def _safe_headers(app: ASGIApp) -> ASGIApp:
    """Adds the headers that keep a page to itself."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.setdefault("headers", [])
                known = {name for name, _ in given}
                message["headers"] = [*given, *(h for h in _HEADERS if h[0] not in known)]
            await send(message)

        await app(scope, receive, sending if scope["type"] == "http" else send)

    return answer


def page_routes(folder: Path, below: str) -> list[BaseRoute]:
    """A folder's index.html at /, its files below a path."""

    files = _Files(directory=folder, follow_symlink=False)

    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    return [Route("/", page), Mount(below, files)]


class _Files(StaticFiles):
    """Their tags are of what they hold: an installed upgrade may have the size and time of what was
    there before, as where all times are those of a reproducible build."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        tag = f'"{hashlib.sha256(Path(full_path).read_bytes()).hexdigest()[:32]}"'
        found = FileResponse(full_path, status_code, {"etag": tag}, stat_result=stat_result)
        known = self.is_not_modified(found.headers, Headers(scope=scope))
        return NotModifiedResponse(found.headers) if known else found


async def _panels(_: Request) -> Response:
    """A kind of summary gets its panel by a file in panels/."""
    return JSONResponse(sorted(path.name for path in (FOLDER / "panels").glob("*.js")))
