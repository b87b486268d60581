"""Becoming a pipeline's writer in a SQLite ledger: epoch, names, modes. Inside a transaction."""

from __future__ import annotations

# ruff: noqa: S608  statements are joined from this module's own constants only
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muntin.ledger import schema
from muntin.ledger.base import Mode
from muntin.ledger.rules import (
    ROLE_QUERY,
    ROLE_SUMMARY,
    Owned,
    check_opening,
    check_owner,
    check_query,
    kind_changed,
    pane_changed,
)
from muntin.ledger.sqlite_files import give_up_files
from muntin.ledger.sqlite_view import read_rows

_OF_SUMMARY = ("pieces", "states", "coverage", "dropped", "windows", "closings")
_OF_PIPELINE = ("batches", "documents", "rejected", "commands", "names")


@dataclass(frozen=True, slots=True)
class Opened:
    """What a writer knows from its opening."""

    pipeline: str
    identifier: int
    epoch: int
    query_id: str
    mode: Mode
    owned: Owned
    identifiers: Mapping[tuple[str, str], int]
    """(role, name) -> id."""


def become_writer(
    connection: sqlite3.Connection,
    url: str,
    pipeline: str,
    spec: Mapping[str, Any],
    query_id: str,
    mode: Mode,
) -> Opened:
    """Take the next epoch; what is wrong is raised and leaves no trace."""
    owned, text = check_opening(pipeline, spec, query_id, mode)
    rows = read_rows(connection, url, schema.PIPELINES, "WHERE name = ?", (pipeline,))
    if rows:
        row = list(rows[0])
    else:
        row = [
            next_id(connection, "pipelines"),
            pipeline,
            text,
            owned.pane_us,
            0,
            *[None] * 3,
            *[0] * 6,
            None,
        ]
    record = dict(zip(schema.PIPELINES.columns, row, strict=True))
    fed_by = record["query_id"] if record["batches"] else None
    known = _has_fed(connection, record["id"], query_id)
    check_query(pipeline, url, mode, query_id, fed_by, known)
    if mode == "overwrite" and rows:
        _delete_data(connection, record["id"])
        record.update(query_id=None, watermark=None, max_event_time=None, committed_at=None)
        record.update(batches=0, read=0, counted=0, late=0, rejected=0, rejected_number=0)
    if not record["batches"]:
        record["query_id"] = None
    record["epoch"] += 1
    identifiers = store_spec(connection, url, record, text, owned)
    return Opened(pipeline, record["id"], record["epoch"], query_id, mode, owned, identifiers)


def store_spec(
    connection: sqlite3.Connection, url: str, record: dict[str, Any], text: str, owned: Owned
) -> dict[tuple[str, str], int]:
    """Write the pipeline's row with a spec, and register the names; ids by (role, name)."""
    if record["pane_us"] != owned.pane_us and record["batches"]:
        raise pane_changed(record["name"], record["pane_us"], owned.pane_us)
    record.update(spec=text, pane_us=owned.pane_us)
    connection.execute(schema.PIPELINES.insert, schema.PIPELINES.seal_row(*record.values()))
    identifiers = {}
    for role, name, kind in [
        *((ROLE_SUMMARY, name, kind) for name, kind in owned.kinds.items()),
        *((ROLE_QUERY, name, "") for name in owned.queries),
    ]:
        identifiers[role, name] = _register(connection, url, record, role, name, kind)
    return identifiers


def _register(
    connection: sqlite3.Connection,
    url: str,
    record: Mapping[str, Any],
    role: str,
    name: str,
    kind: str,
) -> int:
    where = "WHERE role = ? AND name = ?"
    rows = read_rows(connection, url, schema.NAMES, where, (role, name))
    if rows:
        identifier, _, _, owner, old_kind = rows[0]
        if owner != record["id"]:
            statement = "SELECT name FROM pipelines WHERE id = ?"
            (other,) = connection.execute(statement, (owner,)).fetchone()
            check_owner(role, name, other, record["name"])
        if old_kind == kind:
            return identifier
        if _holds_data(connection, identifier):
            raise kind_changed(name, old_kind, kind)
    else:
        identifier = next_id(connection, "names")
    row = (identifier, role, name, record["id"], kind)
    connection.execute(schema.NAMES.insert, schema.NAMES.seal_row(*row))
    return identifier


def next_id(connection: sqlite3.Connection, table: str) -> int:
    """The next id of a table with AUTOINCREMENT; the row's checksum has to know it beforehand."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    return row[0] + 1 if row else 1


def _has_fed(connection: sqlite3.Connection, pipeline: int, query_id: str) -> bool:
    statement = "SELECT 1 FROM batches WHERE pipeline = ? AND query_id = ? LIMIT 1"
    return connection.execute(statement, (pipeline, query_id)).fetchone() is not None


def _holds_data(connection: sqlite3.Connection, summary: int) -> bool:
    return any(
        connection.execute(
            f"SELECT 1 FROM {table} WHERE summary = ? LIMIT 1", (summary,)
        ).fetchone()
        for table in ("pieces", "states", "windows")
    )


def _delete_data(connection: sqlite3.Connection, pipeline: int) -> None:
    of_names = "(SELECT id FROM names WHERE pipeline = ?)"
    note_dropped(connection, f"WHERE summary IN {of_names}", (pipeline,))
    mine = f"piece IN (SELECT id FROM pieces WHERE summary IN {of_names})"
    give_up_files(connection, mine, (pipeline,), time.time_ns() // 1000)
    connection.execute(f"DELETE FROM payloads WHERE {mine}", (pipeline,))
    for table in _OF_SUMMARY:
        connection.execute(f"DELETE FROM {table} WHERE summary IN {of_names}", (pipeline,))
    connection.execute(f"DELETE FROM trends WHERE query IN {of_names}", (pipeline,))
    for table in _OF_PIPELINE:
        connection.execute(f"DELETE FROM {table} WHERE pipeline = ?", (pipeline,))


def note_dropped(connection: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> None:
    """Remember up to which number closings are about to go."""
    connection.execute(
        "UPDATE meta SET closings_dropped = max(closings_dropped, "
        f"coalesce((SELECT max(number) FROM closings {where}), 0))",
        values,
    )


def grow_version(connection: sqlite3.Connection) -> None:
    """Tell readers that something changed for them."""
    connection.execute("UPDATE meta SET version = version + 1")
