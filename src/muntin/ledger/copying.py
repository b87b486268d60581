"""Copying a ledger from one place, or kind of place, to another."""

# ruff: noqa: S608  statements are joined from the names of our own tables and columns only
from collections.abc import Iterator, Sequence
from typing import Any

from muntin.errors import LedgerError
from muntin.ledger.files import beside
from muntin.ledger.records import Stored
from muntin.ledger.schema import DOCUMENTS, FOLDERS, PAYLOADS, PIPELINES, TABLES, SqlTable, as_it_is
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.sqlite_view import home_of, in_memory
from muntin.ledger.tables import Row, Tables

ROWS_AT_ONCE = 500
PAYLOADS_AT_ONCE = 50
PAYLOAD_BYTES_AT_ONCE = 16 << 20


def copy_ledger(source: SqliteLedger, target: SqliteLedger) -> int:
    """Copy all that a ledger holds; rows that were copied.

    The target has it when this returns, and has no pipeline before: what was interrupted is done
    again. They share no payload file: those at a URL are copied to a folder beside, where the
    target is a store; all others become payloads in it. Raises LedgerError: the target holds
    pipelines, something in the source is damaged, or one of them cannot be used.
    """
    copied = 0
    with target.reading() as made:
        number = made.meta()["generation"]  # as it was made; in the end it has the source's
        in_store = not home_of(made.place)
    with source.reading() as reading:
        meta = reading.meta()

        def begin(connection: Tables) -> None:
            _check_free(target, connection)
            for table in TABLES:
                connection.remove(table, "")

        target.write(begin)
        for table in TABLES:
            if table not in (PIPELINES, PAYLOADS, DOCUMENTS):
                copied += _put(target, table, _rows(reading, table))
        copied += _put(target, PAYLOADS, _payloads(reading, number if in_store else None))

        def finish(connection: Tables) -> None:
            _check_free(target, connection)
            for table in (PIPELINES, DOCUMENTS):
                connection.put(table, list(_rows(reading, table)))
            connection.put_row(DOCUMENTS, 0, FOLDERS, str(number))
            version = max(meta["version"], connection.meta()["version"])
            connection.set_meta({**meta, "version": version})
            connection.grow_version()

        target.write(finish)
    return copied + len(target.pipelines())


def _check_free(target: SqliteLedger, connection: Tables) -> None:
    names = ", ".join(str(name) for _, name, *_ in connection.rows(PIPELINES))
    if names:
        raise LedgerError(f"{target.url} holds pipelines ({names}): copy to a ledger of its own")


def _put(target: SqliteLedger, table: SqlTable, rows: Iterator[Row]) -> int:
    count = 0
    for some in _portions(rows):

        def put(connection: Tables) -> None:
            _check_free(target, connection)  # one may begin in a ledger that is being made
            connection.put(table, some)  # noqa: B023

        target.write(put)
        count += len(some)
    return count


def _portions(rows: Iterator[Row]) -> Iterator[Sequence[Row]]:
    """Rows for one transaction each."""
    some: list[Row] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row[-1]) if isinstance(row[-1], bytes) else 0
        if len(some) == ROWS_AT_ONCE or size > PAYLOAD_BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _rows(reading: Tables, table: SqlTable) -> Iterator[Row]:
    """Rows as they are stored, whose checksums are right."""
    for row in reading.execute(f"SELECT {table.all_columns} FROM {table.name}"):
        table.open_row(row, reading.place)
        yield row


def _payloads(reading: Tables, number: int | None) -> Iterator[Row]:
    """`number`: of the folders of files that are copied beside those at URLs; None: none are."""
    ids = [i for (i,) in reading.execute("SELECT id FROM pieces ORDER BY id")]
    for at in range(0, len(ids), PAYLOADS_AT_ONCE):
        some = ids[at : at + PAYLOADS_AT_ONCE]
        found: dict[int, Any] = reading.payloads(some)
        for identifier in some:
            if identifier not in found:
                raise LedgerError(f"{reading.place}: the payload of piece {identifier} is missing")
            payload = found[identifier]
            if number is not None and isinstance(payload, Stored) and "://" in payload.path:
                payload = beside(payload, number)
            else:
                payload = in_memory(reading.place, payload)
            yield PAYLOADS.seal_row(identifier, packed=as_it_is(payload))
