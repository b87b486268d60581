"""Clients' commands: answered also after one that could not be obeyed."""

import pytest

from muntin.errors import LedgerError
from muntin.ledger.temporary import temporary
from tests.pipeline.support import events, pipeline, run
from tests.server.conftest import until

ROWS = [(second, "a", 1, 1, 1) for second in range(0, 45, 5)]


@pytest.fixture
def working():
    with run(pipeline(), [[events(ROWS)]], temporary()) as ingest:
        yield ingest


def answered(ingest, action):
    asked = ingest.ledger.ask("orders", action, {})
    return until(lambda: ingest.ledger.command(asked.id).answer)


def test_an_unknown_action_is_answered(working):
    assert "unknown action" in answered(working, "dance")["why"]


def test_commands_are_obeyed_again_once_the_ledger_takes_them(working):
    """A file that another process holds for long, or a full disk, is over some time."""
    tries = []
    store = working._assembler._store

    def failing(*arguments):
        tries.append(arguments)
        if len(tries) < 3:
            raise LedgerError("another process held the ledger for more than 10 seconds")
        store(*arguments)

    working._assembler._store = failing
    asked = working.ledger.ask("orders", "slow_down", {})
    answer = until(lambda: working.ledger.command(asked.id).answer)
    assert len(tries) == 3
    assert answer["orders"] == {"done": True, "length_us": 120_000_000}  # doubled once
