"""Adding one vector matrix to another, and taking a part away again."""

from __future__ import annotations

import numpy as np

from muntin.errors import IncompatibleSummary, SummaryOverflow
from muntin.summaries.vector_matrix.held import vectors_of
from muntin.summaries.vector_matrix.indicators import (
    INT64_MAX,
    Indicator,
    relaid,
)
from muntin.summaries.vector_matrix.key_table import KeyTable
from muntin.summaries.vector_matrix.names import Key
from muntin.summaries.vector_matrix.numbering import Numbers
from muntin.summaries.vector_matrix.state import State
from muntin.summaries.vector_matrix.updating import put_back


def merge(state: State, other: State) -> None:
    """Add another; where this raises, the state is what it was."""
    _check_columns(state, other)
    if state.count + other.count > INT64_MAX:
        raise SummaryOverflow("the merged summaries would hold more than int64 events")
    indicators = _united(state, other)
    if all(indicator.largest < indicator.limit for indicator in indicators):
        _merge_into(state, other, indicators, checked=False)
        return
    trial = state.copy()
    _merge_into(trial, other, indicators, checked=True)
    trial.tighten()
    state.take(trial)


def _check_columns(state: State, other: State) -> None:
    mine = state.kinds
    for name, kind in other.kinds.items():
        if kind is not None and mine.get(name) not in (None, kind):
            raise IncompatibleSummary(
                f"key column {name!r} is {mine[name]} in one summary and {kind} in the other"
            )
    names = {name for key in (*state.keys, *other.keys) for name in key}
    for indicator in (*state.indicators, *other.indicators):
        if indicator.name in names:
            raise IncompatibleSummary(
                f"{indicator.name!r} is a key in one summary and an indicator in the other"
            )


def _united(state: State, other: State) -> list[Indicator]:
    """Indicators of both: int64 beside float64 becomes float64, which holds any int64 exactly."""
    united = [indicator.copy() for indicator in state.indicators]
    mine = {indicator.name: indicator for indicator in united}
    for theirs in other.indicators:
        indicator = mine.get(theirs.name)
        if indicator is None:
            united.append(theirs.copy())
            continue
        if "float64" in (indicator.type, theirs.type):
            indicator.type = "float64"
        else:
            indicator.type = indicator.type or theirs.type
        indicator.seen += theirs.seen
        indicator.nulls += theirs.nulls
        indicator.largest += theirs.largest
    return united


def _merge_into(state: State, other: State, indicators: list[Indicator], *, checked: bool) -> None:
    count = state.count + other.count
    tracked = any(indicator.seen != count for indicator in indicators)
    mine, theirs = _complete(state, indicators), _complete(other, indicators)
    state.indicators = indicators
    state.relay()
    for key in other.keys:
        if key not in state.tables:
            state.numbering.add(key)
            state.tables[key] = KeyTable(key, state.layout, state.numbering.rows(key))
    if tracked:
        for table in state.tables.values():
            table.track_validity(mine)
    state.reserve(other)
    rows = _adopted(state, other)
    state.reserve_rows()
    for key, covered in other.covered().items():
        table = state.tables[key]
        if other.held is not None and other.layout == state.layout and not checked:
            table.add_columns(rows[key], other.rows_of(key).cells)
        elif checked:
            table.add_checked(rows[key], _vectors(state, other, key))
        else:
            table.add(rows[key], _vectors(state, other, key))
        table.covered += covered
        if table.valid is not None:
            there = _there(other, key)
            valid = _validity(other, key, table.layout.names, theirs)
            table.valid[rows[key][there]] |= valid[there]
    state.count = count
    if state.capacity is not None:
        state.capacity = max(state.capacity, other.capacity) if other.capacity else None


def _complete(state: State, indicators: list[Indicator]) -> list[bool]:
    """Per indicator of a merge, whether all events of one side had it."""
    seen = {indicator.name: indicator.seen for indicator in state.indicators}
    return [seen.get(indicator.name) == state.count for indicator in indicators]


def _adopted(state: State, other: State, insert: bool = True) -> Numbers:
    """The row here of each row there, for the keys of both; -1 where there is none."""
    if other.held is None:
        return state.numbering.adopt(other.numbering, insert)
    return {
        key: state.numbering.number_rows(key, other.held.rows(at).parts, insert)
        for at, key in enumerate(other.keys)
        if key in state.tables
    }


