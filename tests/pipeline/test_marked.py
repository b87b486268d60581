"""Sums beyond their range, pieces too large and statements that fail: told, and nothing stops."""

from decimal import Decimal
from unittest import mock

import pyarrow as pa
import pytest

from muntin.assembly.standing import StandingQueries
from muntin.errors import SelectError, SpecError
from muntin.ledger.rules import JSON_BYTES_MAX
from muntin.ledger.temporary import temporary
from muntin.session import Session
from muntin.spark.ingest import Ingest
from tests.pipeline.support import SECOND, START, content, gather, pipeline, run

BIG = 2**62
MATRIX = {"keys": ["k"], "indicators": ["i"]}


def events(*rows):
    return pa.table(
        {
            "time": pa.array([START + s * SECOND for s, _, _ in rows], pa.timestamp("us", "UTC")),
            "k": pa.array([k for _, k, _ in rows], pa.string()),
            "i": pa.array([i for _, _, i in rows], pa.int64()),
        }
    )


def spec(summary=MATRIX, **more):
    plain = {"pane": "1 s", "lateness": "0 s", "summaries": {"m": summary}, "queries": {}}
    return pipeline(**plain | more)


@pytest.mark.parametrize(
    "batches",
    [[[(0, "a", BIG), (0, "a", BIG)]], [[(0, "a", BIG)], [(0, "a", BIG)]]],
    ids=["one batch", "two batches"],
)
def test_a_pane_beyond_int64_is_a_wider_integer_in_answers(batches):
    fed = [[events(*rows)] for rows in [*batches, [(30, "b", 1)], [(600, "b", 1)]]]
    with run(spec(rollups=["10 s"]), fed) as ingest:
        session = Session(ingest.ledger)
        assert session.sql("SELECT i FROM m FOR ALL").rows == [[2 * BIG + 2]]
        assert session.sql("SELECT k, i FROM m(k) FOR ALL ORDER BY k").rows == [
            ["a", 2 * BIG], ["b", 2]
        ]  # fmt: skip
        assert (
            session.sql("SELECT i FROM m(k) FOR ALL WHERE k = 'b'").to_arrow()["i"].type == "int64"
        )
        late = "SELECT k, i FROM m(k) FOR '2023-11-14 22:13:50' TO '2023-11-14 22:14:00'"
        assert session.sql(late).rows == [["b", 1]]
        assert ingest.ledger.coverage("m")[0].until > START + 500 * SECOND
        assert ingest.ledger.pipelines()[0].counted == 4


def test_a_rollup_beyond_int64_is_whole():
    fed = [[events((s, "a", BIG))] for s in range(4)] + [[events((4, "a", -BIG), (5, "a", -BIG))]]
    with run(spec(rollups=["10 s"]), [*fed, [events((600, "b", 1))]]) as ingest:
        assert sum(p.events for p in ingest.ledger.pieces("m", 10 * SECOND)) == 6
        session = Session(ingest.ledger)
        text = "SELECT k, i FROM m(k) FOR '{}' TO '{}'"
        first = text.format("2023-11-14 22:13:20", "2023-11-14 22:13:24")
        assert session.sql(first).rows == [["a", 4 * BIG]]
        # later events bring the sum back into its range
        whole = text.format("2023-11-14 22:13:22", "2023-11-14 22:13:26")
        assert session.sql(whole).rows == [["a", 0]]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT k, i * 4 AS x FROM m(k)", "overflow"),
        ("SELECT CAST(k AS BIGINT) AS x FROM m(k)", "value"),
        ("SELECT a.k FROM m(k) AS a LEFT JOIN m(k) FOR WINDOW '2020-01-01' AS b USING (k)", None),
    ],
)
def test_a_failing_standing_query_has_its_error_as_the_windows_result(query, code):
    window = {"kind": "tumbling", "length": "2 s"}
    given = spec(MATRIX | {"window": window}, queries={"q": query})
    fed = [[events((0, "1", 1))], [events((4, "x", BIG))], [events((8, "3", 1))]]
    fed += [[events((5, "y", 2))], [events((20, "4", 1))]]
    with run(given, fed) as ingest:
        closed = [(w.start, w.revision) for w in ingest.ledger.windows("m")]
        points = ingest.ledger.trend("q")
        assert [(p.start, p.revision) for p in points] == closed
        assert len(closed) == 3
        found = Session(ingest.ledger).sql("SELECT revision, error FROM trend(q)").rows
        failed = [error is not None for _, error in found]
        assert failed == ([False, True, False] if code else [True] * 3)
        assert [revision for revision, _ in found] == [0, 1, 0]
        assert ingest.ledger.status("orders")["failing"].keys() <= {"q"}


