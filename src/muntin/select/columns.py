"""One column reference at a time: what Xi, Yj and a name mean in a scope."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from muntin.errors import SelectError, did_you_mean
from muntin.select.bind import Bound, key_number, keyed_item
from muntin.select.limits import Limits
from muntin.select.places import problem_at
from muntin.select.syntax import Statement, show

_INDICATOR = re.compile(r"[yY]([1-9]\d{0,3})\Z")


def indicator_number(name: str) -> int:
    """j of Yj, or 0."""
    match = _INDICATOR.match(name)
    return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class Origin:
    """A column of a FROM item, by the item's number in the statement."""

    item: int
    name: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source."""

    name: str
    pieces: int = 1  # how many strings || and concat may have joined into one value
    origin: Origin | None = None  # where it is no more than that


@dataclass(frozen=True, slots=True)
class Relation:
    """What a query gives: its columns in order, and how many FROM items it reads."""

    columns: tuple[Column, ...]
    reads: int


@dataclass(slots=True)
class FromSource:
    """One FROM item of a SELECT, under its alias."""

    alias: str
    relation: Relation
    bound: Bound | None = None
    named: bool = False
    """The alias was given by the writer."""
    using: frozenset[str] = frozenset()
    """Columns (lower case) that are one with those of the sources before it."""
    tested: bool = False
    """Of a SEMI or ANTI join: seen by its condition alone."""

    def column(self, name: str) -> Column | None:
        lower = name.lower()
        return next((c for c in self.relation.columns if c.name.lower() == lower), None)

    def as_column(self, name: exp.Identifier, table: exp.Identifier | None = None) -> exp.Column:
        """A reference to one of its columns, of that column's type."""
        known, column = self.column(name.name), exp.Column(this=name, table=table)
        if known is not None:
            _means(column, known)
        return column

    @property
    def key(self) -> tuple[str, ...]:
        """Its key columns, where it is a key of a vector matrix."""
        return (self.bound.key if self.bound is not None else None) or ()

    @property
    def shown(self) -> str:
        return self.bound.shown if self.bound is not None and not self.named else self.alias


@dataclass(slots=True)
class Scope:
    """Inside one SELECT."""

    parent: Scope | None = None
    sources: list[FromSource] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    """Names given by AS in the SELECT list (lower case), with their pieces."""
    joined: dict[str, str] = field(default_factory=dict)
    """Columns that a join makes one (lower case), with the alias they are read from."""

    def source(self, alias: str) -> FromSource | None:
        lower = alias.lower()
        return next((s for s in self.sources if s.alias.lower() == lower), None)

    def with_key(self, number: int) -> list[FromSource]:
        return [s for s in self.sources if s.bound is not None and s.bound.key_number == number]

    def with_column(self, name: str) -> list[FromSource]:
        return [s for s in self.sources if s.column(name) is not None]

    def with_indicators(self) -> list[FromSource]:
        return [s for s in self.sources if s.bound is not None and s.bound.indicators]

    def chain(self) -> list[Scope]:
        """This scope, then those around it."""
        scopes: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            scopes.append(scope)
            scope = scope.parent
        return scopes


_NAME_LENGTH_MAX = 200


def shown_expression(node: exp.Expr, statement: Statement) -> str:
    """An expression as a column's name: what was written, with Xi and Yj as names."""
    sql = show(statement, node)
    return sql if len(sql) <= _NAME_LENGTH_MAX else sql[: _NAME_LENGTH_MAX - 3] + "..."


def _identifier(name: str, like: exp.Expr | None) -> exp.Identifier:
    made = exp.to_identifier(name, quoted=not name.isidentifier())
    if like is not None:
        made.meta.update(like.meta)
    return made


def _means(node: exp.Column, column: Column) -> None:
    node.set("this", _identifier(column.name, node.this))
    node.meta["origin"] = column.origin


