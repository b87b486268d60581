"""`muntin.connect`."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import socket
import threading
import time
from decimal import Decimal

import pyarrow as pa
import pytest
from websockets.sync import client as sockets
from websockets.sync.server import serve

import muntin
from muntin.client import Backoff, ServerError, subscription
from muntin.client.answers import update_of
from muntin.errors import BadArgument, LedgerError, SelectError
from muntin.select.result import Result
from muntin.server import messages
from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from muntin.times import instant_text, instant_us
from tests.docs_samples import sample_of
from tests.server.conftest import PATIENCE_SECONDS, server_that_comes_back, until
from tests.server.proxy import under_a_path

SELECT = "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver"


@pytest.fixture
def remote(server):
    with muntin.connect(server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


def test_answers_are_those_of_a_session(remote, ledger):
    there, here = remote.sql(SELECT), muntin.open(ledger).sql(SELECT)
    assert there.table == here.table
    assert there.particulars() == here.particulars()
    assert "orders" in str(there)
    assert there.seconds > 0
    assert there.footer().endswith(" ms")


def test_behind_a_proxy_that_puts_a_path_before_it(server, feeder):
    with under_a_path(server.url) as url, muntin.connect(url, timeout=PATIENCE_SECONDS) as client:
        assert len(client.sql(SELECT)) == 5
        with client.subscribe(query="busiest", on="window") as updates:
            feeder.minute()
            assert next(iter(updates)).result is not None


def test_errors_point_at_the_place(remote):
    with pytest.raises(SelectError) as wrong:
        remote.sql("SELECT drivr FROM orders(driver)")
    assert (wrong.value.code, wrong.value.position, wrong.value.length) == ("unknown_column", 7, 5)
    with pytest.raises(SelectError):
        remote.subscribe("SELECT drivr FROM orders(driver)")
    with pytest.raises(SelectError, match="the statement is empty"):
        remote.sql("")


def test_what_is_no_fault_of_the_statement_does_not_point_at_it(remote):
    with pytest.raises(ServerError, match="there is nothing at '/elsewhere/query'"):
        muntin.connect(f"{remote.url}/elsewhere").sql(SELECT)
    with pytest.raises(
        ServerError, match="the server is not called so; start the server with --host-name"
    ):
        muntin.connect(remote.url.replace("127.0.0.1", "0.0.0.0")).sql(SELECT)  # noqa: S104


@pytest.mark.parametrize("statement", [5, b"SELECT 1"])
def test_a_statement_is_text(remote, statement):
    for ask in (remote.sql, remote.subscribe):
        with pytest.raises(SelectError, match="a statement is text, not"):
            ask(statement)


def test_names_windows_state_commands(remote):
    assert remote.summaries()["summaries"][0]["name"] == "orders"
    assert remote.windows("orders")[0]["reason"] == "full"
    assert remote.state()["pipelines"][0]["read"] == 90
    assert remote.slow_down("orders")["orders"]["done"] is True
    assert remote.resume("orders")["orders"]["done"] is True


def test_subscribe(remote, feeder):
    updates = remote.subscribe(SELECT)
    first = next(updates)
    assert first.result.rows[0] == ["a", 18]
    assert first.result.footer().endswith("exact")  # nobody waited for it
    feeder.minute()
    while next(updates).result.rows[0] != ["a", 24]:
        pass
    updates.close()


def test_the_sample_of_the_page(remote, feeder, monkeypatch):
    """server.md: it follows until it is stopped, here by what it prints of the first window."""
    text = sample_of("server.md", "server.subscribe").replace("worst", "busiest")
    said = []

    def printed(*values):
        said.append(values)
        raise KeyboardInterrupt

    names = {"server": remote, "print": printed}
    ended = threading.Thread(target=_until_stopped, args=(text, names))
    ended.start()

    def has_ended():
        feeder.minute()
        ended.join(timeout=0.2)
        return not ended.is_alive()

    until(has_ended)
    ((start, reason, result),) = said
    assert (start[:4], reason) == ("2023", "full")
    assert result.table.num_rows


def _until_stopped(text, names):
    with contextlib.suppress(KeyboardInterrupt):
        exec(compile(text, "server.md", "exec"), names)  # noqa: S102 (the documents' own)


def test_a_subscription_survives_the_server(feeder, ledger):
    server, port = server_that_comes_back(ledger)
    with server:
        updates = muntin.connect(server.url).subscribe(query="busiest", on="window")
        feeder.minute()
        starts = [next(updates).window["start"]]
    feeder.minute()  # closes while there is no server
    with Server(ledger, port=port):
        starts.append(next(updates).window["start"])
        updates.close()
    kept = [w.start for w in ledger.windows("orders")]
    first, second = (kept.index(instant_us(s)) for s in starts)
    assert second == first + 1


def followed_meanwhile(updates, number):
    """What a thread that follows hears; it waits while nobody answers."""
    heard, failed = [], []

    def follow():
        try:
            heard.extend(next(updates) for _ in range(number))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    return thread, heard, failed


@pytest.mark.parametrize("kept", [1_000, 2], ids=["all are replayed", "some are a gap"])
def test_a_subscription_waits_for_a_server_that_is_away(feeder, ledger, kept, monkeypatch):
    monkeypatch.setattr("muntin.client.subscription.RETRY_SECONDS", (0.05, 0.1))
    server, port = server_that_comes_back(ledger)
    with server:
        updates = muntin.connect(server.url).subscribe(query="busiest", on="window")
    before = len(ledger.windows("orders"))
    thread, heard, failed = followed_meanwhile(updates, 4 if kept == 1_000 else 3)
    for _ in range(4):
        feeder.minute()
    time.sleep(1.0)  # it is refused a few times
    assert not failed
    with Server(ledger, port=port, limits=ServerLimits(replay_windows_max=kept)):
        thread.join(PATIENCE_SECONDS)
        updates.close()
    assert not failed
    missed = [instant_text(window.start) for window in ledger.windows("orders")[before:]]
    assert len(missed) >= 4
    if kept == 1_000:
        assert [update.window["start"] for update in heard] == missed[:4]
    else:
        assert heard[0].gap["windows"] == len(missed) - 2
        assert heard[0].gap["start"] == missed[0]
        assert [update.window["start"] for update in heard[1:]] == missed[-2:]


def test_who_never_answered_is_told_so():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        client = muntin.connect(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(ServerError, match="does not answer"):
            client.subscribe(SELECT)
        with pytest.raises(ServerError, match="does not answer"):
            client.sql(SELECT)


@pytest.mark.parametrize(
    "url", ["http://[::1", None, 5, "h:99999", "h:port", "h:9/ä", f"{'h' * 99}:9"]
)
def test_what_is_no_server_is_told(url):
    with pytest.raises(BadArgument, match="is no server: "):
        muntin.connect(url)


def test_a_ledger_and_a_server_that_were_mistaken_for_each_other():
    with pytest.raises(BadArgument, match=r"a ledger is read by muntin\.open"):
        muntin.connect("sqlite:///orders.db")
    with pytest.raises(LedgerError, match=r"not a ledger: muntin\.connect asks it"):
        muntin.open("http://127.0.0.1:8787")
    with pytest.raises(BadArgument, match=r"not of str: muntin\.open takes its URL"):
        muntin.Session("sqlite:///orders.db")


def test_a_password_in_a_url_is_not_shown():
    for url in ("postgresql://me:sesame@host/db", "http://me:sesame@127.0.0.1:8787"):
        with pytest.raises(BadArgument, match=r"me:\*\*\*@"):
            muntin.connect(url)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("200 OK\r\nContent-Length: 100\r\n\r\nhalf", "does not answer"),
        ("200 OK\r\nContent-Type: text/html\r\n\r\n<html>", "no Muntin server: .* text/html"),
        # whither the token must not go
        ("302 Found\r\nLocation: http://elsewhere.example/\r\n\r\n", "leads to 'http://elsewhere"),
    ],
)
def test_an_answer_that_is_none_is_told_so(answer, said):
    with (
        answering(answer, b"Bearer reader-0123456789\r\n") as url,
        pytest.raises(ServerError, match=said),
    ):
        muntin.connect(url, "reader-0123456789\n").state()


WELCOME = json.dumps({"type": "welcome", "protocol": 1})
SUBSCRIBED = json.dumps({"type": "subscribed", "id": "s", "on": "update", "channel": 1})


@contextlib.contextmanager
def saying(*texts):
    """The address of a server that says this to each client, and hears it until it leaves."""

    def speak(one):
        for text in texts:
            one.send(text)
        for _ in one:
            pass

    with serve(speak, "127.0.0.1", 0) as talking:
        threading.Thread(target=talking.serve_forever).start()
        yield f"127.0.0.1:{talking.socket.getsockname()[1]}"


@pytest.mark.parametrize(
    "texts",
    [
        ["no JSON"],
        [b"\xff"],
        ["[1]"],
        ['{"a": 1}'],
        ['{"type": "error"}'],
        ['{"type": "welcome", "protocol": 2}'],
        [WELCOME, SUBSCRIBED, "[]"],
        [WELCOME, SUBSCRIBED, '{"type": "result", "result": {"columns": ["a"]}}'],
    ],
)
def test_who_speaks_something_else_over_live_is_told_so(texts):
    with saying(*texts) as url, pytest.raises(ServerError, match="is no Muntin server") as told:
        next(muntin.connect(url, timeout=PATIENCE_SECONDS).subscribe(SELECT))
    assert told.value.code == "protocol"
    assert subscription.PROTOCOL == messages.PROTOCOL


@pytest.mark.parametrize(
    ("answer", "ask"),
    [
        ("application/json\r\n\r\nhello", lambda client: client.state()),
        ("application/json\r\n\r\n[]", lambda client: client.windows()),
        ("application/json\r\n\r\n{}", lambda client: client.resume()),
        ("application/vnd.apache.arrow.stream\r\n\r\nhello", lambda client: client.sql(SELECT)),
    ],
)
def test_an_answer_of_another_server_is_told_so(answer, ask):
    with (
        answering(f"200 OK\r\nContent-Type: {answer}") as url,
        pytest.raises(ServerError, match="is no Muntin server"),
    ):
        ask(muntin.connect(url))


def test_a_refusal_that_breaks_off_and_a_page_beside_live():
    with (
        answering("500 Bad\r\nContent-Length: 99\r\n\r\nhalf") as url,
        pytest.raises(ServerError, match="does not answer"),
    ):
        muntin.connect(url).state()
    with (
        answering("302 Found\r\nLocation: http://[::1/\r\nContent-Length: 0\r\n\r\n") as url,
        pytest.raises(ServerError, match=r"does not answer|answered HTTP 302"),
    ):
        muntin.connect(url).subscribe(SELECT)


@contextlib.contextmanager
def answering(answer, expected=b""):
    """The address of a server that gives one client this, whatever it asks."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_one():
            one, _ = listening.accept()
            assert expected in one.recv(4096)
            one.sendall(f"HTTP/1.1 {answer}".encode())
            one.shutdown(socket.SHUT_WR)
            while one.recv(4096):  # else what the client still sends would break the answer off
                pass
            one.close()

        thread = threading.Thread(target=answer_one)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def test_who_closes_while_it_comes_back_is_let_go(monkeypatch):
    """The other thread connects, and would wait for ever for what nobody wants any more."""
    connect = sockets.connect
    with saying(WELCOME, SUBSCRIBED) as url:
        updates = muntin.connect(url).subscribe(SELECT)

        def closed_meanwhile(*arguments, **options):
            made = connect(*arguments, **options)
            updates.close()
            return made

        monkeypatch.setattr(sockets, "connect", closed_meanwhile)
        updates._socket.close()
        thread, heard, _ = followed_meanwhile(updates, 1)
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        assert heard == []


