"""A key column of a batch, from any of Arrow's spellings to what the indexes take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrow import NO_BITS, buffer_numbers, fixed_width, validity
from muntin.errors import BadArgument

KeyKind = Literal["string", "int64", "bool", "date32", "timestamp"]
_INT64_MAX = (1 << 63) - 1
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY_MS = 86_400_000
_NO_OFFSETS = np.zeros(1, np.int32)
_NO_NUMBERS = np.empty(0, np.int64)


@dataclass(slots=True)
class KeyValues:
    """Values of one key column: strings (data, offsets), integers (numbers), or codes of others."""

    kind: KeyKind | None
    """None: all null, of no type."""
    length: int
    bits: np.ndarray
    """Validity bitmap, or empty where nothing is null."""
    bit_offset: int = 0
    data: np.ndarray = field(default_factory=lambda: NO_BITS)
    offsets: np.ndarray = field(default_factory=lambda: _NO_OFFSETS)
    numbers: np.ndarray = field(default_factory=lambda: _NO_NUMBERS)
    codes: np.ndarray | None = None
    """int64[length] into `values`; -1 is null."""
    values: KeyValues | None = None


def key_values(name: str, array: pa.Array) -> KeyValues:
    """Read a key column.

    Raises
    ------
    BadArgument
        A type that cannot be a key, or a value beyond int64.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _coded(name, array)
    if pa.types.is_null(kind):
        return KeyValues(None, len(array), NO_BITS)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _strings(array)
    if pa.types.is_string_view(kind):
        return _strings(array.cast(pa.large_string()))
    numbers_kind, numbers = _numbers(name, array)
    bits, bit_offset = validity(array)
    return KeyValues(numbers_kind, len(array), bits, bit_offset, numbers=numbers)


def _strings(array: pa.Array) -> KeyValues:
    size = len(array)
    if size == 0:
        return KeyValues("string", 0, NO_BITS)
    wide = pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    dtype = np.int64 if wide else np.int32
    numbers = buffer_numbers(offsets, dtype, size + 1, array.offset * np.dtype(dtype).itemsize)
    characters = buffer_numbers(data, np.uint8) if data is not None and data.size else NO_BITS
    bits, bit_offset = validity(array)
    return KeyValues("string", size, bits, bit_offset, characters, numbers)


def _coded(name: str, array: pa.DictionaryArray) -> KeyValues:
    size = len(array)
    values = array.dictionary
    if len(values) > size:  # a large dictionary of which a small batch uses little
        return key_values(name, array.dictionary_decode())
    codes = array.indices
    if codes.null_count:
        codes = pc.fill_null(codes.cast(pa.int64()), -1)
    numbers = np.asarray(codes).astype(np.int64)
    used = np.zeros(len(values) + 1, bool)
    used[numbers] = True  # -1, null, marks the extra place at the end
    if not used[:-1].all():
        values = values.take(pa.array(np.flatnonzero(used[:-1])))
        renumbered = np.cumsum(used[:-1]) - 1
        numbers = np.where(numbers < 0, -1, np.append(renumbered, -1)[numbers])
    inner = key_values(name, values)
    return KeyValues(inner.kind, size, NO_BITS, codes=numbers, values=inner)


def _numbers(name: str, array: pa.Array) -> tuple[KeyKind, np.ndarray]:
    kind = array.type
    if pa.types.is_boolean(kind):
        return "bool", fixed_width(array.cast(pa.uint8()), np.uint8).astype(np.int64)
    if pa.types.is_integer(kind):
        numbers = fixed_width(array, kind.to_pandas_dtype())
        if pa.types.is_uint64(kind):
            filled = fixed_width(pc.fill_null(array, 0), np.uint64)
            if len(filled) and int(filled.max()) > _INT64_MAX:
                raise BadArgument(
                    f"key column {name!r}: {filled.max()} is beyond int64; "
                    "cast the column to string"
                )
            return "int64", numbers.view(np.int64)
        return "int64", numbers if numbers.dtype == np.int64 else numbers.astype(np.int64)
    if pa.types.is_date32(kind):
        return "date32", fixed_width(array, np.int32).astype(np.int64)
    if pa.types.is_date64(kind):
        return "date32", fixed_width(array, np.int64) // _DAY_MS
    if pa.types.is_timestamp(kind):
        return "timestamp", _microseconds(name, array)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        raise BadArgument(
            f"key column {name!r} is {kind}: such numbers are no names; "
            "round the column to an integer, or cast it to string"
        )
    raise BadArgument(
        f"key column {name!r} is {kind}: a key can be a string, integer, boolean, date or timestamp"
    )


def _microseconds(name: str, array: pa.Array) -> np.ndarray:
    unit = array.type.unit
    numbers = fixed_width(array, np.int64)
    if unit == "us":
        return numbers
    if unit == "ns":
        return numbers // 1000
    factor = _MICROSECONDS[unit]
    if array.null_count:
        numbers = fixed_width(pc.fill_null(array.view(pa.int64()), 0), np.int64)
    limit = _INT64_MAX // factor
    if len(numbers) and (numbers.max() > limit or numbers.min() < -limit):
        raise BadArgument(f"key column {name!r}: a time is beyond the year 292,000 in microseconds")
    return numbers * factor
