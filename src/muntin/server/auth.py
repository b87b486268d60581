"""Who may come in: tokens, single-use tickets for browsers, Origin and Host.

OWASP ASVS 5.0, V4.4 (WebSocket): Origin allow-list, tickets that never stand in a URL.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from muntin.errors import BadArgument
from muntin.hosts import is_loopback
from muntin.server.limits import ServerLimits
from muntin.server.postgres.scram import Exchange, ScramKeys
from muntin.spec_sites import checked_token

_ORIGIN = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{0,5})?")
_PORTS = {"http": 80, "https": 443}
Rights = frozenset[str]
READ: Rights = frozenset({"read"})
OPERATE: Rights = frozenset({"read", "command"})


@dataclass(frozen=True, slots=True)
class Grant:
    """What someone who came in may do."""

    rights: Rights
    who: str
    """For the control table: never a secret."""
    key: bytes = field(default=b"", repr=False)
    """Digest of the token that it was given for; a ticket's is that of its token."""
    scram: ScramKeys | None = field(default=None, repr=False)
    """The same token as PostgreSQL's clients prove that they know it."""

    @property
    def may_command(self) -> bool:
        return "command" in self.rights


class Auth:
    """Decides from a request's headers alone. Used on one thread.

    `reader_token`, `operator_token`: bearer tokens: the first may read, the second also send
    commands. Without any, everybody who reaches the server may come in, which is for loopback only.
    `read_only`: nobody may send commands. `origins`: further ones whose pages may connect, e.g.
    "https://ops.example"; the server's own page always may; what has no origin (`Origin: null`, a
    file) never. `hosts`: further names under which the server is reached; without tokens only these
    and loopback's names are answered, so that a foreign page cannot rebind its DNS name to this
    server.

    Raises BadArgument: a token that can be guessed, or an origin or a host's name that is none.
    """

    def __init__(
        self,
        *,
        reader_token: str = "",
        operator_token: str = "",
        read_only: bool = False,
        origins: Iterable[str] = (),
        hosts: Iterable[str] = (),
        limits: ServerLimits | None = None,
        now: Callable[[], float],
    ) -> None:
        self._operate = READ if read_only else OPERATE
        self._salt = secrets.token_bytes(16)
        self._grants = self._known(reader_token, operator_token)
        self.everybody = None if self._grants else Grant(self._operate, "local")
        """What all who reach the server may do; None where a token is needed."""
        self._origins = frozenset(_given(origin) for origin in origins)
        self._hosts = frozenset(_given_host(host) for host in hosts)
        self._limits = limits or ServerLimits()
        self._now = now
        self._tickets: dict[bytes, tuple[float, Grant]] = {}

    def grant(self, headers: Mapping[str, str]) -> Grant | None:
        """Of the bearer token, or of everybody where none is needed."""
        return self.everybody or self._grant_of(digest(bearer(headers)))

    def still(self, grant: Grant) -> Grant | None:
        """What someone who came in earlier may do now; None where the token is no longer valid."""
        return self.everybody or self._grant_of(grant.key)

    def exchange(self) -> Exchange[Grant]:
        """The log-in of one of PostgreSQL's clients, whose password is a token."""
        return Exchange(self._salt, [(g.scram, g) for g in self._grants if g.scram is not None])

    def renew(self, reader_token: str, operator_token: str) -> None:
        """Other tokens from now on; who came in with an old one is found by `still`. Raises
        BadArgument: there would be none, or one can be guessed; the old ones stay."""
        grants = self._known(reader_token, operator_token)
        if bool(grants) == bool(self.everybody):
            raise BadArgument("a server that runs cannot begin or cease to ask for a token")
        self._grants = grants

    def host_allowed(self, headers: Mapping[str, str]) -> bool:
        """Whether the name under which the server was called is one of its own."""
        if self.everybody is None:
            return True
        name = host_name(headers.get("host", ""))
        return is_loopback(name) or name in self._hosts

    def page_allowed(self, headers: Mapping[str, str], *, secure: bool) -> bool:
        """Whether the page that asks, if it is one, may.

        Browsers send no `Origin` with what a page only embeds or links to (an image, a frame), but
        say in `Sec-Fetch-Site` whose page it is (W3C Fetch Metadata). Whoever sends neither is no
        page; the token or loopback decides.
        """
        origin = headers.get("origin")
        if origin is None:
            return headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        schemes = ("https",) if secure else ("http", "https")  # TLS may end at a proxy
        own = {web_origin(f"{scheme}://{headers.get('host', '')}") for scheme in schemes}
        asks = web_origin(origin)
        return asks is not None and (asks in self._origins or asks in own)

    def issue(self, grant: Grant) -> str:
        """A single-use ticket with the same rights."""
        now = self._now()
        if len(self._tickets) >= self._limits.tickets_max:
            self._tickets = {k: v for k, v in self._tickets.items() if v[0] > now}
        while len(self._tickets) >= self._limits.tickets_max:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(32)
        self._tickets[digest(ticket)] = (now + self._limits.ticket_seconds, grant)
        return ticket

    def redeem(self, ticket: str) -> Grant | None:
        """What a ticket gives, once; None if it is unknown, used or old."""
        until, grant = self._tickets.pop(digest(ticket), (0.0, None))
        return self.still(grant) if grant and until > self._now() else None

    def _known(self, reader_token: str, operator_token: str) -> list[Grant]:
        named = ((reader_token, READ, "reader"), (operator_token, self._operate, "operator"))
        grants = []
        for token, rights, who in named:
            if not token:
                continue
            try:
                checked_token(token)
            except ValueError as problem:
                raise BadArgument(str(problem)) from None
            grants.append(Grant(rights, who, digest(token), ScramKeys.of(token, self._salt)))
        return grants

    def _grant_of(self, key: bytes) -> Grant | None:
        found = None
        for grant in self._grants:  # all of them, so that time tells nothing
            if hmac.compare_digest(key, grant.key):
                found = grant
        return found


def bearer(headers: Mapping[str, str]) -> str:
    """The token that was sent; "", which is none, where none was."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def digest(secret: str) -> bytes:
    """Of a token: what is kept of it and compared."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def host_name(host: str) -> str:
    """Without the port, in lower case; "" where it is not written as a host."""
    found = _HOST.fullmatch(host.strip().lower())
    return "" if found is None else found["address"] or found["name"]


def _given_host(text: str) -> str:
    name = host_name(text) or host_name(f"[{text}]")
    if not name:
        raise BadArgument(f"host name {text[:80]!r} is none: write for example ops.example")
    return name


def _given(text: str) -> str:
    origin = web_origin(text)
    if origin is None:
        raise BadArgument(
            f"origin {text[:80]!r} is none: write scheme and host without a path, "
            "for example https://ops.example or http://127.0.0.1:3000"
        )
    return origin


def web_origin(text: str) -> str | None:
    """scheme://host:port, with the port always there; None where it is no web page's origin."""
    found = _ORIGIN.fullmatch(text.strip().lower())
    if found is None:
        return None
    scheme, host, port = found.groups()
    number = int(port) if port else _PORTS[scheme]
    return f"{scheme}://{host}:{number}" if 0 < number < 1 << 16 else None