@pytest.mark.parametrize("query", ["SELECT k, i FROM m(k)", "SELECT k, i * 4 AS x FROM m(k)"])
@pytest.mark.parametrize("kind", ["tumbling", "floating"])
def test_a_result_does_not_depend_on_which_windows_closed_with_it(query, kind):
    """One with a sum beyond int64 made decimals of the sums of all that closed with it."""
    given = spec(MATRIX | {"window": {"kind": kind, "length": "2 s"}}, queries={"q": query})
    rows = [(0, "a", BIG), (1, "a", BIG), (2, "a", 1), (2, None, BIG), (9, "a", 1)]
    with run(given, [[events(*rows)]]) as whole, run(given, [[events(r)] for r in rows]) as one:
        assert content(whole) == content(one)
        assert len(one.ledger.windows("m")) == 2


def test_late_events_that_no_window_holds_close_one():
    for window in ({"kind": "tumbling", "length": "10 s"}, {"kind": "floating", "length": "10 s"}):
        given = spec(MATRIX | {"window": window}, queries={"q": "SELECT k, count FROM m(k)"})
        fed = [[events((s, "a", 1))] for s in (1, 41, 25, 25, -25, 100, 200)]
        with run(given, fed) as ingest:
            windows = ingest.ledger.windows("m")
            assert sum(w.events for w in windows) == 6  # all but the one that is open
            assert [w.revision for w in windows] == [0, 0, 1, 0, 0]
            trend = Session(ingest.ledger).sql("SELECT sum(count) FROM trend(q)").rows
            assert trend == [[6]]


@pytest.mark.parametrize("killed", ["", "before", "after"])
@pytest.mark.parametrize("window", [
    {"kind": "tumbling", "length": "10 s"}, {"kind": "sliding", "length": "20 s", "every": "10 s"},
])  # fmt: skip
def test_late_events_that_no_window_holds_close_those_that_rollups_hold_whole(window, killed):
    """Also where the process is killed before, or after, the first that it writes of windows."""
    kept = spec(MATRIX | {"window": window}, rollups=["10 s"], retention={"panes": "20 s"})
    ledger = temporary()
    ingest = Ingest(kept, ledger, query_id="q")
    fed = [[(n, "a", 1)] for n in (*range(20), *range(100, 140))]
    for number, rows in enumerate(fed):
        ingest.take(number, gather([events(*rows)]))
    late = gather([events((55, "a", 1))])
    if killed:
        store = ingest.writer.close_windows

        def ended(*given):
            if killed == "after":
                store(*given)
            raise InterruptedError

        with (
            mock.patch.object(ingest.writer, "close_windows", ended),
            pytest.raises(InterruptedError),
        ):
            ingest.take(len(fed), late)
        ingest.close()
        ingest = Ingest(kept, ledger, query_id="q")
    ingest.take(len(fed), late)
    ingest.close()
    horizon = ledger.horizon("m", SECOND)
    assert horizon is not None
    assert horizon > START + 55 * SECOND
    closed = [w for w in ledger.windows("m") if w.start <= START + 55 * SECOND < w.end]
    assert {(w.events, w.late, w.revision) for w in closed} == {(1, 1, 0)}
    assert len(closed) == (1 if window["kind"] == "tumbling" else 2)


def test_late_events_of_very_many_panes_that_are_gone_stop_nothing(monkeypatch):
    """What is owed to their windows is stored with the batch: a document of a bounded size."""
    monkeypatch.setitem(JSON_BYTES_MAX, "assembler's state", 1 << 12)
    windowed = {**MATRIX, "window": {"kind": "floating", "length": "1 minute"}}
    early = [[events((at, "a", 1))] for at in (0, 1000)]
    late = [[events(*((at, "a", 1) for at in range(-600, 0)))]]
    kept = spec(windowed, rollups=["1 min"], retention={"panes": "1 min"})
    with run(kept, early + late) as ingest:
        assert ingest.ledger.pipelines()[0].late == 600


