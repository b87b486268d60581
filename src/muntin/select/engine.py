"""SELECT over a catalog of summaries: check, load, run in DuckDB, say what the answer covers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.cache import Cache
from muntin.errors import BadArgument, MuntinError, SelectError, SummaryOverflow, UnknownName
from muntin.select.bind import Bound
from muntin.select.catalog import (
    OPEN,
    WHOLE,
    Catalog,
    ForClause,
    KeyNames,
    LoadedTable,
    LoadedWindow,
    Moment,
    Note,
    Part,
    SummaryInfo,
    Uncounted,
)
from muntin.select.database import Database, DatabaseError
from muntin.select.database_errors import converted, is_ambiguous
from muntin.select.functions import WITHOUT_WINDOWS
from muntin.select.limits import Limits
from muntin.select.narrowing import answered, narrowed
from muntin.select.plan import NOW, CheckedStatement, ComputedEnds, Planner, with_sources
from muntin.select.result import Result, WindowRead
from muntin.select.syntax import quoted, show_window
from muntin.select.tables import TableCache, shape_of, table_of
from muntin.select.values import conformed, is_wide, plain_table, typed_ways
from muntin.times import datetime_of, instant_text, now_us

_CONSTANTS_MAX = 64
_TABLES_MAX = 4096
_Load = Callable[[str, ForClause, KeyNames | None], LoadedWindow]
"""Of a summary, a window, and which keys."""


@dataclass(frozen=True, slots=True)
class _LoadedItem:
    """One FROM item, loaded."""

    window: WindowRead
    loaded: LoadedWindow | LoadedTable
    shown: str  # the item and its window, in one spelling
    exact: bool
    bounds: Mapping[str, Any]
    notes: tuple[Note, ...]
    table: pa.Table


@dataclass(frozen=True, slots=True)
class LoadedStatement:
    """A statement whose FROM items were read."""

    plan: CheckedStatement
    items: tuple[_LoadedItem | None, ...]
    started: float


class Engine:
    """Answers SELECT statements. Thread-safe; one for each ledger is enough.

    `catalog`: what there is to ask, and how it is loaded.
    `limits`: what one statement may cost.

    Examples
    --------
    >>> engine = Engine(catalog)                                        # doctest: +SKIP
    >>> engine.sql("SELECT origin, delay / count FROM flights(origin)")  # doctest: +SKIP
    """

    def __init__(self, catalog: Catalog, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._catalog = catalog
        self._planner = Planner(self.limits)
        kept = self.limits.cache_bytes, self.limits.cache_seconds
        self._tables = TableCache(*kept, entries_max=_TABLES_MAX)
        self._database = Database(self.limits)
        self._constants = Cache[pa.Table](entries_max=_CONSTANTS_MAX)

    def check(self, text: str) -> CheckedStatement:
        """Everything that can be said about a statement without running it. Raises SelectError: the
        text is no statement, or names something that does not exist."""
        with self._catalog.moment() as moment:
            return self._planner.plan(text, moment)

    def sql(
        self,
        text: str,
        *,
        window: ForClause | None = None,
        now: datetime | int | None = None,
        wide: bool = False,
    ) -> Result:
        """Run a statement: `read` it of what there is now, and `answer`.

        `window`: of FROM items without a clause; default the open one. Where it ends, it is one
          that has closed, on which a standing query runs: the others read nothing after it.
        `now`: what `now()` gives: a time (naive is UTC) or microseconds since 1970; default the
          wall clock.
        `wide`: no sum's type depends on which rows are left: where a FROM item has integers
          beyond 64 bits, all sums have 128.

        Raises SelectError: with a code, the place in the text, and a remedy.
        """
        now = _moment(now)
        with self._catalog.moment() as moment:
            reading = self.read(text, moment, window, now)
        return self.answer(reading, now=now, wide=wide)

    def read(
        self,
        text: str,
        moment: Moment,
        window: ForClause | None = None,
        now: datetime | None = None,
    ) -> LoadedStatement:
        """Check a statement, and load what its FROM items ask for: all of it of one moment. `now`:
        as it will be answered with, where the window is one by steps."""
        started = time.perf_counter()
        steps = None if window is None or window.every_us is None else window
        plan = self._planner.plan(text, moment, steps)
        if plan.ends is not None and now is not None:
            plan = replace(plan, items=self._between(plan.items, plan.ends, now))
        return LoadedStatement(plan, tuple(self._load(plan, moment, window)), started)

    def answer(
        self, reading: LoadedStatement, *, now: datetime | int | None = None, wide: bool = False
    ) -> Result:
        """The rows of a statement whose FROM items were read; the ledger is not looked at."""
        plan = reading.plan
        known = [read for read in reading.items if read is not None]
        try:
            self._database.check_open()
            table = plan.rows
            if plan.projected is not None:
                table = answered(
                    known[0].table, plan.projected, plan.columns, plan.narrowing, self.limits
                )
            constant = not plan.items and not plan.clock  # as pools ask, to see who is there
            if table is None and constant:
                table = self._constants.get(plan.text)
            if table is None:
                moment = _moment(now) if plan.clock else None
                table = self._run(plan, reading.items, moment)
                kinds = [kind for read in known for kind in read.table.schema.types]
                wide = wide and any(map(is_wide, kinds))
                table = plain_table(table, plan.columns, wide=wide)
                if constant:
                    self._constants.put(plan.text, table)
        except DatabaseError as error:
            raise converted(error, plan) from None
        return _result(table, known, time.perf_counter() - reading.started)

    def _run(
        self, plan: CheckedStatement, reads: tuple[_LoadedItem | None, ...], moment: datetime | None
    ) -> pa.Table:
        tables = [read.table for read in reads if read is not None]
        if plan.narrowing is not None:
            tables = [narrowed(tables[0], plan.narrowing)]

        left = iter(tables)
        of_item = [None if read is None else next(left) for read in reads]
        sums = [_sum_of(of_item[column.item], column.name) for column in plan.sums]

        def sql(*names: str) -> str:
            known = map(_source, names, tables)
            return with_sources(plan.sql, ["" if r is None else next(known) for r in reads], sums)

        def run(tables: list[pa.Table]) -> pa.Table:
            return self._database.run(
                sql,
                tables,
                parameters=None if moment is None else {NOW: moment},
                compared=plan.compared,
                seconds=self.limits.seconds,
            )

        try:
            return run(tables)
        except DatabaseError as error:
            if not is_ambiguous(error):
                raise
            for typed in typed_ways(tables):
                try:
                    return run(typed)
                except DatabaseError as other:
                    if other.kind != error.kind:
                        raise
            raise

    def _between(
        self, items: tuple[Bound | None, ...], computed: ComputedEnds, now: datetime
    ) -> tuple[Bound | None, ...]:
        """Of items by steps, those that their filters let through."""
        found, parameters = list(items), {NOW: now} if computed.clock else None
        try:
            row = self._database.run(
                lambda: computed.sql, [], parameters=parameters, seconds=self.limits.seconds
            )
        except DatabaseError:  # the statement will say it, where it matters
            return items
        for end, column in zip(computed.ends, row.columns, strict=True):
            item, at = found[end.item], _instant_us(column)
            if at is not None and item is not None and item.window is not None:
                found[end.item] = replace(item, window=end.within(item.window, at))
        return tuple(found)

    def close(self) -> None:
        """Give back DuckDB's memory and the watchdog's thread."""
        self._database.close()

    def _load(
        self, plan: CheckedStatement, moment: Moment, closed: ForClause | None
    ) -> list[_LoadedItem | None]:
        load: _Load = cache(moment.load)  # the same window of the same summary once
        reads: list[_LoadedItem | None] = []
        for number, bound in enumerate(plan.items):
            if bound is None:
                reads.append(None)
                continue
            try:
                if bound.kind in ("trend", "windows"):
                    reads.append(self._read_history(bound, moment))
                else:
                    reads.append(self._read(bound, moment, closed, load, plan.names))
            except SelectError as error:
                raise _placed(error, plan, number) from None
            except SummaryOverflow as error:
                remedy = "ask for a shorter window, or leave the column out"
                found = SelectError(str(error), code="overflow", remedy=remedy)
                raise _placed(found, plan, number) from None
            except MuntinError as error:
                code = "from_item" if isinstance(error, BadArgument) else "load"
                code = "unknown_name" if isinstance(error, UnknownName) else code
                raise _placed(SelectError(str(error), code=code), plan, number) from error
        return reads

    def _read(
        self,
        bound: Bound,
        moment: Moment,
        closed: ForClause | None,
        load: _Load,
        names: frozenset[str] | None,
    ) -> _LoadedItem:
        info = moment.summaries()[bound.source]
        if closed is not None and closed.end_us is None and info.kind in WITHOUT_WINDOWS:
            closed = None
        asked = _asked(bound.window, closed)
        keys = _keys_read(bound, info)
        loaded = load(bound.source, asked, keys)
        if bound.kind == "total" and not loaded.uncounted.keys().isdisjoint(info.keys):
            keys = None  # which key has counted most, only all of them tell
            loaded = load(bound.source, asked, keys)
        wanted = bound.source, asked, keys, shape_of(bound)
        table = self._tables.made(
            wanted, loaded.token, lambda: table_of(bound, loaded, info, names)
        )
        said = bound.window is not None or closed is not None
        notes = loaded.notes if said else _only_open(loaded, bound.source)
        rows = bound.kind != "total" and (bound.kind == "function" or info.sketched)
        exact = loaded.proven if rows else loaded.exact  # a sketch's totals are exact
        bounds = dict(loaded.bounds) if rows or not exact else {}
        short = _lacking(bound, loaded.uncounted, names)
        if short:
            exact = False
            bounds["uncounted"] = {what: each.events for what, each in short.items()}
            notes = (*notes, _lacking_note(bound, short))
        window = WindowRead(bound.source, show_window(asked), loaded.covered)
        shown = f"{bound.shown} {window.asked}"
        return _LoadedItem(window, loaded, shown, exact, bounds, notes, table)

    def _read_history(self, bound: Bound, moment: Moment) -> _LoadedItem:
        find = moment.trend if bound.kind == "trend" else moment.windows
        loaded = find(bound.source, bound.window)
        table = conformed(loaded.table, bound.columns)
        asked = show_window(bound.window or ForClause("all"))
        window = WindowRead(bound.source, asked, loaded.covered)
        shown = f"{bound.shown} {asked}"
        return _LoadedItem(window, loaded, shown, loaded.exact, loaded.bounds, loaded.notes, table)


def _sum_of(table: pa.Table | None, column: str) -> str:
    """DuckDB's function that adds up a column. Where a part of the sum is infinite, `fsum` loses
    it: what rounding lost is NaN then."""
    if table is None or not pa.types.is_floating(table.schema.field(column).type):
        return "sum"
    values = table.column(column).drop_null().to_numpy()
    largest = max(-np.fmin.reduce(values, initial=0.0), np.fmax.reduce(values, initial=0.0))
    with np.errstate(over="ignore"):
        if np.isfinite(largest * len(values)):  # mostly, and sooner known than their sum
            return "fsum"
        return "fsum" if np.isfinite(np.nansum(np.abs(values))) else "sum"


def _source(name: str, table: pa.Table) -> str:
    """A table in SQL. Wide integers become DuckDB's: it divides a decimal by // as a float."""
    wide = [quoted(field.name) for field in table.schema if is_wide(field.type)]
    if not wide:
        return quoted(name)
    replaced = ", ".join(f"CAST({column} AS HUGEINT) AS {column}" for column in wide)
    return f"(SELECT * REPLACE ({replaced}) FROM {quoted(name)})"  # noqa: S608 (quoted names)


