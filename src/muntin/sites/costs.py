"""What pushing every change would have cost: one message for each unit, with what changed.

The same count as `muntin.topk.simulate(policy="naive")`: the bytes of a `Push`, and 8 for the
frame. Nothing is encoded for it.
"""

from __future__ import annotations

import numpy as np

from muntin.topk.objects import Objects

FRAME_BYTES = 8  # a masked WebSocket header of a message up to 64 KiB
_HEAD_BYTES = 2 + 1 + 1 + 5  # format and kind, epoch, version, and unit as naive push would have it


class NaiveCost:
    """Counts as the window moves."""

    def __init__(self) -> None:
        self.messages = self.entries = self.bytes = 0
        self._name_bytes = np.zeros(0, np.int64)  # of each row, as written

    def slide(self, objects: Objects, rows: np.ndarray, changes: np.ndarray) -> None:
        """A slide changes these rows, each once."""
        if not len(rows):
            return
        self.messages += 1
        self.entries += len(rows)
        self.bytes += self._bytes_of(objects, rows, changes)

    def of_window(self, objects: Objects) -> tuple[int, int]:
        """Entries and bytes of pushing all values that are not 0, as naive push must at first."""
        rows = np.flatnonzero(objects.values)
        return len(rows), self._bytes_of(objects, rows, objects.values[rows])

    def _bytes_of(self, objects: Objects, rows: np.ndarray, values: np.ndarray) -> int:
        known = len(self._name_bytes)
        if known < len(objects):
            new = [_written(name) for name in objects.names[known:]]
            self._name_bytes = np.concatenate((self._name_bytes, np.array(new, np.int64)))
        counts = 2 * _varint_bytes(np.array([len(rows)]))
        size = self._name_bytes[rows].sum() + _signed_bytes(values).sum() + counts.sum()
        return int(size) + _HEAD_BYTES + FRAME_BYTES

    def renumber(self) -> None:
        """Rows have new numbers."""
        self._name_bytes = self._name_bytes[:0]


def _written(name: str | int) -> int:
    """Bytes of an object in a message; integers are written as differences, about half."""
    if isinstance(name, int):
        return 2
    size = len(name.encode())
    return size + (1 if size < 128 else 2)


def _signed_bytes(values: np.ndarray) -> np.ndarray:
    return _varint_bytes(np.where(values < 0, -2 * values - 1, 2 * values))


def _varint_bytes(values: np.ndarray) -> np.ndarray:
    bits = np.floor(np.log2(np.maximum(values, 1).astype(np.float64))).astype(np.int64) + 1
    return (bits + 6) // 7
