# ruff: noqa: S608 - statements are what this file is made of
"""Whatever is asked, there is an answer in every form, or one clear error."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from select_catalogs import catalog, segment_of
from statement_fuzzer import outcome, run, write_out

from muntin.errors import SelectError
from muntin.select.catalog import SummaryInfo
from muntin.select.database import _PLACES_MAX, _STATEMENTS_MAX, Database, DatabaseError
from muntin.select.engine import Engine
from muntin.select.limits import Limits
from tests.totals import SEED, total

_LIMITS = Limits(seconds=1.0, memory_bytes=256 << 20, result_rows=100_000)
_IN_TIME = 60.0  # where the answer counts, a busy machine has the time that it takes
_SECONDS_MAX = 20.0  # of processor time; a statement may take 1 of a clock's, on all cores
_VALUES = [
    ("'infinity'::DATE", "infinite"),
    ("'-infinity'::TIMESTAMP", "infinite"),
    ("make_date(294000, 1, 1)", "years"),
    ("make_timestamp(-290000, 1, 1, 0, 0, 0)", "years"),
    ("TIME '24:00'", "24:00"),
    ("170141183460469231731687303715884105727", "38 digits"),
    ("1" * 54, "38 digits"),
    ("sum(99999999999999999999999999999999999999::HUGEINT)", "38 digits"),
    ("first((1, 'infinity'::TIMESTAMP))", "several values"),
    ("CASE WHEN TRUE THEN (1, 2) END", "several values"),
]


def _engine() -> Engine:
    made = catalog()
    delays = segment_of("quantiles", {"v": pa.array([1.0, 2.0, 5.0, -3.0])}, value="v")
    calls = segment_of("frequency", {"i": pa.array(["d1", "d2", "d1"])}, item="i")
    seen = segment_of("fingerprint", {"k": pa.array(["d1", "d2"])}, key="k")
    for name, kind, summary in (
        ("delays", "quantiles", delays),
        ("calls", "frequency", calls),
        ("seen", "fingerprint", seen),
    ):
        made.infos[name] = SummaryInfo(name, kind)
        for window in ("open", "all", "last", "range", "window"):
            made.held[name, window] = summary
    return Engine(made, _LIMITS)


def _all_have_an_outcome(seed: int, count: int) -> None:
    engine = _engine()
    try:
        found, bad = run(engine, seed, count, _SECONDS_MAX)
    finally:
        engine.close()
    shown = [f"{type(error).__name__}: {str(error)[:200]}: {text}" for text, error in bad[:10]]
    assert not bad, f"seed {seed}: {len(bad)} statements: " + "\n".join(shown)
    assert found["answered"] > count // 20
    assert found["type"] > count // 20


def test_random_statements() -> None:
    _all_have_an_outcome(20261122, 600)


@pytest.mark.slow
def test_a_hundred_thousand_random_statements() -> None:
    """New ones each time; the seed is in the message."""
    for number in range(total("HOSTILE", 100_000) // 5_000):
        _all_have_an_outcome(SEED + number, 5_000)


@pytest.mark.parametrize(("text", "said"), _VALUES)
def test_values_that_no_client_can_hold(engine: Engine, text: str, said: str) -> None:
    if "sum" in text:
        text = "sum(x) FROM (SELECT 99999999999999999999999999999999999999 AS x UNION ALL SELECT 1)"
    with pytest.raises(SelectError, match=said) as caught:
        engine.sql(f"SELECT {text}")
    assert caught.value.remedy
    assert caught.value.code in ("value", "limit", "overflow")


def test_a_message_that_duckdb_cuts_inside_a_letter_is_told(engine: Engine) -> None:
    with pytest.raises(SelectError, match=r"Unrecognized Regex option|gives no reason") as caught:
        engine.sql("SELECT regexp_extract('a', '(a)', 'é')")
    assert caught.value.code == "value"


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("DATE '9999-12-31', DATE '0001-01-01'", ["9999-12-31", "0001-01-01"]),
        ("TIME '23:59:59.999999'", ["23:59:59.999999"]),
        ("TIMESTAMP '9999-12-31 23:59:59.999999'", ["9999-12-31T23:59:59.999999Z"]),
        ("99999999999999999999999999999999999999", [10**38 - 1]),
        ("'infinity'::TIMESTAMP::VARCHAR", ["infinity"]),
        ("1e308 * 10, 'nan'::DOUBLE", [None, None]),
    ],
)
def test_values_at_the_ends(engine: Engine, text: str, row: list[object]) -> None:
    result = engine.sql(f"SELECT {text}")
    assert result.rows == [row]
    write_out(result)


@pytest.mark.parametrize("item", [str(10**23), str(-(10**23)), str(2**64), "-1, " + str(2**63)])
def test_items_beyond_64_bits(item: str) -> None:
    engine = _engine()
    with pytest.raises(SelectError, match="64 bits"):
        engine.sql(f"SELECT * FROM frequency(calls, {item})")
    assert outcome(engine, f"SELECT * FROM ranks(delays, {item})") == "answered"
    engine.close()


# DuckDB gives its database up on these: an error where it had ruled one out.
_FATAL = (
    "SELECT count(*) FROM orders(area) WHERE (DATE '5881580-07-10' - area::INT)::TIMESTAMP > now()"
)


def test_a_statement_that_breaks_duckdb_breaks_no_other() -> None:
    engine = _engine()
    errors: list[BaseException] = []

    def ask(text: str) -> None:
        for _ in range(30):
            try:
                outcome(engine, text)
            except BaseException as error:
                errors.append(error)

    texts = (_FATAL, "SELECT driver, count + 1 FROM orders(driver)", "SELECT sum(tip) FROM orders")
    threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    engine.limits = replace(_LIMITS, seconds=_IN_TIME)
    assert engine.sql("SELECT sum(count + 0) FROM orders(driver)").rows == [[12]]
    engine.close()


def test_a_database_that_was_given_up_is_made_anew() -> None:
    database = Database(_LIMITS)

    def answer() -> list[dict[str, int]]:
        return database.run(lambda: "SELECT 1 AS a", (), seconds=_IN_TIME).to_pylist()

    assert answer() == [{"a": 1}]
    broken = database._root

    class Broken:
        def to_arrow_reader(self, _: int) -> None:
            raise OSError("FATAL: database has been invalidated because of a previous error")

    database._idle[0]._statements["SELECT 1 AS a"] = Broken()
    assert answer() == [{"a": 1}]
    assert database._root is not broken
    database.close()


def test_statements_that_are_kept_hold_no_table_and_are_few() -> None:
    database = Database(_LIMITS)

    def ask(table: pa.Table, plus: int = 0) -> list[int]:
        sql = f"SELECT a + {plus} AS a FROM {{}}"
        return database.run(sql.format, [table], seconds=_IN_TIME)["a"].to_pylist()

    once = pa.table({"a": [1]})
    gone = weakref.ref(once)
    assert [ask(once) for _ in range(2)] == [[1], [1]]
    del once
    gc.collect()
    assert gone() is None
    (connection,) = database._idle
    for number in range(2 * _STATEMENTS_MAX):
        assert ask(pa.table({"a": [number]}), number) == [2 * number]
        ask(pa.table({"a": [number], f"b{number}": [0]}))
    assert len(connection._statements) == _STATEMENTS_MAX
    assert len(connection._places) == _PLACES_MAX
    assert ask(pa.table({"a": [3]})) == [3]
    database.close()


def test_a_statement_says_of_each_table_what_one_that_is_new_says() -> None:
    """Of windows of a summary, whichever came before: failures, sizes and types change too."""
    random = np.random.default_rng(5)
    statements = (
        "SELECT a, count(*) OVER () AS n FROM {0} WHERE b > 2 ORDER BY b / nullif(c, 0), a LIMIT 3",
        "SELECT a, sum(b) AS s, avg(c) AS m FROM {0} GROUP BY a ORDER BY s DESC, a LIMIT 4",
        "SELECT DISTINCT CAST(a AS BIGINT) AS n FROM {0} ORDER BY n",
        "SELECT l.a, r.b FROM {0} AS l JOIN {1} AS r ON l.a = r.a ORDER BY ALL",
        "SELECT sum(b + 9223372036854770000) AS s, max($at::TIMESTAMP) AS t FROM {0}",
    )

    def table() -> pa.Table:
        n = int(random.choice([0, 1, 7, 400]))
        names = [str(x) if x < 39 else "none" for x in random.integers(0, 40, n)]
        b = pa.array(random.integers(0, 9000, n), mask=random.random(n) < 0.1)
        kinds = (pa.string(), pa.dictionary(pa.int32(), pa.string())), (pa.int64(), pa.float64())
        a, c = (pa.array(names).cast(kinds[0][random.integers(2)]),
                pa.array(random.integers(0, 5, n)).cast(kinds[1][random.integers(2)]))  # fmt: skip
        return pa.table({"a": a, "b": b, "c": c})

    def said(database: Database, sql: str, tables: list[pa.Table]) -> object:
        at = {"at": datetime(2026, 1, 1)} if "$at" in sql else None
        try:
            return database.run(sql.format, tables, parameters=at, seconds=_IN_TIME)
        except DatabaseError as error:
            return error.kind, str(error)

    limits = replace(_LIMITS, result_rows=1_000)
    kept, outcomes = Database(limits), set()
    for number in range(60):
        sql = statements[number % len(statements)]
        tables = [table(), table()][: 1 + ("{1}" in sql)]
        new = Database(limits)
        expected = said(new, sql, tables)
        new.close()
        assert said(kept, sql, tables) == expected
        outcomes.add(expected[0] if isinstance(expected, tuple) else "rows")
    kept.close()
    assert outcomes >= {"rows", "too_large", "Conversion"}
