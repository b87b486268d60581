"""Columns of values, as users give them, to int64 keys in their order, and back."""

from typing import Any

import numpy as np

from muntin.arrow import read_only
from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.checks import column_of, narrowed
from muntin.summaries.kernels.order_keys import (
    KEY_OF_INFINITY,
    KEY_OF_MINUS_INFINITY,
    KEY_OF_MINUS_ZERO,
    bits_of_keys,
    extremes,
    keys_of_doubles,
)
from muntin.summaries.weights import as_weights

DTYPES = ("float64", "float32", "int64")


def check_dtype(dtype: Any) -> str:
    """`dtype` as one of DTYPES."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    try:
        name = np.dtype(dtype).name
    except (TypeError, ValueError):
        name = str(dtype)
    if name not in DTYPES:
        raise BadArgument(f"dtype {dtype!r}: use one of {', '.join(DTYPES)}")
    return name


def as_column(values: Any, dtype: str) -> np.ndarray:
    """Values as one contiguous array: int64 for "int64", float64 for "float64" and "float32".

    No copy is made of float64 and int64 buffers; read-only, whatever was given: Numba compiles a
    kernel once for each. Booleans are 0 and 1. Raises BadArgument: nulls (the first position is
    named), more than one dimension, a type that is no number, a fraction for "int64", a finite
    number beyond the range of "float32" or "int64".
    """
    return read_only(_converted(column_of(values), dtype))


def as_read(values: Any, dtype: str) -> np.ndarray:
    """As `as_column`, but floats of 64 or 32 bits are read in place, for either."""
    column = column_of(values)
    if dtype == "int64" or column.dtype not in (np.float64, np.float32):
        return as_column(column, dtype)
    return read_only(np.ascontiguousarray(column))


def _converted(column: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "int64":
        return _integers(column)
    if column.dtype.kind not in "fiu":
        if column.size == 0:
            return np.empty(0, np.float64)
        raise BadArgument(f"values of type {column.dtype} are not numbers: cast them to {dtype}")
    wide = np.ascontiguousarray(column, np.float64)
    if dtype == "float32" and column.dtype.itemsize > 2 and column.dtype != np.float32:
        return narrowed(wide, dtype).astype(np.float64)
    return wide


def bounds_of(column: np.ndarray) -> tuple[int, int]:
    """Smallest and largest key of a column of `as_column` with at least one value. Raises
    BadArgument: a NaN; the message names the first position."""
    return checked_bounds(column, *extremes(bits_of(column), column.dtype == np.float64))


def checked_bounds(column: np.ndarray, low: int, high: int) -> tuple[int, int]:
    """As `bounds_of`, where a kernel has found the extremes of the keys, with that of -0.0."""
    doubles = column.dtype.kind == "f"
    if doubles and (high > KEY_OF_INFINITY or low < KEY_OF_MINUS_INFINITY):
        at = int(np.isnan(column).argmax())
        raise BadArgument(f"value at position {at} is NaN: NaN has no rank, drop it first")
    if doubles:  # -0.0 is 0.0
        low, high = (0 if low == -1 else low), (0 if high == -1 else high)
    return int(low), int(high)


def weighed(column: np.ndarray, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """A column of `as_column` and its weights, int64[n] above 0; values of weight 0 are left out.
    Raises BadArgument: weights that are negative, no integers, or not one for each value; a NaN,
    whatever its weight."""
    heavy = as_weights(weights, len(column))
    if len(heavy) != len(column):  # one for all
        heavy = np.repeat(heavy, len(column))
    if len(column):
        bounds_of(column)  # a NaN is refused even where its weight is 0
    kept = heavy > 0
    return (column, heavy) if kept.all() else (column[kept], heavy[kept])


def bits_of(column: np.ndarray) -> np.ndarray:
    """The column's numbers, or bits of its doubles: int64[n], read-only, no copy."""
    return read_only(column.view(np.int64))


def to_keys(column: np.ndarray) -> np.ndarray:
    """Keys of a column of `as_column`: int64[n], always a copy."""
    if column.dtype == np.int64:
        return column.copy()
    out = np.empty(len(column), np.int64)
    keys_of_doubles(bits_of(column), out)
    return out


def from_keys(keys: np.ndarray, dtype: str) -> np.ndarray:
    """Values of int64 keys, in `dtype`."""
    if dtype == "int64":
        return keys.copy()
    values = np.empty(len(keys), np.float64)
    bits_of_keys(keys, values.view(np.int64))
    return values.astype(np.float32) if dtype == "float32" else values


def check_keys(keys: np.ndarray, dtype: str, kind: str) -> None:
    """Refuse keys that no value of `dtype` has, as a summary's bytes may hold them."""
    if dtype == "int64" or not len(keys):
        return
    if keys.max() > KEY_OF_INFINITY or keys.min() < KEY_OF_MINUS_INFINITY:
        raise CorruptSummary(f"{kind}: an item is NaN")
    if (keys == KEY_OF_MINUS_ZERO).any():
        raise CorruptSummary(f"{kind}: an item is -0.0")
    if dtype == "float32":
        with np.errstate(over="ignore"):
            narrow = from_keys(keys, "float32").astype(np.float64)
        if (to_keys(narrow) != keys).any():
            raise CorruptSummary(f"{kind}: an item is no float32")


def _integers(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "i":
        return np.ascontiguousarray(column, np.int64)
    if column.dtype.kind == "u":
        if column.size and column.max() > np.iinfo(np.int64).max:
            at = int((column > np.iinfo(np.int64).max).argmax())
            raise BadArgument(f"value {column[at]} at position {at} is beyond int64")
        return np.ascontiguousarray(column, np.int64)
    if column.size == 0:
        return np.empty(0, np.int64)
    raise BadArgument(f"values of type {column.dtype} in an int64 sketch: cast them to int64")
