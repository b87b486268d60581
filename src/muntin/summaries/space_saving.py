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

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.arrow import is_sound
from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.segments.streams import ENTRY_BYTES, StreamReader, StreamWriter
from muntin.summaries.aligned import grown
from muntin.summaries.base import Estimate, Weighed, middle
from muntin.summaries.checks import INT64_MAX, check_alike, check_seed, integer_in
from muntin.summaries.envelope import Body, opened, seal
from muntin.summaries.items import (
    ITEM_TYPES,
    as_items,
    hash_items,
    item_buffers,
    item_kind,
    refuse_broken_text,
)
from muntin.summaries.kernels import space_saving as _kernels
from muntin.summaries.kernels.sorting import nth_largest
from muntin.summaries.weights import added, as_weights, exact_sum, total_of

CAPACITY_MAX = 1 << 24  # 32 M entries of 40 bytes: past that, exact counting is the better tool
ENTRIES_MIN, ARENA_BYTES_MIN, LARGE = 256, 4096, 1 << 16  # to begin with; from where on to double
PACKED_BYTES_MAX = 1 << 26  # of texts: more are not compressed, so that few bytes ask for no more
TEXTS = ("string", "binary")
_COLUMNS = ["item", "value", "lower", "upper"]
_ORDER = [("value", "descending"), ("lower", "descending"), ("item", "ascending")]
_STREAMS = 4
kernels: Any = _kernels  # lists of columns are unpacked into their calls
_N, _O = kernels.ENTRIES, kernels.OFFSET


