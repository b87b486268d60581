"""Arrays to bytes and back: narrowed, byte by byte in rows of their own, compressed once.

A stream is an array of int64 under one of these forms, chosen by the numbers alone, so that the
same numbers give the same bytes (of one release of zstd):

    numbers      less the smallest, in the fewest of 0, 1, 2, 4 and 8 bytes
    decimals     doubles that are whole in units of 1, 1/10, 1/100 or 1/1000, as such integers

Lists (the items of rows, the keys of slices) are three streams: sizes, first items, and steps
from item to item, which are small where lists are sorted.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary
from muntin.segments.columns import Column, Ragged, frozen, starts_of
from muntin.segments.kernels import streams as kernels

LEVEL = 1
COMPRESS_BYTES_MIN = 256  # below, zstd takes longer to begin than it saves
SMALL_NUMBERS_MAX = 1 << 14  # of a segment whose streams are widened at once, not one by one
SCALES = (1.0, 10.0, 100.0, 1000.0)
PLAIN = 0  # form of a stream: 0, or 1 + the number of a scale
_ENTRY = struct.Struct("<BBBBqQQ")  # form, width, compressed, 0, base, count, stored bytes
ENTRY_BYTES = _ENTRY.size
_ENTRIES = np.dtype("u1, u1, u1, u1, <i8, <u8, <u8")
_WIDTHS = (0, 1, 2, 4, 8)
_NOTHING = _ENTRY.pack(PLAIN, 0, 0, 0, 0, 0, 0)  # a stream without numbers


class Entry(NamedTuple):
    """A stream's line in the directory."""

    form: int
    width: int
    compressed: int
    reserved: int
    base: int
    numbers: int
    stored: int


_ABSENT = Entry(PLAIN, 0, 0, 0, 0, 0, 0)
_codec: Any = pa.Codec("zstd", compression_level=LEVEL)


class StreamWriter:
    """Streams, one after the other, and their directory."""

    def __init__(self) -> None:
        self.directory: list[bytes] = []
        self.payload: list[bytes] = []

    def numbers(self, values: np.ndarray) -> None:
        """int64[n]"""
        self._put(values, PLAIN)

    def doubles(self, bits: np.ndarray, keys: bool = False) -> None:
        """Doubles' bits, or their keys of `order_keys`: int64[n]."""
        decimals = self._decimals(bits, keys)
        self._put(*(decimals or (bits, PLAIN)))

    def raw(self, values: np.ndarray) -> None:
        """uint8[n]"""
        self._write(PLAIN, 1, 0, values, len(values))

    def column(self, column: Column, doubles: bool, keys: bool, streams: int) -> None:
        """A column of states; see `StreamReader.column`. Zeros are not written."""
        if isinstance(column, Ragged):
            self.lists(column, doubles and keys)
        elif column is None or not column.any():
            self.directory += [_NOTHING] * streams
        elif column.dtype == np.uint8:
            self.raw(column)
        elif doubles:
            self.doubles(frozen(column.view(np.int64)), keys)
        else:
            self.numbers(column)

    def lists(self, column: Ragged, keys: bool = False) -> None:
        """Sizes, then first items and steps; bytes as they are."""
        self.numbers(frozen(column.sizes))
        items, form = column.items, PLAIN
        if items.dtype == np.uint8:
            self.raw(items)
            return
        if keys:
            items, form = self._decimals(items, True) or (items, PLAIN)
        lists = int(np.count_nonzero(column.sizes))
        firsts, steps = np.empty(lists, np.int64), np.empty(len(items) - lists, np.int64)
        kernels.split_lists(column.starts, frozen(items), firsts, steps)
        self._put(firsts, form)
        self._put(steps, PLAIN)

    def _decimals(self, bits: np.ndarray, keys: bool) -> tuple[np.ndarray, int] | None:
        out = np.empty(len(bits), np.int64)
        for at, scale in enumerate(SCALES):
            if kernels.to_decimals(bits, keys, scale, out):
                return out, at + 1
        return None

    def _put(self, values: np.ndarray, form: int) -> None:
        found: Any = kernels.narrowed(frozen(values))
        low, width, planes = found
        self._write(form, width, low, planes, len(values))

    def _write(self, form: int, width: int, base: int, planes: np.ndarray, count: int) -> None:
        data, compressed = planes.tobytes() if len(planes) < COMPRESS_BYTES_MIN else b"", False
        if not data and len(planes):
            data = _codec.compress(planes, asbytes=True)
            compressed = len(data) < len(planes)
            data = data if compressed else planes.tobytes()
        self.directory.append(_ENTRY.pack(form, width, compressed, 0, base, count, len(data)))
        self.payload.append(data)


