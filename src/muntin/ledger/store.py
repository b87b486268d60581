"""What a shared ledger asks of a store: rows under keys, changed by one compare-and-set.

A store keeps the rows of `schema.TABLES` under texts, the payloads of pieces under their ids, and
a log of the last changes. It knows nothing of what they mean: the rules run on a local copy of the
rows (`shared.py`), and `append` takes what they have changed, if nobody else was there first.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from muntin.errors import LedgerError
from muntin.ledger.schema import IN_FILE, PAYLOADS, PIECES, TABLES, SqlTable
from muntin.ledger.tables import Noted, Row

LOG_KEPT = 1_000  # changes that the log holds; who is further behind reads all rows anew
LOG_BYTES, LOG_LEAST = 64 << 20, 10
"""All of them take about so much: where they are large, as those are that bring rejected records,
the log holds fewer, but not fewer than these."""
GONE_SECONDS = 60  # a payload stays so long after its piece: a reader's snapshot may still name it
META = "meta"
LOG = "log"
ROWS_GONE = (
    "the ledger's rows are gone: did the server delete keys when its memory was full "
    "(maxmemory-policy), or did somebody? Restore them from a backup, or delete the ledger and run "
    "the pipeline again over its source"
)

Change = tuple[str, bytes | None]  # a key with its row; None: the row has gone
_TABLES = {table.name: table for table in TABLES}


class Head(NamedTuple):
    """How far a ledger has come."""

    number: int  # of changes since it was made
    token: int  # drawn for each change: two histories with the same number differ in it


class Entry(NamedTuple):
    """One transaction."""

    changes: Sequence[Change]
    payloads: Mapping[int, bytes]
    """Piece -> row. They are in no log: readers fetch those that they need."""
    gone: Sequence[int]
    """Pieces whose payloads may go."""
    log_kept: int
    """Changes that the log holds from now on, with this one."""


class StoreError(LedgerError):
    """The store cannot be used; says why, and what to do."""


class StoreAway(Exception):  # noqa: N818  (it says what is the case)
    """The store does not answer now, and may do so soon."""


class Store(Protocol):
    """Thread-safe. Each method waits at most `patience` seconds for an answer. Raises StoreAway: it
    did not answer, so that it is not known whether an `append` has happened; StoreError: it
    answered, and refuses: wrong password, no rights, full, read-only."""

    place: str  # its URL, without a password

    def begin(self, create: bool, meta: bytes, patience: float) -> None:
        """Look whether a ledger of this format is there, or make one that has a meta row only.
        Raises LedgerMissing: there is none, and none is to be made; LedgerError: it has another
        format."""
        ...

    def since(self, head: Head, patience: float) -> list[tuple[Head, Sequence[Change]]] | None:
        """What came after a head; None where it is not a past of this ledger, or too far back."""
        ...

    def load(self, patience: float) -> tuple[Head, Iterator[Sequence[Change]]]:
        """All rows, some at a time, as they were at a head or, some of them, after it.
        `since(head)` brings those to the same moment."""
        ...

    def append(self, head: Head, newer: Head, entry: Entry, patience: float) -> bool:
        """Apply a transaction; False, and no change, where the ledger is not at `head`."""
        ...

    def payloads(self, ids: Sequence[int], patience: float) -> Mapping[int, bytes]:
        """Piece -> row, of those that are there."""
        ...

    def wait(self, head: Head, seconds: float) -> None:
        """Until the ledger may have come further, or `seconds` have passed."""
        ...

    def close(self) -> None: ...


def entry_of(noted: Noted, meta: Mapping[str, Any], number: int) -> Entry:
    """What a store gets of a transaction, the ledger's change of this number. Among the counts of
    rows in `meta` it notes with which change the log begins then."""
    changes: list[Change] = []
    payloads: dict[int, bytes] = {}
    for (table, key), row in noted.changes.items():
        if row is not None and table is PAYLOADS and row[2] != IN_FILE:
            payloads[row[0]] = _encode(table, row)
        else:
            name = f"{table.name}:{encoded(key).decode()}"
            changes.append((name, None if row is None else _encode(table, row)))
    gone = [key[0] for (table, key), row in noted.changes.items() if table is PIECES and not row]
    size = 1 + sum(len(row or b"") for _, row in changes)
    kept = max(LOG_LEAST, min(LOG_KEPT, LOG_BYTES // size))
    meta["rows"][LOG] = max(meta["rows"][LOG], number - kept + 1)
    return Entry([*changes, (META, encoded(meta))], payloads, gone, kept)


def encoded(value: Any) -> bytes:
    """As JSON."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _encode(table: SqlTable, row: Row) -> bytes:
    """The columns as JSON, and the payload as it is in a line of its own."""
    return encoded(row[:-1]) + b"\n" + row[-1] if table.payload else encoded(row)


def decode_row(table: SqlTable, data: bytes, place: str) -> Row:
    """The sealed row; its checksum is still to be checked."""
    head, separator, payload = data.partition(b"\n")
    try:
        columns = json.loads(head)
    except ValueError:
        columns = None
    if not isinstance(columns, list) or bool(separator) != table.payload:
        raise LedgerError(f"{place}: a row of table {table.name} is not one of Muntin's")
    return (*columns, payload) if table.payload else tuple(columns)


def decode_key(name: str, place: str) -> tuple[SqlTable, Row]:
    """The table and the key of a change."""
    kind, _, key = name.partition(":")
    if kind not in _TABLES:
        raise LedgerError(f"{place}: there is no table {ascii(kind)[:40]}: upgrade Muntin")
    return _TABLES[kind], tuple(json.loads(key))
