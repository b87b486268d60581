"""Becoming a pipeline's writer in a SQLite ledger: epoch, names, modes. Inside a transaction."""

from __future__ import annotations

# ruff: noqa: S608  statements are joined from this module's own constants only
import json
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
from muntin.ledger.tables import Tables

_OF_SUMMARY = (
    schema.PIECES, schema.STATES, schema.COVERAGE, schema.DROPPED, schema.WINDOWS, schema.CLOSINGS,
)  # fmt: skip
_OF_PIPELINE = (
    schema.BATCHES, schema.REJECTED, schema.COMMANDS, schema.NAMES,
)  # fmt: skip
ALERTS = "alerts"
"""The document that a reset marks, and does not delete."""


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
    connection: Tables,
    url: str,
    pipeline: str,
    spec: Mapping[str, Any],
    query_id: str,
    mode: Mode,
) -> Opened:
    """Take the next epoch; what is wrong is raised and leaves no trace."""
    owned, text = check_opening(pipeline, spec, query_id, mode)
    rows = connection.rows(schema.PIPELINES, "WHERE name = ?", (pipeline,))
    if rows:
        row = list(rows[0])
    else:
        row = [
            connection.next_id(schema.PIPELINES),
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
    identifiers = store_spec(connection, record, text, owned)
    return Opened(pipeline, record["id"], record["epoch"], query_id, mode, owned, identifiers)


def store_spec(
    connection: Tables, record: dict[str, Any], text: str, owned: Owned
) -> dict[tuple[str, str], int]:
    """Write the pipeline's row with a spec, and register the names; ids by (role, name)."""
    if record["pane_us"] != owned.pane_us and record["batches"]:
        raise pane_changed(record["name"], record["pane_us"], owned.pane_us)
    record.update(spec=text, pane_us=owned.pane_us)
    connection.put(schema.PIPELINES, [schema.PIPELINES.seal_row(*record.values())])
    identifiers = {}
    for role, name, kind in [
        *((ROLE_SUMMARY, name, kind) for name, kind in owned.kinds.items()),
        *((ROLE_QUERY, name, "") for name in owned.queries),
    ]:
        identifiers[role, name] = _register(connection, record, role, name, kind)
    return identifiers


def _register(
    connection: Tables,
    record: Mapping[str, Any],
    role: str,
    name: str,
    kind: str,
) -> int:
    where = "WHERE role = ? AND name = ?"
    rows = connection.rows(schema.NAMES, where, (role, name))
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
        identifier = connection.next_id(schema.NAMES)
    row = (identifier, role, name, record["id"], kind)
    connection.put(schema.NAMES, [schema.NAMES.seal_row(*row)])
    return identifier


def _has_fed(connection: Tables, pipeline: int, query_id: str) -> bool:
    statement = "SELECT 1 FROM batches WHERE pipeline = ? AND query_id = ? LIMIT 1"
    return connection.execute(statement, (pipeline, query_id)).fetchone() is not None


def _holds_data(connection: Tables, summary: int) -> bool:
    return any(
        connection.execute(
            f"SELECT 1 FROM {table} WHERE summary = ? LIMIT 1", (summary,)
        ).fetchone()
        for table in ("pieces", "states", "windows")
    )


def _delete_data(connection: Tables, pipeline: int) -> None:
    of_names = "(SELECT id FROM names WHERE pipeline = ?)"
    note_dropped(connection, f"WHERE summary IN {of_names}", (pipeline,))
    mine = (pipeline,)
    of_pieces = f"piece IN (SELECT id FROM pieces WHERE summary IN {of_names})"
    give_up_files(connection, of_pieces, mine, time.time_ns() // 1000)
    connection.remove(schema.PAYLOADS, f"WHERE {of_pieces}", mine)
    for table in _OF_SUMMARY:
        connection.remove(table, f"WHERE summary IN {of_names}", mine)
    connection.remove(schema.TRENDS, f"WHERE query IN {of_names}", mine)
    for table in _OF_PIPELINE:
        connection.remove(table, "WHERE pipeline = ?", mine)
    _reset_alerts(connection, pipeline)


def _reset_alerts(connection: Tables, pipeline: int) -> None:
    """Alerts stay, marked, for the writer to resolve; the other documents go with the data."""
    for _, name, body in connection.rows(schema.DOCUMENTS, "WHERE pipeline = ?", (pipeline,)):
        if name == ALERTS:
            marked = json.dumps({**json.loads(body), "reset": True})
            connection.put(schema.DOCUMENTS, [schema.DOCUMENTS.seal_row(pipeline, name, marked)])
    connection.remove(schema.DOCUMENTS, "WHERE pipeline = ? AND name <> ?", (pipeline, ALERTS))


def note_dropped(connection: Tables, where: str, values: tuple[Any, ...]) -> None:
    """Remember up to which number closings are about to go."""
    connection.execute(
        "UPDATE meta SET closings_dropped = max(closings_dropped, "
        f"coalesce((SELECT max(number) FROM closings {where}), 0))",
        values,
    )
