"""/live over a real socket: subscribe, windows, resume, commands, closing."""

from __future__ import annotations

import contextlib
import json
import socket as sockets
import threading

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from muntin.ledger.open import open_ledger
from muntin.server.channel import Frame
from muntin.server.feeds import Feeds
from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from muntin.server.sockets import LINGER_SECONDS
from muntin.times import instant_text
from tests.pipeline.support import pipeline
from tests.server.conftest import PATIENCE_SECONDS, Feeder, until

SELECT = "SELECT driver, count FROM orders(driver) ORDER BY driver"


class Live:
    """A client that speaks the protocol by hand."""

    def __init__(self, server, **options):
        address = "ws" + server.url[4:] + "/live"
        opening = connect(
            address,
            compression=None,
            open_timeout=PATIENCE_SECONDS,
            ping_interval=None,
            **options,
        )
        self.socket = opening.__enter__()

    def say(self, **message):
        self.socket.send(json.dumps(message))

    def hear(self, *kinds):
        while True:
            message = json.loads(self.socket.recv(timeout=PATIENCE_SECONDS))
            if not kinds or message["type"] in kinds:
                return message

    def subscribe(self, **about):
        self.say(type="subscribe", id=about.pop("id", "s"), **about)
        return self.hear("subscribed", "error")

    def closing(self):
        """The code and reason that the server closes with."""
        try:
            while True:
                self.socket.recv(timeout=PATIENCE_SECONDS)
        except ConnectionClosed as closed:
            return closed.rcvd.code, closed.rcvd.reason


@pytest.fixture
def live(server):
    client = Live(server)
    yield client
    client.socket.close()


def test_welcome(live):
    welcome = live.hear()
    assert welcome["type"] == "welcome"
    assert welcome["rights"] == ["command", "read"]


def test_a_select_moves_with_the_stream(live, feeder):
    channel = live.subscribe(select=SELECT, on="update")["channel"]
    first = live.hear("result")
    assert first["channel"] == channel
    assert first["seq"] == 1
    feeder.minute()

    def moved():
        found = live.hear("result")
        return found if found["result"]["watermark"] > first["result"]["watermark"] else None

    assert until(moved)["seq"] > 1


def test_windows_are_pushed_as_they_close(live, feeder):
    live.subscribe(select=SELECT, on="window")
    feeder.minute()
    pushed = live.hear("window")
    window = pushed["window"]
    assert window["summary"] == "orders"
    assert window["reason"] == "full"
    assert [row[1] for row in pushed["result"]["rows"]] == [6] * 5
    assert pushed["result"]["window"]["covered"] == {"start": window["start"], "end": window["end"]}


def test_a_standing_query_is_the_trend_that_the_pipeline_stored(live, feeder, server):
    live.subscribe(query="busiest")
    feeder.minute()
    pushed = live.hear("window")
    trend = httpx.post(
        server.url + "/query",
        json={"select": "SELECT driver, count FROM trend(busiest) FOR LAST '2 minutes'"},
    ).json()["rows"]
    assert pushed["result"]["rows"] == trend[-5:]


def asking(select, **more):
    """A standing query over windows of a minute, or over others of two."""
    windows = {"minutes": "1 minute", "pairs": "2 minutes"}
    summaries = {
        name: {"keys": ["driver"], "window": {"kind": "tumbling", "length": length}}
        for name, length in windows.items()
    }
    return pipeline(summaries=summaries, queries={"busiest": select}, **more)


def test_a_standing_query_that_goes_to_another_summary_is_followed_there(ledger):
    """By those who are there, and by who joins them; not by windows that it does not run on."""

    feeder = Feeder(ledger, asking("SELECT driver, count FROM minutes(driver)"))
    with Server(ledger, port=0) as server:
        live, other = Live(server), Live(server)
        live.subscribe(query="busiest")
        for _ in range(3):
            feeder.minute()
        assert live.hear("window")["window"]["summary"] == "minutes"
        feeder.ingest.reconfigure(asking("SELECT driver, count FROM pairs(driver)"))
        for _ in range(4):
            feeder.minute()
        until(lambda: live.hear("window")["window"]["summary"] == "pairs")
        other.subscribe(query="busiest")
        for _ in range(4):
            feeder.minute()
        heard = [client.hear("window")["window"]["summary"] for client in (live, other)]
        assert heard == ["pairs", "pairs"]
    feeder.close()


