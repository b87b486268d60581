"""Closed windows, or sealed panes, as rows with the bytes of a sketch: one a key.

=========== ===================== =============================================================
start, end  timestamp[us, UTC]    of the window or pane
revision    int64                 of the window; of a pane, how many events came late
events      int64                 of all keys
late        int64                 of them, those that came after their pane was sealed
(by)        as the key columns    null in the row of `other`, and where the key is
other       bool                  the row of all keys beyond the summary's `limit`
count       int64                 events of the key; of quantiles, the values of the sketch
nulls       int64                 events of the key without a value, which are not in the sketch
sketch      binary                Apache DataSketches' bytes
=========== ===================== =============================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument
from muntin.segments.exchange import sketch_bytes
from muntin.segments.keys import TYPES
from muntin.segments.nulls import counts_of
from muntin.segments.quantiles import Quantiles
from muntin.segments.table import Segment

BATCH_BYTES = 16 << 20  # of the sketches of one record batch
MOMENT = pa.timestamp("us", "UTC")


def _schema(**kinds: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


HEAD = _schema(start=MOMENT, end=MOMENT, revision=pa.int64(), events=pa.int64(), late=pa.int64())
TAIL = _schema(other=pa.bool_(), count=pa.int64(), nulls=pa.int64(), sketch=pa.binary())
_PLAIN = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.null(): pa.string()}


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A segment, and what its slices are: rows that go out together."""

    segment: Segment
    spans: np.ndarray  # a row for each slice of the segment: int64[n, 5], the columns of `HEAD`


def schema_of(by: Sequence[str], segments: Sequence[Segment]) -> pa.Schema:
    """The columns, with the types that these segments have of the key columns."""
    for name in by:
        if name.lower() in {*HEAD.names, *TAIL.names}:
            raise BadArgument(
                f"key column '{name}' is a column of the export too: give it another name under "
                "fields"
            )
    kinds = {name: pa.null() for name in by}
    for table in chain.from_iterable(segment.tables for segment in segments):
        for name, kind in zip(table.by, table.keys.kinds, strict=True):
            if kind is not None:
                kinds[name] = TYPES[kind]
    keys = [pa.field(name, _PLAIN.get(kind, kind)) for name, kind in kinds.items()]
    return pa.schema([*HEAD, *keys, *TAIL])


def batches(unit: Unit, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a unit, some MB at a time."""
    segment = unit.segment
    for table in segment.tables:
        slices = np.searchsorted(segment.slices, table.slice_of_row)
        nulls = table.states["nulls"]
        counts = counts_of(table)
        if isinstance(segment.algebra, Quantiles):
            counts = segment.algebra.counts(table)
        named = dict(zip(table.by, table.key_arrays(), strict=True))
        columns = [
            *unit.spans[slices].T,
            *(named[name] for name in schema.names[len(HEAD) : -len(TAIL)]),
            table.is_rest(),
            counts,
            nulls if isinstance(nulls, np.ndarray) else np.zeros(len(table), np.int64),
        ]
        first = 0
        for sketches in _cut(sketch_bytes(segment.algebra, table)):
            last = first + len(sketches)
            arrays = [column[first:last] for column in columns]
            yield pa.RecordBatch.from_arrays(
                [
                    _array(column, field.type)
                    for column, field in zip([*arrays, sketches], schema, strict=True)
                ],
                schema=schema,
            )
            first = last


def _cut(sketches: Iterator[bytes]) -> Iterator[list[bytes]]:
    """In lists of about `BATCH_BYTES`."""
    part: list[bytes] = []
    size = 0
    for sketch in sketches:
        part.append(sketch)
        size += len(sketch)
        if size >= BATCH_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.Array):
        return column.cast(kind)
    if kind == MOMENT:
        return pa.array(column, pa.int64()).cast(MOMENT)
    return pa.array(column, kind)
