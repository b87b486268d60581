"""A trend that was read of an earlier version is read on from there: nobody could tell."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from muntin.errors import SelectError
from muntin.ledger.records import TrendPoint
from muntin.ledger.temporary import temporary
from muntin.reading import results
from muntin.reading.catalog import LedgerCatalog
from muntin.reading.stored_results import stored_error, stored_result
from muntin.select.catalog import ForClause, Note
from muntin.select.result import Result, WindowRead
from tests.pipeline.support import SECOND, START, pipeline

PANE = 10 * SECOND
SPEC = pipeline()
ASKED = (
    None,
    ForClause("range", start_us=START + 40 * SECOND, end_us=START + 100 * SECOND),
    ForClause("range", start_us=START + 400 * SECOND),
    ForClause("newest_window"),
)
ROWS = {
    "whole": lambda n: pa.table({"driver": ["a", "b"], "count": [n, n + 1]}),
    "none": lambda n: pa.table({"driver": ["a"], "count": [n]}).slice(0, 0),
    "fractions": lambda n: pa.table({"driver": ["a"], "count": [n / 2]}),
    "more": lambda n: pa.table({"driver": ["a"], "count": [n], "share": [0.5]}),
    "texts": lambda n: pa.table({"driver": ["a"], "count": [str(n)]}),
    "months": lambda n: pa.table({"driver": ["a"], "gap": pa.array([n], pa.duration("us"))}),
    "own": lambda n: pa.table({"driver": ["a"], "count": [n], "Error": ["x"]}),
}
points = st.lists(
    st.tuples(
        st.integers(0, 12), st.sampled_from(["whole"] * 6 + [*ROWS, "failed"]), st.booleans()
    ),
    max_size=4,
)


def stored(window, what, exact, number, statement):
    if what == "failed":
        return stored_error(SelectError(f"no {number}", code="overflow"))
    span = START + PANE * window, START + PANE * (window + 1)
    result = Result(
        ROWS[what](number),
        windows=(WindowRead("orders", "range", span),),
        watermark=None,
        revision=0,
        exact=exact,
        bounds={} if exact else {"orders": {"error": number, "confidence": 0.99 - number / 1e3}},
        notes=() if exact else (Note("cut", "orders", f"note {number % 3}"),),
        late=number % 2,
        stale=False,
        seconds=0.0,
    )
    return stored_result(result, statement, ())


def told(catalog, asked):
    with catalog.moment() as moment:
        try:
            return moment.trend("busiest", asked)
        except SelectError as error:
            return str(error)


@given(st.lists(points, max_size=8), st.integers(0, 8))
@example([[(5, "failed", True), (6, "whole", True)], [(6, "months", True)]], 0)
def test_it_is_what_one_who_reads_all_of_it_gets(steps, changed):
    ledger = temporary()
    writer = ledger.open_writer(SPEC.name, SPEC.as_json(), query_id="q")
    follower = LedgerCatalog(ledger, lambda: START)
    revisions, number = {}, 0
    for step, came in enumerate(steps):
        statement = "SELECT 1" if step < changed else SPEC.queries["busiest"].select
        trends = {}
        for window, what, exact in came:
            number += 1
            revisions[window] = revisions.get(window, -1) + 1
            start = START + PANE * window
            result = stored(window, what, exact, number, statement)
            trends[window] = TrendPoint("busiest", start, start + PANE, revisions[window], result)
        writer.close_windows([], list(trends.values()), {"step": step})
        writer.drop_history_before(START + PANE * step)
        moving = ForClause("range", start_us=START + PANE * (step + 2), end_us=START + PANE * 99)
        for asked in (*ASKED, moving):
            anew = LedgerCatalog(ledger, lambda: START)
            whole = told(anew, asked)
            assert told(follower, asked) == whole, asked
            with patch.object(results, "_AT_ONCE", 2):
                assert told(LedgerCatalog(ledger, lambda: START), asked) == whole, asked
    writer.close()


def test_only_what_is_new_is_read():
    ledger = temporary()
    writer = ledger.open_writer(SPEC.name, SPEC.as_json(), query_id="q")
    catalog = LedgerCatalog(ledger, lambda: START)
    with patch.object(results, "read_stored", wraps=results.read_stored) as reading:
        for window in range(20):
            start = START + PANE * window
            result = stored(window, "whole", True, 1, "")
            point = TrendPoint("busiest", start, start + PANE, 0, result)
            writer.close_windows([], [point], {"step": window})
            assert len(told(catalog, None).table) == 2 * (window + 1)
            assert reading.call_count == window + 1
            moving = ForClause("range", start_us=start - 5 * PANE, end_us=start + PANE)
            assert len(told(catalog, moving).table) == 2 * min(window + 1, 6)
            assert reading.call_count == window + 1
    writer.close()
