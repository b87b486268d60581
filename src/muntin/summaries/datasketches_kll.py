"""The serial form of Apache DataSketches KLL: doubles, floats and longs.

    offset  size  what                                            (little endian)
    0       1     preamble in 4-byte words: 5, or 2 where there is no or one item
    1       1     serial version: 1, or 2 where there is one item
    2       1     family: 15
    3       1     flags: 1 empty, 2 level 0 is sorted, 4 one item
    4       2     k
    6       1     m, the least capacity of a level: 8
    7       1     0
    8       8     count           (from here on only where the preamble has 5 words)
    16      2     least k that was ever merged in
    18      1     number of levels
    19      1     0
    20      4 L   where each level begins in the full array, whose size follows from k, m and L
    -       2 s   minimum and maximum
    -       n s   the items of all levels

The form does not tell doubles from longs. Source: kll_sketch_impl.hpp of datasketches-cpp and
KllPreambleUtil of datasketches-java. Its readers trust what they read (a level that overlaps
another crashes them); `decode` trusts nothing.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.errors import CorruptSummary
from muntin.summaries.kernels.compaction import LEVELS_MAX
from muntin.summaries.level_stack import (
    COUNT_MAX,
    K_MAX,
    K_MIN,
    LEVEL_ITEMS_MIN,
    level_capacities,
    levels_sorted,
)

ITEM_TYPES = {"float64": np.dtype("<f8"), "float32": np.dtype("<f4"), "int64": np.dtype("<i8")}

FAMILY = 15
SHORT_WORDS, FULL_WORDS = 2, 5
FULL_VERSION, SINGLE_VERSION = 1, 2
EMPTY, LEVEL_ZERO_SORTED, SINGLE = 1, 2, 4
_SHORT = struct.Struct("<BBBBHBB")
_FULL = struct.Struct("<QHBB")


@dataclass(frozen=True, slots=True)
class Parts:
    """What a sketch is made of, in the items' own type. `offsets`: where each level begins in the
    full array; the last is the array's size. `items`: of all levels, from level 0 on, each sorted.
    `low`, `high`: minimum and maximum; anything where count is 0."""

    k: int
    min_k: int
    count: int
    offsets: np.ndarray
    items: np.ndarray
    low: np.ndarray
    high: np.ndarray


def encode(parts: Parts, dtype: str) -> bytes:
    """The compact form, level 0 sorted."""
    item = ITEM_TYPES[dtype]
    k = parts.k
    if parts.count == 0:
        return _SHORT.pack(SHORT_WORDS, FULL_VERSION, FAMILY, EMPTY, k, LEVEL_ITEMS_MIN, 0)
    if parts.count == 1:
        short = _SHORT.pack(SHORT_WORDS, SINGLE_VERSION, FAMILY, SINGLE, k, LEVEL_ITEMS_MIN, 0)
        return short + parts.items.astype(item).tobytes()
    height = len(parts.offsets) - 1
    return b"".join(
        (
            _SHORT.pack(FULL_WORDS, FULL_VERSION, FAMILY, LEVEL_ZERO_SORTED, k, LEVEL_ITEMS_MIN, 0),
            _FULL.pack(parts.count, parts.min_k, height, 0),
            parts.offsets[:-1].astype("<u4").tobytes(),
            parts.low.astype(item).tobytes(),
            parts.high.astype(item).tobytes(),
            parts.items.astype(item).tobytes(),
        )
    )


def decode(data: Any, dtype: str) -> Parts:
    """The parts of a sketch, every one checked; copies, and sorts level 0 where it is not. Raises
    CorruptSummary: another family or version, a length that is not what the numbers before it say,
    levels that overlap or are not sorted, weights that do not add up to the count, a NaN, or an
    item beyond minimum or maximum."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptSummary(f"KLL: expected bytes, got {type(data).__name__}")
    data = bytes(data)
    item = ITEM_TYPES[dtype]
    if len(data) < _SHORT.size:
        raise CorruptSummary(f"KLL: {len(data)} bytes are too few")
    words, version, family, flags, k, m, zero = _SHORT.unpack_from(data)
    if family != FAMILY:
        raise CorruptSummary(f"KLL: family {family} is not {FAMILY}, another kind of sketch")
    if not K_MIN <= k <= K_MAX or m != LEVEL_ITEMS_MIN or zero:
        raise CorruptSummary(f"KLL: k={k}, m={m} cannot be read")
    form = (words, version, flags & ~LEVEL_ZERO_SORTED)
    if form == (SHORT_WORDS, FULL_VERSION, EMPTY):
        _expect_size(data, _SHORT.size)
        none = np.zeros(1, item)
        return Parts(k, k, 0, np.array([k, k], np.int64), none[:0], none, none)
    if form == (SHORT_WORDS, SINGLE_VERSION, SINGLE):
        _expect_size(data, _SHORT.size + item.itemsize)
        one = np.frombuffer(data, item, 1, _SHORT.size).copy()
        _refuse_nan(one)
        return Parts(k, k, 1, np.array([k - 1, k], np.int64), one, one, one)
    if form != (FULL_WORDS, FULL_VERSION, 0):
        raise CorruptSummary(
            f"KLL: {words} words, version {version}, flags {flags} are no compact form"
        )
    return _decode_full(data, item, k, ordered=bool(flags & LEVEL_ZERO_SORTED))


