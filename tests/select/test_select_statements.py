"""Statements that are answered: against rows worked out by hand, and against plain DuckDB."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from select_catalogs import catalog, matrix_of, order_tables
from sqlglot.errors import UnsupportedError

from muntin.errors import SelectError
from muntin.select.catalog import QueryInfo, SummaryInfo
from muntin.select.check import check_tree
from muntin.select.engine import Engine
from muntin.select.limits import Limits
from muntin.select.parser import parse
from muntin.select.plan import render
from muntin.select.syntax import show


def rows(engine: Engine, text: str) -> list[list]:
    return engine.sql(text).rows


BY_HAND = {
    # the paper's statements
    "SELECT X3, X3.Y2 / X3.Y1 FROM vector 3.1, vector 3.2 ORDER BY X3": [
        ["d1", 1, 10.0],
        ["d1", 2, None],
        ["d2", 1, 15.0],
        ["d3", 2, 11.25],
        [None, 3, 7.0],
    ],
    "SELECT X1.* FROM vector 1.* WHERE X1.Y5 > 0 ORDER BY X1": [
        ["d1", 4, 4, 50, 150, 1.5, 1],
        ["d3", 5, 8, 90, 10, 0.5, 3],
    ],
    "SELECT X1.* FROM vector 1.5, vector 1.1 WHERE X1.Y5 > 0 ORDER BY X1": [
        ["d1", 4, 1, 4],
        ["d3", 5, 3, 8],
    ],
    "SELECT sum X1.Y2 / sum X1.Y1 AS avg FROM vector (1.2), vector (1.1)": [[11.8]],
    "SELECT X1 FROM vector 1.1 WHERE X1 in ('d1', 'd3') and not X1.Y1 < 5": [["d3"]],
    "SELECT X1, X1.count FROM vector 1.1 WHERE X1 IS NULL": [[None, 1]],
    "SELECT X3 FROM vector 3.1 WHERE X3 in (('d1', 1), ('d2', 1)) ORDER BY X3": [
        ["d1", 1],
        ["d2", 1],
    ],
    "SELECT X3, X3.Y2 / X1.Y2 FROM vector 3.2, vector 1.2 ORDER BY X3": [
        ["d1", 1, 0.8],
        ["d1", 2, 0.2],
        ["d2", 1, 1.0],
        ["d3", 2, 1.0],
        [None, 3, 1.0],
    ],
    "SELECT max X2.Y1, count FROM vector 2.1 OF orders GROUP BY count ORDER BY 1": [
        [1, 1],
        [6, 5],
        [8, 6],
    ],
    # names, and both mixed
    "SELECT driver, Y2 FROM orders(driver) WHERE X1 = 'd1'": [["d1", 50]],
    "SELECT DRIVER, Time FROM ORDERS(Driver) WHERE driver = 'd1'": [["d1", 50]],
    "SELECT count FROM orders(area, driver) WHERE driver = 'd1' AND area = 2": [[1]],
    "SELECT count FROM orders(X3) WHERE driver = 'd1' AND area = 2": [[1]],
    # the total row
    "SELECT * FROM orders": [[12, 15, 177, 239, 4.5, 4]],
    "SELECT time / served AS mean, count FROM orders": [[11.8, 12]],
    "SELECT sum(Y1) FROM orders()": [[15]],
    # expressions
    "SELECT 1/0, 0/0, 1.5/0, 0.0/0.0, 7//0, 7%0, 7.5%0, 7/2, 7//2, -7%4": [
        [None, None, None, None, None, None, None, 3.5, 3, -3]
    ],
    "SELECT served / (time - time), 1 / (0 * tip) FROM orders(driver) LIMIT 1": [[None, None]],
    "SELECT ln(0), ln(-1), exp(1000), -exp(1000)": [[None, None, None, None]],
    "SELECT 'it''s', ';', '--', '/*', '\\', '\"'": [["it's", ";", "--", "/*", "\\", '"']],
    "SELECT 1 -- a comment; SELECT 2\n, 2 /* another */;": [[1, 2]],
    "SELECT sum(x) FROM (SELECT 9223372036854775807 AS x UNION ALL SELECT 9223372036854775807)": [
        [18446744073709551614]
    ],
    "SELECT DATE '2026-01-02', TIMESTAMP '2026-01-02 03:04:05.5', INTERVAL '90 minutes'": [
        ["2026-01-02", "2026-01-02T03:04:05.5Z", "PT5400S"]
    ],
    "SELECT DATE '2026-01-02'::TEXT, TIMESTAMP '2026-01-02 03:04:05'::DATE::VARCHAR || 'x', "
    "TIME '10:30'::TEXT, DOUBLE '1.5'::INT": [["2026-01-02", "2026-01-02x", "10:30:00", 2]],
    "SELECT 3 NOT IN (1, 3) = false, 3 NOT BETWEEN 1 AND 2 > true, NULL NOT IN (1, 3) IS NULL, "
    "NOT 3 IN (1, 3) = true, '3' NOT LIKE '4%' = true, NOT true = NOT false": [
        [True, False, True, False, True, False]
    ],
    "SELECT DISTINCT .25, -.5, 1+.5e1 FROM orders": [[0.25, -0.5, 6.0]],
    "SELECT 3 NOT IN (1, 3) || 'x', 3 IN (3)::INT + 1 * 2, "
    "true NOT IN (false, 2 NOT IN (3) = false) = true, NULL IS NULL::INT - 1 - 1": [
        ["falsex", 3, True, -1]
    ],
    "SELECT interval - 1, interval * 2, INTERVAL 1 DAY + '2026-01-01'::TIMESTAMP "
    "FROM (SELECT 3 AS interval) a ORDER BY interval DESC": [[2, 6, "2026-01-02T00:00:00Z"]],
    "SELECT INTERVAL '1 day 02:30:00', INTERVAL '-1.5 hours', INTERVAL '2' DAY, INTERVAL 3 DAYS": [
        ["P1DT9000S", "PT-5400S", "P2D", "P3D"]
    ],
    "SELECT a.x FROM (SELECT 1 AS x) a WHERE EXISTS (SELECT 1 FROM orders(area) WHERE area = x)": [
        [1]
    ],
    "WITH a AS (SELECT driver, time / served AS mean FROM orders(driver)), "
    "b AS (SELECT max(mean) AS m FROM a) SELECT driver FROM a, b WHERE mean = m": [["d2"]],
    "SELECT a.driver, b.count - a.count AS more FROM orders(driver) FOR LAST '1 hour' AS a "
    "JOIN orders(driver) FOR ALL b USING (driver) ORDER BY driver": [
        ["d1", 0],
        ["d2", 0],
        ["d3", 0],
    ],
    "SELECT driver FROM orders(driver) WHERE driver ILIKE '%D_' AND driver LIKE 'd%' "
    "AND driver NOT LIKE '%2' ORDER BY 1": [["d1"], ["d3"]],
    "SELECT count(*) FROM orders(driver) WHERE driver <> '2026-01-01 10:00+02' "
    "AND now() < '2099-01-01 10:00Z' AND now() < '2099-01-01T10:00:00 UTC'": [[3]],
    "SELECT driver FROM orders(driver) QUALIFY rank() OVER (ORDER BY count DESC) = 1": [["d3"]],
    # history
    "SELECT driver, orders FROM trend(busiest) ORDER BY window_start": [["d1", 4], ["d3", 5]],
    "SELECT t.orders FROM trend(busiest) FOR LAST '1 hour' AS t": [[4]],
    "SELECT reason, events FROM windows(orders)": [["full", 12]],
    "SELECT '\ufeff\u2028' || driver AS k FROM orders(driver) LIMIT 1": [["\ufeff\u2028d1"]],
    "SELECT w.reason, t.driver FROM windows(orders) w JOIN trend(busiest) t "
    "USING (window_start, window_end)": [["full", "d1"]],
}


@pytest.mark.parametrize("text", BY_HAND)
def test_rows(engine: Engine, text: str) -> None:
    assert rows(engine, text) == BY_HAND[text]


def test_a_with_query_never_stands_for_a_from_item() -> None:
    """Whatever names DuckDB has for tables of ours."""
    made = Engine(catalog())
    for name in ("t1", "t2", "cells", "driver"):
        asked = "SELECT min(upper(driver)) FROM orders(driver)"
        text = f"WITH {name} AS (SELECT 'x' AS driver) {asked}"
        assert rows(made, text) == [["D1"]]
    made.close()


PLAIN = [
    "SELECT driver, area, time, served FROM cells ORDER BY time DESC LIMIT 3 OFFSET 1",
    "SELECT area, sum(count) AS n, avg(time / count), min(paid), max(tip), "
    "median(time / count) FROM cells GROUP BY area HAVING sum(count) > 1 ORDER BY n",
    "SELECT time FROM cells ORDER BY time OFFSET 1 ROWS FETCH NEXT (2) ROWS ONLY",
    "SELECT DISTINCT area % 2 AS odd FROM cells ORDER BY odd",
    "SELECT CASE WHEN time > 20 THEN 'long' ELSE 'short' END AS kind, count(*) FROM cells "
    "GROUP BY ALL ORDER BY kind",
    "SELECT CASE area WHEN 1 THEN 'a' END AS c FROM cells ORDER BY c",
    "SELECT time::DOUBLE, CAST(paid AS VARCHAR), try_cast(driver AS INTEGER) FROM cells ORDER BY 1",
    "SELECT NOT driver NOTNULL || served IS NULL AS a, NOT driver ISNULL || 'x' = 'truex' AS b, "
    "served IN (1, 4)::INT AS c, served > 1 IS TRUE::INT + 1 AS d, - time IS NULL || 'x' AS e "
    "FROM cells ORDER BY time",
    "SELECT driver FROM cells WHERE time BETWEEN 10 AND 40 AND area IN (1, 2) ORDER BY time",
    "SELECT coalesce(driver, 'none'), nullif(area, 1), greatest(time, paid), least(time, 5) "
    "FROM cells ORDER BY time",
    "SELECT round(tip, 1), abs(-time), floor(tip), ceil(tip), sqrt(time), power(served, 2), "
    "ln(time), exp(debt), served ^ 2 FROM cells ORDER BY time",
    "SELECT upper(driver), length(driver), substr(driver, 2, 1), concat(driver, '-', area), "
    "driver || '!', left(driver, 1), starts_with(driver, 'd') FROM cells ORDER BY time",
    "SELECT row_number() OVER (ORDER BY time), rank() OVER (PARTITION BY area ORDER BY time), "
    "lag(time, 1) OVER (ORDER BY time), sum(time) OVER (ORDER BY time ROWS BETWEEN 1 PRECEDING "
    "AND CURRENT ROW), first_value(time) OVER (ORDER BY time DESC) FROM cells ORDER BY time",
    "SELECT count(DISTINCT area), sum(time) FILTER (WHERE area = 1), "
    "quantile_cont(time / count, 0.5), arg_max(driver, time), bool_or(debt > 0), "
    "count_if(tip > 1), stddev(time + 0) FROM cells",
    "SELECT area FROM cells UNION SELECT 9 ORDER BY area",
    "SELECT area FROM cells EXCEPT SELECT 1 ORDER BY area",
    "SELECT area FROM cells INTERSECT ALL SELECT 1",
    "SELECT a.time FROM cells a LEFT JOIN cells b ON a.driver = b.driver AND a.area <> b.area "
    "WHERE b.driver IS NULL ORDER BY a.time",
    "SELECT time FROM cells WHERE time > (SELECT avg(time / 1) FROM cells) ORDER BY time",
    "SELECT time FROM cells x WHERE area IN (SELECT area FROM cells y WHERE y.debt > x.debt) "
    "ORDER BY time",
    "SELECT date_trunc('hour', TIMESTAMP '2026-01-01 10:30'), strftime(DATE '2026-01-01', '%j'), "
    "extract(dow FROM DATE '2026-01-01'), date_diff('day', DATE '2026-01-01', DATE '2026-02-01'), "
    "TIMESTAMP '2026-01-01' + INTERVAL 1 HOUR, year(DATE '2026-05-01')",
    "SELECT driver IS NULL, driver IS DISTINCT FROM 'd1', NOT (time > 20), (area, 1) = (1, 1), "
    "time <> 7 FROM cells ORDER BY time",
    "SELECT 7 // 2, 7 % 4, -7 // 2, 2 ^ 10, 1e3, .5, 7 / 2, 0.1 + 0.2",
    "SELECT a.over, over + 1 FROM (SELECT 1 AS over) AS a WHERE over = 1 ORDER BY over",
    "SELECT a.limit, a.union AS distinct, a.from, 2 AS offset FROM (SELECT 1 AS limit, "
    "2 AS union, 3 AS from) AS a WHERE a.limit = 1",
    "SELECT 'aİb' ILIKE '%a%i%b%', 'aſb' ILIKE '%a%s%b%', 'aΣb' ILIKE '%a%ς%b%', "
    "'aΣ' ILIKE '%a_%', 'É.b' NOT ILIKE 'é%.%', 'SSß' ILIKE '%s%ß%'",
]


@settings(max_examples=40, deadline=None)
@given(st.text("aBİſ%_!\n.", max_size=6), st.text("aBİs%_!\n.", max_size=6))
def test_patterns_with_escape_as_in_duckdb(value: str, pattern: str) -> None:
    """As Spark, jOOQ and SQLAlchemy write what holds a text."""
    said = f"'{pattern[:2]}' || '{pattern[2:]}' ESCAPE '!'"
    likes = (f"'{value}' {word} {said}" for word in ("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"))
    text = f"SELECT {', '.join(likes)}"
    try:
        check_tree(parse(text), Limits())
    except SelectError:
        assert len(pattern) - len(pattern.rstrip("!")) & 1  # it takes a meaning away from nothing
        return
    assert parse(show(parse(text))) == parse(text)
    with duckdb.connect() as plain:
        assert (
            plain.execute(render(parse(text).tree)[0]).fetchall() == plain.execute(text).fetchall()
        )


def test_what_cannot_be_written_is_not_left_out() -> None:
    with pytest.raises(UnsupportedError, match="IGNORE NULLS"):
        render(parse("SELECT lag(1 IGNORE NULLS) OVER ()").tree)


@pytest.mark.parametrize("text", PLAIN)
def test_as_in_duckdb(engine: Engine, text: str) -> None:
    """Where a statement is also DuckDB's own, the answer is DuckDB's."""
    plain = duckdb.connect()
    plain.register("cells", order_tables()["driver", "area"])
    expected = [[_number(v) for v in row] for row in plain.execute(text).fetchall()]
    ours = engine.sql(
        text.replace("FROM cells", "FROM orders(driver, area)").replace(
            "JOIN cells", "JOIN orders(driver, area)"
        )
    )
    got = [[_number(v) for v in row.values()] for row in ours.table.to_pylist()]
    assert got == expected


def _number(value: object) -> object:
    if hasattr(value, "tzinfo"):
        return value.replace(tzinfo=None)  # type: ignore[attr-defined]
    is_decimal = type(value).__name__ == "Decimal"
    return float(value) if is_decimal or isinstance(value, int) else value  # type: ignore[arg-type]


SAME = [
    (
        "SELECT X3, X3.Y2 / X3.Y1 AS mean FROM vector 3.1, vector 3.2",
        "SELECT driver, area, time / served AS mean FROM orders(driver, area)",
    ),
    (
        "SELECT X1.* FROM vector 1.* WHERE X1.Y5 > 0",
        "SELECT * FROM orders(driver) WHERE debt > 0",
    ),
    (
        "SELECT sum X1.Y2 / sum X1.Y1 AS avg FROM vector (1.2), vector (1.1)",
        "SELECT sum(time) / sum(served) AS avg FROM orders(driver)",
    ),
    (
        "SELECT X2 FROM vector 2.* FOR LAST '1 hour' WHERE X2.Y1 in (6, 8) or X2.tip >= 2",
        "SELECT area FROM orders(area) FOR LAST 60 minutes WHERE served IN (6, 8) OR tip >= 2",
    ),
    (
        "SELECT X3, X1.Y1 FROM vector 3.1 FOR ALL, vector 1.1 FOR ALL",
        "SELECT a.driver, area, b.served FROM orders(driver, area) FOR ALL a "
        "JOIN orders(driver) FOR ALL b ON a.driver IS NOT DISTINCT FROM b.driver",
    ),
    (
        "SELECT driver AS time, count FROM orders(driver) ORDER BY Y2, count",
        "SELECT driver AS time, count FROM orders(driver) AS o ORDER BY o.time, count",
    ),
    (
        "SELECT driver, (SELECT max(n) FROM (SELECT count AS n, 9 AS served FROM orders(area)) a "
        "WHERE n > Y1) AS most FROM orders(driver) ORDER BY driver",
        "SELECT driver, (SELECT max(n) FROM (SELECT count AS n, 9 AS served FROM orders(area)) a "
        "WHERE n > o.served) AS most FROM orders(driver) AS o ORDER BY driver",
    ),
]


@pytest.mark.parametrize(("paper", "sql"), SAME)
def test_paper_form_means_the_sql_form(engine: Engine, paper: str, sql: str) -> None:
    one, other = engine.sql(paper), engine.sql(sql)
    assert one.table.equals(other.table)
    assert {w.asked for w in one.windows} == {w.asked for w in other.windows}


@pytest.mark.parametrize("text", [*BY_HAND, *(t for pair in SAME for t in pair)])
def test_shown_and_parsed_again_is_the_same(text: str) -> None:
    statement = parse(text)
    assert parse(show(statement)) == statement


def test_columns_are_named_after_what_was_written(engine: Engine) -> None:
    text = "SELECT X1, X1.Y2 / X1.Y1, count(*), time AS t, Time FROM vector 1.* GROUP BY ALL"
    assert engine.sql(text).columns == [
        "driver",
        "X1.time / X1.served",
        "count(*)",
        "t",
        "time",
    ]
    assert engine.check(text).columns == tuple(engine.sql(text).columns)


def test_same_names_in_a_result_are_told_apart(engine: Engine) -> None:
    text = (
        "SELECT a.count, b.count, 1 AS count_2 FROM orders(area) a JOIN orders(area) b USING (area)"
    )
    assert engine.sql(text).columns == ["count", "count_3", "count_2"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT count AS n, served AS N, served AS n FROM orders(driver)", "n N_2 n_3"),
        ("SELECT n, * FROM (SELECT count AS n, served AS N FROM orders(driver)) AS s", "n n_2 N_3"),
        ("SELECT * FROM orders(X1) AS a JOIN (SELECT driver FROM orders(X1)) AS b USING (driver)",
         "driver count served time paid tip debt"),
        ("SELECT * FROM orders(X1) AS a SEMI JOIN orders(X1) AS b ON a.count > b.count",
         "driver count served time paid tip debt"),
        ("SELECT driver, count FROM orders(X1) AS a ANTI JOIN orders(X1) AS b USING (driver)",
         "driver count"),
        ("SELECT * FROM vector 3.1, vector 1.1",
         "driver area count served driver_2 count_2 served_2"),
    ],
)  # fmt: skip
def test_the_columns_of_a_plan_are_those_of_the_answer(text: str, columns: str) -> None:
    """A trend has the columns that its query's plan says, and the values of its answer."""
    held = catalog(standing={"q": QueryInfo("q", text)})
    engine = Engine(held)
    result = engine.sql(text)
    assert result.columns == [*engine.check(text).columns] == columns.split()
    held.trends = {"q": result.table}
    trend = engine.sql("SELECT * FROM trend(q)").table
    assert trend.select(result.columns).equals(result.table)
    engine.close()


