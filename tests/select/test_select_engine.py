# ruff: noqa: S608 - statements are what this file is made of
"""The engine: what is loaded, kept and told; threads, time, clocks, tables that lack columns."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from select_catalogs import HOUR, ORDERS, MemoryCatalog, catalog, loaded_of, matrix_of

from muntin.errors import BadArgument, LedgerError, SelectError, UnknownName
from muntin.segments import Segment
from muntin.segments.table import Table
from muntin.select import database
from muntin.select.catalog import ForClause, KeyNames, LoadedWindow, QueryInfo, SummaryInfo
from muntin.select.database import Database, _TablePlace
from muntin.select.engine import Engine
from muntin.select.limits import Limits
from muntin.select.parser import parse
from muntin.select.syntax import show_window


@pytest.fixture
def fresh() -> tuple[Engine, MemoryCatalog]:
    made = catalog()
    return Engine(made), made


WINDOWS = {
    "": ForClause("open"),
    "FOR OPEN": ForClause("open"),
    "FOR ALL": ForClause("all"),
    "FOR LAST '15 minutes'": ForClause("last", length_us=900_000_000),
    "for last 15 Minutes": ForClause("last", length_us=900_000_000),
    "FOR LAST 1 h 30 min": ForClause("last", length_us=5_400_000_000),
    "FOR LAST '1 h 30 min'": ForClause("last", length_us=5_400_000_000),
    "FOR WINDOW '1970-01-01 01:00'": ForClause("window", start_us=HOUR),
    "FOR WINDOW '1970-01-01T02:00+01:00'": ForClause("window", start_us=HOUR),
    "FOR '1970-01-01' TO '1970-01-01T01:00:00Z'": ForClause("range", start_us=0, end_us=HOUR),
}


@pytest.mark.parametrize("clause", WINDOWS)
def test_the_window_that_is_asked_for(fresh: tuple[Engine, MemoryCatalog], clause: str) -> None:
    engine, made = fresh
    result = engine.sql(f"SELECT count FROM orders {clause}")
    assert [load[:2] for load in made.loads] == [("orders", WINDOWS[clause])]
    assert result.window is not None
    assert result.window.asked == show_window(WINDOWS[clause])
    assert result.window.covered == (0, HOUR)
    if clause:
        again = parse(f"SELECT 1 FROM orders FOR {show_window(WINDOWS[clause])}")
        assert again.items[0].window == WINDOWS[clause]


def test_a_caller_gives_the_window_that_the_text_leaves_open(
    fresh: tuple[Engine, MemoryCatalog],
) -> None:
    engine, made = fresh
    closed = ForClause("window", start_us=HOUR)
    text = "SELECT a.count FROM orders a, orders FOR ALL b, trend(busiest) t"
    result = engine.sql(text, window=closed)
    assert {load[:2] for load in made.loads} == {("orders", closed), ("orders", ForClause("all"))}
    assert [w.asked for w in result.windows] == [show_window(closed), "ALL", "ALL"]
    assert result.revision == 1


def test_each_key_is_loaded_once_and_no_other(fresh: tuple[Engine, MemoryCatalog]) -> None:
    engine, made = fresh
    engine.sql("SELECT a.count FROM orders(area) a, vector 2.1, orders(driver) b, orders c")
    assert made.loads == [("orders", ForClause("open"), ((key,),)) for key in ("area", "driver")]


def test_tables_are_made_once_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    made = catalog()
    engine = Engine(made)
    asked: list[object] = []
    original = Segment.table

    def table(self: Segment, by: Sequence[str] = ()) -> Table | None:
        asked.append(by)
        return original(self, by)

    monkeypatch.setattr(Segment, "table", table)
    for _ in range(3):
        engine.sql("SELECT count FROM orders(driver)")
    assert asked == [("driver",)]
    made.cached = False  # no token: nothing may be kept
    for _ in range(3):
        engine.sql("SELECT count FROM orders(driver)")
    assert asked == [("driver",)] * 4


def test_vectors_of_one_key_of_two_summaries_are_told_how_to_be_named() -> None:
    more = replace(ORDERS, name="more")
    engine = Engine(catalog(infos={"orders": ORDERS, "more": more}))
    with pytest.raises(SelectError, match="two FROM items are called 'X1'") as refused:
        engine.sql("SELECT X1 FROM vector 1.1 OF orders, vector 1.1 OF more")
    assert refused.value.remedy == ("a vector has no other name: write FROM <summary>(<key>) AS a")


def test_the_cache_is_bounded_and_right() -> None:
    engine = Engine(catalog(), Limits(cache_bytes=400))
    for _ in range(3):
        for key in ("driver", "area", "driver, area"):
            assert engine.sql(f"SELECT sum(count) FROM orders({key})").rows == [[12]]
    assert engine._tables._bytes <= 400
    kept = [table for (_, table), _, _ in engine._tables._entries.values()]
    assert sum(table.nbytes for table in kept) == engine._tables._bytes


def test_plans_follow_the_catalog(fresh: tuple[Engine, MemoryCatalog]) -> None:
    engine, made = fresh
    text = "SELECT Y1, driver FROM orders(driver)"
    assert engine.sql(text).columns == ["served", "driver"]
    info = made.infos["orders"]
    made.infos = {"orders": SummaryInfo("orders", info.kind, info.keys, ("paid",))}
    assert engine.sql(text).columns == ["paid", "driver"]
    made.infos = {}
    with pytest.raises(SelectError, match=r"no summary 'orders'(\n.*){3} none yet: its"):
        engine.sql(text)


def test_what_reads_nothing_is_run_once(
    fresh: tuple[Engine, MemoryCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = fresh
    ran: list[str] = []
    run = Database.run

    def counted(self: Database, sql: Callable[..., str], *rest: Any, **more: Any) -> pa.Table:
        ran.append(sql())
        return run(self, sql, *rest, **more)

    monkeypatch.setattr(Database, "run", counted)
    for text, rows in {"SELECT 1 AS one, 'a' AS a": [[1, "a"]], "SELECT 1 WHERE false": []}.items():
        ran.clear()
        assert [engine.sql(text).rows for _ in range(3)] == [rows] * 3
        assert len(ran) == 1
    assert [engine.sql("SELECT now() AS t", now=at).rows for at in (0, HOUR)] == [
        [[f"1970-01-01T0{hour}:00:00Z"]] for hour in (0, 1)
    ]
    with pytest.raises(SelectError):  # an error is not kept
        engine.sql("SELECT CAST('x' AS INT)")
    with pytest.raises(SelectError):
        engine.sql("SELECT CAST('x' AS INT)")


def test_threads_at_once(engine: Engine) -> None:
    texts = {
        "SELECT sum(count) FROM orders(driver)": [[12]],
        "SELECT sum X1.Y2 / sum X1.Y1 FROM vector (1.2), vector (1.1)": [[11.8]],
        "SELECT * FROM orders": [[12, 15, 177, 239, 4.5, 4]],
        "SELECT count(*) FROM orders(driver, area) FOR ALL": [[5]],
    }
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        for turn in range(20):
            text = list(texts)[(number + turn) % len(texts)]
            assert engine.sql(text).rows == texts[text]

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, i) for i in range(8)]:
            done.result()


SLOW = (
    "SELECT count(*) FROM " + ", ".join(f"orders(driver, area) a{i}" for i in range(14))
    + " WHERE " + " + ".join(f"a{i}.count" for i in range(14)) + " < 0"
)  # fmt: skip


@pytest.fixture
def own_handler() -> Iterator[None]:
    """That of a session of PySpark 4.1 stays when it has ended, and fails."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_handler")
