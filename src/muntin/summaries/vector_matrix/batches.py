"""A batch of events: its columns, read and checked before any of them is counted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from muntin.arrow import floats_of_decimals
from muntin.errors import BadArgument
from muntin.segments.building import build
from muntin.segments.sums import Sums
from muntin.segments.table import Segment
from muntin.summaries.indicators import IndicatorValues, SumType, indicator_values
from muntin.summaries.key_columns import KeyKind, KeyValues, key_values
from muntin.summaries.vector_matrix.names import Key

Kinds = Mapping[str, KeyKind | None]
Indicators = Mapping[str, SumType | None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EventColumns:
    keys: Mapping[str, KeyValues]
    values: list[IndicatorValues]
    events: int


def pieces_of(batch: Any) -> list[pa.RecordBatch]:
    if isinstance(batch, pa.RecordBatch):
        return [batch]
    if isinstance(batch, pa.Table):
        return batch.to_batches() or [pa.RecordBatch.from_pylist([], batch.schema)]
    raise BadArgument(
        f"update takes a pyarrow RecordBatch or Table, not {type(batch).__name__}: "
        "convert it, e.g. with pyarrow.table(...)"
    )


def decimals_as_floats(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    for name in names:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            batch = batch.set_column(at, name, floats_of_decimals(batch.column(at)))
    return batch


def _column(batch: pa.RecordBatch, what: str, name: str) -> pa.Array:
    at = batch.schema.get_field_index(name)
    if at >= 0:
        return batch.column(at)
    names = batch.schema.names
    problem = "there more than once" if name in names else "missing"
    raise BadArgument(
        f"{what} {name!r} is {problem} in the batch, whose columns are {', '.join(names)!r:.500}"
    )


def read_batch(kinds: Kinds, indicators: Indicators, batch: pa.RecordBatch) -> EventColumns:
    """The key columns and indicators of a batch. Raises BadArgument: a column is missing, or of
    another type than it was so far."""
    keys = {name: key_values(name, _column(batch, "key column", name)) for name in kinds}
    for name, values in keys.items():
        known = kinds[name]
        if known is not None and values.kind not in (None, known):
            raise BadArgument(
                f"key column {name!r} had {known} so far, now {values.kind}; "
                "cast the column to one type before it is summarised"
            )
    values = [
        indicator_values(name, _column(batch, "indicator", name), kind)
        for name, kind in indicators.items()
    ]
    return EventColumns(keys, values, batch.num_rows)


def decided(known: Mapping[str, T], batches: Iterable[Sequence[T]]) -> dict[str, T]:
    """Types by name, as batches have them (in the order of the names) where none is known yet."""
    columns = zip(known.values(), *batches, strict=True)
    return {n: next(filter(None, c), known[n]) for n, c in zip(known, columns, strict=True)}


def built(algebra: Sums, keys: Sequence[Key], batch: pa.RecordBatch) -> Segment:
    """A batch as a segment, its sums in 128 bits."""
    columns = {name: batch.column(name) for key in keys for name in key}
    values = [batch.column(name) for name, _ in algebra.indicators]
    segment = build(algebra, np.zeros(len(batch), np.int64), values, ((), *keys), columns)
    # nothing but nulls decides no type here, and what had no value is counted in the total alone
    undecided = {
        f"{n}.{of}" for n, kind in algebra.indicators if kind is None for of in ("sum", "beyond")
    }
    tables = []
    for table in segment.tables:
        states = {
            name: None if table.by and name.endswith(".nulls") else column
            for name, column in table.states.items()
            if name not in undecided
        }
        tables.append(replace(table, states=states))
    return replace(segment, algebra=algebra, tables=tuple(tables))