def _vectors(state: State, other: State, key: Key) -> np.ndarray:
    """The other's rows in the layout of the state."""
    if other.held is not None:
        vectors = vectors_of(other.rows_of(key), other.layout.width)
    else:
        vectors = other.tables[key].matrix[: other.numbering.rows(key)]
    return vectors if other.layout == state.layout else relaid(vectors, other.layout, state.layout)


def _there(other: State, key: Key) -> np.ndarray:
    """The other's rows that are there: held ones all are."""
    if other.held is not None:
        return np.arange(len(other.rows_of(key)))
    return np.flatnonzero(other.tables[key].matrix[: other.numbering.rows(key), 0])


def _validity(other: State, key: Key, names: tuple[str, ...], complete: list[bool]) -> np.ndarray:
    """Which of the named indicators the other's rows have: bool[rows, names]."""
    if other.held is not None:
        source, size = other.rows_of(key).valid, len(other.rows_of(key))
    else:
        source, size = other.tables[key].valid, other.numbering.rows(key)
    if source is None:
        return np.tile(np.array(complete, bool), (size, 1))
    valid = np.zeros((size, len(names)), bool)
    for at, name in enumerate(names):
        if name in other.layout.names:
            valid[:, at] = source[:size, other.layout.names.index(name)]
    return valid


def subtract(state: State, other: State) -> None:
    """Take away a part; where this raises, the state is what it was."""
    _check_part(state, other)
    rows = _adopted(state, other, insert=False)
    undo = []
    try:
        for key in other.keys:
            table = state.tables[key]
            known = rows[key][rows[key] >= 0]
            undo.append((table, known, table.matrix[known], table.live))
            table.subtract(rows[key], _vectors(state, other, key))
    except IncompatibleSummary:
        put_back(undo)
        raise
    for key, covered in other.covered().items():
        state.tables[key].covered -= covered
    for indicator in state.indicators:
        part = other.indicator(indicator.name)
        indicator.seen -= part.seen
        indicator.nulls -= part.nulls
        indicator.largest += part.largest
    state.count -= other.count
    state.compact()


def _check_part(state: State, other: State) -> None:
    _check_columns(state, other)
    if set(state.keys) != set(other.keys):
        raise IncompatibleSummary(
            f"cannot subtract: keys are {list(state.keys)} here and {list(other.keys)} there"
        )
    mine = {indicator.name: indicator for indicator in state.indicators}
    theirs = {indicator.name: indicator for indicator in other.indicators}
    if set(mine) != set(theirs):
        raise IncompatibleSummary(
            f"cannot subtract: indicators are {list(mine)} here and {list(theirs)} there"
        )
    if state.partly_seen() or other.partly_seen():
        raise IncompatibleSummary(
            "cannot subtract: an indicator was added on the way, so that the rest cannot tell "
            "null from zero; merge the summaries that stay instead"
        )
    if other.count > state.count:
        raise IncompatibleSummary(
            f"cannot subtract {other.count} events from {state.count}: no part of this summary"
        )
    for name, part in theirs.items():
        whole = mine[name]
        if part.type != whole.type and part.type == "float64":
            raise IncompatibleSummary(
                f"cannot subtract: indicator {name!r} is {whole.type} here, float64 in the other"
            )
        if part.nulls > whole.nulls:
            raise IncompatibleSummary(
                f"cannot subtract: indicator {name!r} has {part.nulls} nulls there, "
                f"{whole.nulls} here: no part of this summary"
            )


def rows_after(state: State, other: State) -> dict[Key, int]:
    """Rows per key that a merge would give."""
    _check_columns(state, other)
    numbers = _adopted(state, other, insert=False)
    found = state.live()
    for key, live in other.live().items():
        if key not in found:
            found[key] = live
            continue
        rows = numbers[key]
        if other.held is None:
            rows = rows[other.tables[key].matrix[: len(rows), 0] != 0]
        known = rows[rows >= 0]
        asleep = np.count_nonzero(state.tables[key].matrix[known, 0] == 0)
        found[key] += len(rows) - len(known) + int(asleep)
    return found
