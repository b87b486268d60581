"""Workers whose Python has no Muntin: one line that says so, and `muntin.ship`, which helps."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.demo.broker import free_ports
from muntin.reading.warm import warm
from muntin.spark import shipping
from muntin.spark.gathering import plan_of
from muntin.spark.partials import fold
from muntin.spark.shipping import packed
from tests.pipeline.support import START, events, pipeline
from tests.spark.bare_python import bare_python, without_muntin
from tests.spark.test_any_spark import LOOPBACK, home, python_said, running

ROOT = Path(__file__).parents[2]
FOLDS = """
import pickle, sys
sys.path.insert(1, sys.argv[1])  # as Spark's workers do
import pyarrow.parquet as pq
from muntin.spark.partials import fold
from numba.core.dispatcher import Dispatcher
plan = pickle.load(open(sys.argv[2], "rb"))
rows = list(fold(plan, pq.read_table(sys.argv[3]).to_batches()))
compiled = {k for n, m in list(sys.modules.items()) if n.startswith("muntin.")
            for k in vars(m).values() if isinstance(k, Dispatcher)}
hits, misses = (sum(sum(getattr(k.stats, name).values()) for k in compiled)
                for name in ("cache_hits", "cache_misses"))
pickle.dump((rows, hits, misses, sys.modules["muntin"].__file__), sys.stdout.buffer)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return bare_python(tmp_path_factory.mktemp("bare"))


@pytest.fixture
def still(tmp_path, monkeypatch):
    """The files as they are now: tests beside this one compile kernels, and so write some."""
    files = []
    for name, path in shipping._files():
        copied = tmp_path / "still" / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        files.append((name, Path(shutil.copy2(path, copied))))
    monkeypatch.setattr(shipping, "_files", lambda: files)


def test_the_same_files_make_the_same_archive(still, tmp_path):
    first = packed(tmp_path)
    made = first.read_bytes()
    again = packed(tmp_path)
    assert (again, again.read_bytes()) == (first, made)


def test_a_python_without_muntin_folds_and_compiles_nothing(python, tmp_path):
    spec = pipeline()
    warm(spec)
    table = events([(at / 4, "abc"[at % 3], at % 2, 1, at) for at in range(100)])
    plan = plan_of(spec, START + 10**9)
    expected = list(fold(plan, table.to_batches()))
    pq.write_table(table, tmp_path / "events.parquet")
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    archive = packed(tmp_path)
    words = [python, "-c", FOLDS, archive, tmp_path / "plan", tmp_path / "events.parquet"]
    for _ in range(2):  # the second finds it unpacked
        done = subprocess.run(
            [*map(str, words)], env=without_muntin(), capture_output=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr.decode()
        rows, hits, misses, place = pickle.loads(done.stdout)  # noqa: S301 (of the process above)
        assert rows == expected
        assert Path(place).is_relative_to(tmp_path / archive.stem)
        assert hits > 0
        assert misses == 0


SENDS = """
import glob, os, sys
from muntin.spark.shipping import ship
there = lambda *_, **__: print(glob.glob(f"{sys.argv[1]}/*/*.zip") != [])
class Connect:
    addArtifacts = there
class Classic:
    _jsparkSession = None
    class sparkContext:
        addPyFile = there
for session in (Connect, Classic):
    ship(session())
    there()
"""


def test_an_archive_stays_while_workers_may_fetch_it(tmp_path):
    """Of a session of Spark Connect they do so elsewhere. Nothing stays in the end."""
    done = subprocess.run(
        [sys.executable, "-c", SENDS, str(tmp_path)],
        env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "False", "True", "True"]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights")
    times = pa.array([1357017300, 1357019999, 1357020000], pa.timestamp("s"))
    table = {"time": times.cast(pa.timestamp("us", "UTC")), "origin": ["EWR", "JFK", "EWR"]}
    (folder / "hidden").mkdir()
    for place in (folder, folder / "hidden"):
        pq.write_table(pa.table({**table, "delay": [1, 2, 4]}), place / "flights.parquet")
    return folder


def elsewhere(python, hidden):
    """The interpreter as on another machine, where a folder is empty."""
    script = python.with_name("elsewhere")
    script.write_text(
        f'#!/bin/sh\nexec unshare -m sh -c \'mount -t tmpfs none {hidden}; exec "$0" "$@"\' '
        f'{python} "$@"\n'
    )
    script.chmod(0o755)
    is_able = subprocess.run([script, "-c", ""], capture_output=True, check=False).returncode == 0
    return script if is_able else None


ROWS = [["EWR", 2, 5], ["JFK", 1, 2]]


@pytest.mark.spark
@pytest.mark.slow
def test_a_cluster(python, flights):
    other = elsewhere(python, flights / "hidden")
    told = driver(flights, other or python)
    assert told["with"] == told["files"] == ROWS
    check(told)
    if other is not None:  # a path that only the driver sees
        (line,) = told["unseen"].splitlines()
        assert str(flights / "hidden" / "flights.parquet") in line
        assert "where all workers see it" in line


@pytest.mark.spark
@pytest.mark.slow
def test_spark_connect(python, flights, tmp_path):
    (port,) = free_ports(1)
    server = [
        home() / "bin" / "spark-submit",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local-cluster[1,2,1024]",
        "--conf", "spark.ui.enabled=false",
        "--conf", "spark.task.maxFailures=1",
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", f"spark.connect.grpc.binding.address={LOOPBACK}",
        "--conf", f"spark.pyspark.python={python}",
        "spark-internal",
    ]  # fmt: skip
    with running(server, tmp_path / "server", port, PYSPARK_PYTHON=str(python)):
        told = driver(flights, python, SPARK_REMOTE=f"sc://{LOOPBACK}:{port}")
    assert told["with"] == ROWS
    check(told)


def check(told):
    (line,) = told["without"].splitlines()
    assert line.startswith("Spark's workers have no muntin: ")
    assert "pip install muntin==" in line
    assert "muntin.ship(spark)" in line
    assert sum(hits for hits, _ in told["kernels"]) > 0
    assert all(misses == 0 for _, misses in told["kernels"])


def driver(folder, python, **more):
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.shipping_process", str(folder), str(python)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
        | {"SPARK_LOCAL_IP": LOOPBACK}
        | more,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, python_said(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])
