"""Peers that do not mean well: each is refused with its code, and the coordinator lives on."""

from __future__ import annotations

import json
import struct
from contextlib import ExitStack, suppress
from math import inf

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from muntin.errors import SpecError
from muntin.sites import CoordinatorServer, endpoint
from muntin.sites import protocol as p
from muntin.sites.link import pause_after
from muntin.sites.session import MESSAGES_BURST
from muntin.topk import Calm, Factors, Hello, Push, Request, encode
from tests.sites.conftest import closing, get, peer, until, welcomed
from tests.sites.stream import PANE_US, SITES, TOKENS, coordinator, pipeline


@pytest.fixture(autouse=True)
def _lives_on(request):
    """After every test a good site is welcome, and people get answers."""
    yield
    if "guarded" in request.fixturenames:
        server = request.getfixturevalue("guarded")
        with welcomed(server, "south") as good:
            good.send(encode(Hello(0, 1)))
            assert get(server, "/healthz").json() == {"pipelines": {}, "status": "ok"}
            assert get(server, "/top_k").status_code == 200
        until(lambda: not server.service.sessions)


def words(**changes):
    """The right hello of north, but for some entries."""
    right = json.loads(p.hello(pipeline("north", "ws://127.0.0.1:1").sites))
    said = right | changes
    return json.dumps({name: value for name, value in said.items() if value is not ...})


@pytest.mark.parametrize("token", ["", "wrong", TOKENS["north"][:-1], TOKENS["north"] + "x"])
def test_wrong_token(guarded, token):
    with peer(guarded, token) as socket:
        assert closing(socket) == (4001, "the token is missing or wrong")


def test_token_of_another_site(guarded):
    with peer(guarded, TOKENS["south"]) as socket:
        socket.send(words())
        assert closing(socket)[0] == 4001


def test_site_that_is_not_in_the_list(guarded):
    with peer(guarded) as socket:
        socket.send(words(site="east"))
        assert closing(socket) == (4004, "there is no site 'east' in this ranking")


@pytest.mark.parametrize("of", [{}, {"summary": "global"}, {"pipeline": "global"}])
def test_a_command_to_a_coordinator(served, of):
    asked = {"action": "slow_down"} | of
    said = httpx.post(f"{served.url}/commands", json=asked, timeout=60).json()["error"]
    assert said["message"].startswith("a coordinator has no pipeline")


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, None, "3", True, [3], ...])
def test_other_protocol(guarded, protocol):
    with peer(guarded) as socket:
        socket.send(words(protocol=protocol))
        assert closing(socket)[0] == 4002


@pytest.mark.parametrize(("entry", "value"), [
    ("unit_us", 2 * PANE_US), ("window_us", PANE_US), ("summary", "other"), ("key", ["dest"]),
    ("key", "origin"), ("value", "delay"), ("scale", 100.0), ("unit_us", True), ("key", ...),
])  # fmt: skip
def test_sites_that_rank_something_else(guarded, entry, value):
    with peer(guarded) as socket:
        socket.send(words(**{entry: value}))
        code, reason = closing(socket)
    assert code == 4003
    assert reason.startswith(f"{entry}: the site says")


@pytest.mark.parametrize("first", [
    b"\x01\x01\x00\x00", "", "hello", "[]", '{"type": "hello", "protocol": NaN}', "{" * 5000,
    words(type="report"), words(site=7), words(site=""), words(more=1), '"' + "x" * 20_000 + '"',
])  # fmt: skip
def test_first_words_that_are_none(guarded, first):
    with peer(guarded) as socket:
        socket.send(first)
        assert closing(socket)[0] in (4000, 4002)


LARGE = 1 << 52


@pytest.mark.parametrize("data", [
    b"", b"\x00", b"\x01", b"\x02\xff", b"\x03\x01\x00\x00\x00", bytes(100),
    encode(Calm(0, 0, 1, 2))[:-1],
    encode(Hello(0, 1)) + b"\x00", encode(Request(1, 0, 1, ("a",))),
    encode(Factors(1, 0, 1, None, ())), encode(Hello(1 << 61, 1)),
    encode(Push(0, 0, 1, (("a", LARGE),))), encode(Push(0, 0, 1, (("a", -LARGE),))),
    "", "NaN", "{}", '{"type": "report"}',
    p.report({
        "phase": "calm", "unit": 1, "slack": 0, "objects": 1, "slides": 1, "naive_messages": 1,
        "naive_entries": 1, "naive_bytes": 1, "window_entries": 1, "window_bytes": 1, "problem": "",
    }).replace('"slack": 0', '"slack": NaN'),
    p.report({
        "phase": "asleep", "unit": 1, "slack": 0, "objects": 1, "slides": 1, "naive_messages": 1,
        "naive_entries": 1, "naive_bytes": 1, "window_entries": 1, "window_bytes": 1, "problem": "",
    }),
    p.report({
        "phase": "calm", "unit": 1, "slack": 0, "objects": 1, "slides": 1, "naive_messages": 1,
        "naive_entries": 1, "naive_bytes": 1, "window_entries": 1, "window_bytes": 1,
        "problem": "x" * 999,
    }).replace("x", "xx"),
], ids=range(20))  # fmt: skip
def test_messages_that_are_none(guarded, data):
    with welcomed(guarded) as socket:
        socket.send(data)
        assert closing(socket)[0] == 4000


