"""SHOW TABLES, DESCRIBE, and errors of those who look for them."""

from __future__ import annotations

import duckdb
import pytest
from select_catalogs import MemoryCatalog, catalog, matrix_of, order_tables
from sqlglot.dialects.duckdb import DuckDB

from muntin.errors import SelectError
from muntin.kinds import KINDS
from muntin.select.catalog import QueryInfo, SummaryInfo
from muntin.select.engine import Engine
from muntin.select.functions import GLOBAL_TOP_K
from muntin.select.limits import Limits
from muntin.select.listing import example_item
from muntin.select.plan import Planner
from muntin.select.syntax import in_select

HELD = ["1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"]


def test_what_there_is(engine: Engine) -> None:
    result = engine.sql("show tables;")
    assert result.columns == ["name", "kind", "keys", "indicators", "from", "to", "ask"]
    matrix = "driver, area, (driver, area)", "served, time, paid, tip, debt", "orders(driver)"
    assert result.rows == [
        ["busiest", "standing query", None, None, None, None, "trend(busiest)"],
        ["orders", "vector_matrix", *matrix[:2], *HELD, matrix[2]],
    ]


@pytest.mark.parametrize("name", ["orders", "busiest"])
def test_every_column_that_is_described_can_be_asked(engine: Engine, name: str) -> None:
    rows = engine.sql(f"DESCRIBE {name}").rows
    if name == "orders":
        assert rows.pop(0) == ["FOR '{}' TO '{}'".format(*HELD), None, "all that is stored"]
    ways = dict.fromkeys(row[0] for row in rows)
    assert len(ways) == (4 if name == "orders" else 1)
    for way in ways:
        columns = [row[1] for row in rows if row[0] == way]
        assert engine.check(f"SELECT * FROM {way}").columns == tuple(columns)  # noqa: S608


def test_windows_are_described_where_a_kind_has_them() -> None:
    for kind in (*KINDS, GLOBAL_TOP_K):
        infos = {"s": SummaryInfo("s", kind, keys=(("a",),) if kind == "vector_matrix" else ())}
        rows = Engine(catalog(infos=infos, held={})).sql("DESCRIBE s").rows
        has_windows = kind not in ("periodic", GLOBAL_TOP_K)
        assert any(row[0] == "windows(s)" for row in rows) is has_windows


@pytest.mark.parametrize("kind", [*KINDS, GLOBAL_TOP_K])
def test_each_column_is_described_by_a_meaning_of_its_own(kind: str) -> None:
    infos = {"s": SummaryInfo("s", kind, by=("key",) if kind == "quantiles" else ())}
    said: dict[str, dict[str, str]] = {}
    for way, column, meaning in Engine(catalog(infos=infos, held={})).sql("DESCRIBE s").rows:
        assert said.setdefault(way, {}).setdefault(meaning, column) == column, meaning


@pytest.mark.parametrize("kind", ["periodic", GLOBAL_TOP_K, "top_k"])
def test_a_clause_is_described_where_a_kind_takes_one(kind: str) -> None:
    held = catalog(infos={"s": SummaryInfo("s", kind)}, held={})
    held.span_of = lambda _: (0, 3_600_000_000)  # type: ignore[method-assign]
    way, column, meaning = Engine(held).sql("DESCRIBE s").rows[0]
    if kind == "top_k":
        assert (way, meaning) == ("FOR '{}' TO '{}'".format(*HELD), "all that is stored")
    else:
        assert (way, meaning) == (
            f"{kind.removeprefix('global_')}(s, 10)",
            "of all from {} to {}".format(*HELD),
        )
    assert column is None


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("DESCRIBE ordrs", "no summary or standing query", "did you mean 'orders'"),
        ("DESCRIBE orders(driver)", "no summary", "did you mean 'orders'"),
        ('DESCRIBE "a""b"', "query 'a\"b'", "there are: orders"),
        ("SHOW COLUMNS", "starts with SELECT", "DESCRIBE <name>"),
        ("SELECT driver FROM orders", "one row", "FROM orders(driver)"),
        ("SELECT 1 FROM orders(driver) WHERE count > 1 FOR ALL", "does not follow", "after a summ"),
        ("SELECT 1 FROM orders(driver) LIMIT 3 FOR LAST '1 h'", "does not follow", "after a summ"),
        ("SELECT driver FROM orders(drivr)", "no key 'drivr'", "did you mean 'driver'"),
    ],
)
def test_one_line_with_the_remedy(engine: Engine, text: str, message: str, remedy: str) -> None:
    with pytest.raises(SelectError, match=message) as caught:
        engine.sql(text)
    assert remedy in caught.value.remedy
    assert caught.value.length


