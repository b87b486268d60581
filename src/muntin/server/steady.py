"""What a catalog says of one state of the ledger, asked once for all statements that read it.

A statement looks at a dozen things of a ledger, each a small read of a file. Twenty that are asked
at once over the same state would each do it, and take turns at it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from muntin.select.catalog import (
    Catalog,
    Loaded,
    LoadedTable,
    QueryInfo,
    SummaryInfo,
    WindowAsked,
)

SECONDS = 1.0  # whether an answer is stale changes without the ledger
KEPT_MAX = 64
T = TypeVar("T")


class SteadyCatalog:
    """Thread-safe. `version` changes whenever the ledger does."""

    def __init__(
        self,
        catalog: Catalog,
        version: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._version = version
        self._now = now
        self._lock = threading.Lock()
        self._state: tuple[int, float] = (-1, 0.0)
        self._kept: OrderedDict[Hashable, object] = OrderedDict()

    def summaries(self) -> Mapping[str, SummaryInfo]:
        return self._once("summaries", self._catalog.summaries)

    def queries(self) -> Mapping[str, QueryInfo]:
        return self._once("queries", self._catalog.queries)

    def load(self, summary: str, window: WindowAsked) -> Loaded:
        key = ("load", summary, window)
        return self._once(key, lambda: self._catalog.load(summary, window))

    def trend(self, query: str, window: WindowAsked | None) -> LoadedTable:
        key = ("trend", query, window)
        return self._once(key, lambda: self._catalog.trend(query, window))

    def windows(self, summary: str, window: WindowAsked | None) -> LoadedTable:
        key = ("windows", summary, window)
        return self._once(key, lambda: self._catalog.windows(summary, window))

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        version, now = self._version(), self._now()
        with self._lock:
            known, since = self._state
            if known != version or now - since > SECONDS:
                self._state = (version, now)
                self._kept.clear()
            found = self._kept.get(key)
        if found is not None:
            return found  # type: ignore[return-value]
        made = make()  # two may make it at once; what it raises is not kept
        with self._lock:
            if self._state[0] == version:
                self._kept[key] = made
                while len(self._kept) > KEPT_MAX:
                    self._kept.popitem(last=False)
        return made
