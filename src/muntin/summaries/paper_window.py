"""The published sliding windows over KLL, kept faithful so that they can be compared with.

`PaperItems` is Algorithm 1: KLL until the window is full; then every level keeps the size it
happens to have, each item starts a cascade of pair compactions, and the top level drops its two
oldest. Its weight is not the window's, so ranks are taken as shares of the weight. Measured: 1.5
to 1.9 % rms at k = 128, W = 100,000, where a KLL of that k over the same items has 0.4 %.
`PaperTimes` is Algorithm 2: KLL whose items expire by their own times. Its count is an estimate.

Merging is Algorithm 3 repaired: as printed it grows the shorter sketch once, also where heights
are equal, and forgets the compaction's output. Here the shorter one grows until both are as high,
levels are joined, and compacted one by one while the whole is too large. A merged Algorithm 1
window has lost the state that it slides by: it answers, and refuses further items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary, SummaryOverflow
from muntin.summaries.kernels.paper_window import (
    HEIGHT,
    SEEN,
    SLIDING,
    compress,
    expire,
    size_allowed,
    size_of,
    slide_items,
    slide_times,
)
from muntin.summaries.kernels.sorting import sort_pairs
from muntin.summaries.level_stack import COUNT_MAX
from muntin.summaries.panes import WindowView, summed
from muntin.summaries.reading import Body, Fields
from muntin.summaries.time_ring import TIME_MAX

K_MAX = 4096  # rows of 25,000 items in each of 44 levels
LEVELS_MAX = 44
WEIGHT_MAX = 1 << 42  # 44 levels hold it
# No bound is proved that holds (the paper's Theorem 4.1 counts too few compactions). This is what
# 99 % of errors stayed below over nine kinds of stream; it falls with the square root of k.
ERROR_99 = 0.8


def _weight(fills: Sequence[int]) -> int:
    return sum(fill << level for level, fill in enumerate(fills))


class _Levels:
    """Levels in two matrices, as the kernels want them."""

    __slots__ = ("coins", "fills", "info", "k", "keys", "stamps", "triggers", "window")

    def __init__(self, window: int, panes: int, k: int, coins: np.ndarray) -> None:
        del panes  # the paper has none
        if k > K_MAX:
            raise BadArgument(f"k={k}: method='paper' takes at most {K_MAX}")
        self.window = window
        self.k = k
        self.coins = coins
        self.keys = np.zeros((LEVELS_MAX, self._width()), np.int64)
        self.stamps = np.zeros((LEVELS_MAX, self._width()), np.int64)
        self.fills = np.zeros(LEVELS_MAX, np.int64)
        self.triggers = np.zeros(LEVELS_MAX, np.int64)
        self.info = np.array([1, 0, 0], np.int64)

    def _width(self) -> int:
        """No level holds more than the whole is allowed, and half of the level below."""
        return 2 * int(size_allowed(self.k, LEVELS_MAX)) + 2

    @property
    def retained(self) -> int:
        return int(self.fills.sum())

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.keys, self.stamps, self.fills, self.triggers))

    @property
    def weight(self) -> int:
        return _weight(self.fills.tolist())

    def all_keys(self) -> Iterator[np.ndarray]:
        return (row[:fill] for row, fill in zip(self.keys, self.fills, strict=True))

    def _items(self) -> tuple[np.ndarray, np.ndarray]:
        keys = np.concatenate(list(self.all_keys()))
        weights = np.repeat(np.int64(1) << np.arange(LEVELS_MAX), self.fills)
        sort_pairs(keys, weights)
        return keys, weights

    def _error(self) -> tuple[float, float]:
        if int(self.info[HEIGHT]) == 1 and not self.info[SLIDING]:
            return 0.0, 1.0
        return min(ERROR_99 / self.k**0.5, 1.0), 0.99

    def _join(self, other: Self) -> None:
        if self.k != other.k:
            raise IncompatibleSummary(f"k={self.k} cannot be merged with k={other.k}")
        if self.weight + other.weight > WEIGHT_MAX:
            raise SummaryOverflow(f"a weight of {self.weight + other.weight} is beyond 2^42")
        height = max(int(self.info[HEIGHT]), int(other.info[HEIGHT]))
        wide = 2 * self._width()
        keys, stamps = np.zeros((2, LEVELS_MAX, wide), np.int64)
        fills = self.fills + other.fills
        for level in range(height):
            mine, theirs = int(self.fills[level]), int(other.fills[level])
            for joined, own, others in (
                (keys, self.keys, other.keys), (stamps, self.stamps, other.stamps)
            ):  # fmt: skip
                joined[level, :mine] = own[level, :mine]
                joined[level, mine : mine + theirs] = others[level, :theirs]
        info = np.array([height, 0, 0], np.int64)
        while size_of(fills, info[HEIGHT]) >= size_allowed(self.k, info[HEIGHT]):
            if not compress(keys, stamps, fills, info, self.k, self.coins):
                break
        width = self._width()
        self.keys, self.stamps = keys[:, :width].copy(), stamps[:, :width].copy()
        self.fills, self.triggers = fills, np.zeros(LEVELS_MAX, np.int64)
        self.info = np.array([info[HEIGHT], self.info[SEEN] + other.info[SEEN], 0], np.int64)

    def _copied(self, new: Self) -> Self:
        new.keys, new.stamps = self.keys.copy(), self.stamps.copy()
        new.fills, new.triggers = self.fills.copy(), self.triggers.copy()
        new.info = self.info.copy()
        return new

    def _state(self) -> tuple[dict[str, Any], bytes]:
        height = int(self.info[HEIGHT])
        parts = [
            matrix[level, : self.fills[level]].astype("<i8").tobytes()
            for matrix in (self.keys, self.stamps)
            for level in range(height)
        ]
        return {
            "fills": self.fills[:height].tolist(),
            "items": int(self.info[SEEN]),
            "sliding": bool(self.info[SLIDING]),
            "triggers": self.triggers[:height].tolist(),
        }, b"".join(parts)

    def _restore(self, kind: str, fields: Fields, body: Body) -> None:
        fills, triggers = fields.value("fills"), fields.value("triggers")
        allowed = self._width() - 4
        for numbers, most in ((fills, allowed), (triggers, 1)):
            listed = isinstance(numbers, list) and 1 <= len(numbers) <= LEVELS_MAX - 2
            if not listed or not all(type(n) is int and 0 <= n <= most for n in numbers):
                raise CorruptSummary(f"{kind}: {numbers!r:.80} are not numbers of levels")
        pairs = list(zip(triggers, fills, strict=False))
        if len(fills) != len(triggers) or any(trigger > fill for trigger, fill in pairs):
            raise CorruptSummary(f"{kind}: triggers {triggers} of levels {fills} are impossible")
        if sum(fills) > allowed or _weight(fills) > WEIGHT_MAX:
            raise CorruptSummary(f"{kind}: levels of {fills} items are impossible")
        if 16 * sum(fills) != body.left:
            raise CorruptSummary(f"{kind}: {body.left} bytes for {sum(fills)} items")
        self.info[:] = (
            len(fills), fields.integer("items", 0, COUNT_MAX), fields.boolean("sliding")
        )  # fmt: skip
        self.fills[: len(fills)] = fills
        self.triggers[: len(fills)] = triggers
        for matrix in (self.keys, self.stamps):
            for level, fill in enumerate(fills):
                matrix[level, :fill] = body.array("<i8", fill)
        if self.info[SLIDING] and any((keys[1:] < keys[:-1]).any() for keys in self.all_keys()):
            raise CorruptSummary(f"{kind}: the items of a level are not sorted")


class PaperItems(_Levels):
    """Algorithm 1; see the module."""

    __slots__ = ("merged",)

    def __init__(self, window: int, panes: int, k: int, coins: np.ndarray) -> None:
        super().__init__(window, panes, k, coins)
        self.merged = False

    @property
    def count(self) -> int:
        return int(min(self.info[SEEN], self.window))

    def add(self, keys: np.ndarray) -> None:
        if self.merged:
            raise BadArgument("a merged window of method='paper' cannot slide on: use 'ring'")
        slide_items(
            keys, self.keys, self.stamps, self.fills, self.triggers, self.info, self.k,
            self.window, self.coins,
        )  # fmt: skip

    def view(self) -> WindowView:
        """The items with their weights scaled to the window's count."""
        keys, weights = self._items()
        running = np.rint(np.cumsum(weights) * (self.count / int(weights.sum()))).astype(np.int64)
        return WindowView(keys, running, *self._error())

    def merge(self, other: Self) -> None:
        counts = self.count + other.count
        self._join(other)
        self.window += other.window
        self.info[SEEN] = counts
        self.merged = True

    def copy(self, coins: np.ndarray) -> Self:
        new = self._copied(type(self)(self.window, 1, self.k, coins))
        new.merged = self.merged
        return new

    def state(self) -> tuple[dict[str, Any], bytes]:
        parameters, body = self._state()
        return parameters | {"merged": self.merged}, body

    def restore(self, kind: str, fields: Fields, body: Body) -> None:
        self.merged = fields.boolean("merged")
        self._restore(kind, fields, body)
        full, sliding = self.info[SEEN] > self.window, bool(self.info[SLIDING])
        if self.info[SEEN] and not self.retained:
            raise CorruptSummary(f"{kind}: no items are left of {self.info[SEEN]}")
        if (full != sliding) or (self.merged and sliding):
            raise CorruptSummary(f"{kind}: a window of {self.window} items is not at that stage")
        if sliding:
            beyond = 2 << int(self.info[HEIGHT])
            if abs(self.weight - self.window) > beyond or self.fills[self.info[HEIGHT] - 1] < 1:
                raise CorruptSummary(f"{kind}: weights of {self.weight} in {self.window} items")
        elif not self.merged and self.weight != self.info[SEEN]:
            raise CorruptSummary(f"{kind}: the levels' weights do not add up")


