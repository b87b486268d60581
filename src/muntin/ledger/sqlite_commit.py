"""What a writer does in one transaction: a batch; compaction, rollups and retention of pieces."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muntin.errors import BadArgument
from muntin.ledger import schema
from muntin.ledger.records import REJECTED_KEPT_MAX, Batch, Made, Payload, Piece, Rejected, Stored
from muntin.ledger.rollups import Rollups, check_made, check_received, check_sums
from muntin.ledger.rules import (
    INT64_MAX,
    ROLE_SUMMARY,
    check_query,
    check_sequence,
    count_late,
    kept_rejected,
    newer,
    newest_of,
    panes_of,
    payload_of_piece,
    with_late,
)
from muntin.ledger.schema import as_it_is, pack
from muntin.ledger.slices import NOTHING, Slices, added_up
from muntin.ledger.sqlite_open import Opened, ranges_of
from muntin.ledger.sqlite_view import load_rollups, read_pieces
from muntin.ledger.tables import Tables

Record = dict[str, Any]


def storing(opened: Opened, batch: Batch, now: int) -> Callable[[Tables, Record], bool]:
    """What stores a checked batch, or returns False where it is there already.

    It is compressed here, so that the transaction is short. The record is the pipeline's row, read
    in the same transaction and found to be of this epoch.
    """
    pane_us, mine = opened.owned.pane_us, opened.identifier
    panes = panes_of(batch.partials, pane_us)
    states = [
        schema.STATES.seal_row(
            opened.identifiers[ROLE_SUMMARY, state.summary], state.shard,
            packed=pack(state.payload),
        )
        for state in batch.states
    ]  # fmt: skip
    rejected = [(record, pack(record.raw)) for record in kept_rejected(batch.rejected)]

    def act(connection: Tables, record: Record) -> bool:
        ranges = ranges_of(connection, mine, batch.query_id)
        if any(first <= batch.batch_id <= last for first, last in ranges):
            return False
        if batch.query_id != opened.query_id:
            fed_by = record["query_id"] or opened.query_id
            check_query(
                opened.pipeline, connection.place, opened.mode, batch.query_id, fed_by, bool(ranges)
            )
        check_sequence(opened.pipeline, opened.mode, batch, newest_of(ranges))
        watermark = record["watermark"]
        late = max(count_late(panes, pane_us, watermark, batch.counted), batch.late)
        _store_partials(connection, opened, batch, panes, watermark)
        connection.put(schema.STATES, states)
        _store_rejected(connection, record, rejected, now)
        _mark(connection, mine, batch, ranges)
        record.update(
            query_id=batch.query_id,
            watermark=newer(watermark, batch.watermark),
            max_event_time=newer(record["max_event_time"], batch.max_event_time),
            batches=record["batches"] + 1,
            read=record["read"] + batch.read,
            counted=record["counted"] + batch.counted,
            late=record["late"] + late,
            rejected=record["rejected"] + batch.rejected_count,
            committed_at=now,
        )
        connection.put_row(schema.PIPELINES, *record.values())
        return True

    return act


def _mark(connection: Tables, pipeline: int, batch: Batch, ranges: list[tuple[int, int]]) -> None:
    """Add a batch to the runs of those that are there, joining neighbours."""
    first = last = batch.batch_id
    for low, high in ranges:
        if low - 1 <= batch.batch_id <= high + 1:
            first, last = min(first, low), max(last, high)
            where = "WHERE pipeline = ? AND query_id = ? AND first = ?"
            connection.remove(schema.BATCHES, where, (pipeline, batch.query_id, low))
    connection.put_row(schema.BATCHES, pipeline, batch.query_id, first, last)


def _store_partials(
    connection: Tables,
    opened: Opened,
    batch: Batch,
    panes: Mapping[str, Slices],
    watermark: int | None,
) -> None:
    pane_us = opened.owned.pane_us
    for name in {partial.summary: None for partial in batch.partials}:
        summary = opened.identifiers[ROLE_SUMMARY, name]
        rollups = load_rollups(connection, summary, pane_us)
        given: dict[int, list[Slices]] = {}
        for partial in batch.partials:
            if partial.summary != name:
                continue
            length = partial.length or pane_us
            # what rollups cover was sealed, so that all that comes to them is late
            slices = with_late(partial.slices, length, watermark)
            if length != pane_us:
                given.setdefault(length, []).append(slices)
            insert_piece(connection, summary, length, partial.shard, slices, partial.payload)
        counted = with_late(panes.get(name, NOTHING), pane_us, watermark)
        check_received(name, rollups, counted, given)


def insert_piece(
    connection: Tables, summary: int, length: int, shard: int, slices: Slices, payload: Payload
) -> None:
    """Store a piece under the next id."""
    identifier = connection.next_number(schema.PIECES)
    start, until = int(slices.starts[0]), int(slices.starts[-1]) + length
    nbytes = payload.nbytes if isinstance(payload, Stored) else len(payload)
    connection.put_row(
        schema.PIECES, identifier, summary, length, shard, start, until, nbytes,
        packed=pack(slices.to_bytes()),
    )  # fmt: skip
    connection.put_row(schema.PAYLOADS, identifier, packed=as_it_is(payload))


def _store_rejected(
    connection: Tables, record: Record, rejected: Sequence[tuple[Rejected, schema.Packed]], now: int
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


def compact(
    connection: Tables, summary: int, replaced: Sequence[Piece], made: Sequence[Made]
) -> bool:
    """Replace pieces of one length by others; False where one of them is gone."""
    ids = {piece.id for piece in replaced}
    lengths = {piece.length for piece in replaced}
    if len(lengths) != 1 or len(ids) != len(replaced):
        raise BadArgument(
            f"{len(replaced)} pieces to compact have {len(ids)} ids and {len(lengths)} lengths; "
            "they must be different pieces of one length"
        )
    (length,) = lengths
    sums = check_made("a compacted piece", made, length)
    clause = "WHERE id = ? AND summary = ?"
    stored = [p for i in sorted(ids) for p in read_pieces(connection, "", clause, (i, summary))]
    if len(stored) < len(ids):
        return False
    if any(piece.length != length for piece in stored):
        raise BadArgument(f"pieces {sorted(ids)} are not those of slices of {length} us")
    check_sums("the compacted piece", sums, added_up([piece.slices for piece in stored]))
    delete_pieces(connection, sorted(ids))
    _insert(connection, summary, length, made)
    return True


def roll_up(
    connection: Tables, summary: int, pane_us: int, span: tuple[int, int, int], made: Sequence[Made]
) -> None:
    """Store the rollups of a span (length, start, until), as in the contract."""
    length, start, until = span
    rollups = load_rollups(connection, summary, pane_us)
    rollups.check_range(length, start, until)
    sums = check_made("the rollup", made, length)
    sources = rollups.sources(length, start, until)
    parts: list[Slices] = []
    for level, begin, end in sources:
        found = overlapping(connection, summary, level, begin, end)
        parts += [piece.slices.between(begin, end).at_length(length) for piece in found]
    check_sums("the rollup", sums, added_up(parts))
    if length not in rollups.covered:  # they were given up, and their deletion was interrupted
        left = "SELECT id FROM pieces WHERE summary = ? AND length = ?"
        delete_pieces(connection, [i for (i,) in connection.execute(left, (summary, length))])
    _insert(connection, summary, length, made)
    rollups.cover(length, start, until)
    _store_coverage(connection, summary, rollups, length)


def drop(connection: Tables, summary: int, pane_us: int, length: int, before: int) -> int | None:
    """Move the horizon of a length; the caller deletes the pieces that end by what is returned."""
    first, last = connection.execute(
        "SELECT min(start), coalesce(max(until), 0) FROM pieces WHERE summary = ? AND length = ?",
        (summary, length),
    ).fetchone()
    rollups = load_rollups(connection, summary, pane_us)
    known = rollups.dropped.get(length), rollups.covered.get(length)
    cut = rollups.cut(length, before, last)
    if (first is None or first >= cut) and (before < INT64_MAX or length not in rollups.covered):
        return None  # nothing goes: all that ever came is there
    rollups.drop(length, cut)
    if known == (rollups.dropped[length], rollups.covered.get(length)):
        return cut  # each batch asks: where nothing moves, nothing is written
    connection.put_row(schema.DROPPED, summary, length, rollups.dropped[length])
    if length in rollups.covered:
        _store_coverage(connection, summary, rollups, length)
    else:
        where = "WHERE summary = ? AND length = ?"
        connection.remove(schema.COVERAGE, where, (summary, length))
    connection.grow_version()
    return cut


def overlapping(connection: Tables, summary: int, length: int, start: int, end: int) -> list[Piece]:
    """The pieces of a length that hold slices in [start, end)."""
    clause = "WHERE summary = ? AND length = ? AND start < ? AND until > ? ORDER BY id"
    return read_pieces(connection, "", clause, (summary, length, end, start))


def _insert(connection: Tables, summary: int, length: int, made: Sequence[Made]) -> None:
    for piece in made:
        payload = payload_of_piece(piece.payload, "the payload of a piece")
        insert_piece(connection, summary, length, piece.shard, piece.slices, payload)


def delete_pieces(connection: Tables, ids: Sequence[int]) -> None:
    """Delete pieces; of payloads in files, note since when nobody names them."""
    for identifier in ids:
        connection.give_up_files("piece = ?", (identifier,))
        connection.remove(schema.PIECES, "WHERE id = ?", (identifier,))
        connection.remove(schema.PAYLOADS, "WHERE piece = ?", (identifier,))


def _store_coverage(connection: Tables, summary: int, rollups: Rollups, length: int) -> None:
    connection.put_row(schema.COVERAGE, summary, length, *rollups.covered[length])
