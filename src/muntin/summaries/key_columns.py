"""Columns of key values: from any of Arrow's spellings to one array each, and to hashes.

A key column is text, an integer, a boolean, a date or a timestamp (microseconds, UTC); null is a
value of its own. These are the key columns of the vector matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrow import (
    NO_BITS,
    decoded,
    fixed_width,
    floored,
    is_text,
    one_array,
    unviewed,
    used_values,
    validity,
    value_type,
)
from muntin.errors import BadArgument
from muntin.summaries.indexes import IntegerIndex, TextIndex
from muntin.summaries.items import hash_items, text_buffers

KeyKind = Literal["string", "int64", "bool", "date32", "timestamp"]
TYPES: dict[str, pa.DataType] = {
    "string": pa.large_string(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_FITS: dict[KeyKind, Callable[[pa.DataType], bool]] = {
    "string": is_text,
    "int64": pa.types.is_integer,
    "bool": pa.types.is_boolean,
    "date32": pa.types.is_date,
    "timestamp": pa.types.is_timestamp,
}
NULL_HASH = np.uint64(0xD6E8FEB86659FD93)  # any constant that no short item hashes to
FOLD = np.uint64(0x9E3779B185EBCA87)
_DTYPES = {"bool": np.uint8, "date32": np.int32}  # others: int64
_NO_OFFSETS = np.zeros(1, np.int32)
_NO_NUMBERS = np.empty(0, np.int64)
_NULL = np.zeros(1, np.uint8)  # a bitmap that says: null
_DAY_MS = 86_400_000


def can_be_key(kind: pa.DataType) -> bool:
    """Whether a column of this type, or a dictionary of such values, can be a key."""
    kind = value_type(kind)
    return pa.types.is_null(kind) or any(fits(kind) for fits in _FITS.values())


def column_of(name: str, values: Any) -> pa.Array:
    """One Arrow array, dictionaries kept, of what the caller gave."""
    return one_array(values, f"key column {name!r} is no column")


def kind_of(name: str, array: pa.Array) -> KeyKind | None:
    """The kind of a key column, a name of TYPES; None where all are null, of no type."""
    kind = value_type(array.type)
    found: KeyKind | None = next((name for name, fits in _FITS.items() if fits(kind)), None)
    if found or pa.types.is_null(kind):
        return found
    raise BadArgument(
        f"key column {name!r} is {kind}: a key can be a string, integer, boolean, date or "
        "timestamp; round numbers to integers, or cast the column to string"
    )


def canonical(name: str, array: pa.Array, kind: str) -> pa.Array:
    """A column that is not of text in its kind's one type."""
    array = decoded(array)
    try:
        if pa.types.is_timestamp(array.type) and array.type.tz is None:
            array = array.cast(pa.timestamp(array.type.unit, "UTC"))
        if pa.types.is_date64(array.type):
            array = floored(array, _DAY_MS).cast(pa.int32())
        elif pa.types.is_timestamp(array.type) and array.type.unit == "ns":
            array = floored(array, 1_000)
        return array.cast(TYPES[kind])
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"key column {name!r} cannot be a key: {problem}") from None


def hashes_of(array: pa.Array) -> np.ndarray:
    """Hash of each value of a column as `canonical` makes it, nulls included: uint64[n]."""
    if isinstance(array, pa.DictionaryArray) and len(array.dictionary) <= len(array):
        inner = np.append(hashes_of(array.dictionary), NULL_HASH)
        codes = pc.fill_null(array.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return inner[codes]  # -1, null, is the last
    array = decoded(array)
    if not array.null_count:
        return hash_items(array)
    hashes = np.full(len(array), NULL_HASH)
    there = array.is_valid().to_numpy(zero_copy_only=False)
    hashes[there] = hash_items(array.drop_null())
    return hashes


def fold(hashes: Sequence[np.ndarray]) -> np.ndarray:
    """One hash for each combination, of the hashes of its columns in order."""
    folded = hashes[0]
    for more in hashes[1:]:
        folded = folded * FOLD + more  # wraps, as is meant
    return folded


def columns_in(batch: Any, names: Sequence[str]) -> list[pa.Array]:
    """The named columns of a record batch, table or mapping; or arrays in the names' order."""
    if isinstance(batch, pa.RecordBatch | pa.Table | Mapping):
        there = batch.schema.names if not isinstance(batch, Mapping) else list(batch)
        missing = [name for name in names if there.count(name) != 1]
        if missing:
            raise BadArgument(
                f"column {missing[0]!r} is missing, or there more than once; "
                f"columns are {', '.join(there)!r:.500}"
            )
        batch = [batch[name] for name in names]
    elif len(names) == 1 and not (
        isinstance(batch, list | tuple) and batch and isinstance(batch[0], pa.Array)
    ):
        batch = [batch]
    if not isinstance(batch, Sequence) or isinstance(batch, str | bytes):
        raise BadArgument(
            f"{', '.join(names)}: got a {type(batch).__name__}, give a list of columns"
        )
    if len(batch) != len(names):
        raise BadArgument(f"{len(batch)} key columns for {', '.join(names)}")
    columns = [column_of(name, column) for name, column in zip(names, batch, strict=True)]
    if len({len(column) for column in columns}) > 1:
        raise BadArgument(f"key columns differ in length: {[len(column) for column in columns]}")
    return columns


@dataclass(slots=True)
class KeyValues:
    """Values of one key column: strings (data, offsets), integers (numbers), or codes of others."""

    kind: KeyKind | None  # None: all null, of no type
    length: int
    bits: np.ndarray  # validity bitmap, or empty where nothing is null
    bit_offset: int = 0
    data: np.ndarray = field(default_factory=lambda: NO_BITS)
    offsets: np.ndarray = field(default_factory=lambda: _NO_OFFSETS)
    numbers: np.ndarray = field(default_factory=lambda: _NO_NUMBERS)
    codes: np.ndarray | None = None  # int64[length] into `values`; -1 is null
    values: KeyValues | None = None


def key_values(name: str, array: pa.Array) -> KeyValues:
    """Read a key column. Raises BadArgument: a type that cannot be a key, or a value beyond
    int64."""
    array = unviewed(array)
    if isinstance(array, pa.DictionaryArray):
        return _coded(name, array)
    kind = kind_of(name, array)
    if kind is None:
        return KeyValues(None, len(array), NO_BITS)
    if kind == "string":
        return KeyValues(kind, len(array), *validity(array), *text_buffers(array))
    array = canonical(name, array, kind)
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


class KeyColumn:
    """Value <-> number. The type is that of the first values that have one."""

    __slots__ = ("index", "kind", "name", "null_only")

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: KeyKind | None = None
        self.index: TextIndex | IntegerIndex | None = None
        self.null_only = False  # no type yet, and null has been seen: its number is 0

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
        """Numbers (int32) of values; unknown ones are appended. Raises BadArgument: a string that
        is not UTF-8, which is numbered nevertheless."""
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
