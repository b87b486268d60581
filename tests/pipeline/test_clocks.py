"""Clocks that are wrong: an event of the far future, and a machine whose clock jumps."""

from muntin.ledger.temporary import temporary
from muntin.spark import ingest as ingesting
from muntin.spark.ingest import Ingest
from tests.pipeline.support import SECOND, START, content, events, gather, pipeline, run

DAY = 86_400
YEARS = 10 * 365 * DAY


def rows(first, last):
    return [(at, "abcd"[at % 4], at % 3, 1, at) for at in range(first, last)]


def test_neither_closes_windows_nor_loses_an_event(monkeypatch):
    now = 200
    monkeypatch.setattr(ingesting, "now_us", lambda: START + now * SECOND)
    spec, ledger = pipeline(), temporary()
    batches = [
        (200, rows(0, 100)),
        (200, [*rows(100, 150), (YEARS, "a", 1, 1, 1), (YEARS + 1, "b", 1, 1, 1)]),
        (-DAY, rows(150, 200)),  # the machine's clock is a day behind: all lie in its future
        (YEARS * 2, rows(200, 260)),  # and now far ahead, where old events are no reason
        (300, rows(260, 320)),
    ]
    ingest = Ingest(spec, ledger, query_id="q")
    for number, (at, given) in enumerate(batches):
        now = at
        ingest.take(number, gather([events(given)]))
    ingest.finish(ended=True)
    (info,) = ledger.pipelines()
    assert (info.read, info.counted, info.late) == (322, 270, 0)
    kept = [record.reason for _, record in ledger.rejected("orders")]
    assert kept == ["future"] * info.rejected == ["future"] * 52
    right = [rows(0, 100), rows(100, 150), [], rows(200, 260), rows(260, 320)]
    with run(spec, [[events(given)] for given in right], ended=True) as clean:
        assert content(ingest) == content(clean)
    ingest.close()
