"""How many different items there were: UltraLogLog, for all events or for each key."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from muntin.kinds.base import Column
from muntin.kinds.columns import check_item, check_sketches
from muntin.kinds.sketch import SplitSpec
from muntin.segments.distinct import DistinctItems
from muntin.segments.merged import MergedDistinct
from muntin.segments.table import Segment
from muntin.summaries.distinct import LG_K_MAX, LG_K_MIN, standard_error


class DistinctSpec(SplitSpec):
    """`kind: distinct`: the number of different items."""

    kind: Literal["distinct"] = "distinct"  # pyright: ignore[reportIncompatibleVariableOverride]
    item: Column = Field(
        description="A column of any type but floats and decimals; null is left out"
    )
    precision: int = Field(
        default=12,
        ge=LG_K_MIN,
        le=LG_K_MAX,
        description="2**precision bytes; standard error 0.76 / sqrt(2**precision)",
    )

    merge: Literal["column"] | None = Field(
        default=None,
        description="column: `item` is not an item but an HLL sketch of Apache DataSketches, as "
        "bytes, of this `precision`",
    )

    def algebra(self) -> DistinctItems:
        return MergedDistinct(self.precision) if self.merge else DistinctItems(self.precision)

    def value_columns(self) -> Sequence[str]:
        return [self.item]

    def text_columns(self) -> Sequence[str]:
        return self.by if self.merge else self.columns()

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        super().check_types(types)
        if self.merge:
            check_sketches(self.item, types[self.item])
            return
        check_item(self.item, types[self.item], hashed=True)

    def error_of(self, segment: Segment) -> Mapping[str, Any]:  # noqa: ARG002
        return {"standard_error": standard_error(1 << self.precision, self.algebra().kept)}
