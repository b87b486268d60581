"""Indexes: distinct values and their numbers, in order of first appearance."""

from __future__ import annotations

import math

import numpy as np

from muntin.arrow import read_only
from muntin.errors import BadArgument
from muntin.summaries.kernels.hash_table import (
    BLOCK,
    NULL_HASH,
    SLACK,
    fill_slots,
    gather_strings,
    hash_numbered,
    mix_integers,
    number_integers,
    number_pairs,
    number_strings,
)
from muntin.summaries.kernels.hashing import hash_integers
from muntin.summaries.vector_matrix.rooms import zeros

ROWS_MAX = (1 << 31) - 2  # numbers are int32, and a slot keeps number + 1 in 32 bits
NO_BITS = read_only(np.empty(0, np.uint8))
_OFFSET_MAX = (1 << 31) - 1
_ROOM_MIN = 64  # a small pane fits without growing
_SAMPLE = 2048  # events that tell how many values there will be
_STEP = 32
_SLOTS_PER_VALUE = 2  # at most half full, so that a search ends within a line or two


def _room_for(values: int) -> int:
    if values > ROWS_MAX:
        raise BadArgument(f"{values} distinct values of a key: {ROWS_MAX} is the limit")
    return max(_ROOM_MIN, 1 << (values - 1).bit_length())


def _grown(old: np.ndarray, size: int) -> np.ndarray:
    new = np.empty(size, old.dtype)
    new[: len(old)] = old
    return new


class _Growth:
    """How far to grow in the middle of a batch.

    The repetitions so far tell how many values there are, were they equally frequent, and so how
    many distinct ones the batch will hold. Where that is far off, memory is wasted: so a step is
    at most the `_STEP`-fold.
    """

    __slots__ = ("_begin", "_end", "_used")

    def __init__(self, used: int, begin: int, end: int) -> None:
        self._used, self._begin, self._end = used, begin, end

    def room(self, used: int, at: int) -> int:
        """Distinct values to expect, of `used` that there are before event `at`."""
        events, new = at - self._begin, used - self._used
        if events < _SAMPLE or new < _SAMPLE // 2:
            return 2 * used + 1 if new > 0.8 * events and self._end - at > 2 * used else used
        x = 1e-6  # events per value: new / events = (1 - exp(-x)) / x
        for _ in range(20):
            x = max(1e-6, -math.log1p(-min(0.999999, x * new / events)))
        values = events / x if new < events else math.inf
        total = self._end - self._begin
        expected = total if values > 1e3 * total else -values * math.expm1(-total / values)
        return min(self._used + int(1.02 * expected), _STEP * used, used + self._end - at)


