"""`top_k`: Space-Saving a row, exact while it has few items.

=========== =================================================================================
State       a row: `item`, numbers of items of the table, ascending, and their `weight`;
            `offset`, which no other item exceeds, and, where it is not 0, `gained`: an item
            weighs at most offset + weight, and surely weight + gained; `total`, -1 where it is
            beyond int64; `nulls`, events without an item or weight
Error       offset <= total / (capacity + 1); 0 while there are at most 2 x capacity items
Merge       weights, what is gained and offsets add up, item by item; then all but `capacity`
            items go, where there are more than twice as many
Duplicates  count again
Source      see `muntin.summaries.space_saving`
Limits      while the offset is 0, bytes do not depend on how events were spread; after that
            bounds hold whatever the order, and which light items are kept depends on it
=========== =================================================================================

A negative weight is no weight: such events are counted in `nulls`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import Column, States, frozen, lists, numbers, present, room, trimmed
from muntin.segments.grouping import Groups
from muntin.segments.items import asked_items, item_keys
from muntin.segments.kernels import top_k as kernels
from muntin.segments.keys import Keys, union
from muntin.segments.nulls import check_nulls, counts_of, summed, without_nulls
from muntin.segments.table import Table
from muntin.summaries.base import middle
from muntin.summaries.checks import INT64_MAX, integer_in
from muntin.summaries.space_saving import CAPACITY_MAX

ENTRIES = {
    "item": Shape(ragged=True),
    "weight": Shape(ragged=True),
    "gained": Shape(ragged=True),
    "offset": Shape(),
    "total": Shape(required=True),
}


@dataclass(frozen=True)
class Heaviest:
    """The question: the k heaviest items of each row; None: all that are kept."""

    k: int | None = None


@dataclass(frozen=True)
class WeightOf:
    """The question: the weight of items."""

    items: tuple[Any, ...]


@dataclass(frozen=True)
class TopItems(Algebra):
    """The heaviest items. `fold` takes their column and, if they are weighed, weights in int64.
    `capacity` (int): every item heavier than total / (capacity + 1) is kept."""

    capacity: int = 1000

    kind: ClassVar[str] = "top_k"
    order_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        integer_in("capacity", self.capacity, 1, CAPACITY_MAX)

    def columns(self) -> dict[str, Shape]:
        return {"nulls": Shape(), **ENTRIES}

    def prepared(self, values: Sequence[pa.Array]) -> tuple[Sequence[Any], Keys | None]:
        return numbered(values)

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        return folded(values, groups, self.capacity, 2 * self.capacity)

    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        stored = flat(states, len(groups.order))
        out = entry_room(groups.size, len(stored[1]))
        kernels.merge_items(*stored, *groups, self.capacity, 2 * self.capacity, *out)
        return {"nulls": summed(states["nulls"], groups), **entries_of(out)}

    def check(self, table: Table) -> None:
        check_nulls(table)
        most = frozen(np.full(len(table), 2 * self.capacity))
        check_entries(table, self.capacity, most, "top_k")

    def answer(self, table: Table, question: Any) -> pa.Table:
        """Of `Heaviest`: `item`, `value`, `lower`, `upper`, `guaranteed` (surely among the k
        heaviest), heaviest first. Of `WeightOf`: `item`, `value`, `lower`, `upper`,
        `confidence` (1). Weights are int64, certain; `value` is the middle of its interval.
        Nothing of rows whose total is beyond int64."""
        stored = flat(table.states, len(table))
        if isinstance(question, Heaviest):
            return heaviest(table, stored, question.k, listed(stored))
        if isinstance(question, WeightOf):
            bounds = weights_of(table, stored, question.items)
            return weights_table(stored[5], question.items, bounds, np.ones(len(bounds[0])))
        raise BadArgument(f"top_k cannot answer {question!r:.100}: ask Heaviest or WeightOf")


def numbered(values: Sequence[pa.Array]) -> tuple[Sequence[Any], Keys]:
    """Items as their numbers (null where they are), and the different ones."""
    codes, keys = item_keys(values[0])
    missing = values[0].is_null().to_numpy(zero_copy_only=False)
    return [pa.array(codes, mask=missing), *values[1:]], keys


def folded(values: Sequence[Any], groups: Groups, capacity: int, most: int) -> dict[str, Column]:
    """The states of a batch of numbered items, and weights where there are any."""
    weights = frozen(np.ones(1, np.int64))
    if len(values) > 1:
        counted = pc.greater_equal(values[1], 0)
        values = [values[0], pc.if_else(counted, values[1], None)]
        weights = frozen(pc.fill_null(values[1], 0).to_numpy(zero_copy_only=False))
    groups, nulls, _ = without_nulls(values, groups)
    named = frozen(pc.fill_null(values[0], 0).to_numpy(zero_copy_only=False))
    out = entry_room(groups.size, len(groups.order))
    kernels.fold_items(named, weights, *groups, capacity, most, *out)
    return {"nulls": nulls, **entries_of(out)}


def entry_room(groups: int, items: int) -> tuple[np.ndarray, ...]:
    """For the lists of groups: starts, items, weights, gained, offsets, totals."""
    return room(groups + 1, items, items, items, groups, groups)


def entries_of(made: Sequence[np.ndarray]) -> dict[str, Column]:
    """What a kernel has put into `entry_room`, as columns."""
    starts, items, weights, gained, offsets, totals = made
    own_starts, own = room(len(starts), int(starts[-1]) if offsets.any() else 0)
    kernels.gather_gained(starts, offsets, gained, own_starts, own)
    return {
        "item": trimmed(starts, items),
        "weight": trimmed(starts, weights),
        "gained": trimmed(own_starts, own),
        "offset": present(offsets),
        "total": frozen(totals),
    }


def flat(states: States, rows: int) -> tuple[np.ndarray, ...]:
    """Starts, items, weights, gained (of each item), offsets and totals."""
    item, weight = lists(states["item"], rows), lists(states["weight"], rows)
    gained = lists(states["gained"], rows)
    offsets = numbers(states["offset"], frozen(np.zeros(rows, np.int64)))
    spread = np.empty(len(item.items), np.int64)
    kernels.spread_gained(item.starts, offsets, gained.starts, gained.items, spread)
    return item.starts, item.items, weight.items, frozen(spread), offsets, numbers(states["total"])


def check_entries(table: Table, capacity: int, most: np.ndarray, kind: str) -> None:
    """CorruptSummary where lists of items contradict themselves, their totals or events. `most`
    items (int64[rows]) may be in a row; -1: none are listed, whatever there was."""
    rows = len(table)
    item, weight = lists(table.states["item"], rows), lists(table.states["weight"], rows)
    gained = lists(table.states["gained"], rows)
    if table.items is None or not np.array_equal(item.starts, weight.starts):
        raise CorruptSummary(f"{kind}: items without weights")
    offsets = numbers(table.states["offset"], frozen(np.zeros(rows, np.int64)))
    row = kernels.check_items(
        item.starts, item.items, weight.items, gained.starts, gained.items,
        offsets, numbers(table.states["total"]), counts_of(table), np.int64(capacity), most,
    )  # fmt: skip
    if row >= 0:
        raise CorruptSummary(f"{kind}: row {row} holds items that no events make")


def listed(stored: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, lower and upper weight of each item of the lists."""
    starts, _, weights, gained, offsets, _ = stored
    lower, upper = weights + gained, weights + np.repeat(offsets, np.diff(starts))
    return middle(lower, upper), lower, upper


