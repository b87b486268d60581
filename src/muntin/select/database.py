"""DuckDB, locked down: no files, no network, no extensions, no settings, bounded time and memory.

One database in memory, and a pool of connections to it. A connection keeps its statements, bound to
names for tables of a schema, and runs them over whatever tables of that schema there are; so the
pool gives out the one that was used last.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa

from muntin.select.casts import has_other_zone, is_cut, may_be_read, mixed, rounded, texts_of
from muntin.select.limits import Limits
from muntin.select.syntax import MARK, quoted, text_literal

_PLACES_MAX = 64  # of a connection
_STATEMENTS_MAX = 64  # of a connection: each is some 2 KB
_BATCH_ROWS = 100_000
_INVALIDATED = "database has been invalidated"
_PLAN = "SELECT json_serialize_plan(?)"
UNDECIMAL = "muntin_undecimal"  # a macro: decimals as floats, anything else as it is
_TYPES = "DOUBLE BIGINT HUGEINT BOOLEAN VARCHAR BLOB DATE TIME TIMESTAMP INTERVAL"
_LOOK_SECONDS = 0.1  # between two looks whether a statement is to end
_TRIES = 3  # of a statement while others make DuckDB give up its database


class DatabaseError(Exception):
    """DuckDB refused or stopped a statement.

    `kind`: "timeout", "memory", "busy", "too_large", "closed", "text" (a constant that is none of
      the type that it stands for), "rounded" (a decimal), "zone" (a time of which a part is passed
      over), or DuckDB's own ("Binder", ...).
    `sql`, `position`: the rendered SQL, and where in its UTF-8; None: nobody knows.
    """

    def __init__(self, kind: str, message: str, sql: str = "", position: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.sql = sql
        self.position = position


class Database:
    """Runs SQL over Arrow tables; thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._root: Any = None  # until the first statement: many a session asks none
        self._closed = False
        self._slots = threading.BoundedSemaphore(limits.concurrent)
        self._idle: list[_DuckCursor] = []
        self._lock = threading.Lock()
        self._threads: tuple[int, ThreadPoolExecutor] | None = None  # and whose they are

    def run(
        self,
        sql: Callable[..., str],
        tables: Sequence[pa.Table],
        *,
        parameters: Mapping[str, Any] | None = None,
        compared: Collection[str] | None = None,
        seconds: float,
    ) -> pa.Table:
        """The result of one statement.

        `sql`: its text, given the names that the tables have here, which no statement can spell.
        `compared`: names of what it compares; given them, it is checked before any row is looked
          at what DuckDB reads as another type.

        Raises DatabaseError.
        """
        end = time.monotonic() + seconds
        for _ in range(_TRIES):
            with self._connection(seconds) as connection:
                answer = partial(
                    self._answer, connection, sql, tables, parameters, compared, seconds, end
                )
                found = self._watched(answer, connection.cursor, end)
                if found is not None:
                    return found
                with self._lock:  # some statement has made DuckDB give this database up
                    if connection.root is self._root:
                        self._root, self._idle = None, []
        raise DatabaseError("internal", "DuckDB failed on this statement")

    def _answer(
        self,
        connection: _DuckCursor,
        sql: Callable[..., str],
        tables: Sequence[pa.Table],
        parameters: Mapping[str, Any] | None,
        compared: Collection[str] | None,
        seconds: float,
        end: float,
    ) -> pa.Table | None:
        """None: DuckDB has given the database up. Never in the main thread: DuckDB makes errors of
        its own of a Ctrl-C that comes while it runs, or asks a table for its schema."""
        import duckdb  # at the first statement that needs it: many a process asks none

        text = ""
        try:
            with connection.placed(tables) as names:
                text = sql(*names)
                checks = compared is not None and may_be_read(text, tables, compared)
                return self._read(connection, text, parameters, names if checks else None)
        # what a stream of Arrow batches meets on its way comes as an OSError
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            if _INVALIDATED in str(error):
                return None
            raise _converted(error, time.monotonic() > end, seconds, text) from None
        except UnicodeDecodeError as error:  # it cut its own message inside a letter
            said = error.object.decode(errors="replace")
            raise DatabaseError("invalid input", said) from None
        except MemoryError:
            raise DatabaseError("memory", "not enough memory") from None

    def _watched(
        self, answer: Callable[[], pa.Table | None], cursor: Any, end: float
    ) -> pa.Table | None:
        """In a thread beside this one: what is there too long is interrupted, and Ctrl-C is told in
        the main thread only once DuckDB has done."""
        with self._lock:
            self.check_open()
            pool = self._pool()
        # our own: Ctrl-C may come before `submit` has returned one
        reading = Future[pa.Table | None]()
        try:
            pool.submit(_settle, [reading], answer)
            while not reading.done():
                # another thread may be given the signal: look for it
                wait([reading], min(_LOOK_SECONDS, max(end - time.monotonic(), _LOOK_SECONDS / 2)))
                if time.monotonic() > end and not reading.done():
                    cursor.interrupt()  # and again: it may not have started at the first call
            return reading.result()
        except BaseException:
            reading.cancel()  # where it does not run yet, it never will
            while not reading.done():
                cursor.interrupt()
                wait([reading], _LOOK_SECONDS / 2)
            raise
        finally:
            del reading  # it holds the error, whose frames hold DuckDB's reader and this frame

    def _read(
        self,
        connection: _DuckCursor,
        sql: str,
        parameters: Mapping[str, Any] | None,
        tables: Sequence[str] | None,
    ) -> pa.Table:
        reader = connection.statement(sql, parameters, tables).to_arrow_reader(_BATCH_ROWS)
        batches: list[pa.RecordBatch] = []
        most, rows, size = self._limits, 0, 0
        for batch in reader:
            rows += len(batch)
            size += batch.nbytes
            if rows > most.result_rows:
                said = f"the result has more than {most.result_rows:,} rows"
                raise DatabaseError("too_large", said)
            if size > most.result_bytes:
                said = f"the result is larger than {most.result_bytes:,} bytes"
                raise DatabaseError("too_large", said)
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)

    @contextmanager
    def _connection(self, seconds: float) -> Iterator[_DuckCursor]:
        if not self._slots.acquire(timeout=seconds):
            raise DatabaseError(
                "busy", f"no turn within {seconds:g} s: too many statements at once"
            )
        try:
            with self._lock:
                self.check_open()
                if self._root is None:  # made in a thread, for the same reason as an answer
                    self._root = self._pool().submit(_connected, self._limits).result()
                root = self._root
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = _DuckCursor(root)
            kept = True
            try:
                yield connection
            except KeyboardInterrupt:  # after a second one DuckDB may still be at the statement
                kept = False
                raise
            finally:
                with self._lock:
                    if kept and connection.root is self._root:
                        self._idle.append(connection)
        finally:
            self._slots.release()

    def _pool(self) -> ThreadPoolExecutor:
        """Threads of this process; for who holds the lock."""
        if self._threads is None or self._threads[0] != os.getpid():  # a fork has none
            pool = ThreadPoolExecutor(self._limits.concurrent, "muntin-select")
            self._threads = os.getpid(), pool
        return self._threads[1]

    def check_open(self) -> None:
        """Raises DatabaseError: of kind "closed"."""
        if self._closed:
            raise DatabaseError("closed", "the session was closed: open the ledger again")

    def close(self) -> None:
        if self._threads is not None:
            self._threads[1].shutdown(wait=False)
        with self._lock:
            idle, self._idle = self._idle, []
            self._closed = True
        for connection in idle:
            connection.cursor.close()
        # a closed connection that some thread's frame still holds at exit would count as a leak
        root, self._root = self._root, None
        if root is not None:
            import duckdb

            with suppress(duckdb.Error):  # in use: it goes with the statement that some thread runs
                root.close()


