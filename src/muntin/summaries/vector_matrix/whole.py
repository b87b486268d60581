"""A matrix as one segment of one slice: made smaller, shown, and read from bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary
from muntin.segments.algebra import Algebra
from muntin.segments.codec import decode
from muntin.segments.columns import frozen
from muntin.segments.sums import Sums, key_rows
from muntin.segments.table import Segment
from muntin.summaries.envelope import unseal
from muntin.summaries.key_columns import TYPES
from muntin.summaries.vector_matrix.names import Key

Kind = TypeVar("Kind", bound=Algebra)
_NONE = frozen(np.empty(0, np.int64))
_TEXT_BYTES_MAX = (1 << 31) - 1


def nothing(algebra: Algebra) -> Segment:
    """A segment without events."""
    return Segment(algebra, _NONE, _NONE, ())


def without_indicator(segment: Segment, name: str) -> Segment:
    assert isinstance(segment.algebra, Sums)  # noqa: S101
    kept = tuple(pair for pair in segment.algebra.indicators if pair[0] != name)
    algebra = Sums(kept)
    tables = [
        replace(table, states={part: table.states.get(part) for part in algebra.columns()})
        for table in segment.tables
    ]
    return replace(segment, algebra=algebra, tables=tuple(tables))


def rows_of(whole: Segment, key: Key, kinds: Mapping[str, str | None]) -> pa.Table:
    """The rows of a key; text with offsets of 32 bits, where these suffice."""
    table = whole.table(key)
    rows = no_rows(whole.algebra, key, kinds) if table is None else key_rows(whole.algebra, table)
    for at, field in enumerate(rows.schema):
        if field.type == pa.large_string() and rows.column(at).nbytes < _TEXT_BYTES_MAX:
            rows = rows.set_column(at, field.name, rows.column(at).cast(pa.string()))
    return rows.combine_chunks()


def no_rows(algebra: Any, key: Key, kinds: Mapping[str, str | None]) -> pa.Table:
    """The table of a key that has no rows."""
    columns = {name: pa.nulls(0, TYPES.get(kinds[name] or "", pa.null())) for name in key}
    for name, kind in (("count", "int64"), *algebra.indicators):
        columns[name] = pa.nulls(0, pa.int64() if kind in ("int64", None) else pa.float64())
    return pa.table(columns)


def read_whole(
    data: bytes, kind: str, algebra: type[Kind], *more: str
) -> tuple[dict[str, Any], Segment, Kind]:
    """Of a matrix's bytes: parameters (their values are not checked), segment and its algebra.

    Raises
    ------
    CorruptSummary
        Not what a matrix writes.
    """
    parameters, body = unseal(data, kind)
    if set(parameters) != {"columns", "keys", *more}:
        raise CorruptSummary(f"{kind}: parameters {sorted(parameters)!r:.500}")
    whole = decode(body)
    if not isinstance(whole.algebra, algebra) or whole.limit is not None:
        raise CorruptSummary(f"{kind}: the body is another kind of segment")
    return parameters, whole, whole.algebra


def check_whole(whole: Segment, keys: Sequence[Key], kinds: Any) -> dict[str, Any]:
    """The types of key columns, where they, and all else, fit the keys; CorruptSummary.

    The first key has a table wherever there are events.
    """
    kind = whole.algebra.kind
    if (
        not isinstance(kinds, dict)
        or set(kinds) != {name for key in keys for name in key}
        or not all(one is None or (isinstance(one, str) and one in TYPES) for one in kinds.values())
    ):
        raise CorruptSummary(f"{kind}: key columns of types {kinds!r:.200}")
    if whole.slices.any() or len(whole.slices) > 1:
        raise CorruptSummary(f"{kind}: the body has slices")
    names = [table.name(whole.algebra) for table in whole.tables]
    there = [key for key in keys if key in names]
    if names != there or (names[:1] != [*keys[:1]]) == bool(len(whole.slices)):
        raise CorruptSummary(f"{kind}: the body has tables of other keys")
    for table in whole.tables:
        if not table.by and int(table.events.sum()) != whole.count:
            raise CorruptSummary(f"{kind}: its total is not that of all events")
        named = table.dictionaries[-1]
        for name, one in zip(named.names, named.kinds, strict=True):
            if one not in (None, kinds[name]):
                raise CorruptSummary(f"{kind}: key column {name!r:.100} is {one}")
    return kinds
