"""Every kind through the pipeline's own code, in random micro-batches, against the exact answer."""

from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from muntin.errors import SelectError, SpecError
from muntin.ledger.temporary import temporary
from muntin.segments import decode
from muntin.session import Session
from muntin.spec import Pipeline
from tests.pipeline.support import SECOND, START, content, run, slices_of

FLOATING = {"kind": "floating", "length": "1 minute"}
TUMBLING = {"kind": "tumbling", "length": "1 minute"}
SLIDING = {"kind": "sliding", "length": "1 minute", "every": "20 seconds"}
SUMMARIES = {
    "delays": {"kind": "quantiles", "value": "delay", "k": 50, "window": FLOATING},
    "by_origin": {
        "kind": "quantiles", "value": "delay", "by": "origin", "limit": 3, "window": FLOATING
    },
    "calls": {"kind": "frequency", "item": "dest", "width": 64, "depth": 4, "window": TUMBLING},
    "seats": {"kind": "frequency", "item": "dest", "weight": "seats", "by": ["origin"]},
    "top": {"kind": "top_k", "item": "dest", "capacity": 8, "window": SLIDING},
    "planes": {"kind": "distinct", "item": "tail", "precision": 10, "window": SLIDING},
    "planes_by": {"kind": "distinct", "item": "tail", "precision": 8, "by": "origin"},
    "seen": {
        "kind": "fingerprint", "key": "tail", "capacity": 1000, "rank": "delay", "error": 0.05
    },
    "sums": {
        "keys": ["dest"], "indicators": ["seats"], "window": TUMBLING,
        "sketch": {"width": 8, "depth": 2, "track": 5},
    },
}  # fmt: skip
QUERIES = {
    "median": "SELECT q, value, lower, upper, n FROM quantiles(delays, 0.5)",
    "heavy": "SELECT item, value FROM top_k(top, 2)",
    "how_many": "SELECT value FROM distinct(planes)",
}
COLUMNS = ("at", "origin", "dest", "tail", "delay", "seats")
NAN = float("nan")


def pipeline(summaries=None, queries=None):
    return Pipeline.of(
        {
            "name": "flights",
            "time": "time",
            "pane": "10 seconds",
            "lateness": "30 seconds",
            "rollups": ["1 minute", "10 minutes"],
            "summaries": summaries or SUMMARIES,
            "queries": QUERIES if queries is None and summaries is None else queries or {},
        }
    )


def table(rows):
    """A table of (seconds, origin, dest, tail, delay, seats)."""
    at, origin, dest, tail, delay, seats = zip(*rows, strict=True) if rows else [[]] * 6
    moments = pa.array([START + int(s * SECOND) for s in at], pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "time": moments,
            "origin": pa.array(origin, pa.string()),
            "dest": pa.array(dest, pa.int64()),
            "tail": pa.array(tail, pa.string()),
            "delay": pa.array(delay, pa.float64()),
            "seats": pa.array(seats, pa.int64()),
        }
    )


def some_rows(number, seed=1, seconds=900, nulls=0.05):
    rng = np.random.default_rng(seed)
    ats = np.sort(rng.uniform(0, seconds, number))
    missing = rng.random((number, 5)) < nulls
    rows = []
    for i in range(number):
        row = [
            ["JFK", "EWR", "LGA", "BOS", "ORD"][rng.integers(5)],
            int(rng.zipf(1.5)) % 40,
            f"N{rng.integers(400)}",
            float(rng.normal(10, 30)),
            int(rng.integers(0, 200)),
        ]
        row = [None if gone else value for value, gone in zip(row, missing[i], strict=True)]
        if row[3] is None and rng.random() < 0.5:
            row[3] = NAN
        rows.append((float(ats[i]), *row))
    return rows


def in_pieces(whole, cuts):
    edges = sorted({0, whole.num_rows, *(cut for cut in cuts if cut < whole.num_rows)})
    return [whole.slice(a, b - a) for a, b in pairwise(edges)]


