"""A pipeline that is changed between its runs: what it says is true of what it then holds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.errors import SelectError, SourceError, SpecError
from muntin.ledger.temporary import temporary
from muntin.reading.amounts import events_over_time
from muntin.session import Session
from muntin.spark.ingest import Ingest
from tests.pipeline.support import SECOND, START, events, gather, pipeline

MATRIX = {"keys": ["driver"], "indicators": ["fare"]}
FARES = {"kind": "quantiles", "value": "fare"}
WINDOW = {"kind": "tumbling", "length": "20 seconds"}


def fed(ledger, summaries, batches, first, **more):
    """Feed a ledger by a pipeline of these summaries, from the batch of that number on."""
    spec = pipeline(**{"summaries": summaries, "queries": {}, "lateness": "0 s"} | more)
    ingest = Ingest(spec, ledger, query_id="q")
    try:
        for number, seconds in enumerate(batches, first):
            rows = [(second, "d", 1, 1, 10) for second in seconds]
            ingest.take(number, gather([events(rows)]))
    finally:
        ingest.close()


def said(ledger, text):
    result = Session(ledger).sql(text)
    lacking = [each["uncounted"] for each in result.bounds.values() if "uncounted" in each]
    return result.rows, result.exact, lacking


def test_a_summary_that_joins_later_says_what_it_lacks():
    """Of the pane in which it joined, and of panes before it to which late events came."""
    ledger = temporary()
    both = {"m": MATRIX, "n": MATRIX | {"window": WINDOW}, "q": FARES}
    asked = {"by_n": "SELECT driver, count FROM n(driver)"}
    fed(ledger, {"m": MATRIX}, [[0, 1, 2], [12, 13]], 0)
    fed(ledger, both, [[14, 15], [3], [25, 45]], 2, queries=asked)
    assert said(ledger, "SELECT count FROM m FOR ALL") == ([[10]], True, [])
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[5]], False, [{"n": 5}])
    rows = said(ledger, "SELECT n FROM quantiles(q, 0.5) FOR ALL")
    assert rows == ([[5]], False, [{"q": 5}])
    first = "SELECT driver, count FROM n(driver) FOR '2023-11-14 22:13:20' TO '2023-11-14 22:13:40'"
    assert said(ledger, first) == ([["d", 3]], False, [{"n": 5}])
    assert not said(ledger, "SELECT count FROM trend(by_n)")[1]
    since = "SELECT count FROM n FOR '2023-11-14 22:13:40' TO '2023-11-14 22:15'"
    assert said(ledger, since) == ([[2]], True, [])


def test_a_summary_that_was_away_says_what_it_lacks():
    ledger = temporary()
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[0, 1]], 0)
    fed(ledger, {"m": MATRIX}, [[20, 21, 22]], 1)
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[40]], 2)
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[60]], 3)
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[4]], False, [{"n": 3}])
    assert said(ledger, "SELECT count FROM n FOR LAST '30 s'") == ([[2]], True, [])


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        (FARES, FARES | {"k": 100}, "q.k: 200 in what is stored, now 100"),
        (FARES, FARES | {"by": "driver"}, "q.by"),
        (FARES, FARES | {"value": "served"}, "q.value: fare in what is stored, now served"),
        (
            {"kind": "top_k", "item": "driver"},
            {"kind": "top_k", "item": "driver", "weight": "fare"},
            "q.weight: nothing in what is stored, now fare",
        ),
        (
            {"kind": "distinct", "item": "driver"},
            {"kind": "distinct", "item": "area"},
            "q.item: driver in what is stored, now area",
        ),
        (
            {"kind": "fingerprint", "key": "driver"},
            {"kind": "fingerprint", "key": "area"},
            "q.key: driver in what is stored, now area",
        ),
        (
            {"kind": "periodic", "item": "driver", "gap": "1 s", "interval_unit": "1 s"},
            {"kind": "periodic", "item": "area", "gap": "1 s", "interval_unit": "1 s"},
            "item was",
        ),
    ],
)
@pytest.mark.parametrize("away", [False, True])
def test_what_is_stored_of_a_summary_is_of_the_same_columns_and_size(was, now, message, away):
    ledger = temporary()
    fed(ledger, {"m": MATRIX, "q": was}, [[0, 1], [20]], 0)
    if away:
        fed(ledger, {"m": MATRIX}, [[40]], 2)
    with pytest.raises(SpecError, match=message):
        fed(ledger, {"m": MATRIX, "q": now}, [], 3)
    fed(ledger, {"m": MATRIX, "q": was}, [[60]], 2 + away)


DAYS = pa.array([0, 1], pa.date32())
TYPED = {"m": {"keys": ["k"], "window": WINDOW}}


@pytest.mark.parametrize(
    ("summary", "first", "then"),
    [
        ({"keys": ["k"]}, [1, 2], ["a", "b"]),
        ({"keys": ["k"]}, [None, 2], DAYS),
        ({"keys": [["n", "k"]]}, ["a", None], [True, False]),
        ({"kind": "distinct", "item": "n", "by": "k"}, ["a", "b"], [1, 2]),
        ({"kind": "top_k", "item": "k"}, ["a", "b"], [1, 2]),
        ({"kind": "frequency", "item": "k", "track": 0}, [1, 2], ["a", "b"]),
        ({"kind": "fingerprint", "key": "k"}, [1, 2], ["a", "b"]),
    ],
)
def test_a_column_of_another_type_is_not_committed(summary, first, then):
    """It could be merged with nothing that is stored: no window over both would ever answer."""
    ledger = temporary()
    spec = pipeline(summaries={"m": summary}, queries={}, lateness="0 s")

    def table(second, values):
        times = pa.array([START + second * SECOND] * 2, pa.timestamp("us", "UTC"))
        return pa.table({"time": times, "k": values, "n": [1, 2]})

    ingest = Ingest(spec, ledger, query_id="q")
    ingest.take(0, gather([table(0, first)]))
    ingest.take(1, gather([table(1, pa.nulls(2))]))
    with pytest.raises(SourceError, match=r"summaries\.m: .* nothing of this batch was taken"):
        ingest.take(2, gather([table(2, then)]))
    ingest.close()
    again = Ingest(spec, ledger, query_id="q")
    with pytest.raises(SourceError, match=r"summaries\.m: "):
        again.take(2, gather([table(100, then)]))
    again.take(2, gather([table(3, first)]))
    again.finish(ended=True)
    again.close()
    (info,) = ledger.pipelines()
    assert (info.batches, info.counted) == (3, 6)


@pytest.mark.parametrize(
    ("first", "then", "since"),
    [
        ("driver", "count", "int64 since 2023-11-14T22:14:00Z, and string before"),
        ("INTERVAL 1 MONTH", "INTERVAL '-1 day 1 hour'", ""),
        ("count", "18446744073709551616 * count", ""),
    ],
)
def test_a_column_of_a_standing_query_may_become_another(first, then, since):
    ledger, summaries = temporary(), {"m": MATRIX | {"window": WINDOW}}
    for number, asked in enumerate((first, then)):
        queries = {"q": f"SELECT {asked} AS x FROM m(driver)"}  # noqa: S608
        fed(ledger, summaries, [range(80 * number, 80 * number + 60)], number, queries=queries)
    session = Session(ledger)
    text = "SELECT x FROM trend(q) {} ORDER BY window_start"
    if since:
        with pytest.raises(SelectError, match=f"its column 'x' is {since}") as refused:
            session.sql(text.format(""))
        rows = session.sql(text.format(refused.value.remedy)).rows
        assert rows == [[20]] * 3
        return
    rows = session.sql(text.format("")).rows
    closed = len(session.windows("m"))
    assert rows[0] == ["P1M"] if first != "count" else [20]
    assert rows[-1] == ["P-1DT3600S"] if first != "count" else [20 * 2**64]
    assert len(rows) == closed


def test_what_was_an_indicator_may_become_a_key():
    ledger = temporary()
    fed(ledger, {"m": MATRIX}, [[0, 1]], 0)
    fed(ledger, {"m": {"keys": ["fare"]}}, [[2]], 1)
    rows = said(ledger, "SELECT fare, count FROM m(fare) FOR ALL")
    assert rows == ([[10, 1]], False, [{"fare": 2}])


def test_history_is_told_by_who_was_there_all_the_time():
    ledger = temporary()
    fed(ledger, {"b": MATRIX, "a": MATRIX}, [[0, 1]], 0)
    fed(ledger, {"b": MATRIX}, [[2, 3, 4]], 1)
    fed(ledger, {"b": MATRIX, "a": MATRIX}, [[5]], 2)
    spec = pipeline(summaries={"b": MATRIX, "a": MATRIX}, queries={})
    assert [n for _, n in events_over_time(ledger, spec, None, None)["points"]] == [6]
