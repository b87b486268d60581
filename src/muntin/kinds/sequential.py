"""Kinds whose summaries need the events in order of time, and follow the whole stream.

They have no panes and no windows. The items are dealt out to shards; what a shard carries from
batch to batch is its state, which the ledger keeps and a batch commits together with its partials.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Protocol, Self

import pyarrow as pa
from pydantic import Field, field_validator

from muntin.errors import BadArgument
from muntin.kinds.base import SummarySpec

SHARDS_MAX = 256


class ShardState(Protocol):
    """One shard of a sequential summary."""

    def update(
        self, items: Any, times: Any, *, until: int, late_before: int, nulls: int = 0
    ) -> None:
        """Take events in any order; fold those before `until`, which no later batch may have."""
        ...

    def copy(self) -> Self: ...
    def to_bytes(self) -> bytes: ...

    @property
    def first_held(self) -> int | None:
        """Time of the first event that waits to be folded."""
        ...

    @property
    def late(self) -> int: ...

    @property
    def nulls(self) -> int: ...

    @property
    def span(self) -> tuple[int, int] | None:
        """Times of its first and last event."""
        ...


class SequentialSpec(SummarySpec):
    """A sequential kind's entry in the pipeline file."""

    shards: int = Field(default=4, ge=1, le=SHARDS_MAX, description="Parts of the items")

    sequential: ClassVar[bool] = True
    is_exact: ClassVar[bool] = False

    @field_validator("window")
    @classmethod
    def _no_window(cls, value: Any) -> Any:
        if value is not None:
            raise ValueError(
                "this kind follows the whole stream in order of time and has no windows: "
                "leave `window` out"
            )
        return value

    @abstractmethod
    def items(self, batch: pa.RecordBatch) -> pa.Array:
        """The item of each row, as text or int64; null where there is none."""

    @abstractmethod
    def new_shard(self, shard: int) -> ShardState:
        """A shard before its first event."""

    @abstractmethod
    def read_shard(self, payload: bytes) -> ShardState:
        """A shard from its bytes; CorruptSummary."""

    @abstractmethod
    def differs(self, state: Any) -> str:
        """What of a stored state this entry does not go on with, or ""."""

    @abstractmethod
    def answering(self, states: Sequence[Any]) -> Any:
        """What SELECT asks: all events of the shards, in order."""

    @abstractmethod
    def bounds_of(self, states: Sequence[Any]) -> Mapping[str, Any]:
        """What is known about the error of answers."""

    # A pane never holds such a summary

    def new(self) -> NoReturn:
        raise BadArgument(f"kind {self.kind} follows the whole stream: a pane has none of it")

    def update(self, summary: Any, batch: pa.RecordBatch) -> NoReturn:  # noqa: ARG002
        self.new()

    def read(self, payload: bytes) -> NoReturn:  # noqa: ARG002
        self.new()