def test_ctrl_c_stops_a_statement_at_once() -> None:
    engine = Engine(catalog(), Limits(seconds=60))

    def stopped_after(seconds: float) -> None:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
        engine.sql(SLOW)

    for before in (0.1, 1):
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            stopped_after(before)
        assert time.monotonic() - begun < 20
        assert engine.sql("SELECT sum(count) FROM orders(driver)").rows == [[12]]
    engine.close()


@pytest.mark.usefixtures("own_handler")
def test_ctrl_c_while_duckdb_asks_for_a_schema_is_no_error_of_duckdb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(catalog(), Limits(seconds=60))
    read = _TablePlace.__arrow_c_stream__

    def interrupted(*given: Any) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return read(*given)

    monkeypatch.setattr(_TablePlace, "__arrow_c_stream__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.sql("SELECT sum(count) FROM orders(driver)")
    monkeypatch.undo()
    assert engine.sql("SELECT sum(count) FROM orders(driver)").rows == [[12]]
    engine.close()


def test_a_second_ctrl_c_leaves_no_connection_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB may be deaf to an interrupt for a while."""
    engine = Engine(catalog(), Limits(seconds=60))
    read = _TablePlace.__arrow_c_stream__
    entered, go_on = threading.Event(), threading.Event()

    def deaf(*given: Any) -> object:
        entered.set()
        assert go_on.wait(60)
        return read(*given)

    def pressed(*_: Any) -> None:
        assert entered.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(_TablePlace, "__arrow_c_stream__", deaf)
    monkeypatch.setattr("muntin.select.database.wait", pressed)
    with pytest.raises(KeyboardInterrupt):
        engine.sql("SELECT sum(count) FROM orders(driver)")
    monkeypatch.undo()
    try:
        assert engine.sql("SELECT sum(count) FROM orders(driver)").rows == [[12]]
        engine.close()  # with what still runs
    finally:
        go_on.set()


def test_the_database_is_made_where_no_ctrl_c_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the main thread DuckDB says `RuntimeError: Query interrupted` instead."""
    made = database._connected
    threads: list[threading.Thread] = []

    def connected(limits: Limits) -> Any:
        threads.append(threading.current_thread())
        return made(limits)

    monkeypatch.setattr(database, "_connected", connected)
    engine = Engine(catalog())
    assert engine.sql("SELECT sum(count) FROM orders(driver)").rows == [[12]]
    assert threads
    assert threading.main_thread() not in threads
    engine.close()


def test_ctrl_c_while_a_statement_is_handed_over_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(catalog(), Limits(seconds=60))
    submit = ThreadPoolExecutor.submit

    def interrupted(*given: Any) -> None:
        submit(*given)
        time.sleep(0.3)  # it runs
        raise KeyboardInterrupt

    begun = time.monotonic()
    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.sql(SLOW)
    monkeypatch.undo()
    assert engine.sql("SELECT sum(count) FROM orders(driver)").rows == [[12]]
    assert time.monotonic() - begun < 20
    engine.close()


def test_a_statement_in_time_is_not_hit_by_the_limit_of_another() -> None:
    engine = Engine(catalog(), Limits(seconds=2))
    database = engine._database

    def stopped() -> str:
        with pytest.raises(SelectError) as caught:
            engine.sql(SLOW)
        return caught.value.code

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(stopped) for _ in range(3)]
        while not all(w.done() for w in waiting):  # beside them it may take longer than theirs
            found = database.run(lambda: "SELECT 12 AS a", (), seconds=60)
            assert found.to_pylist() == [{"a": 12}]
        assert [w.result() for w in waiting] == ["timeout"] * 3
    engine.limits = Limits(seconds=60)
    assert engine.sql("SELECT sum(count) FROM orders(driver)").rows == [[12]]
    engine.close()


