"""A coordinator in a thread, and peers that say what they like."""

from __future__ import annotations

from contextlib import contextmanager

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from muntin.sites import CoordinatorServer
from muntin.sites import protocol as p
from tests.server.browser import page
from tests.server.conftest import PATIENCE_SECONDS, until
from tests.sites.stream import TOKENS, coordinator, pipeline

__all__ = ["page", "until"]


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


def get(server, path, **options):
    """What a coordinator answers, however long it takes."""
    return httpx.get(server.url + path, timeout=PATIENCE_SECONDS, **options)


def headers(token):
    return {"authorization": f"Bearer {token}"} if token else {}


@contextmanager
def peer(server, token=TOKENS["north"], **options):
    options = {
        "additional_headers": headers(token),
        "compression": None,
        "max_size": None,
        "open_timeout": PATIENCE_SECONDS,
        "close_timeout": 2,
    } | options
    with connect(server.address + p.PATH, **options) as socket:
        yield socket


@contextmanager
def welcomed(server, site="north", **options):
    """A peer that has said the right hello."""
    with peer(server, TOKENS[site], **options) as socket:
        socket.send(p.hello(pipeline(site, server.address).sites))
        p.parse_welcome(socket.recv(timeout=PATIENCE_SECONDS))
        yield socket


def closing(socket):
    """The close code and reason that the coordinator sends."""
    try:
        while True:
            socket.recv(timeout=PATIENCE_SECONDS)
    except ConnectionClosed as closed:
        return closed.rcvd.code, closed.rcvd.reason
