"""The ledger for notebooks and tests: same contract, in this process only, gone with it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from muntin.errors import LedgerError
from muntin.ledger.base import Mode
from muntin.ledger.documents import COMMAND_BYTES_MAX, clean_text, dump
from muntin.ledger.memory_open import become_writer
from muntin.ledger.memory_tables import Tables, TablesView
from muntin.ledger.memory_writer import MemoryWriter
from muntin.ledger.names import check_name
from muntin.ledger.records import (
    ClosedWindow,
    Command,
    Coverage,
    Piece,
    PipelineInfo,
    Rejected,
    TrendPoint,
)
from muntin.ledger.rules import CLIENT_CHARACTERS_MAX, check_waiting, unknown_pipeline


class Store:
    """The tables of one in-memory ledger, the lock that guards them and who waits for them."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        now = time.time_ns() // 1000
        self.tables = Tables(version=now, generation=now)
        self._frozen: Tables | None = None

    @contextmanager
    def writing(self, *, grows: bool = True) -> Iterator[Tables]:
        """Exclusive access. Who writes checks everything before the first change."""
        with self.changed:
            self._frozen = None
            yield self.tables
            if grows:
                self.tables.version += 1
                self.changed.notify_all()

    def frozen(self) -> Tables:
        """A copy that stays as it is; made once for all readers between two writes."""
        with self.changed:
            if self._frozen is None:
                self._frozen = self.tables.copy()
            return self._frozen


_stores: dict[str, Store] = {}
_stores_lock = threading.Lock()


class MemoryLedger:
    """A `Ledger` in plain dicts. Objects of the same `Store` are the same ledger."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        url: str = "memory://",
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.url = url
        self._store = store or Store()
        self._clock = clock
        self._closed = False

    @classmethod
    def named(cls, name: str) -> MemoryLedger:
        """The ledger of that name in this process; made where there is none."""
        check_name(name, "ledger in memory")
        with _stores_lock:
            return cls(_stores.setdefault(name, Store()), url=f"memory://{name}")

    @staticmethod
    def forget(name: str) -> None:
        """Let go of a named ledger's data; who holds it open keeps it."""
        with _stores_lock:
            _stores.pop(name, None)

    def _check_open(self) -> None:
        if self._closed:
            raise LedgerError(f"the ledger {self.url} was closed: open it again")

    @contextmanager
    def _view(self) -> Iterator[TablesView]:
        self._check_open()
        with self._store.changed:
            yield TablesView(self._store.tables)

    def open_writer(
        self, pipeline: str, spec: Mapping[str, Any], *, query_id: str, mode: Mode = "continue"
    ) -> MemoryWriter:
        self._check_open()
        with self._store.writing() as tables:
            opened = become_writer(tables, self.url, pipeline, spec, query_id, mode)
        return MemoryWriter(self._store.writing, self.url, opened, self._clock)

    @contextmanager
    def snapshot(self) -> Iterator[TablesView]:
        self._check_open()
        yield TablesView(self._store.frozen())

    def wait(self, version: int, timeout: float) -> int:
        self._check_open()
        with self._store.changed:
            self._store.changed.wait_for(
                lambda: self._closed or self._store.tables.version != version, max(0.0, timeout)
            )
            self._check_open()
            return self._store.tables.version

    def ask(
        self, pipeline: str, action: str, arguments: Mapping[str, Any], *, client: str = ""
    ) -> Command:
        self._check_open()
        check_name(action, "command")
        text = dump(arguments, "arguments of a command", COMMAND_BYTES_MAX)
        client = clean_text(client, CLIENT_CHARACTERS_MAX)
        with self._store.writing() as tables:
            if pipeline not in tables.pipelines:
                raise unknown_pipeline(pipeline, self.url, tables.pipelines)
            waiting = sum(
                command.pipeline == pipeline and answer is None
                for command, _, answer in tables.commands.values()
            )
            check_waiting(waiting, pipeline)
            command = Command(
                tables.next_command, pipeline, action, json.loads(text), client, self._clock()
            )
            tables.commands[command.id] = (command, text, None)
            tables.next_command += 1
        return command

    def verify(self) -> list[str]:
        """Memory is taken to be sound."""
        self._check_open()
        return []

    def close(self) -> None:
        """Close this object; the data stay for others of the same name."""
        with self._store.changed:
            self._closed = True
            self._store.changed.notify_all()

    # Reading

    def pipelines(self) -> list[PipelineInfo]:
        with self._view() as view:
            return view.pipelines()

    def version(self) -> int:
        with self._view() as view:
            return view.version()

    def pieces(
        self, summary: str, length: int, start: int, end: int, *, limit: int | None = None
    ) -> list[Piece]:
        with self._view() as view:
            return view.pieces(summary, length, start, end, limit=limit)

    def spans(
        self, summary: str, length: int, start: int | None = None, end: int | None = None
    ) -> list[tuple[int, int, int]]:
        with self._view() as view:
            return view.spans(summary, length, start, end)

    def bounds(self, summary: str, length: int) -> tuple[int, int] | None:
        with self._view() as view:
            return view.bounds(summary, length)

    def crowded(self, summary: str, length: int, before: int, *, limit: int = 1000) -> list[int]:
        with self._view() as view:
            return view.crowded(summary, length, before, limit=limit)

    def states(self, summary: str) -> dict[int, bytes]:
        with self._view() as view:
            return view.states(summary)

    def coverage(self, summary: str) -> list[Coverage]:
        with self._view() as view:
            return view.coverage(summary)

    def horizon(self, summary: str, length: int) -> int | None:
        with self._view() as view:
            return view.horizon(summary, length)

    def windows(self, summary: str | None = None, **how: Any) -> list[ClosedWindow]:
        with self._view() as view:
            return view.windows(summary, **how)

    def generation(self) -> int:
        with self._view() as view:
            return view.generation()

    def closings(self, after: int, **how: Any) -> list[tuple[int, ClosedWindow]]:
        with self._view() as view:
            return view.closings(after, **how)

    def last_closing(self) -> int:
        with self._view() as view:
            return view.last_closing()

    def closings_dropped(self) -> int:
        with self._view() as view:
            return view.closings_dropped()

    def trend(self, query: str, **how: Any) -> list[TrendPoint]:
        with self._view() as view:
            return view.trend(query, **how)

    def assembler(self, pipeline: str) -> Mapping[str, Any] | None:
        with self._view() as view:
            return view.assembler(pipeline)

    def status(self, pipeline: str) -> Mapping[str, Any] | None:
        with self._view() as view:
            return view.status(pipeline)

    def commands(self, pipeline: str, *, waiting: bool = True) -> list[Command]:
        with self._view() as view:
            return view.commands(pipeline, waiting=waiting)

    def command(self, identifier: int) -> Command | None:
        with self._view() as view:
            return view.command(identifier)

    def rejected(
        self, pipeline: str, *, limit: int = 100, after: int = 0
    ) -> Iterator[tuple[int, Rejected]]:
        with self._view() as view:
            return view.rejected(pipeline, limit=limit, after=after)
