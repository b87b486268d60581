"""`muntin` as a process of its own: what it imports, and how it ends."""

import os
import pty
import signal
import subprocess
import sys

import httpx
import pyarrow as pa
import pytest

import muntin
from tests.server.conftest import until

SPEC = {
    "name": "flights", "time": "time", "pane": "1 hour",
    "summaries": {"flights": {"keys": ["origin"], "indicators": ["delay"]}},
}  # fmt: skip
PLAIN = "SELECT origin, count, delay FROM flights(origin) FOR ALL"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger')}/flights.db"
    times = pa.array([1357017300, 1357019999, 1357020000], pa.timestamp("s"))
    table = pa.table({"time": times, "origin": ["EWR", "JFK", "EWR"], "delay": [1, 2, 4]})
    muntin.summarize(table, SPEC, ledger=url).close()
    return url


def imported(*words):
    """The modules that a command has imported, and what it has printed."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, done.stdout


def heavy(modules, names):
    """Of which a part was imported: one that is not found, or left out, is listed by itself."""
    return {name for name in names if any(m.startswith(f"{name}.") for m in modules)}


def test_a_question_imports_only_what_answers_it(ledger):
    modules, told = imported("-m", "muntin", "query", "-l", ledger, "-f", "csv", PLAIN)
    assert told.splitlines() == ["origin,count,delay", "EWR,2,5", "JFK,1,2"]
    assert {"numpy", "pyarrow", "numba", "sqlglot"} <= modules
    others = ("pandas", "polars", "matplotlib", "cffi", "duckdb", "rich", "pyspark", "yaml")
    ours = ("server", "client", "spark", "assembly", "sites", "topk", "demo")
    assert not heavy(modules, (*others, *(f"muntin.{name}" for name in ours)))


def test_what_asks_nothing_imports_nothing_heavy():
    names = ("numpy", "pyarrow", "numba", "pandas", "duckdb", "sqlglot", "pyspark")
    modules, _ = imported("-c", "import muntin")
    assert not heavy(modules, (*names, "typer"))
    modules, _ = imported("-m", "muntin", "--version")
    assert not heavy(modules, names)


def test_an_answer_that_cannot_be_written_is_no_success(ledger):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "muntin", "query", "-l", ledger, PLAIN],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "error: output: No space left on device; the disk is full: free space, then start again\n"
    )


def test_a_reader_that_stops_reading_is_told_nothing(ledger):
    asked = [sys.executable, "-m", "muntin", "query", "-l", ledger, PLAIN]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1  # as other commands: it was not read to its end


@pytest.mark.parametrize(
    ("wish", "written"),
    [
        ({}, b"\x1b[31merror: \x1b[0m"),
        ({"NO_COLOR": "1"}, b"error: "),
        ({"TERM": "dumb"}, b"error: "),
    ],
)
def test_a_terminal_has_colours_unless_they_are_unwanted(ledger, wish, written):
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "muntin", "query", "-l", ledger, ""]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with os.fdopen(ours, "rb", buffering=0), os.fdopen(theirs, "wb"):
        subprocess.run(
            words, stderr=theirs, timeout=300, env={**environment, "TERM": "xterm", **wish}
        )
        assert os.read(ours, 4096).startswith(written + b"the statement is empty")


@pytest.mark.parametrize(("closed", "asked"), [(">&-", PLAIN), ("2>&-", PLAIN), ("<&-", "-")])
def test_streams_that_are_closed_are_empty_ones(ledger, closed, asked):
    words = [sys.executable, "-m", "muntin", "query", "-f", "csv", "-l", ledger, asked]
    shell = ["sh", "-c", f'"$@" {closed}', "sh", *words]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=300)
    assert done.stdout == ("origin,count,delay\nEWR,2,5\nJFK,1,2\n" if closed == "2>&-" else "")
    assert done.stderr.startswith("error: the statement is empty" if asked == "-" else "")
    assert done.stderr.count("\n") <= 2


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "RuntimeError from KeyboardInterrupt"])
def test_ctrl_c_while_the_command_line_is_imported_is_a_clean_end(raised):
    """Within a class that is made Python 3.11 raises the other one."""
    code = f"""
import sys
class CtrlC:
    def find_spec(self, name, *_):
        if name == "muntin.cli":
            raise {raised}
sys.meta_path.insert(0, CtrlC())
from muntin.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "\nstopped\n")


@pytest.mark.parametrize(
    ("within", "said"), [(True, "\nstopped; what was committed stays\n"), (False, "\nstopped\n")]
)
def test_ctrl_c_as_python_forgets_the_lock_of_a_module_is_not_lost(ledger, within, said):
    """What is raised in a callback of a weak reference goes nowhere: the command went on."""
    code = f"""
import os, signal, sys
from muntin.__main__ import main
def looking(frame, event, _):
    where = frame.f_code.co_name, frame.f_code.co_filename
    begun = getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "on_ctrl_c"
    if event == "call" and where == ("cb", "<frozen importlib._bootstrap>") and begun == {within}:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)
sys.argv[1:] = ["query", "-l", {ledger!r}, {PLAIN!r}]
sys.setprofile(looking)
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)


@pytest.mark.parametrize("lost", [False, True])
def test_ctrl_c_within_a_command_is_said_whatever_comes_of_it(lost):
    code = f"""
import os, signal, sys
from muntin.__main__ import main
class CtrlC:
    def __iter__(self):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            if not {lost}:
                raise
        raise AttributeError("partially initialized module")
sys.stdin = CtrlC()
sys.argv[1:] = ["query", "-l", "memory://a", "-"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "\nstopped; what was committed stays\n")


def serving(command, ledger, folder):
    """The words of a command that serves until it is asked to end."""
    words = ["--ledger", ledger]
    if command == "coordinator":
        (folder / "coordinator.yaml").write_text(
            f"{{sites: [ewr], summary: flights, key: origin, value: count, k: 3, unit: 1 second,"
            f" window: 10 seconds, state: {folder}/state}}"
        )
        words = [str(folder / "coordinator.yaml")]
    return [command, *words, "--port", "0"]


ASKED = pytest.mark.parametrize(
    ("command", "asked"), [("serve", signal.SIGTERM), ("coordinator", signal.SIGINT)]
)


@ASKED
def test_a_server_that_is_asked_to_end_ends_in_order(ledger, tmp_path, command, asked):
    words = [sys.executable, "-u", "-m", "muntin", *serving(command, ledger, tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        url = process.stdout.readline().decode().split()[-1].removesuffix("/top_k")
        until(lambda: httpx.get(f"{url}/healthz").is_success)
        process.send_signal(asked)
        process.send_signal(asked)  # as where a shell passes on what its group was sent
        assert process.stderr.read() == b""
    assert process.returncode == 0


@ASKED
def test_a_server_ends_in_order_also_where_it_is_asked_before_it_listens_or_once_it_has_ended(
    ledger, tmp_path, command, asked
):
    code = f"""
import atexit, os, sys
from muntin.__main__ import main
from muntin.server.serving import Server
def ask(*_, kill=os.kill, pid=os.getpid()):
    kill(pid, {asked:d})
def run(server, run=Server.run):
    ask()
    run(server)
    ask()
    atexit.register(ask)
class Last:
    __del__ = ask  # as Python takes modules apart
Server.run, last = run, Last()
sys.argv[1:] = {serving(command, ledger, tmp_path)!r}
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
