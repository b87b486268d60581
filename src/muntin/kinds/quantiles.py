"""Quantiles and ranks of a number: a KLL or REQ sketch, for all events or for each key."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from muntin.arrow import floats_of_decimals, pc
from muntin.kinds.columns import check_number, check_sketches
from muntin.kinds.sketch import SplitSpec
from muntin.segments import tail
from muntin.segments.merged import MergedQuantiles
from muntin.segments.quantiles import Quantiles
from muntin.segments.table import Segment
from muntin.segments.tail import TailQuantiles
from muntin.summaries.level_stack import K_MAX, K_MIN

K_RANGES = {"rank": (K_MIN, K_MAX), "tail": (tail.K_MIN, tail.K_MAX)}
K_DEFAULTS = {"rank": 200, "tail": 12}


class QuantilesSpec(SplitSpec):
    """`kind: quantiles`: quantiles and ranks of a number.

    The coins of the sketch are seeded with a constant: the same rows in the same batches give the
    same bytes. Another partitioning gives other bytes, within the same bound.
    """

    kind: Literal["quantiles"] = "quantiles"  # pyright: ignore[reportIncompatibleVariableOverride]
    value: str = Field(description="A numeric column; null and NaN are counted, and left out")
    accuracy: Literal["rank", "tail"] = Field(
        default="rank",
        description="rank: the same error everywhere; tail: a share of what is above, so that "
        "0.999 is as sure as 0.5",
    )
    k: int | None = Field(
        default=None,
        ge=min(K_RANGES["tail"]),
        le=K_MAX,
        description="Accuracy: an error of ~2.3 / k of all ranks (200), or, at the tail, of "
        "~0.45 / k of what is above (12, even, 8 to 1,024; 4 and 6: 1.8 / k)",
    )
    type: Literal["float64", "float32", "int64"] = "float64"
    merge: Literal["column"] | None = Field(
        default=None,
        description="column: `value` is not a number but a KLL sketch of Apache DataSketches, as "
        "bytes, of this `k` and `type`",
    )

    @model_validator(mode="after")
    def _fits_k(self) -> Self:
        low, high = K_RANGES[self.accuracy]
        even = self.accuracy == "tail"
        if self.k is not None and (not low <= self.k <= high or (even and self.k % 2)):
            kind = "an even number" if even else "a number"
            raise ValueError(f"`k` {self.k}: use {kind} from {low} to {high:,}")
        if self.merge and self.accuracy == "tail":
            raise ValueError("`merge: column` takes KLL sketches: leave out `accuracy: tail`")
        return self

    def parameters(self) -> dict[str, Any]:
        tail = {"accuracy": "tail"} if self.accuracy == "tail" else {}
        return {**tail, **super().parameters()}

    def entry_of(self, stored: str) -> str:
        return "type" if stored == "dtype" else stored

    def value_columns(self) -> Sequence[str]:
        return [self.value]

    def text_columns(self) -> Sequence[str]:
        return [name for name in self.by if name != self.value]

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        super().check_types(types)
        if self.merge:
            check_sketches(self.value, types[self.value])
            return
        check_number(self.value, types[self.value], "value", whole=self.type == "int64")

    def float_columns(self) -> Sequence[str]:
        return [] if self.type == "int64" or self.merge else [self.value]

    def prepared(self, name: str, column: pa.Array) -> pa.Array:  # noqa: ARG002
        """In the sketch's type. What float32 cannot hold becomes infinite, and keeps its rank."""
        wanted = {"float64": pa.float64(), "float32": pa.float32()}.get(self.type, pa.int64())
        if column.type == wanted or self.merge:
            return column
        column = floats_of_decimals(column)
        if pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.float64() if wanted != pa.int64() else wanted, safe=False)
        return pc.cast(column, wanted, safe=wanted == pa.int64())

    def algebra(self) -> Quantiles | TailQuantiles:
        k = K_DEFAULTS[self.accuracy] if self.k is None else self.k
        if self.accuracy == "tail":
            return TailQuantiles(k, self.type, 0)
        return (MergedQuantiles if self.merge else Quantiles)(k, self.type, 0)

    def error_of(self, segment: Segment) -> Mapping[str, Any]:
        levels = [table.states.get("levels") for table in segment.tables]
        algebra = self.algebra()
        if all(column is None for column in levels):  # the rows hold all their values
            return {"rank_error": 0.0, "confidence": 1.0}
        if isinstance(algebra, TailQuantiles):
            tail = {"tail_error": algebra.near, "exact_top": algebra.exact_top}
            return {"rank_error": algebra.far, **tail, "confidence": 0.99}
        return {"rank_error": algebra.rank_error, "confidence": 0.99}
