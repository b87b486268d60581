"""Columns of key values: from any of Arrow's spellings to one array each, to hashes, to bytes.

A key column is text, an integer, a boolean, a date or a timestamp (microseconds, UTC); null is a
value of its own. These are the key columns of the vector matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrow import decoded, floored, is_text, value_type
from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.items import hash_items
from muntin.summaries.reading import Body, exact_sum

KeyKind = Literal["string", "int64", "bool", "date32", "timestamp"]
TYPES: dict[str, pa.DataType] = {
    "string": pa.large_string(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
NULL_HASH = np.uint64(0xD6E8FEB86659FD93)  # any constant that no short item hashes to
FOLD = np.uint64(0x9E3779B185EBCA87)
_DAY_MS = 86_400_000


def column_of(name: str, values: Any) -> pa.Array:
    """One Arrow array, dictionaries kept, of what the caller gave."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks)
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as problem:
        raise BadArgument(f"key column {name!r} is no column: {problem}") from None


def kind_of(name: str, array: pa.Array) -> KeyKind | None:
    """The kind of a key column, a name of TYPES; None where all are null, of no type."""
    kind = value_type(array.type)
    if is_text(kind):
        return "string"
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_date(kind):
        return "date32"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_null(kind):
        return None
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


def hashes_of(name: str, array: pa.Array, seed: int) -> np.ndarray:
    """Hash of each value, nulls included: uint64[n]."""
    if isinstance(array, pa.DictionaryArray) and len(array.dictionary) <= len(array):
        inner = np.append(hashes_of(name, array.dictionary, seed), NULL_HASH)
        codes = pc.fill_null(array.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return inner[codes]  # -1, null, is the last
    kind = kind_of(name, array)
    if kind is None:
        return np.full(len(array), NULL_HASH)
    array = decoded(array) if kind == "string" else canonical(name, array, kind)
    if not array.null_count:
        return hash_items(array, seed)
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    hashes = np.full(len(array), NULL_HASH)
    hashes[~nulls] = hash_items(array.drop_null(), seed)
    return hashes


def refuse_broken_text(name: str, array: pa.Array) -> None:
    """BadArgument where a string is not UTF-8: it could be neither shown nor read back."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"key column {name!r} is not UTF-8: {problem}") from None


def fold(hashes: Sequence[np.ndarray]) -> np.ndarray:
    """One hash for each combination, of the hashes of its columns in order."""
    folded = hashes[0]
    for more in hashes[1:]:
        folded = folded * FOLD + more  # wraps, as is meant
    return folded


def encode(columns: Sequence[pa.Array]) -> bytes:
    """Bytes of key columns: of each, what is null, then numbers, or lengths and all texts."""
    pieces = []
    for column in columns:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        pieces.append(valid.astype(np.uint8).tobytes())
        if pa.types.is_null(column.type):
            continue
        if pa.types.is_large_string(column.type):
            lengths = pc.fill_null(pc.call_function("binary_length", [column]), 0)
            pieces.append(lengths.to_numpy(zero_copy_only=False).astype("<i8").tobytes())
            pieces += [text.encode() for text in column.to_pylist() if text]
        else:
            pieces.append(_numbers(column).astype("<i8").tobytes())
    return b"".join(pieces)


def decode(owner: str, body: Body, kinds: Sequence[str | None], size: int) -> list[pa.Array]:
    """Key columns as `encode` wrote them; CorruptSummary."""
    return [_decode_column(owner, body, kind, size) for kind in kinds]


def _decode_column(owner: str, body: Body, kind: str | None, size: int) -> pa.Array:
    flags = body.array("u1", size)
    if size and flags.max() > 1:
        raise CorruptSummary(f"{owner}: a key is neither null nor not")
    nulls = flags == 0
    if kind is None:
        if not nulls.all():
            raise CorruptSummary(f"{owner}: a key without a type is not null")
        return pa.nulls(size)
    numbers = body.array("<i8", size)
    if numbers[nulls].any():
        raise CorruptSummary(f"{owner}: a null key has a value")
    mask = pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())
    if kind == "string":
        if size and (int(numbers.min()) < 0 or int(numbers.max()) > body.left):
            raise CorruptSummary(f"{owner}: the length of a key is impossible")
        texts = body.array("u1", exact_sum(numbers)).tobytes()
        offsets = np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)
        buffers = [mask, pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts)]
        array = pa.Array.from_buffers(TYPES[kind], size, buffers)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise CorruptSummary(f"{owner}: a key is not UTF-8") from None
        return array
    low, high = {"bool": (0, 1), "date32": (-(2**31), 2**31 - 1)}.get(kind, (-(2**63), 2**63 - 1))
    if size and (int(numbers.min()) < low or int(numbers.max()) > high):
        raise CorruptSummary(f"{owner}: a key is outside its type")
    plain = pa.array(numbers, mask=nulls)
    if kind == "date32":
        return plain.cast(pa.int32()).cast(TYPES[kind])
    return plain.cast(TYPES[kind])


def _numbers(column: pa.Array) -> np.ndarray:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)


def columns_in(batch: Any, names: Sequence[str]) -> list[pa.Array]:
    """The named columns of a record batch, table or mapping; or arrays in the names' order."""
    if isinstance(batch, pa.RecordBatch | pa.Table):
        there = batch.schema.names
    elif isinstance(batch, Mapping):
        there = list(batch)
    else:
        if len(names) == 1 and not (
            isinstance(batch, list | tuple) and batch and isinstance(batch[0], pa.Array)
        ):
            batch = [batch]
        if len(batch) != len(names):
            raise BadArgument(f"{len(batch)} key columns for {', '.join(names)}")
        found = [column_of(name, batch[i]) for i, name in enumerate(names)]
        return _of_one_length(found)
    missing = [name for name in names if there.count(name) != 1]
    if missing:
        raise BadArgument(
            f"column {missing[0]!r} is missing, or there more than once; "
            f"columns are {', '.join(there)!r:.500}"
        )
    return _of_one_length([column_of(name, batch[name]) for name in names])


def _of_one_length(columns: list[pa.Array]) -> list[pa.Array]:
    if len({len(column) for column in columns}) > 1:
        raise BadArgument(f"key columns differ in length: {[len(column) for column in columns]}")
    return columns
