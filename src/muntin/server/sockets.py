"""uvicorn's connections, which clients' pushes are written to directly.

So a frame that was encoded once goes to a thousand clients with a thousand calls of
`transport.write`, without a task or a queue for each.
"""

import asyncio
import contextlib
import logging
import re
import socket
import struct
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from starlette.types import Scope
from starlette.websockets import WebSocket
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

from muntin.server.channel import Frame, compact
from muntin.server.connections import SPARE_SECONDS, Connections, spare
from muntin.server.limits import KIB, ServerLimits, TokenBucket
from muntin.server.problems import plain
from muntin.server.protocol import NO_PONG, SILENT, TOO_FAST

EXTENSION = "muntin.socket"
BUFFER_BYTES_HIGH = 32 * KIB  # beyond this, a client is behind
KERNEL_BYTES = 64 * KIB  # Linux doubles it
LINGER_SECONDS = 30.0  # as nginx has
_LOG = logging.getLogger("muntin.server.connection")
_LOG.setLevel(logging.ERROR)  # what is no HTTP is refused without a word
_URL = re.compile(rb"https?://([^/?]+)([/?].*)?", re.IGNORECASE)
PIECE_BYTES = 2 * KIB  # looked at between two looks at the budget: at most 341 empty frames


class UvicornSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which gives the application its transport as well."""

    limits = ServerLimits()
    open_connections: Connections

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.on_writable: Callable[[], None] = lambda: None
        # called once, where the other side sends more than it may; nothing more of it is read
        self.on_flood: Callable[[], None] = lambda: self.end(TOO_FAST, "too much at once")
        # called where no pong has come in time
        self.on_silent: Callable[[], None] = lambda: self.end(SILENT, NO_PONG)
        self._flooded = False
        limits, now = self.limits, self.loop.time()
        self.allow(
            limits.message_bytes_max,
            frames=TokenBucket(limits.frames_per_second, limits.frames_burst, now),
            data=TokenBucket(limits.received_bytes_per_second, limits.received_bytes_burst, now),
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        _narrow(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.leave(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """In small pieces: 256 KiB of empty frames would take uvicorn most of a second."""
        for start in range(0, len(data), PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            if not self._flooded and not self._data.spend(self.loop.time(), len(piece)):
                self._flood()
            if self._flooded:
                self.transport.pause_reading()  # uvicorn resumes it when the application reads
                return
            super().data_received(piece)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self._refuse_upgrade()
            if self.transport.is_closing():
                return

    def _refuse_upgrade(self) -> None:
        """What h11 lets pass and websockets does not, a long line or a body: uvicorn would wait for
        ever, and fail when it stops."""
        said = b"".join(self.conn.data_to_send())
        self.transport.write(said or _refusal(400, "no WebSocket's handshake"))
        self.handshake_complete = self.close_sent = True
        self.transport.close()

    def handle_events(self) -> None:
        if self._frames.spend(self.loop.time(), len(self.conn.events)):
            super().handle_events()
        else:
            self._flood()

    def _flood(self) -> None:
        self._flooded = True
        if not self.handshake_complete:
            self.transport.abort()
            return
        self.on_flood()
        if self.close_timer is None:  # it had been closed in another way, and is still sending
            self.close_timer = self.loop.call_later(self.limits.close_seconds, self.transport.abort)

    async def run_asgi(self) -> None:
        app = self.app
        self.scope["extensions"][EXTENSION] = self  # type: ignore[index]

        async def refusing(*arguments: Any) -> None:
            await app(*arguments)
            if self.initial_response is not None:
                self.handshake_complete = True  # else uvicorn logs an error for each refusal

        self.app = refusing  # type: ignore[assignment]
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
        """Whether a frame can be pushed now."""
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
        """Send a close frame and, a few seconds later at most, cut the connection, which a client
        that is behind has longer."""
        if self.close_sent or self.disconnected:
            return
        cut = self.transport.abort
        disconnect: Any = {"type": "websocket.disconnect", "code": code, "reason": reason}
        self.queue.put_nowait(disconnect)
        if not self.transport.is_closing():
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            if self.unread:  # then the kernel keeps the close frame for who reads on later
                cut = self._linger
                # it takes more only once a third of its buffer is free, and the buffer is full
                waiting = self.transport.get_write_buffer_size()
                _let_buffer(self.transport, 3 * (KERNEL_BYTES + waiting))
        self.close_sent = True
        self.stop_keepalive()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # a full buffer of a client that reads nothing would keep the connection for ever
        self.close_timer = self.loop.call_later(self.limits.close_seconds, cut)

    def _linger(self) -> None:
        """Cut the connection, but first go on reading for a while where the kernel has taken all.

        A client that reads on answers the pings that it finds. An answer to a socket that is closed
        makes the kernel reset it, and drop the close frame, which comes behind them.
        """
        seconds = 0.0 if self.unread or self._flooded else LINGER_SECONDS
        self.close_timer = self.loop.call_later(seconds, self.transport.abort)

    def allow(self, message_bytes_max: int, *, frames: TokenBucket, data: TokenBucket) -> None:
        """How long the other side's messages may be from now on, how many frames and bytes."""
        self.conn.max_message_size = message_bytes_max
        self._frames = frames
        self._data = data

    @property
    def unread(self) -> bool:
        """Whether the other side takes less than is written to it."""
        return self.transport.get_write_buffer_size() > 0

    def keepalive_timeout(self) -> None:
        self.on_silent()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(self.limits.close_seconds, self.transport.abort)


