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
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from typing import IO

from muntin.errors import MuntinError, SelectError
from muntin.ledger.sqlite import SqliteLedger
from muntin.server.answering import Question, error_of
from muntin.server.limits import ServerLimits
from muntin.server.problems import RefusalError
from muntin.server.worker import BEGIN, END, NUMBER, WARM

RECEIVED_BYTES = 256 << 10
CLOSE_SECONDS = 0.5  # for what is at hand, until it is killed
WARM_SECONDS = 5.0  # until a ledger that is empty is looked at again
_LOG = logging.getLogger("muntin.server")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ForkServer:
    """Starts workers over one ledger. Its blocking calls are for `thread`, in turn: others wait in
    the loop's own threads, and these calls may take as long as kernels are compiled."""

    def __init__(self, ledger: SqliteLedger, limits: ServerLimits) -> None:
        self._settings = {"ledger": ledger.address, "limits": asdict(limits.of_statement(1))}
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="muntin-workers")
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def warm(self) -> int:
        """Have kernels loaded for all workers to come: for how many pipelines. Raises OSError: as
        `begin`."""
        return self._asked(WARM)

    def begin(self) -> tuple[socket.socket, int]:
        """A new worker: its socket and its process' number. Waits for it. Raises OSError: there is
        no memory or no process to be had."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                return ours, self._asked(BEGIN, theirs.fileno())
        except BaseException:
            ours.close()
            raise

    def forget(self, pid: int) -> None:
        """A worker was killed: its number may be given to others."""
        with contextlib.suppress(OSError):
            if self._control is not None:
                self._control.sendall(END + NUMBER.pack(pid))

    def close(self) -> None:
        self._closed = True
        stopped = self.thread.submit(self._stop)
        while wait([stopped], timeout=CLOSE_SECONDS).not_done:
            if process := self._process:  # compiles kernels, for a minute maybe
                process.kill()
        self.thread.shutdown()

    def _asked(self, command: bytes, *files: int) -> int:
        control = self._started()
        socket.send_fds(control, [command], list(files))
        answer = control.recv(NUMBER.size, socket.MSG_WAITALL)
        if len(answer) == NUMBER.size:
            return NUMBER.unpack(answer)[0]
        self._stop()
        raise OSError("the process that starts workers has ended")

    def _started(self) -> socket.socket:
        if self._closed:
            raise OSError("the server has ended")
        if self._process is not None and self._process.poll() is not None:
            self._stop()
        if self._control is None:
            control, theirs = socket.socketpair()
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
            self._control = control
            settings = json.dumps(self._settings).encode()  # a password is no argument to be seen
            control.sendall(NUMBER.pack(len(settings)) + settings)
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


@dataclass(eq=False, repr=False)
class WorkerProcess:
    """One worker; asked one thing at a time. For the loop's thread."""

    _connection: socket.socket
    pid: int
    _end: Callable[[int], None]
    _end_seconds: float
    warm: bool  # else kernels may have to be compiled first, which takes as long as it takes
    busy: bool = False
    ended: bool = False

    def __post_init__(self) -> None:
        self._idle_bytes = memory_of(self.pid)
        self._connection.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._files: list[int] = []
        self._answer: asyncio.Future[IO[bytes]] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._connection.fileno(), self._readable)

    async def ask(self, asked: Question) -> IO[bytes]:
        """The answer's bytes. Raises MuntinError: what the worker says, or that it had to be
        ended."""
        if self.ended:  # before anybody could ask it
            raise _gone()
        self.busy = True
        self._answer = answer = self._loop.create_future()
        if self.warm:
            self.limit_time()
        try:
            await self._loop.sock_sendall(self._connection, asked.to_json().encode() + b"\n")
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
        line, end, rest = self._received.partition(b"\n")
        if not end:
            return False
        head = json.loads(line)
        size = 0 if head.get("file", True) else head["size"]
        if len(rest) < size:
            return False
        data, self._received = bytes(rest[:size]), rest[size:]
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
    """Runs what is asked in a few processes, and ends those whose statements are beyond limits."""

    WATCH_SECONDS = 0.02

    def __init__(self, ledger: SqliteLedger, limits: ServerLimits) -> None:
        self._limits = limits
        self._fork_server = ForkServer(ledger, limits)
        self._in_turn = self._fork_server.thread.submit
        self._free: list[WorkerPlace] = []
        self._taken: set[WorkerPlace] = set()
        self._watching: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._is_warm = self._closed = False
        self.ready = False  # kernels are loaded, of those pipelines that there were at the start

    def start(self) -> None:
        """Have workers ready before somebody asks."""
        places = range(self._limits.statements_at_once)
        self._free = [asyncio.create_task(self._begin()) for _ in places]
        self._warming = asyncio.create_task(self._warm())

    async def run(self, asked: Question) -> IO[bytes]:
        """The answer's bytes; at most `statements_at_once` at once. Cancelled, it ends the worker.
        Raises MuntinError."""
        # the one that was used last has more in its caches
        place = self._alive(self._free.pop())
        self._taken.add(place)
        try:
            worker = await asyncio.shield(place)
            if self._watching is None or self._watching.done():
                self._watching = asyncio.create_task(self._watch())
            return await worker.ask(asked)
        except asyncio.CancelledError:
            for worker in workers_in([place]):
                worker.end(_gone())  # it computes what nobody wants
            raise
        finally:
            self._taken.remove(place)
            if not self._closed:
                self._give_back(place)

    def close(self) -> None:
        self._closed = True
        if self._warming is not None:
            self._warming.cancel()
        places = (*self._free, *self._taken)
        for worker in workers_in(places):
            worker.end(_gone())
        for place in places:
            place.cancel()
        self._fork_server.close()

    def _alive(self, place: WorkerPlace) -> WorkerPlace:
        """The same, or one in its stead where it has no worker any more."""
        ended = place.done() and not workers_in([place])
        return asyncio.create_task(self._begin()) if ended else place

    def _give_back(self, place: WorkerPlace) -> None:
        share = self._limits.statements_memory_bytes // self._limits.statements_at_once
        for worker in workers_in([place]):
            if worker.grown_bytes > share or self._is_warm > worker.warm:
                worker.end(_gone())  # what it keeps would be missing for others
        alive = self._alive(place)
        self._free.insert(len(self._free) if alive is place else 0, alive)

    async def _begin(self) -> WorkerProcess:
        try:
            connection, pid = await asyncio.wrap_future(self._in_turn(self._fork_server.begin))
        except OSError as problem:
            said = f"no process can be had to answer with: {problem}"
            _LOG.warning("%s", said)
            raise RefusalError(503, "busy", said, "ask again") from None
        end_seconds = self._limits.statement_end_seconds
        return WorkerProcess(connection, pid, self._end, end_seconds, self._is_warm)

    async def _warm(self) -> None:
        """Have kernels loaded once, and in place of the first workers those that have them. The
        first workers are there before: most of what a page asks for needs none."""
        await asyncio.wait((*self._free, *self._taken))
        while True:
            try:
                pipelines = await asyncio.wrap_future(self._in_turn(self._fork_server.warm))
                self.ready = True
                if pipelines:
                    break
            except OSError as problem:
                _LOG.warning("kernels are not loaded: %s", problem)
            await asyncio.sleep(WARM_SECONDS)
        self._is_warm = True
        for worker in workers_in(self._taken):
            if not worker.warm:
                worker.limit_time()  # and replaced when it is given back
        for worker in workers_in(self._free):
            if not worker.warm:
                worker.end(_gone())
        self._free = [*map(self._alive, self._free)]

    def _end(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # its parent has not waited for it: the number is its own
        with contextlib.suppress(RuntimeError):  # the loop ends, and the fork server with it
            self._in_turn(self._fork_server.forget, pid)

    async def _watch(self) -> None:
        """End the largest worker while all of them together have grown too much."""
        most = self._limits.statements_memory_bytes
        while self._taken:
            workers = workers_in((*self._free, *self._taken))
            grown = {worker: worker.grown_bytes for worker in workers}
            if sum(grown.values()) > most:
                max(grown, key=lambda worker: grown[worker]).end(needs_too_much(most))
            await asyncio.sleep(self.WATCH_SECONDS)


WorkerPlace = asyncio.Task[WorkerProcess]
"""Where one worker stands: it is being begun, there, or could not be had."""


def workers_in(places: Iterable[WorkerPlace]) -> list[WorkerProcess]:
    """Those that are there and have not ended."""
    begun = (p for p in places if p.done() and not p.cancelled() and p.exception() is None)
    return [worker for worker in (place.result() for place in begun) if not worker.ended]


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
        remedy="ask for less: a shorter window, a key of fewer values, a join on keys; "
        "muntin query, beside the ledger, may have more",
    )


def _gone() -> RefusalError:
    said = "the process that answered this statement has ended"
    return RefusalError(503, "busy", said, "ask again; if that ends too, ask for less")
