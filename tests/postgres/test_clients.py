"""The real clients: psql, psycopg, SQLAlchemy, pandas."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import subprocess
import threading
from contextlib import closing
from decimal import Decimal
from itertools import chain
from math import inf

import httpx
import pandas as pd
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from psycopg import generators

from muntin.errors import BadArgument
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.temporary import temporary
from muntin.server.postgres.catalog_tables import catalog_rows, empty_catalogs
from muntin.server.serving import Server
from muntin.server.workers import workers_in
from tests.pipeline.support import events, gather, pipeline
from tests.server.conftest import Feeder, until
from tests.server.test_workers import FOR_EVER

DRIVERS = [(driver, 18) for driver in "abcde"]
SELECT = "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver"
TOKEN = "0123456789abcdef0123"  # noqa: S105
# far more than any limit permits, in DuckDB's own loop
_ITEMS = range(12)
SLOW = (
    "SELECT count(*) FROM "  # noqa: S608
    + ", ".join(f"orders(driver, area) FOR ALL AS o{n}" for n in _ITEMS)
    + " WHERE "
    + " + ".join(f"o{n}.count" for n in _ITEMS)
    + " < 0"
)


@pytest.fixture
def connection(fed):
    with psycopg.connect(fed.postgres_url, autocommit=True) as connected:
        yield connected


def answered(connection, text, *parameters, binary=False):
    return connection.cursor(binary=binary).execute(text, parameters or None).fetchall()


# psycopg


@pytest.mark.parametrize("binary", [False, True])
def test_types_and_values(connection, binary):
    text = (
        "SELECT driver, count, count / 4 AS part, count > 3 AS many, window_start, "
        "CAST('2026-02-03' AS DATE) AS day, INTERVAL '1 day 2 hours' AS span, NULL AS nothing "
        "FROM trend(busiest) ORDER BY window_start, driver LIMIT 1"
    )
    (row,) = answered(connection, text, binary=binary)
    start = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    span = dt.timedelta(days=1, hours=2)
    assert row == ("a", 6, 1.5, True, start, dt.date(2026, 2, 3), span, None)


def test_tables_are_asked_for_the_window_that_a_connection_sets(fed):
    """Tools that write their own SQL know no FOR."""
    plain = SELECT.replace(" FOR ALL", "")
    options = "-c muntin.window=ALL -c statement_timeout=0"
    with psycopg.connect(fed.postgres_url, autocommit=True, options=options) as connected:
        assert answered(connected, plain) == answered(connected, SELECT) == DRIVERS
        assert answered(connected, 'SELECT "driver", "count" FROM "orders(driver)" LIMIT 1')
        connected.execute("SET muntin.window TO 'LAST 1 minute'")
        last = answered(connected, SELECT.replace("ALL", "LAST '1 minute'"))
        assert answered(connected, plain, binary=True) == last != DRIVERS
        assert answered(connected, "SHOW muntin.window") == [("LAST 1 minute",)]
        with pytest.raises(
            psycopg.errors.InvalidParameterValue, match="which is no window"
        ) as told:
            connected.execute("SET muntin.window = 'ALL WHERE 1 = 0'")
        assert "write ALL, OPEN or LAST 15 minutes, or ALL EVERY 1 hour" in str(told.value)
        assert answered(connected, plain) == last
        connected.execute("RESET muntin.window")
        assert answered(connected, plain) == DRIVERS
        connected.execute("SET muntin.window = OPEN")
        assert answered(connected, plain) == answered(connected, SELECT.replace("ALL", "OPEN"))
    options = r"--muntin.window=LAST\ 60\ s"
    with psycopg.connect(fed.postgres_url, autocommit=True, options=options) as connected:
        assert answered(connected, plain) == last
    with pytest.raises(psycopg.OperationalError, match=r"muntin\.window is 'yesterday'"):
        psycopg.connect(fed.postgres_url, options="-c muntin.window=yesterday")


def test_tables_by_the_steps_that_a_connection_sets(fed, connection):
    """What tools draw over time needs a column of it."""
    with psycopg.connect(fed.postgres_url, options=r"-c muntin.window=ALL\ EVERY\ 1\ minute") as by:
        assert answered(by, "SHOW muntin.window") == [("ALL EVERY 1 minute",)]
        rows = answered(by, 'SELECT * FROM "orders(driver)" ORDER BY window_start, driver')
        every = "SELECT * FROM orders(driver) FOR ALL EVERY '1 minute' ORDER BY 1, 3"
        assert rows == answered(connection, every)
        listed = answered(
            by,
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_name = 'orders(driver)' ORDER BY ordinal_position",
        )
        zoned = "timestamp with time zone"
        first = [("window_start", zoned), ("window_end", zoned), ("driver", "text")]
        assert listed[:4] == [*first, ("count", "bigint")]
        by_day = """SELECT date_trunc('day', window_start) AS "window_start", sum(count) AS n
            FROM public."orders(driver)" WHERE "orders(driver)"."window_start" >= {}
            AND "orders(driver)"."window_start" < {} GROUP BY 1 ORDER BY n DESC LIMIT 100"""
        second = rows[-1][0]
        for low, high in (
            ("'2023-11-14'", f"'{second}'"),
            ("TIMESTAMP '2023-11-14 00:00:00'", f"CAST('{second}' AS TIMESTAMP WITH TIME ZONE)"),
            ("'2023-11-14T00:00:00Z'::timestamptz", f"'{second}'::timestamptz"),
        ):
            found = by.execute(by_day.format(low, high))
            counts = sum(row[3] for row in rows if row[0] < second)
            assert [row[1] for row in found.fetchall()] == [counts]
        told = []
        by.add_notice_handler(lambda notice: told.append(notice.message_primary))
        timed = """SELECT window_end, driver, count FROM "orders(driver)"
            WHERE time >= '2023-11-14 22:14' AND time < '2023-11-14 22:15'"""
        cut = answered(by, timed)
        assert sorted(cut) == sorted((r[1], *r[2:4]) for r in rows if r[0].minute == 14)
        assert "orders covers 2023-11-14T22:14:00Z to 2023-11-14T22:15:00Z" in told[-1]
        plain = "SELECT count(*) FROM {} FOR ALL"
        for table in ("orders(driver)", "trend(busiest)"):
            text = plain.format(table)
            assert answered(by, text) == answered(connection, text)


def test_the_same_rows_as_by_http(fed, connection):
    with httpx.Client(base_url=fed.url) as client:
        found = client.post("/query", json={"select": SELECT}).json()
    assert [list(row) for row in answered(connection, SELECT)] == found["rows"]


@pytest.mark.parametrize("binary", [False, True])
def test_what_reads_nothing_is_answered_as_by_http(fed, connection, binary):
    """It was taken for a question to the catalog, which kept few types."""
    for text, row in (
        ("SELECT TIME '12:34:56.5' AS t, 'inf'::DOUBLE AS i", (dt.time(12, 34, 56, 500_000), inf)),
        ("SELECT 9007199254740993 AS a, 1 / 0 AS n, 7 / 2 AS h", (9007199254740993, None, 3.5)),
        ("SELECT INTERVAL '14 months 1 day' AS m", (dt.timedelta(days=365 + 60 + 1),)),
        ("SELECT version() LIKE 'PostgreSQL%' AS v", (True,)),
    ):
        found = connection.cursor(binary=binary).execute(text)
        assert found.fetchall() == [row]
        if "version" not in text:
            with httpx.Client(base_url=fed.url) as client:
                columns = client.post("/query", json={"select": text}).json()["columns"]
            assert [column.name for column in found.description] == columns
    with pytest.raises(psycopg.errors.UndefinedFunction, match="did you mean 'lower'"):
        connection.execute("SELECT lowr('A')")


def test_what_an_answer_is_true_of_comes_as_a_notice(connection):
    said = []
    connection.add_notice_handler(
        lambda notice: said.append((notice.message_primary, notice.message_detail))
    )
    answered(connection, SELECT)
    assert said[0][0].startswith("exact; orders covers 2023-11-14T22:13:20Z to ")
    answered(connection, "SELECT count FROM orders")
    assert "only the open window is read" in said[1][1]
    connection.execute("SET client_min_messages TO warning")
    answered(connection, SELECT)
    assert len(said) == 2


def test_parameters(connection):
    text = "SELECT driver FROM orders(driver) FOR ALL WHERE driver = %s AND count > %s"
    assert answered(connection, text, "a", 17) == [("a",)]
    assert answered(connection, text, "a' OR '1'='1", 0) == []
    start, end = dt.datetime(2023, 11, 14, 22, 13, 20), dt.datetime(2023, 11, 14, 22, 14, 20)
    window = [(30,)]
    assert answered(connection, "SELECT count FROM orders FOR %s TO %s", start, end) == window
    text = "SELECT count FROM orders WHERE time >= %s AND time < %s"
    zoned = [at.replace(tzinfo=dt.UTC) for at in (start, end)]
    assert answered(connection, text, *zoned, binary=True) == window


@pytest.mark.parametrize("binary", [False, True])
def test_times_are_times_wherever_they_stand(connection, binary):
    at = dt.datetime(2023, 11, 14, 22, 14, 20, tzinfo=dt.UTC)
    text = (
        "SELECT %b, %b, date_trunc('hour', %b)"
        if binary
        else "SELECT %t, %t, date_trunc('hour', %t)"
    )
    (row,) = connection.execute(text, [at, at.date(), at], binary=binary).fetchall()
    assert row == (at, at.date(), at.replace(minute=0, second=0))
    text = "SELECT window_start - %s FROM windows(orders) ORDER BY 1"
    since = connection.execute(text, [at]).fetchall()
    assert since == [(dt.timedelta(minutes=-1),), (dt.timedelta(0),)]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("window_start = %s", "2023-11-14 23:13:20+01"),
        ("%s >= window_start AND driver = %s", "2023-11-14 21:13:20-01"),
        ("date_trunc('day', window_start) IN (%s) AND driver >= %s", "2023-11-14 05:30 +05:30"),
        ("CAST(window_start AS DATE) = %s", "2023-11-14 +01"),
        ("driver = 'a' OR driver = %s", "2023-11-14 +01"),
    ],
)
def test_a_time_in_a_zone_is_one_without_a_type(connection, where, value):
    """As JDBC writes setTimestamp and setDate."""
    text = f"SELECT DISTINCT driver FROM trend(busiest) WHERE {where} ORDER BY driver"  # noqa: S608
    assert answered(connection, text, *[value, "a"][: where.count("%s")])[0] == ("a",)


def test_prepared_pipelined_and_in_transactions(connection):
    for count in range(10):  # from the fifth on psycopg prepares it
        found = answered(connection, "SELECT driver FROM orders(driver) WHERE count > %s", count)
        assert len(found) == (5 if count < 6 else 0)
    with connection.pipeline():
        cursors = [connection.execute("SELECT count FROM orders FOR ALL") for _ in range(3)]
    assert [cursor.fetchall() for cursor in cursors] == [[(90,)]] * 3
    with pytest.raises(psycopg.errors.UndefinedColumn), connection.transaction():
        connection.execute("SELECT nope FROM orders")
    with connection.transaction():
        assert answered(connection, SELECT) == DRIVERS


def test_rows_in_portions(fed):
    """Execute with a limit: the portal goes on where it was."""
    with psycopg.connect(fed.postgres_url, autocommit=True) as connected:
        cursor = connected.cursor()
        found = list(cursor.stream(SELECT))
    assert found == DRIVERS


@pytest.mark.parametrize("binary", [False, True])
def test_cursors(connection, binary):
    """As psycopg, SQLAlchemy's yield_per, ibis and postgres_fdw read many rows."""
    asked = f"SELECT * FROM ({SELECT}) WHERE count > %s"  # noqa: S608
    with connection.transaction(), connection.cursor("c", binary=binary) as cursor:
        assert cursor.execute(asked, [1]).description[1].type_code == 20
        assert (cursor.fetchone(), cursor.fetchmany(2)) == (DRIVERS[0], DRIVERS[1:3])
        assert (list(cursor), cursor.fetchall()) == (DRIVERS[3:], [])
    with connection.transaction():
        connection.execute(
            f"DECLARE C NO SCROLL CURSOR FOR {SELECT}; DECLARE d CURSOR FOR {SELECT}"
        )
        for text, found in (("c", 1), ("FORWARD 3 FROM c", 3), ("ALL IN c", 1), ("NEXT FROM c", 0)):
            assert len(answered(connection, f"FETCH {text}")) == found
        connection.execute("CLOSE c")
        assert answered(connection, "FETCH ALL FROM d", binary=True) == DRIVERS
        for text, state in (("FETCH c", "34000"), ("FETCH PRIOR FROM d", "0A000"),
                            (f"FETCH {'9' * 5000} FROM d", "0A000"), ("FETCH ² FROM d", "0A000"),
                            (f"DECLARE d CURSOR FOR {SELECT}", "42P03"),
                            ("DECLARE e CURSOR FOR SELECT x FROM orders", "42703")):  # fmt: skip
            with pytest.raises(psycopg.Error) as wrong, connection.transaction():
                connection.execute(text)
            assert wrong.value.sqlstate == state
        assert wrong.value.diag.statement_position == "29"
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        connection.execute(f"DECLARE c CURSOR FOR {SELECT}")
    with connection.transaction(), pytest.raises(psycopg.errors.InvalidCursorName):
        connection.execute("FETCH d")


