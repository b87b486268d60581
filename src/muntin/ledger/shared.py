"""A ledger that several machines share: the rules run here, what they change is in a store.

Each process has a copy of the store's rows, but for the payloads of pieces, in a SQLite file of its
own. A transaction runs on the copy as in a SQLite ledger, under the same rules; what it changed
goes to the store as one compare-and-set on the ledger's head, and counts when the store has taken
it. Where another was first the transaction is undone, the copy follows, and it runs again: so a
writer whose epoch was taken finds out before anything of it is visible. Readers follow by the
store's log before each transaction. While the store is away they answer from what they know, and
say so (`behind`).
"""

import json
import logging
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

from muntin.errors import LedgerError, MuntinError
from muntin.ledger import schema
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.sqlite_file import SqliteFile, roll_back, transaction
from muntin.ledger.store import (
    LOG,
    META,
    ROWS_GONE,
    Change,
    Head,
    Store,
    StoreAway,
    StoreError,
    decode_key,
    decode_row,
    encoded,
    entry_of,
)
from muntin.ledger.tables import Noted, Row, Tables
from muntin.ledger.temporary import Folder

READER_SECONDS = 1.0  # that a reader waits for a store, before it answers from what it knows
REST_SECONDS = 1.0  # that readers leave a store alone which has not answered
PAUSE_SECONDS = 0.02  # before the first new try; each further pause is longer
PAUSE_SECONDS_MAX = 0.5
LOADS_MAX = 3  # tries to read all rows of a store that changes, or breaks, meanwhile
_LOG = logging.getLogger("muntin.ledger")
_FORKED = threading.Lock()
Connect = Callable[[], Store]
Outcome = TypeVar("Outcome")


