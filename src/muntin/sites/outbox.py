"""Bytes on their way to the other side: bounded, in order, given up when nobody takes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

MESSAGES_MAX = 4096
BYTES_MAX = 32 << 20


class Outbox:
    """Of one connection; used on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[bytes | str] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self.overflowed = False

    def put(self, messages: Iterable[bytes | str]) -> None:
        """Add messages; `overflowed` says that the other side takes too little."""
        for message in messages:
            if len(self._waiting) >= MESSAGES_MAX or self._bytes >= BYTES_MAX:
                self.overflowed = True
            else:
                self._waiting.append(message)
                self._bytes += len(message)
        self._news.set()

    async def take(self) -> bytes | str | None:
        """The next message; None once it has overflowed."""
        while not self._waiting and not self.overflowed:
            self._news.clear()
            await self._news.wait()
        if self.overflowed:
            return None
        message = self._waiting.popleft()
        self._bytes -= len(message)
        return message