def test_cursors_that_outlive_their_transaction(connection):
    """WITH HOLD, as psycopg's `withhold` asks for it, also outside of a transaction."""
    with connection.cursor("outside", withhold=True) as cursor:
        cursor.execute(SELECT)
        assert (cursor.fetchmany(2), cursor.fetchall()) == (DRIVERS[:2], DRIVERS[2:])
    with connection.transaction():
        connection.execute(f"DECLARE kept CURSOR WITH HOLD FOR {SELECT}")
        connection.execute(f"DECLARE gone CURSOR WITHOUT HOLD FOR {SELECT}")
        assert answered(connection, "FETCH 2 FROM kept") == DRIVERS[:2]
    assert answered(connection, "FETCH 2 FROM kept") == DRIVERS[2:4]
    with pytest.raises(psycopg.errors.InvalidCursorName):
        connection.execute("FETCH 1 FROM gone")
    with connection.transaction(force_rollback=True):
        connection.execute(f"DECLARE undone CURSOR WITH HOLD FOR {SELECT}")
    with pytest.raises(psycopg.errors.InvalidCursorName):
        connection.execute("FETCH 1 FROM undone")
    assert answered(connection, "FETCH 2 FROM kept") == DRIVERS[4:]
    connection.execute("CLOSE ALL")
    with pytest.raises(psycopg.errors.InvalidCursorName):
        connection.execute("FETCH 1 FROM kept")


@pytest.mark.parametrize("options", ["SCROLL CURSOR", "BINARY CURSOR", "SCROLL CURSOR WITH HOLD"])
def test_what_a_cursor_cannot_do_is_refused(connection, options):
    with connection.transaction(), pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
        connection.execute(f"DECLARE c {options} FOR {SELECT}")
    assert options.split()[0] in str(refused.value)
    assert refused.value.diag.statement_position == "11"


@pytest.mark.parametrize(
    "undone",
    ["RESET client_min_messages", "RESET ALL", "SET client_min_messages TO DEFAULT", "DISCARD ALL"],
)
def test_settings_are_undone(fed, undone):
    """A pool lends a connection to one after the other: the next is to hear notices again."""
    heard = []
    with psycopg.connect(fed.postgres_url, autocommit=True, application_name="a") as connected:
        connected.add_notice_handler(lambda notice: heard.append(notice.message_primary))
        connected.execute("SET client_min_messages TO error")
        connected.execute(SELECT)
        assert not heard
        connected.execute(undone)
        connected.execute(SELECT)
        assert len(heard) == 1
        assert answered(connected, "SHOW application_name") == [("a",)]


def test_settings_are_shown(fed):
    options = "-c timezone=Asia/Tokyo -c my.one=1"
    with psycopg.connect(fed.postgres_url, autocommit=True, options=options) as connected:
        for said in ("SET my.two TO 'Two'", "SET TimeZone = 'Asia/Tokyo'", "SET my.one.x = 3"):
            connected.execute(said)
        connected.execute(f"SET my.{'x' * 70} = 1")  # which nothing keeps
        assert answered(connected, "SHOW my.two; SHOW my.one") == [("Two",)]
        assert answered(connected, "SHOW timezone") == [("UTC",)]  # as times come
        shown = answered(connected, "SHOW ALL")
        assert ("TimeZone", "UTC") in shown
        assert shown[-3:] == [("my.one", "1"), ("my.two", "Two"), ("my.one.x", "3")]
        connected.execute("RESET my.two")
        connected.execute("RESET my.one.x")
        assert [name for name, _ in answered(connected, "SHOW ALL")][-1] == "my.one"
        with pytest.raises(psycopg.Error, match="no setting my"):
            connected.execute("SHOW my.two")


def test_what_discard_takes_away(connection):
    connection.execute(f"DECLARE held CURSOR WITH HOLD FOR {SELECT}")
    connection.pgconn.prepare(b"kept", b"SELECT 1")
    assert connection.execute("DISCARD PLANS").statusmessage == "DISCARD PLANS"
    assert connection.pgconn.exec_prepared(b"kept", None).get_value(0, 0) == b"1"
    assert answered(connection, "FETCH 1 FROM held") == DRIVERS[:1]
    assert connection.execute("DISCARD ALL").statusmessage == "DISCARD ALL"
    with pytest.raises(psycopg.errors.InvalidCursorName):
        connection.execute("FETCH 1 FROM held")
    missing = connection.pgconn.exec_prepared(b"kept", None)
    assert missing.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"26000"


