"""Events a second of each pipeline: one rate, by its commits, whoever looks and how often."""

from __future__ import annotations

import threading
from collections import deque

from muntin.times import US_PER_SECOND

RATE_US = 10 * US_PER_SECOND  # a rate is an average over so long, or from one commit to the next


class Rates:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commits: dict[str, deque[tuple[int, int]]] = {}

    def of(self, pipeline: str, committed_at: int | None, read: int, now_us: int) -> float | None:
        """Events a second of wall clock; None until two commits were seen.

        Parameters
        ----------
        committed_at : int or None
            When the newest commit was, in microseconds since 1970 UTC.
        read : int
            Events read by then, since the pipeline's beginning.
        now_us : int
            Where nothing was committed for three times as long as between commits (and ten
            seconds at least), nothing comes: 0.
        """
        if committed_at is None:
            return None
        with self._lock:
            commits = self._commits.setdefault(pipeline, deque())
            at, count = commits[-1] if commits else (-1, -1)
            if committed_at > at or read > count:  # else known, or older than another thread's
                if committed_at <= at or read < count:
                    commits.clear()  # a clock that went back, or a pipeline begun anew
                commits.append((committed_at, read))
            while len(commits) > 2 and commits[1][0] <= commits[-1][0] - RATE_US:
                commits.popleft()
            (begin, before), (end, after) = commits[0], commits[-1]
            gaps = len(commits) - 1
        if not gaps:
            return None
        if now_us - end > max(RATE_US, 3 * (end - begin) // gaps):
            return 0.0
        return round((after - before) / (end - begin) * US_PER_SECOND, 1)