def _asked(clause: ForClause | None, closed: ForClause | None) -> ForClause:
    """The window that a FROM item reads: of now, or in a standing query of one that has closed."""
    if closed is None or closed.end_us is None:
        return clause or closed or OPEN
    if clause is None:
        return closed
    if clause.kind == "open":
        return replace(closed, every_us=clause.every_us)
    return clause.before(closed.end_us)


def _keys_read(bound: Bound, info: SummaryInfo) -> KeyNames | None:
    """Keys of a vector matrix that a FROM item reads; None: all, or the summary is none."""
    if bound.kind == "total":
        return info.keys[:1]  # each that has counted all events gives the same totals
    return None if bound.key is None else (bound.key,)


def _result(table: pa.Table, reads: list[_LoadedItem], seconds: float) -> Result:
    marks = [r.loaded.watermark for r in reads if r.loaded.watermark is not None]
    parts = {(r.window.source, r.window.asked): r.loaded.late for r in reads}
    return Result(
        table,
        windows=tuple(r.window for r in reads),
        watermark=min(marks, default=None),
        revision=max((r.loaded.revision for r in reads), default=0),
        exact=all(r.exact for r in reads),
        bounds=_bounds(reads),
        notes=tuple(dict.fromkeys(note for r in reads for note in r.notes)),
        late=sum(parts.values()),
        stale=any(r.loaded.stale for r in reads),
        seconds=seconds,
    )


