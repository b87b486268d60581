"""A window by steps is what each step is by itself: of every kind, in random streams."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muntin.errors import SelectError, SpecError
from muntin.ledger.temporary import temporary
from muntin.reading import pieces
from muntin.reading.catalog import LedgerCatalog
from muntin.select.catalog import ForClause
from muntin.select.engine import Engine
from muntin.session import Session
from muntin.times import instant_text, instant_us
from tests.pipeline.support import SECOND, START, events, gather, run
from tests.pipeline.support import pipeline as orders
from tests.pipeline.test_kinds import in_pieces, pipeline, some_rows, table
from tests.pipeline.test_shards import SUMMARIES as SHARDED

PANE, MINUTE = 10 * SECOND, 60 * SECOND
SUMMARIES: dict[str, dict[str, Any]] = {
    **SHARDED,
    "whole": {"kind": "quantiles", "value": "delay", "k": 2000},
    "tails": {"kind": "quantiles", "value": "delay", "by": "origin", "accuracy": "tail"},
}
ITEMS = (
    "rows", "rows(tail)", "rows(origin, dest)", "quantiles(whole, 0, 0.5)",
    "quantiles(delays, 0.5)", "ranks(few, 5, 20)", "quantiles(tails, 0.9)",
    "frequency(calls, 3, 7)", "top_k(top, 2)", "distinct(planes)",
    "contains(seen, 'N1', 'N2', 'none')", "sums", "sums(dest)",
)  # fmt: skip
CLAUSES = ("ALL", "LAST '5 minutes'", f"'{instant_text(START + 55 * SECOND)}' TO '2030-01-01'")


def ask(ledger: Any, item: str, window: str) -> Any:
    return Session(ledger).sql(f"SELECT * FROM {item} FOR {window}")  # noqa: S608


def check_steps(ledger: Any, item: str, clause: str, step: int, *, dropped: bool) -> None:
    """Each step's rows are those of its own window, and no event is in none."""
    found = ask(ledger, item, f"{clause} EVERY '{step} us'")
    covered = found.windows[0].covered
    if not dropped:  # else rollups may hold more, of which a step would be a part
        whole = ask(ledger, item, clause)
        assert (covered, found.late) == (whole.windows[0].covered, whole.late)
        assert found.columns == ["window_start", "window_end", *whole.columns]
        types = dict(zip(found.table.schema.names, found.table.schema.types, strict=True))
        assert types["window_start"] == types["window_end"] == pa.timestamp("us", "UTC")
        assert [types[name] for name in whole.columns] == whole.table.schema.types
    if covered is None:
        assert found.rows == []
        return
    steps: dict[tuple[str, str], list[Any]] = {}
    for start, end, *row in found.rows:
        steps.setdefault((start, end), []).append(row)
    read = "'{}' TO '{}'".format(*map(instant_text, covered))
    known = ask(ledger, "rows", f"{read} EVERY '{step} us'").rows
    assert {tuple(row[:2]) for row in known} >= set(steps)
    assert sum(row[2] for row in known) == ask(ledger, "rows", read).rows[0][0]
    for at in range(covered[0] // step * step, covered[1], step):
        span = instant_text(max(at, covered[0])), instant_text(min(at + step, covered[1]))
        alone = ask(ledger, item, "'{}' TO '{}'".format(*span))
        rows = steps.pop(span, [])
        if item in ("rows", "sums") and not alone.rows[0][0]:
            assert rows == []  # a total of nothing is a row; a step without events is none
        else:
            assert sorted(map(repr, rows)) == sorted(map(repr, alone.rows)), (item, span)
    assert not steps


@given(
    rows=st.integers(1, 250),
    seed=st.integers(0, 1000),
    micro=st.lists(st.integers(1, 250), max_size=3),
    item=st.sampled_from(ITEMS),
    clause=st.sampled_from(CLAUSES),
    panes=st.sampled_from([1, 2, 3, 6, 7, 30, 600]),
    late=st.booleans(),
    shards=st.sampled_from([None, 4]),
    retention=st.sampled_from([None, "1 minute"]),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_each_step_is_the_window_by_itself(
    rows: int, seed: int, micro: Any, item: str, clause: str, panes: int, late: bool,
    shards: int | None, retention: str | None,
) -> None:  # fmt: skip
    flown = some_rows(rows, seed=seed, seconds=400)
    if late:
        flown = [*flown[20:], *flown[:20]]
    cut = {"shards": shards} if shards else {}
    named = {"rows", next(name for name in SUMMARIES if re.search(rf"\b{name}\b", item))}
    spec = pipeline({name: {**SUMMARIES[name], **cut} for name in sorted(named)})
    if retention:
        kept = spec.retention.model_copy(update={"panes": MINUTE})
        spec = spec.model_copy(update={"retention": kept})
    with run(spec, [[part] for part in in_pieces(table(flown), micro)]) as ingest:
        check_steps(ingest.ledger, item, clause, panes * PANE, dropped=retention is not None)


def test_steps_in_order_of_time_are_those_that_duckdb_gives(asked: Engine) -> None:
    item = "rows FOR ALL EVERY '10 s'"
    for order in ("window_start", "window_start DESC", "count DESC, window_end"):
        text = f"SELECT window_end AS until, * FROM {item} ORDER BY {order}"  # noqa: S608
        for clause in ("", " LIMIT 3", " LIMIT 2 OFFSET 1"):
            by_duckdb = asked.sql(f"SELECT *, 1 AS x FROM ({text}) AS q{clause}")  # noqa: S608
            found = asked.sql(text + clause)
            assert found.table.equals(by_duckdb.table.drop_columns("x"))
            assert len(found.rows) > 1


NOW = START + 400 * SECOND
MOMENT = st.integers(-30, 450).map(lambda second: instant_text(START + second * SECOND))
ENDS = st.one_of(
    st.builds("window_start {} '{}'".format, st.sampled_from([">=", ">", "<", "<=", "="]), MOMENT),
    st.builds("TIMESTAMP '{}' {} window_start".format, MOMENT, st.sampled_from(["<=", "<", ">"])),
    st.builds("window_start BETWEEN '{}' AND '{}'".format, MOMENT, MOMENT),
    st.builds(
        "{} {} {}".format,
        st.sampled_from([
            "window_start", "CAST(window_start AS TIMESTAMP)", "date_trunc('minute', window_start)",
            "CAST(window_start AS DATE)", "date_trunc('hour', CAST(window_start AS DATE))",
        ]),
        st.sampled_from([">=", ">", "<", "<=", "=", "BETWEEN DATE '2023-11-14' AND"]),
        st.one_of(
            st.builds("now() - INTERVAL '{} seconds'".format, st.integers(-30, 450)),
            st.builds("(SELECT TIMESTAMP '{}')".format, MOMENT),
            st.sampled_from([
                "now()", "current_date", "current_date + 1", "'2023-11-15'", "NULL",
                "date_trunc('minute', now())", "CAST(now() AS DATE)",
                "TIMESTAMP 'infinity'", "TIMESTAMP '1900-01-01' + INTERVAL '1 day'",
            ]),
        ),
    ),
    st.builds(
        "extract(epoch from window_start) {} {}".format,
        st.sampled_from([">=", ">", "<", "<=", "="]),
        st.floats(-30, 450).map(lambda second: START / SECOND + second),
    ),
)  # fmt: skip
OTHERS = st.one_of(
    st.builds("(window_start >= '{}' OR window_start < '{}')".format, MOMENT, MOMENT),
    st.builds("window_start < CAST('{}' AS TIMESTAMP) + INTERVAL 1 minute".format, MOMENT),
    st.builds("NOT window_start < '{}'".format, MOMENT),
    st.builds("window_end <= '{}'".format, MOMENT),
    st.just("window_start >= DATE '2023-11-14'"),
    st.just("true"),
)
SELECTS = (
    "SELECT * FROM {item} WHERE {where}",
    "SELECT * FROM (SELECT * FROM {item}) AS q WHERE {where}",
    "SELECT * FROM (SELECT * FROM {item} ORDER BY window_start LIMIT 3) AS q WHERE {where}",
    "SELECT * FROM (SELECT window_start, max(window_end) AS window_end, count(*) AS n FROM "
    "(SELECT * FROM {item} WHERE window_end IS NOT NULL) AS r GROUP BY window_start) AS q "
    "WHERE {where}",
    "SELECT * FROM (SELECT window_start, window_end, row_number() OVER (ORDER BY window_start) "
    "FROM rows AS a) AS q WHERE {where}",
    "SELECT * FROM (SELECT window_end AS window_start, window_start AS window_end FROM {item}) "
    "AS q WHERE {where}",
    "SELECT window_start AS at, window_end AS window_start FROM {item} WHERE {where}",
    "WITH q AS (SELECT * FROM {item} WHERE {where}) SELECT * FROM q UNION ALL SELECT * FROM {item}",
    "SELECT * FROM rows AS q LEFT JOIN (SELECT window_start AS same FROM {item} WHERE {where}) AS r"
    " ON q.window_start = r.same",
    "SELECT a.*, b.count AS more FROM rows AS a LEFT JOIN rows AS b "
    "ON a.window_start = b.window_end WHERE {qualified}",
    "SELECT * FROM rows AS q WHERE EXISTS (SELECT 1 FROM {item} AS r WHERE {correlated})",
)


@pytest.fixture(scope="module", params=[None, "1 minute"])
def asked(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Of some minutes, or of those of which retention has left the last."""
    spec = pipeline(SUMMARIES)
    if request.param:
        kept = spec.retention.model_copy(update={"panes": MINUTE})
        spec = spec.model_copy(update={"retention": kept})
    rows = table(some_rows(120, seed=3, seconds=400))
    with run(spec, [[part] for part in in_pieces(rows, [40, 80])]) as ingest:
        yield Engine(LedgerCatalog(ingest.ledger))


@given(
    item=st.sampled_from(ITEMS),
    select=st.sampled_from(SELECTS),
    ends=st.lists(ENDS, min_size=1, max_size=2),
    other=OTHERS,
    step=st.sampled_from([1, 2, 3, 7, 30]).map(lambda panes: panes * PANE),
)
@settings(max_examples=150)
def test_a_filter_of_steps_reads_what_it_lets_through(
    asked: Engine, item: str, select: str, ends: list[str], other: str, step: int
) -> None:
    """Where tables are asked by steps without a clause, as by tools that know none."""
    where = " AND ".join([*ends, other])
    of_b = where.replace("window_start", "b.window_start").replace("window_end", "a.window_end")
    parts = {
        "where": where,
        "qualified": of_b,
        "correlated": where.replace("window_start", "q.window_start"),
    }
    every = f"FOR ALL EVERY '{step} us'"
    written = select.format(item=f"{item} {every}", **parts)
    for name in ("q", "a", "b"):
        written = written.replace(f"rows AS {name}", f"rows {every} AS {name}")
    try:
        found = asked.sql(
            select.format(item=item, **parts), window=ForClause("all", every_us=step), now=NOW
        )
    except SelectError as error:
        if error.code != "dropped":  # a range of which nothing is left
            raise
        return
    whole = asked.sql(written, now=NOW)
    assert found.columns == whole.columns
    assert sorted(map(repr, found.rows)) == sorted(map(repr, whole.rows))


FILTERS = (
    ("window_start >= now() - INTERVAL '1 minute'", 340, None),
    ("window_start BETWEEN now() - INTERVAL '2 minutes' AND now()", 280, 410),
    ("CAST(window_start AS TIMESTAMP) < now() + INTERVAL '-2 min'", None, 290),
    ("DATE '2023-11-14' = CAST(window_start AS DATE)", -80_000, 6_410),
    ("date_trunc('minute', window_start) = (SELECT TIMESTAMP '2023-11-14 22:14:00')", 40, 110),
    ("extract(epoch from window_start) >= 1700000060", 60, None),
)
"""As Metabase, Grafana, Tableau and Looker write them; seconds of what is read, from the start."""


def test_what_a_filter_computes_is_read_alone() -> None:
    every = ForClause("all", every_us=PANE)
    with run(orders(queries={}), [[events([(0, "d", 1, 1, 1)])]]) as ingest:
        engine = Engine(LedgerCatalog(ingest.ledger))
        for where, start, end in FILTERS:
            ends = [
                instant_text(at if second is None else START + second * SECOND)
                for second, at in ((start, 0), (end, instant_us("9999-12-31")))
            ]
            for item in ("orders", "(SELECT * FROM orders WHERE count > 0) AS q"):
                text = f"SELECT * FROM {item} WHERE {where}"  # noqa: S608
                found = engine.sql(text, window=every, now=NOW)
                assert f"'{ends[0]}' TO '{ends[1]}'" in found.windows[0].asked


def test_many_values_are_within_their_bounds_in_each_step() -> None:
    rng = np.random.default_rng(7)
    spec = orders(
        rollups=["1 minute"],
        summaries={
            "fares": {"kind": "quantiles", "value": "fare", "k": 100},
            "drivers": {"kind": "distinct", "item": "driver", "precision": 8},
        },
        queries={},
    )
    at = np.sort(rng.uniform(0, 600, 60_000))
    fares = rng.integers(0, 1_000_000, len(at))
    rows = [(s, f"d{f % 5000}", 1, 1, int(f)) for s, f in zip(at, fares, strict=True)]
    parts = [rows[first : first + 20_000] for first in range(0, len(rows), 20_000)]
    with run(spec, [[events(part)] for part in parts]) as ingest:
        found = ask(ingest.ledger, "quantiles(fares, 0.1, 0.5, 0.9)", "ALL EVERY '3 minutes'")
        counted = ask(ingest.ledger, "distinct(drivers)", "ALL EVERY '3 minutes'")
    first = START // (3 * MINUTE) * 3 * MINUTE
    times = (START + (at * SECOND).astype(np.int64) - first) // (3 * MINUTE)
    assert len(found.rows) == 3 * len(counted.rows) == 3 * len(np.unique(times))
    for number, row in enumerate(found.rows):
        _, _, q, _, lower, upper, _, n = row
        own = np.sort(fares[times == np.unique(times)[number // 3]])
        assert n == len(own)
        assert lower <= own[int(np.ceil(q * len(own))) - 1] <= upper
    for number, (_, _, value, *_) in enumerate(counted.rows):
        own = np.unique(fares[times == np.unique(times)[number]] % 5000)
        assert abs(value - len(own)) < 0.25 * len(own)


def test_totals_are_by_the_key_that_knows_most_of_each_step() -> None:
    """A key that was taken out, and another that came: no step lacks what either has counted."""
    ledger = temporary()
    early = [(s, f"d{s % 3}", s % 2, 1, s) for s in range(100)]
    late = [(s, f"d{s % 3}", s % 2, 1, s) for s in range(100, 220)]
    for number, (keys, rows) in enumerate(((["driver"], early), (["area"], late))):
        spec = orders(
            summaries={"orders": {"keys": keys, "indicators": ["served", "fare"]}}, queries={}
        )
        with run(spec, [], ledger) as ingest:
            ingest.take(number, gather([events(rows)]))
    found = ask(ledger, "orders", "ALL EVERY '50 s'")
    assert sum(row[2] for row in found.rows) == sum(row[3] for row in found.rows) == 220
    assert sum(row[4] for row in found.rows) == sum(range(220))


def test_where_only_rollups_are_left_a_longer_step_reads_more() -> None:
    spec = orders(
        summaries={"orders": {"keys": ["driver"], "indicators": ["fare"]}},
        queries={},
        rollups=["1 minute"],
        retention={"panes": "1 minute"},
    )
    rows = [(s, "d", 1, 1, 1) for s in range(0, 600, 2)]
    batches = [[events(rows[at : at + 20])] for at in range(0, len(rows), 20)]
    with run(spec, batches) as ingest:
        short = ask(ingest.ledger, "orders", "ALL EVERY '10 s'")
        (note,) = short.notes
        assert note.code == "retention"
        assert "EVERY '1 minute'" in note.message
        assert 0 < sum(row[2] for row in short.rows) < len(rows)
        longer = ask(ingest.ledger, "orders", "ALL EVERY '2 minutes'")
        assert (longer.notes, sum(row[2] for row in longer.rows)) == ((), len(rows))
        gone = START + MINUTE
        with pytest.raises(SelectError) as caught:
            ask(
                ingest.ledger,
                "orders",
                f"'{instant_text(START)}' TO '{instant_text(gone)}' EVERY '10 s'",
            )
        assert "EVERY '1 minute'" in caught.value.remedy


def test_a_standing_query_reads_its_window_by_steps() -> None:
    text = "SELECT window_start AS at, count AS n FROM orders FOR OPEN EVERY '20 s' ORDER BY at"
    tumbling = {"kind": "tumbling", "length": "1 minute"}
    spec = orders(
        summaries={"orders": {"keys": ["driver"], "indicators": ["fare"], "window": tumbling}},
        queries={"steps": text, "hour": text.replace("OPEN", "LAST '2 minutes'")},
    )
    rows = [(s, "d", 1, 1, 1) for s in range(200)]
    rows += [(15, "late", 1, 1, 1)]
    with run(spec, [[events(rows[:150])], [events(rows[150:])]], ended=True) as ingest:
        for query in ("steps", "hour"):
            trend = ask(ingest.ledger, f"trend({query})", "ALL")
            assert not any(row[-1] for row in trend.rows)
            windows: dict[str, int] = {}
            for start, end, _, at, n, _ in trend.rows:
                assert at < end
                windows[start] = windows.get(start, 0) + n
                alone = ask(ingest.ledger, "orders", f"'{at}' TO '{end}' EVERY '20 s'").rows[0]
                assert (alone[0], alone[2]) == (at, n)
            if query == "steps":
                assert sum(windows.values()) == len(rows)


def test_a_key_counts_once_whatever_the_steps() -> None:
    fares = {"fares": {"kind": "quantiles", "value": "fare", "by": "driver"}}
    rows = [(s, "ab"[s % 2], 1, 1, s) for s in range(200)]
    with run(orders(summaries=fares, queries={}), [[events(rows)]]) as ingest:
        for every in ("", " EVERY '10 s'"):
            found = ask(ingest.ledger, "quantiles(fares, 0.5)", f"ALL{every}")
            assert found.bounds["fares"]["keys"] == 2


def test_a_step_that_cuts_panes_is_refused_before_it_runs() -> None:
    spec = orders(queries={"q": "SELECT count FROM orders FOR ALL EVERY '15 s'"})
    with (
        pytest.raises(SpecError, match="a step of 15 seconds cuts the panes of orders"),
        run(spec, []),
    ):
        pass


def test_more_than_memory_may_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "BY_STEPS_BYTES_MAX", 10_000)
    rows = [(s % 600, f"d{s}", 1, 1, 1) for s in range(2_000)]
    with run(orders(queries={}), [[events(sorted(rows))]]) as ingest:
        assert ask(ingest.ledger, "orders(driver)", "ALL").rows
        with pytest.raises(SelectError, match="by steps takes more than") as caught:
            ask(ingest.ledger, "orders(driver)", "ALL EVERY '10 s'")
        assert caught.value.code == "limit"
