"""Becoming a pipeline's writer in a SQLite ledger: epoch, names, modes. Inside a transaction."""

# ruff: noqa: S608  statements are joined from this module's own constants only
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from muntin.errors import BadArgument, LedgerConflict
from muntin.ledger import schema
from muntin.ledger.records import Mode, check_name
from muntin.ledger.rules import (
    ROLE_QUERY,
    ROLE_SUMMARY,
    Owned,
    check_query,
    check_query_id,
    read_spec,
)
from muntin.ledger.tables import Tables
from muntin.times import duration_text, now_us

_OF_SUMMARY = (
    schema.PIECES, schema.STATES, schema.COVERAGE, schema.DROPPED, schema.WINDOWS, schema.CLOSINGS,
)  # fmt: skip
_OF_PIPELINE = (
    schema.BATCHES, schema.REJECTED, schema.COMMANDS, schema.NAMES,
)  # fmt: skip
ALERTS = "alerts"  # the document that a reset marks, and does not delete


@dataclass(frozen=True, slots=True)
class Opened:
    """What a writer knows from its opening."""

    pipeline: str
    identifier: int
    epoch: int
    query_id: str
    mode: Mode
    owned: Owned
    identifiers: Mapping[tuple[str, str], int]  # (role, name) -> id
    row: tuple[Any, ...]  # the pipeline's, as the opening left it


def become_writer(
    connection: Tables,
    url: str,
    pipeline: str,
    spec: Mapping[str, Any],
    query_id: str,
    mode: Mode,
    begins: int,
) -> Opened:
    """Take the next epoch; what is wrong is raised and leaves no trace."""
    check_name(pipeline, "pipeline")
    check_query_id(query_id)
    if mode not in get_args(Mode):
        raise BadArgument(f"mode {mode!r} is none of {', '.join(get_args(Mode))}")
    owned, text = read_spec(spec)
    rows = connection.rows(schema.PIPELINES, "WHERE name = ?", (pipeline,))
    if rows:
        row = rows[0]
        if mode != "overwrite":  # else a name that was lost would begin anew, without its data
            connection.check_named()
    else:
        if not connection.rows(schema.PIPELINES, "LIMIT 1"):
            for table in schema.TABLES:  # of a copy that was interrupted: nobody's, and not whole
                if table is not schema.DOCUMENTS:
                    connection.remove(table, "")
        identifier = connection.next_id(schema.PIPELINES)
        row = [identifier, pipeline, text, owned.pane_us, 0, *[None] * 3, *[0] * 6, None]
    record = dict(zip(schema.PIPELINES.columns, row, strict=True))
    fed_by = record["query_id"] if record["batches"] else None
    ranges = ranges_of(connection, record["id"], query_id)
    check_query(pipeline, url, mode, query_id, fed_by, known=bool(ranges))
    if mode == "overwrite" and rows:
        _delete_data(connection, record["id"])
        record.update(query_id=None, watermark=None, max_event_time=None, committed_at=None)
        record.update(batches=0, read=0, counted=0, late=0, rejected=0, rejected_number=0)
    if not record["batches"]:
        record["query_id"] = None
    # no other history of this ledger has given it, as of `Tables.next_number`
    record["epoch"] = max(record["epoch"] + 1, now_us())
    identifiers = store_spec(connection, record, text, owned)
    if mode == "append" and all(last + 1 < begins for _, last in ranges):
        connection.put_row(schema.BATCHES, record["id"], query_id, begins, begins - 1)
    row = tuple(record.values())
    return Opened(pipeline, record["id"], record["epoch"], query_id, mode, owned, identifiers, row)


def ranges_of(connection: Tables, pipeline: int, query_id: str) -> list[tuple[int, int]]:
    """First and last of each run of committed batches; one run, unless batches were skipped."""
    where = "WHERE pipeline = ? AND query_id = ?"
    rows = connection.rows(schema.BATCHES, where, (pipeline, query_id))
    return [(first, last) for _, _, first, last in rows]


