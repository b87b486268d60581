"""The tables of a SQLite ledger: how they are made, and how rows are sealed and checked.

Each table's last column is the row's checksum: the CRC-32C of its other columns as a JSON array
(no spaces, ASCII), followed by the stored payload's bytes where it has one. It covers keys as well
as values, so that a row that damage moved to another key is refused too. Tables with a payload,
which is compressed where that helps, have `size, codec, crc, payload` at their end.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import google_crc32c
import pyarrow as pa

from muntin.errors import LedgerError
from muntin.ledger.records import FORMAT_VERSION, PAYLOAD_BYTES_MAX, Payload, Stored
from muntin.times import now_us

RAW, ZSTD, IN_FILE = 0, 1, 2
_WORTH_TRYING_BYTES = 256  # below it, a frame's header eats the gain
_SMALL_BYTES = 16 << 10  # payloads that are decompressed together: larger ones gain little


Packed = tuple[int, int, bytes]  # (size, codec, stored bytes) of a payload


def pack(payload: bytes) -> Packed:
    """Compressed, where that is shorter."""
    size = len(payload)
    if size > _WORTH_TRYING_BYTES:
        packed = pa.compress(payload, codec="zstd", asbytes=True)
        if len(packed) < size:
            return size, ZSTD, packed
    return size, RAW, payload


def as_it_is(payload: Payload) -> Packed:
    """As `pack`, of what is compressed already, or lies in a file."""
    if isinstance(payload, Stored):
        named = payload.to_bytes()
        return len(named), IN_FILE, named
    return len(payload), RAW, payload


def unpack(size: int, codec: int, stored: bytes) -> Payload:
    """The payload; its row's checksum was right, so that a failure means foreign bytes."""
    if codec == RAW and size == len(stored):
        return stored
    if codec == IN_FILE:
        return Stored.from_bytes(stored)
    if codec != ZSTD or not 0 <= size <= PAYLOAD_BYTES_MAX:
        raise LedgerError(f"a payload says {size} bytes in codec {codec}: not written by Muntin")
    try:
        payload = pa.decompress(stored, decompressed_size=size, codec="zstd", asbytes=True)
    except (pa.ArrowException, OSError, MemoryError) as problem:
        raise LedgerError(f"a payload cannot be decompressed: {problem}") from None
    if len(payload) != size:
        raise LedgerError(f"a payload has {len(payload)} bytes, its row says {size}")
    return payload


def _unpack_all(packed: Sequence[Packed]) -> list[bytes]:
    """The payloads of some in ZSTD; none where one of them is not what its row says. To begin to
    decompress takes longer than a few KB do: they are one stream of frames."""
    ends = [0, *accumulate(size for size, *_ in packed)]
    stream = pa.BufferReader(b"".join(stored for *_, stored in packed))
    try:
        unpacked = pa.CompressedInputStream(stream, "zstd").read(ends[-1] + 1)
    except (pa.ArrowException, OSError, MemoryError):
        return []
    whole = len(unpacked) == ends[-1]
    return [unpacked[start:end] for start, end in pairwise(ends)] if whole else []


_AS_JSON = json.JSONEncoder(separators=(",", ":")).encode


def checksum(values: Sequence[int | str | None], stored: bytes = b"") -> int:
    """CRC-32C of a row."""
    described = _AS_JSON(values).encode("ascii")
    crc = google_crc32c.value(described)
    return google_crc32c.extend(crc, stored) if stored else crc


