"""Fewer rows for DuckDB: those that a statement's conditions and its LIMIT leave.

Over hundreds of thousands of keys DuckDB takes milliseconds to find one key, or the ten largest.
What can be known from columns of whole numbers, or from texts that are equal, is found here in one
pass over them; the same statement then runs over what is left, and decides all the rest. So the
rows that are handed over need only hold the answer's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlglot import exp

from muntin.arrow import pc
from muntin.select.bind import Bound

TABLE_ROWS_MIN = 16_384  # of fewer, DuckDB is as fast
TOP_ROWS_MAX = 1_000
SORTED_ROWS_MAX = 10_000  # here; DuckDB sorts more
_DIGITS_MAX = 18  # within int64
_ALWAYS = frozenset(("expressions", "from_", "where"))
_GROUPED = _ALWAYS | {"group", "having", "order", "limit", "offset", "distinct"}
_ORDERED = _ALWAYS | {"order", "limit", "offset"}
_PLAIN = (
    exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Paren, exp.Neg,
    exp.Add, exp.Sub, exp.Mul, exp.Div,
)  # fmt: skip
_TURNED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}
_OPERATORS = {
    exp.GT: np.greater, exp.GTE: np.greater_equal, exp.LT: np.less, exp.LTE: np.less_equal,
    exp.EQ: np.equal,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator value`: what each row of the answer's fulfils."""

    column: str
    operator: np.ufunc
    value: int | str
    constant: str
    """As the statement has it, without a minus; "" of a text."""
    negative: bool


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is known of the rows that a statement can use.

    `conditions`: of its WHERE, all joined by AND.
    `complete`: conditions, order and limit are all that the statement says of rows, but for a list
      of columns or what is computed of each row by itself.
    `order`: columns, and whether they descend.
    """

    conditions: tuple[Condition, ...]
    complete: bool = False
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int = 0


def narrowing_of(tree: exp.Expr, items: tuple[Bound | None, ...]) -> Narrowing | None:
    """What a resolved statement lets be left out; None for nothing."""
    if len(items) != 1 or items[0] is None or not isinstance(tree, exp.Select):
        return None
    if _beyond(tree, _GROUPED) or sum(1 for _ in tree.find_all(exp.Select)) != 1:
        return None
    source = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(source, exp.Table) or source.args.get("joins") or source.args.get("sample"):
        return None
    columns = _meanings(tree, items[0].columns)
    where = tree.args.get("where")
    parts = [] if where is None else [*where.this.flatten()] if isinstance(
        where.this, exp.And) else [where.this]  # fmt: skip
    found = [_condition(part, columns) for part in parts]
    conditions = tuple(each for each in found if each is not None)
    complete = None
    if len(conditions) == len(parts) and not _beyond(tree, _ORDERED):
        complete = _ordered(tree, conditions, columns)
    return complete or (Narrowing(conditions) if conditions else None)


def narrowed(table: pa.Table, narrowing: Narrowing) -> pa.Table:
    """The rows that the answer needs, or all of them where that is not worth a copy."""
    rows = table.num_rows
    if rows < TABLE_ROWS_MIN:
        return table
    keep = _kept(table, narrowing)
    if keep is None:
        return table
    found = _first(table, narrowing, keep)
    if found is None:
        if not narrowing.conditions:
            return table
        found = np.flatnonzero(keep)
    return table if 2 * len(found) > rows else table.take(pa.array(found))


def chosen(table: pa.Table, narrowing: Narrowing) -> pa.Table | None:
    """The rows of the answer in their order; None where DuckDB has to say which they are."""
    keep = _kept(table, narrowing)
    if keep is None or not narrowing.complete:
        return None
    found = _first(table, narrowing, keep)
    if found is None:
        found = np.flatnonzero(keep)
    end = None if narrowing.limit is None else narrowing.offset + narrowing.limit
    if not narrowing.order:
        return table.take(pa.array(found[narrowing.offset : end]))
    if len(found) > SORTED_ROWS_MAX or not all(
        _is_ordered_alike(table.column(name)) for name, _ in narrowing.order
    ):
        return None
    rows = table.take(pa.array(found))
    keys = [(name, "descending" if down else "ascending") for name, down in narrowing.order]
    return rows.take(pc.sort_indices(rows, sort_keys=keys)[narrowing.offset : end])


def _kept(table: pa.Table, narrowing: Narrowing) -> np.ndarray | None:
    """Of each row, whether it fulfils the conditions; None where that is DuckDB's to say."""
    keep = np.ones(table.num_rows, np.bool_)
    for condition in narrowing.conditions:
        if isinstance(condition.value, str):
            column = table.column(condition.column)
            if not _is_text(column.type):
                return None
            keep &= pc.equal(column, condition.value).fill_null(False).to_numpy()
            continue
        values = _whole_numbers(table, condition.column)
        if values is None:
            return None
        keep &= condition.operator(values, np.int64(condition.value))
    return keep


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _first(table: pa.Table, narrowing: Narrowing, keep: np.ndarray) -> np.ndarray | None:
    """The rows that can be among the first; None where there is no telling in one pass."""
    most = 0 if narrowing.limit is None else narrowing.limit + narrowing.offset
    if not narrowing.order or not 1 <= most <= TOP_ROWS_MAX or table.num_rows < TABLE_ROWS_MIN:
        return None
    name, descending = narrowing.order[0]
    order = _whole_numbers(table, name)
    if order is None:
        return None
    from muntin.select.kernels import top_rows

    # of int64, ~x turns the order around without a number that is beyond it
    return top_rows(order if descending else ~order, keep, most)


