"""Whether a syntax tree holds only what is allowed; an error names the first that is not."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from muntin.errors import SelectError, did_you_mean
from muntin.select.allowed import (
    AGGREGATES,
    CONSTANTS,
    FUNCTIONS,
    INSTEAD,
    JOINS,
    NOT_OVER,
    OTHER_NAMES,
    PARTS,
    SIZED,
    TYPES,
    TYPES_SHOWN,
    UNITS,
    WINDOW_FUNCTIONS,
)
from muntin.select.functions import TABLE_FUNCTIONS
from muntin.select.limits import ASK_LESS, Limits
from muntin.select.places import NOWHERE, Span, problem_at, span_of
from muntin.select.syntax import MARK, Statement, VectorItem, item_number

_QUERIES = exp.Select, exp.SetOperation, exp.Subquery
_NUMBER = re.compile(r"\d{1,60}(\.\d{0,60})?([eE][+-]?\d{1,3})?\Z", re.ASCII)
_DIGITS_MAX = 38
_PAIRS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_LISTS = ("expressions", "ifs", "partition_by")
_AROUND = (exp.Neg, exp.Paren, exp.Cast)  # a constant
_CHAIN = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe, exp.And, exp.Or, exp.SetOperation)
_FRAME_WORDS = frozenset(("UNBOUNDED", "CURRENT ROW", "PRECEDING", "FOLLOWING", "ROWS", "RANGE"))


def check_tree(statement: Statement, limits: Limits) -> None:
    """Refuse whatever is not on the list, and what is too large. Raises SelectError: codes
    "not_allowed", "unknown_function", "limit"."""
    tree = statement.tree
    if not isinstance(tree, _QUERIES):
        raise _refused(statement, tree, "this")
    count = 0
    stack: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if not isinstance(node, exp.Identifier) and not _in_list(node):
            count += 1
        if count > limits.nodes:
            raise _too_large(statement, node, f"has more than {limits.nodes} parts")
        if depth > limits.depth:
            raise _too_large(statement, node, f"nests deeper than {limits.depth} levels")
        _check_node(statement, node, limits)
        for child in node.iter_expressions():
            # A chain a + b + c is one level, however long: it is written without brackets.
            both = isinstance(child, _CHAIN) and isinstance(node, _CHAIN)
            chained = both and child.arg_key == "this"
            flat = isinstance(child, exp.Identifier) or chained
            stack.append((child, depth if flat else depth + 1))


def _in_list(node: exp.Expr) -> bool:
    """Whether it is a constant of IN's list, or a part of one."""
    while not (isinstance(node.parent, exp.In) and node.arg_key == "expressions"):
        if not isinstance(node.parent, (*_AROUND, exp.DataType)):
            return False
        node = node.parent
    while isinstance(node, _AROUND):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Null, exp.Boolean))


def _check_node(statement: Statement, node: exp.Expr, limits: Limits) -> None:
    parts = PARTS.get(type(node))
    if parts is None:
        raise _refused(statement, node, *INSTEAD.get(type(node), (_described(node),)))
    for part, value in node.args.items():
        if value in (None, False, []) or part in parts:
            continue
        place = value if isinstance(value, exp.Expr) else node
        if isinstance(value, list) and value and isinstance(value[0], exp.Expr):
            place = value[0]
        known = INSTEAD.get(type(node)) or INSTEAD.get(part)
        raise _refused(statement, place, *(known or (f"{part.strip('_')} in this place",)))
    for part in _LISTS:
        items = [item for item in node.args.get(part) or [] if not _in_list(item)]
        if len(items) > limits.list_items:
            raise _too_large(
                statement, items[limits.list_items], f"lists more than {limits.list_items} things"
            )
    check = _SPECIAL.get(type(node))
    if check is not None:
        check(statement, node)
    fits, what = _PLACES.get(type(node), (None, ""))
    if fits is not None and not fits(node):
        raise _refused(statement, node, what)


def _check_function(statement: Statement, node: exp.Anonymous) -> None:
    name = node.args["this"]
    if not isinstance(name, str):
        raise _refused(statement, node, "a quoted function name")
    if name.lower() not in FUNCTIONS:
        place = Span(node.meta.get("start", 0), len(name))
        remedy = did_you_mean(name, sorted(FUNCTIONS), "functions")
        remedy = OTHER_NAMES.get(name.lower(), remedy)
        if name.lower() in ("current_timestamp", "current_date"):
            remedy = f"it is written without brackets: {name.lower()}"
        elif name.lower() in TABLE_FUNCTIONS:
            remedy = f"it stands in FROM, as {TABLE_FUNCTIONS[name.lower()].usage}"
        message = f"no function '{name[:64]}'"
        raise problem_at(statement.text, place, message, remedy, "unknown_function")
    position = CONSTANTS.get(name.lower())
    arguments = node.expressions
    pattern = None if position is None else arguments[position : position + 1]
    if pattern and not isinstance(pattern[0], exp.Literal):
        raise _refused(statement, pattern[0], "a pattern, format or unit that is not a constant")
    for argument in arguments:
        if isinstance(argument, (exp.Alias, exp.Subquery, exp.Select)):
            if isinstance(argument, exp.Subquery) and not argument.alias:
                continue
            raise _refused(statement, argument, _described(argument))


def _check_type(statement: Statement, node: exp.DataType) -> None:
    kind = node.this
    name = kind.value if hasattr(kind, "value") else str(kind)
    named = node.args.get("kind")  # of another database: money, tid
    if named or name not in TYPES or node.args.get("nested"):
        name = str(getattr(named, "name", named))[:64] if named else name
        remedy = "write INTERVAL, and AS before a name" if "INTERVAL" in name else TYPES_SHOWN
        raise _refused(statement, node, f"the type {name}", remedy)
    for parameter in node.expressions:
        if name not in SIZED or not isinstance(parameter, exp.DataTypeParam):
            raise _refused(statement, node, f"a size of {name.removesuffix('NTZ')}", "leave it out")


def _check_join(statement: Statement, node: exp.Join) -> None:
    _check_from(statement, node)
    kind = f"{node.side} {node.kind}".strip()
    if kind not in JOINS:
        raise _refused(statement, node, f"{kind} JOIN")
    if kind == "CROSS" and (node.args.get("on") or node.args.get("using")):
        raise _refused(statement, node, "CROSS JOIN with ON or USING", "leave out CROSS")
    for name in node.args.get("using") or []:
        if not isinstance(name, exp.Identifier):
            raise _refused(statement, node, "this in USING")


def _check_select(statement: Statement, node: exp.Select) -> None:
    if not node.expressions:
        place = Span(_place(node).start, 0)
        remedy = "SELECT * FROM ... for all of them"
        raise problem_at(statement.text, place, "SELECT names no columns", remedy)
    if node.args.get("joins") and not node.args.get("from_"):
        raise _refused(statement, node.args["joins"][0], "a join without FROM")


def _check_where(statement: Statement, node: exp.Where) -> None:
    """DuckDB says this only when the statement runs, and not where."""
    for call in calls_of_many(node):
        name = str(call.this)
        place = Span(call.meta.get("start", 0), len(name))
        over_rows = isinstance(call.parent, exp.Window)
        word = "QUALIFY" if over_rows else "HAVING after GROUP BY"
        remedy = f"write {word}, or ask the rows of a query in WITH"
        message = f"WHERE looks at each row for itself, {name.lower()}(...) at many"
        raise problem_at(statement.text, place, message, remedy, "group_by")


def calls_of_many(node: exp.Expr) -> Iterator[exp.Anonymous]:
    """Functions of many rows in an expression, but not in its subqueries."""
    query = node.find_ancestor(exp.Select)
    for call in node.find_all(exp.Anonymous):
        of_many = str(call.this).lower() in AGGREGATES | WINDOW_FUNCTIONS
        if of_many and call.find_ancestor(exp.Select) is query:
            yield call


def _check_queries(statement: Statement, node: exp.SetOperation | exp.CTE) -> None:
    for query in (node.this, *([] if isinstance(node, exp.CTE) else [node.expression])):
        if not isinstance(query, _QUERIES):
            raise _refused(statement, query, "anything but SELECT in WITH and UNION")


def _check_table(statement: Statement, node: exp.Table) -> None:
    """Tables are FROM items that we read; sqlglot finds tables in more places than SQL has."""
    if item_number(node) is None:
        raise _refused(statement, node, "a table in this place")
    item = statement.items[item_number(node) or 0]
    alias = node.args.get("alias")
    if isinstance(item, VectorItem) and alias is not None:
        raise problem_at(
            statement.text,
            Span(_place(alias).start, len(node.alias)),
            f"vectors have no alias: the rows of key {item.key} are called X{item.key}",
            f"or write FROM <summary>(<key>) AS {node.alias}",
        )


def _check_from(statement: Statement, node: exp.From | exp.Join) -> None:
    if not isinstance(node.this, (exp.Table, exp.Subquery)):
        raise _refused(statement, node.this, "a query without brackets in FROM")


def _check_literal(statement: Statement, node: exp.Literal) -> None:
    """Numbers are rendered as they were written, so they have to be numbers."""
    if not node.is_string and not _NUMBER.match(node.name):
        raise _refused(statement, node, f"the number {node.name[:40]}")
    if not node.is_string and node.name.isdigit() and len(node.name.lstrip("0")) > _DIGITS_MAX:
        message = f"an integer has at most {_DIGITS_MAX} digits"
        remedy = f"write a float, e.g. {float(node.name):.6g}"
        raise problem_at(statement.text, _place(node), message, remedy, "limit")


def _check_pair(statement: Statement, node: exp.Binary) -> None:
    """DuckDB refuses a = b = c without its place."""
    for side in (node.this, node.expression):
        if isinstance(side, _PAIRS):
            remedy = "join them by AND, or write brackets around one"
            message = "a comparison is not compared again"
            raise problem_at(statement.text, _place(side), message, remedy)


