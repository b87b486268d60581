"""The allow-list: what a syntax tree may hold. Everything that is not named here is refused.

It is a list of node types and, for each, of the parts it may have: a new version of the parser
that learns a new clause finds it refused here.

Functions are all DuckDB's. Left out on purpose: whatever reads or reports about the machine (files,
environment, settings), whatever makes rows or long strings out of nothing (generate_series, unnest,
repeat, lpad, replace, string_agg, format), random numbers, and lists and structures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from muntin.errors import SelectError, did_you_mean
from muntin.select.functions import TABLE_FUNCTIONS
from muntin.select.limits import ASK_LESS, Limits
from muntin.select.places import NOWHERE, Span, problem_at, span_of
from muntin.select.syntax import MARK, Statement, VectorItem, item_number

_QUERIES = exp.Select, exp.SetOperation, exp.Subquery


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES = words(
    """
    sum avg min max count median mode quantile quantile_cont quantile_disc stddev stddev_pop
    stddev_samp variance var_pop var_samp skewness kurtosis entropy first last any_value arg_min
    arg_max min_by max_by bool_and bool_or count_if corr covar_pop covar_samp regr_slope
    regr_intercept regr_r2 fsum
    """
)
NOT_OVER = {
    "entropy": "SELECT entropy(x) FROM ... GROUP BY ...",
    "fsum": "write sum(x) OVER",
    "mode": "SELECT mode(x) FROM ... GROUP BY ...",
}
"""Aggregates that DuckDB works out from all rows of each frame, without looking whether it is to
stop (a minute for 60,000 rows), and what to write instead."""
WINDOW_FUNCTIONS = words(
    """
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value
    nth_value
    """
)
NUMBERS = words(
    """
    abs round floor ceil ceiling trunc sign ln log log2 log10 exp sqrt cbrt power pow greatest least
    isnan isfinite isinf pi sin cos tan asin acos atan atan2 radians degrees
    """
)
TEXT = words(
    """
    lower upper length strlen substr substring left right trim ltrim rtrim concat starts_with
    ends_with contains strpos instr split_part reverse regexp_matches regexp_full_match
    regexp_extract
    """
)
TIME = words(
    """
    now date_trunc date_part date_diff datediff strftime time_bucket epoch epoch_ms epoch_us year
    quarter month week day dayofweek isodow dayofyear hour minute second dayname monthname
    make_date make_timestamp to_timestamp last_day
    """
)
CHOICE = frozenset(("coalesce", "nullif", "ifnull", "if"))

FUNCTIONS = AGGREGATES | WINDOW_FUNCTIONS | NUMBERS | TEXT | TIME | CHOICE

_OTHER_NAMES = {
    **dict.fromkeys(
        ("array_agg", "group_concat", "list", "listagg", "string_agg"),
        "rows are not put together in one value: ask for the rows",
    ),
    "approx_count_distinct": "write count(DISTINCT x)",
    "percentile_cont": "write quantile_cont(x, 0.5)",
    "percentile_disc": "write quantile_disc(x, 0.5)",
    "position": "write strpos(text, part)",
    "row": "write (a, b)",
    "to_char": "write strftime(x, '%Y-%m-%d')",
}
"""What others call it, or what to do without it."""
CONSTANTS = {
    **dict.fromkeys(("regexp_matches", "regexp_full_match", "regexp_extract", "strftime"), 1),
    **dict.fromkeys(("date_trunc", "date_part", "date_diff", "datediff"), 0),
}
"""Functions whose argument (counted from 0) must be a constant: a pattern is compiled once, and
what is no unit would be an error of the first row that has it."""


# sqlglot notes with / how the dialect divides; DuckDB's own way is what we render.
_PARTS: dict[type, frozenset[str]] = {
    kind: words(parts)
    for parts, kinds in {
        "": (exp.Star, exp.Null, exp.CurrentTimestamp, exp.CurrentDate),
        "this": (
            exp.From, exp.TableAlias, exp.Where, exp.Having, exp.Qualify, exp.Boolean, exp.Paren,
            exp.Neg, exp.Not, exp.Exists, exp.DataTypeParam, exp.Var,
        ),
        "expression": (exp.Limit, exp.Offset),
        "expressions": (exp.With, exp.Order, exp.Distinct, exp.Tuple),
        "this expression": (
            exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.EQ, exp.NEQ, exp.GT, exp.GTE,
            exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.Is, exp.Filter,
        ),
        "this expression typed safe": (exp.Div,),
        "this expression safe": (exp.DPipe,),
        "this expression negate": (exp.Like, exp.ILike),
        "with_ expressions distinct from_ joins where group having qualify order limit offset": (
            exp.Select,
        ),
        "with_ this expression distinct by_name order limit offset": (
            exp.Union, exp.Except, exp.Intersect,
        ),
        "this alias materialized": (exp.CTE,),
        "this alias with_ order limit offset": (exp.Subquery,),
        "this alias": (exp.Table, exp.Alias),
        "this on using side kind": (exp.Join,),
        "expressions all": (exp.Group,),
        "this desc nulls_first": (exp.Ordered,),
        "this table": (exp.Column,),
        "this quoted": (exp.Identifier,),
        "this is_string": (exp.Literal,),
        "this ifs default": (exp.Case,),
        "this true": (exp.If,),
        "this low high": (exp.Between,),
        "this expressions query": (exp.In,),
        "this to": (exp.Cast,),
        "this to safe requires_string": (exp.TryCast,),
        "this expressions nested": (exp.DataType,),
        "this unit": (exp.Interval,),
        "this expressions": (exp.Anonymous,),
        "this partition_by order spec over": (exp.Window,),
        "kind start start_side end end_side": (exp.WindowSpec,),
    }.items()
    for kind in kinds
}  # fmt: skip
_TYPES = words(
    "BOOLEAN TINYINT SMALLINT INT BIGINT INT128 UTINYINT USMALLINT UINT UBIGINT FLOAT DOUBLE "
    "DECIMAL TEXT VARCHAR DATE TIME TIMESTAMP TIMESTAMPNTZ INTERVAL"
)
_TYPES_SHOWN = (
    "there are BOOLEAN, the integers, FLOAT, DOUBLE, DECIMAL, VARCHAR, DATE, TIME, TIMESTAMP (UTC) "
    "and INTERVAL"
)
_SIZED = frozenset(("DECIMAL", "TEXT", "VARCHAR", "TIMESTAMP"))
_JOINS = frozenset(("", "INNER", "CROSS", "SEMI", "ANTI", "LEFT SEMI", "LEFT ANTI"))
_JOINS |= {f"{side}{outer}" for side in ("LEFT", "RIGHT", "FULL") for outer in ("", " OUTER")}
_UNITS = frozenset(
    f"{unit}{ending}"
    for unit in words("MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR")
    for ending in ("", "S")
)
_NUMBER = re.compile(r"\d{1,60}(\.\d{0,60})?([eE][+-]?\d{1,3})?\Z", re.ASCII)
_DIGITS_MAX = 38
_PAIRS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_LISTS = ("expressions", "ifs", "partition_by")
_CHAIN = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe, exp.And, exp.Or, exp.SetOperation)
_FRAME_WORDS = frozenset(("UNBOUNDED", "CURRENT ROW", "PRECEDING", "FOLLOWING", "ROWS", "RANGE"))
_INSTEAD: dict[type | str, tuple[str, str]] = {
    exp.All: ("ALL (...)", "compare with the largest or the smallest: (SELECT max(x) FROM ...)"),
    exp.Any: ("ANY (...)", "write x IN (SELECT ...)"),
    exp.AtTimeZone: ("AT TIME ZONE", "times are UTC: add or take off an INTERVAL"),
    exp.Collate: ("COLLATE", "texts are compared by their bytes: lower(x) takes all cases for one"),
    exp.Concat: ("a text behind a text", "join them by ||"),
    exp.Distinct: ("DISTINCT ON", "QUALIFY row_number() OVER (PARTITION BY x ORDER BY y) = 1"),
    exp.Fetch: ("PERCENT or WITH TIES", "QUALIFY rank() OVER (ORDER BY x) <= 3"),
    exp.Glob: ("GLOB", "write LIKE, whose signs are % and _"),
    exp.GroupingSets: ("GROUPING SETS", "write a SELECT for each, with UNION ALL between them"),
    exp.In: ("IN without brackets", "write x IN (1, 2), or x IN (SELECT ...)"),
    exp.JSONExtract: ("->", "there are no lists and structures in SELECT here"),
    exp.Order: ("ORDER BY in this place", "the first is arg_min(x, y), the last arg_max"),
    exp.Rollup: ("ROLLUP", "write a SELECT for each, with UNION ALL between them"),
    exp.SimilarTo: ("SIMILAR TO", "write regexp_full_match(x, '...')"),
    exp.WithinGroup: ("WITHIN GROUP", "write quantile_cont(x, 0.5)"),
    "into": ("SELECT ... INTO", "a SELECT only reads"),
    "hint": ("a hint", ""),
    "laterals": ("LATERAL", "name what it works out in a WITH query"),
    "sample": ("a sample", "LIMIT takes some of the rows"),
    "pivots": ("PIVOT", "write sum(x) FILTER (WHERE y = 'a') for each column"),
    "locks": ("FOR UPDATE", "a SELECT only reads"),
    "recursive": ("WITH RECURSIVE", ""),
    "columns": ("a list of column names after an alias", "name each with AS where it is made"),
    "windows": ("a WINDOW clause", "write it in each OVER (...)"),
    "except_": ("* EXCLUDE", "name the columns"),
    "replace": ("* REPLACE", "name the columns"),
    "method": ("this kind of join", "write JOIN ... ON"),
    "exclude": ("EXCLUDE in a window frame", "write one that ends before the row"),
    "limit_options": ("LIMIT of a share of the rows", "write a number"),
    "db": ("a name of three parts", "write <alias>.<column>"),
}
"""What is refused by its type, or by a part that it has, as it is written; and what to write."""


def check_tree(statement: Statement, limits: Limits) -> None:
    """Refuse whatever is not on the list, and what is too large.

    Raises
    ------
    SelectError
        Codes "not_allowed", "unknown_function", "limit".
    """
    tree = statement.tree
    if not isinstance(tree, _QUERIES):
        raise _refused(statement, tree, "this")
    count = 0
    stack: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if not isinstance(node, exp.Identifier):
            count += 1
        if count > limits.nodes:
            raise _too_large(statement, node, f"has more than {limits.nodes} parts")
        if depth > limits.depth:
            raise _too_large(statement, node, f"nests deeper than {limits.depth} levels")
        _check_node(statement, node, limits)
        for part, child in _children(node):
            # A chain a + b + c is one level, however long: it is written without brackets.
            chained = part == "this" and isinstance(child, _CHAIN) and isinstance(node, _CHAIN)
            flat = isinstance(child, exp.Identifier) or chained
            stack.append((child, depth if flat else depth + 1))


def _children(node: exp.Expr) -> list[tuple[str, exp.Expr]]:
    return [
        (part, child)
        for part, value in node.args.items()
        for child in (value if isinstance(value, list) else (value,))
        if isinstance(child, exp.Expr)
    ]


def _check_node(statement: Statement, node: exp.Expr, limits: Limits) -> None:
    parts = _PARTS.get(type(node))
    if parts is None:
        raise _refused(statement, node, *_INSTEAD.get(type(node), (_described(node),)))
    for part, value in node.args.items():
        if value in (None, False, []) or part in parts:
            continue
        place = value if isinstance(value, exp.Expr) else node
        if isinstance(value, list) and value and isinstance(value[0], exp.Expr):
            place = value[0]
        known = _INSTEAD.get(type(node)) or _INSTEAD.get(part)
        raise _refused(statement, place, *(known or (f"{part.strip('_')} in this place",)))
    for part in _LISTS:
        items = node.args.get(part) or []
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
        remedy = _OTHER_NAMES.get(name.lower(), remedy)
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
    if name not in _TYPES or node.args.get("nested"):
        remedy = "write INTERVAL, and AS before a name" if "INTERVAL" in name else _TYPES_SHOWN
        raise _refused(statement, node, f"the type {name}", remedy)
    for parameter in node.expressions:
        if name not in _SIZED or not isinstance(parameter, exp.DataTypeParam):
            raise _refused(statement, node, f"a size of {name}")


def _check_join(statement: Statement, node: exp.Join) -> None:
    _check_from(statement, node)
    kind = f"{node.side} {node.kind}".strip()
    if kind not in _JOINS:
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
        remedy = "write HAVING after GROUP BY, or ask the rows of a query in WITH"
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
    if not isinstance(unit, exp.Var) or unit.name.upper() not in _UNITS:
        raise _refused(statement, node, f"the unit {unit.name}".rstrip())


def _check_frame(statement: Statement, node: exp.WindowSpec) -> None:
    for value in node.args.values():
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
        error = _refused(statement, node, f"{name}(...) OVER")
        raise error.replaced(remedy=NOT_OVER[name])


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
