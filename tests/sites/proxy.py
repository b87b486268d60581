"""A TCP proxy that delays what goes through it, holds it, and cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading


class Proxy:
    """Listens on a free port of loopback; its own thread and loop.

    Attributes
    ----------
    delay : float
        Seconds that each piece waits, both ways, from now on.
    loses : float
        How often a piece is cut off in its middle, and the connection with it, from now on; all
        come in shorter pieces then, and wait for any time up to `delay`.
    """

    def __init__(self, port: int, seed: int = 0) -> None:
        self._to = port
        self.delay = self.loses = 0.0
        self._random = random.Random(seed)
        self._refuse = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None] | None] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._server = self._wait(listening)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Cut all connections, and refuse new ones until `heal`."""
        self._wait(self._cut())

    def heal(self) -> None:
        self._refuse = False

    def close(self) -> None:
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _cut(self) -> None:
        self._refuse = True
        for writer in list(self._writers):
            writer.transport.abort()

    async def _close(self) -> None:
        await self._cut()
        self._server.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=5)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        self._serving.add(serving)
        try:
            await self._serve(reader, writer)
        finally:
            self._serving.discard(serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuse:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self._writers |= both
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        self._writers -= both

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(self._random.randint(1, 400) if self.loses else 65536):
                await asyncio.sleep(self.delay * (self._random.random() if self.loses else 1))
                if self._random.random() < self.loses:
                    writer.write(data[: self._random.randrange(len(data))])
                    break
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()