def heaviest(
    table: Table, stored: tuple[np.ndarray, ...], k: int | None, bounds: Sequence[np.ndarray]
) -> pa.Table:
    """The answer to `Heaviest`; `bounds` as `listed` has them."""
    k = None if k is None else integer_in("k", k, 0, INT64_MAX)
    starts, items, _, _, offsets, _ = stored
    value, lower, upper = bounds
    sizes = np.diff(starts)
    row = np.repeat(np.arange(len(sizes)), sizes)
    names = table.items.values[0] if table.items is not None else pa.nulls(0)
    # equal ones in the order of the items themselves
    place = np.empty(len(names), np.int64)
    if len(names):
        place[pc.array_sort_indices(names).to_numpy()] = np.arange(len(names))
    order = np.lexsort((place[items], -lower, -value, row))
    rank = np.arange(len(order)) - np.repeat(starts[:-1], sizes)
    rival = offsets.copy()
    if k is not None:
        left = order[rank >= k]
        np.maximum.at(rival, row[left], upper[left])
        order = order[rank < k]
    at = row[order]
    return pa.table(
        {
            "row": at,
            "item": names.take(pa.array(items[order])),
            "value": value[order],
            "lower": lower[order],
            "upper": upper[order],
            "guaranteed": lower[order] >= rival[at],
        }
    )


