"""A ledger as SELECT sees it: the way from what it holds now to one moment of it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from muntin.ledger.base import Ledger, View
from muntin.reading.liveness import Hearing
from muntin.reading.moment import LedgerMoment
from muntin.reading.pieces import CACHE_BYTES, SegmentCache
from muntin.reading.snapshot import Snapshot
from muntin.times import now_us


class LedgerCatalog:
    """Thread-safe; gives moments of what the ledger holds. `clock`: wall clock, microseconds:
    whether an answer is stale. `cache_bytes`: what merged summaries may hold, a quarter of it those
    of the newest version."""

    def __init__(
        self, ledger: Ledger, clock: Callable[[], int] = now_us, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._kept_bytes = cache_bytes // 4
        self._cache = SegmentCache(cache_bytes - self._kept_bytes)
        self.hearing = Hearing()
        self._newest: Snapshot | None = None
        self._lock = threading.Lock()

    @contextmanager
    def moment(self, *, known: bool = False) -> Iterator[LedgerMoment]:
        """The ledger as it is now: all that is read is of one of its versions. `known`: as it was
        when one last waited for it, see `Ledger.snapshot`."""
        with self._ledger.snapshot(known=known) as view:
            snapshot = self._newest
            if snapshot is None or snapshot.version != view.state():
                snapshot = self._snapshot(view, snapshot)
                with self._lock:  # one for all who read this version
                    newest = self._newest
                    if newest is not None and newest.version == snapshot.version:
                        snapshot = newest
                    self._newest = snapshot
            yield LedgerMoment(view, snapshot, self._cache, self.hearing, self._clock())

    def _snapshot(self, view: View, before: Snapshot | None) -> Snapshot:
        return Snapshot.read(view, before, self._kept_bytes)
