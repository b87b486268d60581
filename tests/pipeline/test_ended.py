"""A source that ends closes its last windows; where more comes, they end as they would have."""

from __future__ import annotations

from random import Random

import pytest

from muntin.assembly.standing import StandingQueries
from muntin.errors import LedgerError
from muntin.ledger.sqlite_writer import Writer
from muntin.ledger.temporary import temporary
from muntin.session import Session
from muntin.spark.ingest import Ingest
from tests.pipeline.support import SECOND, START, events, gather, pipeline

WINDOWS = {
    "tumbling": {"kind": "tumbling", "length": "1 minute"},
    "sliding": {"kind": "sliding", "length": "1 minute", "every": "20 seconds"},
    "floating": {"kind": "floating", "length": "1 minute"},
}
COUNT = {"q": "SELECT driver, count FROM orders(driver)"}


def spec_of(kind, **more):
    capacity = {"capacity": 3} if kind == "floating" else {}
    summary = {"keys": ["driver"], "window": WINDOWS[kind], **capacity}
    return pipeline(summaries={"orders": summary}, queries=COUNT, **more)


def run_ended(spec, ledger, batches, first=0, ended=True):
    ingest = Ingest(spec, ledger, query_id="q")
    for number, rows in enumerate(batches, first):
        ingest.take(number, gather([events(rows)]))
    if ended:
        ingest.finish(ended=True)
    ingest.close()


def closed(ledger):
    """Start -> what a window holds, in its newest revision, and what its query gave."""
    return {
        w.start: (w.end, w.reason, w.events, w.overflowed, dict(w.fill))
        for w in ledger.windows("orders")
    }


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("seed", range(3))
def test_a_source_that_ended_in_between_leaves_the_windows_of_one_run(kind, seed):
    random = Random(seed)
    at, batches = 0, []
    for _ in range(8):
        rows = []
        for _ in range(random.randint(0, 4)):
            at += random.choice([0, 3, 11, 70])
            rows.append((at, random.choice("abcde"), 1, 1, 1))
        batches.append(rows)
    spec = spec_of(kind)
    at_once, in_parts = temporary(), temporary()
    run_ended(spec, at_once, batches)
    cuts = sorted(random.sample(range(1, 8), 3))
    for first, last in zip([0, *cuts], [*cuts, 8], strict=True):
        run_ended(spec, in_parts, batches[first:last], first)
    assert closed(in_parts) == closed(at_once)
    select = "SELECT window_start, window_end, driver, count FROM trend(q) ORDER BY 1, 2, 3, 4"
    assert Session(in_parts).sql(select).rows == Session(at_once).sql(select).rows
    assert max(end for end, *_ in closed(at_once).values()) > START + at * SECOND