APPLICATION_ID = 0x4D4E544E  # "MNTN"
PAGE_BYTES = 8192  # a compressed summary of a few KB fits into one page


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table's columns in order, and the SQL that follows from them."""

    name: str
    columns: tuple[str, ...]  # without what seals the row
    payload: bool
    keys: int  # the first columns are the row's key
    create: str  # the statement that makes it

    @property
    def all_columns(self) -> str:
        """What to select so that `open_row` can check it."""
        return ", ".join((*self.columns, *_SEAL[self.payload]))

    @property
    def insert(self) -> str:
        places = ", ".join("?" * (len(self.columns) + len(_SEAL[self.payload])))
        return f"INSERT OR REPLACE INTO {self.name} ({self.all_columns}) VALUES ({places})"  # noqa: S608

    @property
    def delete(self) -> str:
        """Of the row with a key."""
        where = " AND ".join(f"{column} = ?" for column in self.columns[: self.keys])
        return f"DELETE FROM {self.name} WHERE {where}"  # noqa: S608

    def seal_row(self, *values: int | str | None, packed: Packed | None = None) -> tuple[Any, ...]:
        """The row to insert. `packed` is what `payload.pack` returned."""
        if packed is None:
            return (*values, checksum(values))
        size, codec, stored = packed
        return (*values, size, codec, checksum((*values, size, codec), stored), stored)

    def open_row(self, row: Sequence[Any], place: str) -> tuple[Any, ...]:
        """The values of a row (with its payload at the end), or LedgerError if it is damaged."""
        values = self._checked(row, place)
        return self._unpacked(values, place) if self.payload else values

    def open_rows(self, rows: Iterable[Sequence[Any]], place: str) -> list[tuple[Any, ...]]:
        """As `open_row`, of each; small payloads are decompressed at once."""
        opened, small = list[tuple[Any, ...]](), list[int]()
        for row in rows:
            values = self._checked(row, place)
            if self.payload and values[-2] == ZSTD and 0 <= values[-3] <= _SMALL_BYTES:
                small.append(len(opened))
            elif self.payload:
                values = self._unpacked(values, place)
            opened.append(values)
        payloads = _unpack_all([opened[n][-3:] for n in small])
        for at, n in enumerate(small):
            values = opened[n]
            opened[n] = (*values[:-3], payloads[at]) if payloads else self._unpacked(values, place)
        return opened

    def _checked(self, row: Sequence[Any], place: str) -> tuple[Any, ...]:
        *values, crc, stored = row if self.payload else (*row, b"")
        try:
            sound = checksum(values, stored) == crc
        except TypeError:  # damage made a value of another type
            sound = False
        if not sound:
            raise self._damaged(row, place, "its checksum does not match")
        return (*values, stored) if self.payload else tuple(values)

    def _unpacked(self, values: Sequence[Any], place: str) -> tuple[Any, ...]:
        *values, size, codec, stored = values
        try:
            return (*values, unpack(size, codec, stored))
        except LedgerError as problem:
            raise self._damaged(values, place, str(problem)) from None

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


def _table(
    name: str,
    declared: str,
    *more: str,
    payload: bool = False,
    keys: int = 1,
    reused: bool = False,
    rowid: bool = False,
) -> SqlTable:
    """A table from its columns: whole numbers, unless they say `text`; with ? where null may stand.

    `more` are further constraints. A key of one column is an id: it is never used again, unless it
    is `reused` from another table. Rows that may be large have a `rowid`, as those with payloads.
    """
    columns = tuple(column.split()[0].rstrip("?") for column in declared.split(","))
    lines = []
    for number, column in enumerate(declared.split(",")):
        kind = "TEXT" if "text" in column else "INTEGER"
        null = "" if column.endswith("?") else " NOT NULL"
        if keys == 1 and number == 0:
            kind, null = "INTEGER PRIMARY KEY", "" if reused else " AUTOINCREMENT"
        lines.append(f"{columns[number]} {kind}{null}")
    lines += [
        f"{column} {'BLOB' if column == 'payload' else 'INTEGER'} NOT NULL"
        for column in _SEAL[payload]
    ]
    lines += [f"PRIMARY KEY ({', '.join(columns[:keys])})"] if keys > 1 else []
    options = "STRICT" if payload or rowid or keys == 1 else "STRICT, WITHOUT ROWID"
    create = f"CREATE TABLE {name} ({', '.join([*lines, *more])}) {options}"
    return SqlTable(name, columns, payload, keys, create)


