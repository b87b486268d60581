"""Ledgers in servers: killed, paused, read-only, full, taken over; and how readers fare."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest
import trustme
from ledger_helpers import (
    PANE,
    SERVERS,
    SPEC,
    batch,
    compacted,
    gather,
    held,
    impatient,
    packed,
    partial,
    roll,
    slices_of,
    tried_once,
)

from muntin.errors import LedgerConflict, LedgerError, LedgerMissing
from muntin.ledger import (
    ClosedWindow,
    Partial,
    Rejected,
    Slices,
    State,
    TrendPoint,
    open_ledger,
)
from muntin.ledger.base import Ledger
from muntin.ledger.copying import copy_ledger
from muntin.ledger.shared import REST_SECONDS, SharedLedger
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.store import StoreAway
from tests.disks import small_disk
from tests.store_servers import KINDS, PostgresServer, RedisServer, Server

HERE = Path(__file__).parent
KILLS = int(os.environ.get("MUNTIN_STORE_KILLS", "3"))
FREEZES = 10
FIXTURES = {PostgresServer: "postgresql", RedisServer: "redis_server"}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


def name_of(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.name)) % 10**9}"


@pytest.mark.chaos
@pytest.mark.timeout(600 + 60 * KILLS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_killed_in_commits_loses_and_doubles_nothing(own, kind):
    server = own(kind)
    ledger = open_ledger(server.url(deadline=60))
    writer = ledger.open_writer("p", SPEC, query_id="A")
    problems: list[BaseException] = []
    committed = 0
    done = threading.Event()

    def feed() -> None:
        nonlocal committed
        try:
            while not done.is_set():
                one = partial("s", committed % 40 * PANE, [committed])
                assert writer.commit(batch(committed, one))
                committed += 1
        except BaseException as problem:
            problems.append(problem)

    feeding = threading.Thread(target=feed)
    feeding.start()
    chance = random.Random(20261122)
    for _ in range(KILLS):
        before = committed
        while committed < before + 20 and not problems:
            time.sleep(0.01)
        time.sleep(chance.random() / 50)
        server.kill()
        server.start()
    before = committed
    while committed < before + 20 and not problems:
        time.sleep(0.01)
    done.set()
    feeding.join(60)
    assert problems == []
    ledger.close()
    again = open_ledger(server.url(), create=False)
    assert again.pipelines()[0].batches == committed
    assert held(again, "s", PANE, 0, 400) == dict.fromkeys(range(committed), 1)
    assert again.verify() == []
    again.close()


@pytest.mark.chaos
@pytest.mark.parametrize("kind", KINDS)
def test_a_paused_server_stops_commits_and_readers_say_so(own, kind):
    server = own(kind)
    ledger = open_ledger(server.url(deadline=60))
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [0])))
    reader = open_ledger(server.url(deadline=60), create=False)
    before = reader.pieces("s", PANE)
    assert not reader.behind()
    server.signal(signal.SIGSTOP)
    with impatient(ledger, 2):
        begin = time.monotonic()
        with pytest.raises(LedgerError, match=r"does not answer within 2 seconds.*committed stays"):
            writer.commit(batch(1, partial("s", 0, [1])))
        assert time.monotonic() - begin < 20
        assert reader.pieces("s", PANE) == before
        assert reader.pipelines()[0].batches == 1
        assert reader.behind()
        with reader.snapshot() as view:
            assert view.behind()
        with pytest.raises(LedgerError, match="does not answer"):
            reader.wait(reader.version(), 5)
    server.signal(signal.SIGCONT)
    deadline = time.monotonic() + 60
    while reader.behind():  # `behind` looks only when it is read
        assert time.monotonic() < deadline
        time.sleep(0.05)
        reader.version()
    again = ledger.open_writer("p", SPEC, query_id="A")  # as a pipeline that starts again
    again.commit(batch(1, partial("s", 0, [1])))  # False where the server had it after all
    assert again.commit(batch(2, partial("s", 0, [2])))
    assert held(reader, "s", PANE, 0, 10) == {0: 1, 1: 1, 2: 1}
    reader.close()
    ledger.close()


@pytest.mark.chaos
def test_a_frozen_writer_that_wakes_up_changes_nothing(server, request):
    url = server.url(schema=name_of(request), deadline=600)  # however long it is frozen
    open_ledger(url).close()
    child = subprocess.Popen(
        [sys.executable, str(HERE / "frozen_child.py"), url, str(FREEZES)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    assert child.stdout is not None
    ledger = open_ledger(url)
    refused = 0
    try:
        assert child.stdout.readline() == "0 committed\n"
        frozen = psutil.Process(child.pid)
        for point in range(1, FREEZES + 1):
            deadline = time.monotonic() + 60
            while frozen.status() != psutil.STATUS_STOPPED:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            spec = {"pane_us": 10, "summaries": {f"s{point}": {}}}
            writer = ledger.open_writer(f"p{point}", spec, query_id="A")
            had = writer.last_batch("A")
            assert writer.commit(batch(1, partial(f"s{point}", 0, [3]))) is (had == 0)
            before = ledger.version(), gather(ledger, f"s{point}", 0, 10)
            child.send_signal(signal.SIGCONT)
            outcome = child.stdout.readline()
            refused += outcome == f"{point} refused\n"
            assert outcome == f"{point} {'refused' if had == 0 else 'committed'}\n"
            if point == FREEZES:
                assert child.wait(60) == 0
                assert (ledger.version(), gather(ledger, f"s{point}", 0, 10)) == before
            assert gather(ledger, f"s{point}", 0, 10) == {1: 1, (2 if had else 3): 1}
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        ledger.close()
    assert refused >= FREEZES // 2  # most points lie before the server has taken it


def test_a_lock_of_a_stranger_takes_no_connection_of_the_server_for_long(postgresql, request):
    name = name_of(request)
    url = postgresql.url(schema=name, deadline=60)
    ledger = open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [0])))
    reader = open_ledger(url, create=False)
    tables = ", ".join(f"{name}.{table}" for table in ("ledger", "log", "payloads", "rows"))
    with psycopg.connect(postgresql.url()) as stranger:
        stranger.execute(f"LOCK TABLE {tables}")  # pyright: ignore[reportArgumentType, reportCallIssue]
        with impatient(ledger, 2):
            with pytest.raises(LedgerError, match=r"within 2 seconds .*who holds a lock"):
                writer.commit(batch(1, partial("s", 0, [1])))
            for _ in range(3):
                assert reader.pipelines()[0].batches == 1
                assert reader.behind()
                time.sleep(REST_SECONDS)
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        end = time.monotonic() + 60
        while stranger.execute(waiting).fetchone() != (0,):  # the last may just be given up
            assert time.monotonic() < end
            time.sleep(0.05)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(1, partial("s", 0, [1])))
    assert held(reader, "s", PANE, 0, 10) == {0: 1, 1: 1}
    reader.close()
    ledger.close()


def test_two_writers_that_race_within_a_commit(server, request):
    """The second is at work between the first one's reading and its compare-and-set."""
    url = server.url(schema=name_of(request))
    one, two = open_ledger(url), open_ledger(url)
    assert isinstance(one, SharedLedger)
    first = one.open_writer("p", SPEC, query_id="A")
    first.commit(batch(0, partial("s", 0, [0])))
    other = {"pane_us": 10, "summaries": {"u": {}}}
    store = one._replica.store
    plain = store.append
    acts = [
        lambda: two.open_writer("r", other, query_id="B"),  # has nothing to do with it
        lambda: two.open_writer("p", SPEC, query_id="A").commit(batch(2, partial("s", 0, [9]))),
    ]
    tries = []

    def append(*arguments):
        tries.append(1)
        if acts:
            acts.pop(0)()
        return plain(*arguments)

    store.append = append
    acts, later = acts[:1], acts[1:]
    assert first.commit(batch(1, partial("s", 0, [1])))
    assert len(tries) == 2
    acts = later
    with pytest.raises(LedgerConflict, match="took over"):
        first.commit(batch(2, partial("s", 0, [2])))
    assert held(two, "s", PANE, 0, 10) == {0: 1, 1: 1, 9: 1}
    one.close()
    two.close()


