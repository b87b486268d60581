"""Bytes on their way to the other side: bounded, in order, given up when nobody takes them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

STALL_SECONDS = 10.0  # a message is not taken for so long, and the time of a slow line
BYTES_PER_SECOND_MIN = 40_000
MESSAGES_MAX = 4096
BYTES_MAX = 32 << 20


class Outbox:
    """Of one connection; used on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[bytes | str] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._overflowed = False

    def put(self, messages: Iterable[bytes | str]) -> None:
        """Add messages; where too many wait, none is sent any more."""
        for message in messages:
            if len(self._waiting) >= MESSAGES_MAX or self._bytes >= BYTES_MAX:
                self._overflowed = True
            else:
                self._waiting.append(message)
                self._bytes += len(message)
        self._news.set()

    async def drain(self, send: Callable[[bytes | str], Awaitable[None]]) -> None:
        """Send what is put, until the other side has taken too little for too long."""
        while not self._overflowed:
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
                continue
            message = self._waiting.popleft()
            self._bytes -= len(message)
            try:
                async with asyncio.timeout(STALL_SECONDS + len(message) / BYTES_PER_SECOND_MIN):
                    await send(message)
            except TimeoutError:
                return
