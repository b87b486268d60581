"""Tables get exactly the columns that the check of a statement has promised."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_MOMENT = pa.timestamp("us")
_PLAIN = frozenset((pa.int64(), pa.float64(), pa.string(), pa.bool_()))  # as they are


def conformed(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Exactly `columns`: one that the table does not have is null, also in its type; times are
    naive UTC."""
    if table.column_names == list(columns) and _PLAIN.issuperset(table.schema.types):
        return table
    arrays = []
    for name in columns:
        index = table.schema.get_field_index(name)
        arrays.append(_plain(table.column(index)) if index >= 0 else pa.nulls(len(table)))
    return pa.table(arrays, names=list(columns))


def typed(table: pa.Table, like: pa.Table | None) -> pa.Table:
    """The same rows, where a column of no type has that of its namesake in `like`."""
    for at, field in enumerate(table.schema):
        if pa.types.is_null(field.type) and like is not None:
            place = like.schema.get_field_index(field.name)
            kind = like.schema.field(place).type if place >= 0 else field.type
            table = table.set_column(at, field.name, pa.nulls(len(table), kind))
    return table


def has_untyped(table: pa.Table) -> bool:
    """Whether a column's type is not known from its rows."""
    return any(pa.types.is_null(field.type) for field in table.schema)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_null(kind.value_type):
        return column.cast(pa.null())
    if pa.types.is_timestamp(kind) and kind != _MOMENT:
        return pc.cast(column, _MOMENT, safe=False)
    return column
