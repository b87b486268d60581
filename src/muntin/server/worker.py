"""Processes that answer statements: `python -m muntin.server.worker`, started by `workers.py`.

The first process loads what an answer needs, kernels too, and then only forks: a worker is there in
milliseconds, so that it can be killed at any time, and what was loaded is in memory once. It forks
while it has one thread and no ledger open, and kills all workers when the server's socket closes.
"""

import contextlib
import json
import logging
import os
import select
import signal
import socket
import struct
import sys
from typing import IO, Any

from muntin.errors import MuntinError
from muntin.ledger.open import open_ledger
from muntin.reading.catalog import LedgerCatalog
from muntin.reading.warm import warm
from muntin.select.limits import Limits
from muntin.server.answering import INLINE_BYTES, Answering, Question, error_data
from muntin.server.problems import status_of
from muntin.server.reader import Reader
from muntin.spec import Pipeline

BEGIN, END, WARM = b"b", b"e", b"w"
NUMBER = struct.Struct(">I")
_LOG = logging.getLogger("muntin.server")


def run_fork_server(control: socket.socket, settings: dict[str, Any]) -> None:
    """Fork and end workers as the server asks, until it has gone."""
    children: set[int] = set()
    try:
        _obey(control, settings, children)
    except (ConnectionError, struct.error):
        pass  # the server has gone in the middle of a word
    finally:
        for pid in children:
            _end(pid)


def _obey(control: socket.socket, settings: dict[str, Any], children: set[int]) -> None:
    warm_for: list[Any] = []
    while True:
        order, given, _, _ = socket.recv_fds(control, 1, 1)
        if not order:
            break
        if order == BEGIN:
            pid = os.fork()
            if pid == 0:
                control.close()
                _work(socket.socket(fileno=given[0]), settings)
            os.close(given[0])
            children.add(pid)
            control.sendall(NUMBER.pack(pid))
        elif order == WARM:
            _warm(settings, warm_for)
            control.sendall(NUMBER.pack(len(warm_for)))
        elif order == END:
            pid = _number(control)
            if pid in children:  # not waited for yet, so the number is still its own
                children.remove(pid)
                _end(pid)


def _warm(settings: dict[str, Any], warm_for: list[Any]) -> None:
    """Load, or compile, the kernels of the ledger's pipelines, for all workers to come."""
    try:
        ledger = open_ledger(settings["ledger"], create=False)
        try:
            specs = [info.spec for info in ledger.pipelines()]
        finally:
            ledger.close()  # SQLite's locks do not outlive a fork
        for spec in specs:
            if spec not in warm_for:
                warm(Pipeline.from_json(spec))
                warm_for.append(spec)
    except MuntinError as error:  # whoever asks will hear it too
        _LOG.debug("not warm: %s", error)
    except Exception:
        _LOG.exception("cannot prepare for statements")


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _work(connection: socket.socket, settings: dict[str, Any]) -> None:
    """Answer until the other side goes; never returns."""
    try:
        Worker(connection, settings).serve()
    except (OSError, EOFError):
        pass  # the server has gone
    except BaseException:
        _LOG.exception("a process that answers statements ends")
    finally:
        os._exit(0)  # the first process' own clean-up is not ours


class Worker:
    """One process' end of the conversation: one question at a time.

    A message is its head, a line of JSON, and `size` bytes where the head says so; of an answer in
    a file the file itself is sent.
    """

    def __init__(self, connection: socket.socket, settings: dict[str, Any]) -> None:
        self._connection = connection
        self._questions = connection.makefile("rb")
        self._settings = settings
        self._answering: Answering | None = None
        try:
            self._opened()
        except MuntinError as error:  # a store that is away: to wait for it twice takes too long
            if select.select([connection], [], [], 0)[0]:
                self._asked()
                self._refuse(error)

    def _opened(self) -> Answering:
        if self._answering is None:
            ledger = open_ledger(self._settings["ledger"], create=False)
            limits = Limits(**self._settings["limits"])
            catalog = LedgerCatalog(ledger, cache_bytes=limits.cache_bytes)
            self._answering = Answering(Reader(ledger, catalog, limits))
        return self._answering

    def serve(self) -> None:
        while True:
            self._answer(self._asked())

    def _asked(self) -> Question:
        question = self._questions.readline()
        if not question.endswith(b"\n"):
            raise EOFError
        return Question(**json.loads(question))

    def _answer(self, asked: Question) -> None:
        try:
            out = self._opened().answer(asked)
        except Exception as error:
            if status_of(error) == 500:
                _LOG.exception("cannot answer %s", asked)
            self._refuse(error)
            return
        with out:
            size = out.seek(0, os.SEEK_END)
            out.seek(0)
            head = {"kind": "answer", "size": size, "file": size > INLINE_BYTES}
            self._send(head, out)

    def _refuse(self, error: Exception) -> None:
        self._send({"kind": "error", **error_data(error)})

    def _send(self, head: dict[str, Any], out: IO[bytes] | None = None) -> None:
        data = json.dumps(head).encode() + b"\n"
        if out is not None and head["file"]:
            out.flush()
            sent = socket.send_fds(self._connection, [data], [out.fileno()])
            self._connection.sendall(data[sent:])
        else:
            self._connection.sendall(data + (b"" if out is None else out.read()))


def _number(control: socket.socket) -> int:
    return NUMBER.unpack(control.recv(NUMBER.size, socket.MSG_WAITALL))[0]


def main() -> None:
    """Argument: the control socket's number. The first that comes there are settings as JSON."""
    logging.basicConfig(format="%(levelname)s:%(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends us
    control = socket.socket(fileno=int(sys.argv[1]))
    run_fork_server(control, json.loads(control.recv(_number(control), socket.MSG_WAITALL)))


if __name__ == "__main__":
    main()
