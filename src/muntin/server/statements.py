"""What clients ask to be computed: in turns, once for all who ask the same, in bounded memory."""

import asyncio
import logging
import os
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Collection, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Generic, TypeVar

from muntin.errors import MuntinError
from muntin.ledger.temporary import TemporaryLedger
from muntin.server.answering import INLINE_BYTES, Answering, Question
from muntin.server.limits import ServerLimits
from muntin.server.problems import RefusalError, stops
from muntin.server.reader import Reader
from muntin.server.workers import Workers

Work = TypeVar("Work")


class Turns(Generic[Work]):
    """A queue for each client; next is the client whose last turn is longest ago. `places`: how
    much runs at once, of one client at most all but one, where there are several."""

    def __init__(self, places: int) -> None:
        self._share = max(1, places - 1)
        self._places = places
        self._queues: OrderedDict[Hashable, deque[Work]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()

    def waiting_of(self, client: Hashable) -> int:
        """How much of a client's waits or runs."""
        return len(self._queues.get(client, ())) + self._running[client]

    def put(self, client: Hashable, work: Work) -> None:
        self._queues.setdefault(client, deque()).append(work)

    def drop(self, client: Hashable, work: Work) -> None:
        """It is not wanted any more. What runs already is not here."""
        queue = self._queues.get(client)
        if queue is not None and work in queue:
            queue.remove(work)
            if not queue:
                del self._queues[client]

    def take(self) -> tuple[Hashable, Work] | None:
        """Who is next and with what, until `done`; None where nobody who waits may run more."""
        if self._running.total() >= self._places:
            return None
        for client, queue in self._queues.items():
            if self._running[client] < self._share:
                work = queue.popleft()
                if queue:
                    self._queues.move_to_end(client)
                else:
                    del self._queues[client]
                self._running[client] += 1
                return client, work
        return None

    def done(self, client: Hashable) -> None:
        """One that `take` gave has ended."""
        self._running[client] -= 1
        if self._running[client] <= 0:
            del self._running[client]


SHARED_SECONDS = 1.0  # `now()` and `stale` may be so old
SHARED_MAX = 64
_LOG = logging.getLogger("muntin.server")
CLIENT_SHARE = 4  # of the room for what is unread, or followed, one client has at most a fourth
PIECE_BYTES = 64 << 10  # of an answer that is in memory for a client that reads


class Threads:
    """Computes in this process, which alone holds the ledger."""

    def __init__(self, reader: Reader, limits: ServerLimits) -> None:
        self._reader = reader
        self._answering = Answering(reader)
        self._pool = ThreadPoolExecutor(limits.statements_at_once, "muntin-query")
        self.ready = False

    def start(self) -> None:
        self._pool.submit(self._warm)

    def _warm(self) -> None:
        try:
            self._reader.warm()
        except MuntinError as error:  # whoever asks will hear it too
            _LOG.warning("not ready for statements: %s", error)
        finally:
            self.ready = True

    async def run(self, asked: Question) -> IO[bytes]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._answering.answer, asked)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class StoredAnswer:
    """An answer's bytes, in memory where they are few, else in a file without a name."""

    def __init__(self, made: IO[bytes], readers: list[Hashable]) -> None:
        self.size = made.seek(0, os.SEEK_END)
        made.seek(0)
        self.readers = readers
        """Clients that have yet to release it, once for each time that they asked."""
        self.data: bytes | None = None
        self._file: IO[bytes] | None = None
        if self.size <= INLINE_BYTES:
            with made:
                self.data = made.read()
        else:
            made.fileno()  # what is still in memory goes to the file
            self._file = made

    async def pieces(self) -> AsyncIterator[bytes]:
        """All of it; of a file only what is being sent is in memory."""
        if self._file is None:
            yield self.data or b""
            return
        number = self._file.fileno()
        for at in range(0, self.size, PIECE_BYTES):
            yield await asyncio.to_thread(os.pread, number, PIECE_BYTES, at)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Job:
    """One computation, for all who wait for it."""

    def __init__(self, asked: Question, text: str, at: float) -> None:
        self.asked = asked
        self.text = text
        self.at = at
        self.version = -1  # of the ledger, when this began: it reads that state or a newer one
        self.answer: asyncio.Future[StoredAnswer] = asyncio.get_running_loop().create_future()
        self.waiters: list[Hashable] = []  # clients, once for each time that they asked
        self.asking = self.started = False
        self.running: asyncio.Task[None] | None = None


