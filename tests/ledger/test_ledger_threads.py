"""Readers and writers at the same time, in threads and in processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing, suppress

from ledger_helpers import PANE, SPEC, batch, gather, held, partial, roll

from muntin.errors import LedgerConflict, LedgerError
from muntin.ledger import open_ledger
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.sqlite_file import SqliteFile

BATCHES = 120


def test_readers_see_whole_batches_while_a_writer_commits(ledger):
    """Each batch adds one event to both summaries: any snapshot has equally many."""
    writer = ledger.open_writer("p", SPEC, query_id="A")
    problems: list[object] = []
    done = threading.Event()

    def read() -> None:
        newest = 0
        while not done.is_set():
            try:
                with ledger.snapshot() as view:
                    one = gather(view, "s", 0, 400)
                    two = gather(view, "t", 0, 400)
                    count = view.pipelines()[0].batches
                if not one == two == dict.fromkeys(range(count), 1) or count < newest:
                    problems.append((one, two, count))
                newest = count
            except Exception as problem:
                problems.append(problem)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(BATCHES):
        pane = number % 40 * PANE
        parts = [partial(name, pane, [number]) for name in ("s", "t")]
        assert writer.commit(batch(number, *parts, into=ledger, watermark=400))
        if number % 10 == 0 and number < 40:
            roll(ledger, writer, "s", 100, number * 10)
    done.set()
    for reader in readers:
        reader.join(120)
    assert problems == []


def test_two_pipelines_and_clients_write_at_once(ledger):
    other = {"pane_us": PANE, "summaries": {"u": {}}}
    writers = {
        "s": ledger.open_writer("p", SPEC, query_id="A"),
        "u": ledger.open_writer("other", other, query_id="A"),
    }

    def run(summary: str) -> None:
        for number in range(40):
            writers[summary].commit(batch(number, partial(summary, 0, [number])))

    def ask() -> None:
        for _ in range(40):
            ledger.ask("p", "slow_down", {})

    threads = [threading.Thread(target=run, args=(summary,)) for summary in writers]
    threads += [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for summary in writers:
        assert held(ledger, summary, PANE, 0, 1) == dict.fromkeys(range(40), 1)
    asked = ledger.commands("p")
    assert len({command.id for command in asked}) == 80


def test_of_writers_that_race_one_is_left(ledger):
    """All open in turn; each batch is there once; all but the newest are told."""
    told: list[int] = []
    barrier = threading.Barrier(4)

    def race() -> None:
        barrier.wait()
        writer = ledger.open_writer("p", SPEC, query_id="A")
        try:
            for number in range(60):
                writer.commit(batch(number, partial("s", 0, [number])))
        except LedgerConflict:
            told.append(writer.epoch)

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    (info,) = ledger.pipelines()
    assert info.epoch > max(told, default=0)
    assert held(ledger, "s", PANE, 0, 1) == dict.fromkeys(range(60), 1)


def test_processes_that_make_one_file_at_once_all_succeed(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    program = (
        "import sys; from muntin.ledger import open_ledger\n"
        "ledger = open_ledger(sys.argv[1])\n"
        "ledger.open_writer('p', {'pane_us': 10, 'summaries': {'s': {}}}, query_id='A')\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", program, url]) for _ in range(3)]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    ledger = open_ledger(url, create=False)
    assert ledger.verify() == []
    ledger.close()


def test_a_file_that_another_makes_a_ledger_while_it_is_looked_at_is_none_of_an_application(
    tmp_path, monkeypatch
):
    path = tmp_path / "x.db"
    raw_connection = SqliteFile._raw_connection
    came = []

    def watched(file):
        connection = raw_connection(file)

        def between(statement):
            if statement == "PRAGMA user_version":  # when it was seen that it is no ledger yet
                connection.set_trace_callback(None)
                with suppress(LedgerError):  # it does not wait
                    came.append(SqliteLedger(path, busy_seconds=0))

        connection.set_trace_callback(between)
        monkeypatch.setattr(SqliteFile, "_raw_connection", raw_connection)
        return connection

    monkeypatch.setattr(SqliteFile, "_raw_connection", watched)
    with closing(SqliteLedger(path)) as ledger:
        assert ledger.verify() == []
    for other in came:
        other.close()


def test_wait_sees_another_process_commit(tmp_path):
    ledger = SqliteLedger(tmp_path / "x.db")
    version = ledger.version()
    program = (
        "import sys; from muntin.ledger import open_ledger\n"
        "open_ledger(sys.argv[1]).open_writer('p', {'pane_us': 10}, query_id='A')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, ledger.url])
    assert ledger.wait(version, 120) > version
    assert child.wait(120) == 0
    ledger.close()