class Replica(SqliteFile):
    """The local copy of a store's rows. A fork has another one, and connections of its own: what it
    has yet to see of the store would undo in its parent's copy what that has."""

    def __init__(self, connect: Connect, deadline: float) -> None:
        self._folder = Folder()
        super().__init__(self._folder.path / "copy.db", "off")
        self._connect = connect
        self.store = connect()
        self.deadline = deadline
        self._sent = False  # whether the last load had rows
        self.trouble: str | None = None  # why the last reader could not follow the store
        self._head = Head(-1, 0)
        self._rows: Counter[str] = Counter()  # of each table, at that head
        self._changing = threading.RLock()
        self._asked = 0.0  # when the question was put whose answer the copy has seen
        self._rest_until = 0.0
        self._owner = os.getpid()

    def check_open(self) -> None:
        super().check_open()
        if self._owner != os.getpid():
            with _FORKED:
                if self._owner != os.getpid():
                    own = Replica(self._connect, self.deadline)
                    own.prepare(create=False)
                    for name in {*SqliteFile.__slots__, *vars(own)} - {"_owner"}:
                        setattr(self, name, getattr(own, name))
                    self._owner = os.getpid()  # last: the other threads go on from here

    @property
    def place(self) -> str:
        return self.store.place

    @property
    def where(self) -> str:
        return f"{self.place}, its copy on this machine, {self.path}"

    def prepare(self, *, create: bool) -> None:
        super().prepare(create=True)
        self._following = self.connect()
        meta = encoded(self._following.meta())  # of a ledger that is made now
        self._patiently(lambda left: self.store.begin(create, meta, left), self.deadline)
        with self._changing:
            self._catch_up(self.deadline)

    def connect(self) -> Tables:
        connection = super().connect()
        connection.fetch = self._fetch
        return connection

    @contextmanager
    def reader(self, *, known: bool = False) -> Iterator[Tables]:
        """`known`: as far as the copy has followed the store by now."""
        self.check_open()
        if not known:
            self._follow()
        with super().reader() as connection:
            yield connection

    def close(self) -> None:
        if self._owner != os.getpid():  # the parent's connections
            self._closed = True
            return
        with self._changing:
            super().close()
            self._following.close()
        self.store.close()

    # Following the store

    def follow(self, patience: float) -> None:
        """Bring the copy to where the store is; StoreError where it cannot be asked."""
        self.check_open()
        try:
            with self._changing:
                self._catch_up(patience)
        except StoreError as problem:
            self._in_trouble(str(problem.__cause__ or problem))  # it goes on by itself
            raise

    def wait(self, seconds: float) -> None:
        """Until the store may have news."""
        try:
            self.store.wait(self._head, seconds)
        except StoreAway:
            time.sleep(min(seconds, PAUSE_SECONDS))

    def reload(self) -> None:
        """Read all rows of the store anew."""
        self.follow(self.deadline)  # which sees where commits were lost
        with self._changing:
            self._load_anew(self.deadline)

    def _follow(self) -> None:
        """As `follow`, for a reader: where the store is away, what is known is read."""
        came = time.monotonic()
        if came < self._rest_until:
            return
        if not self._changing.acquire(timeout=READER_SECONDS):  # a commit waits for the store
            self._in_trouble("it does not answer a commit")
            return
        try:
            if self._asked < came:  # else somebody has asked since
                self._catch_up(READER_SECONDS)
        except LedgerError as problem:  # the store's, or that the copy's disk is full
            self._in_trouble(str(problem))
        finally:
            self._changing.release()

    def _in_trouble(self, why: str) -> None:
        if self.trouble is None:
            _LOG.warning("%s cannot be read, answers are from before: %s", self.place, why)
        self.trouble = why
        self._rest_until = time.monotonic() + REST_SECONDS

    def _catch_up(self, patience: float) -> None:
        """The caller holds `_changing`."""
        asked = time.monotonic()
        found = self._patiently(lambda left: self.store.since(self._head, left), patience)
        if found is None:
            known = self._head
            self._load_anew(patience)
            self.losses += known.number >= self._rows[LOG]  # else it is too far back for the log
        for head, changes in found or ():
            with self.explained(), transaction(self._following):
                meta = _apply(self._following, changes, self.place)
            self._head, self._rows = head, Counter(meta.get("rows", self._rows))
        self._asked, self.trouble = asked, None

    def _load_anew(self, patience: float) -> None:
        """All rows of the store, and what has come while they were read: they are of one moment
        only together, so that readers see both at once."""
        connection = self._following
        with self.explained(), transaction(connection):
            head, meta = self._load_patiently(connection, patience)
            there: dict[str, int] = {
                name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608
                for name in (table.name for table in schema.TABLES)
            }
            rows = Counter(meta.get("rows", there))
            for name in there:
                if there[name] != rows[name]:
                    raise StoreError(
                        f"{self.place}: table {name} has {there[name]:,} rows, and "
                        f"{rows[name]:,} were written: {ROWS_GONE}"
                    )
        self._head, self._rows = head, rows

    def _load_patiently(self, connection: Tables, patience: float) -> tuple[Head, dict[str, Any]]:
        """As `_loaded`. To read all rows may take longer than a store may take to answer: where it
        breaks on the way, it is waited for as long again."""
        tries = LOADS_MAX
        while True:
            try:
                return self._patiently(lambda left: self._loaded(connection, left), patience)
            except StoreError as problem:
                tries -= 1
                if not (tries and self._sent and isinstance(problem.__cause__, StoreAway)):
                    raise

    def _loaded(self, connection: Tables, left: float) -> tuple[Head, dict[str, Any]]:
        """The head that the copy has come to, and the meta row. Where the store goes away in
        between, it may be called again."""
        for _ in range(LOADS_MAX):
            self._sent = False
            head, rows = self.store.load(left)
            for table in (*schema.TABLES, "sqlite_sequence"):
                connection.execute(f"DELETE FROM {getattr(table, 'name', table)}")  # noqa: S608
            meta: dict[str, Any] = {}
            came: list[Sequence[Change]] = []
            for changes in chain(rows, [()]):
                self._sent |= bool(changes)
                meta = _apply(connection, changes, self.place) or meta
                found = self.store.since(head, left)  # meanwhile: a log of large changes is short
                if found is None:
                    break
                for head, more in found:  # noqa: B007
                    came.append(more)
            else:
                if not meta:  # each change brings that row, and it is never removed
                    raise StoreError(f"{self.place}: {ROWS_GONE}")
                for changes in came:
                    meta = _apply(connection, changes, self.place)
                return head, meta
        raise StoreError(f"{self.place} changes faster than its rows can be read")

    # Changing the store

    def write(self, connection: Tables, act: Callable[[Tables], Outcome]) -> Outcome:
        """Run `act` on the copy, and have the store take what it changed. What `act` finds wrong is
        believed only where the copy is known to be new."""
        deadline = time.monotonic() + self.deadline
        new = False
        with self._changing:
            while True:
                try:
                    outcome, head, rows = self._run(connection, act)
                    if head is not None and (new or head != self._head):
                        self._head, self._rows = head, rows
                        return outcome
                except StoreError:
                    raise
                except MuntinError:
                    if new:
                        raise
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"{self.place}: others changed the ledger all the time for "
                        f"{self.deadline:g} seconds; nothing was stored: try again"
                    )
                self._catch_up(self.deadline)
                new = True

    def _run(
        self, connection: Tables, act: Callable[[Tables], Outcome]
    ) -> tuple[Outcome, Head | None, Counter[str]]:
        """What `act` returned, and the head that came of it: None where another was first; and how
        many rows tables then have."""
        connection.noted = noted = Noted()
        try:
            with self.explained():
                connection.execute("BEGIN IMMEDIATE")
                before = connection.meta()
                outcome = act(connection)
                after = connection.meta()
                changed = after != before or noted.changes
                rows = Counter(self._rows)
                rows.update(noted.grown)  # which counts downwards as well
                after["rows"] = rows
                head = self._send(noted, after) if changed else self._head
                connection.execute("ROLLBACK" if head is None else "COMMIT")
                return outcome, head, rows
        except BaseException:
            roll_back(connection)
            raise
        finally:
            connection.noted = None

    def _send(self, noted: Noted, meta: dict[str, Any]) -> Head | None:
        """The store's new head, or None where it was not where the copy is."""
        head = self._head
        newer = Head(head.number + 1, secrets.randbits(62))
        entry = entry_of(noted, meta, newer.number)
        tries = 0

        def append(left: float) -> bool:
            nonlocal tries
            tries += 1
            return self.store.append(head, newer, entry, left)

        if self._patiently(append, self.deadline):
            return newer
        if tries > 1:  # an earlier try may have been taken, and its answer lost
            found = self._patiently(lambda left: self.store.since(head, left), self.deadline)
            if found and found[0][0] == newer:
                return newer
        return None

    def _patiently(self, ask: Callable[[float], Outcome], patience: float) -> Outcome:
        """Ask the store until it answers, at most for so long."""
        deadline = time.monotonic() + patience
        pause = PAUSE_SECONDS
        while True:
            try:  # a connection that has gone silent leaves time for another
                most = max(READER_SECONDS, self.deadline / 2)
                return ask(max(PAUSE_SECONDS, min(most, deadline - time.monotonic())))
            except StoreAway as problem:
                if time.monotonic() + pause > deadline:
                    raise StoreError(
                        f"{self.place} does not answer within {patience:g} seconds ({problem}); "
                        "what was committed stays: look whether it runs, can be reached, and who "
                        "holds a lock on its tables, then start again"
                    ) from problem
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    # Payloads

    def _fetch(self, ids: Sequence[int]) -> list[Row]:
        patience = self.deadline if self.trouble is None else READER_SECONDS
        found = self._patiently(lambda left: self.store.payloads(ids, left), patience)
        rows = [decode_row(schema.PAYLOADS, data, self.place) for data in found.values()]
        for identifier, row in zip(found, rows, strict=True):
            if row[0] != identifier:
                raise LedgerError(f"{self.place}: the payload of piece {identifier} is another's")
        return rows