def test_copy_in_binary_and_text(connection):
    """As DuckDB's postgres extension and ADBC read: the header comes with the first row."""
    for condition, expected in (("", DRIVERS), ("WHERE count > 99", [])):
        text = f"SELECT driver, count FROM orders(driver) FOR ALL {condition} ORDER BY driver"  # noqa: S608
        with connection.cursor().copy(f"COPY ({text}) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int8"])
            assert list(copy.rows()) == expected
    with pytest.raises(psycopg.errors.UndefinedColumn) as wrong:
        connection.cursor().copy(
            "COPY (SELECT a FROM orders) TO STDOUT (FORMAT BINARY)"
        ).__enter__()
    assert wrong.value.diag.statement_position == "14"
    for other in ("COPY orders FROM STDIN", "COPY (SELECT 1) TO '/tmp/x' (FORMAT binary)"):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="COPY reads a table or a"):
            connection.execute(other)
    columns = 'COPY "orders(driver, area)" ("driver", count) TO STDOUT (FORMAT csv, HEADER)'
    with connection.cursor().copy(columns) as copy:
        assert b"".join(map(bytes, copy)).startswith(b"driver,count\n")
    with connection.cursor().copy(f"COPY ({SELECT}) TO STDOUT") as copy:
        copy.set_types(["text", "int8"])
        assert list(copy.rows()) == DRIVERS
    assert answered(connection, SELECT) == DRIVERS


def test_copy_that_is_prepared(connection):
    """As polars reads (connectorx), ADBC and asyncpg; then the connection goes on."""
    link = connection.pgconn
    link.send_query_params(f"COPY ({SELECT}) TO STDOUT WITH (FORMAT 'binary')".encode(), None)
    (found,) = connection.wait(generators.execute(link))
    assert found.status == psycopg.pq.ExecStatus.COPY_OUT
    rows = bytearray()
    while isinstance(piece := connection.wait(generators.copy_from(link)), memoryview):
        rows += piece
    assert piece.command_tuples == len(DRIVERS)
    with connection.cursor().copy(f"COPY ({SELECT}) TO STDOUT (FORMAT binary)") as copy:
        assert rows == b"".join(copy)


# what is described before there are parameters, as asyncpg and pg8000 do


@pytest.mark.parametrize(
    ("text", "types", "values", "rows"),
    [
        ("WHERE driver LIKE $1 ORDER BY driver LIMIT $2 OFFSET $3", (25, 20, 20),
         ("%", 2, 1), [b"b", b"c"]),
        ("WHERE count > $1::BIGINT AND count < CAST($2 AS double precision) AND driver = $3",
         (20, 701, 25), (17, 18.5, "a"), [b"a"]),
        ("WHERE count < $1::NUMERIC", (1700,), ("18.0001",), [b"a", b"b", b"c", b"d", b"e"]),
        ("FOR $1 TO $2", (1184, 1184), ("1970-01-01", "2000-01-01"), []),
        ("WHERE time >= $1 AND time < $2::timestamp without time zone AND driver = $3",
         (1184, 1114, 25), ("1970-01-01", "2100-01-01", "b"), [b"b"]),
        ("WHERE time BETWEEN $1 AND $2", (1184, 1184), ("1970-01-01", "2000-01-01"), []),
        ("WHERE time < $1 AND time >= $2", (1184, 1184), ("2100-01-01", "1970-01-01"),
         [b"a", b"b", b"c", b"d", b"e"]),
        ("FOR '2023-11-14' TO $1", (1184,), ("2023-11-15",), [b"a", b"b", b"c", b"d", b"e"]),
        ("FOR $1 TO '1970-01-02'", (1184,), ("1970-01-01",), []),
        ("FOR $1::text TO $2", (25, 1184), ("1970-01-01", "2000-01-01"), []),
        ("FOR WINDOW $1", (1184,), ("2023-11-14 22:14:20",), [b"a", b"b", b"c", b"d", b"e"]),
        ("FOR LAST $1", (25,), ("1 minute",), [b"a", b"b", b"c", b"d", b"e"]),
        ("FOR ALL EVERY $1", (25,), ("1 day",), [b"a", b"b", b"c", b"d", b"e"]),
        ("WHERE date_part($1::text, now()) > 2000 FETCH FIRST ($2::int) ROWS ONLY", (25, 23),
         ("year", 0), []),
        ("FOR LAST '1 day' WHERE driver = $1", (25,), ("a",), [b"a"]),
        ("WHERE driver = ANY($1) AND count = any($2::int[])", (1009, 1007),
         ('{a, "b" ,NULL}', "{17,18}"), [b"a", b"b"]),
        ("AS o WHERE o.count >= $1 AND $2 >= count AND driver IS NOT DISTINCT FROM $3",
         (20, 20, 25), (18, 18, "a"), [b"a"]),
        ("WHERE (count NOT BETWEEN $1 AND $2 OR count IN (5, $3)) AND count = ANY($4)",
         (20, 20, 20, 1016), (1, 2, 18, "{18}"), [b"a", b"b", b"c", b"d", b"e"]),
        ("WHERE NOT count = ANY($1) AND driver = $2", (1016, 25), ("{}", "a"), [b"a"]),
        ("WHERE count <> ALL($1) AND driver != all($2)", (1016, 1009), ("{7}", "{a,b,c}"),
         [b"d", b"e"]),
        ("AS o WHERE served + o.count::float8 * $1 > 0 AND $2 - count < 0 AND (count - 17) / $3 = "
         "2 AND round(count, $4) - $5 = 17", (701, 20, 701, 23, 20), (1, 2, 0.5, 0, 1),
         [b"a", b"b", b"c", b"d", b"e"]),
        ("WHERE greatest(count, $1) = 19 AND coalesce($2, driver) = 'b' AND left(driver, $3) = "
         "nullif($4, 'x')", (20, 25, 23, 25), (19, "b", 1, "a"), [b"a"]),
    ],
)  # fmt: skip
def test_parameters_have_types_before_values(connection, text, types, values, rows):
    window = "" if "FOR" in text or "time " in text else "FOR ALL "
    link = connection.pgconn
    asked = f"SELECT driver, count FROM orders(driver) {window}{text}".encode()  # noqa: S608

    def heard():
        (result,) = connection.wait(generators.execute(link))
        return result

    link.send_prepare(b"s", asked)
    assert heard().status == psycopg.pq.ExecStatus.COMMAND_OK
    link.send_describe_prepared(b"s")
    told = heard()
    assert tuple(told.param_type(at) for at in range(told.nparams)) == types
    assert (told.ftype(0), told.ftype(1)) == (25, 20)
    link.send_query_prepared(b"s", [str(value).encode() for value in values])
    found = heard()
    assert sorted(found.get_value(at, 0) for at in range(found.ntuples)) == rows