def store_spec(
    connection: Tables, record: dict[str, Any], text: str, owned: Owned
) -> dict[tuple[str, str], int]:
    """Write the pipeline's row with a spec, and register the names; ids by (role, name)."""
    if record["pane_us"] != owned.pane_us and record["batches"]:
        raise LedgerConflict(
            f'pipeline "{record["name"]}" holds panes of {duration_text(record["pane_us"])}, '
            f"and the spec now says {duration_text(owned.pane_us)}; keep the pane, use another "
            'ledger, or delete the data with mode="overwrite"'
        )
    record.update(spec=text, pane_us=owned.pane_us)
    connection.put_row(schema.PIPELINES, *record.values())
    named = {(ROLE_SUMMARY, name): kind for name, kind in owned.kinds.items()}
    named |= {(ROLE_QUERY, name): "" for name in owned.queries}
    return {at: _register(connection, record, *at, kind) for at, kind in named.items()}


def _register(
    connection: Tables, record: Mapping[str, Any], role: str, name: str, kind: str
) -> int:
    where = "WHERE role = ? AND name = ?"
    rows = connection.rows(schema.NAMES, where, (role, name))
    if rows:
        identifier, _, _, owner, old_kind = rows[0]
        if owner != record["id"]:
            statement = "SELECT name FROM pipelines WHERE id = ?"
            (other,) = connection.execute(statement, (owner,)).fetchone()
            raise LedgerConflict(
                f'the {role} name "{name}" belongs to pipeline "{other}" of this ledger; '
                f'rename it in "{record["name"]}", or use another ledger'
            )
        if old_kind == kind:
            return identifier
        if any(
            connection.execute(
                f"SELECT 1 FROM {table} WHERE summary = ? LIMIT 1", (identifier,)
            ).fetchone()
            for table in ("pieces", "states", "windows")
        ):
            raise LedgerConflict(
                f'summary "{name}" holds data of kind {old_kind}, and the spec now says {kind}; '
                'give the new one another name, or delete the data with mode="overwrite"'
            )
    else:
        identifier = connection.next_id(schema.NAMES)
        gone = connection.meta()["closings_dropped"]
        if role == ROLE_SUMMARY and gone:  # there may have been one of this name before a reset
            connection.put_row(schema.DROPPED, identifier, schema.CLOSED, gone)
    connection.put_row(schema.NAMES, identifier, role, name, record["id"], kind)
    return identifier


def _delete_data(connection: Tables, pipeline: int) -> None:
    of_names = "(SELECT id FROM names WHERE pipeline = ?)"
    last = connection.next_id(schema.CLOSINGS) - 1
    connection.execute("UPDATE meta SET closings_dropped = ?", (last,))
    mine = (pipeline,)
    of_pieces = f"piece IN (SELECT id FROM pieces WHERE summary IN {of_names})"
    connection.give_up_files(of_pieces, mine)
    connection.remove(schema.PAYLOADS, f"WHERE {of_pieces}", mine)
    for table in _OF_SUMMARY:
        connection.remove(table, f"WHERE summary IN {of_names}", mine)
    connection.remove(schema.TRENDS, f"WHERE query IN {of_names}", mine)
    for table in _OF_PIPELINE:
        connection.remove(table, "WHERE pipeline = ?", mine)
    # alerts stay, marked, for the writer to resolve; the other documents go with the data
    for _, name, body in connection.rows(schema.DOCUMENTS, "WHERE pipeline = ?", (pipeline,)):
        if name == ALERTS:
            marked = json.dumps({**json.loads(body), "reset": True})
            connection.put_row(schema.DOCUMENTS, pipeline, name, marked)
    connection.remove(schema.DOCUMENTS, "WHERE pipeline = ? AND name <> ?", (pipeline, ALERTS))
