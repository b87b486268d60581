"""A server that PostgreSQL's clients can reach."""

from __future__ import annotations

import pytest

from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from tests.server.conftest import Feeder

pytest.importorskip("pygwire", reason="muntin[postgres] is not installed")


@pytest.fixture(scope="module")
def fed():
    """A ledger that does not change while it is asked."""
    ledger = temporary()
    feeder = Feeder(ledger)
    for _ in range(3):
        feeder.minute()
    with Server(ledger, port=0, postgres="127.0.0.1:0") as server:
        yield server
    feeder.close()
