"""An exponential histogram of KLLs: a window whose edge is bounded for every burst pattern.

Blocks of k items are united, two oldest of a size into one of twice the size, whenever there are
more than r + 1 of that size. So the newer blocks always hold at least r times what the oldest
does, up to one smallest block: it is at most 1 / r of the window, and so is what can be wrong at
the edge; half of that once ranks are kept between their least and largest possible value.
Source: Datar, Gionis, Indyk, Motwani, "Maintaining Stream Statistics over Sliding Windows", 2002.

A block knows how many of its items came before each of about 32 of their times, so that a window
of time covers at most a sixteenth of its oldest block too much, and its count is exact for what
it covers. Items wait, exactly kept, until no earlier one is tolerated any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np

from muntin.errors import CorruptSummary, IncompatibleSummary
from muntin.summaries.envelope import Body, Fields
from muntin.summaries.kernels.sorting import sort_pairs
from muntin.summaries.level_stack import LevelStack
from muntin.summaries.panes import (
    CONFIDENCE,
    DEVIATIONS,
    KLL_DEVIATION,
    NOTHING,
    Cut,
    WindowEngine,
    WindowView,
    sorted_run,
    summed,
)
from muntin.summaries.time_ring import TIME_MAX

MARKS = 32
BLOCKS_MAX = 1 << 18


@dataclass(slots=True, eq=False)
class Block:
    """Consecutive items.

    `marks` are (times, counts): so many of the items came before each of these times. They begin
    with the block, unless the block before has items of that very time too: what is covered cannot
    begin there once that block is gone, so they begin with the next time, if there is one.
    """

    stack: LevelStack
    count: int = 0
    first: int = 0
    last: int = 0
    size_class: int = 0
    marks: np.ndarray | None = None  # None while the stack has every stamp

    def add(self, keys: np.ndarray, stamps: np.ndarray) -> None:
        """Items that fit; the stamps ascend."""
        if not self.count:
            self.first = int(stamps[0])
        self.last = int(stamps[-1])
        self.count += len(keys)
        self.stack.add(keys, stamps)

    def marked(self, shared: bool) -> np.ndarray:
        """Marks, made from the stamps where there are none yet: int64[2, n]. `shared`: items of the
        first time may be in the block before."""
        if self.marks is not None:
            return self.marks
        stamps = np.sort(self.stack.item_stamps())
        times, before = np.unique(stamps, return_index=True)
        return np.stack((times, before))[:, int(shared) :]

    def unite(self, newer: Block, shared: bool) -> None:
        """Take the next block in."""
        times, counts = newer.marked(newer.first == self.last)
        later = times > self.last  # not so where an older version, or someone else, wrote the marks
        marks = np.concatenate(
            (self.marked(shared), np.stack((times[later], counts[later] + self.count))), axis=1
        )
        self.stack.merge(newer.stack)
        self.count += newer.count
        self.last = newer.last
        self.size_class += 1
        wanted = np.arange(MARKS) * self.count // MARKS
        kept = np.searchsorted(marks[1], wanted, side="right") - 1
        self.marks = marks[:, np.unique(np.maximum(kept, 0))] if marks.size else marks

    def survivors(self, edge: int) -> tuple[int, int]:
        """How many items are inside, and the first stamp from which on they are counted."""
        if self.first >= edge:
            return self.count, edge
        if self.marks is None:
            return int((self.stack.item_stamps() >= edge).sum()), edge
        at = int(np.searchsorted(self.marks[0], edge, side="right")) - 1
        if at < 0:  # between the first time, shared with a block now gone, and the next is none
            return self.count - int(self.marks[1, 0]), edge
        return self.count - int(self.marks[1, at]), int(self.marks[0, at])


@dataclass(eq=False)
class _Histogram(WindowEngine):
    """Blocks from the oldest to the newest; the newest is being filled."""

    blocks: list[Block] = field(default_factory=list, init=False)

    def stacks(self) -> Iterator[LevelStack]:
        return (block.stack for block in self.blocks)

    @property
    def nbytes(self) -> int:
        marks = (block.marks for block in self.blocks if block.marks is not None)
        return super().nbytes + sum(mark.nbytes for mark in marks)

    def merge(self, other: Self) -> None:
        del other
        raise IncompatibleSummary(
            "strict windows of two nodes cannot be merged, since their blocks overlap in time and"
            " the bound would not hold: merge windows of method='ring'"
        )

    def _append(self, keys: np.ndarray, stamps: np.ndarray) -> None:
        at = 0
        while at < len(keys):
            if not self.blocks or self.blocks[-1].count >= self.k:
                self.blocks.append(Block(LevelStack(self.k, self.coins, stamped=True)))
            block = self.blocks[-1]
            taken = min(self.k - block.count, len(keys) - at)
            block.add(keys[at : at + taken], stamps[at : at + taken])
            at += taken
            if block.count == self.k:
                self._unite()

    def _unite(self) -> None:
        size_class, newest = 0, len(self.blocks)
        while True:
            oldest = newest
            while oldest and self.blocks[oldest - 1].size_class == size_class:
                oldest -= 1
            if newest - oldest < self.panes + 2:
                return
            self.blocks[oldest].unite(self.blocks.pop(oldest + 1), self._shared(oldest))
            size_class, newest = size_class + 1, oldest + 1

    def _shared(self, at: int) -> bool:
        """Whether a block before may have, or have had, items of this block's first time."""
        del at
        return False

    def _drop(self, edge: int) -> None:
        gone = 0
        while gone < len(self.blocks) and self.blocks[gone].last < edge:
            gone += 1
        del self.blocks[:gone]

    def _view(self, inside: int, edge: int, count: int, loose: np.ndarray) -> WindowView:
        """Over the blocks, `inside` items of the oldest from `edge` on, and single keys."""
        runs = [(loose, np.ones(len(loose), np.int64))]
        runs += [block.stack.run() for block in self.blocks[1:]]
        error = 0.0
        for block in self.blocks[:1]:
            runs.append(Cut(block.stack).run(edge, inside))
            if block.stack.height > 1:
                error += min(inside, block.count - inside) / count
        variance = sum(
            (block.count / count) ** 2 for block in self.blocks if block.stack.height > 1
        )
        error += DEVIATIONS * KLL_DEVIATION / self.k * variance**0.5
        return summed(sorted_run(runs)), min(error, 1.0), CONFIDENCE if error else 1.0

    def _state(self) -> tuple[list[Any], bytes]:
        rows = [
            [
                block.first, block.last, block.count, block.size_class, block.stack.sizes(),
                None if block.marks is None else block.marks.tolist(),
            ]
            for block in self.blocks
        ]  # fmt: skip
        return rows, self.stack_bytes()

    def _restore(self, kind: str, fields: Fields, body: Body) -> None:
        rows = fields.rows("blocks", int, int, int, int, list, list | None)
        if len(rows) > BLOCKS_MAX:
            raise CorruptSummary(f"{kind}: {len(rows)} blocks are too many")
        for row in rows:
            first, last, count, size_class = row[:4]
            if not -TIME_MAX <= first <= last <= TIME_MAX or not 0 <= size_class < 40:
                raise CorruptSummary(f"{kind}: {row!r:.80} is no block")
            full = count == self.k << size_class
            if not full and not (row is rows[-1] and 0 < count < self.k and size_class == 0):
                raise CorruptSummary(f"{kind}: a block of {count} items")
        for older, newer in pairwise(rows):
            if older[1] > newer[0] or older[3] < newer[3]:
                raise CorruptSummary(f"{kind}: blocks are not in order")
        counts = [row[2] for row in rows]
        stacks = self.read_stacks(kind, [row[4] for row in rows], counts, body)
        for row, stack in zip(rows, stacks, strict=True):
            block = Block(stack)
            block.first, block.last, block.count, block.size_class = row[:4]
            stamps = stack.item_stamps()
            if stamps.min() < block.first or stamps.max() > block.last:
                raise CorruptSummary(f"{kind}: an item is not of its block")
            if (row[5] is None) != (block.size_class == 0) or (stack.height > 1) != bool(row[3]):
                raise CorruptSummary(f"{kind}: a block has no marks, or no need of them")
            if row[5] is not None:
                block.marks = _marks(kind, row[5], block)
            self.blocks.append(block)


