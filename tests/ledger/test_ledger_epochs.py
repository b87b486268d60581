"""Who may write, where stores lose what they had: one writer at a time, on what it has seen.

The model is the ledger's history: who did what. A loss cuts its end off. A writer whose own deeds
were cut off, or after whom another opened, changes nothing; who opened last, and lost nothing, is
never refused.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from ledger_helpers import PANE, SPEC, STORES, batch, held, partial

from muntin.errors import LedgerConflict
from muntin.ledger import ClosedWindow, Writer, open_ledger
from tests.store_servers import Server

PROCESSES = 3  # each has a ledger of its own
_names = itertools.count()


@dataclass(frozen=True)
class Deed:
    """One transaction: `writer` opened, committed batch `number`, or closed window `number`."""

    writer: int
    kind: str
    number: int = 0


class EpochMachine(RuleBasedStateMachine):
    server: Server | None
    folder: Path

    @initialize()
    def start(self) -> None:
        name = f"epochs{next(_names)}"
        self.path = self.folder / f"{name}.db"
        self.url = f"sqlite:///{self.path}" if self.server is None else self.server.url(schema=name)
        self.ledgers = [open_ledger(self.url) for _ in range(PROCESSES)]
        self.kept: Callable[[], None] | None = None
        self.name = name
        self.history: list[Deed] = []
        self.kept_history: list[Deed] = []
        self.writers: list[Writer] = []
        self.lost: set[int] = set()
        """Writers of whom something was lost."""
        self.disturbed: set[int] = set()
        """Writers that were there when something was lost: they may be refused for it."""
        self.events = itertools.count()

    @rule(process=st.integers(0, PROCESSES - 1))
    def open(self, process: int) -> None:
        writer = self.ledgers[process].open_writer("p", SPEC, query_id="A")
        assert writer.epoch not in {known.epoch for known in self.writers}
        self.history.append(Deed(len(self.writers), "open"))
        self.writers.append(writer)

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), kind=st.sampled_from(["batch", "window"]))
    def write(self, data: st.DataObject, kind: str) -> None:
        mine = data.draw(st.integers(0, len(self.writers) - 1))
        number = sum(deed.kind == kind for deed in self.history)
        try:
            self._do(self.writers[mine], kind, number)
        except LedgerConflict:
            assert not self._newest(mine) or mine in self.disturbed
        else:
            assert self._newest(mine)
            assert mine not in self.lost
            self.history.append(Deed(mine, kind, number))

    def _do(self, writer: Writer, kind: str, number: int) -> None:
        if kind == "batch":
            assert writer.commit(batch(number, partial("s", 0, [next(self.events)])))
        else:
            start = number * PANE
            window = ClosedWindow("s", start, start + PANE, "full", 0, False, 1, 0, {}, 1)
            writer.close_windows([window], [], {})

    def _newest(self, writer: int) -> bool:
        opened = [deed.writer for deed in self.history if deed.kind == "open"]
        return bool(opened) and opened[-1] == writer

    @rule()
    def keep(self) -> None:
        if self.server is None:
            copy = self.path.with_suffix(".kept")
            copy.unlink(missing_ok=True)
            with closing(sqlite3.connect(self.path)) as now, closing(sqlite3.connect(copy)) as kept:
                now.backup(kept)
            self.kept = lambda: self._replace(copy)
        else:
            self.kept = self.server.kept(self.name)
        self.kept_history = list(self.history)

    def _replace(self, copy: Path) -> None:
        for found in self.path.parent.glob(f"{self.path.name}*"):
            found.unlink()
        shutil.copy(copy, self.path)

    @precondition(lambda self: self.kept is not None)
    @rule()
    def lose(self) -> None:
        assert self.kept is not None
        self.kept()
        cut_off = self.history[len(self.kept_history) :]
        self.lost |= {deed.writer for deed in cut_off}
        self.disturbed = set(range(len(self.writers)))
        self.history = list(self.kept_history)

    @invariant()
    def nothing_is_there_that_nobody_did(self) -> None:
        if not self.history:
            return
        for ledger in self.ledgers:
            done = {
                kind: sum(deed.kind == kind for deed in self.history)
                for kind in ("batch", "window")
            }
            (info,) = ledger.pipelines()
            assert info.batches == done["batch"]
            assert len(ledger.windows("s")) == done["window"]
            events = held(ledger, "s", PANE, 0, PANE)
            assert (len(events), sum(events.values())) == (done["batch"], done["batch"])

    def teardown(self) -> None:
        for ledger in self.ledgers:
            ledger.close()


@pytest.mark.parametrize("store", STORES)
def test_one_writer_at_a_time_whatever_is_lost(store: str, request: Any, tmp_path: Path) -> None:
    server = None if store == "sqlite" else request.getfixturevalue(store)
    machine = type("Machine", (EpochMachine,), {"server": server, "folder": tmp_path})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8, stateful_step_count=30, deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
