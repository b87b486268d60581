"""Which payload files the rows of a SQLite ledger name, and named. Inside a transaction."""

from __future__ import annotations

# ruff: noqa: S608  statements are joined from this module's own constants only
from collections.abc import Sequence
from typing import Any

from muntin.errors import LedgerError
from muntin.ledger import schema
from muntin.ledger.payload import IN_FILE
from muntin.ledger.tables import Tables

_IN_FILES = f"codec = {IN_FILE}"


def give_up_files(connection: Tables, where: str, values: Sequence[Any], now: int) -> None:
    """Note that the files of these payloads will be named by nobody: their rows are about to go."""
    statement = (
        f"SELECT {schema.PAYLOADS.all_columns}, (SELECT pipeline FROM names WHERE id = (SELECT "
        f"summary FROM pieces WHERE id = piece)) FROM payloads WHERE {_IN_FILES} AND {where}"
    )
    for *row, pipeline in connection.execute(statement, values).fetchall():
        try:
            _, stored = schema.PAYLOADS.open_row(row, "the ledger")
        except LedgerError:
            continue  # damaged: which file it named is not known, and that one goes by its age
        gone = schema.GIVEN_UP.seal_row(pipeline, stored.path, now)
        connection.put(schema.GIVEN_UP, [gone])


def files_of(connection: Tables, pipeline: int) -> tuple[set[str], dict[str, int]]:
    """The files that rows name, and since when others of a pipeline are named no more."""
    rows = connection.rows(schema.PAYLOADS, f"WHERE {_IN_FILES}")
    gone = connection.rows(schema.GIVEN_UP, "WHERE pipeline = ?", (pipeline,))
    return {stored.path for _, stored in rows}, {path: at for _, path, at in gone}
