"""A key column's distinct values, of one type for ever, and the numbers that stand for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from muntin.arrow import NO_BITS, fixed_width, used_values, validity
from muntin.errors import BadArgument
from muntin.summaries import key_columns
from muntin.summaries.indexes import IntegerIndex, TextIndex
from muntin.summaries.items import text_buffers
from muntin.summaries.key_columns import TYPES, KeyKind

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
        array = array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array
        return KeyValues(kind, len(array), *validity(array), *text_buffers(array))
    array = key_columns.canonical(name, array, kind)
    bits, bit_offset = validity(array)
    if kind == "bool":
        array = array.cast(pa.uint8())
    numbers = fixed_width(array, _DTYPES.get(kind, np.int64)).astype(np.int64, copy=False)
    return KeyValues(kind, len(array), bits, bit_offset, numbers=numbers)


def _coded(name: str, array: pa.DictionaryArray) -> KeyValues:
    size = len(array)
    if len(array.dictionary) > size:  # a large dictionary of which a small batch uses little
        return key_values(name, array.dictionary_decode())
    numbers, values = used_values(array)
    inner = key_values(name, values)
    return KeyValues(inner.kind, size, NO_BITS, codes=numbers, values=inner)


_NULL = np.zeros(1, np.uint8)  # a bitmap that says: null


class KeyColumn:
    """Value <-> number. The type is that of the first values that have one."""

    __slots__ = ("index", "kind", "name", "null_only")

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: KeyKind | None = None
        self.index: TextIndex | IntegerIndex | None = None
        self.null_only = False
        """No type yet, and null has been seen: its number is 0."""

    def __len__(self) -> int:
        return len(self.index) if self.index is not None else int(self.null_only)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes if self.index is not None else 0

    def _become(self, kind: KeyKind) -> TextIndex | IntegerIndex:
        self.kind = kind
        self.index = index = TextIndex() if kind == "string" else IntegerIndex()
        if self.null_only:  # null keeps the number that it has
            index.state[:] = 1, 0
            self.null_only = False
        return index

    def number(self, values: KeyValues, out: np.ndarray) -> np.ndarray:
        """Numbers (int32) of values; unknown ones are appended.

        Raises
        ------
        BadArgument
            A string that is not UTF-8, which is numbered nevertheless.
        """
        if values.codes is not None and values.values is not None:
            inner = values.values
            of_code = self.number(inner, np.empty(inner.length, np.int32))
            null = self._null() if (values.codes < 0).any() else -1
            out[:] = np.append(of_code, np.int32(null))[values.codes]
            return out
        if values.kind is None:
            out[:] = self._null() if len(out) else -1
            return out
        index = self.index if self.index is not None else self._become(values.kind)
        bits, bit_offset = values.bits, values.bit_offset
        if isinstance(index, IntegerIndex):
            return index.number(values.numbers, bits, bit_offset, out)
        before = len(index)
        index.number(values.data, values.offsets, bits, bit_offset, out)
        if len(index) > before:
            self._refuse_broken_text(index, before)
        return out

    def _null(self) -> int:
        index, out = self.index, np.empty(1, np.int32)
        if index is None:
            self.null_only = True
            return 0
        if isinstance(index, TextIndex):
            return int(index.number(NO_BITS, np.zeros(2, np.int32), _NULL, 0, out)[0])
        return int(index.number(np.zeros(1, np.int64), _NULL, 0, out)[0])

    def _refuse_broken_text(self, index: TextIndex, before: int) -> None:
        """What goes in must come out of bytes again: Arrow strings are UTF-8."""
        if not (index.arena[index.starts[before] : index.starts[len(index)]] & 0x80).any():
            return
        try:
            self.values()[before:].validate(full=True)
        except pa.ArrowInvalid as problem:
            raise BadArgument(
                f"key column {self.name!r} holds a string that is not UTF-8 ({problem}); "
                "decode the column before it is summarised"
            ) from None

    def values(self) -> pa.Array:
        """Every value in the order of its number, as keys of a segment have them."""
        used, index = len(self), self.index
        if index is None or self.kind is None:
            return pa.nulls(used)
        if isinstance(index, TextIndex):
            return index.values(TYPES[self.kind])
        null = int(index.state[1])
        mask = np.arange(used) == null if null >= 0 else None
        numbers = pa.array(index.known[:used], mask=mask)
        narrow = numbers.cast(pa.int32()) if self.kind == "date32" else numbers
        return narrow.cast(TYPES[self.kind])
