"""Sockets that do not mean well: half a handshake, a byte at a time, frames that are none."""

from __future__ import annotations

import contextlib
import os
import socket
import struct

import httpx
import pytest

from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from tests.server.conftest import PATIENCE_SECONDS

KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
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
        head += made.recv(1)
    assert head.startswith(b"HTTP/1.1 101")
    return made


def masked(payload, first=0x81):
    mask = os.urandom(4)
    size = len(payload)
    head = bytes((first, 0x80 | size)) if size < 126 else struct.pack("!BBH", first, 0xFE, size)
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


def close_code(made):
    """Of the close frame that the server sends; None where it only cuts."""
    data = b""
    while True:
        try:
            more = made.recv(4096)
        except ConnectionResetError:
            more = b""
        if not more:
            break
        data += more
    while data:
        size, at = data[1] & 0x7F, 2
        if size == 126:
            size, at = struct.unpack("!H", data[2:4])[0], 4
        if data[0] == 0x88:
            return struct.unpack("!H", data[at : at + 2])[0]
        data = data[at + size :]
    return None


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


def test_half_a_handshake_is_cut(feeder, ledger):
    with Server(ledger, port=0, limits=ServerLimits(handshake_seconds=2.0)) as server:
        waiting = [raw(server)[0] for _ in range(50)]
        for number, made in enumerate(waiting):
            made.sendall(b"" if number % 2 else b"GET /live HTTP/1.1\r\nHost: x")
        for made in waiting:  # its own limit is far longer
            with contextlib.suppress(ConnectionResetError):
                assert made.recv(100) == b""
            made.close()
        assert httpx.get(server.url + "/healthz").status_code == 200


def test_half_a_second_request_is_cut(feeder, ledger):
    limits = ServerLimits(handshake_seconds=3.0)  # also for the whole ones, which must not be cut
    with Server(ledger, port=0, limits=limits) as server:
        made, host = raw(server)
        whole = f"GET /healthz HTTP/1.1\r\n{host}\r\n".encode()
        for _ in range(2):  # whole ones are answered, however many
            made.sendall(whole)
            answer = b""
            while b'"ok"}' not in answer:
                answer += made.recv(4096)
        made.sendall(whole[:-2])
        with contextlib.suppress(ConnectionResetError):
            assert made.recv(4096) == b""
        made.close()


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


def test_many_headers(server):
    headers = {f"x-{number}": "1" for number in range(70)}
    assert httpx.get(server.url + "/state", headers=headers).status_code == 431
