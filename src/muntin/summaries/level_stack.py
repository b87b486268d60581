"""The compactor stack: what a KLL sketch, a pane of a window and a bucket have in common.

int64 keys in levels, level h of weight 2^h, laid out as Apache DataSketches lays them out: one
array with its free space in front of level 0, which grows downwards and may be unsorted. Items may
carry a stamp (int64: a sequence number or a time), which a window needs to filter them.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np

from muntin.summaries.checks import UINT64_MAX, check_seed, integer_in
from muntin.summaries.envelope import Fields
from muntin.summaries.kernels.compaction import DRAWS, LEVELS_MAX, absorb
from muntin.summaries.kernels.sampling import gather_levels, shift_of_merge
from muntin.summaries.kernels.sorting import sort_pairs, sort_run

K_MIN, K_MAX = 8, 65535  # as DataSketches, whose header holds k in 16 bits
LEVEL_ITEMS_MIN = 8  # DataSketches' "m": no level is smaller
RUN_ITEMS_MAX = 1 << 15  # sorted at once: 256 KiB of keys, which stay in the second-level cache
COUNT_MAX = (1 << 60) - 1  # 61 levels hold it
_COINS = ("seed", "draws", "last", "paired")


@lru_cache(maxsize=64)
def level_capacities(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Capacity by depth below the top (int64[62]), and of a whole stack by its height.
    DataSketches' rounding: k (2/3)^depth, to the nearest, computed in two steps beyond depth 30."""
    caps = np.empty(LEVELS_MAX + 1, np.int64)
    for depth in range(LEVELS_MAX + 1):
        if depth <= 30:
            size = _two_thirds(k, depth)
        else:
            size = _two_thirds(_two_thirds(k, depth // 2), depth - depth // 2)
        caps[depth] = max(LEVEL_ITEMS_MIN, size)
    totals = np.concatenate(([0], np.cumsum(caps)))
    caps.setflags(write=False)
    totals.setflags(write=False)
    return caps, totals


def _two_thirds(k: int, depth: int) -> int:
    return (((2 * k) << depth) // 3**depth + 1) >> 1


def check_k(k: Any) -> int:
    """`k` where it is possible, else `BadArgument`."""
    return integer_in("k", k, K_MIN, K_MAX)


def new_coins(seed: int) -> np.ndarray:
    """Coins of a stack, from a seed of 64 bits: uint64[4]."""
    return np.array([check_seed(seed), 0, 0, 0], np.uint64)


def described_coins(coins: np.ndarray) -> dict[str, int]:
    """Coins, as parameters of a summary's bytes."""
    return dict(zip(_COINS, coins.tolist(), strict=True))


def read_coins(fields: Fields) -> np.ndarray:
    """What `described_coins` wrote: uint64[4]; CorruptSummary."""
    return np.array([fields.integer(name, 0, UINT64_MAX) for name in _COINS], np.uint64)


def levels_sorted(items: np.ndarray, offsets: np.ndarray) -> bool:
    """Whether each level of `items` (all levels in a row) is sorted."""
    falls = items[1:] < items[:-1]
    starts = offsets[1:-1] - offsets[0]
    falls[starts[(starts > 0) & (starts < len(items))] - 1] = False
    return not falls.any()


class LevelStack:
    """Levels of weighted items under a capacity that k sets. `k`: capacity of the top level; a
    stack of many levels holds about 3 k items. `coins`: see `new_coins`; advanced in place, and may
    be shared by the stacks of one window. `stamped`: items carry a stamp."""

    __slots__ = ("coins", "k", "keys", "offsets", "ordered", "stamps")

    def __init__(self, k: int, coins: np.ndarray, *, stamped: bool = False) -> None:
        self.k = k
        self.coins = coins
        self.keys = np.empty(k, np.int64)
        self.stamps = np.empty(k, np.int64) if stamped else None
        self.offsets = np.array([k, k], np.int64)
        self.ordered = True

    @property
    def height(self) -> int:
        return len(self.offsets) - 1

    @property
    def retained(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def weight(self) -> int:
        """Sum of the weights of the items stored: the number of items that came in."""
        return sum(int(size) << level for level, size in enumerate(np.diff(self.offsets)))

    @property
    def nbytes(self) -> int:
        stamps = 0 if self.stamps is None else self.stamps.nbytes
        return self.keys.nbytes + stamps + self.offsets.nbytes + self.coins.nbytes

    def add(self, keys: np.ndarray, stamps: np.ndarray | None = None) -> None:
        """Add items of weight 1; the arrays may be sorted in place."""
        free = int(self.offsets[0])
        if len(keys) <= free:
            if len(keys):
                start = free - len(keys)
                self.keys[start:free] = keys
                if self.stamps is not None and stamps is not None:
                    self.stamps[start:free] = stamps
                self.offsets[0] = start
                self.ordered = False
            return
        for start in range(0, len(keys), RUN_ITEMS_MAX):
            run = keys[start : start + RUN_ITEMS_MAX]
            own = None if stamps is None else stamps[start : start + RUN_ITEMS_MAX]
            sort_run(run) if own is None else sort_pairs(run, own)
            self.absorb(run, own, np.array([0, len(run)], np.int64))

    def add_weighted(self, keys: np.ndarray, weights: np.ndarray) -> None:
        """Add items of weights above 0, without stamps: one to each level of a weight's bits."""
        for start in range(0, len(keys), RUN_ITEMS_MAX):
            run, heavy = (part[start : start + RUN_ITEMS_MAX] for part in (keys, weights))
            order = np.argsort(run, kind="stable")
            run, heavy = run[order], heavy[order]
            levels = int(heavy.max()).bit_length()
            parts = [run[(heavy >> level) & 1 == 1] for level in range(levels)]
            offsets = np.concatenate(([0], np.cumsum([len(part) for part in parts])))
            self.absorb(np.concatenate(parts), None, offsets.astype(np.int64))

    def absorb(self, keys: np.ndarray, stamps: np.ndarray | None, offsets: np.ndarray) -> None:
        """Unite with the levels of another stack, all sorted, and compact where it is too much."""
        self.order()
        caps, totals = level_capacities(self.k)
        added = int(offsets[-1] - offsets[0])
        size = self.retained + added
        # A thrifty compaction below the top leaves more items, of smaller weight, which is what a
        # window's edge needs from a pane; but it is less exact where it has to be repeated.
        thrifty_depth = 1 if self.stamps is not None and added >= 4 * self.k else 0
        out = np.empty(size, np.int64)
        out_stamps = None if self.stamps is None else np.empty(size, np.int64)
        out_offsets = np.empty(LEVELS_MAX + 2, np.int64)
        height = absorb(
            self.keys, self.stamps, self.offsets, keys, stamps, offsets,
            caps, self.k // 8, thrifty_depth, self.coins, out, out_stamps, out_offsets,
        )  # fmt: skip
        filled = int(out_offsets[height])
        capacity = max(int(totals[height]), filled)
        if capacity != len(self.keys):
            self.keys = np.empty(capacity, np.int64)
        self.keys[capacity - filled :] = out[:filled]
        if out_stamps is not None:
            if self.stamps is None or capacity != len(self.stamps):
                self.stamps = np.empty(capacity, np.int64)
            self.stamps[capacity - filled :] = out_stamps[:filled]
        self.offsets = out_offsets[: height + 1] + (capacity - filled)

    def order(self) -> None:
        """Sort level 0."""
        if self.ordered:
            return
        start, end = int(self.offsets[0]), int(self.offsets[1])
        if self.stamps is None:
            self.keys[start:end].sort()
        else:
            sort_pairs(self.keys[start:end], self.stamps[start:end])
        self.ordered = True

    def merge(self, other: Self) -> None:
        """Add what another stack of the same k holds; the other keeps its items."""
        other.order()
        self._toss_after(other)
        self.absorb(other.keys, other.stamps, other.offsets)

    def merge_all(self, others: Sequence[Self]) -> None:
        """Add what many stacks without stamps hold (level 0 ordered), compacting once."""
        self.order()
        stacks = [self, *others]
        self._toss_after(max(stacks, key=lambda other: other.coins[DRAWS]))
        heights = np.array([len(other.offsets) for other in stacks]) - 1
        edges = np.concatenate([other.offsets for other in stacks])
        ends = np.cumsum(heights + 1)
        items = np.cumsum(edges[ends - 1] - edges[ends - 1 - heights])
        shift = int(shift_of_merge(edges, heights, self.k))
        levels = max(int(heights.max()), shift + 1)
        runs: list[list[np.ndarray]] = [[] for _ in range(levels)]
        # a few stacks at a time: memory that is fresh costs more than what is done with it
        batch = items // RUN_ITEMS_MAX
        starts = [0, *(np.flatnonzero(batch[1:] != batch[:-1]) + 1).tolist()]
        for start, end in pairwise([*starts, len(stacks)]):
            flat = np.concatenate([other.keys[other.offsets[0] :] for other in stacks[start:end]])
            out, offsets = np.empty(len(flat), np.int64), np.empty(levels + 1, np.int64)
            first = ends[start] - heights[start] - 1
            gather_levels(
                flat, edges[first : ends[end - 1]], heights[start:end], shift, self.coins,
                out, offsets,
            )  # fmt: skip
            for level, (low, high) in enumerate(pairwise(offsets.tolist())):
                if high > low:
                    runs[level].append(out[low:high])
        sizes = np.cumsum([0] + [sum(map(len, level)) for level in runs])
        united = np.concatenate([run for level in runs for run in level])
        for low, high in pairwise(sizes.tolist()):
            sort_run(united[low:high])
        self.offsets = np.zeros(2, np.int64)  # its own items are among them
        self.absorb(united, None, sizes)

    def _toss_after(self, other: Self) -> None:
        """Go on with the coins that were tossed more: a new stack that takes in all older ones,
        again and again, would else toss the same each time, and errors would add up."""
        if other.coins[DRAWS] > self.coins[DRAWS]:
            self.coins[DRAWS:] = other.coins[DRAWS:]

    def items(self) -> np.ndarray:
        return self.keys[self.offsets[0] :]

    def sizes(self) -> list[int]:
        """Items on each level, sorted first so that the same state gives the same bytes."""
        self.order()
        return np.diff(self.offsets).tolist()

    def item_stamps(self) -> np.ndarray:
        assert self.stamps is not None  # noqa: S101
        return self.stamps[self.offsets[0] :]

    def weights(self) -> np.ndarray:
        """Weights of `items()`: int64, powers of two."""
        return np.repeat(np.int64(1) << np.arange(self.height), np.diff(self.offsets))

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """`items()` and `weights()`."""
        return self.items(), self.weights()

    def copy(self, coins: np.ndarray | None = None) -> Self:
        """An independent stack; its coins are copied too unless given."""
        new = object.__new__(type(self))
        new.k = self.k
        new.coins = self.coins.copy() if coins is None else coins
        new.keys = self.keys.copy()
        new.stamps = None if self.stamps is None else self.stamps.copy()
        new.offsets = self.offsets.copy()
        new.ordered = self.ordered
        return new
