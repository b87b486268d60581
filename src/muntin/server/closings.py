"""Which windows have closed since one last looked, in the order of their places."""

from __future__ import annotations

from muntin.ledger.base import Ledger
from muntin.ledger.records import ClosedWindow
from muntin.server.channel import BEGINNING, Place

OVERLAP_US = 2_000_000  # a wall clock may step back so far without a window being passed over
CLOSED_AT_ONCE_MAX = 100_000

Closing = tuple[Place, ClosedWindow]


class Closings:
    """Reads new closings. One thread at a time.

    Attributes
    ----------
    head : Place
        The newest that was returned; places that are returned only grow.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen: dict[tuple[str, int, int], int] = {}
        self.head: Place = BEGINNING

    def begin(self) -> None:
        """What has closed before this is not new."""
        newest = self._ledger.windows(limit=64, newest_first=True)
        last = max((w.closed_at for w in newest), default=0)
        recent = self._ledger.windows(since=last - OVERLAP_US, limit=CLOSED_AT_ONCE_MAX)
        for window in recent:
            self._seen[_key(window)] = window.closed_at
            self.head = max(self.head, Place.of(window))

    def read(self) -> list[Closing]:
        """New windows and new revisions, oldest closing first."""
        since = self.head.closed_at - OVERLAP_US
        found = self._ledger.windows(since=since, limit=CLOSED_AT_ONCE_MAX)
        new = sorted((w for w in found if _key(w) not in self._seen), key=Place.of)
        closings = []
        for window in new:
            self._seen[_key(window)] = window.closed_at
            place = Place.of(window)
            if place <= self.head:  # the clock stepped back, or two closed in one microsecond
                place = place._replace(closed_at=self.head.closed_at + 1)
            self.head = place
            closings.append((place, window))
        self._seen = {k: at for k, at in self._seen.items() if at >= since - OVERLAP_US}
        return closings


def _key(window: ClosedWindow) -> tuple[str, int, int]:
    return window.summary, window.start, window.revision