def test_an_answer_that_is_lost_is_no_second_commit(server, request):
    """The connection breaks after the server has taken a commit, before it has said so."""
    ledger = open_ledger(server.url(schema=name_of(request)))
    assert isinstance(ledger, SharedLedger)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    plain = ledger._replica.store.append
    lost = []

    def append(*arguments):
        taken = plain(*arguments)
        if not lost:
            lost.append(1)
            raise StoreAway("the connection broke")
        return taken

    ledger._replica.store.append = append
    assert writer.commit(batch(0, partial("s", 0, [0]))) is True
    asked = [ledger.ask("p", "slow_down", {}) for _ in range(2)]
    assert ledger.commands("p") == asked
    assert held(ledger, "s", PANE, 0, 10) == {0: 1}
    ledger.close()


def test_who_is_far_behind_reads_all_anew(server, request, monkeypatch):
    monkeypatch.setattr("muntin.ledger.store.LOG_KEPT", 3)
    monkeypatch.setattr("muntin.ledger.store.LOG_LEAST", 1)
    url = server.url(schema=name_of(request))
    ledger, reader = open_ledger(url), open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for number in range(12):
        writer.commit(batch(number, partial("s", number * PANE, [number]), watermark=40))
        if number == 5:
            assert len(reader.pieces("s", PANE)) == 6
    roll(ledger, writer, "s", 40, 0)
    assert held(reader, "s", PANE, 0, 200) == dict.fromkeys(range(12), 1)
    assert reader.coverage("s") == ledger.coverage("s")
    assert reader.verify() == []
    ledger.close()
    reader.close()


