"""Who begins to follow while windows close."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from types import SimpleNamespace

import pytest

from muntin.errors import LedgerError
from muntin.server import feeds as module
from muntin.server.feeds import Feeds
from muntin.server.limits import ServerLimits
from muntin.server.messages import Topic
from muntin.server.problems import RefusalError
from muntin.server.reader import Reader
from muntin.server.statements import Statements
from tests.server.conftest import PATIENCE_SECONDS

WINDOWS = Topic("windows", "", "window")


class Listener:
    """A subscriber that is told there is news, and does not look."""

    client = "listener"

    def pump(self):
        pass


def feeds_of(ledger, limits=None):
    limits = limits or ServerLimits()
    reader = Reader(ledger)
    return Feeds(reader, Statements(reader, limits), limits)


def held(read, found, go_on):
    """`read`, in its thread: says when it has found something, and returns when it may."""

    def holding():
        closed = read()
        if closed:
            found.set()
            assert go_on.wait(PATIENCE_SECONDS)
        return closed

    return holding


async def happens(condition):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def test_no_client_takes_all_that_may_be_followed(feeder, ledger):
    one, other = Listener(), Listener()
    other.client = "other"
    orders = Topic("windows", "orders", "window")

    async def check():
        feeds = feeds_of(ledger, ServerLimits(feeds_max=3))
        await feeds.open(WINDOWS, one)
        with pytest.raises(RefusalError, match="by one client"):
            await feeds.open(orders, one)
        channel = await feeds.open(orders, other)
        assert await feeds.open(orders, one) is channel  # which others began
        feeds._limits = ServerLimits(feeds_max=2)
        with pytest.raises(RefusalError, match=r"are followed$"):
            await feeds.open(Topic("state", "", "update"), other)
        assert not feeds._opening, "clients come and go without end"
        await feeds.stop()

    asyncio.run(check())


def test_who_comes_while_closings_are_read_has_them_and_those_after(feeder, ledger):
    """A thread has read that a window closed; the loop, which makes a channel, does not know."""
    found, go_on = threading.Event(), threading.Event()

    async def follow():
        feeds = feeds_of(ledger)
        feeds._closings.read = held(feeds._closings.read, found, go_on)
        await feeds.start()
        try:
            feeder.minute()
            await happens(found.is_set)
            channel = await feeds.open(WINDOWS, Listener())
            go_on.set()
            await happens(lambda: channel.seq)
            feeder.minute()
            await happens(lambda: channel.seq == 2)
            assert channel.head.number == ledger.last_closing() == ledger.closings(0)[-1][0]
        finally:
            go_on.set()
            await feeds.stop()

    asyncio.run(follow())


def test_what_is_more_than_one_reading_is_read_at_once(feeder, ledger, monkeypatch):
    """Not only with the next commit, which may never come. Each message is made once for all who
    follow, also where more have closed than the channel keeps."""
    monkeypatch.setattr("muntin.server.feeds.AT_ONCE_MAX", 30)

    async def follow():
        feeds = feeds_of(ledger)
        await feeds.start()
        try:
            channel = await feeds.open(WINDOWS, Listener())
            before = channel.head.number
            feeder.rows([(minute * 60, "a", 0, 1, 1) for minute in range(10, 110)])  # one commit
            await happens(lambda: channel.head.number == ledger.last_closing())
            assert channel.seq == len(ledger.closings(before)) >= 99
        finally:
            await feeds.stop()

    asyncio.run(follow())


def test_a_bug_of_ours_silences_nobody(feeder, ledger):
    """What could not be made is read from the ledger, and what closes next is pushed again."""

    async def follow():
        feeds = feeds_of(ledger)
        made = feeds._pushes.window
        feeds._pushes.window = None
        await feeds.start()
        try:
            channel = await feeds.open(WINDOWS, Listener())
            before = channel.head
            feeder.minute()
            await happens(lambda: channel.floor > before)
            assert channel.floor == channel.head
            feeds._pushes.window = made
            feeder.minute()
            await happens(lambda: channel.seq == 1)
            missed, gap = await feeds.replay(channel, before, channel.floor, None)
            assert (len(missed), gap) == (1, None)
        finally:
            await feeds.stop()

    asyncio.run(follow())


def test_who_comes_back_while_the_server_stops_is_told_so(feeder, ledger):
    """A refusal, and no error of the server's own."""

    async def follow():
        feeds = feeds_of(ledger)
        await feeds.start()
        feeder.minute()
        channel = await feeds.open(Topic("query", "busiest", "window"), Listener())
        await feeds.stop()
        with pytest.raises(RefusalError, match="the server stops"):
            await feeds.replay(channel, channel.head, channel.floor, "who")
        with pytest.raises(RefusalError, match="the server stops"):
            await feeds.open(Topic("windows", "orders", "window"), Listener())

    asyncio.run(follow())


