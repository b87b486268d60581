"""The vector matrix beside Polars, DuckDB and Python dicts, one thread, on taxi orders.

Each run summarises the same orders by six keys, seven sums and a count. Run with
`python benchmarks/vector_matrix.py [--orders N] [--drivers N] [--repeats N] [--clock cpu]
[--memory]`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from _timing import in_turn, report

from muntin.demo.taxi import INDICATORS, KEYS, orders
from muntin.segments import WHOLE, Segment, build, cut, decode, encode, merge
from muntin.segments.sums import Sums
from muntin.summaries import VectorMatrix

CALLS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--drivers", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="also memory, with Python dicts")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.clock == "cpu" else time.perf_counter
    batch = orders(arguments.orders, arguments.drivers)
    table = pa.Table.from_batches([batch])
    print(
        f"{batch.num_rows:,} orders, {arguments.drivers:,} drivers, "
        f"{len(KEYS)} keys x {len(INDICATORS)} indicators, one thread\n"
    )
    frame = pl.from_arrow(table)
    connection = duckdb.connect(config={"threads": 1})
    connection.register("orders", table)
    seconds = in_turn(
        {
            "Muntin": lambda: ours(batch),
            "Polars, six group-bys": lambda: with_polars(frame),
            "DuckDB, GROUPING SETS": lambda: with_duckdb(connection),
            "DuckDB, six GROUP BYs": lambda: with_six_selects(connection),
        },
        arguments.repeats,
        clock=clock,
    )
    report(seconds, events=batch.num_rows)
    full = ours(batch)
    warm = in_turn(
        {"Muntin, all keys known": lambda: full.update(batch)}, arguments.repeats, clock=clock
    )
    print()
    report(warm, events=batch.num_rows)
    read = in_turn(
        {
            "Muntin, six tables read out": lambda: read_out(batch),
            "Polars, six group-bys": lambda: [f.to_arrow() for f in with_polars(frame)],
        },
        arguments.repeats,
        clock=clock,
    )
    print()
    report(read, events=batch.num_rows)
    panes(batch, clock)
    small_panes(batch, clock)
    if arguments.memory:
        memory(batch)


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


def panes(batch: pa.RecordBatch, clock: Callable[[], float]) -> None:
    """What bytes cost: a pane of 40 events, and the whole."""
    pane, full = batch.slice(0, 40), ours(batch)
    small = ours(pane)
    small_bytes, full_bytes = small.to_bytes(), full.to_bytes()
    other = VectorMatrix.from_bytes(full_bytes)
    print()
    for name, calls, runs in (
        (
            "40",
            CALLS,  # one call alone would pay for cold caches
            {
                "create, update, to_bytes": lambda: _often(lambda: ours(pane).to_bytes()),
                "from_bytes": lambda: _often(lambda: VectorMatrix.from_bytes(small_bytes)),
                "merge": lambda: _often(lambda: other.merge(small)),
                "from_bytes and merge": lambda: _often(
                    lambda: other.merge(VectorMatrix.from_bytes(small_bytes))
                ),
            },
        ),
        (
            f"{batch.num_rows:,}",
            1,
            {
                "to_bytes": full.to_bytes,
                "from_bytes": lambda: VectorMatrix.from_bytes(full_bytes),
                "merge into the like": lambda: other.merge(full),
                "table of (driver, area)": lambda: full.copy().table(("driver", "area")),
            },
        ),
    ):
        print(f"{name} orders")
        report(in_turn(runs, 5, clock=clock), events=calls, unit="call")
    rows = sum(full.rows().values())
    print(f"\nbytes: {len(small_bytes):,} for 40 orders; {len(full_bytes) / rows:.1f} a row")


def small_panes(batch: pa.RecordBatch, clock: Callable[[], float]) -> None:
    """What a pane of 40 orders costs where a batch holds as many as there are."""
    algebra, pane_of = Sums(tuple((name, None) for name in INDICATORS)), np.arange(len(batch)) // 40
    columns = {name: batch[name] for name in batch.schema.names}
    values = [columns[name] for name in INDICATORS]
    keys = [key if isinstance(key, tuple) else (key,) for key in KEYS]

    def made() -> Segment:
        return build(algebra, pane_of, values, keys, columns)

    whole = made()
    pieces = [encode(piece) for piece in cut(whole)]
    report(
        in_turn(
            {
                "make": made,
                "bytes": lambda: [encode(piece) for piece in cut(whole)],
                "read": lambda: [decode(piece) for piece in pieces],
                "merge": lambda: merge([whole], WHOLE),
            },
            5,
            clock=clock,
        ),
        events=len(whole.slices),
        unit="pane of 40 orders, of many at once",
    )


def _often(run: Callable[[], object]) -> None:
    for _ in range(CALLS):
        run()


def memory(batch: pa.RecordBatch) -> None:
    """Memory per row (a value of a key) and per event, beside dicts and the paper's 4 n."""
    import sys

    full = ours(batch)
    rows = sum(full.rows().values())
    columns = {name: batch[name].to_pylist() for name in batch.schema.names if name != "time"}
    values = list(zip(*(columns[name] for name in INDICATORS), strict=True))
    held = 0
    for key in KEYS:
        names = [key] if isinstance(key, str) else list(key)
        found: dict[object, list[int]] = {}
        for i, parts in enumerate(zip(*(columns[name] for name in names), strict=True)):
            sums = found.setdefault(parts if len(names) > 1 else parts[0], [0] * 8)
            sums[0] += 1
            for j, value in enumerate(values[i], 1):
                sums[j] += value
        held += sys.getsizeof(found)
        for name, sums in found.items():
            held += sys.getsizeof(name) + sys.getsizeof(sums) + 32 * sum(s > 256 for s in sums)
    print(f"\n{rows:,} rows over all keys\n{'':24}{'a row':>10}{'an event':>10}")
    for name, size in (
        ("Muntin", full.nbytes),
        ("Muntin's bytes", len(full.to_bytes())),
        ("Python dicts", held),
        ("the paper's vectors, 4 n", 4 * 8 * rows),
    ):
        print(f"{name:24}{size / rows:>8.1f} B{size / batch.num_rows:>8.1f} B")
    print("4 n counts 4-byte cells alone: no keys, no table to find them, and sums that wrap")


if __name__ == "__main__":
    main()
