"""What was committed survives: kill -9 at any moment and between any two statements, full disks."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ledger_helpers import PANE, SPEC, batch, compacted, gather, held, partial, roll

from muntin.errors import LedgerError
from muntin.ledger import ClosedWindow, Partial, Slices, open_ledger
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.sqlite_file import SqliteFile
from tests.disks import remounted, small_disk

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("MUNTIN_LEDGER_KILLS", "8"))


@pytest.mark.chaos
def test_kill_at_random_moments_loses_and_doubles_nothing(tmp_path):
    """ "Acknowledged" is what the child printed; more may be there, never less, nothing twice."""
    url = f"sqlite:///{tmp_path}/x.db"
    chance = random.Random(20261121)
    acknowledged = -1
    for _ in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, str(HERE / "crash_child.py"), url],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE)},
        )
        assert child.stdout is not None
        try:
            wanted = chance.randint(1, 60)
            for _ in range(wanted):
                acknowledged = int(child.stdout.readline())
        finally:
            child.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *(int(n) for n in child.stdout.read().split())])
        child.wait()
        child.stdout.close()
        ledger = open_ledger(url)
        (info,) = ledger.pipelines()
        assert info.batches >= acknowledged + 1
        assert info.batches <= acknowledged + 2
        expected = dict.fromkeys(range(2 * info.batches), 1)
        assert held(ledger, "s", PANE, 0, 400) == expected
        assert gather(ledger, "s", 0, 400) == expected
        assert ledger.verify() == []
        ledger.close()


@pytest.mark.parametrize("fault", ["lost", "twice"])
def test_the_alarm_rings(tmp_path, fault):
    """What no fault may leave is planted: the tests above would see it."""
    ledger = open_ledger(f"sqlite:///{tmp_path}/x.db")
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for number in range(3):
        parts = [partial("s", 0, [number])]
        if number == 1:
            parts = [] if fault == "lost" else parts * 2
        writer.commit(batch(number, *parts))
    assert held(ledger, "s", PANE, 0, 40) != dict.fromkeys(range(3), 1)
    assert gather(ledger, "s", 0, 40) != dict.fromkeys(range(3), 1)
    ledger.close()


def _die_at_statement(path: Path, number: int, act: Callable[[SqliteLedger], object]) -> bool:
    """Run `act` in a forked child that kills itself before its n-th statement; True if it did."""
    child = os.fork()
    if child == 0:
        try:
            count = 0

            def on_statement(_: str) -> None:
                nonlocal count
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)

            plain = SqliteFile.connect

            def traced(self: SqliteFile):
                connection = plain(self)
                connection.set_trace_callback(on_statement)
                return connection

            SqliteFile.connect = traced
            act(SqliteLedger(path))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _commit(ledger: SqliteLedger) -> None:
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(1, partial("s", 0, [3]), partial("s", 20, [4]), watermark=10))


def _maintain(ledger: SqliteLedger) -> None:
    writer = ledger.open_writer("p", SPEC, query_id="A")
    pieces = ledger.pieces("s", PANE, 0, PANE)
    writer.compact(pieces, [compacted(ledger, pieces)])
    roll(ledger, writer, "s", 40, 0)
    closed = ClosedWindow("s", 0, 40, "full", 0, False, 2, 0, {}, 1)
    answers = {command.id: {"done": True} for command in ledger.commands("p")}
    writer.close_windows([closed], [], {"T": 1}, answers)
    writer.drop_before("s", PANE, 40)


@pytest.mark.chaos
@pytest.mark.parametrize("act", [_commit, _maintain])
def test_kill_before_every_statement_leaves_all_or_nothing(tmp_path, act):
    number, killed, outcomes = 0, True, set()
    while killed:
        number += 1
        path = tmp_path / f"{number}.db"
        ledger = SqliteLedger(path)
        writer = ledger.open_writer("p", SPEC, query_id="A")
        writer.commit(batch(0, partial("s", 0, [1]), partial("s", 0, [2]), watermark=40))
        ledger.ask("p", "slow_down", {})
        ledger.close()
        killed = _die_at_statement(path, number, act)
        ledger = SqliteLedger(path)
        assert ledger.verify() == []
        found = gather(ledger, "s", 0, 40)
        batches = ledger.pipelines()[0].batches
        outcomes.add(batches)
        assert found == dict.fromkeys(range(1, 5 if batches == 2 else 3), 1)
        assert (ledger.windows() == []) is (ledger.assembler("p") is None)
        assert bool(ledger.commands("p")) is (ledger.assembler("p") is None)
        again = ledger.open_writer("p", SPEC, query_id="A")
        again.commit(batch(1, partial("s", 0, [3]), partial("s", 20, [4]), into=ledger))
        assert gather(ledger, "s", 0, 40) == {1: 1, 2: 1, 3: 1, 4: 1}
        ledger.close()
    assert number > 10
    assert outcomes == ({1, 2} if act is _commit else {1})


def _fill(path: Path, limit_bytes: int | None) -> tuple[int, str]:
    """In a child: commit until it fails; (newest acknowledged batch, the error)."""
    reader, writer_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            if limit_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
            writer = SqliteLedger(path).open_writer("p", SPEC, query_id="A")
            number = writer.last_batch("A")
            number = -1 if number is None else number
            try:
                for number in range(number + 1, 10_000):  # noqa: B020
                    payload = os.urandom(20_000)
                    part = partial("s", 0, [number])
                    noise = Partial("t", Slices.of([0], [0]), payload)
                    writer.commit(batch(number, part, noise))
            except LedgerError as problem:
                os.write(writer_end, f"{number - 1} {problem}".encode())
            except BaseException as problem:
                os.write(writer_end, f"-2 {problem!r}".encode())
        finally:
            os._exit(0)
    os.close(writer_end)
    with os.fdopen(reader) as answers:
        acknowledged, _, problem = answers.read().partition(" ")
    os.waitpid(child, 0)
    return int(acknowledged), problem


def _check_after_full_disk(path: Path, acknowledged: int, problem: str) -> None:
    assert acknowledged >= 0, problem
    assert path.name in problem
    assert "what was committed stays" in problem
    ledger = SqliteLedger(path)
    assert ledger.verify() == []
    assert held(ledger, "s", PANE, 0, 1) == dict.fromkeys(range(acknowledged + 1), 1)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    assert writer.commit(batch(acknowledged + 1, partial("s", 0, [acknowledged + 1])))
    ledger.close()


def test_a_file_size_limit_is_named_and_loses_nothing(tmp_path):
    path = tmp_path / "x.db"
    acknowledged, problem = _fill(path, 1 << 20)
    _check_after_full_disk(path, acknowledged, problem)


def test_a_full_disk_is_named_and_loses_nothing(tmp_path):
    with small_disk(tmp_path, "3m") as disk:
        path = disk / "x.db"
        acknowledged, problem = _fill(path, None)
        assert "the disk is full" in problem
        remounted(disk, "size=30m")
        _check_after_full_disk(path, acknowledged, problem)
