"""Compaction, rollups and retention of pieces in a SQLite ledger. Inside a fenced transaction."""

from __future__ import annotations

# ruff: noqa: S608  statements are joined from this module's own constants only
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from muntin.errors import BadArgument
from muntin.ledger import schema
from muntin.ledger.payload import pack
from muntin.ledger.records import Piece
from muntin.ledger.rollups import check_replaced, check_sums, holds_all
from muntin.ledger.rules import whole
from muntin.ledger.sqlite_commit import Packed, is_occupied
from muntin.ledger.sqlite_open import next_id
from muntin.ledger.sqlite_view import load_rollups, read_rows


def compact(
    connection: sqlite3.Connection,
    summary: int,
    replaced: Sequence[Piece],
    packed: Packed,
) -> bool:
    """Replace pieces of a slice by one; False where one of them is gone."""
    ids, length, start = check_replaced(replaced)
    heads = _heads(connection, summary, ids)
    if len(heads) < len(ids):
        return False
    if any((head.length, head.start) != (length, start) for head in heads):
        raise BadArgument(f"pieces {sorted(ids)} are not those of the slice at {start}")
    given = sum(piece.events for piece in replaced), sum(piece.late for piece in replaced)
    check_sums("the compacted piece", given, _sums(heads))
    connection.executemany("DELETE FROM pieces WHERE id = ?", [(head.id,) for head in heads])
    _insert(connection, summary, length, start, *given, packed)
    return True


def leave(connection: sqlite3.Connection, place: str, summary: int, ids: Collection[int]) -> None:
    """Pieces that do not merge are not to be compacted."""
    for identifier in sorted(ids):
        where = "WHERE id = ? AND summary = ? AND extra = 1"
        for row in read_rows(connection, place, schema.PIECES, where, (identifier, summary)):
            *values, _, payload = row
            connection.execute(
                schema.PIECES.insert, schema.PIECES.seal_row(*values, 0, packed=pack(payload))
            )


def roll_up(
    connection: sqlite3.Connection,
    place: str,
    summary: int,
    pane_us: int,
    slice_: tuple[int, int],
    parts: Sequence[tuple[tuple[int, int], Packed]],
    seen: Sequence[int],
) -> bool:
    """Store the rollup of a slice (length, start), as in the contract."""
    length, start = slice_
    rollups = load_rollups(connection, place, summary, pane_us)
    rollups.check_slice(length, start)
    if rollups.clean(length, start):
        return True
    heads = _heads(connection, summary, set(seen))
    if len(heads) < len(set(seen)):
        return False
    if any(not start <= head.start < start + length for head in heads):
        raise BadArgument(f"pieces in `seen` lie outside the slice at {start} of {length} us")
    if not holds_all(
        rollups,
        length,
        [(head.id, head.length, head.start) for head in heads],
        _stored(
            connection,
            summary,
            rollups.to_compare(length, start, [(head.length, head.start) for head in heads]),
        ),
    ):
        return False
    sums = sum(part[0][0] for part in parts), sum(part[0][1] for part in parts)
    check_sums("the rollup", sums, _sums(heads))
    where = "summary = ? AND length = ? AND start = ?"
    connection.execute(f"DELETE FROM pieces WHERE {where}", (summary, length, start))
    for held, packed in parts:
        _insert(connection, summary, length, start, *held, packed, extra=0)
    rollups.cover(length, start)
    covered = schema.COVERAGE.seal_row(summary, length, *rollups.covered[length])
    connection.execute(schema.COVERAGE.insert, covered)
    connection.execute(f"DELETE FROM dirty WHERE {where}", (summary, length, start))
    return True


def extend(
    connection: sqlite3.Connection,
    place: str,
    summary: int,
    pane_us: int,
    length: int,
    until: int,
) -> bool:
    """Extend a length's coverage over slices that hold nothing, as in the contract."""
    rollups = load_rollups(connection, place, summary, pane_us)
    gap = rollups.gap_before(length, until)
    if gap is None:
        return True
    held = connection.execute(
        "SELECT 1 FROM pieces "
        "WHERE summary = ? AND length <= ? AND start >= ? AND start < ? LIMIT 1",
        (summary, length, *gap),
    ).fetchone()
    if held is not None:
        return False
    rollups.extend(length, until)
    covered = schema.COVERAGE.seal_row(summary, length, *rollups.covered[length])
    connection.execute(schema.COVERAGE.insert, covered)
    return True


def drop(
    connection: sqlite3.Connection,
    place: str,
    summary: int,
    pane_us: int,
    length: int,
    before: int,
) -> int | None:
    """Move the horizon of a length; the caller deletes the pieces before what is returned."""
    (last,) = connection.execute(
        "SELECT max(start) FROM pieces WHERE summary = ? AND length = ?", (summary, length)
    ).fetchone()
    rollups = load_rollups(connection, place, summary, pane_us)
    if last is None and length not in rollups.covered:
        return None
    cut = rollups.cut(length, before, 0 if last is None else last + length)
    rollups.drop(length, cut)
    row = schema.DROPPED.seal_row(summary, length, rollups.dropped[length])
    connection.execute(schema.DROPPED.insert, row)
    where = "WHERE summary = ? AND length = ?"
    connection.execute(f"DELETE FROM dirty {where} AND start < ?", (summary, length, cut))
    if length in rollups.covered:
        covered = schema.COVERAGE.seal_row(summary, length, *rollups.covered[length])
        connection.execute(schema.COVERAGE.insert, covered)
    else:
        connection.execute(f"DELETE FROM coverage {where}", (summary, length))
    return cut


class _Head(NamedTuple):
    """A piece without its payload."""

    id: int
    length: int
    start: int
    events: int
    late: int


def _heads(connection: sqlite3.Connection, summary: int, ids: Collection[int]) -> list[_Head]:
    statement = "SELECT id, length, start, events, late FROM pieces WHERE id = ? AND summary = ?"
    found = (connection.execute(statement, (whole(i, "id"), summary)).fetchone() for i in ids)
    return [_Head(*row) for row in found if row is not None]


def _sums(heads: Sequence[_Head]) -> tuple[int, int]:
    return sum(head.events for head in heads), sum(head.late for head in heads)


def _stored(
    connection: sqlite3.Connection, summary: int, parts: Iterable[tuple[int, int, int]]
) -> Iterator[tuple[int, int, int]]:
    """(id, length, start) of the pieces in parts (length, from, to)."""
    for length, begin, end in parts:
        yield from connection.execute(
            "SELECT id, length, start FROM pieces WHERE summary = ? AND length = ? "
            "AND start >= ? AND start < ?",
            (summary, length, begin, end),
        )


def _insert(
    connection: sqlite3.Connection,
    summary: int,
    length: int,
    start: int,
    events: int,
    late: int,
    packed: Packed,
    extra: int | None = None,
) -> None:
    key = (summary, length, start)
    if extra is None:
        extra = int(is_occupied(connection, *key))
    values = (next_id(connection, "pieces"), *key, events, late, extra)
    connection.execute(schema.PIECES.insert, schema.PIECES.seal_row(*values, packed=packed))