PIPELINES = _table(
    "pipelines",
    "id, name text, spec text, pane_us, epoch, query_id text?, watermark?, max_event_time?, "
    "batches, read, counted, late, rejected, rejected_number, committed_at?",
    "UNIQUE (name)",
)
NAMES = _table("names", "id, role text, name text, pipeline, kind text", "UNIQUE (role, name)")
# Ranges of committed batches: first ... last. An empty one, whose last is before its first, says
# from where on a query goes on in mode "append": what is missing before it was accepted.
BATCHES = _table("batches", "pipeline, query_id text, first, last", keys=3)
# A piece without its payload: which slices it holds is in `payload` (slices.py), its bytes are in
# `payloads`, so that what is stored can be looked up without reading it.
PIECES = _table("pieces", "id, summary, length, shard, start, until, bytes", payload=True)
PAYLOADS = _table("payloads", "piece", payload=True, reused=True)
# Payload files whose last row has gone: readers of older snapshots may still want them.
GIVEN_UP = _table("given_up", "pipeline, path text, at", keys=2)
STATES = _table("states", "summary, shard", payload=True, keys=2)
COVERAGE = _table("coverage", "summary, length, start, until", keys=2)
DROPPED = _table("dropped", "summary, length, before", keys=2)
CLOSED = 0
"""The length in `dropped` of closings: `before` is the number of the last one that has gone."""
WINDOWS = _table(
    "windows",
    "summary, start, revision, until, reason text, overflowed, events, late, fill text, closed_at",
    keys=3,
)
# Which windows were stored, in order: numbers are never used again.
CLOSINGS = _table(
    "closings", "number, summary, start, revision", "UNIQUE (summary, start, revision)"
)
TRENDS = _table("trends", "query, start, revision, until", payload=True, keys=3)
# "assembler", "status" and "alerts" of each pipeline.
DOCUMENTS = _table("documents", "pipeline, name text, body text", keys=2, rowid=True)
FOLDERS = "folders"
"""The document of no pipeline (0) that a copy has: the number in the names of its folders, where
the ledger's generation is that of its original."""
REJECTED = _table(
    "rejected",
    "pipeline, number, committed_at, reason text, detail text, place text",
    payload=True,
    keys=2,
)
COMMANDS = _table(
    "commands", "id, pipeline, action text, arguments text, client text, asked_at, answer text?"
)
TABLES = (
    PIPELINES, NAMES, BATCHES, PIECES, PAYLOADS, GIVEN_UP, STATES, COVERAGE, DROPPED, WINDOWS,
    CLOSINGS, TRENDS, DOCUMENTS, REJECTED, COMMANDS,
)  # fmt: skip
_MORE = (
    """CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0,
    closings_dropped INTEGER NOT NULL DEFAULT 0
) STRICT""",
    "INSERT INTO meta VALUES (1, 0, 0, 0)",
    "CREATE INDEX pieces_by_slice ON pieces (summary, length, start, until)",
    "CREATE INDEX payloads_in_files ON payloads (piece) WHERE codec = 2",
    "CREATE INDEX commands_by_pipeline ON commands (pipeline, id)",
)


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
    """True where the file holds a ledger of this version, False where it is empty. Raises
    LedgerError: it is another application's database, a newer ledger, or damaged. Nothing was
    changed."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION_ID:
        check_format(version, place)
        if connection.execute("SELECT 1 FROM meta").fetchone() is None:
            raise LedgerError(
                f"{place}: the row of table meta is gone; restore the ledger from a backup, or run "
                "the pipeline again over its source"
            )
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
    for statement in (*(table.create for table in TABLES), *_MORE):
        connection.execute(statement)
    begin_generation(connection)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def begin_generation(connection: sqlite3.Connection) -> None:
    """This is another ledger than all before it, in this place or that of which it is a copy.

    Versions begin where no earlier one has come to: caches go by them, and followers by the
    generation, so that a backup that was put back is not taken for the ledger that went on.
    """
    connection.execute("UPDATE meta SET generation = ?1, version = max(version, ?1)", (now_us(),))
    connection.execute("DELETE FROM documents WHERE name = ?", (FOLDERS,))
