"""What was sent between sites and coordinator, against what pushing every change would cost."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muntin.topk.messages import Message, entries_in
from muntin.topk.objects import Objects

_SMALL, _MEDIUM = 126, 1 << 16


@dataclass
class Traffic:
    """One direction of one site. Bytes are those of whole WebSocket frames, without TCP/IP."""

    messages: int = 0
    entries: int = 0
    bytes: int = 0

    def count(self, message: Message, size: int, *, masked: bool) -> None:
        self.messages += 1
        self.entries += entries_in(message)
        self.bytes += size + frame_bytes(size, masked=masked)


def frame_bytes(size: int, *, masked: bool) -> int:
    """The header of a WebSocket frame (RFC 6455, 5.2)."""
    length = 0 if size < _SMALL else 2 if size < _MEDIUM else 8
    return 2 + length + 4 * masked


@dataclass(slots=True)
class SiteCounts:
    """What one site has cost since the coordinator started.

    `naive` is what it would have cost to push the window that the site had at first, and then
    each change: as its reports say, which begin anew where the site's process does.
    """

    up: Traffic = field(default_factory=Traffic)
    down: Traffic = field(default_factory=Traffic)
    reports: Traffic = field(default_factory=Traffic)
    naive: Traffic = field(default_factory=Traffic)
    reported: dict[str, Any] = field(default_factory=dict)  # its last report

    def report(self, reported: dict[str, Any], size: int) -> None:
        self.reports.messages += 1
        self.reports.bytes += size + frame_bytes(size, masked=True)
        before = self.reported
        if not before or reported["slides"] < before["slides"]:
            # A new coordinator, or a new life of the site: its window would have to be pushed
            # first. What it counted before, it counted before this coordinator was there.
            before = reported
            self.naive.messages += 1
            self.naive.entries += reported["window_entries"]
            self.naive.bytes += reported["window_bytes"]
        for name in ("messages", "entries", "bytes"):
            grown = reported[f"naive_{name}"] - before[f"naive_{name}"]
            setattr(self.naive, name, getattr(self.naive, name) + max(0, grown))
        self.reported = reported


def totals(counts: Collection[SiteCounts]) -> dict[str, dict[str, int]]:
    """Sums over sites, by what is counted."""
    found = {}
    for name in ("up", "down", "reports", "naive"):
        parts = [getattr(each, name) for each in counts]
        found[name] = {
            what: sum(getattr(part, what) for part in parts)
            for what in ("messages", "entries", "bytes")
        }
    found["sent"] = {what: count + found["down"][what] for what, count in found["up"].items()}
    return found


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
        signed = _varint_bytes(np.where(values < 0, -2 * values - 1, 2 * values))
        size = self._name_bytes[rows].sum() + signed.sum() + counts.sum()
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


def _varint_bytes(values: np.ndarray) -> np.ndarray:
    bits = np.floor(np.log2(np.maximum(values, 1).astype(np.float64))).astype(np.int64) + 1
    return (bits + 6) // 7
