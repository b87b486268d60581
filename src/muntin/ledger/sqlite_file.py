"""One SQLite file: connections to it, transactions, and what its errors mean."""

import os
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from muntin.errors import LedgerConflict, LedgerError, LedgerMissing
from muntin.ledger import schema
from muntin.ledger.tables import Tables

Outcome = TypeVar("Outcome")
Synchronous = Literal["off", "normal", "full"]
BUSY_SECONDS = 10.0  # longest that a writer waits for another's transaction
IDLE_CONNECTIONS_MAX = 8
JOURNAL_BYTES_MAX = 64 << 20  # the WAL is cut to this after a checkpoint
SQLITE_OLDEST = (3, 37, 0)  # the first with STRICT tables


@dataclass(slots=True)
class SqliteFile:
    """Where a ledger is, and how to connect to it. Thread-safe."""

    path: Path
    synchronous: Synchronous = "normal"
    busy_seconds: float = BUSY_SECONDS
    _idle: list[Tables] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: int = 0
    _identity: tuple[int, int] | None = None  # of the file that the idle connections are of
    _closed: bool = False
    losses: int = 0  # how often what had been committed was found to be gone

    @property
    def place(self) -> str:
        """What errors name."""
        return str(self.path)

    @property
    def where(self) -> str:
        """What is told with an error of SQLite."""
        return self.place

    def prepare(self, *, create: bool) -> None:
        """Check that the file is a ledger of this version; make it where there is none."""
        if sqlite3.sqlite_version_info < SQLITE_OLDEST:
            raise LedgerError(
                f"Python's SQLite is {sqlite3.sqlite_version}; a ledger needs 3.37 or newer: use a "
                "newer Python"
            )
        self._check_path(create)
        with self.explained(), closing(self._raw_connection()) as connection:
            with one_state(connection):  # else one that is being made is half a ledger
                made = schema.state_of(connection, str(self.path))
            if not made:
                if not create:
                    raise LedgerMissing(
                        f"{self.path} is empty, not a ledger yet: correct the path, or start the "
                        "pipeline that writes it"
                    )
                connection.execute(f"PRAGMA page_size = {schema.PAGE_BYTES}")
                with transaction(connection):  # another process may do the same: the second
                    if not schema.state_of(connection, str(self.path)):  # finds it made
                        schema.create(connection)
            self._settle(connection)

    def _check_path(self, create: bool) -> None:
        if self.path.is_dir():
            raise LedgerError(f"{self.path} is a folder; a ledger is a file: add a file name")
        if not self.path.parent.is_dir():
            raise LedgerError(
                f"the folder {self.path.parent} of ledger {self.path.name} does not exist: make "
                "it, or correct the ledger's path"
            )
        if not create and not self.path.exists():
            raise LedgerMissing(f"there is no ledger at {self.path}: correct the path")

    def _settle(self, connection: Tables) -> None:
        """Switch to WAL. SQLite does not wait for a lock here, so this does."""
        deadline = time.monotonic() + self.busy_seconds
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as problem:
                busy = _name_of(problem).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
                continue
            if mode != "wal":
                raise LedgerError(
                    f"{self.path}: SQLite cannot keep a write-ahead log here (journal mode {mode});"
                    " put the ledger on a local disk, not on a network file system"
                )
            return

    def connect(self) -> Tables:
        """A new connection, set up. The caller closes it."""
        self.check_open()
        with self.explained():
            if not self.path.exists():  # connecting would make an empty file
                raise LedgerError(f"the ledger {self.path} is gone: was it moved or deleted?")
            identity = self._look()
            connection = self._raw_connection()
            connection.identity = identity
            try:
                connection.execute(f"PRAGMA synchronous = {self.synchronous}")
                connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES_MAX}")
                connection.execute("PRAGMA secure_delete = OFF")
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA temp_store = MEMORY")
            except BaseException:
                connection.close()
                raise
            return connection

    def _raw_connection(self) -> Tables:
        connection = sqlite3.connect(
            self.path, timeout=self.busy_seconds, isolation_level=None, check_same_thread=False,
            factory=Tables,
        )  # fmt: skip
        connection.place = self.place
        return connection

    def write(self, connection: Tables, act: Callable[[Tables], Outcome]) -> Outcome:
        """Run `act` in a transaction of a connection."""
        if connection.identity != self._look():  # it would go into a file that nobody reads
            raise LedgerConflict(
                f"the ledger {self.path} is not the file any more that this process has opened: it "
                "was moved, deleted or replaced; nothing was stored: start again"
            )
        with self.explained(), transaction(connection):
            return act(connection)

    @contextmanager
    def reader(self, *, known: bool = False) -> Iterator[Tables]:  # noqa: ARG002
        """A connection from the pool, for reading only, in a transaction."""
        with self.lent() as connection, one_state(connection):
            yield connection

    @contextmanager
    def lent(self) -> Iterator[Tables]:
        """A connection from the pool, for reading only."""
        self.check_open()
        identity = self._look()
        connection = self._take(identity)
        try:
            with self.explained():
                yield connection
        except BaseException:
            connection.close()
            raise
        self._give_back(connection, identity)

    def _look(self) -> tuple[int, int] | None:
        """Which file is there now: it may have been deleted and made anew."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _take(self, identity: tuple[int, int] | None) -> Tables:
        with self._lock:
            if self._process != os.getpid():  # a fork must not use its parent's connections
                self._idle, self._process = [], os.getpid()
            if self._identity != identity:
                for connection in self._idle:
                    connection.close()
                self._idle, self._identity = [], identity
            if self._idle:
                return self._idle.pop()
        connection = self.connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _give_back(self, connection: Tables, identity: tuple[int, int] | None) -> None:
        with self._lock:
            known = not self._closed and self._identity == identity
            if known and len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def check_open(self) -> None:
        if self._closed:
            raise LedgerError(f"the ledger {self.place} was closed: open it again")

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        if self._process == os.getpid():
            for connection in idle:
                connection.close()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn SQLite's errors into LedgerError, with the file and the remedy."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as problem:
            of_sqlite = isinstance(problem, (sqlite3.Error, sqlite3.Warning))
            if not of_sqlite and not _of_ledger(problem):
                raise  # what reads a state may fail on its own: a window then, not the ledger
            raise LedgerError(f"{self.where}: {_remedy(problem, self.busy_seconds)}") from problem


def checkpoint(connection: Tables) -> None:
    """Bring all of the write-ahead log into the file, and empty it: a copy of the file is whole. As
    far as readers let it; another time where they do not."""
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 2000")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def transaction(connection: Tables) -> Iterator[None]:
    """A write transaction: the lock is taken at once, so that it cannot fail half-way for it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


