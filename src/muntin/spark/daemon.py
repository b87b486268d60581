"""PySpark's daemon, which forks the Python workers, with four things amended.

A worker that was idle for a minute is let go by Spark, which closes its socket. Over a unix socket
the worker's farewell then fails at once, and the daemon prints the trace of a `BrokenPipeError`;
over TCP nobody would notice. Here such a worker ends without a word.

Between two tasks a worker collects garbage, through all objects of NumPy, Arrow and Numba: 50 ms,
in which it takes no task. Here what the first task has loaded is left out of that from then on.

A worker keeps the memory that it frees: see `keep_memory`. And what all tasks need is imported
before the first worker is forked: see `preload`.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys
from typing import Any

# Read when they are loaded: NumPy's and Arrow's, which PySpark 4.1's own daemon imports already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")  # see `keep_memory`

from pyspark import daemon

KEPT_BYTES_MAX = 512 << 20  # as much as a task's summaries may hold
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # as in malloc.h

_worker = daemon.worker
_first = True


def worker(sock: Any, authenticated: Any) -> int:
    """One task, as PySpark's own; runs in a process of its own, which the daemon forked."""
    global _first
    try:
        code = _worker(sock, authenticated)
    except BrokenPipeError:
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
    importlib.import_module("pandas")  # Arrow asks for it when it makes an array
    importlib.import_module("muntin.spark.partials")
    gc.freeze()  # memory that no worker's collection touches stays shared by all


if __name__ == "__main__":
    keep_memory()
    preload()
    daemon.worker = worker
    daemon.manager()
