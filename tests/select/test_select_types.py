# ruff: noqa: S608 - statements are what this file is made of
"""The types of a FROM item's columns are those of the summary, whatever the window holds."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import SelectError
from muntin.ledger.temporary import temporary
from muntin.session import Session
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline

sys.path.insert(0, str(Path(__file__).parent.parent / "pipeline"))
from support import SECOND, START, gather

SUMMARIES = {
    "m": {"keys": ["num", "day", "at", "flag", ["num", "s"]], "indicators": ["i", "f"]},
    "sm": {"keys": ["num", ["num", "s"]], "indicators": ["i"], "sketch": {}},
    "q": {"kind": "quantiles", "value": "f"},
    "qi": {"kind": "quantiles", "value": "i", "type": "int64"},
    "qk": {"kind": "quantiles", "value": "i", "type": "int64", "by": ["num"]},
    "tn": {"kind": "top_k", "item": "num"},
    "ts": {"kind": "top_k", "item": "s"},
    "tk": {"kind": "top_k", "item": "num", "by": ["s"]},
    "c": {"kind": "frequency", "item": "num", "track": 5},
    "ck": {"kind": "frequency", "item": "s", "by": ["num"], "track": 5},
    "d": {"kind": "distinct", "item": "num"},
    "dk": {"kind": "distinct", "item": "s", "by": ["num", "s"]},
    "fp": {"kind": "fingerprint", "key": "s", "rank": "i", "type": "int64", "bits": 20},
    "p": {"kind": "periodic", "item": ["num", "s"], "gap": "1 s", "interval_unit": "1 s"},
}
ITEMS = (
    "m", "m(num)", "m(day)", "m(at)", "m(flag)", "m(num, s)", "sm", "sm(num)", "sm(num, s)",
    "quantiles(q, 0.5)", "ranks(q, 1)", "ranks(q, 1.5)", "quantiles(qi, 0.5)", "ranks(qi, 1)",
    "quantiles(qk, 0.5)", "ranks(qk, 1)", "top_k(tn)", "top_k(ts)", "top_k(tk)", "frequency(c, 1)",
    "top_k(c)", "frequency(ck, 'a')", "top_k(ck)", "distinct(d)", "distinct(dk)",
    "contains(fp, 'a')", "quantiles(fp, 0.5)", "ranks(fp, 1)", "windows(m)", "trend(on_n)",
)  # fmt: skip
OPEN = ("periodic(p)",)
NOTHING = "FOR '2020-01-01' TO '2020-01-02'"


def _events(at: int, *, nulls: bool = False) -> pa.Table:
    def column(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([None] * len(values) if nulls else values, kind)

    return pa.table(
        {
            "time": pa.array([START + at * SECOND] * 3, pa.timestamp("us", "UTC")),
            "num": column([7, 10, -5], pa.int64()),
            "s": column(["a", "b", "a"], pa.string()),
            "day": column([1, 2, 3], pa.date32()),
            "at": column([1, 2, 3], pa.timestamp("us", "UTC")),
            "flag": column([True, False, True], pa.bool_()),
            "i": column([1, 2, 3], pa.int64()),
            "f": column([0.5, 1.5, 2.5], pa.float64()),
        }
    )


@pytest.fixture(scope="module")
def session() -> Session:
    ledger = temporary()
    spec = Pipeline.of(
        {
            "name": "p",
            "time": "time",
            "pane": "1 s",
            "summaries": {
                name: {"window": {"kind": "tumbling", "length": "5 s"}, **entry}
                if name == "m"
                else entry
                for name, entry in SUMMARIES.items()
            },
            "queries": {"on_n": "SELECT num, f, sum(i) AS i FROM m(num) GROUP BY num, f"},
        }
    )
    ingest = Ingest(spec, ledger, query_id="q", mode="continue")
    ingest.take(0, gather([_events(0)]))
    ingest.take(1, gather([_events(20, nulls=True)]))
    ingest.take(2, gather([_events(40)]))
    ingest.close()
    return Session(ledger)


@pytest.mark.parametrize("item", ITEMS)
def test_an_empty_window_has_the_types_of_a_full_one(session: Session, item: str) -> None:
    full = session.sql(f"SELECT * FROM {item} FOR ALL").table
    assert len(full)
    empty = session.sql(f"SELECT * FROM {item} {NOTHING}").table
    assert empty.schema.types == full.schema.types
    assert len(empty) == (1 if item in ("m", "sm") else 0)
    start = START + 20 * SECOND
    nulls = f"FOR '{_text(start)}' TO '{_text(start + SECOND)}'"
    assert session.sql(f"SELECT * FROM {item} {nulls}").table.schema.types == full.schema.types


def _text(us: int) -> str:
    from muntin.times import instant_text

    return instant_text(us)


def test_a_key_that_has_counted_nothing_yet_is_of_any_type() -> None:
    ledger = temporary()
    spec = {"name": "p", "time": "time", "pane": "1 s", "summaries": {"m": {"keys": ["num"]}}}
    for number, keys in enumerate((["num"], ["num", ["at", "s"]])):  # then it is restarted
        spec["summaries"] = {"m": {"keys": keys, "indicators": []}}
        ingest = Ingest(Pipeline.of(spec), ledger, query_id="q", mode="continue")
        if not number:
            ingest.take(0, gather([_events(0)]))
        ingest.close()
    session = Session(ledger)
    item = "m(at, s) FOR ALL"
    for text, expected in (
        (f"SELECT hour(at), upper(s), count FROM {item} WHERE at < '2026-01-01'", []),
        (
            f"SELECT max(hour(at)), coalesce(max(contains('x', s)), false) FROM {item}",
            [[None, False]],
        ),
        (f"SELECT at + INTERVAL 1 DAY, date_trunc('day', at), s || 'x' FROM {item}", []),
        (
            f"SELECT num, hour(at) FROM m(num) FOR ALL LEFT JOIN {item} AS k ON num = length(s) "
            "ORDER BY 1 DESC LIMIT 1",
            [[10, None]],
        ),
    ):
        assert session.sql(text).rows == expected, text
    with pytest.raises(SelectError, match="Could not choose a best candidate"):
        session.sql(f"SELECT hour(at), trunc('x', s) FROM {item}")


def test_keys_of_an_empty_window_compare_as_keys_do(session: Session) -> None:
    nothing = f"m(num) {NOTHING}"
    both = f"SELECT num FROM m(num) FOR ALL UNION ALL SELECT num FROM {nothing}"
    for text, expected in (
        (f"SELECT max(num), min(num) FROM ({both}) AS u", [[10, -5]]),
        (f"{both} ORDER BY num DESC NULLS LAST LIMIT 1", [[10]]),
        (f"SELECT num FROM {nothing} WHERE num > 3", []),
        (f"SELECT sum(num), max(num) FROM {nothing}", [[None, None]]),
        (
            f"SELECT count(b.i) FROM m(num) FOR ALL AS a LEFT JOIN {nothing} AS b USING (num)",
            [[0]],
        ),
        (f"SELECT count(*) FROM m(num) FOR ALL AS a FULL JOIN {nothing} AS b USING (num)", [[4]]),
    ):
        assert session.sql(text).rows == expected, text


UNLIKE = (
    "s = 5", "5 <> s", "s IN ('a', 5)", "s BETWEEN 'a' AND 5.0", "s IS DISTINCT FROM true",
    "nullif(s, -5) IS NULL", "CASE s WHEN 'a' THEN 1 WHEN 5 THEN 2 END = 1",
    "s = DATE '2020-01-01'", "s = num", "num = s", "num = 'a'", "num IN (1, 'b')",
    "num > '1.5'", "i = 'x'", "upper(s) = 5", "s || 'a' = 5", "abs(num) = 'a'", "num + 1 = '1.5'",
    "-num = 'a'", "s = num + 0", "CASE WHEN i > 0 THEN s END = 5", "coalesce(s, 'x') = num",
    "length(s) = '1.5'", "i / num = 'a'", "num = '99999999999999999999'", "num IN ('1', 'inf')",
    "num > '7'::TEXT", "s = (SELECT max(num) FROM m(num) FOR ALL)", "(SELECT 7) < s",
    "if(i > 0, s, s) = 5",
)  # fmt: skip
ALIKE = (
    "s = '5'", "num = '7'", "num = 7.5", "f = '7.5'", "f > 7", "s = CAST(num AS TEXT)",
    "TRY_CAST(s AS DOUBLE) = 5", "num = true", "s > 'a'", "s IN ('a', NULL)", "i = num",
    "num + 1 = '8'", "i / num = '1.5'", "lower(s) = 'a'", "length(s) = '1'", "num % 2 = 1",
    "CASE WHEN i > 0 THEN num END = 7", "s || num = 'a7'", "num IS NULL", "now() > '2026-01-01'",
)  # fmt: skip


@pytest.mark.parametrize("condition", [*UNLIKE, *ALIKE])
def test_what_can_be_compared_follows_from_types_alone(session: Session, condition: str) -> None:
    for window in ("FOR ALL", NOTHING):
        for text in (
            f"SELECT s, num FROM m(num, s) {window} WHERE {condition}",
            f"WITH a AS (SELECT * FROM m(num, s) {window}) SELECT s FROM a AS b WHERE {condition}",
            f"SELECT {condition} AS is_it FROM m(num, s) {window}",
        ):  # fmt: skip
            if condition in ALIKE:
                session.sql(text)
                continue
            with pytest.raises(
                SelectError, match=r"is (a|an) [a-z ]+, and is compared with|cannot be read as"
            ) as raised:
                session.sql(text)
            assert raised.value.code == "type"
            assert raised.value.remedy
            begin = text.index(condition)
            assert begin <= raised.value.position < begin + len(condition)


@pytest.mark.parametrize("fraction", ["0.5", "0.123456", "0.9"])
def test_a_comparison_is_placed_whatever_the_constants_before(
    session: Session, fraction: str
) -> None:
    text = f"SELECT q FROM quantiles(q, {fraction}) FOR ALL WHERE q = 'a'::TEXT"
    with pytest.raises(SelectError, match="is a text, and is compared with a number") as raised:
        session.sql(text)
    assert raised.value.position == text.index("::TEXT")
    text = f"SELECT '{fraction}', 'q', q AS \"'q'\" FROM quantiles(q, {fraction}) WHERE q = 'q'"
    with pytest.raises(SelectError, match="cannot be read as DOUBLE") as raised:
        session.sql(text)
    assert raised.value.position == text.rindex("'q'")


def test_times_and_aggregates_are_compared_by_their_types(session: Session) -> None:
    for text, good in (
        ("SELECT 1 FROM m(at) FOR ALL WHERE at - INTERVAL 1 DAY > '2020-01-01'", True),
        ("SELECT 1 FROM m(day) FOR ALL WHERE day + 1 > '2020-01-01'", True),
        ("SELECT 1 FROM m(at) FOR ALL WHERE date_trunc('day', at) = '2020-01-01'", True),
        ("SELECT 1 FROM m(at) FOR ALL WHERE at > 'abc' AND count < 0", False),
        ("SELECT 1 FROM m(at) FOR ALL WHERE at IN ('2026-1-1', '1.5')", False),
        ("SELECT 1 FROM m(at) FOR ALL WHERE at BETWEEN 'epoch' AND 'infinity'", True),
        ("SELECT 1 FROM m(day) FOR ALL WHERE day < '2020/1/1 00:00:00.0Z'", True),
        ("SELECT 1 FROM m(day) FOR ALL WHERE day < '2020/1/1 10:00'", False),  # it is cut off
        ("SELECT 1 FROM m(day) FOR ALL WHERE day < TIMESTAMP '2020/1/1 10:00'", True),
        ("SELECT 1 FROM m(day) FOR ALL WHERE day < '2020/1/1 10:00'::DATE", True),
        ("SELECT 1 FROM m(at) FOR ALL WHERE at > '7' AND count < 0", False),
        ("SELECT 1 FROM m(at) FOR ALL WHERE at > '2026-13-01' AND count < 0", False),
        ("SELECT 1 FROM m(day) FOR ALL WHERE day > '2020' AND count < 0", False),
        ("SELECT 1 FROM m(flag) FOR ALL WHERE flag = '7' AND count < 0", False),
        ("SELECT 1 FROM m(flag) FOR ALL WHERE flag = '1'", True),
        ("SELECT 1 FROM windows(m) WHERE window_start > 'yes' AND events < 0", False),
        ("SELECT 1 FROM windows(m) WHERE overflowed = '2026-01-01' AND events < 0", False),
        ("SELECT 1 FROM m(flag) FOR ALL WHERE flag = 'yes'", True),
        ("SELECT 1 FROM windows(m) WHERE window_start + INTERVAL 1 DAY > 'x' AND late < 0", False),
        ("SELECT 1 FROM m(at) FOR ALL WHERE now() > 'x' AND count < 0", False),
        ("SELECT coalesce(count, 'x') FROM m(at) FOR ALL WHERE count < 0", False),
        ("SELECT lag(count, 1, 'x') OVER () FROM m(at) FOR ALL WHERE count < 0", False),
        ("SELECT CASE WHEN num > 0 THEN i ELSE 'x' END FROM m(num, s) FOR ALL", False),
        ("SELECT 'x'::INT FROM m(at) FOR ALL WHERE count < 0", False),
        ("SELECT '7.5'::INT, TRY_CAST('x' AS INT), '0.5'::DECIMAL(3, 2) FROM m(at) FOR ALL", True),
        ("SELECT 1 FROM m(at) FOR ALL WHERE count < 0 AND 'x'", False),
        ("WITH a AS (SELECT max(at) AS x FROM m(at) FOR ALL) SELECT 1 FROM a WHERE x > ''", False),
        ("SELECT 1 FROM m(num, s) FOR ALL WHERE (s, num) = ('a', 7)", True),
        ("SELECT 1 FROM m(num, s) FOR ALL WHERE (s, num) IN (('a', 7), ('b', '7'))", False),
        ("SELECT 1 FROM m(at) FOR ALL WHERE (at, count) = ('2026-01-01', 1)", False),
        ("SELECT 1 FROM m(at) FOR ALL WHERE (at, count) = (TIMESTAMP '2026-01-01', 1)", True),
        (
            "WITH a AS (SELECT s || '' AS t FROM m(num, s) FOR ALL) SELECT t FROM a WHERE t = 7",
            False,
        ),
        (
            "WITH a AS (SELECT max(s) AS t, sum(i) AS n FROM m(num, s) FOR ALL) "
            "SELECT t FROM a WHERE n = 7 AND t < 'x'",
            True,
        ),
        (
            "SELECT a.s FROM m(num, s) FOR ALL AS a "
            "JOIN (SELECT num AS s FROM m(num) FOR ALL) AS b USING (s)",
            False,
        ),
        ("SELECT 1 FROM m(num, s) FOR ALL AS a JOIN m(num) FOR ALL AS b USING (num)", True),
        ("SELECT num FROM m(num, s) FOR ALL GROUP BY num HAVING max(s) = 'a'", True),
        ("SELECT num FROM m(num, s) FOR ALL GROUP BY num HAVING max(s) = 5", False),
        ("SELECT num FROM m(num, s) FOR ALL GROUP BY num HAVING sum(i) > 'a'", False),
        ("SELECT num FROM m(num, s) FOR ALL QUALIFY lag(s) OVER (ORDER BY num) = 5", False),
        ("SELECT num FROM m(num, s) FOR ALL QUALIFY row_number() OVER (ORDER BY s) = 1", True),
    ):
        for asked in (text, text.replace("FOR ALL", NOTHING)):
            if good:
                session.sql(asked)
                continue
            with pytest.raises(SelectError, match=r"and is compared with|cannot be read as"):
                session.sql(asked)


def test_a_name_given_by_as_is_compared_as_what_it_means(session: Session) -> None:
    text = "SELECT num AS s, i FROM m(num, s) FOR ALL GROUP BY num, i HAVING s = 7"
    assert session.sql(text).rows == session.sql(text.replace("s = 7", "num = 7")).rows


def test_types_do_not_depend_on_who_asked_first(session: Session) -> None:
    for text, kind in (("1", pa.int64()), ("1.0", pa.float64()), ("1", pa.int64())):
        result = session.sql(f"SELECT x FROM ranks(qi, {text}) FOR ALL")
        assert result.table.schema.types == [kind], text
    zeros = [str(session.sql(f"SELECT x FROM ranks(q, {z}) FOR ALL").rows) for z in ("0.0", "-0.0")]
    assert zeros == ["[[0.0]]", "[[-0.0]]"]


@given(st.lists(st.sampled_from(("1", "1.0", "-1", "2", "2.0")), min_size=1, max_size=4))
def test_ranks_have_the_types_that_were_written(session: Session, written: list[str]) -> None:
    whole = all("." not in text for text in written)
    result = session.sql(f"SELECT x FROM ranks(qi, {', '.join(written)}) FOR ALL")
    assert result.table.schema.types == [pa.int64() if whole else pa.float64()]
    assert [row[0] for row in result.rows] == [float(text) for text in written]


def test_a_key_that_joined_later_has_its_type_where_it_has_no_row() -> None:
    """Also where the newest pane was there before it."""
    ledger = temporary()

    def spec(*keys: str) -> Pipeline:
        summaries = {"m": {"keys": list(keys), "indicators": ["i"]}}
        return Pipeline.of({"name": "p", "time": "time", "pane": "1 s", "summaries": summaries})

    ingest = Ingest(spec("num"), ledger, query_id="q")
    ingest.take(0, gather([_events(20)]))
    ingest.reconfigure(spec("num", "at"))
    ingest.take(1, gather([_events(10)]))
    ingest.close()
    for window in (NOTHING, "FOR LAST '1 s'"):
        text = f"SELECT at + INTERVAL 1 DAY FROM m(at) {window} AS a JOIN m(at) {window} AS b "
        assert Session(ledger).sql(f"{text} USING (at)").rows == []


def test_a_ledger_that_holds_nothing_yet() -> None:
    """What the pipeline file says is known; a key of no known type compares with anything."""
    ledger = temporary()
    spec = Pipeline.of({"name": "p", "time": "time", "pane": "1 s", "summaries": SUMMARIES})
    Ingest(spec, ledger, query_id="q", mode="continue").close()
    session = Session(ledger)
    assert session.sql("SELECT num FROM m(num) WHERE num > 3").rows == []
    assert session.sql("SELECT s FROM m(num, s) WHERE s LIKE 'a%' AND num = 4").rows == []
    assert session.sql("SELECT max(s), sum(num), sum(i) FROM m(num, s)").rows == [
        [None, None, None]
    ]
    table = session.sql("SELECT value FROM quantiles(qi, 0.5)").table
    assert table.schema.types == [pa.int64()]
    assert session.sql("SELECT * FROM m").rows == [[0, None, None]]
    for item in (*ITEMS[:-1], *OPEN):
        assert len(session.sql(f"SELECT * FROM {item}")) == (1 if item in ("m", "sm") else 0), item
