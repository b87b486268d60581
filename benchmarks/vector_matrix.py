"""The vector matrix beside Polars and DuckDB, one thread, on taxi orders.

    python benchmarks/vector_matrix.py [--short] [--keep] [--check]

Each run summarises the same orders by six keys, seven sums and a count. Then what a pane of 40
orders costs where a batch holds as many as there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from _record import Table, main, timed

from muntin.demo.taxi import INDICATORS, KEYS, orders
from muntin.segments import WHOLE, Segment, build, cut, decode, encode, merge
from muntin.segments.sums import Sums
from muntin.summaries import VectorMatrix


def measure(short: bool) -> Iterable[Table]:
    count, drivers = (300_000, 30_000) if short else (1_000_000, 100_000)
    batch = orders(count, drivers)
    table = pa.Table.from_batches([batch])
    frame = pl.from_arrow(table)
    connection = duckdb.connect(config={"threads": 1})
    connection.register("orders", table)
    yield timed(
        "orders",
        f"{count:,} orders of {drivers:,} drivers, six keys and seven indicators, one thread",
        {
            "Muntin": lambda: ours(batch),
            "Muntin, six tables read out": lambda: read_out(batch),
            "Polars, six group-bys": lambda: [f.to_arrow() for f in with_polars(frame)],
            "DuckDB, GROUPING SETS": lambda: with_duckdb(connection),
            "DuckDB, six GROUP BYs": lambda: with_six_selects(connection),
        },
        5,
        events=count,
        unit="ns an order",
        ours=2,
    )
    yield small_panes(batch)


def ours(batch: pa.RecordBatch) -> VectorMatrix:
    summary = VectorMatrix(KEYS, INDICATORS)
    summary.update(batch)
    summary.rows()  # drivers and cars are added up from their pairs when somebody asks
    return summary


def read_out(batch: pa.RecordBatch) -> list[pa.Table]:
    summary = VectorMatrix(KEYS, INDICATORS)
    summary.update(batch)
    return [summary.table(key) for key in KEYS]


def with_polars(frame: pl.DataFrame) -> list[pl.DataFrame]:
    sums = [pl.len().alias("count"), *(pl.col(name).sum() for name in INDICATORS)]
    return [frame.group_by(key if isinstance(key, str) else list(key)).agg(sums) for key in KEYS]


def _sums() -> str:
    return "count(*) AS count, " + ", ".join(f"sum({name}) AS {name}" for name in INDICATORS)


def _columns(key: str | tuple[str, ...]) -> str:
    return key if isinstance(key, str) else ", ".join(key)


def with_duckdb(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    sets = ", ".join(f"({_columns(key)})" for key in KEYS)
    names = "driver, area, car_class, car_number"
    sql = f"SELECT {names}, {_sums()} FROM orders GROUP BY GROUPING SETS ({sets})"
    return connection.sql(sql).to_arrow_table()


def with_six_selects(connection: duckdb.DuckDBPyConnection) -> list[pa.Table]:
    return [
        connection.sql(
            f"SELECT {_columns(key)}, {_sums()} FROM orders GROUP BY {_columns(key)}"
        ).to_arrow_table()
        for key in KEYS
    ]


def small_panes(batch: pa.RecordBatch) -> Table:
    algebra, pane_of = Sums(tuple((name, None) for name in INDICATORS)), np.arange(len(batch)) // 40
    columns = {name: batch[name] for name in batch.schema.names}
    values = [columns[name] for name in INDICATORS]
    keys = [key if isinstance(key, tuple) else (key,) for key in KEYS]

    def made() -> Segment:
        return build(algebra, pane_of, values, keys, columns)

    whole = made()
    pieces = [encode(piece) for piece in cut(whole)]
    return timed(
        "panes",
        f"A pane of 40 orders, of {len(whole.slices):,} in one batch",
        {
            "made": made,
            "to bytes": lambda: [encode(piece) for piece in cut(whole)],
            "read": lambda: [decode(piece) for piece in pieces],
            "merged": lambda: merge([whole], WHOLE),
        },
        5,
        events=len(whole.slices),
        unit="µs a pane",
        ours=4,
    )


if __name__ == "__main__":
    main("vector-matrix-speed", measure, ["duckdb", "polars", "pyarrow", "numba"], __doc__)