class _Requests(h11.Connection):
    """h11's parser, which bounds what is not whole yet, where a request's head and body have bounds
    as well: an event costs as much, however small."""

    limits = ServerLimits()
    _pieces = 0
    _bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
            head = sum(len(name) + len(value) for name, value in event.headers)
            if len(event.target) + head > self.limits.head_bytes_max:
                raise h11.RemoteProtocolError("a head that is too long", error_status_hint=431)
            if len(event.headers) > self.limits.headers_max:
                raise h11.RemoteProtocolError("too many headers", error_status_hint=431)
            if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
                lengths = "its body has two lengths: Content-Length and Transfer-Encoding"
                raise h11.RemoteProtocolError(lengths)  # smuggling, RFC 9112 6.3
            event = _of_path(event)
        elif isinstance(event, h11.Data):
            self._pieces += 1
            self._bytes += len(event.data)
            most = 4 * self.limits.body_bytes_max  # before, the application says 413
            if self._pieces > self.limits.body_pieces_max or self._bytes > most:
                raise h11.RemoteProtocolError("the body is too large, or in too many pieces")
        return event


def _of_path(request: h11.Request) -> h11.Request:
    """Where its target is a whole URL, the host of that is what counts (RFC 9112)."""
    found = _URL.fullmatch(request.target)
    if found is None:
        return request
    headers = [(name, value) for name, value in request.headers if name != b"host"]
    return h11.Request(
        method=request.method,
        headers=[(b"host", found[1]), *headers],
        target=b"/" + (found[2] or b"").removeprefix(b"/"),
        http_version=request.http_version,
    )


class GuardedHttp(H11Protocol):
    """uvicorn's HTTP/1.1, where a connection that sends no whole request in time is cut. Head and
    body have a time limit each, from their first byte to their last."""

    limits = ServerLimits()
    open_connections: Connections
    _deadline: asyncio.TimerHandle | None = None
    _coming = ""  # what is on its way: "head", "body" or nothing
    _spare = False

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _LOG
        self.conn = _Requests(h11.SERVER, self.limits.head_bytes_max)
        self.conn.limits = self.limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._spare = not self.open_connections.enter(transport)
        if self._spare:
            self.app = spare(self.app)  # type: ignore[assignment]
            self.ws_protocol_class = None
        super().connection_made(transport)
        self._expect("head")

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), 4 * PIECE_BYTES):
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                return
            super().data_received(data[start : start + 4 * PIECE_BYTES])

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None:  # its task has not begun yet
            self.scope.setdefault("extensions", {})[EXTENSION] = self  # type: ignore[index]
        state, waiting = self.conn.their_state, len(self.conn.trailing_data[0])
        if state is h11.DONE and waiting < self.limits.head_bytes_max:
            self.flow.resume_reading()  # what comes next waits; but that the client goes is seen
        if self.transport.get_protocol() is not self or self.transport.is_closing():
            self._expect("")
        elif state is h11.IDLE and waiting:
            self._expect("head")
        else:
            self._expect("body" if state is h11.SEND_BODY else "")

    def send_400_response(self, msg: str) -> None:
        """As uvicorn does, which forgets that an answer may be on its way, or have no body, and
        says no reason."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            problem = sys.exception()
            status = getattr(problem, "error_status_hint", 400)
            most = (
                f"at most {self.limits.head_bytes_max:,} bytes of request line and headers, "
                f"and {self.limits.headers_max} headers"
            )
            remedy = most if status == 431 else ""
            said = f"no request of HTTP/1.1: {problem or msg}"[:200]
            self.transport.write(_refusal(status, said, remedy))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever likes could fill the log."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect("")
        self.open_connections.leave(self.transport)
        super().connection_lost(exc)

    def narrow(self) -> None:
        """Small buffers: what is not read waits here, not in them."""
        _narrow(self.transport)

    def abort(self) -> None:
        """Cut the connection, whatever is still to be written; nothing more is."""
        self.cycle.disconnected = True  # uvicorn hears of it later, and logs an error until then
        connected = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # else the kernel goes on trying to send what it has
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _expect(self, coming: str) -> None:
        if coming == self._coming:
            return
        self._coming = coming
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if coming:
            seconds = SPARE_SECONDS if self._spare else self.limits.handshake_seconds
            if coming == "body":
                seconds += self.limits.close_seconds  # the application answers with 408 before
            self._deadline = self.loop.call_later(seconds, self.transport.abort)


def protocols(limits: ServerLimits) -> tuple[type[GuardedHttp], type[UvicornSocket]]:
    """uvicorn's protocols with a server's limits; uvicorn makes one of them a connection. Raises
    BadArgument: the system gives the process hardly any descriptors."""
    shared = {"limits": limits, "open_connections": Connections(limits)}
    return type("Http", (GuardedHttp,), shared), type("WebSocket", (UvicornSocket,), shared)


def socket_of(websocket: WebSocket) -> UvicornSocket:
    """The connection that a WebSocket of the application is."""
    return websocket.scope["extensions"][EXTENSION]


def stream_of(scope: Scope) -> GuardedHttp:
    """The connection that a request came on."""
    return scope["extensions"][EXTENSION]


def _refusal(status: int, message: str, remedy: str = "") -> bytes:
    """A whole answer, of what is not whole enough for the application."""
    body = compact({"error": plain("http", message, remedy)}).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _narrow(transport: asyncio.Transport) -> None:
    if transport.is_closing():
        return
    transport.set_write_buffer_limits(high=BUFFER_BYTES_HIGH)
    # else the kernel takes up to 4 MiB for a client that reads nothing
    _let_buffer(transport, KERNEL_BYTES)


def _let_buffer(transport: asyncio.Transport, count: int) -> None:
    connected = transport.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, count)
