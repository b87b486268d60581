"""Reading a SQLite ledger: every method is one read transaction, or part of a snapshot."""

# ruff: noqa: S608  statements are joined from this module's own constants only
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from muntin.ledger import schema
from muntin.ledger.files import fetch, fetch_part
from muntin.ledger.records import (
    ClosedWindow,
    Command,
    Coverage,
    Payload,
    Piece,
    PipelineInfo,
    Rejected,
    Stored,
    TrendPoint,
)
from muntin.ledger.rollups import Rollups
from muntin.ledger.rules import (
    INT64_MAX,
    ROLE_QUERY,
    ROLE_SUMMARY,
    missing_of,
    newest_of,
    time_range,
    whole,
)
from muntin.ledger.slices import Slices
from muntin.ledger.tables import Tables

Connect = Callable[[], AbstractContextManager[Tables]]


class View:
    """The reading half of a ledger. A name that is not there has nothing: no error. `connect` lends
    connections."""

    def __init__(self, place: str, connect: Connect) -> None:
        self._place = place
        self._connect = connect
        self._behind = False
        self._state: tuple[int, int] | None = None  # of a snapshot, which stays

    def behind(self) -> bool:
        """Whether commits may be missing, since the ledger's store did not answer when asked."""
        return self._behind

    # Rows

    def _rows(
        self, table: schema.SqlTable, clause: str, values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        with self._connect() as connection:
            return connection.rows(table, clause, _bindable(values))

    def _plain(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._connect() as connection:
            return connection.execute(statement, _bindable(values)).fetchall()

    # Pipelines

    def version(self) -> int:
        """Grows with each transaction that readers may care about; cheap to poll."""
        return self.state()[1]

    def state(self) -> tuple[int, int]:
        """`generation` and `version`: which state of which ledger this is."""
        return self._state or self._plain(STATE)[0]

    def pipelines(self) -> list[PipelineInfo]:
        """All pipelines of the ledger, as their last commits left them."""
        with self._connect() as connection:
            rows = connection.rows(schema.PIPELINES, "ORDER BY name")
            connection.check_named()
        return [_pipeline(row) for row in rows]

    def pipeline(self, name: str) -> PipelineInfo | None:
        """One of them; None where it is not there."""
        rows = self._rows(schema.PIPELINES, "WHERE name = ?", (name,))
        return _pipeline(rows[0]) if rows else None

    def last_batch(self, pipeline: str, query_id: str) -> int | None:
        """The newest committed batch of a query, or that was accepted as missing."""
        clause = f"WHERE pipeline = {_PIPELINE} AND query_id = ?"
        rows = self._rows(schema.BATCHES, clause, (pipeline, query_id))
        return newest_of((first, last) for *_, first, last in rows)

    def missing_batches(self, pipeline: str) -> int:
        """Batches of its queries that the ledger has lost, or never had, and that were accepted as
        missing (`mode="append"`)."""
        behind = f"SELECT query_id FROM batches WHERE pipeline = {_PIPELINE} AND first > 0"
        clause = f"WHERE pipeline = {_PIPELINE} AND query_id IN ({behind})"
        ranges: dict[str, list[tuple[int, int]]] = {}
        for _, query, first, last in self._rows(schema.BATCHES, clause, (pipeline, pipeline)):
            ranges.setdefault(query, []).append((first, last))
        return sum(map(missing_of, ranges.values()))

    def assembler(self, pipeline: str) -> Mapping[str, Any] | None:
        """The assembler's state as `close_windows` last stored it."""
        return self._document(pipeline, "assembler")

    def status(self, pipeline: str) -> Mapping[str, Any] | None:
        """What `set_status` last stored."""
        return self._document(pipeline, "status")

    def alerts(self, pipeline: str) -> Mapping[str, Any] | None:
        """What `set_alerts` last stored."""
        return self._document(pipeline, "alerts")

    def _document(self, pipeline: str, name: str) -> Mapping[str, Any] | None:
        rows = self._rows(
            schema.DOCUMENTS, f"WHERE pipeline = {_PIPELINE} AND name = ?", (pipeline, name)
        )
        return json.loads(rows[0][2]) if rows else None

    # Pieces

    def pieces(
        self,
        summary: str,
        length: int,
        start: int | None = None,
        end: int | None = None,
        *,
        known: Mapping[int, Piece] | None = None,
    ) -> list[Piece]:
        """Pieces of that length that overlap [start, end), by id, without their payloads. `known`:
        some of this ledger that were read earlier, by id: they are not read again."""
        low, high = time_range(start, end)
        clause = f"WHERE summary = {_NAME} AND length = ? AND start < ? AND until > ? ORDER BY id"
        values = _bindable((ROLE_SUMMARY, summary, whole(length, "length"), high, low))
        with self._connect() as connection:
            if not known:
                return read_pieces(connection, summary, clause, values)
            ids = connection.execute(f"SELECT id FROM pieces {clause}", values).fetchall()
            by_id = "WHERE id = ?"
            return [
                known.get(each) or read_pieces(connection, summary, by_id, (each,))[0]
                for (each,) in ids
            ]

    def payloads(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Piece -> payload, from its file where it lies in one. A piece that is gone is left out.
        Raises LedgerError: a row is damaged, or a file is missing, or damaged."""
        numbers = [whole(identifier, "id") for identifier in ids]
        with self._connect() as connection:
            found = connection.payloads(numbers)
        return {number: in_memory(self._place, payload) for number, payload in found.items()}

    def heads(self, ids: Sequence[int], nbytes: int) -> dict[int, bytes]:
        """Piece -> so many of its payload's first bytes at least, or all; unchecked."""
        with self._connect() as connection:
            found = connection.heads(ids, nbytes)
        home = home_of(self._place)
        return {
            number: fetch_part(payload, home, nbytes) if isinstance(payload, Stored) else payload
            for number, payload in found.items()
        }

    def sizes(self) -> dict[str, tuple[int, int, int | None, int | None]]:
        """Summary -> pieces (or states), their bytes, from when and to when there are events, as
        the shortest slices that are left tell."""
        of_names = "JOIN names ON names.id = summary GROUP BY names.name"
        found: dict[str, tuple[int, int, int | None, int | None]] = {
            name: (count, size, None, None)
            for name, count, size in self._plain(
                f"SELECT names.name, count(*), sum(length(payload)) FROM states {of_names}"
            )
        }
        for name, length, count, size, start, until in self._plain(
            "SELECT names.name, length, count(*), sum(bytes + length(pieces.payload)), min(start), "
            "max(until) FROM pieces JOIN names ON names.id = summary "
            "GROUP BY summary, length ORDER BY length"
        ):
            counted, sized, first, last = found.get(name, (0, 0, None, None))
            if first is None or start + length <= first:  # else it begins before what is in it
                first = start
            found[name] = counted + count, sized + size, first, max(until, last or until)
        return found

    def bounds(self, summary: str, length: int) -> tuple[int, int] | None:
        """First slice start and last slice end, or None where there is nothing."""
        among = f"FROM pieces WHERE summary = {_NAME} AND length = ?"
        values = (ROLE_SUMMARY, summary, whole(length, "length"))
        ((first, last),) = self._plain(
            f"SELECT (SELECT min(start) {among}), (SELECT max(until) {among})", values * 2
        )
        return None if first is None else (first, last)

    def states(self, summary: str) -> dict[int, bytes]:
        """Shard -> payload of a sequential summary, as the last commit left them."""
        rows = self._rows(
            schema.STATES, f"WHERE summary = {_NAME} ORDER BY shard", (ROLE_SUMMARY, summary)
        )
        return {shard: payload for _, shard, payload in rows}

    def coverage(self, summary: str) -> list[Coverage]:
        """The rollups of a summary, by length."""
        clause = f"WHERE summary = {_NAME} ORDER BY length"
        rows = self._rows(schema.COVERAGE, clause, (ROLE_SUMMARY, summary))
        return [Coverage(*reach) for _, *reach in rows]

    def horizon(self, summary: str, length: int) -> int | None:
        """Retention has dropped the slices of that length before this; None: it dropped none."""
        rows = self._rows(
            schema.DROPPED,
            f"WHERE summary = {_NAME} AND length = ?",
            (ROLE_SUMMARY, summary, whole(length, "length")),
        )
        return rows[0][2] if rows else None

    # Windows and trends

    def windows(
        self,
        summary: str | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
        newest_first: bool = False,
        revisions: bool = False,
    ) -> list[ClosedWindow]:
        """Closed windows that start in [start, end), by (start, summary, revision). The newest
        revision of each, or all that are kept with `revisions`."""
        conditions, values = ["start >= ?", "start < ?"], [*time_range(start, end)]
        if summary is not None:
            conditions.append(f"summary = {_NAME}")
            values += _bindable((ROLE_SUMMARY, summary))
        if not revisions:
            conditions.append(_newest("windows", "summary"))
        values.append(whole(limit, "limit", least=0))
        down = " DESC" if newest_first else ""
        owner = "(SELECT name FROM names WHERE id = summary)"
        clause = (
            f"WHERE {' AND '.join(conditions)} "
            f"ORDER BY start{down}, {owner}{down}, revision{down} LIMIT ?"
        )
        with self._connect() as connection:
            rows = connection.rows(schema.WINDOWS, clause, values)
            names = _names(connection) if rows else {}
        return [_window(names[row[0]], row) for row in rows]

    def are_closed(self, summary: str, starts: Iterable[int]) -> list[bool]:
        """Whether a window of the summary that starts then has closed, for each."""
        statement = f"SELECT EXISTS (SELECT 1 FROM windows WHERE summary = {_NAME} AND start = ?)"
        with self._connect() as connection:
            found = (
                connection.execute(statement, (ROLE_SUMMARY, summary, start)) for start in starts
            )
            return [bool(row.fetchone()[0]) for row in found]

    def generation(self) -> int:
        """Tells this ledger from others that stood, or will stand, in its place."""
        return self.state()[0]

    def last_closing(self) -> int:
        """The highest number that a closing was ever given; 0 before the first."""
        found = self._plain("SELECT seq FROM sqlite_sequence WHERE name = 'closings'")
        return found[0][0] if found else 0

    def closings_dropped(self, summary: str | None = None) -> int:
        """Closings, of one summary or of all, up to this number are not all there: retention, or
        a reset of their pipeline, took some."""
        newest = f"SELECT max(before) FROM dropped WHERE length = {schema.CLOSED}"
        if summary is None:  # a reset may have left no summary that says so
            statement = f"SELECT max(closings_dropped, coalesce(({newest}), 0)) FROM meta"
            return self._plain(statement)[0][0]
        of_one = f"SELECT coalesce(({newest} AND summary = {_NAME}), 0)"
        return self._plain(of_one, (ROLE_SUMMARY, summary))[0][0]

    def closings(
        self, after: int, *, until: int | None = None, summary: str | None = None, limit: int = 1000
    ) -> list[tuple[int, ClosedWindow]]:
        """Windows, of one summary or of all, in the order in which they were stored, by number.

        Those with a number above `after`, up to `until`; of each the newest revision, whose number
        it has. Numbers grow, whatever clocks do, and none is used again in a generation, also
        where the ledger has lost its last commits.
        """
        columns = ", ".join(f"windows.{name}" for name in (*schema.WINDOWS.columns, "crc"))
        which, values = _closings(after, until, summary)
        statement = (  # CROSS: in the order of numbers, however many there are
            f"SELECT closings.number, {columns} FROM closings CROSS JOIN windows ON "
            "windows.summary = closings.summary AND windows.start = closings.start "
            f"AND windows.revision = closings.revision WHERE {which} ORDER BY number LIMIT ?"
        )
        values += (whole(limit, "limit", least=0),)
        with self._connect() as connection:
            found = connection.execute(statement, _bindable(values)).fetchall()
            names = _names(connection) if found else {}
        opened = [(row[0], schema.WINDOWS.open_row(row[1:], self._place)) for row in found]
        return [(number, _window(names[row[0]], row)) for number, row in opened]

    def closings_beyond(
        self, most: int, after: int, *, until: int, summary: str | None = None
    ) -> tuple[int, int]:
        """How many of these `closings` are not among the newest `most`, and the newest of those:
        its number; (0, `after`) where there are none."""
        which, values = _closings(after, until, summary)
        older = f"SELECT number FROM closings WHERE {which} ORDER BY number DESC LIMIT 1 OFFSET ?"
        found = self._plain(older, (*values, whole(most, "most", least=0)))
        if not found:
            return 0, after
        which, values = _closings(after, found[0][0], summary)
        counted = self._plain(f"SELECT count(*) FROM closings WHERE {which}", values)
        return counted[0][0], found[0][0]

    def trend(
        self,
        query: str,
        *,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
        newest_first: bool = False,
        revisions: bool = False,
    ) -> list[TrendPoint]:
        """A standing query's results of the windows that start in [start, end). The newest revision
        of each, or all that are kept with `revisions`."""
        down = " DESC" if newest_first else ""
        newest = "" if revisions else "AND " + _newest("trends", "query")
        rows = self._rows(
            schema.TRENDS,
            f"WHERE query = {_NAME} AND start >= ? AND start < ? {newest} "
            f"ORDER BY start{down}, revision{down} LIMIT ?",
            (ROLE_QUERY, query, *time_range(start, end), whole(limit, "limit", least=0)),
        )
        return [TrendPoint(query, row[1], row[3], row[2], row[4]) for row in rows]

    def trend_marks(
        self, query: str, *, start: int | None = None, end: int | None = None, limit: int
    ) -> list[tuple[int, int, int, int]]:
        """Start, end, revision and checksum of what `trend` would read, the newest first."""
        return self._plain(
            f"SELECT start, until, revision, crc FROM trends WHERE query = {_NAME} "
            f"AND start >= ? AND start < ? AND {_newest('trends', 'query')} "
            "ORDER BY start DESC LIMIT ?",
            (ROLE_QUERY, query, *time_range(start, end), whole(limit, "limit", least=0)),
        )

    def unanswered(
        self, query: str, summary: str, start: int | None = None, end: int | None = None
    ) -> tuple[int, int]:
        """Of the closed windows that start in [start, end), from a standing query's first result
        on: how many it has an older revision of, and how many it has no result of."""
        named = _bindable((ROLE_QUERY, query)), _bindable((ROLE_SUMMARY, summary))
        low, high = time_range(start, end)
        ((older, none),) = self._plain(
            "WITH results AS (SELECT start, max(revision) AS newest FROM trends "
            f"WHERE query = {_NAME} AND start >= ? AND start < ? GROUP BY start), "
            "closed AS (SELECT start, max(revision) AS newest FROM windows "
            f"WHERE summary = {_NAME} AND start >= ? AND start < ? "
            f"AND start >= (SELECT min(start) FROM trends WHERE query = {_NAME}) GROUP BY start) "
            "SELECT coalesce(sum(results.newest < closed.newest), 0), "
            "coalesce(sum(results.newest IS NULL), 0) "
            "FROM closed LEFT JOIN results ON results.start = closed.start",
            (*named[0], low, high, *named[1], low, high, *named[0]),
        )
        return older, none

    # Control and rejected records

    def commands(self, pipeline: str, *, waiting: bool = True) -> list[Command]:
        """Commands by id: those that wait, or all that are kept."""
        clause = (
            f"WHERE pipeline = {_PIPELINE} {'AND answer IS NULL' if waiting else ''} ORDER BY id"
        )
        return [_command(pipeline, row) for row in self._rows(schema.COMMANDS, clause, (pipeline,))]

    def command(self, identifier: int) -> Command | None:
        """A command by its id; None where it is not kept any more."""
        with self._connect() as connection:
            rows = connection.rows(schema.COMMANDS, "WHERE id = ?", (whole(identifier, "id"),))
            if not rows:
                return None
            statement = "SELECT name FROM pipelines WHERE id = ?"
            (pipeline,) = connection.execute(statement, (rows[0][1],)).fetchone()
            return _command(pipeline, rows[0])

    def rejected(
        self, pipeline: str, *, limit: int = 100, after: int = 0, newest_first: bool = False
    ) -> Iterator[tuple[int, Rejected]]:
        """Rejected records that were kept, with their running number (from 1, per pipeline)."""
        order = "DESC" if newest_first else ""
        rows = self._rows(
            schema.REJECTED,
            f"WHERE pipeline = {_PIPELINE} AND number > ? ORDER BY number {order} LIMIT ?",
            (pipeline, whole(after, "after"), whole(limit, "limit", least=0)),
        )
        for _, number, _, reason, detail, place, raw in rows:
            yield number, Rejected(reason, detail, place, raw)

    def rejected_reasons(self, pipeline: str) -> dict[str, int]:
        """How many of the rejected records that were kept have each reason, most first."""
        counted = (
            f"SELECT reason, count(*) AS n FROM rejected WHERE pipeline = {_PIPELINE} "
            "GROUP BY reason ORDER BY n DESC, reason"
        )
        return dict(self._plain(counted, (pipeline,)))


def home_of(place: str) -> str:
    """The folder of a ledger's own payload files: beside its file; "" where it is a store."""
    return "" if "://" in place else f"{Path(place).absolute()}.payloads"


def in_memory(place: str, payload: Payload) -> bytes:
    """The bytes of a payload, wherever they lie."""
    return fetch(payload, home_of(place)) if isinstance(payload, Stored) else payload


STATE = "SELECT generation, version FROM meta"
_PIPELINE = "(SELECT id FROM pipelines WHERE name = ?)"
_NAME = "(SELECT id FROM names WHERE role = ? AND name = ?)"


def _newest(table: str, owner: str) -> str:
    return (
        f"revision = (SELECT max(revision) FROM {table} AS other "
        f"WHERE other.{owner} = {table}.{owner} AND other.start = {table}.start)"
    )


def _closings(
    after: int, until: int | None, summary: str | None
) -> tuple[str, tuple[int | str, ...]]:
    """A condition on closings, and its values."""
    which = f"number > ? AND number <= ? AND closings.{_newest('closings', 'summary')}"
    last = INT64_MAX if until is None else whole(until, "until")
    values = (whole(after, "after"), last)
    if summary is None:
        return which, values
    # +: else SQLite sorts all of the summary's by number
    return f"{which} AND +closings.summary = {_NAME}", (*values, ROLE_SUMMARY, summary)


def _bindable(values: Sequence[Any]) -> list[Any]:
    """What is neither a number nor a possible name matches nothing, rather than an error."""
    return [
        value if isinstance(value, int) or (isinstance(value, str) and value.isascii()) else ""
        for value in values
    ]


def read_pieces(connection: Tables, name: str, clause: str, values: Sequence[Any]) -> list[Piece]:
    """Pieces without their payloads; `name` is that of the summary that the clause chooses."""
    return [
        Piece(identifier, name, length, shard, Slices.from_bytes(columns), size)
        for identifier, _, length, shard, _, _, size, columns in connection.rows(
            schema.PIECES, clause, values
        )
    ]


def load_rollups(connection: Tables, summary: int | None, pane_us: int) -> Rollups:
    """What is known of a summary's rollups."""
    rollups = Rollups(pane_us)
    clause, values = "WHERE summary = ?", (summary,)
    for _, length, start, until in connection.rows(schema.COVERAGE, clause, values):
        rollups.covered[length] = (start, until)
    for _, length, before in connection.rows(schema.DROPPED, f"{clause} AND length > 0", values):
        rollups.dropped[length] = before
    return rollups


def _names(connection: Tables) -> dict[int, str]:
    return {row[0]: row[2] for row in connection.rows(schema.NAMES)}


def _window(summary: str, row: tuple[Any, ...]) -> ClosedWindow:
    return ClosedWindow(
        summary, row[1], row[3], row[4], row[2], bool(row[5]), row[6], row[7],
        json.loads(row[8]), row[9],
    )  # fmt: skip


def _pipeline(row: tuple[Any, ...]) -> PipelineInfo:
    _, name, spec, _, epoch, query_id, watermark, newest, batches, *counts, _, at = row
    read, counted, late, rejected = counts
    return PipelineInfo(
        name, json.loads(spec), epoch, query_id, watermark, newest, batches, read, counted, late,
        rejected, at,
    )  # fmt: skip


def _command(pipeline: str, row: tuple[Any, ...]) -> Command:
    identifier, _, action, arguments, client, asked_at, answer = row
    return Command(
        identifier, pipeline, action, json.loads(arguments), client, asked_at,
        None if answer is None else json.loads(answer),
    )  # fmt: skip