def test_arguments_of_table_functions_have_types_before_values():
    """asyncpg, pg8000 and JDBC could give none: nulls are no arguments."""
    ledger = temporary()
    kinds = {
        "fares": {"kind": "quantiles", "value": "fare"},
        "areas": {"kind": "frequency", "item": "area"},
        "drivers": {"kind": "fingerprint", "key": "driver"},
    }
    feeder = Feeder(ledger, pipeline(summaries=kinds, queries={}))
    feeder.rows([(n, "ab"[n % 2], n % 3 - 1, 1, n - 5) for n in range(10)])
    asked = [
        ("q, value FROM quantiles(fares, $1, 1, $2)", (701, 701), (0, 0.5), [0, -5, 1, 4, 0.5, -1]),
        ("rank FROM ranks(fares, $1, $2::float8)", (701, 701), (-5, -4.0), [0.1, 0.2]),
        ("item FROM top_k(areas, $1)", (20,), (1,), [-1]),
        ("item, value FROM frequency(areas, $1, 5)", (20,), (-1,), [-1, 4, 5, 0]),
        ("present FROM contains(drivers, $1, $2)", (25, 25), ("a", "c"), [True, False]),
    ]
    with (
        Server(ledger, port=0, postgres="127.0.0.1:0") as server,
        psycopg.connect(server.postgres_url, autocommit=True) as connected,
    ):
        for number, (text, types, values, rows) in enumerate(asked):
            name = f"s{number}".encode()
            asks = f"SELECT {text} FOR ALL"
            connected.pgconn.send_prepare(name, asks.encode())
            connected.wait(generators.execute(connected.pgconn))
            connected.pgconn.send_describe_prepared(name)
            (told,) = connected.wait(generators.execute(connected.pgconn))
            assert not told.error_message
            assert tuple(told.param_type(at) for at in range(told.nparams)) == types
            found = answered(connected, re.sub(r"[$][0-9]", "%s", asks), *values)
            assert [*chain(*found)] == rows
    feeder.close()


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SELECT count FROM trend(busiest) WHERE window_start >= $1 AND window_end <> $2 + $1",
         (1184, 1184)),
        ("WITH x AS (SELECT driver, count AS n FROM orders(driver) FOR ALL WHERE count > $1) "
         "SELECT driver FROM x WHERE n / 2.0 > 0 AND n < $2", (20, 20)),
        ("SELECT n FROM (SELECT count AS n, count / 4 AS part FROM orders(driver) FOR $1 TO $2) "
         "WHERE (n > $3 OR part < $4)", (1184, 1184, 20, 701)),
        ("SELECT area, sum(count) AS n FROM orders(driver, area) FOR ALL WHERE area <> $1 "
         "GROUP BY area HAVING sum(count) > $2 AND avg(count) IN ($3)", (20, 20, 701)),
        ("SELECT driver FROM trend(busiest) WHERE CAST(window_start AS TIME) > $1 "
         "AND CAST(window_end AS TIME) < $2::time", (1083, 1083)),
        ("SELECT count > $1 AS more FROM orders FOR ALL WHERE nothing = $2", (20, 25)),
        ("SELECT a.count FROM orders(driver) FOR ALL AS a JOIN orders FOR ALL AS b "
         "ON a.count < b.count AND b.count > $1", (20,)),
        ("SELECT column_name FROM information_schema.columns WHERE ordinal_position = $1 "
         "AND table_name = $2", (20, 25)),
    ],
)  # fmt: skip
def test_parameters_have_the_types_of_what_they_are_compared_with(fed, text, types):
    """pgx, tokio-postgres and asyncpg send nothing else than a value of the type they hear."""
    with psycopg.connect(fed.postgres_url, autocommit=True) as connection:
        link = connection.pgconn
        link.send_prepare(b"s", text.encode())
        connection.wait(generators.execute(link))
        link.send_describe_prepared(b"s")
        (told,) = connection.wait(generators.execute(link))
        if "nothing" in text:
            assert told.status == psycopg.pq.ExecStatus.FATAL_ERROR
        else:
            assert tuple(told.param_type(at) for at in range(told.nparams)) == types


@pytest.mark.parametrize(("spelled", "most", "given"), [("${}", 5_000, 0), ("${}::INT", 2_400, 23)])
def test_a_list_of_parameters_is_as_long_as_one_of_constants(connection, spelled, most, given):
    """Each has its type: beyond the 32nd they were texts, to which asyncpg and pgx take no numbers.
    With casts, as SQLAlchemy writes them for asyncpg."""
    link = connection.pgconn
    listed = ",".join(spelled.format(n) for n in range(1, most))
    where = f"count IN ({listed}) AND driver > ${most}"
    text = f"SELECT driver FROM orders(driver) FOR ALL WHERE {where}"  # noqa: S608
    link.send_prepare(b"s", text.encode())
    connection.wait(generators.execute(link))
    link.send_describe_prepared(b"s")
    (told,) = connection.wait(generators.execute(link))
    types = [told.param_type(at) for at in range(told.nparams)]
    assert types == [given or 20] * (most - 1) + [25]
    values = [-n if n % 2 else n for n in range(most - 1)]
    link.send_query_prepared(b"s", [*(str(n).encode() for n in values), b"a"])
    (found,) = connection.wait(generators.execute(link))
    rows = [found.get_value(at, 0) for at in range(found.ntuples)]
    assert sorted(rows) == [b"b", b"c", b"d", b"e"], found.error_message


def test_a_savepoint_ends_a_failure(connection):
    """As pgx, postgres.js, sqlx and SQLAlchemy nest transactions."""
    with connection.transaction():
        with pytest.raises(psycopg.errors.UndefinedColumn), connection.transaction():
            connection.execute("SELECT nothing FROM orders")
        assert answered(connection, SELECT) == DRIVERS
    with pytest.raises(psycopg.errors.UndefinedColumn), connection.transaction():
        connection.execute("SELECT nothing FROM orders")
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_what_clients_write_into_the_text(connection):
    """psycopg2, and pgx in its simple protocol."""
    for text, rows in (
        ("FOR ALL WHERE driver = ANY(ARRAY['a', 'it''s']) LIMIT '2'", 1),
        ("FOR ALL WHERE driver = ANY('{a,\"b\"}'::text[]) AND count = ANY('{17,18}')", 2),
        ("FOR ALL WHERE driver = ANY('{}') OR driver = ANY(ARRAY[]::text[])", 0),
        ("FOR ALL WHERE driver <> ALL('{}') AND NOT count = ANY(ARRAY[]::int[])", 5),
        ("FOR '2000-01-01 00:00+02'::timestamptz TO '2100-01-01 00:00+00'::timestamptz", 5),
        ("FOR LAST '0 days 3600.000000 seconds'::interval", 5),
    ):
        assert len(answered(connection, f"SELECT driver FROM orders(driver) {text}")) == rows  # noqa: S608


@pytest.mark.parametrize("binary", [False, True])
def test_lists(connection, binary):
    """psycopg has no other way for a list of keys."""
    text = "SELECT driver FROM orders(driver) FOR ALL WHERE driver=any(%s) ORDER BY driver"
    form = "%b" if binary else "%t"
    for given, found in (
        (["b", "x\"\\,{}'", "a"], [("a",), ("b",)]),
        (["null", "NULL", ""], []),
        ([None, "a"], [("a",)]),
        ([], []),
    ):
        assert answered(connection, text.replace("%s", form), given) == found
    counts = "SELECT count FROM orders FOR ALL WHERE count = ANY(%s)"
    assert answered(connection, counts.replace("%s", form), [90, -1]) == [(90,)]
    others = text.replace("=any(%s)", f"<>all({form})")
    for given, found in ((["b", "a"], ["c", "d", "e"]), ([], [*"abcde"]), ([None, "a"], [])):
        assert answered(connection, others, given) == [(driver,) for driver in found]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="a list stands in = ANY or <> A"):
        connection.execute("SELECT count FROM orders WHERE count < ALL(%s)", ([1],))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="is no value of type"):
        connection.execute("SELECT count FROM orders WHERE count = ANY(%s)", ([[1], [2]],))


@pytest.mark.parametrize("form", ["%t", "%b"])
def test_a_time_of_day(connection, form):
    """psycopg sends it in binary by itself."""
    text = f"SELECT driver FROM orders(driver) FOR ALL WHERE CAST('10:30' AS TIME) = {form}"  # noqa: S608
    assert len(answered(connection, text, dt.time(10, 30))) == 5
    assert answered(connection, text, dt.time(10, 30, 0, 1)) == []
    for given in (dt.time(10, 30), dt.timedelta(days=1, hours=2)):
        assert answered(connection, f"SELECT {form} AS t", given) == [(given,)]
    last = "SELECT now() - %s < now() AS t, count FROM orders FOR LAST %s"
    assert answered(connection, last, *[dt.timedelta(hours=1)] * 2) == [(True, 90)]


def test_numbers_of_sqlalchemy(connection):
    text = "SELECT %s::FLOAT(53) AS f, %s::NUMERIC AS n FROM orders FOR ALL"
    for binary in (False, True):
        found = answered(connection, text, 0.1, Decimal("0.123456"), binary=binary)
        assert found == [(0.1, 0.123456)]  # DuckDB's NUMERIC has three digits after the point
    text = "SELECT round((count / 7e6)::numeric, 9) AS r, 1e18::numeric AS n FROM orders FOR ALL"
    assert answered(connection, text) == [(0.000012857, 1e18)]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="a size of INT is not available"):
        connection.execute("SELECT count::INT(5) FROM orders")
    text = "SELECT count FROM orders WHERE time >= %s AND time < %s AND 1 < 2.5::FLOAT(53)"
    assert answered(connection, text, "1970-01-01", dt.datetime.now(dt.UTC)) == [(90,)]


@pytest.mark.parametrize("form", ["%t", "%b"])
def test_a_length_of_time_as_a_parameter(connection, form):
    text = f"SELECT count, {form} AS t FROM orders FOR LAST {form}"  # noqa: S608
    for given, count in (
        (dt.timedelta(minutes=1), 30),
        (dt.timedelta(days=1, hours=2, microseconds=7), 90),
    ):
        for sign in (1, -1):
            assert answered(connection, text, sign * given, given) == [(count, sign * given)]


@pytest.mark.parametrize("form", ["%t", "%b"])
def test_steps_by_parameters(connection, form):
    text = f"SELECT window_end - window_start, count FROM orders FOR LAST {form} EVERY {form}"  # noqa: S608
    step = dt.timedelta(seconds=20)
    found = answered(connection, text, dt.timedelta(minutes=1), step)
    assert sum(count for _, count in found) == 30
    assert max(length for length, _ in found) == step