def test_a_log_of_large_changes_is_short_and_who_it_leaves_behind_has_lost_nothing(
    server, request, monkeypatch
):
    """Records that are rejected come with their bytes; and the log once held a thousand times what
    a batch may bring of them."""
    monkeypatch.setattr("muntin.ledger.store.LOG_BYTES", 100_000)
    url = server.url(schema=name_of(request))
    ledger, elsewhere = open_ledger(url), open_ledger(url)
    idle = elsewhere.open_writer("r", {"pane_us": 10, "summaries": {"u": {}}}, query_id="B")
    writer = ledger.open_writer("p", SPEC, query_id="A")

    def commit(number: int, nbytes: int) -> None:
        rejected = [Rejected("malformed", "", "", os.urandom(nbytes))]
        parts = partial("s", 0, [number])
        writer.commit(batch(number, parts, rejected=rejected, rejected_count=1))

    for number in range(60):
        commit(number, 4_000)
    assert 60_000 < server.log_bytes(name_of(request)) < 150_000
    assert idle.commit(batch(0, partial("u", 0, [1]), query="B"))  # it is no other history
    for number in range(60, 70):
        commit(number, 20_000)
    reader = open_ledger(url, create=False)
    for number in range(70, 80):  # what is kept of each time is enough to follow
        commit(number, 20_000)
        assert reader.pipelines()[0].batches == number + 1
    assert 100_000 < server.log_bytes(name_of(request)) < 400_000
    assert held(elsewhere, "s", PANE, 0, 10) == dict.fromkeys(range(80), 1)
    for each in (reader, elsewhere, ledger):
        each.close()


def test_a_payload_outlives_its_piece_for_readers_of_a_snapshot(server, request):
    ledger = open_ledger(server.url(schema=name_of(request)))
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1])))
    with ledger.snapshot() as view:
        assert writer.drop_before("s", PANE, 100) == 1
        assert gather(view, "s", 0, 10) == {1: 1}
    assert ledger.pieces("s", PANE) == []
    ledger.close()


def test_a_ledger_whose_rows_are_gone_is_no_empty_one(server, request):
    url = server.url(schema=name_of(request))
    ledger = open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [0])))
    server.wipe(name_of(request))
    for create in (False, True):
        with pytest.raises(LedgerError, match="rows are gone"):
            open_ledger(url, create=create)
    if server.store.endswith("redis"):  # PostgreSQL deletes nothing by itself
        with pytest.raises(LedgerError, match="rows are gone"):
            writer.commit(batch(1, partial("s", 0, [1])))
    assert held(ledger, "s", PANE, 0, 10) == {0: 1}


