"""The server's side of the processes that answer statements: ask, watch, end. One loop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import IO, Any

from muntin.errors import MuntinError, SelectError
from muntin.ledger.sqlite import SqliteLedger
from muntin.server.answering import Asked, error_of
from muntin.server.fork_server import ForkServer
from muntin.server.limits import ServerLimits
from muntin.server.problems import RefusalError
from muntin.server.worker import LENGTH

RECEIVED_BYTES = 256 << 10
WARM_SECONDS = 5.0  # until a ledger that is empty is looked at again
_LOG = logging.getLogger("muntin.server")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class WorkerProcess:
    """One worker; asked one thing at a time. For the loop's thread."""

    def __init__(
        self,
        connection: socket.socket,
        pid: int,
        end: Callable[[int], None],
        end_seconds: float,
        *,
        warm: bool,
    ) -> None:
        self.pid = pid
        self.warm = warm
        """Else kernels may have to be compiled first, which takes as long as it takes."""
        self.busy = False
        self.ended = False
        self._idle_bytes = memory_of(pid)
        self._connection = connection
        self._connection.setblocking(False)
        self._end = end
        self._end_seconds = end_seconds
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._files: list[int] = []
        self._answer: asyncio.Future[IO[bytes]] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._loop.add_reader(connection.fileno(), self._readable)

    async def ask(self, asked: Asked) -> IO[bytes]:
        """The answer's bytes.

        Raises
        ------
        MuntinError
            What the worker says, or that it had to be ended.
        """
        self.busy = True
        self._answer = answer = self._loop.create_future()
        if self.warm:
            self.limit_time()
        data = asked.to_json().encode()
        try:
            await self._loop.sock_sendall(self._connection, LENGTH.pack(len(data)) + data)
        except OSError:
            self.end(_gone())
        try:
            return await answer
        finally:
            self.busy = False
            self._answer = None
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    @property
    def grown_bytes(self) -> int:
        """Memory beyond what it began with; 0 where this system does not tell."""
        return max(0, memory_of(self.pid) - self._idle_bytes)

    def end(self, why: MuntinError) -> None:
        """Kill it; who waits for its answer gets `why`."""
        if self.ended:
            return
        self.ended = True
        self._loop.remove_reader(self._connection.fileno())
        self._connection.close()
        for file in self._files:
            os.close(file)
        self._end(self.pid)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(why)

    def limit_time(self) -> None:
        """From now on, what it does may take so long."""
        self._deadline = self._loop.call_later(
            self._end_seconds, lambda: self.end(took_too_long(self._end_seconds))
        )

    def _readable(self) -> None:
        try:
            data, files, _, _ = socket.recv_fds(self._connection, RECEIVED_BYTES, 4)
        except BlockingIOError:
            return
        except OSError:
            data, files = b"", []
        if not data:
            self.end(_gone())
            return
        self._received += data
        self._files += files
        while not self.ended and self._message():
            pass

    def _message(self) -> bool:
        """Take a whole message off what was received; False where there is none yet."""
        received = self._received
        if len(received) < LENGTH.size:
            return False
        body = LENGTH.size + LENGTH.unpack_from(received)[0]
        if len(received) < body:
            return False
        head: dict[str, Any] = json.loads(received[LENGTH.size : body])
        size = 0 if head.get("file", True) else head["size"]
        if len(received) < body + size:
            return False
        data = bytes(received[body : body + size])
        del received[: body + size]
        waiting = self._answer if self._answer is not None and not self._answer.done() else None
        if head["kind"] != "error":
            file = os.fdopen(self._files.pop(0), "rb") if head["file"] else io.BytesIO(data)
            if waiting:
                waiting.set_result(file)
            else:
                file.close()
        elif waiting:
            waiting.set_exception(error_of(head))
        return True


