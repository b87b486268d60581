"""What a monitor and the coordinator say to each other: frozen records, and who may say what.

A connection belongs to one site, so no message names it. `epoch` numbers the coordinator's
surveys: everything said in an older epoch is void. `version` numbers the factors that one site
holds within an epoch. `unit` is the site's own newest window unit (its pane number).

Direction   Message    Says
----------  ---------  ------------------------------------------------------------------------
site up     Hello      I am here and hold no factors (of this epoch)
            Alert      my local constraint broke: values of T and of all that exceed it
            Reply      what a Request asked for
            Calm       with these factors no constraint broke from `since` to `unit`
            Push       (watching) the watched values, or by how much they changed
           Busy       (watching) how much has changed at all
site down   Request    send these values, your n largest others, and all others from x up
            Factors    your revision factors, and T when it changed
            Watch      push the values of these objects whenever they change
"""

from dataclasses import dataclass
from typing import Final

from muntin.errors import CorruptMessage

Object = str | int
Entries = tuple[tuple[Object, int], ...]

# Stands for every object that nobody has: total 0. It is in T while T has fewer than k members,
# and then says that no object outside has a positive total.
NOTHING: Final = "\0"

# |value| of one object at one site. With at most SITES_MAX sites no factor leaves int64.
VALUE_MAX: Final = 1 << 50
SITES_MAX: Final = 1024
K_MAX: Final = 10_000

EPOCH_MAX = 1 << 60  # that a site may claim to have seen: there are some left above it
BORDER_MAX = 1 << 61  # all sites' values of one object, and the factors that move them, are less

# The line of a site that pushes every object whose value is not 0.
LINE_ALL: Final = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Hello:
    """A site that has no factors asks to be taken in.

    `life` tells a monitor that was made anew, and so lost its factors, from the one before it: it
    only grows, or is 0 where it is not known.
    """

    epoch: int
    unit: int
    life: int = 0


@dataclass(frozen=True, slots=True)
class Alert:
    """T and the site's violators with their values; nothing else exceeds `border` (adjusted).
    `busy` values have changed in `slides` slides since the epoch began: what pushing would cost."""

    epoch: int
    version: int
    unit: int
    border: int
    busy: int
    slides: int
    entries: Entries


@dataclass(frozen=True, slots=True)
class Reply:
    """Values asked for by `Request`; nothing that is not listed exceeds `border` (adjusted).
    `least` is the smallest value at the site, at most 0: what an object not listed has at least."""

    epoch: int
    version: int
    round: int
    unit: int
    border: int
    least: int
    entries: Entries


@dataclass(frozen=True, slots=True)
class Calm:
    """Acknowledges factors, and says for which units they were valid."""

    epoch: int
    version: int
    since: int
    unit: int


@dataclass(frozen=True, slots=True)
class Push:
    """Values of the watched objects, and of the others that exceed the line, which no other does.

    They are differences from what the site reported last (0 where it reported nothing), of those
    that differ; what was above the line by that and is not any more is among them. With a barrier,
    reported last in this epoch. Otherwise, in the push before, which `number` counts since the
    order to push; the number is negative where the site begins anew, as if it had reported nothing.
    """

    epoch: int
    version: int
    unit: int
    entries: Entries
    number: int = 0


@dataclass(frozen=True, slots=True)
class Busy:
    """As in `Alert`, from a site that is watched and has no cause for alerts (with a barrier)."""

    epoch: int
    version: int
    unit: int
    busy: int
    slides: int


@dataclass(frozen=True, slots=True)
class Request:
    """Ask a site for `objects`, its `more` largest others, and all others from `at_least` up.

    `more` and `at_least` go by adjusted value. The first request of an epoch makes the site drop
    the factors that it holds.
    """

    epoch: int
    version: int
    round: int
    objects: tuple[Object, ...]
    more: int = 0
    at_least: int | None = None


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors that replace those of the same objects, on top of any version from `base` on. `top`
    is the new T, or None where it did not change."""

    epoch: int
    base: int
    version: int
    top: tuple[Object, ...] | None
    entries: Entries


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch these objects too, and all whose adjusted value exceeds `line` (`LINE_ALL`: all).

    A line that is higher than before, or new factors, begin anew: what was watched so far is not
    any more.
    On top of any version from `base` on; `entries` are factors, as in `Factors`.
    """

    epoch: int
    base: int
    version: int
    line: int
    objects: tuple[Object, ...]
    entries: Entries


FromSite = Hello | Alert | Reply | Calm | Push | Busy
Message = FromSite | Request | Factors | Watch


def entries_in(message: Message) -> int:
    """(object, value) pairs and names in a message."""
    names = len(getattr(message, "objects", ())) + len(getattr(message, "top", None) or ())
    return names + len(getattr(message, "entries", ()))


def order(item: Object) -> tuple[bool, int, str]:
    """Sort key of objects: integers first, by value; then strings, by code point."""
    return (False, item, "") if isinstance(item, int) else (True, 0, item)


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
