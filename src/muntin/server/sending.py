"""Answers on their way to a client: a piece at a time, and cut where the client does not read."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Hashable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from starlette.datastructures import Address
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muntin.hosts import is_loopback
from muntin.server.limits import ServerLimits
from muntin.server.problems import RefusalError, problem, status_of
from muntin.server.sockets import stream_of
from muntin.server.statements import PIECE_BYTES, Statements, StoredAnswer

T = TypeVar("T")
EVENTS = "/events"  # looks after its own clients


def client_of(address: Address | None) -> Hashable:
    """Whose turn a request takes: an address; on loopback, where all share one, a connection."""
    if address is None:
        return ""
    return (address.host, address.port) if is_loopback(address.host) else address.host


async def while_there(request: Request, asking: Coroutine[Any, Any, T]) -> T:
    """What is answered; it is cancelled where the client goes before, once its body was read.
    Raises RefusalError: it has gone."""
    asked = asyncio.ensure_future(asking)
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = asked.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await asked
    except asyncio.CancelledError:
        if not gone:
            raise
        raise RefusalError(400, "gone", "the connection ended before the answer came") from None
    finally:
        watching.cancel()


def refusal(error: BaseException) -> JSONResponse:
    """An error as the answer to a request, or to a handshake."""
    status = status_of(error)
    headers = {503: {"retry-after": "1"}, 401: {"www-authenticate": "Bearer"}}.get(status)
    return JSONResponse({"error": problem(error)}, status, headers)


class AnswerResponse(Response):
    """An answer that `Statements` gave, which is given back at the end."""

    def __init__(
        self, answer: StoredAnswer, statements: Statements, client: Hashable, media_type: str
    ) -> None:
        super().__init__(media_type=media_type)
        self.headers["content-length"] = str(answer.size)
        self._answer = answer
        self._client = client
        self._statements = statements

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            if self._answer.size > PIECE_BYTES:
                stream_of(scope).narrow()  # what is not read stays in the file
            async for piece in self._answer.pieces():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._statements.release(self._answer, self._client)


class Pace:
    """How long the server waits for a client to read: a while at once, and in all as long as what
    was sent takes at the slowest pace that is allowed.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self.sent = 0  # bytes; whoever sends adds them
        self._waited = 0.0
        self._limits = limits

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """While the client reads. Raises TimeoutError where it reads too slowly."""
        clock = asyncio.get_running_loop().time
        began, stall = clock(), self._limits.write_stall_seconds
        left = stall + self.sent / self._limits.answer_bytes_per_second - self._waited
        async with asyncio.timeout(min(stall, left)):
            yield
        self._waited += clock() - began


class CutOffError(Exception):
    """The client read too slowly; its connection is no more."""


class Paced:
    """Cuts clients that do not read what they have asked for. Bodies go out in pieces, so that each
    waits until the client has taken those before it."""

    def __init__(self, app: ASGIApp, limits: ServerLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == EVENTS:
            await self._app(scope, receive, send)
            return
        pace = Pace(self._limits)

        async def piece(message: Message) -> None:
            try:
                async with pace.waiting():
                    await send(message)
            except TimeoutError:
                stream_of(scope).abort()
                raise CutOffError from None
            pace.sent += len(message.get("body", b""))

        async def sending(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= PIECE_BYTES:
                await piece(message)
                return
            more = message.get("more_body", False)
            for at in range(0, len(body), PIECE_BYTES):
                last = at + PIECE_BYTES >= len(body)
                part = body[at : at + PIECE_BYTES]
                await piece({**message, "body": part, "more_body": more or not last})

        with suppress(CutOffError):
            await self._app(scope, receive, sending)