@pytest.mark.parametrize("name", ["revision", "Window_Start", "error"])
def test_a_column_that_a_trend_has_itself_is_refused(name):
    """It hid behind the trend's own, whose values were gone as well."""
    window = {"kind": "tumbling", "length": "2 s"}
    query = f'SELECT k AS "{name}", count FROM m(k)'  # noqa: S608
    given = spec(MATRIX | {"window": window}, queries={"q": query})
    with pytest.raises(SpecError, match=rf"queries.q: '{name}' is a column of trend\(q\) too"):
        StandingQueries(given, temporary())
    named = spec(MATRIX, queries={"q": {"select": query, "on": "update"}})
    StandingQueries(named, temporary()).close()  # it keeps no trend


def test_a_query_that_looks_back_beyond_what_is_kept_is_refused():
    """Each of its results would lack what retention has taken, whatever the window."""
    window = {"kind": "tumbling", "length": "2 s"}

    def query(retention, **more):
        queries = {"q": "SELECT i FROM m FOR LAST '1 hour'"}
        given = spec(MATRIX | {"window": window}, queries=queries, retention=retention, **more)
        StandingQueries(given, temporary()).close()

    said = "queries.q: FOR LAST 1 hour reads more than retention keeps, 59 minutes"
    with pytest.raises(SpecError, match=said):
        query({"panes": "1 min", "rollups": "59 min"})
    with pytest.raises(SpecError, match="than retention keeps, 1 minute: keep at least 1 hour"):
        query({"panes": "1 min", "rollups": "2 h"}, rollups=[])  # there are none
    query({"panes": "1 min"})  # rollups are kept for ever
    query({"panes": "1 min", "rollups": "1 h"})
    query({"panes": "1 h"}, rollups=[])
    query({"rollups": "1 min"})


def numbers(*rows):
    keys, values = zip(*rows, strict=True)
    times = pa.array([START] * len(rows), pa.timestamp("us", "UTC"))
    return pa.table({"time": times, "k": keys, "i": values})


@pytest.mark.parametrize(
    ("rows", "of_keys", "whole"),
    [
        ([("a", 1e16), ("a", 1.0), ("b", -1e16)], [1e16, -1e16], 1.0),
        ([("a", Decimal("0.1")), ("a", Decimal("0.2")), ("b", Decimal("-0.3"))], [0.3, -0.3], 0.0),
        (
            [("a", Decimal("1000000.01")), ("b", Decimal("-1000000")), ("b", None)],
            [1000000.01, -1000000],
            0.01,
        ),
    ],
)
def test_totals_are_those_of_the_events(rows, of_keys, whole):
    """Not of what each row of a key is shown as."""
    with run(spec(), [[numbers(*rows)]]) as ingest:
        session = Session(ingest.ledger)
        found = session.sql("SELECT i FROM m(k) FOR ALL ORDER BY k")
        assert found.rows == [[i] for i in of_keys]
        for text in ("SELECT i FROM m FOR ALL", "SELECT sum(i) AS i FROM m(k) FOR ALL"):
            assert session.sql(text).rows == [[whole]]


@pytest.mark.parametrize(
    ("select", "answer"),
    [
        ("sum(i) AS i FROM m(k) FOR ALL GROUP BY k < 'c' ORDER BY i", [0.02, 0.3]),
        ("i FROM m(k) FOR ALL WHERE i = 0.1 OR i > 1000000 ORDER BY i", [0.1, 1000000.01]),
        ("1.5 * i AS i FROM m(k) FOR ALL WHERE k = 'a'", [0.15]),
        ("i / 4 AS i FROM m(k) FOR ALL WHERE k = 'a'", [0.025]),
        ("median(total) AS i FROM (SELECT i AS total FROM m(k) FOR ALL WHERE k != 'd')", [0.2]),
        ("median(t) AS i FROM (SELECT i + 0.01 AS t FROM m(k) FOR ALL WHERE k < 'c')", [0.16]),
        (
            "quantile_cont(t, 0.25) AS i FROM (SELECT i AS t FROM m(k) FOR ALL WHERE k < 'c')",
            [0.125],
        ),
        (
            "sum(t + 0.2) AS i FROM (SELECT i AS t FROM m(k) FOR ALL WHERE k = 'a') "
            "HAVING median(t) > 0",
            [0.3],
        ),
        (
            "median(DISTINCT t) AS i FROM (SELECT count * 0.25 AS t FROM m(k) FOR ALL "
            "UNION ALL SELECT 0.5)",
            [0.375],
        ),
    ],
)
def test_statements_reckon_with_decimals(select, answer):
    amounts = {"a": "0.10", "b": "0.20", "c": "1000000.01", "d": "-999999.99"}
    rows = [(key, Decimal(amount)) for key, amount in amounts.items()]
    with run(spec(), [[numbers(*rows)]]) as ingest:
        found = Session(ingest.ledger).sql(f"SELECT {select}")
        assert found.to_arrow()["i"].to_pylist() == answer