def test_errors_have_place_and_remedy(connection):
    with pytest.raises(psycopg.errors.UndefinedColumn) as wrong:
        connection.execute("SELECT %s AS x, drivr FROM orders(driver)", ["a longer text"])
    diagnosis = wrong.value.diag
    assert diagnosis.statement_position == "17"  # of the text with $1
    assert diagnosis.message_hint == "did you mean 'driver'?"
    with pytest.raises(psycopg.errors.SyntaxError):
        connection.execute("SELECT FROM WHERE orders")
    assert answered(connection, SELECT) == DRIVERS


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM pg_catalog.pg_class, read_text('/etc/passwd')",
        "SELECT relname FROM pg_class, '/etc/passwd'",
        "SELECT getenv('HOME')",
        "SELECT relname, pg_read_file('/etc/passwd') FROM pg_class",
        "SELECT repeat('x', 1000000000)",
        "COPY orders TO '/tmp/x'",
        "SELECT relname INTO x FROM pg_class",
        "ATTACH '/tmp/x.db'",
        "SELECT * FROM duckdb_settings()",
        "PRAGMA database_list",
        "SELECT * FROM pg_read_file('/etc/passwd')",
        "SELECT CAST(count AS money) FROM orders",
    ],
)
def test_what_is_not_allowed_is_refused(connection, text):
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(text)
    assert refused.value.sqlstate in ("0A000", "42P01", "42883", "42601")


@pytest.mark.parametrize(
    "text",
    ["INSERT INTO orders VALUES (%s)", "/* ! */ update orders SET count = %s", "DROP TABLE orders",
     "CREATE TEMP TABLE x (a int[])", "DELETE FROM orders WHERE driver = %s"],
)  # fmt: skip
def test_what_writes_is_refused_as_in_a_transaction_that_reads(connection, text):
    for prepare in (False, True):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as refused:
            connection.execute(text, ["1"] * text.count("%s") or None, prepare=prepare)
        assert "read-only transaction" in str(refused.value)


# catalogs


def test_sqlalchemy_and_pandas(fed):
    engine = sa.create_engine(fed.postgres_url.replace("postgresql", "postgresql+psycopg"))
    there = sa.inspect(engine)
    expected = {"orders", "orders(driver)", "orders(driver, area)", "trend(busiest)"}
    assert set(there.get_table_names()) == expected | {"windows(orders)"}
    columns = {c["name"]: str(c["type"]) for c in there.get_columns("windows(orders)")}
    assert columns["window_start"] == "TIMESTAMP"
    assert columns["overflowed"] == "BOOLEAN"
    assert there.has_table("orders")
    assert not there.has_table("nothing")
    orders = sa.Table("orders(driver)", sa.MetaData(), autoload_with=engine)
    asked = sa.select(orders.c.driver, orders.c.fare).where(orders.c.count > 3).limit(2)
    with engine.connect() as connected:
        assert len(connected.execute(asked).fetchall()) == 2
    assert pd.read_sql(SELECT, engine)["count"].tolist() == [18] * 5
    assert len(pd.read_sql_table("orders(driver, area)", engine)) > 0
    engine.dispose()


def test_information_schema(connection):
    text = (
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_name = %s ORDER BY ordinal_position"
    )
    assert answered(connection, text, "orders(driver)") == [
        ("driver", "text"), ("count", "bigint"), ("served", "bigint"), ("fare", "bigint"),
    ]  # fmt: skip


@pytest.mark.parametrize("binary", [False, True])
def test_a_sum_beyond_int64_is_of_the_type_that_the_catalog_says(binary):
    """ibis took bigint from it, and made -2^63 of the value; DuckDB reads rows by it alone."""
    ledger = temporary()
    feeder = Feeder(ledger)
    feeder.rows([(second, "a", 1, 1, 2**62) for second in range(3)] + [(3, "b", 1, 1, 5)])
    types = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute JOIN pg_class "
        "ON attrelid = pg_class.oid WHERE relname = 'orders(driver)' ORDER BY attnum"
    )
    with (
        Server(ledger, port=0, postgres="127.0.0.1:0") as server,
        psycopg.connect(server.postgres_url) as connected,
    ):
        *counts, fare = answered(connected, types)
        assert counts == [("driver", "text"), ("count", "bigint"), ("served", "bigint")]
        assert fare == ("fare", "numeric(38,0)")
        for driver, value in (("a", 3 * 2**62), ("b", 5)):  # the second would fit into bigint
            cursor = connected.cursor(binary=binary)
            cursor.execute('SELECT count, fare FROM "orders(driver)" WHERE driver = %s', (driver,))
            assert [(c.type_display, c.precision) for c in cursor.description] == [
                ("int8", None), ("numeric(38,0)", 38),
            ]  # fmt: skip
            assert cursor.fetchall() == [(3 if driver == "a" else 1, value)]
    feeder.close()


def test_items_that_are_bytes_are_listed():
    """Their table had no columns, and the catalog was made anew for each question to it."""
    ledger = temporary()
    spec = pipeline(summaries={"tags": {"kind": "top_k", "item": "driver"}}, queries={})
    feeder = Feeder(ledger, spec)
    table = events([(second, "\0a", 1, 1, 1) for second in range(3)])
    driver = table["driver"].cast(pa.binary())
    feeder.ingest.take(0, gather([table.set_column(1, "driver", driver)]))
    types = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = "
    with (
        Server(ledger, port=0, postgres="127.0.0.1:0") as server,
        psycopg.connect(server.postgres_url, autocommit=True) as connected,
    ):
        assert answered(connected, types + "'top_k(tags)'")[:2] == [
            ("item", "bytea"), ("value", "bigint"),
        ]  # fmt: skip
        with pytest.raises(psycopg.Error, match="column 'item' of the answer holds bytes"):
            connected.execute('SELECT * FROM "top_k(tags)"')
        assert answered(connected, 'SELECT item::text, value FROM "top_k(tags)"') == [(r"\x00a", 3)]
    feeder.close()


def test_utf_8_by_any_spelling(connection):
    """pgbouncer says again what asyncpg said at the start, quotes and all."""
    connection.execute("SET client_encoding = '''utf-8'''")
    with pytest.raises(psycopg.Error, match="not in latin_1"):
        connection.execute("SET client_encoding = 'latin_1'")


def test_the_catalog_says_the_types_of_the_window_that_is_set():
    """pandas' read_sql_table took bigint from it, of the open window, and made -2^63 of sums over
    all; DuckDB could not read them. A sum that outgrew 64 bits later stayed bigint."""
    ledger = temporary()
    feeder = Feeder(ledger)
    feeder.rows([(second, "a", 1, 1, 2**62) for second in range(0, 300, 100)])
    types = (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute JOIN pg_class "
        "ON attrelid = pg_class.oid WHERE relname = 'orders(driver)' AND attname = 'fare'"
    )
    with Server(ledger, port=0, postgres="127.0.0.1:0") as server:
        options = "-c muntin.window=ALL"
        engine = sa.create_engine(
            server.postgres_url.replace("postgresql:", "postgresql+psycopg:"),
            connect_args={"options": options},
        )
        (fare,) = pd.read_sql_table("orders(driver)", engine)["fare"]
        assert fare == 3 * 2**62
        engine.dispose()
        with (
            psycopg.connect(server.postgres_url) as plain,
            psycopg.connect(server.postgres_url, options=options) as whole,
        ):
            assert answered(plain, types) == [("bigint",)]
            assert answered(whole, types) == [("numeric(38,0)",)]
            feeder.rows([(second, "a", 1, 1, 2**62) for second in range(300, 304)])
            until(lambda: answered(plain, types) == [("numeric(38,0)",)])
    feeder.close()


psql = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")


def shell(url, *commands):
    """What psql prints, and what it says on the side."""
    words = [part for command in commands for part in ("-c", command)]
    done = subprocess.run(
        ["psql", "-X", "-A", "-t", url, *words], capture_output=True, text=True, timeout=120
    )
    return done.stdout, done.stderr


@psql
def test_copy_into_a_file_as_psql_writes_it(fed, tmp_path):
    path = tmp_path / "drivers.csv"
    said = shell(fed.postgres_url, f"\\copy ({SELECT}) to '{path}' csv header")
    assert said[0] == "COPY 5\n"
    assert "exact; orders covers" in said[1]
    rows = [f"{driver},{count}" for driver, count in DRIVERS]
    assert path.read_text().splitlines() == ["driver,count", *rows]
    for table in ('"orders(driver)"', "orders(driver)"):
        url = f"{fed.postgres_url}?options=-c%20muntin.window%3DALL"
        assert shell(url, f"\\copy {table} to '{path}' (format csv)")[0] == "COPY 5\n"
        found = sorted(path.read_text().splitlines())
        assert [line.rsplit(",", 2)[0] for line in found] == rows


@psql
def test_what_adbc_looks_through(connection):
    """It reads by the names of these functions."""
    found = answered(
        connection,
        "SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type "
        "WHERE (typreceive != 0 OR typsend != 0) AND typtype != 'r' "
        "AND typreceive::TEXT != 'array_recv'",
    )
    names = {name: receive for _, name, receive, *_ in found}
    assert names["timestamptz"] == "timestamptz_recv"
    assert names["int8"] == "int8recv"


