"""Clients that mean no good: the server goes on, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import select
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest

from muntin.ledger.temporary import temporary
from muntin.server.limits import ServerLimits
from muntin.server.postgres import portal, session
from muntin.server.postgres.portal import prepared, wire
from muntin.server.postgres.session import PostgresSession
from muntin.server.postgres.settings import SessionSettings
from muntin.server.serving import Server
from muntin.server.statements import StoredAnswer
from tests.pipeline.support import pipeline
from tests.server.conftest import PATIENCE_SECONDS, Feeder, fed_server, until

SELECT = "SELECT count FROM orders FOR ALL"
END = b"X\0\0\0\x04"
STARTUP = struct.pack(">iI", 22, 196_608) + b"user\0someone\0\0"


def address(server):
    host, port = server.postgres_url.partition("@")[2].partition("/")[0].split(":")
    return host, int(port)


def said(server, *pieces, goes=True):
    """All that the server says to these bytes, until it closes; `goes`: then the client does."""
    with socket.create_connection(address(server), timeout=60) as client:
        with contextlib.suppress(OSError):
            for piece in pieces:
                client.sendall(piece)
            if goes:
                time.sleep(0.05)
                client.shutdown(socket.SHUT_WR)
        found = b""
        with contextlib.suppress(OSError):
            while more := client.recv(65_536):
                found += more
        return found


def message(letter, body):
    return letter + struct.pack(">i", len(body) + 4) + body


def serves(server):
    with psycopg.connect(server.postgres_url, autocommit=True) as connected:
        return connected.execute(SELECT).fetchall() == [(90,)]


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS without asking first
        b"\x7f\xff\xff\xff" + b"x" * 100,
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        struct.pack(">iI", 8, 12_345),
        struct.pack(">iI", 9, 196_608) + b"u",
        struct.pack(">iI", 12, 196_608) + b"\xff\xfe\0\0",
        struct.pack(">iI", 8, 80_877_103) * 6,
        struct.pack(">iI", 8, 80_877_102),
    ],
)
def test_a_start_that_is_none(fed, start):
    said(fed, start)
    assert serves(fed)


@pytest.mark.parametrize(
    ("minor", "options", "answer"),
    [
        (0, [], None),
        (1, [], None),
        (2, [], None),
        (99, [], (196_610, [])),
        (9_999, ["_pq_.one", "_pq_.two"], (196_610, ["_pq_.one", "_pq_.two"])),
        (0, ["_pq_.one"], (196_608, ["_pq_.one"])),
    ],
)
def test_a_start_that_wants_more_than_is_spoken(fed, minor, options, answer):
    body = b"".join(f"{name}\0x\0".encode() for name in ["user", *options]) + b"\0"
    start = struct.pack(">iHH", 8 + len(body), 3, minor) + body
    found = said(fed, start, message(b"Q", SELECT.encode() + b"\0"), END, goes=False)
    if answer:
        names = b"".join(f"{name}\0".encode() for name in answer[1])
        told = message(b"v", struct.pack(">ii", answer[0], len(answer[1])) + names)
        assert found.startswith(told)
        found = found[len(told) :]
    assert found.startswith(message(b"R", b"\0\0\0\0"))
    assert b"SELECT 1\0" in found


def test_a_start_that_sets_something(fed):
    """As asyncpg's server_settings and pgx do, each under its own name."""
    body = b"user\0x\0muntin.window\0ALL\0client_min_messages\0warning\0\0"
    start = struct.pack(">iI", 8 + len(body), 196_608) + body
    asked = message(b"Q", b"SELECT count FROM orders\0")
    found = said(fed, start, asked, END, goes=False)
    assert message(b"D", struct.pack(">hi", 1, 2) + b"90") in found
    assert b"NOTICE" not in found


@pytest.mark.parametrize(
    "first",
    [
        b"Q\x7f\xff\xff\xff" + b"x" * 70_000,
        b"Q\x00\x00\x00\x00",
        message(b"Q", b"SELECT 1"),  # no end
        message(b"Q", b"\xff\xfe\0"),
        message(b"?", b""),
        message(b"D", b""),
        message(b"B", b"\0\0\xff\xff"),
        message(b"B", b"\0\0\0\0\xff\xff" + b"\xff\xff\xff\xf0" * 100),
        message(b"p", b"password\0"),
        message(b"d", b"copy"),
        message(b"F", b"\0" * 20),
        message(b"P", b"s\0SELECT $70000\0\0\0") + message(b"S", b"") + message(b"X", b""),
    ],
)
def test_a_message_that_is_none(fed, first):
    found = said(fed, STARTUP, first, goes=False)
    assert b"08P01" in found or b"54000" in found
    assert (b"not UTF-8" in found) == (b"\xff\xfe\0" in first)
    assert serves(fed)


def test_noise(fed):
    """Random bytes, and random damage to what a client may say."""
    chance = random.Random(5)
    good = STARTUP + message(b"Q", SELECT.encode() + b"\0")
    good += message(b"P", b"\0SELECT count FROM orders WHERE count > $1\0\0\1\0\0\0\x14")
    good += message(b"B", b"\0\0\0\1\0\0\0\1\0\0\0\x015\0\0") + message(b"D", b"P\0")
    good += message(b"E", b"\0\0\0\0\0") + message(b"S", b"") + message(b"X", b"")
    assert said(fed, good, goes=False).count(b"SELECT 1\0") == 2
    for _ in range(60):
        damaged = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        said(fed, bytes(damaged))
        said(fed, os.urandom(chance.randint(1, 200)))
    assert serves(fed)


def test_statements_over_limits(fed):
    with psycopg.connect(fed.postgres_url, autocommit=True) as connected:
        for text in (
            "SELECT " + "1, " * 5_000 + "1",
            "SELECT count FROM orders WHERE " + "(" * 3_000 + "1 = 1" + ")" * 3_000,
            "SELECT relname FROM pg_class WHERE " + "(" * 300 + "1 = 1" + ")" * 300,
            "SELECT '" + "x" * 20_000 + "'",
            ";".join(["SELECT 1"] * 200),
        ):
            with pytest.raises(psycopg.Error):
                connected.execute(text)
        states = [
            connected.pgconn.prepare(b"s%d" % number, b"SELECT 1").status for number in range(600)
        ]
        assert states.count(psycopg.pq.ExecStatus.COMMAND_OK) == 512
        assert connected.execute(SELECT).fetchall() == [(90,)]


def test_too_many_connections_and_slow_readers():
    ledger = temporary()
    feeder = Feeder(ledger)
    for _ in range(3):
        feeder.minute()
    limits = ServerLimits(postgres_connections_max=8, write_stall_seconds=1.0)
    with Server(ledger, port=0, postgres="127.0.0.1:0", limits=limits) as server:
        listener = server.app.state.postgres
        held = [socket.create_connection(address(server)) for _ in range(8)]
        until(lambda: len(listener._places) == 8)
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            psycopg.connect(server.postgres_url)
        for client in held:
            client.close()
        until(lambda: len(listener._places) == 0)
        # asks for much, and reads nothing
        rows = "SELECT a.driver, b.driver, c.driver FROM orders(driver, area) FOR ALL AS a, "
        rows += "orders(driver, area) FOR ALL AS b, orders(driver, area) FOR ALL AS c"
        slow = socket.create_connection(address(server))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(STARTUP + message(b"Q", rows.encode() + b"\0") * 200)
        assert select.select([slow], [], [], PATIENCE_SECONDS)[0]  # it is served
        assert serves(server)
        until(lambda: len(listener._places) == 0)  # cut
        assert not server.app.state.statements.unread
        slow.close()
        assert serves(server)
    feeder.close()


def test_who_connects_and_says_nothing_is_cut():
    limits = ServerLimits(handshake_seconds=0.2)
    with (
        Server(temporary(), port=0, postgres="127.0.0.1:0", limits=limits) as server,
        socket.create_connection(address(server), timeout=60) as silent,
    ):
        while silent.recv(4_096):
            pass
        until(lambda: not server.app.state.postgres._places)


def test_until_sync_after_an_error_all_is_passed_over(fed):
    """Whatever it is, as PostgreSQL does."""
    wrong = message(b"P", b"\0SELECT nothing FROM orders\0\0\0") + message(b"D", b"S\0")
    skipped = message(b"Q", b"SELECT 2\0") + message(b"z", b"") + message(b"P", b"")
    found = said(fed, STARTUP, wrong + skipped + message(b"S", b""), END, goes=False)
    ready = message(b"Z", b"I")
    states = [part.partition(b"\0")[0] for part in found.split(b"\0C")[1:]]
    assert (states, found.count(ready)) == ([b"42703"], 2)
    assert found.endswith(ready)


def test_who_holds_cursors_open_refuses_nobody_else_an_answer():
    rows = ", ".join(f"orders(driver, area) FOR ALL AS a{n}" for n in range(6))
    with fed_server(postgres="127.0.0.1:0", limits=ServerLimits(answers_unread_max=8)) as server:
        with psycopg.connect(server.postgres_url) as holding:
            texts = (f"SELECT a0.driver, a1.driver, {n} FROM {rows}" for n in range(8))  # noqa: S608
            declared = "; ".join(f"DECLARE c{n} CURSOR FOR {text}" for n, text in enumerate(texts))
            with pytest.raises(psycopg.OperationalError, match="not read yet"):
                holding.execute(declared)  # as many as it may have
            assert 0 < len(server.app.state.statements.unread) < 8
            assert serves(server)
        until(lambda: not server.app.state.statements.unread)


def test_a_cursor_too_many_gives_its_answer_back(fed):
    """Else the places for answers that are not read would be taken for ever, and with them all."""
    rows = ", ".join(f"orders(driver, area) FOR ALL AS a{n}" for n in range(6))
    big = f"SELECT a0.driver, a1.driver FROM {rows}"  # noqa: S608
    with psycopg.connect(fed.postgres_url) as holding:
        holding.execute("; ".join(f"DECLARE c{n} CURSOR FOR SELECT {n}" for n in range(8)))
        with pytest.raises(psycopg.OperationalError, match="at most 8 portals"):
            holding.execute(f"DECLARE c8 CURSOR FOR {big}")
        assert not fed.app.state.statements.unread


@pytest.mark.parametrize("steps", range(6))
def test_an_answer_that_comes_as_its_client_goes_is_given_back(steps):
    async def goes():
        ready, given = asyncio.Event(), []

        async def answer(*_, **__):
            await ready.wait()
            given.append(StoredAnswer(io.BytesIO(b"\0\0\0\x02{}"), []))
            return given[-1]

        auth = SimpleNamespace(still=lambda grant: grant)
        session = PostgresSession(
            SimpleNamespace(status="I"), "", SimpleNamespace(answer=answer),
            SimpleNamespace(auth=auth), ServerLimits(),
        )  # fmt: skip
        session._grant, session._settings = "somebody", SessionSettings({})
        portal = prepared(SELECT, ()).bound((), ())
        asking = asyncio.create_task(session._answered(portal))
        for _ in range(5):  # until it waits for the answer
            await asyncio.sleep(0)
        ready.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})
        assert given in ([], [portal.answer])  # which is released with its portal

    asyncio.run(goes())


def test_between_costly_messages_others_have_their_turn():
    """Those that are there already, each of some milliseconds: 16 were taken at a stretch."""
    turns = taken = 0

    class Link:
        async def receive(self, skipping):
            nonlocal taken
            taken += 1
            return wire.Flush() if taken <= 40 else wire.Terminate()

        async def flush(self):
            time.sleep(0.003)

        async def flush_some(self):
            pass

    async def serve():
        nonlocal turns
        session = PostgresSession(Link(), "", None, None, ServerLimits())
        served = asyncio.create_task(session._serve())
        while not served.done():
            await asyncio.sleep(0)
            turns += 1

    asyncio.run(serve())
    assert turns > taken * 0.9


def test_a_flood_of_messages_holds_up_nobody_else(fed):
    """Each costs little and answers nothing; they come without end."""
    with socket.create_connection(address(fed)) as flood:
        flood.sendall(STARTUP)
        flood.setblocking(False)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                flood.send(message(b"H", b"") * 10_000)
        assert serves(fed)
        links = list(fed.app.state.postgres._tasks)
        # the rest waits at the client
        assert max(len(link._reader._buffer) for link in links) < 512 * 1024


def test_a_query_after_what_was_not_ended(fed):
    """asyncpg, where an argument is none of its type: no Sync comes, but ROLLBACK."""
    parse = message(b"P", b"s\0" + SELECT.encode() + b"\0\0\0")
    query = message(b"Q", SELECT.encode() + b"\0")
    answer = said(fed, STARTUP, parse, message(b"H", b""), query, parse.replace(b"Ps", b"Pt"),
                  message(b"S", b""), query, message(b"X", b""), goes=False)  # fmt: skip
    assert answer.count(b"SELECT 1\0") == 2


def test_rows_have_the_types_that_were_described_or_are_refused(fed):
    """asyncpg describes a statement without parameters, and reads the rows by what it heard."""
    select = (
        b"SELECT sum(count) * 9223372036854775807 AS s FROM orders(X1) FOR ALL WHERE driver = $1"
    )
    parse = message(b"P", b"s\0" + select + b"\0\0\0")
    describe, sync = message(b"D", b"Ss\0"), message(b"S", b"")
    answers = {}
    for driver in (b"a", b"nobody"):
        value = len(driver).to_bytes(4) + driver
        bind = message(b"B", b"\0s\0\0\0\0\1" + value + b"\0\1\0\1")
        execute = message(b"E", b"\0\0\0\0\0")
        sent = (STARTUP, parse, describe, sync, bind, execute, sync, message(b"X", b""))
        answers[driver] = said(fed, *sent, goes=False)
    assert b"column 's' is numeric, and was described as bigint" in answers[b"a"]
    assert b"0A000" in answers[b"a"]
    assert b"SELECT 1\0" in answers[b"nobody"]


@pytest.mark.parametrize("given", [0, 1])
def test_columns_that_have_changed_since_they_were_described_are_refused(given):
    """JDBC, pgx and asyncpg hold on to statements; a changed file gives `*` other columns."""
    orders = {"keys": ["driver"], "window": {"kind": "floating", "length": "1 minute"}}
    select = b"SELECT * FROM orders FOR ALL" + b" WHERE count > $1::int" * given
    ready, sync = message(b"Z", b"I"), message(b"S", b"")
    parse = message(b"P", b"s\0" + select + b"\0\0\0")
    values = b"\0\1" + b"\0\0\0\1" + b"5" if given else b"\0\0"
    asked = message(b"B", b"\0s\0\0\0" + values + b"\0\0") + message(b"E", b"\0\0\0\0\0")
    ledger = temporary()
    with (
        Server(ledger, port=0, postgres="127.0.0.1:0") as server,
        socket.create_connection(address(server), timeout=60) as client,
    ):
        client.sendall(STARTUP)  # at once: who connects and says nothing is cut
        found = b""
        for batches, indicators in enumerate((["served"], ["fare"], ["served", "fare"])):
            changed = pipeline(summaries={"orders": orders | {"indicators": indicators}})
            feeder = Feeder(ledger, changed)
            feeder.batches, feeder.at = batches, batches * 60
            feeder.minute()
            feeder.close()
            if not batches:
                client.sendall(parse + message(b"D", b"Ss\0") + sync)
            client.sendall(asked + sync)
            while found.count(ready) < batches + 3:
                found += client.recv(65_536)
    assert found.count(b"SELECT 1\0") == 1
    assert found.count(b"0A000") == 2
    assert b"columns: count, fare; it was described with count, served" in found


@pytest.mark.parametrize(("size", "ends"), [(33_000, False), (70_000, True), (2_000_000, True)])
def test_a_statement_that_is_too_long_is_told(fed, size, ends):
    with psycopg.connect(fed.postgres_url, autocommit=True) as connected:
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="bytes"):
            connected.execute(f"SELECT {'1+' * (size // 2)}1")
        assert connected.closed is ends
    assert serves(fed)


@pytest.mark.parametrize("prepare", [False, True])
def test_a_long_statement_holds_up_nobody_else(fed, monkeypatch, prepare):
    """One of 32 KiB is read for a tenth of a second, which others had to wait."""
    goes_on, begun = threading.Event(), threading.Event()

    def slow(text, given):
        if len(text) > 10_000:
            begun.set()
            goes_on.wait(PATIENCE_SECONDS)
        return prepared(text, given)

    for module in (session, portal):
        monkeypatch.setattr(module, "prepared", slow)
    long = f"{SELECT} -- {'x' * 10_000}"
    with psycopg.connect(fed.postgres_url, autocommit=True) as one, ThreadPoolExecutor() as pool:
        asked = pool.submit(one.execute, long, prepare=prepare)
        assert begun.wait(PATIENCE_SECONDS)
        assert serves(fed)
        goes_on.set()
        assert asked.result(PATIENCE_SECONDS).fetchone()
