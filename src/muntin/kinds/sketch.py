"""What the sketched kinds share: nulls that are counted, one summary a key (`by`), weights."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from muntin.arrow import decoded, pc, value_type
from muntin.kinds.base import Column, SegmentSpec, as_tuple, check_answered, distinct
from muntin.kinds.columns import check_item, check_keys, check_number
from muntin.kinds.values import Refused, below_zero, refused_sketches
from muntin.segments.columns import numbers
from muntin.segments.merged import MergedDistinct, MergedQuantiles
from muntin.segments.nulls import counts_of
from muntin.segments.table import Segment

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
        nulls = sum(int(numbers(table.states["nulls"]).sum()) for table in segment.tables)
        return {**self.error_of(segment), "nulls": nulls}

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

    def parameters(self) -> dict[str, Any]:
        """Of each key's summary, as `stored_as` and SELECT tell them."""
        merge = getattr(self, "merge", None)
        return {**self.algebra().parameters(), **({"merge": merge} if merge else {})}

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
        other = sum(int(counts_of(table)[table.is_rest()].sum()) for table in segment.tables)
        return {**bounds, **self.fill(segment), "other": other}

    def fill(self, segment: Segment) -> dict[str, int]:
        if not self.by:
            return super().fill(segment)
        there = [t.key[(counts_of(t) > 0) & ~t.is_rest()] for t in segment.tables]
        return {"keys": sum(int(np.count_nonzero(np.bincount(key))) for key in there)}


class WeighedSpec(SplitSpec):
    """Items of a column, each counted once or by its weight."""

    item: Column = Field(description="A column of text, binary or integers; null is left out")
    weight: str | None = Field(
        default=None, description="A column of whole numbers of at least 0; null is left out"
    )

    @model_validator(mode="after")
    def _weighs_another(self) -> Self:
        if self.item == self.weight:
            raise ValueError(f"'{self.item}' cannot be both item and weight")
        if self.weight in self.by:
            raise ValueError(f"'{self.weight}' cannot be both weight and by")
        return self

    def value_columns(self) -> Sequence[str]:
        return [self.item] if self.weight is None else [self.item, self.weight]

    def text_columns(self) -> Sequence[str]:
        return [name for name in self.columns() if name != self.weight]

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        super().check_types(types)
        check_item(self.item, types[self.item])
        if self.weight is not None:
            check_number(self.weight, types[self.weight], "weight", whole=True)

    def proven(self, segment: Segment) -> bool:
        """No item was let go, and no key is among the others."""
        bounds = self.bounds(segment)
        return bounds["error"] == 0 and not bounds.get("other")

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        yield from super().refused(batch)
        if self.weight is not None:
            mask = below_zero(batch.column(self.weight))
            if mask is not None:
                yield self.weight, mask, "is a weight below 0: take a field, greatest(…, 0)"

    def prepared(self, name: str, column: Any) -> Any:
        if name != self.weight:  # of all integers one type; those beyond it are rejected
            unsigned = pa.types.is_unsigned_integer(value_type(column.type))
            return decoded(column).cast(pa.int64()) if unsigned else column
        return pc.cast(column, pa.int64())