class Workers:
    """Runs what is asked in a few processes, and ends those whose statements are beyond limits.

    Attributes
    ----------
    places : int
        How much is computed at once.
    ended : int
        Workers that were killed.
    can_end : bool
        What is cancelled is ended.
    """

    WATCH_SECONDS = 0.02

    def __init__(self, ledger: SqliteLedger, limits: ServerLimits) -> None:
        self.places = limits.statements_at_once
        self.ended = 0
        self.can_end = True
        self._limits = limits
        self._fork_server = ForkServer(ledger, limits)
        self._free = [_Place(self._begin) for _ in range(self.places)]
        self._taken: set[_Place] = set()
        self._watching: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._is_warm = False

    def start(self) -> None:
        """Have workers ready before somebody asks."""
        for place in self._free:
            place.prepare()
        self._warming = asyncio.create_task(self._warm())

    async def run(self, asked: Asked) -> IO[bytes]:
        """The answer's bytes; at most `places` at once. Cancelled, it ends the worker.

        Raises MuntinError.
        """
        place = self._free.pop()  # the one that was used last has more in its caches
        self._taken.add(place)
        try:
            worker = await place.ready()
            if self._watching is None or self._watching.done():
                self._watching = asyncio.create_task(self._watch())
            return await worker.ask(asked)
        except asyncio.CancelledError:
            if place.worker is not None:
                place.worker.end(_gone())  # it computes what nobody wants
            raise
        finally:
            self._taken.remove(place)
            self._give_back(place)

    def close(self) -> None:
        """End all of them."""
        if self._warming is not None:
            self._warming.cancel()
        for place in (*self._free, *self._taken):
            place.close()
        self._fork_server.close()

    def _give_back(self, place: _Place) -> None:
        share = self._limits.statements_memory_bytes // self.places
        worker = place.worker
        if worker is not None and (worker.grown_bytes > share or self._is_warm > worker.warm):
            worker.end(_gone())  # what it keeps would be missing for others
        if place.worker is not None and not place.worker.ended:
            self._free.append(place)
        else:
            place.prepare()
            self._free.insert(0, place)

    async def _begin(self) -> WorkerProcess:
        try:
            connection, pid = await asyncio.to_thread(self._fork_server.begin)
        except OSError as problem:
            raise RefusalError(
                503, "busy", f"no process can be had to answer with: {problem}", "ask again"
            ) from None
        end_seconds = self._limits.statement_end_seconds
        return WorkerProcess(connection, pid, self._end, end_seconds, warm=self._is_warm)

    async def _warm(self) -> None:
        """Have kernels loaded once, and in place of the first workers those that have them.

        The first workers are there before: most of what a page asks for needs no kernel, and
        must not wait for those that are being compiled.
        """
        await asyncio.gather(*(place.begun() for place in (*self._free, *self._taken)))
        while True:
            try:
                if await asyncio.to_thread(self._fork_server.warm):
                    break
            except OSError as problem:
                _LOG.warning("kernels are not loaded: %s", problem)
            await asyncio.sleep(WARM_SECONDS)
        self._is_warm = True
        for place in self._taken:
            if place.worker is not None and not place.worker.warm:
                place.worker.limit_time()  # and replaced when it is given back
        for place in self._free:
            if place.worker is not None and not place.worker.warm:
                place.worker.end(_gone())
                place.prepare()

    def _end(self, pid: int) -> None:
        self.ended += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # its parent has not waited for it: the number is its own
        with contextlib.suppress(RuntimeError):  # the loop ends, and the fork server with it
            asyncio.get_running_loop().run_in_executor(None, self._fork_server.forget, pid)

    async def _watch(self) -> None:
        """End the largest worker while all of them together have grown too much."""
        most = self._limits.statements_memory_bytes
        while self._taken:
            workers = [p.worker for p in (*self._free, *self._taken) if p.worker is not None]
            grown = {worker: worker.grown_bytes for worker in workers if not worker.ended}
            if sum(grown.values()) > most:
                max(grown, key=lambda worker: grown[worker]).end(needs_too_much(most))
            await asyncio.sleep(self.WATCH_SECONDS)


class _Place:
    """Where one worker stands, and after its end the next."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, WorkerProcess]]) -> None:
        self.worker: WorkerProcess | None = None
        self._begin = begin
        self._closed = False
        self._beginning: asyncio.Task[WorkerProcess] | None = None

    def prepare(self) -> None:
        """Begin a worker where there is none."""
        if self._closed:
            return
        if self._beginning is None and (self.worker is None or self.worker.ended):
            self.worker = None
            self._beginning = asyncio.create_task(self._begin())
            self._beginning.add_done_callback(self._begun)

    async def ready(self) -> WorkerProcess:
        """The worker, which is begun where there is none. Raises MuntinError."""
        self.prepare()
        if self._beginning is not None:
            return await asyncio.shield(self._beginning)
        if self.worker is None:
            raise _gone()
        return self.worker

    async def begun(self) -> None:
        """Once the worker that is being begun is there, or cannot be had."""
        if self._beginning is not None:
            await asyncio.wait((self._beginning,))

    def close(self) -> None:
        self._closed = True
        if self._beginning is not None:
            self._beginning.cancel()
        if self.worker is not None:
            self.worker.end(_gone())

    def _begun(self, task: asyncio.Task[WorkerProcess]) -> None:
        self._beginning = None
        if task.cancelled() or self._closed:
            return
        if (error := task.exception()) is None:
            self.worker = task.result()
        else:
            _LOG.warning("%s", error)


def memory_of(pid: int) -> int:
    """Bytes of memory that a process has, without files; 0 where this system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared = file.read().split()[:3]
        return (int(resident) - int(shared)) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def took_too_long(seconds: float) -> SelectError:
    return SelectError(
        f"the statement took longer than {seconds:g} s, and its process was ended",
        code="timeout",
        remedy="ask for less: a shorter window, fewer rows, a join on keys",
    )


def needs_too_much(most: int) -> SelectError:
    return SelectError(
        f"the statement needs more memory than it may have ({most >> 20} MiB)",
        code="limit",
        remedy="ask for less: a shorter window, fewer groups, a join on keys",
    )


def _gone() -> RefusalError:
    said = "the process that answered this statement has ended"
    return RefusalError(503, "busy", said, "ask again; if that ends too, ask for less")