def _is_ordered_alike(column: pa.ChunkedArray) -> bool:
    """Whether Arrow orders these values as DuckDB does: no nulls, no NaN, texts by their bytes."""
    return not column.null_count and column.type in (pa.int64(), pa.string(), pa.large_string())


def warm() -> None:
    """Have the kernel loaded, before somebody waits for it."""
    few = pa.table({"a": pa.array(range(TABLE_ROWS_MIN), pa.int64())})
    narrowed(few, Narrowing((), complete=True, order=(("a", True),), limit=1))


def _meanings(tree: exp.Select, known: tuple[str, ...]) -> dict[str, str]:
    """The column that each name means outside of the list of columns; "" for any other thing."""
    meanings = {name: name for name in known}
    given: set[str] = set()
    for alias in tree.expressions:
        if not isinstance(alias, exp.Alias):
            continue
        column = alias.this
        means = column.name if isinstance(column, exp.Column) and column.name in known else ""
        lower = alias.alias.lower()
        for name in [name for name in meanings if name.lower() == lower]:
            meanings[name] = ""  # in another case than it was given, it is left to DuckDB
        meanings[alias.alias] = "" if lower in given else means
        given.add(lower)
    return meanings


def _beyond(tree: exp.Select, clauses: frozenset[str]) -> bool:
    return any(given and name not in clauses for name, given in tree.args.items())


def _condition(part: exp.Expr, columns: Mapping[str, str]) -> Condition | None:
    while isinstance(part, exp.Paren):
        part = part.this
    kind = type(part)
    if kind not in _OPERATORS:
        return None
    column, constant = part.this, part.expression
    if isinstance(constant, exp.Column):
        column, constant, kind = constant, column, _TURNED[kind]
    negative = isinstance(constant, exp.Neg)
    literal = constant.this if negative else constant
    if not isinstance(column, exp.Column) or columns.get(column.name) != column.name:
        return None
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string and kind is exp.EQ and not negative:
        return Condition(column.name, np.equal, literal.name, "", False)
    if literal.is_string or not is_whole(literal.name):
        return None
    value = -int(literal.name) if negative else int(literal.name)
    return Condition(column.name, _OPERATORS[kind], value, literal.name, negative)


def is_whole(text: str) -> bool:
    """Whether a constant is a whole number in its one spelling."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and str(int(text)) == text


def _ordered(
    tree: exp.Select, conditions: tuple[Condition, ...], columns: Mapping[str, str]
) -> Narrowing | None:
    """With order and limit, where they are plain and each row of the answer is one row."""
    if not all(isinstance(node, _PLAIN) for each in tree.expressions for node in each.walk()):
        return None
    ordered = tree.args["order"].expressions if tree.args.get("order") else ()
    order = tuple(
        ("" if each.this.table else columns.get(each.this.name, ""), bool(each.args.get("desc")))
        for each in ordered
        if isinstance(each.this, exp.Column)
    )
    counts: list[int | None] = []
    for clause in ("limit", "offset"):
        given = tree.args.get(clause)
        count = None if given is None else given.expression
        if count is not None and not (
            isinstance(count, exp.Literal) and not count.is_string and is_whole(count.name)
        ):
            return None
        counts.append(None if count is None else int(count.name))
    if len(order) != len(ordered) or not all(name for name, _ in order):
        return None
    return Narrowing(conditions, True, order, counts[0], counts[1] or 0)


def _whole_numbers(table: pa.Table, name: str) -> np.ndarray | None:
    """A column as int64[n]; None where it is another, or has nulls."""
    column = table.column(name)
    if column.type != pa.int64() or column.null_count or column.num_chunks != 1:
        return None
    return column.chunk(0).to_numpy()
