"""One shard of a periodic stream: a HyperCalm, and the events that it may not take yet.

========== =====================================================================================
State      a HyperCalm of the events before a boundary; the events from it on, buffered in
           order of time; how many came too late, and how many had no item
Error      as HyperCalm, over the events that were not too late
Merge      of shards: `HyperCalm.merged_top([shard.whole() for shard in shards], k)`
Duplicates as HyperCalm
Source     ours
Limits     buffered events take 8 bytes and their item's; the boundary must follow the stream
========== =====================================================================================

A HyperCalm needs its events in order of time; a stream brings them a little out of order. So
events are buffered until the boundary (the time before which no event is expected any more) has
passed them, and then folded in the order of (time, hash of the item). What was folded, and what
is buffered, is a function of the events and the boundary alone: however the stream was cut into
batches and spread over workers, the bytes are the same.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.arrow import is_sound
from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.base import OfOneStream
from muntin.summaries.checks import INT64_MAX, INT64_MIN, integer_in, name_of, names_in
from muntin.summaries.envelope import block, opened, seal
from muntin.summaries.hyper_calm import HyperCalm
from muntin.summaries.items import as_items, hash_items, integers, item_kind, text_buffers
from muntin.summaries.named_pairs import kind_of_items
from muntin.summaries.times import as_times

_TYPES = ("string", "int64", None)
SHARDS_MAX = 1 << 12
SHARD_SEED = 0x5348415244  # another hash than the tables', or a shard would use a part of them


def shards_of(hashes: np.ndarray, shards: int) -> np.ndarray:
    """The shard of each item by the high bits of its hash (seed `SHARD_SEED`): int64[n]."""
    high = hashes >> np.uint64(32)
    return ((high * np.uint64(shards)) >> np.uint64(32)).astype(np.int64)


def order_of(times: np.ndarray, hashes: np.ndarray) -> np.ndarray | None:
    """The order by (time, hash), or None where they stand in it already."""
    same = times[1:] == times[:-1]
    if ((times[1:] > times[:-1]) | (same & (hashes[1:] >= hashes[:-1]))).all():
        return None
    order = np.argsort(times, kind="stable")  # quick on what is made of sorted runs
    ranked = times[order]
    same = ranked[1:] == ranked[:-1]
    if same.any():
        tied = np.zeros(len(times), bool)
        tied[1:] = same
        tied[:-1] |= same
        among = order[tied]
        order[tied] = among[np.lexsort((hashes[among], times[among]))]
    return order


class PeriodicShard(OfOneStream):
    """Takes the events of one shard of the items in any order, and folds them in order of time.

    Parameters
    ----------
    calm : HyperCalm
        What the events are folded into; it belongs to the shard from now on.
    columns : sequence of str
        What the items are made of: kept, so that a state is not continued with other items.
    shard, shards : int
        Which of how many shards of the items this is; see `shards_of`.
    """

    kind: ClassVar[str] = "periodic_shard"
    instead_of_merging: ClassVar[str] = "use HyperCalm.merged_top over the shards' whole()"

    def __init__(
        self, calm: HyperCalm, columns: Sequence[str] = (), shard: int = 0, shards: int = 1
    ) -> None:
        if not isinstance(calm, HyperCalm):
            raise BadArgument(f"calm={calm!r:.80}: give a HyperCalm")
        self._calm = calm
        self.columns = tuple(name_of("column", name) for name in names_in("columns", columns))
        self.shards = integer_in("shards", shards, 1, SHARDS_MAX)
        self.shard = integer_in("shard", shard, 0, shards - 1)
        self._items: pa.Array | None = None  # None until the first event tells their type
        self._times = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._late = 0
        self._nulls = 0

    def update(
        self, items: Any, times: Any, *, until: int, late_before: int = INT64_MIN, nulls: int = 0
    ) -> None:
        """Take events in any order, and fold what the boundary has passed.

        Parameters
        ----------
        items : strings or integers [n]
            Items of this shard, of one type for all updates.
        times : int64[n] or timestamps
        until : int
            The boundary: events before it are folded. Never below that of an earlier update.
        late_before : int
            The boundary of the update before. Events before it are too late: only counted.
        nulls : int
            Events without an item, to be counted.

        Raises
        ------
        BadArgument
            Items of another type than before or of another shard, nulls, other lengths; a boundary
            before what was folded. The state is then unchanged.
        """
        until = integer_in("until", until, INT64_MIN, INT64_MAX)
        late_before = integer_in("late_before", late_before, INT64_MIN, INT64_MAX)
        nulls = integer_in("nulls", nulls, 0, INT64_MAX - self._nulls)
        array = _plain(as_items(items))
        at = as_times(times, len(array))
        hashes = hash_items(array, SHARD_SEED)
        shards = shards_of(hashes, self.shards)
        if (shards != self.shard).any():
            first = int((shards != self.shard).argmax())
            raise BadArgument(
                f"the item at position {first} is of shard {shards[first]}, and this is shard "
                f"{self.shard} of {self.shards}: deal items out by `shards_of`"
            )
        late = at < late_before
        late_count = int(late.sum())
        if late_count:
            keep = np.flatnonzero(~late)
            array, at, hashes = array.take(pa.array(keep)), at[keep], hashes[keep]
        kind_of_items(array, self.item_type)
        if self._items is not None and len(self._items):
            array = pa.concat_arrays([self._items, array]) if len(array) else self._items
            at = np.concatenate([self._times, at])
            hashes = np.concatenate([self._hashes, hashes])
        order = order_of(at, hashes)
        if order is not None:
            array, at, hashes = array.take(pa.array(order)), at[order], hashes[order]
        cut = int(np.searchsorted(at, until, side="left"))
        last = self._calm.last_time
        if cut < len(at) and last is not None and at[cut] <= last:
            raise BadArgument(
                f"until={until}, and events up to {last} were folded already: give no lower "
                "boundary than before, and as late_before that of the update before"
            )
        self._calm.update(array[:cut], at[:cut])
        if cut:  # a slice would keep what was folded in memory
            rest = pa.array(np.arange(cut, len(array)))
            array, at, hashes = array.take(rest), at[cut:].copy(), hashes[cut:].copy()
        self._items, self._times, self._hashes = array, at, hashes
        self._late += late_count
        self._nulls += nulls

    def pause(self) -> None:
        """Events are missing from the boundary on: no interval is measured across it. What is
        buffered may have had neighbours among them, and is left out, as what is late."""
        self._late += self.buffered
        self._items = None
        self._times, self._hashes = np.empty(0, np.int64), np.empty(0, np.uint64)
        self._calm.pause()

    def whole(self) -> HyperCalm:
        """A HyperCalm of all events so far, the buffered ones included."""
        calm = self._calm.copy()
        if self._items is not None and len(self._items):
            calm.update(self._items, self._times)
        return calm

    def copy(self) -> Self:
        """An independent equal."""
        twin = self._shallow()  # arrays of buffered events are replaced, never written to
        twin._calm = self._calm.copy()
        return twin

    @property
    def parameters(self) -> Any:
        """Of the HyperCalm."""
        return self._calm.parameters

    @property
    def item_type(self) -> str | None:
        """What the items are, "string" or "int64"; None before the first."""
        if self._items is not None and len(self._items):
            return item_kind(self._items.type)
        return self._calm.item_type

    @property
    def count(self) -> int:
        """Events folded or buffered."""
        return self._calm.count + self.buffered

    @property
    def buffered(self) -> int:
        """Events that wait for the boundary to pass them."""
        return len(self._times)

    @property
    def first_buffered(self) -> int | None:
        """Time of the first event that is buffered."""
        return int(self._times[0]) if len(self._times) else None

    @property
    def late(self) -> int:
        """Events that came when what is later than them had been folded: they are left out."""
        return self._late

    @property
    def nulls(self) -> int:
        """Events without an item: they are left out."""
        return self._nulls

    @property
    def unnamed(self) -> int:
        """How often a pair was high enough to be named, but its item did not fit."""
        return self._calm.unnamed

    @property
    def span(self) -> tuple[int, int] | None:
        """Times of the first and last event, folded or buffered; None where there is none."""
        times = [self._calm.first_time, self._calm.last_time, *self._times[:1], *self._times[-1:]]
        known = [int(time) for time in times if time is not None]
        return (min(known), max(known)) if known else None

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        items = 0 if self._items is None else self._items.nbytes
        return self._calm.nbytes + items + self._times.nbytes + self._hashes.nbytes

    def to_bytes(self) -> bytes:
        """The whole state, sealed."""
        items = self._items
        parameters = {
            "buffered": self.buffered,
            "columns": list(self.columns),
            "items": self.item_type if self.buffered else None,
            "late": self._late,
            "nulls": self._nulls,
            "shard": self.shard,
            "shards": self.shards,
        }
        body = [block(self._calm.to_bytes()), self._times.astype("<i8").tobytes()]
        if items is not None and len(items):
            if items.type == pa.int64():
                body.append(integers(items).astype("<i8").tobytes())
            else:
                data, offsets = text_buffers(items)
                body.append(np.diff(offsets).astype("<u4").tobytes())
                body.append(data[offsets[0] : offsets[-1]].tobytes())
        return seal(self.kind, parameters, b"".join(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` wrote; `CorruptSummary` for anything else."""
        fields, body = opened(data, cls.kind)
        buffered = fields.integer("buffered", 0, INT64_MAX)
        items = fields.choice("items", _TYPES)
        late = fields.integer("late", 0, INT64_MAX)
        nulls = fields.integer("nulls", 0, INT64_MAX)
        calm = HyperCalm.from_bytes(bytes(body.block()))
        made = fields.made(partial(cls, calm), "columns", "shard", "shards")
        fields.done()
        if (buffered == 0) != (items is None):
            raise CorruptSummary(f"{cls.kind}: {buffered} buffered events, their items are {items}")
        made._times = body.array("<i8", buffered)
        if items == "int64":
            made._items = pa.array(body.array("<i8", buffered))
        elif items == "string":
            made._items = _texts(body.array("<u4", buffered), bytes(body.rest()))
        body.done()
        made._late, made._nulls = late, nulls
        made._check_buffered()
        return made

    def _check_buffered(self) -> None:
        if self._items is None:
            return
        self._hashes = hash_items(self._items, SHARD_SEED)
        if order_of(self._times, self._hashes) is not None:
            raise CorruptSummary(f"{self.kind}: buffered events are not in order")
        if (shards_of(self._hashes, self.shards) != self.shard).any():
            raise CorruptSummary(f"{self.kind}: a buffered item is of another shard")
        last = self._calm.last_time
        if last is not None and self._times[0] <= last:
            raise CorruptSummary(f"{self.kind}: a buffered event is older than folded ones")
        folded = self._calm.item_type
        if folded is not None and folded != item_kind(self._items.type):
            raise CorruptSummary(f"{self.kind}: buffered items are not of the folded items' type")


def _plain(items: pa.Array) -> pa.Array:
    """One representation of texts, whose offsets no number of events can overflow."""
    if pa.types.is_string(items.type):
        return items.cast(pa.large_string())
    if items.type in (pa.large_string(), pa.int64()):
        return items
    raise BadArgument(f"items of type {items.type}: use text or int64")


def _texts(lengths: np.ndarray, data: bytes) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=offsets[1:])  # of u4: it cannot wrap
    if offsets[-1] != len(data):
        raise CorruptSummary(
            f"periodic_shard: {len(data)} bytes of buffered items, expected {offsets[-1]}"
        )
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_string(), len(lengths), buffers)
    if not is_sound(array):
        raise CorruptSummary("periodic_shard: a buffered item is not UTF-8")
    return array
