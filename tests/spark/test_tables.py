"""Tables in memory are summarised without Spark; what cannot be is refused in one line."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin
from muntin.errors import (
    BadArgument,
    LedgerConflict,
    LedgerError,
    SelectError,
    SourceError,
    SpecError,
)
from muntin.spark import batch
from muntin.spark.session import frame_of

TIMES = [dt.datetime(2013, 1, 1, 5, 15), dt.datetime(2013, 1, 1, 5, 59), dt.datetime(2013, 1, 1, 6)]
ROWS = {"time": TIMES, "origin": ["EWR", "JFK", "EWR"], "delay": [1, 2, 4]}
SPEC = {
    "name": "flights",
    "time": "time",
    "pane": "1 hour",
    "summaries": {"flights": {"keys": ["origin"], "indicators": ["delay"]}},
}
EXPECTED = [("EWR", 2, 5), ("JFK", 1, 2)]


def nanoseconds():
    return pa.table({**ROWS, "time": pa.array(TIMES, pa.timestamp("ns"))})


TABLES = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas, categories": lambda: pd.DataFrame(ROWS).astype({"origin": "category"}),
    "pandas, an index": lambda: pd.DataFrame(ROWS).set_index("time"),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars, categories": lambda: pl.DataFrame(ROWS, schema_overrides={"origin": pl.Categorical}),
    "arrow": lambda: pa.table(ROWS),
    "nanoseconds": nanoseconds,
    "large text": lambda: pa.table({**ROWS, "origin": pa.array(ROWS["origin"], pa.large_string())}),
    "a batch": lambda: pa.RecordBatch.from_pydict(ROWS),
    "a reader": lambda: pa.table(ROWS).to_reader(),
}


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    def refuses(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(batch, "spark_session", refuses)


def asked(session):
    table = session.sql("SELECT origin, count, delay FROM flights(origin) FOR ALL ORDER BY origin")
    return [tuple(row.values()) for row in table.to_arrow().to_pylist()]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_taken_as_it_is(name):
    with muntin.summarize(TABLES[name](), SPEC) as session:
        assert asked(session) == EXPECTED
        assert session.progress is not None
        assert session.progress.read == 3


def test_a_cell_can_run_again_where_nobody_named_a_ledger():
    first = muntin.summarize(pa.table(ROWS), SPEC)
    second = muntin.summarize(pa.table(ROWS), SPEC)
    assert asked(first) == asked(second) == EXPECTED
    more = muntin.summarize(pa.table(ROWS), SPEC, mode="append")
    assert asked(more) == [("EWR", 4, 10), ("JFK", 2, 4)]


def test_a_ledger_that_was_named_is_not_fed_twice_and_spark_is_not_started_for_it(tmp_path):
    url = f"sqlite:///{tmp_path}/flights.db"
    with muntin.summarize(pa.table(ROWS), SPEC, ledger=url):
        pass
    (tmp_path / "more.parquet").write_bytes(b"nobody reads this")
    with pytest.raises(LedgerConflict, match=r'mode="append" to add .* mode="overwrite" to delete'):
        muntin.summarize(tmp_path / "more.parquet", SPEC, ledger=url)
    with pytest.raises(LedgerConflict, match="was fed by query batch-"):
        muntin.stream(None, {**SPEC, "source": {"format": "rate"}}, ledger=url)
    with muntin.summarize(pa.table(ROWS), SPEC, ledger=url, mode="overwrite") as session:
        assert asked(session) == EXPECTED


def test_a_wrong_standing_query_is_told_before_spark_starts(tmp_path):
    spec = {**SPEC, "queries": {"worst": "SELECT origin, dealy FROM flights(origin)"}}
    with pytest.raises((SelectError, SpecError), match="dealy"):
        muntin.summarize(tmp_path, spec)


@pytest.mark.parametrize("given", [5, [], [1, 2], {"time": [1]}, object()])
def test_other_things_are_refused(given):
    with pytest.raises(BadArgument, match="summarize takes a Spark, pandas or polars DataFrame"):
        muntin.summarize(given, SPEC)


def test_columns_are_checked():
    with pytest.raises(SourceError, match=r"no column 'origin'.*did you mean 'origins'"):
        muntin.summarize(pa.table({**ROWS, "origins": ROWS["origin"]}).drop(["origin"]), SPEC)
    with pytest.raises(SourceError, match="time: column 'time' is bool"):
        muntin.summarize(pa.table({**ROWS, "time": [True, False, True]}), SPEC)
    for odd in ({"origin": ["a", 1, object()]}, {"delay": [1, 2**64, -1]}):
        with pytest.raises(SourceError, match="cannot become an Arrow table"):
            muntin.summarize(pd.DataFrame({**ROWS, **odd}, dtype=object), SPEC)


def test_a_share_that_was_rejected_is_told_with_its_first_reason():
    late = pa.table({**ROWS, "time": ["31.01.2013"] * 3})
    with pytest.warns(UserWarning, match=r"3 of 3 records were rejected: bad_time, .*'31.01.2013'"):
        muntin.summarize(late, SPEC).close()


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(10, 2), pa.decimal256(40, 2)])
def test_decimals_of_any_width_are_summed_by_a_sketch_as_well(kind):
    table = pa.table({**ROWS, "delay": pa.array([1, 2, 4]).cast(pa.decimal128(21, 2)).cast(kind)})
    spec = {"keys": ["origin"], "indicators": ["delay"], "sketch": {}}
    with muntin.summarize(table, {**SPEC, "summaries": {"flights": spec}}) as session:
        assert asked(session) == EXPECTED


def test_two_columns_of_one_name_are_refused():
    twice = pa.Table.from_arrays([*pa.table(ROWS).columns, pa.array([1, 2, 3])], [*ROWS, "delay"])
    with pytest.raises(SourceError, match="there are 2 columns 'delay'"):
        muntin.summarize(twice, SPEC)


def test_what_is_no_ledger_is_not_opened():
    with pytest.raises(BadArgument, match=r"not of NoneType: muntin\.open takes its URL"):
        muntin.open(None)
    with pytest.raises(LedgerError, match="True is not the URL of a ledger"):
        muntin.summarize(pa.table(ROWS), SPEC, ledger=True)


def test_a_ledger_is_named_by_a_path_as_well(tmp_path):
    with muntin.summarize(pa.table(ROWS), SPEC, ledger=tmp_path / "a.db") as session:
        listed = session.sql("SHOW TABLES").rows
        assert len(listed) == 1
    assert muntin.open(tmp_path / "a.db").sql("SHOW TABLES").rows == listed


def counted_in(times, unit):
    table = pa.table({"time": times, "origin": ["EWR"] * len(times), "delay": [1] * len(times)})
    return muntin.summarize(table, {**SPEC, "time": {"column": "time", "unit": unit}})


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("fits", ["s", "ms", "us", "ns"])
def test_numbers_of_another_unit_are_told_at_once(recwarn, fits, unit):
    number = 1_700_000_000 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[fits]
    with counted_in(pa.array([number, None, number]), unit) as session:
        said = [str(one.message) for one in recwarn if "is the unit right?" in str(one.message)]
        if fits == unit:
            assert said == []
            return
        assert len(said) == 1
        assert said[0].startswith(f"time: column 'time' holds {number}, which is ")
        assert f" and 2023-11-14T22:13:20Z in {fits}; so are 2 of 3 events" in said[0]
        assert said[0].endswith(f"write  time: {{column: time, unit: {fits}}}")
        assert session.ledger.status("flights")["doubt"] == said[0]
        for _, record in session.ledger.rejected("flights"):
            if record.reason != "no_time":
                assert record.detail.endswith(f"; it is 2023-11-14T22:13:20Z in {fits}")


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(28, 6), pa.uint64()])
def test_numbers_of_any_type_are_looked_at(kind):
    numbers = pa.array([1_700_000_000] * 3).cast(kind, safe=False)
    with pytest.warns(UserWarning, match=r"2023-11-14T22:13:20Z in s; so are 3 of 3 events"):
        counted_in(numbers, "us").close()


@pytest.mark.parametrize("numbers", [[0, 5, 86_400], [-1, 2**62], [None, None], []])
def test_other_numbers_are_in_no_doubt(recwarn, numbers):
    with counted_in(pa.array(numbers, pa.int64()), "s"):
        assert not [one for one in recwarn if "is the unit right?" in str(one.message)]


ITEMS = {
    "frequency": {"kind": "frequency", "item": "i"},
    "top_k": {"kind": "top_k", "item": "i"},
    "fingerprint": {"kind": "fingerprint", "key": "i"},
}


@pytest.mark.parametrize("name", ITEMS)
@pytest.mark.parametrize(
    "kind", [pa.uint8(), pa.uint64(), pa.dictionary(pa.int8(), pa.uint16()), pa.int64()], ids=str
)
def test_integers_of_any_width_are_the_same_items(name, kind):
    """Unsigned ones could not be asked, and integers beyond int64 gave an OverflowError."""
    rows = {"time": TIMES, "i": pa.array([1, 7, 7], kind)}
    spec = SPEC | {"summaries": {"s": ITEMS[name]}}
    with muntin.summarize(pa.table(rows), spec) as session:
        again = pa.table(rows | {"i": pa.array([-1, 2**63 - 1, 7])})
        muntin.summarize(again, spec, ledger=session.ledger, mode="append")
        told = {"fingerprint": "present FROM contains"}.get(name, "value FROM frequency")
        for text, expected in {
            "7, 1, 2": [3, 1, 0],
            "7, 18446744073709551615, 9223372036854775808": [3, 0, 0],
            "-1, 9223372036854775807": [1, 1],
        }.items():
            rows_found = session.sql(f"SELECT {told}(s, {text}) FOR ALL").rows
            counts = [bool(n) for n in expected] if name == "fingerprint" else expected
            assert [value for (value,) in rows_found] == counts


def test_bytes_of_one_length_are_items_as_all_bytes_are():
    column = pa.array([b"ab", b"\xff\0", b"ab"], pa.binary(2))
    spec = SPEC | {"summaries": {"s": ITEMS["top_k"]}}
    with muntin.summarize(pa.table({"time": TIMES, "i": column}), spec) as session:
        assert session.sql("SELECT value FROM frequency(s, 'ab', 'b') FOR ALL").rows == [[2], [0]]
    keys = SPEC | {"summaries": {"s": {"keys": ["i"]}}}
    texts = pa.array([b"0123456789abcdef"] * 3, pa.binary(16))
    for kind in (column, pa.ExtensionArray.from_storage(pa.uuid(), texts)):
        with pytest.raises(SourceError, match=r"under fields, for example  i: HEX\(i\)"):
            muntin.summarize(pa.table({"time": TIMES, "i": kind}), keys)


def test_what_a_sketch_cannot_take_is_rejected_or_told():
    """Negative values were left out of totals that were called exact; so was a sum that is null."""
    columns = {
        "time": [*TIMES, *TIMES],
        "k": [*"abbcda"],
        "i": [1, -5, 5, None, 7, 2],
        "f": [1.5, 2.0, -0.0, float("-inf"), -1e-300, 4.0],
    }
    sketch = {"keys": ["k"], "indicators": ["i", "f"], "sketch": {"width": 64, "depth": 3}}
    spec = SPEC | {"summaries": {"s": sketch}}
    with muntin.summarize(pa.table(columns), spec) as session:
        details = sorted(record.detail for _, record in session.ledger.rejected("flights"))
        said = "is below 0, which a sketch cannot take: take a field, greatest(…, 0) (summaries.s)"
        assert details == [f"column 'f': '-1e-300' {said}", f"column 'i': '-5' {said}"]
        totals = session.sql("SELECT count, i, f FROM s FOR ALL")
        assert (totals.exact, totals.rows) == (True, [[4, 8, 5.5]])
        more = pa.table(columns | {"i": [2**63 - 1, *[0] * 5]}).slice(0, 1)
        muntin.summarize(more, spec, ledger=session.ledger, mode="append")
        for text in ("SELECT i FROM s FOR ALL", "SELECT i_lower FROM s(k) FOR ALL"):
            with pytest.raises(SelectError, match="indicator 'i': the sum over all is beyond"):
                session.sql(text)
        assert session.sql("SELECT f FROM s FOR ALL").rows == [[7.0]]


def test_ranks_beyond_int64_are_ranked_or_have_no_rank():
    columns = {"time": TIMES, "k": ["a", "b", "c"], "x": pa.array([1, 2**63, 5], pa.uint64())}
    for kind, expected in {
        "float64": [[1.0, 3], [float(2**63), 3]],
        "int64": [[1, 2], [5, 2]],
    }.items():
        entry = {"kind": "fingerprint", "key": "k", "rank": "x", "type": kind}
        with muntin.summarize(pa.table(columns), SPEC | {"summaries": {"s": entry}}) as session:
            assert not session.progress.rejected
            found = session.sql("SELECT value, n FROM quantiles(s, 0, 1) FOR ALL")
            assert found.rows == expected
            assert found.bounds["s"]["unranked"] == (kind == "int64")


@pytest.mark.filterwarnings("ignore:1 of 3 records were rejected")
@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal128(20, 0)], ids=str)
def test_sums_of_unsigned_integers_are_the_same_as_spark_has_them(kind):
    numbers = pa.array([2**53 + 1, 2**63, 2], pa.uint64()).cast(kind)
    table = pa.table(
        {"time": TIMES, "k": ["a", "b", "c"], "x": numbers, "f": numbers, "i": numbers}
    )
    entry = {"keys": ["k"], "indicators": {"x": None, "f": "float64", "i": "int64"}}
    for more, exact in ({}, True), ({"sketch": {}}, False):
        with muntin.summarize(table, SPEC | {"summaries": {"s": entry | more}}) as session:
            (_, record), *others = session.ledger.rejected("flights")
            assert not others
            assert f"'{2**63}' is beyond int64" in record.detail
            assert "STRING" not in record.detail  # which no indicator can be
            found = session.sql("SELECT sum(x), sum(i), sum(f) FROM s(k) FOR ALL")
            assert found.rows == [[2**53 + 3, 2**53 + 3, 2.0**53 + 2]]
            assert found.exact == exact


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_items_that_would_be_joined_to_the_same_are_rejected(kind):
    times = [time + dt.timedelta(hours=n) for n in range(9) for time in TIMES[:1] * 4]
    first = pa.array(["x\x1fy", "x", None, "p"] * 9).dictionary_encode().cast(kind)
    columns = {"time": times, "a": first, "b": ["z", "y\x1fz", "z", "q"] * 9}
    entry = {"kind": "periodic", "item": ["a", "b"], "gap": "1 minute", "interval_unit": "1 minute"}
    with muntin.summarize(pa.table(columns), SPEC | {"summaries": {"s": entry}}) as session:
        assert session.progress.rejected == 9
        (_, record), *_ = session.ledger.rejected("flights")
        said = "holds U+001F, by which items are joined: take a field, translate(…, char(31), ' ')"
        assert record.detail.endswith(f"{said} (summaries.s)")
        found = session.sql("SELECT a, b, periodicity FROM periodic(s, 9) FOR ALL ORDER BY a")
        assert found.rows == [["p", "q", 8], ["x", "y\x1fz", 8]]
        assert found.bounds["s"]["nulls"] == 9


def test_a_lazy_frame_is_told_what_makes_rows_of_it():
    with pytest.raises(BadArgument, match=r"LazyFrame\); a lazy one .* after \.collect\(\)"):
        muntin.summarize(pl.DataFrame(ROWS).lazy(), SPEC)


def test_a_session_of_spark_connect_has_no_active_one_of_java():
    class Connected:
        def createDataFrame(self, table):
            return table

    assert frame_of(Connected(), "table") == "table"