def test_a_row_that_somebody_deleted_is_missed(server, request):
    url = server.url(schema=name_of(request))
    ledger = open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for number in range(2):
        writer.commit(batch(number, partial("s", 0, [number]), rejected_count=1))
        writer.set_status({"number": number})  # replaces a row
    writer.drop_before("s", PANE, 1_000)
    writer.commit(batch(2, partial("s", 2_000, [2])))
    assert ledger.verify() == []
    server.wipe(name_of(request), "pieces:")
    lost = "table pieces has 0 rows, and 1 were written"
    with pytest.raises(LedgerError, match=lost):
        open_ledger(url)
    writer.set_status({"number": 3})  # by who has read the row before
    (told,) = ledger.verify()
    assert lost in told
    ledger.close()


def test_a_ledger_whose_head_somebody_deleted_is_not_made_anew(request):
    server = request.getfixturevalue("redis_server")
    url, keys = server.url(schema=name_of(request)), f"muntin:{{{name_of(request)}}}:*"
    ledger = open_ledger(url)
    ledger.open_writer("p", SPEC, query_id="A").commit(batch(0, partial("s", 0, [0])))
    ledger.close()
    server.client().delete(keys.replace("*", "ledger"))
    there = sorted(server.client().keys(keys))
    with pytest.raises(LedgerError, match=r"has lost the key .*:ledger of a ledger whose rows are"):
        open_ledger(url)
    assert sorted(server.client().keys(keys)) == there


def test_a_redis_url_by_which_rows_would_be_texts_is_refused(request):
    url = request.getfixturevalue("redis_server").url(schema=name_of(request))
    with pytest.raises(LedgerError, match="rows are bytes: leave decode_responses out"):
        open_ledger(f"{url}&decode_responses=true")


def test_schemas_that_postgresql_would_cut_to_one_are_refused(postgresql):
    for last in "ab":
        with pytest.raises(LedgerError, match=r"cuts a schema's name after 63 .* has 64: shorten"):
            open_ledger(postgresql.url(schema="x" * 63 + last))
    open_ledger(postgresql.url(schema="x" * 63)).close()


def test_damage_in_the_store_is_seen(server, request):
    url = server.url(schema=name_of(request))
    ledger = open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1]), partial("s", 0, [2])))
    closed = ClosedWindow("s", 0, 40, "full", 0, False, 2, 0, {"k": 1}, 1)
    writer.close_windows([closed], [], {})
    first, second = ledger.pieces("s", PANE)
    server.damage(name_of(request), first.id)
    with pytest.raises(LedgerError, match=r"row of table payloads .* is damaged"):
        ledger.payloads([first.id])
    assert list(ledger.payloads([second.id])) == [second.id]
    found = " ".join(ledger.verify())
    assert "table payloads" in found
    assert "table windows" in found
    ledger.close()


def test_what_cannot_be_opened_says_why_and_never_the_password(server, request):
    good = server.url(schema=name_of(request), deadline=1)
    with pytest.raises(LedgerMissing, match="there is no ledger"):
        open_ledger(good.replace("deadline=1", "deadline=60"), create=False)
    wrong = good.replace("127.0.0.1", "x@127.0.0.1", 1), good.replace(f":{server.port}", ":1")
    for url in wrong:
        with pytest.raises(LedgerError, match=r"127.0.0.1|translate") as refusal:
            open_ledger(url)
        assert "f9c" not in str(refusal.value)
    with pytest.raises(LedgerError, match="deadline='x' must be 1 to 3600 seconds"):
        open_ledger(good.replace("deadline=1", "deadline=x"))
    ledger = open_ledger(good.replace("deadline=1", "deadline=60"))
    writer = ledger.open_writer("p", {**SPEC, "ledger": "here"}, query_id="A")
    for text in (ledger.url, repr(writer._url), str(ledger.pipelines())):
        assert "f9c" not in text
    ledger.close()


def test_a_redis_that_would_lose_commits_is_told_at_every_start(request, caplog):
    """Settings change after a ledger was made."""
    server = request.getfixturevalue("redis_server")
    url, client = server.url(schema=name_of(request)), server.client()
    open_ledger(url).close()
    lossy = {"maxmemory": "1gb", "maxmemory-policy": "allkeys-lru", "appendonly": "no"}
    usual = {name: client.config_get(name)[name] for name in lossy}
    try:
        client.config_set("appendonly", "no")
        open_ledger(url).close()
        assert "set appendonly yes" in caplog.text
        for name, value in lossy.items():
            client.config_set(name, value)
        with pytest.raises(LedgerError, match=r"allkeys-lru\): set it to noeviction"):
            open_ledger(url)
        open_ledger(url, create=False).close()
    finally:
        for name, value in usual.items():
            client.config_set(name, value)


