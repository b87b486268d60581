"""A key column of a batch, from any of Arrow's spellings to what the indexes take."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from muntin.arrow import NO_BITS, buffer_numbers, fixed_width, used_values, validity
from muntin.summaries import key_columns
from muntin.summaries.key_columns import KeyKind

_DTYPES = {"bool": np.uint8, "date32": np.int32}  # others: int64
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
    if isinstance(array, pa.DictionaryArray):
        return _coded(name, array)
    kind = key_columns.kind_of(name, array)
    if kind is None:
        return KeyValues(None, len(array), NO_BITS)
    if kind == "string":
        is_view = pa.types.is_string_view(array.type)
        return _strings(array.cast(pa.large_string()) if is_view else array)
    array = key_columns.canonical(name, array, kind)
    bits, bit_offset = validity(array)
    if kind == "bool":
        array = array.cast(pa.uint8())
    numbers = fixed_width(array, _DTYPES.get(kind, np.int64)).astype(np.int64, copy=False)
    return KeyValues(kind, len(array), bits, bit_offset, numbers=numbers)


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
    if len(array.dictionary) > size:  # a large dictionary of which a small batch uses little
        return key_values(name, array.dictionary_decode())
    numbers, values = used_values(array)
    inner = key_values(name, values)
    return KeyValues(inner.kind, size, NO_BITS, codes=numbers, values=inner)
