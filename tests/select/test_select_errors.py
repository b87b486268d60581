"""What is wrong is said with its code, its place in the text as written, and a remedy."""

from __future__ import annotations

import pyarrow as pa
import pytest

import muntin
from muntin.errors import SelectError, closest
from muntin.select.engine import Engine

# text with the refused place between » «, code, part of the message, part of the remedy
WRONG = [
    ("SELECT »dely« FROM trend(busiest)", "unknown_column", "trend(busiest)", "columns: window_st"),
    ("SELECT 1 FROM orders WHERE »at« > '2026-01-01'", "unknown_column", "'at'", "FOR LAST"),
    ("SELECT 1 FROM orders WHERE »at« = 'x'", "unknown_column", "'at'", "a text is written 'at'"),
    ("SELECT »tme« FROM orders(driver)", "unknown_column", "no column 'tme'", "'time'"),
    ("SELECT »time« FROM windows(orders)", "unknown_column", "'time'", "have window_start"),
    ("SELECT 1 FROM windows(orders) WHERE »time« > now()", "unknown_column", "'time'", "FOR LAST"),
    ("SELECT floor(»at«) AS at FROM orders", "unknown_column", "no column 'at'", "columns: count"),
    ("SELECT X1.»tipp« FROM vector 1.4", "unknown_column", "in vector 1.4", "'tip'"),
    (
        "SELECT 1 FROM orders(driver) WHERE driver = »Ann«",
        "unknown_column",
        "'Ann'",
        "is written 'Ann'",
    ),
    ("SELECT driver FROM »oders«(driver)", "unknown_name", "no summary 'oders'", "'orders'"),
    ('SELECT 1 FROM »"Orders(tip)"«', "unknown_name", "'Orders(tip)'", "keys: orders(driver)"),
    ("SELECT 1 FROM »busiest«", "unknown_name", "busiest is a standing query", "trend(busiest)"),
    ("SELECT 1 FROM windows(»Busiest«)", "unknown_name", "standing query", "trend(busiest)"),
    ("SELECT 1 FROM trend(»orders«)", "unknown_name", "orders is a summary", "windows(orders)"),
    ("SELECT driver FROM orders(»drver«)", "from_item", "no key 'drver'", "'driver'"),
    (
        "SELECT 1 FROM orders(driver) WHERE »area« = 7",
        "unknown_column",
        "no column 'area' in orders(driver)",
        "it stands in orders(area), orders(driver, area)",
    ),
    ("SELECT »area« FROM vector 1.*", "unknown_column", "no column 'area'", "orders(area)"),
    ("SELECT 1 FROM orders(»driver, driver«)", "from_item", "not kept by", "orders(driver, area)"),
    ("SELECT 1 FROM orders(»3«)", "from_item", "a key is a name", "orders(area)"),
    ("SELECT »X2« FROM vector 1.1", "unknown_name", "X2 is not in FROM", "add key 2"),
    ("SELECT »X2«.Y1 FROM vector 1.1", "unknown_name", "'X2' is not in FROM", "add key 2"),
    ("SELECT »X1.Y2« FROM vector 1.1", "unknown_column", "vector 1.2 is not", "vector 1.2"),
    ("SELECT X1.»Y9« FROM vector 1.*", "unknown_column", "no indicator 9", "Y5 = debt"),
    ("SELECT X1 FROM »vector 9.1«", "from_item", "no key 9", "X3 = (driver, area)"),
    ("SELECT X1 FROM vector 1.1, »vector 1.8«", "from_item", "no indicator 8", "Y1 = served"),
    ("SELECT X1 FROM vector »1.0«", "syntax", "not a vector", "both from 1"),
    ("SELECT X1 FROM vector 1.1, »vector 2.1«", "from_item", "share no key", "one key"),
    ("SELECT X1 FROM vector 1.1 OF »oders«", "unknown_name", "'oders'", "'orders'"),
    ("SELECT X1 FROM »sketch 1.1«", "from_item", "is exact", "vector 1.1"),
    ("SELECT X1 FROM vector 1.1 AS »v«", "syntax", "are called X1", "AS v"),
    ("SELECT X1 FROM vector 1.1 »v«", "syntax", "are called X1", "AS v"),
    ("SELECT X1 FROM vector 1.1 FOR ALL, »vector 1.2« FOR OPEN", "window", "different", "JOIN"),
    ("SELECT »foo«.time FROM orders(driver)", "unknown_name", "'foo' is not in FROM", "orders"),
    ("SELECT »quantiles«(delays, 0.5)", "unknown_function", "no function", "it stands in FROM"),
    ("SELECT substring(driver »FROM« 2 FOR 3) FROM orders(driver)", "syntax", ")", "(x, 2, 3)"),
    ("SELECT trim(BOTH »'a'« FROM driver) FROM orders(driver)", "syntax", ")", "trim(x, 'a')"),
    ("SELECT »current_date«()", "unknown_function", "no function", "without brackets"),
    ("SELECT 1 FROM orders(driver) WHERE »CAST«(driver AS VARCHAR) = true", "type", "a text", ""),
    ("SELECT 1 FROM orders(driver) WHERE »TRY_CAST«(driver AS VARCHAR) < 5", "type", "a text", ""),
    ("SELECT »1«::TIMESTAMPTZ", "not_allowed", "the type TIMESTAMPTZ", "TIMESTAMP (UTC)"),
    ("SELECT »cuont«(*) FROM orders", "unknown_function", "no function 'cuont'", "'count'"),
    ("SELECT »count« FROM orders(driver) a, orders(area) b", "ambiguous", "in more", "a.count"),
    ("SELECT »Y1« FROM orders(driver) a, orders(area) b", "ambiguous", "Y1", "a.Y1 or b.Y1"),
    ("SELECT 1 FROM orders(driver), »orders(area)«", "ambiguous", "two FROM items", "AS"),
    ("WITH a AS (SELECT 1) SELECT 1 FROM »a(driver)«", "from_item", "takes no key", "write a"),
    ("SELECT 1 FROM orders FOR LAST »'2 moons'«", "window", "not a duration", "minutes"),
    ("SELECT 1 FROM orders FOR LAST »0« minutes", "window", "duration", ""),
    ("SELECT 1 FROM orders FOR ALL EVERY »'1 hourz'«", "window", "not a duration", "minutes"),
    ("SELECT 1 FROM »trend(busiest)« FOR ALL EVERY '1 hour'", "window", "by steps", "leave EVERY"),
    ("SELECT 1 FROM orders FOR »'today'« TO '2026-01-01'", "window", "not a time", "(UTC)"),
    ("SELECT 1 FROM orders FOR '2026-01-02' TO »'2026-01-01'«", "window", "ends before", "earlier"),
    ("SELECT 1 FROM orders FOR '2026-01-02' »UNTIL« '2026-01-03'", "window", "TO is missing", ""),
    ("SELECT 1 FROM orders FOR »UPDATE«", "window", "not a window", "FOR LAST"),
    ("SELECT 1 FROM orders FOR ALL a »FOR« OPEN", "syntax", "second window", ""),
    ("SELECT x FROM (SELECT 1 AS x) a »FOR« ALL", "syntax", "does not follow", "after a summary"),
    ("SELECT »for« FROM orders", "syntax", "does not follow", 'is written "for"'),
    ("SELECT »1«::INTERVAL d", "not_allowed", "INTERVAL DAY", "AS before a name"),
    ("SELECT 1 FROM »orders(driver)« FOR WINDOW LAST", "no_window", "no window has closed", ""),
    ("SELECT 1 FROM »windows(orders)« FOR OPEN", "window", "have closed", "FOR WINDOW LAST"),
    ("SELECT 1 FROM »Trend(busiest)« AS t FOR OPEN", "window", "trend(...)", "leave FOR out"),
    ("SELECT 1 FROM trend(»buziest«)", "unknown_name", "no standing query", "'busiest'"),
    ("SELECT 1 FROM windows(»orderz«)", "unknown_name", "no summary", "'orders'"),
    ("SELECT 1 FROM »quantiles(orders, 0.5)«", "from_item", "vector_matrix", "orders(driver)"),
    ("SELECT 1 FROM quantiles(»delays«, 0.5)", "unknown_name", "no summary 'delays'", ""),
    ("WITH a AS (SELECT 1) SELECT 1 FROM »aa«", "unknown_name", "'aa'", "'a'"),
    ("WITH a AS (SELECT 1) SELECT 1 FROM »a« FOR ALL", "from_item", "WITH query", "summary"),
    ("SELECT 1 UNION ALL SELECT »1, 2«", "from_item", "2 columns, the first 1", "same columns"),
    ("SELECT abs((»1«) UNION SELECT 2)", "not_allowed", "but SELECT in WITH and UNION", ""),
    ("SELECT abs((»1, 2«) EXCEPT SELECT 3)", "not_allowed", "but SELECT in WITH and UNION", ""),
    ("WITH a AS (»1«) SELECT 1", "not_allowed", "but SELECT in WITH and UNION", ""),
    (
        "SELECT 1 FROM windows(orders) WHERE window_start >= »'2026-01-01 00:30+02'«",
        "value",
        "zone of this time",
        "UTC: '2025-12-31 22:30:00'",
    ),
    ("SELECT TIMESTAMP »'2026-01-01T00:30:00.5-05:30'« AS t", "value", "zone", "06:00:00.5"),
    ("SELECT now() > »'2026-01-01 10:00 Europe/Berlin'«", "value", "zone", "in UTC"),
    ("SELECT ifnull(now(), »'2026-01-01 10:00+00:30'«)", "value", "zone", "'2026-01-01 09:30"),
    ("SELECT TRY_CAST(»'2026-01-01 10:00 EST'« AS DATE)", "value", "zone", "in UTC"),
    # syntax
    ("SELECT driver FROM orders»(«driver", "syntax", "not closed", ")"),
    ("SELECT driver»)« FROM orders(driver)", "syntax", "closes nothing", ""),
    ("SELECT »CASE« WHEN 1 THEN 2 FROM orders", "syntax", "CASE is not closed", "END"),
    ("»UPDATE« orders SET time = 1", "statement", "SELECT, which only reads", "SHOW TABLES"),
    ("SELECT »mod«(count, 2) FROM orders", "unknown_function", "'mod'", "a % b"),
    ("SELECT »date«(now()) FROM orders", "unknown_function", "'date'", "CAST(x AS DATE)"),
    ("SELECT now()::TIMESTAMP(»3«)", "not_allowed", "a size of TIMESTAMP is", "leave it out"),
    ("SELECT »count«::money FROM orders", "not_allowed", "the type money", "there are BOOLEAN"),
    ("SELECT 1; »SELECT« 2", "statement", "one statement", "end the text"),
    ("SELECT »'«abc", "unterminated", "string that starts here has no end", "'"),
    ('SELECT »"«abc FROM t', "unterminated", "name that starts here", '"'),
    ("SELECT 1 »/*« abc", "unterminated", "comment", "*/"),
    (
        "SELECT 1 FROM orders(driver) WHERE driver IN (»10.0.0.1«, 10.0.0.2)",
        "syntax",
        "'10.0.0.1' is neither a number nor a name",
        "a text, or an address, is written '10.0.0.1'",
    ),
    ("SELECT 1 FROM orders(»10.2.3«)", "syntax", "'10.2.3' is neither", "is written '10.2.3'"),
    ("SELECT 1 FROM orders(driver) WHERE driver = 2001»:«db8::1", "character", "U+003A", "quotes"),
    ("SELECT x »[«1]", "character", "'['", "lists"),
    ("SELECT driver »~« 'a'", "character", "U+007E", "regexp_matches"),
    ("SELECT »?«", "character", "U+003F", "write the value"),
    ("SELECT »`«a` FROM t", "character", "U+0060", '"name"'),
    ("SELECT a b »c« FROM orders(driver)", "syntax", "'c' was not expected", ""),
    ("SELECT 1 FROM orders(driver) »GROUP« ORDER BY 1", "syntax", "or BY, is missing", ""),
    ("SELECT 1 FROM »order«(driver)", "syntax", "a summary, a table function", '"order"'),
    ("SELECT FROM orders(driver)", "syntax", "no columns", "*"),
    ("»*«", "statement", "starts with SELECT", ""),
    ("   ", "syntax", "empty", "SELECT"),
    (f"SELECT {33 * '('}1{33 * ')'}", "limit", "32 levels", "split it"),
    ("SELECT NOT NOT NOT NOT NOT NOT NOT NOT »NOT« true", "limit", "more than 8 signs", "none"),
    ("SELECT 1 FROM »(«(orders(driver)))", "syntax", "only a SELECT can stand", "without brackets"),
    (f"SELECT 1 WHERE {400 * '1=1 OR '}1=1", "limit", "1000 words", "split it"),
    # types and values
    ("SELECT »round«(driver) FROM orders(driver)", "type", "round(VARCHAR)", "cast"),
    ("SELECT »driver«, sum(count) FROM orders(driver)", "group_by", "GROUP BY", "GROUP BY"),
    ("SELECT 1 FROM orders(driver) WHERE »sum«(count) > 5", "group_by", "each row", "HAVING"),
    ("SELECT 1 FROM orders(driver) GROUP BY »sum(count«)", "group_by", "sum(...)", "WITH"),
    ("SELECT sum(count) FROM orders(driver) GROUP BY »1«", "group_by", "sum(...)", "WITH"),
    ("SELECT sum(tip) AS s FROM orders(driver) GROUP BY »s«", "group_by", "sum(...)", "WITH"),
    ("SELECT driver FROM orders(driver) GROUP BY 1, »2«", "unknown_column", "GROUP BY 2", "1 col"),
    ("SELECT * FROM orders(driver) ORDER BY »0«", "unknown_column", "ORDER BY 0", "7 columns"),
    ("SELECT INTERVAL »'1.5'« DAY", "value", "whole number", "'1.5 day'"),
    ("SELECT INTERVAL »(«2) HOUR AS a", "syntax", "constant: write x * INTERVAL 1 HOUR", ""),
    ("SELECT 1 + INTERVAL »x« HOUR", "syntax", "constant: write x * INTERVAL 1 HOUR", ""),
    ("SELECT »1e3-1«e3", "syntax", "read as one number", "space before the sign"),
    ("SELECT INTERVAL »'1 day, 2:00:00'«", "type", "read as INTERVAL", "15 minutes"),
    ("SELECT driver FROM orders(driver) ORDER BY »true«", "type", "leaves rows", "name a column"),
    ("SELECT driver FROM orders(driver) ORDER BY »'driver'«", "type", "leaves rows", "double quot"),
    ("SELECT sum(from»)« FROM orders(driver)", "syntax", "expected table name", ""),
    ('SELECT »""« FROM orders(driver)', "syntax", "a name is empty", "Y1, Y2"),
    ("SELECT 1 UNION SELECT 2 ORDER BY »2«", "unknown_column", "ORDER BY 2", "1 column"),
    ("SELECT 1 FROM orders WHERE »rank«() OVER () > 1", "group_by", "rank(...) at many", "QUALIFY"),
    ("SELECT 1 FROM orders HAVING »rank«() OVER () > 1", "group_by", "HAVING clause", "QUALIFY"),
    ("SELECT cast(»driver« AS INT) FROM orders(driver)", "value", "'d1'", "TRY_CAST gives null"),
    ("SELECT cast(»driver« AS DATE) FROM orders(driver)", "value", '"d1"', "TRY_CAST gives null"),
    ("SELECT »time«::TINYINT FROM (SELECT 400 AS time)", "value", "400", "TRY_CAST gives null"),
    ("SELECT »make_timestamp«(2026, 1, 1, 25, 0, 0)", "value", "Time out of range: 25", ""),
    ("SELECT make_date(2026, 1, 1), make_date(2026, 13, 1)", "value", "out of range", ""),
    ("SELECT »ntile«(0) OVER (), left(driver, 1) FROM orders(driver)", "value", "ntile", ""),
    ("SELECT 1 FROM orders(driver) WHERE »driver« = 5", "type", "driver is a text", "quotes"),
    (
        "SELECT 1 FROM orders(driver) WHERE time = »'1.5'«",
        "type",
        "'1.5' cannot be read as BIGINT",
        "without",
    ),
    ("SELECT driver FROM orders(driver) ORDER BY -»1«", "unknown_column", "BY -1", "1 column"),
    ("SELECT driver FROM orders(driver) ORDER BY (»2«)", "unknown_column", "BY 2", "1 column"),
    ("SELECT driver FROM orders(driver) ORDER BY »ALL« DESC", "syntax", "not ALL", ""),
    ("SELECT driver FROM orders(driver) LIMIT 3 »WHERE« time = 1", "syntax", "LIMIT", "order is"),
    ("SELECT 1 ORDER BY 1 LIMIT 1 »UNION« SELECT 2", "syntax", "behind LIMIT", "brackets"),
    ("SELECT 1,»,« 2", "syntax", "',' does not follow ','", "missing between"),
    ("SELECT abs(»,« 1)", "syntax", "does not follow '('", "missing"),
    ("SELECT rank() OVER »FROM« orders(driver)", "syntax", "does not follow 'OVER'", "write (...)"),
    ("SELECT rank() OVER »w« FROM orders WINDOW w AS ()", "syntax", "follow 'OVER'", "write (...)"),
    ("SELECT rank() OVER (PARTITION BY »ORDER BY« 1) FROM orders", "syntax", "follow", "missing"),
    ("SELECT driver FROM orders(driver) ORDER BY time ASC »DESC«", "syntax", "'ASC'", "missing"),
    ("SELECT driver FROM orders(driver) »OFFSET«", "syntax", "nothing follows", ""),
    ("SELECT 1 FROM orders a »JOIN« orders b", "syntax", "ON or USING", ""),
    ("SELECT 1 FROM orders a »LEFT« JOIN orders b WHERE true", "syntax", "CROSS JOIN", ""),
    ("SELECT 1 FROM vector 3.1 »FULL« JOIN vector 1.1", "syntax", "ON or USING", ""),
    ("SELECT 1 FROM orders a " + 13 * "JOIN orders " + "»JOIN« orders b", "syntax", "USING", ""),
    ("SELECT 1 FROM orders a FULL SEMI JOIN »orders b« ON true", "not_allowed", "FULL SEMI", ""),
    ("SELECT 1 FROM orders a CROSS JOIN »orders b« ON true", "not_allowed", "CROSS", "leave out"),
    ("SELECT driver FROM orders(driver) LIMIT 2, »3«", "syntax", "LIMIT 3 OFFSET 2", ""),
    ("SELECT 1 FROM orders(driver) WHERE »X1« = 5", "type", "driver is a text", "quotes"),
    ("SELECT 1 FROM orders(driver) WHERE Y2 = »driver«", "type", "driver is a text", "quotes"),
    ("SELECT 1 FROM orders WHERE »time > 3« = true", "syntax", "compared again", "AND"),
    ("SELECT abs(area), »abs«('1') FROM orders(area)", "type", "abs(STRING)", "x::TIMESTAMP"),
    ("SELECT »hour«(NULL)", "type", "hour(", "x::TIMESTAMP"),
    ("SELECT 'é', \"driver\" »+« 1 FROM orders(driver)", "type", "'+(VARCHAR, INTEGER)'", "cast"),
    ("SELECT sum(»sum«(count)) FROM orders(driver)", "type", "nested", ""),
    ("SELECT 3 »LIKE« '4%'", "type", "'LIKE(INTEGER, STRING)'", "x::VARCHAR"),
    ("SELECT 1 FROM orders WHERE time IS »5«", "syntax", "IS stands NULL, TRUE", ""),
    ("SELECT sum(count) OVER (ROWS »1.5« PRECEDING) FROM orders", "not_allowed", "1.5 rows", ""),
    ("SELECT lag(»area« IGNORE NULLS) OVER () FROM orders(area)", "not_allowed", "ignore", ""),
    ("SELECT »first(area«) RESPECT NULLS FROM orders(area)", "not_allowed", "respect nulls", ""),
    ("SELECT »to_json«(driver) FROM orders(driver)", "unknown_function", "", "answers in JSON"),
    ("SELECT »to_char«(count, '9') FROM orders", "unknown_function", "", "of a number"),
    ("SELECT »string_agg«(driver, ',') FROM orders(driver)", "unknown_function", "", "the rows"),
    ("SELECT »lpad«(driver, 5, '0') FROM orders(driver)", "unknown_function", "", "under fields"),
    ("SELECT »mean«(count) FROM orders(driver)", "unknown_function", "", "avg(x)"),
    ("SELECT »weekofyear«(now())", "unknown_function", "", "week(x)"),
    ("SELECT »lag«(count) FROM orders(driver)", "type", "Window functions", "OVER (ORDER"),
    ("SELECT first(»driver« ORDER BY time) FROM orders(driver)", "not_allowed", "ORDER", "arg_max"),
    ("SELECT 1 = ANY (SELECT »1«)", "not_allowed", "ANY (...)", "x IN (SELECT ...)"),
    ("SELECT driver FROM orders(driver) LIMIT »5«%", "not_allowed", "LIMIT of a share", "number"),
    ("SELECT DISTINCT ON (»driver«) driver FROM orders(driver)", "not_allowed", "ON", "QUALIFY"),
    ("SELECT date_trunc(»driver«, now()) FROM orders(driver)", "not_allowed", "unit that is", ""),
    ("SELECT time »*« 9223372036854775807 FROM orders(driver)", "overflow", "INT64", "DOUBLE"),
]


