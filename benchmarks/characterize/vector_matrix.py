"""The vector matrix's paper, measured: figures 6 and 7 and the floating windows of section 5.

python benchmarks/characterize/vector_matrix.py [--only error|bounds|storage|windows] [--drivers N]
    [--out FOLDER] [--keep]

Each part prints a table and writes a CSV and a PNG; --keep writes benchmarks/results/ as well.

error    Query (12), the average delivery time over all trips, from Count-Min in place of vectors.
         One trip a driver, times uniform 1 ... 100. "summed" is the paper's way: estimates of all
         drivers are added up and divided by the trips; "ratio" divides by estimates of the trips,
         added up as well; "row" divides the sums of one row of cells, which are exact: each event
         is in one cell of a row. The vector matrix, beside them, is exact.
bounds   What Count-Min's own paper promises of one estimate (Cormode and Muthukrishnan 2005, 4.1:
         at most e / w of all too high, but for e^-d of them), and so of their sum, beside it.
storage  Bytes of one vector against one sketch, by drivers; then what holds keys as well.
windows  A day's window with room for 640,000 drivers: 500,000 drivers a day, then 700,000, then
         1,280,000, then 500,000 again; when windows close, why, and how many events they hold.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from matplotlib import pyplot as plt

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))  # for tests/
from _record import Table, keep

from muntin.ledger.temporary import temporary
from muntin.session import Session
from muntin.spark.ingest import Ingest
from muntin.spark.partials import fold
from muntin.spec import Pipeline
from muntin.summaries import CountMin, VectorMatrix
from tests.store_servers import RedisServer

SHAPES = [(10, 20_000), (14, 20_000), (17, 20_000), (14, 40_000), (14, 100_000)]
CAPACITY = 640_000
DAY = 86_400_000_000
PANE = DAY // 96
START = 1_700_006_400_000_000  # midnight
BUSY = [500_000, 500_000, 700_000, 700_000, 1_280_000, 1_280_000, 500_000, 500_000]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(PARTS), help="one part alone")
    parser.add_argument("--drivers", type=int, default=1_000_000, help="of error and storage")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    tables = []
    for name, (measure, draw, tabled) in PARTS.items():
        if asked.only in (None, name):
            rows = measure(asked.drivers)
            save(asked.out / f"vector-matrix-{name}", rows, draw)
            tables.append(tabled(rows))
            print(f"\n{tables[-1].markdown()}\n")
    if asked.keep and not asked.only:
        keep("vector-matrix", tables, ["numpy", "polars", "duckdb", "pyarrow"])


def error(most: int) -> list[dict[str, Any]]:
    rows = []
    for drivers in steps(most):
        times = np.random.default_rng(drivers).integers(1, 101, drivers)
        names = np.arange(drivers)
        truth = times.mean()
        for conservative in (False, True):
            for depth, width in SHAPES:
                sums = CountMin(width, depth, conservative=conservative)
                sums.update(names, times)
                trips = CountMin(width, depth, conservative=conservative)
                trips.update(names)
                summed = int(sums.estimate(names).upper.sum())
                ratio = summed / int(trips.estimate(names).upper.sum())
                row = sums.total / trips.total  # of plain cells the sum of any row of them
                rows.append(
                    {
                        "drivers": drivers,
                        "depth": depth,
                        "width": width,
                        "update": "conservative" if conservative else "plain",
                        "summed_percent": percent(summed / drivers, truth),
                        "ratio_percent": percent(ratio, truth),
                        "row_percent": percent(row, truth),
                    }
                )
                show(rows[-1])
        matrix = VectorMatrix(keys=["driver"], indicators=["time"])
        matrix.update(pa.table({"driver": names, "time": times}))
        read = matrix.table("driver")
        mean = read["time"].to_numpy().sum() / read["count"].to_numpy().sum()
        rows.append({"drivers": drivers, "update": "matrix", "row_percent": percent(mean, truth)})
        show(rows[-1])
    return rows


def table_of_errors(rows: list[dict[str, Any]]) -> Table:
    """A row a number of drivers and sketch, its ways of asking side by side."""
    found = {
        (row["drivers"], row["depth"], row["width"], row["update"]): row
        for row in rows
        if "depth" in row
    }
    table = Table(
        "error",
        "Relative error of the average over all drivers, in percent",
        ["drivers: d x w", "summed, plain", "summed, conservative", "ratio, plain",
         "ratio, conservative", "one row, plain", "vector matrix"],
    )  # fmt: skip
    exact = {row["drivers"]: row["row_percent"] for row in rows if row["update"] == "matrix"}
    for drivers in (160_000, 640_000, 1_000_000):
        for depth, width in SHAPES:
            both = [found.get((drivers, depth, width, way)) for way in ("plain", "conservative")]
            if not all(both):
                continue
            plain, conservative = both
            table.rows.append([
                f"{drivers:,}: {depth} x {width:,}",
                plain["summed_percent"], conservative["summed_percent"],
                plain["ratio_percent"], conservative["ratio_percent"],
                plain["row_percent"], exact[drivers],
            ])  # fmt: skip
    return table


def draw_error(rows: list[dict[str, Any]], axis: Any) -> None:
    for depth, width in SHAPES:
        for update, style in (("plain", "-o"), ("conservative", ":x")):
            here = [
                row
                for row in rows
                if (row.get("depth"), row.get("width"), row["update"]) == (depth, width, update)
            ]
            axis.plot(
                [row["drivers"] for row in here],
                [row["summed_percent"] for row in here],
                style,
                label=f"d = {depth}, w = {width:,}, {update}",
            )
    axis.set(xlabel="drivers", ylabel="relative error of query (12), %", yscale="symlog")
    axis.legend(fontsize=7)


def bounds(most: int) -> list[dict[str, Any]]:
    """As `error`, of plain Count-Min: each driver's estimate, and the average by their sum."""
    rows = []
    for drivers in steps(most):
        times = np.random.default_rng(drivers).integers(1, 101, drivers)
        names = np.arange(drivers)
        for depth, width in SHAPES:
            sketch = CountMin(width, depth, conservative=False)
            sketch.update(names, times)
            off = sketch.estimate(names).upper - times
            bound = math.e / width * times.sum()
            rows.append(
                {
                    "drivers": drivers,
                    "depth": depth,
                    "width": width,
                    "bound": round(bound),
                    "median": round(float(np.median(off))),
                    "largest": int(off.max()),
                    "beyond_percent": round(100 * float((off > bound).mean()), 4),
                    "allowed_percent": round(100 * math.exp(-depth), 5),
                    "average_bound_percent": round(100 * drivers * math.e / width),
                    "average_percent": percent(float((times + off).mean()), times.mean()),
                }
            )
            show(rows[-1])
    return rows


