"""The tables of a SQLite ledger: how they are made, and how rows are sealed and checked.

Each table's last column is the row's checksum (`payload.checksum`). Tables with a payload have
`size, codec, crc, payload` at their end instead.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.errors import LedgerError
from muntin.ledger.payload import checksum, unpack
from muntin.ledger.records import FORMAT_VERSION

APPLICATION_ID = 0x4D4E544E  # "MNTN"
PAGE_BYTES = 8192  # a compressed summary of a few KB fits into one page

_TABLES = """
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0,
    closings_dropped INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, 0);

CREATE TABLE pipelines (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    spec TEXT NOT NULL,
    pane_us INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    query_id TEXT,
    watermark INTEGER,
    max_event_time INTEGER,
    batches INTEGER NOT NULL,
    read INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    late INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    rejected_number INTEGER NOT NULL,
    committed_at INTEGER,
    crc INTEGER NOT NULL
) STRICT;

CREATE TABLE names (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    pipeline INTEGER NOT NULL,
    kind TEXT NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (role, name)
) STRICT;

-- Ranges of committed batches: first ... last.
CREATE TABLE batches (
    pipeline INTEGER NOT NULL,
    query_id TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (pipeline, query_id, first)
) STRICT, WITHOUT ROWID;

-- A piece without its payload: which slices it holds is in `payload` (slices.py), its bytes are in
-- `payloads`, so that what is stored can be looked up without reading it.
CREATE TABLE pieces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    summary INTEGER NOT NULL,
    length INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    start INTEGER NOT NULL,
    until INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    size INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    payload BLOB NOT NULL
) STRICT;
CREATE INDEX pieces_by_slice ON pieces (summary, length, start, until);

CREATE TABLE payloads (
    piece INTEGER PRIMARY KEY,
    size INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    payload BLOB NOT NULL
) STRICT;

CREATE INDEX payloads_in_files ON payloads (piece) WHERE codec = 2;

