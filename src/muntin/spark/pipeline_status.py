"""A running pipeline's status in its ledger: how it is, signs of life, its last word."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from muntin.errors import LedgerConflict, MuntinError
from muntin.ledger.base import Ledger, Writer
from muntin.times import now_us

REASON_CHARACTERS_MAX = 2_000
BEAT_SECONDS = 5.0  # how often a pipeline that has nothing to do says that it is there
RUNS_KEPT = 32


class PipelineStatus:
    """What the ledger tells of a pipeline that runs. Thread-safe.

    Parameters
    ----------
    lasting : callable
        What is looked up where something has happened, under the pipeline's lock.
    passing : callable
        What changes by itself, also in a long batch: each sign of life has it anew.
    ended_by : callable
        Why nothing more will come; "" while something may.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        lasting: Callable[[], Mapping[str, Any]],
        passing: Callable[[], Mapping[str, Any]],
        ended_by: Callable[[], str],
    ) -> None:
        self._writer = writer
        self._lasting, self._passing, self._ended_by = lasting, passing, ended_by
        self._refused = ""
        self._lock = threading.Lock()
        self._said: dict[str, Any] = {}
        self._said_at = -math.inf

    def say(self, state: str, batch_seconds: float | None = None, **more: str) -> None:
        """How it is now, for those who follow the ledger: it is a new version."""
        if self._refused:
            more["not_taken_over"] = self._refused
        said = {
            "state": state,
            "at": now_us(),
            "batch_seconds": None if batch_seconds is None else round(batch_seconds, 4),
            **self._lasting(),
            **self._passing(),
            **more,
        }
        with self._lock:
            self._said, self._said_at = said, time.monotonic()
            self._writer.set_status(said)

    def refuse(self, why: str) -> None:
        """A changed spec was not taken over; "" once one is."""
        self._refused = why[:REASON_CHARACTERS_MAX]
        self.say("running")

    def fail(self, why: str) -> None:
        """The last word, where a pipeline ends that should not."""
        with suppress(MuntinError):  # it may be the ledger that fails; silence tells as well
            self.say("failed", reason=why[:REASON_CHARACTERS_MAX])

    def note(self, **changed: Any) -> None:
        """What the next sign of life tells, which comes soon."""
        with self._lock:
            self._said, self._said_at = {**self._said, **changed}, -math.inf

    def repeat(self, **changed: Any) -> None:
        """What was said last, but for what has changed; it is no new version. Raises
        LedgerConflict: another writer has the pipeline now."""
        self._writer.set_status(self._said | changed, news=False)

    def beat(self) -> None:
        """A sign of life, also in a long batch and where nothing comes."""
        if time.monotonic() - self._said_at < BEAT_SECONDS:
            return
        before = self._said
        said = {**before, "at": now_us(), **self._passing()}
        why = self._ended_by()
        if why:
            said |= {"state": "failed", "reason": why[:REASON_CHARACTERS_MAX]}
        with self._lock:
            if self._said is before:  # else more was said meanwhile: the last word, maybe
                self._said_at = time.monotonic()
                self._writer.set_status(said, news=bool(why))


def query_runs(ledger: Ledger, name: str) -> list[str]:
    """The runs of queries that have fed a pipeline, the newest first, as its status tells."""
    return list((ledger.status(name) or {}).get("runs", ()))


def with_run(runs: list[str], run: str) -> list[str]:
    """The runs that are known when this one opens the writer."""
    if run in runs[1:]:  # this one's process is of a driver that was given up
        raise LedgerConflict("the query was started again since: that run writes now")
    return [run, *(known for known in runs if known != run)][:RUNS_KEPT] if run else runs
