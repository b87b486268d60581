"""Several servers over one ledger in a store: who goes from one to another misses nothing."""

from __future__ import annotations

import signal

import pytest

from muntin.client import Client
from muntin.ledger import open_ledger
from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from tests.server.conftest import Feeder, until
from tests.store_servers import PostgresServer, RedisServer

SELECT = "SELECT driver, count FROM orders(driver) ORDER BY driver"


@pytest.fixture(
    params=[PostgresServer, pytest.param(RedisServer, marks=pytest.mark.slow)]  # minutes of CI
)
def store(request):
    made = request.param()
    made.start()
    yield made
    made.signal(signal.SIGCONT)
    made.close()


def stale(client):
    return client.sql(SELECT).stale


def closed_at(client):
    return [window["start"] for window in client.windows("orders")]


def test_a_subscriber_goes_from_server_to_server_and_a_paused_store_makes_answers_stale(store):
    feeding, *opened = (open_ledger(store.url(deadline=60)) for _ in range(3))
    feeder = Feeder(feeding)
    for _ in range(3):
        feeder.minute()
    # one process for statements: another would not have in memory what this one has answered from
    limits = ServerLimits(statements_at_once=1)
    servers = [Server(ledger, port=0, limits=limits) for ledger in opened]
    for server in servers:
        server.start()
    clients = [Client(server.url) for server in servers]
    try:
        seen, after = [], None
        for turn in range(6):  # what closes while nobody follows comes from the ledger
            client = clients[turn % 2]
            if turn:
                feeder.minute()
            with client.subscribe(SELECT, on="window", after=after) as following:
                feeder.minute()
                while not seen or seen[-1] != closed_at(client)[-1]:
                    update = next(following)
                    assert update.gap is None
                    if update.window is not None:
                        seen.append(update.window["start"])
                        after = update.after
        closed = closed_at(clients[0])
        until(lambda: closed_at(clients[1]) == closed)  # from before, where the store is slow
        assert seen == closed[closed.index(seen[0]) :]
        assert len(seen) > 8

        # those with kernels take the place of the first, and know nothing of what these have read
        until(lambda: servers[0].app.state.statements.runner._is_warm)
        until(lambda: not stale(clients[0]))
        answer = clients[0].sql(SELECT)
        store.signal(signal.SIGSTOP)
        until(lambda: stale(clients[0]))
        assert clients[0].sql(SELECT).rows == answer.rows
        assert clients[0].state()["pipelines"][0]["stale"]
        store.signal(signal.SIGCONT)
        until(lambda: not stale(clients[0]))
        feeder.minute()
        until(lambda: not stale(clients[1]))
    finally:
        store.signal(signal.SIGCONT)
        for server in servers:
            server.stop()
        feeder.close()
        for ledger in (feeding, *opened):
            ledger.close()
