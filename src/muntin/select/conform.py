"""Tables get exactly the columns that the check of a statement has promised."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_MOMENT = pa.timestamp("us")
_PLAIN = frozenset((pa.int64(), pa.float64(), pa.string(), pa.bool_()))  # as they are


def conformed(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Exactly `columns`: one that the window did not have reads as null; times are naive UTC."""
    if table.column_names == list(columns) and _PLAIN.issuperset(table.schema.types):
        return table
    arrays = []
    for name in columns:
        index = table.schema.get_field_index(name)
        arrays.append(_plain(table.column(index)) if index >= 0 else pa.nulls(len(table)))
    made = [a.cast(pa.int64()) if pa.types.is_null(a.type) else a for a in arrays]
    return pa.table(made, names=list(columns))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_null(kind.value_type):
        return column.cast(pa.null())
    if pa.types.is_timestamp(kind) and kind != _MOMENT:
        return pc.cast(column, _MOMENT, safe=False)
    return column
