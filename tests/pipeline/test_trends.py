"""A trend that was read of an earlier version is read on from there: nobody could tell."""

from __future__ import annotations

import re
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muntin.errors import SelectError
from muntin.ledger.records import TrendPoint
from muntin.ledger.temporary import temporary
from muntin.reading import results, stored_results
from muntin.reading.catalog import LedgerCatalog
from muntin.reading.stored_results import read_result, stored_error, stored_result
from muntin.select.catalog import ForClause, Note
from muntin.select.result import Result, WindowRead
from muntin.server.limits import ServerLimits
from muntin.server.postgres.answers import PostgresAnswers
from muntin.server.reader import Reader
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
    "nulls": lambda n: pa.table({"driver": [None, "a"], "count": pa.nulls(2), "\x00": [[n], None]}),
    "chunks": lambda n: pa.concat_tables([ROWS["whole"](n), ROWS["none"](n), ROWS["whole"](-n)]),
    "coded": lambda n: pa.table(
        {"driver": pa.array([f"d{n}", None, f"d{n}"]).dictionary_encode(), "count": [n, 0, 1]}
    ),
    "wide": lambda n: pa.table({"driver": ["a"], "count": pa.array([n], pa.decimal128(38, 0))}),
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
        windows=(WindowRead("orders", 'FOR "\\"], "exact": {"windows": ' * (number % 3), span),),
        watermark=None,
        revision=0,
        exact=exact,
        bounds={} if exact else {"orders": {"error": number, "confidence": 0.99 - number / 1e3}},
        notes=() if exact else (Note("cut", "orders", f"note {number % 3}"),),
        late=number % 2,
        stale=False,
        seconds=0.0,
    )
    counted = [("orders", START, span[1], 10 ** (number % 5))] * (number % 2)
    return stored_result(result, statement, counted)


def one_by_one(ledger):
    """Rows and what is true of them, each result read alone."""
    rows, late, exact = [], 0, True
    for point in ledger.trend("busiest", limit=1_000):
        own = {"window_start": point.start, "window_end": point.end, "revision": point.revision}
        try:
            result = read_result(point, None, stale=False)
        except SelectError as error:
            rows.append({**own, "error": error.message})
            continue
        late, exact = late + result.late, exact and result.exact
        kept = result.table.select([n for n in result.columns if n.lower() != "error"])
        rows += [{**own, **row, "error": None} for row in kept.to_pylist()]
    return rows, late, exact


def told(catalog, asked):
    with catalog.moment() as moment:
        try:
            return moment.trend("busiest", asked)
        except SelectError as error:
            return str(error)


def check_rows(whole, rows, late, exact):
    assert whole.late == late
    assert not whole.exact or exact
    table, names = whole.table, whole.table.column_names
    for name in names[:2]:
        table = table.set_column(names.index(name), name, table[name].cast(pa.int64()))
    if "gap" in names:
        table = table.set_column(names.index("gap"), "gap", pa.nulls(len(table)))
        rows = [{**row, "gap": None} for row in rows]
    padded = [{name: row.get(name) for name in names} for row in rows]
    assert {name for row in rows for name in row} <= set(names)
    assert table.to_pylist() == padded


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
            if asked is None and not isinstance(whole, str):
                check_rows(whole, *one_by_one(ledger))
            with patch.object(results, "_AT_ONCE", 2):
                assert told(LedgerCatalog(ledger, lambda: START), asked) == whole, asked
    writer.close()


@pytest.fixture
def read():
    """The results that were opened."""
    all_of_them = []

    def opened(results):
        came = list(results)
        all_of_them.extend(came)
        return stored_results.opened(came)

    with patch.object(results, "opened", opened):
        yield all_of_them


def test_only_what_is_new_is_read(read):
    ledger = temporary()
    writer = ledger.open_writer(SPEC.name, SPEC.as_json(), query_id="q")
    catalog = LedgerCatalog(ledger, lambda: START)
    for window in range(20):
        start = START + PANE * window
        result = stored(window, "whole", True, 1, "")
        point = TrendPoint("busiest", start, start + PANE, 0, result)
        writer.close_windows([], [point], {"step": window})
        assert len(told(catalog, None).table) == 2 * (window + 1)
        assert len(read) == window + 1
        moving = ForClause("range", start_us=start - 5 * PANE, end_us=start + PANE)
        assert len(told(catalog, moving).table) == 2 * min(window + 1, 6)
        assert len(read) == window + 1
    writer.close()


def points_of(windows):
    spans = [(START + PANE * window, START + PANE * (window + 1)) for window in windows]
    one = stored(0, "whole", True, 1, "")
    return [TrendPoint("busiest", *span, 0, one) for span in spans]


def test_a_long_one_is_kept_in_the_memory_of_a_server(read):
    """A week of windows of ten seconds: of a new version only what is new is read."""
    ledger = temporary()
    writer = ledger.open_writer(SPEC.name, SPEC.as_json(), query_id="q")
    writer.close_windows([], points_of(range(60_000)), {})
    catalog = LedgerCatalog(ledger, cache_bytes=ServerLimits().of_statement(1).cache_bytes)
    assert len(told(catalog, None).table) == 120_000
    writer.close_windows([], points_of([60_000]), {})
    assert len(told(catalog, None).table) == 120_002
    assert len(read) == 60_001
    writer.close()


def test_clients_are_told_columns_without_reading_all_of_it(read):
    ledger = temporary()
    writer = ledger.open_writer(SPEC.name, SPEC.as_json(), query_id="q")
    writer.close_windows([], points_of(range(3_000)), {})
    reader = Reader(ledger)
    ask = (
        "SELECT data_type FROM information_schema.columns WHERE table_name = 'trend(busiest)' "
        "ORDER BY ordinal_position"
    )
    said = b"".join(PostgresAnswers(reader).answer(ask, [], None, None, "OPEN"))
    own = [b"timestamp with time zone"] * 2 + [b"bigint"]
    kinds = re.findall(rb"timestamp with time zone|text(?!\")|bigint", said)
    assert kinds == [*own, b"text", b"bigint", b"text"], said
    assert len(read) <= 1_000
    reader.engine.close()
    writer.close()
