"""The streams of a segment that hold its keys: texts, numbers, and which of them are null."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import is_sound
from muntin.errors import CorruptSummary
from muntin.segments.columns import frozen, laid_out
from muntin.segments.keys import NO_KEY, TEXT, TYPES, Keys
from muntin.segments.streams import StreamReader, StreamWriter
from muntin.segments.texts import Coded, Texts
from muntin.summaries.items import text_buffers
from muntin.summaries.key_columns import NULL_HASH, decoded, fold, hashes_of, value_type


def write_keys(out: StreamWriter, keys: Keys, texts: dict[str, Coded]) -> int:
    """Whether each key is null, and its number or text; of `texts`, the number in them. Returns the
    bytes of the other texts."""
    nbytes = 0
    for name, column in zip(keys.names, keys.columns, strict=True):
        valid = np.ones(len(column), np.uint8)
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        out.raw(valid)
        if column.type == pa.null():
            continue
        kind = value_type(column.type)
        if kind not in (TEXT, pa.large_binary()):
            out.numbers(_integers(column))
        elif name in texts and kind == TEXT:
            out.numbers(next(texts[name].codes))
        else:
            column = decoded(column)
            empty = "" if kind == TEXT else b""
            nbytes += write_text(out, column.fill_null(empty) if column.null_count else column)
    return nbytes


def write_text(out: StreamWriter, column: pa.Array) -> int:
    """The sizes of texts without null, and their bytes; how many."""
    text, starts = text_buffers(column)
    out.numbers((starts[1:] - starts[:-1]).astype(np.int64, copy=False))
    out.raw(text[starts[0] : starts[-1]])
    return int(starts[-1] - starts[0])


def _integers(column: pa.Array) -> np.ndarray:
    """Numbers of a column of 64 bits, days or booleans; 0 where it is null."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif column.type == pa.uint64():
        column = column.view(pa.int64())
    return column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def read_keys(
    reader: StreamReader,
    names: tuple[str, ...],
    kinds: list[Any],
    size: int,
    texts: Mapping[str, Texts],
    left: int,
) -> Keys:
    """What `write_keys` wrote of `size` keys. Raises CorruptSummary: keys that cannot be, or more
    than `left` bytes of them."""
    if not names:
        if size != 1:
            raise CorruptSummary(f"segment: {size} empty keys")
        return NO_KEY
    columns, hashes = zip(
        *(
            _read_key_column(
                reader, kind, size, texts.get(name) if kind == "string" else None, left
            )
            for name, kind in zip(names, kinds, strict=True)
        ),
        strict=True,
    )
    return Keys(names, columns, frozen(fold(hashes)))


def _read_key_column(
    reader: StreamReader, kind: str | None, size: int, texts: Texts | None, left: int
) -> tuple[pa.Array, np.ndarray]:
    """The column, and the hash of each key in it."""
    flags = reader.raw(size)
    if kind is None:
        if flags.any():
            raise CorruptSummary("segment: a key without a type is not null")
        return pa.nulls(size), np.full(size, NULL_HASH)
    values, mask = reader.numbers(size), None
    nulls = None
    if (flags != 1).any():
        if flags.max() > 1:
            raise CorruptSummary("segment: a key is neither null nor not")
        nulls = flags == 0
        if values[nulls].any():
            raise CorruptSummary("segment: a null key has a value")
        mask = pa.py_buffer(np.packbits(flags, bitorder="little").tobytes())
    if texts is not None:
        return texts.column(values, nulls, left)
    if kind in ("string", "binary"):
        column = read_text(reader, TYPES[kind], values, mask, left)
    else:
        column = _read_numbers(kind, values, mask)
    return column, hashes_of(column)


def read_text(
    reader: StreamReader, kind: pa.DataType, sizes: np.ndarray, mask: Any, left: int
) -> pa.Array:
    """What `write_text` wrote: texts or bytes of these sizes, null where `mask` says so. Raises
    CorruptSummary: a size that cannot be, more than `left` bytes, or text that is not UTF-8."""
    starts = laid_out(sizes, left)
    if starts is None:
        raise CorruptSummary("segment: the length of a key is impossible")
    text = reader.raw(int(starts[-1]))
    buffers = [mask, pa.py_buffer(starts), pa.py_buffer(text)]
    array = pa.Array.from_buffers(kind, len(sizes), buffers)
    if not is_sound(array):
        raise CorruptSummary("segment: a key is not UTF-8")
    return array


def _read_numbers(kind: str, values: np.ndarray, mask: Any) -> pa.Array:
    size = len(values)
    low, high = {"bool": (0, 1), "date32": (-(2**31), 2**31 - 1)}.get(kind, (-(2**63), 2**63 - 1))
    if size and (int(values.min()) < low or int(values.max()) > high):
        raise CorruptSummary("segment: a key is outside its type")
    plain = pa.Array.from_buffers(pa.int64(), size, [mask, pa.py_buffer(values)])
    if kind == "date32":
        plain = plain.cast(pa.int32())
    return plain.view(pa.uint64()) if kind == "uint64" else plain.cast(TYPES[kind])
