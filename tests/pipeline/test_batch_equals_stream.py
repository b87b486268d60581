"""However rows are spread over partitions and micro-batches, the ledger holds the same bytes."""

from contextlib import nullcontext, suppress
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.assembly import following
from muntin.assembly.assembler import Assembler
from muntin.errors import SelectError
from muntin.ledger.temporary import temporary
from muntin.reading.stored_results import read_result
from muntin.times import instant_text
from tests.pipeline.support import (
    SECOND,
    START,
    content,
    events,
    gather,
    pipeline,
    run,
    slices_of,
)

LATENESS = 30

rows = st.lists(
    st.tuples(
        st.integers(0, 600),
        st.one_of(st.none(), st.sampled_from("abcdefghijklm")),
        st.integers(0, 3),
        st.integers(-5, 5),
        st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    ),
    min_size=1,
    max_size=60,
)
cuts = st.lists(st.integers(0, 60), max_size=8)


def in_pieces(table, cuts):
    edges = sorted({0, table.num_rows, *(cut for cut in cuts if cut < table.num_rows)})
    return [table.slice(a, b - a) for a, b in pairwise(edges)]


def within_lateness(rows, jitter):
    """Arrival order in which no event comes later than the lateness allows."""
    delays = [jitter[i % len(jitter)] for i in range(len(rows))]
    keyed = sorted(zip(rows, delays, strict=True), key=lambda pair: pair[0][0] + pair[1])
    return [row for row, _ in keyed]


@given(rows, cuts, cuts, st.lists(st.integers(0, LATENESS), min_size=1, max_size=10))
@settings(max_examples=30)
def test_same_bytes_within_lateness(rows, micro, parts, jitter):
    arrived = events(within_lateness(rows, jitter))
    spec = pipeline()
    batches = [in_pieces(batch, parts) for batch in in_pieces(arrived, micro)]
    with run(spec, [[arrived]]) as whole, run(spec, batches) as streamed:
        assert content(whole) == content(streamed)
        assert streamed.progress.late == 0


@given(rows, cuts, st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_panes_are_the_same_however_late(rows, micro, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    spec = pipeline()
    batches = [[batch] for batch in in_pieces(events(shuffled), micro)]
    with run(spec, [[events(rows)]]) as whole, run(spec, batches) as streamed:
        # rollups begin where the first seal found the stream, so only panes are compared
        pane = ("orders", spec.pane)
        assert content(whole)[0][pane] == content(streamed)[0][pane]
        # each closed window holds what its panes hold now, late events and all
        ledger = streamed.ledger
        for window in ledger.windows("orders"):
            held = slices_of(ledger, "orders", spec.pane, window.start, window.end)
            assert window.events == held.count
            assert window.revision == 0 or window.late > 0


@pytest.mark.parametrize("window", [
    {"kind": "tumbling", "length": "1 minute"},
    {"kind": "sliding", "length": "1 minute", "every": "20 seconds"},
])  # fmt: skip
@given(rows, cuts, st.sampled_from([1, 3, following.EVENTS_AT_ONCE]))
@settings(max_examples=15)
def test_windows_on_a_grid(window, rows, micro, at_once):
    """Also where one holds more events than are read together."""
    summary = {"keys": ["driver"], "indicators": ["served"], "window": window}
    spec = pipeline(summaries={"orders": summary})
    arrived = events(sorted(rows, key=lambda row: row[0]))
    batches = [[batch] for batch in in_pieces(arrived, micro)]
    every = 20 if "every" in window else 60
    newest = max(row[0] for row in rows)
    with (
        mock.patch.object(following, "EVENTS_AT_ONCE", at_once),
        run(spec, [[arrived]]) as whole,
        run(spec, batches) as streamed,
    ):
        assert content(whole) == content(streamed)
        for found in whole.ledger.windows("orders"):
            start = (found.start - START) // SECOND
            assert (found.start // SECOND) % every == 0
            inside = [row for row in rows if start <= row[0] < start + 60]
            assert found.events == len(inside)
            assert found.fill == {"driver": len({row[1] for row in inside})}
            assert start + 60 <= newest - LATENESS


CLAUSES = {
    "": lambda start, end: (start, end),
    "FOR OPEN": lambda start, end: (start, end),
    "FOR LAST '125 seconds'": lambda start, end: (end - 130, end),  # whole panes
    f"FOR '{instant_text(START)}' TO '{instant_text(START + 200 * SECOND)}'": (
        lambda start, end: (0, min(end, 200))
    ),
    "FOR ALL": lambda start, end: (0, end),
}


@pytest.mark.parametrize("retention", [{}, {"panes": "1 minute", "rollups": "3 minutes"}])
@given(rows, cuts, st.sets(st.integers(0, 8)), st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_a_clause_in_a_standing_query_reads_nothing_after_its_window(
    retention, rows, micro, killed, random
):
    """Late events make new results of all windows that read them, kill -9 or not."""
    shuffled = list(rows)
    random.shuffle(shuffled)
    summary = {"keys": ["driver"], "window": {"kind": "tumbling", "length": "1 minute"}}
    queries = {f"q{i}": f"SELECT count FROM orders {c}" for i, c in enumerate(CLAUSES)}  # noqa: S608
    spec = pipeline(summaries={"orders": summary}, queries=queries, retention=retention)
    ledger = temporary()
    for number, batch in enumerate(in_pieces(events(shuffled), micro)):
        dies = mock.patch.object(Assembler, "step", side_effect=KeyError("killed"))
        # Spark brings a batch again whose end it did not see
        for killing in (dies, nullcontext()) if number in killed else (nullcontext(),):
            with killing, suppress(KeyError), run(spec, [], ledger) as ingest:
                ingest.take(number, gather([batch]))
    with run(spec, [[events(rows)]], ended=True) as whole, run(spec, [], ledger, ended=True):
        for found in (whole.ledger, ledger):
            for query, reads in zip(queries, CLAUSES.values(), strict=True):
                points = found.trend(query)
                assert retention or len(points) == len(
                    {(START // SECOND + row[0]) // 60 for row in rows}
                )
                for point in points:
                    start, end = reads(*((at - START) // SECOND for at in (point.start, point.end)))
                    there = [row for row in rows if start <= row[0] < end]
                    try:
                        result = read_result(point, None, stale=False)
                    except SelectError:
                        assert retention
                        continue
                    said = {note.code for note in result.notes} - {"nothing"}
                    assert result.exact == ("outdated" not in said)
                    assert said <= ({"outdated", "retention"} if retention else set())
                    if not said:
                        assert result.table["count"].to_pylist() == [len(there)]