@pytest.mark.parametrize("kind", KINDS)
def test_tls_is_checked(own, kind, tmp_path):
    """A server whose certificate is another's is refused before a password is said."""
    good, other = trustme.CA(), trustme.CA()
    good.cert_pem.write_to_path(tmp_path / "good.pem")
    other.cert_pem.write_to_path(tmp_path / "other.pem")
    server = own(kind, good.issue_cert("127.0.0.1"))
    ledger = open_ledger(server.url(deadline=60, ca=tmp_path / "good.pem"))
    assert ledger.open_writer("p", SPEC, query_id="A").commit(batch(0))
    ledger.close()
    with pytest.raises(LedgerError, match="certificate is not trusted"):
        open_ledger(server.url(deadline=60, ca=tmp_path / "other.pem"))
    with pytest.raises(LedgerError, match=r"names no file of certificates|that the URL names is"):
        open_ledger(server.url(deadline=60, ca=tmp_path / "none.pem"))
    named = server.url(deadline=60, ca=tmp_path / "good.pem").replace("127.0.0.1", "localhost")
    with pytest.raises(LedgerError, match=r"is for another host|Hostname mismatch"):
        open_ledger(named)


def test_what_the_documentation_grants_is_enough(server, request):
    name = name_of(request)
    writers, readers = server.grant(name)
    ledger = open_ledger(writers)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    assert writer.commit(batch(0, partial("s", 0, [0])))
    reader = open_ledger(readers, create=False)
    version = reader.version()
    assert held(reader, "s", PANE, 0, 10) == {0: 1}
    writer.commit(batch(1, partial("s", 0, [1])))
    assert reader.wait(version, 60) > version
    assert not reader.behind()
    with pytest.raises(LedgerError, match="lacks a right"):
        reader.ask("p", "slow_down", {})
    assert reader.verify() == []
    reader.close()
    ledger.close()


def test_a_read_only_server_stops_commits_only(server, request):
    ledger = open_ledger(server.url(schema=name_of(request)))
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [0])))
    server.read_only(True)
    try:
        with pytest.raises(LedgerError, match="read-only"):
            writer.commit(batch(1, partial("s", 0, [1])))
        assert held(ledger, "s", PANE, 0, 10) == {0: 1}
    finally:
        server.read_only(False)
    assert writer.commit(batch(1, partial("s", 0, [1])))
    assert held(ledger, "s", PANE, 0, 10) == {0: 1, 1: 1}
    ledger.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_server_is_named_and_loses_nothing(kind, request, tmp_path):
    server = request.getfixturevalue(FIXTURES[kind])
    name = name_of(request)
    with server.little_space(tmp_path, name) as (options, more_space):
        ledger = open_ledger(server.url(schema=name, deadline=60, **options))
        writer = ledger.open_writer("p", SPEC, query_id="A")
        noise = Slices.of([0], [0])

        def commit(number: int) -> bool:
            parts = [partial("s", 0, [number]), Partial("t", noise, os.urandom(50_000))]
            return writer.commit(batch(number, *parts))

        refusal, number = "", 0
        while not refusal:
            try:
                assert commit(number)
                number += 1
            except LedgerError as problem:
                refusal = str(problem)
        assert re.search("is full.*what was committed stays", refusal)
        assert held(ledger, "s", PANE, 0, 10) == dict.fromkeys(range(number), 1)
        assert ledger.verify() == []
        more_space()
        assert commit(number)
        assert held(ledger, "s", PANE, 0, 10) == dict.fromkeys(range(number + 1), 1)
        ledger.close()


