"""How long a SELECT takes once its window is loaded, beside DuckDB alone.

    python benchmarks/select_speed.py [--drivers 640000] [--repeats 30]

Query (12) of the paper over a window of 640,000 drivers (target: 20 ms at the median), a filter,
a top ten and a look-up of one driver; then what a statement costs that reads nothing, and what
parsing and checking cost when a text is seen for the first time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from _timing import in_turn, report

from muntin.select import Engine, Loaded, LoadedTable, QueryInfo, SummaryInfo, WindowAsked
from muntin.select.catalog import KeyNames
from muntin.select.check import check_tree
from muntin.select.limits import Limits
from muntin.select.parser import parse

INDICATORS = ("served", "time", "paid", "tip", "distance", "waited", "debt")
STATEMENTS = {
    "query (12), two sums": (
        "SELECT sum X1.Y2 / sum X1.Y1 AS avg FROM vector (1.2), vector (1.1)",
        "SELECT sum(time) / sum(served) FROM orders",
    ),
    "filter, query (11)": (
        "SELECT X1.* FROM vector 1.* WHERE X1.Y5 > 990",
        "SELECT * FROM orders WHERE distance > 990",
    ),
    "top ten by ratio": (
        "SELECT driver, time / served AS mean FROM orders(driver) ORDER BY mean DESC LIMIT 10",
        "SELECT driver, time / nullif(served, 0) AS mean FROM orders ORDER BY mean DESC LIMIT 10",
    ),
    "one driver": (
        "SELECT * FROM orders(driver) WHERE driver = '{driver}'",
        "SELECT * FROM orders WHERE driver = '{driver}'",
    ),
    "total row": (
        "SELECT time / served AS mean, count FROM orders",
        "SELECT sum(time) / sum(served), sum(count) FROM orders",
    ),
    "nothing": ("SELECT 1", "SELECT 1"),
}


class Window:
    """One window that is already merged."""

    keys = (("driver",),)

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def table(self, key: object) -> pa.Table:
        return self._table


class OneWindow:
    """A catalog that has loaded its only window."""

    def __init__(self, table: pa.Table) -> None:
        info = SummaryInfo("orders", "vector_matrix", (("driver",),), INDICATORS)
        self._infos = {"orders": info}
        self._loaded = Loaded(
            Window(table), covered=(0, 1), stored=(0, 1), watermark=1, revision=0, late=0,
            stale=False, exact=True, bounds={}, uncounted={}, notes=(), token=1, like=None,
        )  # fmt: skip

    @contextmanager
    def moment(self) -> Iterator[OneWindow]:
        yield self

    def summaries(self) -> dict[str, SummaryInfo]:
        return self._infos

    def queries(self) -> dict[str, QueryInfo]:
        return {}

    def load(self, summary: str, window: WindowAsked, keys: KeyNames | None = None) -> Loaded:
        return self._loaded

    def trend(self, query: str, window: WindowAsked | None) -> LoadedTable:
        raise KeyError(query)

    def windows(self, summary: str, window: WindowAsked | None) -> LoadedTable:
        raise KeyError(summary)


def made(drivers: int) -> pa.Table:
    """A window's table: UUID-like texts, a count and seven sums."""
    rng = np.random.default_rng(12)
    words = rng.integers(0, 2**63, (drivers, 2))
    names = [f"{a:016x}-{b:016x}"[:36] for a, b in words.tolist()]
    columns: dict[str, Any] = {"driver": names, "count": rng.integers(1, 50, drivers)}
    columns |= {name: rng.integers(0, 1000, drivers) for name in INDICATORS}
    return pa.table(columns)


def against_duckdb(table: pa.Table, repeats: int) -> None:
    engine = Engine(OneWindow(table))
    plain = duckdb.connect(config={"threads": "1"})
    plain.register("orders", table)
    driver = table["driver"][len(table) // 2].as_py()
    for name, (ours, theirs) in STATEMENTS.items():
        ours, theirs = ours.format(driver=driver), theirs.format(driver=driver)
        print(f"\n{name}")
        runs = {
            "duckdb": lambda text=theirs: plain.sql(text).to_arrow_table(),
            "muntin": lambda text=ours: engine.sql(text),
        }
        report(in_turn(runs, repeats), unit="statement")
    engine.close()


def first_sight(repeats: int) -> None:
    """Parse and check, without the cache of texts."""
    limits = Limits()

    def seen(text: str) -> Callable[[], None]:
        return lambda: check_tree(parse(text, limits), limits)

    terms = "SELECT " + "+".join(["1"] * 120)
    brackets = "SELECT " + "(" * 30 + "1" + ")" * 30
    texts = {name: ours for name, (ours, _) in STATEMENTS.items()}
    print("\nparse and check, first time")
    texts |= {"terms": terms, "brackets": brackets}
    runs = {name: seen(text) for name, text in texts.items()}
    report(in_turn(runs, repeats), unit="statement", first="nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drivers", type=int, default=640_000)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    started = time.perf_counter()
    table = made(options.drivers)
    print(f"{options.drivers:,} drivers, {table.nbytes / 1e6:.0f} MB of Arrow", end="")
    print(f", made in {time.perf_counter() - started:.1f} s")
    against_duckdb(table, options.repeats)
    first_sight(options.repeats)


if __name__ == "__main__":
    main()
