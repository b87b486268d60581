"""Samples that need processes, or an environment, of their own; run as their pages have them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from muntin.demo.broker import free_ports
from muntin.errors import LedgerMissing
from muntin.ledger.open import open_ledger
from tests.docs_samples import ROOT, commands_of, samples_of
from tests.spark.test_any_spark import environment, home, is_open
from tests.test_docs import prepare_flights, prepare_pipelines

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]
SECONDS = 300.0  # on a machine with other work


def sample(page: str, words: str):
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    (found,) = (s for s in samples_of(path) if words in s.text)
    return found


def shell(line: str, folder: Path, env: dict[str, str], seconds: float = SECONDS):
    """What a line of a shell said; it is an error where it failed."""
    done = subprocess.run(
        ["sh", "-ec", line], cwd=folder, env=env, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"{line}\n{(done.stdout + done.stderr)[-4000:]}"
    return done.stdout + done.stderr


@contextlib.contextmanager
def started(line: str, folder: Path, env: dict[str, str]):
    """A command that goes on until it is stopped, which it must take in order."""
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            ["sh", "-ec", f"exec {line.partition(' #')[0]}"],
            cwd=folder, env=env, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0, (folder / "said").read_text()[-4000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(is_so, what: Path | None = None):
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, what and what.read_text()[-4000:]
        time.sleep(0.2)


# Spark Connect, and what runs by it


@pytest.fixture(scope="module")
def connect(tmp_path_factory):
    """The environment of clients of a Spark Connect server, which is started as spark.md has it."""
    folder = tmp_path_factory.mktemp("connect")
    (port,) = free_ports(1)
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
    }
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    bin_folder = os.path.dirname(sys.executable)
    env = environment(
        SPARK_HOME=str(home()),
        SPARK_LOCAL_IP="127.0.0.1",
        PATH=f"{bin_folder}:{os.environ['PATH']}",
    )
    places = {f"SPARK_{name}_DIR": str(folder) for name in ("CONF", "LOG", "PID")}
    start, _ = commands_of(sample("spark.md", "start-connect-server"))
    shell(start.replace("/opt/muntin/bin/python", sys.executable), folder, env | places)
    try:
        until(lambda: is_open(port), next(folder.glob("*.out")))
        yield env | {"SPARK_REMOTE": f"sc://127.0.0.1:{port}"}
    finally:
        shell("$SPARK_HOME/sbin/stop-connect-server.sh", folder, env | places)


def counted(url: str) -> int:
    with (
        contextlib.suppress(LedgerMissing),
        contextlib.closing(open_ledger(url, create=False)) as ledger,
    ):
        return sum(info.counted for info in ledger.pipelines())
    return 0


def test_a_pipeline_by_spark_connect(connect, tmp_path):
    prepare_flights(tmp_path)
    prepare_pipelines(tmp_path, "", "")
    _, line = commands_of(sample("spark.md", "start-connect-server"))
    line = line.replace("sc://host:15002", connect["SPARK_REMOTE"])
    variable, _, command = line.partition(" ")
    assert variable == f"SPARK_REMOTE={connect['SPARK_REMOTE']}"
    with started(command, tmp_path, connect):
        until(lambda: counted(f"sqlite:///{tmp_path}/any.db") == 2_000, tmp_path / "said")


READ_AGAIN = """
import sys
import muntin
from muntin.spark.session import session

spec = {"name": "odd", "time": "time", "pane": "1 hour",
        "summaries": {"c": {"keys": ["k"], "indicators": []}}}
folder = sys.argv[1]
files = session("odd").readStream.schema("time timestamp, k string").json(f"{folder}/in")
places = {"ledger": f"sqlite:///{folder}/odd.db", "checkpoint": f"{folder}/checkpoint"}
muntin.stream(files, spec, once=True, **places).await_termination()
"""


TABLE = """
import pandas as pd
import muntin
from muntin.spark.session import session

session("table")
spec = {"name": "table", "time": "at", "pane": "1 hour", "fields": {"at": "to_timestamp(text)"},
        "summaries": {"c": {"keys": ["k"], "indicators": []}}}
table = pd.DataFrame({"text": ["2026-01-01 00:30:00"], "k": ["a"]})
print(muntin.summarize(table, spec, progress=False).ledger.bounds("c", 3_600_000_000))
"""


def test_by_spark_connect_a_table_may_have_fields(connect):
    done = subprocess.run(
        [sys.executable, "-c", TABLE],
        env=connect, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.stdout == "(1767225600000000, 1767229200000000)\n", done.stderr[-2000:]


OTHERS = """
import os
import pyarrow as pa
import muntin
from pyspark.sql import SparkSession
from muntin.errors import SourceError

