"""Which keys there were, and between which ranks a number lies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from muntin import summaries
from muntin.arrow import pc
from muntin.kinds.columns import check_item, check_number, without_views
from muntin.kinds.sketch import SketchSpec

CAPACITY_MAX = 1 << 40
HEADROOM, RUN_KEYS_MAX = 64, 1 << 30  # of DynamicBloom's first run of fingerprints
BITS_MAX = 62
K_MAX = 1 << 26
ERROR = 0.01


class FingerprintSpec(SketchSpec):
    """`kind: fingerprint`: membership of keys, and ranks of a number over the same records.

    A record without a key is counted as null. One with a key but without a number is a member,
    and has no rank.
    """

    kind: Literal["fingerprint"] = "fingerprint"  # pyright: ignore[reportIncompatibleVariableOverride]
    key: str = Field(description="A column of text, binary or integers; null is left out")
    capacity: int = Field(
        default=100_000, ge=1, le=CAPACITY_MAX, description="Keys a window is planned to hold"
    )
    fpp: float = Field(
        default=0.01, gt=0, lt=1, description="False-positive rate that is never passed"
    )
    rank: str | None = Field(default=None, description="A numeric column to rank, if any")
    type: Literal["float64", "int64"] = Field(default="float64", description="Of `rank`")
    bits: int | None = Field(
        default=None,
        ge=1,
        le=BITS_MAX,
        description="int64: `rank` lies in 0 ... 2**bits - 1; float64: leading bits that are told "
        "apart. Default: all of int64 within 2**61, and 62 bits",
    )
    k: int | None = Field(default=None, ge=1, le=K_MAX, description="Nodes; instead of `error`")
    error: float | None = Field(
        default=None, gt=0, lt=1, description="Rank error that is never passed; default 0.01"
    )

    summary_class_name = "Fingerprint"

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
        if min(self.capacity * HEADROOM, RUN_KEYS_MAX) / (self.fpp * 0.95) > 1 << 56:
            raise ValueError(
                f"`fpp` {self.fpp} for {self.capacity:,} keys is beyond what fingerprints of 56 "
                f"bits tell apart: ask for a higher fpp or fewer keys"
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

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        check_item(self.key, types[self.key], "key")
        if self.rank is not None:
            check_number(self.rank, types[self.rank], "rank", whole=self.type == "int64")

    def new(self) -> summaries.WithNulls:
        inner = summaries.Fingerprint(
            self.capacity, self.fpp, domain=self._domain(), error=self._rank_error()
        )
        return summaries.WithNulls(inner)

    def _domain(self) -> Any:
        from muntin.summaries.order_maps import FloatOrder, IntegerRange

        if self.rank is None:
            return None
        if self.type == "float64":
            return FloatOrder(self._bits())
        return IntegerRange(self._bits(), 0 if self.bits else -(1 << 61))

    def update(self, summary: summaries.WithNulls, batch: pa.RecordBatch) -> None:
        from muntin.summaries.with_nulls import absent

        batch = without_views(batch, self.columns())
        missing = absent([batch.column(self.key)])
        if missing is not None:
            summary.skip(int(np.count_nonzero(missing)))
            batch = batch.filter(pa.array(~missing))
        keys = batch.column(self.key)
        if self.rank is None:
            summary.inner.update(keys)
            return
        number = pa.float64() if self.type == "float64" else pa.int64()
        ranks = pc.cast(batch.column(self.rank), number, safe=False)
        unranked = absent([ranks])
        if unranked is not None:
            summary.inner.update_unranked(keys.filter(pa.array(unranked)))
            kept = pa.array(~unranked)
            keys, ranks = keys.filter(kept), ranks.filter(kept)
        if len(keys):
            summary.inner.update(keys, ranks)

    def stored_as(self) -> Mapping[str, Any]:
        size = {"capacity": self.capacity, "fpp": self.fpp}
        if self.rank is None:
            return size
        return {
            **size,
            "rank": self.rank,
            "type": self.type,
            "bits": self.bits,
            "error": self._rank_error(),
        }

    def asked(self) -> dict[str, Any]:
        return {"parameters": {"rank": self.rank}}

    def inner_bounds(self, inner: Any) -> Mapping[str, Any]:
        bounds = {"false_positive_rate": inner.false_positive_rate()}
        if inner.digest is None:
            return bounds
        count = inner.digest.count
        error = inner.digest.error_bound / (2 * count) if count else 0.0
        return {**bounds, "rank_error": error, "unranked": inner.count - count}
