"""One site's connection as the coordinator's side has it."""

from __future__ import annotations

import asyncio
import time

from starlette.websockets import WebSocket

from muntin.server.sockets import socket_of
from muntin.sites.outbox import Outbox
from muntin.sites.protocol import SLOW

STALL_SECONDS = 10.0
MESSAGES_PER_SECOND = 200.0
MESSAGES_BURST = 2_000


class Session:
    """Writes what is put into its outbox, and counts how often the site speaks."""

    def __init__(self, site: str, websocket: WebSocket) -> None:
        self.site = site
        self.since = time.time()
        self.outbox = Outbox()
        self._websocket = websocket
        self._writing = asyncio.create_task(self._write())
        self._credit = float(MESSAGES_BURST)
        self._credit_at = time.monotonic()

    def spend(self) -> bool:
        """Whether the site may say one thing more now."""
        now = time.monotonic()
        earned = (now - self._credit_at) * MESSAGES_PER_SECOND
        self._credit = min(float(MESSAGES_BURST), self._credit + earned)
        self._credit_at = now
        if self._credit < 1.0:
            return False
        self._credit -= 1.0
        return True

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and soon cut the connection; the endpoint's `receive` ends."""
        socket_of(self._websocket).end(code, reason)

    async def end(self) -> None:
        """The connection has ended."""
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while (message := await self.outbox.take()) is not None:
                async with asyncio.timeout(STALL_SECONDS):
                    if isinstance(message, str):
                        await self._websocket.send_text(message)
                    else:
                        await self._websocket.send_bytes(message)
        except TimeoutError:
            pass
        except Exception:  # the site has gone, as `receive` will say
            return
        self.close(SLOW, "nothing was read for too long")