def _settle(given: list[Future[pa.Table | None]], answer: Callable[[], pa.Table | None]) -> None:
    """No frame keeps the future: it holds the error, whose frames hold DuckDB's reader."""
    reading = given.pop()
    if not reading.set_running_or_notify_cancel():
        return
    try:
        reading.set_result(answer())
    except BaseException as error:
        reading.set_exception(error)
    finally:
        del reading


def _connected(limits: Limits) -> Any:
    import duckdb

    root = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "allow_unsigned_extensions": "false",
            "allow_persistent_secrets": "false",
            "python_enable_replacements": "false",
            "python_scan_all_frames": "false",
            "temp_directory": "",
            "memory_limit": f"{limits.memory_bytes}B",
            "threads": "1",
            "errors_as_json": "true",
        },
    )
    # Times of summaries are UTC, and so is what a statement makes of them on any machine. As a
    # default of the whole database: cursors have settings of their own.
    root.execute("SET GLOBAL TimeZone = 'UTC'")
    root.execute("SET lock_configuration = true")
    ways = ", ".join(f"(x {kind}) AS x" for kind in _TYPES.split())
    root.execute(f"CREATE MACRO {UNDECIMAL} {ways}")
    return root


class _TablePlace:
    """What a name in DuckDB stands for: a table of one schema, while a statement runs."""

    def __init__(self, name: str, table: pa.Table) -> None:
        self.name = name
        self.table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None  # noqa: S101 (nothing reads it between statements)
        return self.table.__arrow_c_stream__(requested_schema)