def test_what_closed_is_pushed_where_it_could_not_be_read_at_once(feeder, ledger, monkeypatch):
    """Not only with what closes next."""
    monkeypatch.setattr(module, "REST_SECONDS", 0.01)
    away = threading.Event()
    tried = []

    def failing(read):
        def reading():
            if away.is_set():
                tried.append(ledger.version())
                raise LedgerError("away")
            return read()

        return reading

    async def follow():
        feeds = feeds_of(ledger)
        feeds._closings.read = failing(feeds._closings.read)
        await feeds.start()
        try:
            channel = await feeds.open(WINDOWS, Listener())
            away.set()
            feeder.minute()
            await happens(lambda: tried.count(ledger.version()) > 2)
            assert feeds._statements.version == ledger.version()
            away.clear()
            await happens(lambda: channel.seq == 1)
        finally:
            await feeds.stop()

    asyncio.run(follow())


def test_the_state_of_a_quiet_ledger_comes_as_often_as_clients_are_told(feeder, ledger):
    """They take longer silence for a lost connection: the time between two pushes is no rest that
    comes on top."""

    async def follow():
        feeds = feeds_of(ledger, ServerLimits(state_seconds=1.0, quiet_seconds=1.0))
        await feeds.start()
        try:
            channel = await feeds.open(Topic("state", "", "update"), Listener())
            clock, gap = asyncio.get_running_loop().time, math.inf
            await happens(lambda: channel.seq >= 2)  # the ledger is news only to the first two
            async with asyncio.timeout(PATIENCE_SECONDS):
                while gap >= 1.8:  # once at least; a busy machine may take longer
                    before, seq = clock(), channel.seq
                    await happens(lambda seq=seq: channel.seq > seq)
                    gap = clock() - before
        finally:
            await feeds.stop()

    asyncio.run(follow())


def test_what_took_long_once_does_not_rest_as_long(feeder, ledger, monkeypatch):
    """A first answer may wait for kernels to be compiled, and any for a turn."""
    late = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "RECHECK_SECONDS", 0.1)

    async def follow():
        feeds = feeds_of(ledger)
        made = feeds._pushes.update

        async def slow(*asked):
            nonlocal late
            found = await made(*asked)
            late += 2 * PATIENCE_SECONDS
            return found

        feeds._pushes.update = slow
        await feeds.start()
        try:
            select = "SELECT count FROM orders(driver) FOR ALL"
            channel = await feeds.open(Topic("select", select, "update"), Listener())
            await happens(lambda: channel.seq == 1)
            feeder.minute()
            await happens(lambda: channel.seq >= 2)
        finally:
            await feeds.stop()

    asyncio.run(follow())


def test_what_nobody_follows_any_more_ends_whenever_that_is(ledger):
    """Also where it was just woken: it would be computed for ever, for nobody."""
    topic, listener = Topic("state", "", "update"), Listener()

    async def follow():
        feeds = feeds_of(ledger)
        try:
            for steps in range(8):
                channel = await feeds.open(topic, listener)
                task = feeds._feeds[topic].task
                for _ in range(steps):
                    await asyncio.sleep(0)
                feeds.leave(channel, listener)
                await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
                assert task.done()
        finally:
            await feeds.stop()

    asyncio.run(follow())
