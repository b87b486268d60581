"""Sums per key and key combination: exact, or sketched in fixed memory."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from muntin.arrow import UNSIGNED_OF_SPARK
from muntin.kinds.base import (
    STORED,
    Part,
    SegmentSpec,
    Strict,
    as_tuple,
    check_answered,
    check_case,
    distinct,
)
from muntin.kinds.columns import check_keys, check_number
from muntin.kinds.values import INT64_MAX, Refused, below_zero, beyond
from muntin.segments.algebra import Algebra
from muntin.segments.columns import lists
from muntin.segments.sketched import SketchedSums
from muntin.segments.sums import Sums, counted_events, missing_of
from muntin.segments.table import Segment
from muntin.summaries.count_min import CELLS_MAX, DEPTH_MAX, TRACK_MAX
from muntin.summaries.indicators import IndicatorType

ANSWERED = frozenset(("count", "row", "overflow"))
"""Columns of the answers, beside which keys and indicators stand."""


def _as_types(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    odd = [name for name in value if not isinstance(name, str)]
    if odd:
        raise ValueError(f"a list holds names of columns, not {odd[0]!r}; or {{name: int64}}")
    return dict.fromkeys(value)


Key = Annotated[
    tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=1), AfterValidator(distinct)
]


class SketchSize(Strict):
    """`sketch:`: Count-Min rows instead of exact ones; one sketch of vectors for each key."""

    width: int = Field(default=2048, ge=2, le=CELLS_MAX)
    depth: int = Field(default=4, ge=1, le=DEPTH_MAX)
    track: int = Field(
        default=1000, ge=1, le=TRACK_MAX, description="Heaviest values that SELECT lists per key"
    )


class VectorMatrixSpec(SegmentSpec):
    """`kind: vector_matrix`: sums of indicators per key and key combination, exact by default."""

    kind: Literal["vector_matrix"] = "vector_matrix"  # pyright: ignore[reportIncompatibleVariableOverride]
    keys: Annotated[tuple[Key, ...], Field(min_length=1), AfterValidator(distinct)]
    indicators: Annotated[dict[str, IndicatorType | None], BeforeValidator(_as_types)] = Field(
        default_factory=dict, description="Numeric columns, as a list or as name: int64 | float64"
    )
    capacity: int | None = Field(
        default=None, ge=1, description="Rows a floating window may hold per key"
    )
    sketch: SketchSize | None = Field(
        default=None, description="Upper bounds in fixed memory instead of exact sums"
    )

    @model_validator(mode="after")
    def _names_stand_apart(self) -> Self:
        check_case(self.indicators)
        check_answered(self.columns(), ANSWERED)
        keys = {name.lower() for key in self.keys for name in key}
        for name in self.columns():
            if name in self.indicators and name.lower() in keys:
                raise ValueError(
                    f"'{name}' is a key and an indicator, and one would hide the other in answers: "
                    "give one of them another name under fields"
                )
        return self

    @model_validator(mode="after")
    def _keys_stand_once(self, info: ValidationInfo) -> Self:
        known: dict[frozenset[str], str] = {}
        for key in () if info.context == STORED else self.keys:  # older versions have taken them
            shown = f"[{', '.join(key)}]"
            other = known.setdefault(frozenset(key), shown)
            if other != shown:
                raise ValueError(f"key {shown} is {other} once more: leave one of them out")
        return self

    @model_validator(mode="after")
    def _capacity_fits(self, info: ValidationInfo) -> Self:
        floats = self.window is not None and self.window.kind == "floating"
        if self.capacity is None or self.sketch is not None or floats or info.context == STORED:
            return self  # as above
        there = "has no window" if self.window is None else f"has a {self.window.kind} one"
        raise ValueError(
            f"`capacity` is a floating window's, and this summary {there}: leave it out, or "
            "write  window: {kind: floating, length: ...}"
        )

    @model_validator(mode="after")
    def _sketch_fits(self) -> Self:
        if self.sketch is None:
            return self
        if self.capacity is not None:
            raise ValueError("`capacity` goes with exact rows; a sketch never grows")
        cells = self.sketch.width * self.sketch.depth * (1 + len(self.indicators)) * len(self.keys)
        if cells > CELLS_MAX:
            raise ValueError(
                f"`sketch` of {cells:,} cells over all keys and indicators is too large: "
                f"at most {CELLS_MAX:,} are allowed"
            )
        names = {name for key in self.keys for name in key} | set(self.indicators)
        for name in ("count", *self.indicators):
            if f"{name}_lower" in names:
                raise ValueError(
                    f"'{name}_lower' names the lower bounds of '{name}': rename it under fields"
                )
        return self

    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([c for key in self.keys for c in key] + list(self.indicators)))

    def text_columns(self) -> Sequence[str]:
        return [column for column in self.columns() if column not in self.indicators]

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        for name, kind in self.indicators.items():
            found = pa.int64() if types[name] == UNSIGNED_OF_SPARK else types[name]
            check_number(name, found, "indicator", whole=kind == "int64")
        check_keys((column for key in self.keys for column in key), types)

    def float_columns(self) -> Sequence[str]:
        return [name for name, kind in self.indicators.items() if kind == "float64"]

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        yield from super().refused(batch)
        for name in self._unsigned(batch):
            mask = beyond(batch.column(name), -INT64_MAX, INT64_MAX)
            if mask is not None:
                yield name, mask, "is beyond int64: declare the indicator as float64"
        for name in self.indicators if self.sketch is not None else ():
            column = batch.column(name)
            mask = below_zero(column)
            if mask is not None:  # what is infinite is no value anyway
                why = "is below 0, which a sketch cannot take: take a field, greatest(…, 0)"
                yield name, mask & ~missing_of(column), why

    def algebra(self) -> Algebra:
        if self.sketch is None:
            return Sums(tuple(self.indicators.items()))
        return SketchedSums(tuple(self.indicators.items()), **self.sketch.model_dump())

    def tables(self) -> Sequence[tuple[str, ...]]:
        return sorted(self.keys)

    def values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        whole = self._unsigned(batch)
        columns = ((name, batch.column(name)) for name in self.indicators)
        return [column.cast(pa.int64()) if name in whole else column for name, column in columns]

    def _unsigned(self, batch: pa.RecordBatch) -> list[str]:
        """Indicators that Spark has made decimals, and whose sums are those of integers."""
        whole = [name for name, kind in self.indicators.items() if kind != "float64"]
        return [name for name in whole if batch.column(name).type == UNSIGNED_OF_SPARK]

    def asked(self) -> dict[str, Any]:
        return {
            "keys": self.keys,
            "indicators": tuple(self.indicators),
            "sketched": self.sketch is not None,
        }

    def stored_as(self) -> Mapping[str, Any]:
        """Exact rows take new keys and indicators; a sketch stays as it is."""
        if self.sketch is None:
            return {}
        return {
            "sketch": self.sketch.model_dump(),
            "keys": [list(key) for key in self.keys],
            "indicators": list(self.indicators),
        }

    def bounds(self, segment: Segment) -> Mapping[str, Any]:
        algebra = segment.algebra
        if not isinstance(algebra, SketchedSums):
            return {}
        if not any(lists(t.states["cells"], len(t)).sizes.any() for t in segment.tables):
            return {"relative": 0.0, "confidence": 1.0}
        return {"relative": math.e / algebra.width, "confidence": algebra.confidence}

    def lacking(
        self, segment: Segment, keys: Collection[tuple[str, ...]] | None = None
    ) -> Mapping[Part, np.ndarray]:
        if self.sketch is not None:  # it stays as it is
            return {}
        read = [key for key in self.keys if keys is None or key in keys]
        counted: dict[Part, np.ndarray] = {
            key: counted_events(segment, segment.table(key)) for key in read
        }
        tables = segment.tables if keys is None else [segment.table(key) for key in read]
        for name in self.indicators:  # of the key that has counted most, also one taken out
            counts = [counted_events(segment, table, name) for table in tables]
            counted[name] = np.maximum.reduce([np.zeros_like(segment.events), *counts])
        found = {part: segment.events - counts for part, counts in counted.items()}
        # of an indicator that lacks no more than its key, the key says it
        said = [] if keys is None else [found[key] for key in read]
        return {
            part: events
            for part, events in found.items()
            if events.any() and (part in read or not any(np.array_equal(events, of) for of in said))
        }

    def fill(self, segment: Segment) -> dict[str, int]:
        found = {}
        for key in self.keys:
            table = segment.table(key)
            listed = table if table is None or table.items is None else table.items
            found[", ".join(key)] = 0 if listed is None else len(listed)
        return found

    @property
    def window_capacity(self) -> int | None:
        return self.capacity
