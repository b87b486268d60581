"""The writer of one pipeline in a SQLite ledger: every method is one fenced transaction."""

# ruff: noqa: S608  statements are joined from this module's own constants only
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from muntin.errors import BadArgument, LedgerConflict, LedgerError, UnknownName
from muntin.ledger import schema, sqlite_commit
from muntin.ledger.files import PayloadFolder
from muntin.ledger.records import (
    REVISIONS_KEPT_MAX,
    WAITING_COMMANDS_MAX,
    Batch,
    ClosedWindow,
    Made,
    Piece,
    TrendPoint,
)
from muntin.ledger.rules import (
    INT64_MAX,
    ROLE_QUERY,
    ROLE_SUMMARY,
    check_batch,
    check_query_id,
    check_summary,
    check_windows,
    dump,
    newest_of,
    read_spec,
    whole,
)
from muntin.ledger.schema import IN_FILE, pack
from muntin.ledger.sqlite_commit import Record
from muntin.ledger.sqlite_file import SqliteFile, checkpoint
from muntin.ledger.sqlite_open import Opened, ranges_of, store_spec
from muntin.ledger.tables import Tables
from muntin.times import instant_text, now_us

Outcome = TypeVar("Outcome")
_DELETED_AT_ONCE = 200  # rows in one transaction of retention, so that others get their turn