class SpaceSaving(Weighed):
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
        self.capacity = integer_in("capacity", capacity, 1, CAPACITY_MAX)
        self.seed = check_seed(seed)
        self._events = 0
        self._total = 0
        self._items: str | None = None  # the name of their type in ITEM_TYPES, once there was one
        self._state = np.zeros(2, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.int64)
        self._errors = np.empty(0, np.int64)
        self._starts = np.zeros(1, np.int64)  # of texts in the arena; or the integers themselves
        self._arena = np.empty(0, np.uint8)
        self._table = np.zeros(2, np.uint64)

    @property
    def offset(self) -> int:
        """No item that is not kept weighs more."""
        return int(self._state[_O])

    @property
    def parameters(self) -> dict[str, Any]:
        """What two summaries must share to be merged."""
        return {"capacity": self.capacity, "seed": self.seed}

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
        self._update_hashed(array, hashes, as_weights(weights, len(hashes)))

    def _update_hashed(self, items: Any, hashes: np.ndarray, weights: np.ndarray) -> None:
        """As `update`, for a caller that has `hash_items(items, seed)` and `as_weights` already."""
        total = added(self._total, total_of(weights, len(hashes)), "space_saving")
        if not len(hashes):
            return
        array, name = self._typed(as_items(items))
        if name == "string":
            refuse_broken_text(array)
        self._items = name
        data, offsets = item_buffers(array)
        at = 0
        while True:
            at = kernels.count(at, hashes, weights, data, offsets, *self._arrays())
            if at == len(hashes):
                break
            size = 0 if offsets is None else int(offsets[at + 1] - offsets[at])
            self._grow(self._kept + 1, self._used + size, 2 * self.capacity)
        self._total = total
        self._events += len(hashes)

    def estimate(self, items: Any) -> Estimate:
        """Weight of each item, with a certain interval.

        Returns
        -------
        Estimate
            int64[n], confidence 1.0. `upper` is never below the truth, `lower` never above;
            `value` is the middle. Of an item that is not kept, `lower` is 0 and `upper` `offset`.
        """
        array = as_items(items)
        return self._estimate_hashed(array, hash_items(array, self.seed))

    def _estimate_hashed(self, items: pa.Array, hashes: np.ndarray) -> Estimate:
        """As `estimate`, for a caller that has `hash_items(items, seed)` already."""
        found = self._look_up(items, hashes)
        kept = found >= 0
        upper = np.full(len(found), self.offset, np.int64)
        lower = np.zeros(len(found), np.int64)
        upper[kept] = self._counts[found[kept]]
        lower[kept] = upper[kept] - self._errors[found[kept]]
        return Estimate(middle(lower, upper), lower, upper, 1.0)

    def top(self, k: int | None = None) -> pa.Table:
        """The k heaviest items, or all that are kept.

        Returns
        -------
        pyarrow.Table
            item; value, lower, upper (int64, as by `estimate`); guaranteed (bool: surely among the
            k heaviest of the whole stream). Heaviest first; equal ones by lower, then by item.
        """
        return self._ranked(k)

    def _ranked(
        self, k: int | None, estimate: Callable[[pa.Array], Estimate] | None = None
    ) -> pa.Table:
        """As `top`; where `estimate` knows better, its value is theirs, and its upper bound."""
        k = None if k is None else integer_in("k", k, 0, INT64_MAX)
        items, upper, errors = self._values(), *self._weights()
        lower = upper - errors
        value = middle(lower, upper)
        if estimate is not None:
            known = estimate(items)
            upper = np.minimum(upper, known.upper)
            value = np.clip(known.value, lower, upper)
        columns, rival = [items, value, lower, upper], self.offset
        if k is not None and k < len(items):
            near = value >= nth_largest(value, k)  # no other can be among the first
            rival = max(rival, upper[~near].max(initial=0))
            columns = [column.take(np.flatnonzero(near)) for column in columns]
        ordered = pa.table(columns, _COLUMNS).sort_by(_ORDER)
        shown = ordered.slice(0, k)
        rival = max(rival, ordered.slice(len(shown))["upper"].to_numpy().max(initial=0))
        surely = shown["lower"].to_numpy() >= rival
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
        mine, theirs = self._items, other._items
        if mine and theirs and mine != theirs:
            raise IncompatibleSummary(f"items of type {theirs} cannot join items of type {mine}")
        total = added(self._total, other._total, "space_saving")
        events = added(self._events, other._events, "space_saving", "events")
        self._total = total
        self._events = events
        if theirs is None:
            return
        # an item that one side does not keep may have weighed up to that side's offset there
        other = deepcopy(other) if other is self else other
        self._items = theirs
        together = self._kept + other._kept, self._used + other._used
        self._grow(*together, 4 * self.capacity)
        *columns, starts, arena = other._arrays()[2:7]
        items = (starts, None) if arena is None else (arena, starts)
        kernels.merge(other._kept, other.offset, *columns, *items, *self._arrays())

    def to_bytes(self) -> bytes:
        """The summary in Muntin's envelope, with all its entries in their order."""
        described = self.parameters | {
            "items": self._items,
            "entries": self._kept,
            "offset": self.offset,
            "events": self._events,
            "total": self._total,
        }
        texts, n = self._items in TEXTS, self._kept
        arena = self._arena[: self._used]
        packed = len(arena) <= PACKED_BYTES_MAX
        counts, errors = self._weights()
        out = StreamWriter()  # as in a segment
        out.numbers(counts - errors)
        out.numbers(errors)
        out.numbers(np.diff(self._starts[: n + 1]) if texts else self._starts[:n])
        out.raw(arena if packed else arena[:0])
        return seal(self.kind, described, *out.written(), b"" if packed else arena.tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summary that `to_bytes` wrote.

        Raises
        ------
        CorruptSummary
            Anything else: damaged, cut, of another kind, or counts that contradict the total.
        """
        fields, body = opened(data, cls.kind)
        summary = fields.made(cls, "capacity", "seed")
        items = fields.choice("items", (None, *ITEM_TYPES))
        n = fields.integer("entries", 0, 2 * summary.capacity)
        offset = fields.integer("offset", 0, INT64_MAX)
        summary._events = fields.integer("events", 0, INT64_MAX)
        summary._total = fields.integer("total", 0, INT64_MAX)
        fields.done()
        if (items is None) != (summary._events == 0) or (items is None and n):
            raise CorruptSummary("space_saving: items without a type or without an event")
        summary._read(items, n, offset, body)
        summary._check()
        return summary

    def _read(self, items: str | None, n: int, offset: int, body: Body) -> None:
        """Take over what `to_bytes` wrote; checked for what is true of all entries."""
        directory, payload = body.view(_STREAMS * ENTRY_BYTES), body.rest()
        reader = StreamReader(directory, payload)
        counted, errors, third = (reader.numbers(n) for _ in range(3))
        if n and min(int(counted.min()), int(errors.min())) < 0:
            raise CorruptSummary("space_saving: a count is below zero")
        self._items = items
        if items in TEXTS:
            if n and (
                int(third.min()) < 0 or int(third.max()) > max(PACKED_BYTES_MAX, len(payload))
            ):
                raise CorruptSummary("space_saving: an item's length is impossible")
            size = exact_sum(third)
            packed = size <= PACKED_BYTES_MAX
            arena = reader.raw(size if packed else 0)
            bare = reader.rest()
            if not packed:
                arena = np.frombuffer(bare, np.uint8)
            if len(arena) != size or (packed and len(bare)):
                raise CorruptSummary("space_saving: the texts do not have their lengths")
            self._reserve(n, len(arena))
            self._starts[1 : n + 1] = np.cumsum(third)
            self._arena[: len(arena)] = arena
        else:
            reader.raw(0)
            reader.done()
            self._reserve(n, 0)
            self._starts[:n] = third
        self._counts[:n], self._errors[:n] = counted + errors, errors
        self._state[_N], self._state[_O] = n, offset
        values = self._values()
        if not is_sound(values):
            raise CorruptSummary("space_saving: an item is not UTF-8")
        self._hashes[:n] = hash_items(values, self.seed)
        kernels.reindex(self._table, self._hashes, n)
        if (self._look_up(values, self._hashes[:n]) != np.arange(n)).any():
            raise CorruptSummary("space_saving: an item stands twice")

    def _check(self) -> None:
        """What is true of every summary that `update` and `merge` can make."""
        counts, errors = self._weights()
        n, offset, total = len(counts), self.offset, self._total
        if (total > 0) != (n > 0):
            raise CorruptSummary(f"space_saving: {n} items of a total {total}")
        if offset and n < self.capacity:
            raise CorruptSummary(f"space_saving: offset {offset} before there was an eviction")
        if not n:
            return
        if (
            errors.max() > offset
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
            f"{self._kept} items, offset {self.offset} of {self._total}"
        )

    @property
    def _kept(self) -> int:
        return int(self._state[_N])

    @property
    def _used(self) -> int:
        return int(self._starts[self._kept]) if self._items in TEXTS else 0

    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        return self._counts[: self._kept], self._errors[: self._kept]

    def _typed(self, array: pa.Array) -> tuple[pa.Array, str]:
        """Items in the type of those kept, and its name; BadArgument where they are of another."""
        name = item_kind(array.type)
        if self._items is None or self._items == name:
            return array, name
        if {self._items, name} == {"int64", "uint64"}:
            try:
                return array.cast(ITEM_TYPES[self._items]), self._items
            except pa.ArrowInvalid as problem:
                raise BadArgument(f"items so far are {self._items}: {problem}") from None
        raise BadArgument(f"items are {name}, those before were {self._items}: give one type")

    def _look_up(self, array: pa.Array, hashes: np.ndarray) -> np.ndarray:
        """Number of each item's entry, or -1: int64[n]."""
        out = np.full(len(array), -1, np.int64)
        if self._items is None or not len(array):
            return out
        array, _ = self._typed(array)
        where = self._arrays()[5:]
        kernels.look_up(hashes, *item_buffers(array), *where, out)
        return out

    def _values(self) -> pa.Array:
        """The items of all entries, in the order in which they came."""
        n = self._kept
        if self._items is None:
            return pa.array([], pa.large_string())
        if self._items not in TEXTS:
            bits = pa.py_buffer(self._starts[:n].tobytes())
            return pa.Array.from_buffers(ITEM_TYPES[self._items], n, [None, bits])
        texts = self._arena[: self._used].tobytes()
        buffers = [None, pa.py_buffer(self._starts[: n + 1].tobytes()), pa.py_buffer(texts)]
        return pa.Array.from_buffers(ITEM_TYPES[self._items], n, buffers)

    def _arrays(self) -> Any:
        """State, capacity, entries, arena and table, as the kernels take them."""
        columns = (self._hashes, self._counts, self._errors, self._starts)
        arena = self._arena if self._items in TEXTS else None
        return self._state, self.capacity, *columns, arena, self._table

    def _grow(self, entries: int, arena_bytes: int, most: int) -> None:
        """Room for so much and, where there is not, for several times what there was; for no more
        than `most` entries, unless there are."""
        if entries > len(self._hashes):
            entries = max(entries, min(_more(len(self._hashes), ENTRIES_MIN), most))
        if arena_bytes > len(self._arena):
            arena_bytes = max(arena_bytes, _more(len(self._arena), ARENA_BYTES_MIN))
        self._reserve(entries, arena_bytes)

    def _reserve(self, entries: int, arena_bytes: int) -> None:
        """Arrays that hold so many entries and bytes, and a table at most half full."""
        if arena_bytes > len(self._arena):
            self._arena = grown(self._arena, arena_bytes)
        if entries > len(self._hashes):
            self._hashes = grown(self._hashes, entries)
            self._counts = grown(self._counts, entries)
            self._errors = grown(self._errors, entries)
            self._starts = grown(self._starts, entries + 1)
            self._table = np.zeros(1 << (2 * entries - 1).bit_length(), np.uint64)
            kernels.reindex(self._table, self._hashes, self._kept)


def _more(size: int, least: int) -> int:
    """What is small grows fast: each time all of it is copied, and the table filled anew."""
    return max(least, size * (4 if size < LARGE else 2))