class PaperTimes(_Levels):
    """Algorithm 2; see the module."""

    __slots__ = ("end",)

    def __init__(self, window: int, panes: int, k: int, coins: np.ndarray) -> None:
        super().__init__(window, panes, k, coins)
        self.end: int | None = None

    @property
    def count(self) -> int:
        """Weight of the items that are inside: an estimate, about 2 % off."""
        self._expire()
        return self.weight

    @property
    def covered(self) -> tuple[int, int] | None:
        return None if self.end is None else (self.end - self.window + 1, self.end)

    def add(self, keys: np.ndarray, times: np.ndarray, end: int) -> None:
        latest = -TIME_MAX if self.end is None else self.end
        slide_times(
            keys, times, self.keys, self.stamps, self.fills, self.info, self.k, self.window,
            latest, self.coins,
        )  # fmt: skip
        self.advance(end)

    def advance(self, end: int) -> None:
        self.end = end if self.end is None else max(self.end, end)

    def view(self) -> WindowView:
        self._expire()
        return WindowView(*summed(self._items()), *self._error())

    def merge(self, other: Self) -> None:
        if self.window != other.window:
            raise IncompatibleSummary(
                f"windows of {self.window} and {other.window} us cannot be merged"
            )
        theirs = other.copy(other.coins)
        if self.end is not None:
            theirs.advance(self.end)
        if theirs.end is not None:
            self.advance(theirs.end)
        self._expire()  # before items of one node decide which of the other's are kept
        theirs._expire()
        self._join(theirs)

    def copy(self, coins: np.ndarray) -> Self:
        new = self._copied(type(self)(self.window, 1, self.k, coins))
        new.end = self.end
        return new

    def state(self) -> tuple[dict[str, Any], bytes]:
        self._expire()
        parameters, body = self._state()
        return parameters | {"end": self.end}, body

    def restore(self, kind: str, fields: Fields, body: Body) -> None:
        end = fields.value("end")
        if end is not None and (type(end) is not int or abs(end) > TIME_MAX):
            raise CorruptSummary(f"{kind}: {end!r:.80} is no time")
        self._restore(kind, fields, body)
        if self.info[SLIDING] or self.triggers.any() or (self.retained and end is None):
            raise CorruptSummary(f"{kind}: not the state of a window of time")
        self.end = end
        for row, fill in zip(self.stamps, self.fills, strict=True):
            if (
                end is not None
                and fill
                and (row[:fill].min() <= end - self.window or row[:fill].max() > end)
            ):
                raise CorruptSummary(f"{kind}: an item's time is outside of the window")

    def _expire(self) -> None:
        if self.end is not None:
            expire(
                self.keys, self.stamps, self.fills, self.info[HEIGHT], self.end - self.window + 1
            )
