"""Messages of feeds: what moves, and windows that have closed."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from muntin.errors import MuntinError, UnknownName, did_you_mean
from muntin.ledger.records import ClosedWindow
from muntin.server import state
from muntin.server.answering import JSON, Question, json_pieces, window_json, within
from muntin.server.channel import BEGINNING, Channel, Frame, Place, Pushed, compact, frame, joined
from muntin.server.limits import ServerLimits
from muntin.server.messages import Topic
from muntin.server.problems import problem, status_of, stops
from muntin.server.protocol import Connection, Effect
from muntin.server.reader import Reader
from muntin.server.state import FreshRead
from muntin.server.statements import Statements
from muntin.times import instant_text, now_us

THREADS = 2  # that read small things of the ledger for messages; no statement runs in them
AGAIN_SECONDS = (0.5, 1.0, 2.0, 4.0)  # between tries of what nobody asks for again
_LOG = logging.getLogger("muntin.server")


class Subscriber(Protocol):
    """Whoever is connected: a WebSocket's client or a stream of events."""

    connection: Connection
    client: Hashable  # whose turn its statements take

    def pump(self) -> None:
        """A channel has news."""
        ...

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """What the protocol asks for, then what there is to write."""
        ...


Closing = tuple[Place, ClosedWindow]


@dataclass(slots=True, eq=False)
class Feed:
    topic: Topic
    channel: Channel
    maker: Hashable
    """The client that began it."""
    followed: str = ""
    """The summary whose windows it follows; "" for all."""
    subscribers: set[Subscriber] = field(default_factory=set)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    said: str = ""
    closed: deque[Closing] = field(default_factory=deque)
    """Windows whose messages are still to be made."""


