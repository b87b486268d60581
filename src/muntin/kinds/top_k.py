"""The heaviest items: Space-Saving, for all events or for each key."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from muntin.kinds.sketch import WeighedSpec
from muntin.segments.algebra import Algebra
from muntin.segments.columns import numbers
from muntin.segments.table import Segment
from muntin.segments.top_k import TopItems
from muntin.summaries.space_saving import CAPACITY_MAX


class TopKSpec(WeighedSpec):
    """`kind: top_k`: the items that are there most often, or with the most weight."""

    kind: Literal["top_k"] = "top_k"  # pyright: ignore[reportIncompatibleVariableOverride]
    capacity: int = Field(
        default=1000, ge=1, le=CAPACITY_MAX, description="Error is total / 2 / (capacity + 1)"
    )

    def algebra(self) -> Algebra:
        return TopItems(self.capacity)

    def error_of(self, segment: Segment) -> Mapping[str, Any]:
        offsets = [numbers(table.states["offset"]) for table in segment.tables]
        widest = max((int(o.max(initial=0)) for o in offsets), default=0)
        return {
            "error": (widest + 1) // 2,  # of its middle
            "relative": 1 / (2 * (self.capacity + 1)),
            "confidence": 1.0,
        }