@pytest.mark.parametrize(("marked", "code", "message", "remedy"), WRONG)
def test_refused(engine: Engine, marked: str, code: str, message: str, remedy: str) -> None:
    text = marked.replace("»", "").replace("«", "")
    with pytest.raises(SelectError) as caught:
        engine.sql(text)
    error = caught.value
    assert error.code == code, str(error)
    assert message in error.message
    assert remedy in error.remedy
    assert 0 <= error.position <= len(text)
    assert error.position + error.length <= len(text)
    if "»" in marked:
        expected = marked.split("»")[1].split("«")[0]
        assert text[error.position : error.position + error.length] == expected
        assert error.position == marked.index("»")
        assert "^" * len(expected) in str(error)


def test_a_place_in_several_lines_is_shown_under_its_line(engine: Engine) -> None:
    with pytest.raises(SelectError) as caught:
        engine.sql("SELECT driver,\n  tme / served\nFROM orders(driver)")
    assert "    tme / served\n    ^^^\n" in str(caught.value)


@pytest.mark.parametrize("text", [None, 3, b"SELECT 1"])
def test_not_a_text(engine: Engine, text: object) -> None:
    with pytest.raises(SelectError, match="a statement is text"):
        engine.sql(text)  # type: ignore[arg-type]


def test_a_name_beside_a_number_is_not_taken_for_a_time_or_a_text(engine: Engine) -> None:
    for beside in ("> 5", "= -1", "BETWEEN 1 AND 2"):
        with pytest.raises(SelectError) as caught:
            engine.sql(f"SELECT 1 FROM orders WHERE tine {beside}")  # noqa: S608
        assert caught.value.remedy == "did you mean 'time'?"


def test_the_only_name_that_begins_so_is_meant() -> None:
    assert closest("Amount", ["Account", "Amount (EUR)"]) == "Amount (EUR)"
    assert closest("amount", ["amounts", "amount_eur", "count"]) == "amounts"
    assert closest("a", ["amount"]) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, offset FROM s(k) FOR ALL",
        "SELECT offset, k FROM s(k) FOR ALL",
        "SELECT k FROM s(k) FOR ALL ORDER BY offset",
    ],
)
def test_a_word_of_sql_that_is_a_column_is_told(text: str) -> None:
    spec = {
        "name": "s",
        "time": {"column": "at", "unit": "s"},
        "pane": "1 hour",
        "summaries": {"s": {"keys": ["k"], "indicators": ["offset"]}},
    }
    table = pa.table({"at": [0], "k": ["a"], "offset": [7]})
    with muntin.summarize(table, spec) as session:
        with pytest.raises(SelectError, match='the column is written "offset"'):
            session.sql(text)
        assert session.sql(text.replace("offset", '"offset"')).rows[0][0] in ("a", 7)
