"""Server-Sent Events: the plain fallback."""

from __future__ import annotations

import json
import socket
import threading

import httpx
import pytest

from muntin.server import protocol, sse
from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from tests.server.conftest import PATIENCE_SECONDS, until


def lines(answer):
    event = {}
    for line in answer.iter_lines():
        if not line:
            if "data" in event:
                yield event
            event = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = value


def test_windows_and_coming_back(server, feeder):
    with httpx.stream("GET", server.url + "/events?windows=true") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        found = lines(answer)
        feeder.minute()
        first = next(e for e in found if '"window"' in e["data"])
    feeder.minute()
    back = {"last-event-id": first["id"]}
    with httpx.stream("GET", server.url + "/events?windows=true", headers=back) as again:
        second = next(e for e in lines(again) if '"window"' in e["data"])
    starts = [json.loads(e["data"])["window"]["start"] for e in (first, second)]
    assert starts[0] < starts[1]
    until(lambda: "muntin_streams 0.0" in httpx.get(server.url + "/metrics").text)


def test_a_statement(server):
    about = {"select": "SELECT count FROM orders FOR ALL"}
    with httpx.stream("GET", server.url + "/events", params=about) as answer:
        data = json.loads(next(lines(answer))["data"])
    assert data["result"]["rows"] == [[90]]


def test_who_reads_nothing_is_cut(feeder, ledger, clock, caplog):
    wide = "SELECT *, '" + "x" * 900 + "' AS pad FROM orders(driver, area) FOR ALL"
    with Server(ledger, port=0) as server:
        host, port = server.url.removeprefix("http://").split(":")
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect((host, int(port)))
        about = httpx.QueryParams({"select": wide})
        stuck.sendall(f"GET /events?{about} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        hub = server.app.state.hub

        def cut():
            feeder.minute(15)
            clock.passes(ServerLimits().write_stall_seconds + 1)
            return not hub.streams and hub.closings[protocol.SLOW]

        until(lambda: hub.streams)
        until(cut)
        stuck.close()
    assert not caplog.records  # or whoever likes could fill the log


def test_nothing_is_written_to_a_connection_that_is_lost(server, feeder, monkeypatch):
    """asyncio would log it, line by line: whoever likes could fill the log."""
    hub, written, event = server.app.state.hub, [], sse._event

    def lost(frame):
        written.append(frame)
        [stream] = hub.streams
        stream._stream.transport.abort()
        return event(frame)

    feeder.minute()
    monkeypatch.setattr(sse, "_event", lost)
    with pytest.raises(httpx.HTTPError):
        httpx.get(server.url + "/events?windows=true&after=0")
    until(lambda: not hub.streams)
    assert len(written) == 1


def test_the_server_ends_its_streams(feeder, ledger):
    with Server(ledger, port=0) as server:
        heard, ended = [], threading.Event()

        def listen():
            with httpx.stream("GET", server.url + "/events?state=true") as answer:
                heard.extend(lines(answer))  # a cut answer would raise
            ended.set()

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        until(lambda: heard)
        hub = server.app.state.hub
    assert ended.wait(PATIENCE_SECONDS)
    assert hub.closings[protocol.GOING_AWAY] == 1


def test_streams_count_as_clients(feeder, ledger):
    with Server(ledger, port=0, limits=ServerLimits(clients_max=1)) as server:
        with httpx.stream("GET", server.url + "/events?state=true") as answer:
            heard = answer.iter_lines()  # kept: without it the connection is closed
            next(heard)
            assert httpx.get(server.url + "/events?state=true").status_code == 503
        hub = server.app.state.hub
        until(lambda: not hub.streams)
        with httpx.stream("GET", server.url + "/events?state=true") as answer:
            assert answer.status_code == 200


@pytest.mark.parametrize("parameters", [
    {}, {"select": "SELECT"}, {"other": "x"}, {"windows": "true", "on": "update"},
    {"select": "SELECT 1", "after": "x"}, {"windows": ["orders", "none"]},
])  # fmt: skip
def test_wrong_requests(server, parameters):
    answer = httpx.get(server.url + "/events", params=parameters)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