@pytest.mark.parametrize("text", ["0.405", "0.0951", "-1e-3", " .101 "])
def test_a_text_with_more_digits_than_a_decimal_is_refused(text):
    """DuckDB rounds it, and finds 0.10 where 0.101 was asked for."""
    with run(spec(), [[numbers(("a", Decimal("0.10")))]]) as ingest:
        session = Session(ingest.ledger)
        asked = "SELECT k FROM m(k) FOR ALL WHERE condition"
        for condition in ("i = '?'", "i IN ('7', '?')", "nullif(i, '?') > 0"):
            with pytest.raises(SelectError, match="cannot be read as DECIMAL") as raised:
                session.sql(asked.replace("condition", condition.replace("?", text)))
            assert raised.value.code == "type"
        assert session.sql("SELECT k FROM m(k) FOR ALL WHERE i = '0.1000'").rows == [["a"]]
        assert session.sql("SELECT k FROM m(k) FOR ALL WHERE i < '0.405'::DOUBLE").rows == [["a"]]


@pytest.mark.parametrize(
    "select",
    [
        "coalesce(i, 0.125) AS i FROM m(k) FOR ALL",
        "CASE WHEN count > 5 THEN i ELSE 0.125 END AS i FROM m(k) FOR ALL",
        "greatest(sum(i), 0.125) AS i FROM m(k) FOR ALL",
        "lag(i, 1, 0.125) OVER () AS i FROM m(k) FOR ALL",
        "lag(count, 1, count / 8) OVER () AS i FROM m(k) FOR ALL",
        "i FROM m(k) FOR ALL UNION ALL SELECT 0.125",
        "i FROM m(k) FOR ALL WHERE i IN (SELECT 0.125)",
        "i FROM m(k) FOR ALL WHERE (i, k) = (0.125, k)",
        "i FROM m(k) FOR ALL WHERE (k, i) IN (('a', 0.5), ('b', 0.125))",
        "i FROM m(k) FOR ALL WHERE (1, (k, 0.125)) < (count, (k, i))",
        "max((i, count)) = (0.125, 1) AS i FROM m(k) FOR ALL",
    ],
)
def test_decimals_that_would_be_rounded_are_refused(select):
    """DuckDB has no space for more digits beside a sum of 38, and takes 0.13 for 0.125."""
    with run(spec(), [[numbers(("a", Decimal("0.10")))]]) as ingest:
        session = Session(ingest.ledger)
        with pytest.raises(SelectError, match="would be rounded") as raised:
            session.sql(f"SELECT {select}")
        assert raised.value.remedy
        session.sql("SELECT " + select.replace("0.125", "0.125::DOUBLE").replace("count / 8", "7"))
        assert session.sql("SELECT coalesce(i, 0.120) AS i FROM m(k) FOR ALL").rows == [[0.1]]
        same = "SELECT k FROM m(k) FOR ALL WHERE (i, (k, i)) = (0.100, (k, 0.1))"
        assert session.sql(same).rows == [["a"]]


def test_totals_beyond_float64_are_an_error():
    with run(spec(), [[numbers(("a", 1e308), ("b", 1e308), ("c", 1.0))]]) as ingest:
        session = Session(ingest.ledger)
        with pytest.raises(SelectError, match="indicator 'i': a sum is beyond double"):
            session.sql("SELECT i FROM m FOR ALL")
        assert session.sql("SELECT count FROM m FOR ALL").rows == [[3]]
