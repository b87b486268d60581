"""From text to a plan that can be run: parse, check, names, SQL; kept by text."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from muntin.errors import SelectError
from muntin.select.bind import Binder, Bound
from muntin.select.catalog import Catalog, QueryInfo, SummaryInfo, WindowAsked
from muntin.select.check import check_tree
from muntin.select.direct import projected
from muntin.select.limits import Limits
from muntin.select.names import resolve
from muntin.select.parser import Words, parse_words, read_words
from muntin.select.render import render
from muntin.select.shapes import is_same, shape_of
from muntin.select.sums import summed
from muntin.select.syntax import Statement, show

_PLANS_MAX = 512  # by text, and again by shape
_T = TypeVar("_T")
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
    projected: tuple[str, ...] | None
    """Columns of the one FROM item, where the statement does nothing but list them."""

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
        self._shapes: OrderedDict[Hashable, CheckedStatement] = OrderedDict()
        self._lock = threading.Lock()

    def plan(self, text: str) -> CheckedStatement:
        """The plan of a text, from the last time if the catalog is still the same."""
        summaries = dict(self._catalog.summaries())
        queries = dict(self._catalog.queries())
        entry = self._kept(self._plans, text) if isinstance(text, str) else None
        if entry is not None and entry.summaries == summaries and entry.queries == queries:
            return entry.plan
        plan = self._make(text, summaries, queries, ())
        self._keep(self._plans, text, _Entry(plan, summaries, queries))
        return plan

    def _kept(self, plans: OrderedDict[Any, _T], key: Hashable) -> _T | None:
        with self._lock:
            found = plans.get(key)
            if found is not None:
                plans.move_to_end(key)
            return found

    def _keep(self, plans: OrderedDict[Any, _T], key: Hashable, plan: _T) -> None:
        with self._lock:
            plans[key] = plan
            plans.move_to_end(key)
            while len(plans) > _PLANS_MAX:
                plans.popitem(last=False)

    def _make(
        self,
        text: str,
        summaries: Mapping[str, SummaryInfo],
        queries: Mapping[str, QueryInfo],
        around: tuple[str, ...],
    ) -> CheckedStatement:
        words = read_words(text, self._limits)

        def columns_of(query: QueryInfo) -> tuple[str, ...]:
            if query.name in around or len(around) >= _TREND_DEPTH_MAX:
                raise SelectError(
                    f"the standing query '{query.name}' reads its own trend",
                    code="from_item",
                    text=text,
                )
            inner = self._make(query.select, summaries, queries, (*around, query.name))
            return inner.columns

        binder = Binder(text, summaries, queries, columns_of)
        shape = shape_of(words)
        alike = None if shape is None else self._kept(self._shapes, shape)
        if alike is not None:
            bound = binder.bind(words.items[0])
            if is_same(bound, alike.items[0]):
                return _with_constants(alike, words, bound)
        statement = parse_words(words)
        check_tree(statement, self._limits)
        resolved = resolve(statement, binder, self._limits)
        sql, clock = render(resolved.tree)
        read = [b.source for b in resolved.items if b is not None and b.kind != "trend"]
        plan = CheckedStatement(
            text,
            resolved.columns,
            tuple(dict.fromkeys(read)),
            tuple(b.window for b in resolved.items if b is not None),
            statement,
            summed(resolved.tree, resolved.items),
            sql,
            clock,
            projected(resolved.tree, resolved.items),
        )
        if shape is not None:
            self._keep(self._shapes, shape, plan)
        return plan


def _with_constants(alike: CheckedStatement, words: Words, bound: Bound) -> CheckedStatement:
    """The plan of another text of the same shape.

    The tree's places are those of the first text: only errors of planning speak of them, and this
    shape has been planned.
    """
    first = alike.items[0]
    return replace(
        alike,
        text=words.text,
        windows=(bound.window,),
        statement=Statement(words.items, alike.statement.tree, words.text),
        items=(replace(bound, summed=first is not None and first.summed),),
    )
