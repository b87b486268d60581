"""How long a SELECT takes once its window is loaded, beside DuckDB alone.

    python benchmarks/select_speed.py [--short] [--keep] [--check]

Query (12) of the paper over a window of 640,000 drivers (target: 20 ms at the median), a filter,
a top ten, a look-up of one driver, and what a statement costs that reads nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from _record import Table, digits, main, ratios
from _timing import in_turn

import muntin

INDICATORS = ("served", "time", "paid", "tip", "distance", "waited", "debt")
SPEC = {
    "name": "orders",
    "time": "at",
    "pane": "1 hour",
    "summaries": {"orders": {"keys": ["driver"], "indicators": list(INDICATORS)}},
}
STATEMENTS = {
    "query (12), two sums": (
        "SELECT sum X1.Y2 / sum X1.Y1 AS avg FROM vector (1.2), vector (1.1) FOR ALL",
        "SELECT sum(time) / sum(served) FROM orders",
    ),
    "filter, query (11)": (
        "SELECT X1.* FROM vector 1.* FOR ALL WHERE X1.Y5 > 990",
        "SELECT * FROM orders WHERE distance > 990",
    ),
    "top ten by ratio": (
        "SELECT driver, time / served AS mean FROM orders(driver) FOR ALL"
        " ORDER BY mean DESC LIMIT 10",
        "SELECT driver, time / nullif(served, 0) AS mean FROM orders ORDER BY mean DESC LIMIT 10",
    ),
    "one driver": (
        "SELECT * FROM orders(driver) FOR ALL WHERE driver = '{driver}'",
        "SELECT * FROM orders WHERE driver = '{driver}'",
    ),
    "total row": (
        "SELECT time / served AS mean, count FROM orders FOR ALL",
        "SELECT sum(time) / sum(served), sum(count) FROM orders",
    ),
    "nothing": ("SELECT 1", "SELECT 1"),
}


def orders(drivers: int) -> pa.Table:
    """UUID-like names, and seven indicators: an event for each driver."""
    rng = np.random.default_rng(12)
    words = rng.integers(0, 2**63, (drivers, 2))
    columns: dict[str, Any] = {"driver": [f"{a:016x}-{b:016x}" for a, b in words.tolist()]}
    columns |= {name: rng.integers(0, 1000, drivers) for name in INDICATORS}
    columns["at"] = pa.array([1_700_000_000_000_000] * drivers, pa.timestamp("us", "UTC"))
    return pa.table(columns)


def measure(short: bool) -> Iterable[Table]:
    drivers = 100_000 if short else 640_000
    table = orders(drivers)
    session = muntin.summarize(table, SPEC, progress=False)
    plain = duckdb.connect(config={"threads": "1"})
    plain.register("orders", session.sql("SELECT * FROM orders(driver) FOR ALL").to_arrow())
    driver = table["driver"][drivers // 2].as_py()
    told = Table(
        "statements",
        f"Statements over a window of {drivers:,} drivers, once it is loaded",
        ["statement", "DuckDB alone, times as long", "ours, ms"],
        note="Processor time.",
    )
    for name, texts in STATEMENTS.items():
        ours, theirs = (text.format(driver=driver) for text in texts)
        seconds = in_turn(
            {
                "ours": lambda text=ours: session.sql(text),
                "theirs": lambda text=theirs: plain.sql(text).to_arrow_table(),
            },
            20 if short else 50,
            clock=time.process_time,
        )
        told.rows.append([name, ratios(**seconds), digits(1e3 * min(seconds["ours"]))])
    session.close()
    yield told


if __name__ == "__main__":
    main("select", measure, ["duckdb", "sqlglot", "pyarrow", "numba"], __doc__)