def table_of_bounds(rows: list[dict[str, Any]]) -> Table:
    kept = [row for row in rows if row["drivers"] in (160_000, 640_000, 1_000_000)]
    return Table(
        "bounds",
        "Too high by how much: promised, and measured; seconds of one driver, % of the average",
        ["drivers: d x w", "one driver: promised", "median", "largest", "beyond, % of drivers",
         "allowed, %", "average: promised, %", "measured, %"],
        [[f"{row['drivers']:,}: {row['depth']} x {row['width']:,}", *list(row.values())[3:]]
         for row in kept],
    )  # fmt: skip


def draw_bounds(rows: list[dict[str, Any]], axis: Any) -> None:
    for depth, width in SHAPES:
        here = [row for row in rows if (row["depth"], row["width"]) == (depth, width)]
        drivers = [row["drivers"] for row in here]
        label = f"d = {depth}, w = {width:,}"
        line = axis.plot(drivers, [row["largest"] for row in here], "-o", label=label)[0]
        axis.plot(drivers, [row["bound"] for row in here], ":", color=line.get_color())
    axis.set(xlabel="drivers", ylabel="largest error, and its bound (dots), s", yscale="log")
    axis.legend(fontsize=7)


def storage(most: int) -> list[dict[str, Any]]:
    """Keys are UUIDs of 36 characters, as the paper's drivers are told apart by name."""
    rows = []
    for drivers in steps(most):
        rng = np.random.default_rng(drivers)
        times = rng.integers(1, 101, drivers)
        names = pa.array(_uuids(rng, drivers))
        table = pa.table({"driver": names, "time": times})
        matrix = VectorMatrix(keys=["driver"], indicators=["time"])
        matrix.update(table)
        matrix.rows()
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        grouped = frame.group_by("driver").agg(pl.len(), pl.col("time").sum())
        counts = {
            name: [1, time] for name, time in zip(names.to_pylist(), times.tolist(), strict=True)
        }
        megabytes = {
            "vector": drivers * 4,
            "sketch_14_100000": 14 * 100_000 * 4,
            "matrix": matrix.nbytes,
            "matrix_bytes": len(matrix.to_bytes()),
            "polars": grouped.estimated_size(),
            "duckdb": _duckdb_bytes(table),
            "dict": sys.getsizeof(counts)
            + sum(sys.getsizeof(k) + sys.getsizeof(v) + 28 for k, v in counts.items()),
            "redis": _redis_bytes(counts),
        }
        rows.append({"drivers": drivers} | {k: round(v / 1e6, 2) for k, v in megabytes.items()})
        show(rows[-1])
    return rows


