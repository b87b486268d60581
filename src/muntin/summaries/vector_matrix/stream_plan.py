"""Where everything stands in the stream of some columns: the same for all summaries of a shape.

A leaf is a column of numbers or strings below a list of rows. What is known of all leaves is one
array, so that one kernel call lays out, or checks, a whole stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.summaries.kernels.row_streams import (
    BOOL,
    COUNT,
    DATE,
    FLOAT,
    INTEGER,
    LIST,
    LOW,
    NOTHING,
    SUM,
    TEXT,
    UNTYPED,
    WIDE_TEXT,
)
from muntin.summaries.vector_matrix.arrow_stream import Frame, Leaf, Rows
from muntin.summaries.vector_matrix.arrow_stream import frame_of as arrow_frame
from muntin.summaries.vector_matrix.key_values import KeyKind
from muntin.summaries.vector_matrix.names import COUNT as COUNT_NAME
from muntin.summaries.vector_matrix.names import IndicatorType, Key, shown

_PARTS: dict[KeyKind | None, int] = {
    None: NOTHING, "string": TEXT, "bool": BOOL, "date32": DATE, "int64": INTEGER,
    "timestamp": INTEGER,
}  # fmt: skip
_SUMS: dict[IndicatorType | None, int] = {None: UNTYPED, "int64": SUM, "float64": FLOAT}


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The stream of a shape."""

    frame: Frame
    leaves: np.ndarray
    """int64[leaves, 5]: role, key, node, first buffer, indicator (of a sum) or part (of a key)."""
    buffers: tuple[int, ...]
    """First buffer of each leaf."""
    firsts: tuple[int, ...]
    """First leaf of each key: the list, then its parts, count and indicators."""
    lists: np.ndarray
    """Buffers that hold the offsets of lists."""
    list_keys: np.ndarray
    """Key of each of these."""
    lows: np.ndarray
    """int64[keys, indicators]: leaf of the low parts; -1 where it is no float."""
    texts: np.ndarray
    """Buffers of strings' bytes."""
    wide: np.ndarray
    """Whether each of these is of the type for many bytes."""


def plan_of(
    keys: tuple[Key, ...],
    kinds: dict[str, KeyKind | None],
    indicators: tuple[tuple[str, IndicatorType | None], ...],
    large: frozenset[tuple[int, int]],
) -> Plan:
    columns, leaves, firsts, lists = [], _Leaves(), [], []
    sums = tuple(Leaf(name, kind or "int64") for name, kind in indicators)
    for i, key in enumerate(keys):
        firsts.append(len(leaves.found))
        lists.append(leaves.buffers + 1)
        leaves.add(LIST, i, 0)
        parts = []
        for j, name in enumerate(key):
            kind = kinds[name]
            wide = (i, j) in large
            parts.append(Leaf(name, "large_string" if wide else kind or "null"))
            leaves.add(WIDE_TEXT if wide else _PARTS[kind], i, j)
        leaves.add(COUNT, i, 0)
        for at, (_, kind) in enumerate(indicators):
            leaves.add(_SUMS[kind], i, at)
        columns.append(Rows(shown(key), (*parts, Leaf(COUNT_NAME, "int64", False), *sums)))
    lows = np.full((len(keys), len(indicators)), -1, np.int64)
    floats = [at for at, (_, kind) in enumerate(indicators) if kind == "float64"]
    if floats:
        low_leaves = tuple(Leaf(indicators[at][0], "float64", False) for at in floats)
        for i, key in enumerate(keys):
            lists.append(leaves.buffers + 1)
            leaves.add(LIST, i, 0)
            for at in floats:
                lows[i, at] = len(leaves.found)
                leaves.add(LOW, i, at)
            columns.append(Rows(f"{shown(key)}: low parts", low_leaves))
    frame = arrow_frame(tuple(columns))
    table = np.array(leaves.found, np.int64)
    list_keys = table[table[:, 0] == LIST, 1]
    texts = np.isin(table[:, 0], (TEXT, WIDE_TEXT))
    return Plan(
        frame, table, tuple(table[:, 3].tolist()), tuple(firsts), np.array(lists), list_keys, lows,
        table[texts, 3] + 2, table[texts, 0] == WIDE_TEXT,
    )  # fmt: skip


class _Leaves:
    def __init__(self) -> None:
        self.found: list[tuple[int, int, int, int, int]] = []
        self.nodes = self.buffers = 0

    def add(self, role: int, key: int, at: int) -> None:
        self.found.append((role, key, self.nodes, self.buffers, at))
        self.nodes += 2 if role == LIST else 1
        self.buffers += {NOTHING: 0, TEXT: 3, WIDE_TEXT: 3, LIST: 3}.get(role, 2)
