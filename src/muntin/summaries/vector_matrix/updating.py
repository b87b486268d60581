"""From a batch of events to additions, all or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, MuntinError, SummaryOverflow
from muntin.summaries.vector_matrix.event_vectors import room_for, vectors_of_events
from muntin.summaries.vector_matrix.grouping import group
from muntin.summaries.vector_matrix.indicators import IndicatorValues, indicator_values
from muntin.summaries.vector_matrix.key_column import check_kind
from muntin.summaries.vector_matrix.key_table import KeyTable
from muntin.summaries.vector_matrix.key_values import KeyValues, key_values
from muntin.summaries.vector_matrix.numbering import Numbers
from muntin.summaries.vector_matrix.state import State

CHUNK_EVENTS = 1 << 14  # vectors of a chunk stay in the caches while all keys add them
Read = tuple[dict[str, KeyValues], list[IndicatorValues], int]
_Undo = list[tuple[KeyTable, np.ndarray, np.ndarray, int]]


def update(state: State, batch: Any) -> None:
    """Count the events of a batch; where this raises, the state is what it was."""
    read = [_read(state, piece) for piece in _pieces(batch)]
    if not (len(read) == 1 and group(state, *read[0])):
        _update_indexed(state, read)
    events = sum(events for _, _, events in read)
    for at, indicator in enumerate(state.indicators):
        indicator.seen += events
        indicator.nulls += sum(values[at].nulls for _, values, _ in read)
    state.count += events


def _update_indexed(state: State, read: list[Read]) -> None:
    untyped = [c for c in state.numbering.columns.values() if c.kind is None]
    before = [(column, column.null_only) for column in untyped]
    types = [indicator.type for indicator in state.indicators]
    try:
        numbers = [state.numbering.number(keys, events) for keys, _, events in read]
        state.reserve_rows()
        _decide_types(state, [values for _, values, _ in read])
        _add(state, read, numbers)
    except MuntinError:
        for column, null_only in before:
            column.forget(null_only)
        _set_types(state, types)
        _ = state.tables  # derived now: from here on there are numbers that no event has
        raise
    state.cover(sum(events for _, _, events in read))


def _pieces(batch: Any) -> list[pa.RecordBatch]:
    if isinstance(batch, pa.RecordBatch):
        return [batch]
    if isinstance(batch, pa.Table):
        return batch.to_batches() or [pa.RecordBatch.from_pylist([], batch.schema)]
    raise BadArgument(
        f"update takes a pyarrow RecordBatch or Table, not {type(batch).__name__}: "
        "convert it, e.g. with pyarrow.table(...)"
    )


def _read(state: State, batch: pa.RecordBatch) -> Read:
    keys: dict[str, KeyValues] = {}
    for name, kind in state.kinds.items():
        keys[name] = values = key_values(name, _column(batch, "key column", name))
        check_kind(name, kind, values.kind)
    indicators = [
        indicator_values(i.name, _column(batch, "indicator", i.name), i.type)
        for i in state.indicators
    ]
    return keys, indicators, batch.num_rows


def _column(batch: pa.RecordBatch, what: str, name: str) -> pa.Array:
    at = batch.schema.get_field_index(name)
    if at >= 0:
        return batch.column(at)
    names = batch.schema.names
    problem = "there more than once" if name in names else "missing"
    raise BadArgument(
        f"{what} {name!r} is {problem} in the batch, whose columns are {', '.join(names)!r:.500}"
    )


def _decide_types(state: State, read: list[list[IndicatorValues]]) -> None:
    types = [indicator.type for indicator in state.indicators]
    for values in read:
        types = [kind or column.type for kind, column in zip(types, values, strict=True)]
    _set_types(state, types)


def _set_types(state: State, types: list[Any]) -> None:
    if [indicator.type for indicator in state.indicators] != types:
        for indicator, kind in zip(state.indicators, types, strict=True):
            indicator.type = kind
        state.relay()


def _add(state: State, read: list[Read], numbers: list[Numbers]) -> None:
    events = sum(events for _, _, events in read)
    added = [
        sum(values[at].largest * events for _, values, events in read)
        for at in range(len(state.indicators))
    ]
    if not state.loosen(added, events):
        _add_checked(state, read, numbers)
    else:
        tables = state.leading
        for (_, values, events), rows in zip(read, numbers, strict=True):
            room = room_for(state.layout, min(events, CHUNK_EVENTS))
            for begin in range(0, events, CHUNK_EVENTS):
                end = min(begin + CHUNK_EVENTS, events)
                vectors = vectors_of_events(state.layout, values, end, begin, room)
                for key, table in tables.items():
                    table.add(rows[key][begin:end], vectors)
    for rows in numbers:
        for key, table in state.leading.items():
            if table.valid is not None:
                table.valid[rows[key]] = True


def _add_checked(state: State, read: list[Read], numbers: list[Numbers]) -> None:
    """Add where a sum might overflow: what the rows held is kept, to be put back."""
    undo: _Undo = []
    try:
        for (_, values, events), rows in zip(read, numbers, strict=True):
            vectors = vectors_of_events(state.layout, values, events)
            for key, table in state.tables.items():
                undo.append((table, rows[key], table.matrix[rows[key]], table.live))
                table.add_checked(rows[key], vectors)
    except SummaryOverflow:
        put_back(undo)
        raise


def put_back(undo: _Undo) -> None:
    """Give rows, kept before they were changed, what they held: the newest change first."""
    for table, rows, kept, live in reversed(undo):
        table.matrix[rows] = kept
        table.live = live
