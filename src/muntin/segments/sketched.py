"""`sketched_matrix`: sums of indicators by key in fixed memory, exact while keys are few.

=========== =================================================================================
State       a row: the keys as items with their counts as in `top_k` (`item`, `weight`, `gained`,
            `offset`, `total`); of each indicator `list`, its sum for each item, `all`, its sum
            over all events, and `nulls`, events without a value. From more than
            max(2 x track, 3/4 x width x depth) keys on, `cells` of counts and of each indicator in
            place of the lists of sums; the items are the heaviest then
Error       none without cells (floats: their rounding); with them as `SketchedMatrix`:
            truth <= value, and value - truth <= e / width x the sum over all events, with
            probability 1 - exp(-depth)
Merge       adds
Duplicates  count again
Source      see `muntin.summaries.sketched_matrix`
Limits      what is negative, or would make a sum of a batch leave int64, is no value; a sum over
            all that leaves its type afterwards is null for ever, and so are its parts
=========== =================================================================================

A table has a row a slice: what it is asked for by, the columns of its name, are its items.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.arrow import floats_of_decimals
from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import Ragged, States, frozen, lists, numbers, trimmed
from muntin.segments.frequency import ANY, COUNTED, Frequency
from muntin.segments.grouping import Groups, each_alone
from muntin.segments.kernels import sketched as kernels
from muntin.segments.keys import Encoded, Keys
from muntin.segments.nulls import check_counts, summed
from muntin.segments.sums import OfIndicators, Totals, missing_of, typed
from muntin.segments.table import Table
from muntin.segments.top_k import flat, folded, places_in
from muntin.summaries.indicators import SumType, indicator_values
from muntin.summaries.key_columns import columns_in, decoded

FLOAT_SLACK = 1e-6  # of a sum, which the rounding of floats moves by less
INTEGER_SLACK = 1e-9  # sums are compared as doubles


@dataclass(frozen=True)
class Listed:
    """The question: the heaviest keys with their sums; None: all that are listed."""

    k: int | None = None


@dataclass(frozen=True)
class SumsOf:
    """The question: the sums of keys, by the key's columns."""

    columns: Mapping[str, pa.Array]


