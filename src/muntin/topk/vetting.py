"""What a site may say: whatever no honest one says is refused before anything changes."""

from __future__ import annotations

from muntin.errors import CorruptMessage
from muntin.topk.messages import (
    VALUE_MAX,
    Alert,
    Busy,
    Calm,
    Factors,
    Hello,
    Message,
    Push,
    Reply,
    Request,
    Watch,
)

FromSite = Hello | Alert | Reply | Calm | Push | Busy
EPOCH_MAX = 1 << 60  # that a site may claim to have seen: there are some left above it
BORDER_MAX = 1 << 61  # all sites' values of one object, and the factors that move them, are less


def vetted(name: str, message: Message, epoch: int) -> FromSite:
    """The message, if it can be meant seriously where surveys have come to `epoch`.

    CorruptMessage where it is not for sites to say, of an impossible epoch, or has values that no
    site can have.
    """
    if message.epoch > max(epoch, EPOCH_MAX):
        raise CorruptMessage(f"site {name!r} claims epoch {message.epoch}, not {epoch}")
    if isinstance(message, Request | Factors | Watch):
        raise CorruptMessage(f"a {type(message).__name__} does not come from a site")
    if isinstance(message, Alert | Reply | Push):
        most = VALUE_MAX * (2 if isinstance(message, Push) else 1)  # pushes are differences
        if any(not -most <= value <= most for _, value in message.entries):
            raise CorruptMessage(f"site {name!r} sends a value beyond +-2**50")
    if isinstance(message, Alert | Reply) and not 0 <= message.border <= BORDER_MAX:
        raise CorruptMessage(f"site {name!r} claims the border {message.border}: 0 to 2**61")
    if isinstance(message, Reply) and not -VALUE_MAX <= message.least <= 0:
        raise CorruptMessage(f"site {name!r} claims the least value {message.least}: -2**50 to 0")
    return message
