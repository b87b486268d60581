"""Bloom filters in a row: the split-block layout and the published one of the dynamic filter."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.split_block_bloom import SplitBlockBloom, StandardBloom

SLICES_MAX = 1 << 20
DECAY = 0.7  # budget of a split-block slice, as a part of the one before
_SLICE = struct.Struct("<IQ")


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What slice number g is: doubling with a shrinking budget, or the paper's equal filters."""

    capacity: int
    fpp: float
    is_paper: bool

    def keys(self, generation: int) -> int:
        return self.capacity if self.is_paper else self.capacity << min(generation, 40)

    def rate(self, generation: int) -> float:
        return self.fpp if self.is_paper else self.fpp * (1 - DECAY) * DECAY**generation

    def made(
        self, generation: int, count: int = 0, words: np.ndarray | None = None
    ) -> SplitBlockBloom | StandardBloom:
        kind = StandardBloom if self.is_paper else SplitBlockBloom
        return kind(self.keys(generation), self.rate(generation), count, words)

    def words(self, generation: int) -> int:
        kind = StandardBloom if self.is_paper else SplitBlockBloom
        return kind.words_for(self.keys(generation), self.rate(generation))


class BloomSlices:
    """A list of filters: the last one is active, those before it are frozen."""

    def __init__(self, plan: SlicePlan) -> None:
        self._plan = plan
        self._slices: list[tuple[int, SplitBlockBloom | StandardBloom]] = []
        plan.words(0)  # refuses what cannot be

    @property
    def keys(self) -> int:
        return sum(one.count for _, one in self._slices)

    @property
    def rates(self) -> list[float]:
        return [one.rate for _, one in self._slices]

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for _, one in self._slices)

    filter_bytes = nbytes

    def add(self, hashes: np.ndarray) -> None:
        if not self._plan.is_paper and len(self._slices) > 1:
            known = np.zeros(len(hashes), np.bool_)
            for _, frozen in self._slices[:-1]:
                frozen.find(hashes, known)
            hashes = hashes[~known]
        while len(hashes):
            if not self._slices or self._slices[-1][1].room <= 0:
                self._open()
            hashes = hashes[self._slices[-1][1].add(hashes) :]

    def _open(self) -> None:
        generation = 0
        if self._slices and not self._plan.is_paper:
            generation = max(number for number, _ in self._slices) + 1
        self._slices.append((generation, self._plan.made(generation)))

    def find(self, hashes: np.ndarray, out: np.ndarray) -> None:
        for _, one in self._slices:
            one.find(hashes, out)

    def settle(self) -> None:
        """Nothing waits here."""

    def merge(self, other: Self) -> None:
        """Concatenation; where both fit into one filter of the same shape, their union."""
        for generation, theirs in other._slices:
            for number, ours in self._slices:
                if number == generation and ours.absorb(theirs):  # type: ignore[arg-type]
                    break
            else:
                self._slices.append((generation, theirs.copy()))
        # The emptiest of the largest stays active.
        self._slices.sort(key=lambda one: (one[0], one[1].room))
        if len(self._slices) > SLICES_MAX:
            raise BadArgument(f"more than {SLICES_MAX} filters: merge fewer")

    def copy(self) -> Self:
        twin = type(self)(self._plan)
        twin._slices = [(number, one.copy()) for number, one in self._slices]
        return twin

    def write(self) -> bytes:
        parts = []
        for number, one in self._slices:
            parts += [_SLICE.pack(number, one.count), one.words.tobytes()]
        return b"".join(parts)

    @classmethod
    def read(cls, data: memoryview, plan: SlicePlan, *, copy: bool) -> Self:  # noqa: ARG003
        made = cls(plan)
        word_type = np.uint64 if plan.is_paper else np.uint32
        while len(data):
            if len(data) < _SLICE.size or len(made._slices) >= SLICES_MAX:
                raise CorruptSummary("dynamic_bloom: bytes behind the last filter")
            number, count = _SLICE.unpack_from(data)
            if number > 40 or (plan.is_paper and number) or not 1 <= count <= plan.keys(number):
                raise CorruptSummary(f"dynamic_bloom: filter {number} with {count} keys")
            try:
                size = plan.words(number) * np.dtype(word_type).itemsize
            except BadArgument as problem:
                raise CorruptSummary(f"dynamic_bloom: {problem}") from None
            body = data[_SLICE.size : _SLICE.size + size]
            if len(body) != size:
                raise CorruptSummary(f"dynamic_bloom: {len(body)} of {size} bytes of a filter")
            words = np.frombuffer(body, word_type).copy()  # written to by the next update
            one = plan.made(number, count, words)
            ones = int(np.bitwise_count(words).sum())
            probes = one.probes if isinstance(one, StandardBloom) else 8
            if not 1 <= ones <= count * probes:
                raise CorruptSummary(f"dynamic_bloom: {ones} bits of {count} keys")
            if isinstance(one, SplitBlockBloom) and ones < count:
                raise CorruptSummary(f"dynamic_bloom: {ones} bits of {count} keys")
            if isinstance(one, StandardBloom) and int(words[-1]) >> (one.bits - 1) % 64 > 1:
                raise CorruptSummary("dynamic_bloom: bits beyond the filter")
            made._slices.append((number, one))
            data = data[_SLICE.size + size :]
        order = [(number, one.room) for number, one in made._slices]
        if order != sorted(order) and not plan.is_paper:
            raise CorruptSummary("dynamic_bloom: filters are out of order")
        return made
