"""Events as vectors: their indicators in the layout of a row, count 1."""

from __future__ import annotations

import numpy as np

from muntin.summaries.vector_matrix.indicators import IndicatorValues, Layout


def room_for(layout: Layout, events: int) -> np.ndarray:
    """Events without indicators, as rows of the matrix's layout: count 1, all else 0."""
    room = np.zeros((events, layout.width), np.int64)
    room[:, 0] = 1
    return room


def vectors_of_events(
    layout: Layout, values: list[IndicatorValues], end: int, begin: int = 0,
    room: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Events [begin, end) with their indicators, in the memory of `room`."""
    vectors = room_for(layout, end - begin) if room is None else room[: end - begin]
    floats = vectors.view(np.float64)
    for cell, column in zip(layout.cells, values, strict=True):
        if column.numbers is not None:
            out = floats if column.type == "float64" else vectors
            out[:, cell] = column.numbers[begin:end]
    return vectors