class Statements:
    """For the loop's thread."""

    def __init__(self, reader: Reader, limits: ServerLimits) -> None:
        self._reader = reader
        self._limits = limits
        # a ledger of this process only is asked in its threads
        shared = type(reader) is Reader and not isinstance(reader.ledger, TemporaryLedger)
        self.runner: Workers | Threads = (
            Workers(reader.ledger, limits) if shared else Threads(reader, limits)
        )
        self.turns: Turns[_Job] = Turns(limits.statements_at_once)
        self._shared: OrderedDict[str, _Job] = OrderedDict()
        self._looking = ThreadPoolExecutor(1, "muntin-version")
        self._tasks: set[asyncio.Task[None]] = set()
        self._unanswered: set[_Job] = set()
        self.version = -1  # of the ledger, as far as this process has seen
        self.leaving = False  # the server stops, and nothing is answered any more
        self.unread: set[StoredAnswer] = set()  # in files, and being read by clients

    def start(self) -> None:
        self.runner.start()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._looking.shutdown(wait=False, cancel_futures=True)
        self.runner.close()

    def leave(self) -> None:
        """Whoever waits gets the error that the server stops."""
        self.leaving = True
        for job in tuple(self._unanswered):
            if not job.answer.done():
                job.answer.set_exception(stops())
                job.answer.exception()

    async def answer(
        self, asked: Question, client: Hashable, *, asking: bool = False
    ) -> StoredAnswer:
        """The answer, in the client's turn; `release` it for the same client when it was used.

        `asking`: the client waits for it. It is refused where too many do, since the client can ask
        again; where this is cancelled and nobody else waits, what computes it is ended as well.
        Raises MuntinError.
        """
        if self.leaving:
            raise stops()
        if asking:
            self._admit(client)
        text = asked.to_json()
        if self._begun(text):  # of an older state, perhaps
            loop = asyncio.get_running_loop()
            look = self._reader.ledger.version
            self.version = now = await loop.run_in_executor(self._looking, look)
            job = self._shared.get(text)
            if job is not None and job.started and job.version != now:
                self._forget(job)
        job = self._job(text, asked, client)
        job.asking |= asking
        try:
            return await asyncio.shield(job.answer)
        except asyncio.CancelledError:
            self._unwanted(job, client, ends=asking)
            raise

    async def whole(self, asked: Question, client: Hashable, *, asking: bool = False) -> bytes:
        """As `answer`, all of it at once: of what is too short to be in a file."""
        answer = await self.answer(asked, client, asking=asking)
        try:
            return b"".join([piece async for piece in answer.pieces()])
        finally:
            self.release(answer, client)

    def release(self, answer: StoredAnswer, client: Hashable) -> None:
        """The answer was used, or will not be."""
        answer.readers.remove(client)
        if not answer.readers:
            self._discard(answer)

    def _admit(self, client: Hashable) -> None:
        limits = self._limits
        self._check_room([client])
        # what is pushed waits in its followers' turns, and is bounded by the number of feeds
        waiting = sum(job.asking and not job.started for job in self._unanswered)
        if waiting >= limits.statements_waiting_max:
            raise RefusalError(503, "busy", "too many statements at once", "ask again in a second")
        if self.turns.waiting_of(client) >= limits.statements_of_client_max:
            raise RefusalError(
                503, "busy", "too many statements of one client at once", "ask one after another"
            )

    def _check_room(self, clients: Iterable[Hashable]) -> None:
        """Raise where none of the clients may be given one more answer in a file: of what may be
        unread, none holds more than a share, however slowly it reads."""
        for client in clients:
            own = [answer for answer in self.unread if client in answer.readers]
            if self._fit(self.unread, 1) and self._fit(own, CLIENT_SHARE):
                return
        said = "too many answers that are not read yet"
        raise RefusalError(503, "busy", said, "read those that you have, or ask again in a second")

    def _fit(self, held: Collection[StoredAnswer], share: int) -> bool:
        limits, nbytes = self._limits, sum(answer.size for answer in held)
        few = len(held) < limits.answers_unread_max // share
        return few and nbytes < limits.answers_bytes_max // share

    def _begun(self, text: str) -> bool:
        """Whether the same was asked just now, and may have been read already.

        Only then the ledger's version matters, and to look takes longer than most answers. What
        has not begun reads a state at least as new as this one.
        """
        job = self._shared.get(text)
        return job is not None and job.started and not self._is_old(job)

    def _is_old(self, job: _Job) -> bool:
        return job.answer.done() and asyncio.get_running_loop().time() - job.at > SHARED_SECONDS

    def _job(self, text: str, asked: Question, client: Hashable) -> _Job:
        """The computation of the same question over the same state, or a new one."""
        job = self._shared.get(text)
        if job is None or self._is_old(job):
            job = self._shared[text] = _Job(asked, text, asyncio.get_running_loop().time())
            self._unanswered.add(job)
            self._shared.move_to_end(text)
            while len(self._shared) > SHARED_MAX:
                self._shared.popitem(last=False)
        is_new = client not in job.waiters
        job.waiters.append(client)
        if not job.started and is_new:  # whoever has a turn first: nobody waits for another's
            self.turns.put(client, job)
            self._dispatch()
        return job

    def _dispatch(self) -> None:
        while (turn := self.turns.take()) is not None:
            _, job = turn
            job.started, job.version = True, self.version
            for client in job.waiters:
                self.turns.drop(client, job)
            task = job.running = asyncio.create_task(self._run(job))
            self._tasks.add(task)
            task.add_done_callback(lambda task, turn=turn: self._ended(task, *turn))

    def _ended(self, task: asyncio.Task[None], client: Hashable, job: _Job) -> None:
        """Also where it was cancelled before it began, and `_run` knows nothing of it."""
        self._tasks.discard(task)
        job.answer.cancel()
        self._unanswered.discard(job)
        self.turns.done(client)
        self._dispatch()

    async def _run(self, job: _Job) -> None:
        try:
            if job.asked.bytes_max > INLINE_BYTES:
                self._check_room(job.waiters)  # which others may have filled since they were let in
            answer = StoredAnswer(await self.runner.run(job.asked), job.waiters)
        except Exception as error:
            self._forget(job)
            if not job.answer.done():
                job.answer.set_exception(error)
                job.answer.exception()  # retrieved, also where all who asked have gone
        else:
            if job.answer.done():  # the server stops
                answer.close()
                return
            if answer.data is None:  # it is in a file
                self._forget(job)
                self.unread.add(answer)
            if not job.waiters:
                self._discard(answer)
            job.answer.set_result(answer)

    def _unwanted(self, job: _Job, client: Hashable, *, ends: bool) -> None:
        if job.answer.done():
            if not job.answer.cancelled() and job.answer.exception() is None:
                self.release(job.answer.result(), client)
            return
        job.waiters.remove(client)
        if client not in job.waiters:
            self.turns.drop(client, job)
        if not job.waiters and not job.started:
            self._forget(job)
            self._unanswered.discard(job)
        elif not job.waiters and ends and isinstance(self.runner, Workers) and job.running:
            self._forget(job)
            job.running.cancel()

    def _forget(self, job: _Job) -> None:
        if self._shared.get(job.text) is job:
            del self._shared[job.text]

    def _discard(self, answer: StoredAnswer) -> None:
        self.unread.discard(answer)
        answer.close()
