"""The writer of one pipeline in a SQLite ledger: every method is one fenced transaction."""

from __future__ import annotations

# ruff: noqa: S608  statements are joined from this module's own constants only
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from muntin.errors import BadArgument, LedgerError, UnknownName
from muntin.ledger import schema, sqlite_commit, sqlite_files, sqlite_pieces
from muntin.ledger.documents import (
    ASSEMBLER_BYTES_MAX,
    COMMAND_BYTES_MAX,
    FILL_BYTES_MAX,
    SPEC_BYTES_MAX,
    STATUS_BYTES_MAX,
    dump,
)
from muntin.ledger.files import PayloadFolder
from muntin.ledger.payload import pack
from muntin.ledger.records import (
    REVISIONS_KEPT_MAX,
    WAITING_COMMANDS_MAX,
    Batch,
    ClosedWindow,
    Made,
    Piece,
    TrendPoint,
)
from muntin.ledger.rules import (
    ROLE_QUERY,
    ROLE_SUMMARY,
    check_batch,
    check_query_id,
    check_summary,
    check_windows,
    fenced,
    payload_of_piece,
    read_spec,
    whole,
)
from muntin.ledger.sqlite_file import SqliteFile, checkpoint, transaction
from muntin.ledger.sqlite_open import (
    Opened,
    grow_version,
    next_id,
    note_dropped,
    store_spec,
)
from muntin.ledger.sqlite_view import read_rows

Record = dict[str, Any]
_DELETED_AT_ONCE = 200  # rows in one transaction of retention, so that others get their turn