spark = SparkSession.builder.remote(os.environ["SPARK_REMOTE"]).getOrCreate()
spec = {"name": "table", "time": "at", "pane": "1 hour", "fields": {"at": "to_timestamp(text)"},
        "summaries": {"c": {"keys": ["k"], "indicators": []}}}
table = pa.table({"text": ["2026-01-01 00:30:00"], "k": ["a"]})
for zone, ansi, parser in (
    ("Asia/Tokyo", "true", "CORRECTED"),
    ("UTC", "false", "CORRECTED"),
    ("UTC", "true", "LEGACY"),
    ("UTC", "true", "CORRECTED"),
):
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.legacy.timeParserPolicy", parser)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        print(muntin.summarize(table, spec, progress=False).ledger.bounds("c", 3_600_000_000))
    except SourceError as problem:
        print(problem)
"""


def test_by_spark_connect_fields_are_evaluated_as_everywhere_or_refused(connect):
    done = subprocess.run(
        [sys.executable, "-c", OTHERS],
        env=connect, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "fields: spark.sql.session.timeZone of your session is Asia/Tokyo, which would change what "
        'they are: spark.conf.set("spark.sql.session.timeZone", "UTC")',
        "fields: spark.sql.ansi.enabled of your session is false, which would change what they "
        'are: spark.conf.set("spark.sql.ansi.enabled", "true")',
        "fields: spark.sql.legacy.timeParserPolicy of your session is LEGACY, which would change "
        'what they are: spark.conf.set("spark.sql.legacy.timeParserPolicy", "CORRECTED")',
        "(1767225600000000, 1767229200000000)",
    ], done.stderr[-2000:]


def test_by_spark_connect_no_file_counts_that_spark_reads_several_times(connect, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a[1].json", "b.json"):
        (tmp_path / "in" / name).write_text('{"time": "2026-01-01T00:00:00Z", "k": "x"}\n' * 10)
    done = subprocess.run(
        [sys.executable, "-c", READ_AGAIN, str(tmp_path)],
        env=connect, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert counted(f"sqlite:///{tmp_path}/odd.db") == 0
    assert f"SourceError: source: Spark would read file://{tmp_path}/in/a[1].json" in done.stderr


def test_a_sink_of_declarative_pipelines_is_taken_and_ends_as_the_page_says(connect, tmp_path):
    prepare_flights(tmp_path)
    prepare_pipelines(tmp_path, "", "")
    text = sample("spark.md", "create_sink").text
    for there, here in {
        "/opt/flights.yaml": f"{tmp_path}/flights.yaml",
        "/var/muntin/flights.db": f"{tmp_path}/sink.db",
        "s3a://bucket/flights": f"{tmp_path}/timed",
    }.items():
        assert there in text
        text = text.replace(there, here)
    (tmp_path / "flights.py").write_text(text)
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: flights\nstorage: file://{tmp_path}/storage\n"
        "libraries:\n  - glob: {include: flights.py}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pyspark.pipelines.cli", "run"],
        cwd=tmp_path, env=connect, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode, "it works: say so on the page"
    assert "UNKNOWN_RESPONSE" in done.stderr, done.stderr[-4000:]
    assert "__python_accumulator__" in done.stderr


# Commands that are read from the page, with a place and a port of their own


def test_flights_at_three_sites(tmp_path):
    """The race begins, its answer holds, and all end in order."""
    (line,) = commands_of(sample("topk.md", "demo --sites"))
    (port,) = free_ports(1)
    line = line.partition(" #")[0] + f" --no-open --port {port} --folder {tmp_path}"
    env = os.environ | {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}

    def answered() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            answer = httpx.get(f"http://127.0.0.1:{port}/top_k").json()
            told = "\nvalid, as of " in (tmp_path / "said").read_text()
            return answer["valid"] and len(answer["items"]) == 10 and told
        return False

    with started(line, tmp_path, env):
        until(answered, tmp_path / "said")
    said = (tmp_path / "said").read_text()
    assert "starting Spark at 3 sites: ewr, jfk, lga" in said
    assert " sent; pushing every change: " in said


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("words", ["make demo", "python3 -m venv"])
def test_the_first_commands_in_a_fresh_clone(tmp_path, words):
    """They fetch what they need. The demonstration is ended after a minute, and of the tests of
    `make test`, this one's own command, some are chosen."""
    clone = tmp_path / "muntin"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL", "MAKE"))}
    demo = f" --no-open --seconds 60 --port 0 --folder {tmp_path}/demo"
    for line in commands_of(sample("README.md", words)):
        command = line.partition(" #")[0].rstrip()
        more = kept
        if command == "make test":
            more = kept | {"ARGS": "-k test_times"}
        elif command == "make demo":
            more = kept | {"ARGS": demo}
        elif command.endswith("muntin demo"):
            command += demo
        shell(command, clone, more, seconds=1800)
    assert counted(f"sqlite:///{tmp_path}/demo/demo.db") > 0
