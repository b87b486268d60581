"""A server that PostgreSQL's clients can reach."""

from __future__ import annotations

import pytest

from tests.server.conftest import fed_server

pytest.importorskip("pygwire", reason="muntin[postgres] is not installed")


@pytest.fixture(scope="module")
def fed():
    """A ledger that does not change while it is asked."""
    with fed_server(postgres="127.0.0.1:0") as server:
        yield server