def _marks(kind: str, listed: list[Any], block: Block) -> np.ndarray:
    rows: list[Any] = listed if len(listed) == 2 else [0, 0]
    for row in rows:
        numbers = isinstance(row, list) and len(row) <= MARKS
        if not numbers or not all(type(n) is int and abs(n) <= TIME_MAX for n in row):
            raise CorruptSummary(f"{kind}: {listed!r:.80} are no marks")
    times, counts = rows
    if len(times) != len(counts) or (not times and block.first != block.last):
        raise CorruptSummary(f"{kind}: {listed!r:.80} are no marks")
    if not times:
        return np.empty((2, 0), np.int64)
    if min(times[0] - block.first, counts[0]) < 0 or (times[0] == block.first) != (counts[0] == 0):
        raise CorruptSummary(f"{kind}: marks do not begin with the block")
    rising = all(a < b for row in rows for a, b in pairwise(row))
    if not rising or times[-1] > block.last or counts[-1] >= block.count:
        raise CorruptSummary(f"{kind}: marks do not rise, or leave the block")
    return np.array(rows, np.int64)


@dataclass(eq=False)
class HistogramOfItems(_Histogram):
    """The last `window` items; positions are their stamps."""

    end: int = field(default=0, init=False)

    @property
    def count(self) -> int:
        return min(self.end, self.window)

    def add(self, keys: np.ndarray) -> None:
        """The next items, in order; may sort `keys` in place."""
        beyond = len(keys) - self.window
        if beyond > 0:
            self.blocks.clear()
            self.end += beyond
            keys = keys[beyond:]
        self._append(keys, np.arange(self.end, self.end + len(keys)))
        self.end += len(keys)
        self._drop(self.end - self.window)

    def view(self) -> WindowView:
        edge = max(self.end - self.window, 0)
        oldest = self.blocks[0]
        inside = oldest.last + 1 - max(edge, oldest.first)
        return self._view(inside, edge, self.count, np.empty(0, np.int64))

    def state(self) -> tuple[dict[str, Any], bytes]:
        rows, body = self._state()
        return {"blocks": rows, "end": self.end}, body

    def restore(self, kind: str, fields: Fields, body: Body) -> None:
        self.end = fields.integer("end", 0, TIME_MAX)
        self._restore(kind, fields, body)
        edge = max(self.end - self.window, 0)
        at = self.blocks[0].first if self.blocks else self.end
        if at > edge or (self.blocks and self.blocks[0].last < edge):
            raise CorruptSummary(f"{kind}: the oldest block is not at the window's edge")
        for block in self.blocks:
            if block.first != at or block.last != at + block.count - 1:
                raise CorruptSummary(f"{kind}: blocks do not follow each other")
            at += block.count
        if at != self.end:
            raise CorruptSummary(f"{kind}: blocks end at {at}, items at {self.end}")


