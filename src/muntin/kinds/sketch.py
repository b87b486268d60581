"""What the sketched kinds share: nulls that are counted, and one summary for each key (`by`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from muntin.kinds.base import SegmentSpec, as_tuple, check_answered, distinct
from muntin.kinds.columns import check_keys
from muntin.kinds.values import Refused, refused_sketches
from muntin.segments.merged import MergedDistinct, MergedQuantiles
from muntin.segments.table import Segment, Table

MERGED = MergedDistinct, MergedQuantiles
LIMIT = 10_000
LIMIT_MAX = 1_000_000
BY_MAX = 16
_NUMBERS = ("q", "x", "rank", "value", "lower", "upper", "confidence", "n")
_ANSWERED = frozenset((*_NUMBERS, "item", "guaranteed", "complete", "other", "row", "overflow"))
"""Columns of the answers, beside which the columns of `by` stand."""


def _by(names: tuple[str, ...]) -> tuple[str, ...]:
    check_answered(names, _ANSWERED)
    return distinct(names)


By = Annotated[
    tuple[str, ...], BeforeValidator(as_tuple), Field(max_length=BY_MAX), AfterValidator(_by)
]


class SketchSpec(SegmentSpec):
    """A kind that answers within bounds; events without a value are counted as nulls."""

    is_exact: ClassVar[bool] = False

    def bounds(self, segment: Segment) -> Mapping[str, Any]:
        return {**self.error_of(segment), "nulls": nulls_of(segment)}

    @abstractmethod
    def error_of(self, segment: Segment) -> Mapping[str, Any]:
        """What is known about the error of each answer."""


class SplitSpec(SketchSpec):
    """A kind that can be split by columns: one summary for each of a bounded number of keys."""

    by: By = Field(default=(), description="Columns: one summary for each of their values")
    limit: int = Field(
        default=LIMIT, ge=1, le=LIMIT_MAX, description="Keys that are kept; the rest is `other`"
    )

    @model_validator(mode="after")
    def _limits_keys(self) -> Self:
        if "limit" in self.model_fields_set and not self.by:
            raise ValueError("`limit` goes with `by`: it bounds the number of keys")
        return self

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Of each key's summary, as `stored_as` and SELECT tell them."""

    @abstractmethod
    def value_columns(self) -> Sequence[str]:
        """Columns that go into each key's summary, in the order of the algebra's `fold`."""

    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.by, *self.value_columns()]))

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        check_keys(self.by, types, "by")

    def tables(self) -> Sequence[tuple[str, ...]]:
        return (self.by,)

    @property
    def keys_max(self) -> int | None:
        return self.limit if self.by else None

    def sketch_columns(self) -> Sequence[str]:
        return self.value_columns() if isinstance(self.algebra(), MERGED) else []

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        yield from super().refused(batch)
        algebra = self.algebra()
        if isinstance(algebra, MERGED):
            for name in self.value_columns():
                yield from refused_sketches(batch, name, algebra.read)

    def values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [self.prepared(name, batch.column(name)) for name in self.value_columns()]

    def prepared(self, name: str, column: pa.Array) -> pa.Array:  # noqa: ARG002
        """A column as the summary takes it."""
        return column

    def stored_as(self) -> Mapping[str, Any]:
        limit = {"limit": self.limit} if self.by else {}
        read = {entry: getattr(self, entry, None) for entry in ("value", "item", "weight")}
        return {"by": list(self.by), **limit, **read, **self.parameters()}

    def asked(self) -> dict[str, Any]:
        return {"by": self.by, "parameters": self.parameters()}

    def bounds(self, segment: Segment) -> Mapping[str, Any]:
        bounds = super().bounds(segment)
        if not self.by:
            return bounds
        keys = other = 0
        for table in segment.tables:
            rest, values = table.is_rest(), _values(table)
            keys += int((values[~rest] > 0).sum())
            other += int(values[rest].sum())
        return {**bounds, "keys": keys, "other": other}

    def fill(self, segment: Segment) -> dict[str, int]:
        if not self.by:
            return super().fill(segment)
        return {"keys": sum(int((_values(t)[~t.is_rest()] > 0).sum()) for t in segment.tables)}


def _values(table: Table) -> np.ndarray:
    """Events with a value of each row: int64[rows]."""
    nulls = table.states.get("nulls")
    return table.events - nulls if isinstance(nulls, np.ndarray) else table.events


def nulls_of(segment: Segment) -> int:
    """Events without a value."""
    counts = [table.states.get("nulls") for table in segment.tables]
    return sum(int(column.sum()) for column in counts if isinstance(column, np.ndarray))
