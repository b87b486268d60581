"""Sockets that a client's pushes go to: uvicorn's own, written to directly, or any ASGI server's.

Written to directly, a frame that was encoded once goes to a thousand clients with a thousand
calls of `transport.write`, without a task or a queue for each.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Protocol

import h11
from starlette.websockets import WebSocket, WebSocketState
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from muntin.server.frames import Frame
from muntin.server.limits import KIB, ServerLimits

EXTENSION = "muntin.socket"
BUFFER_BYTES_HIGH = 32 * KIB  # beyond this, a client is behind
KERNEL_BYTES = 64 * KIB  # Linux doubles it
_LIMITS = ServerLimits()


class Socket(Protocol):
    """What a client's shell needs of a socket."""

    on_writable: Callable[[], None]

    @property
    def takes(self) -> bool:
        """Whether a frame can be pushed now."""
        ...

    def push(self, frame: Frame) -> None: ...

    def end(self, code: int, reason: str) -> None:
        """Send a close frame and, a few seconds later at most, cut the connection."""
        ...


class UvicornSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which gives the application its transport as well."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.on_writable: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=BUFFER_BYTES_HIGH)
        connected = self.transport.get_extra_info("socket")
        # else the kernel takes up to 4 MiB for a client that reads nothing
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)

    async def run_asgi(self) -> None:
        self.scope["extensions"][EXTENSION] = self  # type: ignore[index]
        await super().run_asgi()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.on_writable()

    @property
    def takes(self) -> bool:
        return (
            self.writable.is_set()
            and self.handshake_complete
            and not self.close_sent
            and not self.disconnected
            and not self.transport.is_closing()
        )

    def push(self, frame: Frame) -> None:
        self.transport.write(frame.wire)

    def end(self, code: int, reason: str) -> None:
        if self.close_sent or self.disconnected:
            return
        disconnect: Any = {"type": "websocket.disconnect", "code": code, "reason": reason}
        self.queue.put_nowait(disconnect)
        if not self.transport.is_closing():
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # a full buffer of a client that reads nothing would keep the connection for ever
        self.close_timer = self.loop.call_later(_LIMITS.close_seconds, self.transport.abort)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.loop.call_later(_LIMITS.close_seconds, self.transport.abort)

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(_LIMITS.close_seconds, self.transport.abort)


class GuardedHttp(H11Protocol):
    """uvicorn's HTTP/1.1, where a connection that sends no whole request is cut."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_LIMITS.handshake_seconds, self._cut_if_idle)

    def _cut_if_idle(self) -> None:
        asked = self.cycle is not None or self.conn.their_state is not h11.IDLE
        if not asked and self.transport.get_protocol() is self:
            self.transport.abort()


class AsgiSocket:
    """Any other server's: one frame is on its way at a time."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._task: asyncio.Task[None] | None = None
        self.on_writable: Callable[[], None] = lambda: None

    @property
    def takes(self) -> bool:
        ready = self._websocket.application_state is WebSocketState.CONNECTED
        return self._task is None and ready

    def push(self, frame: Frame) -> None:
        self._task = asyncio.create_task(self._send(frame.text))

    def end(self, code: int, reason: str) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.create_task(self._close(code, reason))

    async def _send(self, text: str) -> None:
        try:
            await self._websocket.send_text(text)
        except Exception:  # the client has gone, as receive() will say
            return
        self._task = None
        self.on_writable()

    async def _close(self, code: int, reason: str) -> None:
        try:
            await asyncio.wait_for(self._websocket.close(code, reason), _LIMITS.close_seconds)
        except Exception:
            return


def socket_of(websocket: WebSocket) -> Socket:
    """The most direct socket that the server gives."""
    direct = websocket.scope.get("extensions", {}).get(EXTENSION)
    return direct if isinstance(direct, UvicornSocket) else AsgiSocket(websocket)
