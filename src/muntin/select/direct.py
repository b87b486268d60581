"""Statements that only name columns of one FROM item: its rows are the answer, without DuckDB.

`SELECT q, value FROM quantiles(...)` is what is asked most, of a table of a few rows; to hand that
to DuckDB and back takes longer than to make it.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from muntin.select.bind import Bound
from muntin.select.limits import Limits
from muntin.select.narrowing import Narrowing, chosen

_CLAUSES = frozenset(("expressions", "from_"))
_OF_ROWS = frozenset(("where", "order", "limit", "offset"))
# Types that come back from DuckDB as they went in.
_SAME = frozenset((pa.int64(), pa.float64(), pa.string(), pa.bool_()))


def projected(
    tree: exp.Expr, items: tuple[Bound | None, ...], narrowing: Narrowing | None
) -> tuple[str, ...] | None:
    """Which columns of its FROM item a resolved statement lists; None if it does more than that.

    A column that is listed twice needs a new name, which is left to DuckDB.
    """
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

    Parameters
    ----------
    table : pyarrow.Table
        Of the FROM item.
    sources, columns : tuple of str
        What is read, and how it is called in the result.
    narrowing : Narrowing, optional
        Which rows, and in which order.
    """
    if len({name.lower() for name in columns}) < len(columns):
        return None
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
