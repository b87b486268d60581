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
from starlette.types import Scope
from starlette.websockets import WebSocket, WebSocketState
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

from muntin.server.frames import Frame
from muntin.server.limits import KIB, ServerLimits

EXTENSION = "muntin.socket"
BUFFER_BYTES_HIGH = 32 * KIB  # beyond this, a client is behind
KERNEL_BYTES = 64 * KIB  # Linux doubles it


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


class Stream(Protocol):
    """What a stream of events needs of its connection, beyond ASGI."""

    def narrow(self) -> None:
        """Small buffers: what is not read waits here, not in them."""
        ...

    def abort(self) -> None:
        """Cut the connection, whatever is still to be written."""
        ...


class UvicornSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which gives the application its transport as well."""

    limits = ServerLimits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.on_writable: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        _narrow(self.transport)

    async def run_asgi(self) -> None:
        self.scope["extensions"][EXTENSION] = self  # type: ignore[index]
        await super().run_asgi()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.on_writable()

    def send_receive_event_to_app(self) -> None:
        """As uvicorn does, which logs a traceback for each text that is no UTF-8."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.send_close(CloseCode.INVALID_DATA)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

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
        self.close_timer = self.loop.call_later(self.limits.close_seconds, self.transport.abort)

    def allow(self, message_bytes_max: int) -> None:
        """From now on the other side may send longer messages, or only shorter ones."""
        self.conn.max_message_size = message_bytes_max

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.loop.call_later(self.limits.close_seconds, self.transport.abort)

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(self.limits.close_seconds, self.transport.abort)


class GuardedHttp(H11Protocol):
    """uvicorn's HTTP/1.1, where a connection that sends no whole request is cut."""

    limits = ServerLimits()
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        asked = self.conn.their_state is not h11.IDLE or not self.conn.trailing_data[0]
        if asked or self.transport.get_protocol() is not self:
            self._forget()
        elif self._deadline is None:
            self._expect()

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None:  # its task has not begun yet
            self.scope.setdefault("extensions", {})[EXTENSION] = self  # type: ignore[index]

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def narrow(self) -> None:
        _narrow(self.transport)

    def abort(self) -> None:
        self.transport.abort()

    def _expect(self) -> None:
        seconds = self.limits.handshake_seconds
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class AsgiSocket:
    """Any other server's: one frame is on its way at a time."""

    limits = ServerLimits()

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
            await asyncio.wait_for(self._websocket.close(code, reason), self.limits.close_seconds)
        except Exception:
            return


class AsgiStream:
    """Any other server's, which has to see to itself."""

    def narrow(self) -> None:
        pass

    def abort(self) -> None:
        pass


def protocols(limits: ServerLimits) -> tuple[type[GuardedHttp], type[UvicornSocket]]:
    """uvicorn's protocols with a server's limits; uvicorn makes one of them a connection."""
    http = type("Http", (GuardedHttp,), {"limits": limits})
    return http, type("WebSocket", (UvicornSocket,), {"limits": limits})


def socket_of(websocket: WebSocket) -> Socket:
    """The most direct socket that the server gives."""
    direct = websocket.scope.get("extensions", {}).get(EXTENSION)
    return direct if isinstance(direct, UvicornSocket) else AsgiSocket(websocket)


def stream_of(scope: Scope) -> Stream:
    """The same for a stream of events."""
    direct = scope.get("extensions", {}).get(EXTENSION)
    return direct if isinstance(direct, GuardedHttp) else AsgiStream()


def _narrow(transport: asyncio.Transport) -> None:
    transport.set_write_buffer_limits(high=BUFFER_BYTES_HIGH)
    connected = transport.get_extra_info("socket")
    # else the kernel takes up to 4 MiB for a client that reads nothing
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
