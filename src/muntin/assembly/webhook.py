"""Pushes events to one address, one after the other: signed, tried again, waited for by nobody.

Headers and signature are those of Standard Webhooks (standardwebhooks.com), so that a receiver has
a library in any language: `webhook-id`, `webhook-timestamp`, and in `webhook-signature` the
HMAC-SHA256 of `id.timestamp.body`. An event may come more than once, always with its id.
"""

import base64
import hashlib
import hmac
import http.client
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from muntin.errors import LedgerConflict

TIMEOUT_SECONDS = 10.0
PAUSE_SECONDS = 1.0  # before the first new try; each further pause is twice as long
PAUSE_SECONDS_MAX = 300.0
LEAVE_SECONDS = 2.0  # that a pipeline which ends waits for what is left
REFUSED = (400, 405, 410, 413, 415, 422)  # of this event, whenever it comes: it is not tried again
ERROR_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An event to be sent."""

    id: str
    body: bytes


def signature(key: bytes, push: WebhookEvent, timestamp: int) -> str:
    """The `webhook-signature` of an event."""
    signed = f"{push.id}.{timestamp}.".encode() + push.body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


class Webhook:
    """One address; a thread of its own sends what `following` offers, and calls `taken` after.
    `following` offers the same event until it was taken."""

    def __init__(
        self,
        url: str,
        key: bytes,
        following: Callable[[], WebhookEvent | None],
        taken: Callable[[WebhookEvent], None],
    ) -> None:
        self.target = url, key
        self._parts = urlsplit(url)
        self._key = key
        self._following = following
        self._taken = taken
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._tries = {"delivered": 0, "refused": 0, "failures": 0}
        self._error = ""
        self._thread = threading.Thread(target=self._work, name="muntin-webhook", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def close(self, patiently: bool = False) -> None:
        """Send no more; `patiently`: what is left is tried once more, for a moment."""
        if not patiently:
            self._following = lambda: None
        self._closing.set()
        self._wake.set()
        if patiently:
            self._thread.join(timeout=LEAVE_SECONDS)

    def said(self) -> dict[str, Any]:
        return {**self._tries, "error": self._error}

    def _work(self) -> None:
        tries = 0
        while True:
            if self._sent_next():
                tries = 0
                continue
            if self._closing.is_set():
                return
            if not self._error:  # nothing was there to send
                self._wake.wait()
                self._wake.clear()
                continue
            pause = min(PAUSE_SECONDS * 2**tries, PAUSE_SECONDS_MAX)
            tries = min(tries + 1, 16)
            self._closing.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 (spreads load)

    def _sent_next(self) -> bool:
        """Whether the next event is off the list."""
        try:
            push = self._following()
            if push is None:
                self._error = ""
                return False
            status = self._send(push)
            if status not in REFUSED and not 200 <= status < 300:
                return self._failed(f"it answered {status}")
            self._taken(push)
        except LedgerConflict:
            self._closing.set()  # another writer sends from now on
            return False
        except Exception as error:
            why = str(error) or type(error).__name__
            if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
                why = "its answer is no HTTP"  # what it says may be what it was sent: the address
            return self._failed(why.replace(self._parts.hostname or "", "the receiver"))
        self._tries["refused" if status in REFUSED else "delivered"] += 1
        self._error = ""
        return True

    def _failed(self, why: str) -> bool:
        self._tries["failures"] += 1
        self._error = why[:ERROR_CHARACTERS_MAX]
        return False

    def _send(self, push: WebhookEvent) -> int:
        parts, timestamp = self._parts, int(time.time())
        https = parts.scheme == "https"
        kind = http.client.HTTPSConnection if https else http.client.HTTPConnection
        port = parts.port or kind.default_port  # else it looks for one in an address of IPv6
        connection = kind(parts.hostname or "", port, timeout=TIMEOUT_SECONDS)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {
                "content-type": "application/json",
                "user-agent": "muntin",
                "webhook-id": push.id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(self._key, push, timestamp),
            }
            connection.connect()
            with _in_time(connection.sock):
                connection.request("POST", path, push.body, headers)
                answer = connection.getresponse()
                while 100 <= answer.status < 200:  # RFC 9110, 15.2: the answer comes after these
                    answer.headers = None  # pyright: ignore[reportAttributeAccessIssue]
                    answer.begin()
                return answer.status
        finally:
            connection.close()


@contextmanager
def _in_time(connected: socket.socket) -> Iterator[None]:
    """A socket's own limit is one of each read: who sends a little now and then would be waited
    for without end."""
    late = threading.Event()

    def cut() -> None:
        late.set()
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(TIMEOUT_SECONDS, cut)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if late.is_set():  # what was read may be cut off
            raise TimeoutError("timed out") from None