def test_results_of_windows_of_another_summary_are_not_pushed_as_those_of_these(ledger):
    """Some start at the same time, and have been revised more often."""

    feeder = Feeder(ledger, asking("SELECT sum(count) AS n FROM minutes", lateness="0 seconds"))
    for _ in range(4):
        feeder.minute()
    for second in (30, 90, 150, 205):
        feeder.late(second)
    feeder.ingest.reconfigure(asking("SELECT sum(count) AS n FROM pairs", lateness="0 seconds"))
    for _ in range(3):
        feeder.minute()
    with Server(ledger, port=0) as server:
        live = Live(server)
        live.subscribe(query="busiest", after="0")
        heard = [live.hear("window") for _ in ledger.windows("pairs")]
        pushed = {m["window"]["start"]: m["result"]["rows"] for m in heard}
        assert pushed == {m["window"]["start"]: [[m["window"]["events"]]] for m in heard}
        asked = {"select": "SELECT window_end, n FROM trend(busiest) FOR ALL"}
        rows = httpx.post(server.url + "/query", json=asked).json()["rows"]
        assert [m["window"]["end"] for m in heard][-2:] == [end for end, _ in rows][-2:]
        assert [m["window"]["events"] for m in heard][-2:] == [n for _, n in rows][-2:]
        live.socket.close()
    feeder.close()


def test_who_comes_while_the_server_stops_is_sent_away(server):
    """Else it holds the server up for as long as that waits, and is cut without a word."""
    server.app.state.goodbye()
    with pytest.raises(InvalidStatus) as refused:
        Live(server)
    assert refused.value.response.status_code == 503
    assert httpx.get(server.url + "/events?windows=true").status_code == 503


def test_a_late_event_is_pushed_as_a_revision(live, feeder):
    live.subscribe(windows="orders")
    feeder.late(5)
    window = live.hear("window")["window"]
    assert (window["revision"], window["late"]) == (1, 1)


def test_equal_statements_share_one_feed(live, server):
    one = live.subscribe(id="1", select=SELECT)
    two = live.subscribe(id="2", select=SELECT)
    other = Live(server)
    three = other.subscribe(select=SELECT)
    assert one["channel"] == two["channel"] == three["channel"]
    metrics = httpx.get(server.url + "/metrics").text
    assert "muntin_feeds 1.0" in metrics
    other.socket.close()
    live.socket.close()
    until(lambda: "muntin_feeds 0.0" in httpx.get(server.url + "/metrics").text)


def test_who_comes_back_gets_what_it_missed(live, server, feeder):
    live.subscribe(select=SELECT, on="window")
    feeder.minute()
    seen = live.hear("window")
    live.socket.close()
    for _ in range(12):  # more than one piece of replay
        feeder.minute()
    again = Live(server)
    again.subscribe(select=SELECT, on="window", after=seen["after"])
    missed = [again.hear("window")["window"]["start"] for _ in range(12)]
    expected = [w["start"] for w in httpx.get(server.url + "/windows").json()["windows"]]
    assert missed == expected[expected.index(seen["window"]["start"]) + 1 :]
    feeder.minute()  # and then goes on live
    assert again.hear("window")["seq"] is not None
    again.socket.close()


def test_what_was_missed_is_read_again_where_that_failed(live, server, feeder, monkeypatch):
    """Whatever failed: else a subscription would wait for ever, and nobody be told."""
    replay, failed = Feeds.replay, []

    async def fails_once(*asked):
        if not failed:
            failed.append(asked)
            raise ValueError(asked)
        return await replay(*asked)

    monkeypatch.setattr(Feeds, "replay", fails_once)
    live.subscribe(windows="orders", after="0")
    assert live.hear("window")
    assert failed


def test_who_comes_back_to_another_server_too(server, feeder, ledger):
    first = Live(server)
    first.subscribe(windows=True)
    feeder.minute()
    seen = first.hear("window")
    server.stop()
    assert first.closing()[0] in (1001, 1012)
    feeder.minute()
    with Server(ledger, port=0) as other:
        again = Live(other)
        again.subscribe(windows=True, after=seen["after"])
        assert again.hear("window")["window"]["start"] > seen["window"]["start"]
        again.socket.close()


