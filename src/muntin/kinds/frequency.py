"""How often each item was there: a Count-Min sketch, for all events or for each key."""

import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from muntin.kinds.sketch import WeighedSpec
from muntin.segments.algebra import Algebra
from muntin.segments.frequency import Frequency
from muntin.segments.table import Segment
from muntin.summaries.count_min import CELLS_MAX, DEPTH_MAX, TRACK_MAX, size_for

WIDTH, DEPTH = 2048, 5


class FrequencySpec(WeighedSpec):
    """`kind: frequency`: how often, or with which weight, each item was there."""

    kind: Literal["frequency"] = "frequency"  # pyright: ignore[reportIncompatibleVariableOverride]
    width: int | None = Field(default=None, ge=2, le=CELLS_MAX, description="Default 2048")
    depth: int | None = Field(default=None, ge=1, le=DEPTH_MAX, description="Default 5")
    epsilon: float | None = Field(
        default=None, gt=0, lt=1, description="Error, as a share of the total weight"
    )
    delta: float | None = Field(
        default=None, gt=0, lt=1, description="Probability that one answer is further off"
    )
    conservative: bool = False
    track: int = Field(
        default=100, ge=0, le=TRACK_MAX, description="Heaviest items kept for top_k; 0: none"
    )

    @model_validator(mode="after")
    def _has_one_size(self) -> Self:
        if (self.epsilon is None) != (self.delta is None):
            raise ValueError("`epsilon` and `delta` go together")
        if self.epsilon is not None and (self.width is not None or self.depth is not None):
            raise ValueError("give `width` and `depth`, or `epsilon` and `delta`, not both")
        width, depth = self._size()
        if depth > DEPTH_MAX:
            raise ValueError(f"`delta` {self.delta} needs a depth of {depth}: {DEPTH_MAX} at most")
        if width * depth > CELLS_MAX:
            raise ValueError(
                f"{width} x {depth} cells are too many: at most {CELLS_MAX:,} are allowed"
            )
        return self

    def _size(self) -> tuple[int, int]:
        if self.epsilon is None or self.delta is None:
            return self.width or WIDTH, self.depth or DEPTH
        return size_for(self.epsilon, self.delta)

    def algebra(self) -> Algebra:
        return Frequency(*self._size(), self.conservative, self.track)

    def error_of(self, segment: Segment) -> Mapping[str, Any]:
        algebra = segment.algebra
        assert isinstance(algebra, Frequency)  # noqa: S101 (who reads it has its spec)
        error = max((algebra.error_max(table) for table in segment.tables), default=0)
        return {
            "error": error,
            "relative": math.e / algebra.width,
            "confidence": algebra.confidence if error else 1.0,
        }