def test_too_many_at_once_are_told_so() -> None:
    engine = Engine(catalog(), Limits(concurrent=1, seconds=0.5))
    with engine._database._connection(1), pytest.raises(SelectError, match="no turn") as caught:
        engine.sql("SELECT 1")
    assert caught.value.code == "limit"
    engine.limits = Limits(concurrent=1, seconds=60)
    assert engine.sql("SELECT 1").rows == [[1]]


@pytest.mark.parametrize(
    "now",
    [
        datetime(2026, 1, 2, 3, 4, 5),
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2))),
        1767323045_000000,
    ],
)
def test_now_is_the_callers(engine: Engine, now: datetime | int) -> None:
    text = "SELECT now(), current_timestamp, current_date, now() - INTERVAL '1 hour' < now()"
    moment = "2026-01-02T03:04:05Z"
    assert engine.sql(text, now=now).rows == [[moment, moment, "2026-01-02", True]]


def test_now_is_the_clock_where_nothing_is_given(engine: Engine) -> None:
    before = datetime.now(UTC)
    (now,) = engine.sql("SELECT now() AS now").table["now"].to_pylist()
    assert before <= now <= datetime.now(UTC)


def test_a_window_that_holds_nothing(fresh: tuple[Engine, MemoryCatalog]) -> None:
    engine, made = fresh
    made.held = {}
    assert (
        engine.sql("SELECT driver, time / served FROM orders(driver) WHERE driver = 'd'").rows == []
    )
    assert engine.sql("SELECT area FROM orders(area) WHERE area = 5").rows == []
    result = engine.sql("SELECT * FROM orders")
    assert result.rows == [[0, None, None, None, None, None]]
    assert result.window is not None
    assert result.window.covered is None


def test_what_a_window_did_not_have_is_null(fresh: tuple[Engine, MemoryCatalog]) -> None:
    engine, made = fresh
    short = pa.table({"driver": ["d1"], "count": [3], "time": [7]})
    made.held = {("orders", "open"): matrix_of({("driver",): short})}
    made.cached = False
    assert engine.sql("SELECT * FROM orders(driver)").rows == [["d1", 3, None, 7, None, None, None]]
    assert engine.sql("SELECT count, time, paid FROM orders").rows == [[3, 7, None]]
    assert engine.sql("SELECT * FROM orders(area)").rows == []


def test_the_total_counts_every_event(fresh: tuple[Engine, MemoryCatalog]) -> None:
    """A key that was added later has not seen all; sums past int64 are exact; floats keep."""
    engine, made = fresh
    big = 2**62
    tables = {
        ("driver",): pa.table({"driver": ["a"], "count": [1], "served": [1], "tip": [1.0]}),
        ("area",): pa.table(
            {"area": [1, 2, 3], "count": [2, 2, 2], "served": [big] * 3, "tip": [1e16, 1.0, -1e16]}
        ),
    }
    made.held = {("orders", "open"): matrix_of(tables)}
    made.cached = False
    result = engine.sql("SELECT count, served, tip FROM orders")
    assert result.rows == [[6, 3 * big, 1.0]]
    assert result.table["served"].type == pa.decimal128(38, 0)
    assert result.table["count"].type == pa.int64()


