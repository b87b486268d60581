"""Reading bytes of a vector matrix, whoever wrote them.

Exactly what `to_bytes` writes is accepted. The stream's frame is compared byte for byte; lengths
and places of buffers must be those that follow from the numbers of rows; then one pass looks at
every byte of the rows: order, bitmaps, offsets, padding, sums. Nothing is indexed here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from muntin.arrow import read_only
from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.envelope import unseal
from muntin.summaries.kernels.row_streams import (
    ABNORMAL,
    ALL,
    BITS,
    EMPTY_ROW,
    FINE,
    HIDDEN,
    LENGTHS,
    MISPLACED,
    NO_TYPE,
    NONE,
    NULLS,
    OFFSETS,
    ORDER,
    PADDED,
    SOME,
    TIED,
    UNEQUAL,
    check_frame,
    check_rows,
)
from muntin.summaries.vector_matrix.arrow_stream import read_stream
from muntin.summaries.vector_matrix.encoding import KIND, PARAMETERS, TEXT_BYTES_MAX, plan_for
from muntin.summaries.vector_matrix.held import Held
from muntin.summaries.vector_matrix.indexes import ROWS_MAX
from muntin.summaries.vector_matrix.indicators import INT64_MAX
from muntin.summaries.vector_matrix.key_values import KEY_KINDS, KeyKind
from muntin.summaries.vector_matrix.names import Key, as_keys
from muntin.summaries.vector_matrix.state import State
from muntin.summaries.vector_matrix.stream_rows import StreamRows

_PROBLEMS = {
    MISPLACED: "a buffer lies outside the Arrow stream, or where another should",
    UNEQUAL: "columns of unequal length",
    NULLS: "nulls where there can be none, or none where there must be",
    LENGTHS: "the Arrow stream's lengths disagree",
    PADDED: "something stands between the buffers",
    BITS: "nulls are counted wrongly",
    OFFSETS: "strings or lists overlap, or leave their buffer",
    HIDDEN: "values are hidden under nulls",
    EMPTY_ROW: "a row without events",
    NO_TYPE: "an indicator of no type has sums",
    ABNORMAL: "float sums that are not normal",
    ORDER: "rows are out of order, or repeated",
}


def from_bytes(data: bytes) -> State:
    parameters, body = unseal(data, KIND)
    if parameters.keys() != PARAMETERS:
        raise CorruptSummary("vector_matrix: parameters are missing, or unknown")
    state, kinds = described(parameters)
    keys, layout = state.keys, state.layout
    large = _large(keys, parameters["large"])
    plan = plan_for(keys, tuple(kinds.items()), layout.names, layout.types, large)
    nodes, places, rows = read_stream(plan.frame, body)
    sizes = np.empty(len(keys), np.int64)
    rows_max = min(len(rows) // (8 * (1 + len(layout.names))), ROWS_MAX)
    _raise_for(check_frame(plan.leaves, nodes, places, len(rows), rows_max, sizes))
    if ((places[plan.texts, 1] > TEXT_BYTES_MAX) != plan.wide).any():
        raise CorruptSummary("vector_matrix: strings in a column of the wrong width")
    presence = np.array([_presence(i.seen, state.count) for i in state.indicators], np.int64)
    counts = np.zeros((len(sizes), 2), np.int64)
    bits, largest = np.zeros(len(presence), np.int64), np.zeros(len(presence))
    problem, foreign = check_rows(
        read_only(rows), rows.view(np.int64), plan.leaves, nodes, places, sizes, plan.lows,
        presence, counts, bits, largest,
    )  # fmt: skip
    parts: list[list[KeyKind | None]] = [[kinds[name] for name in key] for key in keys]
    found = StreamRows(plan, layout, parts, nodes, places.tolist(), rows, sizes.tolist())
    if problem == TIED:
        problem = FINE if found.ties_are_ordered() else ORDER
    _raise_for(problem)
    if foreign:
        found.check_utf8()
    covered = [(high << 32) + low for high, low in counts.tolist()]
    raise_unless_covered(parameters["covered"], covered, state.count)
    masks, bounds = bits.tolist(), largest.tolist()
    for at, indicator in enumerate(state.indicators):
        indicator.largest = bounds[at] if indicator.type == "float64" else masks[at] + 1
    state.hold(Held(found.sizes, covered, rows.nbytes, found.rows), kinds)
    return state


def _raise_for(problem: int) -> None:
    if problem != FINE:
        raise CorruptSummary(f"vector_matrix: {_PROBLEMS[problem]}")


def described(parameters: dict[str, Any]) -> tuple[State, dict[str, KeyKind | None]]:
    """An empty state of the parameters, and the types of its columns."""
    keys, columns, indicators = (parameters[n] for n in ("keys", "columns", "indicators"))
    lists = isinstance(keys, list) and isinstance(indicators, list)
    if not lists or not all(isinstance(entry, list) for entry in (*keys, *indicators)):
        raise CorruptSummary("vector_matrix: keys or indicators are no lists of lists")
    if not isinstance(columns, dict) or not all(len(entry) == 4 for entry in indicators):
        raise CorruptSummary("vector_matrix: an indicator is no name, type, seen and nulls")
    try:
        types = {name: kind for name, kind, _, _ in indicators}
        found, kinds = _shape(tuple(map(tuple, keys)), tuple(columns.items()))
        state = State(found, types, parameters["capacity"])
    except (BadArgument, TypeError) as problem:
        raise CorruptSummary(f"vector_matrix: {problem}") from None
    if len(types) != len(indicators):
        raise CorruptSummary("vector_matrix: an indicator is given twice")
    state.count = _number(parameters["count"])
    for indicator, (_, _, seen, nulls) in zip(state.indicators, indicators, strict=True):
        indicator.seen, indicator.nulls = _number(seen), _number(nulls)
        if not indicator.nulls <= indicator.seen <= state.count:
            raise CorruptSummary(f"vector_matrix: indicator {indicator.name!r} is counted wrongly")
    return state, kinds


@lru_cache(maxsize=256)
def _shape(
    keys: tuple[Any, ...], columns: tuple[tuple[str, Any], ...]
) -> tuple[list[Key], dict[str, KeyKind | None]]:
    """Keys and types of columns, checked; the columns in the order of the keys."""
    found, types = as_keys(keys), dict(columns)
    names = list(dict.fromkeys(name for key in found for name in key))
    if types.keys() != set(names):
        raise BadArgument("its columns are not those of its keys")
    for name, kind in columns:
        if kind is not None and kind not in KEY_KINDS:
            raise BadArgument(f"column {name!r} of unknown type {kind!r:.50}")
    return found, {name: types[name] for name in names}


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= INT64_MAX:
        raise CorruptSummary(f"vector_matrix: {value!r:.50} is not a number of events")
    return value


def _large(keys: tuple[Key, ...], large: Any) -> frozenset[tuple[int, int]]:
    if large == [] and isinstance(large, list):
        return frozenset()
    parts = {(i, j) for i, key in enumerate(keys) for j in range(len(key))}
    try:
        found = frozenset((i, j) for i, j in large)
        canonical = large == [list(place) for place in sorted(found)] and found <= parts
        canonical = canonical and all(type(at) is int for place in found for at in place)
    except (TypeError, ValueError):
        canonical, found = False, frozenset()
    if not canonical:
        raise CorruptSummary("vector_matrix: large columns that it does not have")
    return found


def _presence(seen: int, count: int) -> int:
    """Which rows have an indicator that so many of all events had."""
    if seen == count:
        return ALL
    return NONE if seen == 0 else SOME


def raise_unless_covered(claimed: Any, covered: list[int], count: int) -> None:
    """The parameters say what the rows' counts add up to."""
    same = isinstance(claimed, list) and [_number(events) for events in claimed] == covered
    if not same or max(covered) > count:
        raise CorruptSummary("vector_matrix: the rows' counts do not add up to its events")
