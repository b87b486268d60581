"""Fewer rows for DuckDB: those that a statement's conditions and its LIMIT leave.

Over hundreds of thousands of keys DuckDB takes milliseconds to find one key, or the ten largest.
Conditions on whole numbers or on equal texts are applied here in one pass; the same statement then
runs over the rows that are left, which need only include the answer's.

A statement that only lists columns of one FROM item, as `SELECT q, value FROM quantiles(...)`, is
asked most, and is answered by that item's rows, without DuckDB. The sums of one that only adds up a
whole key, as the paper's (12), `SELECT sum Y2 / sum Y1 FROM ...`, are made once for each state of
the ledger and kept like any table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from sqlglot import exp

from muntin.arrow import is_text, pc
from muntin.select.bind import Bound
from muntin.select.limits import Limits
from muntin.select.values import MOMENT, floats, plain_table

TABLE_ROWS_MIN = 16_384  # of fewer, DuckDB is as fast
TOP_ROWS_MAX = 1_000
SORTED_ROWS_MAX = 10_000  # here; DuckDB sorts more
BLOCKS_EACH = 16  # for each row that is wanted: the rest of the column is looked at once
_DIGITS_MAX = 18  # within int64
_ALWAYS = frozenset(("expressions", "from_", "where"))
_GROUPED = _ALWAYS | {"group", "having", "order", "limit", "offset", "distinct"}
_ORDERED = _ALWAYS | {"order", "limit", "offset"}
_PLAIN = (
    exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Paren, exp.Neg,
    exp.Add, exp.Sub, exp.Mul, exp.Div,
)  # fmt: skip
TURNED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}
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
    constant: str  # as the statement has it, without a minus; "" of a text
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


_ALL_ROWS = Narrowing((), complete=True)


def narrowing_of(tree: exp.Expr, items: tuple[Bound | None, ...]) -> Narrowing | None:
    """What a resolved statement lets be left out; None for nothing."""
    known = _one_item(tree, items, _GROUPED)
    if known is None or sum(1 for _ in tree.find_all(exp.Select)) != 1:
        return None
    tree, item = known
    columns = _meanings(tree, item.columns)
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
    if narrowing == _ALL_ROWS:
        return table
    keep = _kept(table, narrowing)
    if keep is None or not narrowing.complete:
        return None
    found = _first(table, narrowing, keep)
    if found is None:
        found = np.flatnonzero(keep)
    end = None if narrowing.limit is None else narrowing.offset + narrowing.limit
    if not narrowing.order:
        return table.take(pa.array(found[narrowing.offset : end]))
    # Arrow orders what has no nulls and no NaN as DuckDB does, and texts by their bytes
    alike = (pa.int64(), pa.string(), pa.large_string(), MOMENT)
    columns = [table.column(name) for name, _ in narrowing.order]
    if len(found) > SORTED_ROWS_MAX or any(c.null_count or c.type not in alike for c in columns):
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
            if not is_text(column.type):
                return None
            keep &= pc.equal(column, condition.value).fill_null(False).to_numpy()
            continue
        values = _whole_numbers(table, condition.column)
        if values is None:
            return None
        keep &= condition.operator(values, np.int64(condition.value))
    return keep


def _first(table: pa.Table, narrowing: Narrowing, keep: np.ndarray) -> np.ndarray | None:
    """The rows that can be among the first; None where there is no telling in one pass."""
    most = 0 if narrowing.limit is None else narrowing.limit + narrowing.offset
    if not narrowing.order or not 1 <= most <= TOP_ROWS_MAX or table.num_rows < TABLE_ROWS_MIN:
        return None
    name, descending = narrowing.order[0]
    order = _whole_numbers(table, name)
    if order is None:
        return None
    # of int64, ~x turns the order around without a number that is beyond it
    order = order if descending else ~order
    if keep.all():
        return largest(order, most)
    kept = np.flatnonzero(keep)
    return kept[largest(order[kept], most)]


def largest(values: np.ndarray, most: int) -> np.ndarray:
    """Where the `most` largest of int64[n] are, and those that are equal to the last; ascending."""
    if len(values) <= most:
        return np.arange(len(values))
    # the largest of some blocks are among the values: it cannot be below theirs
    blocks = np.arange(0, len(values), max(1, len(values) // (BLOCKS_EACH * most)))
    found = np.flatnonzero(values >= _nth_largest(np.maximum.reduceat(values, blocks), most))
    return found[values[found] >= _nth_largest(values[found], most)]


def _nth_largest(values: np.ndarray, rank: int) -> np.int64:
    at = len(values) - rank
    return np.partition(values, at)[at]


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


def _one_item(
    tree: exp.Expr, items: tuple[Bound | None, ...], clauses: frozenset[str]
) -> tuple[exp.Select, Bound] | None:
    """A SELECT of one FROM item that has no clause beyond these."""
    if len(items) != 1 or items[0] is None or not isinstance(tree, exp.Select):
        return None
    source = tree.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or _beyond(tree, clauses):
        return None
    return tree, items[0]


def _beyond(tree: exp.Select, clauses: frozenset[str]) -> bool:
    return any(given and name not in clauses for name, given in tree.args.items())


def _condition(part: exp.Expr, columns: Mapping[str, str]) -> Condition | None:
    part = part.unnest()
    kind = type(part)
    if kind not in _OPERATORS:
        return None
    column, constant = part.this, part.expression
    if isinstance(constant, exp.Column):
        column, constant, kind = constant, column, TURNED[kind]
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


_LISTED = frozenset(("expressions", "from_"))
_SUM_NODES = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Alias, exp.Limit,
    exp.Column, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Anonymous,
)  # fmt: skip
# Types that come back from DuckDB as they went in.
_SAME = frozenset((pa.int64(), pa.float64(), pa.string(), pa.bool_(), MOMENT))


def projected(
    tree: exp.Expr, items: tuple[Bound | None, ...], narrowing: Narrowing | None
) -> tuple[str, ...] | None:
    """Which columns of its FROM item a resolved statement lists; None if it does more than that."""
    complete = narrowing is not None and narrowing.complete
    known = _one_item(tree, items, _ORDERED if complete else _LISTED)
    if known is None:
        return None
    tree, item = known
    found: list[str] = []
    for projection in tree.expressions:
        column = projection.this if isinstance(projection, exp.Alias) else projection
        if column.is_star:
            found += item.columns
        elif isinstance(column, exp.Column) and column.name in item.columns:
            found.append(column.name)
        else:
            return None
    return tuple(found)


def answered(
    table: pa.Table,
    sources: tuple[str, ...],
    columns: tuple[str, ...],
    narrowing: Narrowing | None,
    limits: Limits,
) -> pa.Table | None:
    """The listed columns under their names; None where DuckDB has to do it.

    `table`: of the FROM item.
    `sources`, `columns`: what is read, and how it is called in the result.
    `narrowing`: which rows, and in which order.
    """
    rows = table if narrowing is None else chosen(table, narrowing)
    if rows is None:
        return None
    table = rows
    if table.num_rows > limits.result_rows or table.nbytes > limits.result_bytes:
        return None
    arrays = [floats(_as_text(table.column(name))) for name in sources]
    if any(array.type not in _SAME for array in arrays):
        return None
    return plain_table(pa.Table.from_arrays(arrays, names=list(columns)), columns)


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Keys are stored as long strings, or as a dictionary of them: as what DuckDB returns."""
    kind = column.type
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_large_string(values) or (values != kind and pa.types.is_string(values)):
        return column.cast(pa.string())
    return column


def summed(tree: exp.Expr, items: tuple[Bound | None, ...]) -> tuple[Bound | None, ...]:
    """The FROM items, marked where their sums are all that a resolved statement reads."""
    known = _one_item(tree, items, _LISTED | {"limit"})
    if known is None or known[1].kind != "key" or not _only_sums(*known):
        return items
    if known[1].every is not None:  # it may add up the steps of a column of times
        return items
    item = known[1]
    # a key has no sum, and a table with a column of no type is not kept
    columns = tuple(name for name in item.columns if name not in (item.key or ()))
    return (replace(item, summed=True, columns=columns),)


def _only_sums(tree: exp.Select, item: Bound) -> bool:
    sums = 0
    for node in tree.walk():
        if not isinstance(node, _SUM_NODES) or (isinstance(node, exp.Select) and node is not tree):
            return False
        if isinstance(node, exp.Anonymous):
            sums += 1
            column = node.expressions[0] if len(node.expressions) == 1 else None
            if str(node.this).lower() != "sum" or not isinstance(column, exp.Column):
                return False
        elif isinstance(node, exp.Column):
            number = node.name in item.columns and node.name not in (item.key or ())
            if not number or not isinstance(node.parent, exp.Anonymous):
                return False
    return sums > 0
