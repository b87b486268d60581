"""Which keys there were, and between which ranks a number lies."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from muntin.arrow import floats_of_decimals
from muntin.kinds.base import Column
from muntin.kinds.columns import check_item, check_number
from muntin.kinds.sketch import SketchSpec
from muntin.segments.columns import numbers
from muntin.segments.fingerprint import FPP_MIN, Fingerprints
from muntin.segments.table import Segment
from muntin.summaries.dyadic_qdigest import K_MAX
from muntin.summaries.dynamic_bloom import CAPACITY_MAX
from muntin.summaries.order_maps import BITS_MAX, FloatOrder, IntegerRange, OrderMap

ERROR = 0.01


class FingerprintSpec(SketchSpec):
    """`kind: fingerprint`: membership of keys, and ranks of a number over the same records.

    A record without a key is counted as null. One with a key but without a number is a member,
    and has no rank.
    """

    kind: Literal["fingerprint"] = "fingerprint"  # pyright: ignore[reportIncompatibleVariableOverride]
    key: Column = Field(description="A column of text, binary or integers; null is left out")
    capacity: int = Field(default=100_000, ge=1, le=CAPACITY_MAX, description="Changes nothing")
    fpp: float = Field(
        default=0.01, gt=0, lt=1, description="False-positive rate that is never passed"
    )
    rank: str | None = Field(default=None, description="A numeric column to rank, if any")
    type: Literal["float64", "int64"] = Field(default="float64", description="Of `rank`")
    bits: int | None = Field(
        default=None,
        ge=1,
        le=BITS_MAX,
        description="int64: `rank` lies in 0 ... 2**bits - 1; float64: leading bits that "
        "count. Default: all of int64 within 2**61, and 62 bits",
    )
    k: int | None = Field(default=None, ge=1, le=K_MAX, description="Nodes; instead of `error`")
    error: float | None = Field(
        default=None, gt=0, lt=1, description="Rank error that is never passed; default 0.01"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = sorted({"bits", "error", "k", "type"} & self.model_fields_set)
        if self.rank is None and given:
            raise ValueError(f"`{given[0]}` goes with `rank`: name the column to rank")
        if self.k is not None and self.error is not None:
            raise ValueError("give `error` or `k`, not both")
        if self.k is not None and self._rank_error() >= 1:
            raise ValueError(
                f"`k` {self.k} bounds nothing: more than {self._bits() // 2} is needed"
            )
        if self.rank is not None and math.ceil(self._bits() / (2 * self._rank_error())) > K_MAX:
            raise ValueError(f"`error` {self.error} is too small: {K_MAX:,} nodes are the most")
        if self.rank == self.key:
            raise ValueError(f"'{self.key}' cannot be both key and rank")
        if self.fpp < FPP_MIN:
            raise ValueError(
                f"`fpp` {self.fpp} is beyond what fingerprints tell apart: use 2.4e-10 or more"
            )
        return self

    def _bits(self) -> int:
        return self.bits or BITS_MAX

    def _rank_error(self) -> float:
        if self.k is not None:
            return self._bits() / (2 * self.k)
        return ERROR if self.error is None else self.error

    def columns(self) -> Sequence[str]:
        return [self.key] if self.rank is None else [self.key, self.rank]

    def text_columns(self) -> Sequence[str]:
        return [self.key]

    def float_columns(self) -> Sequence[str]:
        """What is beyond int64 is ranked as a float, or has no rank."""
        return [] if self.rank is None else [self.rank]

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        check_item(self.key, types[self.key], "key")
        if self.rank is not None:
            check_number(self.rank, types[self.rank], "rank", whole=self.type == "int64")

    def algebra(self) -> Fingerprints:
        if self.rank is None:
            return Fingerprints(self.fpp)
        domain: OrderMap = FloatOrder(self._bits())
        if self.type == "int64":
            domain = IntegerRange(self._bits(), 0 if self.bits else -(1 << 61))
        return Fingerprints.over(domain, self._rank_error(), self.fpp)

    def values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        keys = batch.column(self.key)
        if self.rank is None:
            return [keys]
        return [keys, floats_of_decimals(batch.column(self.rank))]

    def stored_as(self) -> Mapping[str, Any]:
        stored: dict[str, Any] = {"key": self.key, "fpp": self.fpp}
        if self.rank is not None:
            stored |= {"rank": self.rank, "type": self.type, "bits": self.bits}
            stored["error"] = self._rank_error()
        return stored

    def asked(self) -> dict[str, Any]:
        return {"parameters": {"rank": self.rank}}

    def error_of(self, segment: Segment) -> Mapping[str, Any]:
        algebra = segment.algebra
        assert isinstance(algebra, Fingerprints)  # noqa: S101 (who reads it has its spec)
        (table,) = segment.tables
        bounds: dict[str, Any] = {"false_positive_rate": algebra.rate(table)}
        if self.rank is not None:
            estimated = table.states["ends"] is not None  # a digest has a node that is no leaf
            bounds["rank_error"] = algebra.rank_error if estimated else 0.0
            bounds["unranked"] = int(numbers(table.states["unranked"]).sum())
        return bounds