class IntegerIndex:
    """Distinct int64 values (also packed pairs of numbers)."""

    __slots__ = ("known", "slots", "state")

    def __init__(self) -> None:
        self.known = np.empty(_ROOM_MIN, np.int64)
        self.slots = np.zeros(_ROOM_MIN * _SLOTS_PER_VALUE, np.uint64)
        self.state = np.array([0, -1], np.int64)

    def __len__(self) -> int:
        return int(self.state[0])

    @property
    def nbytes(self) -> int:
        return self.known.nbytes + self.slots.nbytes + self.state.nbytes

    def copy(self) -> IntegerIndex:
        new = IntegerIndex.__new__(IntegerIndex)
        new.known, new.slots, new.state = self.known.copy(), self.slots.copy(), self.state.copy()
        return new

    def reserve(self, values: int) -> None:
        """Make room for so many distinct values in all."""
        if values <= len(self.known):
            return
        self.known = _grown(self.known, _room_for(values))
        self._fill_slots()

    def _fill_slots(self) -> None:
        used = len(self)
        self.slots = zeros(len(self.known) * _SLOTS_PER_VALUE, np.uint64)
        hashes = np.empty(used, np.uint64)
        mix_integers(self.known[:used], hashes)
        fill_slots(self.slots, hashes, used, self.state[1])

    def number(
        self,
        values: np.ndarray,
        begin: int,
        end: int,
        bits: np.ndarray = NO_BITS,
        bit_offset: int = 0,
        insert: bool = True,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Numbers, int32, of values[begin:end]; unknown ones are appended, or get -1."""
        values, bits = read_only(values), read_only(bits)
        out = np.empty(end - begin, np.int32) if out is None else out
        growth = _Growth(len(self), begin, end)
        at = begin
        while True:
            at = number_integers(
                values, at, end, bits, bit_offset, self.slots, self.known, self.state, insert,
                out[at - begin :],
            )  # fmt: skip
            if at >= end:
                return out
            self.reserve(growth.room(len(self), at) + min(BLOCK, end - at))

    def number_pairs(
        self, left: np.ndarray, right: np.ndarray, insert: bool, out: np.ndarray | None = None
    ) -> np.ndarray:
        """As `number`, of pairs of numbers in one int64; unknown where one of them is (-1)."""
        events = len(left)
        out = np.empty(events, np.int32) if out is None else out
        growth, at = _Growth(len(self), 0, events), 0
        while True:
            at = number_pairs(left, right, at, self.slots, self.known, self.state, insert, out)
            if at >= events:
                return out
            self.reserve(growth.room(len(self), at) + min(BLOCK, events - at))

    def shrink(self, used: int) -> None:
        """Forget the numbers from `used` on."""
        self.state[0] = used
        if self.state[1] >= used:
            self.state[1] = -1
        self._fill_slots()

    def hashes_of(self, numbers: np.ndarray) -> np.ndarray:
        """XXH64 of the numbered values, uint64; null has a hash of its own."""
        out = np.empty(len(numbers), np.uint64)
        hash_integers(self.known[numbers], np.uint64(0), out)
        if self.state[1] >= 0:
            out[numbers == self.state[1]] = NULL_HASH
        return out


class TextIndex:
    """Distinct strings, their bytes one after the other in an arena of the index's own."""

    __slots__ = ("arena", "hashes", "slots", "starts", "state")

    def __init__(self) -> None:
        self.hashes = np.empty(_ROOM_MIN, np.uint64)
        self.starts = np.zeros(_ROOM_MIN + 1, np.int64)
        self.arena = np.empty(_ROOM_MIN * 16, np.uint8)
        self.slots = np.zeros(_ROOM_MIN * _SLOTS_PER_VALUE, np.uint64)
        self.state = np.array([0, -1], np.int64)

    def __len__(self) -> int:
        return int(self.state[0])

    @property
    def nbytes(self) -> int:
        arrays = (self.hashes, self.starts, self.arena, self.slots, self.state)
        return sum(array.nbytes for array in arrays)

    def copy(self) -> TextIndex:
        new = TextIndex.__new__(TextIndex)
        for name in self.__slots__:
            setattr(new, name, getattr(self, name).copy())
        return new

    def reserve(self, values: int, arena_bytes: int = 0) -> None:
        """Make room for so many distinct values, and bytes of them, in all."""
        if values > len(self.hashes):
            room = _room_for(values)
            self.hashes = _grown(self.hashes, room)
            self.starts = _grown(self.starts, room + 1)
            self._fill_slots()
        if arena_bytes + SLACK > len(self.arena):
            self.arena = _grown(self.arena, arena_bytes + SLACK)

    def _fill_slots(self) -> None:
        self.slots = zeros(len(self.hashes) * _SLOTS_PER_VALUE, np.uint64)
        fill_slots(self.slots, self.hashes, len(self), self.state[1])

    def number(
        self,
        data: np.ndarray,
        offsets: np.ndarray,
        begin: int,
        end: int,
        bits: np.ndarray = NO_BITS,
        bit_offset: int = 0,
        insert: bool = True,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Numbers, int32, of strings [begin, end); unknown ones are appended, or get -1."""
        if offsets.dtype == np.int64 and offsets[end] <= _OFFSET_MAX:
            offsets = offsets[: end + 1].astype(np.int32)  # else a second kernel is compiled
        data, offsets, bits = read_only(data), read_only(offsets), read_only(bits)
        out = np.empty(end - begin, np.int32) if out is None else out
        growth = _Growth(len(self), begin, end)
        at = begin
        while True:
            at = number_strings(
                data, offsets, at, end, bits, bit_offset, self.slots, self.hashes, self.starts,
                self.arena, self.state, insert, out[at - begin :],
            )  # fmt: skip
            if at >= end:
                return out
            block, used = min(BLOCK, end - at), len(self)
            block_bytes = int(offsets[at + block]) - int(offsets[at])
            arena_bytes = int(self.starts[used])
            if used + block > len(self.hashes):
                room = growth.room(used, at) + block
                self.reserve(room, arena_bytes // max(used, 1) * room)
            if arena_bytes + block_bytes + SLACK > len(self.arena):
                self.reserve(used, max(arena_bytes + block_bytes, 2 * len(self.arena)))

    def shrink(self, used: int) -> None:
        """Forget the numbers from `used` on."""
        self.state[0] = used
        if self.state[1] >= used:
            self.state[1] = -1
        self._fill_slots()

    def hashes_of(self, numbers: np.ndarray) -> np.ndarray:
        """XXH64 of the numbered strings, uint64; null has a hash of its own."""
        out = np.empty(len(numbers), np.uint64)
        hash_numbered(self.starts, read_only(self.arena), numbers, self.state[1], out)
        return out

    def text_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bytes and offsets (int64, n + 1) of the numbered strings; null has none."""
        offsets = np.empty(len(numbers) + 1, np.int64)
        offsets[0] = 0
        total = int((self.starts[numbers + 1] - self.starts[numbers]).sum())
        data = np.empty(total, np.uint8)
        gather_strings(self.starts, self.arena, numbers, offsets, data)
        return data, offsets
