"""Ledgers of this process only, for notebooks and tests: SQLite in a file that goes with them."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from pathlib import Path

from muntin.ledger.names import check_name
from muntin.ledger.sqlite import SqliteLedger


class Folder:
    """A folder that is deleted when nobody holds it any more, or when the process ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="muntin-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


_kept: dict[str, Folder] = {}
_lock = threading.Lock()


class TemporaryLedger(SqliteLedger):
    """A ledger in a file of its own, which goes when nobody holds the ledger any more."""

    def __init__(self, folder: Folder | None = None, url: str = "memory://") -> None:
        self._folder = folder or Folder()
        super().__init__(self._folder.path / "ledger.db", synchronous="off", url=url)


def temporary(name: str = "") -> TemporaryLedger:
    """The ledger `memory://name`: the same name in one process is the same ledger.

    Without a name it is one of its own; those with a name stay until `forget`.
    """
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