@dataclass(eq=False)
class HistogramOfTimes(_Histogram):
    """The last `window` microseconds; times are the stamps."""

    end: int | None = field(default=None, init=False)
    hold: int = field(default=0, init=False)  # items may come so much later than others
    waiting: np.ndarray = field(default_factory=lambda: NOTHING[0], init=False)
    waiting_times: np.ndarray = field(default_factory=lambda: NOTHING[0], init=False)

    @property
    def count(self) -> int:
        return self._edge_counts()[2]

    @property
    def covered(self) -> tuple[int, int] | None:
        """First and last time that the window covers, both included."""
        return None if self.end is None else (self._edge_counts()[1], self.end)

    @property
    def retained(self) -> int:
        return super().retained + len(self.waiting)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.waiting.nbytes + self.waiting_times.nbytes

    def all_keys(self) -> Iterator[np.ndarray]:
        yield from super().all_keys()
        yield self.waiting

    def add(self, keys: np.ndarray, times: np.ndarray, end: int) -> None:
        """Items that are not later than tolerated."""
        self.waiting = np.concatenate((self.waiting, keys))
        self.waiting_times = np.concatenate((self.waiting_times, times))
        sort_pairs(self.waiting_times, self.waiting)
        self.advance(end)

    def advance(self, end: int) -> None:
        """Move the window's end, and take in the items that nothing can precede any more."""
        self.end = end if self.end is None else max(self.end, end)
        ready = int(np.searchsorted(self.waiting_times, self.end - self.hold, side="right"))
        if ready:
            self._append(self.waiting[:ready], self.waiting_times[:ready])
        gone = int(np.searchsorted(self.waiting_times, self.end - self.window, side="right"))
        self.waiting = self.waiting[max(ready, gone) :].copy()
        self.waiting_times = self.waiting_times[max(ready, gone) :].copy()
        self._drop(self.end - self.window + 1)

    def view(self) -> WindowView:
        inside, edge, count = self._edge_counts()
        return self._view(inside, edge, count, self.waiting)

    def state(self) -> tuple[dict[str, Any], bytes]:
        rows, body = self._state()
        waiting = self.waiting.astype("<i8").tobytes() + self.waiting_times.astype("<i8").tobytes()
        return {"blocks": rows, "end": self.end, "waiting": len(self.waiting)}, waiting + body

    def restore(self, kind: str, fields: Fields, body: Body) -> None:
        self.end = end = fields.integer_or_none("end", -TIME_MAX, TIME_MAX)
        waiting = fields.integer("waiting", 0, body.left // 16)
        self.waiting, self.waiting_times = body.array("<i8", waiting), body.array("<i8", waiting)
        self._restore(kind, fields, body)
        if end is None:
            if waiting or self.blocks:
                raise CorruptSummary(f"{kind}: items without a time")
            return
        edge = end - self.window + 1
        if self.blocks and (self.blocks[0].last < edge or self.blocks[-1].last > end - self.hold):
            raise CorruptSummary(f"{kind}: blocks outside of the window")
        times = self.waiting_times
        if waiting and (
            (times[1:] < times[:-1]).any() or times[0] < edge or times[0] <= end - self.hold
            or times[-1] > end
        ):  # fmt: skip
            raise CorruptSummary(f"{kind}: waiting items are not in order")

    def _shared(self, at: int) -> bool:
        first = self.blocks[at].first
        if at:
            return self.blocks[at - 1].last == first
        return self.end is not None and first <= self.end - self.window  # one may have been dropped

    def _edge_counts(self) -> tuple[int, int, int]:
        """Of the oldest block the items inside, the first time covered, and the window's count."""
        edge = 0 if self.end is None else self.end - self.window + 1
        inside, covered = self.blocks[0].survivors(edge) if self.blocks else (0, edge)
        newer = sum(block.count for block in self.blocks[1:])
        return inside, covered, inside + newer + len(self.waiting)
