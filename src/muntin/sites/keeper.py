"""Keeps the global top k: feeds what sites say to `Coordinator`, saves it, tells what it knows.

All but `snapshot` and `state`, which any thread may call, is for the server's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from muntin.errors import CorruptMessage, LedgerError
from muntin.sites import protocol
from muntin.sites.board import Board
from muntin.sites.counts import SiteCounts, totals
from muntin.sites.session import Session
from muntin.sites.snapshot import Snapshot
from muntin.sites.spec import CoordinatorSpec
from muntin.sites.state_file import StateFile, clock_epoch
from muntin.times import instant_text
from muntin.topk import Coordinator, CostModel, Message, decode, encode
from muntin.topk.messages import NOTHING

HISTORY_MAX = 256  # changes of T
PACE_MAX = 512  # points of the traffic's course
PACE_SECONDS = 2.0
SAVE_AGAIN_SECONDS = 5.0
TICK_SECONDS_MIN, TICK_SECONDS_MAX = 0.02, 0.25
_LOG = logging.getLogger("muntin.sites")


class Keeper:
    """One coordinator, its connections and its state file."""

    def __init__(self, spec: CoordinatorSpec, board: Board) -> None:
        self.spec = spec
        self.run = secrets.token_hex(8)
        self.sessions: dict[str, Session] = {}
        self.counts = {name: SiteCounts() for name in spec.sites}
        self.refused: dict[int, int] = {}
        """Connections that were closed with each code."""
        self._board = board
        self._file = StateFile(spec.state_path)
        try:
            self.coordinator = self._begin()
        except BaseException:
            self._file.close()
            raise
        self._saved: tuple[Any, ...] = ()
        self._save_at = 0.0
        self._saving: asyncio.Task[None] | None = None
        self._pool = ThreadPoolExecutor(1, "muntin-state")
        self._history: deque[dict[str, Any]] = deque(maxlen=HISTORY_MAX)
        self._pace: deque[dict[str, Any]] = deque(maxlen=PACE_MAX)
        self._pace_at = 0.0
        self._top = self._members()
        self._said: tuple[Any, ...] = ()
        self._as_of: tuple[int | None, float] = (None, 0.0)
        self._started = time.time()
        self._snapshot = self._seen()
        self._state = self._shown()

    def _begin(self) -> Coordinator:
        """Go on from the state file, or begin with an epoch that no earlier coordinator used."""
        spec = self.spec
        options: dict[str, Any] = {
            "policy": spec.policy,
            "hybrid": CostModel(spec.hybrid) if spec.hybrid else None,
            "retry": spec.retry,
            "missing_after": spec.missing_after,
            "lease": spec.lease,
        }
        stored, epoch = self._file.load(), clock_epoch()
        if stored is not None:
            try:
                found = Coordinator.from_bytes(stored, **options)
            except CorruptMessage as problem:
                _LOG.error("%s", problem)
                self._file.put_aside()
            else:
                same = (list(found.sites), found.k, found.epsilon)
                if same == (list(spec.sites), spec.k, spec.epsilon):
                    return found
                epoch = max(epoch, found.epoch)
        return Coordinator(spec.sites, spec.k, epsilon=spec.epsilon, epoch=epoch, **options)

    # -- from sites

    def join(self, session: Session) -> None:
        """A site is connected; an earlier connection of the same site ends."""
        earlier = self.sessions.get(session.site)
        if earlier is not None:
            self.count_refusal(protocol.REPLACED)
            earlier.close(protocol.REPLACED, "the site has connected anew")
        self.sessions[session.site] = session
        self._publish()

    def leave(self, session: Session) -> None:
        """A connection has ended. The site is missing only when it is not heard of for long."""
        if self.sessions.get(session.site) is session:
            del self.sessions[session.site]
            self._publish()

    def hear(self, session: Session, data: bytes) -> None:
        """A message of a site; raises CorruptMessage."""
        message = decode(data)
        self.counts[session.site].up.count(message, len(data), masked=True)
        self._send(self.coordinator.receive(session.site, message, self._now()))

    def report(self, session: Session, text: str) -> None:
        """What a site tells of itself; raises `protocol.Refused`."""
        self.counts[session.site].report(protocol.parse_report(text), len(text.encode()))

    def set_k(self, k: int, epsilon: int) -> None:
        """Change k and epsilon from the next tick on."""
        self.coordinator.set_k(k, epsilon)

    def count_refusal(self, code: int) -> None:
        self.refused[code] = self.refused.get(code, 0) + 1

    # -- for readers

    def snapshot(self) -> Snapshot:
        """The answer as it is now."""
        return self._snapshot

    def state(self) -> dict[str, Any]:
        """Sites, traffic, history, as JSON values; docs/topk.md describes it."""
        return self._state

    # -- life

    @asynccontextmanager
    async def alongside(self) -> AsyncIterator[None]:
        """Ticks while it is open."""
        self._send(self.coordinator.tick(self._now()))
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
        """Several times a unit."""
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
                self._send(self.coordinator.tick(self._now()))
                self._publish()
                self._save()
            except Exception:  # a bug of ours must not end the service
                _LOG.exception("the coordinator failed in a tick")

    def _now(self) -> float:
        """The time in window units."""
        return time.monotonic() / self.spec.clock_unit_seconds

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
        self._saving = asyncio.create_task(self._write(now, coordinator.to_bytes()))

    async def _write(self, now: tuple[Any, ...], state: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._pool, self._file.save, state)
            self._saved = now
        except LedgerError as problem:
            _LOG.error("the state was not saved: %s", problem)
            self._save_at = time.monotonic() + SAVE_AGAIN_SECONDS

    # -- what is told

    def _publish(self) -> None:
        """Take a picture for readers; wake those who wait where the answer is another."""
        self._note_top()
        self._snapshot = self._seen()
        self._note_pace()
        self._state = self._shown()
        shown = self._snapshot
        said = (shown, frozenset(self.sessions))
        if said != self._said:
            self._said = said
            self._board.touch()

    def _seen(self) -> Snapshot:
        coordinator, now = self.coordinator, self._now()
        answer = coordinator.answer()
        if answer.as_of != self._as_of[0]:
            self._as_of = (answer.as_of, now)
        stale = answer.as_of is not None and now - self._as_of[1] > self.spec.lease
        k, epsilon = coordinator.k, coordinator.epsilon
        return Snapshot.of(answer, k, epsilon, self.spec, stale=stale)

    def _members(self) -> tuple[Any, ...]:
        return tuple(item for item in self.coordinator.top if item != NOTHING)

    def _note_top(self) -> None:
        members = self._members()
        if set(members) == set(self._top):
            return
        self._history.append(
            {
                "at": instant_text(time.time_ns() // 1000),
                "unit": max((s.unit for s in self.coordinator.sites.values()), default=None),
                "entered": [item for item in members if item not in self._top],
                "left": [item for item in self._top if item not in members],
            }
        )
        self._top = members

    def _note_pace(self) -> None:
        now = time.monotonic()
        if now - self._pace_at < max(PACE_SECONDS, self.spec.clock_unit_seconds):
            return
        self._pace_at = now
        sums = totals(list(self.counts.values()))
        point: dict[str, Any] = {"at": instant_text(time.time_ns() // 1000)}
        for name in ("sent", "naive"):
            point |= {f"{name}_{what}": sums[name][what] for what in ("messages", "bytes")}
        self._pace.append(point)

    def _shown(self) -> dict[str, Any]:
        coordinator, spec = self.coordinator, self.spec
        return {
            "name": spec.name,
            "run": self.run,
            "started": instant_text(int(self._started * 1_000_000)),
            "ranking": {**spec.said(), "policy": spec.policy},
            "phase": coordinator.phase,
            "epoch": coordinator.epoch,
            "surveys": coordinator.surveys,
            "resolutions": {"partial": coordinator.partial, "full": coordinator.full},
            "changes": coordinator.changes,
            "hybrid": dict(coordinator.hybrid.state()) if coordinator.hybrid else None,
            "answer": self._snapshot.to_dict(),
            "sites": [self._site(name) for name in spec.sites],
            "traffic": totals(list(self.counts.values())),
            "pace": list(self._pace),
            "history": list(self._history),
            "refused": {str(code): number for code, number in sorted(self.refused.items())},
        }

    def _site(self, name: str) -> dict[str, Any]:
        known, counts = self.coordinator.sites[name], self.counts[name]
        session, told = self.sessions.get(name), counts.told
        unit = max((u for u in (known.unit, told.get("unit")) if u is not None), default=None)
        return {
            "name": name,
            "connected": session is not None,
            "connected_since": instant_text(int(session.since * 1_000_000)) if session else None,
            "missing": not known.member,
            "phase": _phase(known),
            "unit": None if unit is None or unit < 0 else unit,
            "slack": told.get("slack"),
            "objects": told.get("objects"),
            "up": asdict(counts.up),
            "down": asdict(counts.down),
            "reports": asdict(counts.reports),
            "naive": asdict(counts.naive),
        }


def _phase(site: Any) -> str:
    """What the coordinator knows a site to be doing."""
    if not site.member:
        return "missing" if not site.present else "joining"
    if site.watching:
        return "watching"
    if site.alert is not None:
        return "alerted"
    return "calm" if site.version and site.acked == site.version else "joining"
