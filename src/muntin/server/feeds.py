"""What is followed: each topic is computed once, whoever and however many follow it.

The loop's thread owns channels and subscribers; a thread of its own follows the ledger. Each feed
delivers for itself: one whose statement is slow holds up no other.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from muntin.errors import LedgerError, SelectError
from muntin.ledger.base import Ledger
from muntin.select.catalog import QueryInfo
from muntin.server.channel import BEGINNING, Channel, Frame, Place, Pushed
from muntin.server.limits import ServerLimits
from muntin.server.messages import Topic
from muntin.server.problems import RefusalError
from muntin.server.pushes import Closing, Feed, PushMaker, Subscriber
from muntin.server.reader import Reader
from muntin.server.statements import CLIENT_SHARE, Statements

AT_ONCE_MAX = 1_000


class Closings:
    """Reads new closings. One thread at a time. `head`: the newest that was returned; places that
    are returned only grow. `anew`: the last `read` found another ledger in the place of the one
    before. `more`: the last `read` has left some for the next."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.head: Place = BEGINNING
        self.anew = self.more = False

    def begin(self) -> None:
        """What has closed before this is not new."""
        generation = self._ledger.generation()
        self.head = Place(generation, self._ledger.last_closing())

    def read(self) -> list[Closing]:
        """New windows and new revisions that `wait` has seen, oldest closing first."""
        with self._ledger.snapshot(known=True) as view:
            generation = view.generation()
            self.anew = generation != self.head.generation
            if self.anew:
                self.head = Place(generation, 0)
            found = view.closings(self.head.number, limit=AT_ONCE_MAX)
        self.more = len(found) == AT_ONCE_MAX
        closings = [(Place(generation, number), window) for number, window in found]
        if closings:
            self.head = closings[-1][0]
        return closings


WAIT_SECONDS = 0.25  # for the ledger to change, before the thread looks whether to stop
REST_SECONDS = 1.0  # after the ledger could not be read
RECHECK_SECONDS = 5.0  # an answer may become stale without any commit
SHARE_OF_TIME = 0.5  # of one feed: a costly statement moves less often
SUBSCRIBERS_LOOKED_AT = 16
_LOG = logging.getLogger("muntin.server")


