"""What the pipeline must know of a kind of summary, and nothing more.

A kind is one file here: its entry in the pipeline file, the columns that it reads, how a batch
updates it, and how full it is. Everything else (windows, ledger, rollups) treats all kinds alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from muntin.kinds.columns import without_views
from muntin.kinds.values import Refused, refused_values
from muntin.segments.algebra import Algebra
from muntin.segments.building import build
from muntin.segments.shards import SHARDS_MAX
from muntin.segments.table import Segment
from muntin.times import duration_us

STORED = "stored"
"""Validation context of what a ledger holds, where durations are numbers of microseconds."""


def _duration(value: Any, info: ValidationInfo, or_zero: bool = False) -> int:
    if info.context == STORED and isinstance(value, int):
        return value
    return duration_us(value, or_zero=or_zero)


Microseconds = Annotated[int, BeforeValidator(_duration)]
MicrosecondsOrZero = Annotated[int, BeforeValidator(partial(_duration, or_zero=True))]


def as_tuple(value: Any) -> Any:
    """One name stands for a list of one."""
    return (value,) if isinstance(value, str) else value


def _one_column(value: Any) -> Any:
    if isinstance(value, list | tuple) and value:
        joined = ", ' ', ".join(map(str, value))
        raise ValueError(
            f"takes one column: join those to one, under fields, for example  "
            f"{'_'.join(map(str, value))}: concat({joined})"
        )
    return value


Column = Annotated[str, BeforeValidator(_one_column)]


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Names, or combinations of names; ValueError where one stands twice."""
    for value in values:
        if values.count(value) > 1:
            shown = value if isinstance(value, str) else ", ".join(value)
            raise ValueError(f"'{shown}' stands twice")
    check_case(name for value in values for name in as_tuple(value))
    return values


def check_case(names: Iterable[str]) -> None:
    """ValueError where two names differ in case only, which SELECT does not tell apart."""
    known: dict[str, str] = {}
    for name in sorted(set(names)):
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(
                f"'{other}' and '{name}' differ in case only, which SELECT does not tell apart: "
                "give one of them another name under fields"
            )


def check_answered(names: Iterable[str], answered: Collection[str]) -> None:
    """ValueError where a column has the name of one of the answers', beside which it stands."""
    clash = next((name for name in names if name.lower() in answered), None)
    if clash is not None:
        raise ValueError(
            f"'{clash}' is a column of the answers too: give it another name under fields"
        )


class Strict(BaseModel):
    """A part of a pipeline file: unknown entries are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


WINDOWS_OF_EVENT_MAX = 10_080  # a week, each minute


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
        if self.every is not None and self.length > WINDOWS_OF_EVENT_MAX * self.every:
            raise ValueError(
                f"an event would be in {-(-self.length // self.every):,} windows, of at most "
                f"{WINDOWS_OF_EVENT_MAX:,}: give a longer `every`, or ask FOR LAST at any time"
            )
        return self


class SummarySpec(Strict, ABC):
    """One entry under `summaries:`; each kind adds its own parameters."""

    kind: str
    """Each kind narrows it to its own name."""
    window: WindowSpec | None = Field(default=None, description="How windows close; none: ad hoc")

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

    def sketch_columns(self) -> Sequence[str]:
        """Those of columns() that hold the bytes of sketches (`merge: column`)."""
        return ()

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        """Rows that are to be rejected: their values cannot be taken, whatever their type."""
        yield from refused_values(batch, self.columns(), self.float_columns(), self.text_columns())

    def asked(self) -> dict[str, Any]:
        """What SELECT must know of it: entries of `SummaryInfo`."""
        return {}

    def stored_as(self) -> Mapping[str, Any]:
        """Entries that what is stored was made with: summaries of others do not merge."""
        return {}

    def entry_of(self, stored: str) -> str:
        """What the pipeline's file calls an entry of `stored_as`."""
        return stored

    def proven(self, segment: Any) -> bool:  # noqa: ARG002
        """Whether all that a sketch answers of these events is proven to be the truth."""
        return False

    @property
    def window_capacity(self) -> int | None:
        """Rows a floating window may hold."""
        return None


def _power_of_two(shards: int) -> int:
    if not 2 <= shards <= SHARDS_MAX or shards & (shards - 1):
        raise ValueError(
            f"{shards} shards: give a power of two, 2 to {SHARDS_MAX}; they are cut by the first "
            "bits of a hash"
        )
    return shards


Part = str | tuple[str, ...]
"""An indicator, or a key of a vector matrix."""


class SegmentSpec(SummarySpec):
    """A kind whose states lie in segments, pane by pane."""

    shards: Annotated[int, AfterValidator(_power_of_two)] | None = Field(
        default=None, description="Keys in so many parts by hash, merged and written by executors"
    )

    @abstractmethod
    def algebra(self) -> Algebra:
        """The kind with its parameters, as segments know it."""

    @abstractmethod
    def values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """What the algebra's `fold` takes of a batch."""

    def tables(self) -> Sequence[tuple[str, ...]]:
        """The key columns of each table; () is that of all events."""
        return ((),)

    @property
    def keys_max(self) -> int | None:
        """Keys kept a slice; the rest is summarised together."""
        return None

    def segment(self, batch: pa.RecordBatch, slices: np.ndarray) -> Segment:
        """The segment of a batch of events: their slices are int64[n]."""
        batch = without_views(batch, self.columns())
        names = {name for by in self.tables() for name in by}
        columns = {name: batch.column(name) for name in sorted(names)}
        values = self.values(batch)
        return build(self.algebra(), slices, values, self.tables(), columns, self.keys_max)

    def bounds(self, segment: Segment) -> Mapping[str, Any]:  # noqa: ARG002
        """What is known about the error of answers: entries of `Result.bounds`."""
        return {}

    def lacking(
        self,
        segment: Segment,  # noqa: ARG002
        keys: Collection[tuple[str, ...]] | None = None,  # noqa: ARG002
    ) -> Mapping[Part, np.ndarray]:
        """Key or indicator -> events of each slice that it has not counted, if any: int64[slices].
        `keys`: the one that is asked for, of which an indicator is named where it lacks more than
        its key; default all, and of an indicator what no key of them has counted.
        """
        return {}

    def fill(self, segment: Segment) -> dict[str, int]:
        """How full a window is, by name of what can be full."""
        return {"events": segment.count}
