"""Messages of PostgreSQL's protocol, to and from one client."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

from pygwire.connection import BackendConnection
from pygwire.constants import ConnectionPhase, StartupRequestCode, TransactionStatus
from pygwire.exceptions import PygwireError

from muntin.server.limits import KIB
from muntin.server.postgres.link import ClientLink, GoneError
from muntin.server.postgres.portal import wire
from muntin.server.postgres.reports import FATAL, Refusal, error_fields

OLDEST, NEWEST = StartupRequestCode.V3_0, StartupRequestCode.V3_2  # of the protocol
MALFORMED = (PygwireError, struct.error, UnicodeError, IndexError)


def reason(error: Exception) -> str:
    """Why a message is malformed: pygwire says of a text that is not UTF-8 that it has no end."""
    cause = error.__context__
    return f"a text is not UTF-8: {cause}" if isinstance(cause, UnicodeError) else str(error)


class Talk:
    """What is said waits until `flush`; any method that sends raises GoneError."""

    def __init__(self, link: ClientLink) -> None:
        self.link = link
        self.status = TransactionStatus.IDLE
        self._machine = BackendConnection()
        self._out = bytearray()

    async def startup(self) -> Any:
        """A message of the start, which is the same in all minor versions: pygwire knows two."""
        data = await self.link.startup()
        version = int.from_bytes(data[4:8])
        if version >> 16 == OLDEST >> 16:
            data = data[:4] + OLDEST.to_bytes(4) + data[8:]
        message: Any = next(iter(self._machine.receive(data)))
        if isinstance(message, wire.StartupMessage):
            message.protocol_version = version
        return message

    async def receive(self, *, skipping: bool = False) -> Any:
        """A message; None for what is passed over until Sync: pygwire takes some for wrong."""
        data = await self.link.message()
        if skipping and data[:1] not in (b"S", b"X"):
            return None
        if data[:1] == b"Q" and self._machine.phase == ConnectionPhase.EXTENDED_QUERY:
            # asyncpg, where a parameter was none of its type; pygwire waits for a Sync
            _ = [*self._machine.receive(wire.Sync().to_wire())]
            self._machine.send(wire.ReadyForQuery(status=self.status))
        (message,) = self._machine.receive(data)
        return message

    def put(self, message: Any) -> None:
        self._out += self._machine.send(message)

    def put_rows(self, data: bytes) -> None:
        """Messages that pygwire need not see: rows, and those before which it would be confused."""
        self._out += data

    async def send(self, message: Any) -> None:
        self.put(message)
        await self.flush()

    async def ready(self) -> None:
        """The client may ask."""
        await self.send(wire.ReadyForQuery(status=self.status))

    async def flush(self) -> None:
        data = bytes(self._out)
        self._out.clear()
        await self.link.send(data)

    async def flush_some(self) -> None:
        """Where enough waits."""
        if len(self._out) > KIB:
            await self.flush()

    async def end(self, error: Refusal) -> None:
        """The last message."""
        fields = {**error_fields(error), "S": FATAL, "V": FATAL}
        with contextlib.suppress(GoneError):
            await self.link.send(bytes(self._out) + wire.ErrorResponse(fields=fields).to_wire())
        self._out.clear()
