"""Columns of key values: from any of Arrow's spellings to one array each, and to hashes.

A key column is text, an integer, a boolean, a date or a timestamp (microseconds, UTC); null is a
value of its own. These are the key columns of the vector matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrow import decoded, floored, is_text, one_array, value_type
from muntin.errors import BadArgument
from muntin.summaries.items import hash_items

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


def canonical(name: str, array: pa.Array, kind: str | None) -> pa.Array:
    """The column in its kind's one type."""
    array = decoded(array)
    if kind is None:
        return array
    target = TYPES[kind]
    try:
        if pa.types.is_timestamp(array.type) and array.type.tz is None:
            array = array.cast(pa.timestamp(array.type.unit, "UTC"))
        if pa.types.is_date64(array.type):
            array = floored(array, _DAY_MS).cast(pa.int32())
        elif pa.types.is_timestamp(array.type) and array.type.unit == "ns":
            array = floored(array, 1_000)
        array = array.cast(target)
        if kind == "string":
            array.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"key column {name!r} cannot be a key: {problem}") from None
    return array


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
