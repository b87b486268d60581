"""Where Space-Saving keeps its items: flat arrays, a hash table, an arena for texts."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.streams import ENTRY_BYTES, StreamReader, StreamWriter
from muntin.summaries.items import ITEM_TYPES, hash_items, integers, item_kind, text_buffers
from muntin.summaries.kernels import space_saving as _kernels
from muntin.summaries.reading import Body, exact_sum

ENTRIES_MIN, ARENA_BYTES_MIN, LARGE = 256, 4096, 1 << 16  # to begin with; from where on to double
PACKED_BYTES_MAX = 1 << 26  # of texts: more are not compressed, so that few bytes ask for no more
TEXTS = ("string", "binary")
_STREAMS = 4
kernels: Any = _kernels  # lists of columns are unpacked into their calls
_N, _O = kernels.ENTRIES, kernels.OFFSET


class Entries:
    """Items of one type, each with a count and an error; at most 2 x capacity of them.

    Attributes
    ----------
    items : str or None
        Name of the items' type in ITEM_TYPES, once there was an item.
    """

    def __init__(self, capacity: int, seed: int) -> None:
        self.capacity = capacity
        self.seed = seed
        self.items: str | None = None
        self._state = np.zeros(2, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.int64)
        self._errors = np.empty(0, np.int64)
        self._starts = np.zeros(1, np.int64)
        self._arena = np.empty(0, np.uint8)
        self._table = np.zeros(2, np.uint64)

    def __len__(self) -> int:
        return int(self._state[_N])

    @property
    def offset(self) -> int:
        return int(self._state[_O])

    @property
    def counts(self) -> np.ndarray:
        return self._counts[: len(self)]

    @property
    def errors(self) -> np.ndarray:
        return self._errors[: len(self)]

    @property
    def _used(self) -> int:
        """Bytes of the arena."""
        return int(self._starts[len(self)]) if self.items in TEXTS else 0

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))

    def typed(self, array: pa.Array) -> tuple[pa.Array, str]:
        """Items in the type of those kept, and its name; BadArgument where they are of another."""
        name = item_kind(array.type)
        if self.items is None or self.items == name:
            return array, name
        if {self.items, name} == {"int64", "uint64"}:
            try:
                return array.cast(ITEM_TYPES[self.items]), self.items
            except pa.ArrowInvalid as problem:
                raise BadArgument(f"items so far are {self.items}: {problem}") from None
        raise BadArgument(f"items are {name}, those before were {self.items}: give one type")

    def add(self, array: pa.Array, hashes: np.ndarray, weights: np.ndarray) -> None:
        """Count items of one type, which need not be that of those kept."""
        array, name = self.typed(array)
        if name == "string":
            refuse_broken_text(array)
        self.items = name
        data, offsets = _parts(array, name)
        at = 0
        while True:
            at = kernels.count(at, hashes, weights, data, offsets, *self._arrays())
            if at == len(hashes):
                return
            size = 0 if offsets is None else int(offsets[at + 1] - offsets[at])
            self._grow(len(self) + 1, self._used + size, 2 * self.capacity)

    def look_up(self, array: pa.Array, hashes: np.ndarray | None = None) -> np.ndarray:
        """Number of each item's entry, or -1: int64[n]."""
        out = np.full(len(array), -1, np.int64)
        if self.items is None or not len(array):
            return out
        array, name = self.typed(array)
        if hashes is None:
            hashes = hash_items(array, self.seed)
        where = self._arrays()[5:]
        kernels.look_up(hashes, *_parts(array, name), *where, out)
        return out

    def values(self) -> pa.Array:
        """The items of all entries, in the order in which they came."""
        n = len(self)
        if self.items is None:
            return pa.array([], pa.large_string())
        if self.items not in TEXTS:
            bits = pa.py_buffer(self._starts[:n].tobytes())
            return pa.Array.from_buffers(ITEM_TYPES[self.items], n, [None, bits])
        texts = self._arena[: self._used].tobytes()
        buffers = [None, pa.py_buffer(self._starts[: n + 1].tobytes()), pa.py_buffer(texts)]
        return pa.Array.from_buffers(ITEM_TYPES[self.items], n, buffers)

    def merge(self, other: Self) -> None:
        """Add the entries and the offset of another; both hold items of one type, or none.

        An item that one side does not keep may have weighed up to that side's offset there.
        """
        if other.items is None:
            return
        other = deepcopy(other) if other is self else other
        self.items = other.items
        together = len(self) + len(other), self._used + other._used
        self._grow(*together, 4 * self.capacity)
        kernels.merge(len(other), other.offset, *other._arrays()[2:7], *self._arrays())

    def to_bytes(self) -> bytes:
        """Streams of a segment: counts without errors, errors, integers or lengths, and texts."""
        texts, n = self.items in TEXTS, len(self)
        arena = self._arena[: self._used]
        packed = len(arena) <= PACKED_BYTES_MAX
        out = StreamWriter()
        out.numbers(self.counts - self.errors)
        out.numbers(self.errors)
        out.numbers(np.diff(self._starts[: n + 1]) if texts else self._starts[:n])
        out.raw(arena if packed else arena[:0])
        return b"".join((*out.written(), b"" if packed else arena.tobytes()))

    def read(self, items: str | None, n: int, offset: int, body: Body) -> None:
        """Take over what `to_bytes` wrote; checked for what is true of all entries."""
        directory, payload = body.view(_STREAMS * ENTRY_BYTES), body.rest()
        reader = StreamReader(directory, payload)
        counted, errors, third = (reader.numbers(n) for _ in range(3))
        if n and min(int(counted.min()), int(errors.min())) < 0:
            raise CorruptSummary("space_saving: a count is below zero")
        self.items = items
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
        values = self.values()
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            raise CorruptSummary("space_saving: an item is not UTF-8") from None
        self._hashes[:n] = hash_items(values, self.seed)
        kernels.reindex(self._table, self._hashes, n)
        if (self.look_up(values, self._hashes[:n]) != np.arange(n)).any():
            raise CorruptSummary("space_saving: an item stands twice")

    def _arrays(self) -> Any:
        """State, capacity, entries, arena and table, as the kernels take them."""
        columns = (self._hashes, self._counts, self._errors, self._starts)
        arena = self._arena if self.items in TEXTS else None
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
        self._arena = _longer(self._arena, arena_bytes)
        if entries > len(self._hashes):
            self._hashes = _longer(self._hashes, entries)
            self._counts = _longer(self._counts, entries)
            self._errors = _longer(self._errors, entries)
            self._starts = _longer(self._starts, entries + 1)
            self._table = np.zeros(1 << (2 * entries - 1).bit_length(), np.uint64)
            kernels.reindex(self._table, self._hashes, len(self))


def _parts(array: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Bytes and offsets of texts; of integers, the numbers alone."""
    return text_buffers(array) if name in TEXTS else (integers(array), None)


def refuse_broken_text(array: pa.Array) -> None:
    """BadArgument where a string is not UTF-8: it could be neither shown nor read back."""
    data, offsets = text_buffers(array)
    if not len(array) or data[offsets[0] : offsets[-1]].max(initial=0) < 0x80:
        return  # ASCII, as nearly always: ten times faster to see than to validate
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"items are not UTF-8 ({problem}): give them as binary") from None


def _more(size: int, least: int) -> int:
    """What is small grows fast: each time all of it is copied, and the table filled anew."""
    return max(least, size * (4 if size < LARGE else 2))


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer
