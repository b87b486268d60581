"""Statements in processes of their own: the same answers, and an end to whatever they do."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pyarrow as pa
import pytest

from muntin.errors import LedgerError
from muntin.ledger.open import open_ledger
from muntin.ledger.records import TrendPoint
from muntin.reading.catalog import LedgerCatalog
from muntin.reading.stored_results import stored_result
from muntin.select.engine import Engine
from muntin.server import workers as module
from muntin.server.answering import Question
from muntin.server.limits import ServerLimits
from muntin.server.reader import Reader
from muntin.server.sending import Pace
from muntin.server.serving import Server
from muntin.server.statements import PIECE_BYTES, Statements
from muntin.server.worker import BEGIN, Worker, _warm
from muntin.server.workers import ForkServer, workers_in
from tests.server.conftest import PATIENCE_SECONDS, fed_server, until
from tests.server.test_live import Live

ARROW = "application/vnd.apache.arrow.stream"
MINUTE_US = 60_000_000
FOR_EVER = ServerLimits(statement_seconds=3600.0, statement_end_seconds=3600.0)


def heavy(number=0, items=15):
    """Counts 5 to the power of 15 rows: nobody waits for its end."""
    names = [f"a{i}" for i in range(items)]
    sources = ", ".join(f"orders(driver) FOR ALL AS {name}" for name in names)
    total = " + ".join(f"{name}.count" for name in names)
    return f"SELECT count(*) + {number} FROM {sources} WHERE {total} <> {number}"  # noqa: S608


def large(rows):
    """So many rows of the few in the ledger."""
    items, held = 1, 5
    while held < rows:
        items, held = items + 1, held * 5
    sources = ", ".join(f"orders(driver) FOR ALL AS a{i}" for i in range(items))
    return f"SELECT a0.driver, a0.count FROM {sources} LIMIT {rows}"  # noqa: S608


@pytest.fixture
def ledger(tmp_path):
    made = open_ledger(f"sqlite:///{tmp_path / 'orders.db'}")
    yield made
    made.close()


@contextlib.contextmanager
def serving(ledger, limits=None):
    with Server(ledger, port=0, limits=limits) as server:
        yield server, httpx.Client(base_url=server.url, timeout=PATIENCE_SECONDS)


def ask(http, statement, **headers):
    headers = {"content-type": "text/plain", **headers}
    return http.post("/query", content=statement, headers=headers)


def test_workers_begin_with_the_kernels_of_each_pipeline(feeder, ledger, caplog):
    warm_for: list = []
    _warm({"ledger": ledger.url}, warm_for)
    assert warm_for == [info.spec for info in ledger.pipelines()]
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_nobody_waits_for_kernels_that_the_answer_does_not_need(feeder, ledger, monkeypatch):
    """The first workers begin before kernels are compiled, whichever thread comes first."""
    compiled, begin = threading.Event(), ForkServer.begin

    def compiling(_):
        assert compiled.wait(PATIENCE_SECONDS)
        return 1

    def late(fork_server):
        time.sleep(0.2)
        return begin(fork_server)

    monkeypatch.setattr(ForkServer, "warm", compiling)
    monkeypatch.setattr(ForkServer, "begin", late)
    with serving(ledger) as (_, http):
        try:
            assert http.get("/summaries", timeout=60).is_success
            assert http.get("/readyz").status_code == 503  # statements would wait
        finally:
            compiled.set()
        until(lambda: http.get("/readyz").is_success)


def workers_of(server):
    places = server.app.state.statements.runner
    return workers_in((*places._free, *places._taken))


def test_a_ledger_that_is_not_there_yet(tmp_path, caplog):
    """Whoever asks hears it in one line; the log has no traceback, and the worker goes on."""
    near, far = socket.socketpair()
    url = f"sqlite:///{tmp_path / 'later.db'}"
    settings = {"ledger": url, "limits": {}}
    threading.Thread(target=_serve, args=(far, settings), daemon=True).start()
    assert "there is no ledger" in _asked(near)["message"]
    open_ledger(url).close()
    assert _asked(near)["kind"] == "answer"
    near.close()
    assert not caplog.records


def test_who_asks_while_a_store_is_away_waits_for_it_once(monkeypatch):
    """A second wait would be beyond a statement's time, and its end told as the statement's."""
    near, far = socket.socketpair()
    tries = []

    def away(*_, **__):
        tries.append(select.select([far], [], [], PATIENCE_SECONDS)[0])
        raise LedgerError("it is away")

    monkeypatch.setattr("muntin.server.worker.open_ledger", away)
    threading.Thread(target=_serve, args=(far, {"ledger": "", "limits": {}}), daemon=True).start()
    assert _asked(near)["message"] == "it is away"
    near.close()
    assert tries == [[far]]


def _serve(connection, settings):
    with contextlib.suppress(EOFError):
        Worker(connection, settings).serve()


def _asked(connection):
    arguments = {"text": "SELECT 1", "form": "application/json", "rows_max": 10}
    connection.sendall(Question("sql", arguments, 1 << 20).to_json().encode() + b"\n")
    with connection.makefile("rb") as said:
        head = json.loads(said.readline())
        said.read(head.get("size", 0))
    return head


class Asking:
    """Somebody who asks, each time by a connection of its own, and waits in a thread."""

    def __init__(self, server, statement):
        self.answer = None
        self._thread = threading.Thread(target=self._ask, args=(server.url, statement), daemon=True)
        self._thread.start()

    def _ask(self, url, statement):
        try:
            self.answer = ask(httpx.Client(base_url=url, timeout=3600), statement)
        except httpx.HTTPError as error:
            self.answer = error


def busy(server):
    return len(server.app.state.statements.runner._taken)


def test_answers_and_errors_are_those_of_the_engine(feeder, ledger):
    engine = Engine(LedgerCatalog(ledger))
    statement = "SELECT driver, count / 7 AS share FROM orders(driver) FOR ALL ORDER BY driver"
    with serving(ledger) as (server, http):
        found = ask(http, statement)
        assert found.content == engine.sql(statement).to_json().encode()
        table = pa.ipc.open_stream(ask(http, statement, accept=ARROW).content).read_all()
        assert table.to_pydict() == engine.sql(statement).table.to_pydict()
        wrong = ask(http, "SELECT drivr FROM orders(driver)")
        assert (wrong.status_code, wrong.json()["error"]["position"]) == (400, 7)
        assert http.get("/summaries").json()["summaries"][0]["name"] == "orders"
        assert len(http.get("/windows").json()["windows"]) == len(ledger.windows())
        assert all(worker.pid != os.getpid() for worker in workers_of(server))
    engine.close()


def test_an_answer_has_what_was_committed_before_the_question(feeder, ledger):
    statement = "SELECT sum(count) FROM orders(driver) FOR ALL"
    with serving(ledger) as (_, http):
        for _ in range(5):
            before = ask(http, statement).json()["rows"][0][0]
            feeder.minute()
            assert ask(http, statement).json()["rows"][0][0] == before + 30


def test_a_statement_beyond_its_time_is_ended_from_outside(feeder, ledger):
    limits = ServerLimits(statement_seconds=3600.0, statement_end_seconds=1.0)
    with serving(ledger, limits) as (_, http):
        refused = ask(http, heavy())
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "timeout")
        assert "its process was ended" in refused.json()["error"]["message"]
        # a busy machine may need longer for this one, too
        until(lambda: ask(http, "SELECT sum(count) FROM orders(driver) FOR ALL").is_success)


def test_a_statement_beyond_its_memory_is_ended_from_outside(feeder, ledger):
    limits = ServerLimits(
        statement_seconds=3600.0, statement_end_seconds=3600.0, statements_memory_bytes=4 << 20
    )
    with serving(ledger, limits) as (_, http):
        refused = ask(http, heavy())
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "limit"
        assert "memory" in refused.json()["error"]["message"]


def test_a_ledger_of_this_process_has_the_same_limits():
    with fed_server(limits=ServerLimits(statement_seconds=0.5)) as server:
        refused = ask(httpx.Client(base_url=server.url, timeout=PATIENCE_SECONDS), heavy())
        assert "longer than 0.5 s" in refused.json()["error"]["message"]


def test_what_all_statements_need_together_ends_them(feeder, ledger, monkeypatch):
    """Also where each has less than DuckDB would refuse."""
    told = itertools.count(0, 1 << 30)
    monkeypatch.setattr(module, "memory_of", lambda _: next(told))
    with serving(ledger, FOR_EVER) as (_, http):
        error = ask(http, heavy()).json()["error"]
        assert "(256 MiB)" in error["message"]
        assert "muntin query" in error["remedy"]  # which needs no share of a server's memory


def test_a_long_trend_is_read_within_the_memory_of_all_statements(feeder, ledger):
    """Two months of minutes, of which it says as much as of each alone."""
    result = stored_result(Engine(LedgerCatalog(ledger)).sql("SELECT count FROM orders"), "", ())
    starts = range(0, 60_000 * MINUTE_US, MINUTE_US)
    points = [TrendPoint("busiest", start, start + MINUTE_US, 0, result) for start in starts]
    feeder.ingest.writer.close_windows([], points, {})
    with serving(ledger, FOR_EVER) as (_, http):
        answer = ask(http, "SELECT count(*) FROM trend(busiest)")
        assert answer.json()["rows"][0][0] >= len(points), answer.text


def test_a_process_that_dies_is_replaced(feeder, ledger):
    with serving(ledger, FOR_EVER) as (server, http):
        asking = Asking(server, heavy())
        until(lambda: any(worker.busy for worker in workers_of(server)))
        (victim,) = [worker for worker in workers_of(server) if worker.busy]
        os.kill(victim.pid, signal.SIGKILL)
        answer = until(lambda: asking.answer)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
        assert ask(http, "SELECT sum(count) FROM orders(driver) FOR ALL").status_code == 200


def test_a_closed_windows_answer_is_made_again_where_its_process_dies(feeder, ledger):
    with serving(ledger) as (server, _):
        live = Live(server)
        assert live.subscribe(select=large(1), on="window")["type"] == "subscribed"
        for worker in workers_of(server):
            os.kill(worker.pid, signal.SIGSTOP)
        feeder.minute()
        until(lambda: any(worker.busy for worker in workers_of(server)))
        for worker in workers_of(server):
            os.kill(worker.pid, signal.SIGKILL)
        assert len(live.hear("window")["result"]["rows"]) == 1
        live.socket.close()


def test_the_process_that_starts_them_is_replaced(feeder, ledger):
    with serving(ledger, FOR_EVER) as (server, http):
        assert ask(http, "SELECT count FROM orders").status_code == 200
        runner = server.app.state.statements.runner
        runner._fork_server._process.kill()
        for worker in workers_of(server):
            os.kill(worker.pid, signal.SIGKILL)
        statement = "SELECT sum(count) FROM orders(driver) FOR ALL"
        until(lambda: ask(http, statement).status_code == 200)


def test_nobody_waits_for_one_clients_statements(feeder, ledger):
    """Every place that one client may have is held; what others are told does not need it. More of
    what it follows waits than may be asked at once, and nobody is refused for that."""
    with serving(ledger, replace(FOR_EVER, statements_waiting_max=4)) as (server, http):
        hostile, other = Live(server), Live(server)
        windows = other.subscribe(windows="orders")
        ask(http, "SELECT count FROM orders")  # workers are there
        for number in range(8):  # each is checked, in its turns, before anything is computed
            select = heavy(number).replace(" FOR ALL", "")
            told = hostile.subscribe(id=f"h{number}", select=select, on="window")
            assert told["type"] == "subscribed"
        feeder.minute()
        assert other.hear("window")["channel"] == windows["channel"]
        until(lambda: any(worker.busy for worker in workers_of(server)))
        held = {worker.pid for worker in workers_of(server) if worker.busy}
        feeder.minute()
        assert other.hear("window")["channel"] == windows["channel"]
        assert http.get("/healthz").json()["status"] == "ok"
        assert http.get("/state").status_code == 200
        assert http.get("/metrics").status_code == 200
        assert ask(http, "SELECT sum(count) FROM orders(driver) FOR ALL").status_code == 200
        assert {worker.pid for worker in workers_of(server) if worker.busy} == held
        hostile.socket.close()
        other.socket.close()


def test_closed_windows_do_not_wait_where_every_place_is_held(feeder, ledger):
    with serving(ledger, FOR_EVER) as (server, http):
        other = Live(server)
        other.subscribe(windows="orders")
        assert other.subscribe(id="q", query="busiest", on="window")["type"] == "subscribed"
        held = [Asking(server, heavy(number)) for number in range(6)]
        until(lambda: busy(server) == ServerLimits().statements_at_once)
        feeder.minute()
        heard = [other.hear("window"), other.hear("window")]
        assert ["result" in message for message in heard].count(True) == 1  # the stored one
        assert http.get("/healthz").status_code == 200
        assert [asking.answer for asking in held] == [None] * 6
        other.socket.close()


@pytest.mark.parametrize(("path", "times"), [("/query", 1), ("/query", 2), ("/mcp", 1)])
def test_who_goes_gives_its_place_back(feeder, ledger, path, times):
    """A page that is loaded again asks the same on another connection, which on loopback is
    another client."""
    if path == "/mcp":
        pytest.importorskip("mcp", reason="muntin[agents] is not installed")
    call = {"name": "query", "arguments": {"select": heavy()}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    asked = {"select": heavy()} if path == "/query" else call
    with (
        Server(ledger, port=0, limits=FOR_EVER, agents=path == "/mcp") as server,
        socket.create_connection(("127.0.0.1", httpx.URL(server.url).port)) as client,
    ):
        body = json.dumps(asked)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/json\r\nAccept: application/json\r\n\r\n"
        client.sendall((head + body).encode())
        until(lambda: busy(server))
        client.sendall((times - 1) * (head + body).encode())
        client.close()
        # between the two none is at work
        until(lambda: not busy(server) and not server.app.state.statements._unanswered)
        answer = httpx.post(f"{server.url}/query", json={"select": "SELECT 1"}, timeout=60)
        assert answer.status_code == 200


def test_who_goes_before_it_has_begun_gives_its_place_back(ledger):
    async def go():
        statements = Statements(Reader(ledger), ServerLimits())
        job = statements._job(("", None), Question("sql", {}, 0), "somebody")
        statements._unwanted(job, "somebody", ends=True)
        await asyncio.wait((job.running,))
        await asyncio.sleep(0)
        assert not statements.turns._running
        statements.close()

    asyncio.run(go())


def test_what_is_pushed_is_bounded_before_it_is_made(feeder, ledger):
    with serving(ledger) as (server, _):
        live = Live(server)
        live.subscribe(select=large(2_000_000))
        told = live.hear("result")
        assert told["error"]["code"] in ("too_large", "limit")
        live.socket.close()


def test_a_long_answer_is_whole_and_in_a_file(feeder, ledger):
    with serving(ledger) as (server, http):
        with http.stream(
            "POST",
            "/query",
            content=large(300_000),
            headers={"content-type": "text/plain", "accept": ARROW},
        ) as response:
            assert int(response.headers["content-length"]) > 4 * PIECE_BYTES
            data = b"".join(response.iter_bytes())
        assert pa.ipc.open_stream(data).read_all().num_rows == 300_000
        until(lambda: not server.app.state.statements.unread)


def test_who_does_not_read_an_answer_is_cut(feeder, ledger, clock):
    with serving(ledger) as (server, _):
        host, port = server.url.removeprefix("http://").split(":")
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect((host, int(port)))
        body = large(300_000).encode()
        made.sendall(
            f"POST /query HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: text/plain\r\n"
            f"Accept: {ARROW}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        statements = server.app.state.statements
        until(lambda: statements.unread)

        def is_cut():
            clock.passes(ServerLimits().write_stall_seconds + 1)
            return not statements.unread

        until(is_cut)
        made.settimeout(PATIENCE_SECONDS)
        read = 0
        with contextlib.suppress(ConnectionResetError):
            while some := made.recv(1 << 16):
                read += len(some)
        assert read < 2 << 20  # of more than 4
        made.close()


def test_who_reads_a_little_now_and_then_is_cut():
    """Each wait is short enough, and all of them are too long for what was sent."""

    async def reads():
        pace = Pace(ServerLimits(write_stall_seconds=0.5))
        for _ in range(10):
            async with pace.waiting():
                await asyncio.sleep(0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(reads())


def test_unread_answers_are_bounded_in_number(feeder, ledger):
    limits = ServerLimits(answers_unread_max=0)
    with serving(ledger, limits) as (_, http):
        refused = ask(http, "SELECT count FROM orders")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"


def test_one_client_has_so_many_waiting(feeder, ledger):
    limits = ServerLimits(statements_of_client_max=0)
    with serving(ledger, limits) as (_, http):
        assert ask(http, "SELECT count FROM orders").status_code == 503


def test_no_process_outlives_a_server_that_is_killed(feeder, ledger):
    """Also not one that computes, and would hear of it only at its end."""
    muntin = str(Path(sys.executable).with_name("muntin"))
    command = [muntin, "serve", "--port", "0", "--ledger", ledger.url]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        url = process.stdout.readline().decode().split()[-1]
        there = psutil.Process(process.pid)
        until(lambda: len(there.children(recursive=True)) >= 3)
        asking = threading.Thread(target=_asked_in_vain, args=(url,), daemon=True)
        asking.start()
        until(lambda: any(c.cpu_times().user > 1.0 for c in there.children(recursive=True)[1:]))
        children = there.children(recursive=True)
        process.kill()
        psutil.wait_procs(children, timeout=PATIENCE_SECONDS)
        assert not [c for c in children if c.is_running() and c.status() != psutil.STATUS_ZOMBIE]


def _asked_in_vain(url):
    with httpx.Client(base_url=url, timeout=3600) as http:
        try:
            ask(http, heavy())
        except httpx.HTTPError:
            return


def test_a_process_that_could_not_be_started_is_started_later(ledger, monkeypatch):
    def none_left(*_, **__):
        raise BlockingIOError("no process can be had now")

    fork_server = ForkServer(ledger, ServerLimits())
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", none_left)
        with pytest.raises(OSError, match="no process"):
            fork_server.begin()
    connection, pid = fork_server.begin()
    assert pid
    connection.close()
    fork_server.close()


def test_who_would_ask_a_process_that_died_at_its_start_hears_so(ledger, monkeypatch):
    died = subprocess.Popen([sys.executable, "-c", ""])

    def begin(_):
        ours, theirs = socket.socketpair()
        theirs.close()
        return ours, died.pid

    monkeypatch.setattr(ForkServer, "begin", begin)
    with serving(ledger) as (_, http):
        answer = ask(http, "SELECT sum(count) FROM orders(driver) FOR ALL")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
    died.wait()


def test_a_server_that_ends_does_not_wait_for_kernels(ledger):
    fork_server = ForkServer(ledger, ServerLimits())
    fork_server.begin()[0].close()

    with fork_server._process as compiling:
        os.kill(compiling.pid, signal.SIGSTOP)  # it takes as long as it takes
        warming = fork_server.thread.submit(fork_server.warm)
        until(warming.running)
        closing = threading.Thread(target=fork_server.close)
        closing.start()
        closing.join(PATIENCE_SECONDS)
        ended = not closing.is_alive()
        compiling.kill()
    closing.join()
    assert ended
    assert isinstance(warming.exception(), OSError)


def test_who_goes_while_kernels_are_compiled_holds_up_nobody(ledger, monkeypatch):
    """The loop's own threads, of which there are few on a small machine, read answers."""
    compiling, compiled = threading.Event(), threading.Event()

    def warm(_):
        compiling.set()
        return compiled.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(ForkServer, "warm", warm)

    async def go():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        statements = Statements(Reader(ledger), ServerLimits())
        statements.start()
        try:
            worker = await statements.runner._free[0]
            while not compiling.is_set():
                await asyncio.sleep(0.01)
            worker.end(LedgerError("its client has gone"))
            async with asyncio.timeout(PATIENCE_SECONDS / 2):
                return await asyncio.to_thread(int)
        finally:
            compiled.set()
            statements.close()

    assert asyncio.run(go()) == 0


def test_no_process_outlives_a_server_that_goes_before_it_hears_of_it(feeder, ledger):
    fork_server = ForkServer(ledger, ServerLimits())
    assert fork_server.warm() == 1
    begun, _ = fork_server.begin()
    assert psutil.Process(fork_server._process.pid).num_threads() == 1
    other, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(fork_server._control, [BEGIN], [theirs.fileno()])
        fork_server._control.close()
    for connection in (begun, other):
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            assert connection.recv(1) == b""
    assert fork_server._process.wait(PATIENCE_SECONDS) == 0


def test_nothing_is_left_after_a_server_that_ends(feeder, ledger):
    with serving(ledger, FOR_EVER) as (server, _):
        asking = Asking(server, heavy())
        until(lambda: any(worker.busy for worker in workers_of(server)))
        runner = server.app.state.statements.runner
        pids = [worker.pid for worker in workers_of(server)] + [runner._fork_server._process.pid]
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert until(lambda: asking.answer) is not None