_INSTEAD = {
    "avg": "sum({0}) / sum(count)",
    **dict.fromkeys(
        ("median", "mode", "quantile", "quantile_cont", "quantile_disc"),
        "FROM quantiles(<summary>, ...), of a summary of kind quantiles",
    ),
    **dict.fromkeys(
        ("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "skewness",
         "kurtosis"),
        "sums of an indicator of squares, sum(squares) / sum(count) - (sum({0}) / sum(count)) ^ 2",
    ),
}  # fmt: skip
"""Aggregates that a reader takes for those of events, and what gives these."""


def _spread_of(node: exp.Column) -> exp.Anonymous | None:
    """The aggregate that a column is the first argument of, as it is."""
    part: exp.Expr = node
    around = node.parent
    while isinstance(around, (exp.Paren, exp.Cast, exp.TryCast, exp.Distinct, exp.Order, exp.Neg)):
        part, around = around, around.parent
    if not isinstance(around, exp.Anonymous) or str(around.this).lower() not in _INSTEAD:
        return None
    return around if around.expressions and around.expressions[0] is part else None


def _unknown_name_remedy(node: exp.Column) -> str:
    """What may have been meant by a name beside =, <, IN and the like: a text, or event time."""
    is_time = node.name.lower() == "time"
    if node.table:
        return ""
    if isinstance(node.parent, exp.Predicate):
        beside = [part for part in node.parent.iter_expressions() if part is not node]
        plain = not any(part.is_number for part in beside)
        if plain and isinstance(node.parent, (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)):
            return "; a run of time is chosen in FROM, e.g. FROM orders FOR LAST '1 day'"
        if plain and not is_time:
            return f"; a text is written '{node.name[:64]}'"
    said = "trend, windows and FOR ALL EVERY '1 hour' have window_start"
    return f"; the events' time is no column: {said}" if is_time else ""


def _names_itself(node: exp.Column) -> bool:
    """Whether it stands in what gets its name by AS."""
    named = node.find_ancestor(exp.Alias)
    return named is not None and named.alias.lower() == node.name.lower()