def test_a_full_disk_of_the_copy_is_named_and_loses_nothing(server, request, tmp_path, monkeypatch):
    url = server.url(schema=name_of(request))
    with small_disk(tmp_path, "1m") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        ledger = open_ledger(url)
        (disk / "more").write_bytes(bytes(400_000))
        writer = ledger.open_writer("p", SPEC, query_id="A")
        told, number = "", 0
        while not told:
            kept = [Rejected("malformed", "", "", os.urandom(3_000))]
            more = {"rejected": kept, "rejected_count": 1}
            try:
                writer.commit(batch(number, partial("s", 0, [number]), **more))
                number += 1
            except LedgerError as problem:
                told = str(problem)
        assert f"its copy on this machine, {disk}" in told
        assert "the disk is full" in told
        (disk / "more").unlink()
        writer.commit(batch(number, partial("s", 0, [number]), **more))  # it may be there
        assert held(ledger, "s", PANE, 0, 10) == dict.fromkeys(range(number + 1), 1)
        assert ledger.verify() == []
        ledger.close()


def test_a_reader_whose_copy_has_a_full_disk_answers_from_what_it_knows(
    server, request, tmp_path, monkeypatch
):
    url = server.url(schema=name_of(request))
    ledger = open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    with small_disk(tmp_path, "1m") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        reader = open_ledger(url, create=False)
        (disk / "more").write_bytes(bytes(400_000))
        number = 0
        while not reader.behind() and number < 300:
            more = {"rejected": [Rejected("malformed", "", "", os.urandom(3_000))]}
            writer.commit(batch(number, partial("s", 0, [number]), rejected_count=1, **more))
            number += 1
            assert reader.pipelines()[0].batches in (number - 1, number)
        assert reader.behind()
        (disk / "more").unlink()
        time.sleep(REST_SECONDS)
        assert reader.pipelines()[0].batches == number
        assert not reader.behind()
        reader.close()
    ledger.close()


def test_readers_hear_of_commits_while_they_wait(server, request):
    url = server.url(schema=name_of(request))
    writing, reading = open_ledger(url), open_ledger(url)
    writer = writing.open_writer("p", SPEC, query_id="A")
    heard: list[int] = []
    done = threading.Event()

    def listen(ledger: Ledger) -> None:
        version = -1
        while not done.is_set():
            version = ledger.wait(version, 30)
            heard.append(ledger.pipelines()[0].batches)
            if heard[-1] == 20:
                done.set()

    listening = threading.Thread(target=listen, args=(reading,))
    listening.start()
    for number in range(20):
        writer.commit(batch(number, partial("s", 0, [number])))
    listening.join(60)
    assert done.is_set()
    assert heard == sorted(heard)
    writing.close()
    reading.close()


def test_a_fork_has_a_copy_of_its_own(server, request):
    """One that is behind would undo in its parent's copy what this has seen."""
    url = server.url(schema=name_of(request))
    with closing(open_ledger(url)) as writing, closing(open_ledger(url)) as reading:
        writer = writing.open_writer("p", SPEC, query_id="A")
        writer.commit(batch(0, partial("s", 0, [0])))
        assert held(reading, "s", PANE, 0, 10) == {0: 1}
        go, come = os.pipe()
        child = os.fork()
        if child == 0:
            gc.disable()  # what other tests have left has threads, which a fork has not
            try:
                os.read(go, 1)
                store = reading._replica.store
                since = store.since
                store.since = lambda *asked: (found := since(*asked)) and found[:1]
                assert held(reading, "s", PANE, 0, 10)[0] == 1
                reading.close()
                os._exit(0)
            finally:
                os._exit(1)
        for number in range(1, 4):
            writer.commit(batch(number, partial("s", 0, [number])))
        version = reading.version()
        os.write(come, b"!")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with reading.snapshot(known=True) as view:
            assert view.version() == version
        assert held(reading, "s", PANE, 0, 10) == dict.fromkeys(range(4), 1)


