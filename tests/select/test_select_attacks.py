# ruff: noqa: S608 - statements are what this file is made of
"""Hostile texts: each is refused by us, before DuckDB sees anything, or stopped by a limit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from select_catalogs import catalog, matrix_of

from muntin.errors import SelectError
from muntin.select.database import Database, DatabaseError
from muntin.select.engine import Engine
from muntin.select.limits import Limits

STATEMENTS = [
    "COPY orders TO '/tmp/x'",
    "COPY (SELECT 1) TO '/tmp/x.csv'",
    "ATTACH '/tmp/x.db' AS x",
    "DETACH memory",
    "PRAGMA database_list",
    "SET memory_limit = '100GB'",
    "RESET memory_limit",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CREATE TABLE t AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "DROP TABLE t1",
    "INSERT INTO orders VALUES (1)",
    "DELETE FROM orders",
    "UPDATE orders SET time = 0",
    "EXPORT DATABASE '/tmp/x'",
    "IMPORT DATABASE '/tmp/x'",
    "CALL pragma_version()",
    "EXPLAIN SELECT 1",
    "SUMMARIZE orders",
    "USE memory",
    "BEGIN",
    "VALUES (1)",
    "FROM orders",
    "TABLE orders",
    "EXECUTE x",
    "PREPARE x AS SELECT 1",
    "PIVOT orders ON area USING sum(time)",
    "CHECKPOINT",
    "VACUUM",
    "SELECT 1; COPY orders TO '/tmp/x'",
    "SELECT 1;;DROP TABLE t1;",
    "SELECT 1 /* ; */ ; SELECT 2",
]
FROM_ITEMS = [
    "read_csv('/etc/passwd')",
    "read_csv_auto('/etc/passwd')",
    "read_parquet('/etc/passwd')",
    "read_json('/etc/passwd')",
    "read_text('/etc/passwd')",
    "read_blob('/etc/passwd')",
    "glob('/etc/*')",
    "parquet_metadata('x')",
    "sniff_csv('/etc/passwd')",
    "'/etc/passwd'",
    "'http://example.org/x.csv'",
    '"/etc/passwd"',
    "duckdb_settings()",
    "duckdb_secrets()",
    "duckdb_functions()",
    "pragma_version()",
    "information_schema.tables",
    "memory.main.orders",
    "sqlite_master",
    "pg_class",
    "pg_catalog.pg_class",
    "generate_series(1, 1000000000)",
    "range(1000000000)",
    "unnest(orders)",
    "repeat_row(1, num_rows = 1000000000)",
    "query('SELECT 1')",
    "query_table('orders')",
    "arrow_scan(1, 2, 3)",
    "pandas_scan(1)",
    "t1",
    "t2",
    "catalog",
    "engine",
    "orders",  # fine by itself: the alarm below must be able to ring
    "orders(driver) TABLESAMPLE 1%",
    "orders(driver), LATERAL (SELECT 1)",
    "(VALUES (1)) t",
    "(orders(driver) a JOIN orders(area) b ON true)",
    "orders(driver) PIVOT (sum(time) FOR area IN (1, 2))",
    "orders(driver) a NATURAL JOIN orders(area) b",
    "orders(driver) a ASOF JOIN orders(area) b ON a.count >= b.count",
    "orders(driver) a POSITIONAL JOIN orders(area) b",
    "orders(driver) AS a(x, y)",
    "orders(driver) a JOIN orders(area) b USING count, orders",
    "orders(driver) WHERE time, SELECT 1",
    "orders(driver) FOR SYSTEM_TIME AS OF '2026-01-01'",
    "orders(driver) AT (VERSION => 1)",
    "orders(area, '; DROP TABLE t1')",
]
EXPRESSIONS = [
    "getenv('HOME')",
    "current_setting('memory_limit')",
    "getvariable('x')",
    "pg_sleep(10)",
    "version()",
    "current_user",
    "current_database()",
    "current_schema()",
    "txid_current()",
    "reflect('java.lang.System', 'exit', 1)",
    "java_method('java.lang.System', 'exit', 1)",
    "text.`/etc/hostname`",
    "random()",
    "setseed(1)",
    "uuid()",
    "nextval('s')",
    "error('x')",
    "repeat('x', 1000000000)",
    "lpad('x', 1000000000, 'y')",
    "rpad('x', 1000000000, 'y')",
    "format('{:1000000000d}', 1)",
    "printf('%1000000000d', 1)",
    "replace('xxxx', 'x', 'yyyyyyyy')",
    "string_agg(driver, driver)",
    "list(driver)",
    "array_agg(driver)",
    "unnest([1, 2])",
    "generate_series(1, 1000000000)",
    "range(1000000000)",
    "list_transform([1], x -> x)",
    "[x for x in [1]]",
    "[1, 2][1]",
    "{'a': 1}",
    "MAP {1: 2}",
    "struct_pack(a := 1)",
    "row(1, 2)",
    "(1, 2)",
    "COLUMNS('.*')",
    "* EXCLUDE (time)",
    "* REPLACE (1 AS time)",
    "orders.* EXCLUDE (time)",
    "$1",
    "?",
    ":name",
    "$$text$$",
    "$tag$text$tag$",
    "E'\\x41'",
    "x'41'",
    "U&'\\0041'",
    "driver COLLATE nocase",
    "now() AT TIME ZONE 'UTC'",
    "driver SIMILAR TO '.*'",
    "driver GLOB '*'",
    "driver ~ '.*'",
    "driver LIKE driver",
    "driver LIKE 'a' ESCAPE 'a'",
    "regexp_matches(driver, driver)",
    "driver LIKE ANY ('a', 'b')",
    "1 = ANY (SELECT 1)",
    "CAST(driver AS BLOB)",
    "CAST(1 AS INTEGER[])",
    "CAST(1 AS STRUCT(a INT))",
    "CAST(1 AS MAP(INT, INT))",
    "CAST(1 AS UNION(a INT))",
    "CAST(1 AS ENUM('a'))",
    "driver::JSON",
    "driver::UUID",
    "driver->'a'",
    "driver->>'a'",
    "@1",
    "1 & 2",
    "1 | 2",
    "1 << 62",
    "~1",
    "!1",
    "1!",
    "1 :2",
    "\"getenv\"('HOME')",
    "main.getenv('HOME')",
    "system.main.getenv('HOME')",
    "time.getenv('HOME')",
    "sum(time) OVER w",
    "sum(time ORDER BY time) OVER (ROWS BETWEEN time PRECEDING AND CURRENT ROW)",
    "CASE WHEN 1 THEN (SELECT 1, 2) END",
    "count(x := 1)",
    "sum(1 AS y)",
    "INTERVAL (time) DAY",
    "7 / . 0.1",
    "0x41",
    "1e9999",
    "INTERVAL 1 FORTNIGHT",
    "now() - INTERVAL '1' DAY '2' HOUR",
    "DISTINCT ON (driver) driver",
    "1 INTO x",
    "/*+ HINT */ getenv('x')",
]
TAILS = [
    "FOR UPDATE",
    "FOR SHARE",
    "WINDOW w AS (ORDER BY time)",
    "USING SAMPLE 1%",
    "LIMIT (SELECT 1)",
    "LIMIT 1 + 1",
    "LIMIT 10%",
    "LIMIT -1",
    "OFFSET time",
    "FETCH FIRST 1 ROW ONLY WITH TIES",
    "GROUP BY CUBE (driver)",
    "GROUP BY ROLLUP (driver)",
    "GROUP BY GROUPING SETS ((driver))",
    "PREWHERE 1",
    "CLUSTER BY driver",
    "SETTINGS x = 1",
    "FORMAT JSON",
    "ORDER BY driver WITH FILL",
    "UNION SELECT getenv('x')",
    "UNION (TABLE orders)",
]


def _attacks() -> list[str]:
    made = [*STATEMENTS]
    made += [f"SELECT * FROM {item}" for item in FROM_ITEMS if item != "orders"]
    made += [f"SELECT {e} FROM orders(driver)" for e in EXPRESSIONS]
    made += [f"SELECT driver FROM orders(driver) {tail}" for tail in TAILS]
    made += [f"SELECT (SELECT {e}) FROM orders(driver)" for e in EXPRESSIONS[:10]]
    made += [f"SELECT 1 FROM orders(driver) WHERE {e} = 1" for e in EXPRESSIONS[:10]]
    made += [f"SELECT 1 FROM orders(driver) ORDER BY {e}" for e in EXPRESSIONS[:10]]
    made += [f"WITH a AS (SELECT 1 AS x FROM {i}) SELECT * FROM a" for i in FROM_ITEMS[:10]]
    made += ["WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 1 FROM a) SELECT * FROM a"]
    made += ["WITH a AS (SELECT 1 FROM a) SELECT * FROM a", "WITH a AS (DELETE FROM b) SELECT 1"]
    return made


class Recording(Database):
    """A database that remembers what it was asked to run."""

    def __init__(self) -> None:
        super().__init__(Limits())
        self.asked: list[str] = []

    def run(self, sql: Callable[..., str], *arguments: object, **named: object) -> pa.Table:
        def asked(*names: str) -> str:
            self.asked.append(sql(*names))
            return self.asked[-1]

        return super().run(asked, *arguments, **named)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def watched() -> tuple[Engine, Recording]:
    engine = Engine(catalog())
    database = Recording()
    engine._database = database
    return engine, database


def test_there_are_enough() -> None:
    assert len(_attacks()) >= 200
    assert len(set(_attacks())) == len(_attacks())


@pytest.mark.parametrize("text", _attacks())
def test_refused_before_duckdb(watched: tuple[Engine, Recording], text: str) -> None:
    engine, database = watched
    database.asked.clear()
    with pytest.raises(SelectError) as caught:
        engine.sql(text)
    assert database.asked == []
    assert caught.value.text in ("", text)


def test_the_alarm_rings(watched: tuple[Engine, Recording]) -> None:
    engine, database = watched
    database.asked.clear()
    engine.sql("SELECT count + 1 FROM orders")
    assert len(database.asked) == 1


LOOK_ALIKES = [
    "ＳELECT 1",
    "SELECT\u00a0time FROM orders",
    "SELECT time FROM ordеrs",  # Cyrillic
    "SELECT ‘a’",
    "SELECT 1 − 1",
    "SELECT 1 ∕ 2",
    "SELECT time\u200b FROM orders",
    "SELECT \u202etime FROM orders",
    "SELECT time；SELECT 2",
    "SELECT '\x00'",
    "SELECT 1\x01",
    'SELECT 1 FROM "\x010"',
    "SELECT '\x1b[2J'",
    "SELECT '\ud800'",
    "\ufeffSELECT 1",
    "SELECT ℯ(1)",
    "SELECT ⁹",
    "SELECT ٣",
]


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_look_alikes_are_named(engine: Engine, text: str) -> None:
    with pytest.raises(SelectError) as caught:
        engine.sql(text)
    assert caught.value.code == "character"


TOO_MUCH = {
    "brackets": "SELECT " + "(" * 100_000 + "1" + ")" * 100_000,
    "brackets that fit": "SELECT " + "(" * 1500 + "1" + ")" * 1500,
    "just too deep": "SELECT " + "(" * 33 + "1" + ")" * 33,
    "case": "SELECT " + "CASE WHEN 1 THEN " * 40 + "1" + " END" * 40,
    "not": "SELECT " + "NOT " * 800 + "true",
    "minus": "SELECT " + "- " * 800 + "1",
    "terms": "SELECT 1" + " + 1" * 1_000_000,
    "terms that fit": "SELECT 1" + "+1" * 400,
    "and": "SELECT true" + " AND true" * 300,
    "unions": "SELECT 1" + " UNION ALL SELECT 1" * 150,
    "concatenation": "SELECT 'a'" + "||'a'" * 70,
    "list": f"SELECT 1 IN ({', '.join(['1'] * 5_001)})",
    "list of more than constants": f"SELECT 1 IN ({', '.join(['driver'] * 101)}) FROM orders(X1)",
    "columns": "SELECT " + ", ".join(["1"] * 101),
    "arguments": f"SELECT greatest({', '.join(['1'] * 101)})",
    "function depth": "SELECT " + "abs(" * 40 + "1" + ")" * 40,
    "casts": "SELECT 1" + "::INT" * 60,
    "is": "SELECT 1" + " IS NULL" * 60,
    "equals": "SELECT 1" + " = (1" * 40 + ")" * 40,
    "literal": f"SELECT '{'x' * 1025}'",
    "name": f'SELECT "{"x" * 1025}"',
    "text": "SELECT 1" + " " * 32_768,
    "bytes": "SELECT '" + "ä" * 2100 + "'",
    "huge": "x" * 50_000_000,
    "items": "SELECT 1 FROM " + ", ".join(f"orders a{i}" for i in range(17)),
    "vectors": "SELECT 1 FROM " + ", ".join(f"vector 1.1 OF o{i}" for i in range(17)),
    "item arguments": f"SELECT 1 FROM quantiles(o, {', '.join(['0.5'] * 101)})",
    "subqueries": "SELECT 1 FROM " + "(SELECT 1 FROM " * 40 + "orders" + ") a" * 40,
    "ctes over ctes": "WITH a AS (SELECT 1 AS x FROM orders p, orders q), "
    + ", ".join(
        f"{b} AS (SELECT 1 AS x FROM {a} p, {a} q)" for a, b in itertools.pairwise("abcdefg")
    )
    + " SELECT * FROM g",
    "strings over strings": "WITH a AS (SELECT 'x' || 'y' AS s), "
    + ", ".join(f"{b} AS (SELECT s || s AS s FROM {a})" for a, b in itertools.pairwise("abcdefgh"))
    + " SELECT * FROM h",
    "strings over names": "SELECT driver || driver || driver AS a, a || a || a AS b, "
    "concat(b, b, b) AS c, c || c || c AS d FROM orders(driver)",
    "strings over subqueries": "SELECT s || s || s || s FROM (SELECT concat("
    + ", ".join(["'x'"] * 20)
    + ") AS s)",
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_limits(engine: Engine, name: str) -> None:
    started = time.thread_time()  # other work on the machine does not count
    with pytest.raises(SelectError) as caught:
        engine.sql(TOO_MUCH[name])
    assert caught.value.code == "limit", str(caught.value)[:300]
    assert time.thread_time() - started < 5  # not a measurement: nothing here may hang


def _large(rows: int) -> Engine:
    large = catalog()
    numbers = pa.array(range(rows))
    table = pa.table({"driver": numbers.cast(pa.string()), "count": numbers, "time": numbers})
    large.held = {("orders", "open"): matrix_of({("driver",): table})}
    limits = Limits(memory_bytes=64 << 20, result_rows=100_000, result_bytes=8 << 20, seconds=60)
    return Engine(large, limits)


def test_bombs_are_stopped() -> None:
    engine = _large(100_000)
    in_time = engine.limits
    four = "orders(driver) a, orders(driver) b, orders(driver) c, orders(driver) d"
    bombs = {
        f"SELECT count(*) FROM {four} WHERE a.time + b.time + c.time + d.time < 0": "timeout",
        f"SELECT a.driver FROM {four}": "limit",
        f"SELECT a.driver, b.driver, count(*) FROM {four} GROUP BY a.driver, b.driver": "limit",
        f"SELECT a.driver FROM {four} ORDER BY a.time + b.time": "limit",
    }
    for text, code in bombs.items():
        engine.limits = replace(in_time, seconds=2)
        with pytest.raises(SelectError) as caught:
            engine.sql(text)
        assert caught.value.code in (code, "timeout"), text
        engine.limits = in_time
        assert engine.sql("SELECT count(*) FROM orders(driver)").rows == [[100_000]]
    engine.close()


def test_patterns_take_linear_time() -> None:
    held = catalog()
    long = pa.table({"driver": ["a" * 5000] * 10, "count": [1] * 10})
    held.held = {("orders", "open"): matrix_of({("driver",): long})}
    engine = Engine(held)
    for pattern in ("%a_%a_%a_%a_%a_%a_%a_%b", "%a%a%a%a%a%a%a%a%a%b", "%_%_%_%_%_%_%_%_b"):
        for word in ("LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"):
            text = f"SELECT count(*) FROM orders(driver) WHERE driver {word} '{pattern}'"
            expected = 10 if word.startswith("NOT") else 0
            assert engine.sql(text).rows == [[expected]]
    engine.close()


LOCKED = [
    "SELECT * FROM read_csv('{path}')",
    "SELECT * FROM '{path}'",
    "SELECT * FROM read_text('{path}')",
    "SELECT * FROM glob('{path}')",
    "COPY (SELECT 1) TO '{path}.out'",
    "ATTACH '{path}.db'",
    "EXPORT DATABASE '{path}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{path}'",
    "SET memory_limit = '8GB'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET memory_limit",
    "PRAGMA memory_limit = '8GB'",
    "SET threads = 64",
    "SET temp_directory = '{path}'",
    "SET python_enable_replacements = true",
    "CREATE SECRET (TYPE s3)",
    "SELECT getenv('HOME')",
    "SELECT * FROM table_in_python",
]


@pytest.mark.parametrize("sql", LOCKED)
def test_duckdb_itself_is_locked(tmp_path: Path, sql: str) -> None:
    """The second wall: what would happen if our check let it through."""
    table_in_python = pa.table({"x": [1]})
    assert table_in_python.num_rows == 1
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    database = Database(Limits())
    with pytest.raises((DatabaseError, duckdb.Error)):
        database.run(lambda: sql.format(path=file), (), seconds=60)
    assert [p.name for p in tmp_path.iterdir()] == ["secret.csv"]
    database.close()
