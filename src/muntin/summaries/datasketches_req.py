"""Apache DataSketches' REQ bytes, of floats and high rank accuracy: written, and read with care.

offset  size  what
0       1     words of 4 bytes before the levels: 2, or 4 where there are several levels
1       1     version 1
2       1     family 17
3       1     flags: 4 empty, 8 high rank accuracy, 16 items only, 32 level 0 is sorted
4       2     k
6       1     levels
7       1     items, where there are only items (at most 4)
8       16    count: u64, minimum and maximum: f32, where there are several levels
-             a level: compactions u64, size of a section f32, its number u8, sections u8, 0 u16,
              items u32; then the items, f32
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.errors import CorruptSummary, IncompatibleSummary
from muntin.summaries.kernels.compaction import LEVELS_MAX
from muntin.summaries.kernels.relative import sections_of

VERSION, FAMILY = 1, 17
EMPTY, HIGH, RAW, LEVEL_ZERO_SORTED = 4, 8, 16, 32
RAW_MAX = 4
K_MIN, K_MAX = 4, 1024
COUNT_MAX = (1 << 60) - 1
_HEADER = struct.Struct("<4BHBB")
_WHOLE = struct.Struct("<Qff")
_LEVEL = struct.Struct("<QfBBHI")


@dataclass(frozen=True, slots=True)
class ReqParts:
    """A sketch as the form has it: items (float32[n], sorted) and compactions of each level."""

    k: int
    least: float
    levels: list[np.ndarray]
    compactions: list[int]

    @property
    def count(self) -> int:
        return sum(len(items) << level for level, items in enumerate(self.levels))


def encode(parts: ReqParts) -> bytes:
    """The compact form."""
    count, height = parts.count, len(parts.levels)
    if not count:
        return _HEADER.pack(2, VERSION, FAMILY, EMPTY | HIGH, parts.k, 0, 0)
    if height == 1 and count <= RAW_MAX:
        head = _HEADER.pack(2, VERSION, FAMILY, HIGH | RAW | LEVEL_ZERO_SORTED, parts.k, 1, count)
        return head + parts.levels[0].astype("<f4").tobytes()
    words, flags = 4 if height > 1 else 2, HIGH | LEVEL_ZERO_SORTED
    out = [_HEADER.pack(words, VERSION, FAMILY, flags, parts.k, height, 0)]
    if height > 1:
        most = max(float(items[-1]) for items in parts.levels if len(items))
        out.append(_WHOLE.pack(count, parts.least, most))
    for level, (items, compactions) in enumerate(zip(parts.levels, parts.compactions, strict=True)):
        number, _ = sections_of(parts.k, compactions)
        raw = parts.k / 2 ** (np.log2(number / 3) / 2)
        out.append(_LEVEL.pack(compactions, raw, level, number, 0, len(items)))
        out.append(items.astype("<f4").tobytes())
    return b"".join(out)


def decode(data: Any) -> ReqParts:
    """The parts of a sketch, each checked; levels are sorted here. Raises CorruptSummary: bytes
    that are no such sketch; IncompatibleSummary: a sketch of low rank accuracy: its minimum is what
    is sure."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptSummary(f"REQ: expected bytes, got {type(data).__name__}")
    data = bytes(data)
    if len(data) < _HEADER.size:
        raise CorruptSummary(f"REQ: {len(data)} bytes are too few")
    words, version, family, flags, k, height, few = _HEADER.unpack_from(data)
    if family != FAMILY:
        raise CorruptSummary(f"REQ: family {family} is not {FAMILY}, another kind of sketch")
    if version != VERSION or not K_MIN <= k <= K_MAX or k % 2 or height > LEVELS_MAX:
        raise CorruptSummary(f"REQ: version {version}, k={k}, {height} levels cannot be read")
    if not flags & HIGH:
        raise IncompatibleSummary("REQ: of low rank accuracy; only high rank accuracy is read")
    if flags & EMPTY or (flags & RAW and not few):
        _expect(data, _HEADER.size)
        return ReqParts(k, 0.0, [np.empty(0, np.float32)], [0])
    if flags & RAW:
        if few > RAW_MAX or words != 2:
            raise CorruptSummary(f"REQ: {few} items alone, {words} words")
        items, end = _items(data, _HEADER.size, few)
        # C++ leaves space for the head of a level behind them.
        if len(data) != end + _LEVEL.size or any(data[end:]):
            _expect(data, end)
        return ReqParts(k, float(items[0]), [items], [0])
    if not height or words != (4 if height > 1 else 2):
        raise CorruptSummary(f"REQ: {words} words for {height} levels")
    return _decode_levels(data, k, height)


def _decode_levels(data: bytes, k: int, height: int) -> ReqParts:
    at = _HEADER.size
    whole = None
    if height > 1:
        _expect(data, at + _WHOLE.size, at_least=True)
        whole = _WHOLE.unpack_from(data, at)
        at += _WHOLE.size
    levels, turns = [], []
    for level in range(height):
        _expect(data, at + _LEVEL.size, at_least=True)
        compactions, _, lg, _, zero, size = _LEVEL.unpack_from(data, at)
        if lg != level or zero or compactions > COUNT_MAX:
            raise CorruptSummary(f"REQ: level {level} says {lg}, {compactions} compactions")
        items, at = _items(data, at + _LEVEL.size, size)
        levels.append(items)
        turns.append(compactions)
    _expect(data, at)
    there = [items for items in levels if len(items)]
    if not there:
        raise CorruptSummary("REQ: no items in its levels")
    least = min(float(items[0]) for items in there)
    most = max(float(items[-1]) for items in there)
    parts = ReqParts(k, least, levels, turns)
    if parts.count > COUNT_MAX:
        raise CorruptSummary("REQ: a count beyond 2^60")
    if whole is None:
        return parts
    count, low, high = whole
    if count != parts.count:
        raise CorruptSummary(f"REQ: levels weigh {parts.count}, the header says {count}")
    if not low <= least or high != most:
        raise CorruptSummary("REQ: items beyond minimum or maximum, or no maximum")
    return ReqParts(k, low, levels, turns)


def _items(data: bytes, at: int, size: int) -> tuple[np.ndarray, int]:
    end = at + 4 * size
    _expect(data, end, at_least=True)
    items = np.sort(np.frombuffer(data, "<f4", size, at)).astype(np.float32)
    if np.isnan(items).any():
        raise CorruptSummary("REQ: an item is NaN")
    return items, end


def _expect(data: bytes, size: int, *, at_least: bool = False) -> None:
    if len(data) < size or (len(data) > size and not at_least):
        raise CorruptSummary(f"REQ: {len(data)} bytes, its levels say {size}")
