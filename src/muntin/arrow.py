"""Arrow, as the rest uses it: its compute functions, and its buffers as NumPy arrays."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from muntin.errors import BadArgument

pc: Any = pyarrow.compute  # its own module makes them at run time: no type checker sees them


UNSIGNED_OF_SPARK = pa.decimal128(20, 0)  # as which Spark reads unsigned integers of 64 bits
_TEXT = frozenset(kind.id for kind in (pa.string(), pa.large_string(), pa.string_view()))
_BINARY = frozenset(kind.id for kind in (pa.binary(), pa.large_binary(), pa.binary_view()))
_PLAIN = {pa.string_view().id: pa.large_string(), pa.binary_view().id: pa.large_binary()}


def one_array(values: Any, what: str) -> Any:
    """One array of what the caller gave, dictionaries kept, none of views. Raises BadArgument: it
    is none: `what`, and Arrow's words."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # Arrow keeps chunks that one array cannot hold
            values = pa.concat_arrays(values.chunks)
    if isinstance(values, pa.Array):
        return unviewed(values)
    try:
        try:
            return unviewed(pa.array(values))
        except OverflowError:  # from 2**63 on; what can be read once only is gone by now
            if not isinstance(values, Sequence | np.ndarray):
                raise
            return pa.array(values, pa.uint64())
    except (pa.ArrowException, TypeError, ValueError, KeyError, OverflowError) as problem:
        raise BadArgument(f"{what}: {problem}") from None


def unviewed(column: Any) -> Any:
    """Texts in views, also a dictionary's, as plain ones: Arrow neither takes nor filters views."""
    kind = column.type
    plain = _PLAIN.get(value_type(kind).id)
    if plain is not None and pa.types.is_dictionary(kind):
        plain = pa.dictionary(kind.index_type, plain, kind.ordered)
    return column if plain is None else column.cast(plain)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, where these are in a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType, *, or_binary: bool = False) -> bool:
    """Whether a type, or that of a dictionary's values, is text; of whatever width, or in views."""
    kind = value_type(kind)
    is_binary = kind.id in _BINARY or pa.types.is_fixed_size_binary(kind)
    return kind.id in _TEXT or (or_binary and is_binary)


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is one of integers, floats or decimals."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def is_sound(array: Any) -> bool:
    """Whether Arrow's own check passes: text is UTF-8, a decimal has no more digits than it may."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def decoded(column: Any) -> Any:
    """A column, its values in no dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def used_values(array: Any) -> tuple[np.ndarray, Any]:
    """The number of each value of a dictionary array among those that it uses, -1 for null, and
    these: a dictionary may hold what no row has."""
    codes, values = array.indices, array.dictionary
    if codes.null_count:
        codes = pc.fill_null(codes.cast(pa.int64()), -1)
    numbers = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    used = np.zeros(len(values) + 1, bool)
    used[numbers] = True  # -1 marks the extra place at the end
    if not used[:-1].all():
        values = values.filter(pa.array(used[:-1]))
        numbers = np.append(np.cumsum(used[:-1]) - 1, -1)[numbers]
    return numbers, values


def buffer_numbers(buffer: Any, dtype: Any, count: int = -1, offset: int = 0) -> np.ndarray:
    """`count` numbers of a buffer from byte `offset` on, without copying; see `read_only`."""
    numbers = np.frombuffer(buffer if buffer is not None else b"", dtype, count, offset)
    numbers.flags.writeable = False
    return numbers


def read_only(numbers: np.ndarray) -> np.ndarray:
    """The same memory, as what a kernel reads.

    Arrow hands out writable and read-only buffers. To Numba these are two types, and each kernel
    that is given both is compiled twice, for seconds: so all get read-only ones.
    """
    if numbers.flags.writeable:
        numbers = numbers.view()
        numbers.flags.writeable = False
    return numbers


def ipc_bytes(batches: Iterable[pa.RecordBatch], schema: pa.Schema, options: Any = None) -> bytes:
    """Batches of one schema as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    # given none, Arrow looks for old variables of the environment each time
    with pa.ipc.new_stream(sink, schema, options=options or pa.ipc.IpcWriteOptions()) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


NO_BITS = read_only(np.empty(0, np.uint8))


def validity(array: pa.Array) -> tuple[np.ndarray, int]:
    """Validity bitmap and the bit of the first value; an empty bitmap where nothing is null."""
    if array.null_count == 0:
        return NO_BITS, 0
    return buffer_numbers(array.buffers()[0], np.uint8), array.offset


def fixed_width(array: pa.Array, dtype: type[np.generic] | np.dtype) -> np.ndarray:
    """The values of an Arrow array without copying; what stands under nulls is undefined."""
    size = len(array)
    buffer = array.buffers()[1]
    if size == 0 or buffer is None:
        return np.zeros(size, dtype)
    return buffer_numbers(buffer, dtype, size, array.offset * np.dtype(dtype).itemsize)


def floored(array: pa.Array, units: int) -> pa.Array:
    """Times as whole numbers of a larger unit, those before 1970 as well; Arrow rounds to 0."""
    numbers, bits = fixed_width(array, np.int64) // units, None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(array), [bits, pa.py_buffer(numbers)])


_EXACT_MAX = 1 << 53  # whole floats without a gap
_EXACT_DIGITS = 22  # of a power of ten that is a float


def floats_of_decimals(column: Any) -> Any:
    """Decimals as float64: for each the nearest; other columns as they are. Arrow's own cast may be
    one unit beside it, since it multiplies by 0.1 where it should divide by 10."""
    kind = value_type(column.type)
    if not pa.types.is_decimal(kind):
        return column
    column = decoded(column)
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= _EXACT_DIGITS and len(column):
        low, high = fixed_width(column, np.dtype("(2,)i8")).T
        small = (high == low >> 63) & (np.abs(low) <= _EXACT_MAX)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if (small | missing).all():
            return pa.array(low / 10.0**kind.scale, mask=missing)
    return column.cast(pa.string()).cast(pa.float64())


def plain_value(column: Any) -> Any:
    """The first value of an array as Python has it; as text where Python has no such value. It has
    no date beyond the years 1 to 9999 and no text that is not UTF-8; Arrow has."""
    try:
        value = column[0].as_py()
        json.dumps(value, default=str)
        return value
    except Exception:  # whatever it is, a message about it must be possible
        return _as_stored(column)


def _as_stored(column: Any) -> str:
    column = decoded(column)
    kind = column.type
    try:
        if pa.types.is_date32(kind):
            return f"day {column.view(pa.int32())[0].as_py()} since 1970"
        if pa.types.is_temporal(kind):
            unit = getattr(kind, "unit", "ms")
            return f"{column.view(pa.int64())[0].as_py()} {unit} since 1970"
        return column.cast(pa.large_binary())[0].as_py().decode("utf-8", "backslashreplace")
    except Exception:
        return f"<{kind}>"
