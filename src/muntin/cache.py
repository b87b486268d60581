"""What was made once and may be asked for again: as much of it as memory and time allow."""

import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """Values by name: those that were asked for the longest ago go. Thread-safe.

    What nobody has asked for in `kept_seconds` goes as well: windows pass, and nobody comes back
    for most of them.
    """

    def __init__(
        self,
        bytes_max: float = math.inf,
        kept_seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        entries_max: float = math.inf,
    ) -> None:
        self._bytes_max = bytes_max
        self._kept_seconds = kept_seconds
        self._clock = clock
        self._entries_max = entries_max
        self._bytes = 0
        self._entries: dict[Hashable, tuple[V, int, float]] = {}
        """In the order in which they were asked for last."""
        self._lock = threading.Lock()

    def get(self, name: Hashable) -> V | None:
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is None:
                return None
            self._entries[name] = (*entry[:2], self._clock())
            return entry[0]

    def put(self, name: Hashable, value: V, nbytes: int = 0) -> None:
        """Keep a value of so many bytes, unless it is larger than all may be."""
        if nbytes > self._bytes_max:
            return
        now = self._clock()
        with self._lock:
            self._drop(name)
            self._entries[name] = value, nbytes, now
            self._bytes += nbytes
            while self._entries:
                first = next(iter(self._entries))
                many = self._bytes > self._bytes_max or len(self._entries) > self._entries_max
                if not many and self._entries[first][2] >= now - self._kept_seconds:
                    return
                self._drop(first)

    def clear(self) -> None:
        with self._lock:
            for name in list(self._entries):
                self._drop(name)

    def _drop(self, name: Hashable) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._bytes -= entry[1]