def test_a_copy_between_kinds_holds_the_same(server, request, tmp_path):
    """From a file to a server and back: the same rows, and writers go on."""
    before = SqliteLedger(tmp_path / "a.db")
    writer = before.open_writer("p", SPEC, query_id="A")
    folder = before.payload_folder("p")
    parts = [partial("s", pane * PANE, [pane]) for pane in range(120)]
    in_file = Partial("s", slices_of({0: [777]}), folder.write("s", packed({0: [777]})))
    one = batch(0, *parts, in_file, watermark=400)
    writer.commit(replace(one, states=[State("t", 0, b"state")]))
    roll(before, writer, "s", 40, 0)
    writer.drop_before("s", PANE, 40)
    closed = ClosedWindow("s", 0, 40, "full", 0, False, 2, 0, {"k": 1}, 1)
    writer.close_windows([closed], [TrendPoint("q", 0, 40, 0, b"trend" * 100)], {"T": 1})
    before.ask("p", "slow_down", {})
    there = open_ledger(server.url(schema=name_of(request)))
    back = SqliteLedger(tmp_path / "b.db")
    copy_ledger(before, there)
    copy_ledger(there, back)
    for made in (there, back):
        assert made.generation() == before.generation()
        assert made.version() > before.version()
        assert made.pipelines() == before.pipelines()
        assert made.closings(0) == before.closings(0)
        assert gather(made, "s", 0, 1200) == gather(before, "s", 0, 1200)
        assert made.coverage("s") == before.coverage("s")
        assert made.states("t") == {0: b"state"}
        assert made.trend("q") == before.trend("q")
        assert made.commands("p") == before.commands("p")
        assert made.verify() == []
        with pytest.raises(LedgerError, match=r"holds pipelines \(p\)"):
            copy_ledger(before, made)
        again = made.open_writer("p", SPEC, query_id="A")
        assert again.commit(batch(0)) is False
        assert again.commit(batch(1, partial("s", 2000, [2000])))
        assert len({piece.id for piece in made.pieces("s", PANE)}) == 117
        made.close()
    there = open_ledger(server.url(schema=name_of(request)))
    there.backup(tmp_path / "c.db")
    copy = SqliteLedger(tmp_path / "c.db")
    assert copy.generation() > there.generation()
    assert gather(copy, "s", 0, 3000) == gather(there, "s", 0, 3000)
    for ledger in (copy, there, before):
        ledger.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_databases_of_other_encodings_are_taken(postgresql, encoding):
    """The first is what initdb makes where no locale is set."""
    database = f"of_{encoding.lower()}"
    made = f"CREATE DATABASE {database} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
    postgresql.ask(f"{made} TEMPLATE template0")
    url = postgresql.url().replace("/postgres?", f"/{database}?")
    with closing(open_ledger(url)) as ledger:
        writer = ledger.open_writer("p", SPEC, query_id="A")
        writer.commit(batch(0, partial("s", 0, [0])))
        with closing(open_ledger(url, create=False)) as reader:
            writer.set_status({"reason": "zu spät, 東京"})
            assert reader.status("p") == {"reason": "zu spät, 東京"}
            assert held(reader, "s", PANE, 0, 10) == {0: 1}
            assert reader.verify() == []


def test_who_reads_no_further_hears_nothing_of_a_connection_that_was_ended(postgresql, request):
    """As a standby ends one whose rows are to go: Python would print a trace of it."""
    with closing(open_ledger(postgresql.url(schema=name_of(request)))) as ledger:
        assert isinstance(ledger, SharedLedger)
        _, rows = ledger._replica.store.load(5)
        next(rows)
        others = "FROM pg_stat_activity WHERE query LIKE 'FETCH FORWARD%'"
        postgresql.ask(f"SELECT pg_terminate_backend(pid) {others}")
        rows.close()  # pyright: ignore[reportAttributeAccessIssue]


def test_news_that_a_pooler_brings_to_who_did_not_listen_are_not_kept(postgresql, request):
    """PgBouncer in transaction mode hands on sessions with their LISTEN."""
    with closing(open_ledger(postgresql.url(schema=name_of(request)))) as ledger:
        writer = ledger.open_writer("p", SPEC, query_id="A")
        with ledger._replica.store._connection(10) as connection:
            connection.execute(f'LISTEN "muntin_{name_of(request)}"')
        kept = len(_notifies())
        for number in range(20):
            writer.commit(batch(number, partial("s", 0, [number])))
        assert len(_notifies()) <= kept + 1


def _notifies() -> list[object]:
    return [found for found in gc.get_objects() if isinstance(found, psycopg.Notify)]


