"""The last W items as a ring of panes: the default method of `FixedWindowQuantiles`.

Each pane of W / B items is a KLL whose items keep the sequence number they came with. The window
is the union of its panes; in the one that the edge cuts, the items that are still inside are
scaled to the exactly known number of survivors. Nothing older than the oldest pane is kept, so
the error cannot grow while the window slides.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Self

import numpy as np

from muntin.errors import CorruptSummary, IncompatibleSummary
from muntin.summaries.envelope import Body, Fields
from muntin.summaries.level_stack import LevelStack
from muntin.summaries.panes import NOTHING, Cut, Ring, WindowView

POSITION_MAX = 1 << 62
WINDOW_ITEMS_MAX = 1 << 40


@dataclass(slots=True, eq=False)
class Pane:
    """Items of the positions `start` to `start + count`, under a KLL."""

    start: int
    count: int
    stack: LevelStack

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass(eq=False)
class PaneRing(Ring):
    ring: list[Pane] = field(default_factory=list, init=False)
    edge: int = field(default=0, init=False)  # position of the window's oldest item
    end: int = field(default=0, init=False)  # that of the next item
    _cut: tuple[int, Cut] | None = field(default=None, init=False)

    @property
    def count(self) -> int:
        return self.end - self.edge

    def stacks(self) -> Iterator[LevelStack]:
        return (pane.stack for pane in self.ring)

    def add(self, keys: np.ndarray) -> None:
        """The next items, in order; sorts `keys` in place."""
        beyond = len(keys) - self.window
        if beyond > 0:  # these leave before anyone can ask
            self.ring.clear()
            self.end += beyond
            self.edge = self.end
            keys = keys[beyond:]
        at, size = 0, -(-self.window // self.panes)
        while at < len(keys):
            if not self.ring or self.ring[-1].count >= size:
                stack = LevelStack(self.k, self.coins, stamped=True)
                self.ring.append(Pane(self.end, 0, stack))
            pane = self.ring[-1]
            taken = min(size - pane.count, len(keys) - at)
            pane.stack.add(keys[at : at + taken], np.arange(self.end, self.end + taken))
            pane.count += taken
            self.end += taken
            at += taken
        self.edge = max(self.edge, self.end - self.window)
        gone = 0
        while gone < len(self.ring) and self.ring[gone].end <= self.edge:
            gone += 1
        del self.ring[:gone]

    def view(self) -> WindowView:
        """The window as weighted items; there is at least one."""
        whole = self.ring
        cut, run = None, NOTHING
        if whole[0].start < self.edge:
            oldest, whole = whole[0], whole[1:]
            inside = oldest.end - self.edge
            cut = (oldest.stack, inside, oldest.count)
            run = self._cut_of(oldest, fresh=not whole).run(self.edge, inside)
        return self._view_of(run, cut, [(pane.start, pane.stack, pane.count) for pane in whole])

    def merge(self, other: Self) -> None:
        """Two nodes' windows into one of both lengths, which slides on.

        Panes are united from the newest on, as if items had come in turn. Those that the edges cut
        become the oldest one, in which what had left either window comes first.
        """
        end, count = self.end + other.end, self.count + other.count
        if self.window + other.window > WINDOW_ITEMS_MAX:
            raise IncompatibleSummary(
                f"windows of {self.window} and {other.window} items are more than "
                f"{WINDOW_ITEMS_MAX} together: merge fewer, or shorter ones"
            )
        # panes with how many of their items have left, the newest first
        rings = [[(p, max(r.edge - p.start, 0)) for p in r.ring[::-1]] for r in (self, other)]
        cuts = [ring.pop() for ring in rings if ring and ring[-1][1]]
        united, at = [], end
        for parts in (*zip_longest(*rings), cuts):
            there = [part for part in parts if part is not None]
            size, gone = sum(pane.count for pane, _ in there), sum(left for _, left in there)
            at -= size
            stack = LevelStack(self.k, self.coins, stamped=True)
            for pane, left in there:
                moved = pane.stack.copy()
                since = moved.item_stamps() - pane.start
                before = since * (gone / max(left, 1))
                after = gone + (since - left) * ((size - gone) / (pane.count - left))
                moved.item_stamps()[:] = at + np.where(since < left, before, after).astype(np.int64)
                stack.merge(moved)
            united += [Pane(at, size, stack)] * bool(size)
        self.ring = united[::-1]
        self.window = self.window + other.window
        self.end, self.edge = end, end - count
        self._closed = self._cut = None

    def state(self) -> tuple[dict[str, Any], bytes]:
        """Parameters and body of the bytes."""
        ring = [[pane.start, pane.count, pane.stack.sizes()] for pane in self.ring]
        return {"edge": self.edge, "end": self.end, "ring": ring}, self.stack_bytes()

    def restore(self, kind: str, fields: Fields, body: Body) -> None:
        """Take on a state; CorruptSummary where it is none."""
        self.end = fields.integer("end", 0, POSITION_MAX)
        self.edge = fields.integer("edge", max(self.end - self.window, 0), self.end)
        rows = fields.rows("ring", int, int, list)
        for start, size, _ in rows:
            if start < 0 or not 1 <= size <= 2 * self.window:
                raise CorruptSummary(f"{kind}: a pane of {size} items from {start} on")
        for row, after in zip(rows, [*rows[1:], [self.end]], strict=False):
            if row[0] + row[1] != after[0]:
                raise CorruptSummary(f"{kind}: panes do not follow each other")
        if bool(rows) != (self.end > self.edge) or (rows and not (
            rows[0][0] <= self.edge < rows[0][0] + rows[0][1]
        )):  # fmt: skip
            raise CorruptSummary(f"{kind}: the window's edge is not in its oldest pane")
        counts = [row[1] for row in rows]
        stacks = self.read_stacks(kind, [row[2] for row in rows], counts, body)
        self.ring = [Pane(row[0], row[1], stack) for row, stack in zip(rows, stacks, strict=True)]
        for pane in self.ring:
            stamps = pane.stack.item_stamps()
            if stamps.min() < pane.start or stamps.max() >= pane.end:
                raise CorruptSummary(f"{kind}: an item is not of its pane")

    def _cut_of(self, pane: Pane, *, fresh: bool) -> Cut:
        if fresh:  # it is the only pane and still grows
            return Cut(pane.stack)
        if self._cut is None or self._cut[0] != pane.start:
            self._cut = (pane.start, Cut(pane.stack))
        return self._cut[1]
