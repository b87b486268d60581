"""GET /events: Server-Sent Events, where a WebSocket cannot be had. One subscription each.

The same protocol machine stands behind it, so that limits, order and resuming are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from muntin.errors import MuntinError
from muntin.server.channel import Place
from muntin.server.frames import Frame
from muntin.server.http import Http
from muntin.server.live import Hub
from muntin.server.messages import Subscribe, topic
from muntin.server.problems import RefusalError, problem, status_of
from muntin.server.protocol import Connection, Replay

COMMENT_SECONDS = 15.0  # proxies close what is silent
_ENTRIES = ("select", "query", "windows", "state", "on", "after")


class Events:
    """The route."""

    def __init__(self, http: Http, hub: Hub) -> None:
        self._http = http
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            if request.method != "GET":
                raise RefusalError(405, "method", "only GET")
            grant = self._http.admitted(request)
            self._hub.make_room(request.client.host if request.client else "")
            wanted = _wanted(request)
            stream = _Stream(self._hub, Connection(grant, self._hub.run, time.monotonic()))
            await stream.open(wanted)
        except MuntinError as error:
            body = {"error": problem(error)}
            await JSONResponse(body, status_of(error))(scope, receive, send)
            return
        self._hub.streams += 1
        try:
            await stream.run(receive, send)
        finally:
            self._hub.streams -= 1


class _Stream:
    """One client: pulls from the protocol machine, a message at a time."""

    def __init__(self, hub: Hub, connection: Connection) -> None:
        self._hub = hub
        self._connection = connection
        self._news = asyncio.Event()

    def pump(self) -> None:
        self._news.set()

    async def open(self, wanted: Subscribe) -> None:
        channel = await self._hub.feeds.open(wanted.topic, self)
        self._connection.opened(wanted, channel)

    async def run(self, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_disconnected(receive))
        try:
            async with asyncio.timeout(self._hub.limits.write_stall_seconds):
                await send(_START)
            while not gone.done():
                chunk = await self._next(gone)
                async with asyncio.timeout(self._hub.limits.write_stall_seconds):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except (TimeoutError, OSError):
            pass  # it reads nothing; it may come back with its last id
        finally:
            gone.cancel()
            for channel in self._connection.channels():
                self._hub.feeds.leave(channel, self)
            self._connection.lost()

    async def _next(self, gone: asyncio.Task[None]) -> bytes:
        while True:
            self._news.clear()
            item = self._connection.next_frame()
            if isinstance(item, Replay):
                found, gap = await self._hub.feeds.replay(item.channel, item.after)
                self._connection.replayed(item, found, gap)
            elif item is not None:
                return _event(item)
            else:
                waiting = asyncio.create_task(self._news.wait())
                await asyncio.wait(
                    (waiting, gone), timeout=COMMENT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                quiet = not waiting.done()
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
                if quiet or gone.done():
                    return b":\n\n"


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
    given: dict[str, Any] = dict(request.query_params)
    unknown = set(given) - set(_ENTRIES)
    if unknown:
        raise RefusalError(400, "message", f"there is no parameter {ascii(min(unknown))[:40]}")
    after = request.headers.get("last-event-id") or given.pop("after", "")
    given.pop("after", None)
    for name in ("windows", "state"):
        if given.get(name) == "true":
            given[name] = True
    return Subscribe("", topic(given), Place.parse(after) if after else None)


def _event(frame: Frame) -> bytes:
    text = frame.text
    if text.startswith('{"type":"welcome"'):
        return b":\n\n"
    if text.startswith('{"type":"subscribed"'):  # an id alone: where to go on, and no event
        place = json.loads(text).get("after", "")
        return f"id: {place}\n\n".encode() if place else b":\n\n"
    # the place stands before the result, which may hold any text
    mark = '"after":"'
    head = text[: text.find('"window":') if '"window":' in text else 0]
    place = head.partition(mark)[2].partition('"')[0]
    identity = f"id: {place}\n" if place else ""
    return f"{identity}data: {text}\n\n".encode()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
