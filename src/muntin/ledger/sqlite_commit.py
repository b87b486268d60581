"""A batch in one transaction of a SQLite ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.ledger import schema
from muntin.ledger.records import REJECTED_KEPT_MAX, Batch, Payload, Rejected, Stored
from muntin.ledger.rollups import check_received
from muntin.ledger.rules import (
    ROLE_SUMMARY,
    Owned,
    check_query,
    check_sequence,
    count_late,
    kept_rejected,
    newer,
    panes_of,
    with_late,
)
from muntin.ledger.schema import as_it_is, pack
from muntin.ledger.slices import NOTHING, Slices
from muntin.ledger.sqlite_open import Opened
from muntin.ledger.sqlite_view import load_rollups
from muntin.ledger.tables import Tables

Packed = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """A batch that has been checked and packed, before the transaction begins."""

    batch: Batch
    pane_us: int
    summaries: Mapping[str, int]
    """Ids of the summaries that the batch's partials name."""
    states: Sequence[tuple[Any, ...]]
    """Rows to insert."""
    rejected: Sequence[tuple[Rejected, Packed]]


def prepare(batch: Batch, owned: Owned, identifiers: Mapping[tuple[str, str], int]) -> PackedBatch:
    """Compress outside the transaction, so that it is short."""
    return PackedBatch(
        batch,
        owned.pane_us,
        {one.summary: identifiers[ROLE_SUMMARY, one.summary] for one in batch.partials},
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
    connection: Tables, opened: Opened, record: dict[str, Any], prepared: PackedBatch, now: int
) -> bool:
    """Store a batch, or return False where it is there already.

    `record` is the pipeline's row, read in the same transaction and found to be of this epoch.
    """
    batch, mine = prepared.batch, opened.identifier
    ranges = ranges_of(connection, mine, batch.query_id)
    if any(first <= batch.batch_id <= last for first, last in ranges):
        return False
    if batch.query_id != opened.query_id:
        fed_by = record["query_id"] or opened.query_id
        check_query(
            opened.pipeline, connection.place, opened.mode, batch.query_id, fed_by, bool(ranges)
        )
    newest = max((last for _, last in ranges), default=None)
    check_sequence(opened.pipeline, opened.mode, batch, newest)
    panes = panes_of(batch.partials, prepared.pane_us)
    watermark = record["watermark"]
    late = max(count_late(panes, prepared.pane_us, watermark, batch.counted), batch.late)
    _store_partials(connection, prepared, panes, watermark)
    connection.put(schema.STATES, prepared.states)
    _store_rejected(connection, record, prepared.rejected, now)
    _mark(connection, mine, batch, ranges)
    record.update(
        query_id=batch.query_id,
        watermark=newer(record["watermark"], batch.watermark),
        max_event_time=newer(record["max_event_time"], batch.max_event_time),
        batches=record["batches"] + 1,
        read=record["read"] + batch.read,
        counted=record["counted"] + batch.counted,
        late=record["late"] + late,
        rejected=record["rejected"] + batch.rejected_count,
        committed_at=now,
    )
    connection.put(schema.PIPELINES, [schema.PIPELINES.seal_row(*record.values())])
    return True


def ranges_of(connection: Tables, pipeline: int, query_id: str) -> list[tuple[int, int]]:
    """First and last of each run of committed batches; one run, unless batches were skipped."""
    where = "WHERE pipeline = ? AND query_id = ?"
    rows = connection.rows(schema.BATCHES, where, (pipeline, query_id))
    return [(first, last) for _, _, first, last in rows]


def _mark(connection: Tables, pipeline: int, batch: Batch, ranges: list[tuple[int, int]]) -> None:
    """Add a batch to the runs of those that are there, joining neighbours."""
    first = last = batch.batch_id
    for low, high in ranges:
        if low - 1 <= batch.batch_id <= high + 1:
            first, last = min(first, low), max(last, high)
            where = "WHERE pipeline = ? AND query_id = ? AND first = ?"
            connection.remove(schema.BATCHES, where, (pipeline, batch.query_id, low))
    row = schema.BATCHES.seal_row(pipeline, batch.query_id, first, last)
    connection.put(schema.BATCHES, [row])


def _store_partials(
    connection: Tables, prepared: PackedBatch, panes: Mapping[str, Slices], watermark: int | None
) -> None:
    for name, summary in prepared.summaries.items():
        rollups = load_rollups(connection, summary, prepared.pane_us)
        mine = [partial for partial in prepared.batch.partials if partial.summary == name]
        given: dict[int, list[Slices]] = {}
        for partial in mine:
            length = partial.length or prepared.pane_us
            # what rollups cover was sealed, so that all that comes to them is late
            slices = with_late(partial.slices, length, watermark)
            if length != prepared.pane_us:
                given.setdefault(length, []).append(slices)
            insert_piece(connection, summary, length, partial.shard, slices, partial.payload)
        counted = with_late(panes.get(name, NOTHING), prepared.pane_us, watermark)
        check_received(name, rollups, counted, given)


def insert_piece(
    connection: Tables, summary: int, length: int, shard: int, slices: Slices, payload: Payload
) -> None:
    """Store a piece under the next id."""
    identifier = connection.next_number(schema.PIECES)
    start, until = int(slices.starts[0]), int(slices.starts[-1]) + length
    nbytes = payload.nbytes if isinstance(payload, Stored) else len(payload)
    head = schema.PIECES.seal_row(
        identifier, summary, length, shard, start, until, nbytes,
        packed=pack(slices.to_bytes()),
    )  # fmt: skip
    connection.put(schema.PIECES, [head])
    row = schema.PAYLOADS.seal_row(identifier, packed=as_it_is(payload))
    connection.put(schema.PAYLOADS, [row])


def _store_rejected(
    connection: Tables,
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
    connection.put(schema.REJECTED, rows)
    record["rejected_number"] = number + len(rows)
    kept_after = record["rejected_number"] - REJECTED_KEPT_MAX
    where = "WHERE pipeline = ? AND number <= ?"
    connection.remove(schema.REJECTED, where, (pipeline, kept_after))
