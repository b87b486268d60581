"""Gives every name in a statement its meaning: Xi, Yj, columns, CTEs; refuses unknown ones.

The result is an ordinary SQL tree: Xi and Yj replaced by names, each FROM item under an alias,
each column of the result named after what was written.
"""

from collections.abc import Mapping
from functools import partial

from sqlglot import exp

from muntin.errors import SelectError, did_you_mean, how_many
from muntin.select.bind import Binder, Bound
from muntin.select.catalog import SPAN_COLUMNS
from muntin.select.check import calls_of_many
from muntin.select.columns import (
    Column,
    ColumnResolver,
    FromSource,
    Origin,
    Relation,
    Scope,
    shown_expression,
)
from muntin.select.limits import Limits
from muntin.select.places import problem_at
from muntin.select.syntax import FromItem, SourceItem, Statement, VectorItem, item_number, show_item

Ctes = Mapping[str, Relation]


def resolve(
    statement: Statement, binder: Binder, limits: Limits
) -> tuple[tuple[Bound | None, ...], list[str]]:
    """Look up all names; in the statement's tree they are what they mean, from then on.

    The FROM items in the order of the text, None where one turned out to be a CTE; and the columns.
    Raises SelectError: codes "unknown_name", "unknown_column", "ambiguous", "from_item", "limit".
    """
    resolution = _Resolution(statement, binder, limits)
    relation = resolution.query(statement.tree, {}, None)
    return tuple(resolution.items), [column.name for column in relation.columns]


