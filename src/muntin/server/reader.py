"""What the server reads of a ledger."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from muntin.errors import UnknownName, did_you_mean
from muntin.kinds import SummarySpec
from muntin.ledger.base import Ledger
from muntin.ledger.records import ClosedWindow
from muntin.reading.catalog import LedgerCatalog
from muntin.reading.moment import window_at
from muntin.reading.warm import warm
from muntin.select.catalog import OPEN, Catalog, ForClause, QueryInfo, SummaryInfo
from muntin.select.engine import Engine
from muntin.select.limits import Limits
from muntin.select.result import Result
from muntin.spec import Pipeline
from muntin.times import US_PER_SECOND, instant_text


class Reader:
    """Thread-safe. `catalog`: what SELECT reads, where that is not the ledger itself. `limits`:
    of one statement."""

    def __init__(
        self, ledger: Ledger, catalog: Catalog | None = None, limits: Limits | None = None
    ) -> None:
        self.ledger = ledger
        self._stored = catalog if isinstance(catalog, LedgerCatalog) else LedgerCatalog(ledger)
        self._catalog = catalog or self._stored
        self.hearing = self._stored.hearing
        self.engine = Engine(self._catalog, limits)
        self.rates = Rates()

    def warm(self) -> None:
        """Compile and load what merging the newest panes needs, before somebody waits for it."""
        for pipeline in self.pipelines().values():
            warm(pipeline)
            newest = ForClause("last", length_us=2 * pipeline.pane)
            with self._catalog.moment() as moment:
                for name, spec in pipeline.summaries.items():
                    moment.load(name, OPEN if spec.sequential else newest)

    def on_window(self, text: str, window: ClosedWindow) -> Result:
        """A statement whose FROM items without a clause read a closed window. Raises SelectError:
        the statement is wrong, or retention has dropped a part of the window."""
        asked = ForClause("range", start_us=window.start, end_us=window.end, whole=True)
        with self._stored.moment() as moment:
            reading = self.engine.read(text, moment, asked)
            closed = window_at(moment.view, window.summary, window.start)
        result = self.engine.answer(reading)
        revision = window.revision if closed is None else closed.revision
        return replace(result, revision=max(result.revision, revision))

    def standing(self, query: str, window: ClosedWindow) -> Result | None:
        """What a standing query gave for a window that one knows has closed, as it was stored.
        Raises SelectError: the statement failed on that window."""
        with self._stored.moment(known=True) as moment:
            return moment.stored(query, window)

    def newest(self, query: str, most: int) -> str:
        """The clause that lets the newest results of a standing query through; else none."""
        with self._stored.moment() as moment:
            marks = moment.view.trend_marks(query, limit=most)
        if not marks:
            return ""
        return f"FOR '{instant_text(marks[-1][0])}' TO '{instant_text(marks[0][1])}'"

    def followed(self, text: str) -> str:
        """The summary whose windows a statement follows. Raises SelectError, UnknownName: the
        statement is wrong, or reads nothing whose windows close."""
        for found in self._followed(text):
            return found
        raise UnknownName(
            "on: window needs a summary whose windows close, and this statement reads none; "
            "give one a window in the pipeline file, or ask on: update"
        )

    def _followed(self, text: str) -> Iterator[str]:
        specs, queries = self.specs(), self.queries()
        for bound in filter(None, self.engine.check(text).items):
            if bound.kind == "trend":
                yield from self._followed(queries[bound.source].select)
            elif specs[bound.source].window is not None:
                yield bound.source

    def queries(self) -> dict[str, QueryInfo]:
        return self.known()[1]

    def known(self) -> tuple[dict[str, SummaryInfo], dict[str, QueryInfo]]:
        """Summaries and standing queries, of one moment."""
        with self._catalog.moment() as moment:
            return dict(moment.summaries()), dict(moment.queries())

    def pipelines(self) -> dict[str, Pipeline]:
        """The specs, as the ledger has them now."""
        with self._stored.moment() as moment:
            return {name: known.pipeline for name, known in moment.snapshot.pipelines.items()}

    def pipeline(self, name: str) -> Pipeline:
        """Raises UnknownName."""
        pipelines = self.pipelines()
        if name not in pipelines:
            said = f"there is no pipeline '{name[:80]}'" if name else "pipeline: name one"
            raise UnknownName(f"{said}; {did_you_mean(name, sorted(pipelines))}")
        return pipelines[name]

    def specs(self) -> dict[str, SummarySpec]:
        return {n: s for p in self.pipelines().values() for n, s in p.summaries.items()}

    def pipeline_of(self, summary: str) -> str:
        """Raises UnknownName."""
        for name, pipeline in self.pipelines().items():
            if summary in pipeline.summaries:
                return name
        hint = did_you_mean(summary, sorted(self.specs()))
        raise UnknownName(f"there is no summary '{summary[:80]}'; {hint}")

    def check_closes(self, summary: str) -> None:
        """Raise UnknownName where no window of a summary ever closes."""
        self.pipeline_of(summary)
        spec = self.specs().get(summary)  # none of what a coordinator keeps
        if spec is None or spec.window is None:
            raise UnknownName(
                f"'{summary[:80]}' has no windows that close; give it one in the pipeline file, or "
                "follow a statement over it on: update"
            )

    def more_state(self) -> Mapping[str, Any]:
        """Further entries of the state, for readers that know more than a ledger."""
        return {}


RATE_US = 10 * US_PER_SECOND  # a rate is an average over so long, or from one commit to the next


class Rates:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commits: dict[str, deque[tuple[int, int]]] = {}

    def of(self, pipeline: str, committed_at: int | None, read: int, now_us: int) -> float | None:
        """Events a second of wall clock; None until two commits were seen, 0 once none has come for
        three times as long as between two (10 s at least). `committed_at`: the newest commit, in
        microseconds since 1970 UTC, like `now_us`. `read`: events read by then, in all."""
        if committed_at is None:
            return None
        with self._lock:
            commits = self._commits.setdefault(pipeline, deque())
            at, count = commits[-1] if commits else (-1, -1)
            if committed_at > at or read > count:  # else known, or older than another thread's
                if committed_at <= at or read < count:
                    commits.clear()  # a clock that went back, or a pipeline begun anew
                commits.append((committed_at, read))
            while len(commits) > 2 and commits[1][0] <= commits[-1][0] - RATE_US:
                commits.popleft()
            (begin, before), (end, after) = commits[0], commits[-1]
            gaps = len(commits) - 1
        if not gaps:
            return None
        if now_us - end > max(RATE_US, 3 * (end - begin) // gaps):
            return 0.0
        return round((after - before) / (end - begin) * US_PER_SECOND, 1)
