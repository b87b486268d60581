"""What CalmSpaceSaving and HyperCalm are made of alike: tables of pairs, and the items' type.

Both take items in chunks of hashes, name the k highest pairs, cannot be merged, and have the same
frame around their bytes. The tables are made, written, read back with every link checked, listed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from muntin.arrow import read_only
from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.aligned import aligned_zeros
from muntin.summaries.base import OfOneStream
from muntin.summaries.checks import INT64_MAX, integer_in
from muntin.summaries.envelope import Body, Fields, opened, seal
from muntin.summaries.items import (
    ITEM_TYPES,
    as_items,
    hash_items,
    integers,
    item_kind,
    refuse_broken_text,
    text_buffers,
)
from muntin.summaries.kernels import calm_space_saving as calm

PROMOTE_MAX = 255  # a queue's entry has eight bits of count
QUEUE_WAYS_MAX = 4096
K_MAX = 1 << 24
ITEM_BYTES_MIN, ITEM_BYTES_MAX = 8, 1 << 16
ARENA_BYTES_MAX = (1 << 31) - 1
COUNT_MAX = 1 << 62
MEMORY_BYTES_MAX = 1 << 35  # 32 GiB: the place of a pair in the buckets is kept in 32 bits
LOW = 0xFFFFFFFF  # of an int64 that holds two numbers of 32 bits
_CHUNK = 1 << 16  # hashes at once: 512 KiB, which the second-level cache holds

Chunk = tuple[slice, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class CalmShape:
    """Sizes of the tables; equal shapes have equal bytes in every part but the items."""

    buckets: int
    queue_ways: int
    k: int
    columns: int
    item_bytes: int
    with_losses: bool

    @staticmethod
    def store_bytes(k: int, columns: int, item_bytes: int) -> int:
        """Bytes of a store of k named pairs, with `item_bytes` for an item on the average."""
        return k * (8 * columns + calm.HEADER + item_bytes) + 8 * calm.MARKS

    @staticmethod
    def bucket_bytes(queue_ways: int, with_losses: bool) -> int:
        """Bytes of one bucket with its queue."""
        return 64 + 4 * queue_ways + (8 if with_losses else 4)

    def make(self) -> calm.CalmTables:
        return calm.CalmTables(
            saving=aligned_zeros(self.buckets * 16, np.uint32),
            queue=aligned_zeros(self.buckets * self.queue_ways, np.uint32),
            floors=np.zeros(self.buckets, np.uint32),
            losses=np.zeros(self.buckets if self.with_losses else 0, np.uint32),
            slots=np.zeros((self.k, self.columns), np.int64),
            marks=np.zeros(calm.MARKS, np.int64),
            arena=np.zeros(self.k * (calm.HEADER + self.item_bytes), np.uint8),
        )


def kind_of_items(array: pa.Array, known: str | None) -> str | None:
    """What kind the items of a summary are; another kind, and text that is none, is refused."""
    if len(array) == 0:
        return known
    found = item_kind(array.type)
    if known is not None and found != known:
        raise BadArgument(f"items of type {found} after items of type {known}: use one type")
    if found == "string":
        refuse_broken_text(array)
    return found


def item_bytes_of(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """An item array's bytes and int64 offsets; no offsets for 64-bit integers. No copy of bytes."""
    if array.type in (pa.int64(), pa.uint64()):
        return integers(array).view(np.uint8), read_only(np.empty(0, np.int64))
    data, offsets = text_buffers(array)
    return data, read_only(offsets.astype(np.int64, copy=False))


def check_store(k: int, promote: int, queue_ways: int, item_bytes: int) -> None:
    """Refuse impossible parameters of tables: `BadArgument`."""
    integer_in("k", k, 1, K_MAX)
    integer_in("promote", promote, 1, PROMOTE_MAX)
    integer_in("queue_ways", queue_ways, 8, QUEUE_WAYS_MAX)
    if queue_ways % calm.WAYS:
        raise BadArgument(f"queue_ways={queue_ways} must be a multiple of {calm.WAYS}")
    integer_in("item_bytes", item_bytes, ITEM_BYTES_MIN, ITEM_BYTES_MAX)
    if k * (item_bytes + calm.HEADER) > ARENA_BYTES_MAX:
        raise BadArgument(f"k={k} items of {item_bytes} bytes are more than 2 GiB of items")


def named_slots(tables: calm.CalmTables) -> np.ndarray:
    """Slots of the store that hold a pair, in ascending order."""
    used = tables.slots[: tables.marks[calm.USED]]
    return np.flatnonzero((used[:, calm.ERROR_PLACE] & LOW) != calm.NOWHERE)


def items_of(tables: calm.CalmTables, slots: np.ndarray, kind: str | None) -> pa.Array:
    """The items of some slots, with the type in which they came."""
    kind = kind or "int64"
    lengths = tables.slots[slots, calm.WHERE] & LOW
    data = tables.arena[_places_of(tables, slots)]
    if kind in ("int64", "uint64"):
        return pa.array(data.view(kind), ITEM_TYPES[kind])
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(ITEM_TYPES[kind], len(slots), buffers)


