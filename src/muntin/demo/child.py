"""Processes that a demo starts, and that end when it does, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

STOP_SECONDS = 30.0


def start(arguments: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """This Python with other arguments, in a session of its own: a Ctrl-C here does not reach it.

    Its standard input is a pipe that this process holds: it ends when this process does, be it by
    kill -9, and `end_with_parent` notices.
    """
    return subprocess.Popen(  # noqa: S603 (this Python)
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def end_with_parent() -> None:
    """In the process started: end, with all that it has started, once its parent has gone.

    First as on Ctrl-C; whatever is left after `STOP_SECONDS`, at once.
    """

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(STOP_SECONDS)
        os.killpg(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="muntin-parent", daemon=True).start()