def test_vectors_of_several_matrices() -> None:
    two = catalog()
    two.infos = {
        "orders": two.infos["orders"],
        "fares": SummaryInfo("fares", "vector_matrix", (("driver",),), ("time",)),
        "delays": SummaryInfo("delays", "quantiles"),
        "rough": SummaryInfo("rough", "vector_matrix", (("driver",),), ("time",), sketched=True),
    }
    two.held |= {(name, "open"): matrix_of(order_tables()) for name in two.infos}
    engine = Engine(two)
    text = "SELECT sum X1.Y1 FROM vector 1.1 OF fares"
    assert engine.sql(text).rows == [[177]]
    assert engine.sql("SELECT sum X1.Y1 FROM sketch 1.1 OF rough").exact is False
    assert engine.sql("SELECT sum X1.Y1 FROM vector 1.1 OF rough").exact is False
    assert parse(show(parse(text))) == parse(text)
    engine.close()


def test_limits_count_what_is_written(engine: Engine) -> None:
    limits = Limits()
    terms = " + ".join(["1"] * (limits.nodes // 2 - 2))
    assert rows(engine, f"SELECT {terms}") == [[limits.nodes // 2 - 2]]
    assert rows(engine, f"SELECT {'(' * 20}1{')' * 20}") == [[1]]
    items = ", ".join(str(i) for i in range(limits.list_items))
    assert rows(engine, f"SELECT 5 IN ({items})") == [[True]]
    assert rows(engine, f"SELECT length('{'x' * limits.literal_bytes}')") == [[1024]]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("percentile_cont(0.3) WITHIN GROUP (ORDER BY n)", "quantile_cont(n, 0.3)"),
        ("PERCENTILE_DISC(0.3) within group (order by n + 1)", "quantile_disc(n + 1, 0.3)"),
        ("mode() WITHIN GROUP (ORDER BY n % 2)", "mode(n % 2)"),
        (
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FILTER (WHERE n > 2)",
            "quantile_cont(n, 0.5) FILTER (WHERE n > 2)",
        ),
        ("max(POSITION('1' || '' IN driver))", "max(strpos(driver, '1'))"),
    ],
)
def test_what_standard_sql_writes_otherwise(engine: Engine, text: str, same: str) -> None:
    source = "FROM (SELECT driver, count AS n FROM orders(driver)) AS s"
    found = rows(engine, f"SELECT {text} {source}")
    assert found == rows(engine, f"SELECT {same} {source}")
    kept = engine.sql("SELECT driver, count AS n FROM orders(driver)").table
    with duckdb.connect() as beside:
        beside.register("kept", kept)
        said = beside.execute(f"SELECT {text} FROM kept").fetchall()  # noqa: S608
    assert [list(row) for row in said] == found


@pytest.mark.parametrize(
    "text",
    [
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY count DESC)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY driver, count)",
        "percentile_cont() WITHIN GROUP (ORDER BY driver)",
        "sum(1) WITHIN GROUP (ORDER BY driver)",
    ],
)
def test_other_orders_within_a_group_are_refused(engine: Engine, text: str) -> None:
    with pytest.raises(SelectError, match="this WITHIN GROUP") as raised:
        engine.sql(f"SELECT {text} FROM orders(driver)")  # noqa: S608
    assert raised.value.code == "not_allowed"


