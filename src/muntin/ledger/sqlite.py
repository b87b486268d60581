"""The embedded ledger: one SQLite file with a write-ahead log.

Survives kill -9 of any process at any moment. Readers, in this and other processes, see whole
transactions and never block the writer. Tables: `schema.py`; guarantees: docs/ledger.md.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from muntin.errors import LedgerError, MuntinError
from muntin.ledger import schema
from muntin.ledger.base import Mode
from muntin.ledger.documents import COMMAND_BYTES_MAX, clean_text, dump
from muntin.ledger.files import PayloadFolder, payload_folder
from muntin.ledger.names import check_name
from muntin.ledger.records import Command, Stored
from muntin.ledger.rules import CLIENT_CHARACTERS_MAX, check_waiting, unknown_pipeline
from muntin.ledger.sqlite_file import BUSY_SECONDS, SqliteFile, Synchronous
from muntin.ledger.sqlite_files import bring_files
from muntin.ledger.sqlite_open import Opened, become_writer
from muntin.ledger.sqlite_view import SqliteView, home_of, in_memory
from muntin.ledger.sqlite_writer import SqliteWriter
from muntin.ledger.tables import Tables

Outcome = TypeVar("Outcome")
POLL_SECONDS = 0.005


def wall_clock_us() -> int:
    return time.time_ns() // 1000


class SqliteLedger(SqliteView):
    """A `Ledger` in a SQLite file.

    Parameters
    ----------
    path : path
        The file. It is made where it does not exist (`create`); its folder is not.
    synchronous : {"normal", "full"}
        "normal": a committed batch survives kill -9 of every process, but power loss may take the
        last ones (the next batch is then refused, not lost in silence). "full": it survives power
        loss as well, for one more fsync a commit.
    busy_seconds : float
        Longest wait for another process's transaction.
    clock : callable
        Wall clock in microseconds, for `committed_at` and `asked_at`.

    Raises
    ------
    LedgerError
        The file is not a ledger, of a newer version, or cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        synchronous: Synchronous = "normal",
        busy_seconds: float = BUSY_SECONDS,
        clock: Callable[[], int] = wall_clock_us,
        url: str | None = None,
        file: SqliteFile | None = None,
    ) -> None:
        self._file = file or SqliteFile(Path(path), synchronous, busy_seconds)
        self._clock = clock
        self._writers: weakref.WeakSet[SqliteWriter] = weakref.WeakSet()
        self._file.prepare(create=create)
        self.url = url or f"sqlite:///{self._file.path}"
        super().__init__(self._file.place, self._file.reader)

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def address(self) -> str:
        """The URL that opens it from another process, with all that it needs: not to be shown."""
        return f"sqlite:///{quote(str(self.path.absolute()))}"

    def open_writer(
        self, pipeline: str, spec: Mapping[str, Any], *, query_id: str, mode: Mode = "continue"
    ) -> SqliteWriter:
        def act(connection: Tables) -> Opened:
            opened = become_writer(connection, self.url, pipeline, spec, query_id, mode)
            connection.grow_version()
            return opened

        connection = self._file.connect()
        try:
            opened = self._file.write(connection, act)
        except BaseException:
            connection.close()
            raise
        writer = SqliteWriter(self._file, self.url, connection, opened, self._clock)
        self._writers.add(writer)
        return writer

    @contextmanager
    def snapshot(self, *, known: bool = False) -> Iterator[SqliteView]:
        """Reads of one moment. While it is open the write-ahead log cannot shrink."""
        lock = threading.Lock()
        with self._file.reader(known=known) as connection:
            connection.execute("SELECT version FROM meta").fetchone()  # the moment is now

            @contextmanager
            def same() -> Iterator[Tables]:
                with lock, self._file.explained():
                    yield connection

            view = SqliteView(self._place, same)
            view._behind = self.behind()
            yield view

    def wait(self, version: int, timeout: float) -> int:
        """As in the contract; polls, since the writer may be another process."""
        deadline = time.monotonic() + timeout
        with self._file.lent() as connection:
            while True:
                (state,) = connection.execute("PRAGMA data_version").fetchone()
                (found,) = connection.execute("SELECT version FROM meta").fetchone()
                # PRAGMA data_version is one read of shared memory where nothing changed
                while connection.execute("PRAGMA data_version").fetchone()[0] == state:
                    left = deadline - time.monotonic()
                    if found != version or left <= 0:
                        return found
                    self._file.check_open()
                    time.sleep(min(POLL_SECONDS, left))

    def ask(
        self, pipeline: str, action: str, arguments: Mapping[str, Any], *, client: str = ""
    ) -> Command:
        check_name(action, "command")
        text = dump(arguments, "arguments of a command", COMMAND_BYTES_MAX)
        client = clean_text(client, CLIENT_CHARACTERS_MAX)
        asked_at = self._clock()

        def act(connection: Tables) -> int:
            owner = self._pipeline_id(connection, pipeline)
            (waiting,) = connection.execute(
                "SELECT count(*) FROM commands WHERE pipeline = ? AND answer IS NULL", (owner,)
            ).fetchone()
            check_waiting(waiting, pipeline)
            identifier = connection.next_id(schema.COMMANDS)
            row = (identifier, owner, action, text, client, asked_at, None)
            connection.put(schema.COMMANDS, [schema.COMMANDS.seal_row(*row)])
            connection.grow_version()
            return identifier

        identifier = self.write(act)
        return Command(identifier, pipeline, action, json.loads(text), client, asked_at)

    def payload_folder(self, pipeline: str, place: str = "") -> PayloadFolder:
        return payload_folder(home_of(self._place), place, pipeline, self.generation())

    def touch(self) -> None:
        """Tell readers that there is news, of which the ledger itself knows nothing."""
        self.write(lambda connection: connection.grow_version())

    def reading(self) -> AbstractContextManager[Tables]:
        """A connection, in a transaction: for this package."""
        return self._file.reader()

    def write(self, act: Callable[[Tables], Outcome]) -> Outcome:
        """Run `act` in a transaction that no epoch fences: for this package."""
        connection = self._file.connect()
        try:
            return self._file.write(connection, act)
        finally:
            connection.close()

    def _pipeline_id(self, connection: Tables, pipeline: str) -> int:
        rows = connection.rows(schema.PIPELINES, "ORDER BY name")
        known = {row[1]: row[0] for row in rows}
        if pipeline not in known:
            raise unknown_pipeline(pipeline, self.url, known)
        return known[pipeline]

    def verify(self) -> list[str]:
        """As in the contract: the file's structure (SQLite's own check), then every row."""
        found: list[str] = []
        try:
            with self._file.reader() as connection:
                found += [
                    f"{self._place}: {line}"
                    for (line,) in connection.execute("PRAGMA integrity_check")
                    if line != "ok"
                ]
                for table in schema.TABLES:
                    found += self._damaged_rows(connection, table)
        except MuntinError as problem:
            found.append(str(problem))
        return found

    def _damaged_rows(self, connection: Tables, table: schema.Table) -> Iterator[str]:
        for row in connection.execute(f"SELECT {table.all_columns} FROM {table.name}"):  # noqa: S608
            try:
                opened = table.open_row(row, self._place)
                if opened and isinstance(opened[-1], Stored):
                    in_memory(self._place, opened[-1])
            except LedgerError as problem:
                yield str(problem)

    def backup(self, path: str | Path) -> None:
        """Write a compact copy to a new file, while the ledger is in use; payload files as well.

        Put back, it is another ledger to its readers: those who follow windows begin anew.

        Raises
        ------
        LedgerError
            The file exists already, or the disk is full.
        """
        target = Path(path)
        if target.exists():
            raise LedgerError(f"{target} exists already: give the backup a new name")
        connection = self._file.connect()
        try:
            with self._file.explained():
                connection.execute("VACUUM INTO ?", (str(target),))
        finally:
            connection.close()
        with self._file.explained(), closing(sqlite3.connect(target)) as copy, copy:
            schema.begin_generation(copy)
        try:
            bring_files(self._file.path, target)
        except BaseException:
            target.unlink()  # a copy that lacks files is none
            raise

    def close(self) -> None:
        """Close the connections of this object, its writers' as well."""
        for writer in list(self._writers):
            writer.close()
        self._file.close()
