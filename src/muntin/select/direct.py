"""Statements that need no DuckDB, or less of it than they say.

One that only names columns of one FROM item has its rows as the answer: `SELECT q, value FROM
quantiles(...)` is what is asked most, of a table of a few rows; to hand that to DuckDB and back
takes longer than to make it.

One that only adds up a whole key, as the paper's (12), `SELECT sum Y2 / sum Y1 FROM ...`, would
read every row of its key to add up columns whose sums are the same for whoever asks; they are made
once for each state of the ledger and kept like any table.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from muntin.select.bind import Bound
from muntin.select.limits import Limits
from muntin.select.narrowing import Narrowing, chosen

_CLAUSES = frozenset(("expressions", "from_"))
_OF_ROWS = frozenset(("where", "order", "limit", "offset"))
_SUM_NODES = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Alias, exp.Limit,
    exp.Column, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Anonymous,
)  # fmt: skip
_SUM_CLAUSES = frozenset(("expressions", "from_", "limit"))
# Types that come back from DuckDB as they went in.
_SAME = frozenset((pa.int64(), pa.float64(), pa.string(), pa.bool_()))


def projected(
    tree: exp.Expr, items: tuple[Bound | None, ...], narrowing: Narrowing | None
) -> tuple[str, ...] | None:
    """Which columns of its FROM item a resolved statement lists; None if it does more than that."""
    if len(items) != 1 or items[0] is None or not isinstance(tree, exp.Select):
        return None
    known = _CLAUSES | (_OF_ROWS if narrowing is not None and narrowing.complete else set())
    if any(given and name not in known for name, given in tree.args.items()):
        return None
    source = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(source, exp.Table) or source.args.get("joins"):
        return None
    found: list[str] = []
    for projection in tree.expressions:
        column = projection.this if isinstance(projection, exp.Alias) else projection
        if isinstance(column, exp.Star) or (
            isinstance(column, exp.Column) and isinstance(column.this, exp.Star)
        ):
            found += items[0].columns
        elif isinstance(column, exp.Column) and column.name in items[0].columns:
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
    arrays = [_as_text(table.column(name)) for name in sources]
    if any(array.type not in _SAME for array in arrays):
        return None
    return pa.Table.from_arrays(arrays, names=list(columns))


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Keys are stored as long strings, or as a dictionary of them: as what DuckDB returns."""
    kind = column.type
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_large_string(values) or (values != kind and pa.types.is_string(values)):
        return column.cast(pa.string())
    return column


def summed(tree: exp.Expr, items: tuple[Bound | None, ...]) -> tuple[Bound | None, ...]:
    """The FROM items, marked where their sums are all that a resolved statement reads."""
    if len(items) != 1 or items[0] is None or items[0].kind != "key":
        return items
    if not _only_sums(tree, items[0]):
        return items
    # a key has no sum, and a table with a column of no type is not kept
    columns = tuple(name for name in items[0].columns if name not in (items[0].key or ()))
    return (replace(items[0], summed=True, columns=columns),)


def _only_sums(tree: exp.Expr, item: Bound) -> bool:
    if not isinstance(tree, exp.Select):
        return False
    if any(given and name not in _SUM_CLAUSES for name, given in tree.args.items()):
        return False
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
