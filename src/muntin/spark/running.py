"""What a pipeline that runs can be asked and told, wherever it runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

from muntin.errors import SpecError
from muntin.ledger.base import Ledger
from muntin.select.result import Result
from muntin.session import Session
from muntin.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class RunningPipeline(ABC):
    """A pipeline that runs, here or elsewhere."""

    query: StreamingQuery

    def __init__(self, pipeline: Pipeline, *, once: bool) -> None:
        self._pipeline = pipeline
        self._stopping = self._closed = False
        self._closing = threading.Lock()  # who stops it and who awaits its end wait for the other
        self.once = once

    @property
    def pipeline(self) -> Pipeline:
        """What it runs by: another one after a file that has changed was taken over."""
        return self._pipeline

    @property
    @abstractmethod
    def ledger(self) -> Ledger:
        """Where the summaries go."""

    @cached_property
    def _session(self) -> Session:
        return Session(self.ledger)

    def sql(self, statement: str) -> Result:
        """Answer a SELECT over what was committed so far; see docs/select.md."""
        return self._session.sql(statement)

    def slow_down(self, summary: str | None = None) -> dict[str, Any]:
        """Double the floating windows' length, up to their limit; tells what was done."""
        return self._command("slow_down", summary)

    def resume(self, summary: str | None = None) -> dict[str, Any]:
        """Back to the windows' own length; tells what was done."""
        return self._command("resume", summary)

    def ending(self) -> None:
        """Somebody is about to stop it: what ends it from now on is no failure."""
        self._stopping = True

    def caught_up(self) -> bool:
        """Has all been taken that the source is known to hold?"""
        status = self.query.status
        return not (status["isDataAvailable"] or status["isTriggerActive"])

    def _triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        if self.once:
            return writer.trigger(availableNow=True)
        if self._pipeline.trigger:
            milliseconds = self._pipeline.trigger // 1000
            return writer.trigger(processingTime=f"{milliseconds} milliseconds")
        return writer

    def _command(self, action: str, summary: str | None) -> dict[str, Any]:
        if summary is not None and summary not in self._pipeline.summaries:
            there = ", ".join(self._pipeline.summaries)
            raise SpecError(f"no summary '{summary}'; there are {there}")
        return self._ask(action, summary)

    @abstractmethod
    def _ask(self, action: str, summary: str | None) -> dict[str, Any]:
        """What came of a command."""