class _DuckCursor:
    """A cursor of DuckDB, the places for tables that it knows, and the statements over them."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.cursor = root.cursor()
        self._places: dict[tuple[int, pa.Schema], _TablePlace] = {}
        self._made = itertools.count(1)
        self._statements: dict[str, Any] = {}

    def statement(
        self, sql: str, parameters: Mapping[str, Any] | None, tables: Sequence[str] | None
    ) -> Any:
        """A relation of DuckDB, which runs at each read: to parse and bind one takes as long as to
        run it over a few rows, so those are kept that were asked last.

        `tables`: that it reads, where it is to be checked what DuckDB makes of texts and decimals.
        """
        found = self._statements.pop(sql, None)
        if found is None:
            if tables is not None:
                self._check_read(sql, tables)
            try:
                found = self.cursor.sql(sql, params=dict(parameters or {}))
            except Exception:
                self.cursor.execute(sql, parameters)  # it says where it fails, as sql does not
                raise
        if parameters:
            return found
        self._statements[sql] = found
        if len(self._statements) > _STATEMENTS_MAX:
            del self._statements[next(iter(self._statements))]
        return found

    def _check_read(self, sql: str, tables: Sequence[str]) -> None:
        """Refuse texts and decimals that DuckDB would convert unasked, whatever the rows are.

        A text is converted at the first row that needs it: without rows, no error. '1.5' is rounded
        beside integers, and so are digits beyond a decimal's; beside a date the time of day goes.
        """
        known = f"WITH {', '.join(map(self._empty, tables))} " if tables else ""
        before = f"{known}SELECT * FROM ("  # noqa: S608 (quoted names)
        try:
            plan = json.loads(self._one_row(_PLAN, f"{before}{sql})")[0])
        except ValueError:  # no JSON, of an error with half a letter
            return
        texts = list(texts_of(plan))
        for one, other, place in mixed(plan, f"{before}{sql}".encode()):
            place -= len(before.encode())
            place = place if place < len(sql.encode()) else None
            said = f"Cannot compare values of type {one} and type {other}"  # as DuckDB says of some
            raise DatabaseError("Binder", said, sql, place)
        for place in rounded(plan):
            place -= len(before.encode())
            raise DatabaseError("rounded", "", sql, place if place < len(sql.encode()) else None)
        for each in texts:
            if each.type in ("DATE", "TIMESTAMP") and has_other_zone(each.value):
                place = each.position - len(before.encode())
                raise DatabaseError("zone", each.value, sql, place)
        texts = [each for each in texts if not each.tried]
        tried = (f"TRY_CAST({text_literal(t.value)} AS {t.type}) IS NOT NULL" for t in texts)
        are = self._one_row(f"SELECT {', '.join(tried)}") if texts else ()
        for each, is_one in zip(texts, are, strict=True):
            if not is_one or (not each.cast and is_cut(each)):
                message = f"{each.value[:40]!r} cannot be read as {each.type}"
                raise DatabaseError("text", message, sql, each.position - len(before.encode()))

    def _one_row(self, sql: str, *parameters: str) -> Any:
        return self.cursor.execute(sql, parameters).fetchall()[0]

    def _empty(self, table: str) -> str:
        """A WITH query of a table's name and columns, without its rows: DuckDB writes down no plan
        that has tables of ours."""
        known = self.cursor.table(quoted(table))
        pairs = zip(known.types, map(quoted, known.columns), strict=True)
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for kind, name in pairs)
        return f"{quoted(table)} AS (SELECT {columns})"

    @contextmanager
    def placed(self, tables: Sequence[pa.Table]) -> Iterator[list[str]]:
        """The names of these tables, until the statement has run. A name is of one schema for
        ever, so that what was bound to it stays right; to register one takes longer than to read
        it."""
        places: list[_TablePlace] = []
        try:
            for key in enumerate(table.schema for table in tables):
                place = self._places.pop(key, None)
                if place is None:
                    place = _TablePlace(f"{MARK}{next(self._made)}", tables[key[0]])
                    self.cursor.register(place.name, place)
                place.table = tables[key[0]]
                self._places[key] = place
                places.append(place)
            yield [place.name for place in places]
        finally:
            for place in places:
                place.table = None
            while len(self._places) > max(_PLACES_MAX, len(tables)):
                gone = self._places.pop(next(iter(self._places)))
                self.cursor.unregister(gone.name)


def _converted(error: Exception, timed_out: bool, seconds: float, sql: str) -> DatabaseError:
    text = str(error) or "DuckDB gives no reason"  # Python 3.11.2 loses one that is cut
    kind = type(error).__name__.removesuffix("Exception")
    position = None
    # errors_as_json: {"exception_type": ..., "exception_message": ..., "position": "7", ...}
    found = re.search(r"\{.*\}", text, re.DOTALL)
    if found:
        details: dict[str, Any] = {}
        with suppress(ValueError):
            details = json.loads(found[0])
        kind = details.get("exception_type", kind)
        text = details.get("exception_message", text)
        place = str(details.get("position", ""))
        position = int(place) if place.isdigit() else None
    if timed_out or kind.upper() == "INTERRUPT":
        return DatabaseError("timeout", f"the statement took longer than {seconds:g} s")
    if "memory" in kind.lower() or kind == "OutOfMemory":
        return DatabaseError("memory", "the statement needs more memory than it may have")
    return DatabaseError(kind, text.split("\n")[0], sql, position)
