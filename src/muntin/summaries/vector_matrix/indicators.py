"""Indicators: what is summed, in which type, and a batch's columns of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import BadArgument
from muntin.summaries.kernels.vector_sums import fill_integers, finite_floats, magnitude_bits
from muntin.summaries.vector_matrix.key_values import fixed_width, validity
from muntin.summaries.vector_matrix.names import IndicatorType

INT64_MAX = (1 << 63) - 1
FLOAT_SAFE_MAX = 1e300  # below, no step of a sum can overflow
_LINE_CELLS = 8  # a cache line of 64 bytes


@dataclass(slots=True)
class Indicator:
    name: str
    type: IndicatorType | None
    seen: int = 0
    """Events since the indicator is there, with a value or null."""
    nulls: int = 0
    """Events among them that had no value."""
    largest: int | float = 0
    """No sum is larger than this, in magnitude; of positive and negative parts together."""

    @property
    def limit(self) -> int | float:
        """Below it, no sum can overflow."""
        return FLOAT_SAFE_MAX if self.type == "float64" else INT64_MAX

    def copy(self) -> Indicator:
        return Indicator(self.name, self.type, self.seen, self.nulls, self.largest)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which cells of a row hold what: count, integer sums, then pairs of floats."""

    names: tuple[str, ...]
    types: tuple[IndicatorType | None, ...]
    cells: tuple[int, ...] = field(init=False)
    """Cell of each indicator; a float's low part stands in the next."""
    integers: int = field(init=False)
    last: int = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        integers = 1 + sum(kind != "float64" for kind in self.types)
        next_integer, next_float = 1, integers
        cells = []
        for kind in self.types:
            if kind == "float64":
                cells.append(next_float)
                next_float += 2
            else:
                cells.append(next_integer)
                next_integer += 1
        object.__setattr__(self, "cells", tuple(cells))
        object.__setattr__(self, "integers", integers)
        object.__setattr__(self, "last", next_float)
        object.__setattr__(self, "width", _width(next_float))


@lru_cache(maxsize=256)
def layout_of(names: tuple[str, ...], types: tuple[IndicatorType | None, ...]) -> Layout:
    return Layout(names, types)


def _width(cells: int) -> int:
    """Rows do not straddle cache lines more often than they must."""
    if cells <= _LINE_CELLS:
        return 1 << (cells - 1).bit_length()
    return -(-cells // _LINE_CELLS) * _LINE_CELLS


def relaid(matrix: np.ndarray, old: Layout, new: Layout) -> np.ndarray:
    """The rows in another layout, by the indicators' names; integers become floats exactly."""
    out = np.zeros((len(matrix), new.width), np.int64)
    out[:, 0] = matrix[:, 0]
    floats = out.view(np.float64)
    for name, kind, cell in zip(new.names, new.types, new.cells, strict=True):
        if name not in old.names:
            continue
        at = old.names.index(name)
        values = matrix[:, old.cells[at]]
        if kind != "float64":
            out[:, cell] = values
        elif old.types[at] == "float64":
            out[:, cell : cell + 2] = matrix[:, old.cells[at] : old.cells[at] + 2]
        else:
            low = (values & 0xFFFFFFFF).astype(np.float64)
            high = (values & ~0xFFFFFFFF).astype(np.float64)
            floats[:, cell] = high + low
            floats[:, cell + 1] = low - (floats[:, cell] - high)
    return out


@dataclass(slots=True)
class IndicatorValues:
    """One indicator's column of a batch: numbers without nulls."""

    type: IndicatorType | None
    """None: all null, of no type."""
    numbers: np.ndarray | None
    nulls: int
    largest: int | float
    """Bound of the magnitude of a value."""


def indicator_values(name: str, array: pa.Array, asked: IndicatorType | None) -> IndicatorValues:
    """Read an indicator's column as the type that it has, or takes.

    Raises
    ------
    BadArgument
        Not a number, a float where sums are int64, or a value beyond int64.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    nulls = array.null_count
    if pa.types.is_null(kind):
        return IndicatorValues(asked, None, len(array), 0)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
        kind = array.type
    if pa.types.is_integer(kind):
        if nulls and kind == pa.int64() and asked != "float64":
            numbers = np.empty(len(array), np.int64)
            bits = fill_integers(fixed_width(array, np.int64), *validity(array), numbers)
            return IndicatorValues("int64", numbers, nulls, int(bits) + 1)
        if nulls:
            array = pc.fill_null(array, 0)
        return _integers(name, array, asked, nulls)
    if not (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise BadArgument(
            f"indicator {name!r} is {kind}: an indicator is a number, a decimal or a boolean; "
            "cast the column, or use it as a key"
        )
    if asked == "int64":
        raise BadArgument(
            f"indicator {name!r} is {kind}, and its sums are int64: "
            f"declare it as {{{name!r}: 'float64'}}, or cast the column to int64"
        )
    if kind != pa.float64():
        array = array.cast(pa.float64())
    if nulls:
        array = pc.fill_null(array, 0.0)
    numbers = np.empty(len(array), np.float64)
    bad, largest = finite_floats(fixed_width(array, np.float64), numbers)
    return IndicatorValues("float64", numbers, nulls + bad, largest)


def _integers(
    name: str, array: pa.Array, asked: IndicatorType | None, nulls: int
) -> IndicatorValues:
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
