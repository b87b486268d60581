"""Random frames at a real server: answered, or closed with a code; and it goes on serving."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import struct
from itertools import pairwise

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from tests.server.conftest import Feeder
from tests.server.test_hostile import upgraded

NEVER_SENT = {1004, 1005, 1006, 1015}  # RFC 6455, 7.4: codes that stand in no frame
TEXT, PING, PONG, CLOSE = 1, 9, 10, 8
MASK = bytes((1, 2, 3, 4))
MESSAGES = [
    {"type": "subscribe", "id": "a", "select": "SELECT driver, count FROM orders(driver)"},
    {"type": "subscribe", "id": "b", "windows": True, "after": "0"},
    {"type": "subscribe", "id": "c", "query": "busiest"},
    {"type": "subscribe", "id": "a", "select": "SELECT", "on": "window"},
    {"type": "unsubscribe", "id": "a"},
    {"type": "resume", "id": "r", "summary": "none"},
    {"type": "hello", "ticket": "x"},
]


def framed(first, payload, announced=None):
    """A masked frame; `announced` is the size that its head tells, where that is not the truth."""
    size = len(payload) if announced is None else announced
    if size < 126:
        head = bytes((first, 0x80 | size))
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, 0xFE, size)
    else:
        head = struct.pack("!BBQ", first, 0xFF, size)
    return head + MASK + bytes(byte ^ MASK[i % 4] for i, byte in enumerate(payload))


payloads = st.one_of(
    st.sampled_from(MESSAGES).map(lambda message: json.dumps(message).encode()),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=200),
    st.integers(1, 70_000).map(lambda size: b"[" * size),
)
frames = st.one_of(
    payloads.map(lambda payload: framed(0x80 | TEXT, payload)),
    st.builds(framed, st.integers(0, 255), payloads),
    st.builds(framed, st.integers(0, 255), st.binary(max_size=20), st.integers(0, 2**63)),
    st.binary(max_size=60),
)


def frames_of(data):
    """(opcode, payload) of what the server sent; a last one may be cut."""
    while len(data) >= 2:
        assert data[0] & 0x70 == 0
        assert data[1] & 0x80 == 0  # servers do not mask
        size, at = data[1] & 0x7F, 2
        if size == 126:
            size, at = struct.unpack("!H", data[2:4])[0], 4
        elif size == 127:
            size, at = struct.unpack("!Q", data[2:10])[0], 10
        if len(data) < at + size:
            return
        yield data[0] & 0x0F, data[at : at + size]
        data = data[at + size :]


def heard_of(made):
    """All that the server sends until it ends the connection, which it must."""
    heard = b""
    with contextlib.suppress(ConnectionResetError):
        while more := made.recv(1 << 16):
            heard += more
    return list(frames_of(heard))


@pytest.fixture(scope="module")
def served():
    ledger = temporary()
    feeder = Feeder(ledger)
    feeder.minute()
    said = []
    listening = logging.Handler(logging.WARNING)
    listening.emit = lambda record: said.append(record.getMessage())
    loggers = [logging.getLogger(name) for name in ("asyncio", "muntin", "uvicorn.error")]
    with Server(ledger, port=0) as server:
        for logger in loggers:  # now: uvicorn sets its own up as it starts
            logger.addHandler(listening)
        yield server, said
        for logger in loggers:
            logger.removeHandler(listening)
    feeder.close()


@given(st.lists(frames, min_size=1, max_size=6), st.lists(st.integers(0, 400), max_size=3))
@settings(max_examples=80)
def test_frames_are_answered_or_closed_with_a_code(served, sent, cuts):
    server, said = served
    made = upgraded(server)
    data = b"".join(sent) + framed(0x80 | PING, b"still there")
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    with contextlib.suppress(OSError):  # it may have ended by now
        for start, end in pairwise(edges):
            made.sendall(data[start:end])
        made.shutdown(socket.SHUT_WR)
    heard = heard_of(made)
    made.close()
    for opcode, payload in heard:
        assert opcode in (TEXT, PING, PONG, CLOSE)
        if opcode == TEXT:
            message = json.loads(payload)
            assert message["type"] in ("welcome", "subscribed", "unsubscribed", "result", "window",
                                       "error", "done", "gap")  # fmt: skip
            assert message["type"] != "error" or (message["code"] and message["message"])
        if opcode == CLOSE and payload:  # where the client closes without a code, so does it
            (code,) = struct.unpack("!H", payload[:2])
            assert 1000 <= code < 5000
            assert code not in NEVER_SENT
    opcodes = [opcode for opcode, _ in heard]
    if CLOSE in opcodes:  # a ping may still be answered; nothing else comes after it
        assert set(opcodes[opcodes.index(CLOSE) + 1 :]) <= {PONG}
    assert httpx.get(server.url + "/healthz").status_code == 200
    assert not said  # no traceback
