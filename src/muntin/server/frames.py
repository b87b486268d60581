"""Messages to clients, encoded once and sent to all: an unmasked WebSocket text frame."""

from __future__ import annotations

import json
from typing import Any


class Frame:
    """A message's text as UTF-8, and as the bytes of a server's text frame (RFC 6455, 5.2).

    A server's frames carry no mask and, without compression, no state of the connection: the
    same bytes go to every client.
    """

    __slots__ = ("_head", "after", "wire")

    def __init__(self, text: str, after: str = "") -> None:
        self.after = after
        """The place that it takes a client to; "" where it takes it nowhere."""
        payload = text.encode()
        size = len(payload)
        if size < 126:
            head = bytes((0x81, size))
        elif size < 1 << 16:
            head = b"\x81\x7e" + size.to_bytes(2, "big")
        else:
            head = b"\x81\x7f" + size.to_bytes(8, "big")
        self.wire = head + payload
        self._head = len(head)

    @property
    def text(self) -> str:
        return self.wire[self._head :].decode()

    def __len__(self) -> int:
        return len(self.wire)


def frame(message: dict[str, Any]) -> Frame:
    """A message from plain values."""
    return Frame(compact(message), message.get("after", ""))


def joined(about: dict[str, Any], name: str, text: str) -> Frame:
    """A message whose last entry is JSON text already."""
    return Frame(f'{compact(about)[:-1]},"{name}":{text}}}', about.get("after", ""))


def compact(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
