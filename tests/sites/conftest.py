"""A coordinator in a thread, and peers that say what they like."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from muntin.sites import CoordinatorServer
from muntin.sites import protocol as p
from tests.sites.stream import TOKENS, coordinator, pipeline


def until(condition, seconds=30.0):
    """Wait for a condition to hold; what it returned."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A coordinator whose sites have tokens."""
    sites = {name: {"token": token} for name, token in TOKENS.items()}
    spec = coordinator(tmp_path_factory.mktemp("guarded"), sites=sites)
    with CoordinatorServer(spec, reader_token="", operator_token="") as server:
        yield server


@pytest.fixture
def served(tmp_path):
    """One without tokens."""
    spec = coordinator(tmp_path)
    with CoordinatorServer(spec, reader_token="", operator_token="") as server:
        yield server


def headers(token):
    return {"authorization": f"Bearer {token}"} if token else {}


@contextmanager
def peer(server, token=TOKENS["north"], **options):
    options = {"additional_headers": headers(token), "compression": None} | options
    with connect(server.address + p.PATH, max_size=None, close_timeout=2, **options) as socket:
        yield socket


@contextmanager
def welcomed(server, site="north", **options):
    """A peer that has said the right hello."""
    with peer(server, TOKENS[site], **options) as socket:
        socket.send(p.hello(pipeline(site, server.address).sites))
        p.parse_welcome(socket.recv(timeout=10))
        yield socket


def closing(socket):
    """The close code and reason that the coordinator sends."""
    try:
        while True:
            socket.recv(timeout=20)
    except ConnectionClosed as closed:
        return closed.rcvd.code, closed.rcvd.reason
