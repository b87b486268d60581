"""Bytes of a vector matrix: parameters, and an Arrow stream that any Arrow reader opens.

The stream has one row; its column i is the list of rows of key i, structs of the key's columns,
`count` and the indicators. Where there are float indicators, as many columns follow: the low
parts of their sums, `<key>: low parts`. Rows stand in the order of `KeyRows`, so that equal
summaries have equal bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from muntin.summaries.envelope import seal
from muntin.summaries.kernels.row_streams import lay_out
from muntin.summaries.vector_matrix.arrow_stream import write_stream
from muntin.summaries.vector_matrix.indicators import Layout
from muntin.summaries.vector_matrix.key_values import KeyKind, KeyValues
from muntin.summaries.vector_matrix.names import IndicatorType, Key
from muntin.summaries.vector_matrix.rows import KeyRows
from muntin.summaries.vector_matrix.state import State
from muntin.summaries.vector_matrix.stream_plan import Plan, plan_of

KIND = "vector_matrix"
TEXT_BYTES_MAX = (1 << 31) - 1  # more go into Arrow's large_string
PARAMETERS = {"capacity", "columns", "count", "covered", "indicators", "keys", "large"}


def to_bytes(state: State) -> bytes:
    found = [state.rows_of(key) for key in state.keys]
    large = {
        (i, j)
        for i, rows in enumerate(found)
        for j, part in enumerate(rows.parts)
        if len(part.data) > TEXT_BYTES_MAX
    }
    parameters = parameters_of(state) | {"large": sorted(large)}
    return seal(KIND, parameters, body_of(state, found, large))


def parameters_of(state: State) -> dict[str, Any]:
    """What describes a state, without its rows."""
    return {
        "capacity": state.capacity,
        "columns": state.kinds,
        "count": state.count,
        "covered": list(state.covered().values()),
        "indicators": [[i.name, i.type, i.seen, i.nulls] for i in state.indicators],
        "keys": [list(key) for key in state.keys],
        "large": [],
    }


@lru_cache(maxsize=256)
def plan_for(
    keys: tuple[Key, ...],
    kinds: tuple[tuple[str, KeyKind | None], ...],
    names: tuple[str, ...],
    types: tuple[IndicatorType | None, ...],
    large: frozenset[tuple[int, int]],
) -> Plan:
    """The stream's plan for these keys, types of columns, and indicators."""
    return plan_of(keys, dict(kinds), tuple(zip(names, types, strict=True)), large)


def body_of(state: State, found: list[KeyRows], large: set[tuple[int, int]]) -> bytes:
    layout = state.layout
    plan = plan_for(
        state.keys, tuple(state.kinds.items()), layout.names, layout.types, frozenset(large)
    )
    leaves = plan.leaves
    rows = np.array([len(of_key) for of_key in found], np.int64)
    nulls, text = np.zeros((2, len(leaves)), np.int64)
    for first, of_key in zip(plan.firsts, found, strict=True):
        for leaf, part in enumerate(of_key.parts, first + 1):
            if len(part.bits):
                nulls[leaf] = part.length - int(np.bitwise_count(part.bits).sum())
            text[leaf] = len(part.data)
        if of_key.valid is not None:
            at = first + 2 + len(of_key.parts)
            absent = len(of_key) - np.count_nonzero(of_key.valid, axis=0)
            nulls[at : at + len(absent)] = absent
    frame = plan.frame
    nodes, places = np.empty((frame.nodes, 2), np.int64), np.empty((frame.buffers, 2), np.int64)
    out = np.zeros(lay_out(leaves, rows, nulls, text, nodes, places), np.uint8)
    words = out.view(np.int64)
    words[places[plan.lists, 0] >> 3] = rows[plan.list_keys] << 32
    starts = places[:, 0].tolist()
    for i, (first, of_key) in enumerate(zip(plan.firsts, found, strict=True)):
        buffer = plan.buffers[first] + 3
        for j, part in enumerate(of_key.parts):
            buffer = _write_part(out, starts, buffer, part, (i, j) in large)
        _write_cells(words, starts, plan, i, buffer, of_key, layout)
    return write_stream(frame, nodes, places, out)


def _write_part(
    out: np.ndarray, starts: list[int], buffer: int, part: KeyValues, large: bool
) -> int:
    """Write a key's column; the buffer behind it."""
    if part.kind is None:
        return buffer
    _put(out, starts[buffer], part.bits)
    at = starts[buffer + 1]
    if part.kind == "string":
        _put(out, at, part.offsets.astype(np.int64 if large else np.int32, copy=False))
        _put(out, starts[buffer + 2], part.data)
        return buffer + 3
    if part.kind == "bool":
        _put(out, at, np.packbits(part.numbers != 0, bitorder="little"))
    elif part.kind == "date32":
        _put(out, at, part.numbers.astype(np.int32))
    else:
        _put(out, at, part.numbers)
    return buffer + 2


def _put(out: np.ndarray, at: int, values: np.ndarray) -> None:
    if len(values):
        out[at : at + values.nbytes] = values.view(np.uint8)


def _write_cells(
    words: np.ndarray,
    starts: list[int],
    plan: Plan,
    i: int,
    buffer: int,
    rows: KeyRows,
    layout: Layout,
) -> None:
    """Write a key's count and sums, which begin at `buffer`."""
    size = len(rows)
    at = starts[buffer + 1] >> 3
    if rows.valid is None and layout.last == layout.integers:  # one after the other, as they are
        words[at : at + size * layout.last] = rows.cells.reshape(-1)
        return
    words[at : at + size] = rows.cells[0]
    for k, cell in enumerate(layout.cells):
        buffer += 2
        at = starts[buffer + 1] >> 3
        words[at : at + size] = rows.cells[cell]
        if rows.valid is not None and starts[buffer + 1] > starts[buffer]:
            bits = np.packbits(rows.valid[:, k], bitorder="little")
            words.view(np.uint8)[starts[buffer] : starts[buffer] + len(bits)] = bits
        if plan.lows[i, k] >= 0:
            at = starts[plan.buffers[plan.lows[i, k]] + 1] >> 3
            words[at : at + size] = rows.cells[cell + 1]
