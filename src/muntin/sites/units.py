"""The units of a site's window, kept so that what leaves is exactly what came in. No I/O."""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from muntin.sets import as_set
from muntin.topk.objects import check_sums

Cells = tuple[np.ndarray, np.ndarray]  # rows int64[n] and values int64[n]
NO_CELLS: Cells = (np.zeros(0, np.int64), np.zeros(0, np.int64))


class Units:
    """The newest `length` units, by number; units without events are empty. `length`: units of a
    window."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.newest: int | None = None
        self._units: deque[Cells] = deque([NO_CELLS] * length, maxlen=length)

    def advance(self, to: int, cells: Mapping[int, Cells]) -> Cells:
        """Move the window to unit `to` (or leave it there); what changes in the sums.

        `cells` are those of the units that come in, and of units in the window that have changed;
        a unit that comes in and is not among them is empty. Others are ignored.
        """
        newest = to if self.newest is None else self.newest
        if to < newest:
            raise ValueError(f"unit {to} is before {newest}")
        coming: list[Cells] = []
        leaving: list[Cells] = []
        for unit, new in cells.items():
            if to - self.length < unit <= newest and self.newest is not None:
                at = self.length - 1 - (newest - unit)
                coming.append(new)
                leaving.append(self._units[at])
                self._units[at] = new
        first = to - self.length + 1 if self.newest is None else newest + 1
        for unit in range(max(first, to - self.length + 1), to + 1):
            new = cells.get(unit, NO_CELLS)
            coming.append(new)
            leaving.append(self._units[0])
            self._units.append(new)
        self.newest = to
        return net(coming, leaving)

    def referred(self) -> np.ndarray:
        """Rows that some unit holds, each once."""
        there = [rows for rows, _ in self._units if len(rows)]
        return as_set(np.concatenate(there)) if there else NO_CELLS[0]

    def renumber(self, new: np.ndarray) -> None:
        """Rows have new numbers: `new[old]`."""
        for at, (rows, values) in enumerate(self._units):
            if len(rows):
                self._units[at] = (new[rows], values)


def net(coming: Sequence[Cells], leaving: Sequence[Cells]) -> Cells:
    """Rows whose sum changes, each once, and by how much."""
    none, nothing = NO_CELLS
    rows = np.concatenate([none, *(rows for rows, _ in (*coming, *leaving))])
    values = np.concatenate([nothing, *(v for _, v in coming), *(-v for _, v in leaving)])
    check_sums(rows, values)
    changes = np.zeros(rows.max(initial=-1) + 1, np.int64)
    np.add.at(changes, rows, values)
    changed = np.flatnonzero(changes)
    return changed, changes[changed]
