"""docs/select.md says what is: its statements run, its lists are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from select_catalogs import MemoryCatalog

from muntin.errors import SelectError
from muntin.select.allowed import FUNCTIONS
from muntin.select.catalog import TREND_COLUMNS, WINDOW_COLUMNS, QueryInfo, SummaryInfo
from muntin.select.engine import Engine
from muntin.select.functions import TABLE_FUNCTIONS
from muntin.select.limits import Limits

TEXT = (Path(__file__).parents[2] / "docs" / "select.md").read_text()
STATEMENTS = [m.strip() for m in re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)]


@pytest.fixture(scope="module")
def documented() -> Engine:
    keys = (("driver",), ("area",), ("driver", "area"))
    infos = {
        "orders": SummaryInfo("orders", "vector_matrix", keys, ("served", "time", "paid")),
        "delays": SummaryInfo("delays", "quantiles", by=("origin",)),
        "calls": SummaryInfo("calls", "frequency"),
        "drivers": SummaryInfo("drivers", "fingerprint"),
        "visits": SummaryInfo("visits", "distinct"),
        "buses": SummaryInfo("buses", "periodic"),
    }
    select = re.search(r'busiest: \{select: "(.*?)"', TEXT)
    assert select is not None
    return Engine(MemoryCatalog(infos, {}, {"busiest": QueryInfo("busiest", select[1])}))


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements_are_right(documented: Engine, text: str) -> None:
    documented.check(text)
    if "trend(" not in text and "windows(" not in text:
        documented.sql(text)


def test_there_are_examples() -> None:
    assert len(STATEMENTS) >= 12


def test_the_error_is_the_one_shown(documented: Engine) -> None:
    with pytest.raises(SelectError) as caught:
        documented.sql("SELECT tme / served FROM orders(driver)")
    assert str(caught.value) in TEXT


def test_lists_are_complete() -> None:
    listed = set(re.findall(r"^- [a-z ]+: ([a-z0-9_ ]+)$", TEXT, re.MULTILINE))
    names = {name for line in listed for name in line.split()}
    assert names == FUNCTIONS | {"extract"}
    for function in TABLE_FUNCTIONS.values():
        row = re.search(rf"\| `{function.name}\(s.*?\| `(.*?)`", TEXT)
        assert row is not None
        assert tuple(row[1].split(", ")) == function.columns
    for columns in (TREND_COLUMNS, WINDOW_COLUMNS):
        assert ", ".join(f"`{c}`" for c in columns) in TEXT


def test_limits_are_the_ones_listed() -> None:
    limits = Limits()
    for number in (limits.text_bytes, limits.tokens, limits.literal_bytes, limits.result_rows):
        assert f"{number:,}" in TEXT
    assert f"| {limits.depth}, {limits.nodes} |" in TEXT
    assert f"as in `IN (1, 2, …)` | {limits.list_constants:,} |" in TEXT
    assert f"{limits.windows} written; {limits.reads} once" in TEXT
    assert f"joined into one | {limits.pieces} |" in TEXT
    assert f"{limits.seconds:g} s, then" in TEXT
    assert f"{limits.concurrent}; others wait" in TEXT
    assert limits.memory_bytes == limits.result_bytes == 1 << 30
