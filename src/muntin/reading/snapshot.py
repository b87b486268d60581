"""One version of a ledger, and what was made of it: in place of a cache for each reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from muntin.cache import Cache
from muntin.ledger.base import View
from muntin.ledger.records import PipelineInfo
from muntin.select.catalog import QueryInfo, SummaryInfo
from muntin.spec import Pipeline

KEPT_MAX = 128  # answers and merged windows of one version
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known:
    """One pipeline as a version of the ledger has it."""

    info: PipelineInfo
    pipeline: Pipeline
    generation: tuple[int, int]
    """Of the ledger, and of the pipeline within it: what was made of others is not of this one."""


class Snapshot:
    """What all who read one version of the ledger share. Thread-safe.

    What is read of it later is the same: whoever opens the ledger at this version may add to it.
    All that is kept has `bytes_max` at most; what was made last is kept however large it is.
    """

    def __init__(
        self, version: tuple[int, int], pipelines: Mapping[str, Known], bytes_max: int
    ) -> None:
        self.version = version
        self.pipelines = pipelines
        self._bytes_max = max(bytes_max, 1)
        self._made = Cache[Any](self._bytes_max, entries_max=KEPT_MAX)
        self._making: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    @classmethod
    def read(cls, view: View, before: Snapshot | None, bytes_max: int = 0) -> Snapshot:
        """The version that a view shows; specs that did not change since `before` are kept."""
        known: dict[str, Known] = {}
        place, _ = view.state()
        for info in view.pipelines():
            old = None if before is None else before.pipelines.get(info.name)
            same = old is not None and old.info.spec == info.spec
            pipeline = old.pipeline if old is not None and same else Pipeline.from_json(info.spec)
            known[info.name] = Known(info, pipeline, (place, info.epoch))
        return cls(view.state(), known, bytes_max)

    @cached_property
    def summaries(self) -> Mapping[str, SummaryInfo]:
        return {
            name: SummaryInfo(name, spec.kind, pane_us=each.pipeline.pane, **spec.asked())
            for each in self.pipelines.values()
            for name, spec in each.pipeline.summaries.items()
        }

    @cached_property
    def queries(self) -> Mapping[str, QueryInfo]:
        return {
            name: QueryInfo(name, query.select)
            for each in self.pipelines.values()
            for name, query in each.pipeline.queries.items()
        }

    def once(self, key: Hashable, make: Callable[[], T], nbytes: Callable[[T], int]) -> T:
        """What was made under this key, or is being made by another thread; else `make` it. What it
        raises is raised to all who wait, and not kept."""
        mine: Future[Any] = Future()
        try:  # first of all: who is interrupted (Ctrl-C) leaves nobody waiting
            with self._lock:
                made = self._made.get(key)
                if made is not None:
                    return made
                making = self._making.setdefault(key, mine)
            if making is not mine:
                return making.result()
            made = make()
            self._made.put(key, made, min(nbytes(made), self._bytes_max))
            mine.set_result(made)
        except BaseException as error:
            if not mine.done():
                mine.set_exception(error)
            raise
        finally:
            with self._lock:
                if self._making.get(key) is mine:
                    del self._making[key]
        return made
