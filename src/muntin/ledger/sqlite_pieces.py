"""Compaction, rollups and retention of pieces in a SQLite ledger. Inside a fenced transaction."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.errors import BadArgument
from muntin.ledger import schema
from muntin.ledger.records import Made, Piece
from muntin.ledger.rollups import Rollups, check_made, check_sums
from muntin.ledger.slices import Slices, added_up
from muntin.ledger.sqlite_commit import insert_piece
from muntin.ledger.sqlite_view import load_rollups, read_pieces
from muntin.ledger.tables import Tables


def compact(
    connection: Tables, summary: int, replaced: Sequence[Piece], made: Sequence[Made], now: int
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
    stored = [
        piece
        for identifier in sorted(ids)
        for piece in read_pieces(
            connection, "", "WHERE id = ? AND summary = ?", (identifier, summary)
        )
    ]
    if len(stored) < len(ids):
        return False
    if any(piece.length != length for piece in stored):
        raise BadArgument(f"pieces {sorted(ids)} are not those of slices of {length} us")
    check_sums("the compacted piece", sums, added_up([piece.slices for piece in stored]))
    delete_pieces(connection, sorted(ids), now)
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
    _insert(connection, summary, length, made)
    rollups.cover(length, start, until)
    _store_coverage(connection, summary, rollups, length)


def drop(connection: Tables, summary: int, pane_us: int, length: int, before: int) -> int | None:
    """Move the horizon of a length; the caller deletes the pieces that end by what is returned."""
    (last,) = connection.execute(
        "SELECT max(until) FROM pieces WHERE summary = ? AND length = ?", (summary, length)
    ).fetchone()
    rollups = load_rollups(connection, summary, pane_us)
    if last is None and length not in rollups.covered:
        return None
    known = rollups.dropped.get(length), rollups.covered.get(length)
    cut = rollups.cut(length, before, 0 if last is None else last)
    rollups.drop(length, cut)
    if known == (rollups.dropped[length], rollups.covered.get(length)):
        return cut  # each batch asks: where nothing moves, nothing is written
    row = schema.DROPPED.seal_row(summary, length, rollups.dropped[length])
    connection.put(schema.DROPPED, [row])
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
        insert_piece(connection, summary, length, piece.shard, piece.slices, piece.payload)


def delete_pieces(connection: Tables, ids: Sequence[int], now: int) -> None:
    """Delete pieces; of payloads in files, note since when nobody names them."""
    for identifier in ids:
        connection.give_up_files("piece = ?", (identifier,), now)
        connection.remove(schema.PIECES, "WHERE id = ?", (identifier,))
        connection.remove(schema.PAYLOADS, "WHERE piece = ?", (identifier,))


def _store_coverage(connection: Tables, summary: int, rollups: Rollups, length: int) -> None:
    covered = schema.COVERAGE.seal_row(summary, length, *rollups.covered[length])
    connection.put(schema.COVERAGE, [covered])
