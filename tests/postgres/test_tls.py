"""Beyond loopback rows need TLS: the real clients over a certificate of the server's own."""

from __future__ import annotations

import os
import socket
import ssl
import struct

import psycopg
import pytest
import trustme

from muntin.errors import BadArgument
from muntin.ledger.temporary import temporary
from muntin.server.postgres import listener
from muntin.server.postgres.certificate import Certificate
from muntin.server.serving import Server
from tests.server.conftest import fed_server

TOKEN = "0123456789abcdef0123"  # noqa: S105
SELECT = "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver"
SSL_REQUEST = struct.pack(">II", 8, 80877103)


def written(authority, folder):
    """Chain and key of a new certificate of this authority, at one moment of the files' clock."""
    made = authority.issue_cert("localhost", "127.0.0.1")
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    for file in (chain, key):
        os.utime(file, (0, 0))
    return chain, key


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def encrypted(authority, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    authority.cert_pem.write_to_path(folder / "root.pem")
    chain, key = written(authority, folder)
    options = {"certificate": chain, "key": key, "reader_token": TOKEN}
    with fed_server(postgres="127.0.0.1:0", **options) as server:
        server.root = folder / "root.pem"
        yield server


def connected(server, **settings):
    return psycopg.connect(server.postgres_url, password=TOKEN, autocommit=True, **settings)


def test_the_certificate_is_checked_and_the_token_by_scram(encrypted):
    with connected(encrypted, sslmode="verify-full", sslrootcert=str(encrypted.root)) as client:
        assert client.pgconn.ssl_in_use
        assert client.execute(SELECT).fetchall() == [(driver, 18) for driver in "abcde"]
        client.cancel_safe()  # by a second connection, encrypted as well
        assert client.execute("SELECT count FROM orders FOR ALL").fetchone() == (90,)
    with pytest.raises(psycopg.OperationalError, match="no token of this server"):
        psycopg.connect(encrypted.postgres_url, password="x" * 20, sslmode="require")
    with connected(encrypted, sslmode="disable") as client:  # on loopback, as without a certificate
        assert not client.pgconn.ssl_in_use


def test_other_machines_must_encrypt(encrypted, monkeypatch):
    monkeypatch.setattr(listener, "is_loopback", lambda host: False)
    with pytest.raises(psycopg.OperationalError, match="only with TLS"):
        connected(encrypted, sslmode="disable")
    with connected(encrypted, sslmode="require") as client:
        assert len(client.execute(SELECT).fetchall()) == 5


def test_without_a_certificate_tls_is_declined():
    with (
        Server(temporary(), port=0, postgres="127.0.0.1:0") as server,
        pytest.raises(psycopg.OperationalError, match="does not support SSL"),
    ):
        psycopg.connect(server.postgres_url, sslmode="require")


def opened(server):
    """A connection that has asked for TLS, and the address it has gone to."""
    port = int(server.postgres_url.rsplit(":", 1)[1].split("/")[0])
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def test_what_came_before_the_handshake_is_not_taken(encrypted):
    """A startup message in the open, sent along, must not count as one that came encrypted."""
    with opened(encrypted) as plain:
        plain.sendall(SSL_REQUEST + struct.pack(">II", 9, 196608) + b"\0")
        assert plain.recv(1) == b"S"
        assert b"before the handshake" in plain.recv(4096)


def test_a_handshake_that_fails_gives_its_place_back(encrypted):
    with opened(encrypted) as plain:
        plain.sendall(SSL_REQUEST)
        assert plain.recv(1) == b"S"
        plain.sendall(b"this is no handshake of TLS")
        while plain.recv(4096):
            pass
    with connected(encrypted) as client:
        client.execute(SELECT)
        assert len(encrypted.app.state.postgres._places) == 1


def test_a_renewed_certificate_is_seen_by_new_connections(authority, tmp_path):
    chain, key = written(authority, tmp_path)
    certificate = Certificate(chain, key)
    first = certificate.context()
    assert certificate.context() is first
    key.write_text("damaged")
    os.utime(key, (0, 0))
    assert certificate.context() is first
    written(authority, tmp_path)
    assert certificate.context() is not first
    assert certificate.context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_what_is_no_certificate_is_refused(tmp_path, authority):
    chain, _ = written(authority, tmp_path)
    with pytest.raises(BadArgument, match="give both as PEM"):
        Server(temporary(), postgres="127.0.0.1:0", certificate=chain, key=chain)
    with pytest.raises(BadArgument, match="needs its key"):
        Server(temporary(), postgres="127.0.0.1:0", certificate=chain)
    with pytest.raises(BadArgument, match="give --postgres"):
        Server(temporary(), certificate=chain, key=chain)