def there(rows, *names):
    """Values of these columns of the rows in which none is null or NaN."""
    places = [COLUMNS.index(name) for name in names]
    found = [tuple(row[p] for p in places) for row in rows]
    return [v for v in found if not any(x is None or x != x for x in v)]


@cache
def flown():
    rows = some_rows(4000)
    batches = [in_pieces(part, [150, 900]) for part in in_pieces(table(rows), [700, 1300, 2900])]
    return rows, batches


@pytest.fixture(scope="module")
def flights():
    rows, batches = flown()
    with run(pipeline(), batches) as ingest:
        yield rows, ingest, Session(ingest.ledger)


def answers(session, text):
    return session.sql(text).table.to_pylist()


def ranks_hold(values, asked):
    """The interval of each quantile holds the value of that rank."""
    ordered = np.sort(np.array(values))
    for row in asked:
        position = min(max(int(np.ceil(row["q"] * len(ordered))) - 1, 0), len(ordered) - 1)
        assert row["lower"] <= ordered[position] <= row["upper"]
        assert row["n"] == len(ordered)


def test_quantiles_and_ranks(flights):
    rows, _, session = flights
    values = [v for (v,) in there(rows, "delay")]
    ranks_hold(values, answers(session, "SELECT * FROM quantiles(delays, 0, 0.1, 0.5, 1) FOR ALL"))
    for row in answers(session, "SELECT * FROM ranks(delays, -20, 0, 44.5) FOR ALL"):
        truth = sum(v <= row["x"] for v in values) / len(values)
        assert row["lower"] <= truth <= row["upper"]
        assert row["confidence"] == 0.99
    result = session.sql("SELECT value FROM quantiles(delays, 0.5) FOR ALL")
    assert not result.exact
    bounds = result.bounds["delays"]
    assert bounds["nulls"] == len(rows) - len(values)
    assert 0 < bounds["rank_error"] < 0.06
    assert bounds["confidence"] == 0.99


def test_last_is_answered_from_rollups_and_panes(flights):
    rows, ingest, session = flights
    end = session.sql("SELECT value FROM quantiles(delays, 0.5) FOR ALL").window.covered[1]
    assert ingest.ledger.pieces("delays", 60 * SECOND)
    for seconds in (10, 60, 250, 630):
        first = (end - START) / SECOND - seconds
        values = [v for row in rows if row[0] >= first for (v,) in there([row], "delay")]
        text = f"SELECT * FROM quantiles(delays, 0.25, 0.5) FOR LAST '{seconds} seconds'"  # noqa: S608
        ranks_hold(values, answers(session, text))


def test_quantiles_by_key_are_bounded_and_lose_nothing(flights):
    rows, ingest, session = flights
    values = defaultdict(list)
    for row in rows:
        for (value,) in there([row], "delay"):
            values[row[1]].append(value)
    found = answers(session, "SELECT * FROM quantiles(by_origin, 0.5) FOR ALL")
    assert sum(row["n"] for row in found) == sum(map(len, values.values()))
    assert [row["other"] for row in found] == [False] * 3 + [True]
    for row in found[:3]:
        if row["complete"]:
            ranks_hold(values[row["origin"]], [row])
        else:
            assert row["n"] <= len(values[row["origin"]])
    bounds = session.sql("SELECT n FROM quantiles(by_origin, 0.5) FOR ALL").bounds["by_origin"]
    assert (bounds["keys"], bounds["other"]) == (3, found[3]["n"])
    assert dict(ingest.ledger.windows("by_origin")[0].fill) == {"keys": 3}


