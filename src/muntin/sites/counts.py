"""What was sent between sites and coordinator, against what pushing every change would cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muntin.topk.messages import Message, entries_in

_SMALL, _MEDIUM = 126, 1 << 16


@dataclass(slots=True)
class Traffic:
    """One direction of one site. Bytes are those of whole WebSocket frames, without TCP/IP."""

    messages: int = 0
    entries: int = 0
    bytes: int = 0

    def count(self, message: Message, size: int, *, masked: bool) -> None:
        """A message of `size` bytes."""
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
    reported: dict[str, Any] = field(default_factory=dict)
    """Its last report."""

    def report(self, reported: dict[str, Any], size: int) -> None:
        """A report of the site."""
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


def totals(counts: list[SiteCounts]) -> dict[str, dict[str, int]]:
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