def table_of_storage(rows: list[dict[str, Any]]) -> Table:
    names = {
        "vector": "vector alone", "sketch_14_100000": "sketch 14 x 100,000",
        "matrix": "matrix in memory", "matrix_bytes": "its bytes", "polars": "Polars",
        "duckdb": "DuckDB", "dict": "Python dict", "redis": "Redis hashes",
    }  # fmt: skip
    kept = [row for row in rows if row["drivers"] >= 160_000]
    return Table(
        "storage",
        "Megabytes, drivers named by UUIDs of 36 characters",
        ["drivers", *names.values()],
        [[f"{row['drivers']:,}", *(row[name] for name in names)] for row in kept],
        note="Redis: a hash of trips and one of times, a field a driver, as its own MEMORY USAGE.",
    )


def draw_storage(rows: list[dict[str, Any]], axis: Any) -> None:
    for name in list(rows[0])[1:]:
        axis.plot([row["drivers"] for row in rows], [row[name] for row in rows], "-o", label=name)
    axis.set(xlabel="drivers", ylabel="MB", xscale="log", yscale="log")
    axis.legend(fontsize=7)


def windows(_: int) -> list[dict[str, Any]]:
    """Each driver has one order a day, in turn: the drivers of a part of a day are its orders."""
    spec = Pipeline.of(
        {
            "name": "taxi",
            "time": "time",
            "pane": "15 minutes",
            "lateness": "15 minutes",
            "summaries": {
                "orders": {
                    "keys": ["driver"],
                    "indicators": ["delivery_time"],
                    "capacity": CAPACITY,
                    "window": {"kind": "floating", "length": "1 day"},
                }
            },
        }
    )
    ingest = Ingest(spec, temporary(), query_id="characterize")
    fed = fed_time = 0
    for number, batch in enumerate(_days()):
        fed += batch.num_rows
        fed_time += int(batch["delivery_time"].to_numpy().sum())
        ingest.take(number, lambda plan, batch=batch: list(fold(plan, [batch])))
    session = Session(ingest.ledger)
    rows = []
    kept = kept_time = 0
    for window in sorted(session.windows("orders"), key=lambda window: window.start):
        found = session.sql(
            f"SELECT count(*) AS drivers, sum(count) AS orders, sum(delivery_time) AS time "
            f"FROM orders(driver) FOR WINDOW '{window.start_time.isoformat()}'"
        ).rows[0]
        kept, kept_time = kept + int(found[1]), kept_time + int(found[2])
        rows.append(
            {
                "start_days": round((window.start - START) / DAY, 3),
                "length_days": round((window.end - window.start) / DAY, 3),
                "reason": window.reason,
                "drivers": int(found[0]),
                "orders": int(found[1]),
            }
        )
        show(rows[-1])
    still_open = session.sql(
        "SELECT sum(count) AS orders, sum(delivery_time) AS time FROM orders(driver)"
    ).rows[0]
    lost = fed - kept - int(still_open[0]), fed_time - kept_time - int(still_open[1])
    print(f"{fed:,} orders fed; events and seconds lost: {lost}")
    ingest.close()
    rows[0]["lost"] = f"{lost[0]} and {lost[1]}"
    return rows


