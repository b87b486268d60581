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

ENTRIES_MIN, ARENA_BYTES_MIN = 32, 512  # to begin with
PACKED_BYTES_MAX = 1 << 26  # of texts: more are not compressed, so that few bytes ask for no more
TEXTS = ("string", "binary")
_STREAMS = 4
kernels: Any = _kernels  # lists of columns are unpacked into their calls
_N, _A, _O = kernels.ENTRIES, kernels.ARENA, kernels.OFFSET


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
        self._state = np.zeros(3, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.int64)
        self._errors = np.empty(0, np.int64)
        self._starts = np.empty(0, np.int64)
        self._lengths = np.empty(0, np.int64)
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
            self._grow(int(self._state[_A]) + size)

    def look_up(self, array: pa.Array, hashes: np.ndarray | None = None) -> np.ndarray:
        """Number of each item's entry, or -1: int64[n]."""
        out = np.full(len(array), -1, np.int64)
        if self.items is None or not len(array):
            return out
        array, name = self.typed(array)
        if hashes is None:
            hashes = hash_items(array, self.seed)
        _, _, _, _, _, *where = self._arrays()
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
        offsets = np.append(self._starts[:n], self._state[_A])
        texts = self._arena[: self._state[_A]].tobytes()
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts)]
        return pa.Array.from_buffers(ITEM_TYPES[self.items], n, buffers)

    def merge(self, other: Self) -> None:
        """Add the entries and the offset of another; both hold items of one type, or none.

        An item that one side does not keep may have weighed up to that side's offset there.
        """
        other = deepcopy(other) if other is self else other
        self.items = self.items or other.items
        self._grow_to(len(self) + len(other), int(self._state[_A] + other._state[_A]))
        theirs = (other._hashes, other._counts, other._errors, other._starts, other._lengths)
        kernels.merge(len(other), other.offset, *theirs, other._arena, *self._arrays())

    def to_bytes(self) -> bytes:
        """Streams of a segment: counts without errors, errors, integers or lengths, and texts."""
        texts, n = self.items in TEXTS, len(self)
        arena = self._arena[: self._state[_A]]
        packed = len(arena) <= PACKED_BYTES_MAX
        out = StreamWriter()
        out.numbers(self.counts - self.errors)
        out.numbers(self.errors)
        out.numbers((self._lengths if texts else self._starts)[:n])
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
            self._lengths[:n] = third
            self._starts[:n] = np.cumsum(third) - third
            self._arena[: len(arena)] = arena
            self._state[_A] = len(arena)
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
        lengths = self._lengths if self.items in TEXTS else None
        columns = (self._hashes, self._counts, self._errors, self._starts, lengths)
        return self._state, self.capacity, *columns, self._arena, self._table

    def _grow(self, arena_bytes: int) -> None:
        """Room for at least one entry more, and for `arena_bytes` of texts."""
        entries = len(self._hashes)
        if len(self) == entries:
            entries = min(2 * self.capacity, max(ENTRIES_MIN, 2 * entries))
        if arena_bytes > len(self._arena):
            arena_bytes = max(ARENA_BYTES_MIN, 2 * len(self._arena), arena_bytes)
        self._reserve(entries, arena_bytes)

    def _grow_to(self, entries: int, arena_bytes: int) -> None:
        """Room for so much and, where there is not, for twice what there was."""
        if entries > len(self._hashes):
            entries = max(entries, min(2 * len(self._hashes), 4 * self.capacity))
        if arena_bytes > len(self._arena):
            arena_bytes = max(arena_bytes, 2 * len(self._arena))
        self._reserve(entries, arena_bytes)

    def _reserve(self, entries: int, arena_bytes: int) -> None:
        """Arrays that hold so many entries and bytes, and a table at most half full."""
        self._arena = _longer(self._arena, arena_bytes)
        if entries > len(self._hashes):
            self._hashes = _longer(self._hashes, entries)
            self._counts = _longer(self._counts, entries)
            self._errors = _longer(self._errors, entries)
            self._starts = _longer(self._starts, entries)
            self._lengths = _longer(self._lengths, entries)
            self._table = np.zeros(1 << (2 * entries - 1).bit_length(), np.uint64)
            kernels.reindex(self._table, self._hashes, len(self))


def _parts(array: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Bytes and offsets of texts; of integers, the numbers alone."""
    return text_buffers(array) if name in TEXTS else (integers(array), None)


def refuse_broken_text(array: pa.Array) -> None:
    """BadArgument where a string is not UTF-8: it could be neither shown nor read back."""
    data, offsets = text_buffers(array)
    if not len(array) or not (data[offsets[0] : offsets[-1]] & 0x80).any():
        return  # ASCII, as nearly always: ten times faster to see than to validate
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"items are not UTF-8 ({problem}): give them as binary") from None


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer
