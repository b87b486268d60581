"""A site's monitor beside its pipeline: a thread that reads the ledger and keeps a connection."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from muntin.errors import LedgerError, MuntinError, SpecError
from muntin.ledger.base import Ledger
from muntin.sites.follower import PaneReader
from muntin.sites.link import Link
from muntin.sites.machine import SiteMachine
from muntin.spec import Pipeline
from muntin.spec_sites import SiteSpec

WAIT_SECONDS = 0.25  # for the ledger to change, before the thread looks whether to stop
REST_SECONDS = 1.0  # after the ledger could not be read
AGAIN_SECONDS = 30.0  # after an error that may last
STOP_SECONDS = 10.0
TICK_SECONDS_MIN, TICK_SECONDS_MAX = 0.02, 0.5
_LOG = logging.getLogger("muntin.sites")


class Site:
    """Takes part in a global top k, from a ledger that a pipeline feeds.

    Whatever goes wrong here (no coordinator, a wrong token, values that cannot be ranked) is
    logged and tried again; the pipeline does not notice.

    Parameters
    ----------
    ledger : Ledger
        Stays the caller's to close, after `stop`.
    pipeline : Pipeline, mapping or path
        The pipeline that feeds the ledger; its `sites:` says which ranking.
    name : str, optional
        Which of the sites, where a column of the pipeline says which.

    Raises
    ------
    SpecError
        The pipeline has no `sites:`, or no such site, or the variable that should hold the token
        does not.

    Examples
    --------
    >>> stream = muntin.stream(df, "pipeline.yaml")             # doctest: +SKIP
    >>> with Site(stream.ledger, "pipeline.yaml"):              # doctest: +SKIP
    ...     stream.await_termination()
    """

    def __init__(
        self,
        ledger: Ledger,
        pipeline: Pipeline | Mapping[str, Any] | str | Path,
        name: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._pipeline = Pipeline.of(pipeline)
        if self._pipeline.sites is None:
            raise SpecError("sites: is missing: say which ranking this site takes part in")
        names = self._pipeline.sites.names
        if name is None:
            name = names[0] if len(names) == 1 else ""
        if name not in names:
            raise SpecError(f"sites: which of {', '.join(names)}? '{name}' is none of them")
        self.spec: SiteSpec = self._pipeline.sites.of_site(name)
        self._token = token_for(self.spec)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._status: dict[str, Any] = {"state": "not started", "problem": ""}

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread = threading.Thread(
            target=self._run, name=f"muntin-site-{self.spec.site}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Leave; returns when the thread has ended, or does not within ten seconds."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    @property
    def status(self) -> Mapping[str, Any]:
        """What the site does: state ("not started", "waiting", "connected", "away", "failed",
        "stopped"), problem, and the monitor's phase, unit, slack and counts.
        """
        return dict(self._status)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                asyncio.run(self._live())
            except Exception as problem:
                if not isinstance(problem, MuntinError):
                    _LOG.exception("site %s failed", self.spec.site)
                self._failed(str(problem))
        self._say(state="stopped")

    def _failed(self, why: str) -> None:
        """Values that cannot be ranked, or a bug: try again, but seldom."""
        if self._status.get("problem") != why:
            _LOG.error("site %s is out of the top k: %s", self.spec.site, why)
        self._say(state="failed", problem=why)
        self._stopped.wait(AGAIN_SECONDS)

    async def _live(self) -> None:
        machine = SiteMachine(self.spec, time.time_ns() // 1_000_000)
        link = Link(self.spec, self._token, machine, self._say)
        pool = ThreadPoolExecutor(1, f"muntin-site-{self.spec.site}-reader")
        tasks = {
            asyncio.create_task(self._follow(machine, link, pool)),
            asyncio.create_task(self._tick(machine, link)),
            asyncio.create_task(link.run()),
            asyncio.create_task(self._until_stopped()),
        }
        self._say(state="waiting", problem="")
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except Exception as problem:
            for task in tasks:
                task.cancel()
            await link.fail(str(problem))
            raise
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS / 2):
                    await asyncio.gather(*tasks, return_exceptions=True)
            pool.shutdown(wait=True, cancel_futures=True)

    async def _until_stopped(self) -> None:
        while not self._stopped.is_set():
            await asyncio.sleep(0.05)

    async def _follow(self, machine: SiteMachine, link: Link, pool: ThreadPoolExecutor) -> None:
        """Move the window as panes are sealed."""
        loop = asyncio.get_running_loop()
        follower = PaneReader(self._ledger, self._pipeline, self.spec, time.monotonic)
        version = -1
        while not self._stopped.is_set():
            try:
                version = await loop.run_in_executor(pool, self._ledger.wait, version, WAIT_SECONDS)
                news = await loop.run_in_executor(pool, follower.look, self._stopped.is_set)
            except LedgerError as problem:
                await self._troubled(link, str(problem))
                continue
            self._tell(link, follower.doubt or "")
            if news is None:
                continue
            link.send(machine.move(news, self.spec.now()))
            link.ready.set()
            self._say(**machine.report())

    async def _troubled(self, link: Link, why: str) -> None:
        """The ledger cannot be read now: say so here and to the coordinator, and rest."""
        new = why != link.trouble
        self._tell(link, why, " cannot read its ledger")
        if new and not link.ready.is_set():  # else it goes with a report
            await link.fail(why)
        await asyncio.sleep(REST_SECONDS)

    def _tell(self, link: Link, why: str, what: str = "") -> None:
        """What is wrong with what is read, "" where nothing is: once in the log."""
        if why and why != link.trouble:
            _LOG.warning("site %s%s: %s", self.spec.site, what, why)
        if self._status["problem"] in ("", link.trouble):
            self._say(problem=why)
        link.trouble = why

    async def _tick(self, machine: SiteMachine, link: Link) -> None:
        unit = self.spec.clock_unit_seconds
        pause = min(max(unit / 8, TICK_SECONDS_MIN), TICK_SECONDS_MAX)
        while True:
            await asyncio.sleep(pause)
            if link.connected:
                link.send(machine.tick(self.spec.now()))
                link.report(self.spec.now())

    def _say(self, **about: Any) -> None:
        self._status = {**self._status, **about}


def token_for(spec: SiteSpec) -> str:
    """The token of a site, or "". Raises SpecError: the variable that should hold it does not, or
    it would be sent in the open."""
    try:
        token = spec.given_token()
    except ValueError as problem:
        raise SpecError(f"sites.{problem}") from None
    if token and spec.is_open:
        raise SpecError(
            f"sites.coordinator: {spec.coordinator} would send the token in the open: use wss://"
        )
    return token
