"""The embedded ledger: one SQLite file with a write-ahead log.

Survives kill -9 of any process at any moment. Readers, in this and other processes, see whole
transactions and never block the writer. Tables: `schema.py`; guarantees: docs/ledger.md.
"""

import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from muntin.errors import LedgerError, MuntinError, UnknownName
from muntin.ledger import schema
from muntin.ledger.files import PayloadFolder, payload_folder
from muntin.ledger.records import WAITING_COMMANDS_MAX, Command, Mode, Stored, check_name
from muntin.ledger.rules import CLIENT_CHARACTERS_MAX, clean_text, dump
from muntin.ledger.sqlite_file import BUSY_SECONDS, SqliteFile, Synchronous
from muntin.ledger.sqlite_open import Opened, become_writer
from muntin.ledger.sqlite_view import STATE, View, home_of, in_memory
from muntin.ledger.sqlite_writer import Writer
from muntin.ledger.tables import Tables
from muntin.times import now_us

Outcome = TypeVar("Outcome")
POLL_SECONDS = 0.005


class SqliteLedger(View):
    """A durable table of pane summaries, in a SQLite file. Thread-safe.

    `path`: the file. It is made where it does not exist (`create`); its folder is not.
    `synchronous`: "normal": a committed batch survives kill -9 of every process, but power loss may
      take the last ones (the next batch is then refused, not lost in silence). "full": it survives
      power loss as well, for one more fsync a commit.
    `busy_seconds`: longest wait for another process's transaction.

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
        url: str | None = None,
        file: SqliteFile | None = None,
    ) -> None:
        self._file = file or SqliteFile(Path(path), synchronous, busy_seconds)
        self._writers: weakref.WeakSet[Writer] = weakref.WeakSet()
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
        self,
        pipeline: str,
        spec: Mapping[str, Any],
        *,
        query_id: str,
        mode: Mode = "continue",
        begins: int = 0,
    ) -> Writer:
        """Become the pipeline's writer: takes the next epoch, so that older writers are refused.

        `spec`: the pipeline as JSON; stored for readers. Its "summaries" (name -> {"kind", ...})
          and "queries" (by name) are what the pipeline owns in this ledger, its "pane_us" the
          length of a pane. What a newer spec leaves out stays readable.
        `mode`: "continue": only a query that fed the pipeline before may go on (or any, while there
          is no data). "error": refuse if there are data. "append": any query may add. "overwrite":
          delete the pipeline's data first, in the same transaction as the epoch.
        `begins`: the query's batch that comes next. With "append" this is kept, so that it goes on
          from there by "continue", though nothing comes now.

        Raises
        ------
        LedgerConflict
            Another query has fed this pipeline (names the remedies), there are data and mode is
            "error", a name belongs to another pipeline of this ledger, or the pane length or a
            summary's kind differs from that of the data.
        LedgerError
            The ledger is of a newer version, not a ledger, read-only or full.
        """

        def act(connection: Tables) -> Opened:
            opened = become_writer(connection, self.url, pipeline, spec, query_id, mode, begins)
            connection.grow_version()
            return opened

        connection = self._file.connect()
        try:
            opened = self._file.write(connection, act)
        except BaseException:
            connection.close()
            raise
        writer = Writer(self._file, self.url, connection, opened)
        self._writers.add(writer)
        return writer

    @contextmanager
    def snapshot(self, *, known: bool = False) -> Iterator[View]:
        """Several reads of one state: `with ledger.snapshot() as view: ...`. Keep it short.

        While it is open the write-ahead log cannot shrink. `known`: what `wait` has seen is new
        enough, so that no server is asked again.
        """
        with self._file.reader(known=known) as connection:
            state = connection.execute(STATE).fetchone()  # the moment is now
            view = View(self._place, partial(_shared, self._file, connection, threading.Lock()))
            view._behind, view._state = self.behind(), state
            yield view

    def follow(self) -> None:
        """See what others have committed, however long a store takes to answer: reads alone answer
        from what they know. Raises LedgerError: it does not answer within its deadline."""

    def wait(self, version: int, timeout: float) -> int:
        """Block until `version()` is another or `timeout` seconds passed; the version.

        It is lower where another ledger stands in this one's place. It polls, since the writer may
        be another process.
        """
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
        """Put a command into the control table (at most `WAITING_COMMANDS_MAX` may wait)."""
        check_name(action, "command")
        text = dump(arguments, "arguments of a command")
        client = clean_text(client, CLIENT_CHARACTERS_MAX)
        asked_at = now_us()

        def act(connection: Tables) -> int:
            known = {row[1]: row[0] for row in connection.rows(schema.PIPELINES, "ORDER BY name")}
            if pipeline not in known:
                raise UnknownName(
                    f"there is no pipeline {pipeline!r} in {self.url}; it has "
                    + (", ".join(known) or "none")
                )
            owner = known[pipeline]
            (waiting,) = connection.execute(
                "SELECT count(*) FROM commands WHERE pipeline = ? AND answer IS NULL", (owner,)
            ).fetchone()
            if waiting >= WAITING_COMMANDS_MAX:
                raise LedgerError(
                    f'{waiting} commands wait for pipeline "{pipeline}" already: is it running? '
                    "They are obeyed when it runs again"
                )
            identifier = connection.next_number(schema.COMMANDS)
            row = (identifier, owner, action, text, client, asked_at, None)
            connection.put_row(schema.COMMANDS, *row)
            connection.grow_version()
            return identifier

        identifier = self.write(act)
        return Command(identifier, pipeline, action, json.loads(text), client, asked_at)

    def payload_folder(self, pipeline: str, place: str = "") -> PayloadFolder:
        """Where payload files of a pipeline are written, by whoever does: it goes to executors.

        `place`: a folder, or a URL that fsspec knows; "": the ledger's own folder. Raises
        SpecError: the ledger has no folder of its own, or the URL cannot be used.
        """
        found = self._rows(schema.DOCUMENTS, "WHERE pipeline = 0 AND name = ?", (schema.FOLDERS,))
        number = int(found[0][2]) if found else self.generation()
        return payload_folder(home_of(self._place), place, pipeline, number)

    def touch(self) -> None:
        """Tell readers that there is news, of which the ledger itself knows nothing."""
        self.write(lambda connection: connection.grow_version())

    def reading(self) -> AbstractContextManager[Tables]:
        """A connection, in a transaction: for this package."""
        return self._file.reader()

    def write(self, act: Callable[[Tables], Outcome]) -> Outcome:
        """Run `act` in a transaction that no epoch fences: for this package."""
        with closing(self._file.connect()) as connection:
            return self._file.write(connection, act)

    def verify(self) -> list[str]:
        """Read everything and check it; what is damaged, one sentence each. First the file's
        structure (SQLite's own check), then every row."""
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
                found += self._lost(connection)
                statement = "SELECT 1 FROM names WHERE NOT EXISTS (SELECT 1 FROM pipelines)"
                if connection.execute(statement).fetchone():
                    found.append(f"{self._place}: a copy to it was interrupted: copy again")
                if not found:
                    connection.check_named()
        except MuntinError as problem:
            found.append(str(problem))
        return found

    def _lost(self, connection: Tables) -> Iterator[str]:
        """Pieces without a payload, which a store may have instead, and payloads without one."""
        gone = "SELECT id FROM pieces WHERE id NOT IN (SELECT piece FROM payloads) ORDER BY id"
        for (identifier,) in connection.execute(gone).fetchall():
            try:
                if not connection.payloads([identifier]):
                    yield f"{self._place}: the payload of piece {identifier} is missing"
            except LedgerError as problem:
                yield str(problem)
        gone = (
            "SELECT piece FROM payloads WHERE piece NOT IN (SELECT id FROM pieces) ORDER BY piece"
        )
        for (identifier,) in connection.execute(gone):
            yield f"{self._place}: piece {identifier} is missing, and its payload is there"

    def _damaged_rows(self, connection: Tables, table: schema.SqlTable) -> Iterator[str]:
        for row in connection.execute(f"SELECT {table.all_columns} FROM {table.name}"):  # noqa: S608
            try:
                opened = table.open_row(row, self._place)
                if opened and isinstance(opened[-1], Stored):
                    in_memory(self._place, opened[-1])
            except LedgerError as problem:
                yield str(problem)

    def backup(self, path: str | Path) -> None:
        """Write a copy to a new file, while the ledger is in use, with what payload files hold.

        Put back, it is another ledger to its readers: those who follow windows begin anew.

        Raises
        ------
        LedgerError
            The file exists already, the disk is full, or something is damaged.
        """
        from muntin.ledger.copying import copy_ledger

        if Path(path).exists():
            raise LedgerError(f"{path} exists already: give the backup a new name")
        try:
            with closing(SqliteLedger(path)) as made:
                copy_ledger(self, made)
                made.write(schema.begin_generation)
        except BaseException:
            for ending in ("", "-wal", "-shm"):  # what lacks a part is no copy
                Path(f"{path}{ending}").unlink(missing_ok=True)
            raise

    def close(self) -> None:
        """Let go of connections, writers' as well, and files; what reads or writes now is ended."""
        for writer in list(self._writers):
            writer.close()
        self._file.close()


@contextmanager
def _shared(file: SqliteFile, connection: Tables, lock: threading.Lock) -> Iterator[Tables]:
    """The connection of a snapshot, which several threads may read."""
    with lock, file.explained():
        yield connection
