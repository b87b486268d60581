"""Arrays to bytes and back: narrowed, and each byte's place compressed in a row of its own.

A stream is an array of int64 under one of these forms, chosen by the numbers alone, so that the
same numbers give the same bytes (of one release of zstd):

    numbers      less the smallest, in the fewest of 0, 1, 2, 4 and 8 bytes
    decimals     doubles that are whole in units of 1, 1/10, 1/100 or 1/1000, as such integers
    differences  to numbers that were written before, where most are equal: the items of a row are
                 often as many as its events

Each byte's place is compressed alone. Of the last place, whose bytes are few and unequal, two share
one where that is shorter (`compressed` is 2 then): zstd writes none in less than a bit.

Lists (the items of rows, the keys of slices) are three streams: sizes, first items, and steps
from item to item, which are small where lists are sorted. Items that come again and again are
written as their numbers among the different ones, a fourth stream. Where lists are short, each item
is written as its number among those of its key: the second stream is empty then, and a fifth and
sixth say how many items each key has, and which.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary
from muntin.segments.columns import Column, Ragged, Shape, States, frozen, laid_out, starts_of
from muntin.segments.kernels import streams as kernels

LEVEL = 1
COMPRESS_BYTES_MIN = 256  # below, zstd takes longer to begin than it saves
PLANE_BYTES_MIN = 1024  # below, bytes of different places are compressed together
DIFFERENCES_MIN = 64  # fewer numbers are written as they are
CODED, CODED_BY_KEY = 1, 3  # of a list's items: so many streams follow its three
HALF = 16  # bytes below may share one with another
SHORT_ITEMS = 2  # of a list in the mean, at most, where each key's items are coded of their own
KEY_SHARE = 3  # items for each different one of a key, at least, in the mean, where that is done
SMALL_NUMBERS_MAX = 1 << 14  # of a segment whose streams are widened at once, not one by one
NUMBERS_BELIEVED = 1 << 23  # of all streams, whatever the bytes are that are said to hold them
NUMBERS_A_BYTE = 1 << 16  # more: zstd writes 128 KiB of one byte in 4, and two may share one
SCALES = (1.0, 10.0, 100.0, 1000.0)
PLAIN = 0  # form of a stream: 0, or 1 + the number of a scale, or ALIKE + that of others
ALIKE = 1 + len(SCALES)
_SHORT = ("form", "u1"), ("width", "u1"), ("compressed", "u1"), ("coded", "u1")
_ENTRIES = np.dtype([*_SHORT, ("base", "<i8"), ("numbers", "<u8"), ("stored", "<u8")])
_COMPRESSED, _CODED, _NUMBERS, _STORED = 2, 3, 5, 6
"""Places in a line: tuples are read faster than records."""
ENTRY_BYTES = _ENTRIES.itemsize
_WIDTHS = (0, 1, 2, 4, 8)


_ABSENT = 0, 0, 0, 0, 0, 0, 0  # a column of zeros
_codec: Any = pa.Codec("zstd", compression_level=LEVEL)


class StreamWriter:
    """Streams, one after the other, and their directory."""

    def __init__(self) -> None:
        self._streams: list[tuple[int, np.ndarray, int, bool]] = []
        """Line in the directory; numbers or bytes; form; whether zeros stay away."""
        self._coded: dict[int, int] = {}
        """Lines of first items that are codes: `CODED`, `CODED_BY_KEY`."""
        self._count = 0

    def numbers(self, values: np.ndarray, *known: np.ndarray) -> None:
        """int64[n]; `known`: int64[n] each, which the reader has by then."""
        self._put(*_differences(values, known))

    def doubles(self, bits: np.ndarray, keys: bool = False) -> None:
        """Doubles' bits, or their keys of `order_keys`: int64[n]."""
        self._put(*(_decimals(bits, keys) or (bits, PLAIN)))

    def raw(self, values: np.ndarray) -> None:
        """uint8[n]"""
        self._put(values)

    def columns(
        self, states: States, shapes: Mapping[str, Shape], events: np.ndarray, key_of: np.ndarray
    ) -> None:
        """Columns of states; see `StreamReader.columns`. Zeros are not written."""
        known = [events]
        for name, shape in shapes.items():
            column = states[name]
            if column is None:
                self._count += shape.streams
            elif isinstance(column, Ragged):
                self.lists(column, shape.doubles, *known, key_of=key_of)
                known[1:] = [column.sizes]
            elif not shape.doubles and shape.dtype != "uint8":
                values, form = _differences(column, known)
                self._put(values, form, form == PLAIN)
                if name == "nulls":
                    known = [events - column]
            elif not column.any():
                self._count += shape.streams
            elif shape.doubles:
                self.doubles(frozen(column.view(np.int64)), shape.keys)
            else:
                self.raw(column)

    def lists(
        self,
        column: Ragged,
        keys: bool = False,
        *known: np.ndarray,
        key_of: np.ndarray | None = None,
    ) -> None:
        """Sizes, then first items and steps; bytes as they are. `key_of`: int64[lists]."""
        sizes = column.sizes
        self.numbers(sizes, *known)
        items, form = column.items, PLAIN
        if items.dtype == np.uint8:
            self.raw(items)
            return
        if keys:
            items, form = _decimals(items, True) or (items, PLAIN)
        lists = int(np.count_nonzero(sizes))
        firsts, steps = np.empty(lists, np.int64), np.empty(len(items) - lists, np.int64)
        kernels.split_lists(column.starts, frozen(items), firsts, steps)
        codes = np.empty(len(items), np.int64)
        values = kernels.coded(frozen(items), firsts, steps, codes)
        if not len(values):
            self._put(firsts, form)
            self.numbers(steps)
            return
        values[1:] -= values[:-1].copy()
        own = None
        if key_of is not None and len(items) <= SHORT_ITEMS * lists:
            own = _coded_by_key(codes, column.starts, key_of)
        self._coded[self._count] = CODED if own is None else CODED_BY_KEY
        if own is None:
            kernels.split_lists(column.starts, frozen(codes), firsts, steps)
            self.numbers(firsts)
            self.numbers(steps)
            self._put(values, form)
            return
        sizes, numbers = own
        self.numbers(codes)
        self.numbers(steps[:0])
        self._put(values, form)
        self.numbers(sizes)
        self.numbers(np.diff(numbers, prepend=0))

    def _put(self, values: np.ndarray, form: int = PLAIN, spare: bool = False) -> None:
        self._streams.append((self._count, values, form, spare))
        self._count += 1

    def written(self) -> tuple[bytes, bytes]:
        """The directory, and all streams."""
        directory = np.zeros(self._count, _ENTRIES)
        payload: list[Any] = []
        for batch in self._batches():
            places, values, forms, spare = zip(*batch, strict=True)
            lines = np.zeros(len(batch), _ENTRIES)
            lines["form"] = forms
            planes = _narrowed(values, np.array(spare), lines)
            ends = np.cumsum(lines["stored"]).tolist()
            view, at = planes.data, 0
            for i in np.flatnonzero(lines["stored"] >= COMPRESS_BYTES_MIN).tolist():
                begin, end = ends[i - 1] if i else 0, ends[i]
                count = int(lines["numbers"][i])  # bytes of a plane, which are alike
                size = end - begin if count < PLANE_BYTES_MIN else count
                frames = [
                    _codec.compress(view[plane : plane + size], asbytes=True)
                    for plane in range(begin, end, size)
                ]
                as_halves = _halved(planes[end - count : end], frames)
                packed = b"".join(frames)
                if len(packed) < end - begin:
                    lines["compressed"][i], lines["stored"][i] = 1 + as_halves, len(packed)
                    payload += [view[at:begin], packed]
                    at = end
            if at < ends[-1]:
                payload.append(view[at:])
            directory[[*places]] = lines
        directory["coded"][[*self._coded]] = [*self._coded.values()]
        return directory.tobytes(), b"".join(payload)

    def _batches(self) -> Iterator[list[tuple[int, np.ndarray, int, bool]]]:
        """Streams that are narrowed by one call: many that are small, or one."""
        batch, size = [], 0
        for stream in self._streams:
            size += len(stream[1])
            if size > SMALL_NUMBERS_MAX and batch:
                yield batch
                batch, size = [], len(stream[1])
            batch.append(stream)
        if batch:
            yield batch


