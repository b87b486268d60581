"""PySpark's daemon, which forks the Python workers, with two things amended.

A worker that was idle for a minute is let go by Spark, which closes its socket. Over a unix socket
the worker's farewell then fails at once, and the daemon prints the trace of a `BrokenPipeError`;
over TCP nobody would notice. Here such a worker ends without a word.

Between two tasks a worker collects garbage, through all objects of NumPy, Arrow and Numba: 50 ms,
in which it takes no task. Here what the first task has loaded is left out of that from then on.
"""

from __future__ import annotations

import gc
from typing import Any

from pyspark import daemon

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


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
