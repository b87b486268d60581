"""Space-Saving: the heaviest items of a stream, as they are, each with a certain interval.

=========== =================================================================================
State       up to 2 x capacity entries: item, count int64, error int64; offset, total: int
Error       count - error <= truth <= count for a kept item; truth <= offset for any other;
            offset <= total / (capacity + 1). All certain, whatever the order
Merge       with the same capacity and seed, and items of the same type. The bounds above
            hold for the whole stream; which light items are kept depends on the order
Duplicates  count again
Source      Metwally, Agrawal & El Abbadi, ICDT 2005; merging: Agarwal et al., PODS 2012,
            section 3 (as Misra-Gries, to which this is equal up to the offset)
Limits      weights >= 0; memory grows with the items' lengths
=========== =================================================================================

**Eviction in bulk.** The textbook replaces the lightest entry at each unknown item, and so must
know it at all times. Here unknown items are added, at count `offset + weight` and error `offset`,
until there are 2 x capacity entries; then all but the `capacity` largest go at once, and the
offset becomes the largest count among those that went. An item costs one look-up. With `r =
count - offset` this is Misra-Gries: each unit that the offset rises by takes one unit off at
least capacity + 1 entries, so that `sum(r) + (capacity + 1) * offset <= total`, as `from_bytes`
checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary, IncompatibleSummary
from muntin.summaries.base import Copied, Estimate
from muntin.summaries.checks import check_alike, integer_in
from muntin.summaries.entries import Entries
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.items import ITEM_TYPES, as_items, hash_items
from muntin.summaries.kernels.sorting import nth_largest
from muntin.summaries.reading import INT64_MAX, Body, Fields, exact_sum
from muntin.summaries.weights import added, as_weights, total_of

CAPACITY_MAX = 1 << 24  # 32 M entries of 40 bytes: past that, exact counting is the better tool
SEED_MAX = 2**64 - 1
_COLUMNS = ["item", "value", "lower", "upper"]
_ORDER = [("value", "descending"), ("lower", "descending"), ("item", "ascending")]


class SpaceSaving(Copied):
    """The heaviest items with lower and upper counts.

    Parameters
    ----------
    capacity : int
        Every item heavier than total / (capacity + 1) is kept, and no interval is longer than
        that. A few times the number of items wanted is a good choice.
    seed : int
        Of the hash, 0 ... 2**64 - 1.

    Raises
    ------
    BadArgument
        A parameter out of its range.

    Examples
    --------
    >>> heavy = SpaceSaving(capacity=100)
    >>> heavy.update(["JFK", "EWR", "JFK"])
    >>> heavy.top(1).to_pylist()
    [{'item': 'JFK', 'value': 2, 'lower': 2, 'upper': 2, 'guaranteed': True}]
    """

    kind: ClassVar[str] = "space_saving"

    def __init__(self, capacity: int = 1000, seed: int = 0) -> None:
        self._entries = Entries(
            integer_in("capacity", capacity, 1, CAPACITY_MAX), integer_in("seed", seed, 0, SEED_MAX)
        )
        self._events = 0
        self._total = 0

    @property
    def capacity(self) -> int:
        """Counters that the bounds promise; twice as many may be held."""
        return self._entries.capacity

    @property
    def seed(self) -> int:
        """Seed of the hash."""
        return self._entries.seed

    @property
    def count(self) -> int:
        """Events summarised: items given to `update`, whatever their weights."""
        return self._events

    @property
    def total(self) -> int:
        """Weight of all items: exact."""
        return self._total

    @property
    def offset(self) -> int:
        """No item that is not kept weighs more."""
        return self._entries.offset

    @property
    def parameters(self) -> dict[str, Any]:
        """What two summaries must share to be merged."""
        return {"capacity": self.capacity, "seed": self.seed}

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._entries.nbytes

    def update(self, items: Any, weights: Any = None) -> None:
        """Count items.

        Parameters
        ----------
        items : array of str, bytes or int [n], or one item
            What `muntin.summaries.items.as_items` takes; always of the same type as before.
        weights : int64[n] or int, optional
            0 ... 2**63 - 1; 1 each where none are given. An item of weight 0 is not kept.

        Raises
        ------
        BadArgument
            Null or float items, another type than before; weights that are negative or not one
            for each item.
        SummaryOverflow
            The total weight would leave int64. Nothing was counted.
        """
        array = as_items(items)
        hashes = hash_items(array, self.seed)
        self.update_hashed(array, hashes, as_weights(weights, len(hashes)))

    def update_hashed(self, items: Any, hashes: np.ndarray, weights: np.ndarray) -> None:
        """As `update`, for a caller that has `hash_items(items, seed)` and `as_weights` already."""
        total = added(self._total, total_of(weights, len(hashes)), "space_saving")
        if not len(hashes):
            return
        self._entries.add(as_items(items), hashes, weights)
        self._total = total
        self._events += len(hashes)

    def estimate(self, items: Any) -> Estimate:
        """Weight of each item, with a certain interval.

        Returns
        -------
        Estimate
            int64[n], confidence 1.0. `value` = `upper`, never below the truth. An item that is
            not kept has `lower` 0 and `upper` `offset`.
        """
        found = self._entries.look_up(as_items(items))
        kept = found >= 0
        upper = np.full(len(found), self.offset, np.int64)
        lower = np.zeros(len(found), np.int64)
        upper[kept] = self._entries.counts[found[kept]]
        lower[kept] = upper[kept] - self._entries.errors[found[kept]]
        return Estimate(upper.copy(), lower, upper, 1.0)

    def top(self, k: int | None = None) -> pa.Table:
        """The k heaviest items, or all that are kept.

        Returns
        -------
        pyarrow.Table
            item; value, lower, upper (int64, value = upper); guaranteed (bool: surely among the
            k heaviest of the whole stream). Heaviest first; equal ones by lower, then by item.
        """
        return self.ranked(k)

    def ranked(
        self, k: int | None, at_most: Callable[[pa.Array], np.ndarray] | None = None
    ) -> pa.Table:
        """As `top`, where `at_most` knows of items that they weigh no more."""
        k = None if k is None else integer_in("k", k, 0, INT64_MAX)
        items, upper, rival = self._entries.values(), self._entries.counts.copy(), 0
        if at_most is not None:
            upper = np.minimum(upper, at_most(items))
        columns = [items, upper, self._entries.counts - self._entries.errors, upper]
        if k is not None and k < len(items):
            rival = nth_largest(upper, k)
            near = np.flatnonzero(upper >= rival)  # no other can be among the first
            columns = [column.take(near) for column in columns]
        shown = pa.table(columns, _COLUMNS).sort_by(_ORDER).slice(0, k)
        surely = shown["lower"].to_numpy() >= max(self.offset, rival)
        return shown.append_column("guaranteed", pa.array(surely))

    def merge(self, other: Self) -> None:
        """Add another summary of the same capacity, seed and type of items.

        Raises
        ------
        IncompatibleSummary
            Other parameters, items of another type, or another kind.
        SummaryOverflow
            The total weight would leave int64. Nothing was changed.
        """
        check_alike(self, other)
        mine, theirs = self._entries.items, other._entries.items
        if mine and theirs and mine != theirs:
            raise IncompatibleSummary(f"items of type {theirs} cannot join items of type {mine}")
        total = added(self._total, other._total, "space_saving")
        events = added(self._events, other._events, "space_saving", "events")
        self._entries.merge(other._entries)
        self._total = total
        self._events = events

    def to_bytes(self) -> bytes:
        """The summary in Muntin's envelope, with all its entries in their order."""
        described = self.parameters | {
            "items": self._entries.items,
            "entries": len(self._entries),
            "offset": self.offset,
            "events": self._events,
            "total": self._total,
        }
        return seal(self.kind, described, self._entries.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summary that `to_bytes` wrote.

        Raises
        ------
        CorruptSummary
            Anything else: damaged, cut, of another kind, or counts that contradict the total.
        """
        parameters, view = unseal(data, cls.kind)
        fields = Fields(cls.kind, parameters)
        capacity = fields.integer("capacity", 1, CAPACITY_MAX)
        summary = cls(capacity, fields.integer("seed", 0, SEED_MAX))
        items = fields.choice("items", (None, *ITEM_TYPES))
        n = fields.integer("entries", 0, 2 * capacity)
        offset = fields.integer("offset", 0, INT64_MAX)
        summary._events = fields.integer("events", 0, INT64_MAX)
        summary._total = fields.integer("total", 0, INT64_MAX)
        fields.done()
        body = Body(cls.kind, view)
        if (items is None) != (summary._events == 0) or (items is None and n):
            raise CorruptSummary("space_saving: items without a type or without an event")
        summary._entries.read(items, n, offset, body)
        summary._check()
        return summary

    def _check(self) -> None:
        """What is true of every summary that `update` and `merge` can make."""
        counts, errors = self._entries.counts, self._entries.errors
        n, offset, total = len(counts), self.offset, self._total
        if (total > 0) != (n > 0):
            raise CorruptSummary(f"space_saving: {n} items of a total {total}")
        if offset and n < self.capacity:
            raise CorruptSummary(f"space_saving: offset {offset} before there was an eviction")
        if not n:
            return
        if (
            errors.min() < 0
            or errors.max() > offset
            or counts.max() > total
            or counts.min() < max(offset, 1)
            or (counts <= errors).any()
        ):
            raise CorruptSummary("space_saving: a count is outside what its errors allow")
        weight = exact_sum(counts - offset) + (self.capacity + 1) * offset
        if weight > total or exact_sum(counts - errors) > total or (not offset and weight < total):
            raise CorruptSummary(f"space_saving: counts do not fit the total {total}")

    def __repr__(self) -> str:
        return (
            f"SpaceSaving(capacity={self.capacity}, seed={self.seed}): {self._events} events, "
            f"{len(self._entries)} items, offset {self.offset} of {self._total}"
        )