def _check_number_of_rows(statement: Statement, node: exp.Limit | exp.Offset) -> None:
    value = node.expression
    if not (isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()):
        what = "anything but a whole number in LIMIT and OFFSET"
        raise _refused(statement, value, what, "for all rows leave it out")


def _check_like(statement: Statement, node: exp.Expr) -> None:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise _refused(statement, pattern, "a pattern that is not a constant string")


def _check_interval(statement: Statement, node: exp.Interval) -> None:
    unit = node.args.get("unit")
    if not isinstance(node.this, exp.Literal):
        raise _refused(statement, node, "an interval that is not a constant")
    if unit is None:
        return
    if node.this.name.partition(".")[2].strip("0 "):
        remedy = f"write INTERVAL '{node.this.name} {unit.name.lower()}'"
        message = f"{node.this.name} would be cut to a whole number"
        raise problem_at(statement.text, _place(node), message, remedy, "value")
    if not isinstance(unit, exp.Var) or unit.name.upper() not in UNITS:
        raise _refused(statement, node, f"the unit {unit.name}".rstrip())


def _check_frame(statement: Statement, node: exp.WindowSpec) -> None:
    for value in node.args.values():
        if isinstance(value, exp.Literal) and node.args["kind"] == "ROWS" and not value.is_int:
            raise _refused(statement, node, f"a window frame of {value.name} rows")
        if isinstance(value, str) and value.upper() not in _FRAME_WORDS:
            raise _refused(statement, node, f"the window frame {value}")
        if isinstance(value, exp.Expr) and not isinstance(value, (exp.Literal, exp.Interval)):
            raise _refused(statement, node, "a window frame that is not a constant")


def _check_window(statement: Statement, node: exp.Window) -> None:
    inner = node.this
    while isinstance(inner, exp.Filter):
        inner = inner.this
    if not isinstance(inner, exp.Anonymous):
        raise _refused(statement, node, "OVER after anything but a function")
    name = str(inner.this).lower()
    if name in NOT_OVER:
        raise _refused(statement, node, f"{name}(...) OVER").replaced(remedy=NOT_OVER[name])


def _check_var(statement: Statement, node: exp.Var) -> None:
    if not isinstance(node.parent, exp.Interval):
        raise _refused(statement, node, f"{node.name[:40]!r} in this place")


def _check_alias(statement: Statement, node: exp.Alias) -> None:
    if not isinstance(node.parent, exp.Select) or node.arg_key != "expressions":
        raise _refused(statement, node, "AS in this place")
    if not isinstance(node.args.get("alias"), exp.Identifier):
        raise _refused(statement, node, "this alias")


_SPECIAL: dict[type, Any] = {
    exp.Anonymous: _check_function,
    exp.DataType: _check_type,
    exp.From: _check_from,
    exp.Literal: _check_literal,
    exp.Join: _check_join,
    exp.Table: _check_table,
    exp.Select: _check_select,
    exp.Where: _check_where,
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect, exp.CTE), _check_queries),
    exp.Limit: _check_number_of_rows,
    exp.Offset: _check_number_of_rows,
    **dict.fromkeys(_PAIRS, _check_pair),
    exp.Like: _check_like,
    exp.ILike: _check_like,
    exp.Interval: _check_interval,
    exp.WindowSpec: _check_frame,
    exp.Window: _check_window,
    exp.Var: _check_var,
    exp.Alias: _check_alias,
}


def _star_fits(node: exp.Star) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Anonymous):
        return str(parent.this).lower() == "count" and len(parent.expressions) == 1
    qualified = isinstance(parent, exp.Column) and isinstance(parent.parent, exp.Select)
    return qualified or isinstance(parent, exp.Select)


_PLACES: dict[type, tuple[Callable[[Any], bool], str]] = {
    exp.Tuple: (lambda node: len(node.expressions) > 1, "a list of one in this place"),
    exp.Identifier: (  # one that the parser took for something else
        lambda node: not node.name.startswith(MARK) or isinstance(node.parent, exp.Table),
        "a FROM item in this place",
    ),
    exp.Column: (
        lambda node: isinstance(node.this, (exp.Identifier, exp.Star)),
        "this kind of name",
    ),
    exp.Star: (_star_fits, "* in this place"),
}
"""Where a node may stand, and what is refused elsewhere."""


def _described(node: exp.Expr) -> str:
    name = type(node).__name__
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    return f"'{words}'"


def _refused(statement: Statement, node: exp.Expr, what: str, remedy: str = "") -> SelectError:
    message = f"{what} is not available in SELECT here"
    return problem_at(statement.text, _place(node), message, remedy, "not_allowed")


def _too_large(statement: Statement, node: exp.Expr, how: str) -> SelectError:
    place = Span(_place(node).start, 0)
    return problem_at(statement.text, place, f"the statement {how}", ASK_LESS, "limit")


def _place(node: exp.Expr | None) -> Span:
    """The node's place, or that of the closest node around it that has one."""
    while node is not None:
        span = span_of(node)
        if span is not None:
            return span
        node = node.parent
    return NOWHERE
