"""The global top k as SELECT and the server see it: one summary, no panes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from muntin.errors import SelectError, UnknownName
from muntin.ledger.temporary import TemporaryLedger
from muntin.select.catalog import (
    ForClause,
    KeyNames,
    LoadedTable,
    LoadedWindow,
    QueryInfo,
    SummaryInfo,
)
from muntin.select.functions import GLOBAL_TOP_K
from muntin.server.reader import Reader
from muntin.sites.status import Status
from muntin.spec import Pipeline


class GlobalCatalog:
    """What there is to ask a coordinator: its one answer, as it is now."""

    def __init__(self, name: str, status: Status) -> None:
        self._name = name
        self._status = status
        self._infos = {name: SummaryInfo(name, GLOBAL_TOP_K)}

    @contextmanager
    def moment(self) -> Iterator[GlobalCatalog]:
        """Itself: there is one thing to read, and each answer holds still."""
        yield self

    def summaries(self) -> Mapping[str, SummaryInfo]:
        return self._infos

    def queries(self) -> Mapping[str, QueryInfo]:
        return {}

    def span_of(self, summary: str) -> tuple[int, int] | None:  # noqa: ARG002
        return self._status.snapshot.covered

    def check_name(self, summary: str) -> None:
        if summary != self._name:
            raise UnknownName(f"there is no summary '{summary[:80]}'; there is {self._name}")

    def load(
        self,
        summary: str,
        window: ForClause,
        keys: KeyNames | None = None,  # noqa: ARG002
    ) -> LoadedWindow:
        self.check_name(summary)
        if window.kind != "open":
            raise SelectError(
                "a coordinator keeps the newest window only",
                code="window",
                remedy="leave the FOR clause out",
            )
        shown = self._status.snapshot
        return LoadedWindow(
            summary=shown,
            covered=shown.covered,
            stored=shown.covered,
            watermark=shown.covered[1] if shown.covered else None,
            revision=0,
            late=0,  # what comes late at a site is in no pane that it has reported
            stale=shown.stale or not shown.answer.valid,
            exact=False,
            proven=False,
            bounds=shown.promises(),
            uncounted={},
            notes=(),
            token=None,
            like=None,
            among=None,
        )

    def trend(self, query: str, window: ForClause | None) -> LoadedTable:  # noqa: ARG002
        raise UnknownName(f"a coordinator keeps no standing query, and none called '{query[:80]}'")

    def windows(self, summary: str, window: ForClause | None) -> LoadedTable:  # noqa: ARG002
        raise SelectError(f"{summary} has no windows that close", code="window")


class GlobalReader(Reader):
    """What the server reads of a coordinator."""

    def __init__(self, name: str, updates: TemporaryLedger, status: Status) -> None:
        self._global = GlobalCatalog(name, status)
        super().__init__(updates, self._global)
        self._status = status

    def followed(self, text: str) -> str:
        """Raises UnknownName: no windows close here."""
        self.engine.check(text)
        raise UnknownName("a coordinator's windows do not close: ask on: update")

    def pipeline(self, name: str) -> Pipeline:  # noqa: ARG002
        """Raises UnknownName."""
        raise UnknownName("a coordinator has no pipeline: ask this where a site's is served")

    def pipeline_of(self, summary: str) -> str:
        """Raises UnknownName."""
        self._global.check_name(summary)
        return summary

    def more_state(self) -> Mapping[str, Any]:
        return {"coordinator": self._status.pushed}