def test_frequency_and_top_k_of_count_min(flights):
    rows, _, session = flights
    counts = Counter(v for (v,) in there(rows, "dest"))
    for row in answers(session, "SELECT * FROM frequency(calls, 1, 2, 7, 1234) FOR ALL"):
        assert counts[row["item"]] <= row["value"] == row["upper"]
        assert row["lower"] <= row["value"]
    for row in answers(session, "SELECT * FROM top_k(calls, 5) FOR ALL"):
        assert row["lower"] <= counts[row["item"]] <= row["upper"]
    bounds = session.sql("SELECT item FROM frequency(calls, 1) FOR ALL").bounds["calls"]
    assert bounds["nulls"] == len(rows) - counts.total()
    # few items are listed, each with what it weighs: nothing is estimated
    assert (bounds["error"], bounds["confidence"]) == (0, 1.0)


def test_weights_by_key(flights):
    rows, _, session = flights
    weights = Counter()
    for origin, dest, seats in [(r[1], r[2], r[5]) for r in rows if there([r], "dest", "seats")]:
        weights[origin, dest] += seats
    found = answers(session, "SELECT * FROM frequency(seats, 1) FOR ALL")
    assert {row["origin"] for row in found} == {"JFK", "EWR", "LGA", "BOS", "ORD", None}
    for row in found:
        assert row["lower"] <= weights[row["origin"], 1] <= row["upper"]


def test_top_k(flights):
    rows, _, session = flights
    counts = Counter(v for (v,) in there(rows, "dest"))
    found = answers(session, "SELECT * FROM top_k(top, 3) FOR ALL")
    for row in found:
        assert row["lower"] <= counts[row["item"]] <= row["upper"]
    assert found[0]["item"] == counts.most_common(1)[0][0]
    assert found[0]["guaranteed"]
    every = session.sql("SELECT item, value FROM top_k(top) FOR ALL")
    error = every.bounds["top"]["error"]
    assert 0 < error <= counts.total() / 9 / 2 + 1
    assert all(abs(value - counts[item]) <= error for item, value in every.rows)


def test_distinct(flights):
    rows, _, session = flights
    tails = {v for (v,) in there(rows, "tail")}
    (row,) = answers(session, "SELECT * FROM distinct(planes) FOR ALL")
    assert row["lower"] <= len(tails) <= row["upper"]
    bounds = session.sql("SELECT value FROM distinct(planes) FOR ALL").bounds["planes"]
    assert bounds["standard_error"] == pytest.approx(0.7609 / 2**5, rel=1e-3)
    assert not bounds.keys() & {"relative", "confidence"}  # 2.58 of these are 99 %
    by = defaultdict(set)
    for row in rows:
        if row[3] is not None:
            by[row[1]].add(row[3])
    for row in answers(session, "SELECT * FROM distinct(planes_by) FOR ALL"):
        assert row["lower"] <= len(by[row["origin"]]) <= row["upper"]


def test_fingerprint(flights):
    rows, _, session = flights
    found = answers(session, "SELECT * FROM contains(seen, 'N1', 'N399', 'N400', 'x') FOR ALL")
    assert [row["present"] for row in found] == [True, True, False, False]
    kept = [row for row in rows if row[3] is not None]
    values = [v for (v,) in there(kept, "delay")]
    ranks_hold(values, answers(session, "SELECT * FROM quantiles(seen, 0, 0.1, 0.5) FOR ALL"))
    for row in answers(session, "SELECT * FROM ranks(seen, -20, 3.25) FOR ALL"):
        truth = sum(v <= row["x"] for v in values) / len(values)
        assert row["lower"] <= truth <= row["upper"] <= row["lower"] + 0.1
        assert row["confidence"] == 1.0
    end = session.sql("SELECT item FROM contains(seen, 'x') FOR ALL").window.covered[1]
    recent = {row[3] for row in rows if row[0] >= (end - START) / SECOND - 60}
    names = ", ".join(f"'N{number}'" for number in range(90))
    found = answers(
        session,
        f"SELECT item, present FROM contains(seen, {names}) FOR LAST '60 seconds'",  # noqa: S608
    )
    assert all(row["present"] for row in found if row["item"] in recent)
    assert 0 < sum(row["present"] for row in found) <= len(recent & {r["item"] for r in found}) + 3
    bounds = session.sql("SELECT item FROM contains(seen, 'x') FOR ALL").bounds["seen"]
    assert bounds["nulls"] == len(rows) - len(kept)
    assert bounds["unranked"] == len(kept) - len(values)
    assert bounds["false_positive_rate"] <= 0.01
    assert bounds["rank_error"] <= 0.05


