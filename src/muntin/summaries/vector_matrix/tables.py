"""The rows of a key as an Arrow table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.summaries.vector_matrix.indicators import Indicator, Layout
from muntin.summaries.vector_matrix.key_values import KeyValues
from muntin.summaries.vector_matrix.names import COUNT, Key
from muntin.summaries.vector_matrix.rows import KeyRows

ARROW_TYPES = {
    None: pa.null(),
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "date32": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_STRING_BYTES_MAX = (1 << 31) - 1


def as_table(key: Key, rows: KeyRows, indicators: Sequence[Indicator], layout: Layout) -> pa.Table:
    """Key columns, count, indicators; numbers without copying."""
    columns = [_part(part) for part in rows.parts]
    columns.append(_numbers(pa.int64(), rows.cells[0], None))
    for at, (indicator, cell) in enumerate(zip(indicators, layout.cells, strict=True)):
        kind = pa.float64() if indicator.type == "float64" else pa.int64()
        valid = None
        if rows.valid is not None and not rows.valid[:, at].all():
            valid = np.packbits(rows.valid[:, at], bitorder="little")
        columns.append(_numbers(kind, rows.cells[cell], valid))
    names = [*key, COUNT, *(indicator.name for indicator in indicators)]
    return pa.Table.from_arrays(columns, names)


def _numbers(kind: pa.DataType, values: np.ndarray, bits: np.ndarray | None) -> pa.Array:
    validity = pa.py_buffer(bits) if bits is not None else None
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])


def _part(part: KeyValues) -> pa.Array:
    bits = pa.py_buffer(part.bits) if len(part.bits) else None
    if part.kind is None:
        return pa.nulls(part.length)
    if part.kind == "string":
        large = len(part.data) > _STRING_BYTES_MAX
        offsets = part.offsets if large else part.offsets.astype(np.int32)
        return pa.Array.from_buffers(
            pa.large_string() if large else pa.string(),
            part.length,
            [bits, pa.py_buffer(offsets), pa.py_buffer(part.data)],
        )
    numbers = part.numbers
    if part.kind == "bool":
        numbers = np.packbits(numbers != 0, bitorder="little")
    elif part.kind == "date32":
        numbers = numbers.astype(np.int32)
    return pa.Array.from_buffers(
        ARROW_TYPES[part.kind], part.length, [bits, pa.py_buffer(np.ascontiguousarray(numbers))]
    )
