"""Follow a statement over /live; comes back by itself, and not at the same time as all others."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from muntin.client.answers import ServerError, Update, error_of, refusal, understood, update_of
from muntin.errors import LedgerError, MuntinError

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

PROTOCOL = 1  # of /live
PASSING = ("", "busy", "502", "503", "504")  # what a server, or a proxy before it, says for a time
RETRY_SECONDS = (1.0, 2.0, 4.0, 5.0)
PUSH_BYTES_MAX = 1 << 20  # a server pushes at most 256 KiB of characters


class Backoff:
    """How long to wait before coming back: a random part of a limit that grows.

    The whole limit is drawn from ("full jitter"), so that a thousand clients of a server that was
    started anew come back spread over a second, and over five when it stays away.
    """

    def __init__(self) -> None:
        self._tries = 0

    def pause(self) -> float:
        """Seconds until the next try."""
        limit = RETRY_SECONDS[min(self._tries, len(RETRY_SECONDS) - 1)]
        self._tries += 1
        return random.uniform(0.0, limit)  # noqa: S311 (no secret)

    def reset(self) -> None:
        """It worked."""
        self._tries = 0


class Subscription(Iterator[Update], AbstractContextManager["Subscription"]):
    """Updates as they come; `next()` waits for one, in any thread. Made by `Client.subscribe`.

    A server that is away, or cannot read its ledger now, is asked again until it answers; closed
    windows since then come first, and an update with a `gap` where they cannot be had any more.

    Attributes
    ----------
    after : str or None
        Place of the last closed window that was returned.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        wanted: dict[str, Any],
        after: str | None,
        timeout: float | None,
    ) -> None:
        self.after = after
        self._address = address
        self._headers = headers
        self._wanted = wanted
        self._timeout = timeout
        self._closed = threading.Event()
        self._turn = threading.Lock()
        self._backoff = Backoff()
        self._leave = ExitStack()
        self._socket: ClientConnection | None = self._open()

    def __next__(self) -> Update:
        with self._turn:  # several threads may share the updates: each goes to one
            return self._next()

    def _next(self) -> Update:
        while not self._closed.is_set():
            try:
                if self._socket is None:
                    self._socket = self._open()
                    self._backoff.reset()
                _, update = self._hear(self._socket.recv())
                if update is not None:
                    return update
            except (ConnectionClosed, ServerError, LedgerError) as lost:
                if self._closed.is_set():
                    break
                if isinstance(lost, ServerError) and lost.code not in PASSING:
                    raise
                self._socket = None
                self._closed.wait(self._backoff.pause())
        raise StopIteration

    def close(self) -> None:
        """Leave; a `next()` in another thread ends."""
        self._closed.set()
        self._leave.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> ClientConnection:
        from websockets.sync.client import connect as open_socket

        self._leave.close()
        try:
            socket = open_socket(
                self._address,
                additional_headers=self._headers,
                compression=None,
                max_size=PUSH_BYTES_MAX,
                open_timeout=self._timeout,
            )
        except InvalidStatus as refused:
            raise refusal(
                refused.response.status_code, bytes(refused.response.body or b"")
            ) from None
        except (OSError, EOFError, WebSocketException, ValueError) as problem:  # of a redirect, too
            raise ServerError(f"{self._address} does not answer: {problem}") from None
        self._leave.enter_context(socket)
        try:
            if self._closed.is_set():  # by another thread, which did not see this socket
                raise ServerError(f"{self._address}: the subscription was closed")
            socket.send(json.dumps(self._wanted | ({"after": self.after} if self.after else {})))
            while self._hear(socket.recv(timeout=self._timeout))[0] != "subscribed":
                pass
        except (ConnectionClosed, TimeoutError) as lost:
            raise ServerError(f"{self._address}: the connection was lost: {lost}") from None
        except MuntinError:
            self._leave.close()
            raise
        return socket

    def _hear(self, text: str | bytes) -> tuple[str, Update | None]:
        with understood(self._address):
            message = json.loads(text)
            kind = message["type"]
            if kind == "error":
                raise error_of(message, self._wanted.get("select"))
            if kind == "welcome" and message["protocol"] != PROTOCOL:
                raise ValueError(f"protocol {message['protocol']}, and not {PROTOCOL}")
            if kind == "subscribed":
                self.after = message.get("after", self.after)
            if kind not in ("result", "window", "gap"):
                return kind, None
            update = update_of(message)
            self.after = update.after or self.after
            return kind, update
