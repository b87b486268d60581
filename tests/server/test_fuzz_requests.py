"""Random requests and messages at a real server: never a 500, never a word in the log."""

from __future__ import annotations

import json
import logging
import random
import re
import socket
import time

import httpx
import pytest

from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from tests.server.conftest import Feeder
from tests.server.test_fuzz import MESSAGES, PING, PONG, TEXT, framed, heard_of
from tests.server.test_hostile import upgraded

METHODS = [
    *["GET"] * 12, *["POST"] * 12, "HEAD", "PUT", "OPTIONS", "DELETE", "TRACE", "get", "X",
]  # fmt: skip
PATHS = ["/", "/query", "/commands", "/ticket", "/windows", "/summaries", "/rejected", "/state",
         "/metrics", "/healthz", "/openapi.json", "/events", "/live", "/panels",
         "/static/muntin.js", "/static/../http.py", "/static/%2e%2e/http.py", "/static/%00",
         "/static", "/static/" + "a/" * 500, "//", "*", "http://evil.example/query"]  # fmt: skip
PARAMETERS = ["select", "query", "windows", "state", "on", "after", "limit", "start", "end",
              "summary", "newest_first", "pipeline", "x"]  # fmt: skip
VALUES = ["", "true", "false", "1", "-1", "0", "9" * 30, "orders", "none", "busiest", "window",
          "update", "SELECT%201", "SELECT+count+FROM+orders", "%00", "%ED%A0%80", "%FF", "%",
          "2023-11-14T22:13:20Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00%2B14:00",
          "999999999999999999.a.9999999999999999999.1", "nan", "1e400", "a" * 300]  # fmt: skip
HEADERS = {
    "Host": ["127.0.0.1", "localhost:1", "evil.example", "", "[::1]", "[", "a:b:c", "\xff"],
    "Origin": ["null", "http://evil.example", "file://", "http://[", "\xff", "http://127.0.0.1"],
    "Sec-Fetch-Site": ["cross-site", "same-origin", "none", "x", "\xe9"],
    "Authorization": ["Bearer x", "Bearer ", "Basic eDp5", "Bearer \xff\xfe", "x"],
    "Content-Type": ["application/json", "text/plain", "application/json; charset=x", "\xff", ""],
    "Accept": ["application/vnd.apache.arrow.stream", "*/*", "\xff"],
    "Accept-Encoding": ["gzip", "\xff"],
    "Content-Length": ["0", "5", "-1", "99999999999", "1, 2", "x"],
    "Transfer-Encoding": ["chunked", "gzip", "chunked, chunked"],
    "Connection": ["close", "upgrade", "keep-alive, upgrade", "\xff"],
    "Upgrade": ["websocket", "h2c", "\xff"],
    "Sec-WebSocket-Key": ["dGhlIHNhbXBsZSBub25jZQ==", "x", "\xff"],
    "Sec-WebSocket-Version": ["13", "8", "x"],
    "Sec-WebSocket-Protocol": ["a, b", "", "\xff"],
    "Sec-WebSocket-Extensions": ["permessage-deflate; x", "\xff"],
    "Expect": ["100-continue", "x"],
    "Last-Event-ID": ["0", "1.orders.2.3", "x", "\xff"],
    "Range": ["bytes=0-1", "bytes=5-1", "bytes=-", "x", "bytes=" + "0-1," * 200],
    "If-None-Match": ["*", '"x"', "\xff"],
    "If-Modified-Since": ["Thu, 01 Jan 1970 00:00:00 GMT", "x", "\xff"],
    "Cookie": ["a=b; c", "\xff"],
}
BODIES = [
    b"", b"SELECT 1", b"{", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 60_000, b"9" * 5_000,
    b'{"select":"SELECT 1"}', b'{"select":"SELECT 1","select":"SELECT 2"}', b'{"select":1}',
    b'{"select":"SELECT \'\\ud800\'"}', b'{"select":"\\u0000"}', b'{"select":NaN}',
    b'{"select":"SELECT count FROM orders FOR ALL"}', b'{"\\ud800":1}',
    b'{"select":"' + b"x" * 5_000,
    b'{"action":"resume","summary":"none"}', b'{"action":"x"}', b'{"action":["resume"]}',
    b'{"action":"resume","summary":"\\ud800"}', b'{"action":"slow_down","pipeline":1e999}',
    b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"x" * 70_000,
]  # fmt: skip
ODD = ["\ud800", "\udfff", "\x00", "\x7f", "é", "𝄞", "\ufeff", "'", '"', "\\", "{", "\n"]


