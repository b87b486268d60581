"""DuckDB, locked down: no files, no network, no extensions, no settings, bounded time and memory.

One database in memory, and a pool of connections to it. A connection keeps its statements, bound to
names for tables of a schema, and runs them over whatever tables of that schema there are; so the
pool gives out the one that was used last.
"""

from __future__ import annotations

import heapq
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from muntin.cache import Cache
from muntin.select.limits import Limits
from muntin.select.syntax import text_literal

_PLACES_MAX = 64  # of a connection
_STATEMENTS_MAX = 64  # of a connection: each is some 2 KB
_TEXTS_MAX = 4096
_BATCH_ROWS = 100_000
_INVALIDATED = "database has been invalidated"
_TRIES = 3  # of a statement while others make DuckDB give up its database


class DatabaseError(Exception):
    """DuckDB refused or stopped a statement.

    `kind`: "timeout", "memory", "busy", "too_large", "closed", or DuckDB's own ("Binder", ...).
    `position`: where in the rendered SQL.
    """

    def __init__(self, kind: str, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.position = position


class Database:
    """Runs SQL over Arrow tables; thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._root: Any = None  # until the first statement: many a session asks none
        self._closed = False
        self._slots = threading.BoundedSemaphore(limits.concurrent)
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()
        self._watchdog = _Watchdog()
        self._texts = Cache[bool](entries_max=_TEXTS_MAX)

    def run(
        self,
        sql: Callable[..., str],
        tables: Sequence[pa.Table],
        *,
        parameters: Mapping[str, Any] | None = None,
        seconds: float,
    ) -> pa.Table:
        """The result of one statement.

        `sql`: its text, given the names that the tables have here.

        Raises DatabaseError.
        """
        import duckdb  # at the first statement that needs it: many a process asks none

        end = time.monotonic() + seconds
        for _ in range(_TRIES):
            with self._connection(seconds) as connection:
                left = end - time.monotonic()
                with self._watchdog.watching(connection.cursor, max(left, 0.001)) as watch:
                    try:
                        with connection.placed(tables) as names:
                            return self._read(connection.statement(sql(*names), parameters))
                    # what a stream of Arrow batches meets on its way comes as an OSError
                    except (duckdb.Error, OSError, pa.ArrowException) as error:
                        if _INVALIDATED not in str(error):
                            raise _converted(error, watch.fired, seconds) from None
                    except UnicodeDecodeError as error:  # it cut its own message inside a letter
                        said = error.object.decode(errors="replace")
                        raise DatabaseError("invalid input", said) from None
                    except MemoryError:
                        raise DatabaseError("memory", "not enough memory") from None
                self._renew(connection)
        raise DatabaseError("internal", "DuckDB failed on this statement")

    def can_be(self, text: str, kind: str) -> bool:
        """Whether DuckDB reads a text as one of a type."""
        found = self._texts.get((text, kind))
        if found is None:
            sql = f"SELECT TRY_CAST({text_literal(text)} AS {kind}) IS NOT NULL AS it"
            found = self.run(lambda: sql, [], seconds=self._limits.seconds).column(0)[0].as_py()
            self._texts.put((text, kind), found)
        return found

    def _renew(self, connection: _Connection) -> None:
        """A new database, after some statement has made DuckDB give the old one up."""
        with self._lock:
            if connection.root is self._root:
                self._root = None
                self._idle = []

    def _read(self, statement: Any) -> pa.Table:
        reader = statement.to_arrow_reader(_BATCH_ROWS)
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in reader:
            rows += len(batch)
            size += batch.nbytes
            if rows > self._limits.result_rows or size > self._limits.result_bytes:
                raise DatabaseError(
                    "too_large",
                    f"the result has more than {self._limits.result_rows:,} rows"
                    if rows > self._limits.result_rows
                    else f"the result is larger than {self._limits.result_bytes:,} bytes",
                )
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)

    @contextmanager
    def _connection(self, seconds: float) -> Iterator[_Connection]:
        if not self._slots.acquire(timeout=seconds):
            raise DatabaseError(
                "busy", f"no turn within {seconds:g} s: too many statements at once"
            )
        try:
            with self._lock:
                self.check_open()
                if self._root is None:
                    self._root = _connected(self._limits)
                root = self._root
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = _Connection(root)
            try:
                yield connection
            finally:
                with self._lock:
                    if connection.root is self._root:
                        self._idle.append(connection)
        finally:
            self._slots.release()

    def check_open(self) -> None:
        """Raises DatabaseError: of kind "closed"."""
        if self._closed:
            raise DatabaseError("closed", "the session was closed: open the ledger again")

    def close(self) -> None:
        self._watchdog.close()
        with self._lock:
            idle, self._idle = self._idle, []
            self._closed = True
        for connection in idle:
            connection.cursor.close()
        if self._root is not None:
            self._root.close()
        # a closed connection that some thread's frame still holds at exit would count as a leak
        self._root = None


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
    return root


class _TablePlace:
    """What a name in DuckDB stands for: a table of one schema, while a statement runs."""

    def __init__(self, name: str, table: pa.Table) -> None:
        self.name = name
        self.table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None  # noqa: S101 (nothing reads it between statements)
        return self.table.__arrow_c_stream__(requested_schema)


class _Connection:
    """A cursor of DuckDB, the places for tables that it knows, and the statements over them."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.cursor = root.cursor()
        self._places: dict[tuple[int, pa.Schema], _TablePlace] = {}
        self._made = itertools.count(1)
        self._statements: dict[str, Any] = {}

    def statement(self, sql: str, parameters: Mapping[str, Any] | None) -> Any:
        """A relation of DuckDB, which runs at each read: to parse and bind one takes as long as to
        run it over a few rows, so those are kept that were asked last."""
        if parameters:
            return self.cursor.sql(sql, params=dict(parameters))
        found = self._statements.pop(sql, None)
        self._statements[sql] = found = self.cursor.sql(sql) if found is None else found
        if len(self._statements) > _STATEMENTS_MAX:
            del self._statements[next(iter(self._statements))]
        return found

    @contextmanager
    def placed(self, tables: Sequence[pa.Table]) -> Iterator[list[str]]:
        """The names of these tables, until the statement has run. A name is of one schema for ever,
        so that what was bound to it stays right; to register one takes longer than to read it."""
        places: list[_TablePlace] = []
        try:
            for key in enumerate(table.schema for table in tables):
                place = self._places.pop(key, None)
                if place is None:
                    place = _TablePlace(f"t{next(self._made)}", tables[key[0]])
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


class _RunningStatement:
    """One running statement."""

    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor
        self.done = False
        self.fired = False


class _Watchdog:
    """One thread that interrupts statements whose time is up."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _RunningStatement]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def watching(self, cursor: Any, seconds: float) -> Iterator[_RunningStatement]:
        watch = _RunningStatement(cursor)
        with self._changed:
            earliest = self._heap[0][0] if self._heap else None
            end = time.monotonic() + seconds
            heapq.heappush(self._heap, (end, next(self._order), watch))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="muntin-select-watchdog", daemon=True
                )
                self._thread.start()
            elif earliest is None or end < earliest:
                self._changed.notify()
        try:
            yield watch
        finally:
            # Under the lock: an interrupt never reaches the next statement of this cursor.
            with self._changed:
                watch.done, watch.cursor = True, None

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                while self._heap and (
                    self._heap[0][2].done or self._heap[0][0] <= time.monotonic()
                ):
                    end, order, watch = heapq.heappop(self._heap)
                    if not watch.done:
                        watch.fired = True
                        watch.cursor.interrupt()
                        # Again, until it has stopped: it may not have started at the first call.
                        heapq.heappush(
                            self._heap, (max(end, time.monotonic()) + 0.05, order, watch)
                        )
                left = self._heap[0][0] - time.monotonic() if self._heap else None
                self._changed.wait(left)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()


def _converted(error: Exception, timed_out: bool, seconds: float) -> DatabaseError:
    text = str(error)
    kind = type(error).__name__.removesuffix("Exception")
    position = None
    # errors_as_json: {"exception_type": ..., "exception_message": ..., "position": "7", ...}
    found = re.search(r"\{.*\}", text, re.DOTALL)
    if found:
        try:
            details = json.loads(found[0])
        except ValueError:
            details = {}
        kind = details.get("exception_type", kind)
        text = details.get("exception_message", text)
        place = str(details.get("position", ""))
        position = int(place) if place.isdigit() else None
    if timed_out or kind.upper() == "INTERRUPT":
        return DatabaseError("timeout", f"the statement took longer than {seconds:g} s")
    if "memory" in kind.lower() or kind == "OutOfMemory":
        return DatabaseError("memory", "the statement needs more memory than it may have")
    return DatabaseError(kind, text.split("\n")[0], position)
