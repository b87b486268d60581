"""How many different items there were: HyperLogLog, for all events or for each key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from muntin.kinds.columns import check_item
from muntin.kinds.sketch import SplitSpec
from muntin.segments.algebra import Algebra
from muntin.segments.distinct import DistinctItems
from muntin.segments.table import Segment

PRECISION_MIN, PRECISION_MAX = 4, 21


class DistinctSpec(SplitSpec):
    """`kind: distinct`: the number of different items."""

    kind: Literal["distinct"] = "distinct"  # pyright: ignore[reportIncompatibleVariableOverride]
    item: str = Field(description="A column of any type but floats; null is left out")
    precision: int = Field(
        default=12,
        ge=PRECISION_MIN,
        le=PRECISION_MAX,
        description="2**precision bytes; standard error 1.04 / sqrt(2**precision)",
    )

    def algebra(self) -> Algebra:
        return DistinctItems(self.precision)

    def parameters(self) -> dict[str, Any]:
        return {"lg_k": self.precision}

    def value_columns(self) -> Sequence[str]:
        return [self.item]

    def text_columns(self) -> Sequence[str]:
        return self.columns()

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        super().check_types(types)
        check_item(self.item, types[self.item], hashed=True)

    def error_of(self, segment: Segment) -> Mapping[str, Any]:  # noqa: ARG002
        return {"relative": 1.04 / math.sqrt(1 << self.precision), "confidence": 0.99}
