"""Python workers come from our daemon with all they need, end quietly, and keep their memory."""

import gc
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow
import pytest
from packaging.version import Version

from muntin.spark import daemon
from muntin.spark.failures import worker_error

pytestmark = pytest.mark.spark


def test_a_worker_that_was_let_go_ends_quietly(monkeypatch):
    def let_go(sock, authenticated):
        raise BrokenPipeError

    monkeypatch.setattr(daemon, "_worker", let_go)
    assert daemon.worker(None, True) == 1
    monkeypatch.setattr(daemon, "_worker", lambda sock, authenticated: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        daemon.worker(None, True)


def test_what_the_first_task_loaded_is_frozen_once(monkeypatch):
    monkeypatch.setattr(daemon, "_worker", lambda sock, authenticated: 0)
    monkeypatch.setattr(daemon, "_first", True)
    gc.unfreeze()  # what the tests' own settings froze
    try:
        assert daemon.worker(None, True) == 0
        frozen = gc.get_freeze_count()
        assert frozen > 0
        made = [[] for _ in range(100)]
        assert daemon.worker(None, True) == 0
        assert gc.get_freeze_count() <= frozen
        assert made
    finally:
        gc.unfreeze()


def test_the_session_forks_its_workers_by_it(spark):

    def parents(rows):
        import os

        return [Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode()]

    if not Path("/proc/self/cmdline").exists():
        pytest.skip("no /proc here")
    for parent in spark.sparkContext.parallelize([1, 2], 2).mapPartitions(parents).collect():
        assert "muntin.spark.daemon" in parent


LOADED = ("pandas", "numba", "muntin.spark.partials")


@pytest.mark.skipif(sys.platform == "darwin", reason="workers import for themselves there")
def test_a_worker_is_forked_with_what_tasks_need(spark):
    names = LOADED

    def found(rows):
        import sys

        return [[name in sys.modules for name in names]]

    tasks = spark.sparkContext.parallelize([1, 2], 2)
    assert tasks.mapPartitions(found).collect() == [[True] * len(LOADED)] * 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
def test_the_daemon_has_one_thread_when_it_forks():
    counted = "import os; print(len(os.listdir('/proc/self/task')))"
    assert _after_preload(counted) == ["1"]


def test_workers_need_no_pandas():
    found = "print('muntin.spark.partials' in sys.modules)"
    assert _after_preload(found, "sys.modules['pandas'] = None") == ["True"]


def _after_preload(asked, before="pass"):
    """What a process prints that has loaded what the daemon does."""
    script = f"import sys; {before}; from muntin.spark.daemon import preload; preload(); {asked}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_memory_of_a_task_serves_the_next(spark):
    if not Path("/proc/self/cmdline").exists() or not sys.platform.startswith("linux"):
        pytest.skip("Linux has an allocator that can be told")

    def fills(rows):
        import os
        import resource

        import numpy as np
        import pyarrow as pa

        def faults():
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

        list(rows)  # a worker that has not read its input is not used again
        before = faults()
        tables = [np.ones(1 << 22) for _ in range(4)]  # 32 MB each
        between = faults()
        columns = [pa.array(table).cast(pa.float32()) for table in tables]
        return [(os.getpid(), between - before, faults() - between, len(columns))]

    def run():
        return spark.sparkContext.parallelize([1], 1).mapPartitions(fills).collect()[0]

    seen = {}
    for _ in range(20):
        pid, of_numpy, of_arrow, _ = run()
        if pid in seen:
            break
        seen[pid] = of_numpy, of_arrow
    else:
        pytest.fail("no worker came again")
    first_numpy, first_arrow = seen[pid]
    assert of_numpy <= first_numpy / 4
    if Version(pyarrow.__version__) >= Version("21"):  # older ones' mimalloc is not told so
        assert of_arrow <= first_arrow / 4


def stop(process):
    process.suspend()
    while process.status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_a_worker_that_is_stopped_for_good_is_killed_and_no_other(capfd):
    workers = [
        psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in range(3)
    ]
    try:
        running, waking, stopped = workers
        watch = daemon.StoppedWorkers()
        stop(waking)
        stop(stopped)
        pids = [worker.pid for worker in workers]
        for turn in range(daemon.STOPPED_LOOKS_MAX):
            watch.look(pids)
            if turn == 0:
                waking.resume()
                while waking.status() == psutil.STATUS_STOPPED:
                    time.sleep(0.01)
            elif turn == 1:
                stop(waking)
        assert stopped.is_running()
        watch.look(pids)
        assert stopped.wait(timeout=60) == -signal.SIGKILL
        assert running.is_running()
        assert waking.is_running()
    finally:
        for worker in workers:
            if worker.is_running():
                worker.kill()
                worker.wait()
    said = capfd.readouterr().err
    assert said.count("was stopped") == 1
    assert f"Python worker {stopped.pid} was stopped for" in said


def test_a_killed_worker_is_told_and_not_what_java_wrote_to_it():
    text = """Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 \
failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (localhost executor \
driver): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
Caused by: java.io.IOException: Broken pipe"""
    said = "workers has ended, as often as its task may fail .*maxFailures.* memory was short"
    assert re.search(said, str(worker_error(Exception(text))))


def test_a_worker_of_another_python_is_told_with_both_versions():
    text = """An exception was thrown from the Python worker:
Traceback (most recent call last):
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has \
different version: 3.13 than that in driver: 3.11, PySpark cannot run with different minor versions.
Please check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set."""
    said = r"do not start \(Python in worker has .*: 3.13 than that in driver: 3.11\): unset"
    assert re.search(said, str(worker_error(Exception(text))))


@pytest.mark.parametrize(("lacks", "is_sent"), [("muntin", True), ("yaml", True), ("numpy", False)])
def test_what_ship_does_not_send_is_not_offered_by_it(lacks, is_sent):
    text = f"Error from python worker:\nModuleNotFoundError: No module named '{lacks}'"
    said = str(worker_error(Exception(text)))
    assert said.startswith(f"Spark's workers have no {lacks}: pip install muntin==")
    assert ("muntin.ship(spark)" in said) == is_sent
