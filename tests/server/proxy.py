"""A reverse proxy that serves a server under a path, as nginx's `location /muntin/` does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from urllib.parse import urlsplit

PREFIX = b"/muntin"


async def _pump(reader, writer, cut):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data.replace(b" " + PREFIX + b"/", b" /", 1) if cut else data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def under_a_path(url):
    """The address under which the proxy has the server at `url`; anything else is not there."""
    loop = asyncio.new_event_loop()

    async def pair(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.split(b" ")[1].startswith(PREFIX + b"/"):
            writer.close()
            return
        there = urlsplit(url)
        back, on = await asyncio.open_connection(there.hostname, there.port)
        on.write(head.replace(PREFIX, b"", 1))
        await asyncio.gather(_pump(reader, on, True), _pump(back, writer, False))

    thread = threading.Thread(target=loop.run_forever)  # beside Playwright's loop
    thread.start()
    made = asyncio.run_coroutine_threadsafe(asyncio.start_server(pair, "127.0.0.1", 0), loop)
    yield f"http://127.0.0.1:{made.result().sockets[0].getsockname()[1]}{PREFIX.decode()}"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