def test_types_of_lists(connection):
    """What asyncpg and postgres.js ask before they send one."""
    text = (
        "select b.oid, b.typarray from pg_catalog.pg_type a left join pg_catalog.pg_type b "
        "on b.oid = a.typelem where a.typcategory = 'A' group by b.oid, b.typarray order by b.oid"
    )
    lists = dict(answered(connection, text))
    assert (lists[20], lists[25], lists[1184]) == (1016, 1009, 1185)
    asked = "SELECT typname, typelem FROM pg_type WHERE oid = any(%s::oid[])"
    assert answered(connection, asked, [1016], binary=True) == [("_int8", 20)]
    asked = "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new"
    assert len(answered(connection, asked)) == 1


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # psqlODBC: SQLColumns (by which Excel and Tableau list columns), SQLForeignKeys
        ("select c.relname, a.attname, t.typname, pg_get_expr(d.adbin, d.adrelid) from "
         "(((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
         "and c.relname like 'orders' and n.nspname like 'public') inner join "
         "pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = "
         "c.oid) inner join pg_catalog.pg_type t on t.oid = a.atttypid) left outer join "
         "pg_attrdef d on "
         "a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum order by attnum",
         [("orders", name, "int8", None) for name in ("count", "served", "fare")]),
        ("select ref.conname, i::int2 as seq from ((select conrelid, conname, generate_series("
         "array_lower(conkey, 1), array_upper(conkey, 1)) as i from pg_catalog.pg_constraint cn, "
         "pg_catalog.pg_class c where contype = 'f' and confrelid = c.oid) ref inner join "
         "pg_catalog.pg_class c1 on c1.oid = ref.conrelid) order by ref.i", []),
        ("select proname, proargtypes, proallargtypes from pg_catalog.pg_proc p where "
         "has_function_privilege(p.oid, 'EXECUTE') and p.pronamespace = 2200", []),
        # Power BI writes all of it in upper case
        ("select TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.TABLES where TABLE_NAME = 'orders'",
         [("orders", "BASE TABLE")]),
        ("select pk.COLUMN_NAME from INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS fk inner join "
         "INFORMATION_SCHEMA.KEY_COLUMN_USAGE pk on fk.UNIQUE_CONSTRAINT_NAME = pk.CONSTRAINT_NAME",
         []),
        ("select character_set_name from INFORMATION_SCHEMA.character_sets", []),
        # Metabase
        ("SELECT c.relname, stat.n_live_tup FROM pg_catalog.pg_class c LEFT JOIN "
         "pg_stat_user_tables stat ON c.relname = stat.relname WHERE c.relname = 'orders'",
         [("orders", None)]),
        ("select case when c.udt_schema in ('public', 'pg_catalog') then format('%s', c.udt_name) "
         "else format('\"%s\".\"%s\"', c.udt_schema, c.udt_name) end as kind, "
         "col_description(cast(cast(format('%I.%I', cast(c.table_schema as text), c.table_name) "
         "as regclass) as oid), 1) "
         "from information_schema.columns c where c.table_name = 'orders' and "
         "c.ordinal_position = 1",
         [("int8", None)]),
        ("with p as (select t.objectname as table, has_any_column_privilege(current_user, "
         "t.objectname, 'select') as select, pg_catalog.has_table_privilege(current_user, "
         "t.objectname, 'delete') as delete, has_table_privilege(t.objectname, 'INSERT, SELECT') "
         "as any from (select tablename as objectname from pg_catalog.pg_tables union select "
         "matviewname from pg_catalog.pg_matviews) t) select t.* from p t where t.table = 'orders'",
         [("orders", True, False, True)]),
        ('SELECT "p"."t" FROM (SELECT "c"."relname" AS "t", '
         '(INFORMATION_SCHEMA._PG_EXPANDARRAY("i"."indkey"))."n" AS "pos" FROM '
         '"pg_catalog"."pg_class" AS "c" INNER JOIN "pg_catalog"."pg_index" AS "i" ON "c"."oid" = '
         '"i"."indrelid") AS "p" WHERE "p"."pos" = 1', []),
        # whose names are all quoted
        ('SELECT "pg_catalog"."pg_get_userbyid"(10), "quote_ident"(relname) FROM pg_class WHERE '
         "relname = 'orders'", [("muntin", "orders")]),
        ('SELECT "generate_series"(1, 2)', [(1,), (2,)]),
        # JDBC's primary or secondary
        ("SHOW transaction_read_only", [("on",)]),
        # Npgsql (Power BI): which types are lists, and of what
        ("SELECT t.typname, CASE WHEN p.proname='array_recv' THEN t.typelem END FROM pg_type AS t "
         "LEFT JOIN pg_proc AS p ON p.oid = t.typreceive WHERE t.typname IN ('int8', '_int8') "
         "ORDER BY t.oid", [("int8", None), ("_int8", 20)]),
        # Ruby's pg; Perl's DBI
        ("SELECT t.typname, ti.proname AS typinput FROM pg_type AS t JOIN pg_proc AS ti ON "
         "ti.oid = t.typinput WHERE t.oid IN (16, 1184) OR typelem = 20 ORDER BY t.oid",
         [("bool", "boolin"), ("_int8", "array_in"), ("timestamptz", "timestamptz_in")]),
        ("SELECT pg_catalog.pg_index_column_has_property(i.indexrelid, 1, 'desc') FROM pg_index i",
         []),
        # users, and R's dbListFields
        ("SELECT now() > '2020-01-01' AS a, version() LIKE 'Post%' AS b, current_date IS NULL AS c",
         [(True, True, False)]),
        ("select attname from pg_attribute a, pg_class c, pg_tables t where a.attrelid = c.oid and "
         "c.relname = t.tablename and attnum > 0 and c.relname = 'orders'",
         [("count",), ("served",), ("fare",)]),
        # pgcli, where it keeps how names are written
        ("WITH Words AS (SELECT regexp_split_to_table(prosrc, '\\W+') AS Word, COUNT(1) FROM "
         "pg_catalog.pg_proc P GROUP BY Word), OrderWords AS (SELECT Word, ROW_NUMBER() OVER("
         "PARTITION BY LOWER(Word) ORDER BY Count DESC) FROM Words WHERE Word ~* '.*[a-z].*') "
         "SELECT Word FROM OrderWords WHERE LOWER(Word) IN (SELECT relname FROM pg_class) AND "
         "Row_Number = 1", []),
        # DataGrip, DBeaver
        ("select N.xmin as state, nspname, rolconfig from pg_catalog.pg_namespace N join "
         "pg_catalog.pg_roles R on R.oid = N.nspowner where nspname = current_schema() order by "
         "pg_catalog.age(N.xmin)", [(0, "public", None)]),
        ("select round(extract(epoch from pg_postmaster_start_time() at time zone 'UTC')) as s, "
         "current_schemas(false) as c, format_type(nullif(0, 0), -1)",
         [(None, ["public"], None)]),
        ("SELECT pg_stat_get_numscans(i.indexrelid), c.contoencoding FROM pg_catalog.pg_index i, "
         "pg_catalog.pg_conversion c", []),
        ("select T.oid as oid, pg_catalog.translate(relkind, 'rmvpfS', 'tmvrfS') as kind from "
         "pg_catalog.pg_class T where relname = 'windows(orders)' and relnamespace in ( 2200 ) and "
         "oid is null union all select relnamespace, translate(relkind, 'rmvpfS', 'tmvrfS') from "
         "pg_class where relname = 'orders' union all select oid, 'C' from pg_collation where "
         "collnamespace in ( null )", [(2200, "t")]),
        ("select case when pg_catalog.pg_is_in_recovery() then null else (pg_catalog."
         "txid_current() % (2^32)::bigint)::varchar::bigint end as current_txid", [(None,)]),
        ("select V.available, encode(T.tgargs, 'escape') from pg_trigger T, (select name, array_agg"
         "(version) as available from pg_available_extension_versions() group by name) V", []),
        ("select A.amhandler::oid, P.proname from pg_am A join pg_proc P on A.amhandler::oid = "
         "P.oid", []),
        ("select k col_idx, chr(27) || pg_get_indexdef(i.indexrelid, k::int, true), o can_order "
         "from pg_index i join pg_class c on c.oid = i.indexrelid cross join unnest(i.indkey) with "
         "ordinality u(u, k) cross join pg_catalog.pg_indexam_has_property(c.relam, 'can_order') "
         "o", []),
        # pgAdmin 4, which hangs up where one of them fails
        ("SELECT set_config('bytea_output','hex',false) FROM pg_show_all_settings() WHERE name = "
         "'bytea_output'", []),
        ("SELECT CASE WHEN 'pg_signal_backend'=ANY(ARRAY(WITH RECURSIVE cte AS (SELECT "
         "pg_roles.oid, pg_roles.rolname FROM pg_roles WHERE pg_roles.oid = roles.oid UNION ALL "
         "SELECT m.roleid, pgr.rolname FROM cte cte_1 JOIN pg_auth_members m ON m.member = "
         "cte_1.oid JOIN pg_roles pgr ON pgr.oid = m.roleid) SELECT rolname FROM cte)) THEN True "
         "ELSE False END as s FROM pg_catalog.pg_roles as roles WHERE rolname = current_user",
         [(False,)]),
        ("SELECT CASE WHEN usesuper AND pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE "
         "FALSE END as p FROM pg_catalog.pg_user WHERE usename=current_user", [(False,)]),
        # Prisma; what many write to see whether there is a table
        ("SELECT count(*) FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class WHERE "
         "reltype > 0 AND relname = 'orders')", [(3,)]),
        ("SELECT EXISTS (SELECT FROM information_schema.tables WHERE table_name = 'orders'), "
         "EXISTS (SELECT FROM pg_tables WHERE tablename = 'nothing')", [(True, False)]),
        # Django's inspectdb
        ("SELECT s.key, s.arridx FROM (SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) "
         "WITH ORDINALITY koi(key, option, arridx)) s", []),
        ("SELECT * FROM unnest(ARRAY['a', 'b'], ARRAY[7]) WITH ORDINALITY AS l(name, value, place)",
         [("a", 7, 1), ("b", None, 2)]),
        # as PostgreSQL answers them
        ("SELECT relnamespace::regnamespace::text, format_type(1016, -1) FROM pg_class WHERE "
         "relnamespace = 'public'::regnamespace AND relname = 'orders'", [("public", "bigint[]")]),
        ("SELECT setting FROM pg_settings WHERE name = 'server_version_num'", [("150000",)]),
        ("SELECT numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, "
         "is_generated FROM information_schema.columns WHERE table_name = 'orders' LIMIT 1",
         [(64, 2, 0, None, "NEVER")]),
        # pgcli
        ("SELECT * FROM unnest(current_schemas(true))", [("pg_catalog",), ("public",)]),
        ("SELECT unnest(ARRAY['a', 'b'])", [("a",), ("b",)]),
        ("SELECT d.datcollate as collate FROM pg_catalog.pg_database d", [("C",)]),
        ("SELECT COALESCE(proallargtypes::regtype[], proargtypes::regtype[])::text[] FROM "
         "pg_proc p WHERE p.prorettype::regtype != 'trigger'::regtype", []),
        # TypeORM; DuckDB's postgres_query; Singer's taps; Airbyte
        ("SELECT * FROM current_schema()", [("public",)]),
        ("SELECT \"columns\".column_name, ('\"' || \"udt_schema\" || '\".\"' || udt_name || "
         "'\"')::\"regtype\"::text FROM \"information_schema\".\"columns\" WHERE "
         "information_schema.columns.table_name = 'orders' AND ordinal_position = 1",
         [("count", "bigint")]),
        ("SELECT typelem::regtype, to_regtype('int8') FROM pg_type WHERE oid = '_int8'::regtype",
         [("bigint", 20)]),
        ("SELECT \"current_schema\" FROM (SELECT current_schema()) AS q", [("public",)]),
        ("SELECT information_schema._pg_char_max_length(t.oid, "
         "information_schema._pg_truetypmod(a.*, t.*))::information_schema.cardinal_number AS n "
         "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LIMIT 1", [(None,)]),
        ("SELECT table_name, privilege_type FROM information_schema.table_privileges WHERE grantee "
         "= current_user AND table_name = 'orders'", [("orders", "SELECT")]),
        (r"SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'order\s' AND "
         r"table_name NOT LIKE 'order\_'", [("orders",)]),
    ],
)  # fmt: skip
def test_what_tools_ask_when_they_connect(connection, text, rows):
    assert answered(connection, text) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT driver FROM (SELECT * FROM \"muntin\".\"public\".\"orders(driver)\" WHERE "
         "time >= '2023-11-14' AND time < '2023-11-15') AS q WHERE 1 = 1 FETCH NEXT 2 ROWS "
         "ONLY", 2),
        ("SELECT a.driver FROM (SELECT driver, count FROM orders(driver) WHERE time >= "
         "'2023-11-14' AND time < '2023-11-15') a JOIN (SELECT driver, count FROM "
         "orders(driver) WHERE time >= "
         "'2023-11-14 22:13:20' AND time < '2023-11-14 22:14:20') b ON a.driver = b.driver AND "
         "a.count = 3 * b.count", 5),
        ("SELECT driver FROM orders(driver) ORDER BY driver OFFSET (1) ROWS "
         "FETCH FIRST (3) ROWS ONLY", 3),
        ("SELECT driver FROM orders(driver) WHERE driver LIKE '%' || 'a'::VARCHAR || '%'", 1),
        ("SELECT driver FROM orders(driver) WHERE driver LIKE 'a%' ESCAPE '\\'", 1),
        (r"SELECT driver FROM orders(driver) WHERE driver LIKE '\a' OR driver LIKE '\_'", 1),
        # postgres_fdw
        ('SELECT driver, count FROM public."windows(orders)" w, public."orders(driver)" WHERE '
         "((driver ~~ '_'::text)) AND ((driver !~~* 'A%')) ORDER BY count DESC NULLS FIRST, driver "
         "ASC NULLS LAST LIMIT 3::bigint OFFSET 1::bigint", 3),
        ('SELECT r4.driver FROM ((public."orders(driver)" r1 INNER JOIN public."trend(busiest)" r2 '
         "ON (((r1.driver = r2.driver)) AND ((r2.window_start >= '2023-11-14 22:13:20+00')))) LEFT "
         'JOIN (SELECT driver FROM public."orders(driver)") r4 ON (((r1.driver = r4.driver)))) '
         "WHERE ((r4.driver = ANY ('{a,b}'::text[])))", 4),
        ("SELECT driver FROM \"orders(driver)\" WHERE driver ~~* 'A' OR driver ~~ '\\_'", 1),
        # patterns of Django, Great Expectations and postgres_fdw
        (r"SELECT driver FROM orders(driver) o WHERE o.driver ~ '^[a-c]$' AND NOT (driver::text "
         r"""!~ '\w'::text) AND "driver" !~* 'B'""", 2),
        ("SELECT driver ~ 'a' AS x, count(*) FROM orders(driver) WHERE driver IS NOT NULL AND "
         "driver ~* '1|A' AND driver !~* '5' GROUP BY 1", 1),
        # Django's icontains
        (r"SELECT driver FROM orders(driver) WHERE UPPER(driver::text) LIKE UPPER('%a%') OR "
         r"lower(driver) LIKE lower('%\_%' || 'É')", 1),
        ("SELECT 1 FROM \"trend(busiest)\" WHERE window_start >= TO_TIMESTAMP("
         "'2023-11-14 22:13:20.0', 'YYYY-MM-DD HH24:MI:SS.US') AND window_start < "
         "TO_TIMESTAMP('2023-11-14 22:14:20.0', "
         "'YYYY-MM-DD HH24:MI:SS.US')", 5),
        ("SELECT t.*, CTID FROM public.\"windows(orders)\" t LIMIT 501", 2),
        ("SELECT CAST(CAST(window_start AS date) AS timestamptz) AS d FROM windows(orders) WHERE "
         "window_start < CAST(CAST(NOW() + INTERVAL '1 day' AS date) AS timestamptz) GROUP BY "
         "CAST(CAST(window_start AS date) AS timestamptz)", 1),
    ],
)  # fmt: skip
def test_what_tools_write(connection, text, rows):
    """dbt, Spark's JDBC, Superset, Tableau, jOOQ, SQLAlchemy, DataGrip, Metabase."""
    assert len(answered(connection, text)) == rows