def _bounds(reads: list[_LoadedItem]) -> dict[str, Any]:
    """By source; by item and window where those of one source differ."""
    of_source: dict[str, list[_LoadedItem]] = {}
    for read in reads:
        if read.bounds:
            of_source.setdefault(read.window.source, []).append(read)
    found: dict[str, Any] = {}
    for source, same in of_source.items():
        if all(read.bounds == same[0].bounds for read in same):
            found[source] = dict(same[0].bounds)
        else:
            found |= {read.shown: dict(read.bounds) for read in same}
    return found


def _lacking(
    bound: Bound, uncounted: Mapping[Part, Uncounted], names: frozenset[str] | None
) -> dict[str, Uncounted]:
    """Of what a FROM item reads, its summary, key and indicators, those that lack events. `names`:
    columns that the statement reads; None: all."""
    found: dict[str, Uncounted] = {}
    if WHOLE in uncounted:
        found[bound.source] = uncounted[WHOLE]
    if not uncounted or bound.kind not in ("key", "total"):
        return found
    if bound.kind == "key" and bound.key is not None and bound.key in uncounted:
        found[", ".join(bound.key)] = uncounted[bound.key]
    for name in bound.indicators:
        read = name in bound.columns and (names is None or name in names)
        if read and name in uncounted:
            found[name] = uncounted[name]
    return found


