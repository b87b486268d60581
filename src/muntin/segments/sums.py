"""`vector_matrix`: exact sums of indicators.

=========== =================================================================================
State       a row: of each int64 indicator its sum in 128 bits (`sum`, and `beyond`, multiples
            of 2^64, where one is beyond int64), and of decimals the same in units of their last
            digit; of each float64 one a pair of floats (`sum`, `low`); `nulls`, events without a
            value; `unseen`, events from before the indicator was there
Error       none (a sum of decimals is shown as the nearest float); float sums to about 1e-32 of
            the sum of magnitudes
Merge       adds; indicators of both are kept, those of two types as float64
Duplicates  count twice
Limits      an integer sum beyond int64 is null with `overflow`, or asked for as a wider one;
            a float sum beyond float64 is null with `overflow` for ever
=========== =================================================================================

Same events, same bytes, however they were spread: for integers always; a float's low part may
differ in its last bits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.arrow import decoded, floats_of_decimals, plain_value
from muntin.errors import CorruptSummary, IncompatibleSummary, SummaryOverflow
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import NOTHING, Column, States, frozen, numbers, present
from muntin.segments.grouping import Groups
from muntin.segments.kernels import sums as kernels
from muntin.segments.keys import Keys
from muntin.segments.nulls import less, summed
from muntin.segments.table import Segment, Table
from muntin.summaries.checks import INT64_MIN
from muntin.summaries.indicators import INT64_MAX, SumType, indicator_values, is_sum_type, scale_of
from muntin.summaries.kernels.vector_sums import magnitude_bits

_PROBLEMS = {
    kernels.LACKS_TOO_OFTEN: "lacks values too often",
    kernels.BEYOND_ITS_EVENTS: "has a sum beyond its events",
    kernels.SUM_OF_NO_VALUES: "has a sum of no values",
    kernels.NO_NORMAL_PAIR: "has a sum that is no normal pair of floats",
}
_NAMES_MAX = 256
_NO_FLOATS = frozen(NOTHING.astype(np.float64))


@dataclass(frozen=True)
class Totals:
    """The question: sums of each row.

    Parameters
    ----------
    names : frozenset of str, optional
        The indicators that are wanted: None: all.
    wide : bool
        Integers of which one is beyond int64 come as decimal128(38, 0), rather than null with
        `overflow`; decimals as decimal128(38, DIGITS), rather than the nearest floats.
    """

    names: frozenset[str] | None = None
    wide: bool = False


class OfIndicators(Algebra):
    """A kind whose parameters name `indicators`: tuple of (name, `SumType` | None)."""

    indicators: Indicators

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "indicators": [list(pair) for pair in self.indicators]}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        indicators = read_indicators(parameters.get("indicators"))
        return super().from_parameters({**parameters, "indicators": indicators})


@dataclass(frozen=True)
class Sums(OfIndicators):
    """Sums of indicators.

    Parameters
    ----------
    indicators : tuple of (name, "int64" | "float64" | "decimal(DIGITS)" | None)
        None: the first values that have a type decide it. `fold` takes one array for each.
    """

    indicators: tuple[tuple[str, SumType | None], ...] = ()

    kind: ClassVar[str] = "vector_matrix"
    order_free: ClassVar[bool] = True

    def columns(self) -> dict[str, Shape]:
        shapes = {"nulls": Shape(), "unseen": Shape(), "beyond": Shape(), "low": Shape("float64")}
        return {
            f"{name}.{part}": shapes.get(part) or Shape(_dtype(kind), required=True)
            for name, kind in self.indicators
            for part in _parts(kind)
        }

    def fitted(self, values: Sequence[pa.Array]) -> Self:
        return type(self)(typed(self.indicators, values))

    def prepared(self, values: Sequence[pa.Array]) -> tuple[Sequence[Any], Keys | None]:
        found = []
        for (name, kind), column in zip(self.indicators, values, strict=True):
            read = indicator_values(name, column, kind)
            missing = frozen(missing_of(column).astype(np.int64)) if read.nulls else None
            found.append((read, missing))
        return found, None

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        states: dict[str, Column] = {}
        sums = _GroupSums(groups)
        for (name, kind), (read, missing) in zip(self.indicators, values, strict=True):
            states[f"{name}.nulls"] = summed(missing, groups)
            states[f"{name}.unseen"] = None
            if kind is None or read.numbers is None:
                states.update(_zeros(name, kind, groups.size))
            elif kind == "float64":
                states.update(sums.floats(name, frozen(read.numbers), None))
            else:
                states.update(sums.integers(name, frozen(read.numbers), None, read.largest))
        return states

    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        out: dict[str, Column] = {}
        sums = _GroupSums(groups)
        for name, kind in self.indicators:
            for part in ("nulls", "unseen"):
                out[f"{name}.{part}"] = summed(states[f"{name}.{part}"], groups)
            first = states.get(f"{name}.sum")
            if not isinstance(first, np.ndarray):
                continue
            if kind == "float64":
                out.update(sums.floats(name, first, states[f"{name}.low"]))
            elif kind is not None:
                largest = int(magnitude_bits(first)) + 1
                out.update(sums.integers(name, first, states[f"{name}.beyond"], largest))
        return out

    def united(self, other: Algebra) -> Sums:
        if not isinstance(other, Sums):
            raise IncompatibleSummary(f"a vector_matrix cannot join {other.kind}")
        kinds = dict(self.indicators)
        for name, kind in other.indicators:
            known = kinds.get(name)
            kinds[name] = known or kind if None in (kind, known) or kind == known else "float64"
        return Sums(tuple(kinds.items()))

    def adapted(self, table: Table, to: Algebra) -> States:
        if not isinstance(to, Sums):
            raise IncompatibleSummary(f"a vector_matrix cannot become {to.kind}")
        mine, states = dict(self.indicators), dict(table.states)
        for name, kind in to.indicators:
            if name not in mine:
                states[f"{name}.nulls"], states[f"{name}.unseen"] = None, table.events
                states.update(_zeros(name, kind, len(table)))
            elif mine[name] is None:
                states.update(_zeros(name, kind, len(table)))
            elif mine[name] != kind:
                low = states[f"{name}.sum"]
                beyond = numbers(states.pop(f"{name}.beyond"))
                assert isinstance(low, np.ndarray)  # noqa: S101
                pair = _pairs(low, beyond, scale_of(mine[name] or ""))
                states[f"{name}.sum"], states[f"{name}.low"] = frozen(pair[0]), present(pair[1])
        return states

    def negated(self, states: States) -> States:
        out: dict[str, Column] = {
            name: None if column is None else frozen(-numbers(column))
            for name, column in states.items()
        }
        for name, kind in self.indicators:
            if kind not in ("float64", None):  # the least is its own negative: 2^64 too low
                low, beyond = numbers(out[f"{name}.sum"]), numbers(out[f"{name}.beyond"])
                least = (low == INT64_MIN).astype(np.int64)
                out[f"{name}.beyond"] = present(least + beyond if len(beyond) else least)
        return out

    def remainder(self, table: Table) -> States:
        states = dict(table.states)
        for name, kind in self.indicators:
            values = table.events
            for part in ("nulls", "unseen"):
                lacking = numbers(states[f"{name}.{part}"])
                values = values - lacking if len(lacking) else values
                if (values < 0).any() or (lacking < 0).any():
                    raise IncompatibleSummary(f"{name!r}: fewer nulls than are taken away")
            for part in _parts(kind)[2:]:
                column = numbers(states[f"{name}.{part}"])
                if not len(column) or not (rest := (values == 0) & (column != 0)).any():
                    continue
                if kind != "float64":
                    raise IncompatibleSummary(f"{name!r}: a sum is left without a value")
                zeroed = np.where(rest, 0.0, column)  # what rounding has left
                states[f"{name}.{part}"] = frozen(zeroed) if part == "sum" else present(zeroed)
        return states

    def check(self, table: Table) -> None:
        for name, kind in self.indicators:
            columns = (table.states.get(f"{name}.{part}") for part in ("sum", *_parts(kind)[3:]))
            first, second = (*columns, None)[:2]
            nulls, unseen = (table.states[f"{name}.{part}"] for part in ("nulls", "unseen"))
            if kind is not None and len(numbers(first)) != len(table):
                raise CorruptSummary(f"vector_matrix: the sums of {name!r:.100} are missing")
            if kind == "float64":
                problem_of, zeros = kernels.problem_of_floats, _NO_FLOATS
            elif nulls is unseen is second is None:
                continue  # each event had a value: every int64 may be the sum
            else:
                problem_of, zeros = kernels.problem_of_integers, NOTHING
            lacking = numbers(nulls), numbers(unseen)
            found = problem_of(numbers(first), numbers(second, zeros), table.events, *lacking)
            if found:
                raise CorruptSummary(f"vector_matrix: {name!r:.100} {_PROBLEMS[found]}")

    def answer(self, table: Table, question: Any = None) -> pa.Table:
        """`count`; each wanted indicator: null where no event could have one; `overflow` (bool):
        a sum of the row is null since it is beyond its type."""
        columns: dict[str, pa.Array] = {
            "row": pa.array(np.arange(len(table))),
            "count": pa.array(table.events),
        }
        overflow = np.zeros(len(table), bool)
        asked = question if isinstance(question, Totals) else Totals()
        for name, kind in self.indicators:
            if asked.names is not None and name not in asked.names:
                continue
            none = np.zeros(len(table), bool)
            unseen = numbers(table.states[f"{name}.unseen"])
            absent = unseen == table.events if len(unseen) else none
            if kind is None:
                columns[name] = pa.array(np.zeros(len(table), np.int64), mask=absent)
                continue
            total = numbers(table.states[f"{name}.sum"])
            beyond = numbers(table.states.get(f"{name}.beyond"))
            scale = scale_of(kind)
            if scale is not None:
                decimals = _wide(total, beyond, absent, scale)
                columns[name] = decimals if asked.wide else floats_of_decimals(decimals)
                continue
            # in a part of a segment, `beyond` may be there for slices that are not
            over = np.isinf(total) if kind == "float64" else beyond != 0 if len(beyond) else none
            if kind == "int64" and asked.wide and over.any():
                columns[name] = _wide(total, beyond, absent)
                continue
            overflow |= over
            hidden = absent | over
            columns[name] = pa.array(total, mask=hidden) if hidden.any() else pa.array(total)
        columns["overflow"] = pa.array(overflow)
        return pa.table(columns)


def _wide(low: np.ndarray, beyond: np.ndarray, absent: np.ndarray, scale: int = 0) -> pa.Array:
    """Sums in 128 bits. `beyond` empty: zeros."""
    high = low >> 63
    halves = np.stack([low, high + beyond if len(beyond) else high], axis=1)
    present = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    kind = pa.decimal128(38, scale)
    return pa.Array.from_buffers(kind, len(low), [present, pa.py_buffer(halves)])


def key_rows(
    algebra: Algebra, table: Table, names: Collection[str] | None = None, *, wide: bool = False
) -> pa.Table:
    """The rows of one key of a vector matrix: its columns, `count` and the indicators.

    Parameters
    ----------
    names : collection of str, optional
        Columns that are wanted: sums of others may be beyond their type. Default: all.
    wide : bool
        As of `Totals`.

    Raises
    ------
    SummaryOverflow
        A sum that is wanted is beyond its type.
    """
    wanted = None if names is None else frozenset(names)
    answered = algebra.answer(table, Totals(wanted, wide))
    columns = dict(zip(table.by, table.key_arrays(), strict=True))
    beyond = np.flatnonzero(answered["overflow"].to_numpy())
    if len(beyond):
        at = int(beyond[0])
        name = next(  # others are null since no event could have one
            each
            for each in answered.column_names[2:-1]
            if algebra.answer(table, Totals(frozenset((each,)), wide))["overflow"][at].as_py()
        )
        key = ", ".join(
            f"{part} {_shown(plain_value(columns[part].slice(at)))}" for part in table.by
        )
        raise SummaryOverflow(
            f"indicator {name!r}: a sum is beyond {answered[name].type}"
            + (f" ({key:.200})" if key else "")
        )
    for name in answered.column_names:
        if name not in ("row", "overflow", *table.by):  # what is a key now was summed once
            columns[name] = answered[name]
    return pa.table(columns)


def _shown(value: object) -> str:
    return "null" if value is None else repr(value) if isinstance(value, str) else str(value)


Indicators = tuple[tuple[str, SumType | None], ...]


def read_indicators(pairs: Any) -> Indicators:
    """Indicators as JSON holds them; CorruptSummary."""
    if not isinstance(pairs, list) or len(pairs) > _NAMES_MAX:
        raise CorruptSummary("vector_matrix: indicators are no list, or too many")
    for pair in pairs:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not isinstance(pair[0], str)
            or not (pair[1] is None or is_sum_type(pair[1]))
        ):
            raise CorruptSummary(f"vector_matrix: {pair!r:.100} is no indicator")
    if len({pair[0] for pair in pairs}) < len(pairs):
        raise CorruptSummary("vector_matrix: an indicator stands twice")
    return tuple((name, kind) for name, kind in pairs)


def typed(indicators: Indicators, values: Sequence[pa.Array]) -> Indicators:
    """Indicators with the types that values decide, where none was declared."""
    return tuple(
        # a declared type is never asked of a value: 2**63 is no int64, but is a float64
        (name, kind or (indicator_values(name, column[:1], None).type if len(column) else None))
        for (name, kind), column in zip(indicators, values, strict=True)
    )


def counted_events(segment: Segment, table: Table | None, indicator: str = "") -> np.ndarray:
    """Events that a table, or one of its indicators, has counted of each slice: int64[slices]. Less
    than the segment's events where it was added later."""
    counts = np.zeros(len(segment.slices), np.int64)
    if table is None or not len(table):
        return counts
    events = table.events
    if indicator:
        if f"{indicator}.unseen" not in table.states:
            return counts
        events = less(events, table.states[f"{indicator}.unseen"])
    at = np.searchsorted(segment.slices, table.slices)
    counts[at] = np.add.reduceat(events, table.starts[:-1])
    return counts


