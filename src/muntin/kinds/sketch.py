"""What the sketched kinds share: nulls that are counted, and one summary for each key (`by`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from muntin import summaries
from muntin.kinds.base import SummarySpec
from muntin.kinds.columns import check_keys, without_views

LIMIT = 10_000
LIMIT_MAX = 1_000_000
BY_MAX = 16
_NUMBERS = ("q", "x", "rank", "value", "lower", "upper", "confidence", "n")
_ANSWERED = frozenset((*_NUMBERS, "item", "guaranteed", "complete", "other"))
"""Columns of the answers, beside which the columns of `by` stand."""


def as_tuple(value: Any) -> Any:
    """One name stands for a list of one."""
    return (value,) if isinstance(value, str) else value


def _by(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"'{name}' stands twice")
        if name.lower() in _ANSWERED:
            raise ValueError(
                f"'{name}' is a column of the answers too: give it another name under fields"
            )
    return names


By = Annotated[
    tuple[str, ...], BeforeValidator(as_tuple), Field(max_length=BY_MAX), AfterValidator(_by)
]


class SketchSpec(SummarySpec):
    """A kind whose summary is a `WithNulls`; each kind says of what."""

    is_exact: ClassVar[bool] = False

    def read(self, payload: bytes) -> summaries.WithNulls:
        return summaries.WithNulls.from_bytes(payload)

    def merged(self, parts: Sequence[summaries.WithNulls]) -> summaries.WithNulls:
        return summaries.WithNulls.merged(parts)

    def bounds(self, summary: summaries.WithNulls) -> Mapping[str, Any]:
        return {**self.inner_bounds(summary.inner), "nulls": summary.nulls}

    @abstractmethod
    def inner_bounds(self, inner: Any) -> Mapping[str, Any]:
        """What is known about the error of the summary within."""

    def fill_after(self, summary: Any, other: Any) -> dict[str, int]:
        return {"events": summary.count + other.count}


class SplitSpec(SketchSpec):
    """A kind that can be split by columns: one summary for each of a bounded number of keys."""

    by: By = Field(default=(), description="Columns: one summary for each of their values")
    limit: int = Field(
        default=LIMIT, ge=1, le=LIMIT_MAX, description="Keys that are kept; the rest is `other`"
    )

    inner_kind: ClassVar[str]
    """Of each key's summary, in the payload's words."""

    @model_validator(mode="after")
    def _limits_keys(self) -> Self:
        if "limit" in self.model_fields_set and not self.by:
            raise ValueError("`limit` goes with `by`: it bounds the number of keys")
        return self

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Of each key's summary: arguments of its constructor."""

    @abstractmethod
    def value_columns(self) -> Sequence[str]:
        """Columns that go into each key's summary, in the order of its `update`."""

    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.by, *self.value_columns()]))

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        check_keys(self.by, types, "by")

    def new(self) -> summaries.WithNulls:
        if not self.by:
            return summaries.WithNulls(self._of_one_key())
        keyed = summaries.Keyed(self.inner_kind, self.parameters(), self.by, self.limit)
        return summaries.WithNulls(keyed)

    def _of_one_key(self) -> Any:
        return getattr(summaries, self.summary_class_name)(**self.parameters())

    def update(self, summary: summaries.WithNulls, batch: pa.RecordBatch) -> None:
        batch = without_views(batch, self.columns())
        values = [self.prepared(name, batch.column(name)) for name in self.value_columns()]
        summary.update(*values, by=batch.select(list(self.by)) if self.by else None)

    def prepared(self, name: str, column: pa.Array) -> pa.Array:  # noqa: ARG002
        """A column as the summary takes it."""
        return column

    def stored_as(self) -> Mapping[str, Any]:
        limit = {"limit": self.limit} if self.by else {}
        return {"by": list(self.by), **limit, **self.parameters()}

    def asked(self) -> dict[str, Any]:
        return {"by": self.by, "parameters": self.parameters()}

    def inner_bounds(self, inner: Any) -> Mapping[str, Any]:
        if not self.by:
            return self.bounds_of([inner])
        other = 0 if inner.other is None else inner.other.count
        bounds = self.bounds_of(inner.summaries() or [self._of_one_key()])
        return {**bounds, "keys": len(inner), "other": other}

    @abstractmethod
    def bounds_of(self, parts: Sequence[Any]) -> Mapping[str, Any]:
        """The error that holds for each of these summaries; at least one is given."""

    def fill(self, summary: summaries.WithNulls) -> dict[str, int]:
        return {"keys": len(summary.inner)} if self.by else {"events": summary.count}

    def fill_after(self, summary: Any, other: Any) -> dict[str, int]:
        if not self.by:
            return super().fill_after(summary, other)
        both = {key for keyed in (summary.inner, other.inner) for key, _ in keyed.items()}
        return {"keys": min(len(both), self.limit)}
