"""Sums per key and key combination: exact, or sketched in fixed memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from muntin import summaries
from muntin.errors import BadArgument
from muntin.kinds.base import Strict, SummarySpec
from muntin.kinds.columns import check_keys, check_number, is_numeric

if TYPE_CHECKING:
    from muntin.summaries import SketchedMatrix, VectorMatrix

    Matrix = VectorMatrix | SketchedMatrix

IndicatorType = Literal["int64", "float64"]


def _as_key(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _as_types(value: Any) -> Any:
    return dict.fromkeys(value) if isinstance(value, list | tuple) else value


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in values:
        if values.count(value) > 1:
            shown = value if isinstance(value, str) else ", ".join(value)
            raise ValueError(f"'{shown}' stands twice")
    return values


Key = Annotated[
    tuple[str, ...], BeforeValidator(_as_key), Field(min_length=1), AfterValidator(_distinct)
]


CELLS_MAX = 1 << 28
DEPTH_MAX = 32
TRACK_MAX = 1 << 20


class SketchSize(Strict):
    """`sketch:`: Count-Min rows instead of exact ones; one sketch of vectors for each key."""

    width: int = Field(default=2048, ge=2, le=CELLS_MAX)
    depth: int = Field(default=4, ge=1, le=DEPTH_MAX)
    track: int = Field(
        default=1000, ge=1, le=TRACK_MAX, description="Heaviest values that SELECT lists per key"
    )


class VectorMatrixSpec(SummarySpec):
    """`kind: vector_matrix`: sums of indicators per key and key combination, exact by default."""

    kind: Literal["vector_matrix"] = "vector_matrix"  # pyright: ignore[reportIncompatibleVariableOverride]
    keys: Annotated[tuple[Key, ...], Field(min_length=1), AfterValidator(_distinct)]
    indicators: Annotated[dict[str, IndicatorType | None], BeforeValidator(_as_types)] = Field(
        default_factory=dict, description="Numeric columns, as a list or as name: int64 | float64"
    )
    capacity: int | None = Field(
        default=None, ge=1, description="Rows a floating window may hold per key"
    )
    sketch: SketchSize | None = Field(
        default=None, description="Upper bounds in fixed memory instead of exact sums"
    )

    summary_class_name = "VectorMatrix"

    @model_validator(mode="after")
    def _sketch_fits(self) -> Self:
        if self.sketch is None:
            return self
        if self.capacity is not None:
            raise ValueError("`capacity` goes with exact rows; a sketch never grows")
        cells = self.sketch.width * self.sketch.depth * (1 + len(self.indicators)) * len(self.keys)
        if cells > CELLS_MAX:
            raise ValueError(
                f"`sketch` of {cells:,} cells over all keys and indicators is too large: "
                f"at most {CELLS_MAX:,} are held"
            )
        names = {name for key in self.keys for name in key} | set(self.indicators)
        for name in ("count", *self.indicators):
            if f"{name}_lower" in names:
                raise ValueError(
                    f"'{name}_lower' names the lower bounds of '{name}': rename it under fields"
                )
        return self

    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([c for key in self.keys for c in key] + list(self.indicators)))

    def text_columns(self) -> Sequence[str]:
        return [column for column in self.columns() if column not in self.indicators]

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        for name, kind in self.indicators.items():
            if kind == "int64":
                check_number(name, types[name], "indicator", whole=True)
            if not is_numeric(types[name]):
                raise BadArgument(
                    f"indicator '{name}' is {types[name]}, and sums need numbers: "
                    f"cast it under fields, for example  {name}: CAST({name} AS BIGINT)"
                )
        check_keys((column for key in self.keys for column in key), types)

    def float_columns(self) -> Sequence[str]:
        return [name for name, kind in self.indicators.items() if kind == "float64"]

    def new(self) -> Matrix:
        if self.sketch is None:
            return summaries.VectorMatrix(list(self.keys), dict(self.indicators), self.capacity)
        return summaries.SketchedMatrix(
            list(self.keys), dict(self.indicators), **self.sketch.model_dump()
        )

    def update(self, summary: Matrix, batch: pa.RecordBatch) -> None:
        summary.update(batch)

    def asked(self) -> dict[str, Any]:
        return {
            "keys": self.keys,
            "indicators": tuple(self.indicators),
            "sketched": self.sketch is not None,
        }

    def stored_as(self) -> Mapping[str, Any]:
        """Exact rows take new keys and indicators; a sketch stays as it is."""
        if self.sketch is None:
            return {}
        return {
            "sketch": self.sketch.model_dump(),
            "keys": [list(key) for key in self.keys],
            "indicators": list(self.indicators),
        }

    def bounds(self, summary: Matrix) -> Mapping[str, Any]:  # noqa: ARG002
        if self.sketch is None:
            return {}
        return {
            "relative": math.e / self.sketch.width,
            "confidence": -math.expm1(-self.sketch.depth),
        }

    def uncounted(self, summary: Matrix) -> Mapping[str | tuple[str, ...], int]:
        if not isinstance(summary, summaries.VectorMatrix):  # a sketch stays as it is
            return {}
        lacking = summary.uncounted()
        there = {*summary.keys, *summary.indicators}
        never = [part for part in (*self.keys, *self.indicators) if part not in there]
        return {part: events for part, events in lacking.items() if events} | (
            dict.fromkeys(never, summary.count) if summary.count else {}
        )

    def provisional(self, summary: Any) -> bytes | None:
        return summary.to_numbered_bytes() if self.sketch is None else None

    def read(self, payload: bytes) -> Matrix:
        return self._class().from_bytes(payload)

    def can_subtract(self, summary: Any) -> bool:
        """Integers can; of float sums, rounding would stay behind."""
        return self.sketch is None and "float64" not in summary.indicators.values()

    def merged(self, parts: Sequence[Any]) -> Matrix:
        return self._class().merged(parts)

    def _class(self) -> Any:
        return summaries.VectorMatrix if self.sketch is None else summaries.SketchedMatrix

    def fill(self, summary: Matrix) -> dict[str, int]:
        return {", ".join(key): rows for key, rows in summary.rows().items()}

    def fill_after(self, summary: Any, other: Any) -> dict[str, int]:
        if self.sketch is not None:
            return self.fill(self.merged([summary, other]))
        return {", ".join(key): rows for key, rows in summary.rows_after(other).items()}

    @property
    def window_capacity(self) -> int | None:
        return self.capacity
