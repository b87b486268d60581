"""A ledger's file that is deleted and made anew, or that an earlier Muntin made."""

import shutil

import pytest
from ledger_helpers import PANE, SPEC, batch, partial

from muntin.errors import LedgerConflict, LedgerError
from muntin.ledger import ClosedWindow
from muntin.ledger.sqlite import SqliteLedger
from muntin.server.feeds import Closings
from muntin.session import Session
from muntin.sites.follower import PaneReader
from muntin.spark.ingest import Ingest
from muntin.spec_sites import SiteSpec
from tests.pipeline.support import events, gather, pipeline, run

SITE = {
    "coordinator": "ws://127.0.0.1:1", "site": "a", "summary": "orders", "key": ["driver"],
    "value": "fare", "window": "1 minute", "unit": "10 s",
}  # fmt: skip


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


@pytest.mark.parametrize("anew", [False, True])
def test_who_writes_into_a_file_that_nobody_reads_any_more_is_refused(tmp_path, anew):
    path = tmp_path / "x.db"
    ledger = SqliteLedger(path)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [0])))
    delete(path)
    if anew:
        fill(path, [1])
    for act in (
        lambda: writer.commit(batch(1, partial("s", 0, [1]))),
        lambda: writer.set_status({}),
    ):
        with pytest.raises(LedgerConflict, match=r"x.db is not the file any more.* nothing was"):
            act()
    ledger.close()


def test_answers_are_of_the_file_that_is_there_now(tmp_path):
    """The new one numbers its pieces as the old one did, and holds the same panes."""
    path = tmp_path / "x.db"
    spec = pipeline()
    site = SiteSpec.model_validate(SITE)
    session = follower = None
    for fare in (1, 5, 7):
        rows = [(second, "a", 1, 1, fare) for second in range(0, 100, 10)]
        with run(spec, [[events(rows)]], SqliteLedger(path)):
            if session is None or follower is None:
                session = Session(SqliteLedger(path))
                follower = PaneReader(session.ledger, spec, site, lambda: 0.0)
            assert session.sql("SELECT sum(fare) FROM orders(driver) FOR ALL").rows == [[10 * fare]]
            news = follower.look()
            assert news is not None
            assert news.anew
            assert {v for _, values in news.units.values() for v in values.tolist()} == {fare}
        delete(path)
    assert session is not None
    session.close()
    session.ledger.close()


def test_a_ledger_that_lost_its_last_commits_uses_no_number_again(tmp_path):
    """As a standby that takes over: who has read what was lost does not take it for what came."""
    path, older = tmp_path / "x.db", tmp_path / "older.db"

    def take(number, fare):
        rows = [(100 * number + second, "a", 1, 1, fare) for second in range(0, 100, 10)]
        ingest = Ingest(pipeline(), SqliteLedger(path), query_id="q")
        ingest.take(number, gather([events(rows)]))
        ingest.close()
        ingest.ledger.close()

    take(0, 1)
    shutil.copy(path, older)
    session = Session(SqliteLedger(path))
    closings = Closings(session.ledger)
    closings.begin()
    asked = set()
    for fare in (5, 7):
        take(1, fare)
        asked.add(session.ledger.ask("orders", "resume", {}).id)
        assert session.sql("SELECT sum(fare) FROM orders FOR ALL").rows == [[10 + 10 * fare]]
        assert closings.read()
        assert not closings.anew
        delete(path)
        shutil.copy(older, path)
    assert len(asked) == 2
    session.close()
