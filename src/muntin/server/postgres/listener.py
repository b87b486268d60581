"""Where PostgreSQL's clients connect: on the server's own loop, with its auth and its limits."""

import asyncio
import hmac
import logging
import secrets
import socket
from dataclasses import dataclass

from starlette.datastructures import Address

from muntin.hosts import is_loopback
from muntin.server.auth import Auth
from muntin.server.connections import ACCEPTS_AT_ONCE, SPARE_MAX, Quota
from muntin.server.limits import ServerLimits
from muntin.server.postgres.certificate import Certificate
from muntin.server.postgres.link import ClientLink, ClientStreams
from muntin.server.postgres.opening import Opening
from muntin.server.postgres.session import PostgresSession
from muntin.server.sending import client_of
from muntin.server.statements import Statements

_LOG = logging.getLogger("muntin.server.postgres")


@dataclass(eq=False, repr=False)
class PostgresListener:
    """Takes connections, and lets each cancel what another of the same client runs."""

    _listening: socket.socket
    _statements: Statements
    _auth: Auth
    _limits: ServerLimits
    _certificate: Certificate | None

    def __post_init__(self) -> None:
        limits = self._limits
        self._server: asyncio.Server | None = None
        self._tasks: dict[ClientLink, asyncio.Task[None]] = {}
        self._sessions: dict[int, PostgresSession] = {}
        self._places = Quota(
            limits.postgres_connections_max, limits.postgres_connections_per_address_max
        )

    async def start(self) -> None:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: ClientStreams(self._made), sock=self._listening, backlog=ACCEPTS_AT_ONCE
        )

    async def stop(self) -> None:
        """Tell the clients, and end."""
        if self._server is not None:
            self._server.close()
        for session in list(self._sessions.values()):
            await session.leave()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _made(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = ClientLink(reader, writer, self._limits)
        peer = writer.get_extra_info("peername")
        address = Address(str(peer[0]), int(peer[1])) if peer else Address("", 0)
        spare = not self._places.take(link, address.host)
        if spare and len(self._tasks) >= self._limits.postgres_connections_max + SPARE_MAX:
            link.writer.transport.abort()
            return
        number = secrets.randbelow(1 << 31)
        while number in self._sessions:
            number = secrets.randbelow(1 << 31)
        opening = Opening(
            self._auth,
            number,
            secrets.token_bytes(4),
            spare,
            self._certificate,
            in_the_open=self._certificate is None or is_loopback(address.host),
            cancel=self._cancel,
        )
        session = PostgresSession(link, client_of(address), self._statements, opening, self._limits)
        self._sessions[number] = session
        task = asyncio.create_task(session.run())
        self._tasks[link] = task
        task.add_done_callback(lambda done: self._ended(link, number, done))
        closed = asyncio.create_task(writer.wait_closed())
        closed.add_done_callback(lambda done: self._lost(link, task, done))

    def _lost(self, link: ClientLink, task: asyncio.Task[None], closed: asyncio.Task[None]) -> None:
        if not closed.cancelled():
            closed.exception()  # why, nobody asks
        task.cancel()
        self._places.leave(link)

    def _ended(self, link: ClientLink, number: int, task: asyncio.Task[None]) -> None:
        self._tasks.pop(link, None)
        self._sessions.pop(number, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a session failed", exc_info=error)
            link.writer.transport.abort()

    def _cancel(self, number: int, secret: bytes) -> None:
        session = self._sessions.get(number)
        if session is not None and hmac.compare_digest(secret, session.opening.secret):
            session.cancel()
