"""Whether kernels are being compiled: a machine does it once, and whoever waits can see why."""

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from numba.core import event

PATIENCE_SECONDS = 1.0  # of compiling in this process, before a word is said
QUIET_SECONDS = 60.0
"""A command's processes compile at the same time: one of them says it, the others not again."""
_log = logging.getLogger("muntin")


class _CompileListener(event.Listener):
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
                if _first_to_say():
                    _log.warning("compiling kernels, once per machine: up to a minute more")


def _first_to_say() -> bool:
    """Whether none of the processes that share the cache has said it a moment ago."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        return True
    mark = Path(os.environ["NUMBA_CACHE_DIR"]) / "compiling"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        if time.time() - mark.stat().st_mtime < QUIET_SECONDS:
            return False
        os.utime(mark)
    except OSError:
        pass  # a cache that nothing can be written to
    return True


_watch = _CompileListener()
event.register("numba:compile", _watch)


def compiling() -> bool:
    """Whether a kernel is being compiled in this process now."""
    return _watch.running
