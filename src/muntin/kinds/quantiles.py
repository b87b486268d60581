"""Quantiles and ranks of a number: a KLL sketch, for all events or for each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from muntin.arrow import pc
from muntin.kinds.columns import check_number
from muntin.kinds.sketch import SplitSpec
from muntin.segments.quantiles import Quantiles
from muntin.segments.table import Segment

K_MIN, K_MAX = 8, 65_535


class QuantilesSpec(SplitSpec):
    """`kind: quantiles`: quantiles and ranks of a number.

    The coins of the sketch are seeded with a constant: the same rows in the same batches give the
    same bytes. Another partitioning gives other bytes, within the same bound.
    """

    kind: Literal["quantiles"] = "quantiles"  # pyright: ignore[reportIncompatibleVariableOverride]
    value: str = Field(description="A numeric column; null and NaN are counted, and left out")
    k: int = Field(default=200, ge=K_MIN, le=K_MAX, description="Accuracy: rank error is ~2.3 / k")
    type: Literal["float64", "float32", "int64"] = "float64"

    def parameters(self) -> dict[str, Any]:
        return {"k": self.k, "seed": 0, "dtype": self.type}

    def value_columns(self) -> Sequence[str]:
        return [self.value]

    def text_columns(self) -> Sequence[str]:
        return [name for name in self.by if name != self.value]

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        super().check_types(types)
        check_number(self.value, types[self.value], "value", whole=self.type == "int64")

    def float_columns(self) -> Sequence[str]:
        return [] if self.type == "int64" else [self.value]

    def prepared(self, name: str, column: pa.Array) -> pa.Array:  # noqa: ARG002
        """In the sketch's type. What float32 cannot hold becomes infinite, and keeps its rank."""
        wanted = {"float64": pa.float64(), "float32": pa.float32()}.get(self.type, pa.int64())
        if column.type == wanted:
            return column
        if pa.types.is_decimal(column.type) or pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.float64() if wanted != pa.int64() else wanted, safe=False)
        return pc.cast(column, wanted, safe=wanted == pa.int64())

    def algebra(self) -> Quantiles:
        return Quantiles(self.k, self.type, 0)

    def error_of(self, segment: Segment) -> Mapping[str, Any]:
        levels = [table.states.get("levels") for table in segment.tables]
        estimated = any(column is not None for column in levels)
        if not estimated:  # the rows hold all their values
            return {"rank_error": 0.0, "confidence": 1.0}
        return {"rank_error": self.algebra().rank_error, "confidence": 0.99}
