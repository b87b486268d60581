"""Panes of a sliding window: stacks whose items know when they came, and the view over them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muntin.errors import CorruptSummary
from muntin.summaries.envelope import Body
from muntin.summaries.kernels.compaction import LEVELS_MAX
from muntin.summaries.kernels.sorting import sort_pairs
from muntin.summaries.kernels.weighted_view import join_runs, surviving
from muntin.summaries.level_stack import LevelStack, level_capacities, levels_sorted
from muntin.summaries.weighted_view import CONFIDENCE

# Standard deviation of a KLL's rank is 0.5 / k of its count (measured; 0.3 / k in large batches).
KLL_DEVIATION = 0.5
# That of a cut pane, at its middle, in units of the pane's count / sqrt(k): 0.09 averaged over
# all cuts, so 0.11 where half of the pane has left; 0.14 where large batches bring values of
# many times together, or hardly more than the cut pane is left.
CUT_DEVIATION = 0.14
# 2.58 would do for a normal error; the model is 15 to 20 % off, on either side, where it was
# measured.
DEVIATIONS = 3.3


# Room around few items that a forged k may ask for: 64 MiB, of which no page is touched.
CAPACITY_ITEMS_MAX = 1 << 22


WeightedRun = tuple[np.ndarray, np.ndarray]  # sorted keys, weights
WindowView = tuple[WeightedRun, float, float]
"""What a window answers from: keys and the running sum of their weights, whose last is the window's
count; half-width of the interval around a rank, as a fraction of the count; and the confidence that
this holds the true rank, 1.0 where it surely does."""
NOTHING: WeightedRun = (np.empty(0, np.int64), np.empty(0, np.int64))


def sorted_run(runs: Iterable[WeightedRun]) -> WeightedRun:
    """All items of some runs, which need not be sorted."""
    parts = [*runs, NOTHING]
    keys, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    sort_pairs(keys, weights)
    return keys, weights


def summed(run: WeightedRun) -> WeightedRun:
    """A run's keys and the running sum of its weights."""
    return run[0], np.cumsum(run[1])


class Cut:
    """A stack's items sorted by value, to be asked again and again as the edge moves on."""

    __slots__ = ("keys", "stamps", "total", "weights")

    def __init__(self, stack: LevelStack) -> None:
        order = np.argsort(stack.items(), kind="stable")
        self.keys = stack.items()[order]
        self.weights = stack.weights()[order]
        self.stamps = stack.item_stamps()[order]
        self.total = int(self.weights.sum())

    def run(self, edge: int, survivors: int) -> WeightedRun:
        """Keys and weights of the items from `edge` on, `survivors` of them."""
        if survivors <= 0:
            return NOTHING
        out = np.empty(len(self.keys), np.int64)
        surviving(self.weights, self.stamps, edge, survivors, self.total, out)
        return self.keys, out


@dataclass(eq=False)
class WindowEngine(ABC):
    """What holds a window of items, or of microseconds.

    `panes`: so many make a window; one more is cut by its edge.
    `k`: of each pane.
    `coins` (uint64[4]): shared by all panes.
    """

    window: int
    panes: int
    k: int
    coins: np.ndarray

    @abstractmethod
    def stacks(self) -> Iterator[LevelStack]:
        """All that hold items, in order of time."""

    @property
    def retained(self) -> int:
        return sum(stack.retained for stack in self.stacks())

    @property
    def nbytes(self) -> int:
        return sum(stack.nbytes for stack in self.stacks())

    def all_keys(self) -> Iterator[np.ndarray]:
        return (stack.items() for stack in self.stacks())

    def stack_bytes(self) -> bytes:
        """Keys of all stacks, then their stamps: int64, little endian."""
        keys = [stack.items().astype("<i8").tobytes() for stack in self.stacks()]
        return b"".join(
            keys + [stack.item_stamps().astype("<i8").tobytes() for stack in self.stacks()]
        )

    def read_stacks(
        self, kind: str, sizes: Any, counts: Sequence[int], body: Body
    ) -> list[LevelStack]:
        """What `stack_bytes` wrote, with the level sizes and counts that the parameters hold.
        Raises CorruptSummary: sizes that are no level sizes, do not fit k, or do not add up to the
        counts; levels that are not sorted; a body of another length."""
        k, capacities = self.k, level_capacities(self.k)[1]
        for levels in sizes:
            if not 1 <= len(levels) <= LEVELS_MAX:
                raise CorruptSummary(f"{kind}: {levels!r} are not the sizes of levels")
            if not all(
                type(size) is int and 0 <= size <= 4 * k + 8 * LEVELS_MAX for size in levels
            ):
                raise CorruptSummary(f"{kind}: level sizes {levels} are impossible")
        retained = sum(sum(levels) for levels in sizes)
        if 16 * retained != body.left:
            raise CorruptSummary(f"{kind}: {body.left} bytes for {retained} items")
        capacity = sum(int(capacities[len(levels)]) for levels in sizes)
        if capacity > max(32 * retained, CAPACITY_ITEMS_MAX):
            raise CorruptSummary(f"{kind}: memory for {capacity} items around {retained}")
        keys, stamps = body.array("<i8", retained), body.array("<i8", retained)
        stacks, at = [], 0
        for levels, count in zip(sizes, counts, strict=True):
            capacity = int(capacities[len(levels)])
            filled = sum(levels)
            if filled > capacity:
                raise CorruptSummary(f"{kind}: {filled} items in levels that hold {capacity}")
            if sum(size << level for level, size in enumerate(levels)) != count:
                raise CorruptSummary(f"{kind}: the levels' weights do not add up to {count}")
            stack = LevelStack(k, self.coins, stamped=True)
            stack.keys, stack.stamps = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
            stack.keys[capacity - filled :] = keys[at : at + filled]
            stack.stamps[capacity - filled :] = stamps[at : at + filled]
            stack.offsets = (
                capacity - filled + np.concatenate(([0], np.cumsum(levels, dtype=np.int64)))
            )
            if not levels_sorted(stack.items(), stack.offsets):
                raise CorruptSummary(f"{kind}: the items of a level are not sorted")
            stacks.append(stack)
            at += filled
        return stacks