def test_key_types_compare_as_they_are(fresh: tuple[Engine, MemoryCatalog]) -> None:
    engine, made = fresh
    columns = {
        "text": pa.array(["a", None]).dictionary_encode(),
        "large": pa.array(["a", None], pa.large_string()),
        "flag": pa.array([True, None]),
        "day": pa.array([0, None], pa.date32()),
        "moment": pa.array([HOUR, None], pa.timestamp("us", "Europe/Berlin")),
        "second": pa.array([3600, None], pa.timestamp("s")),
        "small": pa.array([1, None], pa.int8()),
        "big": pa.array([2**64 - 1, None], pa.uint64()),
    }
    keys = tuple((name,) for name in columns)
    made.infos = {"k": SummaryInfo("k", "vector_matrix", keys)}
    tables = {(n,): pa.table({n: c, "count": [1, 2]}) for n, c in columns.items()}
    made.held = {("k", "open"): matrix_of(tables)}
    tests = {
        "text = 'a'": "a",
        "large = 'a'": "a",
        "flag": True,
        "day = DATE '1970-01-01'": "1970-01-01",
        "moment = TIMESTAMP '1970-01-01 01:00'": "1970-01-01T01:00:00Z",
        "second < now()": "1970-01-01T01:00:00Z",
        "small = 1": 1,
        "big = 18446744073709551615": 2**64 - 1,
    }
    for condition, value in tests.items():
        name = condition.split()[0]
        assert engine.sql(f"SELECT * FROM k({name}) WHERE {condition}").rows == [[value, 1]]
        assert engine.sql(f"SELECT count FROM k({name}) WHERE {name} IS NULL").rows == [[2]]


def test_particulars_add_up(fresh: tuple[Engine, MemoryCatalog]) -> None:
    engine, made = fresh

    def load(summary: str, window: ForClause, keys: KeyNames | None = None) -> LoadedWindow:
        late = {"open": 3, "all": 5}[window.kind]
        held = made.held[summary, window.kind]
        return loaded_of(held, watermark=late * HOUR, revision=late, late=late, stale=late > 3)

    made.load = load  # type: ignore[method-assign]
    result = engine.sql("SELECT 1 FROM orders a, orders(driver) b, orders FOR ALL c")
    assert (result.late, result.revision, result.watermark) == (8, 5, 3 * HOUR)
    assert result.stale
    assert result.exact


def test_errors_of_loading_are_placed(fresh: tuple[Engine, MemoryCatalog]) -> None:
    engine, made = fresh
    for error, code in (
        (LedgerError("broken"), "load"),
        (BadArgument("odd"), "from_item"),
        (UnknownName("no such key"), "unknown_name"),
    ):

        def load(
            summary: str,
            window: ForClause,
            keys: KeyNames | None = None,
            error: Exception = error,
        ) -> LoadedWindow:
            raise error

        made.load = load  # type: ignore[method-assign]
        with pytest.raises(SelectError) as caught:
            engine.sql("SELECT 1 FROM orders(driver)")
        assert (caught.value.code, caught.value.position, caught.value.length) == (code, 14, 14)
        assert caught.value.message == str(error)


def test_a_mistake_of_reading_is_not_told_as_a_name_that_has_gone(
    fresh: tuple[Engine, MemoryCatalog],
) -> None:
    engine, made = fresh
    made.load = mock.Mock(side_effect=KeyError("next"))  # type: ignore[method-assign]
    with pytest.raises(KeyError, match=r"^'next'$"):
        engine.sql("SELECT 1 FROM orders(driver)")


def test_a_trend_of_itself_is_refused(fresh: tuple[Engine, MemoryCatalog]) -> None:
    engine, made = fresh
    made.standing = {
        "a": QueryInfo("a", "SELECT * FROM trend(b)"),
        "b": QueryInfo("b", "SELECT * FROM trend(a)"),
    }
    with pytest.raises(SelectError, match="reads its own trend"):
        engine.sql("SELECT * FROM trend(a)")


def test_check_says_what_a_statement_reads(engine: Engine) -> None:
    checked = engine.check("SELECT X1, Y1 AS n FROM vector 1.1 FOR ALL")
    assert checked.columns == ("driver", "n")
    assert checked.sources == ("orders",)
    assert [item.window for item in checked.items if item] == [ForClause("all")]
    assert checked.show() == "SELECT X1, Y1 AS n FROM vector 1.1 FOR ALL"
