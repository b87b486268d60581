"""Connections to a store that break: each batch is there once, and who wrote it knows."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from ledger_helpers import (
    PANE,
    SERVERS,
    SPEC,
    batch,
    compacted,
    held,
    impatient,
    partial,
    tried_once,
)

from muntin.errors import LedgerError
from muntin.ledger import open_ledger
from muntin.ledger.postgres import PostgresStore
from muntin.ledger.redis import RedisStore
from muntin.ledger.shared import SharedLedger
from tests.cutting_proxy import WAYS, Proxy

COMMITS = {"postgresql": b"token = ", "redis_server": b"_append"}
"""What is in a request that commits."""
READS = {
    COMMITS["postgresql"]: [b"SELECT key, body", b"FETCH FORWARD"],
    COMMITS["redis_server"]: [b"HSCAN"],
}
"""And what in those by which all rows are read."""


@pytest.fixture(params=SERVERS)
def cut(request):
    """A proxy, the URL of a ledger behind it, and what is in a request that commits."""
    server = request.getfixturevalue(request.param)
    proxy = Proxy(server.port)
    url = server.url(schema=f"cut{os.getpid()}{request.node.name.partition('[')[0]}"[:60])
    yield proxy, url.replace(f":{server.port}/", f":{proxy.port}/"), COMMITS[request.param]
    proxy.close()


@pytest.mark.parametrize("events", [1, 60_000])
def test_a_commit_whose_connection_breaks_counts_once_and_goes_on(cut, events):
    proxy, url, commits = cut
    ledger = open_ledger(f"{url}&deadline=30")
    writer = ledger.open_writer("p", SPEC, query_id="A", mode="overwrite")
    for number, way in enumerate(WAYS):
        proxy.cut_next(commits, way)
        own = range(number * events, (number + 1) * events)
        assert writer.commit(batch(number, partial("s", 0, own)))
        assert proxy.cuts == number + 1
    assert held(ledger, "s", PANE, 0, 10) == dict.fromkeys(range(len(WAYS) * events), 1)
    assert ledger.verify() == []
    ledger.close()


def test_a_commit_that_was_taken_and_never_answered_is_found(cut):
    proxy, url, commits = cut
    ledger = open_ledger(f"{url}&deadline=60")
    writer = ledger.open_writer("p", SPEC, query_id="A")
    proxy.cut_next(commits, "answered")
    proxy.away_after_cut = True
    told = pytest.raises(LedgerError, match=r"does not answer within 60 sec.*committed stays")
    with tried_once(), told:
        writer.commit(batch(0, partial("s", 0, [0])))
    proxy.away = proxy.away_after_cut = False
    assert not writer.commit(batch(0, partial("s", 0, [0])))  # it was there
    assert writer.commit(batch(1, partial("s", 0, [1])))
    assert held(ledger, "s", PANE, 0, 10) == {0: 1, 1: 1}
    ledger.close()


def test_who_commits_by_connections_that_went_silent_takes_another(cut):
    """A host that lost power, or what forgets idle connections between here and there."""
    proxy, url, _ = cut
    ledger = open_ledger(f"{url}&deadline=12")
    assert isinstance(ledger, SharedLedger)
    writer = ledger.open_writer("p", SPEC, query_id="A", mode="overwrite")
    writer.commit(batch(0, partial("s", 0, [0])))
    store = ledger._replica.store
    if isinstance(store, PostgresStore):  # as of several that were busy at once
        with store._connection(6.0), store._connection(6.0):
            pass
    elif isinstance(store, RedisStore):
        client = store._client(6.0)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: client.xread({"none": "$"}, block=500), range(3)))
    proxy.silence_all()
    with impatient():
        assert writer.commit(batch(1, partial("s", 0, [1])))
    assert held(ledger, "s", PANE, 0, 10) == {0: 1, 1: 1}
    ledger.close()


@pytest.mark.parametrize("way", WAYS)
def test_who_opens_a_store_that_breaks_waits_as_one_who_has_opened_it(cut, way):
    """It is the reading of all rows that breaks."""
    proxy, url, commits = cut
    ledger = open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A", mode="overwrite")
    writer.commit(batch(0, partial("s", 0, [0])))
    for word in READS[commits]:
        proxy.cut_next(word, way)
        before = proxy.cuts
        reader = open_ledger(f"{url}&deadline=60", create=False)
        assert proxy.cuts == before + 1
        assert held(reader, "s", PANE, 0, 10) == {0: 1}
        reader.close()
    ledger.close()


@pytest.mark.chaos
def test_a_connection_that_breaks_all_the_time_loses_and_doubles_nothing(cut):
    proxy, url, _ = cut
    ledger = open_ledger(f"{url}&deadline=60")
    writer = ledger.open_writer("p", SPEC, query_id="A")
    reader = open_ledger(url, create=False)
    wrong, done = [], threading.Event()

    def read():
        while not done.is_set():
            with reader.snapshot() as view:
                (info,) = view.pipelines()
                if sum(piece.events for piece in view.pieces("s", PANE)) != info.counted:
                    wrong.append(info)

    reading = threading.Thread(target=read)
    reading.start()
    proxy.cut_often(20261127)
    for number in range(300):
        assert writer.commit(batch(number, partial("s", 0, [number])))
        if number % 10 == 9:
            pieces = ledger.pieces("s", PANE)
            assert writer.compact(pieces, [compacted(ledger, pieces)])
    proxy.cut_often(None)
    done.set()
    reading.join()
    assert proxy.cuts > 20
    assert wrong == []
    assert held(ledger, "s", PANE, 0, 10) == dict.fromkeys(range(300), 1)
    assert ledger.verify() == []
    reader.close()
    ledger.close()
