"""SELECT over a catalog of summaries: check, load, run in DuckDB, say what the answer covers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from muntin.errors import MuntinError, SelectError
from muntin.select.bind import Bound
from muntin.select.catalog import OPEN, Catalog, Loaded, LoadedTable, SummaryInfo, WindowAsked
from muntin.select.conform import conformed
from muntin.select.database import Database, DatabaseError
from muntin.select.direct import answered
from muntin.select.failures import converted
from muntin.select.limits import Limits
from muntin.select.plan import CheckedStatement, Planner
from muntin.select.render import NOW, quoted, with_sources
from muntin.select.result import Result, WindowRead
from muntin.select.tables import TableCache, shape_of, table_of
from muntin.select.values import plain_table

_EPOCH = datetime(1970, 1, 1)  # no zone, like DuckDB's TIMESTAMP; both are UTC


@dataclass(frozen=True, slots=True)
class _Read:
    """One FROM item, loaded."""

    window: WindowRead
    loaded: Loaded | LoadedTable
    exact: bool
    name: str
    table: pa.Table
    sql: str


class Engine:
    """Answers SELECT statements. Thread-safe; one for each ledger is enough.

    Parameters
    ----------
    catalog : Catalog
        What there is to ask, and how it is loaded.
    limits : Limits, optional
        What one statement may cost.

    Examples
    --------
    >>> engine = Engine(catalog)                                        # doctest: +SKIP
    >>> engine.sql("SELECT origin, delay / count FROM flights(origin)")  # doctest: +SKIP
    """

    def __init__(self, catalog: Catalog, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._catalog = catalog
        self._planner = Planner(catalog, self.limits)
        self._tables = TableCache(self.limits.cache_bytes)
        self._database = Database(self.limits)

    def check(self, text: str) -> CheckedStatement:
        """Everything that can be said about a statement without running it.

        Raises
        ------
        SelectError
            The text is no statement, or names something that does not exist.
        """
        return self._planner.plan(text)

    def sql(
        self,
        text: str,
        *,
        window: WindowAsked | None = None,
        now: datetime | int | None = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Run a statement.

        Parameters
        ----------
        window : WindowAsked, optional
            Of the FROM items without a window clause; default the open window. A standing query
            is run so for the window that has closed.
        now : datetime or int, optional
            What `now()` gives: a time (naive is UTC) or microseconds since 1970; default the wall
            clock.
        timeout_s : float, optional
            Seconds in DuckDB; default, and at most, `limits.seconds`.

        Raises
        ------
        SelectError
            With a code, the place in the text, and a remedy.
        """
        started = time.perf_counter()
        plan = self._planner.plan(text)
        reads = self._load(plan, window or OPEN)
        known = [read for read in reads if read is not None]
        try:
            self._database.check_open()
            table = None
            if plan.projected is not None:
                table = answered(known[0].table, plan.projected, plan.columns, self.limits)
            if table is None:
                moment = _moment(now) if plan.clock else None
                table = plain_table(self._run(plan, reads, moment, timeout_s))
        except DatabaseError as error:
            raise converted(error, plan) from None
        return _result(table, known, time.perf_counter() - started)

    def _run(
        self,
        plan: CheckedStatement,
        reads: list[_Read | None],
        moment: datetime | None,
        timeout_s: float | None,
    ) -> pa.Table:
        return self._database.run(
            with_sources(plan.sql, ["" if read is None else read.sql for read in reads]),
            {read.name: read.table for read in reads if read is not None},
            parameters=None if moment is None else {NOW: moment},
            seconds=min(timeout_s or self.limits.seconds, self.limits.seconds),
            keep=self._tables,
        )

    def close(self) -> None:
        """Give back DuckDB's memory and the watchdog's thread."""
        self._database.close()

    def _load(self, plan: CheckedStatement, default: WindowAsked) -> list[_Read | None]:
        summaries = self._catalog.summaries()
        # The same window of the same summary is loaded once: one statement, one state.
        seen: dict[tuple[str, WindowAsked], Loaded] = {}
        reads: list[_Read | None] = []
        for number, bound in enumerate(plan.items):
            if bound is None:
                reads.append(None)
                continue
            try:
                reads.append(self._read(bound, summaries, default, seen))
            except SelectError as error:
                raise _placed(error, plan, number) from None
            except KeyError:
                message = f"'{bound.source}' is not there any more"
                raise _placed(SelectError(message, code="unknown_name"), plan, number) from None
            except MuntinError as error:
                raise _placed(SelectError(str(error), code="load"), plan, number) from error
        return reads

    def _read(
        self,
        bound: Bound,
        summaries: Mapping[str, SummaryInfo],
        default: WindowAsked,
        seen: dict[tuple[str, WindowAsked], Loaded],
    ) -> _Read:
        if bound.kind in ("trend", "windows"):
            return self._read_history(bound)
        asked = bound.window or default
        loaded = seen.get((bound.source, asked))
        if loaded is None:
            loaded = self._catalog.load(bound.source, asked)
            seen[bound.source, asked] = loaded
        info = summaries[bound.source]
        name, table = self._tables.get(
            None if loaded.token is None else (loaded.token, bound.source, shape_of(bound)),
            lambda: table_of(bound, loaded, info),
        )
        rows = bound.kind != "total" and (bound.kind == "function" or info.sketched)
        exact = loaded.exact and not rows  # a sketch's totals are exact, its rows are not
        window = WindowRead(bound.source, asked, loaded.covered)
        return _Read(window, loaded, exact, name, table, quoted(name))

    def _read_history(self, bound: Bound) -> _Read:
        find = self._catalog.trend if bound.kind == "trend" else self._catalog.windows
        loaded = find(bound.source, bound.window)
        name, table = self._tables.get(
            None if loaded.token is None else (loaded.token, bound.source, shape_of(bound)),
            lambda: (conformed(loaded.table, bound.columns), True),
        )
        window = WindowRead(bound.source, bound.window or WindowAsked("all"), loaded.covered)
        return _Read(window, loaded, loaded.exact, name, table, quoted(name))


def _result(table: pa.Table, reads: list[_Read], seconds: float) -> Result:
    marks = [r.loaded.watermark for r in reads if r.loaded.watermark is not None]
    bounds: dict[str, Any] = {}
    for read in reads:
        known = getattr(read.loaded, "bounds", None)
        if known and not read.exact:
            bounds[read.window.source] = dict(known)
    parts = {(r.window.source, r.window.asked): r.loaded.late for r in reads}
    return Result(
        table,
        windows=tuple(r.window for r in reads),
        watermark=min(marks, default=None),
        revision=max((r.loaded.revision for r in reads), default=0),
        exact=all(r.exact for r in reads),
        bounds=bounds,
        late=sum(parts.values()),
        stale=any(r.loaded.stale for r in reads),
        seconds=seconds,
    )


def _placed(error: SelectError, plan: CheckedStatement, number: int) -> SelectError:
    """An error of loading, at the FROM item that was loaded."""
    span = plan.statement.items[number].span
    return SelectError(
        error.message,
        code=error.code,
        text=plan.text,
        position=span.start,
        length=span.length,
        remedy=error.remedy,
    )


def _moment(now: datetime | int | None) -> datetime:
    if now is None:
        now = time.time_ns() // 1000
    if isinstance(now, int):
        return _EPOCH + timedelta(microseconds=now)
    return now if now.tzinfo is None else now.astimezone(UTC).replace(tzinfo=None)
