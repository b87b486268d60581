"""Stores that lost what they had acknowledged: a torn log, a standby that lacks the last commit."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest
from ledger_helpers import PANE, SERVERS, SPEC, batch, held, impatient, partial, tried_once

from muntin.errors import LedgerConflict, LedgerError, LedgerMissing
from muntin.ledger import ClosedWindow, open_ledger
from tests.store_servers import PASSWORD, PostgresServer, RedisServer


@pytest.mark.parametrize("cut", [1, 200])
def test_a_torn_log_of_redis_loses_the_last_commit_whole_and_that_is_said(own, cut):
    server = own(RedisServer)
    ledger = open_ledger(server.url())
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for number in range(4):
        writer.commit(batch(number, partial("s", 0, [number])))
    server.kill()
    (log,) = server.folder.glob("appendonlydir/*.incr.aof")
    os.truncate(log, log.stat().st_size - cut)
    server.start()
    again = open_ledger(server.url(), create=False)
    assert held(again, "s", PANE, 0, 10) == {0: 1, 1: 1, 2: 1}
    assert again.verify() == []
    later = again.open_writer("p", SPEC, query_id="A")
    with pytest.raises(LedgerConflict, match=r"batches up to 2 .* batch 4 comes next.*is lost"):
        later.commit(batch(4, partial("s", 0, [4])))
    assert later.commit(batch(3, partial("s", 0, [3])))  # which Spark still has
    again.close()
    ledger.close()


def test_a_replica_without_its_primarys_data_is_waited_for(own):
    """It answers as a server that holds no ledger."""
    primary, replica = own(RedisServer), own(RedisServer)
    primary.client().config_set("repl-diskless-sync-delay", "0")
    ledger = open_ledger(primary.url())
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [0])))
    primary.signal(signal.SIGSTOP)
    replica.client().config_set("masterauth", PASSWORD)
    replica.client().replicaof("127.0.0.1", str(primary.port))
    _, url = replica.grant("muntin")
    with (
        tried_once(),
        pytest.raises(LedgerError, match=r"answer within 60 seconds \(a replica that is not in"),
    ):
        open_ledger(f"{url}&deadline=60", create=False)
    threading.Timer(1, lambda: primary.signal(signal.SIGCONT)).start()
    reader = open_ledger(f"{url}&deadline=60", create=False)
    assert held(reader, "s", PANE, 0, 10) == {0: 1}

    primary.signal(signal.SIGSTOP)
    replica.kill()
    said = {"masterauth": PASSWORD, "replicaof": f"127.0.0.1 {primary.port}"}
    said |= {"appendonly": "no", "dbfilename": "none.rdb"}  # it comes back with nothing
    replica.start(*(word for name, value in said.items() for word in (f"--{name}", value)))
    replica.grant("muntin")
    with impatient():
        assert reader.pipelines()[0].batches == 1
    assert reader.behind()
    primary.signal(signal.SIGCONT)
    writer.commit(batch(1, partial("s", 0, [1])))
    deadline = time.monotonic() + 60
    while reader.pipelines()[0].batches < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not reader.behind()
    reader.close()
    ledger.close()


@pytest.mark.parametrize("fixture", SERVERS)
def test_who_wrote_what_was_lost_writes_nothing_on_top_of_it(fixture, request):
    """Windows are closed from what a writer has read: not on a ledger that lacks it again."""
    server, name = request.getfixturevalue(fixture), f"lost{os.getpid()}"
    url = server.url(schema=name)
    one, two = open_ledger(url), open_ledger(url)
    first = one.open_writer("p", SPEC, query_id="A")
    first.commit(batch(0, partial("s", 0, [0])))
    put_back = server.kept(name)
    first.commit(batch(1, partial("s", 0, [1])))
    window = ClosedWindow("s", 0, 40, "full", 0, False, 2, 0, {"k": 1}, 1)
    put_back()
    for act in (
        lambda: first.close_windows([window], [], {}),
        lambda: first.set_status({}),
        lambda: first.commit(batch(2, partial("s", 0, [2]))),
    ):
        with pytest.raises(LedgerConflict, match=r"not as this writer left it.*has lost what"):
            act()
    assert two.closings(0) == []

    second = one.open_writer("p", SPEC, query_id="A")
    second.commit(batch(1, partial("s", 0, [1])))
    put_back()
    third = two.open_writer("p", SPEC, query_id="A")
    assert third.commit(batch(1, partial("s", 0, [1])))
    assert third.epoch > second.epoch  # which was lost, and is given to nobody again
    with pytest.raises(LedgerConflict, match="another writer took over"):
        second.commit(batch(2, partial("s", 0, [9])))
    assert third.commit(batch(2, partial("s", 0, [2])))
    assert held(two, "s", PANE, 0, 10) == {0: 1, 1: 1, 2: 1}
    one.close()
    two.close()


@pytest.mark.parametrize("fixture", SERVERS)
@pytest.mark.parametrize("verified", [False, True])
def test_a_window_that_was_lost_alone_is_missed_as_well(fixture, verified, request):
    """No row of the pipeline tells of it; who wrote it would go on, and nobody would close it."""
    server, name = request.getfixturevalue(fixture), f"alone{os.getpid()}"
    ledger = open_ledger(server.url(schema=name))
    writer = ledger.open_writer("p", SPEC, query_id="A", mode="overwrite")
    writer.commit(batch(0, partial("s", 0, [0])))
    put_back = server.kept(name)
    writer.close_windows([ClosedWindow("s", 0, 10, "full", 0, False, 1, 0, {}, 1)], [], {})
    put_back()
    if verified:  # by whoever shares its copy
        assert ledger.verify() == []
    with pytest.raises(LedgerConflict, match="has lost what was committed last"):
        writer.commit(batch(1, partial("s", 0, [1])))
    again = ledger.open_writer("p", SPEC, query_id="A")
    assert again.commit(batch(1, partial("s", 0, [1])))
    ledger.close()


@pytest.mark.chaos
@pytest.mark.slow
def test_a_standby_is_read_and_takes_over_and_what_it_lacks_is_said(own):
    primary = own(PostgresServer)
    standby = own(lambda: primary.standby())
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    both = primary.url(target_session_attrs="read-write", deadline=60)
    both = both.replace(f"127.0.0.1:{primary.port}", hosts)
    ledger = open_ledger(both)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [0])))
    deadline = time.monotonic() + 60
    reader = None
    while reader is None:  # what is replayed comes a moment later
        assert time.monotonic() < deadline
        with contextlib.suppress(LedgerMissing):
            reader = open_ledger(standby.url(deadline=60), create=False)
    version = reader.version()
    while held(reader, "s", PANE, 0, 10) != {0: 1}:
        version = reader.wait(version, 60)
    writer.commit(batch(1, partial("s", 0, [1])))
    assert reader.wait(version, 60) > version
    assert held(reader, "s", PANE, 0, 10) == {0: 1, 1: 1}
    assert not reader.behind()
    with pytest.raises(LedgerError, match=r"read-only \(a standby, or set so\)"):
        reader.open_writer("p", SPEC, query_id="A")

    primary.kill()
    assert held(reader, "s", PANE, 0, 10) == {0: 1, 1: 1}
    assert not reader.behind()
    promoting = threading.Timer(1, lambda: standby.ask("SELECT pg_promote()"))
    promoting.start()
    assert writer.commit(batch(2, partial("s", 0, [2])))  # by the other host, once it takes writes
    promoting.join()
    assert reader.wait(version, 60) > version

    second = own(lambda: standby.standby())
    second.kill()
    writer.commit(batch(3, partial("s", 0, [3])))  # which only the one has that dies now
    standby.kill()
    second.start()
    second.ask("SELECT pg_promote()")
    moved = ledger.address.replace(f":{primary.port}", f":{second.port}")
    again = open_ledger(moved)
    later = again.open_writer("p", SPEC, query_id="A")
    with pytest.raises(LedgerConflict, match=r"batches up to 2 .* batch 4 comes next.*is lost"):
        later.commit(batch(4, partial("s", 0, [4])))
    assert held(again, "s", PANE, 0, 10) == {0: 1, 1: 1, 2: 1}
    assert again.verify() == []
    for one in (again, reader, ledger):
        one.close()
