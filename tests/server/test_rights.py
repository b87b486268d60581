"""Rights of connections that outlive their token."""

from __future__ import annotations

import contextlib
import json

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from muntin.errors import BadArgument
from muntin.server import protocol
from muntin.server.auth import OPERATE, READ, Auth, Grant
from muntin.server.limits import ServerLimits
from muntin.server.protocol import Connection
from muntin.server.serving import Server
from tests.server.conftest import PATIENCE_SECONDS, until

READER, OPERATOR, OTHER = "reader-0123456789", "operator-0123456789", "other-0123456789"
STATE = '{"type": "subscribe", "id": "s", "state": true}'


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def closing(socket):
    """The code that the server closes with."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            socket.recv(timeout=PATIENCE_SECONDS)
    return socket.close_code


@pytest.fixture
def auth():
    return Auth(reader_token=READER, operator_token=OPERATOR, now=lambda: 0.0)


def test_who_came_in_is_known_while_the_token_is(auth):
    reader, operator = auth.grant(bearer(READER)), auth.grant(bearer(OPERATOR))
    ticket = auth.issue(reader)
    assert auth.still(reader) == reader
    auth.renew(OTHER, OPERATOR)
    assert auth.still(reader) is None
    assert auth.still(operator) == operator
    assert auth.grant(bearer(READER)) is None
    assert auth.grant(bearer(OTHER)).who == "reader"
    assert auth.redeem(ticket) is None  # it stood for the old token


def test_tokens_that_will_not_do_are_not_taken_over(auth):
    for tokens in (("", ""), ("short", OPERATOR)):
        with pytest.raises(BadArgument):
            auth.renew(*tokens)
    assert auth.grant(bearer(READER)) is not None
    with pytest.raises(BadArgument):  # nor does an open server begin to ask
        Auth(now=lambda: 0.0).renew(READER, "")


def test_everybody_stays_where_no_token_is_needed():
    auth = Auth(now=lambda: 0.0)
    assert auth.still(auth.grant({})) == auth.grant({})


def test_a_grant_does_not_show_its_key(auth):
    assert auth.grant(bearer(READER)).key.hex() not in repr(auth.grant(bearer(READER)))


def test_other_rights_end_the_connection():
    grant = Grant(OPERATE, "operator", b"k")
    for now in (None, Grant(READ, "reader", b"k")):
        connection = Connection(grant, "run", 0.0)
        assert connection.rechecked(grant) == []
        effects = connection.rechecked(now)
        assert effects[0].code == protocol.UNAUTHORISED
        assert connection.next_frame() is None
    waiting = Connection(None, "run", 0.0)  # it has no rights yet that could be lost
    assert waiting.rechecked(None) == []


def test_an_exchanged_token_ends_what_came_in_with_it(feeder, ledger):
    tokens = [(READER, OPERATOR)]
    limits = ServerLimits(recheck_seconds=0.1)
    with Server(ledger, port=0, tokens=lambda: tokens[0], limits=limits) as server:
        address, hub = "ws" + server.url[4:] + "/live", server.app.state.hub
        ticket = httpx.post(server.url + "/ticket", headers=bearer(READER)).json()["ticket"]
        with (
            connect(address, additional_headers=bearer(READER)) as reader,
            connect(address, origin=server.url) as page,
            connect(address, additional_headers=bearer(OPERATOR)) as operator,
            httpx.stream(
                "GET", server.url + "/events?state=true", headers=bearer(READER), timeout=60
            ) as stream,
        ):
            page.send(json.dumps({"type": "hello", "ticket": ticket}))
            until(lambda: len(hub.clients) == 3 and hub.streams)
            page.recv(timeout=PATIENCE_SECONDS)
            tokens[0] = ("", "")  # will not do, and changes nothing
            operator.send(STATE)
            for _ in range(3):  # welcome, subscribed, state
                operator.recv(timeout=PATIENCE_SECONDS)
            tokens[0] = (OTHER, OPERATOR)
            for gone in (reader, page):
                assert closing(gone) == protocol.UNAUTHORISED
            for _ in stream.iter_lines():
                pass  # it ends
            until(lambda: len(hub.clients) == 1)  # their handlers end after the close frame
            operator.recv(timeout=PATIENCE_SECONDS)  # and the other goes on


def test_tokens_come_from_files_that_may_change(tmp_path):
    from muntin.cli.serve import _secret

    path = tmp_path / "token"
    path.write_text(READER + "\n")
    assert _secret(path, "") == READER
    path.write_text(OTHER)
    assert _secret(path, "") == OTHER


@pytest.mark.parametrize("held", [b"", b"\n", b"\xff" * 20])
def test_a_file_without_a_token_lets_nobody_in_and_takes_nobody_out(tmp_path, held):
    from muntin.cli.serve import _secret

    path = tmp_path / "token"
    path.write_bytes(held)
    with pytest.raises(BadArgument, match="holds no token"):
        _secret(path, "")


def test_a_file_of_several_tokens_is_named(tmp_path):
    from muntin.cli.serve import _secret

    path = tmp_path / "token"
    path.write_text(f"{READER}\n{OTHER}\n")
    with pytest.raises(BadArgument, match=f"{path} holds several lines"):
        _secret(path, "")