def test_a_sketched_matrix_behind_the_same_select(flights):
    rows, _, session = flights
    counts, seats = Counter(row[2] for row in rows), Counter()
    for row in rows:
        seats[row[2]] += row[5] or 0
    result = session.sql("SELECT * FROM sums(dest) FOR ALL")
    for row in result.table.to_pylist():
        assert row["count_lower"] <= counts[row["dest"]] <= row["count"]
        assert seats[row["dest"]] <= row["seats"]
    assert not result.exact
    assert result.bounds["sums"]["relative"] == pytest.approx(np.e / 8)
    assert not session.sql("SELECT X1, X1.Y1 FROM sketch 1.1 OF sums FOR ALL").exact
    totals = session.sql("SELECT * FROM sums FOR ALL")
    assert totals.rows == [[len(rows), seats.total()]]
    assert totals.exact


@pytest.mark.parametrize(
    ("entry", "exact"),
    [
        ({"kind": "top_k", "capacity": 20}, True),
        ({"kind": "top_k", "capacity": 8}, False),
        ({"kind": "top_k", "capacity": 20, "weight": "seats", "by": "origin"}, True),
        ({"kind": "top_k", "capacity": 20, "by": "origin", "limit": 3}, False),  # some are others
        ({"kind": "frequency"}, True),
        ({"kind": "frequency", "by": "origin", "limit": 3}, False),
        ({"kind": "frequency", "width": 8, "depth": 2, "track": 5}, False),
    ],
)
def test_who_has_forgotten_nothing_is_exact(entry, exact):
    rows, batches = flown()
    if "by" in entry:  # no row of "none" among the others
        rows = [row for row in rows if row[1] is not None]
        batches = [[table(rows)]]
    spec, truth = pipeline({"heavy": {"item": "dest", **entry}}), Counter()
    for row in rows:
        if row[2] is not None and ("weight" not in entry or row[5] is not None):
            key = (row[2],) if "by" not in entry else (row[1], row[2])
            truth[key] += row[5] if "weight" in entry else 1
    with run(spec, batches) as ingest:
        session = Session(ingest.ledger)
        found = session.sql("SELECT * FROM top_k(heavy, 50) FOR ALL")
        asked = session.sql("SELECT * FROM frequency(heavy, 3, 77) FOR ALL")
    assert (found.exact, asked.exact) == (exact, exact)
    assert found.bounds["heavy"]["nulls"] > 0
    if exact:
        names = ["item"] if "by" not in entry else ["origin", "item"]
        listed = {tuple(row[n] for n in names): row for row in found.table.to_pylist()}
        assert {key: row["value"] for key, row in listed.items()} == +truth
        assert all(row["lower"] == row["value"] == row["upper"] for row in listed.values())
        for row in asked.table.to_pylist():
            assert row["lower"] == row["upper"] == truth[tuple(row[n] for n in names)]


def test_every_event_is_counted(flights):
    rows, ingest, _ = flights
    for name in ingest.pipeline.summaries:
        for length in (10 * SECOND, 60 * SECOND):
            for piece in ingest.ledger.pieces(name, length):
                segment = decode(ingest.ledger.payloads([piece.id])[piece.id])
                assert segment.count == piece.events
                assert (segment.slices * length).tolist() == piece.slices.starts.tolist()
        assert slices_of(ingest.ledger, name, 10 * SECOND).count == len(rows)