def test_threads_share_the_updates_of_a_subscription(remote, feeder):
    with remote.subscribe(query="busiest", on="window") as updates:
        following = [followed_meanwhile(updates, 1) for _ in range(3)]
        for _ in range(4):
            feeder.minute()
        for thread, _, failed in following:
            thread.join(PATIENCE_SECONDS)
            assert not failed
    starts = [heard[0].window["start"] for _, heard, _ in following]
    assert len(set(starts)) == 3
    assert next(updates, None) is None  # after it was closed


def test_what_ends_a_subscription_for_good_says_what_it_is(feeder, ledger, monkeypatch):
    """After a restart the token is another: it is not just a connection that was lost."""
    monkeypatch.setattr("muntin.client.subscription.RETRY_SECONDS", (0.05,))
    server, port = server_that_comes_back(ledger)
    with server:
        updates = muntin.connect(server.url).subscribe(SELECT)
        next(updates)
    token = "another-0123456789"  # noqa: S105
    with Server(ledger, port=port, reader_token=token), pytest.raises(ServerError) as refused:
        for _ in updates:
            pass
    assert refused.value.code == "token"
    assert "lost" not in str(refused.value)


@pytest.mark.parametrize("seconds", [0, -1, "x", float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(seconds):
    with pytest.raises(BadArgument, match="timeout="):
        muntin.connect("127.0.0.1:9", timeout=seconds)


def test_clients_do_not_come_back_at_once():
    def pauses():
        backoff = Backoff()
        return [backoff.pause() for _ in range(6)]

    many = [pauses() for _ in range(200)]
    for limit, at_once in zip((1.0, 2.0, 4.0, 5.0, 5.0, 5.0), zip(*many, strict=True), strict=True):
        assert 0 <= min(at_once) < 0.1 * limit
        assert 0.9 * limit < max(at_once) <= limit
    backoff = Backoff()
    for _ in range(9):
        backoff.pause()
    backoff.reset()
    assert max(backoff.pause() for _ in range(1)) <= 1.0


def test_refusals(server):
    with pytest.raises(BadArgument, match="https"):
        muntin.connect("http://muntin.example", token="reader-0123456789")  # noqa: S106
    muntin.connect("http://127.0.0.2:9", token="reader-0123456789").close()  # noqa: S106
    with pytest.raises(BadArgument, match="no server"):
        muntin.connect("ftp://x")
    with pytest.raises(BadArgument, match="no text"):
        muntin.connect(server.url, token=5)
    with pytest.raises(BadArgument, match="line break"):
        muntin.connect(server.url, token="reader\n0123456789")  # noqa: S106
    with pytest.raises(ServerError, match="is it running"):
        muntin.connect("http://127.0.0.1:9").sql("SELECT 1")
    with pytest.raises(ServerError, match="'here' is no place to go on from"):
        muntin.connect(server.url).subscribe(SELECT, after="here")
    with pytest.raises(BadArgument, match="query=NAME"):
        muntin.connect(server.url).subscribe()


def test_what_is_pushed_has_the_types_of_what_is_asked():
    """Also where there are no rows, and integers past 64 bits."""
    at = dt.datetime(2026, 1, 31, 10, 0, 0, 1, dt.UTC)
    columns = {
        "sum": pa.array([Decimal(2**70), None], pa.decimal128(38, 0)),
        "at": pa.array([at, None], pa.timestamp("us", "UTC")),
        "day": pa.array([at.date(), None]),
        "time": pa.array([at.time(), None], pa.time64("us")),
        "length": pa.array([dt.timedelta(-1, 3, 4), None], pa.duration("us")),
        "months": pa.array([pa.MonthDayNano([1, -2, 3_000]), None]),
        "small": pa.array([2**8 - 1, None], pa.uint8()),
        "large": pa.array([2**64 - 1, None], pa.uint64()),
        "whole": pa.array([5.0, None]),
        "text": pa.array(["", None]),
        "none": pa.nulls(2),
    }
    for table in (pa.table(columns), pa.table(columns).slice(0, 0)):
        result = Result(table, (), None, 0, True, {}, (), 0, False, 0.0)
        pushed = {"type": "result", "result": json.loads(result.to_json())}
        found = update_of(pushed).result
        assert found.table.equals(table)
        assert found.to_json() == result.to_json()
