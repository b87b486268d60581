"""Calm Space-Saving: the most frequent items of a stream, undisturbed by those that come once.

========== =====================================================================================
State      buckets of eight pairs (fingerprint uint32, count uint32) and a queue of
           `queue_ways` fingerprints each; a store of the k highest pairs with their items
Error      lower = value - the count that was taken over at promotion; upper = value for a pair
           that never waited in a queue, else value + what fell off its bucket's queue. Both hold
           but for equal fingerprints: about 8 / 2^32 (queue 8 / 2^24) for each look-up
Merge      refused: promotion depends on the order of the stream (shard by item instead)
Duplicates count twice
Source     HyperCalm Sketch, ICDE 2023 (CalmSS); Metwally et al., ICDT 2005 (Space-Saving).
           Buckets with their own queue, and the store of named pairs, are ours
Limits     k up to 2^24; an unnamed count stops at 2^30; items longer than the store's whole
           arena are counted but never named (`unnamed` tells how often that happened)
========== =====================================================================================

A new item waits in a short queue, first in, first out, and enters Space-Saving in place of the
lowest count only at its `promote`-th occurrence there: items that come once fall off the queue.
A bucket that has a free way takes a new item at once.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.arrow import read_only
from muntin.errors import BadArgument
from muntin.summaries.checks import INT64_MAX, array_of, check_seed, integer_in, with_plain_integers
from muntin.summaries.kernels.calm_space_saving import (
    COUNTED,
    ERROR_PLACE,
    INTERVAL,
    WAYS,
    update_calm,
)
from muntin.summaries.named_pairs import (
    LOW,
    MEMORY_BYTES_MAX,
    CalmShape,
    NamedPairs,
    check_store,
    decode,
    encode,
)

_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class CalmParameters:
    """What a `CalmSpaceSaving` is made from, checked; nothing is allocated yet."""

    memory: int
    k: int
    seed: int
    promote: int
    queue_ways: int
    item_bytes: int

    def __post_init__(self) -> None:
        with_plain_integers(self)
        check_seed(self.seed)
        check_store(self.k, self.promote, self.queue_ways, self.item_bytes)
        integer_in("memory", self.memory, 1, MEMORY_BYTES_MAX, "bytes")
        store = CalmShape.store_bytes(self.k, _COLUMNS, self.item_bytes)
        least = store + -(-self.k // WAYS) * CalmShape.bucket_bytes(self.queue_ways, True)
        if self.memory < least:
            raise BadArgument(
                f"memory={self.memory} is too small for k={self.k}: give at least {least} bytes"
            )

    @property
    def shape(self) -> CalmShape:
        """How many buckets the memory suffices for."""
        store = CalmShape.store_bytes(self.k, _COLUMNS, self.item_bytes)
        bucket = CalmShape.bucket_bytes(self.queue_ways, True)
        buckets = (self.memory - store) // bucket
        return CalmShape(buckets, self.queue_ways, self.k, _COLUMNS, self.item_bytes, True)


class CalmSpaceSaving(NamedPairs[CalmParameters]):
    """The k most frequent items, or pairs of item and interval, in a fixed memory.

    Parameters
    ----------
    memory : int
        Bytes for everything that is stored, the reported items included.
    k : int
        How many pairs are kept with their items; `top` reports at most these.
    seed : int
        Seed of the hash, 0 to 2^64 - 1.
    promote : int
        Occurrences in the queue that let a pair into Space-Saving; 1 is plain Space-Saving.
    queue_ways : int
        Length of each bucket's queue, a multiple of 8.
    item_bytes : int
        Bytes of an item on the average of the k, for the arena that holds them. Where items are
        longer, fewer pairs are named: those of highest count.

    Raises
    ------
    BadArgument
        A parameter is out of range; where memory is too small for k, the message says what is
        needed.
    """

    kind: ClassVar[str] = "calm_space_saving"
    instead_of_merging: ClassVar[str] = (
        "what is promoted depends on the order. Give each shard of the items its own, and take "
        "the highest of their tops"
    )

    def __init__(
        self,
        memory: int,
        k: int,
        seed: int = 0,
        *,
        promote: int = 2,
        queue_ways: int = 8,
        item_bytes: int = 16,
    ) -> None:
        super().__init__(CalmParameters(memory, k, seed, promote, queue_ways, item_bytes))
        self._paired: bool | None = None

    def update(self, items: Any, intervals: Any = None) -> None:
        """Count each item once, or each pair of item and interval.

        Parameters
        ----------
        items : strings, binary or integers [n]
            Arrow array, ndarray or sequence, without nulls, of one type for all updates.
        intervals : int64[n], optional
            With them, pairs are counted; either in all updates or in none.

        Raises
        ------
        BadArgument
            Nulls, another type than before, another length. The state is then unchanged.
        """
        array, kind = self._checked(items)
        spans = np.empty(0, np.int64)
        if intervals is not None:
            spans = np.ascontiguousarray(array_of(intervals, "interval"))
            if spans.ndim != 1 or spans.dtype.kind not in "iu" or len(spans) != len(array):
                raise BadArgument(
                    f"intervals must be {len(array)} integers, got {spans.dtype}{list(spans.shape)}"
                )
            if (beyond := spans > INT64_MAX).any():
                at = int(beyond.argmax())
                raise BadArgument(f"interval {spans[at]} at position {at} is beyond int64")
            spans = spans.astype(np.int64, copy=False)
        paired = intervals is not None
        if self._paired not in (None, paired):
            raise BadArgument("give intervals in all updates of a summary, or in none")
        if len(array) == 0:
            return
        promote = self._parameters.promote
        for where, hashes, data, offsets in self._chunks(array):
            update_calm(self._tables, promote, hashes, read_only(spans[where]), data, offsets)
        self._items, self._paired = kind, paired
        self._events += len(array)

    def top(self, k: int | None = None) -> pa.Table:
        """The pairs of highest count.

        Parameters
        ----------
        k : int, optional
            At most so many, and at most the summary's own k (the default).

        Returns
        -------
        pyarrow.Table
            `item`, `interval` (only where intervals were given), `value`, `lower`, `upper`
            (int64), highest value first, then by item and interval.
        """
        limit = self.k if k is None else integer_in("k", k, 1, self.k)
        named, items = self._named()
        error, place = named[:, ERROR_PLACE] >> 32, named[:, ERROR_PLACE] & LOW
        lost = self._tables.losses[place // WAYS].astype(np.int64)
        columns: dict[str, Any] = {"item": items}
        order = [("value", "descending"), ("item", "ascending")]
        if self._paired:
            columns["interval"] = named[:, INTERVAL]
            order.append(("interval", "ascending"))
        value = named[:, COUNTED]
        columns |= {
            "value": value,
            "lower": value - error,
            "upper": value + np.where(error > 0, lost, 0),
        }
        return pa.table(columns).sort_by(order).slice(0, limit)

    def to_bytes(self) -> bytes:
        """The whole state, sealed; the same stream gives the same bytes however it was cut."""
        return self._sealed({"paired": self._paired}, encode(self._tables))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` wrote, with its own memory; `CorruptSummary` for anything else."""
        made, fields, body = cls._unsealed(data, CalmParameters)
        made._paired = fields.choice("paired", [True, False] if made._events else [None])
        fields.done()
        parameters = made._parameters
        made._tables = decode(
            cls.kind, body.rest(), parameters.shape, made._items, parameters.promote
        )
        return made
