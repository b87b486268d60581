"""Rows of equal (slice, key) side by side: the same for events and for states, for all kinds."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from muntin.errors import BadArgument
from muntin.segments.columns import frozen
from muntin.segments.kernels import grouping as kernels
from muntin.segments.kernels.grouping import CODE_BITS_MAX
from muntin.segments.kernels.lists import sum_counts
from muntin.summaries.kernels.sorting import sort_pairs

KEYS_COUNTED_MAX = 1 << 15  # as many counters stay in the second cache
CELLS_A_ROW = 32  # of (slice, key), marked in bits: where there are more, a sort is sooner done


class Groups(NamedTuple):
    """Rows in groups: group g is made of the rows order[bounds[g]:bounds[g + 1]], as they came."""

    order: np.ndarray
    bounds: np.ndarray

    @property
    def size(self) -> int:
        return len(self.bounds) - 1


def one_group(rows: int) -> Groups:
    """All rows together."""
    return Groups(frozen(np.arange(rows)), frozen(np.array([0, rows])))


def each_alone(rows: int) -> Groups:
    """A group for each row."""
    bounds = frozen(np.arange(rows + 1))
    return Groups(bounds[:-1], bounds)


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Groups in the order of (slice, number of the key).

    Attributes
    ----------
    slices : int64[s], ascending
        Slices that occur.
    starts : int64[s + 1]
        Where the groups of each slice begin.
    keys : int64[groups]
        Number of each group's key.
    """

    groups: Groups
    slices: np.ndarray
    starts: np.ndarray
    keys: np.ndarray


def group(slices: np.ndarray, keys: np.ndarray, keys_max: int) -> Grouped:
    """Group rows by slice and key.

    Parameters
    ----------
    slices, keys : int64[n]
    keys_max : int
        No key's number is above it.
    """
    n = len(slices)
    if not n:
        none = frozen(np.empty(0, np.int64))
        zero = frozen(np.zeros(1, np.int64))
        return Grouped(Groups(none, zero), none, zero, none)
    low, high = int(slices.min()), int(slices.max())
    if low == high and not keys.any():  # a window of a summary without keys
        zero = np.zeros(1, np.int64)
        return Grouped(one_group(n), *map(frozen, (zero + low, np.arange(2), zero)))
    width = keys_max + 1
    runs = kernels.runs_of(slices) if width <= KEYS_COUNTED_MAX else 0
    if runs and runs * width <= CELLS_A_ROW * n:
        return _by_counting(slices, keys, width, runs)
    seen = None
    if (high - low + 1) * width > 1 << CODE_BITS_MAX:
        seen, slices = np.unique(slices, return_inverse=True)
        low, high = 0, len(seen) - 1
    codes = (slices - low) * width  # slices and keys that occur: below 2^62
    codes += keys
    bits = ((high - low + 1) * width).bit_length()
    order, bounds, found = (_by_words if bits <= CODE_BITS_MAX and n < 1 << 32 else _by_pairs)(
        codes, bits
    )
    group_slices, group_keys = np.divmod(found, width)
    group_slices = group_slices + low if seen is None else seen[group_slices]
    return _with_slices(order, bounds, group_slices, group_keys)


def _by_counting(slices: np.ndarray, keys: np.ndarray, width: int, runs: int) -> Grouped:
    n = len(slices)
    order, bounds, key_of = (np.empty(n + extra, np.int64) for extra in (0, 1, 0))
    found, starts = np.empty(runs, np.int64), np.empty(runs + 1, np.int64)
    size = kernels.group_runs(slices, keys, width, order, bounds, key_of, found, starts)
    bounds, key_of = bounds[: size + 1].copy(), key_of[:size].copy()
    groups = Groups(frozen(order), frozen(bounds))
    return Grouped(groups, *map(frozen, (found, starts, key_of)))


def _by_words(codes: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = len(codes)
    words = np.empty(n, np.uint64)
    if not kernels.pack_codes(codes, words):
        words = kernels.sort_codes(words, bits)
    order, bounds, found = (np.empty(n + extra, np.int64) for extra in (0, 1, 0))
    groups = kernels.unpack_groups(words, order, bounds, found)
    bounds[groups] = n
    return order, bounds[: groups + 1].copy(), found[:groups].copy()


def _by_pairs(codes: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # noqa: ARG001
    order = np.arange(len(codes))
    if (codes[1:] < codes[:-1]).any():
        sort_pairs(codes, order)
    firsts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    return order, np.append(firsts, len(codes)), codes[firsts]


def sums_of(counts: np.ndarray, groups: Groups) -> np.ndarray:
    """The sum of the counts of each group: int64[groups]."""
    sums = np.empty(groups.size, np.int64)
    sum_counts(counts, *groups, sums)
    return sums


def counted(slices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slices that occur, ascending, and how many rows each has."""
    if len(slices):
        low, high = int(slices.min()), int(slices.max())
        if high - low < 4 * len(slices) + 1024:
            counts = np.bincount(slices - low)
            found = np.flatnonzero(counts)
            return frozen(found + low), frozen(counts[found])
    found, counts = np.unique(slices, return_counts=True)
    return frozen(found), frozen(counts.astype(np.int64))


def _with_slices(
    order: np.ndarray, bounds: np.ndarray, slices: np.ndarray, keys: np.ndarray
) -> Grouped:
    """`slices` has the slice of each group here."""
    firsts = np.flatnonzero(np.concatenate(([True], slices[1:] != slices[:-1])))
    starts = np.append(firsts, len(slices))
    groups = Groups(frozen(order), frozen(bounds))
    return Grouped(groups, *map(frozen, (slices[firsts], starts, keys)))


def limited(found: Grouped, limit: int, other: int) -> Grouped:
    """At most `limit` keys a slice: those first in the order of hashes. The rest is one group.

    Which keys are kept does not depend on the order of events or of merges: a key among the
    first of a union is among the first of every part that has it, so that no kept key has
    events in the group of the rest. `other` is that group's number.
    """
    sizes = np.diff(found.starts)
    if not (sizes > limit).any() and not (found.keys == other).any():
        return found
    rank = np.arange(len(found.keys)) - np.repeat(found.starts[:-1], sizes)
    # a rest that came with the rows stands after the keys: it is one of those past the limit
    kept = rank <= limit
    keys = np.where(rank < limit, found.keys, other)[kept]
    order, bounds = found.groups
    bounds = np.append(bounds[:-1][kept], bounds[-1])
    return _with_slices(order, bounds, np.repeat(found.slices, sizes)[kept], keys)


def as_slices(slices: object) -> np.ndarray:
    """Numbers of slices as int64[n]; BadArgument."""
    numbers = np.asarray(slices)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.dtype == np.uint64:
        raise BadArgument(f"slices are {numbers.dtype} {numbers.shape}: give one int64 a row")
    return frozen(numbers.astype(np.int64, copy=False))
