"""What clients may say over /live, parsed and checked. No I/O."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from muntin.errors import BadArgument
from muntin.select.limits import Limits
from muntin.server.channel import On, Place

PROTOCOL = 1
STATEMENT_CHARACTERS_MAX = Limits().text_bytes
ACTIONS = ("slow_down", "resume")
_ID_MAX = 64
_NAME_MAX = 64
_TICKET_MAX = 256
ENTRIES = {
    "hello": ("ticket",),
    "subscribe": ("select", "query", "windows", "state", "on", "after"),
    "unsubscribe": (),
    **dict.fromkeys(ACTIONS, ("pipeline", "summary")),
}
"""By the type of a message: what stands in it beside `type` and `id`."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What is followed: equal topics share one computation."""

    kind: str  # "select", "query", "windows", "state"
    text: str  # statement, name of the standing query, name of a summary or "" (all), ""
    on: On


@dataclass(frozen=True, slots=True)
class LiveHello:
    ticket: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    id: str
    topic: Topic
    after: Place | None  # the last closed window that the client has; None: from now on


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    id: str


@dataclass(frozen=True, slots=True)
class LiveCommand:
    id: str
    action: str  # "slow_down" or "resume"
    pipeline: str  # "" where a summary is named, or there is one pipeline
    summary: str  # "" for all of the pipeline


Message = LiveHello | Subscribe | Unsubscribe | LiveCommand


class BadMessage(BadArgument):
    """Not a message of the protocol. `id` is the request's, where it could be read."""

    def __init__(self, message: str, identifier: str = "", *, fatal: bool = False) -> None:
        super().__init__(message)
        self.id = identifier
        self.fatal = fatal


def parse(text: str) -> Message:
    """A client's message. Raises BadMessage: `fatal` where the text is not a JSON object at all:
    the client speaks something else."""
    given = json_object(text, "a message")
    identifier = _text(given, "id", _ID_MAX, "")
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in ENTRIES:
        raise BadMessage(f"type: one of {', '.join(ENTRIES)}", identifier)
    for name in given:
        if name not in ("type", "id", *ENTRIES[kind]):
            shown = ascii(name)[:40]
            raise BadMessage(f"{shown}: there is no such entry in this message", identifier)
    if kind == "hello":
        return LiveHello(_text(given, "ticket", _TICKET_MAX, identifier))
    if kind == "unsubscribe":
        return Unsubscribe(identifier)
    if kind != "subscribe":
        return command(kind, given, identifier)
    after = _text(given, "after", 256, identifier)
    try:
        place = Place.parse(after) if after else None
    except BadArgument as problem:
        raise BadMessage(str(problem), identifier) from None
    return Subscribe(identifier, topic(given, identifier), place)


def json_object(text: str, what: str) -> dict[str, Any]:
    """One JSON object (RFC 8259) whose names stand once each; `what` it is, for the error. Raises
    BadMessage: `fatal` where it is no JSON object at all (or has infinities, huge numbers, or is
    nested too deep)."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):  # readers differ in which one they take
            [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
            raise BadMessage(f"{ascii(twice)[:40]}: stands twice in {what}")
        return found

    try:
        given = json.loads(text, parse_constant=_no_constant, object_pairs_hook=unique)
    except BadMessage:
        raise
    except (ValueError, RecursionError):
        raise BadMessage(f"{what} is one JSON object", fatal=True) from None
    if not isinstance(given, dict):
        raise BadMessage(f"{what} is one JSON object", fatal=True)
    return given


def command(action: str, given: dict[str, Any], identifier: str = "") -> LiveCommand:
    """A command, named by `action`, with the pipeline or summary that it is for. Raises
    BadMessage."""
    if action not in ACTIONS:
        raise BadMessage(f"action: one of {', '.join(ACTIONS)}", identifier)
    pipeline, summary = (_text(given, n, _NAME_MAX, identifier) for n in ("pipeline", "summary"))
    return LiveCommand(identifier, action, pipeline, summary)


def topic(given: dict[str, Any], identifier: str = "") -> Topic:
    """What a subscription names: exactly one of select, query, windows, state. Raises
    BadMessage."""
    named = [name for name in ("select", "query", "windows", "state") if name in given]
    if len(named) != 1:
        raise BadMessage("name one of select, query, windows, state", identifier)
    kind = named[0]
    on = given.get("on", "update" if kind in ("select", "state") else "window")
    if on not in ("window", "update"):
        raise BadMessage('on: "window" or "update"', identifier)
    if (kind == "windows" and on != "window") or (kind == "state" and on != "update"):
        raise BadMessage(f"{kind} is not followed on: {on}", identifier)
    if kind in ("windows", "state") and given[kind] is True:
        return Topic(kind, "", on)
    if kind == "state":
        raise BadMessage("state: true", identifier)
    limit = STATEMENT_CHARACTERS_MAX if kind == "select" else _NAME_MAX
    text = _text(given, kind, limit, identifier)
    if not text:
        raise BadMessage(f"{kind}: is empty", identifier)
    return Topic(kind, text, on)


def _text(given: dict[str, Any], name: str, limit: int, identifier: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str) or len(value) > limit:
        raise BadMessage(f"{name}: text of at most {limit} characters", identifier)
    return unicode_text(value, name, identifier)


def unicode_text(value: str, name: str, identifier: str = "") -> str:
    """The same text, which JSON's escapes can make what no encoding writes. Raises BadMessage."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadMessage(f"{name}: holds half a surrogate pair", identifier) from None
    return value


def _no_constant(_: str) -> Any:
    raise ValueError
