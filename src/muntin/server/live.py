"""/live: the shell around the protocol; reads and writes the socket, carries out effects."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Address
from starlette.websockets import WebSocket

from muntin.errors import MuntinError
from muntin.server import protocol
from muntin.server.auth import Auth, Grant, bearer, host_name, web_origin
from muntin.server.commands import Commands
from muntin.server.connections import Quota
from muntin.server.feeds import Feeds
from muntin.server.limits import ServerLimits
from muntin.server.messages import LiveCommand, LiveHello, Subscribe
from muntin.server.problems import RefusalError, needs_token, problem, stops
from muntin.server.pushes import Subscriber
from muntin.server.sending import client_of, refusal
from muntin.server.sockets import UvicornSocket, socket_of

TICK_SECONDS = 1.0
Tokens = Callable[[], tuple[str, str]]
"""Gives the reader's and the operator's token as they are now."""
_LOG = logging.getLogger("muntin.server")


class LiveClient:
    """One WebSocket; the loop's thread only."""

    def __init__(
        self, connection: protocol.Connection, socket: UvicornSocket, hub: Hub, client: Hashable
    ) -> None:
        self.connection = connection
        self.client = client
        self._socket = socket
        self._hub = hub
        self._tasks: set[asyncio.Task[None]] = set()
        socket.on_writable = self.pump
        socket.on_flood = self._flooded
        socket.on_silent = self._silent

    def pump(self) -> None:
        """Write while there is news and the socket takes it."""
        connection, socket = self.connection, self._socket
        while socket.takes:
            item = connection.next_frame()
            if item is None:
                return
            if isinstance(item, protocol.ReplayWindows):
                self._spawn(self._hub.replay(self, item))
                continue
            socket.push(item)
            self._hub.sent += 1
            self._hub.sent_bytes += len(item)
        if connection.has_news():
            connection.stalled(time.monotonic())

    def carry_out(self, effects: Iterable[protocol.Effect]) -> None:
        for effect in effects:
            match effect:
                case protocol.Close(code, reason):
                    self._hub.closings[code] += 1
                    self._socket.end(code, reason)
                case protocol.Leave(channel):
                    self._hub.feeds.leave(channel, self)
                case Subscribe():
                    self._spawn(self._open(effect))
                case LiveCommand():
                    self._spawn(self._ask(effect))
                case LiveHello(ticket):
                    grant = self._hub.auth.redeem(ticket)
                    self.carry_out(self.connection.redeemed(grant))
        self.pump()

    def gone(self) -> None:
        self.carry_out(self.connection.lost())
        for task in self._tasks:
            task.cancel()

    def _flooded(self) -> None:
        self.carry_out(self.connection.leave(protocol.TOO_FAST, "too many frames or bytes"))

    def _silent(self) -> None:
        self.carry_out(self.connection.silent(unread=self._socket.unread))

    async def _open(self, request: Subscribe) -> None:
        try:
            channel = await self._hub.feeds.open(request.topic, self)
        except MuntinError as error:
            self.carry_out(self.connection.failed(request, problem(error)))
            return
        self.carry_out(self.connection.opened(request, channel))

    async def _ask(self, command: LiveCommand) -> None:
        grant = self.connection.grant
        who = grant.who if grant else ""
        try:
            answer = await self._hub.commands.obey(command, who)
        except MuntinError as error:
            self.carry_out(self.connection.failed(command, problem(error)))
            return
        self.carry_out(self.connection.answered(command, answer))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@dataclass(eq=False, repr=False)