def test_windows_close_and_trends_are_kept(flights):
    rows, ingest, session = flights
    for name in ("delays", "by_origin", "calls", "sums"):
        windows = ingest.ledger.windows(name)
        assert len(windows) == 14  # 900 seconds, less the lateness and the open one
        assert {w.reason for w in windows} == {"full"}
        assert not any(w.overflowed for w in windows)
    starts = [w.start for w in ingest.ledger.windows("top")]
    assert {b - a for a, b in pairwise(starts)} == {20 * SECOND}
    trend = answers(session, "SELECT * FROM trend(median)")
    for row, window in zip(trend, ingest.ledger.windows("delays"), strict=True):
        first = (window.start - START) / SECOND
        values = [v for r in rows if first <= r[0] < first + 60 for (v,) in there([r], "delay")]
        ranks_hold(values, [row])
        # merged from a rollup instead of pane by pane: another value within the same bound
        text = f"SELECT * FROM quantiles(delays, 0.5) FOR WINDOW '{row['window_start']}'"  # noqa: S608
        ranks_hold(values, answers(session, text))
    assert not session.sql("SELECT * FROM trend(how_many)").exact
    with session._engine._catalog.moment() as moment:
        heavy = moment.trend("heavy", None).table  # in one piece, which DuckDB reads at once
    assert len(heavy) == 2 * len(starts)
    assert {column.num_chunks for column in heavy.itercolumns()} == {1}


def test_a_window_without_events_has_no_rows():
    rows = [row for row in some_rows(300) if not 200 <= row[0] < 400]
    with run(pipeline(), [[table(rows)]]) as ingest:
        session = Session(ingest.ledger)
        gap = "FOR '2023-11-14T22:17:00' TO '2023-11-14T22:18:00'"
        for item in (
            "quantiles(delays, 0.5)", "quantiles(by_origin, 0.5)", "ranks(delays, 1)",
            "frequency(calls, 1)", "top_k(top, 3)", "distinct(planes)", "distinct(planes_by)",
            "contains(seen, 'N1')", "quantiles(seen, 0.5)", "ranks(seen, 1)", "sums(dest)",
        ):  # fmt: skip
            assert session.sql(f"SELECT * FROM {item} {gap}").rows == []  # noqa: S608
        assert session.sql(f"SELECT * FROM sums {gap}").rows[0][0] == 0  # noqa: S608


def test_events_without_a_value_answer_with_null():
    rows = [(s, None, None, None, NAN, None) for s in range(100)]
    with run(pipeline(), [[table(rows)]]) as ingest:
        session = Session(ingest.ledger)
        (row,) = answers(session, "SELECT * FROM quantiles(delays, 0.5) FOR ALL")
        assert (row["value"], row["n"]) == (None, 0)
        (row,) = answers(session, "SELECT * FROM ranks(seen, 0.5) FOR ALL")
        assert (row["rank"], row["n"]) == (None, 0)
        assert answers(session, "SELECT * FROM top_k(top) FOR ALL") == []
        assert answers(session, "SELECT * FROM quantiles(by_origin, 1) FOR ALL") == []
        assert answers(session, "SELECT value FROM distinct(planes) FOR ALL") == [{"value": 0.0}]
        (row,) = answers(session, "SELECT * FROM contains(seen, 'a') FOR ALL")
        assert row["present"] is False
        bounds = session.sql("SELECT * FROM top_k(top) FOR ALL").bounds["top"]
        assert bounds["nulls"] == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantiles(delays, 2)", "not between 0 and 1"),
        ("quantiles(calls, 0.5)", "cannot be asked of calls, which is frequency"),
        ("top_k(delays, 3)", "cannot be asked of delays"),
        ("distinct(seen)", "cannot be asked of seen"),
        ("contains(calls, 1)", "cannot be asked of calls"),
        ("frequency(calls, 1.5)", "not an item"),
        ("frequency(calls, '1')", "items of this summary are integers"),
        ("frequency(top, 'x')", "int"),
        ("contains(seen, 5)", "items of this summary are texts: write '5', not 5"),
        ("contains(seen)", "the items are missing"),
        ("top_k(top, 0)", "number of rows"),
        ("distinct(planes, 3)", "no argument"),
        ("delays", "no table by itself"),
    ],
)
def test_wrong_questions_are_named(flights, text, message):
    with pytest.raises(SelectError, match=message) as caught:
        flights[2].sql(f"SELECT * FROM {text} FOR ALL")  # noqa: S608
    assert caught.value.code == "from_item"  # not that the ledger could not be read