def _places_of(tables: calm.CalmTables, slots: np.ndarray) -> np.ndarray:
    """Where in the arena the bytes of some slots' items are, one item after the other."""
    where = tables.slots[slots, calm.WHERE]
    begins, lengths = (where >> 32) + calm.HEADER, where & LOW
    ends = np.cumsum(lengths)
    return np.repeat(begins - ends + lengths, lengths) + np.arange(lengths.sum())


def encode(tables: calm.CalmTables) -> bytes:
    """All tables, then the named items in the order of their slots, without gaps."""
    slots, marks = tables.slots.copy(), tables.marks.copy()
    named = named_slots(tables)
    where = tables.slots[named, calm.WHERE]
    lengths = where & LOW
    ends = np.cumsum(lengths + calm.HEADER)
    slots[named, calm.WHERE] = ((ends - lengths - calm.HEADER) << 32) | lengths
    marks[calm.ARENA_END] = marks[calm.ARENA_LIVE]
    parts = (tables.saving, tables.queue, tables.floors, tables.losses, slots, marks)
    items = tables.arena[_places_of(tables, named)]
    written = (part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)
    return b"".join((*written, items.tobytes()))


def decode(
    kind: str, body: memoryview, shape: CalmShape, items: str | None, promote: int
) -> calm.CalmTables:
    """What `encode` wrote for this shape, every index and link in it checked. Raises
    CorruptSummary: another length, or a state that no sequence of updates leads to."""
    fixed = shape.buckets * CalmShape.bucket_bytes(shape.queue_ways, shape.with_losses)
    fixed += shape.k * 8 * shape.columns + 8 * calm.MARKS
    store = shape.k * (calm.HEADER + shape.item_bytes)
    if not fixed <= len(body) <= fixed + store:
        raise CorruptSummary(f"{kind}: {len(body)} bytes of tables, {fixed} to {fixed + store} fit")
    tables = shape.make()
    at = 0
    for part in tables[:-1]:
        piece = np.frombuffer(body[at : at + part.nbytes], part.dtype.newbyteorder("<"))
        part[...] = piece.reshape(part.shape)
        at += part.nbytes
    _check_marks(kind, tables)
    named = named_slots(tables)
    _check_slots(kind, tables, named, items, body[at:])
    _check_links(kind, tables, named)
    _check_queue(kind, tables, promote)
    _fill_arena(tables, named, np.frombuffer(body[at:], np.uint8))
    if items == "string":
        try:
            items_of(tables, named, items).validate(full=True)
        except pa.ArrowInvalid as problem:
            raise CorruptSummary(f"{kind}: a named item is not text ({problem})") from None
    return tables


def _require(kind: str, holds: bool, what: str) -> None:
    if not holds:
        raise CorruptSummary(f"{kind}: {what}")


def _check_marks(kind: str, tables: calm.CalmTables) -> None:
    marks, k = tables.marks, tables.slots.shape[0]
    _require(kind, 0 <= marks[calm.USED] <= k, f"{marks[calm.USED]} slots used of {k}")
    _require(kind, 0 <= marks[calm.HAND] < k, f"the hand stands at {marks[calm.HAND]} of {k}")
    _require(kind, int(marks.min()) >= 0, "a negative mark")
    _require(kind, marks[calm.ARENA_END] == marks[calm.ARENA_LIVE], "the named items have gaps")
    _require(
        kind, marks[calm.USED] == k or marks[calm.THRESHOLD] == 0, "a threshold, but free slots"
    )


def _check_slots(
    kind: str, tables: calm.CalmTables, named: np.ndarray, items: str | None, text: memoryview
) -> None:
    used = int(tables.marks[calm.USED])
    slots = tables.slots
    _require(kind, not slots[used:].any(), "an unused slot is not empty")
    free = np.setdiff1d(np.arange(used), named)
    _require(
        kind, len(free) == tables.marks[calm.FREE], f"{len(free)} free slots, said to be others"
    )
    empty = np.zeros(slots.shape[1], np.int64)
    empty[calm.ERROR_PLACE] = calm.NOWHERE
    _require(kind, bool((slots[free] == empty).all()), "a free slot is not empty")
    counts, errors = slots[named, calm.COUNTED], slots[named, calm.ERROR_PLACE] >> 32
    _require(kind, bool(((counts >= 1) & (counts <= COUNT_MAX)).all()), "an impossible count")
    _require(kind, bool(((errors >= 0) & (errors < counts)).all()), "an error above its count")
    where = slots[named, calm.WHERE]
    begins, lengths = where >> 32, where & LOW
    ends = np.cumsum(lengths + calm.HEADER)
    _require(kind, bool((begins == ends - lengths - calm.HEADER).all()), "named items out of place")
    total = int(ends[-1]) if len(ends) else 0
    _require(kind, total == tables.marks[calm.ARENA_LIVE], "bytes of named items do not add up")
    _require(kind, total <= len(tables.arena), "named items do not fit")
    _require(
        kind, total - calm.HEADER * len(named) == len(text), "bytes of named items are missing"
    )
    _require(kind, len(named) == 0 or items is not None, "named items without a type")
    if items in ("int64", "uint64"):
        _require(kind, bool((lengths == 8).all()), "an integer that is not of 8 bytes")