@contextmanager
def one_state(connection: Tables) -> Iterator[None]:
    """A read transaction: all that is read in it is of the moment of its first read."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(connection)


def roll_back(connection: Tables) -> None:
    if connection.in_transaction:  # after a full disk SQLite may have rolled back itself
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _name_of(problem: BaseException) -> str:
    return getattr(problem, "sqlite_errorname", None) or ""


def _remedy(problem: BaseException, busy_seconds: float) -> str:
    if isinstance(problem, UnicodeDecodeError):  # sqlite3 decodes names and messages itself
        return f"{_DAMAGED} (text in it is not UTF-8)"
    name = _name_of(problem)
    for prefix, remedy in _REMEDIES.items():
        if name.startswith(prefix):
            return f"{remedy.format(seconds=busy_seconds)} ({problem}, {name})"
    return f"SQLite says: {problem}" + (f" ({name})" if name else "")


_DAMAGED = (
    "the file is damaged; restore it from a backup, or delete it and run again from the source"
)
_REMEDIES = {
    "SQLITE_FULL": "the disk is full; what was committed stays: free space, then start again",
    "SQLITE_IOERR": (
        "the disk refused to read or write; what was committed stays: look for a full disk, a "
        "quota or a file size limit, then start again"
    ),
    "SQLITE_READONLY": (
        "the file or its folder is read-only; a ledger needs to write beside its file even for "
        "reading: change the permissions, or copy the ledger to a folder of your own"
    ),
    "SQLITE_CANTOPEN": (
        "the file cannot be opened; check that the path exists, that this process may open more "
        "files (ulimit -n), and that this user may read and write the file and its folder: a "
        "ledger needs to write beside its file even for reading, so on a disk that is read-only "
        "copy it to a folder of your own"
    ),
    "SQLITE_PERM": "this user may not open the file; change its permissions",
    "SQLITE_BUSY": (
        "another process locked the ledger for more than {seconds:g} seconds; look which one, or "
        "try again"
    ),
    "SQLITE_LOCKED": "another connection locked the ledger; try again",
    "SQLITE_NOTADB": "the file is not a ledger (not a SQLite database); correct the path",
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_FORMAT": _DAMAGED,
    "SQLITE_TOOBIG": "a payload is larger than SQLite takes; use shorter panes",
    "SQLITE_NOMEM": "memory is exhausted; give the process more, or use shorter panes",
}


def _of_ledger(problem: BaseException) -> bool:
    """Whether the ledger's own code met it, not what is done with a state that it gave."""
    frames = traceback.walk_tb(problem.__traceback__)
    modules = [frame.f_globals.get("__name__", "") for frame, _ in frames]
    met = [name for name in modules if name.partition(".")[0] != "json"]
    return met[-1].startswith("muntin.ledger.")