def test_all_catalogs_have_their_columns(connection):
    """Each tool asks for some that no other does: those that have no rows here are empty."""
    for name, table in empty_catalogs().items():
        columns = ", ".join(f'"{column}"' for column in table.column_names)
        connection.execute(f"SELECT {columns} FROM {name}")  # noqa: S608


def test_rows_of_catalogs_have_no_other_columns():
    """Arrow leaves out what its schema lacks."""
    found = catalog_rows(["orders"], {"orders": [("n", pa.int64())]})
    for name, rows in found.items():
        assert {*chain(*rows)} <= {*empty_catalogs()[name].column_names}, name


@pytest.mark.parametrize(
    "text",
    [
        "SELECT json_build_object('a', 1)",
        "SELECT '2026-01-01'::timestamp(3)",
        "SELECT age(now(), now())",
    ],
)
def test_what_the_catalog_knows_of_no_row_is_no_answer_about_constants(connection, text):
    """It was answered by no row, by null, or by a text."""
    with pytest.raises((psycopg.errors.UndefinedFunction, psycopg.errors.FeatureNotSupported)):
        connection.execute(text)


def test_lists_of_the_catalog_in_binary(connection):
    """asyncpg asks for all columns so; SQLAlchemy reflects by it."""
    text = "SELECT reloptions, array_agg(relname) AS r FROM pg_catalog.pg_class GROUP BY 1"
    ((nothing, names),) = answered(connection, text, binary=True)
    assert nothing is None
    assert "orders(driver)" in names


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT current_schemas(true)", [(["pg_catalog", "public"],)]),
        ("SELECT array_upper(current_schemas(true), 1), array_lower(current_schemas(false), 1)",
         [(2, 1)]),
        ("SELECT array_agg(oid ORDER BY oid), array_agg(nullif(oid, 11) ORDER BY oid) FROM "
         "pg_namespace", [([11, 2200, 13000], [None, 2200, 13000])]),
        ("SELECT ARRAY[true, null], ARRAY['a\"b', 'c,\\d', null, 'NULL', ''] FROM pg_am",
         [([True, None], ['a"b', "c,\\d", None, "NULL", ""])]),
        ("SELECT ARRAY[ARRAY[1, 2], ARRAY[3, null]], ARRAY[ARRAY['a b'], ARRAY['NULL']] FROM pg_am",
         [([[1, 2], [3, None]], [["a b"], ["NULL"]])]),
        ("SELECT array_agg(current_schemas(false)), array_agg(ARRAY[oid] ORDER BY oid) FROM "
         "pg_namespace WHERE oid < 3000", [([["public"]] * 2, [[11], [2200]])]),
        ("SELECT generate_series(1, 3)", [(1,), (2,), (3,)]),
        ("SELECT n FROM pg_namespace, generate_series(1, 3, 2) n WHERE oid = 11", [(1,), (3,)]),
        ("SELECT relname, i.n FROM pg_class c CROSS JOIN LATERAL generate_series(2, c.relnatts) "
         "AS i(n) WHERE relname = 'orders' ORDER BY n", [("orders", 2), ("orders", 3)]),
        ("SELECT s, (current_schemas(true))[s] FROM generate_subscripts(current_schemas(true), 1) "
         "s ORDER BY s", [(1, "pg_catalog"), (2, "public")]),
        ("SELECT a.attname, k.n FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(a, n), "
         "pg_attribute a", []),
    ],
)  # fmt: skip
def test_lists_and_series_of_the_catalog(connection, text, rows, binary):
    """Lists were texts, and a series gave no row."""
    assert answered(connection, text, binary=binary) == rows