def _apply(connection: Tables, changes: Sequence[Change], place: str) -> dict[str, Any]:
    """The meta row that was among them, or {}."""
    meta: dict[str, Any] = {}
    put: dict[schema.SqlTable, list[Row]] = {}
    for name, data in changes:
        if name == META:
            meta = json.loads(data or b"{}")
            continue
        table, key = decode_key(name, place)
        if data is None:
            connection.execute(table.delete, key)
        else:
            put.setdefault(table, []).append(decode_row(table, data, place))
    for table, rows in put.items():
        connection.executemany(table.insert, rows)
    if meta:  # last: rows that come move the tables' next ids
        connection.set_meta(meta)
    return meta


class SharedLedger(SqliteLedger):
    """A ledger in a store, with a local copy of its rows."""

    def __init__(self, store: Connect, *, create: bool, deadline: float, address: str) -> None:
        self._address = address
        self._replica = file = Replica(store, deadline)
        super().__init__(file.path, create=create, url=file.place, file=file)

    @property
    def address(self) -> str:
        return self._address

    def behind(self) -> bool:
        return self._replica.trouble is not None

    def follow(self) -> None:
        self._replica.follow(self._replica.deadline)

    def wait(self, version: int, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while True:
            self._replica.follow(READER_SECONDS)
            with self._replica.reader(known=True) as connection:
                (found,) = connection.execute("SELECT version FROM meta").fetchone()
            left = deadline - time.monotonic()
            if found != version or left <= 0:
                return found
            self._replica.wait(left)

    def verify(self) -> list[str]:
        """All that the store holds, payloads as well."""
        try:
            self._replica.reload()
        except LedgerError as problem:
            return [str(problem)]
        return super().verify()
