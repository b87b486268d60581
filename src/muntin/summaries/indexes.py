"""Indexes: distinct values and their numbers, in order of first appearance."""

import numpy as np
import pyarrow as pa

from muntin.arrow import read_only
from muntin.errors import BadArgument
from muntin.summaries.aligned import aligned_zeros, grown
from muntin.summaries.kernels.hash_table import (
    BLOCK,
    SLACK,
    fill_slots,
    mix_integers,
    number_integers,
    number_pairs,
    number_strings,
)

ROWS_MAX = (1 << 31) - 2  # numbers are int32, and a slot keeps number + 1 in 32 bits
_OFFSET_MAX = (1 << 31) - 1
_ROOM_MIN = 64  # a small pane fits without growing
_SAMPLE = 2048  # events that tell whether there will be many values
_STEP = 32
_SLOTS_PER_VALUE = 2  # at most half full, so that a search ends within a line or two


def _capacity_for(values: int) -> int:
    if values > ROWS_MAX:
        raise BadArgument(f"{values} distinct values of a key: {ROWS_MAX} is the limit")
    return max(_ROOM_MIN, 1 << (values - 1).bit_length())


def _expected(before: int, used: int, events: int, total: int) -> int:
    """Distinct values to make room for, of `used` that there are after some events of a batch.

    While many events bring new values, each event that is left may. Where they do not, memory is
    wasted, but sparse slots are found sooner: so a step is at most the `_STEP`-fold.
    """
    new = used - before
    if events < _SAMPLE or new < _SAMPLE // 2:
        return 2 * used + 1 if new > 0.8 * events and total - events > 2 * used else used
    return min(_STEP * used, used + total - events)


class _SlotTable:
    __slots__ = ("slots", "state")

    def __init__(self) -> None:
        self.slots = np.zeros(_ROOM_MIN * _SLOTS_PER_VALUE, np.uint64)
        self.state = np.array([0, -1], np.int64)

    def __len__(self) -> int:
        return int(self.state[0])

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in ("slots", "state", *self.__slots__))


class IntegerIndex(_SlotTable):
    """Distinct int64 values (also packed pairs of numbers)."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        super().__init__()
        self.known = np.zeros(_ROOM_MIN, np.int64)

    def _reserve(self, values: int) -> None:
        """Reserve memory for so many distinct values in all, more than there was."""
        self.known = grown(self.known, _capacity_for(values))
        used = len(self)
        self.slots = aligned_zeros(len(self.known) * _SLOTS_PER_VALUE, np.uint64)
        hashes = np.empty(used, np.uint64)
        mix_integers(self.known[:used], hashes)
        fill_slots(self.slots, hashes, used, self.state[1])

    def number(
        self, values: np.ndarray, bits: np.ndarray, bit_offset: int, out: np.ndarray
    ) -> np.ndarray:
        """Numbers, int32, of values; unknown ones are appended."""
        values, bits = read_only(values), read_only(bits)
        before, at, end = len(self), 0, len(out)
        while True:
            at = number_integers(
                values, at, end, bits, bit_offset, self.slots, self.known, self.state, out[at:]
            )
            if at >= end:
                return out
            self._reserve(_expected(before, len(self), at, end) + min(BLOCK, end - at))

    def number_pairs(self, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
        """As `number`, of pairs of numbers in one int64."""
        before, at, end = len(self), 0, len(out)
        while True:
            at = number_pairs(left, right, at, self.slots, self.known, self.state, out)
            if at >= end:
                return out
            self._reserve(_expected(before, len(self), at, end) + min(BLOCK, end - at))


class TextIndex(_SlotTable):
    """Distinct strings, their bytes one after the other in an arena of the index's own."""

    __slots__ = ("arena", "hashes", "starts")

    def __init__(self) -> None:
        super().__init__()
        self.hashes = np.empty(_ROOM_MIN, np.uint64)
        self.starts = np.zeros(_ROOM_MIN + 1, np.int64)
        self.arena = np.empty(_ROOM_MIN * 16, np.uint8)

    def _reserve(self, values: int, arena_bytes: int = 0) -> None:
        """Reserve memory for so many distinct values, and bytes of them, in all."""
        if values > len(self.hashes):
            capacity = _capacity_for(values)
            self.hashes = grown(self.hashes, capacity)
            self.starts = grown(self.starts, capacity + 1)
            self.slots = aligned_zeros(capacity * _SLOTS_PER_VALUE, np.uint64)
            fill_slots(self.slots, self.hashes, len(self), self.state[1])
        if arena_bytes + SLACK > len(self.arena):
            self.arena = grown(self.arena, arena_bytes + SLACK)

    def number(
        self,
        data: np.ndarray,
        offsets: np.ndarray,
        bits: np.ndarray,
        bit_offset: int,
        out: np.ndarray,
    ) -> np.ndarray:
        """Numbers, int32, of strings; unknown ones are appended."""
        end = len(out)
        if offsets.dtype == np.int64 and offsets[end] <= _OFFSET_MAX:
            offsets = offsets[: end + 1].astype(np.int32)  # else a second kernel is compiled
        data, offsets, bits = read_only(data), read_only(offsets), read_only(bits)
        before, at = len(self), 0
        while True:
            at = number_strings(
                data, offsets, at, end, bits, bit_offset, self.slots, self.hashes, self.starts,
                self.arena, self.state, out[at:],
            )  # fmt: skip
            if at >= end:
                return out
            block, used = min(BLOCK, end - at), len(self)
            block_bytes = int(offsets[at + block]) - int(offsets[at])
            arena_bytes = int(self.starts[used])
            if used + block > len(self.hashes):
                capacity = _expected(before, used, at, end) + block
                self._reserve(capacity, arena_bytes // max(used, 1) * capacity)
            if arena_bytes + block_bytes + SLACK > len(self.arena):
                self._reserve(used, max(arena_bytes + block_bytes, 2 * len(self.arena)))

    def values(self, kind: pa.DataType) -> pa.Array:
        """Every string in the order of its number; `kind` is large_string or large_binary."""
        used, null = self.state.tolist()
        bits = None
        if null >= 0:
            bits = pa.py_buffer(np.packbits(np.arange(used) != null, bitorder="little"))
        starts = self.starts[: used + 1].copy()  # without the room that there is for more
        buffers = [bits, pa.py_buffer(starts), pa.py_buffer(self.arena[: starts[-1]].copy())]
        return pa.Array.from_buffers(kind, used, buffers)