def begin_frame(socket, size):
    """The head of a binary frame of so many bytes; it is refused before any of them comes."""
    socket.socket.sendall(b"\x82\xff" + struct.pack("!Q", size) + bytes(4))


def test_a_frame_too_large_before_the_welcome(guarded):
    with peer(guarded) as socket:
        begin_frame(socket, (64 << 10) + 1)
        assert closing(socket)[0] == 1009


def test_a_frame_too_large_after_it(guarded):
    with welcomed(guarded) as socket:
        begin_frame(socket, (8 << 20) + 1)
        assert closing(socket)[0] == 1009


def test_what_is_just_small_enough_is_read(guarded):
    with welcomed(guarded) as socket:
        socket.send(bytes(8 << 20))
        assert closing(socket) == (4000, "message format 0 is not 2: another Muntin?")


def test_the_same_site_twice(guarded):
    with welcomed(guarded) as first, welcomed(guarded) as second:
        assert closing(first) == (4009, "the site has connected anew")
        second.send(encode(Hello(0, 1)))
        until(lambda: guarded.service.coordinator.sites["north"].present)
        assert list(guarded.service.sessions) == ["north"]


def test_too_many_messages(guarded):
    with welcomed(guarded) as socket:
        with suppress(ConnectionClosed):  # while they are being sent
            for _ in range(100 * MESSAGES_BURST):  # how many it takes depends on how fast
                socket.send(encode(Hello(0, 1)))
        assert closing(socket)[0] == 4029


@pytest.mark.parametrize(("pause", "lasted", "following"), [
    (0.0, -inf, 0.1), (0.1, -inf, 0.2), (0.1, 0.05, 0.2), (0.1, 5.0, 0.1),
    (20.0, 5.0, 30.0), (30.0, 31.0, 0.1),
])  # fmt: skip
def test_who_is_welcomed_and_closed_at_once_comes_back_slower(pause, lasted, following):
    assert pause_after(pause, lasted) == following


def test_pages_do_not_connect(guarded):
    with pytest.raises(InvalidStatus) as refused, peer(guarded, origin="https://evil.example"):
        pass
    assert refused.value.response.status_code == 403


def test_who_says_nothing_is_closed(guarded, monkeypatch):
    monkeypatch.setattr(endpoint, "HELLO_SECONDS", 0.2)
    with peer(guarded) as socket:
        assert closing(socket) == (4000, "no hello came")


def test_too_many_connections(guarded, monkeypatch):
    monkeypatch.setattr(endpoint, "SPARE_CONNECTIONS", 1)
    with ExitStack() as stack:
        for _ in range(len(SITES) + 1):
            stack.enter_context(peer(guarded))
        with pytest.raises(InvalidStatus) as refused:
            stack.enter_context(peer(guarded))
        assert refused.value.response.status_code == 503


def test_refusals_are_counted(guarded):
    def refused():
        return get(guarded, "/sites").json()["refused"].get("4001", 0)

    before = refused()
    with peer(guarded, "wrong") as socket:
        assert closing(socket)[0] == 4001
    until(lambda: refused() > before)


def test_beyond_loopback_sites_and_readers_need_tokens(tmp_path):
    everywhere = "0.0.0.0"  # noqa: S104
    with pytest.raises(SpecError, match=r"host: 0\.0\.0\.0 .* sites have no token"):
        CoordinatorServer(coordinator(tmp_path, host=everywhere), reader_token="r" * 16)
    sites = {name: {"token": token} for name, token in TOKENS.items()}
    spec = coordinator(tmp_path, host=everywhere, sites=sites)
    with pytest.raises(ValueError, match="MUNTIN_TOKEN"):
        CoordinatorServer(spec, reader_token="", operator_token="")


def test_readers_need_the_token(tmp_path):
    with CoordinatorServer(coordinator(tmp_path), reader_token="r" * 16) as server:
        for path in ("/top_k", "/sites", "/state", "/metrics"):
            assert get(server, path).status_code == 401
            good = get(server, path, headers={"authorization": "Bearer " + "r" * 16})
            assert good.status_code == 200
