"""One process at a time compiles a kernel; the others wait, and load what it has kept.

A command has several processes that need the same kernels at its first start on a machine: the
server's, its workers, Spark's. Each would compile all of them, on cores that they share.

A process takes turns while it holds Numba's own lock, and for a kernel before those that it calls:
two never wait for each other.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

WAIT_SECONDS_MAX = 20.0
"""For a process that compiles or does not go on; then this one compiles too: slower, but right."""
LOOK_SECONDS = 0.02


class Turn:
    """A file's lock, from here to `end`; or none, where it cannot be had. `waited`: another process
    had it: there may be something to load."""

    def __init__(self, path: Path) -> None:
        self.waited = False
        self._file = -1
        with suppress(OSError):  # nothing can be kept either
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if self._file >= 0 and not self._taken():
            os.close(self._file)
            self._file = -1

    def _taken(self) -> bool:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.waited = True
                time.sleep(LOOK_SECONDS)
            except OSError:  # a file system without locks
                break
            else:
                return True
        return False

    def end(self) -> None:
        """The next one's turn: also where a fork has the file open."""
        if self._file >= 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1
