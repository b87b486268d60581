"""What the pipeline must know of a kind of summary, and nothing more.

A kind is one file here: its entry in the pipeline file, the columns that it reads, how a batch
updates it, and how full it is. Everything else (windows, ledger, rollups) treats all kinds alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from muntin.errors import BadArgument
from muntin.kinds.values import Refused, refused_values
from muntin.times import duration_or_zero_us, duration_us

STORED = "stored"
"""Validation context of what a ledger holds, where durations are numbers of microseconds."""


def _duration(value: Any, info: ValidationInfo) -> int:
    if info.context == STORED and isinstance(value, int):
        return value
    return duration_us(value)


def _duration_or_zero(value: Any, info: ValidationInfo) -> int:
    if info.context == STORED and isinstance(value, int):
        return value
    return duration_or_zero_us(value)


Microseconds = Annotated[int, BeforeValidator(_duration)]
MicrosecondsOrZero = Annotated[int, BeforeValidator(_duration_or_zero)]


class Strict(BaseModel):
    """A part of a pipeline file: unknown entries are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WindowSpec(Strict):
    """How a summary's windows close.

    floating: after `length`, or before a key would pass the capacity; `slow_down` may lengthen it
    up to `limit` (default 8 x length). tumbling: each `length`. sliding: `length`, each `every`.
    """

    kind: Literal["floating", "tumbling", "sliding"] = "floating"
    length: Microseconds
    every: Microseconds | None = None
    limit: Microseconds | None = None

    @model_validator(mode="after")
    def _fits(self) -> WindowSpec:
        if (self.kind == "sliding") != (self.every is not None):
            raise ValueError("`every` goes with kind: sliding, and only with it")
        if self.limit is not None and self.kind != "floating":
            raise ValueError("`limit` goes with kind: floating")
        if self.limit is not None and self.limit < self.length:
            raise ValueError("`limit` must not be below `length`")
        if self.every is not None and self.every > self.length:
            raise ValueError("`every` must not be above `length`: events would be left out")
        return self


class SummarySpec(Strict, ABC):
    """One entry under `summaries:`; each kind adds its own parameters."""

    kind: str
    """Each kind narrows it to its own name."""
    window: WindowSpec | None = Field(default=None, description="How windows close; none: ad hoc")

    summary_class_name: ClassVar[str]
    sequential: ClassVar[bool] = False
    is_exact: ClassVar[bool] = True
    """Whether what is asked of the whole (no row of a sketch) is exact."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Columns of the source, or fields, that the summary reads."""

    def text_columns(self) -> Sequence[str]:
        """Those of columns() that may hold text; the others are numbers."""
        return ()

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        """Raise BadArgument where a column's type cannot be used; types hold all columns()."""

    def float_columns(self) -> Sequence[str]:
        """Those of columns() whose numbers are summed up or ranked as floats."""
        return ()

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        """Rows that are to be rejected: their values cannot be taken, whatever their type."""
        yield from refused_values(batch, self.columns(), self.float_columns())

    @abstractmethod
    def new(self) -> Any:
        """An empty summary."""

    @abstractmethod
    def update(self, summary: Any, batch: pa.RecordBatch) -> None:
        """Count a batch, which has at least columns()."""

    def provisional(self, summary: Any) -> bytes | None:  # noqa: ARG002
        """Bytes that are much faster to make than `to_bytes`, not canonical; None: there are none.

        `read` reads them too; compaction replaces them.
        """
        return None

    @abstractmethod
    def read(self, payload: bytes) -> Any:
        """A summary from its bytes; CorruptSummary."""

    def asked(self) -> dict[str, Any]:
        """What SELECT must know of it: entries of `SummaryInfo`."""
        return {}

    def stored_as(self) -> Mapping[str, Any]:
        """Entries that what is stored was made with: summaries of others do not merge."""
        return {}

    def bounds(self, summary: Any) -> Mapping[str, Any]:  # noqa: ARG002
        """What is known about the error of answers: entries of `Result.bounds`."""
        return {}

    def uncounted(self, summary: Any) -> Mapping[str | tuple[str, ...], int]:  # noqa: ARG002
        """Events that a key or an indicator has not counted, where that is not 0."""
        return {}

    def merged(self, parts: Sequence[Any]) -> Any:
        """One new summary of all parts, which stay as they are; at least one is given."""
        whole = parts[0].copy()
        for other in parts[1:]:
            whole.merge(other)
        return whole

    def merge_into(self, summary: Any, other: Any) -> None:
        """Merge `other` into `summary`, which changes."""
        summary.merge(other)

    def can_subtract(self, summary: Any) -> bool:  # noqa: ARG002
        """Whether `summary.subtract` leaves exactly what merging the other parts would give."""
        return False

    def fill(self, summary: Any) -> dict[str, int]:
        """How full the summary is, by name of what can be full."""
        return {"events": summary.count}

    def fill_after(self, summary: Any, other: Any) -> dict[str, int]:  # noqa: ARG002
        """The fill that merging `other` would give, without merging."""
        raise BadArgument(f"kind {self.kind} has no capacity, so its windows cannot float on it")

    @property
    def window_capacity(self) -> int | None:
        """Rows a floating window may hold."""
        return None