def test_dropped_windows_are_a_gap_to_those_who_follow_their_summary(ledger):
    """They were one to the followers of all other summaries."""
    hours = {"window": {"kind": "tumbling", "length": "10 minutes"}, "keys": ["driver"]}
    summaries = {**pipeline().summaries, "hours": {"kind": "vector_matrix", **hours}}
    feeder = Feeder(ledger, pipeline(summaries=summaries, retention={"history": "8 minutes"}))
    feeder.minute()
    with Server(ledger, port=0) as server:
        first = Live(server)
        seen = first.subscribe(windows=True)["after"]
        first.socket.close()
        for _ in range(12):
            feeder.minute()
        heard = []
        for summary in ("hours", "orders"):
            back = Live(server)
            back.subscribe(windows=summary, after=seen)
            heard.append(back.hear("gap", "window")["type"])
            back.socket.close()
    feeder.close()
    assert heard == ["window", "gap"]


def test_an_older_ledger_in_the_place_of_this_one_is_a_gap_and_all_that_it_has(tmp_path):
    def made(name, minutes):
        with contextlib.closing(open_ledger(f"sqlite:///{tmp_path / name}")) as ledger:
            feeder = Feeder(ledger)
            for _ in range(minutes):
                feeder.minute()
            feeder.close()
            return [window.start for _, window in ledger.closings(0)]

    older, _ = made("older", 4), made("younger", 6)
    with (
        contextlib.closing(
            open_ledger(f"sqlite:///{tmp_path / 'younger'}", create=False)
        ) as ledger,
        Server(ledger, port=0) as server,
    ):
        stays, leaves = Live(server), Live(server)
        stays.subscribe(windows=True)
        seen = leaves.subscribe(windows=True)["after"]
        leaves.socket.close()
        (tmp_path / "older").replace(tmp_path / "younger")
        assert stays.hear("gap", "window")["type"] == "gap"
        back = Live(server)
        back.subscribe(windows=True, after=seen)
        assert back.hear("gap", "window")["type"] == "gap"
        for client in (stays, back):
            heard = [client.hear("window")["window"]["start"] for _ in older]
            assert heard == [instant_text(start) for start in older]
            client.socket.close()


def test_slow_down_and_resume(live, ledger):
    live.say(type="slow_down", id="c", summary="orders")
    done = live.hear("done", "error")
    assert done["answer"]["orders"] == {"done": True, "length_us": 120_000_000}
    live.say(type="resume", id="d")
    assert live.hear("done")["answer"]["orders"]["length_us"] == 60_000_000
    assert [c.client for c in ledger.commands("orders", waiting=False)] == ["local", "local"]


def test_who_may_only_read_may_not_command(feeder, ledger):
    with Server(ledger, port=0, read_only=True) as server:
        live = Live(server)
        live.say(type="slow_down", id="c")
        assert live.hear("done", "error")["code"] == "forbidden"
        live.socket.close()


def test_nobody_answers_a_command(live, feeder, ledger):
    feeder.close()
    with Server(ledger, port=0, limits=ServerLimits(command_seconds=0.2)) as server:
        live = Live(server)
        live.say(type="slow_down", id="c")
        assert live.hear("done", "error")["code"] == "no_answer"
        live.socket.close()


def test_windows_that_never_close_are_not_followed_in_silence(ledger):
    spec = pipeline(summaries={"plain": {"keys": ["driver"]}}, queries={})
    feeder = Feeder(ledger, spec)
    feeder.minute()
    with Server(ledger, port=0) as server:
        live = Live(server)
        live.say(type="subscribe", id="w", windows="plain")
        error = live.hear("subscribed", "error")
        assert error["type"] == "error"
        assert "'plain' has no windows that close" in error["message"]
        live.socket.close()
    feeder.close()


@pytest.mark.parametrize(("message", "code"), [
    ({"type": "subscribe", "id": "x", "select": "SELECT x FROM orders"}, "unknown_column"),
    ({"type": "subscribe", "id": "x", "query": "none"}, "refused"),
    ({"type": "subscribe", "id": "x", "select": SELECT, "after": "nonsense"}, "message"),
    ({"type": "subscribe", "id": "x"}, "message"),
    ({"type": "subscribe", "id": "x", "windows": True, "on": "update"}, "message"),
    ({"type": "subscribe", "id": "x", "select": "\ud800"}, "message"),
    ({"type": "unsubscribe", "id": "x"}, "message"),
    ({"type": "slow_down", "id": "x", "summary": "none"}, "refused"),
    ({"type": "slow_down", "id": "x", "pipeline": "none"}, "refused"),
    ({"type": "nonsense", "id": "x"}, "message"),
    ({"type": "unsubscribe", "id": "x", "more": 1}, "message"),
    ({"type": "hello", "ticket": "x"}, "message"),
])  # fmt: skip
def test_wrong_messages_are_answered(live, message, code):
    live.say(**message)
    error = live.hear("error")
    assert error["code"] == code
    assert error["message"]