def test_columns_that_are_lists_have_types_of_lists(connection):
    found = connection.execute("SELECT indkey, proargmodes FROM pg_index, pg_proc").description
    assert [column.type_code for column in found] == [1028, 1009]
    # asyncpg looks types up by a statement with such lists: of another type it would ask for ever
    text = "SELECT array_agg(atttypid ORDER BY attnum) FROM pg_attribute"
    found = connection.execute(text, binary=True)
    assert found.description[0].type_code == 1028
    assert {20, 25} <= {*found.fetchone()[0]}
    (named,) = connection.execute("SELECT * FROM generate_series(1, 3)").description
    assert named.name == "generate_series"


def test_psql(fed):
    out, said = shell(fed.postgres_url, SELECT, "SELECT drivr FROM orders(driver)")
    assert out == "".join(f"{driver}|{count}\n" for driver, count in DRIVERS)
    assert "NOTICE:  exact; orders covers" in said
    assert "LINE 1: SELECT drivr FROM orders(driver)\n               ^" in said


def test_lists_in_a_list_have_the_type_of_its_items_and_one_length(connection):
    text = "SELECT array_agg(conkey), ARRAY[ARRAY[1, 2]] FROM pg_constraint GROUP BY contype"
    found = connection.execute(text).description
    assert [column.type_code for column in found] == [1028, 1007]
    for binary in (False, True):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="not as long as each other"):
            connection.execute("SELECT ARRAY[ARRAY[1], ARRAY[2, 3]] FROM pg_am", binary=binary)


@psql
def test_a_text_that_psql_cuts_is_told():
    ledger = temporary()
    feeder = Feeder(ledger)
    feeder.rows([(0, "a\0b", 1, 1, 1)])
    with Server(ledger, port=0, postgres="127.0.0.1:0") as server:
        text = "SELECT driver FROM orders(driver) FOR ALL"
        out, said = shell(server.postgres_url, text)
        assert out == "a\n"
        assert "column 'driver' has texts that psql shows up to U+0000" in said
        with psycopg.connect(server.postgres_url) as connected:
            assert answered(connected, text) == [("a\0b",)]
    feeder.close()


@psql
def test_psql_describes(fed):
    out, said = shell(fed.postgres_url, r"\dt", r"\d orders", r'\d "orders(driver)"', r"\l", r"\dn")
    assert said == ""
    assert "public|orders(driver)|table|muntin\n" in out
    assert "driver|text|||\ncount|bigint|||\n" in out
    out, said = shell(fed.postgres_url, "SELECT ARRAY[1, 2], ARRAY['a b', 'null'] FROM pg_am")
    assert (out, said) == ('{1,2}|{"a b","null"}\n', "")
    for command, error in (
        (r"\sf version", "nothing here is called 'version'"),
        (r"\sv orders", '"public.orders" is not a view'),
    ):
        assert error in shell(fed.postgres_url, command)[1]


@pytest.mark.skipif(shutil.which("pg_dump") is None, reason="there is no pg_dump")
def test_pg_dump_is_told_what_to_do_instead(fed):
    done = subprocess.run(["pg_dump", fed.postgres_url], capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert "pg_dump has nothing to copy here: COPY (SELECT" in done.stderr


# who may come in


def test_tokens_are_passwords():
    ledger = temporary()
    feeder = Feeder(ledger)
    feeder.minute()
    with Server(ledger, port=0, postgres="127.0.0.1:0", reader_token=TOKEN) as server:
        with psycopg.connect(server.postgres_url, password=TOKEN, user="anybody") as connected:
            assert len(answered(connected, SELECT)) == 5
        for password in ("wrong-wrong-wrong-wrong", ""):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(server.postgres_url, password=password)
        with psycopg.connect(server.postgres_url, password=TOKEN, autocommit=True) as connected:
            server.app.state.hub.auth.renew(TOKEN + "x", "")
            with pytest.raises(psycopg.Error, match="exchanged"):
                connected.execute(SELECT)
    feeder.close()


def test_beyond_loopback_a_token_is_needed():
    with pytest.raises(BadArgument, match="MUNTIN_TOKEN"):
        Server(temporary(), port=0, postgres="0.0.0.0:0")
    with pytest.raises(BadArgument, match="host:port"):
        Server(temporary(), port=0, postgres="5433")


# beside workers


@pytest.mark.parametrize("given", [True, False])
def test_a_statement_timeout_cancels(tmp_path, given):
    """It was taken, and had no effect. Node's pg gives it as a setting, others by SET."""
    options = {"options": "-c statement_timeout=300"} if given else {}
    ledger = SqliteLedger(tmp_path / "ledger.db")
    with (
        closing(ledger),
        closing(Feeder(ledger)) as feeder,
        Server(ledger, port=0, postgres="127.0.0.1:0") as server,
        psycopg.connect(server.postgres_url, autocommit=True, **options) as connected,
    ):
        feeder.minute()
        if not given:
            connected.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match=r"statement_timeout is 0\.3 s"):
            connected.execute(SLOW)
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="no length of time"):
            connected.execute("SET statement_timeout = soon")
        connected.execute("SET statement_timeout = 0")
        assert connected.execute(SELECT).fetchone()


def test_a_cancelled_statement_gives_its_place_back(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.db")
    feeder = Feeder(ledger)
    for _ in range(3):
        feeder.minute()
    with Server(ledger, port=0, postgres="127.0.0.1:0", limits=FOR_EVER) as server:
        statements = server.app.state.statements
        with psycopg.connect(server.postgres_url, autocommit=True) as connected:
            assert len(answered(connected, SELECT)) == 5  # kernels are there
            until(lambda: statements.runner._is_warm)
            runner = statements.runner
            before = until(lambda: len(ready := workers_in(runner._free)) == 2 and ready)

            def cancel():
                until(lambda: any(worker.busy for worker in before))
                connected.cancel_safe()

            threading.Thread(target=cancel).start()
            with pytest.raises(psycopg.errors.QueryCanceled, match="as the client asked"):
                connected.execute(SLOW)
            assert any(worker.ended for worker in before)
            assert answered(connected, SELECT) == DRIVERS
        # who goes away frees the place as well
        gone = psycopg.connect(server.postgres_url, autocommit=True)
        gone.pgconn.send_query(SLOW.encode())
        until(lambda: statements.turns._running)
        gone.pgconn.finish()
        until(lambda: not statements.turns._running)
    feeder.close()
    ledger.close()
