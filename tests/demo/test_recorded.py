"""`muntin demo --replay`: a recording that comes as if it were live, without Java and Spark."""

from __future__ import annotations

import socket
import subprocess
import sys

import pyarrow as pa
import pytest

from muntin.demo.recorded import HISTORY_DAYS, SECONDS_AN_HOUR, Recording
from muntin.errors import BadArgument
from muntin.ledger.sqlite import SqliteLedger
from muntin.server.serving import _listening
from muntin.summaries.kernels import cache_folder
from tests.docs_samples import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from release import versions

START = 1_767_225_600_000_000
ROUND_US = 28 * 24 * SECONDS_AN_HOUR * 1_000_000
PLAY = """
import sys
sys.modules["pyspark"] = None
from muntin.cli import main
sys.argv = ["muntin", "demo", "--replay", "--no-open", "--port", "0", "--seconds", "1",
            "--folder", {folder!r}]
main()
"""


def _times(table):
    return table["time"].cast(pa.int64()).to_numpy()


def test_events_come_when_their_time_has_come_and_all_of_them_again():
    recording = Recording(START)
    history = _times(recording.until(START))
    assert history[0] == START - HISTORY_DAYS * 24 * SECONDS_AN_HOUR * 1_000_000
    newest, seen = START - 1, len(history)
    for seconds in range(1, ROUND_US // 1_000_000 + 1):
        now = START + seconds * 1_000_000
        times = _times(recording.until(now))
        seen += len(times)
        if len(times):
            assert newest < times[0] <= times[-1] <= now
            newest = times[-1]
    first, again = Recording(START), Recording(START + ROUND_US)
    whole = first.until(START + ROUND_US // 2 - 1).num_rows  # each of four weeks once
    assert seen == whole + len(history)
    assert (_times(again.until(START + ROUND_US)) == history + ROUND_US).all()


def test_it_is_played_without_spark_and_java(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PLAY.format(folder=str(tmp_path))],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            "PATH": "/nowhere",
            "HOME": str(tmp_path),
            "NUMBA_CACHE_DIR": str(cache_folder()),  # to compile all kernels anew takes a minute
        },
    )
    assert done.returncode == 0, done.stderr
    assert "dashboard:  http://127.0.0.1:" in done.stdout
    ledger = SqliteLedger(tmp_path / "demo.db", create=False)
    windows = ledger.windows("flights", start=None, end=None, limit=100, newest_first=False)
    assert len(windows) >= HISTORY_DAYS - 2
    ledger.close()


@pytest.mark.parametrize("what", [["--replay"], []])
def test_a_port_that_is_taken_ends_it_before_spark_starts(tmp_path, what):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "muntin", "demo", "--no-open", "--port", port, *what],
            capture_output=True,
            text=True,
            timeout=300,
            env={"PATH": "/nowhere", "HOME": str(tmp_path)},  # there is no Java
        )
    assert done.returncode == 1
    why = "Address already in use; choose another --port"
    assert f"error: cannot listen on 127.0.0.1:{port}: {why}\n" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("[::1]", 0, r"\[::1\]:0: .*; choose another --host"),
        ("127.0.0.1", 99999, "127.0.0.1:99999: ports are 0 to 65535; choose another --port"),
    ],
)
def test_an_address_that_is_none_is_told_as_that(host, port, said):
    with pytest.raises(BadArgument, match=f"^cannot listen on {said}"):
        _listening(host, port)


def test_the_places_that_name_the_version_agree():
    said = versions(ROOT)
    assert said["pyproject.toml"] == said["muntin.__version__"]