def _halved(plane: np.ndarray, frames: list[bytes]) -> bool:
    """Put two bytes of the last plane in one, where that is shorter."""
    if len(plane) < PLANE_BYTES_MIN or plane.max() >= HALF:
        return False
    halves = np.empty(-(-len(plane) // 2), np.uint8)
    kernels.to_halves(plane, halves)
    frame = _codec.compress(halves, asbytes=True)
    shorter = len(frame) < len(frames[-1])
    if shorter:
        frames[-1] = frame
    return shorter


def _narrowed(streams: tuple[np.ndarray, ...], spare: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """The bytes of streams, and their lines in the directory but for the forms."""
    first = streams[0]
    if len(streams) == 1 and first.dtype == np.uint8:
        lines["width"], lines["numbers"], lines["stored"] = 1, len(first), len(first)
        return frozen(first)
    starts = starts_of(np.array([*map(len, streams)]))
    joined = frozen(first if len(streams) == 1 else np.concatenate(streams, dtype=np.int64))
    raw = np.array([values.dtype == np.uint8 for values in streams])
    bases, widths, counts, planes = kernels.narrowed(joined, starts, raw, spare)
    lines["width"], lines["base"], lines["numbers"] = widths, bases, counts
    lines["stored"] = widths * counts
    return planes


def _coded_by_key(
    codes: np.ndarray, starts: np.ndarray, key_of: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """How many codes each key has, and which; `codes` become places among them. None where that
    would not be shorter."""
    sizes = np.empty(int(key_of.max()) + 1, np.int64)
    numbers = np.empty(len(codes) // KEY_SHARE, np.int64)
    if len(sizes) == 1 or len(sizes) > len(numbers):
        return None
    used = kernels.coded_by_key(codes, starts, frozen(key_of), sizes, numbers)
    return (sizes, numbers[:used]) if used >= 0 else None


def _differences(values: np.ndarray, known: Sequence[np.ndarray]) -> tuple[np.ndarray, int]:
    """Values, or what they are more than others (wrapping), and the form."""
    if len(values) < DIFFERENCES_MIN:
        return values, PLAIN
    for at, others in enumerate(known):
        if 2 * np.count_nonzero(values == others) > len(values):
            return values - others, ALIKE + at
    return values, PLAIN


def _decimals(bits: np.ndarray, keys: bool) -> tuple[np.ndarray, int] | None:
    out = np.empty(len(bits), np.int64)
    for at, scale in enumerate(SCALES):
        if kernels.to_decimals(bits, keys, scale, out, out.view(np.float64)):
            return out, at + 1
    return None


class StreamReader:
    """Streams as `StreamWriter` wrote them, in their order; CorruptSummary on anything else.

    Every length is checked against what is expected before anything is allocated. What is read
    holds no more memory than its own, but for few numbers, where all of them are read.
    """

    def __init__(self, directory: memoryview, payload: memoryview, *, whole: bool = True) -> None:
        """`whole`: all streams will be read."""
        if len(directory) % ENTRY_BYTES:
            raise CorruptSummary("segment: the directory is cut")
        lines = np.frombuffer(directory, _ENTRIES)
        self._lines: list[tuple[int, ...]] = lines.tolist()  # as in `_ENTRIES`
        self._payload = payload
        self._next = 0
        self._at = 0
        self._left = NUMBERS_BELIEVED + NUMBERS_A_BYTE * len(payload)
        self._widened = np.empty(0, np.int64)
        self._starts: list[int] = []
        count = sum(line[_NUMBERS] for line in self._lines if not line[_COMPRESSED])
        if whole and self._lines and count <= SMALL_NUMBERS_MAX:
            self._widen(lines, count)

    def _widen(self, lines: np.ndarray, count: int) -> None:
        """All streams that are not compressed, by one call instead of one each."""
        columns = [lines[name].copy() for name in _ENTRIES.names or ()]
        starts, out = np.empty(len(lines) + 1, np.int64), np.empty(count, np.int64)
        payload = frozen(np.frombuffer(self._payload, np.uint8))
        kernels.widen_streams(payload, *columns, starts, out)
        self._starts, self._widened = starts.tolist(), frozen(out)

    def skip(self, streams: int) -> None:
        """Pass over streams, and the different items of those that are codes."""
        while streams:
            line = self._line()
            self._at += line[_STORED]
            streams += line[_CODED] - 1

    def done(self) -> None:
        if self._next != len(self._lines) or self._at != len(self._payload):
            raise CorruptSummary("segment: there are more streams than it needs")

    def rest(self) -> memoryview:
        """What is behind the last stream."""
        rest, self._at = self._payload[self._at :], len(self._payload)
        return rest

    def numbers(self, count: int, *known: np.ndarray) -> np.ndarray:
        """int64[count]; `known` as they were written."""
        values, form = self._take(count, ALIKE + len(known))
        if form >= ALIKE:
            return frozen(values + known[form - ALIKE])
        if form != PLAIN:
            raise CorruptSummary("segment: integers that are written as decimals")
        return frozen(values)

    def zeros(self, count: int) -> None:
        """Pass over numbers that are all 0."""
        if self._line() != (PLAIN, 0, 0, 0, 0, count, 0):
            raise CorruptSummary(f"segment: not {count} zeros")

    def doubles(self, count: int, keys: bool = False) -> np.ndarray:
        """Bits or keys: int64[count]."""
        return frozen(_undecimal(*self._take(count), keys))

    def raw(self, count: int) -> np.ndarray:
        """uint8[count]"""
        planes, (form, width, base) = self._planes(count)
        if form != PLAIN or width != 1 or base:
            raise CorruptSummary("segment: bytes that are written as numbers")
        return frozen(planes.copy())  # a view would hold the payload of all streams

    def columns(
        self, events: np.ndarray, shapes: Mapping[str, Shape], left: int, key_of: np.ndarray
    ) -> States:
        """The columns of states of rows of so many events, with lists of `left` bytes at most each.

        Numbers of a row may be written as what they are more than its events that are no nulls, or
        more than the items of the list before.
        """
        states: dict[str, Column] = {}
        rows, known = len(events), [events]
        for name, shape in shapes.items():
            at, streams = self._next, shape.streams
            if rows and at < len(self._lines) and self._lines[at][_NUMBERS] == 0:
                self._next += streams
                if self._lines[at : at + streams] != [_ABSENT] * streams:
                    raise CorruptSummary("segment: a column that is absent has streams")
                states[name] = frozen(np.zeros(rows, shape.dtype)) if shape.required else None
            elif streams > 1:
                column = self.lists(rows, shape.dtype, shape.doubles, left, *known, key_of=key_of)
                states[name] = column if len(column.items) else None
                known[1:] = [column.sizes]
            elif shape.dtype == "uint8":
                states[name] = self.raw(rows)
            elif shape.dtype == "float64":
                states[name] = frozen(self.doubles(rows).view(np.float64))
            elif shape.keys:
                states[name] = self.doubles(rows, True)
            else:
                states[name] = column = self.numbers(rows, *known)
                if name == "nulls":
                    known = [events - column]
        return states

    def lists(
        self,
        rows: int,
        dtype: str,
        keys: bool,
        left: int,
        *known: np.ndarray,
        key_of: np.ndarray | None = None,
    ) -> Ragged:
        sizes = self.numbers(rows, *known)
        starts = laid_out(sizes, left // np.dtype(dtype).itemsize)
        if starts is None:
            raise CorruptSummary("segment: the length of a list is impossible")
        total = int(starts[-1])
        if dtype == "uint8":
            return Ragged(starts, self.raw(total))
        filled = int(np.count_nonzero(sizes))
        coded = self._next < len(self._lines) and self._lines[self._next][_CODED]
        by_key = coded == CODED_BY_KEY
        if coded not in (0, CODED, CODED_BY_KEY) or (by_key and key_of is None):
            raise CorruptSummary(f"segment: codes with {coded} streams behind them")
        firsts, form = self._take(total if by_key else filled)
        steps = self.numbers(0 if by_key else total - filled)
        items = np.empty(total, np.int64)
        if coded and form != PLAIN:
            raise CorruptSummary("segment: codes that are written as decimals")
        if key_of is not None and by_key:
            values, form = self._different(total)
            own = self._of_keys(values, int(key_of.max()) + 1, total)
            if not kernels.decoded_by_key(starts, key_of, *own, frozen(firsts), items):
                raise CorruptSummary("segment: a list has an item that its key does not have")
        else:
            kernels.join_lists(starts, frozen(firsts), steps, items)
        if coded == CODED:
            values, form = self._different(total)
            if not kernels.decoded(values, items):
                raise CorruptSummary("segment: a list has an item that is none of the different")
        if form != PLAIN and not keys:
            raise CorruptSummary("segment: integers that are written as decimals")
        return Ragged(starts, frozen(_undecimal(frozen(items), form, keys)))

    def _different(self, most: int) -> tuple[np.ndarray, int]:
        """The different items of lists, and the form that they are in."""
        size = self._lines[self._next][_NUMBERS] if self._next < len(self._lines) else 0
        if not 0 < size <= most:
            raise CorruptSummary(f"segment: {size} different items among {most}")
        steps, form = self._take(size)
        values = np.cumsum(steps)
        if (values[1:] <= values[:-1]).any():
            raise CorruptSummary("segment: the different items of lists do not ascend")
        return frozen(values), form

    def _of_keys(self, values: np.ndarray, keys: int, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Where each key's own begin, and they: int64[keys + 1], int64[...]."""
        starts = laid_out(self.numbers(keys), most)
        if starts is None:
            raise CorruptSummary("segment: keys have more different items than lists have")
        numbers = np.cumsum(self.numbers(int(starts[-1])))
        if not kernels.decoded(values, numbers):
            raise CorruptSummary("segment: a key has an item that is none of the different")
        return starts, frozen(numbers)

    def _take(self, count: int, forms: int = ALIKE) -> tuple[np.ndarray, int]:
        """The next stream, which has one of the first `forms`."""
        at = self._next
        begin, end = self._starts[at : at + 2] if at < len(self._starts) - 1 else (0, 0)
        if count and end - begin == count:
            form, width, *_, stored = self._line()
            self._at += stored
            values = self._widened[begin:end]
        else:
            planes, (form, width, base) = self._planes(count)
            values = np.empty(count, np.int64)
            if width in _WIDTHS:
                kernels.widen(planes, base, width, values)
        if width not in _WIDTHS or form >= forms:
            raise CorruptSummary(f"segment: a stream of form {form}, {width} bytes")
        return values, form

    def _planes(self, count: int) -> tuple[np.ndarray, tuple[int, int, int]]:
        """Bytes of the next stream; its form, width and base."""
        form, width, compressed, _, base, numbers, stored = self._line()
        if numbers != count:
            raise CorruptSummary(f"segment: {numbers} numbers where {count} should be")
        self._left -= count
        if self._left < 0:  # equal ones take no bytes at all
            raise CorruptSummary(f"segment: {count} numbers in {len(self._payload)} bytes")
        size = count * min(width, 8)
        piece = self._payload[self._at : self._at + stored]
        self._at += stored
        as_halves = compressed == 2
        if (
            len(piece) != stored
            or (not compressed and stored != size)
            or compressed > 2
            or (as_halves and not width)
        ):
            raise CorruptSummary("segment: a stream is cut, or too long")
        if compressed:
            try:
                piece = _codec.decompress(piece, decompressed_size=size - as_halves * (count // 2))
            except (OSError, ValueError) as problem:
                raise CorruptSummary(f"segment: a stream does not decompress ({problem})") from None
        planes = frozen(np.frombuffer(piece, np.uint8))
        if as_halves:
            halves, planes = planes, np.empty(size, np.uint8)
            kernels.from_halves(halves, count, planes)
        return frozen(planes), (form, width, base)

    def _line(self) -> tuple[int, ...]:
        if self._next >= len(self._lines):
            raise CorruptSummary("segment: a stream is missing")
        self._next += 1
        return self._lines[self._next - 1]


def _undecimal(values: np.ndarray, form: int, keys: bool) -> np.ndarray:
    if form == PLAIN:
        return values
    out = np.empty(len(values), np.int64)
    kernels.from_decimals(frozen(values), keys, SCALES[form - 1], out, out.view(np.float64))
    return out
