"""Keeps the global top k: feeds what sites say to `Coordinator`, and saves it.

For the server's event loop; what other threads may read is in `Status`.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from muntin.errors import CorruptMessage, LedgerError
from muntin.ledger.temporary import TemporaryLedger
from muntin.sites import protocol
from muntin.sites.counts import SiteCounts
from muntin.sites.objects import type_of
from muntin.sites.session import SiteSession
from muntin.sites.spec import CoordinatorSpec
from muntin.sites.state_file import StateFile, clock_epoch
from muntin.sites.status import Status
from muntin.topk import Coordinator, CostModel, Message, decode, encode

SAVE_AGAIN_SECONDS = 5.0
TICK_SECONDS_MIN, TICK_SECONDS_MAX = 0.02, 0.25
_LOG = logging.getLogger("muntin.sites")


class CoordinatorService:
    """One coordinator, its connections and its state file."""

    def __init__(self, spec: CoordinatorSpec, updates: TemporaryLedger) -> None:
        self.spec = spec
        self.run = secrets.token_hex(8)
        self.sessions: dict[str, SiteSession] = {}
        self.counts = {name: SiteCounts() for name in spec.sites}
        self.refused: Counter[int] = Counter()  # connections that were closed with each code
        self.problems: dict[str, str] = {}
        """Why a site that is not connected takes no part, where that is known."""
        self._types: dict[str, str] = {}  # of the items of each site, as it named them last
        self._updates = updates
        self._file = StateFile(Path(spec.state or f"{spec.name}.coordinator"))
        self._saved: tuple[Any, ...] = ()
        self._save_at = 0.0
        try:
            self.coordinator = self._begin()
            # before it says anything: the next one must not use its epochs again
            self._keep((), self.coordinator.to_bytes())
        except BaseException:
            self._file.close()
            raise
        self._saving: asyncio.Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, "muntin-state")
        self.status = Status(spec, self.run, self.counts, self.refused, self.problems)
        self._publish()

    def _begin(self) -> Coordinator:
        """Go on from the state file, or begin with an epoch that no earlier coordinator used."""
        spec, options = self.spec, self._options()
        stored, epoch = self._file.load(), clock_epoch()
        if stored is not None:
            try:
                found = Coordinator.from_bytes(stored, epoch=epoch, **options)
            except CorruptMessage as problem:
                _LOG.error("%s", problem)
                self._file.put_aside()
            else:
                same = (list(found.sites), found.k, found.epsilon)
                if same == (list(spec.sites), spec.k, spec.epsilon):
                    return found
                epoch = max(epoch, found.epoch)
        return Coordinator(spec.sites, spec.k, epsilon=spec.epsilon, epoch=epoch, **options)

    def _options(self) -> dict[str, Any]:
        """What a coordinator's state does not hold."""
        spec = self.spec
        return {
            "policy": spec.policy,
            "hybrid": CostModel(spec.hybrid) if spec.hybrid else None,
            "retry": spec.retry,
            "missing_after": spec.missing_after,
            "lease": spec.lease,
            "gather": spec.gather,
        }

    # -- from sites

    def join(self, session: SiteSession) -> None:
        """A site is connected; an earlier connection of the same site ends."""
        earlier = self.sessions.get(session.site)
        if earlier is not None:
            self.refused[protocol.REPLACED] += 1
            earlier.close(protocol.REPLACED, "the site has connected anew")
        self.sessions[session.site] = session
        self.problems.pop(session.site, None)

    def leave(self, session: SiteSession) -> None:
        """A connection has ended. The site is missing only when it is not heard of for long."""
        if self.sessions.get(session.site) is session:
            del self.sessions[session.site]
            self.problems.pop(session.site, None)

    def note(self, site: str, why: str) -> None:
        """Why a site is not connected; one that is says itself what is wrong."""
        if site in self.counts and site not in self.sessions:
            self.problems[site] = why

    def hear(self, session: SiteSession, data: bytes) -> None:
        """A message of a site; raises CorruptMessage."""
        message = decode(data)
        self.counts[session.site].up.count(message, len(data), masked=True)
        self._note_type(session.site, type_of(getattr(message, "entries", ())))
        try:
            self._send(self.coordinator.receive(session.site, message, self.spec.now()))
        except CorruptMessage:
            raise
        except Exception:
            self._start_over()

    def _note_type(self, site: str, found: str) -> None:
        if found and self._types.get(site) != found:
            self._types[site] = found
            if problem := self._problem():
                _LOG.error("%s", problem)

    def _problem(self) -> str:
        """What makes every answer wrong: 5 at one site and '5' at another are never one item."""
        if len({*self._types.values()}) < 2:
            return ""
        named = ", ".join(f"{kind} at {site}" for site, kind in sorted(self._types.items()))
        return f"items are {named}: cast the key to one type under fields"

    def report(self, session: SiteSession, text: str) -> None:
        """What a site tells of itself; raises `protocol.Refused`."""
        site, said = session.site, protocol.parse_report(text)
        problem = said.pop("problem")
        self.counts[site].report(said, len(text.encode()))
        if self.sessions.get(site) is session and problem != self.problems.get(site, ""):
            self.problems[site] = problem

    # -- life

    @asynccontextmanager
    async def alongside(self) -> AsyncIterator[None]:
        """Ticks while it is open."""
        self._send(self.coordinator.tick(self.spec.now()))
        ticking = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticking
            for session in list(self.sessions.values()):
                session.close(protocol.GOING_AWAY, "the coordinator stops")
            if self._saving is not None:
                await asyncio.gather(self._saving, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """Let another coordinator have the state file."""
        self._pool.shutdown(wait=True)
        self._file.close()

    async def _tick(self) -> None:
        pause = min(max(self.spec.clock_unit_seconds / 8, TICK_SECONDS_MIN), TICK_SECONDS_MAX)
        last = time.monotonic()
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            stood_still, last = now - last > pause + self.spec.clock_unit_seconds, now
            if stood_still:  # first hear what waits, then say who is missing
                await asyncio.sleep(pause)
                last = time.monotonic()
            try:
                self._send(self.coordinator.tick(self.spec.now()))
                self._publish()
                self._save()
            except Exception:
                self._start_over()

    def _start_over(self) -> None:
        """A bug of ours, or what a site should not have been able to say, must not end the
        service: forget what was known, and ask the sites anew.
        """
        _LOG.exception("the coordinator failed and asks its sites anew")
        failed, options = self.coordinator, self._options()
        options |= {"epsilon": failed.epsilon, "epoch": max(failed.epoch, clock_epoch())}
        self.coordinator = Coordinator(self.spec.sites, failed.k, **options)
        self._send(self.coordinator.tick(self.spec.now()))
        self._publish()

    def _send(self, addressed: list[tuple[str, Message]]) -> None:
        """Put messages on their way. One for a site that is away is lost: it is said again."""
        for name, message in addressed:
            session = self.sessions.get(name)
            if session is None:
                continue
            data = encode(message)
            session.outbox.put([data])
            self.counts[name].down.count(message, len(data), masked=False)

    def _save(self) -> None:
        """Save in another thread when T, k or the epoch has changed."""
        coordinator = self.coordinator
        now = (coordinator.epoch, coordinator.k, coordinator.epsilon, coordinator.top)
        busy = self._saving is not None and not self._saving.done()
        if now == self._saved or busy or time.monotonic() < self._save_at:
            return
        loop = asyncio.get_running_loop()
        self._saving = loop.run_in_executor(self._pool, self._keep, now, coordinator.to_bytes())

    def _keep(self, now: tuple[Any, ...], state: bytes) -> None:
        try:
            self._file.save(state)
            self._saved = now
        except LedgerError as problem:
            _LOG.error("the state was not saved: %s", problem)
            self._save_at = time.monotonic() + SAVE_AGAIN_SECONDS

    def _publish(self) -> None:
        """Renew the status that readers see; wake those who wait where the answer is another."""
        connected = {name: session.since for name, session in self.sessions.items()}
        if self.status.renew(self.coordinator, connected, self.spec.now(), self._problem()):
            self._updates.touch()