def _parts(kind: SumType | None) -> tuple[str, ...]:
    sums = {"float64": ("sum", "low"), None: ()}.get(kind, ("sum", "beyond"))
    return ("nulls", "unseen", *sums)


def _dtype(kind: SumType | None) -> str:
    return "float64" if kind == "float64" else "int64"


def _pairs(low: np.ndarray, beyond: np.ndarray, scale: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers, or decimals, as pairs of floats; of decimals the nearest float alone."""
    if scale is not None:
        decimals = _wide(low, beyond, np.zeros(len(low), bool), scale)
        return floats_of_decimals(decimals).to_numpy(), np.zeros(len(low))
    pair = np.empty(len(low)), np.empty(len(low))
    kernels.pairs_of_integers(low, beyond, *pair)
    return pair


def missing_of(column: pa.Array) -> np.ndarray:
    """bool[n]: null, NaN or infinite."""
    column = decoded(column)
    if pa.types.is_floating(column.type):  # by NumPy: Arrow 18 cannot ask it of 16 bits
        return ~np.isfinite(column.to_numpy(zero_copy_only=False))  # a null is a NaN there
    return column.is_null().to_numpy(zero_copy_only=False)


def _zeros(name: str, kind: SumType | None, size: int) -> dict[str, Column]:
    if kind is None:
        return {}
    return {f"{name}.sum": frozen(np.zeros(size, _dtype(kind))), f"{name}.{_parts(kind)[3]}": None}


class _GroupSums:
    """Sums over each group."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups

    @cached_property
    def of_row(self) -> np.ndarray:
        """Number of each row's group."""
        numbers = np.empty(len(self.groups.order), np.int64)
        kernels.groups_of_rows(*self.groups, numbers)
        return frozen(numbers)

    def integers(
        self, name: str, first: np.ndarray, second: Column, largest: int
    ) -> dict[str, Column]:
        """`largest`: no magnitude of `first` is above it."""
        small = second is None and largest * len(first) <= INT64_MAX
        size = self.groups.size
        low, beyond = np.zeros(size, np.int64), np.zeros(0 if small else size, np.int64)
        kernels.sum_integers(first, numbers(second), self.of_row, small, low, beyond)
        return {f"{name}.sum": frozen(low), f"{name}.beyond": present(beyond)}

    def floats(self, name: str, first: np.ndarray, second: Column) -> dict[str, Column]:
        high, low = np.empty(self.groups.size), np.empty(self.groups.size)
        kernels.sum_floats(first, numbers(second, _NO_FLOATS), *self.groups, high, low)
        return {f"{name}.sum": frozen(high), f"{name}.low": present(low)}
