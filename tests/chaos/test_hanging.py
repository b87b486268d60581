"""A Python worker that does not answer: it is named and killed, and every window is exact."""

import random
import time

import psutil
import pytest

from tests.chaos.test_kill import (
    DEADLINE_SECONDS,
    FILES,
    check_exact,
    in_order,
    start,
    wait_for,
    written,
)

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(1200)]


# A worker is stopped for a minute before it is killed: tests/spark/test_daemon.py has that faster.
@pytest.mark.parametrize("way", [pytest.param("stopped", marks=pytest.mark.slow), "hung"])
def test_a_worker_that_does_not_answer_is_killed_and_its_task_runs_again(tmp_path, way):
    """Stopped by SIGSTOP, where its task reads the files itself, or hung in a user's function."""
    table = in_order(FILES, random.Random(22))
    written(table, tmp_path / "events")
    process = start(tmp_path, None, *(["hang"] if way == "hung" else []))
    deadline = time.monotonic() + DEADLINE_SECONDS
    stopped = []
    if way == "stopped":
        assert wait_for(process, "batch", deadline)
        stopped = workers_of(process)
        for worker in stopped:
            worker.suspend()
        assert stopped
    done = wait_for(process, "done", deadline)
    told = (tmp_path / "stderr").read_text()
    assert done, told[-2000:]
    process.wait(timeout=300)
    process.stdout.close()
    assert way == "stopped" or "Idle timeout reached for Python worker" in told
    for worker in stopped:
        assert f"Python worker {worker.pid} was stopped" in told
        assert not worker.is_running()
    check_exact(table, tmp_path)


def workers_of(process):
    """Spark's Python workers: what its daemon has forked."""
    below = psutil.Process(process.pid).children(recursive=True)
    return [child for child in below if child.parent() in below and child.name() != "java"
            and child.parent().name() != "java"]  # fmt: skip
