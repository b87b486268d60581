"""The fork server: begins and ends the processes that answer statements (`worker.py`)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import asdict

from muntin.ledger.sqlite import SqliteLedger
from muntin.server.limits import ServerLimits
from muntin.server.worker import BEGIN, END, LENGTH, WARM


class ForkServer:
    """Starts workers over one ledger. Its blocking calls are for threads."""

    def __init__(self, ledger: SqliteLedger, limits: ServerLimits) -> None:
        one = limits.of_statement(concurrent=1)
        self._settings = {
            "ledger": ledger.address,
            "cache_bytes": one.cache_bytes,
            "limits": asdict(one),
        }
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def warm(self) -> int:
        """Have kernels loaded for all workers to come: for how many pipelines.

        Raises
        ------
        OSError
            As `begin`.
        """
        with self._lock:
            return self._asked(WARM)

    def begin(self) -> tuple[socket.socket, int]:
        """A new worker: its socket and its process' number. Waits for it.

        Raises
        ------
        OSError
            There is no memory or no process to be had.
        """
        ours, theirs = socket.socketpair()
        try:
            with self._lock, theirs:
                return ours, self._asked(BEGIN, theirs.fileno())
        except BaseException:
            ours.close()
            raise

    def forget(self, pid: int) -> None:
        """A worker was killed: its number may be given to others."""
        with contextlib.suppress(OSError), self._lock:
            if self._control is not None:
                self._control.sendall(END + LENGTH.pack(pid))

    def close(self) -> None:
        """End all."""
        with self._lock:
            self._closed = True
            self._stop()

    def _asked(self, command: bytes, *files: int) -> int:
        control = self._started()
        socket.send_fds(control, [command], list(files))
        answer = control.recv(LENGTH.size, socket.MSG_WAITALL)
        if len(answer) == LENGTH.size:
            return LENGTH.unpack(answer)[0]
        self._stop()
        raise OSError("the process that starts workers has ended")

    def _started(self) -> socket.socket:
        if self._closed:
            raise OSError("the server has ended")
        if self._process is not None and self._process.poll() is not None:
            self._stop()
        if self._control is None:
            self._control, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 (this interpreter, our module)
                    [sys.executable, "-m", "muntin.server.worker", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    # it forks: no threads before that, and a worker has one core anyway
                    env={
                        **os.environ,
                        "OPENBLAS_NUM_THREADS": "1",
                        "OMP_NUM_THREADS": "1",
                        "JE_ARROW_MALLOC_CONF": "background_thread:false",
                    },
                    start_new_session=True,  # a terminal's Ctrl-C is for the server
                )
            settings = json.dumps(self._settings).encode()  # a password is no argument to be seen
            self._control.sendall(LENGTH.pack(len(settings)) + settings)
        return self._control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