@pytest.mark.parametrize(
    "spelled", ["{}", "'{}'", "-{}", "{}.5", "(-{})", "'{}'::INT", "CAST({} AS INT)", "INT '{}'"]
)
def test_programs_list_thousands_of_constants(engine: Engine, spelled: str) -> None:
    for first in (3, 4):
        listed = ", ".join(spelled.format(number) for number in range(first, 1_500))
        assert rows(engine, f"SELECT {spelled.format(3)} IN ({listed})") == [[first == 3]]


def test_constants_of_all_lists_have_one_limit(engine: Engine) -> None:
    half = ",".join(["7"] * (Limits().list_constants // 2))
    assert rows(engine, f"SELECT 7 IN ({half}), 8 IN ({half})") == [[True, False]]
    with pytest.raises(SelectError, match="more than 5000 constants stand in lists") as raised:
        engine.sql(f"SELECT 7 IN ({half}), 8 IN ({half},9)")
    assert (raised.value.code, raised.value.text[raised.value.position]) == ("limit", "9")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 5 IN (driver" + ", count" * 100 + ") FROM orders(driver)", "lists more than 100"),
        ("SELECT greatest(" + "1," * 200 + "1)", "lists more than 100"),
        ("SELECT " + "1," * 200 + "1", "lists more than 100"),
        ("SELECT * FROM top_k(areas, " + "1," * 200 + "1)", "more than 100 arguments"),
        ("SELECT 5 IN (" + "1 + 1," * 90 + "1)", "more than 256 parts"),
    ],
)
def test_lists_of_more_than_constants_are_short(engine: Engine, text: str, message: str) -> None:
    with pytest.raises(SelectError, match=message):
        engine.sql(text)
