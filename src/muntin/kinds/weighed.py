"""What kinds over items share: the items' column, and their weights' where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
from pydantic import Field, model_validator

from muntin.arrow import decoded, pc, value_type
from muntin.errors import BadArgument
from muntin.kinds.columns import check_item, check_number
from muntin.kinds.sketch import SplitSpec
from muntin.kinds.values import Refused, below_zero
from muntin.segments.table import Segment


class WeighedSpec(SplitSpec):
    """Items of a column, each counted once or by its weight."""

    item: str = Field(description="A column of text, binary or integers; null is left out")
    weight: str | None = Field(
        default=None, description="A column of whole numbers of at least 0; null is left out"
    )

    @model_validator(mode="after")
    def _weighs_another(self) -> Self:
        if self.item == self.weight:
            raise ValueError(f"'{self.item}' cannot be both item and weight")
        if self.weight in self.by:
            raise ValueError(f"'{self.weight}' cannot be both weight and by")
        return self

    def value_columns(self) -> Sequence[str]:
        return [self.item] if self.weight is None else [self.item, self.weight]

    def text_columns(self) -> Sequence[str]:
        return [name for name in self.columns() if name != self.weight]

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        super().check_types(types)
        check_item(self.item, types[self.item])
        if self.weight is not None:
            check_number(self.weight, types[self.weight], "weight", whole=True)

    def proven(self, segment: Segment) -> bool:
        """No item was let go, and no key is among the others."""
        bounds = self.bounds(segment)
        return bounds["error"] == 0 and not bounds.get("other")

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        yield from super().refused(batch)
        if self.weight is not None:
            mask = below_zero(batch.column(self.weight))
            if mask is not None:
                yield self.weight, mask, "is a weight below 0"

    def prepared(self, name: str, column: Any) -> Any:
        if name != self.weight:  # of all integers one type; those beyond it are rejected
            unsigned = pa.types.is_unsigned_integer(value_type(column.type))
            return decoded(column).cast(pa.int64()) if unsigned else column
        least = pc.min(column).as_py()
        if least is not None and least < 0:
            raise BadArgument(
                f"weight '{name}' is {int(least)}, and must be at least 0: say under fields what "
                f"counts, for example  {name}: GREATEST({name}, 0)"
            )
        return pc.cast(column, pa.int64())