@dataclass(eq=False)
class Ring(WindowEngine):
    """What rings of panes share: a view, in which those that no longer change are sorted once."""

    _closed: tuple[list[int], WeightedRun, float] | None = field(default=None, init=False)
    """Names of the panes that no longer change, their items, and the variance of a rank in them."""

    @property
    def nbytes(self) -> int:
        """With what is kept for the next view."""
        kept = NOTHING if self._closed is None else self._closed[1]
        return super().nbytes + sum(part.nbytes for part in kept)

    def _view_of(
        self, run: WeightedRun, cut: tuple[LevelStack, int, int] | None,
        panes: Sequence[tuple[int, LevelStack, int]],
    ) -> WindowView:  # fmt: skip
        """What is inside of the pane that the edge cuts (`run`; see `model_error`), and whole panes
        by age, the newest last: (name, stack, count)."""
        count = (0 if cut is None else cut[1]) + sum(size for _, _, size in panes)
        if not panes:
            return summed(run), *model_error(0.0, cut, count)
        *closed, (_, newest, size) = panes
        names = [name for name, _, _ in closed]
        if self._closed is None or self._closed[0] != names:
            variance = sum(rank_variance(stack, held) for _, stack, held in closed)
            self._closed = names, sorted_run(stack.run() for _, stack, _ in closed), variance
        _, older, variance = self._closed
        items = len(run[0]) + len(older[0]) + newest.retained
        keys, cumulative = np.empty((2, items), np.int64)
        join_runs(*run, *older, newest.keys, newest.offsets, keys, cumulative)
        variance += rank_variance(newest, size)
        return (keys, cumulative), *model_error(variance, cut, count)


def rank_variance(stack: LevelStack, count: int) -> float:
    """Variance of a rank in a pane of `count` items, (0.5 / k)^2 of it; 0 where it is exact."""
    return (KLL_DEVIATION / stack.k * count) ** 2 if stack.height > 1 else 0.0


def model_error(
    whole: float, cut: tuple[LevelStack, int, int] | None, count: int
) -> tuple[float, float]:
    """Half-width of a 99 % interval around a normalised rank, and its confidence.

    `whole`: variance of a rank in the whole panes, which err independently: `rank_variance` of all.
    `cut`: of the pane that the edge cuts, its stack, survivors and count, which adds (0.14 pane /
    sqrt(k))^2 4 f (1 - f) for a share f inside, and never more than f or 1 - f of the pane. Panes
    that were never compacted are exact. `count`: of the window, > 0.
    """
    spread = DEVIATIONS * math.sqrt(whole) / count
    if cut is not None and cut[0].height > 1:
        stack, inside, size = cut
        share = inside / size
        variance = whole + rank_variance(stack, inside)
        least = DEVIATIONS * math.sqrt(variance) / count
        deviation = CUT_DEVIATION * size * math.sqrt(4 * share * (1 - share) / stack.k)
        with_cut = DEVIATIONS * math.sqrt(variance + deviation**2) / count
        spread = max(min(with_cut, spread + min(inside, size - inside) / count), least)
    return min(spread, 1.0), CONFIDENCE if spread else 1.0
