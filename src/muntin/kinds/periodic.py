"""Items that come back in batches at a steady interval: HyperCalm, sharded by item.

It needs the events in order of time and follows the whole stream: it has no panes and no windows.
What a shard carries from batch to batch is its state, which the ledger keeps and a batch commits
together with its partials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ByteSize,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from muntin import summaries
from muntin.arrow import decoded, is_text, pc, value_type
from muntin.errors import BadArgument
from muntin.kinds.base import Microseconds, SummarySpec, as_tuple, check_answered, distinct
from muntin.kinds.columns import is_whole
from muntin.kinds.values import Refused
from muntin.summaries.items import micros
from muntin.times import duration_text, rounded_text

_SIZE = TypeAdapter(ByteSize)


def size_bytes(value: Any) -> int:
    """Bytes of "100 KB" (100,000), "64 KiB" (65,536), "2 MB" or of a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(_SIZE.validate_python(value, strict=True))
    except ValidationError:
        raise ValueError(
            f"{value!r} is not an amount of memory: write for example '100 KB'"
        ) from None


Bytes = Annotated[int, BeforeValidator(size_bytes)]


if TYPE_CHECKING:
    from muntin.summaries import HyperCalm, PeriodicShard

SEPARATOR = "\x1f"  # between the parts of an item of several columns: ASCII's unit separator
K_MAX = 100_000
COLUMNS_MAX = 16
SHARDS_MAX = 256
MEMORY_BYTES_MAX = 1 << 34
_ANSWERED = frozenset((
    "item", "interval", "periodicity", "lower", "upper", "next_expected", "last_batch",
    "first_seen", "interval_low", "interval_high",
))  # fmt: skip
"""Columns of the answers, beside which those of a joined item stand."""
_KEPT = (
    "gap", "interval_unit", "resolution", "memory", "k", "consecutive", "batch_size", "item_bytes",
)  # fmt: skip
"""Parameters without which the state of a shard is not gone on with."""


ItemColumns = Annotated[
    tuple[str, ...],
    BeforeValidator(as_tuple),
    Field(min_length=1, max_length=COLUMNS_MAX),
    AfterValidator(distinct),
]


class PeriodicSpec(SummarySpec):
    """`kind: periodic`: items that come in batches at a steady interval, and when next."""

    kind: Literal["periodic"] = "periodic"  # pyright: ignore[reportIncompatibleVariableOverride]
    shards: int = Field(default=4, ge=1, le=SHARDS_MAX, description="Parts of the items")
    item: ItemColumns = Field(description="A column, or several that are joined; null is left out")
    gap: Microseconds = Field(description="Longest gap inside a batch")
    interval_unit: Microseconds = Field(
        description="Intervals that differ by less than this count as equal"
    )
    resolution: Microseconds | None = Field(
        default=None, description="One tick of the clock that intervals are measured by: gap / 8192"
    )
    memory: Bytes = Field(
        default=500_000, le=MEMORY_BYTES_MAX, description="Of all shards together, e.g. 500 KB"
    )
    k: int = Field(default=100, ge=1, le=K_MAX, description="Pairs of item and interval kept")
    consecutive: bool = Field(default=False, description="Count the longest run of an interval")
    batch_size: int = Field(default=1, description="Batches of fewer events are ignored")
    item_bytes: int = Field(default=16, description="Space for each named item, on the average")

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

    @field_validator("item")
    @classmethod
    def _beside_answers(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(names) > 1:
            check_answered(names, _ANSWERED)
        return names

    @model_validator(mode="after")
    def _can_be_followed(self) -> Self:
        from muntin.summaries.hyper_calm_plan import GAP_TICKS, time_limits

        resolution = self.resolution or -(-self.gap // GAP_TICKS)
        for name, (least, most) in time_limits(self.gap, resolution).items():
            given = resolution if name == "resolution" else getattr(self, name)
            if given < least:
                text = f"too short: give at least {rounded_text(least, up=True)}"
            elif given > most:
                text = f"too long: give at most {rounded_text(most, up=False)}"
            else:
                continue
            raise ValueError(f"{name}: {duration_text(given)} is {text}")
        try:
            self._calm()
        except BadArgument as problem:
            each = f" for each of {self.shards} shards" if self.shards > 1 else ""
            raise ValueError(f"{problem}{each}") from None
        return self

    def columns(self) -> Sequence[str]:
        return self.item

    def text_columns(self) -> Sequence[str]:
        return self.item

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        for name in self.item:
            kind = value_type(types[name])
            when = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
            if not (is_text(kind) or is_whole(kind) or when or pa.types.is_decimal(kind)):
                raise BadArgument(
                    f"item '{name}' is {kind}: an item is text, a whole number, a decimal, "
                    f"a boolean, a date or a timestamp; cast it under fields"
                )

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        yield from super().refused(batch)
        for name in self.item[:-1]:  # the last one ends where the item ends
            column = decoded(batch.column(name))
            if is_text(column.type):
                mask = pc.fill_null(pc.match_substring(column, SEPARATOR), False)
                if pc.any(mask).as_py():
                    found = mask.to_numpy(zero_copy_only=False)
                    why = "holds U+001F, by which items are joined"
                    yield name, found, f"{why}: take a field, translate(…, char(31), ' ')"

    def asked(self) -> dict[str, Any]:
        return {"parts": self.item} if len(self.item) > 1 else {}

    def items(self, batch: pa.RecordBatch) -> pa.Array:
        """The item of each row, as text or int64; null where there is none."""
        columns = [decoded(batch.column(name)) for name in self.item]
        if len(columns) == 1:
            only = columns[0]
            return only.cast(pa.int64()) if pa.types.is_integer(only.type) else _text(only)
        return pc.binary_join_element_wise(*map(_text, columns), SEPARATOR)

    def new_shard(self, shard: int) -> PeriodicShard:
        """A shard before its first event."""
        return summaries.PeriodicShard(self._calm(), self.item, shard, self.shards)

    def stored_as(self) -> Mapping[str, Any]:
        ours = self._calm().parameters
        kept = {name: getattr(ours, name) for name in _KEPT}
        times = {n: duration_text(kept[n]) for n in ("gap", "interval_unit", "resolution")}
        return {"item": list(self.item), "shards": self.shards, **kept, **times}

    def bounds_of(self, states: Sequence[PeriodicShard]) -> Mapping[str, Any]:
        """What is known about the error of answers."""
        return {
            "left_out_late": sum(state.late for state in states),
            "nulls": sum(state.nulls for state in states),
            "unnamed": sum(state.unnamed for state in states),
            "k": self.k,
        }

    def _calm(self) -> HyperCalm:
        mean = self.k / self.shards  # and six deviations: the k highest fall on shards by chance
        return summaries.HyperCalm(
            self.memory // self.shards,
            self.gap,
            self.interval_unit,
            min(self.k, math.ceil(mean + 6 * math.sqrt(mean))),
            consecutive=self.consecutive,
            batch_size=self.batch_size,
            resolution=self.resolution,
            item_bytes=self.item_bytes,
        )


def _text(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):  # an instant is one item in every unit and zone
        column = micros(column).view(pa.timestamp("us", column.type.tz and "UTC"))
    if pa.types.is_decimal(column.type) and not 0 <= column.type.scale <= 6:  # Arrow writes 1E-7
        plain = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return pa.array(plain, pa.string())
    return column.cast(pa.string())
