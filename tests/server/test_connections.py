"""Descriptors run out for nobody: connections are counted, and refused in time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.server.connections import SPARE_MAX, Connections
from muntin.server.limits import ServerLimits, TokenBucket
from tests.server.conftest import PATIENCE_SECONDS, until
from tests.server.test_hostile import UPGRADE

resource = pytest.importorskip("resource")
CHILD = """
import json, logging, resource, sys, time
logging.basicConfig(stream=sys.stderr)
from muntin.errors import BadArgument
from muntin.ledger.temporary import temporary
from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from tests.server.conftest import Feeder
ledger = temporary()
feeder = Feeder(ledger)
feeder.minute()
try:
    server = Server(ledger, port=0, limits=ServerLimits(connections_max=500))
except BadArgument as refused:
    print(json.dumps({"refused": str(refused)}), flush=True)
    sys.exit()
with server:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    print(json.dumps({"url": server.url, "soft": soft}), flush=True)
    sys.stdin.read()
"""


def child(soft, hard):
    """A server in a process that has so many descriptors; what it says first."""
    made = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    return made, json.loads(made.stdout.readline())


class Transport:
    """Of one connection."""

    def __init__(self, host):
        self.host = host
        self.aborted = False
        self.written = b""

    def get_extra_info(self, _):
        return (self.host, 1)

    def write(self, data):
        self.written += data

    def abort(self):
        self.aborted = True


def test_more_connections_than_descriptors():
    made, said = child(512, 512)
    address = httpx.URL(said["url"])
    opened = []
    for _ in range(700):  # more than it may have open
        one = socket.create_connection((address.host, address.port))
        one.settimeout(PATIENCE_SECONDS)
        one.sendall(f"GET /live HTTP/1.1\r\nHost: {address.host}\r\n{UPGRADE}\r\n".encode())
        opened.append(one)
    heads = []
    for one in opened:
        try:
            heads.append(one.recv(13))
        except ConnectionResetError:  # refused at once
            heads.append(b"")
    let_in = heads.count(b"HTTP/1.1 101 ")
    assert 16 <= let_in <= 512 - 320
    assert heads.count(b"HTTP/1.1 503 ") + heads.count(b"") == 700 - let_in
    for _ in range(20):  # while all that were let in stay
        assert httpx.get(said["url"] + "/healthz").status_code == 200
    assert httpx.get(said["url"] + "/state").status_code == 503
    for one in opened:
        one.close()
    until(lambda: httpx.get(said["url"] + "/state").status_code == 200)
    _, log = made.communicate(timeout=PATIENCE_SECONDS)
    assert log == b""


def test_the_limit_of_descriptors_is_raised():
    made, said = child(400, 4_000)
    made.communicate(timeout=PATIENCE_SECONDS)
    assert 500 + 320 < said["soft"] < 1_000


def test_too_few_descriptors_are_refused_at_the_start():
    made, said = child(200, 200)
    made.communicate(timeout=PATIENCE_SECONDS)
    assert "ulimit -n 4096" in said["refused"]
    assert "200 files" in said["refused"]


def test_places_of_one_address():
    connections = Connections(ServerLimits(connections_max=5, connections_per_address_max=2))
    here, there, third = (Transport("10.0.0.1") for _ in range(3))
    assert connections.enter(here)
    assert connections.enter(there)
    assert not connections.enter(third)
    assert connections.enter(Transport("10.0.0.2"))
    connections.leave(third)
    connections.leave(here)
    connections.leave(here)  # HTTP and the WebSocket that it became may both say it
    assert connections.enter(Transport("10.0.0.1"))
    assert not connections.enter(Transport("10.0.0.1"))
    assert all(connections.enter(Transport("127.0.0.1")) for _ in range(2))  # loopback is not one
    assert not connections.enter(Transport("127.0.0.1"))  # all have five


def test_the_newest_gets_a_spare_place():
    connections = Connections(ServerLimits(connections_max=1))
    assert connections.enter(Transport("127.0.0.1"))
    crowd = [Transport("127.0.0.1") for _ in range(SPARE_MAX + 3)]
    for one in crowd:
        assert not connections.enter(one)
    assert [one.aborted for one in crowd] == [True] * 3 + [False] * SPARE_MAX
    assert crowd[0].written.startswith(b"HTTP/1.1 503 ")


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 8))), st.floats(0.1, 9), st.floats(0, 9))
def test_a_bucket_never_gives_more_than_it_holds(steps, rate, burst):
    bucket = TokenBucket(rate, burst, now=10.0)
    now, spent = 10.0, 0.0
    for wait, cost in steps:
        now += wait
        if bucket.spend(now, cost):
            spent += cost
        else:
            assert not bucket.spend(now - 5.0, cost)  # a clock that goes back
        assert spent <= burst + rate * (now - 10.0) + 1e-6
