"""Standing queries: a SELECT that runs on each window that closes."""

import logging
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pyarrow as pa

from muntin.errors import LedgerError, MuntinError, SelectError, SpecError
from muntin.ledger.base import Ledger, View
from muntin.ledger.records import PAYLOAD_BYTES_MAX, PipelineInfo
from muntin.reading.catalog import LedgerCatalog
from muntin.reading.extent import Layout
from muntin.reading.moment import LedgerMoment
from muntin.reading.pieces import Merged, SegmentCache
from muntin.reading.sequences import check_whole_stream
from muntin.reading.snapshot import Known, Snapshot
from muntin.reading.stored_results import stored_error, stored_result
from muntin.select.catalog import OPEN, TREND_ERROR, TREND_OWN, ForClause
from muntin.select.engine import Engine
from muntin.select.plan import CheckedStatement
from muntin.select.syntax import quoted
from muntin.spec import Pipeline
from muntin.times import duration_text, instant_text

FAILING_CHARACTERS_MAX = 500  # of an error in the pipeline's status
_AFTER_WHEN = "\n)"  # on a line of its own: what stands before may end in a comment
_LOG = logging.getLogger("muntin")


class StandingQueries:
    """The standing queries of a pipeline, checked against its summaries.

    `follows`: standing query -> the summary whose windows it runs on. `clauses`: standing query ->
    summary and clause, where it reads other panes than its window's. `failing`: standing query ->
    {"start", "error"}, of those that failed on the window that closed last. Raises SpecError: a
    query is wrong; names it and the place in its text.
    """

    def __init__(
        self, pipeline: Pipeline, ledger: Ledger, cache: SegmentCache | None = None
    ) -> None:
        self._pipeline = pipeline
        self._catalog = _PipelineCatalog(pipeline, ledger, cache)
        self._engine = Engine(self._catalog)
        self._warned: set[str] = set()
        self.failing: dict[str, dict[str, Any]] = {}
        self._finish = weakref.finalize(self, self._engine.close)  # also where nobody closes it
        self.clauses: dict[str, frozenset[tuple[str, ForClause]]] = {}
        self.follows: Mapping[str, str] = {name: self._followed(name) for name in pipeline.queries}
        self._check_alerts()

    def moment(self) -> AbstractContextManager[LedgerMoment]:
        """The ledger as windows that close now find it."""
        return self._catalog.moment()

    def run(
        self, query: str, moment: LedgerMoment, layout: Layout, start: int, end: int, merged: Merged
    ) -> bytes:
        """A standing query's result on one window, whose summary is at hand: Arrow IPC bytes.

        Where the statement fails on this window (an overflow, a cast, another window that is not
        there) the error is the result: data never stop a pipeline.
        """
        asked = ForClause("range", start_us=start, end_us=end, whole=True)
        try:
            moment.at_hand = layout.name, asked, merged
            reading = self._engine.read(self._pipeline.queries[query].select, moment, asked)
            found = self._engine.answer(reading)
        except LedgerError:
            raise  # of the ledger, not of the window
        except Exception as error:
            if isinstance(error.__cause__, LedgerError):
                raise error.__cause__ from None
            return self._failed(query, start, error)
        self.failing.pop(query, None)
        clauses = ((name, clause.before(end)) for name, clause in self.clauses[query])
        counted = filter(None, (moment.counted(*clause) for clause in clauses))
        result = stored_result(found, self._pipeline.queries[query].select, counted)
        if len(result) > PAYLOAD_BYTES_MAX:
            return self._failed(query, start, SelectError("the result is too large to keep"))
        return result

    def alarming(self, query: str, start: int | None = None, end: int | None = None) -> pa.Table:
        """The rows for which a query's `alert.when` is true: of its answer now, or those that are
        stored of the windows which start in [start, end), also those that say why there are none.
        """
        text = self._alarm(query, start, end)
        with self._shown_in_condition(query, text):
            return self._engine.sql(text).table

    def _alarm(self, query: str, start: int | None, end: int | None, columns: str = "*") -> str:
        spec = self._pipeline.queries[query]
        assert spec.alert is not None  # noqa: S101 (only those that have one are asked)
        when = f"({spec.alert.when}{_AFTER_WHEN}"
        if spec.on == "update":
            select = self._engine.check(spec.select).show()  # without comments and a semicolon
            return f"SELECT {columns} FROM ({select}) AS answer WHERE {when}"  # noqa: S608
        window = ""
        if start is not None and end is not None:
            window = f"FOR '{instant_text(start)}' TO '{instant_text(end)}'"
        stored = f"(SELECT * FROM trend({quoted(query)}) {window}) AS answer"  # noqa: S608
        return f"SELECT {columns} FROM {stored} WHERE ({TREND_ERROR} IS NOT NULL) OR {when}"  # noqa: S608

    @contextmanager
    def _shown_in_condition(self, query: str, text: str) -> Iterator[None]:
        """Errors at their place in `alert.when`, with which `_alarm` ends; else without one."""
        try:
            yield
        except SelectError as problem:
            alert = self._pipeline.queries[query].alert
            when = "" if alert is None else alert.when
            place = problem.position - (len(text) - len(when) - len(_AFTER_WHEN))
            if problem.text != text or place < 0:
                when, place = "", 0
            raise problem.replaced(text=when, position=place) from problem.__cause__

    def _check_alerts(self) -> None:
        for name, query in self._pipeline.queries.items():
            if query.alert is None:
                continue
            text = self._alarm(name, None, None)
            try:
                with self._shown_in_condition(name, text):
                    self._engine.check(text)
            except SelectError as problem:
                raise SpecError(f"queries.{name}.alert.when: {problem}") from None
            by = ", ".join(quoted(column) for column in query.alert.by)
            try:
                self._engine.check(self._alarm(name, None, None, by or "*"))
            except SelectError as problem:
                said = f"{problem.message}; {problem.remedy}"
                raise SpecError(f"queries.{name}.alert.by: {said}") from None

    def _failed(self, query: str, start: int, error: Exception) -> bytes:
        """The error as a result. The log has one line a query; the windows' results the rest."""
        said = error.message if isinstance(error, SelectError) else str(error)
        self.failing[query] = {"start": start, "error": said[:FAILING_CHARACTERS_MAX]}
        ours = isinstance(error, MuntinError)
        if query not in self._warned:
            self._warned.add(query)
            _LOG.warning(
                "queries.%s failed on the window of %s: %s (its result; not logged again)",
                query, instant_text(start), str(error).splitlines()[0] if ours else error,
                exc_info=None if ours else error,
            )  # fmt: skip
        return stored_error(error)

    def close(self) -> None:
        """Give back what the engine holds."""
        self._finish()

    def _followed(self, name: str) -> str:
        text = self._pipeline.queries[name].select
        try:
            checked = self._engine.check(text)
        except SelectError as problem:
            raise SpecError(f"queries.{name}: {problem}") from None
        self._check_whole_stream(name, checked)
        self.clauses[name] = frozenset(_clauses(checked))
        self._check_kept(name)
        hidden = next((c for c in checked.columns if c.lower() in TREND_OWN), None)
        if hidden is not None and self._pipeline.queries[name].on == "window":
            raise SpecError(
                f"queries.{name}: '{hidden}' is a column of trend({name}) too, which would hide "
                "it: give it another name with AS"
            )
        for summary in checked.sources:
            if self._pipeline.summaries[summary].window is not None:
                return summary
        if checked.sources and self._pipeline.queries[name].on == "window":
            raise SpecError(
                f"queries.{name}: on: window needs a summary whose windows close; "
                "give one of its summaries a window"
            )
        if not checked.sources:
            raise SpecError(f"queries.{name}: reads no summary, so there is nothing to follow")
        return checked.sources[0]

    def _check_whole_stream(self, name: str, checked: CheckedStatement) -> None:
        """What follows the whole stream has no windows: no part of it can be asked for."""
        for item in checked.items:
            if item is None or item.kind != "function":
                continue
            if not self._pipeline.summaries[item.source].sequential:
                continue
            try:
                check_whole_stream(item.source, item.window or OPEN)
            except SelectError as problem:
                raise SpecError(f"queries.{name}: {problem}") from None
            if self._pipeline.queries[name].on == "window":
                raise SpecError(
                    f"queries.{name}: on: window follows windows that close, and {item.source} "
                    "speaks of the whole stream so far: write on: update"
                )

    def _check_kept(self, name: str) -> None:
        """What retention takes before it is read would be missing from each answer."""
        keep = self._pipeline.retention
        kept = [keep.panes, *([keep.rollups] if self._pipeline.rungs else [])]
        if None in kept:
            return
        longest = max(filter(None, kept))
        for _, window in self.clauses[name]:
            if window.kind == "last" and (window.length_us or 0) > longest:
                asked = duration_text(window.length_us or 0)
                raise SpecError(
                    f"queries.{name}: FOR LAST {asked} reads more than retention keeps, "
                    f"{duration_text(longest)}: keep at least {asked}, or ask for less"
                )


def _clauses(checked: CheckedStatement) -> Iterator[tuple[str, ForClause]]:
    """Those that read panes, and of which summary."""
    for item in checked.items:
        if item is None or item.window is None or item.kind in ("trend", "windows"):
            continue
        if item.window.kind in ("last", "range", "all"):
            yield item.source, item.window


class _PipelineCatalog(LedgerCatalog):
    """The ledger, with the names of the pipeline as it is now, and no others."""

    def __init__(self, pipeline: Pipeline, ledger: Ledger, cache: SegmentCache | None) -> None:
        super().__init__(ledger)
        self._pipeline = pipeline
        self._cache = cache or self._cache

    def _snapshot(self, view: View, before: Snapshot | None) -> Snapshot:  # noqa: ARG002
        name = self._pipeline.name
        info = view.pipeline(name) or PipelineInfo(name)
        known = Known(info, self._pipeline, (view.generation(), info.epoch))
        return Snapshot(view.state(), {name: known}, self._kept_bytes)