def _words() -> list[str]:
    """Those that may mean something else than a name."""
    found = duckdb.connect().execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()
    keywords = {str(word).lower() for word in DuckDB.Tokenizer.KEYWORDS}  # type: ignore[attr-defined]
    return sorted({word for (word,) in found} | {w for w in keywords if w.isidentifier()})


def _named(word: str) -> MemoryCatalog:
    """A matrix and its key with such a name."""
    table = order_tables()["driver",].select(["driver", "count"]).rename_columns([word, "count"])
    info = SummaryInfo(word, "vector_matrix", keys=((word,),))
    query = QueryInfo(f"{word}-of", f"SELECT 1 AS {in_select(word)}")
    held = {(word, "open"): matrix_of({(word,): table})}
    return catalog(infos={word: info}, held=held, standing={query.name: query})


def test_every_word_that_is_written_without_quotes_is_a_name() -> None:
    plain = [word for word in _words() if in_select(word) == word]
    assert len(plain) > 200
    assert {"order", "group", "null", "select", "date"}.isdisjoint(plain)
    held = _named("x1")
    planner = Planner(Limits())
    for word in plain:
        held.infos = {word: SummaryInfo(word, "vector_matrix", keys=((word,),))}
        every = f"{word} IS NULL AS {word}, {word} AS b FROM {word}({word}) AS {word}"
        text = f"SELECT {every} WHERE {word} > 'a' GROUP BY b, {word}.{word} ORDER BY {word}"
        assert planner.plan(text, held).columns == (word, "b")


@pytest.mark.parametrize("word", ["my-orders", "select", "null", "Driver", "pick-up area", 'a "b"'])
def test_whatever_a_name_is_what_is_said_of_it_can_be_asked(word: str) -> None:
    engine = Engine(_named(word))
    items = [row[-1] for row in engine.sql("SHOW TABLES").rows]
    if '"' not in word:
        items += [row[0] for row in engine.sql(f'DESCRIBE "{word}"').rows[1:]]
        items += [row[0] for row in engine.sql(f'DESCRIBE "{word}-of"').rows]
    for item in dict.fromkeys(items):
        engine.check(f"SELECT * FROM {item}")  # noqa: S608
    assert len(engine.sql(f"SELECT * FROM {in_select(word)}({in_select(word)})")) == 4  # noqa: S608
    engine.close()


@pytest.mark.parametrize("kind", [*KINDS, GLOBAL_TOP_K])
def test_every_kind_can_be_asked(kind: str) -> None:
    keys = (("pick-up area", "null"),) if kind == "vector_matrix" else ()
    held = catalog(infos={"s-1": SummaryInfo("s-1", kind, keys=keys)})
    assert Planner(Limits()).plan(f"SELECT * FROM {example_item(held.infos['s-1'])}", held).columns  # noqa: S608


@pytest.mark.parametrize("text", ["SELECT * FROM TREND(Busiest)", "DESCRIBE Busiest"])
def test_a_standing_querys_name_is_the_same_in_every_case(engine: Engine, text: str) -> None:
    assert engine.sql(text).rows == engine.sql(text.replace("Busiest", "busiest")).rows
