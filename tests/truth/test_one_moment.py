"""One statement reads one state of the ledger; what it leaves out is said."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from muntin.ledger.open import open_ledger
from muntin.reading.catalog import LedgerCatalog
from muntin.select.engine import Engine
from muntin.session import Session
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from tests.pipeline.support import SECOND, gather
from tests.totals import total
from tests.truth.world import BEGIN, PANE

SPEC = {
    "name": "p",
    "time": "time",
    "pane": "10 s",
    "lateness": "0 s",
    "rollups": ["1 minute"],
    "summaries": {
        "m": {"keys": ["k"], "window": {"kind": "tumbling", "length": "10 s"}},
        "o": {"keys": ["k"]},
    },
    "queries": {"q": "SELECT k, count FROM m(k)"},
}
STATEMENTS = (
    "SELECT k, count FROM m(k) FOR ALL",
    "SELECT a.count, o.count FROM m FOR ALL a, o FOR ALL",
    "SELECT (SELECT sum(count) FROM trend(q)), (SELECT sum(events) FROM windows(m))",
)
READERS = 2


def _events(places: list[int], each: int) -> pa.Table:
    times = [BEGIN + place * PANE for place in places for _ in range(each)]
    names = [chr(65 + at) for at in range(len(places)) for _ in range(each)]
    return pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "k": names})


def test_nothing_is_torn_while_a_pipeline_writes(tmp_path: Path) -> None:
    _nothing_is_torn(f"sqlite:///{tmp_path}/one.db", 240)


@pytest.mark.chaos
@pytest.mark.slow
def test_of_a_hundred_thousand_reads_none_is_torn(tmp_path: Path) -> None:
    """A ledger for every few thousand, so that none grows slow."""
    most = total("READS", 100_000)
    for at in range(0, most, 6_000):
        _nothing_is_torn(f"sqlite:///{tmp_path}/{at}.db", min(6_000, most - at))


def _nothing_is_torn(url: str, reads: int) -> None:
    """Each batch brings as many late events to rolled-up panes as new ones to the newest: rows of
    one statement that are not equal are of two moments."""
    ingest = Ingest(Pipeline.of(SPEC), open_ledger(url), query_id="q")
    places = [1, 13, 35, 36]
    ingest.take(0, gather([_events(places, 1)]))
    torn: list[object] = []
    failed: list[BaseException] = []
    states: set[object] = set()
    batches = 0
    done = threading.Event()
    taken = threading.Condition()

    def ask() -> None:
        session = Session(open_ledger(url, create=False))
        try:
            for number in range(reads // READERS):
                if number % 100 == 50:  # so that it is written all the time, however slowly
                    with taken:
                        before = batches
                        taken.wait_for(lambda: batches > before or done.is_set())  # noqa: B023
                text = STATEMENTS[number % len(STATEMENTS)]
                rows = session.sql(text).rows
                numbers = [row[-1] for row in rows] if len(rows) > 1 else rows[0]
                states.add(numbers[0])
                if len(set(numbers)) != 1:
                    torn.append((text, rows))
        except BaseException as error:
            failed.append(error)
        finally:
            session.close()

    def write() -> None:
        nonlocal batches
        try:
            while not done.wait(0.01):  # readers have a turn
                number = batches + 1
                ingest.take(number, gather([_events(places, 1 + number % 7)]))
                with taken:
                    batches = number
                    taken.notify_all()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()
            with taken:
                taken.notify_all()

    threads = [threading.Thread(target=ask) for _ in range(READERS)]
    writer = threading.Thread(target=write)
    for thread in (writer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    writer.join()
    ingest.close()
    assert not failed, failed
    assert not torn, torn[:3]
    assert len(states) > reads / 200


def test_the_newest_of_a_long_history_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.reading.history.HISTORY_MAX", 5)
    ledger = open_ledger("memory://long-history")
    ingest = Ingest(Pipeline.of(SPEC), ledger, query_id="q")
    ingest.take(0, gather([_events(list(range(12)), 1)]))
    engine = Engine(LedgerCatalog(ledger))
    closed = [window.start for window in ledger.windows("m")]
    for item in ("windows(m)", "trend(q)"):
        result = engine.sql(f"SELECT window_start FROM {item} ORDER BY 1")  # noqa: S608
        starts = [value.timestamp() * SECOND for value in result.table["window_start"].to_pylist()]
        assert starts == closed[-5:]
        assert result.windows[0].covered == (closed[-5], closed[-1] + PANE)
        assert [note.code for note in result.notes] == ["cut"]
        assert "newest 5" in result.footer()
        assert engine.sql(f"SELECT 1 FROM {item} FOR WINDOW LAST").notes == ()  # noqa: S608
    engine.close()
    ingest.close()


def test_an_answer_says_what_was_not_asked_and_what_is_not_there() -> None:
    ledger = open_ledger("memory://said")
    ingest = Ingest(Pipeline.of(SPEC), ledger, query_id="q")
    ingest.take(0, gather([_events([0, 1, 2, 3], 1)]))
    session = Session(ledger)
    unsaid = session.sql("SELECT count FROM m")
    assert unsaid.rows == [[1]]
    assert [note.code for note in unsaid.notes] == ["open"]
    assert "FOR ALL" in unsaid.footer()
    assert unsaid.to_dict()["notes"][0]["source"] == "m"
    assert session.sql("SELECT count FROM m FOR ALL").notes == ()
    empty = session.sql("SELECT k FROM m(k) FOR '2001-01-01' TO '2001-01-02'")
    assert (empty.rows, empty.windows[0].covered) == ([], None)
    assert [note.code for note in empty.notes] == ["nothing"]
    session.close()
    ingest.close()
