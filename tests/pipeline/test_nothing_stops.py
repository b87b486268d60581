"""No event, value, standing query or restart stops a pipeline, and every event is accounted for."""

import numpy as np
import pytest

from muntin.assembly import standing
from muntin.errors import MuntinError
from muntin.ledger.temporary import temporary
from muntin.session import Session
from muntin.spark.ingest import Ingest
from tests.pipeline.arbitrary import events, span_of, spec_and_columns
from tests.pipeline.support import events as driver_events
from tests.pipeline.support import gather, pipeline, run, slices_of
from tests.totals import SEED, total


def run_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    spec, types = spec_and_columns(random)
    span = span_of(random)
    ledger = temporary()
    ingest = Ingest(spec, ledger, query_id="q")
    fed = 0
    try:
        for number in range(int(random.choice([1, 2, 2, 3, 3, 5]))):
            batches = [events(random, spec, types, span) for _ in range(int(random.integers(1, 3)))]
            fed += sum(len(batch) for batch in batches)
            ingest.take(number, gather([Partition(batch) for batch in batches]))
            if random.random() < 0.15:
                ingest.close()
                ingest = Ingest(spec, ledger, query_id="q")
        ingest.finish(ended=False)
        check(ledger, spec, fed)
    finally:
        ingest.close()


class Partition:
    """What one worker sees; a table would not hold views."""

    def __init__(self, *batches) -> None:
        self._batches = batches

    def to_batches(self):
        return self._batches


def check(ledger, spec, fed: int) -> None:
    (info,) = ledger.pipelines()
    assert info.read == fed == info.counted + info.rejected
    kept = sum(1 for _ in ledger.rejected("p", limit=100_000))
    assert kept == info.rejected
    for name, summary in spec.summaries.items():
        if summary.sequential:
            continue
        panes = slices_of(ledger, name, spec.pane)
        assert panes.count == info.counted
        for reach in ledger.coverage(name):
            below = slices_of(ledger, name, spec.pane, reach.start, reach.until)
            assert slices_of(ledger, name, reach.length) == below.at_length(reach.length)
        check_windows(ledger, spec, name, summary, panes)


def check_windows(ledger, spec, name, summary, panes) -> None:
    """Each event of a sealed pane lies in one floating window, or in all of its grid."""
    window = summary.window
    state = (ledger.assembler("p") or {}).get(name)
    if state is None or state["next"] is None:
        return
    windows = ledger.windows(name, limit=1_000_000)
    opened = state["window"]["start"] if window.kind == "floating" else None
    until = state["next"] if opened is None else opened
    for start in panes.starts.tolist():
        holds = [w for w in windows if w.start <= start < w.end]
        if window.kind == "floating":
            assert len(holds) == (start < until), (start, holds)
        else:
            every = window.every or window.length
            first = (start - window.length) // every * every + every
            due = [s for s in range(first, start + 1, every) if s + window.length <= until]
            assert [w.start for w in holds] == due
    for each in windows:
        assert each.events == panes.between(each.start, each.end).count
    for query in spec.queries:
        points = ledger.trend(query, limit=1_000_000)
        followed = [n for n in spec.summaries if n in spec.queries[query].select]
        if name == followed[0]:
            assert {p.start for p in points} == {w.start for w in windows}


def test_random_pipelines_never_stop():
    for seed in range(30):
        _named(seed)


def test_a_sum_beyond_its_type_under_a_date_that_python_has_not():
    _named(80000434)  # a window's error stopped the pipeline, as one of the ledger


def test_a_result_too_large_to_keep_says_so_in_the_trend(monkeypatch: pytest.MonkeyPatch):
    rows = [(second, f"driver {second}", 1, 1, 1) for second in range(0, 300, 5)]
    batches = [[driver_events(rows[:40])], [driver_events(rows[40:])]]
    with run(pipeline(), batches) as ingest:
        whole = Session(ingest.ledger).sql("SELECT driver, error FROM trend(busiest)")
    assert whole.rows
    assert all(driver and error is None for driver, error in whole.rows)
    monkeypatch.setattr(standing, "PAYLOAD_BYTES_MAX", 100)
    with run(pipeline(), batches) as ingest:
        cut = Session(ingest.ledger).sql("SELECT DISTINCT error FROM trend(busiest)")
        assert ingest._queries.failing["busiest"]["error"] == "the result is too large to keep"
    assert cut.rows == [["the result is too large to keep"]]


def test_half_floats_in_a_sketched_indicator():
    _named(730083706812)  # Arrow does not compare them


@pytest.mark.chaos
@pytest.mark.slow
def test_ten_thousand_random_pipelines_never_stop():
    for seed in range(SEED, SEED + total("PIPELINES", 10_000)):
        _named(seed)


def _named(seed: int) -> None:
    try:
        run_one(seed)
    except (Exception, MuntinError) as problem:
        problem.add_note(f"seed {seed}")
        raise
