"""Messages to clients, encoded once and sent to all: an unmasked WebSocket text frame."""

from __future__ import annotations

import json
from typing import Any

from websockets import frames


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
        self.wire = frames.Frame(frames.Opcode.TEXT, payload).serialize(mask=False)
        self._head = len(self.wire) - len(payload)

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