def test_without_a_rank_there_are_no_quantiles():
    summary = {"seen": {"kind": "fingerprint", "key": "tail"}}
    with run(pipeline(summary), [[table(some_rows(50))]]) as ingest:
        session = Session(ingest.ledger)
        with pytest.raises(SelectError, match="fingerprint without `rank`") as caught:
            session.sql("SELECT * FROM quantiles(seen, 0.5) FOR ALL")
        assert caught.value.remedy == "contains(seen, 'd1', 'd2')"
        ways = {row[0] for row in session.sql("DESCRIBE seen").rows if row[1]}
        assert ways == {"contains(seen, 'd1', 'd2')", "windows(seen)"}  # they were offered
        assert answers(session, "SELECT present FROM contains(seen, 'zz') FOR ALL") == [
            {"present": False}
        ]


def test_a_negative_weight_is_rejected_and_named():
    summary = {"s": {"kind": "top_k", "item": "dest", "weight": "seats"}}
    rows = [(0, "a", 1, "b", 1.0, -3), (1, "a", 1, "c", 1.0, 2)]
    with run(pipeline(summary), [[table(rows)]]) as ingest:
        ((_, refused),) = ingest.ledger.rejected(ingest.pipeline.name)
        assert (refused.reason, refused.detail) == (
            "bad_value",
            "column 'seats': '-3' is a weight below 0: take a field, greatest(…, 0) (summaries.s)",
        )
        assert ingest.ledger.pipelines()[0].counted == 1


EXACT_BYTES = {
    "calls": {"kind": "frequency", "item": "dest", "track": 0, "window": TUMBLING},
    "top": {"kind": "top_k", "item": "dest", "window": FLOATING},
    "planes": {"kind": "distinct", "item": "tail", "window": SLIDING},
    "planes_by": {"kind": "distinct", "item": "tail", "precision": 6, "by": "origin"},
    "seen": {"kind": "fingerprint", "key": "tail", "rank": "delay"},
    "sums": {"keys": ["dest"], "indicators": ["seats"], "sketch": {"width": 64}},
}
"""Same bytes however rows are spread, at these sizes: no more than 2 x capacity items, digests of
fewer values than nodes, and rows in the order in which they came."""

event = st.tuples(
    st.integers(0, 400),
    st.one_of(st.none(), st.sampled_from(["JFK", "EWR", "LGA"])),
    st.one_of(st.none(), st.integers(0, 6)),
    st.one_of(st.none(), st.sampled_from(["N1", "N2", "N3", ""])),
    st.one_of(st.none(), st.just(NAN), st.integers(-3, 3).map(float)),
    st.one_of(st.none(), st.integers(0, 5)),
)
cuts = st.lists(st.integers(0, 60), max_size=6)


@given(st.lists(event, min_size=1, max_size=60), cuts, cuts)
@settings(max_examples=25)
def test_batch_is_stream_to_the_byte(rows, micro, parts):
    arrived = table(sorted(rows, key=lambda row: row[0]))
    spec = pipeline(EXACT_BYTES)
    batches = [in_pieces(batch, parts) for batch in in_pieces(arrived, micro)]
    with run(spec, [[arrived]]) as whole, run(spec, batches) as streamed:
        assert content(whole) == content(streamed)


def test_a_replay_gives_the_same_bytes():
    """Sketches with coins, too: their seed is constant."""
    arrived = table(some_rows(1500, seconds=240))
    batches = [in_pieces(part, [150, 900]) for part in in_pieces(arrived, [400])]
    with run(pipeline(), batches) as once, run(pipeline(), batches) as again:
        assert content(once) == content(again)