class Feeds:
    """All feeds of one server. Its methods are for the loop's thread."""

    def __init__(self, reader: Reader, statements: Statements, limits: ServerLimits) -> None:
        self._reader = reader
        self._statements = statements
        self._limits = limits
        self._pushes = PushMaker(reader, statements, limits)
        self.state = self._pushes.state
        self._closings = Closings(reader.ledger)
        self._head = BEGINNING
        self._queries: dict[str, QueryInfo] = {}
        self._version = -1
        self._following = ThreadPoolExecutor(1, "muntin-follow")
        self._feeds: dict[Topic, Feed] = {}
        self._opening: Counter[Hashable] = Counter()
        self._by_channel: dict[int, Feed] = {}
        self._numbers = 0
        self._follower: asyncio.Task[None] | None = None
        self._stopping = False
        self.pushed = 0  # messages that were made, each for all of its subscribers

    async def start(self) -> None:
        """Begin to follow the ledger."""
        await self._run(self._closings.begin)
        self._head = self._closings.head
        self._follower = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        self._stopping = True
        tasks = [t for t in (self._follower, *(f.task for f in self._feeds.values())) if t]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._following.shutdown(wait=False, cancel_futures=True)
        self._pushes.close()

    async def open(self, topic: Topic, subscriber: Subscriber) -> Channel:
        """Join the feed of a topic; it is made where nobody follows it yet. Raises MuntinError: the
        topic names something that does not exist, or there are too many feeds."""
        feed = self._feeds.get(topic)
        if feed is None:
            client = subscriber.client
            self._admit(client)
            self._opening[client] += 1
            try:
                followed = await self._pushes.checked(topic, client)
            finally:
                self._opening -= Counter([client])  # who has none left is not kept
            feed = self._feeds.get(topic) or self._make(topic, followed, client)
        feed.subscribers.add(subscriber)
        return feed.channel

    def leave(self, channel: Channel, subscriber: Subscriber) -> None:
        """Who has no subscription of it any more; the last one ends the feed."""
        feed = self._by_channel.get(channel.number)
        if feed is None:
            return
        feed.subscribers.discard(subscriber)
        if not feed.subscribers:
            del self._feeds[feed.topic], self._by_channel[channel.number]
            if feed.task is not None:
                feed.task.cancel()

    async def replay(
        self, channel: Channel, after: Place, until: Place, client: Hashable
    ) -> tuple[list[Pushed], Frame | None]:
        """Closed windows after a place, up to another, from the ledger."""
        feed = self._by_channel.get(channel.number)
        if feed is None:
            return [], None
        return await self._pushes.replay(feed, after, until, client)

    @property
    def count(self) -> int:
        return len(self._feeds)

    def _admit(self, client: Hashable) -> None:
        most = self._limits.feeds_max
        of = Counter(feed.maker for feed in self._feeds.values()) + self._opening
        said = "too many different statements are followed"
        if of.total() >= most:
            raise RefusalError(503, "busy", said, "ask later")
        if of[client] >= math.ceil(most / CLIENT_SHARE):
            raise RefusalError(503, "busy", f"{said} by one client", "end some of them first")

    def _make(self, topic: Topic, followed: str, client: Hashable) -> Feed:
        self._numbers += 1
        channel = Channel(self._numbers, topic.on, self._head, self._limits)
        feed = Feed(topic, channel, client, followed)
        self._feeds[topic] = feed
        self._queries = {}  # they may have changed since it was checked
        self._by_channel[channel.number] = feed
        if topic.on == "update":
            feed.wake.set()
            feed.task = asyncio.create_task(self._move(feed))
        return feed

    async def _follow(self) -> None:
        """Wait for commits; wake what moves, push what closed."""
        reported = ""
        while not self._stopping:
            try:
                closed = await self._run(self._news)
                reported = ""
                if closed is None:
                    continue
                if closed:
                    await self._refollow()
                self._close_windows(closed)
                for feed in self._feeds.values():
                    feed.wake.set()
            except LedgerError as error:
                if str(error) != reported:  # once, and not each second while it lasts
                    reported = str(error)
                    _LOG.warning("the ledger cannot be followed: %s", error)
                for feed in self._feeds.values():
                    feed.wake.set()
                await asyncio.sleep(REST_SECONDS)
            except Exception:  # a bug of ours must not end the pushes of all
                _LOG.exception("cannot push what has changed")
                self._skip(self._by_window())
                await asyncio.sleep(REST_SECONDS)

    async def _refollow(self) -> None:
        """A changed file may have given a standing query to the windows of another summary."""
        try:
            queries = await self._run(self._reader.queries)
            changed, self._queries = queries != self._queries, queries
            for feed in self._by_window() if changed else ():
                query = queries.get(feed.topic.text) if feed.topic.kind == "query" else None
                if query is not None:
                    with contextlib.suppress(SelectError, LookupError):  # its messages say it
                        feed.followed = await self._run(self._reader.followed, query.select)
        except LedgerError:
            self._queries = {}  # looked at again with what closes next

    def _news(self) -> list[Closing] | None:
        """Wait for a commit; what has closed, or None where nothing came. In a thread."""
        newer = self._reader.ledger.wait(self._version, WAIT_SECONDS)
        if newer == self._version:
            return None
        before, self._version = self._version, newer
        self._statements.version = newer
        try:
            closed = self._closings.read()
        except LedgerError:  # to be read once the ledger can be
            self._version = before
            raise
        if self._closings.more:
            self._version = before  # it is not waited for
        return closed

    def _close_windows(self, closed: list[Closing]) -> None:
        if self._closings.anew:  # another ledger: what followers have not seen is gone
            self._head = self._closings.head._replace(number=0)
            self._skip(self._by_window())
        if not closed:
            return
        # moved here and not where a thread reads: a channel is made before it or after it, never
        # between a window's reading and its pushing
        self._head = closed[-1][0]
        for feed in self._by_window():
            feed.closed.extend(c for c in closed if feed.followed in ("", c[1].summary))
            if len(feed.closed) > self._limits.replay_windows_max:
                self._skip([feed])
            elif feed.closed and (feed.task is None or feed.task.done()):
                feed.task = asyncio.create_task(self._deliver(feed))

    async def _deliver(self, feed: Feed) -> None:
        channel = feed.channel
        while feed.closed:
            place, window = feed.closed.popleft()
            try:
                client = self._client(feed)
                pushed = await self._pushes.window(feed, channel.seq + 1, place, window, client)
            except Exception:  # a bug of ours must not end the pushes of all
                _LOG.exception("cannot push what has closed")
                self._skip([feed])
                return
            # else it was skipped since, or is of the ledger before
            if place.generation == channel.head.generation and place > channel.head:
                channel.close_window(place, pushed.frame)
                self.pushed += 1
                self._tell(feed)

    def _client(self, feed: Feed) -> Hashable:
        """Whose turn a feed takes: a follower's with little else waiting."""
        some = (subscriber.client for subscriber in islice(feed.subscribers, SUBSCRIBERS_LOOKED_AT))
        return min(some, key=self._statements.turns.waiting_of, default="")

    def _by_window(self) -> list[Feed]:
        return [feed for feed in self._feeds.values() if feed.topic.on == "window"]

    def _skip(self, feeds: list[Feed]) -> None:
        """What has closed was not made here: subscribers read it from the ledger."""
        for feed in feeds:
            feed.closed.clear()
            feed.channel.skip_to(self._head)
            self._tell(feed)

    async def _move(self, feed: Feed) -> None:
        """Compute an `update` topic again after each commit, as often as its cost allows."""
        state = feed.topic.kind == "state"
        usual = self._limits.state_seconds if state else self._limits.update_seconds
        quiet = self._limits.quiet_seconds if state else RECHECK_SECONDS
        due = time.monotonic() + quiet
        while True:
            with contextlib.suppress(TimeoutError):
                # not wait_for, which before Python 3.12 may be woken and pass over that it ends
                async with asyncio.timeout(due - time.monotonic()):
                    await feed.wake.wait()
            feed.wake.clear()
            began = time.monotonic()
            due = began + quiet
            said, made = await self._pushes.update(feed, self._client(feed))
            if state or said != feed.said:
                feed.said = said
                feed.channel.update(made)
                self.pushed += 1
                self._tell(feed)
            cost = time.monotonic() - began
            # of which a first answer, and waiting for a turn, tell little
            await asyncio.sleep(max(usual - cost, min(quiet, cost * (1 / SHARE_OF_TIME - 1))))

    def _tell(self, feed: Feed) -> None:
        for subscriber in tuple(feed.subscribers):
            subscriber.pump()

    def _run(self, work: Callable, *arguments):
        try:
            return asyncio.get_running_loop().run_in_executor(self._following, work, *arguments)
        except RuntimeError:  # Python ends: its threads take no work any more
            raise asyncio.CancelledError from None