def _lacking_note(bound: Bound, short: Mapping[str, Uncounted]) -> Note:
    """The sentence about them."""
    said = []
    for what, each in short.items():
        since = "" if each.since is None else f", and all since {instant_text(each.since)}"
        of = f"at most {each.of:,}" if each.at_most else f"{each.of:,}"
        said.append(f"{what} has counted {each.of - each.events:,} of {of} events{since}")
    return Note("uncounted", bound.source, f"{bound.shown}: added later: {'; '.join(said)}")


def _only_open(loaded: LoadedWindow, source: str) -> tuple[Note, ...]:
    """Nobody said which window is meant: where there is more, the answer says so."""
    stored, covered = loaded.stored, loaded.covered
    if stored is None or (covered is not None and covered[0] <= stored[0]):
        return loaded.notes
    read = "which holds nothing yet"
    if covered is not None:
        read = f"from {instant_text(covered[0])} on"
    message = (
        f"{source}: without FOR, only the open window is read, {read}; "
        f"FOR ALL reads all since {instant_text(stored[0])}"
    )
    others = tuple(note for note in loaded.notes if note.code != "nothing")
    return (Note("open", source, message), *others)


def _placed(error: SelectError, plan: CheckedStatement, number: int) -> SelectError:
    """An error of loading, at the FROM item that was loaded."""
    span = plan.statement.items[number].span
    return error.replaced(text=plan.text, position=span.start, length=span.length)


def _instant_us(column: pa.ChunkedArray) -> int | None:
    """The one time, or day, of a column; None: it holds something else."""
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return None
    try:
        at = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False)
    except pa.ArrowInvalid:
        return None
    return at.cast(pa.int64())[0].as_py()


def _moment(now: datetime | int | None) -> datetime:
    """In UTC and without a zone, like DuckDB's TIMESTAMP."""
    now = now_us() if now is None else now
    now = datetime_of(now) if isinstance(now, int) else now
    return now if now.tzinfo is None else now.astimezone(UTC).replace(tzinfo=None)
