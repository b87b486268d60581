"""How `muntin run` ends: by Ctrl-C or SIGTERM at any moment, beside a second one, with bad data."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError

import muntin
from muntin.errors import LedgerMissing
from muntin.ledger.open import open_ledger
from muntin.spark.failures import unless_java_is_gone, worker_error
from muntin.spark.progress import tasks_at_hand
from muntin.spark.stream import Stream, is_log_taken

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
]
FILE = """
name: flights
source: {{format: parquet, path: {folder}/flights, maxFilesPerTrigger: 1,
          schema: "date timestamp, origin string, delay bigint"}}
time: date
pane: 1 hour
ledger: sqlite:///{folder}/flights.db
spark: {{spark.master: "local[2]"}}
{more}
summaries:
  flights: {{keys: [origin], indicators: [delay]}}
"""
SECONDS = 300.0  # on a machine with other work


started: dict[str, subprocess.Popen] = {}


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    for process in started.values():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    started.clear()


class Run:
    """A pipeline in a process of its own, which is told from others by a word in what it starts."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        more: str = "",
        files: int = 400,
        module: str = "tests.sites.command",
        log: int | IO[str] = subprocess.PIPE,
    ) -> None:
        self.folder = folder
        self.file = folder / "pipeline.yaml"
        self.mark = f"muntin-test-{os.getpid()}-{time.monotonic_ns()}"
        if not self.file.exists():
            self.file.write_text(FILE.format(folder=folder, more=more))
            (folder / "flights").mkdir()
            for number in range(files):
                write(folder, number)
        self.process = started[self.mark] = subprocess.Popen(
            [sys.executable, "-m", module, "run", str(self.file), *words],
            env=os.environ | {"MUNTIN_TEST": self.mark},
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err

    def left(self) -> list[str]:
        """Commands of the processes that it has started and that are still there."""
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if f"MUNTIN_TEST={self.mark}".encode() in (folder / "environ").read_bytes():
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found += [command] if command else []
        return found

    def wait_for_handlers(self) -> None:
        """Until it handles signals itself."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            told = Path(f"/proc/{self.process.pid}/status").read_text()
            caught = int(told.partition("SigCgt:")[2].split()[0], 16)
            if caught >> (signal.SIGTERM - 1) & 1 or self.process.poll() is not None:
                return
            time.sleep(0.05)
        raise AssertionError("it handles no signals")

    def wait_for_batches(self, least: int = 1) -> None:
        ledger = self.folder / "flights.db"
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, self.process.communicate()
            if ledger.exists() and batches(self.folder) >= least:
                return
            time.sleep(0.2)
        raise AssertionError("no batch")


def write(folder: Path, number: int) -> None:
    start = 1_700_000_000_000_000 + number * 60_000_000
    times = pa.array([start + i for i in range(100)], pa.timestamp("us", "UTC"))
    table = pa.table({"date": times, "origin": ["EWR"] * 100, "delay": [1] * 100})
    pq.write_table(table, folder / "flights" / f"{number:05d}.parquet")


def status(folder: Path) -> dict:
    with contextlib.closing(open_ledger(f"sqlite:///{folder}/flights.db", create=False)) as ledger:
        return dict(ledger.status("flights") or {})


def batches(folder: Path) -> int:
    """Committed so far; none while the file is being made."""
    with (
        contextlib.suppress(LedgerMissing),
        contextlib.closing(open_ledger(f"sqlite:///{folder}/flights.db", create=False)) as ledger,
    ):
        return sum(info.batches for info in ledger.pipelines())
    return 0


def gone(run: Run) -> bool:
    end = time.monotonic() + SECONDS
    while run.left() and time.monotonic() < end:
        time.sleep(0.2)
    return not run.left()


@pytest.mark.parametrize(
    ("delay", "number"),
    [
        (0.3, signal.SIGINT),
        (2.0, signal.SIGTERM),
        (4.0, signal.SIGINT),
        *(
            pytest.param(delay, number, marks=pytest.mark.slow)
            for delay, number in [
                (0.3, signal.SIGTERM),
                (2.0, signal.SIGINT),
                (4.0, signal.SIGTERM),
            ]
        ),
    ],
)
def test_a_start_that_is_stopped_leaves_nothing_behind(tmp_path, delay, number):
    _stopped_after(tmp_path, number, delay)


def test_a_signal_that_comes_while_the_module_of_java_is_imported_ends_the_process():
    """Its error was lost in a callback of the imports, where both signals were ignored already."""
    text = (
        "import sys, types; from muntin.cli import stopping;"
        "sys.modules['muntin.spark.java'] = types.ModuleType('java'); stopping.end_at_once(15)"
    )
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 128 + 15


def test_a_log_on_a_full_disk_ends_no_pipeline(tmp_path):
    with open("/dev/full", "w") as full:
        run = Run(tmp_path, "--once", files=3, log=full)
        assert run.ended()[0] == 0
    assert status(tmp_path)["state"] == "finished"


def test_a_session_that_is_being_made_is_stopped_at_once(tmp_path):
    """Where PySpark would have put in a handler of its own."""
    run = Run(tmp_path, files=3, module="tests.cli.interrupted")
    code, out, err = run.ended()
    assert (code, out, said(err)) == (130, "", ["stopped; what was committed stays"])
    assert gone(run), run.left()


@pytest.mark.slow
@pytest.mark.parametrize("delay", [*(half / 2 for half in range(1, 17)), *range(10, 31, 2)])
def test_whenever_ctrl_c_comes_in_its_first_half_minute(tmp_path, delay):
    _stopped_after(tmp_path, signal.SIGINT, delay)


def _stopped_after(folder: Path, number: int, delay: float) -> None:
    run = Run(folder, files=3, module="muntin")
    time.sleep(delay)
    if delay > 1:
        run.wait_for_handlers()  # on a busy machine Python has not come so far by then
    run.process.send_signal(number)
    code, _, err = run.ended()
    if delay > 1:
        assert code in (0, 128 + number)
        assert said(err)[1:] == []
    assert gone(run), run.left()


def said(err: str) -> list[str]:
    """Without what Java says."""
    return [line for line in err.splitlines() if line and not line.startswith("WARNING: ")]


def ends_after_its_batch(run: Run, number: int) -> list[str]:
    """What it has said beside that it stops; other threads may just be about to say something."""
    run.process.send_signal(number)
    code, out, err = run.ended()
    assert code == 0, err
    others = said(err)
    others.remove("stopping; a batch at hand ends first, and what was committed stays")
    assert "events a second" in out
    assert status(run.folder)["state"] == "finished"
    assert gone(run), run.left()
    return others


def test_the_second_signal_does_not_wait(tmp_path):
    run = Run(tmp_path)
    run.wait_for_batches()
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        run.process.send_signal(signal.SIGINT)
    code, _, err = run.ended()
    assert code in (0, 130)
    assert "Traceback" not in err
    assert gone(run), run.left()


def test_what_java_has_stopped_need_not_be_stopped():
    with unless_java_is_gone():
        raise RuntimeError("o1.stop: Cannot call methods on a stopped SparkContext.")
    with pytest.raises(RuntimeError), unless_java_is_gone():
        raise RuntimeError("another")


def test_an_error_whose_text_ended_with_java_is_that_of_an_end():
    """Py4J asks Java for it, as the error is told."""

    def ended(_):
        raise Py4JNetworkError("Answer from Java side is empty")

    java = SimpleNamespace(_target_id="o1", _gateway_client=SimpleNamespace(send_command=ended))
    error = Py4JJavaError("An error occurred while calling o1.stop", java)
    with unless_java_is_gone():
        raise error
    assert not is_log_taken(error)
    assert "Spark's process of Java has ended" in str(worker_error(error))


def test_no_tasks_are_at_hand_where_java_is_gone():
    """A signal to all processes, as a line of what is going on is due."""

    class Gone:
        @property
        def sparkContext(self):
            raise ConnectionRefusedError

    assert tasks_at_hand(cast("Any", Gone())) == (0, 0)


def test_nothing_waits_in_kafka_where_java_is_gone():
    """The same, of a line that says how far behind it is."""

    class Gone:
        @property
        def lastProgress(self):
            raise ConnectionRefusedError

    stream: Any = object.__new__(Stream)
    stream._pipeline, stream.query = SimpleNamespace(source=SimpleNamespace(format="kafka")), Gone()
    assert stream.lag() == {}


def test_java_ends_first(tmp_path):
    """Killed, as where memory is short; then by the signal that all processes get at a service's
    end, which is an end in order. Each time the next run goes on."""
    run = Run(tmp_path, files=40)
    run.wait_for_batches(2)
    for child in psutil.Process(run.process.pid).children():
        if child.name() == "java":
            child.kill()
    code, _, err = run.ended()
    assert (code, err.splitlines()[-1]) == (1, f"error: {status(tmp_path)['reason']}")
    assert "Spark's process of Java has ended" in err
    assert "EOFError" not in err
    assert status(tmp_path)["state"] == "failed"
    run = Run(tmp_path)
    run.wait_for_batches(batches(tmp_path) + 2)
    os.killpg(run.process.pid, signal.SIGTERM)
    code, out, err = run.ended()
    assert (code, "events a second" in out) == (0, True), err
    assert status(tmp_path)["state"] == "finished"
    assert gone(run), run.left()
    # what is left need not come file by file, of which each takes a batch
    run.file.write_text(run.file.read_text().replace("Trigger: 1,", "Trigger: 40,"))
    code, _, err = Run(tmp_path, "--once").ended()
    with muntin.open(f"sqlite:///{tmp_path}/flights.db") as session:
        (row,) = session.sql("SELECT count, delay FROM flights(origin) FOR ALL").table.to_pylist()
    assert (code, row) == (0, {"count": 4_000, "delay": 4_000}), err


def test_the_newer_of_two_takes_over_and_the_older_says_so(tmp_path):
    older = Run(tmp_path)
    older.wait_for_batches(2)
    newer = Run(tmp_path)
    code, _, err = older.ended()
    assert code == 1
    lines = said(err)
    assert len(lines) == 1
    assert lines[0].startswith('error: another writer took over pipeline "flights"')
    newer.wait_for_batches(batches(tmp_path) + 2)
    assert ends_after_its_batch(newer, signal.SIGTERM) == []


def test_a_mistake_in_the_file_of_a_running_pipeline_is_not_taken_over(tmp_path):
    run = Run(tmp_path)
    run.wait_for_batches()
    text = run.file.read_text()
    run.file.write_text(text + 'fields: {far: "delay >> > 15"}\n')
    end = time.monotonic() + SECONDS
    while "not_taken_over" not in status(tmp_path) and time.monotonic() < end:
        time.sleep(0.2)
    told = status(tmp_path)
    assert told["state"] == "running"
    assert told["not_taken_over"].startswith("fields.far: 'delay >> > 15'")
    run.wait_for_batches(batches(tmp_path) + 2)
    run.file.write_text(text)
    end = time.monotonic() + SECONDS
    while "not_taken_over" in status(tmp_path) and time.monotonic() < end:
        time.sleep(0.2)
    assert "not_taken_over" not in status(tmp_path)
    mistake, mended = ends_after_its_batch(run, signal.SIGINT)
    assert "is not taken over, the pipeline goes on as before: fields.far" in mistake
    assert mended.endswith(": taken over, as it is now")


def test_a_pipeline_that_dies_says_why_in_the_ledger(tmp_path):
    run = Run(tmp_path)
    run.wait_for_batches()
    for number in range(400):
        (tmp_path / "flights" / f"{number:05d}.parquet").write_bytes(b"this is no Parquet" * 100)
    code, _, err = run.ended()
    assert code == 1
    lines = said(err)
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    told = status(tmp_path)
    assert told["state"] == "failed"
    assert f"error: {told['reason']}" == lines[0]


def test_a_row_that_an_expression_fails_on_is_told_in_a_line(tmp_path):
    """Not below pages of Java's trace, which PySpark and Py4J log."""
    more = "fields: {delay: delay + 9223372036854775807}"
    code, _, err = Run(tmp_path, "--once", more=more, files=1, module="muntin").ended()
    (line,) = said(err)
    assert code == 1
    assert line.startswith("error: Spark: [ARITHMETIC_OVERFLOW]")
    assert "take it out, and name the new one anew" in line


def test_rejected_records_beyond_the_share_are_no_success_and_a_reset_reads_all_again(tmp_path):
    """The checkpoint is a URI, which `--reset` must find as Spark does."""
    (tmp_path / "flights").mkdir()
    text = {"date": "2024-01-01 00:00:00", "origin": "a", "delay": 1}
    pq.write_table(
        pa.Table.from_pylist([text, text | {"date": "one"}]), tmp_path / "flights/0.parquet"
    )
    more = f"checkpoint: file://{tmp_path}/checkpoint"
    file = FILE.format(folder=tmp_path, more=more).replace("date timestamp", "date string")
    (tmp_path / "pipeline.yaml").write_text(file)
    code, out, err = Run(tmp_path, "--once").ended()
    assert code == 1
    assert "error: 1 of 2 records were rejected (50.0%), more than max_rejected: 0.1 allows" in err
    assert "rejected  1" in out
    pq.write_table(pa.Table.from_pylist([text] * 3), tmp_path / "flights/1.parquet")
    (tmp_path / "pipeline.yaml").write_text(file + "max_rejected: 0.2\n")
    code, out, err = Run(tmp_path, "--once", "--reset").ended()
    assert code == 0, err
    assert "          events  5\n" in out