def test_the_end_closes_what_is_open_and_says_so():
    ledger = temporary()
    spec = spec_of("tumbling")
    run_ended(spec, ledger, [[(5, "a", 1, 1, 1), (45, "b", 1, 1, 1)]], ended=False)
    assert ledger.windows("orders") == []
    run_ended(spec, ledger, [], 1)
    first, second = ledger.windows("orders")
    pane_end = (START + 45 * SECOND) // (10 * SECOND) * 10 * SECOND + 10 * SECOND
    assert (first.reason, second.reason) == ("full", "end")
    assert (second.end, second.events, second.revision) == (pane_end, 1, 0)
    run_ended(spec, ledger, [], 1)  # nothing came: nothing to say
    assert ledger.windows("orders")[-1].revision == 0
    late = (44, "late", 1, 1, 1)  # in a pane that was closed: a revision at once, not late
    run_ended(spec, ledger, [[late]], 1, ended=False)
    revised = ledger.windows("orders")[-1]
    assert (revised.end, revised.events, revised.revision, revised.late) == (pane_end, 2, 1, 0)
    run_ended(spec, ledger, [[(52, "c", 1, 1, 1), (200, "d", 1, 1, 1)]], 2, ended=False)
    whole = ledger.windows("orders")[1]
    assert (whole.reason, whole.events, whole.revision) == ("full", 3, 2)
    assert whole.end == whole.start + 60 * SECOND
    trend = Session(ledger).sql("SELECT driver, revision FROM trend(q) ORDER BY driver")
    assert trend.rows == [["a", 0], ["b", 2], ["c", 2], ["late", 2]]


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("kind", WINDOWS)
def test_history_keeps_what_an_end_has_closed_of_windows_that_are_still_open(kind, is_away):
    """Dropped, they would close again as a first revision, which others have with other events."""
    ledger = temporary()
    kept = {"lateness": "0 s", "retention": {"history": "10 s"}}
    spec = spec_of(kind, **kept)
    other = pipeline(**kept, summaries={"others": {"keys": ["area"]}}, queries={})
    run_ended(spec, ledger, [[(5, "a", 1, 1, 1)]])
    before = {w.start: w.revision for w in ledger.windows("orders")}
    run_ended(other if is_away else spec, ledger, [[(38, "b", 1, 1, 1)]], 1, ended=False)
    kept_on = {w.start for w in ledger.windows("orders") if w.reason == "end"}
    run_ended(spec, ledger, [[(39, "c", 1, 1, 1)]], 2)
    after = {w.start: (w.revision, w.events) for w in ledger.windows("orders")}
    kept_on &= after.keys()  # one is closed for good, and history since
    assert {after[start] for start in kept_on} == {(1, 2 if is_away else 3)}
    assert {before[start] for start in kept_on} == {0}
    trend = Session(ledger).sql("SELECT DISTINCT window_start, revision FROM trend(q)")
    first = "SELECT DISTINCT window_start FROM windows(orders)"
    assert len(trend.rows) == len(Session(ledger).sql(first).rows)


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("written", [1, 2])
def test_windows_that_close_while_a_process_is_killed_are_those_of_one_run(
    monkeypatch, kind, written
):
    """So many that they take several transactions, of which some are done."""
    random = Random(written)
    batches = [
        [(at, random.choice("abc"), 1, 1, 1) for at in range(first, until, 9)]
        for first, until in ((0, 130), (130, 9_000), (9_000, 9_300))
    ]
    spec, at_once, in_parts = spec_of(kind), temporary(), temporary()
    run_ended(spec, at_once, batches)
    run_ended(spec, in_parts, batches[:1], ended=False)
    close, left = Writer.close_windows, written

    def dying(*given):
        nonlocal left
        left -= 1
        return close(*given) if left >= 0 else 1 // 0

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "close_windows", dying)
        with pytest.raises(ZeroDivisionError):
            run_ended(spec, in_parts, batches[1:], 1)
    run_ended(spec, in_parts, batches[1:], 1)
    assert closed(in_parts) == closed(at_once)


def test_a_step_that_is_still_at_work_stores_no_error_of_queries_that_ended(monkeypatch):
    """Where Java is killed, nobody waits for the step: its windows close again at the restart."""
    ledger, close = temporary(), StandingQueries.close
    ingest = Ingest(spec_of("tumbling"), ledger, query_id="q")
    ingest.take(0, gather([events([(0, "a", 1, 1, 1), (70, "b", 1, 1, 1)])]))

    def in_the_step(queries):
        close(queries)
        with pytest.raises(LedgerError):
            ingest.finish(ended=True)

    monkeypatch.setattr(StandingQueries, "close", in_the_step)
    ingest.close()
    monkeypatch.undo()
    run_ended(spec_of("tumbling"), ledger, [], ended=True)
    rows = Session(ledger).sql("SELECT driver, count FROM trend(q) ORDER BY 1").rows
    assert [list(row) for row in rows] == [["a", 1], ["b", 1]]
    assert {window.revision for window in ledger.windows("orders")} == {0}
