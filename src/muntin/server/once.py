"""A small read that many may ask for: done once for all who ask while it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """A read with a thread of its own, so that it waits for nothing else.

    Who asks while it runs hears of the next run, which begins after the question: an answer is
    never older than its question.
    """

    def __init__(self, read: Callable[[], T], name: str) -> None:
        self._read = read
        self._pool = ThreadPoolExecutor(1, name)
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        if self._next is None:
            self._next = asyncio.create_task(self._in_turn())
        return await asyncio.shield(self._next)

    async def _in_turn(self) -> T:
        async with self._turn:
            self._next = None  # who asks from here on may want what is not there yet
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._read)

    def close(self) -> None:
        """For the loop's thread. Who waits for the next run is cancelled."""
        if self._next is not None:
            self._next.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
