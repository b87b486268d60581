"""One client's connection: whole messages in and out, both bounded and at the client's pace."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any

from pygwire.connection import BackendConnection
from pygwire.constants import ConnectionPhase, StartupRequestCode, TransactionStatus
from pygwire.exceptions import PygwireError

from muntin.server.limits import KIB, ServerLimits
from muntin.server.postgres.portal import wire
from muntin.server.postgres.reports import FATAL, Refusal, error_fields
from muntin.server.sending import Pace

STARTUP_BYTES_MAX = 10_000  # as PostgreSQL has it
BUFFER_BYTES_MAX = 128 * KIB  # received and not read: beyond it, nothing more is taken
WRITE_BYTES_HIGH = 64 * KIB
PIECE_BYTES = 64 * KIB
OLDEST, NEWEST = StartupRequestCode.V3_0, StartupRequestCode.V3_2  # of the protocol


class GoneError(Exception):
    """The client is not there any more, or was cut."""


class FrameError(Exception):
    """What came is no message."""


class ClientStreams(asyncio.StreamReaderProtocol):
    """asyncio's streams; `on_made` is given both."""

    def __init__(
        self, on_made: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]
    ) -> None:
        super().__init__(asyncio.StreamReader(limit=BUFFER_BYTES_MAX // 2), on_made)

    def eof_received(self) -> bool:
        """Who says no more reads no more either: the connection ends."""
        super().eof_received()
        return False


class ClientLink:
    """For the loop's thread. What is said waits until `flush`; any method that sends raises
    GoneError."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: ServerLimits
    ) -> None:
        self.writer = writer
        self.encrypted = False
        self.status = TransactionStatus.IDLE
        self._machine = BackendConnection()
        self._out = bytearray()
        self._limits = limits
        self._reader = reader
        self._pace = Pace(limits)
        writer.transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        connected = writer.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # else the kernel takes megabytes for a client that reads nothing
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WRITE_BYTES_HIGH)

    async def startup(self) -> Any:
        """A message of the start, which has no letter, and is the same in all minor versions:
        pygwire knows two. Raises FrameError, GoneError."""
        head = await self._read(4)
        length = int.from_bytes(head)
        if not 8 <= length <= STARTUP_BYTES_MAX:
            raise FrameError(f"a startup message of {length:,} bytes")
        data = head + await self._read(length - 4)
        version = int.from_bytes(data[4:8])
        if version >> 16 == OLDEST >> 16:
            data = data[:4] + OLDEST.to_bytes(4) + data[8:]
        message = self._parsed(data)
        if isinstance(message, wire.StartupMessage):
            message.protocol_version = version
        return message

    async def receive(self, *, skipping: bool = False) -> Any:
        """Any later one; None for what is passed over until Sync: pygwire takes some for wrong.
        Raises FrameError, GoneError, Refusal: it is too long, and the connection ends."""
        head = await self._read(5)
        length = int.from_bytes(head[1:])
        most = self._limits.message_bytes_max
        if length < 4:
            raise FrameError(f"a message of {length} bytes")
        if length > most:
            said = f"a message of {length:,} bytes; at most {most:,}"
            raise Refusal("54000", said, "shorten the statement, or its parameters")
        try:
            async with asyncio.timeout(self._limits.handshake_seconds):
                data = head + await self._read(length - 4)
        except TimeoutError:
            raise FrameError("the message did not come in time") from None
        if skipping and data[:1] not in (b"S", b"X"):
            return None
        if data[:1] == b"Q" and self._machine.phase == ConnectionPhase.EXTENDED_QUERY:
            # asyncpg, where a parameter was none of its type; pygwire waits for a Sync
            _ = [*self._machine.receive(wire.Sync().to_wire())]
            self._machine.send(wire.ReadyForQuery(status=self.status))
        return self._parsed(data)

    def _parsed(self, data: bytes) -> Any:
        try:
            return next(iter(self._machine.receive(data)))
        except (PygwireError, struct.error, UnicodeError, IndexError) as error:
            # pygwire says of a text that is not UTF-8 that it has no end
            cause = error.__context__
            is_text = isinstance(cause, UnicodeError)
            raise FrameError(f"a text is not UTF-8: {cause}" if is_text else str(error)) from None

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Agree to TLS, and its handshake before anything else is read. Raises FrameError,
        GoneError."""
        early = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                early = await self._read(1)
        await self.send(wire.SSLResponse(accepted=True))
        if early:  # what came in the open must not be taken for what came encrypted
            raise FrameError("bytes before the handshake of TLS")
        streams = self.writer.transport.get_protocol()
        try:
            await self.writer.start_tls(context)
        except BaseException as error:
            self.writer.transport.abort()
            streams.connection_lost(None)  # asyncio tells nobody of a handshake that failed
            if isinstance(error, OSError):
                raise GoneError from None
            raise
        self.writer.transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        self.encrypted = True

    def put(self, message: Any) -> None:
        self._out += self._machine.send(message)

    def put_rows(self, data: bytes) -> None:
        """Messages that pygwire need not see: rows, and those before which it would be confused."""
        self._out += data

    async def send(self, message: Any) -> None:
        self.put(message)
        await self.flush()

    async def ready(self) -> None:
        await self.send(wire.ReadyForQuery(status=self.status))

    async def flush(self) -> None:
        """Write, and wait where the client does not read; it is cut where it reads too slowly."""
        data = bytes(self._out)
        self._out.clear()
        for at in range(0, len(data), PIECE_BYTES):
            self.writer.write(data[at : at + PIECE_BYTES])
            self._pace.sent += min(PIECE_BYTES, len(data) - at)
            try:
                async with self._pace.waiting():
                    await self.writer.drain()
            except TimeoutError:
                self.writer.transport.abort()
                raise GoneError from None
            except OSError:
                raise GoneError from None

    async def flush_some(self) -> None:
        """Where enough waits."""
        if len(self._out) > KIB:
            await self.flush()

    async def end(self, error: Refusal) -> None:
        """The last message, in the middle of whatever was said."""
        fields = {**error_fields(error), "S": FATAL, "V": FATAL}
        self.put_rows(wire.ErrorResponse(fields=fields).to_wire())
        with contextlib.suppress(GoneError):
            await self.flush()

    def close(self) -> None:
        """After what was written, or in some seconds."""
        self.writer.close()
        loop = asyncio.get_running_loop()
        loop.call_later(self._limits.close_seconds, self.writer.transport.abort)

    async def _read(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError):
            raise GoneError from None
