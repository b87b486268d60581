"""One feed's messages, as all of its subscribers see them. No I/O.

Subscribers hold a place in the channel, never a copy of its messages: a client that does not
read costs its place and the one frame that is on its way.
"""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from websockets import frames

from muntin.errors import BadArgument
from muntin.server.limits import ServerLimits


class Frame:
    """A message's text as UTF-8, and as the bytes of a server's text frame (RFC 6455, 5.2).

    A server's frames carry no mask and, without compression, no state of the connection: the
    same bytes go to every client.
    """

    __slots__ = ("_head", "after", "wire")

    def __init__(self, text: str, after: str = "") -> None:
        self.after = after  # the place that it takes a client to; "" where it takes it nowhere
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


On = Literal["window", "update"]
_PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


class Place(NamedTuple):
    """Where a subscriber is in the order in which windows closed; it outlives the server."""

    generation: int  # of the ledger; one that stands in the place of another has its own
    number: int  # of the closing; the ledger gives them, and no wall clock

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `str()` gave. Raises BadArgument: it is not one."""
        if text == "0":
            return cls(0, 0)
        found = _PLACE.fullmatch(text)
        if found is None:
            raise BadArgument(f"{text[:80]!r} is no place to go on from: send the last `after`")
        generation, number = found.groups()
        return cls(int(generation), int(number))

    def precedes(self, other: Place) -> bool:
        """Whether windows closed after this place, up to another; of another ledger, all did."""
        return self.generation != other.generation or self.number < other.number

    def __str__(self) -> str:
        if self == BEGINNING:
            return "0"  # before all windows
        return f"{self.generation}.{self.number}"


BEGINNING = Place(0, 0)


@dataclass(frozen=True, slots=True)
class Pushed:
    """A closed window's message and its place."""

    place: Place
    frame: Frame


class Channel:
    """What one feed has said."""

    def __init__(
        self, number: int, on: On, head: Place = BEGINNING, limits: ServerLimits | None = None
    ) -> None:
        self.number = number  # its name in messages
        self.on: On = on
        self.seq = 0  # of the newest message, from 1; 0 before
        self.latest: Frame | None = None
        """The newest message of an `update` channel; older ones are never sent."""
        self.head = head  # of the newest closed window
        self.floor = head
        """Every closed window after it is in the ring; those up to it are in the ledger."""
        self._limits = limits or ServerLimits()
        self._ring: deque[Pushed] = deque()
        self._ring_bytes = 0

    def update(self, frame: Frame) -> None:
        """Replace the newest message."""
        self.seq += 1
        self.latest = frame

    def close_window(self, place: Place, frame: Frame) -> None:
        """Add a closed window; places only grow."""
        if place <= self.head:
            raise BadArgument(f"window at {place} after {self.head}: places only grow")
        self.seq += 1
        self.head = place
        self._ring.append(Pushed(place, frame))
        self._ring_bytes += len(frame)
        while (
            len(self._ring) > self._limits.ring_messages_max
            or self._ring_bytes > self._limits.ring_bytes_max
        ):
            gone = self._ring.popleft()
            self._ring_bytes -= len(gone.frame)
            self.floor = gone.place

    def skip_to(self, place: Place) -> None:
        """Windows up to a place, which may be of another ledger, are only in the ledger."""
        self.head = self.floor = place
        self._ring.clear()
        self._ring_bytes = 0

    def after(self, place: Place) -> Pushed:
        """The first message after a place that is before `head`, and not before `floor`."""
        return next(pushed for pushed in self._ring if pushed.place > place)