class ColumnResolver:
    """Resolves columns in place; each error says what is visible there."""

    def __init__(self, statement: Statement, limits: Limits) -> None:
        self.statement = statement
        self._error = partial(problem_at, statement.text)
        self.limits = limits

    def resolve(self, node: exp.Column, scope: Scope) -> None:
        function = _spread_of(node)
        if node.args.get("table") is not None:
            self._qualified(node, scope)
        else:
            self._plain(node, scope)
        if function is not None:
            self._check_spread(function, node, scope)

    def _check_spread(self, function: exp.Anonymous, node: exp.Column, scope: Scope) -> None:
        """An indicator is a sum over events: its mean over rows is not that over events."""
        name = node.name
        for around in scope.chain():
            found = [around.source(node.table)] if node.table else around.with_column(name)
            source = next((s for s in found if s is not None), None)
            if source is None:
                continue
            bound = source.bound
            if bound is None or name not in bound.indicators:
                return
            called = str(function.this).lower()
            raise self._error(
                node,
                f"{name} is the sum over the events of a row: {called}({name}) would be that of "
                "sums, not of events",
                f"for events write {_INSTEAD[called].format(name)}; for the rows of "
                f"{bound.shown}, name it in a WITH query first: {name} AS total",
                code="sums",
            )

    def _qualified(self, node: exp.Column, scope: Scope) -> None:
        source = self._source(node, scope)
        qualifier = node.args["table"]
        if source.alias.lower() != node.table.lower():
            node.set("table", _identifier(source.alias, qualifier))
        if isinstance(node.this, exp.Star):
            return
        column = source.column(node.name)
        number = indicator_number(node.name)
        if column is None and number and source.bound is not None:
            column = self._indicator(node, source, number)
        if column is None:
            raise self._no_column(node, [source])
        _means(node, column)

    def _source(self, node: exp.Column, scope: Scope) -> FromSource:
        name = node.table
        for around in scope.chain():
            source = around.source(name)
            if source is not None:
                return source
        number = key_number(name)
        for around in scope.chain() if number else []:
            found = around.with_key(number)
            if len(found) == 1:
                return found[0]
            if found:
                remedy = f"write one of {', '.join(s.alias for s in found)} for {name}"
                raise self._ambiguous(node.args["table"], name, remedy)
        aliases = [s.alias for around in scope.chain() for s in around.sources]
        remedy = did_you_mean(name, aliases, "FROM has")
        if number:
            remedy = f"add key {number} to FROM; it has {', '.join(aliases) or 'nothing'}"
        raise self._error(
            node.args["table"], f"'{name}' is not in FROM", remedy, code="unknown_name"
        )

    def _plain(self, node: exp.Column, scope: Scope) -> None:
        name = node.name
        for around in scope.chain():
            found = around.with_column(name)
            if found:
                self._found(node, around, found)
                return
            if name.lower() in around.given and not _names_itself(node):
                return
        number = indicator_number(name)
        for around in scope.chain() if number else []:
            sources = around.with_indicators()
            if len(sources) > 1:
                remedy = f"write {sources[0].alias}.{name} or {sources[1].alias}.{name}"
                raise self._ambiguous(node, name, remedy)
            if sources:
                column = self._indicator(node, sources[0], number)
                _means(node, column)
                if around is not scope or column.name.lower() in around.given:
                    # its name alone may mean another thing here
                    node.set("table", _identifier(sources[0].alias, None))
                return
        if key_number(name):  # in an expression: its column, or for a combination (a, b)
            columns = self._key_columns(node, scope)
            node.replace(columns[0] if len(columns) == 1 else exp.Tuple(expressions=columns))
            return
        visible = [s for around in scope.chain() for s in around.sources]
        given = [g for s in scope.chain() for g in s.given if g != name.lower()]
        raise self._no_column(node, visible, given)

    def _found(self, node: exp.Column, scope: Scope, found: list[FromSource]) -> None:
        name = node.name.lower()
        column = found[0].column(name)
        assert column is not None  # noqa: S101 - the scope found it there
        if len(found) > 1:
            if name in scope.joined:
                alias = scope.joined[name]
                if alias:
                    node.set("table", _identifier(alias, None))
            elif name not in scope.given:
                shown = " or ".join(f"{s.alias}.{column.name}" for s in found[:3])
                raise self._ambiguous(node, f"'{node.name}'", f"write {shown}")
        node.set("this", _identifier(column.name, node.this))
        if name not in scope.given:  # in some clauses it means what AS has given
            node.meta["origin"] = column.origin

    def _indicator(self, node: exp.Column, source: FromSource, number: int) -> Column:
        bound = source.bound
        names = bound.indicators if bound is not None else ()
        if number > len(names):
            shown = ", ".join(f"Y{j} = {name}" for j, name in enumerate(names, 1))
            raise self._error(
                node.this,
                f"{source.shown} has no indicator {number}",
                f"indicators: {shown}" if shown else "it has no indicators",
                code="unknown_column",
            )
        column = source.column(names[number - 1])
        if column is None:
            key = bound.key_number if bound is not None else 0
            raise self._error(
                node,
                f"vector {key}.{number} is not in FROM",
                f"add it: FROM {source.shown}, vector {key}.{number}",
                code="unknown_column",
            )
        return column

    def expand_keys(self, node: exp.Select, scope: Scope) -> None:
        """In lists of columns, Xi of a combination stands for all of its columns."""
        for listed in (node, node.args.get("group"), node.args.get("order")):
            made: list[exp.Expr] = []
            for item in [] if listed is None else listed.expressions:
                column = item.this if isinstance(item, exp.Ordered) else item
                if not self._is_key(column, scope):
                    made.append(item)
                    continue
                for key in self._key_columns(column, scope):
                    alone = column is item
                    made.append(key if alone else exp.Ordered(**{**item.args, "this": key}))
            if listed is not None:
                listed.set("expressions", made)

    def _is_key(self, node: exp.Expr, scope: Scope) -> bool:
        if not isinstance(node, exp.Column) or node.args.get("table") is not None:
            return False
        name = node.name
        return bool(key_number(name)) and not (
            name.lower() in scope.given or any(s.with_column(name) for s in scope.chain())
        )

    def _key_columns(self, node: exp.Column, scope: Scope) -> list[exp.Column]:
        number = key_number(node.name)
        for around in scope.chain():
            found = around.with_key(number)
            if len(found) > 1:
                remedy = f"write the columns: {found[0].alias}.{found[0].key[0]}, ..."
                raise self._ambiguous(node, node.name, remedy)
            if found:
                source, alias = found[0], found[0].alias
                return [
                    source.as_column(_identifier(name, node.this), _identifier(alias, None))
                    for name in source.key
                ]
        visible = [s.shown for around in scope.chain() for s in around.sources]
        raise self._error(
            node,
            f"{node.name} is not in FROM",
            f"FROM has {', '.join(visible) or 'nothing'}; add key {number}",
            code="unknown_name",
        )

    def star(self, node: exp.Expr, scope: Scope) -> list[Column] | None:
        """Columns that `*` or `a.*` stand for; None if it is neither."""
        if isinstance(node, exp.Star):
            if not scope.sources:
                raise self._error(node, "* needs a FROM", "SELECT * FROM ...", code="syntax")
            return [
                c
                for s in scope.sources
                for c in s.relation.columns
                if c.name.lower() not in s.using
            ]
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            self._qualified(node, scope)
            source = scope.source(node.table)
            return list(source.relation.columns) if source is not None else []
        return None

    def pieces(self, node: exp.Expr, scope: Scope) -> int:
        """How many strings may be joined in one value of an expression."""
        if "pieces" in node.meta:  # of a subquery's value
            return node.meta["pieces"]
        if isinstance(node, exp.Column):
            return self._pieces_of_column(node, scope)
        parts = [self.pieces(child, scope) for child in node.iter_expressions()]
        joins = isinstance(node, exp.DPipe) or (
            isinstance(node, exp.Anonymous) and str(node.this).lower() == "concat"
        )
        pieces = sum(parts) if joins else max(parts, default=1)
        if pieces > self.limits.pieces:
            raise self._error(
                node,
                f"more than {self.limits.pieces} strings are joined into one",
                "join fewer",
                code="limit",
            )
        return pieces

    def _pieces_of_column(self, node: exp.Column, scope: Scope) -> int:
        for around in scope.chain():
            sources = [around.source(node.table)] if node.table else around.with_column(node.name)
            columns = [s.column(node.name) for s in sources if s is not None]
            known = [c.pieces for c in columns if c is not None]
            if known:
                return max(known)
            if not node.table and node.name.lower() in around.given:
                return around.given[node.name.lower()]
        return 1

    def _ambiguous(self, node: exp.Expr, name: str, remedy: str) -> SelectError:
        return self._error(node, f"{name} is in more than one FROM item", remedy, "ambiguous")

    def _no_column(
        self, node: exp.Column, sources: list[FromSource], given: list[str] | None = None
    ) -> SelectError:
        names = [c.name for s in sources for c in s.relation.columns] + (given or [])
        for source in sources:
            bound, word = source.bound, node.name.lower()
            keys = bound.keys if bound is not None else ()
            having = [key for key in keys if word in map(str.lower, key)]
            if bound is None or not having:
                continue
            items = [keyed_item(bound.source, key) for key in having]
            name = f"no column '{node.name[:64]}'"
            if bound.kind == "total":
                message = f"{bound.source} without a key is one row: it has {name}"
                remedy = f"write FROM {items[0]} for a row for each"
            else:
                message = f"{name} in {source.shown}"
                remedy = f"it stands in {', '.join(items)}"
            return self._error(node.this, message, remedy, code="unknown_column")
        where = " or ".join(dict.fromkeys(s.shown for s in sources)) or "this SELECT without FROM"
        return self._error(
            node.this,
            f"no column '{node.name[:64]}' in {where}",
            did_you_mean(node.name, names, "columns") + _unknown_name_remedy(node),
            code="unknown_column",
        )
