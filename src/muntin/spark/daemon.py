"""PySpark's daemon, which forks the Python workers, with five things amended.

- Spark closes the socket of a worker that was idle for a minute. Over a unix socket the worker's
  farewell then fails, and the daemon prints a trace: here such a worker ends without a word.
- Between two tasks a worker collects garbage, through all objects of NumPy, Arrow and Numba: 50 ms.
  Here what the first task has loaded is left out from then on.
- Workers keep the memory that they free (`keep_memory`), imports are done before the fork
  (`preload`), and a worker that is stopped for good is killed (`StoppedWorkers`).
"""

import ctypes
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

# Read when they are loaded: NumPy's and Arrow's, which PySpark 4.1's own daemon imports already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")  # see `keep_memory`

from pyspark import daemon

KEPT_BYTES_MAX = 512 << 20  # as much as a task's summaries may hold
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # as in malloc.h
LOOK_SECONDS = 5.0
STOPPED_LOOKS_MAX = 12  # a minute: a debugger or a frozen machine may stop it for a moment

_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children")

_worker = daemon.worker
_first = True


def worker(sock: Any, authenticated: Any) -> int:
    """One task, as PySpark's own; runs in a process of its own, which the daemon forked."""
    global _first
    try:
        code = _worker(sock, authenticated)
    except BrokenPipeError:
        # the process ends with this: what its stream still holds fails as well, and from Python
        # 3.13 on each that fails so is told
        sys.unraisablehook = lambda _: None
        return 1
    if _first:
        _first = False
        gc.collect()
        gc.freeze()
    return code


def keep_memory() -> None:
    """Let the workers keep the memory that a task has freed, for the next one.

    Else each task is given all its memory anew, page by page: half of its time where summaries are
    large. Workers are forked from this process and take after it; Spark ends those that are idle.
    Arrow below 21 gives its memory back nevertheless.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # NumPy's; only glibc has that
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)


def preload() -> None:
    """Import once, for all workers, what takes each of them some seconds.

    None of it may start a thread, which a fork would leave behind. On macOS NumPy may use a
    library of Apple's that does not outlive a fork: there each worker imports for itself.
    """
    if sys.platform == "darwin":
        return
    with suppress(ImportError):  # which needs none: Arrow asks for it when it makes an array
        importlib.import_module("pandas")
    importlib.import_module("muntin.spark.partials")
    gc.freeze()  # memory that no worker's collection touches stays shared by all


class StoppedWorkers:
    """Kills workers that are stopped (SIGSTOP, SIGTSTP) for a minute on end.

    Spark waits for a worker's answer for ever, or (`spark.python.worker.idleTimeoutSeconds`) sends
    SIGTERM, which a stopped process does not take. Looks are counted, not seconds, in case the
    daemon itself was stopped. On Linux only: elsewhere there is no /proc.
    """

    def __init__(self) -> None:
        self._looks: dict[int, int] = {}

    def watch(self) -> None:
        """Look from now on, by the timer's signal: a thread would be lost to workers by a fork."""
        if not _CHILDREN.exists():
            return
        signal.signal(signal.SIGALRM, lambda *_: self.look(_children()))
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)

    def look(self, workers: Iterable[int]) -> None:
        """Kill those that were stopped at this look and at all of the last minute."""
        stopped = [pid for pid in workers if _is_stopped(pid)]
        self._looks = {pid: self._looks.get(pid, 0) + 1 for pid in stopped}
        for pid, looks in self._looks.items():
            if looks > STOPPED_LOOKS_MAX:
                seconds = round(looks * LOOK_SECONDS)
                sys.stderr.write(
                    f"muntin: Python worker {pid} was stopped for {seconds} seconds and is killed: "
                    "Spark runs its task again\n"
                )
                sys.stderr.flush()
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def _children() -> list[int]:
    """Workers that this process has forked."""
    try:
        text = _CHILDREN.read_text()
    except OSError:
        return []
    return [int(pid) for pid in text.split()]


def _is_stopped(pid: int) -> bool:
    try:  # the name in brackets may hold anything
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


if __name__ == "__main__":
    keep_memory()
    preload()
    StoppedWorkers().watch()
    daemon.worker = worker
    daemon.manager()