class _Resolution:
    def __init__(self, statement: Statement, binder: Binder, limits: Limits) -> None:
        self.statement = statement
        self.text = statement.text
        self._error = partial(problem_at, self.text, code="from_item")
        self.binder = binder
        self.limits = limits
        self.items: list[Bound | None] = [None] * len(statement.items)
        self.columns = ColumnResolver(statement, limits)

    def query(self, node: exp.Expr, ctes: Ctes, parent: Scope | None) -> Relation:
        """Resolve a query and all in it; its columns."""
        ctes = self._with(node, ctes, parent)
        if isinstance(node, exp.Subquery):
            relation = self.query(node.this, ctes, parent)
            self._ordering(node, relation, ctes, parent)
            return relation
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, ctes, parent)
        assert isinstance(node, exp.Select)  # noqa: S101 - check_tree lets nothing else through
        return self._select(node, ctes, parent)

    def _with(self, node: exp.Expr, ctes: Ctes, parent: Scope | None) -> Ctes:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        known = dict(ctes)
        own: set[str] = set()
        for cte in clause.expressions:
            name = cte.alias
            if name.lower() in own:
                raise self._error(cte.args["alias"], f"two WITH queries are called '{name}'", "")
            own.add(name.lower())
            known[name.lower()] = self.query(cte.this, known, parent)
        return known

    def _set_operation(self, node: exp.SetOperation, ctes: Ctes, parent: Scope | None) -> Relation:
        left = self.query(node.this, ctes, parent)
        right = self.query(node.expression, ctes, parent)
        if len(left.columns) != len(right.columns) and not node.args.get("by_name"):
            raise self._error(
                node.expression,
                f"the second SELECT has {how_many(len(right.columns), 'column')}, the first "
                f"{len(left.columns)}",
                "both sides need the same columns",
            )
        pairs = zip(left.columns, right.columns, strict=False)
        columns = [Column(a.name, max(a.pieces, b.pieces)) for a, b in pairs]
        columns += left.columns[len(columns) :]
        names = {c.name.lower() for c in columns}
        if node.args.get("by_name"):
            columns += [c for c in right.columns if c.name.lower() not in names]
        relation = self._counted(node, tuple(columns), left.reads + right.reads)
        self._ordering(node, relation, ctes, parent)
        return relation

    def _ordering(
        self, node: exp.Expr, relation: Relation, ctes: Ctes, parent: Scope | None
    ) -> None:
        """ORDER BY after UNION or brackets sees the result's columns only."""
        order = node.args.get("order")
        if order is not None:
            scope = Scope(parent, [FromSource("result", relation)])
            self._expression(order, scope, ctes)
            self._check_positions(node, len(relation.columns))

    def _select(self, node: exp.Select, ctes: Ctes, parent: Scope | None) -> Relation:
        scope = Scope(parent)
        reads = self._sources(node, scope, ctes)
        _join_vectors(self.text, node, scope)
        joins = node.args.get("joins") or []
        used = (name.name.lower() for join in joins for name in join.args.get("using") or ())
        scope.joined |= {name: "" for name in used if scope.with_column(name)}
        given = [e.alias for e in node.expressions if isinstance(e, exp.Alias)]
        scope.given = {name.lower(): 1 for name in given}
        for join in joins:
            on = join.args.get("on")
            if on is not None:
                reads += self._expression(on, scope, ctes)
        scope.sources = [source for source in scope.sources if not source.tested]
        self.columns.expand_keys(node, scope)
        columns: list[Column] = []
        for index, projection in enumerate(node.expressions):
            inner = projection.this if isinstance(projection, exp.Alias) else projection
            stars = self.columns.star(inner, scope)
            if stars is not None:
                columns += stars
                continue
            # A subquery's text is shown as it was written, before names are filled in.
            nested = inner.find(exp.Query) is not None
            written = shown_expression(inner, self.statement) if nested else ""
            reads += self._expression(inner, scope, ctes)
            projection = node.expressions[index]
            inner = projection.this if isinstance(projection, exp.Alias) else projection
            if isinstance(inner, exp.Tuple):
                raise self._error(
                    inner, "several columns cannot be one", "name them one after the other"
                )
            column = Column(
                self._named(node, index, written),
                self.columns.pieces(inner, scope),
                inner.meta.get("origin"),
            )
            if isinstance(projection, exp.Alias):
                scope.given[column.name.lower()] = column.pieces
            columns.append(column)
        for part in ("where", "group", "having", "qualify", "order"):
            clause = node.args.get(part)
            if clause is not None:
                reads += self._expression(clause, scope, ctes)
        self._check_positions(node, len(columns))
        self._check_groups(node, scope)
        return self._counted(node, tuple(columns), reads)

    def _check_positions(self, node: exp.Expr, columns: int) -> None:
        """Of GROUP BY 2, ORDER BY 2."""
        for clause in ("group", "order"):
            listed = node.args.get(clause)
            for each in [] if listed is None else listed.expressions:
                place = each.this if isinstance(each, exp.Ordered) else each
                number = _position(place)
                if number is not None and not 1 <= number <= columns:
                    raise self._error(
                        place,
                        f"{clause.upper()} BY {number}: there is no such column of the result",
                        f"it has {how_many(columns, 'column')}",
                        code="unknown_column",
                    )

    def _check_groups(self, node: exp.Select, scope: Scope) -> None:
        """DuckDB says this only when the statement runs, and not where."""
        named = {each.alias.lower(): each.this for each in node.expressions if each.alias}
        group = node.args.get("group")
        for each in [] if group is None else group.expressions:
            means = each
            if isinstance(each, exp.Column) and not (each.table or scope.with_column(each.name)):
                means = named.get(each.name.lower(), each)
            else:
                means = dict(enumerate(node.expressions, 1)).get(_position(each) or 0, each)
            call = next(calls_of_many(means), None)
            if call is not None:
                raise self._error(
                    each,
                    f"{str(call.this).lower()}(...) is of many rows: GROUP BY takes what each has",
                    "leave it out of GROUP BY, or name it in a WITH query first and group its rows",
                    code="group_by",
                )

    def _named(self, node: exp.Select, index: int, written: str) -> str:
        """The name of a result column; what has none is named after what was written."""
        projection = node.expressions[index]
        if isinstance(projection, exp.Alias):
            return projection.alias
        if isinstance(projection, exp.Column):
            return projection.name
        name = written or shown_expression(projection, self.statement)
        alias = exp.Alias(this=projection.copy(), alias=exp.to_identifier(name, quoted=True))
        node.expressions[index].replace(alias)
        return name

    def _sources(self, node: exp.Select, scope: Scope, ctes: Ctes) -> int:
        clauses = [node.args.get("from_"), *(node.args.get("joins") or [])]
        reads = 0
        for clause in clauses:
            if clause is None:
                continue
            source = self._source(clause.this, scope, ctes)
            source.using = frozenset(name.name.lower() for name in clause.args.get("using") or ())
            source.tested = str(clause.args.get("kind") or "").upper() in ("SEMI", "ANTI")
            if scope.source(source.alias) is not None:
                number = item_number(clause.this)
                remedy = "give one of them another name with AS"
                if number is not None and isinstance(self.statement.items[number], VectorItem):
                    remedy = "a vector has no other name: write FROM <summary>(<key>) AS a"
                message = f"two FROM items are called '{source.alias}'"
                raise self._error(clause.this, message, remedy, code="ambiguous")
            for name in clause.args.get("using") or ():
                other = next(iter(scope.with_column(name.name)), source)
                name.meta["same"] = other.as_column(name.copy()), source.as_column(name.copy())
            scope.sources.append(source)
            reads += source.relation.reads
        return reads

    def _source(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> FromSource:
        alias = node.alias
        if isinstance(node, exp.Subquery):
            relation = self.query(node, ctes, scope.parent)
            return FromSource(alias or f"query {len(scope.sources) + 1}", relation, named=True)
        number = item_number(node)
        if number is None:
            raise self._error(node, "this is not a FROM item", "FROM <summary>(<key>)")
        item = self.statement.items[number]
        relation = None
        if isinstance(item, SourceItem) and item.arguments is None and item.window is None:
            relation = ctes.get(item.name.lower())
        bound = None
        if relation is None:
            bound = self._bind(item, ctes)
            self.items[number] = bound
            columns = (Column(c, origin=Origin(number, c)) for c in bound.columns)
            relation = Relation(tuple(columns), 1)
        elif isinstance(item, SourceItem):
            node.this.replace(exp.to_identifier(item.name, quoted=True))
        default = bound.alias if bound is not None else show_item(item).strip('"')
        if not alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(default, quoted=True)))
        return FromSource(alias or default, relation, bound, named=bool(alias))

    def _bind(self, item: FromItem, ctes: Ctes) -> Bound:
        name = item.name if isinstance(item, SourceItem) else ""
        if name.lower() in ctes:
            what, remedy = "takes no key", f"write {name}"
            if item.window is not None:
                what = "has no window of its own"
                remedy = "put the window clause after the summary in the WITH query"
            raise self._error(item.span, f"'{name}' is a WITH query: it {what}", remedy)
        try:
            return self.binder.bind(item)
        except SelectError as error:
            plain = isinstance(item, SourceItem) and item.arguments is None
            if error.code == "unknown_name" and plain and ctes:
                remedy = did_you_mean(name, [*ctes, *self.binder.summaries], "there are")
                error = error.replaced(remedy=remedy)
            raise error from None

    def _expression(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> int:
        """Resolve all columns in an expression; how many FROM items its subqueries read."""
        reads = 0
        stack: list[exp.Expr] = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, (exp.Subquery, exp.Select, exp.SetOperation)):
                relation = self.query(part, ctes, scope)
                value = not isinstance(part.parent, (exp.In, exp.Exists))
                if value and len(relation.columns) != 1:
                    raise self._error(
                        part,
                        f"a query inside an expression gives one column, not "
                        f"{len(relation.columns)}",
                        "name the one that is meant",
                    )
                part.meta["pieces"] = max((c.pieces for c in relation.columns), default=1)
                reads += relation.reads
            elif isinstance(part, exp.Column):
                self.columns.resolve(part, scope)
            else:
                stack += part.iter_expressions(reverse=True)
        return reads

    def _counted(self, node: exp.Expr, columns: tuple[Column, ...], reads: int) -> Relation:
        if reads > self.limits.reads:
            raise self._error(
                node,
                f"the statement reads more than {self.limits.reads} FROM items",
                "WITH queries count each time they are used",
                code="limit",
            )
        return Relation(columns, reads)