def _check_links(kind: str, tables: calm.CalmTables, named: np.ndarray) -> None:
    lines = tables.saving.reshape(-1, 16)
    prints, words = lines[:, : calm.WAYS].ravel(), lines[:, calm.WAYS :].ravel()
    _require(kind, not words[prints == 0].any(), "a free way has a count")
    stored = (words & calm.STORED) != 0
    plain = words[(prints != 0) & ~stored]
    _require(kind, bool(((plain & calm.COUNT) >= 1).all()), "a pair without a count")
    places = np.flatnonzero(stored)
    _require(kind, len(places) == len(named), "named pairs and their buckets disagree")
    pointed = (words[places] & calm.SLOT).astype(np.int64)
    order = np.argsort(pointed)
    _require(kind, np.array_equal(pointed[order], named), "a bucket names a wrong slot")
    back = tables.slots[named, calm.ERROR_PLACE] & LOW
    _require(kind, np.array_equal(back, places[order]), "a slot names a wrong bucket")
    floors = tables.floors.astype(np.int64)
    _require(kind, bool((floors <= calm.SLOT).all()), "a floor is too high")
    errors = tables.slots[named, calm.ERROR_PLACE] >> 32
    _require(kind, bool((errors <= floors[back // calm.WAYS]).all()), "an error above its floor")
    promoted = ((words & calm.PROMOTED) != 0) & ~stored
    bare = np.repeat(floors == 0, calm.WAYS)
    _require(kind, not (promoted & bare).any(), "a promoted pair without a floor")


def _check_queue(kind: str, tables: calm.CalmTables, promote: int) -> None:
    entries = tables.queue
    counts = entries & np.uint32(255)
    good = (entries == 0) | ((counts >= 1) & (counts < promote) & (entries > 255))
    _require(kind, bool(good.all()), "a queued pair with an impossible count")


def _fill_arena(tables: calm.CalmTables, named: np.ndarray, text: np.ndarray) -> None:
    where = tables.slots[named, calm.WHERE]
    begins, lengths = where >> 32, where & LOW
    heads = np.stack([named, lengths], axis=1).astype("<u4").view(np.uint8)
    tables.arena[(begins[:, None] + np.arange(calm.HEADER)).ravel()] = heads.ravel()
    tables.arena[_places_of(tables, named)] = text


P = TypeVar("P", bound=Any)
"""What such a summary is made from, checked: a frozen dataclass with `k`, `seed` and `shape`."""


class NamedPairs(OfOneStream, Generic[P]):
    """Base of the summaries that count pairs and name the k highest."""

    kind: ClassVar[str]

    def __init__(self, parameters: P) -> None:
        self._parameters = parameters
        self._tables = parameters.shape.make()
        self._items: str | None = None
        self._events = 0

    @property
    def k(self) -> int:
        """How many pairs are kept with their items."""
        return self._parameters.k

    @property
    def parameters(self) -> P:
        """What it was made from, guessed or given."""
        return self._parameters

    @property
    def item_type(self) -> str | None:
        """What the items are: "string", "binary", "int64" or "uint64"; None before the first."""
        return self._items

    @property
    def unnamed(self) -> int:
        """How often a pair was high enough to be named, but its item did not fit."""
        return int(self._tables.marks[calm.UNNAMED])

    def _checked(self, items: Any) -> tuple[pa.Array, str | None]:
        """Items as an array, and their type; `BadArgument` for another one than before."""
        array = as_items(items)
        return array, kind_of_items(array, self._items)

    def _chunks(self, array: pa.Array) -> Iterator[Chunk]:
        """Parts of an item array: where, their hashes, their bytes and offsets into these."""
        for begin in range(0, len(array), _CHUNK):
            part = array[begin : begin + _CHUNK]
            data, offsets = item_bytes_of(part)
            where = slice(begin, begin + len(part))
            yield where, hash_items(part, self._parameters.seed), data, offsets

    def _named(self) -> tuple[np.ndarray, pa.Array]:
        """The store's rows that hold a pair, and their items."""
        slots = named_slots(self._tables)
        return self._tables.slots[slots], items_of(self._tables, slots, self._items)

    def _sealed(self, more: Mapping[str, Any], body: bytes) -> bytes:
        about: dict[str, Any] = asdict(self._parameters)  # pyright: ignore[reportArgumentType]
        about |= {"count": self._events, "items": self._items, **more}
        return seal(self.kind, about, body)

    @classmethod
    def _unsealed(cls, data: bytes, form: type[P]) -> tuple[Self, Fields, Body]:
        """An instance without its tables, the fields left, and the body; CorruptSummary."""
        fields, body = opened(data, cls.kind)
        made = cls.__new__(cls)
        made._parameters = fields.made(form, *form.__slots__)
        made._events = fields.integer("count", 0, INT64_MAX)
        made._items = fields.choice("items", [*ITEM_TYPES] if made._events else [None])
        return made, fields, body
