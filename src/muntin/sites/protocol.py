"""What site and coordinator say around the protocol of `muntin.topk`: greetings, reports, codes.

A site connects to /site with its token as bearer token, says hello as JSON text, and is welcomed.
From then on binary frames are messages of `muntin.topk`, both ways; text frames from the site
are reports for the dashboard. No I/O.
"""

import json
from collections.abc import Mapping
from typing import Any

from muntin.errors import BadArgument
from muntin.server.messages import BadMessage, json_object
from muntin.spec_sites import Ranking, SiteSpec

PROTOCOL = 3
PATH = "/site"
GREETING_CHARACTERS_MAX = 16_384
PROBLEM_CHARACTERS_MAX = 500
NAME_CHARACTERS_MAX = 256
PONG_SECONDS = 120.0  # a ping and its answer wait behind what is on its way: 4.4 MB, at 40 kB/s

GOING_AWAY = 1001
TOO_LARGE = 1009
FAILED = 1011  # a site cannot take part; the reason is why
BAD_MESSAGE = 4000
UNAUTHORISED = 4001
OTHER_PROTOCOL = 4002
DISAGREES = 4003
UNKNOWN_SITE = 4004
SLOW = 4008
REPLACED = 4009
TOO_FAST = 4029

# A person has to change something before these go away: come back seldom.
LASTING = frozenset((UNAUTHORISED, OTHER_PROTOCOL, DISAGREES, UNKNOWN_SITE, REPLACED))

_PHASES = ("joining", "calm", "alerted", "watching")
_REPORTED = (
    "phase", "unit", "slack", "objects", "slides", "naive_messages", "naive_entries", "naive_bytes",
    "window_entries", "window_bytes", "problem",
)  # fmt: skip


class Refused(BadArgument):
    """The other side may not go on; close with `code`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = cut(reason)


def cut(reason: str) -> str:
    """As much as a close frame takes: of RFC 6455 123 bytes."""
    return reason.encode()[:120].decode(errors="ignore")


def hello(spec: SiteSpec) -> str:
    about = {"type": "hello", "protocol": PROTOCOL, "site": spec.site, **spec.said()}
    return json.dumps(about)


def parse_hello(text: str) -> tuple[str, dict[str, Any]]:
    """The site, and what it ranks as `Ranking.said`; Refused where it is no hello of ours."""
    given = _object(text)
    if given.get("type") != "hello":
        raise Refused(BAD_MESSAGE, "say hello first")
    protocol = given.get("protocol")
    if isinstance(protocol, bool) or protocol != PROTOCOL:
        shown = ascii(protocol)[:20]
        raise Refused(OTHER_PROTOCOL, f"protocol {shown} is not {PROTOCOL}: update the older side")
    site = given.get("site")
    if not isinstance(site, str) or not 1 <= len(site) <= NAME_CHARACTERS_MAX:
        raise Refused(BAD_MESSAGE, "site: its name is missing")
    greeting = ("type", "protocol", "site")
    return site, {name: value for name, value in given.items() if name not in greeting}


def check_agreement(said: Mapping[str, Any], ranking: Ranking) -> None:
    """Refused, naming the entry and both values, unless the site ranks what we rank."""
    ours = ranking.said()
    for name, value in ours.items():
        if name not in said or said[name] != value or isinstance(said[name], bool):
            theirs = ascii(said.get(name))[:40]
            raise Refused(DISAGREES, f"{name}: the site says {theirs}, the coordinator {value!r}")
    if said.keys() - ours.keys():
        unknown = ascii(min(said.keys() - ours.keys()))[:40]
        raise Refused(BAD_MESSAGE, f"hello has an entry {unknown} that is not known")


def welcome(run: str, k: int, epsilon: int, missing_after: float) -> str:
    """The answer to a hello that is right: what is kept, which a site may have expected otherwise.
    `missing_after`: units of silence."""
    kept = {"k": k, "epsilon": epsilon, "missing_after": missing_after}
    return json.dumps({"type": "welcome", "protocol": PROTOCOL, "run": run, **kept})


def parse_welcome(text: str | bytes) -> dict[str, Any]:
    """What the coordinator keeps; Refused where it is none."""
    given = _object(text) if isinstance(text, str) else {}
    numbers = [type(given.get(name)) for name in ("k", "epsilon", "missing_after")]
    fits = numbers[:2] == [int, int] and numbers[2] in (int, float)
    if given.get("type") != "welcome" or given.get("protocol") != PROTOCOL or not fits:
        raise Refused(BAD_MESSAGE, "this is no coordinator, or one of another version")
    return given


def report(about: dict[str, Any]) -> str:
    known = {name: about[name] for name in _REPORTED}
    known["problem"] = known["problem"][:PROBLEM_CHARACTERS_MAX]
    return json.dumps({"type": "report", **known})


def parse_report(text: str) -> dict[str, Any]:
    """What a site says of itself; Refused where it is no report."""
    given = _object(text)
    if given.pop("type", None) != "report" or set(given) != set(_REPORTED):
        raise Refused(BAD_MESSAGE, "text frames are reports")
    for name, value in given.items():
        if name == "phase":
            fits = value in _PHASES
        elif name == "problem":
            fits = isinstance(value, str) and len(value) <= PROBLEM_CHARACTERS_MAX
        else:
            low = -(1 << 62) if name in ("slack", "unit") else 0
            fits = type(value) is int and low <= value < 1 << 62
        if not fits and not (name in ("slack", "unit") and value is None):
            raise Refused(BAD_MESSAGE, f"report: {name} is not what it can be")
    return given


def _object(text: str) -> dict[str, Any]:
    if len(text) > GREETING_CHARACTERS_MAX:
        raise Refused(BAD_MESSAGE, f"a text has at most {GREETING_CHARACTERS_MAX:,} characters")
    try:
        return json_object(text, "a text frame")
    except BadMessage as bad:
        raise Refused(BAD_MESSAGE, str(bad)) from None
