"""How many connections a server holds: never more than the process has descriptors for.

A process that has none left cannot even answer that it is busy, nor read its ledger, and asyncio
tries to accept again and again. So connections are counted, and refused before that.
"""

import asyncio
import contextlib
import os
import resource
from collections import Counter
from collections.abc import Hashable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from muntin.errors import BadArgument
from muntin.hosts import is_loopback
from muntin.server.limits import ServerLimits
from muntin.server.problems import plain

ACCEPTS_AT_ONCE = 32  # asyncio accepts so many before it tells of the first
SPARE_MAX = 64  # connections beyond the limit, for /healthz alone
SPARE_SECONDS = 2.0  # for one of them to ask
RESERVED = SPARE_MAX + 256  # descriptors: the ledger's files, sockets that are coming and going
CONNECTIONS_MIN = 16
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Retry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)


class Quota:
    """Who holds a place: `most` altogether, `each` from one address; from this machine, any."""

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._addresses: dict[Hashable, str] = {}
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._addresses)

    @property
    def full(self) -> bool:
        return len(self._addresses) >= self._most

    def take(self, who: Hashable, address: str) -> bool:
        """False where there is none left, or none for that address."""
        many = self._by_address.get(address, 0) >= self._each and not is_loopback(address)
        if many or self.full:
            return False
        self._addresses[who] = address
        self._by_address[address] += 1
        return True

    def leave(self, who: Hashable) -> None:
        """Nothing happens where it has none."""
        address = self._addresses.pop(who, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]


class Connections:
    """The open connections of one server. Used on the loop's thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self._places = Quota(bound(limits), limits.connections_per_address_max)
        self._spare: dict[asyncio.Transport, None] = {}

    def enter(self, transport: asyncio.Transport) -> bool:
        """Take up a new connection; False where it has only a spare place.

        Spare places are short: the newest takes that of the oldest, so that who only asks how the
        server is gets through a crowd that holds them.
        """
        peer = transport.get_extra_info("peername")
        if self._places.take(transport, str(peer[0]) if peer else ""):
            return True
        if len(self._spare) >= SPARE_MAX:
            oldest = next(iter(self._spare))
            del self._spare[oldest]
            oldest.write(REFUSAL)
            oldest.abort()
        self._spare[transport] = None
        return False

    def leave(self, transport: asyncio.Transport) -> None:
        self._spare.pop(transport, None)
        self._places.leave(transport)


def bound(limits: ServerLimits) -> int:
    """How many connections there may be; raises the limit of descriptors as far as is needed.
    Raises BadArgument: the system gives the process hardly any descriptors."""
    reserved = RESERVED + limits.postgres_connections_max
    used = _open_descriptors()
    wanted = used + reserved + limits.connections_max
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        reach = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS says another limit than it keeps
            resource.setrlimit(resource.RLIMIT_NOFILE, (reach, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return limits.connections_max
    free = soft - used - reserved
    if free < CONNECTIONS_MIN:
        least = used + reserved + CONNECTIONS_MIN
        raise BadArgument(
            f"this process may open {soft:,} files and sockets, of which {used:,} are open: "
            f"that is too few for a server; allow {least:,} first, as `ulimit -n 4096` does"
        )
    return min(free, limits.connections_max)


def spare(app: ASGIApp) -> ASGIApp:
    """What a connection in a spare place may ask: how the server is, once."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in ("/healthz", "/readyz"):
            await app(scope, receive, send)
            return
        body = plain("busy", "too many connections", "come again later")
        await JSONResponse({"error": body}, 503, {"retry-after": "1"})(scope, receive, send)

    return answer


def _open_descriptors() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return len(os.listdir(folder))
    return 64