class Hub:
    """All clients of one server."""

    auth: Auth
    feeds: Feeds
    commands: Commands
    limits: ServerLimits
    _tokens: Tokens | None
    clients: set[Subscriber] = field(default_factory=set)
    streams: set[Subscriber] = field(default_factory=set)  # SSE clients
    sent: int = 0
    sent_bytes: int = 0
    closings: Counter[int] = field(default_factory=Counter)
    leaving: bool = False

    def __post_init__(self) -> None:
        self.run = secrets.token_hex(8)
        self._places = Quota(self.limits.clients_max, self.limits.clients_per_address_max)

    async def serve(self, websocket: WebSocket) -> None:
        headers = websocket.headers
        secure = websocket.url.scheme == "wss"
        try:
            grant = self.admit(headers, secure=secure)
            connection = protocol.Connection(grant, self.run, time.monotonic(), self.limits)
            client = LiveClient(connection, socket_of(websocket), self, client_of(websocket.client))
            with self.place(client, self.clients, websocket.client):
                await websocket.accept()
                await self._converse(websocket, client)
        except RefusalError as refused:
            await websocket.send_denial_response(refusal(refused))

    async def _converse(self, websocket: WebSocket, client: LiveClient) -> None:
        connection = client.connection
        try:
            client.pump()
            while True:
                message = await websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                text = message.get("text")
                now = time.monotonic()
                client.carry_out(
                    connection.leave(protocol.BAD_MESSAGE, "messages are text")
                    if text is None
                    else connection.receive(text, now)
                )
        finally:
            client.gone()

    def admit(self, headers: Any, *, secure: bool) -> Grant | None:
        """Who it is; None for a browser that will show a ticket. Raises RefusalError."""
        auth = self.auth
        if not auth.host_allowed(headers):
            said, name = "the server is not called so", host_name(headers.get("host", ""))
            remedy = f"start the server with --host-name {name}" if name else ""
            raise RefusalError(403, "host", said, remedy)
        if not auth.page_allowed(headers, secure=secure):
            said, page = "this page may not connect", web_origin(headers.get("origin", ""))
            remedy = f"start the server with --origin {page}" if page else ""
            raise RefusalError(403, "origin", said, remedy)
        grant = auth.grant(headers)
        if grant is None and ("origin" not in headers or "authorization" in headers):
            raise needs_token(sent=bool(bearer(headers)))
        return grant

    async def replay(self, who: Subscriber, asked: protocol.ReplayWindows) -> None:
        """Give a connection the windows that it has missed."""
        try:
            found, gap = await self.feeds.replay(
                asked.channel, asked.after, asked.until, who.client
            )
        except Exception as error:
            if not isinstance(error, MuntinError):
                _LOG.exception("cannot read what a client has missed")
            await asyncio.sleep(TICK_SECONDS)  # the ledger cannot be read now: try again
            who.connection.replay_failed()
        else:
            who.connection.replayed(asked, found, gap)
        who.pump()

    @contextmanager
    def place(
        self, who: Subscriber, among: set[Subscriber], address: Address | None
    ) -> Iterator[None]:
        """A place for a client while it stays. Raises RefusalError where there are too many, or the
        server stops: who came in after `leave` would hold it up, and be cut."""
        if self.leaving:
            raise stops()
        of_whom = "" if self._places.full else " from your address"
        if not self._places.take(who, address.host if address else ""):
            raise RefusalError(503, "busy", f"too many clients{of_whom}", "come again later")
        among.add(who)
        try:
            yield
        finally:
            among.discard(who)
            self._places.leave(who)

    async def tick(self) -> None:
        """Look after stalls, time limits and rights until cancelled."""
        checked = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            for client in self._everybody():
                client.carry_out(client.connection.tick(now))
            if now - checked >= self.limits.recheck_seconds:
                checked = now
                await self._recheck()

    async def _recheck(self) -> None:
        """Read the tokens again; whose token is no longer one of them is closed."""
        if self._tokens is not None:
            try:
                self.auth.renew(*await run_in_threadpool(self._tokens))
            except (MuntinError, OSError) as error:
                _LOG.warning("the tokens stay as they are: %s", error)
        for client in self._everybody():
            grant = client.connection.grant
            if grant is not None:
                client.carry_out(client.connection.rechecked(self.auth.still(grant)))

    def leave(self) -> None:
        self.leaving = True
        for client in self._everybody():
            client.carry_out(client.connection.leave())

    def _everybody(self) -> tuple[Subscriber, ...]:
        return (*self.clients, *self.streams)