class Writer:
    """The one writer of one pipeline, under its epoch. Thread-safe, one transaction at a time."""

    def __init__(self, file: SqliteFile, url: str, connection: Tables, opened: Opened) -> None:
        self._file = file
        self._url = url
        self._connection = connection
        self._opened = opened
        self.epoch = opened.epoch
        """Higher than that of every writer before this one: when it was opened, microseconds."""
        self._losses = file.losses
        self._rows = [opened.row]  # the pipeline's: the last, and those that tries left
        self._lock = threading.RLock()
        self._closed = False

    # Transactions

    @contextmanager
    def _reading(self) -> Iterator[Tables]:
        with self._lock:
            if self._closed:
                raise LedgerError(f"the writer of {self._url} was closed: open another")
            with self._file.explained():
                yield self._connection

    def _write(self, act: Callable[[Tables, Record], Outcome], *, grows: bool = True) -> Outcome:
        """Run `act` in a transaction under this writer's epoch, with the pipeline's row. It may run
        again, where a store finds that another was first."""

        def fenced_act(connection: Tables) -> Outcome:
            record = self._fenced_record(connection)
            outcome = act(connection, record)
            if grows:
                connection.grow_version()
            left = tuple(record.values())
            self._rows = [*(row for row in self._rows if row != left), left]
            return outcome

        with self._reading() as connection:
            outcome = self._file.write(connection, fenced_act)
            del self._rows[:-1]
            return outcome

    def _fenced_record(self, connection: Tables) -> Record:
        where = "WHERE id = ?"
        rows = connection.rows(schema.PIPELINES, where, (self._opened.identifier,))
        if not rows:
            raise LedgerError(
                f'pipeline "{self._opened.pipeline}" is gone from {self._url}: was the file '
                "replaced? Start the pipeline again"
            )
        record = dict(zip(schema.PIPELINES.columns, rows[0], strict=True))
        if record["epoch"] > self.epoch:
            raise LedgerConflict(
                f'another writer took over pipeline "{self._opened.pipeline}" at '
                f"{instant_text(record['epoch'])}; this one, of {instant_text(self.epoch)}, may "
                "not write any more: let it end, and look which process holds the pipeline"
            )
        # nobody else changes the row under this epoch; and other rows may have been lost alone
        if rows[0] not in self._rows or self._file.losses != self._losses:
            raise LedgerConflict(
                f'pipeline "{self._opened.pipeline}" in {self._url} is not as this writer left it: '
                "the ledger has lost what was committed last (a failover, a restored backup?). "
                "Start the pipeline again, which goes on where nothing is missing"
            )
        return record

    def _summary(self, name: str) -> int:
        check_summary(name, self._opened.owned, self._opened.pipeline)
        return self._opened.identifiers[ROLE_SUMMARY, name]

    def _stored_summary(self, name: str) -> int:
        """Also one that the spec does not have any more."""
        where = "WHERE role = ? AND name = ? AND pipeline = ?"
        with self._reading() as connection:
            values = (ROLE_SUMMARY, name, self._opened.identifier)
            rows = connection.rows(schema.NAMES, where, values)
        return rows[0][0] if rows else self._summary(name)

    # Batches

    def last_batch(self, query_id: str) -> int | None:
        """The newest committed batch of a query, or that was accepted as missing."""
        check_query_id(query_id)
        with self._reading() as connection:
            ranges = ranges_of(connection, self._opened.identifier, query_id)
        return newest_of(ranges)

    def commit(self, batch: Batch, assembler: Mapping[str, Any] | None = None) -> bool:
        """Store a batch in one transaction; False if it was there already.

        `assembler`: its state as well, in the same transaction, where the batch changes it.

        An event is late where its pane's end is at or before the watermark that stood before the
        batch: the ledger counts it so, per slice and for the pipeline (where summaries differ in
        what they counted of a pane, the most of them). What comes to panes that rollups cover
        comes to those rollups as well, in partials of their length.

        Raises
        ------
        BadArgument
            Events are not conserved, a name is not in the spec, a slice does not start on a
            multiple of its length, rollups do not receive what their panes do, or a payload is
            larger than `PAYLOAD_BYTES_MAX`.
        LedgerConflict
            A newer writer took over, another query is given than the writer was opened for, or
            batches in between are missing (`mode="continue"`).
        """
        batch = check_batch(batch, self._opened.owned, self._opened.pipeline)
        body = None
        if assembler is not None:
            body = dump(assembler, "assembler's state")
        store = sqlite_commit.storing(self._opened, batch, now_us())

        def act(connection: Tables, record: Record) -> bool:
            if not store(connection, record):
                return False
            if body is not None:
                self._store_document(connection, "assembler", body)
            connection.grow_version()
            return True

        return self._write(act, grows=False)

    def set_spec(self, spec: Mapping[str, Any]) -> None:
        """Replace the spec while running (a key or a query was added), as `open_writer` would."""
        owned, text = read_spec(spec)
        with self._lock:
            identifiers = self._write(
                lambda connection, record: store_spec(connection, record, text, owned)
            )
            self._opened = replace(self._opened, owned=owned, identifiers=identifiers)

    # Pieces

    def compact(self, replaced: Sequence[Piece], made: Sequence[Made]) -> bool:
        """Replace pieces of one length by others that hold the same events of the same slices.

        False, and no change, where a piece is gone. New pieces that came in between stay. Readers'
        answers do not change, so `version` does not grow.
        """
        if not replaced:
            return True
        identifier = self._summary(replaced[0].summary)
        return self._write(
            lambda connection, _: sqlite_commit.compact(connection, identifier, replaced, made),
            grows=False,
        )

    def roll_up(
        self, summary: str, length: int, start: int, until: int, made: Sequence[Made]
    ) -> None:
        """Store rollups of one length, which cover [start, until) from now on.

        `made` holds every event of that range, in slices of `length`; of a range without events it
        is empty. The range begins where that length's rollups end, or ends where they begin.

        Raises
        ------
        BadArgument
            `made` does not hold the events of that range, it is not sealed or leaves a gap, the
            length does not nest with the pane and the other rollups, or retention has dropped a
            part of what the rollups would be made from.
        """
        identifier = self._summary(summary)
        length, start = whole(length, "length", least=1), whole(start, "start")
        until = whole(until, "until", most=INT64_MAX - length)

        def act(connection: Tables, record: Record) -> None:
            watermark = record["watermark"]
            if watermark is None or until > watermark:
                raise BadArgument(
                    f'rollups of "{summary}" up to {until}: only what is sealed is rolled up, and '
                    f"the watermark is {watermark}"
                )
            span = length, start, until
            sqlite_commit.roll_up(connection, identifier, self._opened.owned.pane_us, span, made)

        self._write(act, grows=False)

    def drop_before(self, summary: str, length: int, before: int) -> int:
        """Retention: no slice of that length before a time is stored any more; pieces deleted.

        What a longer rollup still needs stays until a later call: nothing that the next longer
        one has yet to take in (after its `until`), and only whole slices. So the rollups of a
        length that is no longer made must be given up, or they hold up retention: dropped before
        2**63 - 1 they go, whatever needs them. A piece that holds slices on both sides of the
        horizon is deleted when its last slice is behind it: who reads it leaves out what lies
        before `horizon`. A summary that was taken out of the spec has its retention as well.
        """
        identifier = self._stored_summary(summary)
        length, before = whole(length, "length"), whole(before, "before")
        with self._lock:
            cut = self._write(
                lambda connection, _: sqlite_commit.drop(
                    connection, identifier, self._opened.owned.pane_us, length, before
                ),
                grows=False,
            )
            if cut is None:
                return 0
            return self._delete_until(identifier, length, cut)

    def _delete_until(self, summary: int, length: int, until: int) -> int:
        """Delete pieces that end by a time, some at once; how many."""
        total = 0
        chosen = (
            "SELECT id FROM pieces WHERE summary = ? AND length = ? AND until <= ? "
            f"ORDER BY id LIMIT {_DELETED_AT_ONCE}"
        )

        def act(connection: Tables, _: Record) -> int:
            found = connection.execute(chosen, (summary, length, until)).fetchall()
            sqlite_commit.delete_pieces(connection, [i for (i,) in found])
            if found:
                connection.grow_version()
            return len(found)

        while True:
            deleted = self._write(act, grows=False)
            total += deleted
            if deleted < _DELETED_AT_ONCE:
                return total

    def sweep(self, folder: PayloadFolder, before: int) -> int:
        """Delete payload files of this pipeline that no row names; how many.

        Those that rows named until they were replaced or dropped go when that was before a time;
        others, of tries that failed, when they were written before it.
        """
        before = whole(before, "before")
        mine = self._opened.identifier

        def act(connection: Tables, _: Record) -> tuple[set[str], dict[str, int]]:
            rows = connection.rows(schema.PAYLOADS, f"WHERE codec = {IN_FILE}")
            gone = connection.rows(schema.GIVEN_UP, "WHERE pipeline = ?", (mine,))
            return {stored.path for _, stored in rows}, {path: at for _, path, at in gone}

        named, given_up = self._write(act, grows=False)  # fenced: another's files stay
        deleted = folder.sweep(named, given_up, before)
        gone = "WHERE pipeline = ? AND at < ?", (mine, before)
        self._write(lambda tables, _: tables.remove(schema.GIVEN_UP, *gone), grows=False)
        return deleted

    # Windows, trends, documents

    def close_windows(
        self,
        windows: Sequence[ClosedWindow],
        trends: Sequence[TrendPoint],
        assembler: Mapping[str, Any],
        answers: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        """Store windows, their trends and the assembler's state in one transaction.

        `answers`: to the clients' commands that have changed that state, as of `answer`.
        A window or trend point with the same (summary or query, start) and revision replaces.
        Of each, the newest `REVISIONS_KEPT_MAX` revisions are kept.
        """
        opened = self._opened
        windows, trends = check_windows(windows, trends, opened.owned, opened.pipeline)
        body = dump(assembler, "assembler's state")
        answered = _answered(answers or {})
        closed = [
            schema.WINDOWS.seal_row(
                self._summary(window.summary), window.start, window.revision, window.end,
                window.reason, int(window.overflowed), window.events, window.late,
                dump(window.fill, "fill of a window"), window.closed_at,
            )
            for window in windows
        ]  # fmt: skip
        points = [
            schema.TRENDS.seal_row(
                opened.identifiers[ROLE_QUERY, point.query], point.start, point.revision, point.end,
                packed=pack(point.result),
            )
            for point in trends
        ]  # fmt: skip

        def act(connection: Tables, _: Record) -> None:
            connection.put(schema.WINDOWS, closed)
            for row in closed:  # one that replaces another of its revision is a new closing
                connection.remove(schema.CLOSINGS, _OF_WINDOW, row[:3])
            number = connection.next_number(schema.CLOSINGS)
            numbered = [
                schema.CLOSINGS.seal_row(n, *row[:3]) for n, row in enumerate(closed, number)
            ]
            connection.put(schema.CLOSINGS, numbered)
            connection.put(schema.TRENDS, points)
            for table, owner, rows in (
                (schema.WINDOWS, "summary", closed),
                (schema.TRENDS, "query", points),
            ):
                old = (
                    f"WHERE {owner} = ?1 AND start = ?2 AND revision <= (SELECT max(revision) "
                    f"FROM {table.name} WHERE {owner} = ?1 AND start = ?2) - ?3"
                )
                for row in rows:
                    if row[2]:
                        connection.remove(table, old, (row[0], row[1], REVISIONS_KEPT_MAX))
            for row in closed:
                if row[2]:
                    connection.remove(schema.CLOSINGS, _OF_OLD_REVISIONS, row[:2])
            self._store_document(connection, "assembler", body)
            self._store_answers(connection, answered)

        self._write(act)

    def set_status(self, status: Mapping[str, Any], *, news: bool = True) -> None:
        """What the pipeline is doing now (open windows, rates); small JSON, newest wins. Without
        `news` it is a sign of life: the version stays, and what was made of it is kept."""
        body = dump(status, "status")
        self._write(
            lambda connection, _: self._store_document(connection, "status", body), grows=news
        )

    def set_alerts(self, alerts: Mapping[str, Any]) -> None:
        """Alerts with all that is to be known of them at the next start: one transaction."""
        body = dump(alerts, "state of the alerts")
        self._write(lambda connection, _: self._store_document(connection, "alerts", body))

    def _store_document(self, connection: Tables, name: str, body: str) -> None:
        connection.put_row(schema.DOCUMENTS, self._opened.identifier, name, body)

    def answer(self, command: int, answer: Mapping[str, Any]) -> None:
        """Say what was done about a client's command; a second answer replaces the first."""
        answered = _answered({command: answer})
        self._write(lambda connection, _: self._store_answers(connection, answered))

    def _store_answers(self, connection: Tables, answered: Mapping[int, str]) -> None:
        mine = self._opened.identifier
        for command, body in answered.items():
            where = "WHERE id = ? AND pipeline = ?"
            rows = connection.rows(schema.COMMANDS, where, (command, mine))
            if not rows:
                raise UnknownName(
                    f'pipeline "{self._opened.pipeline}" was not asked command {command!r}; see '
                    "Ledger.commands"
                )
            connection.put_row(schema.COMMANDS, *rows[0][:-1], body)
        if answered:
            old = (
                "WHERE pipeline = ?1 AND answer IS NOT NULL AND id < "
                "(SELECT id FROM commands WHERE pipeline = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)"
            )
            connection.remove(schema.COMMANDS, old, (mine, WAITING_COMMANDS_MAX - 1))

    def drop_history_before(
        self,
        before: int,
        windows_from: Mapping[str, int] | None = None,
        trends_from: Mapping[str, int] | None = None,
    ) -> int:
        """Retention: windows and trends that end, and rejected records that were committed, at
        or before a time; how many.

        `windows_from`, `trends_from`: summary, or standing query, -> start of the first window
        that is still open. Those that start then or later stay, with their revisions.
        """
        before = whole(before, "before")
        mine = self._opened.identifier
        begin = {ROLE_SUMMARY: windows_from or {}, ROLE_QUERY: trends_from or {}}
        # where they start is in the key: the others need not be looked at, batch by batch
        old = "start < ? AND until <= ?"
        windows = f"SELECT start, revision FROM windows WHERE summary = ? AND {old}"
        ended = f"(start, revision) IN ({windows})"

        def act(connection: Tables, _: Record) -> int:
            known = connection.rows(schema.DROPPED, "WHERE length = ?", (schema.CLOSED,))
            last = {summary: number for summary, _, number in known}
            dropped = 0
            for row in connection.rows(schema.NAMES, "WHERE pipeline = ?", (mine,)):
                identifier, role, name = row[:3]
                span = identifier, min(before, begin[role].get(name, before)), before
                if role == ROLE_QUERY:
                    dropped += connection.remove(schema.TRENDS, f"WHERE query = ? AND {old}", span)
                    continue
                newest = f"SELECT max(number) FROM closings WHERE summary = ? AND {ended}"
                (number,) = connection.execute(newest, (identifier, *span)).fetchone()
                if number is not None:  # one may go that was stored earlier
                    number = max(number, last.get(identifier, 0))
                    connection.put_row(schema.DROPPED, identifier, schema.CLOSED, number)
                gone = f"WHERE summary = ? AND {ended}", (identifier, *span)
                connection.remove(schema.CLOSINGS, *gone)
                dropped += connection.remove(schema.WINDOWS, f"WHERE summary = ? AND {old}", span)
            where = "WHERE pipeline = ? AND committed_at <= ?"
            dropped += connection.remove(schema.REJECTED, where, (mine, before))
            if dropped:
                connection.grow_version()
            return dropped

        return self._write(act, grows=False)

    def close(self) -> None:
        """Close the connection; what was committed stays, and the epoch stays taken."""
        with self._lock:
            if not self._closed:
                self._closed = True
                checkpoint(self._connection)
                self._connection.close()


_OF_WINDOW = "WHERE summary = ? AND start = ? AND revision = ?"
_OF_OLD_REVISIONS = (
    "WHERE summary = ?1 AND start = ?2 AND revision < "
    "(SELECT min(revision) FROM windows WHERE summary = ?1 AND start = ?2)"
)


def _answered(answers: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    return {
        whole(command, "command"): dump(answer, "answer to a command")
        for command, answer in answers.items()
    }
