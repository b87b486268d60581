"""The heaviest items: Space-Saving, for all events or for each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from muntin.kinds.weighed import WeighedSpec

CAPACITY_MAX = 1 << 24


class TopKSpec(WeighedSpec):
    """`kind: top_k`: the items that are there most often, or with the most weight."""

    kind: Literal["top_k"] = "top_k"  # pyright: ignore[reportIncompatibleVariableOverride]
    capacity: int = Field(
        default=1000, ge=1, le=CAPACITY_MAX, description="Error is total / (capacity + 1)"
    )

    summary_class_name = "SpaceSaving"
    inner_kind = "space_saving"

    def parameters(self) -> dict[str, Any]:
        return {"capacity": self.capacity}

    def bounds_of(self, parts: Sequence[Any]) -> Mapping[str, Any]:
        return {
            "error": max(heavy.offset for heavy in parts),
            "relative": 1 / (self.capacity + 1),
            "confidence": 1.0,
        }
