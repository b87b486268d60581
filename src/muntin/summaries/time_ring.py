"""The last T of time as a ring of panes: the default method of `TimeWindowQuantiles`.

Panes lie on a fixed grid of time, so that rings of several nodes have the same panes and merge
pane by pane, and late items find theirs. A pane counts its items in 128 slots of time: where the
window's edge cuts a pane too large to hold all its times, the edge moves back to the start of its
slot (by less than 1 / (128 B) of the window), for which the count is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np

from muntin.errors import CorruptSummary
from muntin.summaries.envelope import Body, Fields
from muntin.summaries.level_stack import COUNT_MAX, LevelStack
from muntin.summaries.panes import NOTHING, Cut, Ring, WindowView
from muntin.summaries.weights import exact_sum

SLOTS = 128
TIME_MAX = 1 << 62  # sums of two times stay inside int64


@dataclass(slots=True, eq=False)
class TimePane:
    """Items whose times lie in one pane of the grid."""

    stack: LevelStack
    slots: np.ndarray

    @property
    def count(self) -> int:
        return int(self.slots.sum())


@dataclass(eq=False)
class TimeRing(Ring):
    """See the module. A window holds the times t with end - window < t <= end."""

    ring: dict[int, TimePane] = field(default_factory=dict, init=False)  # by number on the grid
    end: int | None = field(default=None, init=False)

    @property
    def pane_us(self) -> int:
        return -(-self.window // self.panes)

    @property
    def slot_us(self) -> int:
        return -(-self.pane_us // SLOTS)

    @property
    def count(self) -> int:
        cut = self._cut()
        whole = sum(pane.count for number, pane in self.ring.items() if cut[0] != number)
        return whole + cut[1]

    @property
    def covered(self) -> tuple[int, int] | None:
        """First and last time that the window covers, both included."""
        return None if self.end is None else (self._cut()[2], self.end)

    def stacks(self) -> Iterator[LevelStack]:
        return (pane.stack for _, pane in sorted(self.ring.items()))

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(pane.slots.nbytes for pane in self.ring.values())

    def add(self, keys: np.ndarray, times: np.ndarray, end: int) -> None:
        """Items that are not late; may sort both arrays in place."""
        self.advance(end)
        numbers = times // self.pane_us
        alive = numbers >= self._edge() // self.pane_us
        if not alive.all():
            keys, times, numbers = keys[alive], times[alive], numbers[alive]
        if not len(numbers):
            return
        first, last = int(numbers.min()), int(numbers.max())
        if first == last:
            self._add_to(first, keys, times)
            return
        for number in range(first, last + 1):
            mine = numbers == number
            if mine.any():
                self._add_to(number, keys[mine], times[mine])

    def advance(self, end: int) -> None:
        """Move the window's end."""
        if self.end is None or end > self.end:
            self.end = end
        edge = self._edge()
        for number in [n for n in self.ring if (n + 1) * self.pane_us <= edge]:
            del self.ring[number]

    def view(self) -> WindowView:
        """The window as weighted items; there is at least one."""
        cut_number, inside, edge = self._cut()
        numbers = sorted(number for number in self.ring if number != cut_number)
        cut, run = None, NOTHING
        if cut_number is not None and inside:
            pane = self.ring[cut_number]
            cut = (pane.stack, inside, pane.count)
            run = Cut(pane.stack).run(edge, inside)
        whole = [(number, self.ring[number]) for number in numbers]
        return self._view_of(run, cut, [(number, p.stack, p.count) for number, p in whole])

    def merge(self, other: Self) -> None:
        """Another node's window over the same time: pane by pane."""
        for number, pane in other.ring.items():
            mine = self.ring.get(number)
            if mine is None:
                self.ring[number] = TimePane(pane.stack.copy(self.coins), pane.slots.copy())
            else:
                mine.stack.merge(pane.stack)
                mine.slots = mine.slots + pane.slots
        self._closed = None
        if other.end is not None:
            self.advance(other.end)

    def state(self) -> tuple[dict[str, Any], bytes]:
        """Parameters and body of the bytes."""
        panes = sorted(self.ring.items())
        ring = [[number, pane.stack.sizes()] for number, pane in panes]
        slots = b"".join(pane.slots.astype("<i8").tobytes() for _, pane in panes)
        return {"end": self.end, "ring": ring}, slots + self.stack_bytes()

    def restore(self, kind: str, fields: Fields, body: Body) -> None:
        """Take on a state; CorruptSummary where it is none."""
        self.end = end = fields.integer_or_none("end", -TIME_MAX, TIME_MAX)
        rows = fields.rows("ring", int, list)
        if len(rows) > self.panes + 1 or (rows and end is None):
            raise CorruptSummary(f"{kind}: {rows!r:.80} are not {self.panes} panes")
        numbers = [row[0] for row in rows]
        if rows and end is not None:
            first, last = self._edge() // self.pane_us, end // self.pane_us
            if any(a >= b for a, b in pairwise([first - 1, *numbers, last + 1])):
                raise CorruptSummary(f"{kind}: panes {numbers} are not those of the window")
        slots = [body.array("<i8", SLOTS) for _ in rows]
        for row in slots:
            if row.min() < 0 or not 1 <= exact_sum(row) <= COUNT_MAX:
                raise CorruptSummary(f"{kind}: a pane counts impossible items")
        counts = [exact_sum(row) for row in slots]
        stacks = self.read_stacks(kind, [row[1] for row in rows], counts, body)
        for number, stack, row in zip(numbers, stacks, slots, strict=True):
            where = stack.item_stamps() - number * self.pane_us
            if where.min() < 0 or where.max() >= self.pane_us:
                raise CorruptSummary(f"{kind}: an item is not of its pane")
            found = np.bincount(where // self.slot_us, minlength=SLOTS)
            if (row < found).any() or (stack.height == 1 and (row != found).any()):
                raise CorruptSummary(f"{kind}: a pane holds items that it did not count")
            self.ring[number] = TimePane(stack, row)

    def _edge(self) -> int:
        """First time inside the window."""
        return 0 if self.end is None else self.end - self.window + 1

    def _cut(self) -> tuple[int | None, int, int]:
        """The pane that the edge cuts (or None), its items inside, and the first time covered."""
        edge = self._edge()
        number = edge // self.pane_us
        start = number * self.pane_us
        pane = self.ring.get(number)
        if pane is None or start == edge:
            return None, 0, edge
        if pane.stack.height == 1:
            return number, int((pane.stack.item_stamps() >= edge).sum()), edge
        slot = (edge - start) // self.slot_us
        return number, int(pane.slots[slot:].sum()), start + slot * self.slot_us

    def _add_to(self, number: int, keys: np.ndarray, times: np.ndarray) -> None:
        pane = self.ring.get(number)
        if pane is None:
            stack = LevelStack(self.k, self.coins, stamped=True)
            pane = self.ring[number] = TimePane(stack, np.zeros(SLOTS, np.int64))
        if self._closed is not None and number in self._closed[0]:
            self._closed = None
        slots = (times - number * self.pane_us) // self.slot_us
        pane.slots = pane.slots + np.bincount(slots, minlength=SLOTS)
        pane.stack.add(keys, times)