@dataclass(frozen=True)
class _Counts(Frequency):
    """Of the events: `SketchedSums` says how many keys are few."""

    @property
    def few(self) -> int:
        # Counts in cells have few bits each. Sums are as long there as in a list, and a key has
        # `depth` of them: so many keys take as many bytes either way, and a list is exact.
        return max(2 * self.track, 3 * self.width * self.depth // 4)


@dataclass(frozen=True)
class SketchedSums(OfIndicators):
    """Sums of indicators by keys. `fold` takes an array for each indicator.

    Parameters
    ----------
    indicators : tuple of (name, "int64" | "float64" | None)
        As for `Sums`.
    width, depth : int
        Of the cells: the error is e / width of the sum over all; 2 or more, 1 to 32.
    track : int
        Heaviest keys, by events, that are listed beside cells.
    """

    indicators: tuple[tuple[str, SumType | None], ...] = ()
    width: int = 2048
    depth: int = 4
    track: int = 1000

    kind: ClassVar[str] = "sketched_matrix"
    order_free: ClassVar[bool] = False
    keys_are_items: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.track < 1:
            raise BadArgument(f"track={self.track}: list at least one key")
        for name, kind in self.indicators:
            if kind not in ("int64", "float64", None):
                raise BadArgument(
                    f"indicator {name!r} of type {kind}: a sketch sums decimals as floats, give "
                    "'float64'"
                )
        _ = self._counts  # refuses what is out of range

    @property
    def _counts(self) -> Frequency:
        """The same of the numbers of events alone."""
        return _Counts(self.width, self.depth, False, self.track)

    @property
    def confidence(self) -> float:
        """Probability that one lower bound of a sum from cells holds."""
        return self._counts.confidence

    def columns(self) -> dict[str, Shape]:
        shapes = dict(COUNTED)
        for name, kind in self.indicators:
            doubles = kind == "float64"
            shapes |= {
                f"{name}.nulls": Shape(),
                f"{name}.all": Shape(kind or "int64", required=True),
                f"{name}.list": Shape(ragged=True, keys=doubles),
                f"{name}.cells": Shape(ragged=True, keys=doubles),
            }
        return shapes

    def fitted(self, values: Sequence[pa.Array]) -> Self:
        return replace(self, indicators=typed(self.indicators, [*map(floats_of_decimals, values)]))

    def united(self, other: Algebra) -> Algebra:
        if not isinstance(other, SketchedSums) or replace(other, indicators=()) != replace(
            self, indicators=()
        ):
            return super().united(other)
        mine, theirs = dict(self.indicators), dict(other.indicators)
        if list(mine) != list(theirs):
            raise IncompatibleSummary("sketched sums of other indicators cannot be merged")
        wide = {
            name: "float64" if "float64" in (kind, theirs[name]) else kind or theirs[name]
            for name, kind in mine.items()
        }
        return replace(self, indicators=tuple(wide.items()))

    def adapted(self, table: Table, to: Algebra) -> States:
        assert isinstance(to, SketchedSums)  # noqa: S101
        states = dict(table.states)
        for (name, mine), (_, kind) in zip(self.indicators, to.indicators, strict=True):
            if kind == "float64" and mine != kind:
                for part in ("list", "cells"):
                    column = states[f"{name}.{part}"]
                    if isinstance(column, Ragged):
                        bits = column.items.astype(np.float64).view(np.int64)
                        states[f"{name}.{part}"] = Ragged(column.starts, frozen(bits))
                whole = numbers(states[f"{name}.all"]).astype(np.float64)
                states[f"{name}.all"] = frozen(whole)
        return states

    def prepared(self, values: Sequence[pa.Array]) -> tuple[Sequence[Any], Keys | None]:
        pairs = zip(self.indicators, values, strict=True)
        return [_amounts(name, kind, column) for (name, kind), column in pairs], None

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        named, *columns = values
        states = folded([pa.array(named)], groups, 1, ANY)
        del states["nulls"]
        item = lists(states["item"], groups.size)
        states["cells"] = None
        places = np.empty(len(groups.order), np.int64)
        most = int(item.items.max(initial=0))
        kernels.find_places(named, *groups, item.starts, item.items, most, places)
        for (name, _), (amounts, missing) in zip(self.indicators, columns, strict=True):
            totals = np.empty(groups.size, amounts.dtype)
            kernels.total_lane(amounts, *groups, _limit(amounts.dtype), totals)
            out = np.empty(len(item.items), amounts.dtype)
            kernels.fold_lane(frozen(places), amounts, *groups, frozen(totals), out)
            states |= {
                f"{name}.nulls": summed(missing, groups),
                f"{name}.all": frozen(totals),
                f"{name}.list": trimmed(item.starts, out.view(np.int64)),
                f"{name}.cells": None,
            }
        if self._counts.are_lists(states, groups.size):
            return states
        return self.merge(states, each_alone(groups.size), items)

    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        rows = len(groups.order)
        counted = {name: states[name] for name in COUNTED}
        out, listed = self._counts.merged_lists({**counted, "nulls": None}, groups, items)
        del out["nulls"]
        item = lists(states["item"], rows)
        dense = lists(out["cells"], groups.size)
        hashes = items.hashes if items is not None else np.empty(0, np.uint64)
        columns = np.empty((self.depth + 1, len(item.items)), np.uint32)
        kernels.find_merged(
            item.starts, item.items, lists(states["cells"], rows).starts, *groups,
            dense.starts, hashes, self.width, *listed, columns,
        )  # fmt: skip
        columns = frozen(columns)
        for name, kind in self.indicators:
            dtype: Any = kind or "int64"
            before = numbers(states[f"{name}.all"])
            totals = np.empty(groups.size, dtype)
            kernels.total_lane(before, *groups, _limit(np.dtype(dtype)), totals)
            stored = lists(states[f"{name}.list"], rows)
            own = lists(states[f"{name}.cells"], rows)
            buffer = np.empty(len(stored.items), dtype)
            list_starts = np.empty(groups.size + 1, np.int64)
            counters = np.zeros(len(dense.items), dtype)
            kernels.merge_lane(
                item.starts, columns, stored.starts, stored.items.view(dtype), own.starts,
                own.items.view(dtype), *groups, dense.starts, self.width, listed[0],
                frozen(totals), list_starts, buffer, counters,
            )  # fmt: skip
            out |= {
                f"{name}.nulls": summed(states[f"{name}.nulls"], groups),
                f"{name}.all": frozen(totals),
                f"{name}.list": trimmed(list_starts, buffer.view(np.int64)),
                f"{name}.cells": trimmed(dense.starts, counters.view(np.int64)),
            }
        return out

    def check(self, table: Table) -> None:
        rows = len(table)
        self._counts.check(replace(table, states={**table.states, "nulls": None}))
        if (numbers(table.states["total"]) != table.events).any():
            raise CorruptSummary("sketched_matrix: counts are not those of the events")
        item, cells = lists(table.states["item"], rows), lists(table.states["cells"], rows)
        complete = np.where(cells.sizes > 0, 0, item.sizes)
        for name, kind in self.indicators:
            problem = f"sketched_matrix: {name!r:.100} has too many nulls"
            check_counts(table.states[f"{name}.nulls"], table.events, problem)
            stored = lists(table.states[f"{name}.list"], rows)
            own = lists(table.states[f"{name}.cells"], rows)
            if (stored.sizes != complete).any() or not np.array_equal(own.starts, cells.starts):
                raise CorruptSummary(f"sketched_matrix: the sums of {name!r:.100} are incomplete")
            dtype: Any = kind or "int64"
            slack = FLOAT_SLACK if kind == "float64" else INTEGER_SLACK
            row = kernels.check_lane(
                stored.starts, stored.items.view(dtype), own.starts, own.items.view(dtype),
                numbers(table.states[f"{name}.all"]), slack, self.depth, self.width,
            )  # fmt: skip
            if row >= 0:
                raise CorruptSummary(f"sketched_matrix: sums of {name!r:.100} in row {row}")

    def answer(self, table: Table, question: Any) -> pa.Table:
        """Of `Listed`, heaviest first, and of `SumsOf`: the key's columns; `count` and the
        indicators (upper bounds), `<name>_lower` of each at `confidence`, which is 1 without
        cells. `count_lower` of `Listed` is certain. An indicator is null where its sum over all
        is beyond its type. Of `Totals`: `count`, the indicators and `overflow`, as of `Sums`."""
        if isinstance(question, Totals):
            return self._totals(table)
        stored = flat(table.states, len(table))
        starts, items = stored[:2]
        if isinstance(question, SumsOf):
            found, codes = self._asked(table, question)
            row = np.repeat(np.arange(len(table)), len(codes))
            at = places_in(table, stored, found, codes)
            hashes, chosen = np.tile(found.hashes[codes], len(table)), np.tile(codes, len(table))
            shown = self._bounds(table, stored, row, hashes, at, likely=True)
        elif isinstance(question, Listed):
            found = _items_of(table)
            row = np.repeat(np.arange(len(table)), np.diff(starts))
            shown = self._bounds(table, stored, row, found.hashes[items], np.arange(len(items)))
            order = np.lexsort((items, -shown["count"].to_numpy(), row))
            if question.k is not None:
                place = np.arange(len(items)) - starts[row]
                order = order[place < question.k]
            row, chosen = row[order], items[order]
            shown = {name: column.take(pa.array(order)) for name, column in shown.items()}
        else:
            raise BadArgument(
                f"sketched sums cannot answer {question!r:.100}: ask Listed, SumsOf or Totals"
            )
        picked = pa.array(chosen)
        keys = {n: decoded(c.take(picked)) for n, c in zip(found.names, found.columns, strict=True)}
        return pa.table({"row": row, **keys, **shown})

    def beyond(self, table: Table) -> list[str]:
        """The indicators whose sum over all is beyond its type, in any row."""
        names = [name for name, _ in self.indicators]
        return [name for name in names if (numbers(table.states[f"{name}.all"]) < 0).any()]

    def _totals(self, table: Table) -> pa.Table:
        columns: dict[str, Any] = {"row": np.arange(len(table)), "count": table.events}
        overflow = np.zeros(len(table), bool)
        for name, _ in self.indicators:
            whole = numbers(table.states[f"{name}.all"])
            overflow |= whole < 0
            columns[name] = pa.array(whole, mask=whole < 0)
        return pa.table({**columns, "overflow": overflow})

    def _asked(self, table: Table, question: SumsOf) -> tuple[Keys, np.ndarray]:
        """The different keys of a question, and the number of each one that is asked for."""
        names = _items_of(table).names
        columns = dict(zip(names, columns_in(question.columns, names), strict=True))
        return Encoded(columns).keys(names, len(columns[names[0]]))

    def _bounds(
        self,
        table: Table,
        stored: tuple[np.ndarray, ...],
        row: np.ndarray,
        hashes: np.ndarray,
        at: np.ndarray,
        *,
        likely: bool = False,
    ) -> dict[str, pa.Array]:
        """Bounds of keys by their rows, hashes, and places in all lists (-1: in none). `likely`:
        the lower bounds of counts are those that hold at `confidence`, too."""
        starts, _, weights, gained, offsets, _ = stored
        kept = at >= 0
        weight, sure = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        weight[kept] = weights[at[kept]]
        sure[kept] = weight[kept] + gained[at[kept]]
        cells = lists(table.states["cells"], len(table))
        dense = cells.sizes[row] > 0
        place = np.where(kept & ~dense, at - starts[row], -1)
        where = frozen(row), frozen(hashes), frozen(place)
        upper = weight + offsets[row]
        counted = self._lane(where, lists(None, len(table)), cells, np.dtype(np.int64))
        upper = np.where(dense, np.minimum(counted, upper), upper)
        if likely:
            below = _less(counted, table.events[row], self.width, dense)
            sure = np.maximum(sure, np.minimum(below, upper))  # which the list makes certain
        columns = {"count": pa.array(upper), "count_lower": pa.array(sure)}
        for name, kind in self.indicators:
            dtype: Any = np.dtype(kind or "int64")
            sums = lists(table.states[f"{name}.list"], len(table))
            own = lists(table.states[f"{name}.cells"], len(table))
            value = self._lane(where, sums, own, dtype)
            whole = numbers(table.states[f"{name}.all"])[row]
            lower = np.where(dense, _less(value, whole, self.width, dense), value)
            hidden = whole < 0
            columns[name] = pa.array(value, mask=hidden)
            columns[f"{name}_lower"] = pa.array(lower, mask=hidden)
        confidence = np.where(dense, self.confidence, 1.0)
        return {**columns, "confidence": pa.array(confidence)}

    def _lane(
        self, where: tuple[Any, ...], stored: Ragged, cells: Ragged, dtype: Any
    ) -> np.ndarray:
        out = np.zeros(len(where[0]), dtype)
        if len(stored.items) or len(cells.items):
            kernels.estimate_lane(
                *where, stored.starts, stored.items.view(dtype), cells.starts,
                cells.items.view(dtype), self.depth, self.width, out,
            )  # fmt: skip
        return out


def _items_of(table: Table) -> Keys:
    assert table.items is not None  # noqa: S101
    return table.items


def _less(value: np.ndarray, whole: np.ndarray, width: int, dense: np.ndarray) -> np.ndarray:
    """Sums less what cells may be too high; 0 where there are none."""
    with np.errstate(over="ignore"):  # beyond float64 there is no bound but 0
        error = np.where(dense, math.e * whole.astype(np.float64) / width, np.inf)
    if value.dtype == np.int64:
        error = np.ceil(error)
        fits = error < 2.0**62
        error = np.where(fits, error, 0).astype(np.int64)
        return np.where(fits, np.maximum(value - error, 0), 0)
    return np.maximum(value - error, 0)


def _limit(dtype: Any) -> Any:
    return np.int64((1 << 63) - 1) if dtype == np.int64 else np.float64(np.finfo(np.float64).max)


def _amounts(
    name: str, kind: SumType | None, column: pa.Array
) -> tuple[np.ndarray, np.ndarray | None]:
    """Values with 0 where there is none; int64[n] of 0 and 1, which have none, or None: all do."""
    column = floats_of_decimals(column)
    read = indicator_values(name, column, kind)
    missing = missing_of(column) if read.nulls else np.zeros(len(column), np.bool_)
    amounts = read.numbers
    if amounts is None:
        amounts = np.zeros(len(column), kind or "int64")
    elif (negative := amounts < 0).any():
        amounts = np.where(negative, amounts.dtype.type(0), amounts)
        missing = missing | negative
    # a column of less than 64 bits has sums of 64
    amounts = amounts.astype(kind or read.type or "int64", copy=False)
    return frozen(amounts), frozen(missing.astype(np.int64)) if missing.any() else None