-- Payload files whose last row has gone: readers of older snapshots may still want them.
CREATE TABLE given_up (
    pipeline INTEGER NOT NULL,
    path TEXT NOT NULL,
    at INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (pipeline, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE states (
    summary INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    size INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (summary, shard)
) STRICT;

CREATE TABLE coverage (
    summary INTEGER NOT NULL,
    length INTEGER NOT NULL,
    start INTEGER NOT NULL,
    until INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (summary, length)
) STRICT, WITHOUT ROWID;

CREATE TABLE dropped (
    summary INTEGER NOT NULL,
    length INTEGER NOT NULL,
    before INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (summary, length)
) STRICT, WITHOUT ROWID;

CREATE TABLE windows (
    summary INTEGER NOT NULL,
    start INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    until INTEGER NOT NULL,
    reason TEXT NOT NULL,
    overflowed INTEGER NOT NULL,
    events INTEGER NOT NULL,
    late INTEGER NOT NULL,
    fill TEXT NOT NULL,
    closed_at INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (summary, start, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE trends (
    query INTEGER NOT NULL,
    start INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    until INTEGER NOT NULL,
    size INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (query, start, revision)
) STRICT;

-- "assembler", "status" and "alerts" of each pipeline.
CREATE TABLE documents (
    pipeline INTEGER NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (pipeline, name)
) STRICT;

CREATE TABLE rejected (
    pipeline INTEGER NOT NULL,
    number INTEGER NOT NULL,
    committed_at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    place TEXT NOT NULL,
    size INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (pipeline, number)
) STRICT;

CREATE TABLE commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline INTEGER NOT NULL,
    action TEXT NOT NULL,
    arguments TEXT NOT NULL,
    client TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    answer TEXT,
    crc INTEGER NOT NULL
) STRICT;
CREATE INDEX commands_by_pipeline ON commands (pipeline, id);

-- Which windows were stored, in order: numbers are never used again.
CREATE TABLE closings (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    summary INTEGER NOT NULL,
    start INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (summary, start, revision)
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table's columns in order, and the SQL that follows from them."""

    name: str
    columns: tuple[str, ...]
    """Without what seals the row."""
    payload: bool = False
    keys: int = 1
    """The first columns are the row's key."""

    @property
    def all_columns(self) -> str:
        """What to select so that `open_row` can check it."""
        return ", ".join((*self.columns, *_SEAL[self.payload]))

    @property
    def insert(self) -> str:
        places = ", ".join("?" * (len(self.columns) + len(_SEAL[self.payload])))
        return f"INSERT OR REPLACE INTO {self.name} ({self.all_columns}) VALUES ({places})"  # noqa: S608

    def seal_row(
        self, *values: int | str | None, packed: tuple[int, int, bytes] | None = None
    ) -> tuple[Any, ...]:
        """The row to insert. `packed` is what `payload.pack` returned."""
        if packed is None:
            return (*values, checksum(values))
        size, codec, stored = packed
        return (*values, size, codec, checksum((*values, size, codec), stored), stored)

    def open_row(self, row: Sequence[Any], place: str) -> tuple[Any, ...]:
        """The values of a row (with its payload at the end), or LedgerError if it is damaged."""
        if not self.payload:
            values, crc, stored = tuple(row[:-1]), row[-1], b""
        else:
            values, crc, stored = tuple(row[:-2]), row[-2], row[-1]
        try:
            sound = checksum(values, stored) == crc
        except TypeError:  # damage made a value of another type
            sound = False
        if not sound:
            raise self._damaged(row, place, "its checksum does not match")
        if not self.payload:
            return values
        *values, size, codec = values
        try:
            return (*values, unpack(size, codec, stored))
        except LedgerError as problem:
            raise self._damaged(row, place, str(problem)) from None

    def _damaged(self, row: Sequence[Any], place: str, why: str) -> LedgerError:
        key = ", ".join(
            f"{column} {ascii(value)[:60]}"
            for column, value in zip(self.columns[:3], row, strict=False)
        )
        return LedgerError(
            f"{place}: the row of table {self.name} with {key} is damaged ({why}); restore the "
            "ledger from a backup, or run the pipeline again over its source"
        )


_SEAL = {False: ("crc",), True: ("size", "codec", "crc", "payload")}
PIPELINES = Table(
    "pipelines",
    (
        "id", "name", "spec", "pane_us", "epoch", "query_id", "watermark", "max_event_time",
        "batches", "read", "counted", "late", "rejected", "rejected_number", "committed_at",
    ),
)  # fmt: skip
NAMES = Table("names", ("id", "role", "name", "pipeline", "kind"))
BATCHES = Table("batches", ("pipeline", "query_id", "first", "last"), keys=3)
PIECES = Table("pieces", ("id", "summary", "length", "shard", "start", "until", "bytes"), True)
PAYLOADS = Table("payloads", ("piece",), True)
GIVEN_UP = Table("given_up", ("pipeline", "path", "at"), keys=2)
STATES = Table("states", ("summary", "shard"), True, keys=2)
COVERAGE = Table("coverage", ("summary", "length", "start", "until"), keys=2)
DROPPED = Table("dropped", ("summary", "length", "before"), keys=2)
WINDOWS = Table(
    "windows",
    (
        "summary", "start", "revision", "until", "reason", "overflowed", "events", "late",
        "fill", "closed_at",
    ),
    keys=3,
)  # fmt: skip
CLOSINGS = Table("closings", ("number", "summary", "start", "revision"))
TRENDS = Table("trends", ("query", "start", "revision", "until"), True, keys=3)
DOCUMENTS = Table("documents", ("pipeline", "name", "body"), keys=2)
REJECTED = Table(
    "rejected", ("pipeline", "number", "committed_at", "reason", "detail", "place"), True, keys=2
)
COMMANDS = Table(
    "commands", ("id", "pipeline", "action", "arguments", "client", "asked_at", "answer")
)
TABLES = (
    PIPELINES, NAMES, BATCHES, PIECES, PAYLOADS, GIVEN_UP, STATES, COVERAGE, DROPPED, WINDOWS,
    CLOSINGS, TRENDS, DOCUMENTS, REJECTED, COMMANDS,
)  # fmt: skip


def check_format(version: int, place: str) -> None:
    """Refuse a ledger of another format than this Muntin's."""
    if version > FORMAT_VERSION:
        raise LedgerError(
            f"{place} is a ledger of format {version}, and this Muntin reads formats up to "
            f"{FORMAT_VERSION}: upgrade Muntin"
        )
    if version < 1:
        raise LedgerError(f"{place} is a ledger of format {version}: its header is damaged")
    if version < FORMAT_VERSION:
        raise LedgerError(
            f"{place} is a ledger of format {version}, from before the first release, and this "
            f"Muntin reads format {FORMAT_VERSION}: delete it and run the pipeline again over "
            "its source"
        )


def state_of(connection: sqlite3.Connection, place: str) -> bool:
    """True where the file holds a ledger of this version, False where it is empty.

    Raises
    ------
    LedgerError
        It is another application's database, or a newer ledger. Nothing was changed.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION_ID:
        check_format(version, place)
        return True
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or objects:
        raise LedgerError(
            f"{place} is a SQLite database of another application, not a ledger: give the ledger "
            "a file of its own"
        )
    return False


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, in the transaction that the caller has begun."""
    for statement in _statements(_TABLES):
        connection.execute(statement)
    begin_generation(connection)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def begin_generation(connection: sqlite3.Connection) -> None:
    """This is another ledger than all before it, in this place or that of which it is a copy.

    Versions begin where no earlier one has come to: caches go by them, and followers by the
    generation, so that a backup that was put back is not taken for the ledger that went on.
    """
    now = time.time_ns() // 1000
    connection.execute("UPDATE meta SET generation = ?1, version = max(version, ?1)", (now,))


def _statements(script: str) -> Iterable[str]:
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
