"""One site's connection as the coordinator's side has it."""

import asyncio
import time

from starlette.websockets import WebSocket

from muntin.server.limits import TokenBucket
from muntin.server.sockets import socket_of
from muntin.sites.outbox import Outbox
from muntin.sites.protocol import SLOW
from muntin.times import now_us
from muntin.topk import MESSAGE_BYTES_MAX

MESSAGES_PER_SECOND = 200.0
MESSAGES_BURST = 2_000
BYTES_PER_SECOND = 2.0 * MESSAGE_BYTES_MAX
BYTES_BURST = 16.0 * MESSAGE_BYTES_MAX


class SiteSession:
    """Writes what is put into its outbox, and counts how often the site speaks."""

    def __init__(self, site: str, websocket: WebSocket) -> None:
        self.site = site
        self.since = now_us()
        self.outbox = Outbox()
        self._websocket = websocket
        self._socket = socket_of(websocket)
        now = self._socket.loop.time()
        self._socket.allow(
            MESSAGE_BYTES_MAX,
            frames=TokenBucket(2 * MESSAGES_PER_SECOND, 2 * MESSAGES_BURST, now),
            data=TokenBucket(BYTES_PER_SECOND, BYTES_BURST, now),
        )
        self._writing = asyncio.create_task(self._write())
        self._messages = TokenBucket(MESSAGES_PER_SECOND, MESSAGES_BURST, time.monotonic())

    def spend(self) -> bool:
        """Whether the site may say one thing more now."""
        return self._messages.spend(time.monotonic())

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and soon cut the connection; the endpoint's `receive` ends."""
        self._socket.end(code, reason)

    async def end(self) -> None:
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        text, data = self._websocket.send_text, self._websocket.send_bytes
        try:
            await self.outbox.drain(lambda m: text(m) if isinstance(m, str) else data(m))
        except Exception:  # the site has gone, as `receive` will say
            return
        self.close(SLOW, "nothing was read for too long")
