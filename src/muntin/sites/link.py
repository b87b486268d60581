"""A site's connection to the coordinator: made again when it is lost, bounded in all it holds."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI, WebSocketException

from muntin.errors import CorruptMessage, MuntinError
from muntin.sites import protocol
from muntin.sites.machine import SiteMachine
from muntin.sites.outbox import Outbox
from muntin.sites.protocol import Refused
from muntin.spec_sites import SiteSpec
from muntin.topk import MESSAGE_BYTES_MAX

OPEN_SECONDS = 10.0
PING_SECONDS = 20.0
CLOSE_SECONDS = 2.0
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 30.0
REFUSED_SECONDS = 30.0  # what a person must put right is tried again so often
REPORT_UNITS = 12
_LOG = logging.getLogger("muntin.sites")


class Link:
    """Keeps one connection. All of it runs on the site's event loop.

    `ready`: set when there is something to take part with.
    `trouble`: why nothing new can be told, "" where all is well; goes with the reports.
    """

    def __init__(
        self, spec: SiteSpec, token: str, machine: SiteMachine, say: Callable[..., None]
    ) -> None:
        self._spec = spec
        self._machine = machine
        self._say = say
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._outbox: Outbox | None = None
        self._reported_at = 0.0
        self._reported: dict[str, Any] = {}
        self._random = random.Random()  # noqa: S311 (jitter)
        self._said = ""
        self.trouble = ""
        self.ready = asyncio.Event()

    @property
    def connected(self) -> bool:
        return self._outbox is not None

    def send(self, messages: Iterable[bytes]) -> None:
        """Put messages on their way; without a connection they are lost, which does no harm."""
        if self._outbox is not None:
            self._outbox.put(messages)

    def report(self, now: float) -> None:
        """Tell the dashboard, now and then, where there is something new."""
        about = {**self._machine.report(), "problem": self.trouble}
        told = self.trouble == self._reported.get("problem", "")
        if self._outbox is None or (told and now - self._reported_at < REPORT_UNITS):
            return
        if about != self._reported:
            self._outbox.put([protocol.report(about)])
            self._reported = about
        self._reported_at = now

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        pause = 0.0
        clock = asyncio.get_running_loop().time
        await self.ready.wait()
        while True:
            welcomed = inf
            try:
                async with self._connect() as socket:
                    await self._greet(socket)
                    welcomed = clock()
                    await self._talk(socket)
                why, lasting = "the connection was closed", False
            except ConnectionClosed as closed:
                why, lasting = _closing(closed)
            except Refused as refused:
                why, lasting = refused.reason, True
            except CorruptMessage as corrupt:
                why, lasting = f"the coordinator said what is no message: {corrupt}", True
            except (OSError, TimeoutError, InvalidHandshake, InvalidURI, EOFError) as problem:
                why, lasting = str(problem) or type(problem).__name__, False
            finally:
                self._outbox = None
            lasted = clock() - welcomed
            pause = pause_after(pause, lasted)
            if lasted > PAUSE_SECONDS_MAX:
                self._said = ""  # it was there: that it is away again is news
            self._away(why)
            wait = REFUSED_SECONDS if lasting else pause
            await asyncio.sleep(wait * self._random.uniform(0.5, 1.0))

    async def fail(self, why: str) -> None:
        """Tell the coordinator, if it is there, why the site takes no part."""
        with contextlib.suppress(OSError, TimeoutError, WebSocketException, MuntinError, EOFError):
            async with self._connect() as socket:  # instead of the one that there may be
                await self._greet(socket)
                await socket.close(protocol.FAILED, protocol.cut(why))

    def _connect(self) -> connect:
        return connect(
            self._spec.coordinator + protocol.PATH,
            additional_headers=self._headers,
            compression=None,
            max_size=MESSAGE_BYTES_MAX,
            max_queue=4,
            open_timeout=OPEN_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=protocol.PONG_SECONDS,
            close_timeout=CLOSE_SECONDS,
            proxy=None if self._spec.is_local else True,
        )

    async def _greet(self, socket: ClientConnection) -> None:
        await socket.send(protocol.hello(self._spec))
        async with asyncio.timeout(OPEN_SECONDS):
            kept = protocol.parse_welcome(await socket.recv())
        spec = self._spec
        for name in ("k", "epsilon"):
            wanted, theirs = getattr(spec, name), kept[name]
            if wanted is not None and wanted != theirs:
                _LOG.warning(
                    "site %s asks for %s: %s, the coordinator keeps %s",
                    *(spec.site, name, wanted, theirs),
                )
        if spec.heartbeat >= kept["missing_after"]:
            _LOG.warning(
                "site %s says every %s units that it is there, and counts as missing after %s: "
                "make heartbeat smaller",
                *(spec.site, spec.heartbeat, kept["missing_after"]),
            )

    async def _talk(self, socket: ClientConnection) -> None:
        self._outbox = Outbox()
        self._outbox.put(self._machine.greet(self._spec.now()))
        self._reported = {}
        self._say(state="connected", problem="")
        _LOG.info("site %s is connected to %s", self._spec.site, self._spec.coordinator)
        sending = asyncio.create_task(self._send(socket, self._outbox))
        try:
            async for data in socket:
                if isinstance(data, str):
                    raise CorruptMessage("a text frame")
                self.send(self._machine.receive(data, self._spec.now()))
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, socket: ClientConnection, outbox: Outbox) -> None:
        try:
            await outbox.drain(socket.send)
        except ConnectionClosed:
            return
        socket.transport.abort()  # it takes nothing: a close frame would not get through either

    def _away(self, why: str) -> None:
        """Say once what keeps the site away."""
        self._say(state="away", problem=why, **self._machine.report())
        if why != self._said:
            _LOG.warning(
                "site %s is away from %s: %s; its pipeline goes on",
                *(self._spec.site, self._spec.coordinator, why),
            )
            self._said = why


def pause_after(pause: float, lasted: float) -> float:
    """The pause now, from the one before it and how long the connection between them lasted."""
    good = lasted > pause
    return PAUSE_SECONDS_MIN if good else min(max(2 * pause, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)


def _closing(closed: ConnectionClosed) -> tuple[str, bool]:
    """What a close code means, and whether a person must put it right."""
    if closed.rcvd is None:
        return "the connection was lost", False
    code, reason = closed.rcvd.code, closed.rcvd.reason
    if code == protocol.REPLACED:
        reason = "another process takes part under the same name"
    why = f"refused with {code}: {reason}" if code >= 4000 else f"closed with {code} {reason}"
    return why.strip(), code in protocol.LASTING
