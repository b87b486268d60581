"""A ledger's file that is deleted and made anew, or that an earlier Muntin made."""

import pytest
from ledger_helpers import PANE, SPEC, batch, partial

from muntin.errors import LedgerError
from muntin.ledger import ClosedWindow
from muntin.ledger.sqlite import SqliteLedger


def fill(path, events, closings=1):
    ledger = SqliteLedger(path)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, events)))
    for number in range(closings):
        window = ClosedWindow(
            "s", number * PANE, number * PANE + PANE, "full", 0, False, 1, 0, {}, 9 - number
        )
        writer.close_windows([window], [], {})
    ledger.close()


def delete(path):
    for found in path.parent.glob("x.db*"):
        found.unlink()


def test_readers_see_the_file_that_is_there_now(tmp_path):
    path = tmp_path / "x.db"
    fill(path, [1])
    reader = SqliteLedger(path)
    assert [piece.events for piece in reader.pieces("s", PANE)] == [1]
    version, generation = reader.version(), reader.generation()
    delete(path)
    with pytest.raises(LedgerError, match="gone"):
        reader.version()
    fill(path, [1, 2, 3])
    assert reader.wait(version, 0) != version
    assert reader.version() > version
    assert reader.generation() > generation
    assert [piece.events for piece in reader.pieces("s", PANE)] == [3]
    reader.close()