def table_of_windows(rows: list[dict[str, Any]]) -> Table:
    return Table(
        "windows",
        "Floating windows of a day with room for 640,000 drivers",
        ["starts at day", "its length, days", "closed because it is full in", "drivers", "orders"],
        [[f"{row['start_days']:g}", row["length_days"],
          "rows" if row["reason"] == "capacity" else "time", row["drivers"], row["orders"]]
         for row in rows],
        note=f"Orders and seconds that were fed and are in no window: {rows[0]['lost']}.",
    )  # fmt: skip


def draw_windows(rows: list[dict[str, Any]], axis: Any) -> None:
    axis.step([r["start_days"] for r in rows], [r["length_days"] for r in rows], where="post")
    axis.set(xlabel="start of the window, days", ylabel="its length, days", ylim=(0, 1.1))


PARTS = {
    "error": (error, draw_error, table_of_errors),
    "bounds": (bounds, draw_bounds, table_of_bounds),
    "storage": (storage, draw_storage, table_of_storage),
    "windows": (windows, draw_windows, table_of_windows),
}


def steps(most: int) -> list[int]:
    """Numbers of drivers, those of the paper's figures among them."""
    return [n for n in (20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_000_000) if n <= most]


def percent(value: float, truth: float) -> float:
    return round(100 * abs(value - truth) / truth, 3)


def show(row: dict[str, Any]) -> None:
    print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


def save(path: Path, rows: list[dict[str, Any]], draw: Any) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.with_suffix(".csv").open("w", newline="") as file:
        file.write(f"# python {' '.join(sys.argv)}\n")
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    figure, axis = plt.subplots(figsize=(8, 5))
    draw(rows, axis)
    figure.tight_layout()
    figure.savefig(path.with_suffix(".png"), dpi=80)


def _uuids(rng: np.random.Generator, n: int) -> list[str]:
    digits = rng.bytes(16 * n).hex()
    parts = (digits[i : i + 32] for i in range(0, 32 * n, 32))
    return [f"{p[:8]}-{p[8:12]}-{p[12:16]}-{p[16:20]}-{p[20:]}" for p in parts]


def _duckdb_bytes(table: pa.Table) -> int:
    """Of the grouped table in memory."""
    with duckdb.connect() as connection:
        connection.register("orders", table)
        connection.execute(
            "CREATE TABLE grouped AS "
            "SELECT driver, count(*), sum(time)::BIGINT FROM orders GROUP BY driver"
        )
        found = connection.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchone()
    return int(found[0]) if found else 0


def _redis_bytes(counts: dict[str, list[int]]) -> int:
    """Of a server of its own, on loopback."""
    names = list(counts)
    with contextlib.closing(RedisServer()) as server:
        server.start()
        client = server.client()
        for at in range(0, len(names), 10_000):
            for place, key in enumerate(("trips", "times")):
                few = {name: counts[name][place] for name in names[at : at + 10_000]}
                client.hset(key, mapping=few)
        return sum(int(client.memory_usage(key, samples=0)) for key in ("trips", "times"))


def _days() -> Iterator[pa.RecordBatch]:
    """An hour a batch; a last one seals what came before."""
    for day, drivers in enumerate([*BUSY, 1_000]):
        order = np.random.default_rng(day).permutation(drivers)
        times = START + day * DAY + np.arange(drivers) * DAY // drivers
        lasts = np.random.default_rng(day + 100).integers(1, 101, drivers)
        for hour in range(24):
            some = slice(drivers * hour // 24, drivers * (hour + 1) // 24)
            yield pa.record_batch(
                {
                    "time": pa.array(times[some]).cast(pa.timestamp("us", "UTC")),
                    "driver": pa.array(order[some]),
                    "delivery_time": pa.array(lasts[some]),
                }
            )


if __name__ == "__main__":
    main()
