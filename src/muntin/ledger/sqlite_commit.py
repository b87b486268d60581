"""A batch in one transaction of a SQLite ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.ledger import schema
from muntin.ledger.payload import pack
from muntin.ledger.records import REJECTED_KEPT_MAX, Batch, Rejected
from muntin.ledger.rollups import Rollups
from muntin.ledger.rules import (
    ROLE_SUMMARY,
    Owned,
    check_query,
    check_sequence,
    count_late,
    kept_rejected,
    newer,
)
from muntin.ledger.sqlite_open import Opened, next_id
from muntin.ledger.sqlite_view import load_rollups, read_rows

Packed = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that has been checked and packed, before the transaction begins."""

    batch: Batch
    pane_us: int
    partials: Sequence[tuple[int, Packed]]
    """Summary's id and payload of each of the batch's partials."""
    states: Sequence[tuple[Any, ...]]
    """Rows to insert."""
    rejected: Sequence[tuple[Rejected, Packed]]


def prepare(batch: Batch, owned: Owned, identifiers: Mapping[tuple[str, str], int]) -> Prepared:
    """Compress outside the transaction, so that it is short."""
    return Prepared(
        batch,
        owned.pane_us,
        [
            (identifiers[ROLE_SUMMARY, partial.summary], pack(partial.payload))
            for partial in batch.partials
        ],
        [
            schema.STATES.seal_row(
                identifiers[ROLE_SUMMARY, state.summary], state.shard,
                packed=pack(state.payload),
            )
            for state in batch.states
        ],
        [(record, pack(record.raw)) for record in kept_rejected(batch.rejected)],
    )  # fmt: skip


def store(
    connection: sqlite3.Connection,
    place: str,
    opened: Opened,
    record: dict[str, Any],
    prepared: Prepared,
    now: int,
) -> bool:
    """Store a batch, or return False where it is there already.

    `record` is the pipeline's row, read in the same transaction and found to be of this epoch.
    """
    batch, mine = prepared.batch, opened.identifier
    ranges = _ranges(connection, place, mine, batch.query_id)
    if any(first <= batch.batch_id <= last for first, last in ranges):
        return False
    if batch.query_id != opened.query_id:
        fed_by = record["query_id"] or opened.query_id
        check_query(opened.pipeline, place, opened.mode, batch.query_id, fed_by, bool(ranges))
    newest = max((last for _, last in ranges), default=None)
    check_sequence(opened.pipeline, opened.mode, batch, newest)
    late, late_total = count_late(
        batch.partials, prepared.pane_us, record["watermark"], batch.counted
    )
    late_total = max(late_total, batch.late)
    _store_partials(connection, place, prepared, late)
    connection.executemany(schema.STATES.insert, prepared.states)
    _store_rejected(connection, record, prepared.rejected, now)
    _mark(connection, mine, batch, ranges)
    record.update(
        query_id=batch.query_id,
        watermark=newer(record["watermark"], batch.watermark),
        max_event_time=newer(record["max_event_time"], batch.max_event_time),
        batches=record["batches"] + 1,
        read=record["read"] + batch.read,
        counted=record["counted"] + batch.counted,
        late=record["late"] + late_total,
        rejected=record["rejected"] + batch.rejected_count,
        committed_at=now,
    )
    connection.execute(schema.PIPELINES.insert, schema.PIPELINES.seal_row(*record.values()))
    return True


def newest_batch(
    connection: sqlite3.Connection, place: str, pipeline: int, query_id: str
) -> int | None:
    """The newest committed batch of a query."""
    ranges = _ranges(connection, place, pipeline, query_id)
    return max((last for _, last in ranges), default=None)


def _ranges(
    connection: sqlite3.Connection, place: str, pipeline: int, query_id: str
) -> list[tuple[int, int]]:
    """First and last of each run of committed batches; one run, unless batches were skipped."""
    where = "WHERE pipeline = ? AND query_id = ?"
    rows = read_rows(connection, place, schema.BATCHES, where, (pipeline, query_id))
    return [(first, last) for _, _, first, last in rows]


def _mark(
    connection: sqlite3.Connection, pipeline: int, batch: Batch, ranges: list[tuple[int, int]]
) -> None:
    """Add a batch to the runs of those that are there, joining neighbours."""
    first = last = batch.batch_id
    for low, high in ranges:
        if low - 1 <= batch.batch_id <= high + 1:
            first, last = min(first, low), max(last, high)
            connection.execute(
                "DELETE FROM batches WHERE pipeline = ? AND query_id = ? AND first = ?",
                (pipeline, batch.query_id, low),
            )
    row = schema.BATCHES.seal_row(pipeline, batch.query_id, first, last)
    connection.execute(schema.BATCHES.insert, row)


def _store_partials(
    connection: sqlite3.Connection, place: str, prepared: Prepared, late: Sequence[int]
) -> None:
    rollups: dict[int, Rollups] = {}
    occupied: dict[tuple[int, int, int], bool] = {}
    spoiled: set[tuple[int, int, int]] = set()
    rows = []
    identifier = next_id(connection, "pieces")
    for partial, (summary, packed), late_events in zip(
        prepared.batch.partials, prepared.partials, late, strict=True
    ):
        if summary not in rollups:
            rollups[summary] = load_rollups(connection, place, summary, prepared.pane_us)
        added, dirty = rollups[summary].receivers(partial.pane)
        spoiled.update((summary, *slice_) for slice_ in dirty)
        for slice_ in added:
            key = (summary, *slice_)
            if key not in occupied:
                occupied[key] = is_occupied(connection, *key)
            extra = int(occupied[key] or partial.provisional)
            values = (identifier, *key, partial.events, late_events, extra)
            rows.append(schema.PIECES.seal_row(*values, packed=packed))
            occupied[key] = True
            identifier += 1
    connection.executemany(schema.PIECES.insert, rows)
    connection.executemany(
        schema.DIRTY.insert, [schema.DIRTY.seal_row(*key) for key in sorted(spoiled)]
    )


def is_occupied(connection: sqlite3.Connection, summary: int, length: int, start: int) -> bool:
    """Has the slice a piece?"""
    statement = "SELECT 1 FROM pieces WHERE summary = ? AND length = ? AND start = ? LIMIT 1"
    return connection.execute(statement, (summary, length, start)).fetchone() is not None


def _store_rejected(
    connection: sqlite3.Connection,
    record: dict[str, Any],
    rejected: Sequence[tuple[Rejected, Packed]],
    now: int,
) -> None:
    if not rejected:
        return
    pipeline, number = record["id"], record["rejected_number"]
    rows = [
        schema.REJECTED.seal_row(
            pipeline, number + index, now, refused.reason, refused.detail, refused.place,
            packed=packed,
        )
        for index, (refused, packed) in enumerate(rejected, start=1)
    ]  # fmt: skip
    connection.executemany(schema.REJECTED.insert, rows)
    record["rejected_number"] = number + len(rows)
    connection.execute(
        "DELETE FROM rejected WHERE pipeline = ? AND number <= ?",
        (pipeline, record["rejected_number"] - REJECTED_KEPT_MAX),
    )