_ASKED_AS = {
    (pa.large_binary(), pa.large_string()),
    (pa.int64(), pa.uint64()),
    (pa.uint64(), pa.int64()),
}
"""Types of items that are kept, and of those that they may be asked by."""


def places_of(table: Table, stored: tuple[np.ndarray, ...], items: Sequence[Any]) -> np.ndarray:
    """Where each item stands in the lists of each row, row by row; -1 where it does not."""
    codes, asked = item_keys(asked_items(items))
    kept = None if table.items is None else table.items.values[0].type
    if kept is not None and (kept, asked.values[0].type) in _ASKED_AS:
        # by its bits: an integer of the other type alone has another hash, and is not there
        asked = replace(asked, columns=(asked.values[0].cast(kept, safe=False),))
    return places_in(table, stored, asked, codes)


def places_in(
    table: Table, stored: tuple[np.ndarray, ...], asked: Keys, codes: np.ndarray
) -> np.ndarray:
    """As `places_of`, of keys with the number of each that is asked for."""
    if table.items is None or not len(table.items):
        return np.full(len(table) * len(codes), -1, np.int64)
    likely = np.flatnonzero(np.isin(table.items.hashes, asked.hashes, kind="sort"))
    both, (mine, theirs) = union([table.items.take(likely), asked])
    to = np.full(len(both), -1, np.int64)
    to[mine] = likely
    numbered = to[theirs][codes]
    starts, listed = stored[0], stored[1]
    width = len(table.items) + 1
    row = np.repeat(np.arange(len(table)), np.diff(starts))
    wanted = (np.arange(len(table))[:, None] * width + numbered[None, :]).ravel()
    there = row * width + listed
    at = np.searchsorted(there, wanted)
    found = at < len(there)
    found[found] = there[at[found]] == wanted[found]
    found &= np.tile(numbered >= 0, len(table))
    return np.where(found, at, -1)


def weights_of(
    table: Table, stored: tuple[np.ndarray, ...], items: Sequence[Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, lower and upper weight of each item in each row, row by row."""
    at = places_of(table, stored, items)
    offset = np.repeat(stored[4], len(items))
    kept = at >= 0
    upper, lower = offset.copy(), np.zeros(len(at), np.int64)
    upper[kept] += stored[2][at[kept]]
    lower[kept] = stored[2][at[kept]] + stored[3][at[kept]]
    return middle(lower, upper), lower, upper


def weights_table(
    totals: np.ndarray, items: Sequence[Any], bounds: Sequence[np.ndarray], confidence: np.ndarray
) -> pa.Table:
    """The answer to `WeightOf`: of each row whose total is not beyond int64, and each item."""
    rows = np.repeat(np.arange(len(totals)), len(items))
    asked = asked_items([*items] * len(totals))
    names = ["row", "item", "value", "lower", "upper", "confidence"]
    found = pa.table([rows, asked, *bounds, confidence], names)
    return found.filter(pa.array(totals[rows] >= 0))
