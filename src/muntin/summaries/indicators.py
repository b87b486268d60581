"""Indicators: a batch's columns of what is summed, as int64 or float64.

Decimals are whole numbers of their last digit: cents, where there are two behind the point.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrow import decoded, fixed_width, floats_of_decimals, validity
from muntin.errors import BadArgument
from muntin.summaries.kernels.vector_sums import fill_integers, finite_floats, magnitude_bits

IndicatorType = Literal["int64", "float64"]  # what a file or a call declares
SumType = str  # that, or of decimals "decimal(2)": whole numbers of so many digits behind the point
DIGITS_MAX = 18  # decimals of more are no int64, and are summed as floats
_DECIMALS = re.compile(r"decimal\(([1-9]|1[0-8])\)")
INT64_MAX = (1 << 63) - 1


def scale_of(kind: SumType) -> int | None:
    """Digits behind the point of sums of decimals; None of others."""
    found = _DECIMALS.fullmatch(kind)
    return int(found[1]) if found else None


def is_sum_type(kind: object) -> bool:
    return isinstance(kind, str) and (kind in ("int64", "float64") or scale_of(kind) is not None)


@dataclass(slots=True)
class IndicatorValues:
    """One indicator's column of a batch: numbers without nulls."""

    type: SumType | None  # None: all null, of no type
    numbers: np.ndarray | None
    nulls: int
    largest: int | float  # bound of the magnitude of a value


def indicator_values(name: str, array: pa.Array, asked: SumType | None) -> IndicatorValues:
    """Read an indicator's column as the type that it has, or takes. Raises BadArgument: not a
    number, another type than that of the sums, or a value beyond int64."""
    array = decoded(array)
    kind = array.type
    nulls = array.null_count
    if pa.types.is_null(kind):
        return IndicatorValues(asked, None, len(array), 0)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
        kind = array.type
    if pa.types.is_decimal(kind) and asked != "float64" and kind.precision <= DIGITS_MAX:
        found = f"decimal({kind.scale})" if kind.scale else "int64"
        if kind.scale >= 0 and asked in (None, found):
            return _decimals(array, found, nulls)
    if pa.types.is_integer(kind) and (asked is None or scale_of(asked) is None):
        if nulls and kind == pa.int64() and asked != "float64":
            numbers = np.empty(len(array), np.int64)
            bits = fill_integers(fixed_width(array, np.int64), *validity(array), numbers)
            return IndicatorValues("int64", numbers, nulls, int(bits) + 1)
        if nulls:
            array = pc.fill_null(array, 0)
        return _integers(name, array, asked, nulls)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise BadArgument(
            f"indicator {name!r} is {kind}: an indicator is a number, a decimal or a boolean; "
            "cast the column, or use it as a key"
        )
    if asked not in (None, "float64"):
        raise BadArgument(
            f"indicator {name!r} is {kind}, and its sums are {asked}: "
            f"declare it as {{{name!r}: 'float64'}}, or cast the column to {asked}"
        )
    array = floats_of_decimals(array).cast(pa.float64())
    if nulls:
        array = pc.fill_null(array, 0.0)
    numbers = np.empty(len(array), np.float64)
    bad, largest = finite_floats(fixed_width(array, np.float64), numbers)
    return IndicatorValues("float64", numbers, nulls + bad, largest)


def _decimals(array: pa.Array, kind: SumType, nulls: int) -> IndicatorValues:
    if not pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    numbers = fixed_width(array, np.dtype("(2,)i8"))[:, 0].copy()  # of 128 bits the lower half
    if nulls:
        numbers[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return IndicatorValues(kind, numbers, nulls, int(magnitude_bits(numbers)) + 1)


def _integers(name: str, array: pa.Array, asked: SumType | None, nulls: int) -> IndicatorValues:
    numbers = fixed_width(array, array.type.to_pandas_dtype())
    if asked == "float64":
        floats = numbers.astype(np.float64)
        return IndicatorValues("float64", floats, nulls, float(np.abs(floats).max(initial=0.0)))
    if numbers.dtype == np.uint64:
        if len(numbers) and int(numbers.max()) > INT64_MAX:
            raise BadArgument(
                f"indicator {name!r}: {numbers.max()} is beyond int64; "
                f"declare it as {{{name!r}: 'float64'}}, or use a smaller unit"
            )
        numbers = numbers.view(np.int64)
    if numbers.dtype == np.int64:
        largest = int(magnitude_bits(numbers)) + 1
    else:
        largest = int(np.iinfo(numbers.dtype).max) + 1
    return IndicatorValues("int64", numbers, nulls, largest)