@pytest.mark.parametrize(("message", "code"), [
    ("{", 4000), ("[]", 4000), (b"bytes", 4000), ("[" * 50_000, 4000), ('{"type": NaN}', 4000),
    ("x" * 65_537, 1009),
])  # fmt: skip
def test_what_is_no_message_ends_the_connection(live, message, code):
    with contextlib.suppress(ConnectionClosed):  # too large: may end before all of it is sent
        live.socket.send(message)
    assert live.closing()[0] == code


def test_fragments_are_limited_together(live):
    with contextlib.suppress(ConnectionClosed):  # an empty one that ends the message follows
        live.socket.send(["x" * 1000] * 66)  # the last is too much
    assert live.closing()[0] == 1009


def test_too_many_messages(server):
    """All that comes is taken from the socket, so that a close frame waits behind nothing; and the
    server, which reads no more, is not waited for until it cuts."""
    live = Live(server, max_queue=None, close_timeout=0.1)
    with contextlib.suppress(ConnectionClosed):
        for _ in range(600):  # also where a slow machine takes a second for each sixty
            live.say(type="unsubscribe", id="x")
    assert until(lambda: live.socket.protocol.close_rcvd).code == 4029
    live.socket.close()


def test_too_many_subscriptions(feeder, ledger):
    with Server(ledger, port=0, limits=ServerLimits(subscriptions_max=2)) as server:
        client = Live(server)
        answers = [client.subscribe(id=str(n), select=SELECT)["type"] for n in range(3)]
        assert answers == ["subscribed", "subscribed", "error"]
        client.socket.close()


def never_reads(server):
    """A client that follows much."""
    wide = "SELECT *, '" + "x" * 900 + "' AS pad FROM orders(driver, area)"
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    stuck = Live(server, sock=raw, max_queue=1)
    with contextlib.suppress(ConnectionClosed):  # it may be cut by now, where a limit is short
        for number in range(20):
            stuck.say(type="subscribe", id=str(number), select=wide + " -- " + str(number))
    return stuck


@pytest.mark.parametrize("behind", [False, True])
def test_who_sends_no_pong_is_told_whether_it_is_slow(feeder, ledger, behind):
    """What is not read holds a pong up: it may be later than the limit for what is not read."""
    with Server(ledger, port=0, limits=ServerLimits(write_stall_seconds=3600.0)) as server:
        client_side = never_reads(server) if behind else Live(server)
        hub = server.app.state.hub
        (client,) = until(lambda: tuple(hub.clients))

        def stalled():
            feeder.minute(15)
            return client._socket.unread

        if behind:
            until(stalled)
        client._socket.loop.call_soon_threadsafe(client._socket.keepalive_timeout)
        assert until(lambda: list(hub.closings)) == [4008 if behind else 1011]
        client_side.socket.socket.close()


def test_a_client_that_never_reads_is_closed_and_costs_little(feeder, ledger):
    limits = ServerLimits(write_stall_seconds=0.5)
    with Server(ledger, port=0, limits=limits) as server:
        stuck = never_reads(server)
        good = Live(server)
        good.subscribe(windows=True)
        heard = []

        def read():
            with contextlib.suppress(ConnectionClosed):
                pushed = (json.loads(text) for text in good.socket)
                heard.extend(m["window"]["start"] for m in pushed if m["type"] == "window")

        threading.Thread(target=read, daemon=True).start()
        hub = server.app.state.hub

        def closed():
            feeder.minute(15)
            return hub.closings[4008]

        before = len(ledger.windows(limit=100_000))
        until(closed)
        assert hub.closings[4008] == 1
        stuck.socket.socket.close()
        closed_windows = [instant_text(w.start) for w in ledger.windows(limit=100_000)][before:]
        until(lambda: heard == closed_windows)  # the good one has missed none


