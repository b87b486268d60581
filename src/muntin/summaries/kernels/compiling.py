"""Whether kernels are being compiled: a machine does it once, and whoever waits can see why."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from numba.core import event

PATIENCE_SECONDS = 1.0
"""Of compiling in this process, before a word is said."""
_log = logging.getLogger("muntin")


class _Watch(event.Listener):
    """Hears of each kernel, and of those that it calls, in every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._since = 0.0
        self._spent = 0.0
        self._said = False

    @property
    def running(self) -> bool:
        return self._running > 0

    def on_start(self, event: Any) -> None:
        self._note(1)

    def on_end(self, event: Any) -> None:
        self._note(-1)

    def _note(self, more: int) -> None:
        with self._lock:
            now = time.monotonic()
            if self._running:
                self._spent += now - self._since
            self._running += more
            self._since = now
            if self._spent > PATIENCE_SECONDS and not self._said:
                self._said = True
                _log.warning("compiling kernels, once per machine: some seconds more")


_watch = _Watch()
event.register("numba:compile", _watch)


def compiling() -> bool:
    """Whether a kernel is being compiled in this process now."""
    return _watch.running