class SqliteWriter:
    """A `Writer` on a connection of its own."""

    def __init__(
        self,
        file: SqliteFile,
        url: str,
        connection: sqlite3.Connection,
        opened: Opened,
        clock: Callable[[], int],
    ) -> None:
        self._file = file
        self._place = str(file.path)
        self._url = url
        self._connection = connection
        self._opened = opened
        self._owned = opened.owned
        self._identifiers = dict(opened.identifiers)
        self._clock = clock
        self._lock = threading.RLock()
        self._closed = False

    @property
    def epoch(self) -> int:
        return self._opened.epoch

    # Transactions

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise LedgerError(f"the writer of {self._url} was closed: open another")
            with self._file.explained():
                yield self._connection

    @contextmanager
    def _writing(self, *, grows: bool = True) -> Iterator[tuple[sqlite3.Connection, Record]]:
        """A transaction under this writer's epoch, with the pipeline's row."""
        with self._reading() as connection, transaction(connection):
            yield connection, self._fenced_record(connection)
            if grows:
                grow_version(connection)

    def _fenced_record(self, connection: sqlite3.Connection) -> Record:
        where = "WHERE id = ?"
        rows = read_rows(
            connection, self._place, schema.PIPELINES, where, (self._opened.identifier,)
        )
        if not rows:
            raise LedgerError(
                f'pipeline "{self._opened.pipeline}" is gone from {self._url}: was the file '
                "replaced? Start the pipeline again"
            )
        record = dict(zip(schema.PIPELINES.columns, rows[0], strict=True))
        if record["epoch"] != self._opened.epoch:
            raise fenced(self._opened.pipeline, self._opened.epoch, record["epoch"])
        return record

    def _summary(self, name: str) -> int:
        check_summary(name, self._owned, self._opened.pipeline)
        return self._identifiers[ROLE_SUMMARY, name]

    # Batches

    def last_batch(self, query_id: str) -> int | None:
        check_query_id(query_id)
        with self._reading() as connection:
            return sqlite_commit.newest_batch(
                connection, self._place, self._opened.identifier, query_id
            )

    def commit(self, batch: Batch) -> bool:
        batch = check_batch(batch, self._owned, self._opened.pipeline)
        prepared = sqlite_commit.prepare(batch, self._owned, self._identifiers)
        with self._reading() as connection, transaction(connection):
            record = self._fenced_record(connection)
            if not sqlite_commit.store(
                connection, self._place, self._opened, record, prepared, self._clock()
            ):
                return False
            grow_version(connection)
            return True

    def states(self, summary: str) -> dict[int, bytes]:
        identifier = self._summary(summary)
        with self._reading() as connection:
            rows = read_rows(
                connection, self._place, schema.STATES, "WHERE summary = ?", (identifier,)
            )
        return {shard: payload for _, shard, payload in rows}

    def set_spec(self, spec: Mapping[str, Any]) -> None:
        owned, text = read_spec(spec), dump(spec, "spec", SPEC_BYTES_MAX)
        with self._lock:
            with self._writing() as (connection, record):
                identifiers = store_spec(connection, self._url, record, text, owned)
            self._owned, self._identifiers = owned, identifiers

    # Pieces

    def compact(self, replaced: Sequence[Piece], made: Sequence[Made]) -> bool:
        if not replaced:
            return True
        identifier = self._summary(replaced[0].summary)
        made = _checked(made)
        with self._writing(grows=False) as (connection, _):
            return sqlite_pieces.compact(
                connection, self._place, identifier, replaced, made, self._clock()
            )

    def roll_up(
        self, summary: str, length: int, start: int, until: int, made: Sequence[Made]
    ) -> None:
        identifier = self._summary(summary)
        length, start = whole(length, "length"), whole(start, "start")
        until, made = whole(until, "until"), _checked(made)
        with self._writing(grows=False) as (connection, record):
            watermark = record["watermark"]
            if watermark is None or until > watermark:
                raise BadArgument(
                    f'rollups of "{summary}" up to {until}: only what is sealed is rolled up, and '
                    f"the watermark is {watermark}"
                )
            sqlite_pieces.roll_up(
                connection, self._place, identifier, self._owned.pane_us, (length, start, until),
                made,
            )  # fmt: skip

    def drop_before(self, summary: str, length: int, before: int) -> int:
        identifier = self._summary(summary)
        length, before = whole(length, "length"), whole(before, "before")
        with self._lock:
            with self._writing() as (connection, _):
                cut = sqlite_pieces.drop(
                    connection, self._place, identifier, self._owned.pane_us, length, before
                )
            if cut is None:
                return 0
            return self._delete_until(identifier, length, cut)

    def _delete_until(self, summary: int, length: int, until: int) -> int:
        """Delete pieces that end by a time, some at once; how many."""
        total = 0
        chosen = (
            "SELECT id FROM pieces WHERE summary = ? AND length = ? AND until <= ? "
            f"ORDER BY id LIMIT {_DELETED_AT_ONCE}"
        )
        while True:
            with self._writing() as (connection, _):
                found = connection.execute(chosen, (summary, length, until)).fetchall()
                sqlite_pieces.delete_pieces(connection, [i for (i,) in found], self._clock())
            total += len(found)
            if len(found) < _DELETED_AT_ONCE:
                return total

    def sweep(self, folder: PayloadFolder, before: int) -> int:
        before = whole(before, "before")
        with self._writing(grows=False) as (connection, _):  # fenced: another's files stay
            named, given_up = sqlite_files.files_of(
                connection, self._place, self._opened.identifier
            )
        deleted = folder.sweep(named, given_up, before)
        with self._writing(grows=False) as (connection, _):
            sqlite_files.forget_files(connection, self._opened.identifier, before)
        return deleted

    # Windows, trends, documents

    def close_windows(
        self,
        windows: Sequence[ClosedWindow],
        trends: Sequence[TrendPoint],
        assembler: Mapping[str, Any],
    ) -> None:
        windows, trends = check_windows(windows, trends, self._owned, self._opened.pipeline)
        body = dump(assembler, "assembler's state", ASSEMBLER_BYTES_MAX)
        closed = [
            schema.WINDOWS.seal_row(
                self._summary(window.summary), window.start, window.revision, window.end,
                window.reason, int(window.overflowed), window.events, window.late,
                dump(window.fill, "fill of a window", FILL_BYTES_MAX), window.closed_at,
            )
            for window in windows
        ]  # fmt: skip
        points = [
            schema.TRENDS.seal_row(
                self._identifiers[ROLE_QUERY, point.query], point.start, point.revision, point.end,
                packed=pack(point.result),
            )
            for point in trends
        ]  # fmt: skip
        with self._writing() as (connection, _):
            connection.executemany(schema.WINDOWS.insert, closed)
            number = next_id(connection, "closings")
            connection.executemany(  # one that replaces another of its revision is a new closing
                schema.CLOSINGS.insert,
                [schema.CLOSINGS.seal_row(n, *row[:3]) for n, row in enumerate(closed, number)],
            )
            connection.executemany(schema.TRENDS.insert, points)
            for table, owner, rows in (("windows", "summary", closed), ("trends", "query", points)):
                connection.executemany(
                    f"DELETE FROM {table} WHERE {owner} = ?1 AND start = ?2 AND revision <= "
                    f"(SELECT max(revision) FROM {table} WHERE {owner} = ?1 AND start = ?2) - ?3",
                    [(row[0], row[1], REVISIONS_KEPT_MAX) for row in rows if row[2]],
                )
            connection.executemany(
                "DELETE FROM closings WHERE summary = ?1 AND start = ?2 AND revision < "
                "(SELECT min(revision) FROM windows WHERE summary = ?1 AND start = ?2)",
                [(row[0], row[1]) for row in closed if row[2]],
            )
            self._store_document(connection, "assembler", body)

    def set_status(self, status: Mapping[str, Any]) -> None:
        body = dump(status, "status", STATUS_BYTES_MAX)
        with self._writing() as (connection, _):
            self._store_document(connection, "status", body)

    def _store_document(self, connection: sqlite3.Connection, name: str, body: str) -> None:
        row = schema.DOCUMENTS.seal_row(self._opened.identifier, name, body)
        connection.execute(schema.DOCUMENTS.insert, row)

    def answer(self, command: int, answer: Mapping[str, Any]) -> None:
        body = dump(answer, "answer to a command", COMMAND_BYTES_MAX)
        command = whole(command, "command")
        mine = self._opened.identifier
        with self._writing() as (connection, _):
            rows = read_rows(
                connection, self._place, schema.COMMANDS,
                "WHERE id = ? AND pipeline = ?", (command, mine),
            )  # fmt: skip
            if not rows:
                raise UnknownName(
                    f'pipeline "{self._opened.pipeline}" was not asked command {command!r}; see '
                    "Ledger.commands"
                )
            row = schema.COMMANDS.seal_row(*rows[0][:-1], body)
            connection.execute(schema.COMMANDS.insert, row)
            connection.execute(
                "DELETE FROM commands WHERE pipeline = ?1 AND answer IS NOT NULL AND id < "
                "(SELECT id FROM commands WHERE pipeline = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                (mine, WAITING_COMMANDS_MAX - 1),
            )

    def drop_history_before(self, before: int) -> int:
        before = whole(before, "before")
        mine = self._opened.identifier
        of_names = "(SELECT id FROM names WHERE pipeline = ?)"
        ended = (
            "WHERE (summary, start, revision) IN (SELECT summary, start, revision FROM windows "
            f"WHERE summary IN {of_names} AND until <= ?)"
        )
        with self._writing() as (connection, _):
            note_dropped(connection, ended, (mine, before))
            connection.execute(f"DELETE FROM closings {ended}", (mine, before))
            return sum(
                connection.execute(statement, (mine, before)).rowcount
                for statement in (
                    f"DELETE FROM windows WHERE summary IN {of_names} AND until <= ?",
                    f"DELETE FROM trends WHERE query IN {of_names} AND until <= ?",
                    "DELETE FROM rejected WHERE pipeline = ? AND committed_at <= ?",
                )
            )

    def close(self) -> None:
        """Close the connection; what was committed stays, and the epoch stays taken."""
        with self._lock:
            if not self._closed:
                self._closed = True
                checkpoint(self._connection)
                self._connection.close()


def _checked(made: Sequence[Made]) -> list[Made]:
    return [
        Made(piece.slices, payload_of_piece(piece.payload, "the payload of a piece"), piece.shard)
        for piece in made
    ]
