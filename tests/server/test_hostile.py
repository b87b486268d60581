"""Sockets that do not mean well: half a handshake, a byte at a time, frames that are none."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import time

import httpx
import pytest

from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from tests.server.conftest import PATIENCE_SECONDS, until

KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
LONG = "Content-Length: 60000\r\n"
TEXT = "POST /query HTTP/1.1\r\nHOSTContent-Type: text/plain\r\n"
UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\n" + KEY


def raw(server):
    host, port = server.url.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
    return made, f"Host: {host}:{port}\r\n"


def upgraded(server):
    made, host = raw(server)
    made.sendall(f"GET /live HTTP/1.1\r\n{host}{UPGRADE}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = made.recv(1)
        assert piece, "it was cut"
        head += piece
    assert head.startswith(b"HTTP/1.1 101")
    return made


def masked(payload, first=0x81):
    mask = os.urandom(4)
    size = len(payload)
    head = bytes((first, 0x80 | size)) if size < 126 else struct.pack("!BBH", first, 0xFE, size)
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


def close_code(made):
    """Of the close frame that the server sends, once it has cut; None where it only cuts."""
    code = sent_code(made)
    with contextlib.suppress(ConnectionResetError):
        while made.recv(4096):
            pass
    return code


def sent_code(made):
    """The same, as soon as the frame is here."""
    with contextlib.suppress(ConnectionResetError, EOFError):
        while True:
            first, size = taken(made, 2)
            size &= 0x7F
            if size == 126:
                size = struct.unpack("!H", taken(made, 2))[0]
            payload = taken(made, size)
            if first == 0x88:
                return struct.unpack("!H", payload[:2])[0]
    return None


def taken(made, size):
    data = b""
    while len(data) < size:
        more = made.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@pytest.mark.parametrize(("frame", "code"), [
    (b"\x81\x02{}", 1002),  # not masked
    (masked(b"{}", 0xF1), 1002),  # reserved bits
    (masked(b"{}", 0x83), 1002),  # reserved opcode
    (masked(b"\xff\xfe"), 1007),  # not UTF-8
    (masked(b"x" * 130, 0x89), 1002),  # a ping that is too long
    (masked(b"x", 0x80), 1002),  # goes on with nothing
    (b"\x81\xff" + struct.pack("!Q", 2**40) + b"\0\0\0\0", 1009),
    (masked(b"[]"), 4000),
], ids=range(8))  # fmt: skip
# (masks are random, and names of tests must not be)
def test_frames_that_are_none(server, frame, code):
    made = upgraded(server)
    made.sendall(frame)
    assert close_code(made) == code
    made.close()
    assert httpx.get(server.url + "/healthz").status_code == 200


def test_a_byte_at_a_time(server):
    made, host = raw(server)
    for byte in f"GET /live HTTP/1.1\r\n{host}{UPGRADE}\r\n".encode():
        made.sendall(bytes((byte,)))
    assert made.recv(4096).startswith(b"HTTP/1.1 101")
    for byte in masked(b'{"type":"nonsense"}'):
        made.sendall(bytes((byte,)))
    heard = b""
    while b"one of hello" not in heard:
        heard += made.recv(4096)
    made.close()


def test_a_head_is_bounded_also_where_it_comes_at_once(server):
    """16 KiB of request line and headers together, so that each is bounded as well."""
    for size, answer in ((16_000, 200), (16_400, 431), (20_000, 431)):
        for begin in ("/healthz HTTP/1.1\r\nX: " + "x" * size, f"/healthz?{'x' * size} HTTP/1.1"):
            made, host = raw(server)
            made.sendall(f"GET {begin}\r\n{host}\r\n".encode())
            head, body = made.recv(4096).split(b"\r\n\r\n")
            assert int(head[9:12]) == answer
            remedy = "at most 16,384 bytes of request line and headers, and 64 headers"
            assert answer == 200 or json.loads(body)["error"]["remedy"] == remedy
            made.close()


@pytest.mark.parametrize(("header", "answer"), [
    (f"X: {'x' * 9_000}", (b"431", b"400")),  # the latter by websockets 16.0
    ("Content-Length: 5", (b"400",)), ("Transfer-Encoding: chunked", (b"400",)),
])  # fmt: skip
def test_an_upgrade_that_is_none_of_websockets_is_answered_and_closed(
    feeder, ledger, caplog, header, answer
):
    with Server(ledger, port=0) as server:
        made, host = raw(server)
        made.settimeout(20)
        made.sendall(f"GET /live HTTP/1.1\r\n{host}{UPGRADE}{header}\r\n\r\n".encode())
        heard = b""
        while piece := made.recv(4096):
            heard += piece
        assert heard[9:12] in answer
        made.close()
    assert not caplog.records


def cut_in_time(made, clock):
    """Whether the server ends a connection, without a word, as time passes."""
    made.settimeout(0.05)

    def ended():
        clock.passes(ServerLimits().handshake_seconds + 1)
        try:
            return [made.recv(4096)]
        except TimeoutError:
            return None
        except ConnectionResetError:
            return [b""]

    return until(ended) == [b""]


def test_half_a_handshake_is_cut(feeder, ledger, clock):
    with Server(ledger, port=0) as server:
        waiting = [raw(server)[0] for _ in range(50)]
        for number, made in enumerate(waiting):
            made.sendall(b"" if number % 2 else b"GET /live HTTP/1.1\r\nHost: x")
        for made in waiting:
            assert cut_in_time(made, clock)
            made.close()
        assert httpx.get(server.url + "/healthz").status_code == 200


def test_half_a_second_request_is_cut(feeder, ledger, clock):
    with Server(ledger, port=0) as server:
        made, host = raw(server)
        whole = f"GET /healthz HTTP/1.1\r\n{host}\r\n".encode()
        for _ in range(2):  # whole ones are answered, however many
            made.sendall(whole)
            answer = b""
            while b'"ok"}' not in answer:
                answer += made.recv(4096)
        made.sendall(whole[:-2])
        assert cut_in_time(made, clock)
        made.close()


def body_dripped(server, head, piece, passing):
    """What the server answers to a body that comes a piece at a time, until it ends it."""
    made, host = raw(server)
    made.sendall(head.replace("HOST", host).encode() + b"\r\n")
    made.settimeout(0.05)
    answer = b""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_SECONDS:
        passing(answer)
        try:
            made.sendall(piece)
            more = made.recv(4096)
        except TimeoutError:
            continue
        except OSError:
            break
        if not more:
            break
        answer += more
    else:
        raise AssertionError("it was never cut")
    made.close()
    return answer


@pytest.mark.parametrize(("head", "piece", "status"), [
    (TEXT + LONG, b"x", 408),
    (f"{TEXT}Content-Length: 65537\r\n", b"x", 413),
    (f"{TEXT}Content-Length: {'9' * 19}\r\n", b"x", 413),
    ("POST /ticket HTTP/1.1\r\nHOST" + LONG, b"x", 200),
    ("GET /healthz HTTP/1.1\r\nHOST" + LONG, b"x", 200),
    ("POST /no HTTP/1.1\r\nHOSTTransfer-Encoding: chunked\r\n", b"1\r\nx\r\n", 404),
    ("GET /events?state=true HTTP/1.1\r\nHOST" + LONG, b"x", 200),
], ids=range(7))  # fmt: skip
def test_a_body_that_drips_is_cut(feeder, ledger, clock, head, piece, status):
    # one that is waited for is answered before the connection is cut
    limits = ServerLimits(close_seconds=3600.0) if status == 408 else ServerLimits()

    def passing(answer):
        if answer:
            clock.passes(limits.handshake_seconds + limits.close_seconds + 1)
        elif status == 408:  # the others are answered at once
            clock.passes(limits.handshake_seconds + 1)

    with Server(ledger, port=0, limits=limits) as server:
        heard = body_dripped(server, head, piece, passing)
        assert heard.startswith(b"HTTP/1.1 %d" % status)


@pytest.mark.parametrize(
    "body", [b"1\r\nx\r\n" * 5_000, (b"ffff\r\n" + b"x" * 65_535 + b"\r\n") * 5]
)
@pytest.mark.parametrize("path", ["/query", "/no"])
def test_a_flood_of_chunks_is_cut(feeder, ledger, path, body):
    """For what it holds, not for the time that it takes."""
    with Server(ledger, port=0, limits=ServerLimits(handshake_seconds=3600.0)) as server:
        made, host = raw(server)
        head = f"POST {path} HTTP/1.1\r\n{host}Content-Type: text/plain\r\n"
        answer = b""
        with contextlib.suppress(ConnectionError):
            made.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + body)
            while more := made.recv(4096):
                answer += more
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        made.close()
        assert httpx.get(server.url + "/healthz").status_code == 200


@pytest.mark.parametrize(("first", "frame", "most"), [
    (b"", masked(b"", 0x89), 2_000),  # pings
    (b"", masked(b"x" * 100, 0x8A), 2_000),  # pongs
    (masked(b"", 0x01), masked(b"", 0x00), 2_000),  # empty pieces of one message
    (masked(b"{", 0x01), masked(b" ", 0x00), 2_000),
    (b"", masked(b'{"type":"hello","ticket":"x"}'), 2_000),
    (b"", masked(b'{"type":"x"}' + b" " * 60_000), 200),  # bytes, rather than frames
], ids=["pings", "pongs", "empty", "ones", "messages", "bytes"])  # fmt: skip
def test_a_flood_is_closed(feeder, ledger, first, frame, most):
    limits = ServerLimits(messages_burst=10_000, received_bytes_burst=1 << 20)
    with Server(ledger, port=0, limits=limits) as server:
        made = upgraded(server)
        with contextlib.suppress(OSError):
            made.sendall(first + frame * most)
        # who is closed may stay for some seconds, which are waited for once, after pings
        asked = close_code if frame[0] == 0x89 else sent_code
        assert asked(made) == 4029
        made.close()
        hub = server.app.state.hub
        until(lambda: not hub.clients)  # and its subscriptions with it
        assert hub.closings[4029] == 1
        assert httpx.get(server.url + "/healthz").status_code == 200


def test_who_keeps_to_the_limits_is_not_closed(feeder, ledger):
    with Server(ledger, port=0, limits=ServerLimits(frames_per_second=1e6)) as server:
        made = upgraded(server)
        heard = b""
        for turn in range(1, 21):
            made.sendall(masked(b"", 0x89) * 100)
            while heard.count(b"\x8a\0") < 100 * turn:  # else all might come at one moment
                heard += made.recv(4096)
        made.sendall(masked(struct.pack("!H", 1000), 0x88))
        assert close_code(made) == 1000
        assert server.app.state.hub.closings[4029] == 0


@pytest.mark.parametrize("head", [
    b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 9000,
    b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
], ids=range(6))  # fmt: skip
def test_requests_that_are_none(server, head):
    made, _ = raw(server)
    made.settimeout(3)
    try:
        made.sendall(head)
        answer = made.recv(200)
    except (ConnectionError, TimeoutError):
        answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    made.close()
    assert httpx.get(server.url + "/healthz").status_code == 200


@pytest.mark.parametrize("path", ["state", "healthz", "", "static/muntin.js", "live", "nowhere"])
def test_many_headers(server, path):
    for many in (64, 63):  # and Host
        made, host = raw(server)
        made.sendall((f"GET /{path} HTTP/1.1\r\n{host}" + many * "X: 1\r\n" + "\r\n").encode())
        assert made.recv(200).startswith(b"HTTP/1.1 431") == (many == 64)
        made.close()


def test_a_body_of_two_lengths_is_refused_and_the_connection_closed(server):
    """What one takes for its end is another's next request (RFC 9112)."""
    for path in ("query", "live"):
        made, host = raw(server)
        lengths = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
        smuggled = f"GET /healthz HTTP/1.1\r\n{host}\r\n"
        made.sendall(f"POST /{path} HTTP/1.1\r\n{host}{lengths}\r\n0\r\n\r\n{smuggled}".encode())
        made.settimeout(20)
        heard = b""
        while piece := made.recv(4096):
            heard += piece
        assert heard.startswith(b"HTTP/1.1 400")
        assert heard.count(b"HTTP/1.1 ") == 1
        assert b"its body has two lengths" in heard
        made.close()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://localhost:1/summaries", 200),
        ("HTTP://[::1]/summaries?", 200),
        ("http://localhost", 200),
        ("http://localhost?a=b", 200),
        ("http://localhost/windows?a=b", 400),
        ("http://foreign.example/summaries", 403),
        ("http:///summaries", 404),
    ],
)
def test_a_target_may_be_a_whole_url_whose_host_counts(server, target, status):
    made, host = raw(server)
    made.sendall(f"GET {target} HTTP/1.1\r\n{host}\r\n".encode())
    assert made.recv(200).startswith(b"HTTP/1.1 %d" % status)
    made.close()