class PushMaker:
    """For the loop's thread. What costs time is in the statements' turns; the pipeline's own
    results are read from the ledger, and wait for nobody."""

    def __init__(self, reader: Reader, statements: Statements, limits: ServerLimits) -> None:
        self._reader = reader
        self._statements = statements
        self._limits = limits
        self._closed = False
        self._pool = ThreadPoolExecutor(THREADS, "muntin-push")
        self._replaying = ThreadPoolExecutor(1, "muntin-replay")
        self.state = FreshRead(lambda: state.read(reader, now_us()), "muntin-state")
        """For GET /state as well."""

    def close(self) -> None:
        """Who still waits for a message, or asks for one, gets the error that the server stops."""
        self._closed = True
        self.state.close()
        for pool in (self._pool, self._replaying):
            pool.shutdown(wait=False, cancel_futures=True)

    async def checked(self, topic: Topic, client: Hashable) -> str:
        """The summary whose windows a topic follows, or "" for all or none. Raises MuntinError: the
        topic names something that does not exist, or its statement is wrong."""
        if topic.kind == "state":
            return ""
        if topic.kind == "windows":
            if topic.text:
                await self._read(self._reader.check_closes, topic.text)
            return topic.text
        text = await self._statement(topic)
        name = "check" if topic.on == "update" else "followed"
        return (await self._answer(name, client, text=text)).decode()

    async def update(self, feed: Feed, client: Hashable) -> tuple[str, Frame]:
        """The message of a topic that moves, and what to compare to know whether it moved."""
        topic, channel = feed.topic, feed.channel
        about = {"type": "result", "channel": channel.number, "seq": channel.seq + 1}
        try:
            if topic.kind == "state":
                said = compact(await self.state())
                return "", joined(about | {"type": "state"}, "state", said)
            text = await self._statement(topic)
            most = self._limits.json_rows_max
            answer = await self._answer("sql", client, text=text, form=JSON, rows_max=most)
        except Exception as error:  # a bug of ours must not end the feed of others
            said = self._error_text(topic, error)
            return said, joined(about, "error", said)
        said = answer.decode()
        return said, joined(about, "result", said)

    async def window(
        self, feed: Feed, seq: int | None, place: Place, window: ClosedWindow, client: Hashable
    ) -> Pushed:
        """The message of a window that has closed."""
        topic = feed.topic
        kind = {"type": "window", "channel": feed.channel.number, "seq": seq}
        about = kind | {"after": str(place), "window": window_json(window)}
        if topic.kind == "windows":
            return Pushed(place, frame(about))
        try:
            result = await self._surely(topic, window, client)
        except Exception as error:
            return Pushed(place, joined(about, "error", self._error_text(topic, error)))
        return Pushed(place, joined(about, "result", result.decode()))

    async def replay(
        self, feed: Feed, after: Place, until: Place, client: Hashable
    ) -> tuple[list[Pushed], Frame | None]:
        """The next closed windows after a place that a client missed, and what it cannot get."""
        missed, gap = await self._run(self._replaying, self._missed, feed, after, until)
        return [
            await self.window(feed, None, place, window, client) for place, window in missed
        ], gap

    def _missed(self, feed: Feed, after: Place, until: Place) -> tuple[list[Closing], Frame | None]:
        limits = self._limits
        with self._reader.ledger.snapshot() as view:
            generation = view.generation()
            if until.generation != generation:
                return [], None  # all of what stands there now will be asked for
            dropped = view.closings_dropped(feed.followed or None)
            same = after.generation == generation
            begin = after.number if same else 0
            which: Any = {"until": until.number, "summary": feed.followed or None}
            left, last = view.closings_beyond(limits.replay_windows_max, begin, **which)
            found = view.closings(last, limit=limits.replay_messages_max, **which)
            gap = None
            if left:
                [(_, oldest)] = view.closings(begin, limit=1, **which)
                [(_, newest)] = view.closings(last - 1, limit=1, **which)
                gap = _gap(feed, left, oldest.start, newest.end)
            elif after != BEGINNING and (not same or dropped > after.number):
                gap = _gap(feed, None, None, found[0][1].start if found else None)
        return [(Place(generation, number), window) for number, window in found], gap

    async def _surely(self, topic: Topic, window: ClosedWindow, client: Hashable) -> bytes:
        """Tried again where not the statement failed but what computes or reads it."""
        for pause in AGAIN_SECONDS:
            try:
                return await self._result(topic, window, client)
            except MuntinError as error:
                if status_of(error) != 503 or self._statements.leaving:
                    raise
            await asyncio.sleep(pause)
        return await self._result(topic, window, client)

    async def _result(self, topic: Topic, window: ClosedWindow, client: Hashable) -> bytes:
        if topic.kind == "query":
            stored = await self._read(self._stored, topic.text, window)
            if stored is not None:
                return stored
        text = await self._statement(topic)
        return await self._answer("on_window", client, text=text, window=asdict(window))

    def _stored(self, query: str, window: ClosedWindow) -> bytes | None:
        result = self._reader.standing(query, window)
        if result is None:
            return None
        return b"".join(within(self._limits.push_bytes_max, json_pieces(result)))

    async def _statement(self, topic: Topic) -> str:
        if topic.kind == "select":
            return topic.text
        queries = await self._read(self._reader.queries)
        if topic.text not in queries:
            hint = did_you_mean(topic.text, sorted(queries))
            raise UnknownName(f"there is no standing query '{topic.text}'; {hint}")
        return queries[topic.text].select

    async def _answer(self, name: str, client: Hashable, **arguments: Any) -> bytes:
        asked = Question(name, arguments, self._limits.push_bytes_max)
        return await self._statements.whole(asked, client)

    async def _read(self, work: Callable, *arguments: Any) -> Any:
        return await self._run(self._pool, work, *arguments)

    async def _run(self, pool: Executor, work: Callable, *arguments: Any) -> Any:
        if self._closed:
            raise stops()
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)

    def _error_text(self, topic: Topic, error: Exception) -> str:
        if not isinstance(error, MuntinError):
            _LOG.error("cannot answer %s", topic, exc_info=error)
        return compact(problem(error))


def _gap(feed: Feed, windows: int | None, start: int | None, end: int | None) -> Frame:
    message = {"type": "gap", "channel": feed.channel.number, "windows": windows}
    return frame(message | {"start": instant_text(start), "end": instant_text(end)})
