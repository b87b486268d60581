"""Which cell of a row holds what, and events as rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from muntin.summaries.indicators import IndicatorType, IndicatorValues

_LINE_CELLS = 8  # a cache line of 64 bytes


@dataclass(frozen=True, slots=True)
class CellLayout:
    """Which cells of a row hold what: count, integer sums, then pairs of floats."""

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


def _width(cells: int) -> int:
    """Rows do not straddle cache lines more often than they must."""
    if cells <= _LINE_CELLS:
        return 1 << (cells - 1).bit_length()
    return -(-cells // _LINE_CELLS) * _LINE_CELLS


def blank_vectors(layout: CellLayout, events: int) -> np.ndarray:
    """Events without indicators, as rows of the matrix's layout: count 1, all else 0."""
    buffer = np.zeros((events, layout.width), np.int64)
    buffer[:, 0] = 1
    return buffer


def vectors_of_events(
    layout: CellLayout, values: list[IndicatorValues], begin: int, end: int, buffer: np.ndarray
) -> np.ndarray:
    """Events [begin, end) with their indicators, in the memory of `buffer`."""
    vectors = buffer[: end - begin]
    floats = vectors.view(np.float64)
    for cell, column in zip(layout.cells, values, strict=True):
        if column.numbers is not None:
            out = floats if column.type == "float64" else vectors
            out[:, cell] = column.numbers[begin:end]
    return vectors
