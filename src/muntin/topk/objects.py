"""A monitor's objects: names to rows, values and revision factors in arrays."""

from collections.abc import Iterable, Sequence

import numpy as np

from muntin.errors import BadArgument
from muntin.topk.messages import NOTHING, VALUE_MAX, Object

OBJECT_BYTES_MAX = 256
_LEFT = f"a value left +-{VALUE_MAX}: use a coarser unit of measure"


class Objects:
    """Row 0 is `NOTHING`, whose value stays 0; the others come in the order they were first seen.

    `values` (int64[rows]): the object's sum in the window at this site.
    `adjusted` (int64[rows]): value plus revision factor.
    `reported` (int64[rows]): with a barrier: the value last reported to the coordinator in this
      epoch.
    """

    def __init__(self) -> None:
        self.names: list[Object] = [NOTHING]
        self._rows: dict[Object, int] = {NOTHING: 0}
        self._cells = np.zeros((3, 64), np.int64)  # values, adjusted, reported

    def __len__(self) -> int:
        return len(self.names)

    @property
    def values(self) -> np.ndarray:
        return self._cells[0, : len(self.names)]

    @property
    def adjusted(self) -> np.ndarray:
        return self._cells[1, : len(self.names)]

    @property
    def reported(self) -> np.ndarray:
        return self._cells[2, : len(self.names)]

    def rows(self, items: Sequence[Object]) -> np.ndarray:
        """Rows of `items`, int64; objects that are new get one."""
        known = self._rows
        try:
            return np.fromiter((known[item] for item in items), np.int64, len(items))
        except KeyError:
            return np.array([self._add(item) for item in items], np.int64)

    def _add(self, item: Object) -> int:
        row = self._rows.get(item)
        if row is not None:
            return row
        check_object(item)
        row = len(self.names)
        if row == self._cells.shape[1]:
            self._cells = np.concatenate((self._cells, np.zeros_like(self._cells)), axis=1)
        self.names.append(item)
        self._rows[item] = row
        return row

    def change(self, rows: np.ndarray, changes: np.ndarray) -> None:
        """Add `changes` to the values in `rows` (a row may come more than once)."""
        check_sums(rows, changes)
        values, adjusted = self.values, self.adjusted
        np.add.at(values, rows, changes)
        np.add.at(adjusted, rows, changes)
        reached = values[rows]
        if len(reached) and max(int(reached.max()), -int(reached.min())) > VALUE_MAX:
            np.subtract.at(values, rows, changes)
            np.subtract.at(adjusted, rows, changes)
            raise BadArgument(_LEFT)

    def set_factor(self, item: Object, factor: int) -> None:
        """Give an object the factor; an unknown object comes into being unless it is 0."""
        row = self._rows.get(item) if factor == 0 else self._add(item)
        if row is not None:
            self._cells[1, row] = self._cells[0, row] + factor

    def begin_epoch(self) -> None:
        """No factors, and nothing reported."""
        self._cells[1] = self._cells[0]
        self._cells[2] = 0

    def compact(self, keep: Iterable[int]) -> np.ndarray | None:
        """Forget objects whose value, factor and last report are 0, if that halves the rows.
        Returns the new row of each old one (-1: forgotten), or None if nothing was done."""
        live = (self.values != 0) | (self.adjusted != 0) | (self.reported != 0)
        live[0] = True
        live[list(keep)] = True
        count = int(live.sum())
        if len(self.names) < 2 * count + 1024:
            return None
        moved = np.where(live, np.cumsum(live) - 1, -1)
        old = np.flatnonzero(live)
        self._cells = self._cells.take(old, axis=1)
        self.names = [self.names[row] for row in old.tolist()]
        self._rows = {name: row for row, name in enumerate(self.names)}
        return moved


def check_sums(rows: np.ndarray, changes: np.ndarray) -> None:
    """Refuse changes whose sum in a row may leave int64, where it would wrap round to a value."""
    most = 1 << 62  # far beyond what a value may be, and below int64 by more than floats are off
    floats = changes.astype(np.float64)
    if np.abs(floats).sum() >= most and np.abs(np.bincount(rows, floats)).max() >= most:
        raise BadArgument(_LEFT)


def check_object(item: Object) -> Object:
    """Refuse what is not an object: an int64, or a short string other than `NOTHING`."""
    if isinstance(item, int) and not isinstance(item, bool):
        if -(1 << 63) <= item < 1 << 63:
            return item
    elif isinstance(item, str) and item != NOTHING:
        try:
            if len(item.encode()) <= OBJECT_BYTES_MAX:
                return item
        except UnicodeEncodeError:
            pass
    raise BadArgument(
        f"object {item!r}: give an int64 or a string of at most {OBJECT_BYTES_MAX} bytes"
    )