def _position(node: exp.Expr) -> int | None:
    """The number of a column: 2, also in brackets, and also -2, of which there is none."""
    sign = 1
    while isinstance(node, (exp.Paren, exp.Neg)):
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return sign * int(node.name)
    return None


def _join_vectors(text: str, node: exp.Select, scope: Scope) -> None:
    """`FROM vector 3.1, vector 1.1`: rows of key 3 beside the row of key 1 that they belong to, of
    the same step. A null key equals a null key, since null is a key of its own."""
    sources = scope.sources
    for join, source in zip(node.args.get("joins") or [], sources[1:], strict=True):
        plain = not (join.args.get("on") or join.args.get("using") or join.args.get("kind"))
        if not (source.bound and source.bound.vector and plain):
            continue
        before = [s for s in sources[: sources.index(source)] if s.bound and s.bound.vector]
        if not before:
            continue
        conditions, shared = [], set()
        for other in before:
            for name in source.key:
                if name in other.key and name not in shared:
                    shared.add(name)
                    sides = (exp.column(name, s.alias, quoted=True) for s in (source, other))
                    conditions.append(exp.NullSafeEQ(this=next(sides), expression=next(sides)))
                    scope.joined.setdefault(name.lower(), other.alias)
        if not conditions:
            names = " and ".join(s.alias for s in (before[-1], source))
            raise problem_at(
                text,
                join.this,
                f"{names} share no key column, so their rows do not belong together",
                "take vectors of one key, or of keys that share a column",
                "from_item",
            )
        by_steps = [s for s in before if s.bound and s.bound.every and source.bound.every]
        if by_steps:
            sides = (exp.column(SPAN_COLUMNS[0], s.alias, quoted=True) for s in (source, *by_steps))
            conditions.append(exp.EQ(this=next(sides), expression=next(sides)))
            for name in SPAN_COLUMNS:
                scope.joined.setdefault(name, by_steps[0].alias)
        join.set("on", exp.and_(*conditions, copy=False))
        join.set("kind", "INNER")