def test_a_load_that_breaks_after_its_deadline_is_tried_again(server, request, monkeypatch):
    """A large ledger takes longer to read than a store may take to answer."""
    with (
        closing(open_ledger(server.url(schema=name_of(request)))) as ledger,
        closing(open_ledger(server.url(schema=name_of(request), deadline=60))) as reader,
    ):
        writer = ledger.open_writer("p", SPEC, query_id="A")
        writer.commit(batch(0, partial("s", 0, [1])))
        load, breaks, late = reader._replica.store.load, [True, True], 0
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late, sleep=time.sleep)
        monkeypatch.setattr("muntin.ledger.shared.time", clock)

        def broken(patience):
            head, rows = load(patience)

            def portions():
                nonlocal late
                yield next(rows)
                if breaks and breaks.pop():
                    late += 61
                    raise StoreAway("the connection broke")
                yield from rows

            return head, portions()

        monkeypatch.setattr(reader._replica.store, "load", broken)
        reader._replica.reload()
        assert held(reader, "s", PANE, 0, 10) == {1: 1}
        breaks += [True] * 9
        with pytest.raises(LedgerError, match="the connection broke"):
            reader._replica.reload()
        assert len(breaks) == 6
        assert held(reader, "s", PANE, 0, 10) == {1: 1}


def test_a_load_that_takes_longer_than_the_log_reaches_ends(server, request, monkeypatch):
    """A server could not begin on a ledger whose batches are large, nor a new writer."""
    monkeypatch.setattr("muntin.ledger.store.LOG_KEPT", 3)
    monkeypatch.setattr("muntin.ledger.store.LOG_LEAST", 3)
    if isinstance(server, PostgresServer):
        monkeypatch.setattr("muntin.ledger.postgres.ROWS_AT_ONCE", 50)
    with (
        closing(open_ledger(server.url(schema=name_of(request)))) as ledger,
        closing(open_ledger(server.url(schema=name_of(request)))) as reader,
    ):
        writer = ledger.open_writer("p", SPEC, query_id="A")
        writer.commit(batch(0, *[partial("s", pane, [0]) for pane in range(0, 6_000, PANE)]))
        load, numbers = reader._replica.store.load, iter(range(1, 10_000))

        def slow(patience):
            head, rows = load(patience)

            def portions():
                for portion in rows:
                    some = portion[: len(portion) // 2], portion[len(portion) // 2 :]
                    for half in some:
                        yield half
                        for number in (next(numbers), next(numbers)):
                            writer.commit(batch(number, partial("s", 0, [number])))

            return head, portions()

        monkeypatch.setattr(reader._replica.store, "load", slow)
        assert reader.verify() == []
        assert len(gather(reader, "s", 0, PANE)) == next(numbers)


def test_rows_that_are_read_one_after_the_other_are_shown_as_of_one_moment(
    server, request, monkeypatch
):
    """What a scan of the rows saw of a change, and what not, is not shown without the change."""
    if isinstance(server, RedisServer):
        monkeypatch.setattr("muntin.ledger.redis.ROWS_AT_ONCE", 50)
    panes = range(0, 600 * PANE, PANE)
    with (
        closing(open_ledger(server.url(schema=name_of(request)))) as ledger,
        closing(open_ledger(server.url(schema=name_of(request), deadline=60))) as reader,
    ):
        writer = ledger.open_writer("p", SPEC, query_id="A")
        writer.commit(batch(0, *[partial("s", pane, [pane]) for pane in panes]))
        expected = gather(reader, "s", 0, panes.stop)
        assert set(expected.values()) == {1}
        store = reader._replica.store
        load = store.load
        pieces = ledger.pieces("s", PANE)
        made = [compacted(ledger, pieces)]

        def away(*_):
            raise StoreAway("the server ends")

        def meanwhile(patience):
            head, rows = load(patience)

            def portions():
                yield next(rows)
                writer.compact(pieces, made)
                yield from rows
                monkeypatch.setattr(store, "since", away)

            return head, portions()

        monkeypatch.setattr(store, "load", meanwhile)
        with tried_once():
            assert "the server ends" in reader.verify()[0]
            assert gather(reader, "s", 0, panes.stop) == expected
        monkeypatch.undo()
        assert reader.verify() == []
        assert gather(reader, "s", 0, panes.stop) == expected
