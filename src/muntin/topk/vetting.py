"""What a coordinator refuses to take from a site, whatever it is doing."""

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

EPOCHS_AHEAD_MAX = 1 << 40  # a site that claims to be further ahead is not believed

FromSite = Hello | Alert | Reply | Calm | Push | Busy


def vetted(name: str, message: Message, epoch: int) -> FromSite:
    """The message, if it can be meant seriously where surveys have come to `epoch`.

    Raises
    ------
    CorruptMessage
        It is not for sites to say, of an impossible epoch, or has values that no site can have.
    """
    if message.epoch > epoch + EPOCHS_AHEAD_MAX:
        raise CorruptMessage(f"site {name!r} claims epoch {message.epoch}, not {epoch}")
    if isinstance(message, Request | Factors | Watch):
        raise CorruptMessage(f"a {type(message).__name__} does not come from a site")
    if isinstance(message, Alert | Reply | Push) and any(
        not -VALUE_MAX <= value <= VALUE_MAX for _, value in message.entries
    ):
        raise CorruptMessage(f"site {name!r} sends a value beyond +-2**50")
    return message