@pytest.fixture(scope="module")
def served():
    ledger = temporary()
    feeder = Feeder(ledger)
    feeder.minute()
    said = []
    listening = logging.Handler(logging.WARNING)
    listening.emit = lambda record: said.append(logging.Formatter().format(record))
    loggers = [logging.getLogger(name) for name in ("asyncio", "muntin", "uvicorn.error")]
    with Server(ledger, port=0) as server:
        for logger in loggers:
            logger.addHandler(listening)
        yield server, said
        for logger in loggers:
            logger.removeHandler(listening)
    feeder.close()


def request_of(rng):
    """One request as bytes: nearly right, in a few places not."""
    target = rng.choice(PATHS)
    if rng.random() < 0.6:
        given = [f"{rng.choice(PARAMETERS)}={rng.choice(VALUES)}" for _ in range(rng.randrange(4))]
        target += "?" + "&".join(given)
    headers = [("Host", "127.0.0.1")] if rng.random() < 0.9 else []
    names = rng.sample(sorted(HEADERS), rng.randrange(5))
    headers += [(name, rng.choice(HEADERS[name])) for name in names]
    body = rng.choice(BODIES) if rng.random() < 0.5 else b""
    if body and rng.random() < 0.8:
        headers.append(("Content-Length", str(len(body))))
    if rng.random() < 0.4:
        headers.append(("Content-Type", "application/json"))
    rng.shuffle(headers)
    head = f"{rng.choice(METHODS)} {target} HTTP/1.{rng.choice('1110')}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers)
    data = head.encode("latin-1") + b"\r\n" + body
    if rng.random() < 0.1:  # a byte is another
        place = rng.randrange(len(data))
        data = data[:place] + bytes((rng.randrange(256),)) + data[place + 1 :]
    return data


def statuses(server, data):
    """Of the answers to one connection's bytes."""
    host, port = server.url.removeprefix("http://").split(":")
    heard = b""
    with socket.create_connection((host, int(port)), timeout=0.3) as made:
        try:
            made.sendall(data)
            while b"\r\n\r\n" not in heard and (more := made.recv(1 << 16)):
                heard += more
        except (TimeoutError, ConnectionError):
            pass
    return [int(found) for found in re.findall(rb"(?:^|\n)HTTP/1\.1 ([0-9]{3}) ", heard)]


def is_answered(served, number, seed):
    server, said = served
    rng = random.Random(seed)
    for _ in range(number):
        data = b"".join(request_of(rng) for _ in range(rng.choice((1, 1, 1, 2, 5))))
        for status in statuses(server, data):
            assert status < 500 or status in (501, 503, 504), (status, data[:300])
        assert not said, (said, data[:300])
    assert httpx.get(server.url + "/healthz").status_code == 200


def test_requests_are_answered_or_refused(served):
    is_answered(served, 400, seed=7)


@pytest.mark.slow
def test_very_many_requests_are_answered_or_refused(served):
    is_answered(served, 20_000, seed=time.time_ns())


def message_of(rng):
    """A message that is nearly right, as bytes."""
    text = json.dumps(rng.choice(MESSAGES))
    for _ in range(rng.randrange(4)):
        place = rng.randrange(len(text))
        odd = rng.choice(
            (json.dumps(rng.choice(ODD))[1:-1], rng.choice('{}[]":,0e-'), "NaN", "1e999")
        )
        text = text[:place] + odd + text[place + rng.randrange(3) :]
    if rng.random() < 0.2:
        text = text.replace("{", rng.choice(('{"id":"b",', '{"x":{"a":1,"a":2},')), 1)
    return text.encode("utf-8", "surrogatepass")


def is_conversed(served, number, seed):
    server, said = served
    rng = random.Random(seed)
    for _ in range(number):
        made = upgraded(server)
        sent = [framed(0x80 | TEXT, message_of(rng)) for _ in range(30)]
        try:
            made.sendall(b"".join(sent) + framed(0x80 | PING, b"still there"))
            made.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        heard = heard_of(made)
        made.close()
        assert any(opcode != PONG for opcode, _ in heard)
        for opcode, payload in heard:
            if opcode == TEXT:
                assert json.loads(payload).get("code") != "internal", payload
        assert not said, said
    assert httpx.get(server.url + "/healthz").status_code == 200


def test_messages_are_answered_or_closed(served):
    is_conversed(served, 60, seed=7)  # 1,800 messages


@pytest.mark.slow
def test_very_many_messages_are_answered_or_closed(served):
    is_conversed(served, 1_000, seed=time.time_ns())