def _decode_full(data: bytes, item: np.dtype, k: int, *, ordered: bool) -> Parts:
    start = _SHORT.size + _FULL.size
    if len(data) < start:
        raise CorruptSummary(f"KLL: {len(data)} bytes are too few")
    count, min_k, height, zero = _FULL.unpack_from(data, _SHORT.size)
    if not 1 <= height <= LEVELS_MAX or not K_MIN <= min_k <= k or zero:
        raise CorruptSummary(f"KLL: {height} levels, least k {min_k} are impossible")
    if not 2 <= count <= COUNT_MAX:
        raise CorruptSummary(f"KLL: a count of {count} is impossible here")
    if len(data) < start + 4 * height + 2 * item.itemsize:
        raise CorruptSummary(f"KLL: {len(data)} bytes are too few for {height} levels")
    offsets = np.empty(height + 1, np.int64)
    offsets[:height] = np.frombuffer(data, "<u4", height, start)
    offsets[height] = level_capacities(k)[1][height]
    sizes = np.diff(offsets)
    if (sizes < 0).any():
        raise CorruptSummary("KLL: levels overlap, or hold more than their capacity")
    if sum(size << level for level, size in enumerate(sizes.tolist())) != count:
        raise CorruptSummary("KLL: the levels' weights do not add up to the count")
    start += 4 * height
    retained = int(offsets[-1] - offsets[0])
    _expect_size(data, start + (2 + retained) * item.itemsize)
    edges = np.frombuffer(data, item, 2, start)
    items = np.frombuffer(data, item, retained, start + 2 * item.itemsize).copy()
    if not ordered:
        _refuse_nan(items[: sizes[0]])
        items[: sizes[0]].sort()
    if not levels_sorted(items, offsets):
        raise CorruptSummary("KLL: the items of a level are not sorted")
    if not (edges[0] <= items.min() and items.max() <= edges[1]):
        _refuse_nan(edges)
        _refuse_nan(items)
        raise CorruptSummary("KLL: an item lies beyond minimum or maximum")
    return Parts(k, min_k, count, offsets, items, edges[:1].copy(), edges[1:].copy())


def _expect_size(data: bytes, size: int) -> None:
    if len(data) != size:
        raise CorruptSummary(f"KLL: {len(data)} bytes, its header says {size}")


def _refuse_nan(values: np.ndarray) -> None:
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise CorruptSummary("KLL: an item is NaN")
