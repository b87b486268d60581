"""Items, as users give them, to 64-bit hashes: the first step of every sketch over items."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import buffer_numbers, decoded, floored, is_text, one_array
from muntin.errors import BadArgument
from muntin.summaries.kernels.hashing import hash_integers, hash_strings

_DAY_MS = 86_400_000


ITEM_TYPES = {
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
}
"""Of the items that a summary keeps."""


def item_kind(kind: pa.DataType) -> str:
    """The name in ITEM_TYPES of what `as_items` gives."""
    if kind in (pa.int64(), pa.uint64()):
        return str(kind)
    return "string" if is_text(kind) else "binary"


def as_items(items: Any) -> pa.Array:
    """One Arrow array of strings, binary or 64-bit integers, without nulls. `items`: strings (also
    large, view and dictionary-encoded), binary, integers, booleans, dates (which become days since
    1970), timestamps, times of day or durations (microseconds, in whatever unit they come). All of
    one type. Raises BadArgument: null items, or a type that is none of these."""
    return _plain(given_items(items))


def given_items(items: Any) -> pa.Array:
    """Items as `as_items` takes them, as one array of their own type; no dictionary."""
    if isinstance(items, str | bytes | bytearray | int | np.integer):
        items = [items]
    if isinstance(items, Mapping):
        raise BadArgument(
            f"items are a {type(items).__name__}: give its keys as a list, counts as weights"
        )
    if len(shape := getattr(items, "shape", (0,))) > 1:
        raise BadArgument(f"items have shape {tuple(shape)}: give one column")
    if isinstance(items, np.ndarray) and items.dtype.kind == "T":  # NumPy's own strings
        items = items.tolist()
    if isinstance(items, np.ndarray):  # Arrow takes neither numbers of other machines nor 0-d
        items = np.atleast_1d(items).astype(items.dtype.newbyteorder("="), copy=False)
    items = one_array(items, "items must be strings, bytes or integers")
    items = decoded(items)  # before nulls are counted: its dictionary may hold them
    if items.null_count:
        at = items.is_null().index(True).as_py()
        more = "" if items.null_count == 1 else f", of {items.null_count} that are"
        raise BadArgument(f"item at position {at} is null{more}: drop nulls, or give them a name")
    return items


def _plain(items: pa.Array) -> pa.Array:
    kind = items.type
    if pa.types.is_fixed_size_binary(kind):
        return items.cast(pa.large_binary())
    if is_text(kind, or_binary=True) or kind in (pa.int64(), pa.uint64()):
        return items
    if pa.types.is_unsigned_integer(kind):
        return items.cast(pa.uint64())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return items.cast(pa.int64())
    if pa.types.is_date32(kind):
        return items.view(pa.int32()).cast(pa.int64())
    if pa.types.is_date64(kind):
        return floored(items, _DAY_MS)
    if pa.types.is_temporal(kind) and kind != pa.month_day_nano_interval():
        return micros(items)
    if pa.types.is_null(kind):  # an empty list
        return items.cast(pa.int64())
    raise BadArgument(f"items of type {kind} cannot be hashed: use strings, bytes or integers")


def micros(items: pa.Array) -> pa.Array:
    """The same instant is the same item in every unit."""
    kind: Any = items.type
    if kind.unit == "us":
        return items.view(pa.int64())
    if kind.unit == "ns":
        return floored(items, 1_000)
    try:
        if pa.types.is_timestamp(kind):
            return items.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
        wide = pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")
        return items.cast(wide).view(pa.int64())
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"{kind} beyond 64 bits of microseconds: {problem}") from None


def hash_items(items: Any, seed: int = 0) -> np.ndarray:
    """XXH64 of each item: uint64[n]. Takes what `as_items` takes, and refuses what it refuses.

    An integer beyond int64 is another item than the negative one of the same bits: its seed is
    the complement.
    """
    if isinstance(items, pa.DictionaryArray) and _worth_hashing_once(items):
        codes = items.indices.to_numpy(zero_copy_only=False)
        return hash_items(items.dictionary, seed)[codes]
    array = as_items(items)
    out = np.empty(len(array), np.uint64)
    if not is_text(array.type, or_binary=True):
        numbers = integers(array)
        hash_integers(numbers, np.uint64(seed), out)
        if array.type == pa.uint64() and (beyond := np.flatnonzero(numbers < 0)).size:
            hashed = np.empty(len(beyond), np.uint64)
            hash_integers(numbers[beyond], ~np.uint64(seed), hashed)
            out[beyond] = hashed
        return out
    data, offsets = text_buffers(array)
    hash_strings(data, offsets, np.uint64(seed), out)
    return out


def _worth_hashing_once(items: pa.DictionaryArray) -> bool:
    return len(items.dictionary) <= len(items) and not (
        items.null_count or items.dictionary.null_count
    )


def text_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Bytes (uint8) and offsets (int32 or int64, n + 1) of a string or binary array, no copy."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        zeros = np.zeros((len(array) + 1) * (8 if wide else 4), np.uint8)
        return buffer_numbers(None, np.uint8), buffer_numbers(zeros, np.int64 if wide else np.int32)
    numbers = buffer_numbers(offsets, np.int64 if wide else np.int32)
    return buffer_numbers(data, np.uint8), numbers[array.offset : array.offset + len(array) + 1]


def item_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """`text_buffers` of texts; of integers their numbers alone: what kernels take of items."""
    if is_text(array.type, or_binary=True):
        return text_buffers(array)
    return integers(array), None


def refuse_broken_text(array: pa.Array) -> None:
    """BadArgument where a string is not UTF-8: it could be neither shown nor read back."""
    data, offsets = text_buffers(array)
    if not len(array) or data[offsets[0] : offsets[-1]].max(initial=0) < 0x80:
        return  # ASCII, as nearly always: ten times faster to see than to validate
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"items are not UTF-8 ({problem}): give them as binary") from None


def integers(array: pa.Array) -> np.ndarray:
    """Bits of an int64 or uint64 array as int64[n], no copy."""
    return buffer_numbers(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)]