def test_who_reads_on_after_it_was_cut_finds_the_code(feeder, ledger, clock):
    """It answers the pings that stand before the code, which must not reset the connection."""
    limits = ServerLimits(pong_seconds=3600.0, close_seconds=1800.0)
    with Server(ledger, port=0, limits=limits) as server:
        stuck = never_reads(server)
        hub = server.app.state.hub
        (client,) = until(lambda: tuple(hub.clients))
        connection = client._socket

        def stalled():
            feeder.minute(15)
            return connection.unread

        def is_cut():
            feeder.minute(15)
            clock.passes(limits.write_stall_seconds / 2)
            return hub.closings

        until(stalled)
        connection.loop.call_soon_threadsafe(connection.send_keepalive_ping)
        until(lambda: connection.pong_timer)
        until(is_cut)
        until(lambda: not connection.unread)
        clock.passes(limits.close_seconds + 1)
        until(lambda: connection.close_timer.when() > clock.now() + LINGER_SECONDS / 2)
        code, reason = stuck.closing()
        until(lambda: connection.disconnected)  # as soon as it has answered
    assert code == 4008
    assert reason.startswith("nothing read for")


@pytest.mark.parametrize("waiting", [1, 5_000, 33_000, 100_000])
def test_the_code_reaches_the_kernel_however_little_waits(ledger, clock, waiting):
    limits = ServerLimits(write_stall_seconds=3600.0, pong_seconds=3600.0)
    with Server(ledger, port=0, limits=limits) as server:
        stuck = never_reads(server)
        (client,) = until(lambda: tuple(server.app.state.hub.clients))
        connection = client._socket
        pad = Frame(json.dumps({"type": "pad", "pad": "x" * 1000}))

        def fill_and_end():
            while connection.transport.get_write_buffer_size() < waiting:
                connection.push(pad)
            connection.end(4008, "nothing read")

        connected = connection.transport.get_extra_info("socket")
        connection.loop.call_soon_threadsafe(fill_and_end)
        until(lambda: connection.close_sent and not connection.unread)
        clock.passes(limits.close_seconds + 1)
        until(lambda: connection.close_timer.when() > clock.now() + LINGER_SECONDS / 2)
        clock.passes(LINGER_SECONDS)
        until(lambda: connected.fileno() < 0)
        assert stuck.closing() == (4008, "nothing read")


def test_foreign_pages_are_refused(server):
    for origin in ("https://evil.example", "null"):
        with pytest.raises(InvalidStatus) as refused:
            Live(server, origin=origin)
        assert refused.value.response.status_code == 403
    Live(server, origin=server.url).socket.close()


def test_tickets(feeder, ledger):
    token = "reader-0123456789"  # noqa: S105
    bearer = {"authorization": f"Bearer {token}"}
    with Server(ledger, port=0, reader_token=token) as server:
        with pytest.raises(InvalidStatus) as refused:
            Live(server)
        assert refused.value.response.status_code == 401
        with pytest.raises(InvalidStatus) as refused:
            Live(server, additional_headers={"authorization": "Bearer wrong-0123456789"})
        assert refused.value.response.status_code == 401
        Live(server, additional_headers=bearer).socket.close()
        ticket = httpx.post(server.url + "/ticket", headers=bearer).json()["ticket"]
        page = Live(server, origin=server.url)
        page.say(type="hello", ticket=ticket)
        assert page.hear()["rights"] == ["read"]
        page.socket.close()
        replayed = Live(server, origin=server.url)
        replayed.say(type="hello", ticket=ticket)
        assert replayed.closing()[0] == 4001
        without = Live(server, origin=server.url)
        without.say(type="subscribe", id="x", select=SELECT)
        assert without.closing()[0] == 4001


def test_who_never_says_hello_is_closed(feeder, ledger, clock):
    with Server(ledger, port=0, reader_token="reader-0123456789") as server:  # noqa: S106
        silent = Live(server, origin=server.url)
        until(lambda: server.app.state.hub.clients)
        clock.passes(ServerLimits().handshake_seconds + 1)
        assert silent.closing()[0] == 4001


def test_too_many_clients(feeder, ledger):
    with Server(ledger, port=0, limits=ServerLimits(clients_max=1)) as server:
        first = Live(server)
        with pytest.raises(InvalidStatus) as refused:
            Live(server)
        assert refused.value.response.status_code == 503
        first.socket.close()


def test_state_is_pushed_also_when_nothing_happens(live):
    live.subscribe(state=True)
    one, two = live.hear("state"), live.hear("state")
    assert two["seq"] == one["seq"] + 1
    assert one["state"]["pipelines"][0]["read"] == 90
