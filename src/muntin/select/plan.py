"""From text to a plan that can be run: parse, check, names, SQL; kept by text."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from muntin.errors import SelectError
from muntin.select.bind import Binder, Bound
from muntin.select.catalog import Catalog, QueryInfo, SummaryInfo, WindowAsked
from muntin.select.check import check_tree
from muntin.select.limits import Limits
from muntin.select.names import resolve
from muntin.select.parser import parse
from muntin.select.render import render
from muntin.select.sums import summed
from muntin.select.syntax import Statement, show

_PLANS_MAX = 512
_TREND_DEPTH_MAX = 8  # a trend of a trend of a trend ...


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A statement that could be run now: all of its names exist.

    Attributes
    ----------
    columns : tuple of str
        Of the result.
    sources : tuple of str
        Summaries that it reads, each once; standing queries whose trend it reads are not here.
    windows : tuple of WindowAsked or None
        Of each FROM item, None where the text names none.
    """

    text: str
    columns: tuple[str, ...]
    sources: tuple[str, ...]
    windows: tuple[WindowAsked | None, ...]
    statement: Statement
    items: tuple[Bound | None, ...]
    sql: str
    clock: bool

    def show(self) -> str:
        """The statement in one spelling."""
        return show(self.statement)


@dataclass(frozen=True, slots=True)
class _Entry:
    plan: CheckedStatement
    summaries: Mapping[str, SummaryInfo]
    queries: Mapping[str, QueryInfo]


class Planner:
    """Checks statements against a catalog; thread-safe."""

    def __init__(self, catalog: Catalog, limits: Limits) -> None:
        self._catalog = catalog
        self._limits = limits
        self._plans: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def plan(self, text: str) -> CheckedStatement:
        """The plan of a text, from the last time if the catalog is still the same."""
        summaries = dict(self._catalog.summaries())
        queries = dict(self._catalog.queries())
        with self._lock:
            entry = self._plans.get(text) if isinstance(text, str) else None
            if entry is not None:
                self._plans.move_to_end(text)
        if entry is not None and entry.summaries == summaries and entry.queries == queries:
            return entry.plan
        plan = self._make(text, summaries, queries, ())
        with self._lock:
            self._plans[text] = _Entry(plan, summaries, queries)
            while len(self._plans) > _PLANS_MAX:
                self._plans.popitem(last=False)
        return plan

    def _make(
        self,
        text: str,
        summaries: Mapping[str, SummaryInfo],
        queries: Mapping[str, QueryInfo],
        around: tuple[str, ...],
    ) -> CheckedStatement:
        statement = parse(text, self._limits)
        check_tree(statement, self._limits)

        def columns_of(query: QueryInfo) -> tuple[str, ...]:
            if query.name in around or len(around) >= _TREND_DEPTH_MAX:
                raise SelectError(
                    f"the standing query '{query.name}' reads its own trend",
                    code="from_item",
                    text=text,
                )
            inner = self._make(query.select, summaries, queries, (*around, query.name))
            return inner.columns

        resolved = resolve(statement, Binder(text, summaries, queries, columns_of), self._limits)
        sql, clock = render(resolved.tree)
        read = [b.source for b in resolved.items if b is not None and b.kind != "trend"]
        return CheckedStatement(
            text,
            resolved.columns,
            tuple(dict.fromkeys(read)),
            tuple(b.window for b in resolved.items if b is not None),
            statement,
            summed(resolved.tree, resolved.items),
            sql,
            clock,
        )
