"""GET /events: Server-Sent Events, where a WebSocket cannot be had. One subscription each.

The same protocol machine stands behind it, so that limits, order and resuming are the same.
"""

import asyncio
import random
import time
from collections.abc import Iterable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from muntin.errors import MuntinError
from muntin.server import protocol
from muntin.server.channel import Frame, Place
from muntin.server.http import Http, parameters
from muntin.server.live import Hub
from muntin.server.messages import ENTRIES, Subscribe, topic
from muntin.server.sending import client_of, refusal
from muntin.server.sockets import stream_of

COMMENT_SECONDS = 15.0  # proxies close what is silent
RETRY_MS = (500, 5_000)  # a browser comes back after so long; not all at once
_NO_EVENTS = ('{"type":"welcome"', '{"type":"subscribed"')


class Events:
    def __init__(self, http: Http, hub: Hub) -> None:
        self._http = http
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, hub = Request(scope, receive), self._hub
        try:
            if request.method != "GET":
                raise HTTPException(405, headers={"Allow": "GET"})
            grant = self._http.admitted(request)
            wanted = _wanted(request)
            connection = protocol.Connection(grant, hub.run, time.monotonic(), hub.limits)
            client = _EventClient(hub, connection, request, send)
            with hub.place(client, hub.streams, request.client):
                await client.open(wanted)
                await client.run()
        except MuntinError as error:
            await refusal(error)(scope, receive, send)


class _EventClient:
    """One client: pulls from the protocol machine, a message at a time."""

    def __init__(
        self, hub: Hub, connection: protocol.Connection, request: Request, send: Send
    ) -> None:
        self.connection = connection
        self.client = client_of(request.client)
        self._hub = hub
        self._stream = stream_of(request.scope)
        self._receive = request.receive
        self._send = send
        self._gone = False
        self._news = asyncio.Event()

    def pump(self) -> None:
        self._news.set()

    def carry_out(self, effects: Iterable[protocol.Effect]) -> None:
        for effect in effects:
            match effect:
                case protocol.Close(code):
                    self._hub.closings[code] += 1
                case protocol.Leave(channel):
                    self._hub.feeds.leave(channel, self)
        self.pump()

    async def open(self, wanted: Subscribe) -> None:
        """Raises MuntinError where there is no such thing to follow."""
        self.connection.subscribe(wanted)
        channel = await self._hub.feeds.open(wanted.topic, self)
        self.carry_out(self.connection.opened(wanted, channel))

    async def run(self) -> None:
        """Write what comes until the client goes, stalls, or the server ends it."""
        listening = asyncio.create_task(self._listen())
        stall = self._hub.limits.write_stall_seconds
        self._stream.narrow()
        try:
            async with asyncio.timeout(stall):
                await self._send(_START)
            chunk: bytes | None = f"retry: {random.randint(*RETRY_MS)}\n\n".encode()  # noqa: S311
            while chunk is not None:
                async with asyncio.timeout(stall):
                    await self._write(chunk, more=True)
                chunk = await self._next()
            if not self._gone:  # a whole answer, so that the client sees an end and no failure
                async with asyncio.timeout(stall):
                    await self._write(b"", more=False)
        except TimeoutError:  # it reads nothing; it may come back with its last id
            self._hub.closings[protocol.SLOW] += 1
            self._stream.abort()
        except OSError:
            pass
        finally:
            listening.cancel()
            self.carry_out(self.connection.lost())

    async def _write(self, chunk: bytes, *, more: bool) -> None:
        self._hub.sent_bytes += len(chunk)
        await self._send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self.pump()

    async def _next(self) -> bytes | None:
        # asyncio logs each frame that is written to a lost connection before the loop tells of it
        while not (self._gone or self._stream.transport.is_closing()):
            self._news.clear()
            item = self.connection.next_frame()
            if isinstance(item, protocol.ReplayWindows):
                await self._hub.replay(self, item)
            elif item is not None:
                self._hub.sent += 1
                return _event(item)
            elif self.connection.closed:
                return None
            else:
                try:
                    async with asyncio.timeout(COMMENT_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    return b":\n\n"
        return None


_START: dict[str, Any] = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}


def _wanted(request: Request) -> Subscribe:
    """The subscription in the query string; the browser sends Last-Event-ID when it comes back."""
    given: dict[str, Any] = {**parameters(request, *ENTRIES["subscribe"])}
    after = request.headers.get("last-event-id") or given.pop("after", "")
    given.pop("after", None)
    for name in ("windows", "state"):
        if given.get(name) == "true":
            given[name] = True
    return Subscribe("", topic(given), Place.parse(after) if after else None)


def _event(frame: Frame) -> bytes:
    identity = f"id: {frame.after}\n" if frame.after else ""
    if frame.text.startswith(_NO_EVENTS):  # an id alone: where to go on
        return f"{identity or ':'}\n\n".encode()
    return f"{identity}data: {frame.text}\n\n".encode()