class StreamReader:
    """Streams as `StreamWriter` wrote them, in their order; CorruptSummary on anything else.

    Every length is checked against what is expected before anything is allocated.
    """

    def __init__(self, directory: memoryview, payload: memoryview) -> None:
        if len(directory) % ENTRY_BYTES:
            raise CorruptSummary("segment: the directory is cut")
        self.entries = [*map(Entry._make, _ENTRY.iter_unpack(directory))]
        self._payload = payload
        self._next = 0
        self._at = 0
        self._widened = np.empty(0, np.int64)
        self._starts: list[int] = []
        count = sum(entry.numbers for entry in self.entries if not entry.compressed)
        if self.entries and count <= SMALL_NUMBERS_MAX:
            self._widen(directory, count)

    def _widen(self, directory: memoryview, count: int) -> None:
        """All streams that are not compressed, by one call instead of one each."""
        lines = np.frombuffer(directory, _ENTRIES)
        columns = [lines[name].copy() for name in _ENTRIES.names or ()]
        starts, out = np.empty(len(lines) + 1, np.int64), np.empty(count, np.int64)
        payload = frozen(np.frombuffer(self._payload, np.uint8))
        kernels.widen_streams(payload, *columns, starts, out)
        self._starts, self._widened = starts.tolist(), frozen(out)

    def skip(self, streams: int) -> None:
        """Pass over streams."""
        for _ in range(streams):
            self._at += self._entry().stored

    def done(self) -> None:
        if self._next != len(self.entries) or self._at != len(self._payload):
            raise CorruptSummary("segment: there are more streams than it needs")

    def rest(self) -> memoryview:
        """What is behind the last stream."""
        rest, self._at = self._payload[self._at :], len(self._payload)
        return rest

    def numbers(self, count: int) -> np.ndarray:
        """int64[count]"""
        values, form = self._take(count)
        if form != PLAIN:
            raise CorruptSummary("segment: integers that are written as decimals")
        return frozen(values)

    def doubles(self, count: int, keys: bool = False) -> np.ndarray:
        """Bits or keys: int64[count]."""
        return frozen(_undecimal(*self._take(count), keys))

    def raw(self, count: int) -> np.ndarray:
        """uint8[count]"""
        planes, entry = self._planes(count)
        if entry.form != PLAIN or entry.width != 1 or entry.base:
            raise CorruptSummary("segment: bytes that are written as numbers")
        return frozen(planes)

    def column(
        self, rows: int, dtype: str, doubles: bool, streams: int, required: bool, left: int
    ) -> Column:
        """A column of states.

        Parameters
        ----------
        rows : int
        dtype : "int64", "float64" or "uint8"
        doubles : bool
            int64 that are keys of doubles; float64.
        streams : int
            More than one: a list a row, of `left` items at most in all.
        required : bool
            Zeros stand as zeros, not as None.
        """
        absent = self._next < len(self.entries) and self.entries[self._next].numbers == 0
        if absent and rows:
            for _ in range(streams):
                if self._entry() != _ABSENT:
                    raise CorruptSummary("segment: a column that is absent has streams")
            return frozen(np.zeros(rows, dtype)) if required else None
        if streams > 1:
            column = self.lists(rows, dtype, doubles, left)
            return column if len(column.items) else None
        if dtype == "uint8":
            return self.raw(rows)
        if dtype == "float64":
            return frozen(self.doubles(rows).view(np.float64))
        return self.doubles(rows, True) if doubles else self.numbers(rows)

    def lists(self, rows: int, dtype: str, keys: bool, left: int) -> Ragged:
        sizes = self.numbers(rows)
        if rows and (sizes.min() < 0 or sizes.max() > left):
            raise CorruptSummary("segment: the length of a list is impossible")
        total = int(sizes.sum()) if rows else 0
        if total > left:
            raise CorruptSummary("segment: lists hold more than there can be")
        starts = starts_of(sizes)
        if dtype == "uint8":
            return Ragged(starts, self.raw(total))
        filled = int(np.count_nonzero(sizes))
        firsts, form = self._take(filled)
        if form != PLAIN and not keys:
            raise CorruptSummary("segment: integers that are written as decimals")
        steps = self.numbers(total - filled)
        items = np.empty(total, np.int64)
        kernels.join_lists(starts, frozen(firsts), steps, items)
        return Ragged(starts, frozen(_undecimal(frozen(items), form, keys)))

    def _take(self, count: int) -> tuple[np.ndarray, int]:
        at = self._next
        begin, end = self._starts[at : at + 2] if at < len(self._starts) - 1 else (0, 0)
        if count and end - begin == count:
            entry = self._entry()
            self._at += entry.stored
            values = self._widened[begin:end]
        else:
            planes, entry = self._planes(count)
            values = np.empty(count, np.int64)
            if entry.width in _WIDTHS:
                kernels.widen(planes, entry.base, entry.width, values)
        if entry.width not in _WIDTHS or entry.form > len(SCALES):
            raise CorruptSummary(f"segment: a stream of form {entry.form}, {entry.width} bytes")
        return values, entry.form

    def _planes(self, count: int) -> tuple[np.ndarray, Entry]:
        entry = self._entry()
        if entry.numbers != count:
            raise CorruptSummary(f"segment: {entry.numbers} numbers where {count} should be")
        size = count * min(entry.width, 8)
        piece = self._payload[self._at : self._at + entry.stored]
        self._at += entry.stored
        if len(piece) != entry.stored or (not entry.compressed and entry.stored != size):
            raise CorruptSummary("segment: a stream is cut, or too long")
        if not entry.compressed:
            return np.frombuffer(piece, np.uint8), entry
        try:
            plain = _codec.decompress(piece, decompressed_size=size)
        except (OSError, ValueError) as problem:
            raise CorruptSummary(f"segment: a stream does not decompress ({problem})") from None
        return np.frombuffer(plain, np.uint8), entry

    def _entry(self) -> Entry:
        if self._next >= len(self.entries):
            raise CorruptSummary("segment: a stream is missing")
        self._next += 1
        return self.entries[self._next - 1]


def _undecimal(values: np.ndarray, form: int, keys: bool) -> np.ndarray:
    if form == PLAIN:
        return values
    out = np.empty(len(values), np.int64)
    kernels.from_decimals(frozen(values), keys, SCALES[form - 1], out)
    return out
