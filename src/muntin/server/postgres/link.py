"""One client's connection: whole messages in, bytes out, both bounded and at the client's pace."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from muntin.server.limits import KIB, ServerLimits
from muntin.server.sending import Pace

STARTUP_BYTES_MAX = 10_000  # as PostgreSQL has it
BUFFER_BYTES_MAX = 128 * KIB  # received and not read: beyond it, nothing more is taken
WRITE_BYTES_HIGH = 64 * KIB
PIECE_BYTES = 64 * KIB


class GoneError(Exception):
    """The client is not there any more, or was cut."""


class FrameError(Exception):
    """What came is no message."""


class ClientLink(asyncio.Protocol):
    """For the loop's thread; `on_made` begins the session, `on_lost` ends it."""

    def __init__(
        self,
        limits: ServerLimits,
        on_made: Callable[[ClientLink], None],
        on_lost: Callable[[ClientLink], None],
    ) -> None:
        self.transport: asyncio.Transport
        self.lost = False
        self.encrypted = False
        self._limits = limits
        self._on_made = on_made
        self._on_lost = on_lost
        self._buffer = bytearray()
        self._more: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._full = False
        self._pace = Pace(limits)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 (TCP)
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        connected = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # else the kernel takes megabytes for a client that reads nothing
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WRITE_BYTES_HIGH)
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > BUFFER_BYTES_MAX:
            self.transport.pause_reading()
        _wake(self._more)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        _wake(self._writable)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self.lost:
            return
        self.lost = True
        _wake(self._more)
        _wake(self._writable)
        self._on_lost(self)

    # the session's side

    async def startup(self) -> bytes:
        """A message of the start, which has no letter. Raises FrameError, GoneError."""
        head = await self._read(4)
        length = int.from_bytes(head)
        if not 8 <= length <= STARTUP_BYTES_MAX:
            raise FrameError(f"a startup message of {length:,} bytes")
        return head + await self._read(length - 4)

    async def message(self) -> bytes:
        """Any later one. Raises FrameError, GoneError."""
        head = await self._read(5)
        length = int.from_bytes(head[1:])
        if not 4 <= length <= self._limits.message_bytes_max:
            most = self._limits.message_bytes_max
            raise FrameError(f"a message of {length:,} bytes; at most {most:,}")
        try:
            async with asyncio.timeout(self._limits.handshake_seconds):
                return head + await self._read(length - 4)
        except TimeoutError:
            raise FrameError("the message did not come in time") from None

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """The handshake of TLS, before anything else is read. Raises FrameError, GoneError."""
        if self._buffer:  # what came in the open must not be taken for what came encrypted
            raise FrameError("bytes before the handshake of TLS")
        loop = asyncio.get_running_loop()
        try:
            made = await loop.start_tls(self.transport, self, context, server_side=True)
        except BaseException as error:
            self.transport.abort()
            self.connection_lost(None)  # asyncio tells nobody of a handshake that failed
            if isinstance(error, OSError):
                raise GoneError from None
            raise
        if made is None:
            raise GoneError
        self.transport = made
        self.transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        self.encrypted = True

    async def send(self, data: bytes) -> None:
        """Write, and wait where the client does not read; it is cut where it reads too slowly."""
        for at in range(0, len(data), PIECE_BYTES):
            if self.lost:
                raise GoneError
            self.transport.write(data[at : at + PIECE_BYTES])
            self._pace.sent += min(PIECE_BYTES, len(data) - at)
            if self._full:
                await self._wait_until_writable()

    def close(self) -> None:
        """After what was written, or in some seconds."""
        if self.lost:
            return
        self.transport.close()
        asyncio.get_running_loop().call_later(self._limits.close_seconds, self.transport.abort)

    async def _wait_until_writable(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()
        try:
            async with self._pace.waiting():
                await self._writable
        except TimeoutError:
            self.transport.abort()
            raise GoneError from None
        finally:
            self._writable = None
        if self.lost:
            raise GoneError

    async def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if self.lost:
                raise GoneError
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        if len(self._buffer) <= BUFFER_BYTES_MAX and not self.lost:
            self.transport.resume_reading()
        return data


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
