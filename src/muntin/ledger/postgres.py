"""A ledger's store in PostgreSQL: `postgresql://user@host/database?schema=muntin`.

Four tables in a schema: `ledger` (the head), `rows`, `payloads` and `log`. A transaction is one
statement, so that no lock is ever held while a client thinks, or sleeps: it moves the head, if the
head is where the client saw it, and all else follows from that. NOTIFY tells readers.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from muntin.errors import LedgerError, LedgerMissing
from muntin.ledger.records import FORMAT_VERSION, check_name
from muntin.ledger.schema import check_format
from muntin.ledger.store import GONE_SECONDS, META, Change, Entry, Head, StoreAway, StoreError

SCHEMA = "muntin"
SCHEMA_CHARACTERS_MAX = 63  # PostgreSQL cuts longer names: two ledgers would be one
IDLE_CONNECTIONS_MAX = 8
POLL_SECONDS = 0.05  # where the server cannot notify: a standby
DEAF_SECONDS = 10.0  # until it is asked again whether it does: it may have been promoted
ROWS_AT_ONCE = 1_000
PARAMETERS_MAX = 10_000  # the protocol ends at 65,535
_TABLES = """
CREATE TABLE {schema}.ledger (
    one integer PRIMARY KEY CHECK (one = 1),
    format integer NOT NULL,
    number bigint NOT NULL,
    token bigint NOT NULL
);
CREATE TABLE {schema}.rows (key text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE {schema}.payloads (piece bigint PRIMARY KEY, body bytea NOT NULL, gone timestamptz);
ALTER TABLE {schema}.payloads ALTER body SET STORAGE EXTERNAL;
CREATE INDEX payloads_gone ON {schema}.payloads (gone) WHERE gone IS NOT NULL;
CREATE TABLE {schema}.log (
    number bigint PRIMARY KEY,
    token bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    keys text[] NOT NULL,
    bodies bytea[] NOT NULL
);
ALTER TABLE {schema}.log ALTER keys SET STORAGE EXTERNAL, ALTER bodies SET STORAGE EXTERNAL;
"""
# A plan for what is given would be made with it: megabytes of payloads, copied several times. What
# waits for a lock would go on to wait when we have hung up, and each try take one more of the
# server's connections, until nobody gets one: it ends before a reader gives up.
_SETTINGS = """
SET default_transaction_isolation = 'read committed';
SET plan_cache_mode = force_generic_plan;
SET lock_timeout = '900ms'
"""
_APPEND = """
WITH moved AS (
    UPDATE {schema}.ledger SET number = number + 1, token = %(newer)s
    WHERE number = %(number)s AND token = %(token)s RETURNING number
), given AS (
    SELECT key, body FROM unnest(%(keys)s::text[], %(bodies)b::bytea[]) AS g (key, body)
), put AS (
    INSERT INTO {schema}.rows SELECT key, body FROM given, moved WHERE body IS NOT NULL
    ON CONFLICT (key) DO UPDATE SET body = excluded.body
), removed AS (
    DELETE FROM {schema}.rows USING given, moved
    WHERE rows.key = given.key AND given.body IS NULL
), brought AS (
    INSERT INTO {schema}.payloads (piece, body)
    SELECT piece, body FROM ({payloads}) AS p (piece, body), moved
    ON CONFLICT (piece) DO UPDATE SET body = excluded.body, gone = NULL
), ended AS (
    UPDATE {schema}.payloads SET gone = now() FROM moved WHERE piece = ANY (%(gone)s::bigint[])
), cleaned AS (
    DELETE FROM {schema}.payloads USING moved WHERE gone < now() - %(kept)s * interval '1 second'
), noted AS (
    INSERT INTO {schema}.log (number, token, keys, bodies)
    SELECT number, %(newer)s, %(keys)s::text[], %(bodies)b::bytea[] FROM moved
), trimmed AS (
    DELETE FROM {schema}.log USING moved WHERE log.number <= moved.number - %(log_kept)s
)
SELECT pg_notify(%(channel)s, '') FROM moved
"""
_SINCE = """
SELECT number, token, CASE WHEN number > %(number)s THEN keys END,
    CASE WHEN number > %(number)s THEN bodies END
FROM {schema}.log WHERE number >= %(number)s ORDER BY number
"""


class _PatientConnection(psycopg.Connection[Any]):
    """Waits for an answer no longer than it is allowed to."""

    patience: float = 10.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        limit = self.patience if timeout is None else timeout
        return super().wait(gen, interval, timeout=limit)


class PostgresStore:
    """A `Store` in a schema of a PostgreSQL database.

    `conninfo`: as libpq takes it, with the password where it has one. `place`: the same without a
    password, for people. Raises LedgerError: the schema's name is longer than PostgreSQL keeps.
    """

    def __init__(self, conninfo: str, place: str, schema: str = SCHEMA) -> None:
        if len(schema) > SCHEMA_CHARACTERS_MAX:
            raise LedgerError(
                f"{place}: PostgreSQL cuts a schema's name after {SCHEMA_CHARACTERS_MAX} "
                f"characters, and this one has {len(schema)}: shorten it"
            )
        self.place = place
        self._conninfo = conninfo
        self._schema = '"' + check_name(schema, "schema") + '"'
        self._channel = f"muntin_{schema}"[:63]
        self._lock = threading.Lock()
        self._idle: dict[bool, list[_PatientConnection]] = {False: [], True: []}
        self._closed = False
        self._deaf_until = 0.0

    # Connections

    @contextmanager
    def _connection(
        self, patience: float, *, listens: bool = False
    ) -> Iterator[_PatientConnection]:
        connection = self._taken(listens) or self._connect(patience, listens=listens)
        connection.patience = patience
        try:
            yield connection
        except BaseException as problem:
            connection.close()
            if isinstance(problem, psycopg.Error):
                if not problem.sqlstate:  # the server has not said so: others may be dead as well
                    self._hang_up()
                raise self._as_ours(problem) from problem
            raise
        with self._lock:
            if not self._closed and len(self._idle[listens]) < IDLE_CONNECTIONS_MAX:
                self._idle[listens].append(connection)
                return
        connection.close()

    def _taken(self, listens: bool) -> _PatientConnection | None:
        with self._lock:
            while self._idle[listens]:
                connection = self._idle[listens].pop()
                if not connection.closed:
                    return connection
        return None

    def _connect(self, patience: float, *, listens: bool) -> _PatientConnection:
        try:
            connection = _PatientConnection.connect(
                self._conninfo, autocommit=True, prepare_threshold=None,
                connect_timeout=max(2, round(patience)), fallback_application_name="muntin",
                client_encoding="utf8",  # psycopg gives bytes for texts of a database of SQL_ASCII
            )  # fmt: skip
        except psycopg.Error as problem:
            raise self._as_ours(problem) from problem
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # of `load`
        connection.patience = patience
        try:
            connection.execute(_SETTINGS)
            if listens:
                connection.execute(self._sql('LISTEN "{channel}"'))
            else:  # a pooler may give it a session that another listened by: psycopg keeps its news
                connection.add_notify_handler(lambda _: None)
        except psycopg.Error as problem:
            connection.close()
            raise self._as_ours(problem) from problem
        return connection

    def _as_ours(self, problem: psycopg.Error) -> Exception:
        """What an error of the server means."""
        state = problem.sqlstate or ""
        said = " ".join(str(problem).split())
        for begin, remedy in _REMEDIES.items():
            if state.startswith(begin):
                return StoreError(f"{self.place}: {remedy} ({said})")
        for words, remedy in _REFUSALS.items():
            if not state and words in said:
                return StoreError(f"{self.place}: {remedy} ({said})")
        if isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
            return StoreAway(said)
        return StoreError(f"{self.place}: PostgreSQL says: {said} ({state or 'no code'})")

    def _sql(self, statement: str, **parts: str) -> Any:
        return statement.format(schema=self._schema, channel=self._channel, **parts)

    # What the ledger asks

    def begin(self, create: bool, meta: bytes, patience: float) -> None:
        with self._connection(patience) as connection:
            found = self._format(connection)
            if found is None:
                if not create:
                    raise LedgerMissing(
                        f"there is no ledger in schema {self._schema} of {self.place}: correct the "
                        "URL"
                    )
                self._create(connection, meta)
                found = self._format(connection)
        check_format(found or 0, self.place)

    def _format(self, connection: _PatientConnection) -> int | None:
        there = connection.execute("SELECT to_regclass(%s)", [f"{self._schema}.ledger"])
        if there.fetchone() == (None,):
            return None
        row = connection.execute(self._sql("SELECT format FROM {schema}.ledger")).fetchone()
        return 0 if row is None else row[0]

    def _create(self, connection: _PatientConnection, meta: bytes) -> None:
        """Two may do so at once: the second finds it made."""
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self._channel])
            if self._format(connection) is not None:
                return
            there = connection.execute("SELECT to_regnamespace(%s)", [self._schema]).fetchone()
            if there == (None,):  # to ask for one that is there takes a right as well
                connection.execute(self._sql("CREATE SCHEMA {schema}"))
            connection.execute(self._sql(_TABLES))
            connection.execute(self._sql("INSERT INTO {schema}.rows VALUES (%s, %b)"), [META, meta])
            connection.execute(
                self._sql("INSERT INTO {schema}.log VALUES (0, 0, now(), '{{}}', '{{}}')")
            )
            connection.execute(
                self._sql("INSERT INTO {schema}.ledger VALUES (1, %s, 0, 0)"), [FORMAT_VERSION]
            )
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    def since(self, head: Head, patience: float) -> list[tuple[Head, Sequence[Change]]] | None:
        with self._connection(patience) as connection:
            cursor = connection.execute(self._sql(_SINCE), {"number": head.number}, binary=True)
            rows = cursor.fetchall()
        if not rows or tuple(rows[0][:2]) != tuple(head):
            return None
        return [
            (Head(number, token), list(zip(keys, bodies, strict=True)))
            for number, token, keys, bodies in rows[1:]
        ]

    def load(self, patience: float) -> tuple[Head, Iterator[Sequence[Change]]]:
        found = self._loaded(patience)
        return next(found), found  # pyright: ignore[reportReturnType]

    def _loaded(self, patience: float) -> Iterator[Head | Sequence[Change]]:
        """The head, then all rows of the same moment."""
        wanted = True
        try:
            with self._connection(patience) as connection, connection.transaction():
                statement = self._sql("SELECT number, token FROM {schema}.ledger")
                row = connection.execute(statement).fetchone()
                if row is None:
                    raise StoreError(f"{self.place} holds no ledger any more: was it deleted?")
                wanted = False
                yield Head(*row)
                with connection.cursor("rows", binary=True) as cursor:
                    wanted = True
                    cursor.execute(self._sql("SELECT key, body FROM {schema}.rows"))
                    while found := cursor.fetchmany(ROWS_AT_ONCE):
                        wanted = False
                        yield found
                        wanted = True
        except StoreAway:
            if wanted:  # else who reads no further has left the connection, and need not know
                raise

    def append(self, head: Head, newer: Head, entry: Entry, patience: float) -> bool:
        given = {
            "number": head.number,
            "token": head.token,
            "newer": newer.token,
            "keys": [key for key, _ in entry.changes],
            "bodies": [body for _, body in entry.changes],
            "gone": list(entry.gone),
            "kept": GONE_SECONDS,
            "log_kept": entry.log_kept,
            "channel": self._channel,
        }
        payloads, rows = _rows(entry.payloads)
        with self._connection(patience) as connection:
            statement = self._sql(_APPEND, payloads=payloads)
            return connection.execute(statement, given | rows).rowcount == 1

    def payloads(self, ids: Sequence[int], patience: float) -> Mapping[int, bytes]:
        statement = self._sql("SELECT piece, body FROM {schema}.payloads WHERE piece = ANY (%s)")
        with self._connection(patience) as connection:
            return dict(connection.execute(statement, [list(ids)], binary=True).fetchall())

    def wait(self, head: Head, seconds: float) -> None:  # noqa: ARG002
        known = self._taken(listens=True)
        if known is None:
            if time.monotonic() >= self._deaf_until:
                try:
                    with self._connection(seconds, listens=True):
                        return  # what came before it listened is still to be looked for
                except StoreError:  # a standby does not listen
                    self._deaf_until = time.monotonic() + DEAF_SECONDS
            time.sleep(min(seconds, POLL_SECONDS))
            return
        with self._lock:
            self._idle[True].append(known)
        with self._connection(seconds, listens=True) as connection:
            for _ in connection.notifies(timeout=seconds, stop_after=1):
                pass

    def close(self) -> None:
        self._closed = True
        self._hang_up()

    def _hang_up(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, {False: [], True: []}
        for connection in (*idle[False], *idle[True]):
            connection.close()


def _rows(payloads: Mapping[int, bytes]) -> tuple[str, dict[str, Any]]:
    """SQL of these rows, and its parameters: one for each value, since PostgreSQL takes twice as
    long to put a megabyte into an array and to take it out again."""
    if not 0 < 2 * len(payloads) <= PARAMETERS_MAX:
        given = {"pieces": list(payloads), "payloads": list(payloads.values())}
        return "SELECT * FROM unnest(%(pieces)s::bigint[], %(payloads)b::bytea[])", given
    parts = [f"(%(piece{at})s::bigint, %(payload{at})b::bytea)" for at in range(len(payloads))]
    given = {f"piece{at}": piece for at, piece in enumerate(payloads)}
    given |= {f"payload{at}": body for at, body in enumerate(payloads.values())}
    return f"VALUES {', '.join(parts)}", given


_REMEDIES = {
    "28": "the server refuses this user or password: correct the URL",
    "3D": "there is no such database: create it, or correct the URL",
    "42501": "this user lacks a right: docs/ledger.md says what to grant",
    "42P01": "the ledger's tables are gone: restore them from a backup",
    "25006": (
        "the server is read-only (a standby, or set so); what was committed stays: name the "
        "primary, or make it writable, then start again"
    ),
    "53100": "the server's disk is full; what was committed stays: free space, then start again",
    "53400": "the server has reached a limit of its configuration; what was committed stays",
    "54": "a row or payload is larger than PostgreSQL takes; use shorter panes",
    "XX001": "the server's data are damaged: restore them from a backup",
    "XX002": "the server's index is damaged: REINDEX, or restore it from a backup",
}
_REFUSALS = {
    "password authentication failed": _REMEDIES["28"],
    "no password supplied": _REMEDIES["28"],
    "no pg_hba.conf entry": _REMEDIES["28"],
    "root certificate file": "sslrootcert names no file of certificates: correct it",
    "does not match host name": "the server's certificate is for another host: correct the URL",
    "value: ": "an option of the URL is wrong: correct it",
    "does not exist": "there is no such database or user: create it, or correct the URL",
    "certificate verify failed": "the server's certificate is not trusted: give sslrootcert",
    "does not support SSL": "the server offers no TLS: configure it, or choose another sslmode",
    "invalid connection option": "an option of the URL is unknown: correct it",
    "could not translate host name": "there is no such host: correct the URL",
}
