"""Ledgers of this process only, for notebooks and tests: SQLite in a file that goes with them."""

import fcntl
import os
import shutil
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path

from muntin.ledger.records import check_name
from muntin.ledger.sqlite import SqliteLedger

_PREFIX = "muntin-temporary-"
LEFT_SECONDS = 600  # a folder that is made now is not locked yet


class Folder:
    """A folder that is deleted when nobody holds it any more, or when the process ends; by the
    process that made it, not by a fork.

    That of a process which was killed is deleted by the next one that makes one: it is not locked.
    """

    def __init__(self) -> None:
        _swept()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._locked = _lock_of(self.path, os.O_CREAT)
        weakref.finalize(self, _delete, self.path, self._locked, os.getpid())


def _lock_of(folder: Path, flags: int = 0) -> int | None:
    """The folder's lock, held until it is closed; None where another process holds it."""
    try:
        number = os.open(folder / "lock", os.O_RDWR | flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    return number


def _delete(folder: Path, lock: int | None, process: int) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


@cache
def _swept() -> None:
    """Once a process: delete what processes have left that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > LEFT_SECONDS:
                lock = _lock_of(folder)
                if lock is not None:
                    _delete(folder, lock, os.getpid())


_kept: dict[str, Folder] = {}
_lock = threading.Lock()


class TemporaryLedger(SqliteLedger):
    """A ledger in a file of its own, which goes when nobody holds the ledger any more."""

    def __init__(self, folder: Folder | None = None, url: str = "memory://") -> None:
        self._folder = folder or Folder()
        super().__init__(self._folder.path / "ledger.db", synchronous="off", url=url)


def temporary(name: str = "") -> TemporaryLedger:
    """The ledger `memory://name`: the same name in one process is the same ledger. Without a name
    it is one of its own; those with a name stay until `forget`."""
    if not name:
        return TemporaryLedger()
    check_name(name, "ledger")
    with _lock:
        folder = _kept.setdefault(name, _kept.get(name) or Folder())
    return TemporaryLedger(folder, f"memory://{name}")


def forget(name: str) -> None:
    """Whoever opens `memory://name` next has a new ledger; those who hold the old one keep it."""
    with _lock:
        _kept.pop(name, None)