@given(st.lists(event, min_size=1, max_size=60), cuts)
@settings(max_examples=15)
def test_any_order_counts_the_same_events(rows, micro):
    batches = [[batch] for batch in in_pieces(table(rows), micro)]
    with run(pipeline(), batches) as ingest:
        session = Session(ingest.ledger)
        values = [v for (v,) in there(rows, "delay")]
        found = answers(session, "SELECT * FROM quantiles(delays, 0, 0.5, 1) FOR ALL")
        if values:
            ranks_hold(values, found)
        counts = Counter(v for (v,) in there(rows, "dest"))
        for row in answers(session, "SELECT * FROM top_k(top, 9) FOR ALL"):
            assert row["lower"] <= counts[row["item"]] <= row["upper"]
        for name in SUMMARIES:
            assert slices_of(ingest.ledger, name, 10 * SECOND).count == len(rows)


@pytest.mark.spark
def test_all_kinds_in_one_pipeline_on_spark(spark):
    rows = some_rows(2000, seconds=240)
    df = spark.createDataFrame(table(rows)).repartition(3)
    with muntin.summarize(df, pipeline(), ledger=temporary()) as session:
        values = [v for (v,) in there(rows, "delay")]
        ranks_hold(values, answers(session, "SELECT * FROM quantiles(delays, 0.5) FOR ALL"))
        counts = Counter(v for (v,) in there(rows, "dest"))
        for row in answers(session, "SELECT * FROM top_k(top, 5) FOR ALL"):
            assert row["lower"] <= counts[row["item"]] <= row["upper"]
        (row,) = answers(session, "SELECT * FROM frequency(calls, 1) FOR ALL")
        assert row["lower"] <= counts[1] <= row["upper"]
        tails = {v for (v,) in there(rows, "tail")}
        (row,) = answers(session, "SELECT * FROM distinct(planes) FOR ALL")
        assert row["lower"] <= len(tails) <= row["upper"]
        asked = ", ".join(f"'{tail}'" for tail in sorted(tails)[:50])
        found = answers(session, f"SELECT * FROM contains(seen, {asked}) FOR ALL")  # noqa: S608
        assert all(row["present"] for row in found)
        assert session.sql("SELECT count FROM sums FOR ALL").rows == [[len(rows)]]
        assert session.sql("SELECT value FROM trend(median)").rows


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("delays", {"k": 100}, "summaries.delays.k: 50 in what is stored, now 100.*another name"),
        ("by_origin", {"limit": 4}, "limit: 3 in what is stored"),
        ("by_origin", {"by": "dest"}, "by"),
        ("calls", {"width": 65}, "width"),
        ("top", {"capacity": 9}, "capacity"),
        ("planes", {"precision": 11}, "lg_k"),
        ("seen", {"fpp": 0.5}, "fpp"),
        ("seen", {"rank": None, "error": None}, "rank: delay in what is stored, now nothing"),
        ("sums", {"sketch": {"width": 17}}, "sketch"),
        ("sums", {"sketch": None}, "sketch"),
        ("sums", {"indicators": ["seats", "delay"]}, "indicators"),
        ("top", {"kind": "frequency", "capacity": None}, "kind: top_k in what is stored"),
    ],
)
def test_a_size_that_is_stored_stays(name, change, message):
    rows = table(some_rows(100))
    changed = {k: v for k, v in (SUMMARIES[name] | change).items() if v is not None}
    spec = pipeline({**SUMMARIES, name: changed}, QUERIES if name not in ("top",) else {})
    ledger = temporary()
    with run(pipeline(), [[rows]], ledger) as ingest, pytest.raises(SpecError, match=message):
        ingest.reconfigure(spec)
    with pytest.raises(SpecError, match=message), run(spec, [], ledger):
        pass
    with run(pipeline({**SUMMARIES, f"{name}_2": changed}), [], ledger):
        pass
